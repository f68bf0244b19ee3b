"""Parts that both strategies draw: rows, inputs, masks over indices, and the elements that are reduced."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.property.specs import Input, Stage, at

Draw = Any
DTYPES = ("float32", "float32", "float32", "float16", "bfloat16", "float64")
ROWS: tuple[tuple[tuple[str, str | int], ...], ...] = (
    (("i", "M"),), (("i", "M"),), (("i", "M"),), (("h", 2), ("i", "M")), (("h", "B"), ("i", "M")), (),
)  # fmt: skip
D = 16
NEG_INF = 'nv.neg_inf("float32")'


@dataclass
class Scope:
    """A program under construction. ``bound``: |x| <= bound is declared of every input, None for the defaults; ``dead``: x
    may be -inf."""

    draw: Draw
    rows: tuple[tuple[str, str | int], ...]
    dtype: str
    bound: float | None
    dead: bool = False
    inputs: dict[str, Input] = field(default_factory=dict)
    stages: list[Stage] = field(default_factory=list)

    def pick(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def chance(self, percent: int) -> bool:
        return bool(self.draw(st.integers(0, 99)) >= 100 - percent)  # shrinks to False

    @property
    def columns(self) -> tuple[tuple[str, str | int], ...]:
        return (*self.rows, ("j", "N"))

    def read(
        self, name: str, axes: tuple[tuple[str, str | int], ...], *facts: tuple[str, float | None], dtype: str = ""
    ) -> str:
        """An element of the input ``name``, as float32; the input is declared at its first use."""
        if name not in self.inputs:
            usual = (("bounded", self.bound),) if self.bound is not None else ()
            self.inputs[name] = Input(name, tuple(e for _, e in axes), dtype or self.dtype, facts or usual)
        element = at(name, axes)
        return element if self.inputs[name].dtype == "float32" else f'{element}.astype("float32")'

    def add(self, name: str, axes: tuple[tuple[str, str | int], ...], term: str, reducer: str = "", **over: Any) -> str:
        """A stage; returns how an element of it is read."""
        self.stages.append(Stage(name, axes, term, reducer, **over))
        return at(name, axes)

    def reduce(self, name: str, reducer: str, term: str) -> str:
        return self.add(name, self.rows, term, reducer)

    def x(self) -> str:
        facts = (("finite_or_minus_infinity", None),) if self.dead else ()
        return self.read("x", self.columns, *facts)

    def y(self) -> str:
        return self.read("y", self.columns)

    def w(self) -> str:
        return self.read("w", (("j", "N"),))

    def u(self) -> str:
        return self.read("u", self.rows[-1:]) if self.rows else self.read("x", self.columns)

    def constant(self) -> str:
        return str(self.pick("0.5", "2.0", "0.25", "1.5", "0.125", "3.0"))


def scope(draw: Draw, bounds: tuple[float | None, ...] = (None, 8.0, 64.0, 1024.0)) -> Scope:
    pick = lambda options: draw(st.sampled_from(options))  # noqa: E731
    return Scope(draw, pick(ROWS), pick(DTYPES), pick(bounds))


def element(s: Scope) -> str:
    """A value of the element (i, j), |value| at most about bound^2 * 16; simple ones first."""
    x, k = s.x(), s.constant()
    kind = s.pick("x", "x", "k x", "x + w", "x w", "x + u", "x y", "x - y", "tanh", "abs", "clamp", "min", "log1p", "dot",
                  "sin", "sigmoid", "choose", "affine")  # fmt: skip
    match kind:
        case "x":
            return x
        case "k x":
            return f"{x} * {k}"
        case "x + w":
            return f"({x} + {s.w()} * {k})"
        case "x w":
            return f"{x} * {s.w()}"
        case "x + u":
            return f"({x} + {s.u()})"
        case "x y":
            return f"{x} * {s.y()}"
        case "x - y":
            return f"({x} - {s.y()})"
        case "tanh":
            return f"te.tanh({x} * {k}) * 4.0"
        case "abs":
            return f"te.abs({x})"
        case "clamp":
            return f"te.max({x}, {s.pick('0.0', '-1.0')})"
        case "min":
            return f"te.min({x}, {s.y()})"
        case "log1p":
            return f"te.log(1.0 + te.abs({x}))"
        case "sin":
            return f"te.sin({x})"
        case "sigmoid":
            return f"te.sigmoid({x}) * {k}"
        case "choose":
            return f"te.if_then_else({s.y()} > 0.0, {x}, {x} * {k})"
        case "affine":
            return f"({x} * {k} + {s.pick('1.0', '-2.5')})"
        case _:
            return dot(s)


def dot(s: Scope) -> str:
    """q k^T, as a stage of its own: ``qk[i, j] = sum over d``."""
    if not any(t.name == "qk" for t in s.stages):
        q = s.read("q", (*s.rows, ("d", D)))
        k = s.read("k", (("j", "N"), ("d", D)))
        s.add("qk", s.columns, f"{q} * {k}", "sum", over=("d", D))
    return f"{at('qk', s.columns)} * 0.25"


def weight(s: Scope) -> str:
    """A factor of a term that no running value enters."""
    kind = s.pick("1", "1", "y", "w", "x", "y w", "|y|", "1 + y^2", "index", "tanh", "choose")
    return {
        "1": lambda: "1.0", "y": s.y, "w": s.w, "x": s.x, "y w": lambda: f"{s.y()} * {s.w()}",
        "|y|": lambda: f"te.abs({s.y()})", "1 + y^2": lambda: f"(1.0 + {s.y()} * {s.y()})",
        "index": lambda: '(j % 3).astype("float32")', "tanh": lambda: f"te.tanh({s.y()})",
        "choose": lambda: f"te.if_then_else({s.x()} > 0.0, {s.y()}, 1.0)",
    }[kind]()  # fmt: skip


def mask(s: Scope) -> str:
    """A predicate over indices."""
    i = s.rows[-1][0] if s.rows else "3"
    kinds = ["prefix", "modulo", "suffix"] + ["causal", "right", "window", "lengths", "band", "blocks"] * bool(s.rows)
    match s.pick(*kinds):
        case "prefix":
            return f"j < {s.pick('20', '3')}"
        case "suffix":
            return "j >= 2"
        case "modulo":
            return f"j % {s.pick('2', '3')} == {s.pick('0', '1')}"
        case "causal":
            return f"j <= {i}"
        case "right" if s.rows:
            return f"j <= {i} + (N - M)"
        case "window":
            return f"tirx.all(j <= {i} + 2, j > {i} - {s.pick('4', '20')})"
        case "band":
            return f"tirx.any(j < 2, j > {i})"
        case "blocks":
            return f"j // 8 <= {i} // 4"
        case _:
            s.read("lens", s.rows[-1:], ("nonnegative", None), dtype="int32")
            return f"j < {at('lens', s.rows[-1:])}"

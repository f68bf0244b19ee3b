"""Not trusted: readable mathematics for people. Nothing is decided from this text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from neptune_verified.ir.expr import INF, Axis, Const, Expr, Op, Read, Reduce, Size, Var, children
from neptune_verified.ir.inline import inline
from neptune_verified.ir.program import Program, Stage

_INFIX = {
    "add": ("+", 4), "sub": ("-", 4), "mul": ("*", 5), "div": ("/", 5), "floordiv": ("//", 5), "floormod": ("%", 5),
    "lt": ("<", 3), "le": ("<=", 3), "gt": (">", 3), "ge": (">=", 3), "eq": ("==", 3), "ne": ("!=", 3),
    "and": ("and", 2), "or": ("or", 1),
}  # fmt: skip


def number(value: Fraction | float | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value in (INF, -INF):
        return "inf" if value > 0 else "-inf"
    f = Fraction(value)
    return str(f.numerator) if f.denominator == 1 and abs(f) < 10**9 else f"{float(f):.9g}"


@lru_cache(maxsize=64)
def _closed_stages(program: Program) -> tuple[tuple[str, tuple[Axis, ...], Expr], ...]:
    """Name, axes and closed expression of every stage that is worth a name."""
    closed = inline(replace(program, outputs=tuple(s.name for s in program.stages)))
    return tuple((n, axes, e) for n, (axes, e) in closed.outputs.items() if not isinstance(e, Read | Axis | Const))


class Printer:
    """Renders expressions; a subterm that is a stage of ``program`` at some indices is shown by the stage's name."""

    def __init__(self, program: Program | None = None) -> None:
        self.stages = _closed_stages(program) if program is not None else ()

    def name_of(self, e: Expr) -> str | None:
        for name, axes, body in self.stages:
            binding = match_axes(body, e, axes)
            if binding is not None:
                return f"{name}[{', '.join(self(binding[a]) if a in binding else '_' for a in axes)}]" if axes else name
        return None

    def __call__(self, e: Expr, level: int = 0, named: bool = True) -> str:
        name = self.name_of(e) if named and self.stages and children(e) else None
        if name is not None:
            return name
        match e:
            case Const(value):
                return number(value)
            case Size(name=n) | Var(name=n) | Axis(name=n):
                return n
            case Read(tensor, indices):
                return f"{tensor}[{', '.join(self(i) for i in indices)}]"
            case Reduce(reducer, axes, body):
                return f"{reducer}_{{{', '.join(f'{a.name}<{self(a.extent)}' for a in axes)}}} ({self(body)})"
            case Op(op_name, args, dtype):
                return self._op(op_name, args, dtype, level)
            case _:
                return repr(e)

    def _op(self, name: str, args: tuple[Expr, ...], dtype: str, level: int) -> str:
        if name in _INFIX:
            sign, own = _INFIX[name]
            right = own + (1 if name in ("sub", "div", "floordiv", "floormod") else 0)
            text = f"{self(args[0], own)} {sign} {self(args[1], right)}"
            return f"({text})" if own < level else text
        if name == "neg":
            return f"-{self(args[0], 6)}"
        if name == "cast":
            return f"{dtype}({self(args[0])})"
        if name == "select":
            return f"select({self(args[0])}, {self(args[1])}, {self(args[2])})"
        return f"{name}({', '.join(self(a) for a in args)})"


def match_axes(pattern: Expr, e: Expr, axes: Sequence[Axis]) -> dict[Axis, Expr] | None:
    """Index expressions for ``axes`` that make ``pattern`` equal to ``e``; None when there are none."""
    binding: dict[Axis, Expr] = {}
    wanted = frozenset(axes)

    def go(p: Expr, x: Expr) -> bool:
        if isinstance(p, Axis) and p in wanted:
            return binding.setdefault(p, x) is x
        if p is x and not (p.free & wanted):
            return True
        if type(p) is not type(x) or p.dtype != x.dtype:
            return False
        if isinstance(p, Op) and isinstance(x, Op) and p.name != x.name:
            return False
        if isinstance(p, Read) and isinstance(x, Read) and p.tensor != x.tensor:
            return False
        if isinstance(p, Reduce) and isinstance(x, Reduce) and (p.reducer != x.reducer or p.axes != x.axes):
            return False
        kp, kx = children(p), children(x)
        return bool(kp) and len(kp) == len(kx) and all(go(a, b) for a, b in zip(kp, kx, strict=True))

    return binding if go(pattern, e) else None


def stage_text(stage: Stage) -> str:
    show = Printer()
    left = f"{stage.name}[{', '.join(a.name for a in stage.axes)}]" if stage.axes else stage.name
    return f"{left} = {show(stage.body, named=False)}"


def program_text(program: Program) -> str:
    """The definition, one line per stage, in the order of the mathematics."""
    show = Printer()
    lines = [f"{t.name}: {t.dtype}[{', '.join(show(d) for d in t.shape)}]" for t in program.inputs]
    lines += [stage_text(s) for s in program.stages]
    return "\n".join([*lines, f"return {', '.join(program.outputs)}"])

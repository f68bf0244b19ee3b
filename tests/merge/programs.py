"""Wrong merges, made from the definition by one edit each; chains whose results are merged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from neptune_verified.ir.expr import INF, Axis, Const, Expr, Op, Read, axis, const, op, read, reduce_, size, transform
from neptune_verified.ir.program import Assumption, Program, Stage, Tensor
from neptune_verified.merging import definition
from neptune_verified.mutants.programs import default_bounds

F = "float32"
M, N = size("M"), size("N")
ROW, J, COLUMN = axis("i", M), axis("j", N), axis("d", 8)
Edit = Callable[[Expr], Expr | None]


@cache
def right() -> Program:
    return definition("float32", 8)


# ------------------------------------------------------------------------------------------------ edits


def edited(changes: dict[str, Edit]) -> Program:
    """The definition with the bodies of some stages rewritten; an edit that changes nothing is an error."""
    stages = []
    for s in right().stages:
        body = transform(s.body, changes[s.name]) if s.name in changes else s.body
        assert (body is not s.body) == (s.name in changes), f"the edit of {s.name} changes nothing"
        stages.append(replace(s, body=body))
    return replace(right(), stages=tuple(stages))


def reading(new: dict[str, str]) -> Edit:
    """Other tensors read, at the same indices."""
    return lambda e: read(new[e.tensor], e.indices, e.dtype) if isinstance(e, Read) and e.tensor in new else None


def named(old: str, new: str) -> Edit:
    return lambda e: op(new, *e.args) if isinstance(e, Op) and e.name == old else None


def argument(name: str, which: int) -> Edit:
    """An operation gone, one of its operands in its place."""
    return lambda e: e.args[which] if isinstance(e, Op) and e.name == name else None


def constant(old: float, new: float) -> Edit:
    return lambda e: const(new, e.dtype) if isinstance(e, Const) and e.value == old and e.dtype == F else None


def at(index: Callable[[Axis], Expr], tensor: str, dimension: int) -> Edit:
    """One index of the reads of a tensor changed."""

    def fn(e: Expr) -> Expr | None:
        if not isinstance(e, Read) or e.tensor != tensor:
            return None
        i = list(e.indices)
        old = i[dimension]
        assert isinstance(old, Axis)
        i[dimension] = index(old)
        return read(tensor, i, e.dtype)

    return fn


def both(edit: Callable[[str], Edit], stage: str) -> dict[str, Edit]:
    return {f"{stage}_{side}": edit(side) for side in "ab"}


def other(side: str) -> str:
    return "b" if side == "a" else "a"


#: Name -> the definition with one mistake.
WRONG: dict[str, Callable[[], Program]] = {
    "weights swapped": lambda: edited(both(lambda s: reading({f"w_{s}": f"w_{other(s)}"}), "part")),
    "lse by max alone": lambda: edited({"lse_ab": argument("add", 0)}),
    "lse without max": lambda: edited({"lse_ab": argument("add", 1)}),
    "lse without log": lambda: edited({"lse_ab": argument("log", 0)}),
    "lse of one side": lambda: edited({"lse_ab": reading({"total": "w_a"})}),
    "no guard at all": lambda: edited({k: argument("select", 2) for k in ("w_a", "w_b", "part_a", "part_b")}),
    "no guard of weights": lambda: edited(both(lambda s: argument("select", 2), "w")),
    "no guard of one weight": lambda: edited({"w_b": argument("select", 2)}),
    "no guard of values": lambda: edited(both(lambda s: argument("select", 2), "part")),
    "guard of the other side": lambda: edited(
        {f"{k}_{s}": guard_of(s) for k in ("w", "part") for s in "ab"}
    ),
    "dead weight 1": lambda: edited(both(lambda s: constant(0, 1), "w")),
    "guard at a finite number": lambda: edited(both(lambda s: constant(-INF, -1e30), "w")),
    "weights not normalised": lambda: edited(both(lambda s: argument("div", 0), "part")),
    "normalised by one weight": lambda: edited(both(lambda s: reading({"total": f"w_{s}"}), "part")),
    "normalised by the number of sides": lambda: edited(both(halved, "part")),
    "total of one side": lambda: edited({"total": argument("add", 0)}),
    "one side lost": lambda: edited({"out_ab": argument("add", 0)}),
    "difference of the sides": lambda: edited({"out_ab": named("add", "sub")}),
    "one side twice": lambda: edited({"part_b": reading({"out_b": "out_a"})}),
    "shift by the minimum": lambda: edited({"m": named("max", "min")}),
    "shift by one side": lambda: edited({"m": argument("max", 0)}),
    "powers of two": lambda: edited(both(lambda s: named("exp", "exp2"), "w")),
    "sign of the exponent": lambda: edited(
        both(lambda s: lambda e: op("sub", *reversed(e.args)) if isinstance(e, Op) and e.name == "sub" else None, "w")
    ),
}  # fmt: skip


def guard_of(side: str) -> Edit:
    """The condition of the guard asks the other side."""

    def fn(e: Expr) -> Expr | None:
        if isinstance(e, Op) and e.name == "select":
            return op("select", transform(e.args[0], reading({f"lse_{side}": f"lse_{other(side)}"})), *e.args[1:])
        return None

    return fn


def halved(side: str) -> Edit:
    return lambda e: const(2, F) if isinstance(e, Read) and e.tensor == "total" else None


#: Name -> (a merge of which nothing is even stated, what is said of it).
UNSTATED: dict[str, tuple[Callable[[], Program], str]] = {
    "the first row's lse": (
        lambda: edited({"lse_ab": at(lambda r: const(0, "int32"), "m", 0)}),
        "another element",
    ),
    "columns reversed": (
        lambda: edited({"part_a": at(lambda d: op("sub", const(7, "int32"), d), "out_a", 1)}),
        "out_ab reads out_a at another element",
    ),
    "a weight that depends on the column": (
        lambda: edited({"out_ab": lambda e: op("mul", e, op("cast", right().stage("out_ab").axes[1], dtype=F))
                        if isinstance(e, Read) and e.tensor == "part_a" else None}),
        "no function of the results",
    ),
    "an input too few": (lambda: replace(right(), inputs=right().inputs[:3]), "3 inputs and 2 outputs"),
    "an output too few": (lambda: replace(right(), outputs=right().outputs[:1]), "4 inputs and 1 outputs"),
    "inputs in another order": (
        lambda: replace(right(), inputs=tuple(right().inputs[k] for k in (0, 2, 1, 3))),
        "out_b has 2 dimensions, and lse 1",
    ),
    "values that are bounded": (
        lambda: replace(right(), assumptions=(*right().assumptions, Assumption("bounded", "out_a", 1.0))),
        r"declares \|out_a\| <= 1",
    ),
}  # fmt: skip


# ------------------------------------------------------------------------------------------------ chains


def x(name: str, *indices: Expr) -> Expr:
    return read(name, indices, F)


def average(
    guarded: bool = True, more: Expr | None = None, lse: Expr | None = None, normalised: bool = True
) -> Program:
    """The average of v weighted by exp(s), and the log-sum-exp of s, by hand; with one more term below, another second
    result, or no normalisation."""
    e = op("exp", op("sub", x("s", ROW, J), x("m", ROW)))
    below = x("l", ROW) if more is None else op("add", x("l", ROW), more)
    p = op("div", x("e", ROW, J), below) if normalised else x("e", ROW, J)
    if guarded:
        e = op("select", op("eq", x("s", ROW, J), const(-INF, F)), const(0, F), e)
        p = op("select", op("eq", x("l", ROW), const(0, F)), const(0, F), p)
    stages = (
        Stage("m", (ROW,), reduce_("max", (J,), x("s", ROW, J))),
        Stage("e", (ROW, J), e),
        Stage("l", (ROW,), reduce_("sum", (J,), x("e", ROW, J))),
        Stage("p", (ROW, J), p),
        Stage("o", (ROW, COLUMN), reduce_("sum", (J,), op("mul", x("p", ROW, J), x("v", J, COLUMN)))),
        Stage("lse", (ROW,), lse if lse is not None else op("add", x("m", ROW), op("log", x("l", ROW)))),
    )
    inputs = (Tensor("s", (M, N), F), Tensor("v", (N, const(8, "int32")), F))
    facts = (*default_bounds(inputs, (M, N)), Assumption("finite_or_minus_infinity", "s"))
    return Program("average", inputs, (M, N), stages, ("o", "lse"), facts)

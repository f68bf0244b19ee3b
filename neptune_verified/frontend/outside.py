"""Not trusted: elements that a definition reads always, and that its tensors do not have. They are undefined, so that
what reads them is; a user means something else (a key head that is not there)."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from neptune_verified.errors import UnsupportedProgram
from neptune_verified.ir.expr import Axis, Const, Expr, Op, Read, Reduce, Size, Var, subterms
from neptune_verified.ir.interpret import Evaluator
from neptune_verified.ir.program import Stage, Tensor

#: Indices with more values are not looked at.
VALUES = 1 << 16


def refuse_outside(inputs: tuple[Tensor, ...], stages: tuple[Stage, ...]) -> None:
    """Raises UnsupportedProgram for a read that no select guards, at an index of axes of constant length alone that
    leaves a dimension of constant length."""
    shapes = {t.name: t.shape for t in inputs} | {s.name: tuple(a.extent for a in s.axes) for s in stages}
    for s in stages:
        for x in _always(s.body):
            for k, (i, dim) in enumerate(zip(x.indices, shapes[x.tensor], strict=True)):
                found = _range(i)
                if isinstance(dim, Const) and found is not None and not 0 <= found[0] <= found[1] < int(dim.value):
                    at = found[0] if found[0] < 0 else found[1]
                    why = (
                        f"its dimension {k} has length {dim.value}; guard the read with te.if_then_else if it is meant"
                    )
                    raise UnsupportedProgram(f"read of {x.tensor} at index {at}", s.name, s.loc, why)


def _always(body: Expr) -> Iterator[Read]:
    """Reads that are evaluated whatever the inputs are, unless an axis is empty."""
    stack, seen = [body], {body}
    while stack:
        e = stack.pop()
        parts: tuple[Expr, ...] = ()
        if isinstance(e, Read):
            yield e
            parts = e.indices
        elif isinstance(e, Op):
            parts = e.args[:1] if e.name == "select" else e.args
        elif isinstance(e, Reduce):
            parts = (e.body,)
        stack += [x for x in parts if x not in seen]
        seen.update(parts)


def _range(index: Expr) -> tuple[int, int] | None:
    """The least and the greatest value of an index, if it depends on axes of constant length alone."""
    nodes = list(subterms(index))
    axes = tuple(dict.fromkeys(x for x in nodes if isinstance(x, Axis)))
    lengths = [int(a.extent.value) for a in axes if isinstance(a.extent, Const)]
    if any(isinstance(x, Size | Read | Var | Reduce) for x in nodes) or len(lengths) < len(axes):
        return None
    if not 0 < prod(lengths) <= VALUES:
        return None
    evaluator = Evaluator({}, {})
    values = evaluator.eval(index, evaluator.whole(axes))
    return int(values.min()), int(values.max())

"""Trusted: one closed expression per output, with every stage inlined.

Inlining is the definition of what a stage means (a read of a stage is its body at those indices), so the closed
expression *is* the program. Shared stages stay shared, because expressions are interned.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from neptune_verified.ir.expr import Axis, Expr, Read, Reduce, axis, reduce_, substitute, transform
from neptune_verified.ir.program import Program


@dataclass(frozen=True, slots=True)
class Closed:
    """``axes`` and ``expr`` of each output; ``names`` gives the stage that a reduction came from (for people)."""

    outputs: dict[str, tuple[tuple[Axis, ...], Expr]]
    names: dict[Expr, str]


def inline(program: Program) -> Closed:
    bodies: dict[str, tuple[tuple[Axis, ...], Expr]] = {}
    names: dict[Expr, str] = {}
    memo: dict[tuple[str, tuple[Expr, ...]], Expr] = {}

    def at(stage: str, indices: tuple[Expr, ...]) -> Expr:
        key = (stage, indices)
        if key not in memo:
            axes, body = bodies[stage]
            memo[key] = substitute(body, dict(zip(axes, indices, strict=True)))
            if isinstance(memo[key], Reduce):
                names.setdefault(memo[key], stage)
        return memo[key]

    opened = count()

    def close(e: Expr) -> Expr:
        def fn(x: Expr) -> Expr | None:
            if isinstance(x, Read) and x.tensor in bodies:
                return at(x.tensor, tuple(close(i) for i in x.indices))
            if isinstance(x, Reduce):
                # A stage that is read here has canonical axis names of its own, which could bind those of this reduction.
                n = next(opened)
                fresh = tuple(axis(f"open.{n}.{k}", a.extent) for k, a in enumerate(x.axes))
                return reduce_(x.reducer, fresh, close(substitute(x.body, dict(zip(x.axes, fresh, strict=True)))))
            return None

        return transform(e, fn)

    for stage in program.stages:
        bodies[stage.name] = (stage.axes, close(stage.body))
    outputs = {}
    for name in program.outputs:
        axes, body = bodies[name]
        if isinstance(body, Reduce):
            names.setdefault(body, name)
        outputs[name] = (axes, body)
    return Closed(outputs, names)

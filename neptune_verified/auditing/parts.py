"""Not trusted: whole outputs of a definition, by parts that fit the memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from neptune_verified.auditing.evaluate import Evaluator, Value, factors_of
from neptune_verified.ir.expr import FLOATS, Axis, Expr, Op, Read, Reduce


def outputs(evaluator: Evaluator, limit: int) -> dict[str, Value]:
    """Every output in full, by parts of which no stage has more than about ``limit`` elements (if rows can be cut)."""
    found: dict[str, Value] = {}
    for name in evaluator.program.outputs:
        extents = evaluator.extents(evaluator.known[name])
        xs: Tensor | None = None
        ds: Tensor | None = None
        for low, high in parts(evaluator, name, extents, limit):
            whole = [(a, b) == (0, n) for a, b, n in zip(low, high, extents, strict=True)]
            values = tuple(
                evaluator.range(n) if w else evaluator.part(a, b) for w, a, b, n in zip(whole, low, high, extents)
            )
            size = [b - a for a, b in zip(low, high, strict=True)]
            value = evaluator.stage(name, values).view(lambda x, size=size: x.expand(size))
            if xs is None:
                xs = torch.empty(extents, dtype=value.x.dtype, device=value.x.device)
            at = tuple(slice(a, b) for a, b in zip(low, high))
            xs[at] = value.x
            if value.d is not None:
                if ds is None:
                    ds = torch.zeros(extents, dtype=torch.float64, device=value.x.device)
                ds[at] = value.d
            evaluator.forget()
        assert xs is not None
        found[name] = Value(xs, ds)
    return found


def parts(evaluator: Evaluator, name: str, extents: tuple[int, ...], limit: int) -> list[tuple[list[int], list[int]]]:
    """First and end index along each axis, for parts of an output: the first axes are cut first."""
    sizes = list(extents)
    while largest(evaluator, name, sizes) > limit:
        k = next((k for k, n in enumerate(sizes[:-1] if len(sizes) > 1 else sizes) if n > 1), None)
        if k is None:
            break
        sizes[k] = -(-sizes[k] // 2)
    found: list[tuple[list[int], list[int]]] = [([], [])]
    for n, size in zip(extents, sizes, strict=True):
        cuts = [(a, min(a + size, n)) for a in range(0, n, max(size, 1))] or [(0, 0)]
        found = [([*low, a], [*high, b]) for low, high in found for a, b in cuts]
    return found


def largest(evaluator: Evaluator, name: str, sizes: Sequence[int]) -> int:
    """An estimate of the largest array that computing this many elements of a stage makes."""
    seen: dict[tuple[str, tuple[int, ...]], int] = {}

    def of_stage(name: str, sizes: tuple[int, ...]) -> int:
        if (name, sizes) not in seen:
            seen[name, sizes] = math.prod(sizes)
            stage = evaluator.known[name]
            seen[name, sizes] = max(math.prod(sizes), of(stage.body, dict(zip(stage.axes, sizes, strict=True))))
        return seen[name, sizes]

    def of(e: Expr, sizes: dict[Axis, int]) -> int:
        own = math.prod(sizes[a] for a in e.free)
        match e:
            case Reduce(reducer, axes, body):
                inner = sizes | {a: max(0, evaluator.lengths.integer(a.extent)) for a in axes}
                parts = factors_of(body) if reducer == "sum" and e.dtype in FLOATS else [body]
                return max(own, *(of(p, inner) for p in parts))
            case Read(tensor, indices) if tensor in evaluator.known:
                extents = evaluator.extents(evaluator.known[tensor])
                read = (sizes[i] if isinstance(i, Axis) else n for i, n in zip(indices, extents, strict=True))
                return max(own, of_stage(tensor, tuple(read)), *(of(i, sizes) for i in indices)) if indices else own
            case Op(args=kids) | Read(indices=kids):
                return max([own, *(of(k, sizes) for k in kids)])
            case _:
                return own

    return of_stage(name, tuple(sizes))

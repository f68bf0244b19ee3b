"""Not trusted: calls that a right launcher refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from neptune_verified.ir.program import Program

Specs = list[tuple[tuple[int, ...], torch.dtype]]
WrongCall = tuple[str, Callable[[], list[Any]], Callable[[], dict[str, Any]]]


def wrong_calls(
    program: Program, arrays: dict[str, NDArray[Any]], results: Specs, scalars: dict[str, float]
) -> Iterator[WrongCall]:
    """(what is wrong, arguments, keywords). Each call makes its own tensors."""
    names = [t.name for t in program.inputs]

    def args(changes: dict[str, Callable[[torch.Tensor], Any]] | None = None) -> list[Any]:
        return [(changes or {}).get(n, lambda x: x)(torch.from_numpy(arrays[n]).clone()) for n in names]

    def kwargs(**more: Any) -> dict[str, Any]:
        return {**scalars, **more}

    def fresh() -> list[torch.Tensor]:
        return [torch.empty(shape, dtype=dtype) for shape, dtype in results]

    for name in names:
        for what, change in _tensors(arrays[name].ndim):
            yield f"{name}: {what}", (lambda n=name, c=change: args({n: c})), kwargs
    for name in scalars:
        yield f"{name} is a text", args, (lambda n=name: kwargs(**{n: "1"}))
        yield f"{name} is True", args, (lambda n=name: kwargs(**{n: True}))
    yield "unknown configuration", args, lambda: kwargs(config="none")
    yield "one result too many", args, lambda: kwargs(out=[*fresh(), *fresh()])
    for k, (shape, _) in enumerate(results):
        for what, change in _outs(len(shape)):

            def changed(k: int = k, change: Callable[[torch.Tensor], torch.Tensor] = change) -> dict[str, Any]:
                return kwargs(out=[change(x) if j == k else x for j, x in enumerate(fresh())])

            yield f"result {k}: {what}", args, changed
        for j, name in enumerate(names):
            # Memory of an input, seen as a tensor of the result's type and shape.
            given = args()
            yield (
                f"result {k} in the memory of {name}",
                (lambda g=given: g),
                (lambda g=given, j=j, k=k: kwargs(out=[_on(g[j], *results[k]) if i == k else x for i, x in enumerate(fresh())])),
            )  # fmt: skip
        for other in range(k):

            def shared(k: int = k, other: int = other) -> dict[str, Any]:
                out = fresh()
                out[k] = _on(out[other], *results[k])
                return kwargs(out=out)

            yield f"results {other} and {k} share memory", args, shared


def _tensors(rank: int) -> Iterator[tuple[str, Callable[[torch.Tensor], Any]]]:
    yield "no tensor", lambda x: x.numpy()
    yield "another rank", lambda x: x.unsqueeze(0)
    yield "another type", lambda x: x.to(torch.float64)
    yield "another device", lambda x: x.to("meta")
    yield "wants a gradient", lambda x: x.requires_grad_() if x.is_floating_point() else x
    for d in range(rank):
        yield f"shape[{d}] + 1", lambda x, d=d: torch.cat([x, x.narrow(d, 0, 1)], d)
        yield f"shape[{d}] - 1", lambda x, d=d: x.narrow(d, 0, x.shape[d] - 1)


def _outs(rank: int) -> Iterator[tuple[str, Callable[[torch.Tensor], torch.Tensor]]]:
    yield "another rank", lambda x: x.unsqueeze(0)
    yield "another type", lambda x: x.to(torch.float64)
    yield "another device", lambda x: x.to("meta")
    for d in range(rank):
        yield f"shape[{d}] + 1", lambda x, d=d: torch.cat([x, x.narrow(d, 0, 1)], d)
        yield f"expanded over {d}", lambda x, d=d: x.narrow(d, 0, 1).expand(x.shape)


def _on(memory: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A tensor of that shape in the storage of ``memory``, which is made larger if need be."""
    storage = memory.untyped_storage()
    size = int(np.prod(shape)) * torch.empty(0, dtype=dtype).element_size()
    if storage.nbytes() < size:
        storage.resize_(size)
    return torch.empty(0, dtype=dtype).set_(storage, 0, shape)

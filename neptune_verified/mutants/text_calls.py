"""Not trusted: calls that a right launcher refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from neptune_verified.ir.program import Program

Specs = list[tuple[tuple[int, ...], torch.dtype]]
Change = Callable[[torch.Tensor], Any]


@dataclass(frozen=True)
class WrongCall:
    """``inputs``: what happens to inputs, by name. ``results``: what happens to results that are given, by number;
    ``shared``: (result, input or result) of one memory; None of both: the launcher makes the results."""

    what: str
    inputs: dict[str, Change] = field(default_factory=dict)
    scalars: dict[str, Any] = field(default_factory=dict)
    results: dict[int, Change] | None = None
    shared: tuple[int, str | int] | None = None
    double: bool = False

    def make(
        self, arrays: dict[str, NDArray[Any]], specs: Specs, scalars: dict[str, float]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Fresh arguments and keywords."""
        given = {n: torch.from_numpy(a).clone() for n, a in arrays.items()}
        args = [self.inputs[n](x) if n in self.inputs else x for n, x in given.items()]
        kwargs: dict[str, Any] = {**scalars, **self.scalars}
        if self.results is not None or self.shared is not None or self.double:
            out = [torch.empty(shape, dtype=dtype) for shape, dtype in specs]
            for k, change in (self.results or {}).items():
                out[k] = change(out[k])
            if self.shared is not None:
                k, other = self.shared
                out[k] = _on(given[other] if isinstance(other, str) else out[other], *specs[k])
            kwargs["out"] = [*out, *out] if self.double else out
        return args, kwargs


def wrong_calls(program: Program, scalars: dict[str, float], specs: Specs) -> Iterator[WrongCall]:
    for t in program.inputs:
        for what, change in _tensors(len(t.shape)):
            yield WrongCall(f"{t.name}: {what}", {t.name: change})
    for name in scalars:
        yield WrongCall(f"{name} is a text", scalars={name: "1"})
        yield WrongCall(f"{name} is True", scalars={name: True})
    yield WrongCall("unknown configuration", scalars={"config": "none"})
    yield WrongCall("too many results", double=True)
    for k, (shape, _) in enumerate(specs):
        for what, change in _outs(len(shape)):
            yield WrongCall(f"result {k}: {what}", results={k: change})
        for t in program.inputs:
            yield WrongCall(f"result {k} in the memory of {t.name}", shared=(k, t.name))
        for other in range(k):
            yield WrongCall(f"results {other} and {k} share memory", shared=(k, other))


def _tensors(rank: int) -> Iterator[tuple[str, Change]]:
    yield "no tensor", lambda x: x.numpy()
    yield "another rank", lambda x: x.unsqueeze(0)
    yield "another type", lambda x: x.to(torch.float64)
    yield "another device", lambda x: x.to("meta")
    yield "wants a gradient", lambda x: x.requires_grad_() if x.is_floating_point() else x
    for d in range(rank):
        yield f"shape[{d}] + 1", partial(_longer, d)
        yield f"shape[{d}] - 1", partial(_shorter, d)


def _outs(rank: int) -> Iterator[tuple[str, Change]]:
    yield "another rank", lambda x: x.unsqueeze(0)
    yield "another type", lambda x: x.to(torch.float64)
    yield "another device", lambda x: x.to("meta")
    for d in range(rank):
        yield f"shape[{d}] + 1", partial(_longer, d)
        yield f"expanded over {d}", partial(_expanded, d)


def _longer(d: int, x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, x.narrow(d, 0, 1)], d)


def _shorter(d: int, x: torch.Tensor) -> torch.Tensor:
    return x.narrow(d, 0, x.shape[d] - 1)


def _expanded(d: int, x: torch.Tensor) -> torch.Tensor:
    return x.narrow(d, 0, 1).expand(x.shape)


def _on(memory: torch.Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A tensor of that shape in the storage of ``memory``, which is made larger if need be."""
    storage = memory.untyped_storage()
    size = int(np.prod(shape)) * torch.empty(0, dtype=dtype).element_size()
    if storage.nbytes() < size:
        storage.resize_(size)
    return torch.empty(0, dtype=dtype).set_(storage, 0, shape)

"""Not trusted: looks for inputs with a large error, which a random sample would miss.

A hill climb from the worst generated inputs: each step changes some inputs a little or a lot (scaled, shifted, sorted, made
equal, one element made dominant, a block of another family, ...), and the next starts from one of the worst so far, by the
kernel's largest error over its bound. Inputs on which a value of the definition may leave its type's range count for what
is claimed of them alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor

from neptune_verified.auditing.assumptions import respecting
from neptune_verified.auditing.families import FAMILIES
from neptune_verified.auditing.generate import generate
from neptune_verified.auditing.inputs import Inputs
from neptune_verified.auditing.lengths import default_sizes

if TYPE_CHECKING:
    from neptune_verified.auditing.run import Auditor, Reference

#: Inputs that are climbed from, and inputs of the worst that are reported.
STARTS, REPORTED = 4, 1


@dataclass(frozen=True)
class Found:
    """The worst inputs, worst first; how many were tried."""

    worst: tuple[Inputs, ...]
    tried: int


def search(
    auditor: Auditor, sizes: dict[str, int | float], tries: int, progress: Callable[[int], object], seed: int = 0
) -> Found:
    """Try that many inputs. The same seed finds the same inputs on the same machine."""
    g = Generator().manual_seed(seed)
    program = auditor.subject.program
    options = default_sizes(program, auditor.device.type == "cpu", sizes)
    known: list[tuple[float, int, Inputs]] = []  # the number breaks ties: the first found stays

    def take(given: Inputs, reference: Reference) -> None:
        progress(len(known))
        known.append((auditor.badness(given, reference), -len(known), given))

    starts = [(f, n) for n in options for f in FAMILIES]
    order = torch.randperm(len(starts), generator=g).tolist()
    for k in order[: max(1, tries // 3)]:
        family, lengths = starts[k]
        take(*auditor.in_range(family, lengths, seed))
    while len(known) < tries and max(k[0] for k in known) < math.inf:
        best = sorted(known, reverse=True)[:STARTS]
        parent = best[_draw(g, len(best))][2]
        take(*auditor.with_reference(changed(auditor, parent, g)))
    worst = sorted(known, reverse=True)[:REPORTED]
    named = tuple(
        replace(x, name=f"searched {k + 1}", origin="searched", family="searched") for k, (_, _, x) in enumerate(worst)
    )
    return Found(named, len(known))


def changed(auditor: Auditor, parent: Inputs, g: Generator) -> Inputs:
    """A neighbour: one to three changes, each of one float input, of the same shapes."""
    program = auditor.subject.program
    tensors = dict(parent.tensors)
    floats = [t.name for t in program.inputs if tensors[t.name].is_floating_point() and tensors[t.name].numel()]
    for _ in range(1 + _draw(g, 3)) if floats else ():
        name = floats[_draw(g, len(floats))]
        x = tensors[name].detach().cpu().double()
        change = CHANGES[_draw(g, len(CHANGES))]
        if change is _of_family:
            family = list(FAMILIES)[_draw(g, len(FAMILIES))]
            other = generate(program, family, auditor.sizes(parent), _draw(g, 1 << 20), str(auditor.device))
            y = _block(x, other.tensors[name].cpu().double(), g)
        else:
            y = change(x, g)
        tensors[name] = y.to(tensors[name].dtype).to(auditor.device)
    return replace(parent, tensors={t.name: respecting(t, tensors[t.name], program) for t in program.inputs})


# ---------------------------------------------------------------------------------------------- changes


def _draw(g: Generator, n: int) -> int:
    return int(torch.randint(n, (), generator=g))


def _normal(x: Tensor, g: Generator) -> Tensor:
    return torch.randn(x.shape, generator=g, dtype=x.dtype)


def _typical(x: Tensor) -> float:
    finite = x[x.isfinite()]
    return float(finite.abs().mean()) if finite.numel() and bool((finite != 0).any()) else 1.0


def _part(x: Tensor, g: Generator) -> tuple[slice, ...]:
    """A block: along each axis all of it, an interval, or one index."""
    found = []
    for n in x.shape:
        kind = _draw(g, 3)
        first = _draw(g, n)
        found.append((slice(None), slice(first, first + 1 + _draw(g, n - first)), slice(first, first + 1))[kind])
    return tuple(found)


def _scaled(x: Tensor, g: Generator) -> Tensor:
    return x * 2.0 ** (_draw(g, 9) - 4)


def _shifted(x: Tensor, g: Generator) -> Tensor:
    return x + _typical(x) * 2.0 ** (_draw(g, 9) - 2) * (1 - 2 * _draw(g, 2))


def _negated(x: Tensor, g: Generator) -> Tensor:
    return -x


def _nudged(x: Tensor, g: Generator) -> Tensor:
    return x + _normal(x, g) * _typical(x) * 2.0 ** -_draw(g, 12)


def _sorted(x: Tensor, g: Generator) -> Tensor:
    return x.sort(dim=_draw(g, x.ndim), descending=bool(_draw(g, 2))).values if x.ndim else x


def _shuffled(x: Tensor, g: Generator) -> Tensor:
    if not x.ndim:
        return x
    dim = _draw(g, x.ndim)
    return x.index_select(dim, torch.randperm(x.shape[dim], generator=g))


def _equal_part(x: Tensor, g: Generator) -> Tensor:
    y, at = x.clone(), _part(x, g)
    y[at] = y[at].flatten()[0]
    return y


def _large_part(x: Tensor, g: Generator) -> Tensor:
    y, at = x.clone(), _part(x, g)
    y[at] *= 2.0 ** (1 + _draw(g, 6))
    return y


def _positive(x: Tensor, g: Generator) -> Tensor:
    return x.abs()


def _repeated(x: Tensor, g: Generator) -> Tensor:
    """One index of an axis everywhere along it."""
    if not x.ndim:
        return x
    dim = _draw(g, x.ndim)
    return x.index_select(dim, torch.tensor([_draw(g, x.shape[dim])])).expand_as(x).clone()


def _of_family(x: Tensor, g: Generator) -> Tensor:
    raise NotImplementedError("needs the program")


def _block(x: Tensor, other: Tensor, g: Generator) -> Tensor:
    y, at = x.clone(), _part(x, g)
    y[at] = other[at]
    return y


CHANGES: tuple[Callable[[Tensor, Generator], Tensor], ...] = (
    _scaled, _shifted, _negated, _nudged, _sorted, _shuffled, _equal_part, _large_part, _positive, _repeated, _of_family,
)  # fmt: skip

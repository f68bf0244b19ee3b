"""From an input on which a kernel is wrong to a few numbers, and to a text that shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch

import neptune_verified as nv
from neptune_verified.ir.expr import Size

#: Trials of one minimisation, each of which runs the kernel and the definition.
TRIALS = 400
Tensors = list[torch.Tensor]


def shrunk(program: nv.Program, arguments: Tensors, wrong: Callable[[Tensors], str]) -> Tensors:
    """Arguments as small and as simple as possible on which ``wrong`` still says something."""
    left = TRIALS

    def still(candidate: Tensors) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and allowed(program, candidate) and bool(wrong(candidate))

    plain = [x.clone().contiguous() for x in arguments]
    if not still(plain):
        return arguments  # the layout matters
    best = plain
    for simpler in (_shorter, _flatter, _parts, _single):
        again = True
        while again and left > 0:
            again = False
            for candidate in simpler(program, best):
                if still(candidate):
                    best, again = candidate, True
                    break
    return best


def allowed(program: nv.Program, arguments: Tensors) -> bool:
    """The declared facts hold."""
    for t, x in zip(program.inputs, arguments, strict=True):
        v = x.double()
        for a in program.assumptions:
            if a.subject != t.name or not x.numel():
                continue
            number = float(a.value or 0)
            finite = v[torch.isfinite(v)]
            good = {
                "positive": bool((v > 0).all()), "nonnegative": bool((v >= 0).all()), "nonzero": bool((v != 0).all()),
                "at_least": bool((v >= number).all()), "bounded": bool((finite.abs() <= number).all()),
            }.get(a.kind, True)  # fmt: skip
            if not good:
                return False
    return True


def _shorter(program: nv.Program, arguments: Tensors) -> Iterator[Tensors]:
    """Fewer rows or columns: the first or the last half, then one less at either end."""
    places: dict[str, list[tuple[int, int]]] = {}
    for k, t in enumerate(program.inputs):
        for d, extent in enumerate(t.shape):
            if isinstance(extent, Size):
                places.setdefault(extent.name, []).append((k, d))
    for where in places.values():
        k0, d0 = where[0]
        n = arguments[k0].shape[d0]
        for start, count in dict.fromkeys([(0, n // 2), (n - n // 2, n // 2), (0, n - 1), (1, n - 1)]):
            if 0 < count < n:
                cut = list(arguments)
                for k, d in where:
                    cut[k] = cut[k].narrow(d, start, count).clone()
                yield cut


def _flatter(program: nv.Program, arguments: Tensors) -> Iterator[Tensors]:
    """A whole tensor of one simple number, or of rounded ones."""
    for k, x in enumerate(arguments):
        if x.numel() > 1:
            if x.is_floating_point() and not torch.equal(x, torch.round(x)):
                yield [*arguments[:k], torch.round(x), *arguments[k + 1 :]]
            for v in (0, 1):
                y = torch.full_like(x, v)
                if not torch.equal(x, y) and len(x.unique()) > 1:
                    yield [*arguments[:k], y, *arguments[k + 1 :]]


def _parts(program: nv.Program, arguments: Tensors) -> Iterator[Tensors]:
    """A part of a tensor set to 0."""
    for k, x in enumerate(arguments):
        n = x.numel() // 2
        while n >= 2:
            for start in range(0, x.numel(), n):
                if bool((x.view(-1)[start : start + n] != 0).any()):
                    y = x.clone()
                    y.view(-1)[start : start + n] = 0
                    yield [*arguments[:k], y, *arguments[k + 1 :]]
            n //= 2 if n <= 64 else 4


def _single(program: nv.Program, arguments: Tensors) -> Iterator[Tensors]:
    """One element simpler."""
    for k, x in enumerate(arguments):
        for p in range(min(x.numel(), 64)):
            v = float(x.flatten()[p])
            for simple in _simpler(v):
                y = x.clone()
                y.view(-1)[p] = simple
                yield [*arguments[:k], y, *arguments[k + 1 :]]


def _simpler(v: float) -> list[float]:
    order = [0.0, 1.0, -1.0, 2.0, -2.0, 0.5]
    if v in order:
        return order[: order.index(v)]
    return order + ([float(np.round(v))] if np.isfinite(v) and v != np.round(v) else [])


def paste(source: str, program: nv.Program, arguments: Tensors, form: tuple[str, str], text: str) -> str:
    """A Python text that ends with an AssertionError while the fault is there."""
    lines = [source, "import torch", "from tests.property.check import How, difference, with_tile", ""]
    lines.append("nan, inf = float('nan'), float('inf')")
    for t, x in zip(program.inputs, arguments, strict=True):
        view = "" if x.numel() else f".reshape({tuple(x.shape)})"
        lines.append(f"{t.name} = torch.tensor({x.tolist()}, dtype=torch.{t.dtype}){view}")
        if x.numel() and 0 in x.stride():
            lines.append(f"{t.name} = {t.name}[:1].expand{tuple(x.shape)}")
        elif x.numel() and not x.is_contiguous():
            wide = f"torch.zeros({x.untyped_storage().size() // x.element_size()}, dtype=torch.{t.dtype})"
            strided = f"as_strided({tuple(x.shape)}, {x.stride()}, {x.storage_offset()})"
            lines.append(f"{t.name} = {wide}.{strided}.copy_({t.name})")
    names = ", ".join(t.name for t in program.inputs)
    made, called = form
    lines += [made, f"wrong = difference(program, kernel, [{names}], {called})", f"# {text}", "assert not wrong, wrong"]
    return "\n".join(lines) + "\n"

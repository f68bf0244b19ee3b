"""Trusted: compares what the programs of a trial stored with the definition, element by element."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from neptune_verified.ir.expr import Axis, Expr
from neptune_verified.proofs.bounded.definition import Definition, Frame
from neptune_verified.proofs.bounded.domain import Domain
from neptune_verified.proofs.bounded.field import Array
from neptune_verified.proofs.bounded.lengths import Trial
from neptune_verified.proofs.bounded.memory import Memory
from neptune_verified.proofs.bounded.values import Bit, Int, Val

_ROUGH = 1e-3
Where = tuple[Array, ...]
Closed = Mapping[str, tuple[tuple[Axis, ...], Expr]]
Found = list[tuple[str, str]]


class Comparison:
    """``compared``: for each output, the number of elements at which the definition is defined."""

    def __init__(self, domain: Domain, closed: Closed, trial: Trial) -> None:
        self.domain, self.closed, self.trial = domain, closed, trial
        self.compared: Counter[str] = Counter()

    def output(self, name: str, memory: dict[str, Memory], known: list[Where], poison: bool) -> list[tuple[str, str]]:
        """(id, what) of the first element that differs, or ("doubt", what); nothing where the definition is undefined."""
        axes, expr = self.closed[name]
        for used, where in boxes(known, memory[name].shape, self.trial.poison):
            self.domain.left = self.domain.tied = False
            want = Definition(self.domain, memory, self.trial.sizes).eval(expr, Frame(axes, used))
            if self.domain.left:  # a sample that says nothing
                continue
            tied = self.domain.tied
            box = tuple(len(u) for u in used)
            want = want.each(lambda a, box=box: np.broadcast_to(a, box))
            index = np.ix_(*used) if used else ()
            got = memory[name].value.each(lambda a, index=index: a[index])
            if isinstance(want, Val) and isinstance(got, Val):
                found = self._floats(name, want, got, where, used, poison, tied)
            elif isinstance(want, Val) or isinstance(got, Val):
                found = [("O13", " has another type")]
            else:
                found = self._whole(name, want, got, where, used)
            if found:
                return found
        return []

    def _floats(
        self, name: str, want: Val, got: Val, where: Array, used: tuple[Array, ...], poison: bool,
        tied: bool = False,
    ) -> list[tuple[str, str]]:  # fmt: skip
        """``tied``: which of several elements is the greatest is not known, so that only numbers can be compared."""
        live = where & ~np.isnan(want.f)
        if self.trial.poison and np.isnan(want.f).any():
            # A position that some row of a program evaluates has to be finite: then nothing is said of its other rows.
            live = live & ~np.isnan(got.f)
        self.compared[name] += int(np.count_nonzero(live))
        nothing = live & np.isnan(got.f)
        if nothing.any():
            return [
                (
                    "O9" if poison or self.trial.poison else "O13",
                    f"{self._at(nothing, used)} is undefined, the definition is not",
                )
            ]
        normal, close = self.domain.same(got, want)
        if self.trial.shift:  # numbers far apart cancel: the same expression in another order may be a little off
            with np.errstate(invalid="ignore"):
                near = np.abs(got.f - want.f) <= _ROUGH * (1 + np.abs(want.f))
            close |= normal & near & np.isfinite(got.f) & np.isfinite(want.f)
        wrong = live & ~close
        if wrong.any():
            first = tuple(np.argwhere(wrong)[0]) if wrong.ndim else ()
            values = f"{float(got.f[first]):.6g}, the definition says {float(want.f[first]):.6g}"
            return [("O13", f"{self._at(wrong, used)} is {values}")]
        differ = live & ~normal
        if differ.any() and not tied:
            return [("doubt", f"{self._at(differ, used)} is another expression with the same value at one point")]
        return []

    def _whole(
        self, name: str, want: Int | Bit, got: Int | Bit, where: Array, used: tuple[Array, ...]
    ) -> list[tuple[str, str]]:
        live = where
        if isinstance(want, Bit) and want.bad is not None:
            live = where & ~want.bad
        self.compared[name] += int(np.count_nonzero(live))
        wrong = live & (want.a != got.a)
        if isinstance(got, Bit) and got.bad is not None:
            wrong |= live & got.bad
        return [("O13", f"{self._at(wrong, used)} is another number")] if wrong.any() else []

    @staticmethod
    def _at(mask: Array, used: tuple[Array, ...]) -> str:
        first = np.argwhere(mask)[0]
        return str([int(u[i]) for u, i in zip(used, first, strict=True)])


def boxes(stores: list[Where], shape: tuple[int, ...], apart: bool = False) -> list[tuple[tuple[Array, ...], Array]]:
    """The stored elements as boxes: the indices along each dimension, and which elements of the box were stored.

    One box for all, unless the smallest one is much larger than what was stored, or each store is wanted ``apart``."""

    def box(parts: list[Where]) -> tuple[tuple[Array, ...], Array]:
        seen = np.zeros(shape, dtype=bool)
        for where in parts:
            seen[where] = True
        used = tuple(
            np.flatnonzero(seen.any(axis=tuple(d for d in range(len(shape)) if d != k))) for k in range(len(shape))
        )
        return used, seen[np.ix_(*used)] if used else seen

    stores = [w for w in stores if not w or w[0].size]
    if not stores:
        return []
    used, seen = box(stores)
    if not apart and seen.size <= 1.25 * np.count_nonzero(seen) + 256:
        return [(used, seen)]
    return [box([w]) for w in stores]

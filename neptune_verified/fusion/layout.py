"""Not trusted: how the inputs of a search for a wrong run are laid out, drawn and looked at to many digits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from neptune_verified.fusion.exact import Row
from neptune_verified.fusion.pools import pool_of
from neptune_verified.fusion.trials import Setup, spatial_axes
from neptune_verified.ir.example import Scalar
from neptune_verified.ir.interpret import Array
from neptune_verified.proofs.evaluate import CONFIRM, FIND, UNDEFINED, OutOfReach, Value, is_inf
from neptune_verified.proofs.falsify import same

#: Elements of one tensor that may differ from its simplest value where it is large.
FEW = 8


@dataclass(frozen=True, slots=True)
class Found:
    """A wrong trial: ranks of its elements' values in their pools, the spatial index, both values."""

    ranks: Array
    index: tuple[int, ...]
    before: Value
    after: Value

    @property
    def finite(self) -> bool:
        return not any(x is UNDEFINED or is_inf(x) for x in (self.before, self.after))


class Layout:
    """All elements of all inputs in one row of ranks; rank 0 is the simplest value of the element's pool."""

    def __init__(self, setup: Setup, extra: tuple[Fraction, ...]) -> None:
        self.setup = setup
        program = setup.program
        self.shapes: dict[str, tuple[int, ...]] = setup.shapes | dict.fromkeys(setup.scalars, ())
        dtypes = {t.name: t.dtype for t in program.inputs} | setup.scalars
        self.parts: dict[str, slice] = {}
        self.pools: dict[str, Array] = {}
        self.cells = 0
        for name, shape in self.shapes.items():
            count = int(np.prod(shape, dtype=np.int64))
            self.parts[name] = slice(self.cells, self.cells + count)
            self.pools[name] = pool_of(program, name, dtypes[name], extra)
            self.cells += count

    def trials(self) -> Array:
        """Ranks of every trial, simplest first: all combinations of as many values as there is room for, then draws."""
        count = self.setup.trials
        free = self.free()
        sizes = np.array([len(self.pools[name]) for name, _ in free])
        most = int(sizes.max(initial=1))
        depth = next((d for d in range(most, 1, -1) if np.prod(np.minimum(sizes, d).astype(float)) <= count), 0)
        rows = np.zeros((1, len(free)), dtype=np.int64)
        if depth:
            rows = np.array(list(product(*(range(min(n, depth)) for n in sizes))), dtype=np.int64).reshape(
                -1, len(free)
            )
        if depth < most and len(rows) < count and len(free):
            rows = np.concatenate([rows, _draws(sizes, count - len(rows))])
        ranks = np.zeros((len(rows), self.cells), dtype=np.int64)
        ranks[:, [at for _, at in free]] = rows
        return ranks[np.argsort(ranks.sum(axis=1), kind="stable")]

    def free(self) -> list[tuple[str, int]]:
        """Elements of what the pass reads that are varied: in a long dimension the first one and those that begin a tile."""
        result = []
        for name, shape in ((n, s) for n, s in self.shapes.items() if n in self.setup.read):
            tile = max(2, self.setup.tile)
            firsts = [[k for k in range(n) if n <= 4 or k == 0 or (n >= tile > 2 and k % tile == 0)] for n in shape]
            inside = list(product(*firsts))
            start = self.parts[name].start
            result += [(name, start + (int(np.ravel_multi_index(k, shape)) if shape else 0)) for k in inside[:FEW]]
        return result

    def tensors(self, ranks: Array) -> dict[str, Array]:
        return {
            name: self.pools[name][ranks[:, part]].reshape((len(ranks), *self.shapes[name]))
            for name, part in self.parts.items()
        }

    def confirm(self, ranks: Array, index: tuple[int, ...], seen: tuple[float, float]) -> Found | None:
        """The trial to many digits; None if it is right after all, or its values are out of reach.

        Of a row too long for that, what was ``seen`` is taken if it is plain: two numbers well apart."""
        s = self.setup
        if s.large:
            plain = all(map(math.isfinite, seen)) and abs(seen[0] - seen[1]) > 1e-3 * max(1e-3, *map(abs, seen))
            return Found(ranks, index, *(Fraction(f"{x:.9g}") for x in seen)) if plain else None
        one = {name: values[0] for name, values in self.tensors(ranks[None]).items()}
        sizes = s.sizes | {name: float(one[name]) for name in s.scalars}
        env = dict(zip(spatial_axes(s.nest), index, strict=True))
        sides: list[tuple[Value, Value]] = []
        try:
            for meaning in (FIND, CONFIRM):
                before = Row(one, sizes, env, meaning).definition(s.consumer)
                after = Row(one, sizes, env, meaning).fused(s.nest, s.pass_, s.consumer, s.tile)
                if before is UNDEFINED or meaning.agree(before, after):
                    return None
                sides.append((before, after))
        except OutOfReach:
            return None
        steady = all(map(same, *sides)) and scalar(sides[0][0]) != scalar(sides[0][1])
        return Found(ranks, index, *sides[1]) if steady else None


def _draws(sizes: Array, count: int) -> Array:
    """Ranks from a fixed sequence, simple ones more often, in half of them zeros most of the time."""
    rng = np.random.default_rng(20260726)
    ranks = np.minimum(rng.geometric(0.35, (count, len(sizes))) - 1, sizes - 1)
    sparse = (rng.random((count, len(sizes))) < 0.6) & (np.arange(count) % 2 == 0)[:, None]
    return np.where(sparse, 0, ranks)


def scalar(x: Any) -> Scalar:
    """15 digits, as JSON can hold them."""
    if x is UNDEFINED:
        return "undefined"
    if isinstance(x, bool):
        return x
    if is_inf(x):
        return "inf" if x > 0 else "-inf"
    if isinstance(x, Fraction) and x.denominator == 1 and abs(x) < 10**15:
        return int(x)
    return float(f"{float(x):.15g}")

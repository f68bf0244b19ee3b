"""Not trusted: two executions compared. The fused loop program, in tiles and in splits, against its definition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from neptune_verified.ir.expr import Const, Size
from neptune_verified.ir.interpret import Array, run_program
from neptune_verified.ir.loops import LoopProgram, run_loops
from neptune_verified.ir.program import Program, Tensor
from neptune_verified.ir.split import run_split
from neptune_verified.mutants import folded

Arrays = dict[str, Array]
#: Lengths of the reduced axis: several tiles, one tile and a bit, one element, none.
LENGTHS = (9, 5, 1, 0)
TILES = (2, 4)
SPLITS = (2, 3, 7)
_JOIN = folded.join
REPEATS = 2


@dataclass(frozen=True, slots=True)
class Difference:
    """The first element at which two executions differ, and how it was run. ``range_only``: floating point overflowed,
    which the reals do not; nothing else differs."""

    where: str
    got: float
    wanted: float
    range_only: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.got:.6g} instead of {self.wanted:.6g}"


def _zeros_first(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    x = rng.normal(size=shape)
    x[..., :3] = 0
    return np.asarray(x)


#: Values of a row, by name.
DRAWS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], Array]] = {
    "normal": lambda rng, shape: np.asarray(rng.normal(size=shape)),
    "falling": lambda rng, shape: -np.sort(rng.normal(size=shape) * 3, axis=-1),
    "integer": lambda rng, shape: rng.integers(-3, 4, shape).astype(np.float64),
    "first zero": _zeros_first,
    "rising": lambda rng, shape: np.sort(rng.normal(size=shape) * 3, axis=-1),
    "negative": lambda rng, shape: np.asarray(-1 - np.abs(rng.normal(size=shape))),
    "positive": lambda rng, shape: np.asarray(0.5 + np.abs(rng.normal(size=shape))),
    "equal": lambda rng, shape: np.full(shape, 1.5),
    "tiny": lambda rng, shape: np.asarray(rng.normal(size=shape) * 1e-9),
    "zero": lambda rng, shape: np.zeros(shape),
    "far apart": lambda rng, shape: np.asarray(rng.normal(size=shape) * 40),
    "very negative": lambda rng, shape: np.asarray(-200.0 - rng.integers(0, 3, shape)),
    "stand-in": lambda rng, shape: np.asarray(-524288.0 - rng.integers(0, 3, shape)),
}
#: Draws whose exponentials leave the range of float64, though not that of the reals.
WIDE = frozenset({"far apart", "very negative", "stand-in"})
#: Inputs that have no row are drawn in one of these ways.
SHARED = ("normal", "falling", "integer", "first zero")
ROWS = tuple(name for name in DRAWS for _ in range(REPEATS))


def inputs_of(program: Program) -> Iterator[tuple[str, Arrays]]:
    """Named inputs, in a fixed order: rows of every draw, every length, every draw of what has no row."""
    positive = {a.subject for a in program.assumptions if a.kind == "positive"}
    for length in LENGTHS:
        for k, shared in enumerate(SHARED):
            rng = np.random.default_rng([k, length])
            arrays = {t.name: _draw(rng, t, length, shared, t.name in positive) for t in program.inputs}
            yield f"{shared} shared values, length {length}", arrays


def _draw(rng: np.random.Generator, t: Tensor, length: int, shared: str, positive: bool) -> Array:
    shape = tuple(_extent(d, length) for d in t.shape)
    by_row = isinstance(t.shape[0], Size) and t.shape[0].name == "M"
    if not t.dtype.startswith("float"):
        return np.resize([0, length, max(0, length - 2), length // 2], shape)  # row lengths, an empty row first
    x = np.stack([DRAWS[name](rng, shape[1:]) for name in ROWS]) if by_row and shape[1:] else DRAWS[shared](rng, shape)
    return np.minimum(np.abs(x) + 0.125, 8) if positive else x


def _extent(d: Any, length: int) -> int:
    match d:
        case Const(value):
            return int(value)
        case Size(name):
            return len(ROWS) if name == "M" else length
    raise TypeError(f"a shape of {d}")


@lru_cache(maxsize=64)
def references(program: Program) -> tuple[tuple[str, Arrays, Arrays], ...]:
    """Inputs, and what the definition gives for them."""
    with np.errstate(all="ignore"):
        return tuple((name, arrays, run_program(program, arrays)) for name, arrays in inputs_of(program))


def difference(loops: LoopProgram, program: Program, split: bool) -> Difference | None:
    """Where the fused program differs from the definition, and the definition is defined; None where nothing was found.

    Must be called after ``references(program)`` if the meaning of reducers is changed. Raises what the run raises."""
    overflow: Difference | None = None
    for name, arrays, wanted in references(program):
        runs: list[tuple[str, Callable[[], Mapping[str, Array]]]] = [
            (f"tiles of {k}", partial(run_loops, loops, arrays, tile=k)) for k in TILES
        ]
        if split:
            runs += [(f"{k} splits", partial(run_split, loops, arrays, k, tile=2)) for k in SPLITS]
            if folded.join is not _JOIN:  # a combine of two states that is changed
                runs += [
                    (f"{k} splits, joined in pairs", partial(folded.run_folded, loops, arrays, k, tile=2))
                    for k in SPLITS
                ]
        for how, run in runs:
            with np.errstate(all="ignore"):
                got = run()
            found = _compare(f"{name}, {how}", got, arrays, wanted)
            if found is not None and not found.range_only:
                return found
            overflow = overflow or found
    return overflow


def _compare(where: str, got: Mapping[str, Array], arrays: Arrays, wanted: Arrays) -> Difference | None:
    size = max((float(np.abs(x).max(initial=0.0)) for x in arrays.values() if x.dtype.kind == "f"), default=1.0)
    overflow: Difference | None = None
    for name, want in wanted.items():
        have = got[name]
        if have.shape != want.shape:
            return Difference(f"{where}, shape of {name}", float(have.ndim), float(want.ndim))
        with np.errstate(all="ignore"):
            # Results of cancellation are as good as the inputs.
            scale = 1e-9 * np.maximum(np.abs(want), min(1.0, size))
            wrong = ~np.isnan(want) & ~((have == want) | (np.abs(have - want) <= scale))
        for index in map(tuple, np.argwhere(wrong)):
            draw = ROWS[index[0]] if index else "?"
            wide = draw in WIDE and not np.isfinite(have[index]) and np.isfinite(want[index])
            place = f"{where}, {draw} row: {name}[{', '.join(map(str, index))}]"
            found = Difference(place, float(have[index]), float(want[index]), bool(wide))
            if not wide:
                return found
            overflow = overflow or found
    return overflow

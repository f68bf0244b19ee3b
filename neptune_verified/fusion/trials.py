"""Not trusted: one pass of a loop program run on many small inputs at once, beside its definition.

Every read gets one more index, that of the trial, and the trial becomes an axis of the grid; so one run of ``ir.loops``
tries thousands of inputs. Scalar arguments become inputs with that one index.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from neptune_verified.ir.expr import FLOATS, Axis, Expr, Read, Reduce, Size, axis, read, size, subterms, transform
from neptune_verified.ir.interpret import Array, Evaluator, Frame
from neptune_verified.ir.loops import Carried, Nest, Pass, run_tile, tiles
from neptune_verified.ir.program import Program

_TRIAL = "trial.0"
#: Elements that one operation of a run may have, over all its trials.
_WORK = 1 << 22
MOST_TRIALS = 4096
#: Elements of one row from which on it is not computed to many digits.
_LARGE = 4096
#: More elements than this in all inputs are no small example.
_CELLS = 1 << 16
#: Tiles that a run may have.
_TILES = 64


@dataclass(frozen=True, slots=True)
class Outcome:
    """Per trial and spatial index: the accumulator's final value, and the definition's."""

    got: Array
    want: Array

    @property
    def wrong(self) -> Array:
        """Far enough apart to be no rounding; where the definition is undefined, nothing is wrong."""
        if self.want.dtype.kind == "i" and self.got.dtype.kind == "i":
            return np.asarray(self.got != self.want)
        with np.errstate(all="ignore"):
            scale = 1e-9 * np.maximum(np.abs(self.got), np.abs(self.want)) + 1e-12
            near = self.finite & (np.abs(self.got - self.want) <= scale)
        return np.asarray(~np.isnan(self.want) & ~near & (self.got != self.want))

    @property
    def finite(self) -> Array:
        return np.asarray(np.isfinite(self.got) & np.isfinite(self.want))


class Setup:
    """A pass in which ``consumer`` carries the refused repair, for inputs of these lengths."""

    def __init__(self, program: Program, nest: Nest, p: Pass, consumer: Carried, sizes: Mapping[str, int]) -> None:
        self.program, self.nest, self.pass_, self.consumer, self.sizes = program, nest, p, consumer, dict(sizes)
        lengths = Evaluator({}, sizes)
        self.shapes = {t.name: tuple(lengths.integer(d) for d in t.shape) for t in program.inputs}
        self.scalars = {s.name: s.dtype for s in scalar_arguments(program)}
        spatial = [lengths.integer(a.extent) for a in spatial_axes(nest)]
        #: Rows are computed one by one: two indices of each axis show all that there is to see.
        self.rows = [np.arange(min(n, 2), dtype=np.int64) for n in spatial]
        stream = [lengths.integer(a.extent) for a in p.stream]
        # A long row of fixed length is cut into a few tiles.
        self.tile = 1 if stream[-1] <= 4 else -(-stream[-1] // 3)
        work = max(_width(e, lengths) for c in p.carried for e in (c.value, *([c.repair.h] if c.repair else [])))
        cells = sum(int(np.prod(shape, dtype=np.int64)) for shape in self.shapes.values())
        rows = math.prod(map(len, self.rows))
        self.trials = min(MOST_TRIALS, _WORK // max(1, rows * work), _WORK // max(1, cells))
        self.large = work > _LARGE
        runs = int(np.prod(stream[:-1])) * -(-stream[-1] // self.tile)
        empty = 0 in (*spatial, *stream, *(n for shape in self.shapes.values() for n in shape))
        terms = [x for c in p.carried for x in subterms(c.value)]
        self.read = {x.tensor for x in terms if isinstance(x, Read)} | {x.name for x in terms if isinstance(x, Size)}
        self.single = int(np.prod(stream)) == 1
        self.possible = self.trials >= 16 and runs <= _TILES and cells <= _CELLS and not empty
        self._batch()

    def _batch(self) -> None:
        trial = axis(_TRIAL, size(_TRIAL))

        def read_trial(x: Expr) -> Expr | None:
            if isinstance(x, Read):
                return read(x.tensor, (trial, *(transform(i, read_trial) for i in x.indices)), x.dtype)
            if isinstance(x, Size) and x.name in self.scalars:
                return read(x.name, (trial,), x.dtype)
            return None

        def batched(c: Carried) -> Carried:
            value = transform(c.value, read_trial)
            assert isinstance(value, Reduce)
            repair = c.repair and replace(c.repair, h=transform(c.repair.h, read_trial))
            return replace(c, value=value, axes=(trial, *c.axes), repair=repair)

        self._nest = replace(self.nest, grid=(trial, *self.nest.grid))
        self._pass = replace(self.pass_, carried=tuple(batched(c) for c in self.pass_.carried))
        self._consumer = next(c for c in self._pass.carried if c.name == self.consumer.name)

    def run(self, tensors: Mapping[str, Array]) -> Outcome:
        """``tensors``: every input and every scalar argument, the trial as first index."""
        count = len(next(iter(tensors.values())))
        ev = Evaluator(tensors, {**self.sizes, _TRIAL: count})
        base = Frame(spatial_axes(self._nest), (np.arange(count, dtype=np.int64), *self.rows))
        for c in self._pass.carried:
            ev.vars[c.name] = ev.eval(c.neutral, base).reshape((1,) * len(base.axes))
        for values in tiles(ev, self._pass.stream, self.tile):
            run_tile(ev, self._nest, self._pass, base, values)
        shape = tuple(len(v) for v in base.values)
        want = ev.eval(self._consumer.value, base)
        return Outcome(np.broadcast_to(ev.vars[self.consumer.name], shape), np.broadcast_to(want, shape))


def scalar_arguments(program: Program) -> tuple[Size, ...]:
    """Numbers that are given by themselves; an integer may be a length, and is treated as one."""
    return tuple(s for s in program.sizes if s.dtype in FLOATS and s.name not in program.shape_sizes())


def spatial_axes(nest: Nest) -> tuple[Axis, ...]:
    return nest.grid + nest.inner


def _width(e: Expr, lengths: Evaluator) -> int:
    """Elements that the largest subterm has, beside those of the spatial axes."""
    bound = {a for x in subterms(e) if isinstance(x, Reduce) for a in x.axes}
    sizes = {a: lengths.integer(a.extent) for a in bound}
    return max(math.prod(sizes[a] for a in x.free & bound) for x in subterms(e))

"""Not trusted: which column tiles a row tile must visit, and where it needs no mask.

The live columns of a row tile are a union of intervals (one for each alternative of the predicate), and so are the
columns at which the predicate fails for some row. In units of tiles, a union of intervals whose order is not known is
made ascending and disjoint by sorting the starts and the ends separately: a tile is covered where more starts than ends
lie at or before it, so the k-th least start and the k-th least end, each range cut at the end of the one before, cover the
same tiles. Empty intervals start and end at one place and change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from neptune_verified.ir.expr import Axis, Const, Expr, op
from neptune_verified.tile.forms import linear, number
from neptune_verified.tile.linear import Integers
from neptune_verified.tile.predicates import TooMany, alternatives
from neptune_verified.tile.projection import Interval, Projection

#: More intervals than this become one that spans them all.
INTERVALS = 3
#: More loops than this are not worth their text, and neither is a loop for the full ones of so few columns.
LOOPS, FEW = 6, 128


@dataclass(frozen=True)
class Phase:
    """The tiles [s, s + block) for s in range(lo, hi, block). ``full``: the predicate holds everywhere in them, and they
    lie inside the axis."""

    lo: Expr
    hi: Expr
    full: bool


@dataclass(frozen=True)
class _Range:
    """Tiles lo <= t < hi, numbered from 0; lo <= hi, and lo == hi where there are none."""

    lo: Expr
    hi: Expr


def phases(p: Expr, columns: Axis, rows: Axis | None, z: Integers, whole: bool = True) -> tuple[Phase, ...]:
    """Ascending, disjoint loops that visit every tile of ``columns`` in which ``p`` holds somewhere, for the rows from
    ``z.first`` to ``z.last`` of the axis ``rows``. ``whole``: with loops of their own for tiles that need no mask."""
    tiles = _Tiles(z, columns, rows)
    live = tiles.live(p)
    full = tiles.full(p) if whole else []
    pieces: list[tuple[Expr, Expr, bool]] = []
    for k, v in enumerate(live):
        if z.span(v.hi)[1] <= FEW:
            pieces += tiles.cut(v, [])
            continue
        own = full if len(live) == 1 else [full[k]] if len(full) == len(live) else full[:1] if len(full) == 1 else []
        pieces += tiles.cut(v, own)
    if len(pieces) > LOOPS:
        pieces = [(v.lo, v.hi, False) for v in live]
    assert z.block is not None
    return tuple(Phase(_times(lo, z.block), _times(hi, z.block), f) for lo, hi, f in pieces)


def _times(e: Expr, block: Expr) -> Expr:
    return e if isinstance(e, Const) and e.value == 0 else op("mul", e, block)


class _Tiles:
    def __init__(self, z: Integers, columns: Axis, rows: Axis | None) -> None:
        self.z, self.columns = z, columns
        self.projection = Projection(z, columns, rows)
        self.length = self.projection.length

    def live(self, p: Expr) -> list[_Range]:
        return self._ascending(self._intervals(p, True))

    def full(self, p: Expr) -> list[_Range]:
        """Ranges of tiles in which ``p`` holds for all rows and columns; they may be empty (hi <= lo)."""
        beyond = Interval(self.length, self.length, True)  # no column from N on is one
        failing = self._ascending([*self._intervals(p, False), beyond], endless=True)
        result: list[_Range] = []
        end: Expr = number(0)
        for x in failing:
            if not self.z.le(x.lo, end):
                result.append(_Range(end, x.lo))
            end = x.hi
        return result

    def cut(self, v: _Range, full: list[_Range]) -> list[tuple[Expr, Expr, bool]]:
        """``v`` in pieces (lo, hi, full); pieces that are never there are left out."""
        z, pieces, at = self.z, [], v.lo
        for f in full:
            start = z.max(at, z.min(f.lo, v.hi))
            stop = z.max(start, z.min(f.hi, v.hi))
            pieces += [(at, start, False), (start, stop, True)]
            at = stop
        pieces.append((at, v.hi, False))
        return [(lo, hi, f) for lo, hi, f in pieces if not z.le(hi, lo)]

    # -- intervals -------------------------------------------------------------------------------------------

    def _intervals(self, p: Expr, wanted: bool) -> list[Interval]:
        try:
            found = [self.projection.interval(c, sparse=wanted) for c in alternatives(p, wanted)]
        except TooMany:
            return [Interval(number(0), self.length, True)]
        return self._merge([x for x in found if x is not None])

    def _merge(self, intervals: list[Interval]) -> list[Interval]:
        """Intervals with the same start, or the same open end, become one."""
        z = self.z
        kept: list[Interval] = []
        for x in intervals:
            for k, y in enumerate(kept):
                if x.lo is y.lo:
                    kept[k] = Interval(x.lo, z.max(x.hi, y.hi), x.open or y.open)
                elif x.open and y.open:
                    kept[k] = Interval(z.min(x.lo, y.lo), self.length, True)
                elif z.le(y.lo, x.lo) and z.le(x.hi, y.hi):
                    kept[k] = Interval(y.lo, y.hi, x.open or y.open)
                elif z.le(x.lo, y.lo) and z.le(y.hi, x.hi):
                    kept[k] = Interval(x.lo, x.hi, x.open or y.open)
                else:
                    continue
                break
            else:
                kept.append(x)
        return kept if len(kept) == len(intervals) else self._merge(kept)

    def _ascending(self, intervals: list[Interval], endless: bool = False) -> list[_Range]:
        """``endless``: an open interval goes on beyond the last column, so it is never empty."""
        intervals = self._merge(intervals)
        if len(intervals) > INTERVALS:
            lo, hi = intervals[0].lo, intervals[0].hi
            for x in intervals[1:]:
                lo, hi = self.z.min(lo, x.lo), self.z.max(hi, x.hi)
            intervals = [Interval(lo, hi, any(x.open for x in intervals))]
        ranges = [self._tiles(x, endless and x.open) for x in intervals]
        starts, ends = self._sorted([r.lo for r in ranges]), self._sorted([r.hi for r in ranges])
        result: list[_Range] = []
        for lo, hi in zip(starts, ends, strict=True):
            at = self.z.max(result[-1].hi, lo) if result else lo
            if not self.z.le(hi, at):
                result.append(_Range(at, hi))
        return result

    def _sorted(self, xs: list[Expr]) -> list[Expr]:
        xs = list(xs)
        for n in range(len(xs) - 1, 0, -1):
            for k in range(n):
                xs[k], xs[k + 1] = self.z.min(xs[k], xs[k + 1]), self.z.max(xs[k], xs[k + 1])
        return xs

    def _tiles(self, x: Interval, endless: bool) -> _Range:
        z = self.z
        assert z.block is not None
        first = z.expr(z.div(linear(x.lo), z.block))
        end = z.expr(z.div(linear(x.hi) + linear(z.block) - 1, z.block))
        if endless or self._surely_some(x):
            return _Range(first, end)
        # n columns lie in at most n tiles, and fewer than one column in none.
        count = z.min(z.expr(linear(end) - linear(first)), z.expr(linear(x.hi) - linear(x.lo)))
        return _Range(first, op("add", first, z.max(count, number(0))))  # at most end: it fits

    def _surely_some(self, x: Interval) -> bool:
        """It has a column, or starts at 0, so that it has no tile where it has no column."""
        return self.z.le(x.lo, number(0)) or self.z.le(self.z.expr(linear(x.lo) + 1), x.hi)

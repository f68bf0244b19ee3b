"""Not trusted: the columns that satisfy a conjunction of constraints together with some row of a tile.

Rows are eliminated exactly where each constraint holds one row term and one column term, ``i`` or ``(i + o) // b``, and
the row's coefficient is 1: then it bounds the row by a function of the column, and a row exists where each lower bound
is at most each upper bound. What cannot be eliminated is dropped: the result has more columns, never fewer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from neptune_verified.ir.expr import Axis, Expr, Op, op
from neptune_verified.tile.forms import Linear, linear, number
from neptune_verified.tile.linear import BLOCK_LIMIT, LENGTH_LIMIT, Integers
from neptune_verified.tile.predicates import AtLeastZero, Constraint, Remainder, mentions, reads_tensor


@dataclass(frozen=True)
class Interval:
    """Columns lo <= j < hi with 0 <= lo and 0 <= hi <= N; empty where hi <= lo. ``open``: hi is N itself."""

    lo: Expr
    hi: Expr
    open: bool


@dataclass(frozen=True)
class Cell:
    """``(axis + offset) // divisor``."""

    axis: Axis
    offset: Linear
    divisor: Expr


@dataclass(frozen=True)
class Edge:
    """A bound of the row index: ``factor * unit * cell + rest`` (``rest`` alone without a cell)."""

    cell: Cell | None
    factor: int
    unit: Expr
    rest: Linear


@dataclass
class _Bounds:
    """Of the row: edges. Of the column: forms, both inclusive, and ``(divisor, shift)``: (j + shift) % divisor == 0."""

    row_low: list[Edge] = field(default_factory=list)
    row_high: list[Edge] = field(default_factory=list)
    low: list[Linear] = field(default_factory=list)
    high: list[Linear] = field(default_factory=list)
    conditions: list[Linear] = field(default_factory=list)
    remainders: list[tuple[int, int]] = field(default_factory=list)


ONE = number(1)


class Projection:
    """``columns`` is the axis that is cut into column tiles, ``rows`` the axis of the row tile, if there is one."""

    def __init__(self, z: Integers, columns: Axis, rows: Axis | None) -> None:
        self.z, self.columns, self.rows = z, columns, rows
        #: The number of columns (an extent below 0 means none).
        self.length = z.max(columns.extent, number(0))

    def interval(self, constraints: list[Constraint], sparse: bool = True) -> Interval | None:
        """The columns of some row of the tile that satisfy the constraints, or more; None where there are none.

        ``sparse``: with ends at columns that have the remainder, where there is one."""
        b = _Bounds()
        for c in constraints:
            match c:
                case AtLeastZero(form) if not reads_tensor(form):  # what a tensor says is not known here
                    self._take(b, form)
                case Remainder(form, divisor, remainder) if sparse:
                    self._take_remainder(b, form, divisor, remainder)
        self._eliminate(b)
        return self._close(b)

    # -- constraints -----------------------------------------------------------------------------------------

    def _cell(self, t: Expr, axis: Axis) -> Cell | None:
        if t is axis:
            return Cell(axis, Linear(), ONE)
        if not isinstance(t, Op) or t.name != "floordiv" or self.z.span(t.args[1])[0] <= 0:
            return None
        inside = linear(t.args[0])
        offset = inside.without([axis])
        if inside.terms.get(axis) != 1 or self._moves(t.args[1], *offset.terms):
            return None
        return Cell(axis, offset, t.args[1])

    def _moves(self, *terms: Expr) -> bool:
        return any(mentions(t, (self.rows, self.columns)) for t in terms)

    def _take(self, b: _Bounds, form: Linear) -> None:
        rows = [t for t in form.terms if mentions(t, (self.rows,))]
        columns = [t for t in form.terms if mentions(t, (self.columns,))]
        if len(rows) > 1 or len(columns) > 1 or set(rows) & set(columns):
            return
        rest = form.without([*rows, *columns])
        column = self._cell(columns[0], self.columns) if columns else None
        if columns and column is None:
            return
        factor = form.terms[columns[0]] if columns else 0
        if not rows:
            self._column(b, column, factor, ONE, rest)
            return
        assert self.rows is not None
        row = self._cell(rows[0], self.rows)
        k = form.terms[rows[0]]
        if row is None or (column is not None and abs(k) > 1):
            return
        # k > 0: row >= ceil(-rest / k) - factor * cell. k < 0: row <= floor(rest / -k) + factor * cell.
        sign = 1 if k > 0 else -1
        rest = self._ceil(-rest, number(k)) if k > 0 else self.z.div(rest, number(-k))
        if k < 0:
            rest = rest + 1  # (i + o) // d <= x is i + o <= (x + 1) * d - 1
        rest = self.z.times(rest, row.divisor) - row.offset - (1 if k < 0 else 0)
        slope, unit = -sign * factor, row.divisor
        if (constant := linear(unit)).terms == {}:
            slope, unit = slope * constant.const, ONE
        (b.row_low if k > 0 else b.row_high).append(Edge(column, slope, unit, rest))

    def _ceil(self, x: Linear, divisor: Expr) -> Linear:
        return self.z.div(x + linear(divisor) - 1, divisor)

    def _column(self, b: _Bounds, cell: Cell | None, factor: int, unit: Expr, rest: Linear) -> None:
        """``factor * unit * cell + rest >= 0`` bounds the column."""
        if cell is None or factor == 0:
            b.conditions.append(rest)
            return
        size = (
            number(abs(factor)) if unit is ONE else unit if abs(factor) == 1 else op("mul", number(abs(factor)), unit)
        )
        if factor > 0:
            b.low.append(self.z.times(self._ceil(-rest, size), cell.divisor) - cell.offset)
        else:
            b.high.append(self.z.times(self.z.div(rest, size) + 1, cell.divisor) - cell.offset - 1)

    def _take_remainder(self, b: _Bounds, form: Linear, divisor: int, remainder: int) -> None:
        if form.terms == {self.columns: 1} and divisor <= BLOCK_LIMIT:
            b.remainders.append((divisor, (form.const - remainder) % divisor))

    def _eliminate(self, b: _Bounds) -> None:
        if self.rows is None:
            return
        assert self.z.first is not None and self.z.last is not None
        first, last = Edge(None, 0, ONE, linear(self.z.first)), Edge(None, 0, ONE, linear(self.z.last))
        for low in (first, *b.row_low):
            for high in (last, *b.row_high):
                if low is first and high is last:
                    continue
                rest = high.rest - low.rest
                if low.cell is None or high.cell is None:
                    cell, unit = low.cell or high.cell, low.unit if low.cell else high.unit
                elif low.cell == high.cell and low.unit is high.unit:
                    cell, unit = low.cell, low.unit
                else:
                    continue  # of two cells: dropped
                self._column(b, cell, high.factor - low.factor, unit, rest)

    # -- the interval ----------------------------------------------------------------------------------------

    def _close(self, b: _Bounds) -> Interval | None:
        z, zero, length = self.z, number(0), self.length
        lo: Expr = zero
        if b.low:
            clamped = [z.narrow(z.max(z.min(length, z.expr(x)), zero)) for x in b.low]
            for x in clamped:
                lo = z.max(lo, x)
        hi: Expr = length
        for form in b.high:
            hi = z.min(hi, z.expr(form + 1))
        is_open = hi is length
        hi = z.narrow(z.max(hi, zero))
        for c in b.conditions:
            if z.nonnegative(c):
                continue
            if z.nonnegative(-c - 1):
                return None
            holds = z.narrow(z.min(z.max(z.expr(c + 1), zero), ONE))  # 1 where it holds, else 0
            hi, is_open = z.min(hi, op("mul", holds, number(LENGTH_LIMIT))), False
        if len(b.remainders) == 1:
            # From the first to the last column with the remainder.
            ((d, shift),) = b.remainders
            lo = z.expr(z.div(linear(lo) + shift + d - 1, number(d)) * d - shift)
            hi = z.max(z.expr((z.div(linear(hi) + shift + d - 1, number(d)) - 1) * d - shift + 1), zero)
            lo, hi, is_open = z.narrow(lo), z.narrow(hi), False
        return None if z.le(hi, lo) else Interval(lo, hi, is_open)

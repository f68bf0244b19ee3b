"""Not trusted: a scalar test of a tile: may the mask hold somewhere in it?

Every integer gets a least and a greatest value over the tile: a row or column its first and last index, a tensor of
32-bit integers its least and greatest element among the lanes in range. ``x <= y`` may hold where the least x is at most
the greatest y. What cannot be told this way, or not in 32 bits, counts as "it may hold".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from neptune_verified.ir.expr import FALSE, TRUE, Axis, Const, Expr, Read, Size, Var, op, substitute, subterms, var
from neptune_verified.tile.forms import Linear, linear
from neptune_verified.tile.htile import first_of
from neptune_verified.tile.linear import LENGTH_LIMIT, Integers
from neptune_verified.tile.predicates import AtLeastZero, TooMany, alternatives, reads_tensor


@dataclass(frozen=True)
class Extreme:
    """The greatest ("max") or least ("min") element of a tensor among the tile's lanes in range."""

    reducer: str
    read: Expr


@dataclass(frozen=True)
class LiveTest:
    """``condition`` is TRUE where nothing can be told; ``extremes``: what its symbols stand for."""

    condition: Expr = TRUE
    extremes: dict[Var, Extreme] = field(default_factory=dict)


UNTOLD = LiveTest()


def live_test(
    p: Expr, columns: Axis, row: Axis | None, z: Integers, scalars: Mapping[Expr, Expr] | None = None
) -> LiveTest:
    """For the tile of ``columns`` that starts at ``first_of(columns)`` and the rows from ``z.first`` to ``z.last``.

    Loop bounds are assumed to leave out what ``p`` leaves out without a look at a tensor. ``scalars``: what stands in a
    tensor's index for symbols of ``p``."""
    try:
        found = [[c for c in a if isinstance(c, AtLeastZero)] for a in alternatives(p)]
    except TooMany:
        return UNTOLD
    if not found:
        return UNTOLD
    test = _Test(columns, row, z)
    shared = [c for c in found[0] if not reads_tensor(c.form) and all(c in a for a in found)]
    condition: Expr = FALSE
    for a in found:
        holds: Expr = TRUE
        for c in a:
            if c not in shared:
                holds = _and(holds, test.may(c.form))
        if holds is TRUE:
            return UNTOLD
        condition = holds if condition is FALSE else op("or", condition, holds)
    used = {
        x: Extreme(e.reducer, substitute(e.read, scalars or {}))
        for x, e in test.extremes.items()
        if x in subterms(condition)
    }
    return LiveTest(condition, used) if used else UNTOLD


def _and(x: Expr, y: Expr) -> Expr:
    if x is TRUE or y is TRUE:
        return y if x is TRUE else x
    return op("and", x, y)


class _Test:
    def __init__(self, columns: Axis, row: Axis | None, z: Integers) -> None:
        self.columns, self.row, self.z = columns, row, z
        self.extremes: dict[Var, Extreme] = {}
        start, block = first_of(columns), z.block
        assert block is not None
        z.know(start, (0, LENGTH_LIMIT - 1))
        self.start = start
        self.last = z.expr(linear(z.min(op("add", start, block), columns.extent)) - 1)

    def may(self, form: Linear) -> Expr:
        """``form >= 0`` may hold: its greatest value is not negative. The terms above 0 stand left, the others right."""
        alone: dict[bool, Expr] = {}
        rest = Linear(const=form.const)
        for t, c in form.terms.items():
            end = self._end(t, greatest=c > 0)
            if end is None:
                return TRUE
            lo, hi = self.z.span(end)
            if lo >= -LENGTH_LIMIT and hi <= LENGTH_LIMIT:
                rest = rest + linear(end) * c
            elif abs(c) == 1 and (c > 0) not in alone:
                alone[c > 0] = end  # any 32-bit number: a sum with it may not be one
            else:
                return TRUE
        return self._compare(alone.get(True), rest, alone.get(False))

    def _compare(self, left: Expr | None, rest: Linear, right: Expr | None) -> Expr:
        """``left + rest >= right``, with no number above 32 bits."""
        name = "gt" if rest.const < 0 else "ge"
        rest = rest + 1 if rest.const < 0 else rest
        if left is not None and right is not None:
            return op(name, left, right) if not rest.terms and not rest.const else TRUE
        if left is None and right is None:
            up = Linear({t: c for t, c in rest.terms.items() if c > 0}, max(rest.const, 0))
            x, y = self.z.expr(up), self.z.expr(up - rest)
        elif left is None:
            assert right is not None
            x, y = self.z.expr(rest), right
        else:
            x, y = left, self.z.expr(-rest)
        if x.dtype != "int32" or y.dtype != "int32":
            return TRUE
        return TRUE if name == "ge" and self.z.le(y, x) else op(name, x, y)

    def _end(self, t: Expr, greatest: bool) -> Expr | None:
        """The least or greatest value of a term; None where it is not known."""
        match t:
            case _ if t.dtype != "int32":
                return None
            case Const() | Size() | Var():
                return t
            case Axis() if t is self.columns:
                return self.last if greatest else self.start
            case Axis() if t is self.row:
                return self.z.last if greatest else self.z.first
            case Axis():
                return t
            case Read() if not {self.columns, self.row} <= t.free:
                extreme = Extreme("max" if greatest else "min", t)
                known = [s for s, e in self.extremes.items() if e == extreme]
                symbol = known[0] if known else var(f"extreme.{len(self.extremes)}", "int32")
                self.extremes[symbol] = extreme
                return symbol
            case _:
                return None

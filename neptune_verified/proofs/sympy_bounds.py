"""Trusted: bounds of SymPy expressions whose symbols lie in known intervals, in exact rationals.

``bounds`` encloses every value that the expression can take; where it has no rule, the enclosure is everything. It
shares nothing with ``ir.intervals``, so that the two routes of an obligation on ranges stay independent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sympy as sp

#: (lo, hi), each a SymPy Rational or an infinity.
Box = tuple[Any, Any]
EVERYTHING: Box = (-sp.oo, sp.oo)
_DIGITS = 50
_SLACK = sp.Rational(1, 10**40)


def bounds(e: Any, boxes: Mapping[Any, Box]) -> Box:
    lo, hi = _bounds(e, boxes)
    if e in boxes:
        lo, hi = max(lo, boxes[e][0]), min(hi, boxes[e][1])
    if e.is_nonnegative:
        lo = max(lo, sp.S.Zero)
    if e.is_nonpositive:
        hi = min(hi, sp.S.Zero)
    return lo, hi


def signs(e: Any, boxes: Mapping[Any, Box]) -> frozenset[int]:
    """The signs that the bounds leave."""
    lo, hi = bounds(e, boxes)
    return frozenset(s for s, can in ((-1, lo < 0), (0, lo <= 0 <= hi), (1, hi > 0)) if can)


def _bounds(e: Any, boxes: Mapping[Any, Box]) -> Box:
    if e.is_number:
        return _number(e)
    if e.is_Add:
        parts = [bounds(a, boxes) for a in e.args]
        return sum((p[0] for p in parts), sp.S.Zero), sum((p[1] for p in parts), sp.S.Zero)
    if e.is_Mul:
        result: Box = (sp.S.One, sp.S.One)
        for a in e.args:
            result = _product(result, bounds(a, boxes))
        return result
    if isinstance(e, sp.exp):
        lo, hi = bounds(e.args[0], boxes)
        return (sp.S.One if lo >= 0 else sp.S.Zero), (sp.S.One if hi <= 0 else sp.oo)
    if e.is_Pow and e.exp.is_Rational:
        return _power(bounds(e.base, boxes), e.exp)
    return EVERYTHING


def _number(e: Any) -> Box:
    if e.is_Rational:
        return e, e
    value = e.evalf(_DIGITS)
    if not value.is_Float:
        return EVERYTHING
    exact = sp.Rational(value)
    # Of a difference that is 0, all digits are noise.
    slack = max(abs(exact), sp.S.One) * _SLACK
    return exact - slack, exact + slack


def _times(x: Any, y: Any) -> Any:
    return sp.S.Zero if x == 0 or y == 0 else x * y


def _product(a: Box, b: Box) -> Box:
    corners = [_times(x, y) for x in a for y in b]
    return min(corners), max(corners)


def _power(base: Box, q: Any) -> Box:
    lo, hi = base
    if q < 0:
        below = _power(base, -q)
        if below[0] > 0:
            return (sp.S.Zero if below[1] == sp.oo else 1 / below[1]), 1 / below[0]
        return (sp.S.Zero, sp.oo) if below[0] == 0 else EVERYTHING
    if not q.is_Integer:
        if lo < 0:
            return EVERYTHING
        return _number(lo**q)[0], (hi if hi == sp.oo else _number(hi**q)[1])
    corners = [x**q for x in (lo, hi)]
    if q % 2 == 0 and lo <= 0 <= hi:
        corners.append(sp.S.Zero)
    return min(corners), max(corners)

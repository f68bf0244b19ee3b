"""Trusted: intervals of closed expressions of a program, from the declared bounds of its inputs and lengths.

A reduction's interval holds for the reduction over every part of its domain, except where ``complete`` is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from neptune_verified.ir import intervals as iv
from neptune_verified.ir.expr import FLOATS, INF, Axis, Const, Expr, Op, Read, Reduce, Size, substitute
from neptune_verified.ir.intervals import Bound, Interval, Range
from neptune_verified.ir.kinds import NEG, NINF, PINF, POS, UNDEF, ZERO, KindAnalysis, same_domain


class Intervals:
    """Intervals of expressions; ``given`` fixes those of symbols. ``analysis`` tells kinds and declared facts.

    ``fits``: values of the definition are taken to be in the range of their types (what O7 may assume)."""

    def __init__(self, analysis: KindAnalysis, given: Mapping[Expr, Range] | None = None, fits: bool = True) -> None:
        self.analysis, self.fits = analysis, fits
        self.memo: dict[Expr, Range] = dict(given or {})

    def of(self, e: Expr) -> Range:
        if e not in self.memo:
            found: Range = Interval(Fraction(0), Fraction(1))
            if e.dtype != "bool":
                found = iv.by_sign(self._of(e), self.analysis.of(e), e.dtype not in FLOATS)
            if found is not None and self.fits and e.dtype in FLOATS:
                found = found.meet(iv.representable(e.dtype))
            self.memo[e] = found
        return self.memo[e]

    def _of(self, e: Expr) -> Range:
        match e:
            case Const(value):
                return iv.point(Fraction(value)) if isinstance(value, Fraction | bool) else None
            case Size(name, dtype):
                return self._declared(name, dtype)
            case Axis(_, extent):
                return Interval(Fraction(0), iv.add(self.greatest(extent), Fraction(-1)))
            case Read(tensor, _, dtype):
                return self._declared(tensor, dtype)
            case Reduce(reducer, axes, body):
                return iv.reduced(reducer, self.of(body), self.count(axes), e.dtype)
            case Op("select", (condition, x, y)):
                return iv.select(condition, self.of(x), self.of(y), x, y)
            case Op(_, args):
                return iv.operation(e, [self.of(a) for a in args], [self.analysis.of(a) for a in args])
            case _:
                return iv.ANY

    def complete(self, e: Expr) -> Range:
        """The interval of a reduction over its whole domain: of a sum of terms >= 0 that holds the maximum (or minimum) of
        its own elements, the term at the element that attains it is a part. Such a sum is 0 where nothing was live."""
        r = self.of(e)
        if r is None or not isinstance(e, Reduce) or e.reducer != "sum":
            return r
        if not self.analysis.element_kinds(e) <= {ZERO, POS, UNDEF}:
            return r
        least = max((self._attained(e, m) for m in same_domain(e) if m.reducer in ("max", "min")), default=Fraction(0))
        return Interval(r.lo, r.hi, least) if 0 < least <= r.hi else r

    def _attained(self, e: Reduce, m: Reduce) -> Fraction:
        element = substitute(m.body, dict(zip(m.axes, e.axes, strict=True)))
        dead = NINF if m.reducer == "max" else PINF
        if self.analysis.of(m) & ({NINF, PINF} - {dead}):
            return Fraction(0)
        nothing = self.analysis.under({m: frozenset({dead}), element: frozenset({dead})})
        if dead in self.analysis.of(m) and not nothing.of(e.body) <= {ZERO, UNDEF}:
            return Fraction(0)
        there = substitute(e.body, {element: m})
        live = self.analysis.under({m: frozenset({NEG, ZERO, POS})})
        least = Intervals(live, {m: iv.ANY}, fits=False).of(there)
        return least.lo if least is not None and isinstance(least.lo, Fraction) else Fraction(0)

    def _declared(self, subject: str, dtype: str) -> Interval:
        result = iv.representable(dtype)
        bounded = self.analysis.facts.get((subject, "bounded"))
        if bounded is not None and bounded.value is not None:
            bound = Fraction(bounded.value)
            result = result.meet(Interval(-bound, bound))
        least = self.analysis.facts.get((subject, "at_least"))
        if least is not None and least.value is not None:
            result = result.meet(Interval(Fraction(least.value), INF))
        return result

    def greatest(self, extent: Expr) -> Bound:
        found = self.of(extent)
        return Fraction(0) if found is None else max(found.hi, Fraction(0))

    def count(self, axes: tuple[Axis, ...]) -> Bound:
        """The number of elements of a domain, at most."""
        result: Bound = Fraction(1)
        for a in axes:
            result = iv.mul(result, self.greatest(a.extent))
        return result

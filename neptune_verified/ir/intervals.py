"""Trusted: intervals that hold the finite values of expressions, in exact rationals with outward rounding.

An interval says: *if the value is defined and finite, it lies between lo and hi* (and, unless it is 0, its magnitude is at
least ``gap``). Which values can be infinite or undefined is the matter of ``ir.kinds``. Irrational results are computed
to 60 digits and widened by a relative 1e-40.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from mpmath.ctx_mp import MPContext

from neptune_verified.ir.expr import FLOATS, INF, Const, Expr, Op, int_limit
from neptune_verified.ir.kinds import FALSE, NEG, NINF, PINF, POS, TRUE, ZERO, Kinds

Bound = Fraction | float  # a rational, or -inf / +inf

#: The greatest finite value of each float type.
LARGEST: dict[str, Fraction] = {
    "float16": Fraction(65504),
    "bfloat16": Fraction(255 * 2**120),
    "float32": Fraction((2**24 - 1) * 2**104),
    "float64": Fraction((2**53 - 1) * 2**971),
}
#: The smallest positive value of each float type that every machine keeps (others may be taken for 0).
SMALLEST: dict[str, Fraction] = {
    "float16": Fraction(1, 2**14),
    "bfloat16": Fraction(1, 2**126),
    "float32": Fraction(1, 2**126),
    "float64": Fraction(1, 2**1022),
}
#: Beyond this no exponential is computed: it is far outside of every type, and its digits would be too many for a text.
_FAR = 2_000
#: Powers beyond this have no interval: their exact bounds would fill the memory.
_LARGEST_EXPONENT = 1_000
_CONTEXT = MPContext()
_CONTEXT.dps = 60
_WIDEN = Fraction(1, 10**40)


@dataclass(frozen=True, slots=True)
class Interval:
    lo: Bound
    hi: Bound
    gap: Fraction = Fraction(0)

    def __str__(self) -> str:
        return f"[{self.lo}, {self.hi}]"

    @property
    def nonzero(self) -> tuple[Interval, ...]:
        """Its parts below and above 0, each with the bound that the gap gives."""
        least = self.gap
        below = Interval(self.lo, min(self.hi, -least)) if self.lo < 0 else None
        above = Interval(max(self.lo, least), self.hi) if self.hi > 0 else None
        return tuple(part for part in (below, above) if part is not None and part.lo <= part.hi)

    def within(self, other: Interval) -> bool:
        return other.lo <= self.lo and self.hi <= other.hi

    def meet(self, other: Interval) -> Interval:
        lo, hi = max(self.lo, other.lo), min(self.hi, other.hi)
        return Interval(lo, hi, max(self.gap, other.gap)) if lo <= hi else Interval(lo, lo)


#: No finite value at all is None.
Range = Interval | None
ANY = Interval(-INF, INF)
UNIT = Interval(Fraction(-1), Fraction(1))


def representable(dtype: str) -> Interval:
    """The finite values of a type."""
    if dtype in LARGEST:
        return Interval(-LARGEST[dtype], LARGEST[dtype])
    if dtype == "bool":
        return Interval(Fraction(0), Fraction(1))
    low, high = (int_limit(dtype, k).value for k in (0, 1))
    return Interval(Fraction(low), Fraction(high))


def hull(*parts: Range) -> Range:
    some = [p for p in parts if p is not None]
    if not some:
        return None
    gaps = [_least_magnitude(p) for p in some if not (p.lo == 0 == p.hi)]
    return Interval(min(p.lo for p in some), max(p.hi for p in some), min(gaps, default=Fraction(0)))


def _least_magnitude(p: Interval) -> Fraction:
    away = p.lo if p.lo > 0 else -p.hi if p.hi < 0 else Fraction(0)
    return max(p.gap, away) if isinstance(away, Fraction) else p.gap


def point(x: Fraction | int) -> Interval:
    return Interval(Fraction(x), Fraction(x))


# ------------------------------------------------------------------------------------------------ bounds


def add(a: Bound, b: Bound) -> Bound:
    return a + b if isinstance(a, Fraction) and isinstance(b, Fraction) else a if isinstance(a, float) else b


def mul(a: Bound, b: Bound) -> Bound:
    if a == 0 or b == 0:
        return Fraction(0)
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a * b
    return INF if (a > 0) == (b > 0) else -INF


def _outward(x: Bound, fn: Callable[[object], object], up: bool) -> Bound:
    """``fn`` of a rational, rounded up or down."""
    assert isinstance(x, Fraction)
    value = fn(_CONTEXT.mpf(x.numerator) / x.denominator)
    sign, man, exp, _ = value._mpf_  # type: ignore[attr-defined]
    exact = Fraction(-int(man) if sign else int(man)) * Fraction(2) ** int(exp)
    return exact + abs(exact) * (_WIDEN if up else -_WIDEN)


def _exp(x: Bound, up: bool) -> Bound:
    if x == 0:
        return Fraction(1)
    if x > _FAR:
        return INF if up else Fraction(2) ** _FAR
    if x < -_FAR:
        return Fraction(1, 2**_FAR) if up else Fraction(0)
    return _outward(x, _CONTEXT.exp, up)


def _log(x: Bound, up: bool) -> Bound:
    if x <= 0:
        return -INF
    if x == 1:
        return Fraction(0)
    if isinstance(x, Fraction) and abs(x - 1) < Fraction(1, 2):
        return _outward(x - 1, _CONTEXT.log1p, up)  # x itself may round to 1
    return x if x == INF else _outward(x, _CONTEXT.log, up)


def _root(x: Bound, up: bool) -> Bound:
    if x <= 0:
        return Fraction(0)
    return x if x == INF else _outward(x, _CONTEXT.sqrt, up)


def _inverse(x: Bound) -> Bound:
    return Fraction(0) if isinstance(x, float) else 1 / x


# ------------------------------------------------------------------------------------------------ operations


def multiply(a: Interval, b: Interval) -> Interval:
    corners = [mul(x, y) for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return Interval(min(corners), max(corners), _least_magnitude(a) * _least_magnitude(b))


def times(a: Interval, n: Bound) -> Interval:
    """Sums of up to n values of ``a``."""
    if a.lo >= 0 or a.hi <= 0:
        return Interval(min(Fraction(0), mul(a.lo, n)), max(Fraction(0), mul(a.hi, n)), _least_magnitude(a))
    return Interval(mul(a.lo, n), mul(a.hi, n))


def reciprocal(a: Interval) -> Range:
    """1 / x; unbounded where x can come close to 0, no value where x is 0 alone."""
    parts = []
    for part in a.nonzero:
        lo = -INF if part.hi == 0 else _inverse(part.hi)
        hi = INF if part.lo == 0 else _inverse(part.lo)
        parts.append(Interval(lo, hi))
    return hull(*parts)


def power(a: Interval, q: Fraction) -> Range:
    """A constant exponent."""
    if q == 0:
        return point(1)
    if q < 0:
        positive = power(a, -q)
        return None if positive is None else reciprocal(positive)
    if q.denominator != 1:
        if a.hi < 0:
            return None
        low = _log(max(a.lo, Fraction(0)), False)
        lo = Fraction(0) if low == -INF else _exp(mul(low, q), False)
        high = _log(a.hi, True)
        return Interval(lo, Fraction(0) if high == -INF else _exp(mul(high, q), True))
    n = int(q)

    def raised(x: Bound) -> Bound:
        return Fraction(x**n) if isinstance(x, Fraction) else INF if x > 0 or n % 2 == 0 else -INF

    corners: list[Bound] = [raised(a.lo), raised(a.hi)]
    if n % 2 == 0 and a.lo <= 0 <= a.hi:
        corners.append(Fraction(0))
    return Interval(min(corners), max(corners), _least_magnitude(a) ** n)


def _magnitude(a: Interval) -> Interval:
    corners: list[Bound] = [max(x, -x) for x in (a.lo, a.hi)]
    lo: Bound = Fraction(0) if a.lo <= 0 <= a.hi else min(corners)
    return Interval(lo, max(corners), _least_magnitude(a))


def _unary(name: str, a: Interval) -> Range:
    match name:
        case "neg":
            return Interval(-a.hi, -a.lo, a.gap)
        case "abs":
            return _magnitude(a)
        case "exp":
            return Interval(_exp(a.lo, False), _exp(a.hi, True))
        case "exp2":
            b = multiply(a, Interval(_log(Fraction(2), False), _log(Fraction(2), True)))
            return Interval(_exp(b.lo, False), _exp(b.hi, True))
        case "log":
            return Interval(_log(a.lo, False), _log(a.hi, True)) if a.hi > 0 else None
        case "sqrt":
            return Interval(_root(a.lo, False), _root(a.hi, True)) if a.hi >= 0 else None
        case "rsqrt":
            root = _unary("sqrt", a)
            return None if root is None else reciprocal(root)
        case "sigmoid":
            return Interval(Fraction(0), Fraction(1))
        case "tanh" | "erf" | "sin" | "cos":
            return UNIT
        case "floor" | "ceil" | "round":
            return Interval(add(a.lo, Fraction(-1)), add(a.hi, Fraction(1)))
        case _:
            return ANY


#: Finite results of infinite arguments.
_LIMITS: dict[str, dict[str, int]] = {
    "exp": {NINF: 0},
    "exp2": {NINF: 0},
    "rsqrt": {PINF: 0},
    "sigmoid": {NINF: 0, PINF: 1},
    "tanh": {NINF: -1, PINF: 1},
    "erf": {NINF: -1, PINF: 1},
}


def operation(e: Op, ranges: list[Range], kinds: list[Kinds]) -> Range:
    """The interval of an operation (not a select) from those of its arguments and the kinds that they can have."""
    name = e.name
    if name in ("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not"):
        return Interval(Fraction(0), Fraction(1))
    if name == "cast":
        return _cast(e, ranges[0], kinds[0])
    if len(ranges) == 1:
        finite = _unary(name, ranges[0]) if ranges[0] is not None else None
        return hull(finite, *(point(v) for k, v in _LIMITS.get(name, {}).items() if k in kinds[0]))
    a, b = ranges
    infinite = [bool(k & {NINF, PINF}) for k in kinds]
    match name:
        case "max" | "min":
            return _extremum(name, a, b, kinds)
        case "div":
            return hull(_quotient(e, a, b), point(0) if infinite[1] else None)
        case "pow":
            return _general_power(e, a, b, any(infinite))
    if name in ("floordiv", "floormod") and infinite[1]:
        return ANY
    if a is None or b is None:
        return None
    match name:
        case "add":
            return Interval(add(a.lo, b.lo), add(a.hi, b.hi))
        case "sub":
            return point(0) if e.args[0] is e.args[1] else Interval(add(a.lo, -b.hi), add(a.hi, -b.lo))
        case "mul":
            return power(a, Fraction(2)) if e.args[0] is e.args[1] else multiply(a, b)
        case "floordiv" | "floormod" if isinstance(e.args[1], Const) and 0 < e.args[1].value < INF:
            d = Fraction(e.args[1].value)
            if name == "floormod":
                return Interval(Fraction(0), d)
            return Interval(add(mul(a.lo, 1 / d), Fraction(-1)), mul(a.hi, 1 / d))
        case _:
            return ANY


def _cast(e: Op, a: Range, kinds: Kinds) -> Range:
    if kinds & {TRUE, FALSE}:
        return Interval(Fraction(0), Fraction(1))
    if e.dtype not in FLOATS and kinds & {NINF, PINF}:
        return ANY  # what an infinity becomes is the machine's choice
    if a is None or e.dtype in FLOATS:
        return a
    return Interval(add(a.lo, Fraction(-1)), add(a.hi, Fraction(1)))


def _quotient(e: Op, a: Range, b: Range) -> Range:
    if a is None or b is None:
        return None
    if e.dtype not in FLOATS:
        return ANY
    below = reciprocal(b)
    return None if below is None else multiply(a, below)


def _extremum(name: str, a: Range, b: Range, kinds: list[Kinds]) -> Range:
    pick = max if name == "max" else min
    lost = NINF if name == "max" else PINF
    parts: list[Range] = []
    if a is not None and b is not None:
        parts.append(Interval(pick(a.lo, b.lo), pick(a.hi, b.hi), min(_least_magnitude(a), _least_magnitude(b))))
    parts += [mine for mine, other in ((a, 1), (b, 0)) if lost in kinds[other]]
    return hull(*parts)


def _general_power(e: Op, a: Range, b: Range, infinite: bool) -> Range:
    exponent = e.args[1]
    if isinstance(exponent, Const) and isinstance(exponent.value, Fraction):
        limit = point(int(exponent.value == 0)) if infinite and exponent.value <= 0 else None
        if abs(exponent.value) > _LARGEST_EXPONENT:
            return ANY
        return hull(None if a is None else power(a, exponent.value), limit)
    if infinite or a is None or b is None:
        return ANY
    if a.lo >= 0 and a.hi <= 1 and b.lo >= 0:
        return Interval(Fraction(0), Fraction(1))
    if a.lo <= 0:
        return ANY
    logs = Interval(_log(a.lo, False), _log(a.hi, True))
    product = multiply(logs, b)
    return Interval(_exp(product.lo, False), _exp(product.hi, True))


def reduced(reducer: str, body: Range, n: Bound, dtype: str) -> Range:
    """A reduction of any number of values up to n."""
    match reducer:
        case "sum":
            return point(0) if body is None else times(body, n)
        case "max" | "min":
            if dtype in FLOATS:
                return body
            neutral = representable(dtype)
            return hull(
                body, Interval(neutral.lo, neutral.lo) if reducer == "max" else Interval(neutral.hi, neutral.hi)
            )
        case "prod":
            if body is None:
                return point(1)
            if not body.within(UNIT):
                return ANY
            return UNIT if body.lo < 0 else Interval(Fraction(body.lo == 1), Fraction(1))
        case "logaddexp":
            return None if body is None else Interval(body.lo, add(body.hi, _log(max(n, Fraction(1)), True)))
        case _:
            return Interval(Fraction(0), Fraction(1))


def by_sign(r: Range, kinds: Kinds, whole: bool = False) -> Range:
    """What the possible signs add; ``whole``: of integers."""
    finite = kinds & {NEG, ZERO, POS}
    if r is None or not finite:
        return None
    least = Fraction(0 if ZERO in finite or not whole else 1)
    lo = max(r.lo, least) if NEG not in finite else r.lo
    hi = min(r.hi, -least) if POS not in finite else r.hi
    return Interval(lo, hi, r.gap) if lo <= hi else point(0)


def select(condition: Expr, x: Range, y: Range, first: Expr, second: Expr) -> Range:
    """Hull of the branches, each narrowed where the condition compares it with a number."""
    return hull(narrowed(x, first, condition, True), narrowed(y, second, condition, False))


def narrowed(r: Range, e: Expr, condition: Expr, truth: bool) -> Range:
    """The interval of ``e`` where the condition has this truth."""
    match condition:
        case Op("not", (inner,)):
            return narrowed(r, e, inner, not truth)
        case Op("or" | "and" as name, (p, q)) if (name == "and") == truth:
            return narrowed(narrowed(r, e, p, truth), e, q, truth)
        case Op(name, (tested, Const(Fraction() as value))) if tested is e and r is not None:
            name = name if truth else _OPPOSITE.get(name, "")
            if value == 0 and name == "ne":
                return hull(*r.nonzero)
            lo = value if name in ("eq", "ge", "gt") else -INF
            hi = value if name in ("eq", "le", "lt") else INF
            return r if lo > r.hi or hi < r.lo else r.meet(Interval(lo, hi))
        case _:
            return r


_OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


def rational_above(x: Bound) -> Bound:
    """A short rational >= x: provers are given no number of hundreds of digits."""
    if not isinstance(x, Fraction) or (x.denominator == 1 and x.numerator.bit_length() <= 64):
        return x
    if x == 0:
        return x
    shift = 24 - (x.numerator.bit_length() - x.denominator.bit_length())
    scaled = x * Fraction(2) ** shift
    return Fraction(math.ceil(scaled)) / Fraction(2) ** shift


def short(r: Interval) -> Interval:
    """A wider interval with short bounds; the gap says no more than these, since it is not stated beside them."""
    lo, hi = -rational_above(-r.lo), rational_above(r.hi)
    away = lo if lo > 0 else -hi
    return Interval(lo, hi, min(r.gap, away) if isinstance(away, Fraction) and away > 0 else r.gap)

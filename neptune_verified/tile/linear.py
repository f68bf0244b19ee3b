"""Not trusted: integer arithmetic for loop bounds: linear forms, ranges, and a small prover of ``x <= y``.

Bounds are expressions over lengths, scalar arguments, program indices, and the symbols of a tile: ``first`` and ``last``
(the first and last row that the tile has, 0 <= first <= last < the axis's extent) and ``block`` (its number of columns).
Triton's ``//`` truncates, so every ``floordiv`` that is built here has an argument >= 0 and a divisor > 0. What may
leave 32 bits is computed in 64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from neptune_verified.ir.expr import INTS, Axis, Const, Expr, Op, Size, const, op

#: Lengths are below this, so that a length plus a tile fits into 32 bits.
LENGTH_LIMIT = 2**31 - 4096
BLOCK_LIMIT = 4096
_LOW, _HIGH = -(2**31), 2**31 - 1
Span = tuple[int, int]


def number(n: int, dtype: str = "int32") -> Const:
    return const(n, dtype)


@dataclass(frozen=True)
class Linear:
    """``const + sum of coefficient * term``; no coefficient is 0."""

    terms: dict[Expr, int] = field(default_factory=dict)
    const: int = 0

    def __add__(self, other: Linear | int) -> Linear:
        if isinstance(other, int):
            return Linear(self.terms, self.const + other)
        terms = dict(self.terms)
        for t, c in other.terms.items():
            terms[t] = terms.get(t, 0) + c
        return Linear({t: c for t, c in terms.items() if c}, self.const + other.const)

    def __mul__(self, n: int) -> Linear:
        return Linear({t: c * n for t, c in self.terms.items() if n}, self.const * n)

    def __neg__(self) -> Linear:
        return self * -1

    def __sub__(self, other: Linear | int) -> Linear:
        return self + (-other)

    def without(self, terms: Iterable[Expr]) -> Linear:
        dropped = set(terms)
        return Linear({t: c for t, c in self.terms.items() if t not in dropped}, self.const)


def linear(e: Expr) -> Linear:
    """``e`` as a linear form; what is not linear is a term of its own."""
    match e:
        case Const(value):
            return Linear(const=int(value))
        case Op("add", (x, y)):
            return linear(x) + linear(y)
        case Op("sub", (x, y)):
            return linear(x) - linear(y)
        case Op("neg", (x,)):
            return -linear(x)
        case Op("mul", (x, y)):
            a, b = linear(x), linear(y)
            if not a.terms:
                return b * a.const
            return a * b.const if not b.terms else Linear({e: 1})
        case Op("cast", (x,)) if x.dtype in INTS and e.dtype in ("int32", "int64"):
            return linear(x)
        case _:
            return Linear({e: 1})


class Integers:
    """Builds bounds. ``spans`` gives the range of a length or scalar; ``first``, ``last`` are the rows of the tile and
    ``extent`` the length that they are below."""

    def __init__(
        self,
        spans: Callable[[Size], Span],
        first: Expr | None = None,
        last: Expr | None = None,
        extent: Expr | None = None,
        block: Expr | None = None,
    ) -> None:
        self.spans, self.first, self.last, self.extent, self.block = spans, first, last, extent, block
        self._le: dict[tuple[Expr, Expr], bool] = {}

    # -- ranges ----------------------------------------------------------------------------------------------

    def span(self, e: Expr) -> Span:
        match e:
            case Const(value):
                return int(value), int(value)
            case Size():
                return self.spans(e)
            case Axis():
                return 0, LENGTH_LIMIT - 1
            case _ if e is self.first or e is self.last:
                return 0, LENGTH_LIMIT - 1
            case _ if e is self.block:
                return 1, BLOCK_LIMIT
            case Op("max", (x, y)):
                a, b = self.span(x), self.span(y)
                return max(a[0], b[0]), max(a[1], b[1])
            case Op("min", (x, y)):
                a, b = self.span(x), self.span(y)
                return min(a[0], b[0]), min(a[1], b[1])
            case Op("mul", (Op("floordiv", (x, c)), d)) if c is d and self.span(x)[0] >= 0:
                return 0, self.span(x)[1]
            case Op("mul", (x, y)):
                corners = [p * q for p in self.span(x) for q in self.span(y)]
                return min(corners), max(corners)
            case Op("floordiv", (x, c)) if self.span(c)[0] > 0:
                corners = [p // q for p in self.span(x) for q in self.span(c)]
                return min(corners), max(corners)
            case Op("cast", (x,)):
                lo, hi = self.span(x)
                return (lo, hi) if e.dtype != "int32" else (max(lo, _LOW), min(hi, _HIGH))
            case Op("add" | "sub" | "neg"):
                return self.span_of(linear(e))
            case _:
                return _LOW, _HIGH

    def span_of(self, x: Linear) -> Span:
        lo = hi = x.const
        for t, c in x.terms.items():
            a, b = self.span(t)
            lo, hi = lo + min(a * c, b * c), hi + max(a * c, b * c)
        return lo, hi

    # -- order -----------------------------------------------------------------------------------------------

    def nonnegative(self, x: Linear) -> bool:
        """A sufficient test. Differences: last = first + d1, extent = last + 1 + d2 with d1, d2 >= 0."""
        terms = dict(x.terms)
        lowest = x.const
        if self.extent in terms and self.last is not None:
            c = terms.pop(self.extent)
            if c < 0:
                return False
            # c * extent = c * (last + 1) + c * d2; it is also c * its least value.
            least = {**terms, self.last: terms.get(self.last, 0) + c}
            if self.nonnegative(Linear({t: k for t, k in least.items() if k}, lowest + c)):
                return True
            return self.span_of(x)[0] >= 0
        if self.last in terms and self.first is not None:
            c = terms.pop(self.last)
            if c > 0:
                terms[self.first] = terms.get(self.first, 0) + c
            else:
                terms[self.last] = c
        terms = {t: c for t, c in terms.items() if c}
        return self.span_of(Linear(terms, lowest))[0] >= 0

    def le(self, x: Expr, y: Expr) -> bool:
        """``x <= y``, if that is easily seen."""
        key = (x, y)
        if key not in self._le:
            self._le[key] = False
            self._le[key] = self._less(x, y)
        return self._le[key]

    def _less(self, x: Expr, y: Expr) -> bool:
        if x is y:
            return True
        match x, y:
            case Op("cast", (a,)), _ if self._harmless(x):
                return self.le(a, y)
            case _, Op("cast", (b,)) if self._harmless(y):
                return self.le(x, b)
            case Op("max", (a, b)), _:
                return self.le(a, y) and self.le(b, y)
            case _, Op("min", (a, b)):
                return self.le(x, a) and self.le(x, b)
        if isinstance(x, Op) and x.name == "min" and any(self.le(a, y) for a in x.args):
            return True
        if isinstance(y, Op) and y.name == "max" and any(self.le(x, b) for b in y.args):
            return True
        match x, y:
            case Op("floordiv", (a, c)), Op("floordiv", (b, d)) if c is d:
                return self.le(a, b)
            case Op("mul", (a, c)), Op("mul", (b, d)) if c is d and self.span(c)[0] >= 0:
                return self.le(a, b)
        a, b = linear(x), linear(y)
        # s + c <= t + d where s <= t and c <= d
        for s, t in ((s, t) for s, n in a.terms.items() for t, k in b.terms.items() if n == k == 1):
            if isinstance(s, Op) and isinstance(t, Op) and (s, t) != (x, y) and self.le(s, t):
                if self.nonnegative(b.without([t]) - a.without([s])):
                    return True
        return self.nonnegative(b - a)

    def _harmless(self, e: Expr) -> bool:
        assert isinstance(e, Op)
        lo, hi = self.span(e.args[0])
        return e.dtype == "int64" or (lo >= _LOW and hi <= _HIGH)

    # -- building --------------------------------------------------------------------------------------------

    def expr(self, x: Linear) -> Expr:
        """The sum, in 64 bits where a partial sum may leave 32."""
        order = sorted(x.terms.items(), key=lambda tc: tc[1] < 0)
        if not order:
            return number(x.const)
        total, fits = Linear(), all(t.dtype == "int32" for t, _ in order)
        for t, c in order:
            scaled = self.span_of(Linear({t: c}))
            total = total + Linear({t: c})
            for lo, hi in (scaled, self.span_of(total)):
                fits = fits and lo >= _LOW and hi <= _HIGH
        lo, hi = self.span_of(x)
        fits = fits and lo >= _LOW and hi <= _HIGH
        dtype = "int32" if fits else "int64"
        result: Expr | None = None
        for t, c in order:
            t = op("cast", t, dtype=dtype)
            part = t if abs(c) == 1 else op("mul", t, number(abs(c), dtype))
            if result is None:
                result = part if c > 0 else op("neg", part)
            else:
                result = op("add" if c > 0 else "sub", result, part)
        assert result is not None
        if x.const:
            result = op("add" if x.const > 0 else "sub", result, number(abs(x.const), dtype))
        return result

    def _same(self, x: Expr, y: Expr) -> tuple[Expr, Expr]:
        if x.dtype == y.dtype:
            return x, y
        return self._wide(x), self._wide(y)

    @staticmethod
    def _wide(x: Expr) -> Expr:
        return const(x.value, "int64") if isinstance(x, Const) else op("cast", x, dtype="int64")

    def max(self, x: Expr, y: Expr) -> Expr:
        if self.le(x, y):
            return y
        return x if self.le(y, x) else op("max", *self._same(x, y))

    def min(self, x: Expr, y: Expr) -> Expr:
        if self.le(x, y):
            return x
        return y if self.le(y, x) else op("min", *self._same(x, y))

    def narrow(self, x: Expr) -> Expr:
        """In 32 bits; the caller has clamped the value."""
        if isinstance(x, Op) and x.name == "cast" and x.args[0].dtype == "int32":
            return x.args[0]
        return x if x.dtype == "int32" else op("cast", x, dtype="int32")

    def div(self, x: Linear, divisor: Expr) -> Linear:
        """Floor division by a positive divisor, of any number: for a negative one, -ceil(-x / divisor)."""
        if isinstance(divisor, Const):
            d = int(divisor.value)
            if d == 1:
                return x
            if not x.terms:
                return Linear(const=x.const // d)
        if self.nonnegative(x):
            return Linear({self._quotient(self.expr(x), divisor): 1})
        zero = number(0)
        up = self.max(self.expr(x), zero)
        down = self.expr(linear(self.max(self.expr(-x), zero)) + linear(divisor) - 1)
        return Linear({self._quotient(up, divisor): 1}) + Linear({self._quotient(down, divisor): -1})

    def _quotient(self, x: Expr, divisor: Expr) -> Expr:
        x, divisor = self._same(x, divisor)
        return op("floordiv", x, divisor)

    def times(self, x: Linear, factor: Expr) -> Linear:
        """The product with an expression, term by term."""
        if isinstance(factor, Const):
            return x * int(factor.value)
        result = Linear({factor: x.const} if x.const else {})
        for t, c in x.terms.items():
            result = result + Linear({op("mul", *self._same(t, factor)): c})
        return result

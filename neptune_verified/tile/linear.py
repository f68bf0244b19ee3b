"""Not trusted: integer arithmetic for loop bounds: linear forms, ranges, and a small prover of ``x <= y``.

Bounds are expressions over lengths, scalar arguments, program indices, and the symbols of a tile: ``first`` and ``last``
(the first and last row that the tile has, 0 <= first <= last < the axis's extent) and ``block`` (its number of columns).
Triton's ``//`` truncates, so every ``floordiv`` that is built here has an argument >= 0 and a divisor > 0. What may
leave 32 bits is computed in 64.
"""

from __future__ import annotations

from collections.abc import Callable

from neptune_verified.ir.expr import Axis, Const, Expr, Op, Size, const, op
from neptune_verified.tile.forms import Linear, linear, number

#: Lengths are below this, so that a length plus a tile fits into 32 bits.
LENGTH_LIMIT = 2**31 - 4096
BLOCK_LIMIT = 4096
_LOW, _HIGH = -(2**31), 2**31 - 1
Span = tuple[int, int]


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
        self._spans: dict[Expr, Span] = {}
        self._forms: dict[Expr, Linear] = {}

    # -- ranges ----------------------------------------------------------------------------------------------

    def form(self, e: Expr) -> Linear:
        if e not in self._forms:
            self._forms[e] = linear(e)
        return self._forms[e]

    def span(self, e: Expr) -> Span:
        if e not in self._spans:
            self._spans[e] = self._span(e)
        return self._spans[e]

    def _span(self, e: Expr) -> Span:
        match e:
            case Const(value):
                return int(value), int(value)
            case Size():
                return self.spans(e)
            case Axis():
                return 0, LENGTH_LIMIT - 1
            case _ if e is self.first or e is self.last:
                return 0, (int(self.extent.value) if isinstance(self.extent, Const) else LENGTH_LIMIT) - 1
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
                # (y + c) // c is y // c + 1
                form = self.form(x)
                more = form.terms.get(c, 0)
                corners = [p // q for p in self.span_of(form.without([c])) for q in self.span(c)]
                return min(corners) + more, max(corners) + more
            case Op("cast", (x,)):
                lo, hi = self.span(x)
                return (lo, hi) if e.dtype != "int32" else (max(lo, _LOW), min(hi, _HIGH))
            case Op("add" | "sub" | "neg"):
                return self.span_of(self.form(e))
            case _:
                return _LOW, _HIGH

    def span_of(self, x: Linear) -> Span:
        lo = hi = x.const
        terms = dict(x.terms)
        if (row := self._row_of(terms)) is not None:  # row - extent <= -1
            c = terms.pop(row)
            terms[self.extent] += c  # type: ignore[index]
            lo, hi = lo - c * LENGTH_LIMIT, hi - c
        for t, c in terms.items():
            a, b = self.span(t)
            lo, hi = lo + min(a * c, b * c), hi + max(a * c, b * c)
        return lo, hi

    def _row_of(self, terms: dict[Expr, int]) -> Expr | None:
        """A row of the tile that the extent is subtracted from."""
        if self.extent is None or terms.get(self.extent, 0) >= 0:
            return None
        rows = [r for r in (self.last, self.first) if r is not None and 0 < terms.get(r, 0) <= -terms[self.extent]]
        return rows[0] if rows else None

    def know(self, symbol: Expr, span: Span) -> None:
        """``symbol`` lies in the range."""
        self._spans[symbol] = span

    # -- order -----------------------------------------------------------------------------------------------

    def nonnegative(self, x: Linear) -> bool:
        """A sufficient test, by differences: last = first + d1, extent = last + 1 + d2 with d1, d2 >= 0."""
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
            case Op("floordiv", (a, c)), Op("floordiv", (b, d)) if c is d and self.le(a, b):
                return True
            case Op("mul", (a, c)), Op("mul", (b, d)) if c is d and self.span(c)[0] >= 0 and self.le(a, b):
                return True
        return self._less_by_terms(x, y) or self._less_by_parts(x, y)

    def _less_by_terms(self, x: Expr, y: Expr) -> bool:
        a, b = self.form(x), self.form(y)
        # n * s + c <= n * t + d where s <= t and c <= d
        for s, t in ((s, t) for s, n in a.terms.items() for t, k in b.terms.items() if n == k > 0):
            fits = isinstance(s, Op) and s is not t and (s, t) != (x, y) and self.le(s, t)
            if fits and self.nonnegative(b.without([t]) - a.without([s])):
                return True
        return self.nonnegative(b - a)

    def _less_by_parts(self, x: Expr, y: Expr) -> bool:
        match x, y:
            case Op("max", (a, b)), _:
                return self.le(a, y) and self.le(b, y)
            case _, Op("min", (a, b)):
                return self.le(x, a) and self.le(x, b)
        if isinstance(x, Op) and x.name == "min" and any(self.le(a, y) for a in x.args):
            return True
        return isinstance(y, Op) and y.name == "max" and any(self.le(x, b) for b in y.args)

    @staticmethod
    def _harmless(e: Expr) -> bool:
        """A cast that keeps the value: to 64 bits, or of a clamped value to 32 (``narrow`` makes no other)."""
        return isinstance(e, Op) and e.dtype in ("int64", "int32")

    # -- building --------------------------------------------------------------------------------------------

    def expr(self, x: Linear) -> Expr:
        """The sum, in 64 bits where a partial sum may leave 32."""
        order: list[tuple[Expr | None, int]] = sorted(x.terms.items(), key=lambda tc: tc[1] < 0)
        if not order:
            return number(x.const)
        if (row := self._row_of(x.terms)) is not None and x.terms[row] == 1 and x.terms[self.extent] == -1:  # type: ignore[index]
            # The row less the extent first: that is negative, so the rest may be a length.
            order = [tc for tc in order if tc[0] in (row, self.extent)] + [
                tc for tc in order if tc[0] not in (row, self.extent)
            ]
        if x.const:
            order.insert(1 if x.const < 0 else len(order), (None, x.const))  # a constant < 0 early, the sums stay small
        total, fits = Linear(), all(t is None or t.dtype == "int32" for t, _ in order)
        for t, c in order:
            part = Linear(const=c) if t is None else Linear({t: c})
            total = total + part
            fits = fits and all(lo >= _LOW and hi <= _HIGH for lo, hi in (self.span_of(part), self.span_of(total)))
        dtype = "int32" if fits else "int64"
        result: Expr | None = None
        for t, c in order:
            if t is None:
                term: Expr = number(abs(c), dtype)
            else:
                term = op("cast", t, dtype=dtype)
                term = term if abs(c) == 1 else op("mul", term, number(abs(c), dtype))
            if result is None:
                result = term if c > 0 else op("neg", term)
            else:
                result = op("add" if c > 0 else "sub", result, term)
        assert result is not None
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
        if isinstance(divisor, Const) and divisor.value == 1:
            return x
        if not x.terms and (isinstance(divisor, Const) or x.const == 0):
            return Linear(const=x.const // int(divisor.value) if isinstance(divisor, Const) else 0)
        whole = self._multiple(x, divisor)
        rest = x - self.times(whole, divisor)
        known = self.nonnegative(rest) if isinstance(divisor, Const) else False
        if (whole.terms or whole.const) and (known or not self.nonnegative(x)):
            return self.div(rest, divisor) + whole
        if self.nonnegative(x):
            return Linear({self._quotient(self.expr(x), divisor): 1})
        zero = number(0)
        up = self.max(self.expr(x), zero)
        down = self.expr(self.form(self.max(self.expr(-x), zero)) + self.form(divisor) - 1)
        return Linear({self._quotient(up, divisor): 1}) + Linear({self._quotient(down, divisor): -1})

    def _multiple(self, x: Linear, divisor: Expr) -> Linear:
        """A part of x / divisor that is a whole number in any case."""
        if not isinstance(divisor, Const):
            return Linear(const=x.terms.get(divisor, 0))
        d = int(divisor.value)
        return Linear({t: c // d for t, c in x.terms.items() if c % d == 0}, x.const // d)

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

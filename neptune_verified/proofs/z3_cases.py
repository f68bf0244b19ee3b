"""Trusted: the Z3 route's lowering: each expression becomes a list of guarded cases.

A case is (guard, value). Guards of one list exclude each other and cover everything. A value is undefined, -inf, +inf,
a polynomial, a truth value, or *opaque*: something that this route cannot express. An opaque value that matters makes a
statement unproved, never proved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from neptune_verified.ir.expr import FLOATS, INTS, Const, Expr, Op, Var
from neptune_verified.proofs import z3_poly as P
from neptune_verified.proofs.statement import BOOL_KINDS, NUMBER_KINDS, Symbol
from neptune_verified.proofs.z3_guards import Case, Guard, Sign, Signs, Value, meet, merged

UNDEFINED: Value = ("undefined",)


def opaque(reason: str) -> Value:
    return ("opaque", reason)


class TooManyCases(Exception):
    """The split is larger than the limit."""


def real(p: P.Poly) -> Value:
    return ("real", p)


def inf(sign: int) -> Value:
    return ("inf", sign)


def boolean(b: bool) -> Value:
    return ("bool", b)


@dataclass(frozen=True, slots=True)
class Term:
    """A symbol as the route sees it: its position, kinds and possible finite signs."""

    position: int
    kinds: tuple[str, ...]
    signs: frozenset[Sign]


SIGN_OF_KIND = {"neg": -1, "zero": 0, "pos": 1}


class Lowering(Signs):
    """Cases of expressions over the given symbols."""

    def __init__(self, symbols: Sequence[Symbol], limit: int) -> None:
        self.terms: dict[Var, Term] = {}
        for k, s in enumerate(symbols):
            if not s.kinds <= set(BOOL_KINDS if s.var.dtype == "bool" else NUMBER_KINDS):
                raise ValueError(f"{s.var.name} has kinds of another type")
            signs = frozenset(SIGN_OF_KIND[x] for x in s.kinds if x in SIGN_OF_KIND)
            self.terms[s.var] = Term(k, tuple(sorted(s.kinds)), signs)
        if len(self.terms) < len(symbols):
            raise ValueError("a symbol is quantified twice")
        super().__init__([t.signs for t in self.terms.values()])
        self.limit = limit
        self.memo: dict[Expr, list[Case]] = {}

    def cases(self, e: Expr) -> list[Case]:
        if e not in self.memo:
            found = merged(self.lower(e))
            if len(found) > self.limit:
                raise TooManyCases(f"{len(found)} cases")
            self.memo[e] = found
        return self.memo[e]

    def lower(self, e: Expr) -> list[Case]:
        match e:
            case Const(value, dtype):
                if dtype == "bool":
                    return [({}, boolean(bool(value)))]
                if isinstance(value, float):
                    return [({}, inf(1 if value > 0 else -1))]
                return [({}, real(P.number(Fraction(value))))]
            case Var() if e in self.terms:
                return self.symbol(self.terms[e])
            case Op("select", (c, x, y)):
                return self.select(self.cases(c), x, y)
            case Op("cast", (x,), dtype):
                return self.one(x, lambda g, v: self.cast(g, v, x.dtype, dtype))
            case Op("exp2", (x,)):
                return self.one(x, lambda g, v: self.exp(self.exact("mul", real(P.log_integer(2)), v, g)))
            case Op(name, (x,)):
                return self.one(x, lambda g, v: self.unary(name, g, v))
            case Op(name, (x, y)):
                return self.two(name, self.cases(x), self.cases(y), x.dtype)
            case _:
                return [({}, opaque(f"{type(e).__name__} {getattr(e, 'name', '')}".strip()))]

    def symbol(self, t: Term) -> list[Case]:
        if "true" in t.kinds or "false" in t.kinds:
            return [({("truth", t.position): frozenset((k,))}, boolean(k == "true")) for k in t.kinds]
        result: list[Case] = []
        outcomes = ["finite"] * bool(t.signs) + [k for k in ("-inf", "+inf") if k in t.kinds]
        for k in outcomes:
            guard: Guard = {("kind", t.position): frozenset((k,))} if len(outcomes) > 1 else {}
            finite = P.atom(("s", t.position)) if t.signs != {0} else ()
            result.append((guard, real(finite) if k == "finite" else inf(1 if k == "+inf" else -1)))
        return result

    def one(self, x: Expr, fn: Callable[[Guard, Value], Iterable[Case]]) -> list[Case]:
        result: list[Case] = []
        for guard, value in self.cases(x):
            if value[0] in ("undefined", "opaque"):
                result.append((guard, value))
            else:
                result.extend(fn(guard, value))
        return result

    def two(self, name: str, xs: list[Case], ys: list[Case], dtype: str) -> list[Case]:
        result: list[Case] = []
        for gx, x in xs:
            for gy, y in ys:
                guard = meet(gx, gy)
                if guard is None:
                    continue
                if x == UNDEFINED or y == UNDEFINED:
                    result.append((guard, UNDEFINED))
                elif x[0] == "opaque" or y[0] == "opaque":
                    result.append((guard, x if x[0] == "opaque" else y))
                else:
                    result.extend(self.binary(name, guard, x, y, dtype))
            if len(result) > 4 * self.limit:
                raise TooManyCases(f"{len(result)} cases")
        return result

    def select(self, conditions: list[Case], x: Expr, y: Expr) -> list[Case]:
        result: list[Case] = []
        for guard, c in conditions:
            if c[0] != "bool":
                result.append((guard, c))
                continue
            for g, value in self.cases(x if c[1] else y):
                both = meet(guard, g)
                if both is not None:
                    result.append((both, value))
        return result

    # ------------------------------------------------------------------------------------------ operations

    def unary(self, name: str, g: Guard, v: Value) -> Iterable[Case]:
        p: P.Poly = v[1] if v[0] == "real" else ()  # type: ignore[assignment]
        finite = v[0] == "real"
        if name == "not":
            return [(g, boolean(not v[1]))]
        if name == "neg":
            return [(g, real(P.scale(p, Fraction(-1))) if finite else inf(-v[1]))]  # type: ignore[operator]
        if name == "abs":
            if not finite:
                return [(g, inf(1))]
            return [(h, real(P.scale(p, Fraction((-1, 1)[k])))) for h, k in self.split(p, g, (-1,), (0, 1))]
        if name == "exp":
            return self.exp([(g, v)])
        if name == "log":
            return self.log(g, v)
        if name == "sqrt":
            return self.power(g, v, Fraction(1, 2))
        if name == "rsqrt":
            return self.power(g, v, Fraction(-1, 2))
        if name == "sigmoid":
            return self.sigmoid(g, v)
        return [(g, opaque(name))]

    def exp(self, cases: Iterable[Case]) -> list[Case]:
        result: list[Case] = []
        for g, v in cases:
            if v[0] == "real":
                v = attempt(lambda p=v[1]: P.exp(p))  # type: ignore[misc]
            elif v[0] == "inf":
                v = inf(1) if v[1] == 1 else real(())
            result.append((g, v))
        return result

    def log(self, g: Guard, v: Value) -> list[Case]:
        if v[0] == "inf":
            return [(g, v if v[1] == 1 else UNDEFINED)]
        p: P.Poly = v[1]  # type: ignore[assignment]
        result: list[Case] = []
        for h, k in self.split(p, g, (-1,), (0,), (1,)):
            value = (UNDEFINED, inf(-1), None)[k]
            result.append((h, value or attempt(lambda: P.log(p, self.positive(h)))))  # noqa: B023
        return result

    def sigmoid(self, g: Guard, v: Value) -> list[Case]:
        result: list[Case] = []
        for h, e in self.exp(self.unary("neg", g, v)):
            for i, total in self.exact("add", real(P.number(1)), e, h):
                result.extend(self.binary("div", i, real(P.number(1)), total, "float32"))
        return result

    def cast(self, g: Guard, v: Value, source: str, target: str) -> Iterable[Case]:
        if target == "bool":
            if v[0] == "inf":
                return [(g, boolean(True))]
            return [(h, boolean(k == 0)) for h, k in self.split(v[1], g, (-1, 1), (0,))]  # type: ignore[arg-type]
        if source == "bool":
            return [(g, real(P.number(int(v[1]))))]  # type: ignore[call-overload]
        return [(g, v if target in FLOATS or source in INTS else opaque(f"cast to {target}"))]

    def binary(self, name: str, g: Guard, x: Value, y: Value, dtype: str) -> Iterable[Case]:
        if name in ("and", "or"):
            return [(g, boolean(bool(x[1] and y[1]) if name == "and" else bool(x[1] or y[1])))]
        if x[0] == "bool":
            known = {"eq": x == y, "ne": x != y}
            return [(g, boolean(known[name]) if name in known else opaque(f"{name} of truth values"))]
        if name in COMPARE:
            return [(h, boolean(s in COMPARE[name])) for h, s in self.difference(g, x, y, COMPARE[name])]
        if name in ("max", "min"):
            first = (0, 1) if name == "max" else (-1, 0)
            return [(h, x if s in first else y) for h, s in self.difference(g, x, y, first)]
        if name == "pow":
            return self.pow(g, x, y)
        if name == "div" and dtype not in INTS:
            return self.div(g, x, y)
        if name in ("add", "sub", "mul"):
            return self.exact(name, x, y, g)
        return [(g, opaque(name))]

    def difference(self, g: Guard, x: Value, y: Value, group: tuple[int, ...]) -> Iterator[tuple[Guard, int]]:
        """The sign of x - y, as one sign of ``group`` or one outside it."""
        other = tuple(s for s in (-1, 0, 1) if s not in group)
        if x[0] == "real" and y[0] == "real":
            for h, k in self.split(P.sub(x[1], y[1]), g, group, other):  # type: ignore[arg-type]
                yield h, (group, other)[k][0]
            return
        a = x[1] if x[0] == "inf" else 0
        b = y[1] if y[0] == "inf" else 0
        yield g, (a > b) - (a < b)  # type: ignore[operator]

    def exact(self, name: str, x: Value, y: Value, g: Guard) -> list[Case]:
        """add, sub, mul; ``x`` and ``y`` defined."""
        if name == "sub":
            [(_, y)] = self.unary("neg", g, y)
        if x[0] == "real" and y[0] == "real":
            fn = P.mul if name == "mul" else P.add
            return [(g, attempt(lambda: fn(x[1], y[1])))]  # type: ignore[arg-type]
        if x[0] == "inf" and y[0] == "inf":
            if name == "mul":
                return [(g, inf(x[1] * y[1]))]  # type: ignore[operator]
            return [(g, x if x == y else UNDEFINED)]
        infinite, finite = (x, y) if x[0] == "inf" else (y, x)
        if name != "mul":
            return [(g, infinite)]
        signed: tuple[Value, ...] = (inf(-infinite[1]), UNDEFINED, infinite)  # type: ignore[operator]
        return [(h, signed[k]) for h, k in self.split(finite[1], g, (-1,), (0,), (1,))]  # type: ignore[arg-type]

    def div(self, g: Guard, x: Value, y: Value) -> list[Case]:
        if y[0] == "inf":
            return [(g, UNDEFINED if x[0] == "inf" else real(()))]
        q: P.Poly = y[1]  # type: ignore[assignment]
        if x[0] == "inf":
            signed: tuple[Value, ...] = (inf(-x[1]), UNDEFINED, x)  # type: ignore[operator]
            return [(h, signed[k]) for h, k in self.split(q, g, (-1,), (0,), (1,))]
        quotient = None
        result: list[Case] = []
        for h, k in self.split(q, g, (0,), (-1, 1)):
            if k == 1:
                quotient = attempt(lambda: P.mul(x[1], P.inverse(q)))  # type: ignore[arg-type]
            result.append((h, quotient if k == 1 and quotient else UNDEFINED))
        return result

    def pow(self, g: Guard, x: Value, y: Value) -> Iterable[Case]:
        if y[0] == "inf":
            return [(g, opaque("a power with an infinite exponent"))]
        q: P.Poly = y[1]  # type: ignore[assignment]
        if P.is_number(q):
            return self.power(g, x, P.value(q))
        if x[0] == "inf":
            if x[1] == -1:
                return [(g, opaque("a power of -inf with a symbolic exponent"))]
            values: tuple[Value, ...] = (real(()), real(P.number(1)), inf(1))
            return [(h, values[k]) for h, k in self.split(q, g, (-1,), (0,), (1,))]
        p: P.Poly = x[1]  # type: ignore[assignment]
        result: list[Case] = []
        for h, k in self.split(p, g, (-1,), (0,), (1,)):
            if k == 0:
                result.append((h, opaque("a power of a negative number with a symbolic exponent")))
            elif k == 1:
                at_zero: tuple[Value, ...] = (UNDEFINED, real(P.number(1)), real(()))
                result.extend((i, at_zero[j]) for i, j in self.split(q, h, (-1,), (0,), (1,)))
            else:
                result.append((h, attempt(lambda: P.exp(P.mul(q, P.log(p, self.positive(h)))))))  # noqa: B023
        return result

    def power(self, g: Guard, v: Value, q: Fraction) -> Iterable[Case]:
        """A constant exponent."""
        if q == 0:
            return [(g, real(P.number(1)))]
        whole = q.denominator == 1
        if v[0] == "inf":
            if v[1] == -1 and not whole:
                return [(g, UNDEFINED)]
            odd = whole and q.numerator % 2 == 1
            return [(g, real(()) if q < 0 else inf(-1) if v[1] == -1 and odd else inf(1))]
        p: P.Poly = v[1]  # type: ignore[assignment]
        if whole and q > 0:
            return [(g, attempt(lambda: P.power(p, int(q))))]
        at_zero = real(()) if q > 0 else UNDEFINED
        if whole:
            result: list[Case] = []
            for h, k in self.split(p, g, (0,), (-1, 1)):
                result.append((h, attempt(lambda: P.power(P.inverse(p), int(-q))) if k == 1 else at_zero))
            return result
        return [
            (h, (UNDEFINED, at_zero)[k] if k < 2 else attempt(lambda: P.root_power(p, q, self.positive(h))))  # noqa: B023
            for h, k in self.split(p, g, (-1,), (0,), (1,))
        ]


COMPARE: dict[str, tuple[int, ...]] = {
    "lt": (-1,), "le": (-1, 0), "gt": (1,), "ge": (0, 1), "eq": (0,), "ne": (-1, 1),
}  # fmt: skip


def attempt(fn: Callable[[], P.Poly]) -> Value:
    try:
        return real(fn())
    except P.TooLarge as e:
        return opaque(str(e))

"""Not trusted: integer expressions as linear forms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from neptune_verified.ir.expr import INTS, Const, Expr, Op, const


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
        case Op("cast", (x,)) if x.dtype in INTS and (e.dtype == "int64" or x.dtype == e.dtype):
            return linear(x)
        case _:
            return Linear({e: 1})

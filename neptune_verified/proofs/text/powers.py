"""Trusted: the ways in which a text may write a power with a known exponent."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from neptune_verified.ir.expr import Const, Expr, Op, const, op, read


def expansions(e: Op) -> Iterator[Expr]:
    """Expressions equal to ``x ** q`` where that is defined: products, roots, reciprocals, and exp2 of q log2 |x|."""
    x, exponent = e.args
    if not isinstance(exponent, Const):
        return
    q = Fraction(exponent.value)
    d = x.dtype
    if q == 0:
        yield op("select", op("eq", x, x), const(1, d), x)  # exp2 of 0 log2 |x| is no number where x is 0
    elif q < 0:
        for inner in expansions_of(x, -q):
            yield op("div", const(1, d), inner)
    else:
        yield from expansions_of(x, q)


def expansions_of(x: Expr, q: Fraction) -> Iterator[Expr]:
    d = x.dtype
    if q == Fraction(1, 2):
        yield op("sqrt", x)
    if q.denominator == 1 and 1 <= q <= 64:
        yield squared(x, int(q))
    if float(q) == q:
        power = op("exp2", op("mul", const(q, d), log2(op("abs", x) if q.denominator == 1 else x)))
        if q.denominator == 1 and q % 2 == 1:
            yield op("mul", power, op("select", op("lt", x, const(0, d)), const(-1, d), const(1, d)))
        else:
            yield power


def squared(x: Expr, n: int) -> Expr:
    """x ** n by repeated squaring."""
    if n == 1:
        return x
    half = squared(x, n // 2)
    square = op("mul", half, half)
    return square if n % 2 == 0 else op("mul", square, x)


def log2(x: Expr) -> Expr:
    """The binary logarithm, which definitions do not have: a function of the text alone."""
    return read("log2()", (x,), x.dtype)

"""The ways to write a power: each has the power's value, where that is defined."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from neptune_verified.ir.expr import Const, Expr, Op, Read, const, op, read
from neptune_verified.proofs.text.powers import expansions, log2, squared

X = read("x", (), "float32")


def value(e: Expr, x: float) -> float:
    """An evaluator of its own, in float64."""
    match e:
        case Const(v):
            return float(v)
        case Read("x"):
            return x
        case Read("log2()", (y,)):
            v = value(y, x)
            return math.log2(v) if v > 0 else -math.inf if v == 0 else math.nan
        case Op("select", (c, a, b)):
            return value(a, x) if value(c, x) else value(b, x)
        case Op(name, args):
            v = [value(a, x) for a in args]
            return {
                "mul": lambda: v[0] * v[1], "div": lambda: v[0] / v[1], "sqrt": lambda: math.sqrt(v[0]),
                "abs": lambda: abs(v[0]), "exp2": lambda: 2.0 ** v[0], "lt": lambda: float(v[0] < v[1]),
                "eq": lambda: float(v[0] == v[1]),
            }[name]()  # fmt: skip
    raise AssertionError(e)


def power(q: Fraction) -> Op:
    e = op("pow", X, const(q, "float32"))
    assert isinstance(e, Op)
    return e


@pytest.mark.parametrize(
    "q", [*range(-20, 21), 63, 64, 65, -65, *(Fraction(k, 4) for k in (-5, -2, -1, 1, 2, 3, 5, 6))]
)
def test_each_expansion_is_the_power(q: int | Fraction) -> None:
    q = Fraction(q)
    found = list(expansions(power(q)))
    assert found
    for x in (-3.5, -1.0, -0.25, 0.0, 0.25, 1.0, 1.5, 3.0):
        if (x < 0 and q.denominator > 1) or (x == 0 and q < 0):
            continue  # not defined
        want = x ** int(q) if q.denominator == 1 else x ** float(q)
        for e in found:
            assert math.isclose(value(e, x), want, rel_tol=1e-9), (q, x, e)


def test_how_many_there_are() -> None:
    count = {q: len(list(expansions(power(Fraction(q))))) for q in (1, 2, 64, 65, -3, Fraction(1, 2), Fraction(1, 3))}
    assert count == {1: 2, 2: 2, 64: 2, 65: 1, -3: 2, Fraction(1, 2): 2, Fraction(1, 3): 0}


def test_an_exponent_that_is_not_known() -> None:
    e = op("pow", X, read("y", (), "float32"))
    assert isinstance(e, Op) and list(expansions(e)) == []


@pytest.mark.parametrize("n", range(1, 65))
def test_repeated_squaring(n: int) -> None:
    assert value(squared(X, n), 2.0) == 2.0**n
    assert value(squared(X, n), -1.0) == (-1.0) ** n


def test_the_logarithm_is_no_function_of_definitions() -> None:
    e = log2(X)
    assert isinstance(e, Read) and e.tensor == "log2()" and e.indices == (X,)

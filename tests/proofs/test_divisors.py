"""Which divisors may underflow where their real value is not 0, and that such a repair is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest

from neptune_verified.ir.expr import Expr, const, op, var
from neptune_verified.ir.intervals import Interval
from neptune_verified.ir.kinds import NONNEGATIVE
from neptune_verified.proofs.divisors import lost_divisors

a, b, t = var("a"), var("b"), var("t")
ONE = const(1, "float32")
exp = op("exp", op("neg", a))


def lost(divisor: Expr, own: set[Expr] | None = None, boxes: dict[Expr, Interval | None] | None = None) -> bool:
    return bool(lost_divisors(op("div", t, divisor), own or set(), boxes or {}, lambda e: NONNEGATIVE))


@pytest.mark.parametrize(
    "divisor",
    [exp, op("mul", a, a), op("div", a, b), op("pow", a, const(2, "float32")), op("sqrt", exp), op("add", exp, a),
     op("select", op("eq", a, ONE), exp, a), op("max", a, exp), op("cast", a, dtype="float16"), op("abs", op("mul", a, b)),
     op("floor", a), op("log", a)],
)  # fmt: skip
def test_may_underflow(divisor: Expr) -> None:
    assert lost(divisor)
    assert not lost(divisor, own={divisor}), "the definition divides by it too"
    least = Interval(Fraction(1, 2**126), Fraction(1))
    assert not lost(divisor, boxes={divisor: least}) or divisor.dtype == "float16"
    assert lost(divisor, boxes={divisor: Interval(Fraction(1, 2**127), Fraction(1))}) or divisor.dtype == "float16"


@pytest.mark.parametrize(
    "divisor",
    [a, op("neg", a), op("abs", a), op("sqrt", a), op("rsqrt", a), op("add", a, b), op("max", a, b),
     op("select", op("eq", a, ONE), ONE, a), op("cast", a, dtype="float64"), ONE],
)  # fmt: skip
def test_is_0_only_where_it_is(divisor: Expr) -> None:
    assert not lost(divisor)


def test_every_kind_of_division_counts() -> None:
    for h in (op("mul", t, op("rsqrt", exp)), op("mul", t, op("pow", exp, const(-1, "float32")))):
        assert lost_divisors(h, set(), {}, lambda e: NONNEGATIVE) == [exp]
    assert not lost_divisors(op("mul", t, op("pow", exp, const(2, "float32"))), set(), {}, lambda e: NONNEGATIVE)

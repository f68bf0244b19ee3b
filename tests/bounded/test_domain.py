"""The normal form against values that are computed independently: with Python's integers, and by identities of functions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from neptune_verified.proofs.bounded.domain import Domain
from neptune_verified.proofs.bounded.field import PRIMES, ROOT, Array, Field
from neptune_verified.proofs.bounded.values import Bit, Val

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
FIELD = Field(PRIMES[0])
D = Domain(FIELD)
RNG = np.random.default_rng(1)


def atoms(*shape: int, sign: float = 0.0) -> Val:
    f = RNG.uniform(0.5, 1.5, shape) * (sign or np.where(RNG.random(shape) < 0.5, -1.0, 1.0))
    p, q = (RNG.integers(1, int(m), shape, dtype=np.uint64) for m in (FIELD.p, FIELD.q))
    return Val(f, p, q, None, "float32")


def number(x: float | Fraction) -> Val:
    return D.constant(x if isinstance(x, Fraction) or not math.isfinite(x) else Fraction(x), "float32")


def equal(a: Val, b: Val) -> bool:
    normal, close = D.same(a, b)
    return bool(np.all(normal & close))


def different(a: Val, b: Val) -> bool:
    normal, _ = D.same(a, b)
    return not bool(np.any(normal))


@pytest.mark.parametrize("p", PRIMES)
def test_the_primes_are_safe(p: int) -> None:
    def prime(n: int) -> bool:  # deterministic below 3.2e9
        d, s = n - 1, 0
        while d % 2 == 0:
            d, s = d // 2, s + 1
        for a in (a for a in (2, 3, 5, 7) if a < n):
            x = pow(a, d, n)
            if x not in (1, n - 1) and not any((x := x * x % n) == n - 1 for _ in range(s - 1)):
                return False
        return True

    assert prime(p) and prime((p - 1) // 2) and p < 2**31
    small = [n for n in range(2, 32) if prime(n)]
    assert all(pow(n, (p - 1) // 2, p) == 1 for n in small)  # squares
    assert all(pow(n, (p - 3) // 4, (p - 1) // 2) == 1 for n in small if n <= 13)


def test_the_field_is_that_of_python() -> None:
    p, q = int(FIELD.p), int(FIELD.q)
    a, b = (RNG.integers(0, p, 50, dtype=np.uint64) for _ in range(2))
    for mine, theirs in (
        (FIELD.add(a, b, FIELD.p), lambda x, y: (x + y) % p),
        (FIELD.sub(a, b, FIELD.p), lambda x, y: (x - y) % p),
        (FIELD.mul(a, b, FIELD.p), lambda x, y: x * y % p),
    ):
        assert [int(m) for m in mine] == [theirs(int(x), int(y)) for x, y in zip(a, b)]
    assert [int(x) for x in FIELD.inverse(a, FIELD.p)] == [pow(int(x), -1, p) for x in a]
    e = np.array([0, 1, 2, q - 1, 32767, 32768, *RNG.integers(0, q, 20)], dtype=np.uint64)
    assert [int(x) for x in FIELD.exp(e)] == [pow(pow(2, ROOT, p), int(x), p) for x in e]


@pytest.mark.parametrize("k", [1, 16, 64, 65, 130])
def test_products_of_matrices_are_exact(k: int) -> None:
    top = np.full((3, k), int(FIELD.p) - 1, dtype=np.uint64)
    a = np.concatenate([top, RNG.integers(0, int(FIELD.p), (3, k), dtype=np.uint64)])
    b = np.concatenate([top, RNG.integers(0, int(FIELD.p), (2, k), dtype=np.uint64)]).T
    want = [[sum(int(x) * int(y) for x, y in zip(row, column)) % int(FIELD.p) for column in b.T] for row in a]
    assert FIELD.matmul(a, b, FIELD.p).tolist() == want


def test_exp_turns_sums_into_products() -> None:
    a, b = atoms(20), atoms(20)
    assert equal(D.mul(D.exp(a), D.exp(b)), D.exp(D.add(a, b)))
    assert equal(D.div(D.exp(a), D.exp(b)), D.exp(D.sub(a, b)))
    assert equal(D.exp(number(0)), number(1))
    half = D.mul(a, number(0.5))
    assert equal(D.mul(D.exp(half), D.exp(half)), D.exp(a))
    assert different(D.mul(D.exp(a), D.exp(b)), D.exp(D.mul(a, b)))
    assert different(D.exp(a), D.exp2(a)) and equal(D.exp2(number(10)), number(1024))
    assert all(different(D.exp(number(1)), number(k)) for k in range(-50, 50))
    assert all(different(D.exp(number(Fraction(1, 2))), number(k)) for k in range(-50, 50))
    assert equal(D.exp2(D.add(a, number(3))), D.mul(D.exp2(a), number(8)))


def test_log_and_exp_undo_each_other() -> None:
    a, b = atoms(20, sign=1), atoms(20, sign=1)
    assert equal(D.exp(D.log(a)), a) and equal(D.log(D.exp(a)), a)
    assert equal(D.log(D.mul(a, b)), D.add(D.log(a), D.log(b)))
    assert equal(D.logaddexp(a, b), D.log(D.add(D.exp(a), D.exp(b))))
    assert equal(D.logaddexp(a, number(-math.inf)), a)
    assert different(D.log(a), D.log(b)) and different(D.log(a), a)
    assert equal(D.exp2(D.log2(D.exp(a))), D.exp(a))


def test_rational_functions() -> None:
    a, b = atoms(20), atoms(20)
    one = number(1)
    assert equal(D.div(D.add(D.mul(a, a), D.mul(a, b)), a), D.add(a, b))
    assert equal(D.sigmoid(a), D.div(one, D.add(one, D.exp(D.neg(a)))))
    assert equal(D.sigmoid(a), D.div(D.exp(a), D.add(one, D.exp(a))))
    assert different(D.add(a, b), D.sub(a, b)) and different(D.div(a, b), D.div(b, a))
    assert equal(D.pow(a, number(3)), D.mul(a, D.mul(a, a))) and equal(D.pow(a, number(-1)), D.reciprocal(a))
    assert different(D.sqrt(D.abs(a)), D.abs(a)) and equal(D.sqrt(D.abs(a)), D.pow(D.abs(a), number(0.5)))
    third = D.constant(Fraction(1, 3), "float32")
    assert equal(D.add(third, D.add(third, third)), one)


def test_undefined_and_infinite() -> None:
    x, inf, zero = atoms(1), number(math.inf), number(0)
    minus = number(-math.inf)
    for v in (
        D.sub(inf, inf),
        D.mul(zero, inf),
        D.div(x, zero),
        D.div(inf, inf),
        D.log(number(-1)),
        D.sqrt(number(-1)),
    ):
        assert np.all(np.isnan(v.f))
    assert equal(D.exp(minus), zero) and np.all(D.log(zero).f == -np.inf)
    assert equal(D.div(x, inf), zero) and equal(D.opaque_function("tanh", inf), number(1))
    assert equal(D.opaque_function("tanh", minus), number(-1)) and equal(D.sigmoid(minus), zero)
    poison = number(0)
    poison.f = np.asarray(np.nan)
    assert np.isnan(D.mul(zero, poison).f) and np.isnan(D.extremum("max", x, poison).f).all()
    assert equal(D.where(Bit(np.array([True])), x, poison), x)
    bit = D.compare("lt", poison, x)
    assert bit.bad is not None and bit.bad.all() and np.isnan(D.where(bit, x, x).f).all()


def test_equality_is_that_of_expressions() -> None:
    a, b = atoms(5), atoms(5)
    left, right = D.mul(D.add(a, b), D.add(a, b)), D.add(D.mul(a, a), D.add(D.mul(b, b), D.mul(number(2), D.mul(a, b))))
    assert D.compare("eq", left, right).a.all() and not D.compare("lt", left, right).a.any()
    assert not D.compare("eq", a, b).a.any()


def test_reductions() -> None:
    x = atoms(4, 37)
    total = D.constant(Fraction(0), "float32")
    for k in range(37):
        total = D.add(total, x.view((slice(None), k)))
    assert equal(D.sum(x, 1), total)
    best = x.view((slice(None), 0))
    for k in range(37):
        best = D.extremum("max", best, x.view((slice(None), k)))
    assert equal(D.arg("max", x, 1), best)
    shifted = D.sub(x, total.each(lambda a: a[:, None]))
    assert equal(D.arg("max", shifted, 1), D.sub(best, total))
    assert equal(D.fold(D.logaddexp, x, 1, -math.inf), D.log(D.sum(D.exp(x), 1)))
    assert equal(D.fold(D.mul, x, 1, Fraction(1)), D.fold(D.mul, x.each(lambda a: a[:, ::-1]), 1, Fraction(1)))
    none = x.view((slice(None), slice(0, 0)))
    assert np.all(D.arg("max", none, 1).f == -np.inf) and equal(D.fold(D.mul, none, 1, Fraction(1)), number(1))


def test_roundings_are_seen_when_they_are_asked_for() -> None:
    opaque, a, b = Domain(FIELD, opaque=True), atoms(9), atoms(9)

    def differ(x: Val, y: Val) -> bool:
        return not np.any(opaque.same(x, y)[0])

    once = opaque.cast(a, "float16")
    assert differ(once, a) and differ(once, opaque.cast(a, "bfloat16"))
    again: Array = opaque.cast(opaque.cast(once, "float32"), "float16").P
    assert np.array_equal(again, once.P)
    assert differ(opaque.cast(opaque.add(a, b), "float16"), opaque.add(once, opaque.cast(b, "float16")))
    zero = opaque.cast(opaque.constant(Fraction(0), "float32"), "float16")
    assert not zero.P.any()
    assert equal(D.cast(a, "float16"), a)


A = Domain(FIELD, algebraic=True)


def test_quotients_of_logarithms_are_quotients_of_numbers() -> None:
    """In the algebraic reading; in the other one a multiple of a logarithm is the logarithm of a power."""
    x, u, v = atoms(20), atoms(20, sign=1.0), atoms(20, sign=1.0)
    repaired = A.mul(A.div(x, A.log(u)), A.div(A.log(u), A.log(v)))
    assert equal(repaired, A.div(x, A.log(v)))
    line = A.div(A.sub(A.mul(A.log(v), x), A.mul(A.log(u), x)), A.log(v))
    assert equal(line, A.sub(x, A.div(A.mul(x, A.log(u)), A.log(v))))
    for wrong in (A.div(x, A.log(u)), A.div(x, A.log(A.mul(v, v))), A.mul(x, A.log(v)), A.div(x, A.log(A.add(u, v)))):
        assert different(repaired, wrong)


def test_exponents_that_hold_exponentials_are_numbers() -> None:
    base, a, b = A.exp(atoms(20)), A.sigmoid(atoms(20)), A.sigmoid(atoms(20))
    one = number(1)
    inner = A.pow(base, A.div(one, A.add(a, one)))
    repaired = A.pow(inner, A.div(A.add(one, a), A.add(one, b)))
    assert equal(repaired, A.pow(base, A.div(one, A.add(b, one))))
    for wrong in (inner, A.pow(base, A.div(one, A.add(a, b))), A.pow(inner, A.div(a, A.add(one, b))), base):
        assert different(repaired, wrong)


def test_the_algebraic_reading_takes_no_two_functions_for_one() -> None:
    x, y = atoms(20, sign=1.0), atoms(20, sign=1.0)
    assert different(A.log(A.mul(x, y)), A.mul(A.log(x), A.log(y)))
    assert different(A.log(A.add(x, y)), A.add(A.log(x), A.log(y)))
    assert different(A.exp(A.log(x)), A.log(x)) and different(A.log(x), x) and different(A.exp(x), A.log(x))
    assert different(A.pow(x, A.exp(y)), A.pow(x, A.log(y)))
    assert different(A.pow(x, A.exp(y)), A.pow(x, A.exp(A.add(y, number(1)))))
    assert different(A.logaddexp(x, y), A.log(A.add(x, y)))
    assert equal(A.exp(A.add(x, y)), A.mul(A.exp(x), A.exp(y)))
    assert equal(A.log(number(1)), number(0))


def test_an_exponent_that_is_a_whole_number_at_the_point_alone_is_none() -> None:
    x, e = atoms(20, sign=1.0), atoms(20)
    e.f = np.full(20, 2.0)  # as a saturated sigmoid gives it
    for d in (D, A):
        assert different(d.pow(x, e), d.mul(x, x))
        assert equal(d.pow(x, number(2)), d.mul(x, x))
        e.f = np.full(20, 0.5)
        assert different(d.pow(x, e), d.sqrt(x))
        assert equal(d.pow(x, number(0.5)), d.sqrt(x))
        e.f = np.full(20, 2.0)

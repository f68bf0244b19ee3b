"""The helper for tanh: below 2^-29 of relative error over the reals, on both of its branches."""

from __future__ import annotations

import itertools
from typing import Any

import mpmath
import numpy as np
import sympy

from tests.text.test_library import REAL, numpy32

BOUND = mpmath.iv.mpf(2) ** -29


def _series(a: Any, one: Any) -> Any:
    """The helper's polynomial, with its constants over the reals."""
    s = a * a
    return a * (one - s * (one / 3 - s * (one * 2 / 15 - s * (one * 17 / 315))))


def test_the_parts_of_tanh_are_those_of_its_text() -> None:
    f, m = REAL["_tanh"], mpmath.mpf
    for v in ("0", "1e-30", "0.01", "0.1249999"):
        assert abs(f(m(v)) - _series(m(v), m(1))) <= m(2) ** -50 * abs(m(v))  # constants are rounded to 53 bits here
    for v in ("0.125", "0.3", "2", "50", "1000"):
        assert abs(f(m(v)) - mpmath.tanh(m(v))) <= m(2) ** -150
    for v in ("0.01", "0.125", "7"):
        assert f(-m(v)) == -f(m(v))


def test_tanh_far_from_zero_is_exact_over_the_reals() -> None:
    a = sympy.Symbol("a", positive=True)
    far = (1 - sympy.exp(-2 * a)) / (1 + sympy.exp(-2 * a))
    assert sympy.simplify(far - sympy.tanh(a).rewrite(sympy.exp)) == 0


def test_tanh_near_zero_has_a_relative_error_below_2_to_the_minus_29() -> None:
    """|p - tanh| = |the rest of the series|. With t = tanh: |t(a) - p(a)| <= (62/2835) a^9 for 0 <= a < pi / 2, because the
    series alternates with falling terms; and tanh a >= a - a^3 / 3."""
    iv = mpmath.iv
    edge = iv.mpf(1) / 8
    assert (iv.mpf(62) / 2835 * edge**8 / (1 - edge**2 / 3)).b < BOUND.a
    # The terms: Bernoulli numbers give the coefficients, whose ratio is below 1 / (pi / 2)^2 and so below 1 / a^2 = 64.
    x = sympy.Symbol("x")
    terms = sympy.Poly(sympy.series(sympy.tanh(x), x, 0, 24).removeO(), x).all_coeffs()[::-1][1::2]
    assert terms[:4] == [1, sympy.Rational(-1, 3), sympy.Rational(2, 15), sympy.Rational(-17, 315)]
    assert terms[4] == sympy.Rational(62, 2835)
    for a, b in itertools.pairwise(terms):
        assert a * b < 0 and abs(b) < abs(a)
    # By intervals too, where dependency leaves enough of them: between 1/64 and 1/8, the seam included.
    parts = 4096
    for k in range(parts // 8, parts):
        a = iv.mpf([mpmath.mpf(k) / (8 * parts), mpmath.mpf(k + 1) / (8 * parts)])
        rest = iv.mpf(62) / 2835 * a**9
        assert (rest / (a - a**3 / 3)).b < BOUND.a


def test_tanh_at_points_and_at_the_seam() -> None:
    f, worst = REAL["_tanh"], mpmath.mpf(0)
    eighth = mpmath.mpf(1) / 8
    points = [eighth * k / 1000 for k in range(1, 1000)] + [
        eighth - mpmath.mpf(2) ** -60,
        eighth,
        eighth + mpmath.mpf(2) ** -60,
    ]
    for a in (*points, *(mpmath.mpf(10) ** -k for k in range(1, 40)), *(mpmath.mpf(k) / 4 for k in range(1, 80))):
        want = mpmath.tanh(a)
        worst = max(worst, abs(f(a) - want) / want)
    assert mpmath.mpf(2) ** -32 < worst < mpmath.mpf(2) ** -29


def test_tanh_in_float32() -> None:
    f = numpy32()["_tanh"]
    x = np.concatenate(
        [np.linspace(-12, 12, 100_001), [0, 1e-30, 0.125, np.nextafter(np.float32(0.125), 0), 3e38, np.inf]]
    )
    x = x.astype(np.float32)
    with np.errstate(over="ignore"):
        got, want = f(x), np.tanh(x.astype(np.float64))
        assert f(np.float32(-3e38)) == -1
    assert np.abs(got - want).max() < 2**-22
    assert (np.abs(got) <= 1).all()

"""Each helper text that the reader knows means what ``library`` says, and the digests are those of the printed texts."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pytest
import sympy
import z3

from neptune_verified.proofs.text import library
from neptune_verified.proofs.text.library import DEVICE, HOST, known_text
from neptune_verified.tile import host
from neptune_verified.tile.ops import HELPERS
from tests.text.bases import base

mpmath.mp.prec = 200


class Truncated:
    """An integer of the device: ``//`` truncates."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __floordiv__(self, other: Truncated) -> Truncated:
        q = abs(self.n) // abs(other.n)
        return Truncated(q if (self.n < 0) == (other.n < 0) else -q)

    def __sub__(self, other: Truncated | int) -> Truncated:
        return Truncated(self.n - (other if isinstance(other, int) else other.n))

    def __mul__(self, other: Truncated) -> Truncated:
        return Truncated(self.n * other.n)

    def __lt__(self, other: int) -> bool:
        return self.n < other

    def __eq__(self, other: object) -> bool:
        return self.n == other

    __hash__ = None  # type: ignore[assignment]


def helpers(**tl: Any) -> dict[str, Any]:
    """The device functions as Python functions, with the given meanings of Triton's own."""
    space: dict[str, Any] = {"triton": SimpleNamespace(jit=lambda f: f), "tl": SimpleNamespace(**tl)}
    for text in HELPERS.values():
        exec(text, space)
    return space


def choose(c: Any, a: Any, b: Any) -> Any:
    return a if c else b


REAL = helpers(
    abs=abs,
    exp=lambda x: mpmath.exp(x),
    exp2=lambda x: mpmath.power(2, x),
    log=lambda x: mpmath.log(x) if x != 0 else -mpmath.inf,
    log2=lambda x: mpmath.log(x, 2) if x != 0 else -mpmath.inf,
    floor=lambda x: mpmath.floor(x),
    maximum=max,
    where=choose,
)
REAL["float"] = mpmath.mpf

# -------------------------------------------------------------------------------------------------- digests


def digest(text: str) -> str | None:
    source = text.strip("\n") + "\n"
    (s,) = ast.parse(source).body
    assert isinstance(s, ast.FunctionDef | ast.ClassDef)
    return known_text(s, source)


def test_device_digests_are_those_of_the_printer() -> None:
    assert {name: digest(text) for name, text in HELPERS.items()} == DEVICE


def test_host_digests_are_those_of_the_printer() -> None:
    found = {}
    for text in (
        base("softmax").source,
        "\n".join(host.HOST),
        "\n".join(host.HOST_SPLIT),
    ):  # the file's head, and the part before its launcher
        for s in ast.parse(text).body:
            if isinstance(s, ast.FunctionDef | ast.ClassDef) and s.name in HOST:
                found[s.name] = known_text(s, text)
    assert found == HOST


@pytest.mark.parametrize("name", DEVICE)
def test_a_changed_character_makes_a_helper_unknown(name: str) -> None:
    text = HELPERS[name].strip("\n")
    for k, c in enumerate(text):
        if c not in " \n#":
            changed = text[:k] + ("z" if c != "z" else "y") + text[k + 1 :]
            try:
                assert digest(changed) != DEVICE[name]
            except (SyntaxError, ValueError, AssertionError) as e:
                assert not isinstance(e, AssertionError) or "FunctionDef" in str(e)


def test_a_statement_beside_a_helper_makes_it_unknown() -> None:
    source = HELPERS["_mul"].strip("\n") + "; x = 1\n"
    (s,) = ast.parse(source).body
    assert isinstance(s, ast.FunctionDef)
    assert known_text(s, source) is None
    nested = "if True:\n    def _mul(a, b):\n        return a * b\n"
    inner = ast.parse(nested).body[0].body[0]  # type: ignore[attr-defined]
    assert known_text(inner, nested) is None


# ------------------------------------------------------------------------------------------------- integers


class Symbol:
    """A Z3 integer of the device; the truncating quotient is stated, not computed."""

    facts: list[Any] = []  # noqa: RUF012

    def __init__(self, term: Any) -> None:
        self.term = term

    @staticmethod
    def of(x: Any) -> Any:
        return x.term if isinstance(x, Symbol) else x

    def __floordiv__(self, other: Symbol) -> Symbol:
        q, r = z3.FreshInt("q"), z3.FreshInt("r")
        a, b = self.term, other.term
        # a = q b + r, |r| < |b|, and the remainder has the sign of a: rounded toward zero.
        absolute = lambda x: z3.If(x >= 0, x, -x)  # noqa: E731
        Symbol.facts += [
            a == q * b + r,
            absolute(r) < absolute(b),
            z3.Implies(a >= 0, r >= 0),
            z3.Implies(a <= 0, r <= 0),
        ]
        return Symbol(q)

    def __sub__(self, other: Any) -> Symbol:
        return Symbol(self.term - Symbol.of(other))

    def __mul__(self, other: Any) -> Symbol:
        return Symbol(self.term * Symbol.of(other))

    def __lt__(self, other: Any) -> Any:
        return self.term < other

    def __ne__(self, other: Any) -> Any:
        return self.term != other

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("name", ["_floordiv", "_floormod"])
def test_division_rounds_down_for_all_integers(name: str) -> None:
    Symbol.facts = []
    f = helpers(where=lambda c, a, b: Symbol(z3.If(c, a.term, b.term)))[name]
    a, b = z3.Ints("a b")
    result = f(Symbol(a), Symbol(b)).term
    floor = z3.Int("floor")  # floor <= a / b < floor + 1, without a division
    meaning = z3.If(b > 0, z3.And(floor * b <= a, a < floor * b + b), z3.And(floor * b >= a, a > floor * b + b))
    wanted = floor if name == "_floordiv" else a - floor * b
    solver = z3.Solver()
    solver.set("timeout", 20_000)
    solver.add(b != 0, meaning, *Symbol.facts, result != wanted)
    assert solver.check() == z3.unsat


@pytest.mark.parametrize("name", ["_floordiv", "_floormod"])
def test_division_of_all_bytes(name: str) -> None:
    f = helpers(where=choose)[name]
    for a, b in itertools.product(range(-128, 128), range(-128, 128)):
        if b:
            assert f(Truncated(a), Truncated(b)).n == (a // b if name == "_floordiv" else a % b), (a, b)


def test_intermediate_results_of_a_division_are_bounded() -> None:
    """What the reader asks to fit: |a| + |b|."""
    for a, b in itertools.product(range(-128, 128), range(-128, 128)):
        if b:
            q = (Truncated(a) // Truncated(b)).n
            inner = (q, q * b, a - q * b, q - 1, a // b, (a // b) * b, a % b)
            assert max(map(abs, inner)) <= abs(a) + abs(b), (a, b)


# --------------------------------------------------------------------------------------------------- floats


def test_sigmoid_is_one_over_one_plus_exp() -> None:
    x = sympy.Symbol("x", real=True)
    right, left = 1 / (1 + sympy.exp(-x)), sympy.exp(x) / (1 + sympy.exp(x))  # where x >= 0, where x < 0
    assert sympy.simplify(right - 1 / (1 + sympy.exp(-x))) == 0 == sympy.simplify(left - 1 / (1 + sympy.exp(-x)))
    for v in (0, 1e-30, -1e-30, 3, -3, 88, -88, 200, -200, 1e4, -1e4):
        want = 1 / (1 + mpmath.exp(-mpmath.mpf(v)))
        assert abs(REAL["_sigmoid"](mpmath.mpf(v)) - want) <= want * mpmath.mpf(2) ** -150, v


def test_sigmoid_overflows_nowhere() -> None:
    f = numpy32()["_sigmoid"]
    x = np.array([-np.inf, -3e38, -104, -1, 0, 1, 104, 3e38, np.inf], np.float32)
    with np.errstate(over="raise", invalid="raise"):
        assert np.allclose(f(x), 1 / (1 + np.exp(-x.astype(np.float64).clip(-700, 700))), rtol=1e-6, atol=1e-40)


def numpy32() -> dict[str, Any]:
    """The helpers in float32, elementwise."""

    def quiet(f: Callable[..., Any]) -> Callable[..., Any]:
        def g(*xs: Any) -> Any:
            with np.errstate(divide="ignore", under="ignore"):
                return f(*xs)

        return g

    names = {"abs": np.abs, "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "floor": np.floor}
    return helpers(**{n: quiet(f) for n, f in names.items()}, maximum=np.maximum, where=np.where)


def test_logaddexp() -> None:
    a, b = sympy.symbols("a b", real=True)
    shifted = a + sympy.log(sympy.exp(a - a) + sympy.exp(b - a))  # the shift is one of the two; they are symmetric
    whole = sympy.exp(sympy.expand_log(shifted)) - sympy.exp(a) - sympy.exp(b)
    assert sympy.simplify(sympy.expand(whole.rewrite(sympy.exp))) == 0
    low = -mpmath.inf
    for u, v in itertools.product((low, -1e5, -3, 0, 1e-9, 2, 1e5), repeat=2):
        u, v = mpmath.mpf(u), mpmath.mpf(v)
        got, top = REAL["_logaddexp"](u, v), max(u, v)
        want = low if top == low else top + mpmath.log(mpmath.exp(u - top) + mpmath.exp(v - top))
        assert got == want or abs(got - want) <= mpmath.mpf(2) ** -150, (u, v)
        direct = mpmath.log(mpmath.exp(u) + mpmath.exp(v)) if top != low else low
        assert got == direct or abs(got - direct) <= abs(direct) * mpmath.mpf(2) ** -150, (u, v)


def test_logaddexp_in_float32_at_extremes() -> None:
    f = numpy32()["_logaddexp"]
    x = np.array([-np.inf, -3e38, -100, 0, 100, 3e38], np.float32)
    a, b = (t.ravel() for t in np.meshgrid(x, x))
    with np.errstate(over="ignore", invalid="ignore"):
        assert np.allclose(f(a, b), np.logaddexp(a.astype(np.float64), b.astype(np.float64)), rtol=1e-6)


def test_mul() -> None:
    assert REAL["_mul"](6, 7) == 42


def test_pow() -> None:
    f = REAL["_pow"]
    bases = [Fraction(n, 8) for n in (-40, -8, -3, 3, 5, 8, 24)]
    for x, y in itertools.product(bases, range(-7, 8)):
        want = mpmath.mpf((x**y).numerator) / (x**y).denominator
        got = f(mpmath.mpf(x.numerator) / x.denominator, mpmath.mpf(y))
        assert abs(got - want) <= abs(want) * mpmath.mpf(2) ** -150, (x, y)
    for y in (0.5, 1.5, -0.25, 0.3):
        for v in (0.125, 3, 1):
            want = mpmath.mpf(v) ** mpmath.mpf(y)
            assert abs(f(mpmath.mpf(v), mpmath.mpf(y)) - want) <= want * mpmath.mpf(2) ** -150
        assert mpmath.isnan(f(mpmath.mpf(-3), mpmath.mpf(y)))  # no real power
    for y in (1, 2, 0.5, 7):
        assert f(mpmath.mpf(0), mpmath.mpf(y)) == 0
    assert f(mpmath.mpf(0), mpmath.mpf(0)) == 1 == f(mpmath.mpf(-2), mpmath.mpf(0))


def test_pow_in_float32() -> None:
    f = numpy32()["_pow"]
    x = np.array([-3, -1, -0.5, 0, 0.5, 1, 3, 1e10], np.float32)
    for y in (0, 1, 2, 3, 0.5):
        with np.errstate(all="ignore"):
            got, want = f(x, np.float32(y)), np.power(x.astype(np.float64), y)
        assert np.allclose(got, want, rtol=1e-5, equal_nan=True), y


def test_the_limit_leaves_room_for_a_tile_of_the_largest_blocks() -> None:
    assert library.LIMIT + 2 * 4096 <= 2**31

"""Identities of roots, logarithms, sigmoids and ties that the normal form knows, what resembles them and is wrong, and the
kernels that need them, with edits."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import neptune_verified as nv
from neptune_verified.proofs.bounded import bounded, seen
from neptune_verified.proofs.bounded.domain import Domain
from neptune_verified.proofs.bounded.field import PRIMES, Field
from neptune_verified.proofs.bounded.values import Val
from tests.bounded.test_domain import RNG, equal, number
from tests.property.specs import program_of
from tests.property.test_found import FOUND, HEAD, TAIL, WEIGHTED

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
FIELD = Field(PRIMES[0])
D = Domain(FIELD)


def elements(sign: float = 1) -> Val:
    """Input elements, whose residues know their signs."""
    f = RNG.uniform(0.5, 1.5, 40) * sign
    p, q = (FIELD.signed(RNG.integers(1, int(m), 40, dtype=np.uint64), f < 0, m) for m in (FIELD.p, FIELD.q))
    return Val(f, p, q, None, "float32")


A, B, X, Y = elements(), elements(), elements(-1), elements(-1)
S, T = D.add(A, B), D.add(A, number(1))  # sums
C = D.add(D.exp(A), D.exp(B))  # tainted
LOG = D.log(D.add(A, number(1)))
SQRT = D.sqrt


def tanh(x: Val) -> Val:
    return D.opaque_function("tanh", x)


def power(x: Val, e: float) -> Val:
    return D.pow(x, number(e))


SAME = {
    "of a product": (SQRT(D.mul(A, B)), D.mul(SQRT(A), SQRT(B))),
    "of a quotient of sums": (SQRT(D.div(S, T)), D.div(SQRT(S), SQRT(T))),
    "a repair": (D.mul(SQRT(D.div(A, S)), SQRT(D.div(S, T))), SQRT(D.div(A, T))),
    "of a square": (SQRT(D.mul(X, X)), D.abs(X)),
    "of a product of negative numbers": (SQRT(D.mul(X, Y)), D.mul(SQRT(D.neg(X)), SQRT(D.neg(Y)))),
    "of an exponential": (SQRT(D.exp(X)), D.exp(D.mul(X, number(0.5)))),
    "a power of one and a half": (power(A, 1.5), D.mul(A, SQRT(A))),
    "a root of a root": (power(A, 0.25), SQRT(SQRT(A))),
    "half a logarithm": (D.exp(D.mul(D.log(S), number(0.5))), SQRT(S)),
    "in an exponent": (D.exp(D.mul(SQRT(A), SQRT(S))), D.exp(SQRT(D.mul(A, S)))),
    "of constants": (SQRT(number(Fraction(9, 4))), number(Fraction(3, 2))),
    "of zero": (SQRT(D.sub(D.mul(S, T), D.mul(T, S))), number(0)),
    "a logarithm that is scaled twice": (D.mul(D.div(LOG, C), D.div(C, T)), D.div(LOG, T)),
    "the square of a scaled logarithm": (power(D.div(LOG, T), 2), D.div(D.mul(LOG, LOG), D.mul(T, T))),
    "a logarithm times what is no exponent": (D.mul(D.mul(LOG, C), C), D.mul(LOG, D.mul(C, C))),
    "a logarithm times a number": (D.mul(LOG, number(2)), D.log(D.mul(T, T))),
    "a difference of sigmoids": (
        D.exp(D.sub(D.sigmoid(A), D.sigmoid(X))), D.div(D.exp(D.sigmoid(A)), D.exp(D.sigmoid(X))),
    ),
}  # fmt: skip

#: What must never be equal, both in normal form and as a number.
DIFFERENT = {
    "a quotient without its root": (SQRT(D.div(A, S)), D.div(A, S)),
    "a repair without its root": (D.mul(SQRT(D.div(A, S)), D.div(S, T)), SQRT(D.div(A, T))),
    "a repair by another root": (D.mul(SQRT(D.div(A, S)), SQRT(D.div(T, S))), SQRT(D.div(A, T))),
    "a root of one factor": (SQRT(D.mul(A, B)), D.mul(A, SQRT(B))),
    "a root of a sum": (SQRT(S), D.add(SQRT(A), SQRT(B))),
    "a root of a difference": (SQRT(D.abs(D.sub(A, B))), D.abs(D.sub(SQRT(A), SQRT(B)))),
    "a square of a root with the other sign": (D.mul(SQRT(S), SQRT(S)), D.neg(S)),
    "a square and a root without its sign": (SQRT(D.mul(X, X)), X),
    "roots of negative numbers": (SQRT(D.mul(X, Y)), D.mul(SQRT(X), SQRT(Y))),
    "a root of a negative number and its opposite": (SQRT(X), SQRT(D.neg(X))),
    "a root of a root and a root": (SQRT(SQRT(S)), SQRT(S)),
    "a root and a half": (SQRT(S), D.mul(S, number(0.5))),
    "a root of a constant": (SQRT(D.mul(S, number(4))), D.mul(SQRT(S), number(4))),
    "a small square of a root with the other sign": (
        D.mul(D.mul(SQRT(S), SQRT(S)), number(Fraction(1, 2**36))), D.mul(S, number(Fraction(-1, 2**36))),
    ),
    "a root of a constant, with the other sign": (SQRT(number(9)), number(-3)),
    "an exponent of a root of a product": (D.exp(SQRT(D.mul(A, B))), D.mul(D.exp(SQRT(A)), D.exp(SQRT(B)))),
    "a root of an exponential": (SQRT(D.exp(A)), D.exp(SQRT(A))),
    "a root of a logarithm": (SQRT(LOG), D.mul(LOG, number(0.5))),
    "tanh of a product": (tanh(D.mul(A, B)), D.mul(tanh(A), tanh(B))),
    "tanh of a quotient": (tanh(D.div(A, B)), D.div(tanh(A), tanh(B))),
    "tanh of a root": (tanh(SQRT(A)), SQRT(tanh(A))),
    "a scaled tanh": (D.mul(tanh(A), T), tanh(D.mul(A, T))),
    "a logarithm of a scaled number": (D.mul(LOG, C), D.log(D.mul(C, D.exp(LOG)))),
    "a logarithm of a product": (D.log(D.mul(S, T)), D.mul(D.log(S), D.log(T))),
    "the logarithm of a square": (D.log(D.mul(T, T)), D.mul(LOG, LOG)),
    "a square that is scaled once": (power(D.div(LOG, T), 2), D.div(D.mul(LOG, LOG), T)),
    "a scaled logarithm and another": (D.div(LOG, T), D.div(D.log(S), T)),
    "a logarithm over a sum": (D.div(LOG, C), D.div(LOG, D.add(C, number(1)))),
    "the sigmoid of a difference": (D.exp(D.sub(D.sigmoid(A), D.sigmoid(X))), D.exp(D.sigmoid(D.sub(A, X)))),
    "a product of sigmoids": (D.exp(D.mul(D.sigmoid(A), D.sigmoid(X))), D.exp(D.add(D.sigmoid(A), D.sigmoid(X)))),
    "a sigmoid and its argument": (D.exp(D.sigmoid(A)), D.exp(A)),
    "a sigmoid and another": (D.exp(D.sigmoid(A)), D.exp(D.sigmoid(B))),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_known(name: str) -> None:
    assert equal(*SAME[name])


@pytest.mark.parametrize("name", DIFFERENT)
def test_not_equal(name: str) -> None:
    normal, close = D.same(*DIFFERENT[name])
    undefined = np.isnan(DIFFERENT[name][0].f) | np.isnan(DIFFERENT[name][1].f)
    assert not np.any(normal & close & ~undefined)


@pytest.mark.parametrize("p", PRIMES)
def test_roots_in_the_field(p: int) -> None:
    field = Field(p)
    for m in (field.p, field.q):
        assert int(m) % 4 == 3
        a, b = (RNG.integers(1, int(m), 50, dtype=np.uint64) for _ in range(2))
        roots = field.root(a, m)
        assert [int(r) ** 2 % int(m) in (int(x), int(m) - int(x)) for r, x in zip(roots, a)] == [True] * 50
        assert all(pow(int(r), (int(m) - 1) // 2, int(m)) == 1 for r in roots)  # squares
        assert np.array_equal(field.root(field.mul(a, b, m), m), field.mul(roots, field.root(b, m), m))
        assert not field.root(np.zeros(1, dtype=np.uint64), m).any()
        signed = field.signed(a, a % np.uint64(2) == 1, m)
        assert [pow(int(s), (int(m) - 1) // 2, int(m)) == 1 for s in signed] == [int(x) % 2 == 0 for x in a]


def test_of_sums_the_residues_do_not_know_all() -> None:
    """The square of a root of a sum is seen to be the sum at some points, and is nothing else that is close anywhere."""
    normal, close = D.same(D.mul(SQRT(S), SQRT(S)), S)
    assert close.all() and 0 < np.count_nonzero(normal) < normal.size


def test_ties() -> None:
    """Far from 0 the order of different expressions may be that of rounding errors; that is remembered, there only."""
    far, near = Domain(FIELD, lenient=True), Domain(FIELD)
    x = D.add(A, number(60))
    for domain in (far, near):
        domain.arg("max", tanh(x), 0)
    assert far.tied and not near.tied
    for value in (A, D.mul(A, number(1000)), tanh(number(60)).each(lambda a: np.broadcast_to(a, 5))):
        far.tied = False
        far.arg("min", value, 0)
        far.extremum("max", value, value)
        far.extremum("max", value, number(-math.inf))
        assert not far.tied  # equal expressions and infinities are no ties
    far.extremum("min", D.constant(Fraction(2), "float32"), D.mul(tanh(x), number(2)))
    assert far.tied


#: Definition -> edits of its kernel, each of which makes it wrong.
RATIO = r"tl\.sqrt\(\(\(a \+ 1\.0\) / (t_\d+)\)\)"
INVERSE = r"tl\.sqrt\(\(\(1\.0 / (t_\d+)\) / \(1\.0 / \(a \+ 1\.0\)\)\)\)"
EDITS = {
    "a minimum of roots over a maximum": [
        (INVERSE, r"((a + 1.0) / \1)"),
        (INVERSE, r"tl.sqrt((\1 / (a + 1.0)))"),
        (INVERSE, r"tl.sqrt((a / \1))"),
        (INVERSE, r"tl.sqrt(tl.sqrt((a + 1.0) / \1))"),
        (r"\(b_1 \* tl\.sqrt", "(b_1 * tl.abs"),
    ],
    "a root of a maximum of roots over a sum": [
        (RATIO, r"((a + 1.0) / \1)"),
        (RATIO, r"tl.sqrt((\1 / (a + 1.0)))"),
        (RATIO, r"(tl.sqrt(a) / tl.sqrt(\1))"),
        (RATIO, r"(tl.sqrt(a + 1.0) / \1)"),
        (RATIO, r"tl.sqrt((a + 1.0))"),
    ],
    "a sum of roots over a sum": [
        (RATIO, r"((a + 1.0) / \1)"),
        (RATIO, r"tl.sqrt((\1 / (a + 1.0)))"),
        (RATIO, r"(1.0 - tl.sqrt(\1) + tl.sqrt(a + 1.0))"),
        (r"tl\.sqrt\(\(tl\.abs\((y_\w+)\) / (t_\d+)\[:, None\]\)\)", r"(tl.sqrt(tl.abs(\1)) / \2[:, None])"),
        (r"tl\.sqrt\(\(tl\.abs\((y_\w+)\) / (t_\d+)\[:, None\]\)\)", r"(tl.sqrt(\1) / tl.sqrt(\2)[:, None])"),
    ],
    "a minimum of squares of scaled logarithms": [
        (r"\(b_1 \* \((t_\d+) \* t_\d+\)\)", r"(b_1 * \1)"),
        (r"\(b_1 \* \((t_\d+) \* t_\d+\)\)", r"(b_1 / (\1 * \1))"),
        (r"\(b_1 \* \((t_\d+) \* t_\d+\)\)", r"(b_1 * (\1 * \1 * \1))"),
        (r"\(b_1 \* \((t_\d+) \* t_\d+\)\)", "b_1"),
    ],
    "a minimum of values that saturate": [
        (r"\(b_1 \* \((t_\d+) / \(a \+ 1\.0\)\)\)", r"(b_1 * ((a + 1.0) / \1))"),
        (r"\(b_1 \* \((t_\d+) / \(a \+ 1\.0\)\)\)", r"(b_1 * (\1 / a))"),
        (r"\(b_1 \* \((t_\d+) / \(a \+ 1\.0\)\)\)", "b_1"),
        (r"\(_tanh\((y_\w+)\) \* (t_\d+)\[:, None\]\)", r"_tanh(\1 * \2[:, None])"),
        (r"\(_tanh\((y_\w+)\) \* ", r"(\1 * "),
    ],
    "a sum of shifted sigmoids": [
        (r"tl\.exp\(\((t_\d+) - a\)\)", r"tl.exp((a - \1))"),
        (r"tl\.exp\(\((t_\d+) - a\)\)", r"tl.exp(_sigmoid(\1 - a))"),
        (r"\(b_1 \* tl\.exp\(\(t_\d+ - a\)\)\)", "b_1"),
        (r"tl\.exp\(\((t_\d+)\[:, None\] - (t_\d+)\)\)", r"tl.exp(_sigmoid(\1[:, None] - \2))"),
    ],
}  # fmt: skip


@cache
def compiled(name: str) -> tuple[nv.Program, str]:
    program = program_of(HEAD + FOUND[name] + TAIL)
    return program, nv.compile(program, "interpret").source


@pytest.mark.parametrize(("name", "at"), [(n, k) for n in EDITS for k in range(len(EDITS[n]))])
def test_edited_kernels_are_refused(name: str, at: int) -> None:
    program, source = compiled(name)
    old, new = EDITS[name][at]
    text = re.sub(old, new, source, count=1)
    assert text != source, source
    result = bounded(program, text, "interpret")
    assert result.verdict == "refuted" or "another expression" in result.detail, result


WRONG_WEIGHTS = [
    (r"lens_max_\d+ = tl\.max\((.*), axis=0\)", r"lens_max_8 = tl.min(\1, axis=0)"),
    (r"\(x0 % 3\)", "(x0 % 2)"),
    (r"tl\.cast\(\(x0 % 3\), tl\.float32\)\[None, :\] \* ", ""),
    (r"tl\.where\((t_\d+), (\(t_\d+ \* t_\d+\)), 0\.0\)", r"\2"),
    (r"x0\[None, :\] < lens", "x0[None, :] <= lens"),
]


@pytest.mark.parametrize(("old", "new"), WRONG_WEIGHTS)
def test_weights_of_0_are_no_masks(old: str, new: str) -> None:
    """0 times a root of something undefined is undefined in the definition; what the mask hides is still hidden."""
    program = program_of(HEAD + WEIGHTED)
    source = nv.compile(program, "interpret").source
    assert bounded(program, source, "interpret").verdict == "proved"
    text = re.sub(old, new, source, count=1)
    assert text != source, source
    assert bounded(program, text, "interpret").verdict == "refuted"


def test_a_mask_beside_a_weight_decides() -> None:
    zero = seen.Part(np.zeros(3), np.ones(3, dtype=bool), np.zeros(3, dtype=np.uint64))
    unknown = seen.Part(np.zeros(3), np.zeros(3, dtype=bool), np.ones(3, dtype=np.uint64))
    for masks, decided in (([True, True], True), ([False, True], False), ([True, False], True)):
        product = seen._op("mul", [zero, unknown], masks)
        assert product.known.all() == decided and product.bits.any() != decided

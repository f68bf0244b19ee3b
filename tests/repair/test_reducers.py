"""Tuple reducers: what may be reduced in any order, and what may not, with the point at which the order shows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest
from typer.testing import CliRunner

from neptune_verified.cli import app
from neptune_verified.ir.expr import INF, op, var
from neptune_verified.proofs import route_orders
from neptune_verified.proofs.statement import Equal, Hypothesis, Statement, Symbol
from neptune_verified.proofs.tuple_reducer import NoReducer
from neptune_verified.proofs.verdict import Verdict
from neptune_verified.reducers import prove_reducer

KEYED = {"v": "real or -inf", "i": "real or +inf"}
LOWEST = "select(v_a > v_b or v_a == v_b and i_a <= i_b, i_a, i_b)"
WELFORD = {"n": "nonnegative", "mean": "real", "q": "nonnegative"}
TOTAL = "n_a + n_b"
MEAN = f"select({TOTAL} == 0, 0, (n_a*mean_a + n_b*mean_b)/({TOTAL}))"
SPREAD = f"select({TOTAL} == 0, q_a + q_b, q_a + q_b + (mean_a - mean_b)**2*n_a*n_b/({TOTAL}))"
EMPTY = ["n > 0 or mean == 0", "n > 0 or q == 0"]
WEIGHTED = {"m": "real or -inf", "s": "nonnegative"}
SHIFT_A, SHIFT_B = (
    "select(s_a == 0, 0, s_a*exp(m_a - max(m_a, m_b)))",
    "select(s_b == 0, 0, s_b*exp(m_b - max(m_a, m_b)))",
)
LIVE = ["m > -oo or s == 0"]

ACCEPTED = {
    "the lowest index of the maximum": (KEYED, ["max(v_a, v_b)", LOWEST], ["-inf", "+inf"], ()),
    "counts, means and squared deviations": (WELFORD, [TOTAL, MEAN, SPREAD], [0, 0, 0], EMPTY),
    "the two largest": (
        {"f": "real or -inf", "s": "real or -inf"},
        ["max(f_a, f_b)", "max(min(f_a, f_b), s_a, s_b)"],
        ["-inf", "-inf"],
        ["s <= f"],
    ),
    "partial sums of exponentials, guarded where nothing was seen": (
        WEIGHTED,
        ["max(m_a, m_b)", f"{SHIFT_A} + {SHIFT_B}"],
        ["-inf", 0],
        LIVE,
    ),
    "a sum and a product": (["s", "p"], ["s_a + s_b", "p_a*p_b"], [0, 1], ()),
}
#: name -> reducer, part of O5 that is refuted, component
FIRST, LAST = "select(v_a >= v_b, i_a, i_b)", "select(v_a > v_b, i_a, i_b)"
REFUSED = {
    "ties to the first operand": (KEYED, ["max(v_a, v_b)", FIRST], ["-inf", "+inf"], (), "commutative", "i"),
    "ties to the last operand": (KEYED, ["max(v_a, v_b)", LAST], ["-inf", "+inf"], (), "commutative", "i"),
    "an index that a dead row beats": (KEYED, ["max(v_a, v_b)", LOWEST], ["-inf", "0"], (), "neutral", "i"),
    "a finite stand-in for -inf": (KEYED, ["max(v_a, v_b)", LOWEST], ["-50000", "+inf"], (), "neutral", "v"),
    "a mean without its counts": (
        WELFORD, [TOTAL, "(mean_a + mean_b)/2", "q_a + q_b"], [0, 0, 0], EMPTY, "associative", "mean",
    ),
    "a spread without the second count": (
        WELFORD, [TOTAL, MEAN, f"select({TOTAL} == 0, 0, q_a + q_b + (mean_a - mean_b)**2*n_a/({TOTAL}))"], [0, 0, 0], EMPTY,
        "commutative", "q",
    ),
    "no guard for two empty parts": (
        WELFORD, [TOTAL, f"(n_a*mean_a + n_b*mean_b)/({TOTAL})", SPREAD], [0, 0, 0], EMPTY, "closed", "mean",
    ),
    "partial softmax sums, two empty ones": (
        WEIGHTED, ["max(m_a, m_b)", "s_a*exp(m_a - max(m_a, m_b)) + s_b*exp(m_b - max(m_a, m_b))"], ["-inf", 0], LIVE,
        "closed", "s",
    ),
    "the second largest of the firsts alone": (
        {"f": "real or -inf", "s": "real or -inf"}, ["max(f_a, f_b)", "min(f_a, f_b)"], ["-inf", "-inf"], ["s <= f"],
        "neutral", "s",
    ),
    "a difference": (["d"], ["d_a - d_b"], [0], (), "commutative", "d"),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_any_order_will_do(name: str) -> None:
    report = prove_reducer(*ACCEPTED[name])
    assert report.proved, report.text()
    parts = {(p.obligation.part, p.obligation.stage) for p in report.obligations}
    assert {part for part, _ in parts} == {"closed", "associative", "commutative", "neutral"}


@pytest.mark.parametrize("name", REFUSED)
def test_the_order_shows(name: str) -> None:
    *reducer, part, component = REFUSED[name]
    report = prove_reducer(*reducer)
    assert report.verdict is Verdict.REFUTED
    refuted = {(p.obligation.part, p.obligation.stage) for p in report.failed if p.result.verdict is Verdict.REFUTED}
    assert (part, component) in refuted


def lowest(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    return min((a, b), key=lambda x: (-x[0], x[1]))  # type: ignore[return-value]


def test_what_is_proved_of_the_lowest_index_is_so() -> None:
    """Every triple of keys and indices from a small set, ties and the neutral element included."""
    tuples = [*itertools.product((-INF, 0.0, 1.0), (0.0, 1.0, 2.0)), (-INF, INF)]
    for a, b, c in itertools.product(tuples, repeat=3):
        assert lowest(lowest(a, b), c) == lowest(a, lowest(b, c))
        assert lowest(a, b) == lowest(b, a)
        assert lowest((-INF, INF), a) == a


def test_orders_are_all_weak_orders() -> None:
    """13 of three symbols; with -inf as a fourth value, those in which some of them are -inf as well."""
    names = [var(n, "float32") for n in "xyz"]
    for kinds, wanted in ((frozenset({"neg", "zero", "pos"}), 13), (frozenset({"-inf", "neg", "zero", "pos"}), 26)):
        symbols = tuple(Symbol(v, kinds) for v in names)
        goal = Equal(
            op("max", op("max", names[0], names[1]), names[2]), op("max", names[0], op("max", names[1], names[2]))
        )
        statement = Statement(symbols, (), goal)
        found = [tuple(p[v] for v in names) for p in route_orders.points(statement)]
        assert len(found) == len(set(found)) == wanted
        assert route_orders.prove(statement).verdict is Verdict.PROVED


@pytest.mark.parametrize(("kinds", "hypotheses"), [
    (frozenset({"pos"}), ()),
    (frozenset({"neg", "zero", "pos"}), (Hypothesis(op("lt", op("add", var("x"), var("y")), var("x")), "domain: a sum"),)),
])  # fmt: skip
def test_orders_do_not_apply(kinds: frozenset[str], hypotheses: tuple[Hypothesis, ...]) -> None:
    x, y = var("x"), var("y")
    statement = Statement((Symbol(x, kinds), Symbol(y, kinds)), hypotheses, Equal(op("max", x, y), op("max", y, x)))
    assert not route_orders.applies(statement)
    assert route_orders.prove(statement).verdict is Verdict.UNSUPPORTED


def test_orders_refute_nothing_and_prove_nothing_false() -> None:
    x, y = var("x"), var("y")
    real = frozenset({"neg", "zero", "pos"})
    false = Statement((Symbol(x, real), Symbol(y, real)), (), Equal(op("max", x, y), x))
    assert route_orders.prove(false).verdict is Verdict.UNKNOWN
    empty = Statement((Symbol(x, real),), (Hypothesis(op("lt", x, x), "domain: none"),), Equal(x, x))
    assert route_orders.prove(empty).verdict is Verdict.VACUOUS


@pytest.mark.parametrize(("arguments", "message"), [
    (({"v": "whole"}, ["v_a"], [0]), "v is 'whole'; domains are real"),
    ((["v"], ["w_a"], [0]), "the symbol w_a is not known here; formulas here are over NAME_a and NAME_b"),
    ((["v", "i"], ["v_a"], [0, 0]), "as many domains, results and neutral values as components"),
    (({"v": "positive"}, ["v_a + v_b"], [0]), "the neutral value of v is not in its domain"),
    ((["v"], ["v_a + v_b"], ["zero"]), "zero"),
    ((["1v"], ["v_a"], [0]), "1v is no symbol"),
])  # fmt: skip
def test_what_cannot_be_stated(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")) as error:
        prove_reducer(*arguments)  # type: ignore[arg-type]
    assert isinstance(error.value, NoReducer | ValueError)


def test_the_command() -> None:
    values = ["--value", "v=real or -inf", "--value", "i=real or +inf", "--neutral=-inf", "--neutral=+inf"]
    right = CliRunner().invoke(app, ["reducer", *values, "--combine", "max(v_a, v_b)", "--combine", LOWEST])
    assert right.exit_code == 0 and right.stdout.startswith("proved: v = max(v_a, v_b), neutral -inf")
    wrong = CliRunner().invoke(app, ["reducer", *values, "--combine", "max(v_a, v_b)", "--combine", FIRST])
    assert wrong.exit_code == 3
    assert "false at v_a = 0, i_a = 0, v_b = 0, i_b = 1: 0 instead of 1" in wrong.stdout


def test_welford_against_numbers() -> None:
    """The merge that is proved, on numbers: the mean and the squared deviations of all elements."""
    parts = [[1.0, 4.0], [], [2.5], [-3.0, 0.0, 7.0]]

    def of(xs: list[float]) -> tuple[float, float, float]:
        mean = sum(xs) / len(xs) if xs else 0.0
        return len(xs), mean, sum((x - mean) ** 2 for x in xs)

    def merge(a: tuple[float, float, float], b: tuple[float, float, float]) -> tuple[float, float, float]:
        n = a[0] + b[0]
        if n == 0:
            return 0, 0.0, a[2] + b[2]
        return n, (a[0] * a[1] + b[0] * b[1]) / n, a[2] + b[2] + (a[1] - b[1]) ** 2 * a[0] * b[0] / n

    total = (0.0, 0.0, 0.0)
    for p in parts:
        total = merge(total, of(p))
    everything = of([x for p in parts for x in p])
    assert all(math.isclose(x, y, rel_tol=1e-12) for x, y in zip(total, everything, strict=True))

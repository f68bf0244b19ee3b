"""The evaluator against values known by hand, the falsifier against statements known by hand."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import pytest

from neptune_verified.ir.expr import INF, Expr, Var, const, op, size, var
from neptune_verified.proofs import falsify
from neptune_verified.proofs.evaluate import FIND, UNDEFINED, Terms, Value
from neptune_verified.proofs.statement import Defined, Equal, Hypothesis, Statement, Symbol
from tests.proofs.claims import FALSE, TRUE, VACUOUS
from tests.proofs.library import REPAIRS, F, mutants, say, term


def value(e: Expr, **point: Value) -> Value:
    terms = Terms([e])
    values: list[Value] = []
    terms.evaluate({var(k, F): v for k, v in point.items()}, FIND, values, len(terms.nodes))
    return values[-1]


HALF = Fraction(1, 2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1/3 + 1/6", HALF), ("pinf - pinf", UNDEFINED), ("pinf + pinf", INF), ("ninf + 1", -INF),
        ("0*pinf", UNDEFINED), ("0*ninf", UNDEFINED), ("(-2)*ninf", INF), ("pinf*ninf", -INF),
        ("1/0", UNDEFINED), ("0/0", UNDEFINED), ("pinf/0", UNDEFINED), ("1/ninf", 0), ("pinf/pinf", UNDEFINED),
        ("pinf/(-2)", -INF), ("exp(ninf)", 0), ("exp(pinf)", INF), ("exp(0)", 1), ("exp2(-3)", Fraction(1, 8)),
        ("log(0)", -INF), ("log(-1)", UNDEFINED), ("log(pinf)", INF), ("log(ninf)", UNDEFINED), ("log(1)", 0),
        ("sqrt(9/4)", Fraction(3, 2)), ("sqrt(-1)", UNDEFINED), ("sqrt(ninf)", UNDEFINED), ("sqrt(pinf)", INF),
        ("rsqrt(0)", UNDEFINED), ("rsqrt(4)", HALF), ("rsqrt(pinf)", 0), ("pow(0, -1)", UNDEFINED), ("pow(0, 0)", 1),
        ("pow(-2, 3)", -8), ("pow(-2, 1/2)", UNDEFINED), ("pow(ninf, 3)", -INF), ("pow(ninf, 2)", INF),
        ("pow(ninf, -2)", 0), ("pow(ninf, 1/2)", UNDEFINED), ("pow(4, 1/2)", 2), ("tanh(ninf)", -1), ("tanh(0)", 0),
        ("sigmoid(ninf)", 0), ("sigmoid(pinf)", 1), ("sigmoid(0)", HALF), ("erf(pinf)", 1), ("sin(pinf)", UNDEFINED),
        ("cos(0)", 1), ("floor(-1/2)", -1), ("ceil(-1/2)", 0), ("round(5/2)", 2), ("floordiv(-7, 2)", -4),
        ("floormod(-7, 2)", 1), ("floordiv(1, 0)", UNDEFINED), ("max(ninf, 1)", 1), ("min(ninf, 1)", -INF),
        ("max(1, 1/0)", UNDEFINED), ("abs(ninf)", INF), ("1 < pinf", True), ("ninf == ninf", True),
        ("1/0 == 1/0", UNDEFINED),
        ("select(1 < 2, 1, 1/0)", 1), ("select(2 < 1, 1/0, 5)", 5), ("select(1/0 < 1, 1, 1)", UNDEFINED),
        ("true or 1/0 > 0", UNDEFINED), ("false and 1/0 > 0", UNDEFINED), ("not false", True),
        ("exp(log(2)) - 2", 0), ("log(exp(3) * exp(-3))", 0), ("sqrt(2)*sqrt(2) - 2", 0),
    ],
)  # fmt: skip
def test_value(text: str, expected: Value) -> None:
    found = value(term(text))
    assert found is expected or (type(found) is not bool and found == expected)


@pytest.mark.parametrize(
    ("source", "target", "x", "expected"),
    [("float32", "int32", Fraction(-3, 2), -1), ("float32", "bool", HALF, True),
     ("float32", "bool", Fraction(0), False), ("bool", "float32", True, 1), ("float32", "float16", HALF, HALF),
     ("float32", "int32", -INF, UNDEFINED)],
)  # fmt: skip
def test_cast(source: str, target: str, x: Value, expected: Value) -> None:
    v = var("v", source)
    terms = Terms([op("cast", v, dtype=target)])
    values: list[Value] = []
    terms.evaluate({v: x}, FIND, values, 2)
    assert values[-1] is expected or values[-1] == expected


def test_irrational_values_have_fifty_digits() -> None:
    digits = FIND.mp.mpf("2.7182818284590452353602874713526624977572470936999595749669676277")
    assert abs(value(term("exp(1)")) - digits) < 1e-45
    assert abs(value(term("exp2(1/2)")) - FIND.mp.sqrt(2)) < 1e-45


@pytest.mark.parametrize("name", TRUE)
def test_true_statements_have_no_counterexample(name: str) -> None:
    seen = falsify.survey(TRUE[name])
    assert seen.counterexample is None
    assert seen.relevant > 0


@pytest.mark.parametrize("name", FALSE)
def test_false_statements_have_one(name: str) -> None:
    assert falsify.falsify(FALSE[name]) is not None


@pytest.mark.parametrize("name", VACUOUS)
def test_contradictory_hypotheses_have_no_point(name: str) -> None:
    assert not falsify.satisfiable(VACUOUS[name])
    assert falsify.falsify(VACUOUS[name]) is None


@pytest.mark.parametrize("repair", REPAIRS, ids=lambda r: r.name)
def test_library(repair) -> None:  # type: ignore[no-untyped-def]
    for name, statement in repair.statements().items():
        assert falsify.falsify(statement) is None, name


@pytest.mark.parametrize(
    ("name", "values", "left", "right"),
    [
        ("unguarded", {"c": "-inf", "m": "-inf", "m_new": "0"}, "undefined", "0"),
        ("x over x", {"x": "0"}, "undefined", "1"),
        ("affine sum", {"x": "0", "y": "0", "b": "1"}, "1", "2"),
        ("max of any sign", {"x": "0", "y": "1", "k": "-1"}, "-1", "0"),
        ("half log of a real", {"r": "-1"}, "undefined", "a defined value"),
        ("factor below 1", {"m": "0", "m_new": "0"}, "false", "true"),
        ("missed constant", {"x": "5"}, "0", "1"),
        ("any starts at true", {"x": "false"}, "true", "false"),
    ],
)
def test_counterexamples_are_small(name: str, values: dict[str, str], left: str, right: str) -> None:
    found = falsify.falsify(FALSE[name])
    assert found is not None
    assert (dict(found.values), found.left, found.right) == (values, left, right)


def test_sides_that_differ_late_are_printed_apart() -> None:
    found = falsify.falsify(FALSE["literal is not log2e"])
    assert found is not None and found.left != found.right


@pytest.mark.parametrize(
    "statement",
    [
        say("x: real", "sqrt(2)*sqrt(2) = 2 + x*0"),
        say("x: positive", "exp(log(x)*3) = x*x*x"),
        say("x: positive", "sqrt(x)*sqrt(x)*sqrt(x) = x*sqrt(x)"),
        say("x y: real", "exp(x)*exp(y) = exp(x+y)"),
        say("x: real", "def 1/(1 + exp(x) - exp(x))"),
    ],
)
def test_rounding_refutes_nothing(statement: Statement) -> None:
    assert falsify.falsify(statement) is None


def test_a_tiny_difference_refutes() -> None:
    assert falsify.falsify(say("x: positive", "x*1.0000000000000002 = x")) is not None
    assert falsify.falsify(say("x: real", "exp(x) + pow(10, -25) = exp(x)")) is not None


def test_repair_meets_hypotheses_that_chance_would_not() -> None:
    chain = say("a b c d e: real", "a <= e", "a <= b", "b <= c", "c <= d", "d <= e")
    seen = falsify.survey(chain)
    assert seen.points >= 60 and seen.counterexample is None
    facts = say("n r s: real", "s - n*r = 0", "s == n*r", "n >= 3")
    assert falsify.survey(facts).points >= 20


def test_refines_with_a_right_side_defined_nowhere() -> None:
    statement = say("x: real", "1 ~ x/0")
    assert falsify.satisfiable(statement) and not falsify.ever_defined(statement)


def test_integer_symbols_take_integers_only() -> None:
    n = var("n", "int32")
    real = op("cast", n, dtype=F)
    whole = Statement((Symbol(n, frozenset({"zero", "pos"})),), (), Equal(op("floor", real), real))
    assert falsify.falsify(whole) is None
    assert falsify.refutes(say("x: real", "x = 0"), {var("x", F): HALF}) is not None


@pytest.mark.parametrize("point", [{}, {"x": -INF}, {"x": True}, {"x": HALF, "y": HALF}])
def test_points_outside_the_domain_refute_nothing(point: dict[str, Value]) -> None:
    assert falsify.refutes(say("x: real", "x = 0"), {var(k, F): v for k, v in point.items()}) is None


@pytest.mark.parametrize(
    ("claim", "point", "false"),
    [
        ("x = 0", {"x": HALF}, True),
        ("x = 0", {"x": HALF, "y": HALF}, True),  # of a statement with one symbol more
        ("x = 0", {"x": Fraction(0)}, False),
        ("x = 0", {"y": HALF}, False),
        ("x = 0", {}, False),
        ("x = 0", {"x": -INF}, False),
    ],
)
def test_a_point_of_another_statement(claim: str, point: dict[str, Value], false: bool) -> None:
    assert falsify.false_at(say("x: real", claim), point) is false


def test_a_survey_tells_the_point_of_its_counterexample() -> None:
    statement = say("x: real, y: real", "x*y = y")
    found = falsify.survey(statement)
    assert found.counterexample is not None and set(found.point) == {"x", "y"}
    assert falsify.false_at(statement, found.point) and found.point["y"] != 0 and found.point["x"] != 1
    assert falsify.survey(say("x: real", "x = x")).point == {}


def test_what_has_no_value_at_a_point_is_reported() -> None:
    x = var("x", F)
    symbols = (Symbol(x, frozenset({"pos"})),)
    assert "Size" in falsify.survey(Statement(symbols, (), Defined(size("n")))).unsupported
    assert "not quantified" in falsify.survey(Statement(symbols, (), Defined(var("y", F)))).unsupported
    assert "twice" in falsify.survey(Statement(symbols * 2, (), Defined(x))).unsupported


def test_numbers_out_of_reach_are_skipped() -> None:
    assert falsify.survey(say("x: positive", "def exp(exp(exp(exp(x*9))))")).counterexample is None


def test_many_symbols_are_sampled() -> None:
    names = "a b c d e f g h"
    seen = falsify.survey(say(f"{names}: extended", f"def {names.replace(' ', ' + ')}"))
    assert seen.counterexample is not None
    largest = f"max({', max('.join(names.split()[:-1])}, h{')' * 7}"
    assert falsify.survey(say(f"{names}: extended", f"def {largest}")).points == 300


def test_answers_do_not_depend_on_the_hash_seed() -> None:
    code = ("from tests.proofs.claims import FALSE\nfrom neptune_verified.proofs import falsify\n"
            "print([str(falsify.falsify(s)) for s in FALSE.values()])")  # fmt: skip
    runs = {
        subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
                       capture_output=True, text=True, check=True).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(runs) == 1


@pytest.mark.parametrize("repair", REPAIRS, ids=lambda r: r.name)
def test_every_mutant_is_refuted(repair) -> None:  # type: ignore[no-untyped-def]
    _, h, producers = repair.parts()
    for mutant in mutants(h, producers):
        if repair.equivalent(mutant):
            continue
        statements = repair.statements(mutant)
        assert any(falsify.falsify(statements[k]) for k in ("O1", "O2", "O6")), mutant


def test_hypotheses_are_true_only_if_defined() -> None:
    x = var("x", F)
    assumed = Hypothesis(op("eq", op("div", const(1, F), x), const(1, F)), "declared: test")
    statement = Statement((Symbol(x, frozenset({"zero"})),), (assumed,), Defined(x))
    assert not falsify.satisfiable(statement)
    assert isinstance(x, Var)


def test_domains_without_points() -> None:
    x = var("x", F)
    assert falsify.survey(Statement((Symbol(x, frozenset()),), (), Defined(x))).points == 0
    assert "another type" in falsify.survey(Statement((Symbol(x, frozenset({"true"})),), (), Defined(x))).unsupported

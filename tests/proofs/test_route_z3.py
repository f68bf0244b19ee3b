"""The Z3 route alone: what it proves, what it must not prove, and the text that it leaves behind."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import mpmath
import pytest
import z3

from neptune_verified.ir.expr import size, var
from neptune_verified.proofs import falsify, route_z3, z3_poly
from neptune_verified.proofs.limits import Limits
from neptune_verified.proofs.statement import Defined, Statement, Symbol
from neptune_verified.proofs.verdict import Verdict
from neptune_verified.proofs.z3_cases import Lowering
from neptune_verified.proofs.z3_text import exp_bounds
from tests.proofs.claims import FALSE, TRUE, VACUOUS
from tests.proofs.library import REPAIRS, F, mutants, say


@pytest.mark.parametrize("name", TRUE)
def test_true_statements_are_proved_by_their_script(name: str) -> None:
    result = route_z3.prove(TRUE[name])
    assert result.verdict is Verdict.PROVED, result.detail
    assert route_z3.run_script(result.script) is Verdict.PROVED
    assert "/" not in "".join(line.split(";")[0] for line in result.script.splitlines())


@pytest.mark.parametrize("name", FALSE)
def test_false_statements_are_not_proved(name: str) -> None:
    result = route_z3.prove(FALSE[name])
    assert result.verdict in (Verdict.REFUTED, Verdict.UNKNOWN, Verdict.UNSUPPORTED)
    assert (result.verdict is Verdict.REFUTED) == (result.counterexample is not None)
    assert route_z3.run_script(route_z3.script(FALSE[name])) is not Verdict.PROVED


@pytest.mark.parametrize("name", VACUOUS)
def test_contradictory_hypotheses_are_vacuous(name: str) -> None:
    assert route_z3.prove(VACUOUS[name]).verdict is Verdict.VACUOUS


@pytest.mark.parametrize("repair", REPAIRS, ids=lambda r: r.name)
def test_library(repair) -> None:  # type: ignore[no-untyped-def]
    for name, statement in repair.statements().items():
        result = route_z3.prove(statement)
        assert result.verdict is Verdict.PROVED, (name, result.detail)


@pytest.mark.parametrize("repair", REPAIRS, ids=lambda r: r.name)
def test_every_mutant_is_refused(repair) -> None:  # type: ignore[no-untyped-def]
    _, h, producers = repair.parts()
    for mutant in mutants(h, producers):
        if not repair.equivalent(mutant):
            statements = repair.statements(mutant)
            verdicts = [route_z3.prove(statements[k]).verdict for k in ("O1", "O2", "O6")]
            assert any(v is not Verdict.PROVED for v in verdicts), mutant


@pytest.mark.parametrize(
    "statement",
    [
        say("r: real", "def exp(log(r)/2)"),
        say("r: real", "def pow(r, 0.5)"),
        say("r: real", "exp(log(r)/2)*exp(log(r)/2) = r"),
        say("r s: real", "exp(log(r)/2)*exp(log(s)/2) ~ exp(log(r*s)/2) + 0*exp(log(-r))"),
        say("r: nonnegative", "exp(log(r)/(-2)) = rsqrt(r)"),
        say("r: nonnegative", "exp(log(r)/2) > 0"),
        say("r: nonnegative", "def rsqrt(r)"),
        say("x y: real", "def sqrt(x*y)", "x + y > 0"),
    ],
)
def test_a_root_does_not_imply_that_its_argument_is_positive(statement: Statement) -> None:
    """Asserting root > 0 and root**2 == r without a premise would prove each of these."""
    assert route_z3.prove(statement).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    "text",
    [
        "1/(1 + r/2) = 1/(1 + r/3)",
        "1/(2 + 3*r) = 1/(2 + 2*r)",
        "1/(2 + r) = 1/(2 + r/2)",
        "sqrt(2 + 3*r) = sqrt(2 + 2*r)",
        "rsqrt(1 + r/2) = rsqrt(1 + 2*r/3)",
    ],
)
def test_fractions_in_a_divisor_are_not_cut_off(text: str) -> None:
    """Divisors and roots are polynomials of their own in the script, where every coefficient is printed whole."""
    result = route_z3.prove(say("r: nonnegative", text))
    assert result.verdict is Verdict.REFUTED, result.detail


def test_multiples_of_one_divisor_are_one_divisor() -> None:
    assert route_z3.prove(say("r: nonnegative", "1/(1 + r/2) = 2/(2 + r)")).verdict is Verdict.PROVED
    assert route_z3.prove(say("r: nonnegative", "1/(-1/3 - r/2) = -6/(2 + 3*r)")).verdict is Verdict.PROVED


@pytest.mark.parametrize(
    ("text", "fact", "proved"),
    [
        ("log(u) >= 0.6931471", "u >= 2", True),
        ("log(u) >= 0.6931472", "u >= 2", False),
        ("log(u) > 0", "u >= 2", True),
        ("log(u) > 0", "u >= 1", False),
        ("log(u) <= 25.65", "u <= 137438953000", True),
        ("log(u) <= 25.64", "u <= 137438953000", False),
        ("log(u) >= -0.6931472", "u >= 0.5", True),
        ("log(u) >= -0.6931471", "u >= 0.5", False),
        ("log(u) <= -0.6931471", "u <= 0.5", True),
        ("log(u) <= -0.6931472", "u <= 0.5", False),
        ("log(u) >= 0.6931471", "u <= 2", False),
        ("log(u) <= 0.6931472", "u >= 2", False),
        ("log(u) >= -5", "u <= 1", False),
        ("log(u) >= 0.6931471 and log(u) <= 0.6931472", "u >= 1.9", False),
    ],
)
def test_bounds_of_a_logarithm(text: str, fact: str, proved: bool) -> None:
    verdict = route_z3.prove(say("u: positive", text, fact)).verdict
    assert verdict is Verdict.PROVED if proved else verdict in (Verdict.REFUTED, Verdict.UNKNOWN)


@pytest.mark.parametrize(
    "k", [Fraction(1), Fraction(-1, 3), Fraction(7000001, 10000000), Fraction(799), Fraction(-799)]
)
def test_bounds_of_exponentials_enclose_them(k: Fraction) -> None:
    low, high = exp_bounds(k)
    with mpmath.workdps(60):
        true = mpmath.exp(mpmath.mpf(k.numerator) / k.denominator)
        assert mpmath.mpf(low.numerator) / low.denominator < true < mpmath.mpf(high.numerator) / high.denominator
    assert high - low < low / 10**27


LOGS_AND_POWERS = [
    ("a: nonnegative", "def 1/log(a+2)", True),
    ("a: nonnegative", "log(a+2) > 0", True),
    ("a: nonnegative", "log(a+1) > 0", False),
    ("a: nonnegative", "log(a) > 0", False),
    ("a: nonnegative", "log(a+2) > 1", False),
    ("a: nonnegative", "def 1/log(a+1)", False),
    ("a: nonnegative", "def 1/log(a+0.5)", False),
    ("a: real", "def 1/log(a+2)", False),
    ("a b: nonnegative, t: real", "(t/log(a+2))*(log(a+2)/log(b+2)) = t/log(b+2)", True),
    ("a b: nonnegative, t: real", "(t/log(a+1))*(log(a+1)/log(b+2)) = t/log(b+2)", False),
    ("a b: nonnegative, t: real", "(t/log(a+2))*(log(b+2)/log(a+2)) = t/log(b+2)", False),
    ("e: positive, a b: nonnegative", "pow(pow(e, 1/(a+1)), 1/(b+1)/(1/(a+1))) = pow(e, 1/(b+1))", True),
    ("e: positive, a b: nonnegative", "pow(pow(e, 1/(a+1)), (1+a)/(1+b)) = pow(e, 1/(b+1))", True),
    ("e: positive, a b: nonnegative", "pow(pow(e, 1/(a+1)), (2+a)/(1+b)) = pow(e, 1/(b+1))", False),
    ("e: positive, a b: nonnegative", "pow(pow(e, 1/(a+1)), (1+b)/(1+a)) = pow(e, 1/(b+1))", False),
    ("e: positive, a b: real", "pow(pow(e, 1/(a+1)), (1+a)/(1+b)) ~ pow(e, 1/(b+1))", False),
    ("e: real, a b: nonnegative", "pow(pow(e, 1/(a+1)), (1+a)/(1+b)) = pow(e, 1/(b+1))", False),
    ("e: positive, p q: real", "pow(pow(e, p), q) = pow(e, p*q)", True),
    ("e: nonnegative, p q: real", "pow(pow(e, p), q) = pow(e, p*q)", False),
    ("e: nonnegative, p q: real", "pow(pow(e, p), q) ~ pow(e, p*q)", False),
    ("e p q: real", "pow(pow(e, p), q) = pow(e, p*q)", False),
    ("u p: real", "pow(exp(u), p) = exp(u*p)", True),
    ("u p: real", "pow(exp(u), p) = exp(u)*p", False),
    ("a c: real", "exp((a*c + c)/(a+1)) = exp(c)", False),
    ("a: nonnegative, c: real", "exp((a*c + 2*c)/(a+1)) = exp(c)", False),
]


@pytest.mark.parametrize(("symbols", "text", "proved"), LOGS_AND_POWERS)
def test_logarithms_and_powers(symbols: str, text: str, proved: bool) -> None:
    assert (route_z3.prove(say(symbols, text)).verdict is Verdict.PROVED) == proved


def test_a_common_divisor_of_an_exponent() -> None:
    assert route_z3.prove(say("a: nonnegative, c: real", "exp((a*c + c)/(a+1)) = exp(c)")).verdict is Verdict.PROVED


@pytest.mark.parametrize(
    ("p", "b"),
    [
        ("(a+b)*(a-b)", "a+b"),
        ("(a+2*b)*(a*b+3)", "a*b+3"),
        ("a*a+1", "a+1"),
        ("(a+1)*b+1", "a+1"),
        ("a", "a+b"),
        ("0", "a+1"),
    ],
)
def test_exact_quotients(p: str, b: str) -> None:
    lowering = Lowering(say("a b: positive", "a = b").symbols, 64)
    above, below = (lowering.cases(say("a b: positive", f"def {x}").terms()[0])[0][1][1] for x in (p, b))
    found = z3_poly.quotient(above, below)
    assert found is None or z3_poly.mul(found, below) == above
    assert (found is None) == (p in ("a*a+1", "(a+1)*b+1", "a"))


def test_a_model_counts_only_if_it_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """exp is an arbitrary positive number to Z3, so a model alone is no counterexample."""
    statement = say("x: real", "exp(x + 2*x*x) >= 1/2")
    assert falsify.falsify(statement) is None
    result = route_z3.prove(statement)
    assert result.verdict is Verdict.UNKNOWN and "sat" in result.detail
    monkeypatch.setattr(falsify, "refutes", lambda *_: None)
    assert route_z3.prove(FALSE["x over x"]).verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("statement", "construct"),
    [
        (say("x: real", "tanh(x) <= 1"), "tanh"),
        (say("x: real", "erf(x) <= 1"), "erf"),
        (say("x: real", "sin(x) <= 1"), "sin"),
        (say("x: real", "floor(x) <= x"), "floor"),
        (say("x: negative, y: real", "def pow(x, y)"), "power of a negative number"),
        (Statement((Symbol(var("x", F), frozenset({"pos"})),), (), Defined(size("n"))), "Size n"),
        (Statement((Symbol(var("x", F), frozenset({"pos"})),), (), Defined(var("z", F))), "Var z"),
    ],
)
def test_unsupported_names_the_construct(statement: Statement, construct: str) -> None:
    result = route_z3.prove(statement)
    assert result.verdict is Verdict.UNSUPPORTED and construct in result.detail


def test_what_is_not_evaluated_need_not_be_supported() -> None:
    assert route_z3.prove(say("x: positive", "select(x > 0, x, tanh(x)) = x")).verdict is Verdict.PROVED
    assert route_z3.prove(say("x: positive", "1 = 1", "tanh(x) < 2")).verdict is Verdict.PROVED


def test_an_unreadable_hypothesis_excludes_nothing() -> None:
    assert route_z3.prove(say("x: real", "x = 1", "tanh(x) > 0")).verdict is not Verdict.PROVED


def test_the_script_is_one_text_for_one_statement() -> None:
    code = ("from tests.proofs.claims import TRUE\nfrom neptune_verified.proofs.route_z3 import script\n"
            "print([script(s, facts) for s in TRUE.values() for facts in (False, True)])")  # fmt: skip
    runs = {
        subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
                       capture_output=True, text=True, check=True).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(runs) == 1


def test_names_with_any_letters() -> None:
    odd = tuple(Symbol(var(name, F), frozenset({"pos"}), "two\nlines") for name in ("a b", "a|b", "a.b", "é;", "("))
    total = Defined(odd[0].var)
    result = route_z3.prove(Statement(odd, (), total))
    assert result.verdict is Verdict.PROVED


@pytest.mark.parametrize(
    "edit",
    [
        lambda s: s.replace("(check-sat)", ""),
        lambda s: s + "(check-sat)\n",
        lambda s: s.replace("(check-sat)", "(exit)"),
        lambda s: s.replace("(assert", "(asssert"),
        lambda s: s.replace("(check-sat)", "(push)\n(assert false)\n(check-sat)\n(pop)\n(check-sat)"),
        lambda s: "",
        lambda s: "(check-sat)",
        lambda s: s.splitlines()[0],
    ],
)
def test_a_damaged_script_does_not_prove_more(edit) -> None:  # type: ignore[no-untyped-def]
    script = route_z3.script(FALSE["x over x"])
    assert route_z3.run_script(script) is not Verdict.PROVED
    assert route_z3.run_script(edit(script)) is not Verdict.PROVED


def test_limits_and_failures_end_in_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    hard = say("a b c d: positive", "sqrt(a+b*c)*sqrt(b+c*d)*sqrt(c+d*a) <= pow(a+b+c+d+a*b*c*d, 3)")
    assert route_z3.prove(hard, timeout_ms=1).verdict in (Verdict.TIMEOUT, Verdict.UNKNOWN)
    assert route_z3.prove(TRUE["O1 guarded"], limits=Limits(z3_cases=2)).verdict is Verdict.UNKNOWN

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("solver broke")

    monkeypatch.setattr(z3, "Solver", broken)
    result = route_z3.prove(TRUE["O1 guarded"])
    assert result.verdict is Verdict.UNKNOWN and "solver broke" in result.detail
    assert route_z3.run_script("(set-logic QF_NRA)\n(assert false)\n(check-sat)") is Verdict.UNKNOWN


def test_a_symbol_quantified_twice_is_refused() -> None:
    s = Symbol(var("x", F), frozenset({"pos"}))
    twice = Statement((s, Symbol(s.var, frozenset({"neg"}))), (), Defined(s.var))
    assert route_z3.prove(twice).verdict is Verdict.UNKNOWN


def test_a_symbol_without_values_is_vacuous() -> None:
    x = var("x", F)
    assert route_z3.prove(Statement((Symbol(x, frozenset()),), (), Defined(x))).verdict is Verdict.VACUOUS


def test_kinds_of_another_type_are_refused() -> None:
    x = var("x", F)
    for kinds in ({"pos", "true"}, {"true"}, {"large"}):
        assert route_z3.prove(Statement((Symbol(x, frozenset(kinds)),), (), Defined(x))).verdict is Verdict.UNKNOWN

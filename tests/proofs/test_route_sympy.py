"""The SymPy route alone: what it proves and what it must not prove."""

from __future__ import annotations

import pytest
import sympy as sp

from neptune_verified.ir.expr import size, var
from neptune_verified.proofs import falsify, route_sympy, sympy_terms
from neptune_verified.proofs.limits import Limits
from neptune_verified.proofs.statement import Defined, Statement, Symbol
from neptune_verified.proofs.verdict import Verdict
from tests.proofs.claims import FALSE, TRUE, VACUOUS
from tests.proofs.library import REPAIRS, F, mutants, say
from tests.proofs.test_route_z3 import LOGS_AND_POWERS


@pytest.mark.parametrize("name", TRUE)
def test_true_statements_are_proved(name: str) -> None:
    result = route_sympy.prove(TRUE[name])
    assert result.verdict is Verdict.PROVED, result.detail


@pytest.mark.parametrize("name", FALSE)
def test_false_statements_are_not_proved(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result = route_sympy.prove(FALSE[name])
    assert result.verdict in (Verdict.REFUTED, Verdict.UNSUPPORTED)
    monkeypatch.setattr(falsify, "falsify", lambda *_: None)
    assert route_sympy.prove(FALSE[name]).verdict in (Verdict.UNKNOWN, Verdict.UNSUPPORTED)


@pytest.mark.parametrize("name", VACUOUS)
def test_contradictory_hypotheses_are_vacuous(name: str) -> None:
    assert route_sympy.prove(VACUOUS[name]).verdict is Verdict.VACUOUS


@pytest.mark.parametrize("repair", REPAIRS, ids=lambda r: r.name)
def test_library(repair) -> None:  # type: ignore[no-untyped-def]
    for name, statement in repair.statements().items():
        result = route_sympy.prove(statement)
        assert result.verdict is Verdict.PROVED, (name, result.detail)


@pytest.mark.parametrize("repair", REPAIRS, ids=lambda r: r.name)
def test_every_mutant_is_refused(repair) -> None:  # type: ignore[no-untyped-def]
    _, h, producers = repair.parts()
    for mutant in mutants(h, producers):
        if not repair.equivalent(mutant):
            statements = repair.statements(mutant)
            verdicts = [route_sympy.prove(statements[k]).verdict for k in ("O1", "O2", "O6")]
            assert any(v is not Verdict.PROVED for v in verdicts), mutant


@pytest.mark.parametrize(
    "statement",
    [
        say("a b: real", "(a*b)/a = b"),
        say("a: real", "exp(log(a)) = a"),
        say("x: real", "(x*x-1)/(x-1) = x+1"),
        say("x: real", "log(x*x) = 2*log(x)"),
        say("x: real", "pow(x*x, 0.5) = x"),
        say("x: masked", "x - x = 0"),
        say("x y: masked", "exp(x-y)*exp(y-x) = 1"),
        say("x: real", "pow(x, 0) = x/x"),
        say("r: real", "def exp(log(r)/2)"),
        say("x: nonnegative", "x/x = 1"),
    ],
)
def test_domains_that_simplification_drops(statement: Statement) -> None:
    """SymPy says True, or cancels the pole, for each of these."""
    assert route_sympy.prove(statement).verdict is Verdict.REFUTED


@pytest.mark.parametrize(("symbols", "text", "proved"), LOGS_AND_POWERS)
def test_logarithms_and_powers(symbols: str, text: str, proved: bool) -> None:
    assert (route_sympy.prove(say(symbols, text), timeout_ms=3000).verdict is Verdict.PROVED) == proved


@pytest.mark.parametrize(
    "statement",
    [
        say("x y z: real", "max(x, max(y, z)) >= y"),
        say("x y: real", "abs(x*y) = abs(x)*abs(y)"),
        say("x y: real", "max(x,y) + min(x,y) = x + y"),
        say("x y: real", "abs(x-y) = max(x,y) - min(x,y)"),
        say("x y: positive", "max(log(x), log(y)) = log(max(x, y))"),
        say("x y: positive", "select(x*x > y, 1, 2) >= 1"),
        say("a b c d: real", "d >= a", "a <= b", "b <= c", "c <= d"),
        say("a b: positive", "a/b <= 1", "a <= b"),
        say("a b: nonnegative", "select(b == 0, 0, a/b) <= 1", "a <= b"),
        say("x y: real", "x*x = y*y", "x == y"),
        say("x: masked", "def x - 1", "x > ninf"),
        say("p: bool, x: real", "select(p, x, x) = x"),
        say("p q: bool", "(not (p and q)) = ((not p) or (not q))"),
    ],
)
def test_splits(statement: Statement) -> None:
    result = route_sympy.prove(statement)
    assert result.verdict is Verdict.PROVED, result.detail


@pytest.mark.parametrize(
    "statement",
    [
        say("x y z: real", "max(x, max(y, z)) > y"),
        say("a b c d: real", "d > a", "a <= b", "b <= c", "c <= d"),
        say("a b: positive", "a/b < 1", "a <= b"),
        say("a b: nonnegative", "def a/b", "a <= b"),
        say("x y: real", "x = y", "x*x == y*y"),
        say("x y: positive", "select(x*x > y, 1, 2) = 1"),
        say("p q: bool", "(not (p and q)) = ((not p) and (not q))"),
        say("x y: real", "x <= y", "not (x < y) or x != y"),
    ],
)
def test_splits_do_not_prove_too_much(statement: Statement) -> None:
    assert route_sympy.prove(statement).verdict is Verdict.REFUTED


@pytest.mark.parametrize(
    ("statement", "construct"),
    [
        (say("x: real", "tanh(x) <= 1"), "tanh"),
        (say("x: real", "floor(x) <= x"), "floor"),
        (say("x: negative, y: real", "def pow(x, y)"), "power"),
        (Statement((Symbol(var("x", F), frozenset({"pos"})),), (), Defined(size("n"))), "Size n"),
        (Statement((Symbol(var("x", F), frozenset({"pos"})),), (), Defined(var("z", F))), "Var z"),
    ],
)
def test_unsupported_names_the_construct(statement: Statement, construct: str) -> None:
    result = route_sympy.prove(statement)
    assert result.verdict is Verdict.UNSUPPORTED and construct in result.detail


def test_an_unreadable_hypothesis_excludes_nothing() -> None:
    assert route_sympy.prove(say("x: real", "x = 1", "tanh(x) > 0")).verdict is Verdict.REFUTED
    assert route_sympy.prove(say("x: positive", "x = x", "tanh(x) < 2")).verdict is Verdict.PROVED


def test_limits_and_failures_end_unproved(monkeypatch: pytest.MonkeyPatch) -> None:
    assert route_sympy.prove(TRUE["O5 max"], timeout_ms=0).verdict is Verdict.TIMEOUT
    assert route_sympy.prove(TRUE["O5 max"], limits=Limits(sympy_cases=3)).verdict is Verdict.UNKNOWN

    def broken(*_: object) -> None:
        raise RuntimeError("SymPy broke")

    monkeypatch.setattr(route_sympy, "equal", broken)
    result = route_sympy.prove(TRUE["O1 guarded"])
    assert result.verdict is Verdict.UNKNOWN and "SymPy broke" in result.detail


def test_forbidden_functions_are_not_called(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("simplify and solve drop domains")

    for module in (sp, sympy_terms.sp):
        monkeypatch.setattr(module, "simplify", forbidden)
        monkeypatch.setattr(module, "solve", forbidden)
    for statement in TRUE.values():
        assert route_sympy.prove(statement).verdict is Verdict.PROVED


def test_a_symbol_quantified_twice_is_refused() -> None:
    s = Symbol(var("x", F), frozenset({"pos"}))
    twice = Statement((s, Symbol(s.var, frozenset({"neg"}))), (), Defined(s.var))
    assert route_sympy.prove(twice).verdict is Verdict.UNKNOWN


def test_a_symbol_without_values_is_vacuous() -> None:
    x = var("x", F)
    assert route_sympy.prove(Statement((Symbol(x, frozenset()),), (), Defined(x))).verdict is Verdict.VACUOUS


def test_kinds_of_another_type_are_refused() -> None:
    x = var("x", F)
    for kinds in ({"pos", "true"}, {"true"}, {"large"}):
        assert route_sympy.prove(Statement((Symbol(x, frozenset(kinds)),), (), Defined(x))).verdict is Verdict.UNKNOWN

"""The checkers themselves, made wrong one at a time: each change lets a wrong program through, or refuses a right one.

Every test first asserts what the true checker does, and then that the changed one does the opposite. So each of these
changes turns an assertion of this file red if it is made in the source.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from neptune_verified.ir.expr import FALSE, op, var
from neptune_verified.ir.loops import LoopProgram
from neptune_verified.mutants.matrix import LEMMAS
from neptune_verified.proofs import discharge, falsify, kernel, route_sympy, route_z3
from neptune_verified.proofs.falsify import Survey
from neptune_verified.proofs.kernel import Prover, Refused, verify
from neptune_verified.proofs.obligations import Obligation
from neptune_verified.proofs.statement import Holds, Refines, Statement, Symbol
from neptune_verified.proofs.verdict import RouteResult, Verdict
from tests.mutants.checkers import (  # noqa: F401
    NOTHING_REPAIRED,
    accepts,
    accepts_split,
    differs,
    forget,
    forgetful,
    mutant,
    required_without,
    right,
)

Patch = pytest.MonkeyPatch
F = "float32"


def always_proved(statement: Statement, *_: Any) -> RouteResult:
    return RouteResult("patched", Verdict.PROVED)


def no_points(statement: Statement, *_: Any) -> Survey:
    """A falsifier that looks at nothing and says that there was something to look at."""
    return Survey(points=1, relevant=1)


# ------------------------------------------------------------------------------------------- provers


@pytest.mark.parametrize("route", [route_z3, route_sympy])
def test_one_prover_says_proved(route: Any, monkeypatch: Patch) -> None:
    """The other one still refuses, with and without the falsifier."""
    wrong = mutant(NOTHING_REPAIRED).loops
    o1 = next(o for o in kernel.required(wrong) if o.kind == "O1")
    assert route.prove(o1.statement).verdict is not Verdict.PROVED
    monkeypatch.setattr(route, "prove", always_proved)
    assert not accepts(wrong)
    monkeypatch.setattr(falsify, "survey", no_points)
    assert not accepts(wrong)
    said = {r.verdict for r in discharge.discharge(o1.statement).routes}
    assert Verdict.PROVED in said and len(said) == 2


def test_both_provers_say_proved(monkeypatch: Patch) -> None:
    wrong = mutant(NOTHING_REPAIRED).loops
    for module in (route_z3, route_sympy):
        monkeypatch.setattr(module, "prove", always_proved)
    assert not accepts(wrong), "the falsifier refuses it without them"
    monkeypatch.setattr(falsify, "survey", no_points)
    assert accepts(wrong)


def test_the_falsifier_is_off(monkeypatch: Patch) -> None:
    """What the provers cannot decide is then refused without the point that shows why."""
    wrong = mutant("waves: moved into its producer's pass: nothing repaired (a)").loops
    o1 = next(o for o in kernel.required(wrong) if o.kind == "O1")
    assert discharge.discharge(o1.statement).verdict is Verdict.REFUTED
    monkeypatch.setattr(falsify, "survey", no_points)
    forget()
    assert discharge.discharge(o1.statement).verdict is not Verdict.REFUTED


def test_vacuity_is_not_looked_for(monkeypatch: Patch) -> None:
    """log(-x) is defined for no positive x, so that any term refines it."""
    x = var("x", F)
    statement = Statement((Symbol(x, frozenset({"pos"})),), (), Refines(x, op("log", op("neg", x))))
    assert discharge.discharge(statement).verdict is Verdict.VACUOUS
    monkeypatch.setattr(falsify, "survey", no_points)
    forget()
    assert discharge.discharge(statement).verdict is Verdict.PROVED


def test_one_route_is_enough(monkeypatch: Patch) -> None:
    """SymPy does not decide this one; it is right, but not proved twice."""
    undecided = mutant("masked_mean: keep_neutral flipped (o over m)").loops
    assert not accepts(undecided)

    def lenient(routes: Any) -> Verdict:
        seen = list(routes)
        return Verdict.PROVED if Verdict.PROVED in seen else seen[0]

    monkeypatch.setattr(discharge, "combine", lenient)
    assert accepts(undecided)


def test_an_answer_is_remembered_for_another_statement(monkeypatch: Patch) -> None:
    wrong = mutant(NOTHING_REPAIRED).loops

    def by_kind(prover: Prover, o: Obligation) -> kernel.Proved:
        memo: dict[Any, Any] = prover.memo  # type: ignore[assignment]
        if o.id not in memo:
            memo[o.id] = discharge.discharge(o.statement)
        return kernel.Proved(o, memo[o.id])

    prover = Prover()
    verify(right("logsumexp"), prover)
    with pytest.raises(Refused):
        verify(wrong, prover)
    monkeypatch.setattr(Prover, "prove", by_kind)
    prover = Prover()
    verify(right("logsumexp"), prover)
    verify(wrong, prover)


# ------------------------------------------------------------------------------------------- statements

#: obligation -> a wrong program that it alone refuses, of those that are asked of every program
ONLY_KILLER = {
    "O1": NOTHING_REPAIRED,
    "O2": "turned_max: moved into its producer's pass: turned (a)",
    "O4": "range_below: a constant while nothing was seen (a over m, m, -5)",
    "O5": "logsumexp: accumulator starts at 0 (m)",
    "O6": "range_below: guard at a live value, old values too (a over m, m at 0)",
    "O7": "logsumexp: guard_old flipped (l over m)",
}


@pytest.mark.parametrize("kind", ONLY_KILLER)
def test_an_obligation_is_not_stated(kind: str, monkeypatch: Patch) -> None:
    wrong = mutant(ONLY_KILLER[kind]).loops
    assert differs(wrong) is not None
    assert not accepts(wrong)
    # O14.step is O1 followed by O6: it says the same again.
    monkeypatch.setattr(kernel, "required", required_without(kind, *(["O14"] if kind in ("O1", "O6") else [])))
    assert accepts(wrong)


def test_an_implied_obligation_is_not_stated_either(monkeypatch: Patch) -> None:
    """O3 refuses nothing alone; with the obligations that imply it switched off, it does."""
    wrong = mutant("logsumexp: result doubled (l over m)").loops
    assert differs(wrong) is not None
    off = {*LEMMAS["O3"].by, *LEMMAS["O3"].off}
    true = kernel.required
    monkeypatch.setattr(kernel, "required", lambda loops: tuple(o for o in true(loops) if o.kind not in off))
    assert not accepts(wrong)
    monkeypatch.setattr(kernel, "required", lambda loops: tuple(o for o in true(loops) if o.kind not in {*off, "O3"}))
    assert accepts(wrong)


def each_goal(kind: str, edit: Callable[[Any], Any]) -> Callable[[LoopProgram], tuple[Obligation, ...]]:
    true = kernel.required

    def changed(loops: LoopProgram) -> tuple[Obligation, ...]:
        return tuple(
            replace(o, statement=replace(o.statement, goal=edit(o.statement.goal))) if o.kind == kind else o
            for o in true(loops)
        )

    return changed


@pytest.mark.parametrize("kind", ["O1", "O2", "O3", "O4"])
def test_a_goal_is_negated(kind: str, monkeypatch: Patch) -> None:
    assert accepts(right("logsumexp"))
    monkeypatch.setattr(kernel, "required", each_goal(kind, lambda g: Holds(op("ne", g.lhs, g.rhs))))
    assert not accepts(right("logsumexp"))


def test_a_goal_compares_a_side_with_itself(monkeypatch: Patch) -> None:
    wrong = mutant(NOTHING_REPAIRED).loops
    assert not accepts(wrong)
    monkeypatch.setattr(kernel, "required", required_without("O14"))
    assert not accepts(wrong)
    monkeypatch.setattr(kernel, "required", each_goal("O1", lambda g: Refines(g.rhs, g.rhs)))
    assert accepts(wrong)


def test_a_goal_claims_nothing(monkeypatch: Patch) -> None:
    monkeypatch.setattr(kernel, "required", each_goal("O1", lambda g: Holds(FALSE)))
    assert not accepts(right("logsumexp"))

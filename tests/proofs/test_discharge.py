"""Both routes and the falsifier together: only what both prove is proved."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from neptune_verified.proofs import discharge as engine
from neptune_verified.proofs import falsify, route_sympy, route_z3
from neptune_verified.proofs.discharge import LIMITS, discharge
from neptune_verified.proofs.falsify import Survey
from neptune_verified.proofs.statement import Statement
from neptune_verified.proofs.verdict import RouteResult, Verdict
from tests.proofs.claims import FALSE, TRUE, VACUOUS
from tests.proofs.library import say


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    engine._discharge.cache_clear()
    yield
    engine._discharge.cache_clear()


@pytest.mark.parametrize("name", TRUE)
def test_true(name: str) -> None:
    answer = discharge(TRUE[name])
    assert answer.verdict is Verdict.PROVED
    assert [r.route for r in answer.routes] == ["z3", "sympy"]
    assert answer.counterexample is None and answer.ms > 0


@pytest.mark.parametrize("name", FALSE)
def test_false(name: str) -> None:
    answer = discharge(FALSE[name])
    assert answer.verdict is Verdict.REFUTED and answer.counterexample is not None
    assert [r.route for r in answer.routes] == ["falsifier"]


@pytest.mark.parametrize("name", VACUOUS)
def test_vacuous(name: str) -> None:
    assert discharge(VACUOUS[name]).verdict is Verdict.VACUOUS


def test_a_right_side_defined_nowhere_is_vacuous() -> None:
    answer = discharge(say("x: real", "1 ~ x/0"))
    assert answer.verdict is Verdict.VACUOUS and "right side" in answer.routes[0].detail


def test_what_one_route_cannot_express_is_not_proved() -> None:
    answer = discharge(say("x: real", "tanh(x) <= 1"))
    assert answer.verdict is Verdict.UNSUPPORTED and len(answer.routes) == 2


def test_answers_are_remembered() -> None:
    assert discharge(TRUE["O1 guarded"]) is discharge(TRUE["O1 guarded"])


@pytest.mark.parametrize("name", FALSE)
@pytest.mark.parametrize("liar", [route_z3, route_sympy], ids=["z3", "sympy"])
def test_one_lying_route_proves_nothing(name: str, liar, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    """With the falsifier blinded as well, the other route still refuses."""

    def lie(*_: object) -> RouteResult:
        return RouteResult(liar.ROUTE, Verdict.PROVED)

    monkeypatch.setattr(liar, "prove", lie)
    monkeypatch.setattr(falsify, "survey", lambda *_: Survey(points=1, relevant=1))
    assert discharge(FALSE[name]).verdict is not Verdict.PROVED


@pytest.mark.parametrize("verdict", [v for v in Verdict if v is not Verdict.PROVED])
@pytest.mark.parametrize("route", [route_z3, route_sympy], ids=["z3", "sympy"])
def test_every_other_verdict_of_a_route_refuses(verdict: Verdict, route, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(route, "prove", lambda *_: RouteResult(route.ROUTE, verdict))
    assert discharge(TRUE["O2 sum"]).verdict is not Verdict.PROVED


def test_proved_and_refuted_is_a_disagreement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_z3, "prove", lambda *_: RouteResult("z3", Verdict.REFUTED))
    assert discharge(TRUE["O2 sum"]).verdict is Verdict.DISAGREEMENT


def _dropped(statement: Statement) -> Iterator[Statement]:
    for k in range(len(statement.hypotheses)):
        rest = statement.hypotheses[:k] + statement.hypotheses[k + 1 :]
        yield Statement(statement.symbols, rest, statement.goal)


@pytest.mark.parametrize(
    "name", ["O1 guarded weighted", "O6 guard refines", "factor at most 1", "ratio at most 1", "mean fact", "O6 live"]
)
def test_hypotheses_matter(name: str) -> None:
    """Without one of its hypotheses each of these is false."""
    assert any(discharge(s).verdict is Verdict.REFUTED for s in _dropped(TRUE[name]))


def test_limits_are_positive() -> None:
    assert all(getattr(LIMITS, name) > 0 for name in LIMITS.__dataclass_fields__)

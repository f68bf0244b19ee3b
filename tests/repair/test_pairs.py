"""The 43 pairs of reducer and term: 35 are repaired with the known number of accumulators, 8 refused with a witness."""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path
from typing import Any

import pytest

from neptune_verified.fusion.strategies.refute import witnesses
from neptune_verified.fusion.strategies.task import Task
from neptune_verified.proofs.falsify import admissible, refutes
from neptune_verified.proofs.verdict import Verdict
from neptune_verified.repair_results import witness_text
from neptune_verified.repairs import Refused, Repair, _expression, _question, derive_repair

PAIRS: dict[str, dict[str, Any]] = {p["id"]: p for p in json.loads((Path(__file__).parent / "pairs.json").read_text())}
MS: dict[str, float] = {}


def derive(pair: dict[str, Any]) -> Repair | Refused:
    return derive_repair(
        pair["reducer"], pair["term"], pair["producers"], parameters=pair["parameters"], domain=pair["domain"]
    )


def test_they_are_the_43_pairs() -> None:
    assert len(PAIRS) == 43
    assert sum(p["expected"] == "repairable" for p in PAIRS.values()) == 35


@pytest.mark.parametrize("name", PAIRS)
def test_pair(name: str) -> None:
    pair = PAIRS[name]
    start = time.process_time()
    result = derive(pair)
    MS[name] = 1000 * (time.process_time() - start)
    assert MS[name] < 10_000
    if pair["expected"] == "repairable":
        assert isinstance(result, Repair), str(result)
        assert result.proved and result.accumulators == pair["accumulators"], str(result)
        for p in result.report.obligations:
            assert p.result.verdict is Verdict.PROVED
            assert [(r.route, r.verdict) for r in p.result.routes] == [
                ("z3", Verdict.PROVED),
                ("sympy", Verdict.PROVED),
            ]
        assert {p.obligation.kind for p in result.report.obligations} == {"O1", "O2", "O3", "O4", "O5", "O6"}
    else:
        assert isinstance(result, Refused) and result.witness is not None, str(result)
        for w in result.witnesses:
            assert w.point.left != w.point.right and "undefined" not in (w.point.left, w.point.right)
        several = [w.size for w in result.witnesses if w.kind == "minor"]
        assert several == ([7] if pair["reducer"] == "sum" else [])


def test_half_of_them_take_less_than_200_ms() -> None:
    """Of processor time, which other work on the machine does not change much; about 100 ms here."""
    if len(MS) == len(PAIRS):
        assert statistics.median(MS.values()) < 200


def test_a_witness_is_replayed_from_its_numbers() -> None:
    """Not the text but the point itself refutes the statement, and lies in its domain."""
    from fractions import Fraction

    for name in ("16b", "16c", "17a", "17d"):
        result = derive(PAIRS[name])
        assert isinstance(result, Refused) and result.witness is not None
        statement = result.witness.statement
        point = {s.var: Fraction(result.witness.point.values[s.var.name]) for s in statement.symbols}
        assert admissible(statement, point) and refutes(statement, point) is not None


@pytest.mark.parametrize("name", [n for n, p in PAIRS.items() if p["expected"] == "repairable"])
def test_no_witness_against_a_repair_that_exists(name: str) -> None:
    pair = PAIRS[name]
    question = _question(
        pair["reducer"], _expression(pair["term"]), pair["producers"], [], pair["parameters"], pair["domain"]
    )
    for w in witnesses(Task(question.problem)):
        assert pair["accumulators"] > 1 if w.kind != "minor" else w.size - 1 < pair["accumulators"], witness_text(w)

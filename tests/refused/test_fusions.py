"""Fusions that must not happen: each is refused by the obligation that it breaks, at a point where it does break, and
the program runs in more passes, and is right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from neptune_verified.fusion.passes import Schedule
from neptune_verified.ir.loops import Refusal, Repair
from neptune_verified.proofs.kernel import Prover
from neptune_verified.proofs.obligations import Obligation
from tests.accepted.harness import Built, assert_refines, assert_same, build, scenarios
from tests.refused import replay
from tests.refused.fusions import FUSIONS

TILE = 16
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@cache
def built(name: str) -> Built:
    return build(FUSIONS[name].graph(), name)


def refusal(name: str) -> Refusal:
    return built(name).loops.refusals[-1]


@pytest.mark.parametrize("name", FUSIONS)
def test_refused_for_the_right_reason(name: str) -> None:
    case, b, r = FUSIONS[name], built(name), refusal(name)
    assert b.loops.passes == case.passes
    assert (r.consumer, r.producers, r.obligation) == (case.consumer, case.producers, case.obligation)
    assert bool(r.counterexample) == bool(case.obligation)
    assert case.why in r.reason
    if case.obligation:
        assert r.reason.startswith(f"no scalar repair of {case.consumer} over {', '.join(case.producers)} is proved")


def test_what_is_not_to_blame_stays_fused() -> None:
    loops = built("one_consumer_of_two").loops
    assert [c.name for n in loops.nests for c in n.carried() if c.repair] == ["n"]
    assert [r.consumer for r in built("three_passes").loops.refusals] == ["a", "s"]


@pytest.mark.parametrize("name", [n for n, c in FUSIONS.items() if c.term and c.obligation in ("O1", "O2")])
def test_the_counterexample_is_one(name: str) -> None:
    """The numbers of the report, put into the report's h by a calculator of its own, give the two sides that it states."""
    case, r = FUSIONS[name], refusal(name)
    values, left, right = replay.point(r)
    (m,) = case.producers
    element = next((k for k in values if re.fullmatch(r"x\[[^\]]*\]", k)), "")
    if unknown := [k for k in values if re.fullmatch(r"[bc]\d+", k)]:
        pytest.skip(f"the point speaks of {', '.join(unknown)}, which the definition does not name")
    assert case.term is not None
    sides = []
    for h, guard in replay.candidates(r):
        if case.obligation == "O1":
            term = float(case.term(values[element], guard(m, values[m])))
            wanted = float(case.term(values[element], guard(m, values[f"{m}_new"])))
            sides.append((h({**values, "t": term}), wanted))
        else:
            x, y = values["x"], values["y"]
            given = {k: v for k, v in values.items() if k not in ("x", "y")}
            joined = h({**given, "t": float(case.combine(x, y))})
            sides.append((joined, float(case.combine(h({**given, "t": x}), h({**given, "t": y})))))
    assert any(replay.same(a, left) and replay.same(b, right) for a, b in sides), (sides, r.counterexample)
    assert np.isnan(left) or not replay.same(left, right)


@pytest.mark.parametrize("name", FUSIONS)
def test_the_program_is_right_nevertheless(name: str) -> None:
    case, b = FUSIONS[name], built(name)
    for N in (0, 1, TILE, TILE + 1, 37):
        for scenario, arrays in scenarios(b.program, {"M": 3, "N": N}, case.draws, seed=N):
            definition, first = b.define(arrays), b.loop(arrays, 1)
            for tile in (3, TILE, 1000):
                got = b.loop(arrays, tile)
                assert_same(got.values(), first.values(), f"tiles {tile} and 1, N = {N}, {scenario}")
            for out, value in first.items():
                assert_refines(value, definition[out], 1e-9, f"loops, {out}, N = {N}, {scenario}")
            if scenario == "spread":
                continue  # squares and exponentials of these leave the range of float32, in the definition too
            with np.errstate(all="ignore"):
                doubles = {k: v.astype(np.float64) if v.dtype.kind == "f" else v for k, v in arrays.items()}
                reference = dict(zip(definition, case.reference(**doubles), strict=True))
            for out, value in b.run(arrays, TILE).items():
                want = np.where(np.isnan(definition[out]), np.nan, reference[out])
                assert_refines(definition[out], want, 1e-9, f"definition, {out}, N = {N}, {scenario}")
                assert_refines(value, want, case.tolerance, f"kernel, {out}, N = {N}, {scenario}")


def test_nothing_is_fused_when_fusion_is_off() -> None:
    b = build(FUSIONS["one_consumer_of_two"].graph(), "unfused", fused=False)
    assert b.loops.passes == 2
    assert {p.obligation.kind for p in b.verified.proved} <= {"O5"}  # the reducers' laws: tiles are combined as ever
    assert {r.reason for r in b.loops.refusals} == {"fusion is switched off"}


def test_a_wrong_repair_is_not_searched_for_a_counterexample_with_each_of_its_guards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What refutes it with one guard refutes it with the others: the point is tried, not looked for again."""
    tried, searched = [], []
    guards, look = Schedule._guards, Prover.refuting_point

    def count_tries(*args: Any) -> Iterator[Repair]:
        for repair in guards(*args):
            tried.append(repair)
            yield repair

    def count_searches(self: Prover, o: Obligation) -> Any:
        point = look(self, o)
        searched.append(point is not None)
        return point

    monkeypatch.setattr(Schedule, "_guards", staticmethod(count_tries))
    monkeypatch.setattr(Prover, "refuting_point", count_searches)
    b = build(FUSIONS["temperature_by_a_producer"].graph(), "again")
    assert b.loops.refusals and len(tried) >= 16
    assert sum(searched) <= len(tried) / 4

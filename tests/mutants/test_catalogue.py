"""The catalogue of wrong transformations: how many there are, and that the verifier refuses those that are wrong.

A fixed part of it is judged here; `neptune-verified mutants` judges all of it."""

from __future__ import annotations

import json
from collections import Counter
from io import StringIO

import pytest
from rich.console import Console

from neptune_verified.mutants.catalogue import base, catalogue
from neptune_verified.mutants.command import mutants_command
from neptune_verified.mutants.judge import EQUIVALENT, KILLED, SAME, SURVIVED, UNDECIDED, judge
from neptune_verified.mutants.matrix import LEMMAS, summary
from neptune_verified.mutants.model import Mutant
from neptune_verified.mutants.programs import PROGRAMS

#: The parts of a transformation that issue 3 names, and the least number of edits of each.
GROUPS = {
    "repair": 200, "guard": 100, "start": 100, "order": 60, "pass": 40, "output": 60, "term": 60, "hoist": 30, "fact": 40,
    "combine": 60, "reducer": 30, "move": 30,
}  # fmt: skip


@pytest.fixture(scope="module")
def mutants() -> list[Mutant]:
    return catalogue()


def test_the_catalogue_is_large_and_every_part_of_a_transformation_is_in_it(mutants: list[Mutant]) -> None:
    assert len(mutants) >= 1000
    assert len(PROGRAMS) >= 12
    assert {m.program for m in mutants} == set(PROGRAMS)
    groups = Counter(m.group for m in mutants)
    assert groups.keys() == GROUPS.keys()
    assert {g: n for g, n in groups.items() if n < GROUPS[g]} == {}
    assert len({(m.group, m.kind) for m in mutants}) >= 100


def test_each_mutant_has_a_name_of_its_own(mutants: list[Mutant]) -> None:
    assert len({m.name for m in mutants}) == len(mutants)


def test_no_mutant_is_the_program_itself(mutants: list[Mutant]) -> None:
    assert all(
        m.loops != base(m.program).loops or m.world.combine or m.world.reducer or m.world.bare_repair for m in mutants
    )


def test_a_part_of_the_catalogue_is_refused(mutants: list[Mutant]) -> None:
    """Every so many, over all programs and groups. (``squared_weights`` takes longest; the command has it.)"""
    chosen = [m for m in mutants if m.program != "squared_weights"][:: len(mutants) // 60]
    assert len(chosen) >= 55
    assert len({m.program for m in chosen}) >= 12
    found = summary(judge(m, base(m.program)).row() for m in chosen)
    assert [r.name for r in found.missed] == []
    assert found.count(SURVIVED) == 0
    assert found.kill_rate == 1
    assert found.count(KILLED) >= 40
    assert found.count(SAME) + found.count(EQUIVALENT) + found.count(UNDECIDED) <= 20


def test_the_command_prints_the_matrix() -> None:
    out = StringIO()
    assert mutants_command(programs=["variance"], text=True, console=Console(file=out, width=160))
    text = out.getvalue()
    assert "move: moved into its producer's pass: square of the shift" in text
    assert "kill rate 100 %" in text
    assert "variance: summand hoisted out of a square (q)" in text


def test_the_command_as_json() -> None:
    out = StringIO()
    assert mutants_command(programs=["turned_max"], json_=True, console=Console(file=out, width=100_000))
    data = json.loads(out.getvalue())
    assert data["kill_rate"] == 1.0
    assert data["survivors"] == []
    assert "turned_max: moved into its producer's pass: turned (a)" in data["columns"]["O2"]["only_killer_of"]
    assert set(LEMMAS) == {"O3", "O14"}
    assert data["columns"]["O14"]["lemma"].startswith("O14.step is O1 followed by O6.term")


def test_an_unknown_program() -> None:
    with pytest.raises(ValueError, match="unknown program 'nothing': choose some of logsumexp"):
        mutants_command(programs=["nothing"])


@pytest.mark.parametrize("wanted", [
    # A running value stays repaired although its term cannot be: the functions that issue 3 wants refused.
    "softplus: moved into its producer's pass: inverse of one term (a)",
    "softplus: moved into its producer's pass: factor (a)",
    "distances: moved into its producer's pass: nothing repaired (a)",
    "distances: moved into its producer's pass: shift (a)",
    "clipped: moved into its producer's pass: shift cut off at 0 (a)",
    "clipped: moved into its producer's pass: nothing repaired (a)",
    "signed_max: moved into its producer's pass: guarded ratio (a)",
    "signed_max: moved into its producer's pass: ratio (a)",
    "signed_max: moved into its producer's pass: ratio without its sign (a)",
])  # fmt: skip
def test_what_must_be_refused_is_refuted(wanted: str, mutants: list[Mutant]) -> None:
    m = next(m for m in mutants if m.name == wanted)
    found = judge(m, base(m.program))
    assert found.status == KILLED
    assert any("refuted at" in why for why in found.refused.values())

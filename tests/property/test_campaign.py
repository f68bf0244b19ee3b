"""The campaign's state: it is kept after each block, gone on from, and decides the exit code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.property.blocks import Block, Record
from tests.property.campaign import State, main, rate, reason, run, summary

FUSED = Record("repairable", "program = ...", 1, 0.5, "kernel", 1, (), (), "", 20, 300, 0)
MISSED = replace(FUSED, passes=2, refused=("O2",), replays=("replayed",))
REFUSED = replace(FUSED, outcome="refused", passes=0, why="p: kernel.py:12: c[0] is no tile", runs=0, compared=0)


def call(path: Path, *more: str) -> int:
    return main(["--programs", "0", "--state", str(path), *more])


def stored(path: Path, records: list[Record], failures: list[str]) -> Path:
    state = State()
    state.add(0, Block({str(k): r for k, r in enumerate(records)}, failures), 1.5)
    state.save(path)
    return path


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = stored(tmp_path / "state.json", [FUSED, MISSED], ["text"])
    state = State.load(path, 0, 20)
    assert (state.blocks, state.failures, state.seconds) == ([0], ["text"], 1.5)
    assert state.programs["0"].fused and not state.programs["1"].fused
    assert [p.name for p in tmp_path.iterdir()] == ["state.json"]


def test_a_program_counts_once(tmp_path: Path) -> None:
    state = State()
    for n in range(2):
        state.add(n, Block({"same": FUSED}), 1.0)
    assert len(state.programs) == 1 and state.blocks == [0, 1]


def test_a_state_of_another_seed_is_refused(tmp_path: Path) -> None:
    path = stored(tmp_path / "state.json", [FUSED], [])
    assert call(path) == 0
    for other in (["--seed", "1"], ["--inputs", "3"]):
        with pytest.raises(SystemExit):
            call(path, *other)


@pytest.mark.parametrize(
    ("records", "failures", "code"),
    [
        ([FUSED] * 19 + [MISSED], [], 0),
        ([FUSED] * 18 + [MISSED, REFUSED], [], 1),
        ([FUSED], ["# s[0] is 1 instead of 2"], 1),
        ([replace(MISSED, expected=0)], [], 0),
    ],
)
def test_exit_codes(tmp_path: Path, records: list[Record], failures: list[str], code: int) -> None:
    assert call(stored(tmp_path / "state.json", records, failures)) == code


def test_the_summary_names_what_was_missed() -> None:
    state = State(failures=["# paste me"])
    state.add(0, Block({"a": FUSED, "b": MISSED, "c": REFUSED}), 2.0)
    text = "\n".join(summary(state))
    for part in (
        "3 distinct programs, 40 inputs run",
        "{1: 1, 2: 1}",
        "'O2': 1",
        "33.3%",
        "# paste me",
        "program = ...",
    ):
        assert part in text
    assert reason(REFUSED.why) == "p: kernel.py:: c[..] is no tile"
    assert rate([]) == 1.0


def test_a_second_call_goes_on_where_the_first_stopped(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    run(State(inputs=2), path, programs=1, jobs=1, examples=2)
    first = State.load(path, 0, 2)
    assert first.blocks == [0] and first.programs and not first.failures
    before = set(first.programs)
    run(first, path, programs=len(before) + 1, jobs=1, examples=2)
    second = State.load(path, 0, 2)
    assert second.blocks[:2] == [0, 1] and before < set(second.programs)

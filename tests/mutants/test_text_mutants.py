"""Wrong edits of kernel files: the edits, what runs of them show, and that the reader refuses those that are wrong.

A fixed part of them is judged here; `neptune-verified mutants --text` judges more, with `--every` all."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterator
from io import StringIO
from itertools import zip_longest
from pathlib import Path

import pytest
from rich.console import Console

from neptune_verified.ir.loops import LoopProgram
from neptune_verified.mutants import text_command
from neptune_verified.mutants.text_catalogue import GROUPS, TextMutant, text_catalogue, text_mutants
from neptune_verified.mutants.text_command import text_mutants_command, text_report
from neptune_verified.mutants.text_edit import Edit, Text
from neptune_verified.mutants.text_judge import (
    CAUTIOUS,
    EQUIVALENT,
    KILLED,
    SURVIVED,
    UNREAD,
    Finding,
    TextRow,
    TextSummary,
    judge_text,
    reader,
    right_file_findings,
)
from neptune_verified.mutants.text_oracle import Oracle
from neptune_verified.mutants.text_programs import TEXT_PROGRAMS, text_base
from neptune_verified.mutants.text_seen import CHANGES, CRASHES, SAME, Seen

NO_READER = "this version cannot read kernel files back: there is no neptune_verified.proofs.text"
#: Programs that take little time.
QUICK = (
    "softmax",
    "masked_logsumexp",
    "scaled_norm",
    "counts",
    "two_kernels",
    "blocks",
    "lookup",
    "normalised",
    "split_logsumexp",
)


@pytest.fixture(scope="module")
def mutants() -> list[TextMutant]:
    return text_catalogue()


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle() as o:
        yield o


def named(kind: str, program: str) -> TextMutant:
    """The first edit of a kind in a program's file."""
    return next(m for m in text_mutants(program) if m.kind == kind)


# ------------------------------------------------------------------------------------------------- edits


def test_an_edit_changes_its_places_alone() -> None:
    source = "a = f(x, (y + 1))\nb = 2\n"
    text = Text(source)
    call = next(n for n in ast.walk(text.tree) if isinstance(n, ast.Call))
    assert text.exchange("", call.args[0], call.args[1]).apply(source) == "a = f((y + 1), (x))\nb = 2\n"
    assert Edit("", 1, (text.without(call, call.args[1]),)).apply(source) == "a = f(x)\nb = 2\n"
    assert text.drop("", text.tree.body[0]).apply(source) == "b = 2\n"
    assert text.replace("", call.args[1], "0").apply(source) == "a = f(x, (0))\nb = 2\n"


def test_the_catalogue(mutants: list[TextMutant]) -> None:
    assert 500 <= len(mutants) <= 640
    assert len({m.name for m in mutants}) == len(mutants)
    assert {m.program for m in mutants} == set(TEXT_PROGRAMS)
    assert {m.group for m in mutants} == set(GROUPS)
    assert len({m.kind for m in mutants}) >= 150
    assert min(Counter(m.program for m in mutants).values()) >= 18
    assert [m.name for m in mutants] == [m.name for m in text_catalogue()]
    for m in mutants:
        assert m.source != text_base(m.program).source
        ast.parse(m.source)


def test_an_edit_stands_in_its_line() -> None:
    base = text_base("masked_logsumexp").source.splitlines()
    for m in text_mutants("masked_logsumexp"):
        edited = m.source.splitlines()
        first = next(k for k, line in enumerate([*edited, None]) if k >= len(base) or line != base[k])
        assert m.line - 1 <= first + 8 or m.kind.endswith("second time"), m.name


# ------------------------------------------------------------------------------------------------- runs


@pytest.mark.parametrize("program", QUICK)
def test_the_right_file_runs_alike(program: str, oracle: Oracle) -> None:
    assert oracle.ask(program, text_base(program).source) == Seen(SAME)


@pytest.mark.parametrize(("kind", "program", "status", "why"), [
    ("load without its mask", "masked_logsumexp", CHANGES, "elements are read that belong to no input"),
    ("store without its mask", "masked_logsumexp", CHANGES, "an element is written that belongs to no result"),
    ("result stored twice", "masked_logsumexp", CHANGES, "an element is written twice"),
    ("result not stored", "masked_logsumexp", CHANGES, "result elements are not written"),
    ("grid from a floor division", "softmax", CHANGES, "result elements are not written"),
    ("accumulator not rescaled", "masked_logsumexp", CHANGES, "lse["),
    ("old value where the new one belongs", "scaled_norm", CHANGES, "norm["),
    ("truncating division for floor", "blocks", CHANGES, "o["),
    ("load under half of its mask", "lookup", CHANGES, "elements are read that belong to no input"),
    ("length read from another dimension", "softmax", CRASHES, "ShapeError"),
    ("check left out", "normalised", CHANGES, "instead of TypeError"),
    ("results returned in another order", "two_kernels", CHANGES, "result 0 is"),
    ("input overwritten", "softmax", CHANGES, ""),
    ("table: block of 6 lanes", "softmax", CRASHES, "power of 2"),
    ("offset in 32 bits", "softmax", SAME, ""),
    ("loop ends late", "masked_logsumexp", SAME, ""),
    ("splits: launch left out", "split_softmax", CHANGES, "read before it is written"),
    ("splits: launches in another order", "split_softmax", CHANGES, "read before it is written"),
    ("between: not allocated", "split_softmax", CRASHES, "NameError"),
    ("between: one share", "split_softmax", CHANGES, ""),
    ("split: number and size exchanged", "split_softmax", SAME, ""),
    ("share: stored for another split", "split_logsumexp", CHANGES, ""),
    ("join: one step alone", "split_passes", CHANGES, ""),
    ("join: repaired to a split's own producer", "split_logsumexp", CHANGES, "lse["),
])  # fmt: skip
def test_what_a_run_shows(kind: str, program: str, status: str, why: str, oracle: Oracle) -> None:
    m = named(kind, program)
    seen = oracle.ask(program, m.source)
    assert (seen.status, why in seen.where) == (status, True), seen


def test_a_process_that_dies_is_an_answer(oracle: Oracle) -> None:
    source = text_base("softmax").source
    assert oracle.ask("softmax", source + "\nimport os\nos._exit(3)\n").status == CRASHES
    assert oracle.ask("softmax", source) == Seen(SAME)


# ------------------------------------------------------------------------------------------------- judgements


def row(wrong: bool, findings: tuple[Finding, ...] | None, read: bool = True) -> TextRow:
    return TextRow("p/k/line7", "p", "g", "k", 7, "", Seen(CHANGES if wrong else SAME, "x"), findings, read)


def test_statuses() -> None:
    finding = (Finding("O13", "kernel.py:7", "another value"),)
    failed = (Finding("error", "", "KeyError: x"),)
    cases = [(True, finding, KILLED), (True, None, SURVIVED), (False, finding, CAUTIOUS), (False, None, EQUIVALENT),
             (True, failed, SURVIVED), (False, failed, CAUTIOUS)]  # fmt: skip
    for wrong, findings, status in cases:
        assert row(wrong, findings).status == status
    assert row(True, None, read=False).status == UNREAD
    assert row(True, finding).at_the_line
    assert not row(True, (Finding("O13", "kernel.py:70", ""),)).at_the_line
    assert not TextSummary((row(True, finding), row(True, None)), {}).fine
    assert TextSummary((row(True, finding), row(True, None)), {}).kill_rate == 0.5
    assert TextSummary((row(True, finding), row(False, None)), {}).fine
    assert not TextSummary((row(True, finding),), {"p": list(finding)}).fine
    assert not TextSummary((row(True, None, read=False),), {}).fine


def test_the_command_with_a_reader_that_counts_masks_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It must be found out."""

    def read(loops: LoopProgram, source: str, target: str) -> list[Finding] | None:
        masks = source.count("mask=")
        return None if masks == 2 else [Finding("O11", "kernel.py:46", f"{masks} masks")]

    monkeypatch.setattr(text_command, "reader", lambda: read)
    kinds = ("load without its mask", "store without its mask", "accumulator not rescaled", "loop ends late")
    chosen = [m for m in text_mutants("masked_logsumexp") if m.kind in kinds]
    monkeypatch.setattr(text_command, "text_catalogue", lambda programs, each: chosen)
    out = StringIO()
    console = Console(file=out, width=200)
    assert not text_mutants_command(programs=["masked_logsumexp"], out=tmp_path / "rows.json", console=console)
    assert "SURVIVED: masked_logsumexp/accumulator_not_rescaled" in out.getvalue()
    assert "accepted, and no run differs: masked_logsumexp/loop_ends_late" in out.getvalue()
    assert "what each obligation refuses" in out.getvalue()
    data = json.loads((tmp_path / "rows.json").read_text())
    assert 0 < data["kill_rate"] < 1
    assert data["counts"]["killed"] + data["counts"]["SURVIVED"] == data["wrong"]


def test_an_unknown_program() -> None:
    with pytest.raises(ValueError, match="unknown program 'nothing': choose some of causal"):
        text_mutants_command(programs=["nothing"])


@pytest.mark.parametrize("program", TEXT_PROGRAMS)
def test_the_right_file_is_accepted(program: str) -> None:
    read = reader()
    if read is None:
        pytest.skip(NO_READER)
    assert right_file_findings(read, [program]) == {}


def test_a_part_of_the_edits_is_refused(mutants: list[TextMutant], oracle: Oracle) -> None:
    """Every so many, over all kinds of edits of the quick programs."""
    read = reader()
    if read is None:
        pytest.skip(NO_READER)
    refused = right_file_findings(read, QUICK)
    own = [m for m in mutants if m.program in QUICK and m.program not in refused]
    by_group = {g: [m for m in own if m.group == g] for g in GROUPS}
    turns = zip_longest(*(found[:: 1 + len(found) // 8] for found in by_group.values()))
    chosen = [m for turn in turns for m in turn if m is not None][:60]
    assert len({m.group for m in chosen}) >= 12
    found = TextSummary(tuple(judge_text(m, read, oracle.ask) for m in chosen), {})
    Console(width=160).print(text_report(found, 0, True))
    assert [(r.name, r.seen.where or r.why, r.findings) for r in found.of(SURVIVED)] == []
    assert found.kill_rate == 1
    assert found.count(KILLED) >= 45

"""Tampered folders: edits of every file of three programs, more than half of them with every hash recomputed.

``test_check.py`` has the edits of one program that are described there one by one; here it is the number that counts."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from neptune_verified.fusion.fuse import fuse
from neptune_verified.ir.loops import LoopProgram
from neptune_verified.mutants import programs
from neptune_verified.mutants.catalogue import base, mutants_of
from neptune_verified.mutants.model import PLAIN
from neptune_verified.proofs import route_z3
from neptune_verified.proofs.check import check
from neptune_verified.proofs.discharge import Discharged
from neptune_verified.proofs.kernel import Proved, Refused, VerifiedProgram, required, verify
from neptune_verified.proofs.text import TextRefused
from neptune_verified.proofs.verdict import RouteResult, Verdict
from tests.definitions import attention, softmax
from tests.proofs.folders import edit_json, read_once, write
from tests.proofs.tampering import NO_STREAM, RECORDS, TAMPERS, Tamper, seal

PROGRAMS = {"attention": attention, "softmax": softmax, "masked_mean": programs.masked_mean}
CASES = [(t, p) for t in TAMPERS for p in PROGRAMS if p in (t.programs or PROGRAMS)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("saved")
    return {name: write(folder / name, verify(fuse(build()))) for name, build in PROGRAMS.items()}


@pytest.fixture(autouse=True)
def each_text_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read_once(monkeypatch)


def copy(saved: dict[str, Path], program: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved[program], tmp_path / program))


def problems(folder: Path) -> list[str]:
    return [str(p) for p in check(folder).problems]


def test_there_are_enough_of_them() -> None:
    assert len(TAMPERS) >= 50
    assert len({t.name for t in TAMPERS}) == len(TAMPERS)
    assert len(CASES) >= 150
    assert 2 * sum(t.sealed for t, _ in CASES) >= len(CASES), "half of them have all hashes recomputed"


def test_the_folders_are_fine_before(saved: dict[str, Path]) -> None:
    assert {name: problems(folder) for name, folder in saved.items()} == {name: [] for name in PROGRAMS}


def test_hashes_made_anew_change_nothing(saved: dict[str, Path], tmp_path: Path) -> None:
    folder = copy(saved, "softmax", tmp_path)
    seal(folder)
    assert problems(folder) == []


@pytest.mark.parametrize(("tamper", "program"), CASES, ids=[f"{t.name}: {p}" for t, p in CASES])
def test_tampering_is_found(tamper: Tamper, program: str, saved: dict[str, Path], tmp_path: Path) -> None:
    folder = copy(saved, program, tmp_path)
    tamper.apply(folder)
    found = problems(folder)
    assert any(p.startswith(tamper.problem) for p in found), found
    if tamper.sealed:
        assert not any("not the file that was certified" in p for p in found), "the hashes were made to fit"


def test_a_pass_without_its_stream_axis(saved: dict[str, Path], tmp_path: Path) -> None:
    folder = copy(saved, "softmax", tmp_path)
    NO_STREAM.apply(folder)
    assert any(p.startswith(NO_STREAM.problem) for p in problems(folder))


@pytest.mark.parametrize("other", ["softmax", "masked_mean"])
@pytest.mark.parametrize("name", ["certificate.json", "loop.json", "kernel.py", "program.json"])
def test_a_file_of_another_program(name: str, other: str, saved: dict[str, Path], tmp_path: Path) -> None:
    folder = copy(saved, "attention", tmp_path)
    shutil.copy(saved[other] / name, folder)
    found = problems(folder)
    assert any(p.startswith(f"{'loop.json' if name == 'program.json' else name}: ") for p in found), found


#: a step of ``check`` that is left out -> an edit that is not found then
STEPS = {
    "hash": "a blank more in the kernel",
    "kernel_text": "what a proof of the text covers",
    "docstring": "no definition in the docstring",
    "header": "the number of passes",
    "compare": "an assumption added",
    "prove": "guard at a live value",
}


@pytest.mark.parametrize("step", STEPS)
def test_check_without_one_of_its_steps(
    step: str, saved: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is needed: without it an edit goes unnoticed that is found with it."""
    tamper = next(t for t in TAMPERS if t.name == STEPS[step])
    folder = copy(saved, "softmax", tmp_path)
    tamper.apply(folder)
    if step == "prove":
        # The text of a wrong loop program is refused too, by comparison with the definition, so that it is left out here.
        right = verify(base("softmax").loops)
        folder = write(tmp_path / "forged", forge(guarded_at_0(), "softmax"), kernel_of=right)
        monkeypatch.setattr("neptune_verified.proofs.check._Check.kernel_text", lambda *_: None)
    assert problems(folder) != []
    monkeypatch.setattr(f"neptune_verified.proofs.check._Check.{step}", lambda *_: None)
    assert problems(folder) == []


def guarded_at_0() -> LoopProgram:
    return next(m.loops for m in mutants_of("softmax") if m.kind == "guard at a live value")


@pytest.mark.parametrize("tamper", RECORDS, ids=[t.name for t in RECORDS])
def test_records_of_the_run_are_not_stated_anew(tamper: Tamper, saved: dict[str, Path], tmp_path: Path) -> None:
    """Tool versions, times and roundings are read by people; no proof rests on them."""
    folder = copy(saved, "softmax", tmp_path)
    tamper.apply(folder)
    assert problems(folder) == []


def test_an_order_of_obligations(saved: dict[str, Path], tmp_path: Path) -> None:
    """The set of statements is what counts; a check of their order as well is no harm."""
    folder = copy(saved, "softmax", tmp_path)
    edit_json(folder, "certificate.json", lambda c: c["obligations"].reverse())
    assert all(p.startswith("certificate.json: ") for p in problems(folder))


# ------------------------------------------------------------------------------------------- consistent forgeries

#: Wrong loop programs of the catalogue, each written with its own statements, scripts and hashes, all said to be proved.
EVERY = 13


def mutants() -> list[tuple[str, LoopProgram]]:
    chosen = [
        (m.name, m.loops)
        for program in ("logsumexp", "softmax", "masked_mean")
        for m in mutants_of(program)
        if m.world == PLAIN and m.group not in ("start", "fact") and "stream axis" not in m.kind
    ]
    return chosen[::EVERY]


def forge(loops: LoopProgram, program: str) -> VerifiedProgram:
    """What a forger would have to make who can state everything and prove nothing."""
    try:
        stated = required(loops)
    except (Refused, ValueError, KeyError):
        stated = required(base(program).loops)
    proved = []
    for o in stated:
        try:
            text = route_z3.script(o.statement)
        except Exception:
            text = ""
        routes = tuple(RouteResult(r, Verdict.PROVED, 1.0, script=text) for r in ("z3", "sympy"))
        proved.append(Proved(o, Discharged(Verdict.PROVED, routes)))
    return replace(verify(base(program).loops), loops=loops, proved=tuple(proved))


def test_consistent_forgeries_of_wrong_loop_programs(tmp_path: Path) -> None:
    """Refused for what loop.json says, never for a hash; those that are right after all are accepted by the proofs."""
    accepted = []
    for k, (name, loops) in enumerate(mutants()):
        program = name.split(":")[0]
        forged = forge(loops, program)
        try:
            folder = write(tmp_path / str(k), forged)
        except (TextRefused, ValueError, KeyError):  # no kernel computes it: the right program's stands there
            folder = write(tmp_path / str(k), forged, verify(base(program).loops))
        found = problems(folder)
        if not found:
            accepted.append(loops)
        assert not any("not the file that was certified" in p for p in found), name
        assert not found or any(p.startswith("loop.json: ") for p in found), (name, found)
    assert len(accepted) < len(mutants()) / 3
    for loops in accepted:
        verify(loops)

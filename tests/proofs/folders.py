"""Compiled folders and reports with real kernels, made without a cache."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from neptune_verified.ir.loops import LoopProgram
from neptune_verified.ir.serialize import SEMANTICS_VERSION, loops_to_json, program_to_json
from neptune_verified.proofs.certificate import certificate_to_json, definition_hash, make_certificate
from neptune_verified.proofs.kernel import COVERAGE, VerifiedProgram
from neptune_verified.proofs.text import TextProof, TextRefused, prove_text
from neptune_verified.report import Report
from neptune_verified.tile.emit import emit
from neptune_verified.tile.lower import lower

TARGET = "interpret"
EXTRA = {
    "roundings": ["p: to float16, an operand of a dot"],
    "kernel": {"target": TARGET, "configurations": {"k": ("a", "b")}},
}


@cache
def emitted(verified: VerifiedProgram) -> tuple[str, TextProof]:
    """The kernel's text for TARGET, and what was proved of it."""
    loops = verified.loops
    definition = definition_hash(loops.program).removeprefix("sha256:")
    text = emit(loops.program, lower(verified, TARGET), TARGET, definition, f"# {COVERAGE}", loops.passes).source
    return text, prove_text(loops, text, TARGET, definition)


@cache
def _read(loops: LoopProgram, kernel: str, target: str) -> TextProof | TextRefused:
    try:
        return prove_text(loops, kernel, target)
    except TextRefused as e:
        return e


def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """``check`` remembers what it read: most edits leave kernel and loop program alone, and reading takes a second."""

    def prove_once(loops: LoopProgram, kernel: str, target: str) -> TextProof:
        found = _read(loops, kernel, target)
        if isinstance(found, TextRefused):
            raise found
        return found

    monkeypatch.setattr("neptune_verified.proofs.check.prove_text", prove_once)


def whole(verified: VerifiedProgram) -> Report:
    """The report of a program with its kernel."""
    source, proof = emitted(verified)
    return Report.from_verified(verified, source, EXTRA, COVERAGE, proof)


def write(folder: Path, verified: VerifiedProgram, kernel_of: VerifiedProgram | None = None) -> Path:
    """``kernel_of``: the program whose kernel is written, if it is another one."""
    program = verified.loops.program
    source, proof = emitted(kernel_of or verified)
    files = {
        "program.json": program_to_json(program),
        "loop.json": loops_to_json(verified.loops, SEMANTICS_VERSION),
        "kernel.py": source,
        "certificate.json": certificate_to_json(make_certificate(verified, source, EXTRA, proof)),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def edit_text(folder: Path, name: str, edit: Callable[[str], str]) -> None:
    path = folder / name
    text = path.read_text()
    changed = edit(text)
    assert changed != text, "the edit changed nothing"
    path.write_text(changed)


def edit_json(folder: Path, name: str, edit: Callable[[dict[str, Any]], object]) -> None:
    def change(text: str) -> str:
        data = json.loads(text)
        edit(data)
        return json.dumps(data, indent=1) + "\n"

    edit_text(folder, name, change)

"""The example of a refused fusion in a saved folder: what was changed is found, what is no example is not read."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from neptune_verified.fusion.fuse import fuse
from neptune_verified.proofs.check import check
from neptune_verified.proofs.kernel import VerifiedProgram, verify
from tests.definitions import unfusable
from tests.proofs.folders import edit_json, write

Edit = Callable[[dict[str, Any]], object]


def problems(folder: Path) -> list[str]:
    return [str(p) for p in check(folder).problems]


EXAMPLE_EDITS: dict[str, Edit] = {
    "another value": lambda e: e.update(after=1.5403),
    "another input": lambda e: e["inputs"].update(x=[0, 2]),
    "another length": lambda e: e["lengths"].update(N=3),
    "another tile": lambda e: e.update(tile=2),
    "another place": lambda e: e.update(what="total"),
}


@pytest.mark.parametrize("name", EXAMPLE_EDITS)
@pytest.mark.parametrize("file", ["certificate.json", "loop.json"])
def test_an_edited_example(name: str, file: str, tmp_path: Path) -> None:
    folder = write(tmp_path / "waves", not_fused())
    field = {"certificate.json": "refused", "loop.json": "refusals"}[file]
    edit_json(folder, file, lambda d: EXAMPLE_EDITS[name](d[field][0]["example"]))
    found = problems(folder)
    assert any(p.startswith("certificate.json: refused: it says") for p in found)
    assert any(p.startswith("loop.json: not the file") for p in found) == (file == "loop.json")


BAD_EXAMPLES: dict[str, tuple[Edit, str]] = {
    "a value that is none": (lambda e: e.update(after="nan"), "after: a number or one of -inf, inf, undefined is wanted"),
    "rows of different lengths": (lambda e: e["inputs"].update(x=[[0], [1, 2]]), "inputs.x: its rows are of different"),
    "a number beside a row": (lambda e: e["inputs"].update(x=[[0], 1]), "inputs.x: its rows are of different"),
    "too large": (
        lambda e: e["inputs"].update(x={"shape": [10**6, 10**6], "fill": 0, "others": []}),
        "inputs.x.shape: at most",
    ),
    "no such element": (
        lambda e: e["inputs"].update(x={"shape": [2], "fill": 0, "others": [{"index": [2], "value": 1}]}),
        "inputs.x.others[0].index: there is no such element",
    ),
    "a stranger": (lambda e: e.update(signed=True), "example: unknown field 'signed'"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_EXAMPLES)
def test_an_example_that_is_none(name: str, tmp_path: Path) -> None:
    edit, message = BAD_EXAMPLES[name]
    folder = write(tmp_path / "waves", not_fused())
    edit_json(folder, "certificate.json", lambda d: edit(d["refused"][0]["example"]))
    (problem,) = problems(folder)
    assert problem.startswith("certificate.json: refused[0].example") and message in problem


@cache
def not_fused() -> VerifiedProgram:
    return verify(fuse(unfusable()))

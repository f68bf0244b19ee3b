"""An audit as a folder: everything or nothing, and never over what is somebody else's."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from neptune_verified.auditing.result import FORMAT
from neptune_verified.folders import write_folder
from tests.audit.results import audit, over_budget, raw


def names(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}


def refuse(constant: str) -> Any:
    raise AssertionError(f"{constant} is not JSON")


def test_what_is_written(tmp_path: Path) -> None:
    r = over_budget()
    r.worst_inputs = {"q": torch.arange(6.0).reshape(2, 3).half(), "n": torch.tensor(5)}
    folder = r.save(tmp_path / "new" / "audit")
    assert folder == tmp_path / "new" / "audit" and names(folder) == {"audit.json", "audit.html", "worst.pt"}
    assert (folder / "audit.html").read_text(encoding="utf-8") == r.html()
    text = (folder / "audit.json").read_text()
    data = json.loads(text, parse_constant=refuse)
    assert data == json.loads(json.dumps(r.data())) and text.startswith('{\n "format"')
    assert data["format"] == FORMAT and data["ok"] is False and [c["ok"] for c in data["checks"]].count(False) == 2
    error, _ = raw(r, "kernel")
    assert data["totals"]["kernel"]["o"]["rms"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-13)
    assert data["worst"][0]["error"] == error.max()
    back = torch.load(folder / "worst.pt", weights_only=True)
    assert set(back) == {"q", "n"} and all(torch.equal(back[k], v) for k, v in r.worst_inputs.items())
    assert back["q"].dtype == torch.float16


def test_without_inputs_there_is_no_file_of_them(tmp_path: Path) -> None:
    r = audit()
    r.worst_inputs = {"q": torch.zeros(1)}
    r.save(tmp_path / "a")
    r.worst_inputs = {}
    assert names(r.save(str(tmp_path / "a"))) == {"audit.json", "audit.html"}, "the old one is gone"
    assert names(tmp_path) == {"a"}


def test_strange_numbers_are_json(tmp_path: Path) -> None:
    r = audit()
    s = r.samples[0]
    s.scalars = {"scale": math.inf, "other": math.nan}
    s.worst = (replace(s.worst[0], have=-math.inf, error=math.inf, ulps=math.nan, bound=math.inf),)
    r.checks = [replace(r.checks[0], measured=math.nan, limit=math.inf)]
    data = json.loads((r.save(tmp_path / "a") / "audit.json").read_text(), parse_constant=refuse)
    assert data["samples"][0]["scalars"] == {"scale": "inf", "other": "nan"}
    assert data["samples"][0]["worst"][0]["bound"] == "inf" and data["samples"][0]["worst"][0]["have"] == "-inf"
    assert data["checks"][0]["measured"] == "nan" and data["checks"][0]["limit"] == "inf"


def test_a_strange_folder_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "thesis.tex").write_text("mine")
    with pytest.raises(FileExistsError, match="holds other files"):
        audit().save(folder)
    assert names(folder) == {"thesis.tex"} and names(tmp_path) == {"a"}
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError):
        audit().save(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_a_kernel_folder_is_strange(tmp_path: Path) -> None:
    write_folder(tmp_path / "k", {"kernel.py": "x"}, {"kernel.py"})
    with pytest.raises(FileExistsError):
        audit().save(tmp_path / "k")
    assert names(tmp_path / "k") == {"kernel.py"}


def test_texts_and_bytes(tmp_path: Path) -> None:
    write_folder(tmp_path / "a", {"t": "ä\n", "b": b"\x00\r\n"}, {"t", "b"})
    assert (tmp_path / "a" / "t").read_bytes() == b"\xc3\xa4\n" and (tmp_path / "a" / "b").read_bytes() == b"\x00\r\n"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize(
    ("step", "old"),
    [("write", True), ("move away", True), ("move in", True), ("write", False), ("move in", False)],
)
def test_all_or_nothing(
    step: str, old: bool, error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a"
    if old:
        write_folder(folder, {"t": "old"}, {"t"})
    calls: list[Path] = []
    write, rename = Path.write_bytes, Path.rename

    def failing_write(path: Path, data: bytes) -> int:
        calls.append(path)
        if len(calls) == 2 and step == "write":
            raise error("the disk is full")
        return write(path, data)

    def failing_rename(path: Path, to: Path) -> Path:
        if step == ("move away" if path == folder else "move in" if to == folder and path.name != "old" else ""):
            raise error("no")
        return rename(path, to)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", failing_write)
        patch.setattr(Path, "rename", failing_rename)
        with pytest.raises(error):
            write_folder(folder, {"t": "new", "u": "new"}, {"t", "u"})
    assert names(tmp_path) == ({"a"} if old else set()), "and nothing is left lying about"
    assert not old or ((folder / "t").read_text() == "old" and names(folder) == {"t"})
    write_folder(folder, {"t": "new", "u": "new"}, {"t", "u"})
    assert (folder / "t").read_text() == "new" and names(tmp_path) == {"a"}

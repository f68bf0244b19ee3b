"""Fetching, on wheels made here: no network."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from tests.assets import fetch_rxnfp
from tests.assets.fetch_rxnfp import Member, main

CONTENT = {"weights": b"w" * 100, "words": b"a\nb\n"}


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small wheel, with the script set to expect it and to put its files under tmp_path."""
    members = {n: Member(f"model/{n}", len(c), hashlib.sha256(c).hexdigest()) for n, c in CONTENT.items()}
    monkeypatch.setattr(fetch_rxnfp, "MEMBERS", members)
    monkeypatch.setenv("NEPTUNE_VERIFIED_ASSETS", str(tmp_path / "assets"))
    return pack(tmp_path, {**{f"model/{n}": c for n, c in CONTENT.items()}, "../../escaped": b"", "other": b""})


def pack(folder: Path, files: dict[str, bytes]) -> Path:
    file = folder / "small.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return file


def found(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


WHOLE = {f"rxnfp/{name}": content for name, content in CONTENT.items()}


def test_only_the_members_are_unpacked_once(wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--wheel", str(wheel)]) == 0
    assert found(tmp_path / "assets") == WHOLE
    assert not list(tmp_path.rglob("escaped"))
    assert main(["--wheel", str(tmp_path / "none.whl")]) == 0  # nothing is left to do
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["fetched", "already there"]


def test_a_damaged_folder_is_replaced(wheel: Path, tmp_path: Path) -> None:
    assert main(["--wheel", str(wheel)]) == 0
    (tmp_path / "assets/rxnfp/weights").write_bytes(b"cut")
    assert main(["--wheel", str(wheel)]) == 0
    assert found(tmp_path / "assets") == WHOLE


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"model/words": b"a\nb\n"}, "lacks a file"),
        ({"model/words": b"a\nb\n", "model/weights": b"w" * 99}, "does not have 100 bytes"),
        ({"model/words": b"a\nb\n", "model/weights": b"v" * 100}, "does not have its SHA-256"),
        (None, "not a sound wheel"),
    ],
)
def test_a_bad_wheel_leaves_nothing(
    wheel: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    files: dict[str, bytes] | None,
    message: str,
) -> None:
    if files is None:
        wheel.write_bytes(b"no archive")
    else:
        pack(tmp_path, files)
    assert main(["--wheel", str(wheel)]) == 1
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not list((tmp_path / "assets").iterdir())


def test_what_pip_says_is_passed_on_in_one_line(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert main([]) == 1
    error = capsys.readouterr().err
    assert error.startswith("fetch_rxnfp: pip could not download rxnfp==0.1.0: ") and error.count("\n") == 1
    assert not list((tmp_path / "assets").iterdir())


def test_a_file_in_the_way_is_left_alone(wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets/rxnfp").write_bytes(b"mine")
    assert main(["--wheel", str(wheel)]) == 1
    assert "in the way" in capsys.readouterr().err
    assert found(tmp_path / "assets") == {"rxnfp": b"mine"}

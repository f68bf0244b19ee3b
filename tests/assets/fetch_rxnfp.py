"""Fetch the pretrained BERT of chemical reactions that the package `rxnfp` 0.1.0 (MIT) ships.

    python tests/assets/fetch_rxnfp.py [--wheel FILE]

The wheel comes through pip, without its dependencies, or is FILE. Only the files named in MEMBERS are read from it,
each against its SHA-256; nothing of the package is installed or run. They end up in `.assets/rxnfp` at the root of
the repository, or in `rxnfp` under the folder that NEPTUNE_VERIFIED_ASSETS names. The folder appears whole or not at
all, and a second run finds it there and stops.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "rxnfp==0.1.0"
COMMAND = "python tests/assets/fetch_rxnfp.py"
WEIGHTS = "pytorch_model.bin"
VOCABULARY = "vocab.txt"
CONFIG = "config.json"


class FetchError(Exception):
    """What went wrong, in one line."""


@dataclass(frozen=True)
class Member:
    """One file of the wheel: where it lies in it, how many bytes it has, and their SHA-256."""

    path: str
    size: int
    sha256: str


_MODEL = "rxnfp/models/transformers/bert_pretrained"
MEMBERS: dict[str, Member] = {
    WEIGHTS: Member(
        f"{_MODEL}/pytorch_model.bin", 27016467, "50a6ed263d33ae759affa82c1e85554cc5ea9f56145f5c7fb39b6c25d4356437"
    ),
    VOCABULARY: Member(f"{_MODEL}/vocab.txt", 3525, "399868a653e85549ce150af4a1f6cd2776240c6a3d951ced2120565f00f027fd"),
    CONFIG: Member(f"{_MODEL}/config.json", 493, "024d89cb6056e146e066ebbcd9d565d6968d53e82953570a8b110b26495d7d4b"),
    "LICENSE": Member(
        "rxnfp-0.1.0.dist-info/LICENSE", 1078, "4cd19ee3f984c4cf21234b36d941f80fe7cbac61b4a104a558813cd3948857ce"
    ),
}


def asset_folder() -> Path:
    """Where the model's files lie, or will."""
    override = os.environ.get("NEPTUNE_VERIFIED_ASSETS")
    root = Path(override) if override else Path(__file__).resolve().parents[2] / ".assets"
    return root.absolute() / "rxnfp"


def damage(folder: Path) -> str | None:
    """What is wrong with a fetched folder, in one line; None if every file is there with the right content."""
    for name, member in MEMBERS.items():
        file = folder / name
        if not file.is_file():
            return f"{file} is missing"
        with file.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != member.sha256:
                return f"{file} does not have its SHA-256"
    return None


def download(folder: Path) -> Path:
    """The package's wheel, downloaded by pip into a folder."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
    ran = subprocess.run(
        [*pip, "--no-deps", "--only-binary", ":all:", "--dest", str(folder), PACKAGE],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if ran.returncode != 0:
        lines = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines or ["no message"]
        raise FetchError(f"pip could not download {PACKAGE}: {errors[-1]}")
    wheels = sorted(folder.glob("rxnfp-0.1.0-*.whl"))
    if len(wheels) != 1:
        raise FetchError(f"pip left {len(wheels)} wheels of {PACKAGE}, not one")
    return wheels[0]


def unpack(wheel: Path, folder: Path) -> None:
    """Copy the members out of a wheel, to names of our own choosing, checking the content of each."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name, member in MEMBERS.items():
                if archive.getinfo(member.path).file_size != member.size:
                    raise FetchError(f"{member.path} in {wheel.name} does not have {member.size} bytes")
                content = archive.read(member.path)
                if hashlib.sha256(content).hexdigest() != member.sha256:
                    raise FetchError(f"{member.path} in {wheel.name} does not have its SHA-256")
                (folder / name).write_bytes(content)
    except KeyError as error:
        raise FetchError(f"{wheel.name} lacks a file: {error.args[0]}") from error
    except zipfile.BadZipFile as error:
        raise FetchError(f"{wheel.name} is not a sound wheel: {error}") from error


def fetch(wheel: Path | None = None) -> tuple[Path, bool]:
    """The folder with the model's files, and whether this call put it there."""
    target = asset_folder()
    if damage(target) is None:
        return target, False
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=target.parent) as name:
        work = Path(name)
        ready = work / "rxnfp"
        ready.mkdir()
        unpack(wheel or download(work), ready)
        if target.is_dir() and not target.is_symlink():
            target.rename(work / "replaced")
        elif target.is_symlink() or target.exists():
            raise FetchError(f"{target} is in the way: it is not a folder")
        try:
            ready.rename(target)
        except OSError:
            if damage(target) is not None:  # otherwise another run put it there meanwhile
                raise
    return target, True


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=f"Fetch the pretrained model of {PACKAGE}.")
    parser.add_argument("--wheel", type=Path, metavar="FILE", help="a wheel that is already here, instead of pip's")
    options = parser.parse_args(arguments)
    try:
        folder, fresh = fetch(options.wheel)
    except (FetchError, OSError) as error:
        print(f"fetch_rxnfp: {' '.join(str(error).split())}", file=sys.stderr)
        return 1
    print(f"{'fetched' if fresh else 'already there'}: {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Not trusted: folders that are written whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path


def write_folder(folder: Path, files: Mapping[str, str | bytes], own: Collection[str]) -> Path:
    """Replace ``folder`` by one that holds ``files``, in one rename; one that holds a name not in ``own`` is left alone.

    Raises FileExistsError for such a folder, OSError where it cannot be written; then the folder is what it was."""
    if folder.exists() and (not folder.is_dir() or {p.name for p in folder.iterdir()} - set(own)):
        raise FileExistsError(f"{folder} holds other files: choose a new folder, or empty it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = _beside(folder)
    try:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            (fresh / name).write_bytes(data)
        fresh.chmod(0o755)
        if folder.exists():
            _replace(folder, fresh)
        else:
            fresh.rename(folder)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return folder


def _replace(folder: Path, fresh: Path) -> None:
    """``folder`` comes back where ``fresh`` cannot take its place."""
    old = _beside(folder)
    try:
        folder.rename(old / "old")
        try:
            fresh.rename(folder)
        except BaseException:
            (old / "old").rename(folder)
            raise
    finally:
        if folder.exists():
            shutil.rmtree(old, ignore_errors=True)


def _beside(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))

"""Trusted by ``compile``, and read by nothing else: the provers' answers of earlier runs, in a folder on disk.

An entry is named by the SHA-256 of everything that its answer depends on: the whole statement (the meanings and origins
too, which stand as comments in the scripts), the limits, the version of the semantics, of the tools and of Python, and
the source text of ``ir/`` and ``proofs/``. So an edited prover meets no old answer.

What is in the folder is believed no more than it must be: an entry that is not well formed, or whose verdict does not
follow from its routes, is a miss; a counterexample counts if the statement is false there. That a statement is *proved*
cannot be seen from an entry, so who can write to the folder can make ``compile`` write a wrong kernel, as one who can
write to the installed package can. ``neptune-verified check`` never reads it, and refuses such a kernel; a folder that
others may write to is not used. A key would add nothing: it would lie where whoever can write entries can read it.

No failure of the folder is an error: without it everything is proved anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import tempfile
import time
import warnings
from dataclasses import asdict, fields, is_dataclass
from fractions import Fraction
from functools import cache
from importlib.metadata import version
from pathlib import Path

from neptune_verified.ir.expr import Expr
from neptune_verified.ir.nodes import Writer
from neptune_verified.ir.serialize import SEMANTICS_VERSION
from neptune_verified.proofs.cache_entry import entry, lasting, read_entry, replays
from neptune_verified.proofs.certificate import tools
from neptune_verified.proofs.discharge import Discharged
from neptune_verified.proofs.limits import LIMITS, Limits
from neptune_verified.proofs.statement import Statement

VARIABLE = "NEPTUNE_VERIFIED_CACHE"
#: Answers have 1 to 10 kB; a compiled program needs some dozens.
MOST_ENTRIES = 10_000
ANSWER, NOTE = ".json", ".note"
_PACKAGE = Path(__file__).parents[1]
#: Files whose names start with this are being written; those of a writer that was killed are removed after an hour.
UNFINISHED = ".new-"


class Cache:
    """Answers by statement and limits. ``get`` and ``put`` never raise."""

    def __init__(self, folder: Path, most: int = MOST_ENTRIES) -> None:
        self.folder, self.most = folder, most
        self._names: dict[tuple[Statement, Limits], str] = {}
        self._written = 0
        self.usable = self._prepare()

    @classmethod
    def open(cls) -> Cache | None:
        """The cache that the environment asks for; None if it is switched off or has no folder."""
        folder = default_folder()
        return cls(folder) if folder is not None else None

    def get(self, statement: Statement, limits: Limits = LIMITS) -> Discharged | None:
        path = self._path(statement, limits)
        if path is None:
            return None
        try:
            found = read_entry(path.read_bytes(), path.stem)
        except (OSError, ValueError, TypeError, RecursionError):
            return None
        if found.counterexample is not None and not replays(statement, found.counterexample, limits):
            return None
        _touch(path)
        return found

    def put(self, statement: Statement, result: Discharged, limits: Limits = LIMITS) -> None:
        path = self._path(statement, limits)
        if path is not None and lasting(result, limits):
            self._write(path, entry(result, path.stem))

    def survived(self, statement: Statement, limits: Limits = LIMITS) -> bool:
        """Did the falsifier find no counterexample in an earlier run? A note without content; it proves nothing."""
        path = self._path(statement, limits, NOTE)
        found = path is not None and path.exists()
        if found and path is not None:
            _touch(path)
        return found

    def put_survivor(self, statement: Statement, limits: Limits = LIMITS) -> None:
        path = self._path(statement, limits, NOTE)
        if path is not None:
            self._write(path, b"")

    # -- the folder --------------------------------------------------------------------------------------------

    def _path(self, statement: Statement, limits: Limits, suffix: str = ANSWER) -> Path | None:
        """The entry's file; None where there is none, because the statement is over something that has no text."""
        if not self.usable:
            return None
        if (statement, limits) not in self._names:
            try:
                self._names[statement, limits] = key(statement, limits)
            except (TypeError, RecursionError):
                return None
        return self.folder / f"{self._names[statement, limits]}{suffix}"

    def _prepare(self) -> bool:
        """Make the folder, and refuse one that others may write to."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = self.folder.stat()
        except OSError as e:
            return self._give_up(f"the proof cache {self.folder} cannot be made ({e.strerror}): it is not used")
        if hasattr(os, "geteuid") and (status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
            return self._give_up(f"others may write to the proof cache {self.folder}: it is not used")
        return True

    def _give_up(self, why: str) -> bool:
        self.usable = False
        warnings.warn(f"{why}; {VARIABLE} names another folder, or off", RuntimeWarning, stacklevel=4)
        return False

    def _write(self, path: Path, content: bytes) -> None:
        """All or nothing: a reader sees the whole entry or none, and of two writers the last one's."""
        fresh = ""
        try:
            handle, fresh = tempfile.mkstemp(prefix=UNFINISHED, dir=self.folder)
            with os.fdopen(handle, "wb") as f:
                f.write(content)
            os.replace(fresh, path)
        except OSError as e:
            with contextlib.suppress(OSError):
                os.unlink(fresh)
            self._give_up(f"the proof cache {self.folder} cannot be written ({e.strerror}): it is not used")
            return
        if self._written % 256 == 0:
            self._evict()
        self._written += 1

    def _evict(self) -> None:
        """Above the bound a quarter of it goes, oldest first, so that this happens seldom."""
        ages = []
        with contextlib.suppress(OSError), os.scandir(self.folder) as files:
            for file in files:
                if file.name.startswith(UNFINISHED) or file.name.endswith((ANSWER, NOTE)):
                    with contextlib.suppress(FileNotFoundError):  # another process removes the same ones
                        ages.append((file.stat().st_mtime, file.path, file.name.startswith(UNFINISHED)))
        gone = [path for age, path, unfinished in ages if unfinished and time.time() - age > 3600]
        entries = sorted((age, path) for age, path, unfinished in ages if not unfinished)
        if len(entries) > self.most:
            gone += [path for _, path in entries[: len(entries) - self.most * 3 // 4]]
        for path in gone:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _touch(path: Path) -> None:
    """The oldest entries are removed first; this one is in use."""
    with contextlib.suppress(OSError):
        os.utime(path)


def default_folder() -> Path | None:
    """The folder that the environment names, else one in the user's cache folder."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return None if named.strip().lower() in ("", "off") else Path(named).expanduser()
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "neptune_verified"
    except RuntimeError:  # a user without a home
        return None


# ---------------------------------------------------------------------------------------------------- keys


def key(statement: Statement, limits: Limits) -> str:
    """The name of the entry: a hash of all that decides the answer."""
    nodes = Writer()
    stated = _data(statement, nodes)
    text = json.dumps([environment(), asdict(limits), stated, nodes.nodes], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _data(value: object, nodes: Writer) -> object:
    """Any value of the statement language as JSON, different values as different ones. TypeError for anything else."""
    if isinstance(value, Expr):
        return ["expr", nodes.ref(value)]
    if is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__, *(_data(getattr(value, f.name), nodes) for f in fields(value))]
    if isinstance(value, tuple):
        return ["tuple", *(_data(v, nodes) for v in value)]
    if isinstance(value, frozenset) and all(isinstance(v, str) for v in value):
        return ["set", *sorted(value)]
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Fraction | float):
        return [type(value).__name__, str(value)]
    raise TypeError(f"no text for {type(value).__name__}")


@cache
def environment() -> tuple[str, ...]:
    """What decides besides the statement, the same for the life of the process."""
    known = {**tools(), "mpmath": version("mpmath"), "semantics": SEMANTICS_VERSION}
    return (sources_hash(), *(f"{name} {known[name]}" for name in sorted(known)))


def sources_hash(package: Path = _PACKAGE) -> str:
    """The hash of all source text that has a part in stating and deciding."""
    total = hashlib.sha256()
    for path in sorted(p for folder in ("ir", "proofs") for p in (package / folder).rglob("*.py")):
        text = path.read_bytes()
        total.update(f"{path.relative_to(package).as_posix()} {len(text)}\n".encode() + text)
    return total.hexdigest()

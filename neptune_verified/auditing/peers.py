"""Not trusted: the functions that a kernel is compared with, found by their names in files of the user."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from neptune_verified.auditing.result import KERNEL, UNFUSED
from neptune_verified.user_files import UsageError, functions, load_file

#: Takes the tensors in the order of the definition's inputs and its scalars as keywords; returns a tensor or a tuple.
Peer = Callable[..., Any]


def load_peers(
    names: str | Iterable[str],
    definition: str | Path | None = None,
    program: str = "",
    parameters: Mapping[str, Any] | None = None,
) -> dict[str, Peer]:
    """The functions of these names: "flex,sdpa" are those of the file of the definition, "FILE.py:flex,sdpa" of another.

    A keyword-only parameter ``program`` of a peer gets the program's name, others of the names of ``parameters`` (what
    the definition was made with) their values. Raises UsageError for names that are not there, or not to be told apart.
    """
    found: dict[str, tuple[Path, Peer]] = {}
    modules: dict[Path, ModuleType] = {}
    for path, name in _asked([names] if isinstance(names, str) else names, definition):
        if name in found and found[name][0] != path:
            raise UsageError(f"two peers are called {name!r}, in {found[name][0]} and {path}: rename one of them")
        if name in (KERNEL, UNFUSED):
            raise UsageError(f"{path}: a peer cannot be called {name!r}, which the audit shows by itself: rename it")
        if path not in modules:
            modules[path] = _module(path)
        found[name] = path, _bound(_function(path, modules[path], name), program, parameters or {})
    return {name: peer for name, (_, peer) in found.items()}


def _asked(texts: Iterable[str], definition: str | Path | None) -> Iterator[tuple[Path, str]]:
    for text in texts:
        path = Path(definition) if definition else None
        for item in text.split(","):
            file, colon, name = item.strip().rpartition(":")
            if colon:
                path = Path(file)
            if not name.isidentifier() or (colon and not file):
                raise UsageError(f"--against {text}: {item.strip()!r} is neither a NAME nor FILE.py:NAME")
            if path is None:
                raise UsageError(f"--against {text}: the definition's file is not known here: write FILE.py:{name}")
            if not path.is_file():
                raise UsageError(f"--against {text}: {path}: no such file")
            yield path, name


def _module(path: Path) -> ModuleType:
    try:
        return load_file(path)
    except UsageError as e:
        if isinstance(e.__cause__, ModuleNotFoundError):
            raise UsageError(
                f"{e}: install it, or keep the peers in a file that does without it, as FILE.py:NAME"
            ) from e
        raise


def _function(path: Path, module: ModuleType, name: str) -> Peer:
    found = getattr(module, name, None)
    if callable(found):
        return found  # type: ignore[no-any-return]
    what = f"{name} is of type {type(found).__name__}, no function" if hasattr(module, name) else f"it has no {name!r}"
    there = ", ".join(functions(path, module)) or "none"
    raise UsageError(
        f"--against {name}: {path}: {what}; its functions are {there}; for another file write FILE.py:{name}"
    )


def _bound(peer: Peer, program: str, parameters: Mapping[str, Any]) -> Peer:
    """With what it asks for by keyword."""
    try:
        declared = inspect.signature(peer).parameters.values()
    except (TypeError, ValueError):  # built into torch: it has no signature
        return peer
    known = {**parameters, "program": program}
    given = {p.name: known[p.name] for p in declared if p.kind is p.KEYWORD_ONLY and p.name in known}
    return partial(peer, **given) if given else peer

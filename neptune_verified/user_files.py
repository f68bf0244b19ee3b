"""Not trusted: runs Python files that a user names, and says what went wrong in them. Imports nothing heavy."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


class UsageError(Exception):
    """What the user named does not exist or cannot be used; the message says the way out."""


#: Modules beside a file that were imported when it was run, and where they are.
_NEIGHBOURS: dict[str, Path] = {}


def load_file(path: Path, name: str | None = None) -> ModuleType:
    """The file as a module called ``name`` (its stem by default). While it runs it imports the files beside it by name.

    Raises UsageError for what is no Python file, and with the line of the file for whatever it raises."""
    spec = importlib.util.spec_from_file_location(name or path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    folder = path.parent.resolve()
    for other, where in list(_NEIGHBOURS.items()):  # two folders may each have a helpers.py
        if where != folder and (folder / f"{other}.py").exists():
            sys.modules.pop(other, None)
            del _NEIGHBOURS[other]
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    sys.modules.setdefault(spec.name, module)  # where dataclasses of the file look themselves up
    try:
        spec.loader.exec_module(module)
    except Exception as e:
        raise UsageError(user_error(str(path), path, e)) from e
    finally:
        sys.path.remove(str(folder))
        if sys.modules.get(spec.name) is module:
            del sys.modules[spec.name]
        for other in set(sys.modules) - before:
            file = getattr(sys.modules[other], "__file__", None)
            if file and Path(file).resolve().parent == folder:
                _NEIGHBOURS[other] = folder
    return module


def load_object(path: Path, name: str) -> tuple[Any, ModuleType]:
    """What a file calls by this name (None if nothing), and the file as a module."""
    module = load_file(path)
    return getattr(module, name, None), module


def load_function(path: Path, name: str) -> Any:
    """The function of this name that a file defines or imports. Raises UsageError, with those that there are."""
    found, module = load_object(path, name)
    if not callable(found):
        raise UsageError(f"{path} has no function {name!r}; it defines {', '.join(functions(path, module)) or 'none'}")
    return found


def functions(path: Path, module: ModuleType) -> list[str]:
    """The public callables of a file: those that it defines, and functions that it imports from a file beside it."""
    folder = path.parent.resolve()

    def ours(x: Any) -> bool:
        if getattr(x, "__module__", "") == module.__name__:
            return True
        return inspect.isfunction(x) and Path(x.__code__.co_filename).resolve().parent == folder

    return [n for n, x in vars(module).items() if callable(x) and not n.startswith("_") and ours(x)]


def user_error(source: str, path: Path, e: Exception) -> str:
    """The user's own exception, with the last line of the user's file that it passed through."""
    line, step = 0, e.__traceback__
    while step is not None:
        if Path(step.tb_frame.f_code.co_filename).resolve() == path.resolve():
            line = step.tb_lineno
        step = step.tb_next
    where = f"{path}:{line}" if line else source
    text = (str(e).strip().splitlines() or [""])[0]
    return f"{where}: {type(e).__name__}: {text}"

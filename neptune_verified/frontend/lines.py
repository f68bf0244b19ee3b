"""Trusted: where the user wrote each te tensor. te objects carry no source lines, so they are recorded while te runs.

Only text of messages and docstrings depends on this file; a wrong line cannot change what is proved.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tvm
from tvm import te

from neptune_verified.ir.program import Loc

_SKIP = (os.path.dirname(tvm.__file__) + os.sep, __file__)


def key(obj: Any) -> int:
    """The identity of a TVM object: its address, valid while something holds the object."""
    return int(obj.__chandle__())


class Lines:
    """Source lines of te operations, and the iteration variables that ``te.reduce_axis`` made."""

    def __init__(self) -> None:
        self._locs: dict[int, tuple[Any, Loc]] = {}  # the operation is held, so that its address stays its own
        self._axes: dict[int, Any] = {}

    def add(self, op: Any, loc: Loc) -> None:
        self._locs.setdefault(key(op), (op, loc))

    def add_axis(self, var: Any) -> None:
        self._axes[key(var)] = var

    def of(self, op: Any) -> Loc:
        """Where ``op`` was written; ``Loc()`` if that was not recorded."""
        found = self._locs.get(key(op))
        return found[1] if found else Loc()

    def axis_keys(self) -> frozenset[int]:
        return frozenset(self._axes)

    def __len__(self) -> int:
        return len(self._locs)


_latest = Lines()


def latest_lines() -> Lines:
    """The table of the last ``record_lines()``; it stays until the next one, so ``from_te`` may run after the block."""
    return _latest


def _caller() -> Loc:
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_SKIP):
        frame = frame.f_back
    return Loc(frame.f_code.co_filename, frame.f_lineno)


def _recording(make: Callable[..., Any], lines: Lines) -> Callable[..., Any]:
    @functools.wraps(make)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        loc = _caller()
        made = make(*args, **kwargs)
        for tensor in made if isinstance(made, (tuple, list)) else (made,):
            lines.add(tensor.op, loc)
        return made

    return wrapper


def _recording_axes(make: Callable[..., Any], lines: Lines) -> Callable[..., Any]:
    @functools.wraps(make)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        made = make(*args, **kwargs)
        lines.add_axis(made.var)
        return made

    return wrapper


@contextmanager
def record_lines() -> Iterator[Lines]:
    """Record file and line of every ``te.compute``, ``te.placeholder``, ``te.extern`` and ``te.scan`` in the block.

    A name imported as ``from tvm.te import compute`` before the block is not seen: its tensors have no line.

    >>> with record_lines() as lines:
    ...     x = te.placeholder((4,), name="x")
    >>> lines.of(x.op).line > 0
    True
    """
    global _latest
    lines = Lines()
    names = ("compute", "placeholder", "extern", "scan")
    saved = {name: getattr(te, name) for name in (*names, "reduce_axis")}
    _latest = lines
    try:
        for name in names:
            setattr(te, name, _recording(saved[name], lines))
        te.reduce_axis = _recording_axes(saved["reduce_axis"], lines)
        yield lines
    finally:
        for name, function in saved.items():
            setattr(te, name, function)

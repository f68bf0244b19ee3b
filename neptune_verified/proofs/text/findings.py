"""Trusted: why an emitted file is refused, and the exception that says so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason. ``id``: the obligation that fails (O8 to O13, O16). ``where``: ``kernel.py:LINE``, or a kernel."""

    id: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.id}, {self.where}: {self.what}"


class TextRefused(Exception):
    """The text is not proved to compute its definition. ``findings`` is never empty."""

    def __init__(self, *findings: Finding) -> None:
        super().__init__("; ".join(map(str, findings)))
        self.findings = findings


class Unproved(Exception):
    """A step of a proof that does not go through; the place is added by whoever knows it."""

    def __init__(self, id_: str, what: str, line: int | None = None) -> None:
        super().__init__(what)
        self.id, self.what, self.line = id_, what, line


@contextmanager
def at(line: int) -> Iterator[None]:
    """Give an ``Unproved`` without a line this one."""
    try:
        yield
    except Unproved as e:
        if e.line is None:
            e.line = line
        raise

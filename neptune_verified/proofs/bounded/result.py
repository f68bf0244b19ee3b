"""Trusted: what the bounded evaluation answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of the text: the obligation that it breaks, where, what, and the lengths at which it was seen."""

    id: str
    place: str
    what: str
    lengths: Mapping[str, int | float] = field(default_factory=dict)

    def __str__(self) -> str:
        at = ", ".join(f"{k} = {v}" for k, v in self.lengths.items())
        return f"{self.id} {self.place}: {self.what}" + (f" ({at})" if at else "")


@dataclass(frozen=True, slots=True)
class Run:
    """One evaluation: lengths, the tile configuration of every kernel, how the inputs were drawn, programs whose
    values were followed, and output elements that were compared (those where the definition is defined)."""

    lengths: Mapping[str, int | float]
    config: str
    inputs: str
    programs: int
    compared: int = 0


@dataclass(frozen=True, slots=True)
class BoundedResult:
    """``verdict``: proved, refuted, unsupported, unknown. ``rounding``: "same", or "differs" where the values agree with
    every float conversion read as the identity and the rounding points do not (which O16 judges). ``paths``: the numbers
    of iterations of each loop (0, 1, 2, ...), the branches of each condition, and the tails that were met."""

    verdict: str
    detail: str = ""
    findings: tuple[Finding, ...] = ()
    runs: tuple[Run, ...] = ()
    paths: frozenset[str] = frozenset()
    rounding: str = "same"
    differs: tuple[str, ...] = ()


class Unsupported(Exception):
    """The text says something outside of the subset that is read here."""

    def __init__(self, what: str, line: int = 0) -> None:
        super().__init__(what)
        self.what, self.line = what, line


class Unknown(Exception):
    """The evaluation cannot decide: a sample left the range of float64, or the domain is too large."""


class Fault(Exception):
    """A finding that ends the run; ``line`` is filled in by whoever knows it."""

    def __init__(self, id_: str, what: str, line: int = 0) -> None:
        super().__init__(what)
        self.id, self.what, self.line = id_, what, line

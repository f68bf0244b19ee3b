"""Trusted: what the bounded evaluation answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: What a verdict is about.
OBLIGATIONS = ("O8", "O9", "O10", "O11", "O12", "O13", "O16")


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
    of iterations of each loop (0, 1, 2, ...), the branches of each condition, and the tails that were met. ``configs``: how
    many configurations there are. ``loops``: how many loops were counted, ``dead``: the lines of those that no
    configuration runs at any length that was counted. ``again``: programs that ran again on undefined inputs."""

    verdict: str
    detail: str = ""
    findings: tuple[Finding, ...] = ()
    runs: tuple[Run, ...] = ()
    paths: frozenset[str] = frozenset()
    rounding: str = "same"
    differs: tuple[str, ...] = ()
    configs: int = 0
    loops: int = 0
    dead: tuple[int, ...] = ()
    again: int = 0

    def covers(self, id_: str) -> str:
        """What was looked at for an obligation, in a line: the same for the same text. Empty unless it is proved."""
        if self.verdict != "proved" or id_ not in OBLIGATIONS:
            return ""
        longest = max((n for r in self.runs for n in r.lengths.values() if isinstance(n, int)), default=0)
        every = f"all {self.configs} configurations" if self.configs > 1 else "the configuration"
        return f"{len(self.runs)} runs at lengths up to {longest}, {every}; {self._of(id_)}"

    def _of(self, id_: str) -> str:
        match id_:
            case "O8":
                dead = f"; those at line {', '.join(map(str, self.dead))} never run" if self.dead else ""
                return f"{self.loops} loops, each run twice in a program or as often as it can{dead}"
            case "O9":
                return f"{self.again} programs again with NaN in what no row of theirs counts"
            case "O10":
                return "elements that no tile holds do not change what is stored"
            case "O11":
                return "accesses in bounds for any strides, each output element stored once"
            case "O12":
                return "integers fit their types, no operand of a division is negative, offsets have 64 bits"
            case "O13":
                return f"{sum(r.compared for r in self.runs)} stored elements are the definition's"
            case _:
                where = (
                    f"rounding differs in {', '.join(self.differs)}" if self.differs else "rounding is the definition's"
                )
                return f"no contraction, no dot below the precision of its operands; {where}"


class Unsupported(Exception):
    """The text says something outside of the subset that is read here."""

    def __init__(self, what: str, line: int = 0) -> None:
        super().__init__(what)
        self.what, self.line = what, line


class Unknown(Exception):
    """The evaluation cannot decide: a sample left the range of float64, or the domain is too large."""


class OutOfRange(Unknown):
    """A sample left the range of float64: smaller ones may not."""


class Fault(Exception):
    """A finding that ends the run; ``line`` is filled in by whoever knows it."""

    def __init__(self, id_: str, what: str, line: int = 0) -> None:
        super().__init__(what)
        self.id, self.what, self.line = id_, what, line

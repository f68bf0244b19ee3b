"""Trusted: what a prover may answer, and how answers combine."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


class Verdict(enum.Enum):
    """Only PROVED by both routes counts. Nothing here is truthy: compare with ``is``."""

    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"
    TIMEOUT = "timeout"
    UNSUPPORTED = "unsupported"
    VACUOUS = "vacuous"
    DISAGREEMENT = "disagreement"

    def __bool__(self) -> bool:
        raise TypeError("a verdict has no truth value: compare it with `is Verdict.PROVED`")


def combine(routes: Iterable[Verdict]) -> Verdict:
    """The verdict of an obligation from those of its routes. No route at all is UNKNOWN."""
    seen = list(routes)
    if len(seen) < 2:
        return Verdict.UNKNOWN
    if Verdict.PROVED in seen and Verdict.REFUTED in seen:
        return Verdict.DISAGREEMENT
    if all(v is Verdict.PROVED for v in seen):
        return Verdict.PROVED
    order = (Verdict.REFUTED, Verdict.VACUOUS, Verdict.UNSUPPORTED, Verdict.TIMEOUT, Verdict.UNKNOWN)
    return next((v for v in order if v in seen), Verdict.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A point at which a statement is false: symbol -> value as text, and what the two sides give there."""

    values: Mapping[str, str]
    left: str
    right: str

    def __str__(self) -> str:
        point = ", ".join(f"{k} = {v}" for k, v in self.values.items())
        if self.left == self.right:
            return f"at {point}: both sides are {self.left}"
        return f"at {point}: {self.left} instead of {self.right}"


@dataclass(frozen=True, slots=True)
class RouteResult:
    """One route's answer. ``script`` is the SMT-LIB 2 text that was run (Z3 route), ``detail`` says why when the
    verdict is not PROVED."""

    route: str
    verdict: Verdict
    ms: float = 0.0
    detail: str = ""
    script: str = ""
    counterexample: Counterexample | None = field(default=None)

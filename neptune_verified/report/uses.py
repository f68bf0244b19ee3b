"""Not trusted: every fact of a report, with the obligations that use it.

Used is what stands in a statement, as a hypothesis or as the reason for a symbol's range; the proof may need less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from neptune_verified.proofs.statement import origins_of

#: What can be said of inputs and lengths.
ON_INPUTS = ("declared", "default")
#: Facts that are listed; a case of a statement, and what another obligation proves, stand at the obligation.
LISTED = ("derived", "assumed")
NOT_USED = "not used by any proof"


@dataclass(frozen=True, slots=True)
class Users:
    """Obligations of one stage."""

    stage: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FactLine:
    """``source``: one word of ``proofs.statement.SOURCES``; ``used_by``: nothing for a declared fact that no proof uses."""

    text: str
    source: str
    used_by: tuple[Users, ...]


def fact_lines(
    assumptions: Iterable[Mapping[str, str]], obligations: Iterable[Mapping[str, Any]]
) -> tuple[FactLine, ...]:
    """The assumptions on inputs, then everything else that a statement uses, in the order of first use."""
    users: dict[tuple[str, str], dict[str, dict[str, None]]] = {(a["origin"], a["text"]): {} for a in assumptions}
    for o in obligations:
        for origin in _origins(o):
            source, _, text = origin.partition(": ")
            users.setdefault((source, text), {}).setdefault(o["stage"], {})[o["id"]] = None
    return tuple(
        FactLine(text, source, tuple(Users(stage, tuple(ids)) for stage, ids in by.items()))
        for (source, text), by in users.items()
    )


def _origins(o: Mapping[str, Any]) -> Iterator[str]:
    for s in o["symbols"]:
        yield from s["origins"]
    for a in o["assumptions"]:
        yield from origins_of(a["origin"])


def users_text(fact: FactLine, obligations: Iterable[Mapping[str, Any]]) -> str:
    """``O1, O7.range of l; all of o``: "all" where that is every obligation of the stage."""
    every: dict[str, set[str]] = {}
    for o in obligations:
        every.setdefault(o["stage"], set()).add(o["id"])
    if not fact.used_by:
        return NOT_USED
    parts = [
        f"{'all' if len(u.ids) > 1 and set(u.ids) >= every.get(u.stage, set()) else ', '.join(u.ids)} of {u.stage}"
        for u in fact.used_by
    ]
    if len(parts) > 1 and len(parts) == len(every) and all(p.startswith("all of ") for p in parts):
        return "used by all"
    return f"used by {'; '.join(parts)}"

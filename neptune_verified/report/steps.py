"""Not trusted: obligations grouped by the step that needs them, and a statement taken apart for layout.

What the obligations of a step have in common (what their symbols stand for, what they assume) is said once for the step,
with the obligations that use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from neptune_verified.proofs.statement_text import kinds_text

ROUTES = ("z3", "sympy")

#: What each kind of obligation is, in a few words.
KINDS = {
    "O1": "term repair",
    "O2": "distributivity",
    "O3": "composition and identity",
    "O4": "neutral element",
    "O5": "reducer laws",
    "O6": "definedness",
    "O7": "range",
    "O8": "dependence",
    "O9": "padding",
    "O10": "skipped tiles",
    "O11": "memory",
    "O12": "integers",
    "O13": "translation of the printed text",
    "O14": "meaning of the state",
    "O15": "join law",
    "O16": "rounding points",
}

_CONDITION = " wherever the right side is defined"


@dataclass(frozen=True, slots=True)
class Used:
    """A symbol or an assumption, what it is or where it comes from, and the ids of the obligations that use it."""

    text: str
    note: str
    by: tuple[str, ...]
    everywhere: bool

    @property
    def users(self) -> str:
        return "all" if self.everywhere else ", ".join(self.by)


@dataclass(frozen=True, slots=True)
class Step:
    title: str
    obligations: tuple[Mapping[str, Any], ...]
    symbols: tuple[Used, ...]
    assumptions: tuple[Used, ...]


def steps(obligations: Iterable[Mapping[str, Any]]) -> tuple[Step, ...]:
    """The steps in the order in which they first occur."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for o in obligations:
        found.setdefault(step_title(o), []).append(o)
    return tuple(
        Step(title, tuple(group), _shared(group, symbol_pairs), _shared(group, assumption_pairs))
        for title, group in found.items()
    )


def step_title(o: Mapping[str, Any]) -> str:
    return str(o["step"]) + ("" if o["stage"] in o["step"].split() else f" ({o['stage']})")


def symbol_pairs(o: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for s in o["symbols"]:
        kinds = kinds_text(s["kinds"])
        yield f"{s['name']} {'in ' * kinds.startswith('{')}{kinds}", s["meaning"]


def symbol_rows(o: Mapping[str, Any]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for (text, meaning), s in zip(symbol_pairs(o), o["symbols"], strict=True):
        yield text, meaning, tuple(s["origins"])


def assumption_pairs(o: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for a in o["assumptions"]:
        yield a["text"], a["origin"]


def _shared(
    group: list[Mapping[str, Any]], pairs: Callable[[Mapping[str, Any]], Iterable[tuple[str, str]]]
) -> tuple[Used, ...]:
    users: dict[tuple[str, str], dict[str, None]] = {}
    for o in group:
        for pair in pairs(o):
            users.setdefault(pair, {})[o["id"]] = None
    ids = {o["id"] for o in group}
    return tuple(Used(text, note, tuple(by), len(by) == len(ids)) for (text, note), by in users.items())


def quantifier_and_claim(statement: str) -> tuple[str, str]:
    """``for all x finite: x + 0 = x`` in its two parts; nothing is lost but the colon between them."""
    if statement.startswith(("for all ", " with ")):
        quantifier, colon, claim = statement.partition(": ")
        if colon:
            return quantifier, claim
    return "", statement


def claim_lines(claim: str) -> list[str]:
    """The two sides of an equation, and its condition, on lines of their own."""
    body = claim.removesuffix(_CONDITION)
    left, equals, right = body.partition(" = ")
    lines = [left, f"= {right}"] if equals else [body]
    return [*lines, _CONDITION.strip()] if body != claim else lines


def route_of(o: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    return next((r for r in o["routes"] if r["route"] == name), None)


def remarks(o: Mapping[str, Any]) -> Iterator[str]:
    """What a cell for a verdict has no room for: other routes, and why a route did not prove, or in which run."""
    shared = {r["detail"] for r in o["routes"]}
    if len(o["routes"]) > 1 and len(shared) == 1 and "" not in shared:
        yield shared.pop()
        return
    for r in o["routes"]:
        if r["route"] not in ROUTES:
            yield f"{r['verdict']} by the {r['route']} in {r['ms']} ms"
        if r["detail"] and not o.get("counterexample"):
            yield f"{r['route']}: {r['detail']}"

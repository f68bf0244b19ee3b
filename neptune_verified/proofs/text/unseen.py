"""Trusted: positions that are masked for every row of a program cannot be seen, whatever stands there (O9).

A condition of a term over integers *masks* an element if the term is the reducer's neutral element where it is false (or
true). Suppose that it is so for every row that the program has. Then the text's contribution of the element has to be the
neutral element too, and without a look at the inputs there: 0 times what was loaded does not do, because it may be NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from neptune_verified.ir.expr import Expr, Op, Reduce, Size, subterms
from neptune_verified.ir.loops import Carried
from neptune_verified.proofs.text.integers import is_integer
from neptune_verified.proofs.text.match import Everywhere, Matcher


def conditions(g: Expr) -> Iterator[Expr]:
    """Conditions of choices in a term that speak of integers alone."""
    for x in subterms(g):
        if isinstance(x, Op) and x.name == "select" and is_integer(x.args[0]):
            yield x.args[0]


def masks(m: Matcher, g: Expr, neutral: Expr) -> list[tuple[Expr, bool]]:
    """(condition, value) under which the term is neutral."""
    found: list[tuple[Expr, bool]] = []
    for c in dict.fromkeys(conditions(g)):
        for truth in (False, True):
            with m.facts.case((c, truth)):
                if not m.facts.impossible() and m.quietly(neutral, g):
                    found.append((c, truth))
    return found


@dataclass(frozen=True, slots=True)
class Update:
    """The text's new value, in which that many reductions are combined with the old one."""

    value: Expr
    contributions: int


def check_unseen(
    m: Matcher, c: Carried, g: Expr, neutral: Expr, update: Update, position: Size, rows: dict[Size, tuple[Expr, ...]]
) -> bool | None:
    """Is every contribution in ``update`` unseen where all rows mask it? ``position`` is the lane
    of the stream, in its range; ``rows``: the lanes of the value with what makes them rows of the definition. None if not;
    else whether the term has a mask at all."""
    found = masks(m, g, neutral)
    for condition, truth in found:
        own = [r for r in rows if any(x is r for x in subterms(condition))]
        if len(own) > 1:
            m.differ("O9", f"{c.name} is masked by a condition on several dimensions of the tile")
            return None
        everywhere = Everywhere(own[0], condition, truth, rows[own[0]]) if own else None
        with m.facts.case((condition, truth)), m.unseen(position, everywhere):
            reductions = contributions(m, update.value)
            if len(reductions) != update.contributions:
                m.differ("O9", f"{c.name}: what a tile contributes cannot be told")
                return None
            for x in reductions:
                if not m.quietly(m.opened_reduction(x, position), neutral):
                    m.differ("O9", f"{c.name}: inputs are used at positions that are masked for every row")
                    return None
    return bool(found)


def contributions(m: Matcher, update: Expr, combine: str = "") -> list[Reduce]:
    """What a tile contributes to a value: the reductions that ``update`` combines, one by one, with what was there."""
    e = m.head(update)
    while isinstance(e, Op) and e.name == "cast":
        e = m.head(e.args[0])
    if isinstance(e, Reduce):
        return [e]
    if isinstance(e, Op) and combine in ("", e.name):
        return [x for a in e.args for x in contributions(m, a, e.name)]
    return []

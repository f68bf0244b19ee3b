"""Trusted: positions that are masked for every row of a program cannot be seen, whatever stands there (O9).

A condition of a term over integers *masks* an element if the term is the reducer's neutral element where it is false (or
true). Suppose that it is so for every row that the program has. Then the text's contribution of the element has to be the
neutral element too, and without a look at the inputs there: 0 times what was loaded does not do, because it may be NaN.
"""

from __future__ import annotations

from collections.abc import Iterator

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
    found = []
    for c in dict.fromkeys(conditions(g)):
        for truth in (False, True):
            with m.facts.case((c, truth)):
                if not m.facts.impossible() and m.constant_of(g, definition=True) == m.constant_of(neutral):
                    found.append((c, truth))
    return found


def check_unseen(
    m: Matcher, c: Carried, g: Expr, neutral: Expr, update: Expr, position: Size, rows: dict[Size, tuple[Expr, ...]]
) -> bool:
    """Is every contribution in ``update`` (the text's new value) unseen where all rows mask it? ``position`` is the lane
    of the stream, in its range; ``rows``: the lanes of the value with what makes them rows of the definition."""
    for condition, truth in masks(m, g, neutral):
        own = [r for r in rows if any(x is r for x in subterms(condition))]
        if len(own) > 1:
            return m.differ("O9", f"{c.name} is masked by a condition on several dimensions of the tile")
        everywhere = Everywhere(own[0], condition, truth, rows[own[0]]) if own else None
        with m.facts.case((condition, truth)), m.unseen(position, everywhere):
            body = contribution(m, update, position)
            if body is None:
                return m.differ("O9", f"{c.name}: what a tile contributes cannot be told")
            value = m.constant_of(body)
            if value is None or value != m.constant_of(neutral):
                return m.differ("O9", f"{c.name}: inputs are used at positions that are masked for every row")
    return True


def contribution(m: Matcher, update: Expr, position: Expr) -> Expr | None:
    """What one lane of the stream contributes to the reduction over the tile."""
    e = m.head(update)
    while isinstance(e, Op) and e.name == "cast":
        e = m.head(e.args[0])
    parts = [m.head(x) for x in e.args] if isinstance(e, Op) else [e]
    for x in parts:
        while isinstance(x, Op) and x.name == "cast":
            x = m.head(x.args[0])
        if isinstance(x, Reduce):
            return m.opened_reduction(x, position)
    return None

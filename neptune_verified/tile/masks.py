"""Not trusted: the predicates over indices outside which a pass changes nothing.

Such a condition stands in a ``select`` somewhere in the reduced term. Where it is false, the term of every reduction that
the pass carries must be the reducer's neutral element; this is decided by the kinds of value that the term can then
have (``exp(-inf - finite)`` is 0, ``0 * finite`` is 0), or by folding constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from neptune_verified.ir.expr import (
    FALSE,
    REDUCERS,
    TRUE,
    Axis,
    Const,
    Expr,
    Op,
    Read,
    Reduce,
    Var,
    children,
    const,
    op,
    rebuild,
    subterms,
)
from neptune_verified.ir.kinds import EXTENDED, NINF, PINF, TRUTH, ZERO, KindAnalysis, Kinds
from neptune_verified.ir.kinds import FALSE as NO
from neptune_verified.ir.kinds import TRUE as YES

#: The kind of a neutral element that is the only value of its kind.
_NEUTRAL = {"sum": ZERO, "max": NINF, "min": PINF, "logaddexp": NINF, "any": NO, "all": YES}


@dataclass(frozen=True)
class Mask:
    """``conditions``: what must hold at an element that counts, each with the value that it must have."""

    conditions: tuple[tuple[Expr, bool], ...]

    @property
    def predicate(self) -> Expr:
        result: Expr = TRUE
        for c, wanted in self.conditions:
            part = c if wanted else op("not", c)
            result = part if result is TRUE else op("and", result, part)
        return result

    @property
    def reads(self) -> tuple[Read, ...]:
        """What the conditions read of tensors."""
        return tuple(x for x in subterms(self.predicate) if isinstance(x, Read))

    def reaches(self, term: Expr, stream: Axis) -> bool:
        """Where a condition fails, ``term`` still reads something along the stream (times 0, say), which might be NaN."""
        for c, wanted in self.conditions:
            left = assume(term, {c: const(not wanted, "bool")})
            if any(isinstance(x, Read) and stream in x.free for x in subterms(left)):
                return True
        return False

    def holds(self) -> dict[Expr, Expr]:
        """The conditions as constants, for elements that count."""
        return {c: const(wanted, "bool") for c, wanted in self.conditions}


def find_mask(terms: Mapping[str, list[Expr]], stream: Axis, kinds: KindAnalysis) -> Mask:
    """``terms``: the reduced terms of a pass, by reducer."""
    found: dict[Expr, bool] = {}

    def look(c: Expr) -> None:
        if c in found or c.dtype != "bool" or stream not in c.free or isinstance(c, Const):
            return
        if not any(isinstance(x, Reduce | Var) for x in subterms(c)):
            for wanted in (True, False):
                if all(_is_neutral(r, e, c, not wanted, kinds) for r, es in terms.items() for e in es):
                    found[c] = wanted
                    return
        if isinstance(c, Op) and c.name in ("and", "or", "not"):
            for part in c.args:
                look(part)

    for e in dict.fromkeys(e for es in terms.values() for e in es):
        for x in subterms(e):
            if isinstance(x, Op) and x.name == "select":
                look(x.args[0])
    return Mask(tuple(found.items()))


def _is_neutral(reducer: str, term: Expr, condition: Expr, value: bool, kinds: KindAnalysis) -> bool:
    """The term is the reducer's neutral element wherever ``condition`` has the value."""
    if condition not in subterms(term):
        return False
    if assume(term, {condition: const(value, "bool")}) is REDUCERS[reducer].neutral(term.dtype):
        return True
    if reducer not in _NEUTRAL or (reducer in ("max", "min") and term.dtype.startswith(("int", "uint"))):
        return False
    given: dict[Expr, Kinds] = {
        x: TRUTH if x.dtype == "bool" else EXTENDED for x in subterms(term) if isinstance(x, Var)
    }
    given[condition] = frozenset({YES if value else NO})
    return kinds.under(given).of(term) <= {_NEUTRAL[reducer]}


def assume(e: Expr, values: Mapping[Expr, Expr]) -> Expr:
    """``e`` with some conditions replaced by truth values, and what they decide taken away."""
    memo: dict[Expr, Expr] = dict(values)

    def go(x: Expr) -> Expr:
        if x not in memo:
            kids = children(x)
            new = tuple(go(k) for k in kids)
            memo[x] = x if all(a is b for a, b in zip(kids, new, strict=True)) else _decided(rebuild(x, new))
        return memo[x]

    return go(e) if values else e


def _decided(e: Expr) -> Expr:
    match e:
        case Op("select", (c, x, y)) if isinstance(c, Const):
            return x if c.value else y
        case Op("eq" | "ne" as name, (Const(left, _), Const(right, _))):
            return TRUE if (left == right) == (name == "eq") else FALSE
        case Op("not", (c,)) if isinstance(c, Const):
            return FALSE if c.value else TRUE
        case Op("and" | "or" as name, (x, y)):
            neutral = name == "and"
            for a, b in ((x, y), (y, x)):
                if isinstance(a, Const):
                    return b if bool(a.value) == neutral else a
    return e

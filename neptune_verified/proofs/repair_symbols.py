"""Trusted: what SymPy's assumptions on a symbol say here, and the words for domains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from neptune_verified.ir.kinds import EXTENDED, FINITE, NEG, NINF, PINF, POS, TRUTH, ZERO, Kinds
from neptune_verified.proofs.repair import PRODUCERS, IllFormed

DOMAINS: dict[str, Kinds] = {
    "real": FINITE,
    "positive": frozenset({POS}),
    "negative": frozenset({NEG}),
    "nonnegative": frozenset({ZERO, POS}),
    "nonpositive": frozenset({NEG, ZERO}),
    "nonzero": frozenset({NEG, POS}),
    "real or -inf": FINITE | {NINF},
    "real or +inf": FINITE | {PINF},
    "extended": EXTENDED,
    "bool": TRUTH,
}


def symbol_name(x: Any) -> str:
    name = x.name if isinstance(x, sp.Symbol) else x
    if not isinstance(name, str) or not name.isidentifier():
        raise IllFormed(f"{x} is no symbol")
    return name


def symbols_of(e: Any) -> list[Any]:
    return sorted(e.free_symbols, key=lambda s: s.name) if isinstance(e, sp.Basic) else []


def producer_of(name: str, spec: tuple[str, Any] | None) -> tuple[str, Any] | None:
    if spec is None:
        return None
    reducer, element = spec
    if reducer not in PRODUCERS:
        raise IllFormed(f"{name} is a {reducer}; producers are {', '.join(PRODUCERS)}")
    return reducer, sp.sympify(element)


def truth_names(expressions: Sequence[Any]) -> set[str]:
    """Symbols that stand where a truth value is wanted."""
    found: set[str] = set()
    for e in expressions:
        for x in sp.preorder_traversal(e) if isinstance(e, sp.Basic) else ():
            if isinstance(x, sp.And | sp.Or | sp.Not | sp.Xor):
                found |= {a.name for a in x.args if isinstance(a, sp.Symbol)}
            if isinstance(x, sp.Piecewise):
                found |= {c.name for _, c in x.args if isinstance(c, sp.Symbol)}
    return found


def speaks(s: Any) -> bool:
    """Does the symbol carry an assumption on its value?"""
    return s.is_extended_real is not None or s.is_complex is not None


def kinds_of(s: Any) -> Kinds:
    """The kinds that SymPy's assumptions on a symbol leave."""
    if s.is_extended_real is False or (s.is_extended_real is None and s.is_complex):
        raise IllFormed(f"{s.name} is not real")
    negative, positive, zero = s.is_extended_negative, s.is_extended_positive, s.is_zero
    infinite = s.is_extended_real is True and s.is_finite is not True
    finite = s.is_finite is not False
    possible = {
        NEG: finite and negative is not False and zero is not True,
        ZERO: finite and zero is not False and not negative and not positive,
        POS: finite and positive is not False and zero is not True,
        NINF: infinite and negative is not False,
        PINF: infinite and positive is not False,
    }
    return frozenset(k for k, yes in possible.items() if yes)

"""Trusted: the language in which obligations are stated.

A statement quantifies over symbols (extended reals or truth values), assumes hypotheses and claims a goal. Terms are
the expressions of ``ir.expr`` over ``Var`` leaves, with the extended-real meaning given at the head of that file.

Each symbol ranges over the union of its *kinds*: ``-inf``, ``neg``, ``zero``, ``pos``, ``+inf`` (finite kinds are signs
of a real number), or ``true`` and ``false``. A hypothesis holds at a point when it is defined and true there.

Goals::

    Equal(lhs, rhs)     both sides are defined and equal
    Refines(lhs, rhs)   where rhs is defined, lhs is defined and equal to it
    Defined(term)       the term is defined
    Holds(predicate)    the predicate is defined and true
    NeverFalse(predicate)    the predicate is true wherever it is defined
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from neptune_verified.ir.expr import FLOATS, Expr, Var

FINITE = frozenset({"neg", "zero", "pos"})
EXTENDED = FINITE | {"-inf", "+inf"}
NUMBER_KINDS = ("-inf", "neg", "zero", "pos", "+inf")
BOOL_KINDS = ("true", "false")

#: What a fact can come from. Each origin is one of these words, a colon, and which one.
SOURCES = {
    "declared": "by the user, of an input or a length",
    "default": "of an input or a length of which nothing else was declared",
    "derived": "by a rule of this compiler, from the operations of the definition",
    "domain": "a case to which the statement is limited, or the range of a type",
    "proved": "by another obligation",
    "assumed": "of the definition: O7 speaks of inputs on which its own values are in range",
}
_PARTS = re.compile(rf"; (?=(?:{'|'.join(SOURCES)}): )")
_LEGAL = re.compile(rf"(?:{'|'.join(SOURCES)}): \S.*")


def origins_of(text: str) -> tuple[str, ...]:
    """The parts of the origin of a hypothesis, each with its source."""
    return tuple(_PARTS.split(text))


def legal(origin: str) -> bool:
    return _LEGAL.fullmatch(origin) is not None


@dataclass(frozen=True, slots=True)
class Symbol:
    """``var`` ranges over ``kinds``; ``meaning`` says in the user's words what it stands for, ``origins`` why it takes no
    other values."""

    var: Var
    kinds: frozenset[str]
    meaning: str = ""
    origins: tuple[str, ...] = ()

    @property
    def restricted(self) -> bool:
        """Does it range over less than what its type has?"""
        if self.var.dtype == "bool":
            return not self.kinds.issuperset(BOOL_KINDS)
        return not (EXTENDED if self.var.dtype in FLOATS else FINITE) <= self.kinds


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """An assumed predicate and where it comes from: see ``SOURCES``; never without an origin."""

    expr: Expr
    origin: str

    @property
    def origins(self) -> tuple[str, ...]:
        """What it is, and what it rests on: "derived: interval arithmetic; declared: |x| <= 4" are two."""
        return origins_of(self.origin)


@dataclass(frozen=True, slots=True)
class Equal:
    lhs: Expr
    rhs: Expr


@dataclass(frozen=True, slots=True)
class Refines:
    lhs: Expr
    rhs: Expr


@dataclass(frozen=True, slots=True)
class Defined:
    term: Expr


@dataclass(frozen=True, slots=True)
class Holds:
    predicate: Expr


@dataclass(frozen=True, slots=True)
class NeverFalse:
    predicate: Expr


Goal = Equal | Refines | Defined | Holds | NeverFalse


@dataclass(frozen=True, slots=True)
class Statement:
    """For all values of ``symbols`` of their kinds that satisfy ``hypotheses``: ``goal``."""

    symbols: tuple[Symbol, ...]
    hypotheses: tuple[Hypothesis, ...]
    goal: Goal

    def wordless(self) -> Statement:
        """The same claim without meanings and origins: consumers of one producer often differ in these alone."""
        symbols = tuple(Symbol(s.var, s.kinds) for s in self.symbols)
        return Statement(symbols, tuple(Hypothesis(h.expr, "") for h in self.hypotheses), self.goal)

    def unfounded(self) -> str:
        """What has no origin, or one that is none; "" if there is no such fact."""
        for h in self.hypotheses:
            if not all(map(legal, h.origins)):
                return f"a hypothesis without a legal origin ({h.origin!r})"
        return next((f"{s.var.name} has no legal origin" for s in self.symbols if not all(map(legal, s.origins))), "")

    def terms(self) -> tuple[Expr, ...]:
        match self.goal:
            case Equal(lhs, rhs) | Refines(lhs, rhs):
                return (lhs, rhs)
            case Defined(term):
                return (term,)
            case Holds(predicate) | NeverFalse(predicate):
                return (predicate,)

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

from dataclasses import dataclass

from neptune_verified.ir.expr import Expr, Var

FINITE = frozenset({"neg", "zero", "pos"})
NUMBER_KINDS = ("-inf", "neg", "zero", "pos", "+inf")
BOOL_KINDS = ("true", "false")


@dataclass(frozen=True, slots=True)
class Symbol:
    """``var`` ranges over ``kinds``; ``meaning`` says in the user's words what it stands for."""

    var: Var
    kinds: frozenset[str]
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """An assumed predicate and where it comes from ("declared: ...", "derived: ..."); never without an origin."""

    expr: Expr
    origin: str


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

    def terms(self) -> tuple[Expr, ...]:
        match self.goal:
            case Equal(lhs, rhs) | Refines(lhs, rhs):
                return (lhs, rhs)
            case Defined(term):
                return (term,)
            case Holds(predicate) | NeverFalse(predicate):
                return (predicate,)

"""Trusted: from terms of a program to terms over symbols.

Given the producers' symbols r, every maximal subterm that contains none of them becomes a symbol of its own (an
*element* of the term). This loses relations between elements and therefore can only make a true statement harder to
prove, never a false one provable: what holds for all values of the symbols holds for those that the subterms take.
Comparisons keep their shape, so that ``select(s == -inf, 0, exp(s - m))`` keeps the relation between test and use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from neptune_verified.ir.expr import Const, Expr, Op, Read, Var, children, rebuild, subterms, var
from neptune_verified.ir.kinds import TRUTH, UNDEF, KindAnalysis, Kinds
from neptune_verified.proofs.statement import Symbol

OPAQUE = ("floordiv", "floormod", "floor", "ceil", "round", "tanh", "erf", "sin", "cos")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


class UnsupportedTerm(Exception):
    """The term uses a running value in a way that obligations cannot state."""


class Abstraction:
    """Shared by all terms of one edge, so that equal subterms become the same symbol.

    ``fixed`` symbols (producers, slots of a template) are kept; ``elements`` maps each new symbol to its subterm."""

    def __init__(self, kinds: KindAnalysis, fixed: Iterable[Var]) -> None:
        self.analysis = kinds
        self.fixed = frozenset(fixed)
        self.elements: dict[Expr, Var] = {}

    def __call__(self, e: Expr) -> Expr:
        memo: dict[Expr, Expr] = {}

        def go(x: Expr) -> Expr:
            if x not in memo:
                memo[x] = self._visit(x, go)
            return memo[x]

        return go(e)

    def _visit(self, x: Expr, go: object) -> Expr:
        assert callable(go)
        if x in self.elements:
            return self.elements[x]
        if isinstance(x, Const) or x in self.fixed:
            return x
        free_of_fixed = not any(s in self.fixed for s in subterms(x))
        if free_of_fixed and not self._keeps_shape(x) and (self._opaque(x) or not self._mentions(x)):
            return self._new(x)
        kids = children(x)
        if not kids or not isinstance(x, Op):
            if not free_of_fixed:
                raise UnsupportedTerm("a running value is used inside another reduction or as an index")
            return self._new(x)
        return rebuild(x, tuple(go(k) for k in kids))

    def _mentions(self, x: Expr) -> bool:
        """Whether an element is among the values of ``x``. One in an index of what ``x`` reads is none of them: nothing is
        known of what stands where."""
        found = [x]
        for y in found:
            if y in self.elements:
                return True
            found += () if isinstance(y, Read) else children(y)
        return False

    @staticmethod
    def _opaque(x: Expr) -> bool:
        """A function that no prover looks into: of its value nothing is lost."""
        return isinstance(x, Op) and x.name in OPAQUE

    @staticmethod
    def _keeps_shape(x: Expr) -> bool:
        """Comparisons with a constant, connectives of them, and selects whose condition is one."""
        if not isinstance(x, Op):
            return False
        if x.name in COMPARISONS:
            return isinstance(x.args[1], Const) and x.args[0].dtype != "bool" and not isinstance(x.args[0], Const)
        return x.name in ("and", "or", "not") and any(Abstraction._keeps_shape(a) for a in x.args)

    def _new(self, x: Expr) -> Var:
        prefix = "b" if x.dtype == "bool" else "c"
        self.elements[x] = var(f"{prefix}{len(self.elements)}", x.dtype)
        return self.elements[x]

    def kinds_of(self, x: Expr) -> Kinds:
        """Kinds of an element. Undefined is left out: a term that evaluates an undefined element is undefined on both
        sides, and one that does not evaluate it does not depend on its value."""
        return self.analysis.of(x) - {UNDEF} or (TRUTH if x.dtype == "bool" else frozenset({"zero"}))

    def undefinable(self) -> list[Var]:
        """Elements that can be undefined."""
        return [v for x, v in self.elements.items() if UNDEF in self.analysis.of(x)]

    def symbols(self, meaning: Callable[[Expr], str], origins: Callable[[Expr], tuple[str, ...]]) -> tuple[Symbol, ...]:
        return tuple(Symbol(v, self.kinds_of(x), meaning(x), origins(x)) for x, v in self.elements.items())

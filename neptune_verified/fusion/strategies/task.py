"""Not trusted: what a strategy is given and what it may propose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sympy as sp

from neptune_verified.fusion import derive
from neptune_verified.fusion.sympify import CannotDerive, to_sympy
from neptune_verified.ir.expr import Expr, Op, Var, contains, substitute, var
from neptune_verified.ir.kinds import NONNEGATIVE, Kinds
from neptune_verified.proofs.repair import Problem, Reach, Update
from neptune_verified.proofs.repair_context import Expansion


@dataclass(frozen=True, slots=True)
class Proposal:
    """An update, with the expansion that shows it right where it is not so element by element."""

    update: Update
    expansion: Expansion | None = None


class Task:
    """One reduction to repair. ``starts`` are terms of accumulators that a person has chosen already."""

    def __init__(self, problem: Problem, starts: tuple[Expr, ...] = ()) -> None:
        self.problem = problem
        self.starts = starts or (problem.term,)
        self.reach = Reach(problem)
        self.old = tuple(p.var for p in problem.producers)
        self.new = tuple(p.new for p in problem.producers)
        self.elements = tuple(s.var for s in problem.elements)
        self.memo: dict[str, int] = {}

    def scalar(self, h: Expr, strategy: str) -> Proposal:
        """One accumulator, repaired by ``h`` over t (and n)."""
        p = self.problem
        return Proposal(Update((p.reducer,), (p.term,), (h,), var("t", p.dtype), strategy=strategy))

    @cached_property
    def symbols(self) -> dict[Expr, Any]:
        """SymPy symbols with the signs that are known."""
        kinds: dict[Expr, Kinds] = {
            **self.reach.given,
            **{p.new: self.reach.kinds[p.name] for p in self.problem.producers},
        }
        return {
            v: sp.Symbol(v.name, **({"positive": True} if kinds[v] <= NONNEGATIVE else {"real": True}))
            for v in kinds
            if isinstance(v, Var) and v.dtype != "bool"
        }

    def sympy(self, e: Expr) -> Any:
        return to_sympy(e, self.symbols)

    def at_new(self, e: Expr) -> Expr:
        renaming: dict[Expr, Expr] = dict(zip(self.old, self.new, strict=True))
        return substitute(e, renaming)

    @property
    def depends(self) -> bool:
        return contains(self.problem.term, self.old)


Strategy = Callable[[Task], Iterator[Proposal]]


def scalar(name: str, *strategies: derive.Strategy) -> Strategy:
    """A strategy of the compiler's own, for one accumulator."""

    def propose(task: Task) -> Iterator[Proposal]:
        reach, p = task.reach, task.problem
        kinds = tuple(reach.kinds[q.name] for q in p.producers)
        parameters = tuple((s.var, s.kinds) for s in p.parameters if s.var.dtype != "bool")
        given = derive.Problem(p.reducer, p.term, task.old, task.new, kinds, p.dtype, parameters)
        seen: set[Expr] = set()
        forms: list[tuple[derive.Problem, dict[Expr, Expr]]] = [derive.opaque(given), (given, {})]
        if any(isinstance(x, Op) and x.name in ("exp", "exp2") for x in forms[0][1].values()):
            forms.reverse()  # one exponential of a difference, not a quotient of two that overflow
        for form, back in forms:
            for strategy in strategies:
                try:
                    for found in strategy(form):
                        h = substitute(found, back)
                        if h not in seen:
                            seen.add(h)
                            yield task.scalar(h, name)
                except CannotDerive:
                    continue

    return propose


__all__ = ["CannotDerive", "Proposal", "Strategy", "Task", "scalar"]

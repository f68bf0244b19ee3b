"""Not trusted: the accumulators that a separable term needs: pieces of its derivatives by the producers."""

from __future__ import annotations

from typing import Any

import sympy as sp

from neptune_verified.fusion.strategies.rank import Sampler, Values, matrix_rank
from neptune_verified.fusion.strategies.task import CannotDerive, Task
from neptune_verified.ir.expr import Expr, Var, subterms
from neptune_verified.proofs.sympy_reading import Unreadable, read_sympy


def basis(task: Task, size: int) -> tuple[Expr, ...]:
    """``task.starts`` and pieces of their derivatives, ``size`` terms that are independent over the elements."""
    independent = _Independent(task, size)
    chosen: list[Expr] = []
    for e in task.starts:
        if not independent.add(e):
            raise CannotDerive("the accumulators depend on each other")
        chosen.append(e)
    names: dict[str, Expr] = {v.name: v for v in task.symbols if isinstance(v, Var)}
    queue = [task.sympy(e) for e in chosen]
    pairs = _differences(task, queue)
    while len(chosen) < size and queue:
        g = queue.pop(0)
        for x in _pieces(task, g, pairs):
            if len(chosen) == size:
                break
            try:
                e = read_sympy(x, names, task.problem.dtype)
                new = independent.add(e)
            except (Unreadable, CannotDerive):
                continue
            if new:
                chosen.append(e)
                queue.append(x)
    if len(chosen) < size:
        raise CannotDerive("the derivatives of the term do not span it")
    given = len(task.starts)
    return (*chosen[:given], *sorted(chosen[given:], key=lambda e: -len(subterms(e))))


class _Independent:
    def __init__(self, task: Task, size: int) -> None:
        sampler = Sampler(task)
        state = sampler.states(1)[0]
        self.points = [{**sampler.parameters, **state, **c} for c in sampler.elements(size + 3)]
        self.rows: list[list[Any]] = []

    def add(self, e: Expr) -> bool:
        at = Values([e])
        rows = [*self.rows, [at(p)[0] for p in self.points]]
        if matrix_rank(rows) < len(rows):
            return False
        self.rows = rows
        return True


def _pieces(task: Task, g: Any, pairs: list[tuple[Any, Any]]) -> list[Any]:
    """Derivatives and their summands without factors that no element occurs in; functions of differences first."""
    elements = [task.symbols[c] for c in task.elements if c in task.symbols]
    producers = [task.symbols[r] for r in task.old if r in task.symbols]
    found: dict[Any, None] = {}
    for r in producers:
        d = sp.diff(g, r)
        if d.has(sp.Derivative, sp.Heaviside, sp.DiracDelta, sp.sign):
            continue
        for x in (sp.factor(d), *sp.Add.make_args(d)):
            x = _without_factors(x, elements)
            if x != 0:
                found.setdefault(x)
    return sorted(found, key=lambda x: (not _centred(x, pairs), sp.count_ops(x), str(x)))


def _without_factors(x: Any, elements: list[Any]) -> Any:
    """``x`` up to factors free of elements; a difference starts with the element."""
    kept = x.as_independent(*elements, as_Add=False)[1]
    if kept == 1:
        return sp.S.One if x != 0 else sp.S.Zero
    return sp.Mul(*(_element_first(f, elements) for f in sp.Mul.make_args(kept)))


def _element_first(factor: Any, elements: list[Any]) -> Any:
    """c - r and (c - r)^k rather than r - c, up to the sign."""
    base, exponent = factor.as_base_exp() if factor.is_Pow else (factor, sp.S.One)
    lead = [a for a in sp.Add.make_args(base) if a.has(*elements)] if base.is_Add and exponent.is_Integer else []
    return (-base) ** exponent if lead and all(a.could_extract_minus_sign() for a in lead) else factor


def _differences(task: Task, terms: list[Any]) -> list[tuple[Any, Any]]:
    """Pairs of an element c and a producer r that the terms read as c - r alone."""
    elements = [task.symbols[c] for c in task.elements if c in task.symbols]
    producers = [task.symbols[r] for r in task.old if r in task.symbols]
    return [(c, r) for c in elements for r in producers if all(_moves_along(g, c, r) for g in terms)]


def _moves_along(g: Any, c: Any, r: Any) -> bool:
    return bool(g.has(c) and g.has(r) and sp.expand(sp.diff(g, c) + sp.diff(g, r)) == 0)


def _centred(x: Any, pairs: list[tuple[Any, Any]]) -> bool:
    return all(sp.expand(sp.diff(x, c) + sp.diff(x, r)) == 0 for c, r in pairs)

"""Not trusted: sums that the producers tell (a mean: ``sum c = n r``, ``sum 1 = n``) in place of accumulators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from neptune_verified.fusion.strategies.linear import Row, combination, solve
from neptune_verified.fusion.strategies.task import CannotDerive, Proposal, Task
from neptune_verified.ir.expr import Const, Expr, const
from neptune_verified.proofs.repair import Update, accumulators
from neptune_verified.proofs.repair_context import Expansion, known_sums


def propose(task: Task, terms: Sequence[Expr], factors: Sequence[Row], keep: int = 1) -> Iterator[Proposal]:
    """The update with fewer accumulators, the first ``keep`` among them; nothing where the producers tell nothing."""
    sums = known_sums(task.problem)
    if not sums:
        return
    elements = [e for e, _ in sums]
    relations: dict[int, Row] = {}
    for j in range(keep, len(terms)):
        try:
            row = solve(task, terms[j], elements)
        except CannotDerive:
            row = None
        if row is not None:
            relations[j] = row
    if not relations:
        return
    live = [j for j in range(len(terms)) if j not in relations]
    order = [*live, *relations]
    kept = tuple(terms[j] for j in live)
    t = accumulators(kept)
    values = [v for _, v in sums]
    totals: dict[int, Expr] = dict(zip(live, t, strict=True))
    totals |= {j: total(row, values) for j, row in relations.items()}
    rows = [tuple(factors[i][j] for j in order) for i in live]
    updates = tuple(combination(row, [totals[j] for j in order]) for row in rows)
    update = Update(("sum",) * len(kept), kept, updates, t[0], strategy="context")
    extra = tuple(terms[j] for j in relations)
    yield Proposal(update, Expansion(extra, tuple(rows), tuple(relations.values())))


def total(row: Row, values: Sequence[Expr]) -> Expr:
    """``sum_l a_l V_l``, with ``r n - r n`` seen to be 0."""
    if all(isinstance(a, Const) and a.value == 0 for a in row):
        return const(0, values[0].dtype)
    return _cancelled(combination(row, values))


def _cancelled(e: Expr) -> Expr:
    """The sum as SymPy has it, so that what cancels is gone."""
    import sympy as sp

    from neptune_verified.fusion.sympify import from_sympy, to_sympy
    from neptune_verified.ir.expr import Var, subterms

    names: dict[Expr, sp.Symbol] = {v: sp.Symbol(v.name, real=True) for v in subterms(e) if isinstance(v, Var)}
    try:
        found = sp.factor(sp.expand(to_sympy(e, names)))
        return from_sympy(found, {s: v for v, s in names.items() if isinstance(v, Var)}, e.dtype)
    except CannotDerive:
        return e

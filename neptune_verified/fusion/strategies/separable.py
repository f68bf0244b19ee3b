"""Not trusted: ``g(r, c) = sum_k a_k(r) b_k(c)``, for sums: as many accumulators as the rank, and a matrix over them.

The accumulators are g and pieces of its derivatives by the producers (1, (c - r), (c - r)^2, ...), which are centred, so
nothing large is cancelled. With basis b and as many sample elements C, ``K = b(r', C) b(r, C)^-1``, put into the form in
which ``r - r'`` stays a difference. Where the producers tell sums of these terms, ``context`` then drops accumulators."""

from __future__ import annotations

from collections.abc import Iterator

from neptune_verified.fusion.strategies.context import propose as drop_accumulators
from neptune_verified.fusion.strategies.jets import basis
from neptune_verified.fusion.strategies.linear import combination, matrix
from neptune_verified.fusion.strategies.rank import LARGEST, rank
from neptune_verified.fusion.strategies.task import Proposal, Task
from neptune_verified.proofs.repair import Update, accumulators


def propose(task: Task) -> Iterator[Proposal]:
    if task.problem.reducer != "sum" or not task.depends or not 2 <= rank(task) <= LARGEST:
        return
    terms = basis(task, rank(task))
    factors = matrix(task, terms)
    yield from drop_accumulators(task, terms, factors)
    t = accumulators(terms)
    updates = tuple(combination(row, t) for row in factors)
    yield Proposal(Update(("sum",) * len(terms), terms, updates, t[0], strategy="separable"))

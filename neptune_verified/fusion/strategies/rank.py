"""Not trusted: values of a term at random points, and the rank of ``g(r_i, c_j)``: how many accumulators a sum needs.

For a term that is not analytic the number is a lower bound; the proofs decide in any case."""

from __future__ import annotations

import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from neptune_verified.fusion.strategies.task import CannotDerive, Task
from neptune_verified.ir.expr import Expr, Var
from neptune_verified.ir.kinds import NEG, POS
from neptune_verified.proofs.evaluate import FIND, OutOfReach, Terms, Unsupported, is_inf
from neptune_verified.proofs.evaluate import UNDEFINED as NOTHING

#: Rows and columns of the sample: ranks up to LARGEST are told from larger ones.
SIZE, LARGEST = 9, 6
#: Of a pivot relative to the largest entry; values have 50 digits.
NOISE = 30


class Sampler:
    """Random small fractions for the symbols of a task, the same in every run."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.random = random.Random(7)
        self.parameters = self.draw([s.var for s in task.problem.parameters])

    def draw(self, variables: Sequence[Var]) -> dict[Var, Any]:
        point: dict[Var, Any] = {}
        for v in variables:
            kinds = self.task.reach.given[v]
            size = Fraction(self.random.randint(1, 24), self.random.choice((5, 7, 11)))
            negative = POS not in kinds or (NEG in kinds and self.random.random() < 0.5)
            point[v] = self.random.random() < 0.5 if v.dtype == "bool" else -size if negative else size
        return point

    def states(self, count: int) -> list[dict[Var, Any]]:
        return [self.draw(self.task.old) for _ in range(count)]

    def elements(self, count: int) -> list[dict[Var, Any]]:
        return [self.draw(self.task.elements) for _ in range(count)]


class Values:
    """Terms at points, as real numbers to 50 digits."""

    def __init__(self, terms: Sequence[Expr]) -> None:
        try:
            self.order = Terms(terms)
        except Unsupported as e:
            raise CannotDerive(f"the term has no value at a point: {e}") from e
        self.positions = [self.order.index[t] for t in terms]

    def __call__(self, point: dict[Var, Any]) -> list[Any]:
        """Raises CannotDerive where a term is undefined or infinite."""
        found: list[Any] = []
        try:
            self.order.evaluate(point, FIND, found, len(self.order.nodes))
        except OutOfReach as e:
            raise CannotDerive("the term is too large at a sample point") from e
        result = [found[k] for k in self.positions]
        if any(x is NOTHING or is_inf(x) or isinstance(x, bool) for x in result):
            raise CannotDerive("the term is undefined at a sample point")
        return [FIND.real(x) for x in result]


def matrix_rank(rows: list[list[Any]]) -> int:
    """By elimination with full pivoting."""
    rows = [list(r) for r in rows]
    largest = max((abs(x) for r in rows for x in r), default=0)
    rank = 0
    while rows and largest:
        i, j = max(((i, j) for i, r in enumerate(rows) for j in range(len(r))), key=lambda p: abs(rows[p[0]][p[1]]))
        pivot = rows[i][j]
        if abs(pivot) <= largest * FIND.mp.mpf(10) ** -NOISE:
            break
        rank += 1
        first = rows.pop(i)
        rows = [[x - y * (r[j] / pivot) for x, y in zip(r, first, strict=True)] for r in rows]
    return rank


def rank(task: Task) -> int:
    """The rank of the term over states and elements, at most SIZE."""
    if "rank" not in task.memo:
        sampler = Sampler(task)
        states, elements = sampler.states(SIZE), sampler.elements(SIZE)
        term = Values([task.problem.term])
        task.memo["rank"] = matrix_rank([[term({**sampler.parameters, **r, **c})[0] for c in elements] for r in states])
    return task.memo["rank"]

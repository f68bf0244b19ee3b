"""Not trusted: looks for a point that shows that no repair exists; ``proofs.repair_refuted`` says what it must refute."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from neptune_verified.fusion.strategies.rank import LARGEST, rank
from neptune_verified.fusion.strategies.task import CannotDerive, Task
from neptune_verified.ir.expr import Op, Var, subterms
from neptune_verified.proofs.falsify import Search, admissible, refutes
from neptune_verified.proofs.limits import LIMITS
from neptune_verified.proofs.repair_refuted import minor, one_value
from neptune_verified.proofs.statement import Statement
from neptune_verified.proofs.verdict import Counterexample

#: Points tried for a witness about one accumulator; those that exist are found in the first hundred.
TRIES = 1_500
_SIMPLE = [Fraction(n) for n in (0, 1, -1, 2, -2, 3, -3)]


@dataclass(frozen=True, slots=True)
class Witness:
    """A point that refutes ``statement``, hence a repair of this ``kind``: "R1", "order" or "minor"."""

    kind: str
    statement: Statement
    point: Counterexample
    size: int = 1


def witnesses(task: Task) -> tuple[Witness, ...]:
    """Against one accumulator, and for sums against several; those that were found."""
    several = _minor(task) if task.problem.reducer == "sum" and task.depends else None
    return tuple(w for w in (_one(task), several) if w is not None)


def _one(task: Task) -> Witness | None:
    reducer = task.problem.reducer
    if not task.depends:
        return None
    kinds = ("order", "R1") if reducer in ("max", "min") else ("R1",)
    for kind in kinds:
        statement = one_value(task.problem, kind == "order")
        found = _simple(statement)
        if found:
            return Witness(kind, statement, found)
    return None


def _simple(statement: Statement) -> Counterexample | None:
    """The first small integer point at which the statement is false."""
    variables = [s.var for s in statement.symbols]
    search = Search(statement, LIMITS)
    for point in itertools.islice(_points(variables), TRIES):
        if search.in_domain(point) and search.is_counterexample(point):
            return refutes(statement, point)
    return None


def _points(variables: list[Var]) -> Iterator[dict[Var, Any]]:
    """Points over -1, 0, 1, then random ones over small integers."""
    chance = random.Random(11)
    small = [[True, False] if v.dtype == "bool" else _SIMPLE[:3] for v in variables]
    if len(variables) <= 6:
        for values in itertools.product(*small):
            yield dict(zip(variables, values, strict=True))
    wide = [[True, False] if v.dtype == "bool" else _SIMPLE for v in variables]
    while True:
        yield {v: chance.choice(w) for v, w in zip(variables, wide, strict=True)}


def _minor(task: Task) -> Witness | None:
    """Elements and running values at which a determinant of full size is not 0."""
    try:
        # Of a term with corners the sampled rank is a lower bound only.
        full = LARGEST + 1 if _corners(task) else rank(task)
    except CannotDerive:
        full = LARGEST + 1
    for size in range(min(full, LARGEST + 1), 1, -1):
        statement = minor(task.problem, size)
        search = Search(statement, LIMITS)
        for point in _spread(statement, size):
            if admissible(statement, point) and search.is_counterexample(point):
                return Witness("minor", statement, search.counterexample(point), size)
    return None


def _corners(task: Task) -> bool:
    kinks = ("abs", "max", "min", "select", "floor", "ceil")
    return any(isinstance(x, Op) and x.name in kinks for x in subterms(task.problem.term))


def _spread(statement: Statement, size: int) -> Iterator[dict[Var, Any]]:
    """Running values 1, 2, 3, ... with elements between them, then random numbers."""
    chance = random.Random(13)
    for shift in (0, size):
        point: dict[Var, Any] = {}
        for s in statement.symbols:
            position = re.search(r"\[(\d+)\]$", s.var.name)
            element = s.meaning == "an element"
            k = int(position[1]) if position else 1
            point[s.var] = True if s.var.dtype == "bool" else Fraction(2 * k + element, 2) - shift
        yield point
    for _ in range(30):
        yield {s.var: _value(s.var, s.kinds, chance) for s in statement.symbols}


def _value(v: Var, kinds: frozenset[str], chance: random.Random) -> Any:
    if v.dtype == "bool":
        return chance.random() < 0.5
    size = Fraction(chance.randint(0 if "zero" in kinds else 1, 8), chance.choice((1, 2)))
    negative = "pos" not in kinds or ("neg" in kinds and chance.random() < 0.5)
    return -size if negative else size

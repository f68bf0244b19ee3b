"""Not trusted: looks for a point that shows that no repair exists; ``proofs.repair_refuted`` says what it must refute."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from neptune_verified.fusion.strategies.rank import LARGEST, rank
from neptune_verified.fusion.strategies.task import CannotDerive, Task
from neptune_verified.ir.expr import Var
from neptune_verified.proofs.falsify import admissible, refutes
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


def witness(task: Task) -> Witness | None:
    reducer = task.problem.reducer
    if not task.depends:
        return None
    kinds = ("order", "R1") if reducer in ("max", "min") else ("R1",)
    for kind in kinds:
        statement = one_value(task.problem, kind == "order")
        found = _simple(statement)
        if found:
            return Witness(kind, statement, found)
    return _minor(task) if reducer == "sum" else None


def _simple(statement: Statement) -> Counterexample | None:
    """The first small integer point at which the statement is false."""
    from neptune_verified.proofs.falsify import Search
    from neptune_verified.proofs.limits import LIMITS

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
        full = rank(task)
    except CannotDerive:
        full = LARGEST + 1
    chance = random.Random(13)
    for size in range(min(full, LARGEST + 1), 1, -1):
        statement = minor(task.problem, size)
        for _ in range(40):
            point = {s.var: _value(s.var, s.kinds, chance) for s in statement.symbols}
            if not admissible(statement, point):
                continue
            from neptune_verified.proofs.falsify import Search
            from neptune_verified.proofs.limits import LIMITS

            search = Search(statement, LIMITS)
            if search.is_counterexample(point):
                return Witness("minor", statement, search.counterexample(point), size)
    return None


def _value(v: Var, kinds: frozenset[str], chance: random.Random) -> Any:
    if v.dtype == "bool":
        return chance.random() < 0.5
    size = Fraction(chance.randint(0 if "zero" in kinds else 1, 8), chance.choice((1, 2)))
    negative = "pos" not in kinds or ("neg" in kinds and chance.random() < 0.5)
    return -size if negative else size

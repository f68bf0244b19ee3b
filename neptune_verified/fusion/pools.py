"""Not trusted: simple values and small lengths that satisfy what a program assumes of its inputs."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import count, islice, product
from math import inf, prod

import numpy as np

from neptune_verified.ir.expr import FLOATS, Size, subterms
from neptune_verified.ir.interpret import Array, Evaluator
from neptune_verified.ir.loops import Pass
from neptune_verified.ir.program import Assumption, Program

#: Simplest first. All are short binary numbers, so that JSON and every float type hold them.
_SIMPLE = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 3.0, -0.5)
#: Lengths that a stream axis is given, from the least one that is admitted.
_LENGTHS = 4
#: How far to look for a length that is admitted.
_FAR = 4096


def pool_of(program: Program, name: str, dtype: str, extra: tuple[Fraction, ...]) -> Array:
    """Values of an input's elements, simplest first; never empty."""
    facts = [a for a in program.assumptions if a.subject == name]
    if dtype == "bool":
        return np.array([0.0, 1.0])
    values = [*_SIMPLE, *(float(x) for x in extra)]
    if dtype not in FLOATS:
        least = 0 if dtype == "uint8" else -128
        whole = [int(v) for v in values if v == int(v) and v >= least and _admits(facts, v)]
        return np.array(list(dict.fromkeys(whole)) or [_nearest(facts)], dtype=np.int64)
    fitting = [v for v in dict.fromkeys(values) if _admits(facts, v)] or [float(_nearest(facts))]
    if any(a.kind == "finite_or_minus_infinity" for a in facts):
        fitting.insert(3, -inf)
    return np.array(fitting)


def _nearest(facts: list[Assumption]) -> int:
    """An integer that is admitted where none of the simple values is."""
    return next((n for n in range(_FAR) if _admits(facts, n)), 1)


def _admits(facts: list[Assumption], x: float) -> bool:
    return all(_holds(a, x) for a in facts)


def _holds(a: Assumption, x: float) -> bool:
    limit = a.value if a.value is not None else 0
    match a.kind:
        case "bounded":
            return abs(x) <= limit
        case "at_least":
            return x >= limit
        case "positive":
            return x > 0
        case "nonnegative":
            return x >= 0
        case "nonzero":
            return x != 0
        case "multiple_of":
            return x % limit == 0
        case _:
            return True


def lengths_of(program: Program, p: Pass) -> Iterator[dict[str, int]]:
    """The least lengths, those of the stream growing from there, in rising order; then the others grow too."""
    scalars = {s.name for s in program.sizes if s.dtype in FLOATS and s.name not in program.shape_sizes()}
    names = [s.name for s in program.sizes if s.name not in scalars]
    streaming = {x.name for a in p.stream for x in subterms(a.extent) if isinstance(x, Size)}
    for others in (1, 2):
        choices = []
        for name in names:
            facts = [a for a in program.assumptions if a.subject == name]
            fitting = (n for n in islice(count(1), _FAR) if _admits(facts, n))
            choices.append(list(islice(fitting, _LENGTHS if name in streaming else others)))
        least = [c[0] for c in choices if c]
        for chosen in sorted(product(*choices), key=lambda ns: (prod(ns), ns)):
            sizes = dict(zip(names, chosen, strict=True))
            grown = any(n != least[k] for k, (name, n) in enumerate(sizes.items()) if name not in streaming)
            if grown == (others > 1) and _predicates_hold(program, sizes):
                yield sizes


def _predicates_hold(program: Program, sizes: dict[str, int]) -> bool:
    evaluator = Evaluator({}, sizes)
    return all(bool(evaluator.integer(a.expr)) for a in program.assumptions if a.expr is not None)

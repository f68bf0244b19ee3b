"""Not trusted: the lengths at which a kernel is audited when nobody says any."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from neptune_verified.auditing.assumptions import respecting_size, size_violations, stated
from neptune_verified.auditing.structure import structure
from neptune_verified.ir.expr import FLOATS, INTS, Expr, Reduce, Size
from neptune_verified.ir.interpret import Evaluator
from neptune_verified.ir.program import Program

Env = dict[str, int | float]
#: (lengths that are reduced, lengths of rows, of batches): the first of each kind gets the first number, and so on.
#: More columns than rows, more rows than columns, whole tiles, one of each, more than 64 tiles.
SMALL = (
    ((197, 135, 70), (17, 12, 9), (2, 1)),
    ((19, 11, 7), (141, 77, 70), (1, 2)),
    ((128, 64, 64), (3, 5, 7), (1, 1)),
    ((1, 1, 1), (1, 1, 1), (1, 1)),
    ((4485, 67, 5), (2, 3, 4), (1, 1)),
)
LARGE = (
    ((2085, 1061, 530), (333, 200, 77), (2, 1)),
    ((700, 310, 150), (1500, 431, 201), (1, 2)),
    ((4096, 1024, 512), (128, 64, 64), (1, 1)),
    ((1, 1, 1), (1, 1, 1), (1, 1)),
    ((16421, 67, 5), (33, 3, 4), (1, 1)),
)
TRIES = 500


def default_sizes(program: Program, small: bool, requested: Mapping[str, int | float] | None = None) -> list[Env]:
    """A few sets of values for every size of a program, within its assumptions: lengths that fill some tiles and a part
    of one, more rows than columns and fewer, 1, and 0 where nothing excludes it. ``small``: for an interpreter.
    ``requested`` fixes some of them.

    Raises ValueError for a requested size that the program has not, or that breaks an assumption, and where nothing
    that was tried satisfies all assumptions."""
    fixed: Env = dict(requested or {})
    names = [s.name for s in program.sizes]
    for name in fixed:
        if name not in names:
            raise ValueError(f"{program.name} has no size {name!r}: choose among {', '.join(names) or 'none'}")
    found: list[Env] = []
    for wanted in _wanted(program, small):
        env = _fitting(program, wanted, fixed)
        zeros = [name for name, n in wanted.items() if n == 0 and name not in fixed]
        if env is not None and env not in found and not any(env[name] for name in zeros):
            found.append(env)
    if not found:
        env = {s.name: fixed.get(s.name, scalar_default(s, program)) for s in program.sizes}
        broken = size_violations(program, env)
        why = f": {broken[0]}" if broken else ""
        raise ValueError(f"{program.name}: no lengths were found for which its assumptions hold{why}: give them all")
    return found


def scalar_default(s: Size, program: Program) -> int | float:
    """A value for a scalar, of no special kind."""
    if s.dtype in FLOATS:
        mine = stated(program, s.name)
        low, high = max(0.0, mine.get("at_least", 0.0)), mine.get("bounded", math.inf)
        return low + 0.75 if low + 0.75 <= high else (low + high) / 2
    return respecting_size(1 if s.dtype == "bool" else 7, s, program)


def _wanted(program: Program, small: bool) -> Iterator[Env]:
    """The lengths that one would like, by the part that each plays."""
    columns, rows, batches = _parts(program)
    empty: list[Env] = []
    for of_columns, of_rows, of_batches in SMALL if small else LARGE:
        env = _numbered(columns, of_columns) | _numbered(rows, of_rows) | _numbered(batches, of_batches)
        empty = empty or [{**env, **dict.fromkeys(part, 0)} for part in (columns, rows) if part]
        yield env
    for env in empty:  # a kernel over nothing is as fast as can be: the other lengths may be what they are
        yield env


def _numbered(names: Sequence[str], lengths: Sequence[int]) -> Env:
    return {name: lengths[min(k, len(lengths) - 1)] for k, name in enumerate(names)}


def _parts(program: Program) -> tuple[list[str], list[str], list[str]]:
    """Lengths that are reduced; of the others the last, which are rows; and those before it, which are batches."""
    columns = structure(program).reduced_sizes(program)
    shaped = program.shape_sizes()
    others = [s.name for s in program.sizes if s.name in shaped and s.name not in columns]
    in_order = list(dict.fromkeys(d.name for t in program.inputs for d in t.shape if isinstance(d, Size)))
    others.sort(key=in_order.index)
    return columns, others[-1:], others[:-1]


def _fitting(program: Program, wanted: Env, fixed: Env) -> Env | None:
    """The lengths next to those wanted for which everything holds that is assumed; None if none was found."""
    rng = np.random.default_rng(0)
    shaped = program.shape_sizes()
    best: tuple[float, Env] | None = None
    for attempt in range(TRIES):
        env: Env = {}
        for s in program.sizes:
            more = int(rng.integers(0, 8 + attempt // 4)) if attempt and rng.random() < 0.5 else 0
            if s.name in fixed:
                env[s.name] = fixed[s.name]
            elif s.name in shaped:
                env[s.name] = respecting_size(int(wanted[s.name]) + more, s, program)
            else:
                env[s.name] = scalar_default(s, program) + (more if s.dtype in INTS else 0)
        away = sum(abs(env[name] - n) for name, n in wanted.items())
        if (best is None or away < best[0]) and not size_violations(program, env) and _possible(program, env):
            best = away, env
            if not attempt:
                break
    return None if best is None else best[1]


def _possible(program: Program, env: Env) -> bool:
    """No extent is negative."""
    evaluator = Evaluator({}, env)
    extents: list[Expr] = [d for t in program.inputs for d in t.shape]
    for s in program.stages:
        extents += [a.extent for a in (*s.axes, *(s.body.axes if isinstance(s.body, Reduce) else ()))]
    return all(evaluator.integer(e) >= 0 for e in extents)

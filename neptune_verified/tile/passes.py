"""Not trusted: the loops over column tiles that one pass becomes, and the scalars that bound them.

One loop over all tiles; or loops that leave out the tiles in which the pass's mask is false for every row of the row
tile, with a loop of its own for tiles that need no mask at all.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from neptune_verified.ir.expr import TRUE, Axis, Const, Expr, Op, Read, Size, Var, children, op, substitute, var
from neptune_verified.ir.kinds import KindAnalysis
from neptune_verified.ir.loops import Nest, Pass, term
from neptune_verified.ir.program import Program
from neptune_verified.tile.htile import Bound, block_of, first_of, last_of
from neptune_verified.tile.linear import LENGTH_LIMIT, Integers
from neptune_verified.tile.live import UNTOLD, LiveTest, live_test
from neptune_verified.tile.masks import Mask, find_mask
from neptune_verified.tile.regions import Phase, phases

#: A predicate that says nothing about indices.
ANYTHING = var("anything", "bool")


@dataclass(frozen=True)
class LoopPlan:
    """``lo`` and ``hi`` are scalars or constants, None for all tiles. ``full``: no lane needs a mask."""

    lo: Expr | None = None
    hi: Expr | None = None
    full: bool = False


@dataclass(frozen=True)
class PassPlan:
    """``bounds`` are computed before the loops, ``live`` in each step of those that are not full."""

    bounds: tuple[Bound, ...]
    loops: tuple[LoopPlan, ...]
    live: LiveTest = UNTOLD


#: One loop over all tiles.
EVERYTHING = PassPlan((), (LoopPlan(),))


def mask_of(nest: Nest, p: Pass, kinds: KindAnalysis) -> Mask:
    if len(p.stream) != 1 or not p.carried:
        return Mask(())
    terms: dict[str, list[Expr]] = {}
    for c in p.carried:
        terms.setdefault(c.value.reducer, []).append(term(nest, p, c))
    return find_mask(terms, p.stream[0], kinds)


def program_scalars(nest: Nest, p: Pass, blocked: tuple[Axis, ...], mask: Mask) -> tuple[Read, ...]:
    """What the mask reads once per program: 32-bit integers that loop bounds may use."""
    if len(p.stream) != 1 or p.stores:
        return ()
    once = set(nest.grid) - set(blocked)
    return tuple(x for x in mask.reads if x.dtype == "int32" and x.free <= once)


def plan(
    program: Program,
    nest: Nest,
    p: Pass,
    blocked: tuple[Axis, ...],
    mask: Mask,
    dot: bool,
    scalars: dict[Expr, Var],
) -> PassPlan:
    """``dot``: the pass has a matrix product, so that tiles without a mask are worth loops of their own.
    ``scalars``: the symbols of ``program_scalars``."""
    rows = [a for a in blocked if a in mask.predicate.free]
    others = mask.predicate.free - set(nest.grid) - set(p.stream)
    if len(p.stream) != 1 or p.stores or others or len(rows) > 1:
        return EVERYTHING
    if mask.predicate is TRUE and not dot:
        return EVERYTHING
    columns, row = p.stream[0], rows[0] if rows else None
    predicate, z = substitute(mask.predicate, scalars), integers(program, columns, row)
    found = phases(predicate, columns, row, z, whole=dot)
    live = live_test(predicate, columns, row, z, {v: e for e, v in scalars.items()})
    if found == phases(ANYTHING, columns, row, z, whole=False):
        return PassPlan((), (LoopPlan(),), live)
    bounds, limits = _named(columns, found)
    loops = tuple(LoopPlan(limits[x.lo], limits[x.hi], x.full) for x in found)
    return PassPlan(bounds, loops, live)


def owned(found: PassPlan, columns: Axis, low: Expr, high: Expr) -> PassPlan:
    """The same loops over ``low <= j < high`` alone; low is a multiple of the tile, high is one or the end of the axis."""
    bounds = list(found.bounds)
    names: dict[Expr, Expr] = {}

    def clamped(e: Expr | None, default: Expr) -> Expr:
        if e is None or e is columns.extent or (isinstance(e, Const) and e.value == 0):
            return default
        if e not in names:
            value = op("min", op("max", e, low), high)
            names[e] = var(f"{columns.name}.own.{len(names) + 1}", "int32")
            bounds.append(Bound(names[e], value))  # type: ignore[arg-type]
        return names[e]

    loops = tuple(LoopPlan(clamped(x.lo, low), clamped(x.hi, high), x.full) for x in found.loops)
    return PassPlan(tuple(bounds), loops, found.live)


def integers(program: Program, columns: Axis, row: Axis | None) -> Integers:
    lengths = program.shape_sizes()
    facts = {(a.subject, a.kind): a.value for a in program.assumptions}

    def span(s: Size) -> tuple[int, int]:
        if s.dtype != "int32":
            lo, hi = -(2**63), 2**63 - 1
        else:
            lo, hi = (0, LENGTH_LIMIT - 1) if s.name in lengths else (-(2**31), 2**31 - 1)
        least, bound = facts.get((s.name, "at_least")), facts.get((s.name, "bounded"))
        lo = lo if least is None else max(lo, int(-(-least // 1)))
        if bound is not None:
            lo, hi = max(lo, -int(bound)), min(hi, int(bound))
        if (s.name, "positive") in facts:
            lo = max(lo, 1)
        return lo, hi

    extent = row.extent if row is not None and isinstance(row.extent, Size | Const) else None
    first, last = (first_of(row), last_of(row)) if row is not None else (None, None)
    return Integers(span, first, last, extent, block_of(columns))


def _named(columns: Axis, found: tuple[Phase, ...]) -> tuple[tuple[Bound, ...], dict[Expr, Expr]]:
    """Scalars for the ends of the loops, and for what several of them share; the ends by their names."""
    ends: dict[Expr, str] = {}
    for k, x in enumerate(found):
        ends.setdefault(x.lo, "full_lo" if x.full else "lo")
        ends.setdefault(x.hi, "full_hi" if x.full else "hi" if k == len(found) - 1 else "mid")
    uses: Counter[Expr] = Counter(list(ends))
    seen: set[Expr] = set()

    def count(e: Expr) -> None:
        if e not in seen:
            seen.add(e)
            uses.update(children(e))
            for x in children(e):
                count(x)

    for e in ends:
        count(e)
    bounds: list[Bound] = []
    names: dict[Expr, Expr] = {}
    taken: Counter[str] = Counter()

    def name(e: Expr) -> None:
        for x in children(e):
            if x not in names:
                name(x)
        if e in names or not isinstance(e, Op) or (e not in ends and (uses[e] < 2 or _small(e))):
            return
        stem = ends.get(e, "part")
        taken[stem] += 1
        symbol = var(f"{columns.name}.{stem}.{taken[stem]}", e.dtype)
        value = e if not names else _replaced(e, names)
        bounds.append(Bound(symbol, value))
        names[e] = symbol

    for e in ends:
        name(e)
    return tuple(bounds), {e: names.get(e, e) for e in ends}


def _small(e: Op) -> bool:
    return (e.name == "cast" and not isinstance(e.args[0], Op)) or all(isinstance(x, Const) for x in e.args)


def _replaced(e: Expr, names: dict[Expr, Expr]) -> Expr:
    return substitute(e, {k: v for k, v in names.items() if k is not e})

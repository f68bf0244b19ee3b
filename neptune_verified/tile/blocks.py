"""Not trusted: which axes are cut into tiles, which are packed into one, and how many lanes a whole axis needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod

from neptune_verified.ir.expr import Axis, Const, Expr, Op, Reduce, axis, const, op, substitute, subterms
from neptune_verified.ir.loops import Carried, Nest, Output

#: Most indices that are packed into one tile.
PACKED_LIMIT = 64
#: Elements of whole axes that make a tile with those of a stream, without rows.
FULL_TILE = 32
#: Least rows of a matrix product.
DOT_ROWS = 16


@dataclass(frozen=True, slots=True)
class Packing:
    """``axis`` is cut into groups of ``size`` indices: one program has a whole group, ``group`` is its number."""

    axis: Axis
    group: Axis
    size: int

    @property
    def lanes(self) -> int:
        """Lanes of the group's tile, which may be an operand of a matrix product."""
        return max(DOT_ROWS, 1 << (self.size - 1).bit_length())


def padded(a: Axis) -> int:
    """Lanes of a whole axis: the next power of two (Triton's tiles have no other sizes)."""
    assert isinstance(a.extent, Const)
    n = max(1, int(a.extent.value))
    return 1 << (n - 1).bit_length()


def blocked_axes(nest: Nest, nested: Iterable[Axis], packing: Packing | None = None) -> tuple[Axis, ...]:
    """Grid axes that are cut into tiles: those that only one operand of some sum of products has (they are the rows or
    columns of a matrix product), else the last one, unless axes that are held whole (``nested`` ones included) fill a tile
    by themselves. The other grid axes are program indices, and so is always that of shares, which bounds loops."""
    grid = [a for a in nest.grid if a is not nest.share]
    if not grid:
        return ()
    whole = prod(padded(a) for a in dict.fromkeys((*nest.inner, *nested)))
    full = whole >= FULL_TILE and any(p.carried for p in nest.passes)
    chosen = _rows(nest, packing) or (set() if full else {grid[-1]})
    return tuple(a for a in grid if a in chosen)


def _rows(nest: Nest, packing: Packing | None = None) -> set[Axis]:
    """Grid axes that only one operand of some sum of products has; a group's number goes with its indices."""
    grid = [a for a in nest.grid if not (packing and a is packing.group)]
    chosen: set[Axis] = set()
    for x in {x for e in _exprs(nest) for x in subterms(e)}:
        if isinstance(x, Reduce) and x.reducer == "sum":
            chosen |= set(_sides(x, grid))
    return chosen


def _exprs(nest: Nest) -> list[Expr]:
    exprs: list[Expr] = [c.value for c in nest.carried()]
    return exprs + [o.expr for o in nest.outputs] + [o.expr for p in nest.passes for o in p.stores]


def pack(nest: Nest) -> tuple[Nest, Packing | None]:
    """A nest with no rows for its products gets some where one operand reads ``a // n`` of a grid axis alone: what it reads
    is the same for n indices, which then are the rows of one tile."""
    if _rows(nest):
        return nest, None
    quotients = {x for e in _exprs(nest) for x in subterms(e) if isinstance(x, Op) and x.name == "floordiv"}
    for x in sorted(quotients, key=lambda x: -x.args[1].value if isinstance(x.args[1], Const) else 0):
        a, n = x.args
        if not (isinstance(a, Axis) and a in nest.grid and isinstance(n, Const) and 1 < n.value <= PACKED_LIMIT):
            continue
        size = int(n.value)
        packing = Packing(a, axis(f"{a.name}_group", _groups(a.extent, size)), size)
        packed = _packed(nest, x, packing)
        if a in _rows(packed, packing):
            return packed, packing
    return nest, None


def _groups(extent: Expr, n: int) -> Expr:
    if isinstance(extent, Const):
        return const(-(-int(extent.value) // n), extent.dtype)
    return op("floordiv", op("add", extent, const(n - 1, extent.dtype)), const(n, extent.dtype))


def _packed(nest: Nest, quotient: Expr, packing: Packing) -> Nest:
    """The nest with the group's number where it read the quotient."""

    def new(e: Expr) -> Expr:
        return substitute(e, {quotient: packing.group})

    def carried(c: Carried) -> Carried:
        value = new(c.value)
        assert isinstance(value, Reduce)
        return replace(c, value=value, repair=c.repair and replace(c.repair, h=new(c.repair.h)))

    def output(o: Output) -> Output:
        return replace(o, expr=new(o.expr))

    at = nest.grid.index(packing.axis)
    return replace(
        nest,
        grid=(*nest.grid[:at], packing.group, *nest.grid[at:]),
        passes=tuple(
            replace(p, carried=tuple(map(carried, p.carried)), stores=tuple(map(output, p.stores))) for p in nest.passes
        ),
        outputs=tuple(map(output, nest.outputs)),
    )


def _sides(x: Reduce, grid: list[Axis]) -> list[Axis]:
    factors = product_factors(x.body)
    moving = [f for f in factors if f.free & set(x.axes)]
    sides: list[Axis] = []
    for f in moving:
        others = [g for g in moving if g is not f]
        # The last axis that this factor has alone; leading ones (batch, head) stay program indices.
        own = [a for a in grid if a in f.free and others and not any(a in g.free for g in others)]
        sides += own[-1:]
    return sides


def product_factors(e: Expr) -> list[Expr]:
    """The factors of a product."""
    if isinstance(e, Op) and e.name == "mul":
        return product_factors(e.args[0]) + product_factors(e.args[1])
    return [e]

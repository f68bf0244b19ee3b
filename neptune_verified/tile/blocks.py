"""Not trusted: which axes are cut into tiles, and how many lanes an axis that is held whole needs."""

from __future__ import annotations

from neptune_verified.ir.expr import Axis, Const, Expr, Op, Reduce, subterms
from neptune_verified.ir.loops import Nest


def padded(a: Axis) -> int:
    """Lanes of a whole axis: the next power of two (Triton's tiles have no other sizes)."""
    assert isinstance(a.extent, Const)
    n = max(1, int(a.extent.value))
    return 1 << (n - 1).bit_length()


def blocked_axes(nest: Nest) -> tuple[Axis, ...]:
    """Grid axes that are cut into tiles: those that only one operand of some sum of products has (they are the rows or
    columns of a matrix product), else the last one. The other grid axes are program indices."""
    grid = list(nest.grid)
    if not grid:
        return ()
    chosen: set[Axis] = set()
    exprs: list[Expr] = [c.value for c in nest.carried()]
    exprs += [o.expr for o in nest.outputs] + [o.expr for p in nest.passes for o in p.stores]
    for x in {x for e in exprs for x in subterms(e)}:
        if isinstance(x, Reduce) and x.reducer == "sum":
            chosen |= set(_sides(x, grid))
    chosen = chosen or {grid[-1]}
    return tuple(a for a in grid if a in chosen)


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

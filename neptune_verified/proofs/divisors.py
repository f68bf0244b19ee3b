"""Trusted: divisors of a repair that floating point may make 0 where their real value is not (O7).

Underflow to 0 is allowed everywhere but in a divisor that the definition does not have: ``t * (exp(-r') / exp(-r))`` is
NaN where both exponentials underflow, and the definition is 0 there. Values of the definition, which a guard compares
with 0 as they were computed, are no loss, nor is what the definition itself divides by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from neptune_verified.ir.expr import FLOATS, Const, Expr, Op, Var, subterms
from neptune_verified.ir.intervals import SMALLEST, Range
from neptune_verified.ir.kinds import NONNEGATIVE, Kinds


def divisors(e: Expr) -> Iterator[Expr]:
    """What is divided by: the arguments of quotients, reciprocal roots and negative powers too."""
    for x in subterms(e):
        if isinstance(x, Op) and x.dtype in FLOATS:
            if x.name in ("div", "floordiv", "floormod"):
                yield x.args[1]
            elif x.name == "rsqrt" or (x.name == "pow" and not (isinstance(x.args[1], Const) and x.args[1].value >= 0)):
                yield x.args[0]


def lost_divisors(h: Expr, own: set[Expr], boxes: Mapping[Expr, Range], kinds: Callable[[Expr], Kinds]) -> list[Expr]:
    """The divisors of ``h`` that may underflow for all that is known. ``own``: divisors of the definition's term;
    ``boxes``: proved intervals of nodes."""

    def kept(x: Expr) -> bool:
        """Computed as 0 only where it is 0."""
        if x in own or isinstance(x, Var | Const):
            return True
        if not isinstance(x, Op):
            return False
        r = boxes.get(x)
        least = SMALLEST[x.dtype] if x.dtype in FLOATS else 0
        if r is not None and (r.lo >= least or r.hi <= -least or r.gap >= least):
            return True
        match x.name:
            case "neg" | "abs" | "sqrt" | "rsqrt":
                return kept(x.args[0])
            case "cast":
                source, target = x.args[0].dtype, x.dtype
                wider = source not in FLOATS or (target in FLOATS and SMALLEST[target] <= SMALLEST[source])
                return wider and kept(x.args[0])
            case "max" | "min":
                return all(map(kept, x.args))
            case "add":
                return all(map(kept, x.args)) and all(kinds(a) <= NONNEGATIVE for a in x.args)
            case "select":
                return all(map(kept, x.args[1:]))
            case _:
                return False

    return [d for d in dict.fromkeys(divisors(h)) if d.dtype in FLOATS and not kept(d)]

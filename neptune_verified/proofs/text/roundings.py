"""Trusted: float conversions between the definition and the loop program (O16): a hoist moves one, and drops or adds none.

The rest of the loop program's expressions are the definition's own, and the text has their conversions (``match``), so the
conversions on each path are the definition's but for those that DESIGN.md section 4 lets the compiler insert or move.
"""

from __future__ import annotations

from collections import Counter

from neptune_verified.ir.expr import FLOATS, Expr, Op, subterms
from neptune_verified.ir.loops import Hoist, LoopProgram
from neptune_verified.proofs.text.findings import Unproved
from neptune_verified.proofs.text.fold import widens


def narrowings(*exprs: Expr) -> set[Expr]:
    """Conversions of floats to a type that has fewer numbers."""
    found = {x for e in exprs for x in subterms(e) if isinstance(x, Op) and x.name == "cast"}
    return {
        x for x in found if x.dtype in FLOATS and x.args[0].dtype in FLOATS and not widens(x.args[0].dtype, x.dtype)
    }


def check_hoists(loops: LoopProgram) -> None:
    """Raises Unproved (O16) for a hoist after which values pass through other conversions than before."""
    for nest in loops.nests:
        for h in nest.hoists:
            _check(h)


def _check(h: Hoist) -> None:
    before = narrowings(h.old.body)
    for inner in h.inner:
        after = narrowings(h.template, inner.body)
        lost, gained = (Counter(x.dtype for x in s) for s in (before - after, after - before))
        if lost != gained:
            raise Unproved("O16", f"{h.name}: a factor leaves the reduction, and a float conversion is lost or added")

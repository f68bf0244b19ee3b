"""Not trusted: ``max |z| = max(max z, max -z)`` (and so for ``z^2``): two accumulators, each with a repair of its own.

The reduction is rewritten, so this is no repair of it; a refusal names it as the way out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from neptune_verified.fusion.strategies import affine
from neptune_verified.fusion.strategies.task import Proposal, Task
from neptune_verified.ir.expr import Const, Expr, Op, op, substitute, var
from neptune_verified.proofs.repair import Update


def inside(e: Expr) -> tuple[Expr, bool] | None:
    """(z, squared) if ``e`` is |z| or z^2."""
    if isinstance(e, Op) and e.name == "abs":
        return e.args[0], False
    if isinstance(e, Op) and e.name == "pow" and isinstance(e.args[1], Const) and e.args[1].value == 2:
        return e.args[0], True
    return None


def propose(task: Task) -> Iterator[Proposal]:
    p = task.problem
    found = inside(p.term)
    if p.reducer != "max" or found is None:
        return
    z, squared = found
    terms = (z, op("neg", z))
    parts = [Task(replace(p, term=x)) for x in terms]
    t0, t1 = var("t0", p.dtype), var("t1", p.dtype)
    largest = op("max", t0, t1)
    for one in affine.propose(parts[0]):
        for other in affine.propose(parts[1]):
            updates = tuple(_renamed(x.update.updates[0], name) for x, name in ((one, t0), (other, t1)))
            value = op("mul", largest, largest) if squared else largest
            yield Proposal(Update(("max", "max"), terms, updates, value, strategy="split of |.|"))


def _renamed(h: Expr, t: Expr) -> Expr:
    return substitute(h, {var("t", t.dtype): t})

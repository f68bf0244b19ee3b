"""Not trusted: ``max |z| = max(max z, max -z)``: two accumulators, each with a repair of its own.

The reduction is rewritten, so this is no repair of it; a refusal names it as the way out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from neptune_verified.fusion.strategies import affine
from neptune_verified.fusion.strategies.task import Proposal, Task
from neptune_verified.ir.expr import Expr, Op, op, substitute, var
from neptune_verified.proofs.repair import Update


def propose(task: Task) -> Iterator[Proposal]:
    p = task.problem
    if p.reducer != "max" or not (isinstance(p.term, Op) and p.term.name == "abs"):
        return
    z = p.term.args[0]
    terms = (z, op("neg", z))
    parts = [Task(replace(p, term=x)) for x in terms]
    t0, t1 = var("t0", p.dtype), var("t1", p.dtype)
    largest = op("max", t0, t1)
    for one in affine.propose(parts[0]):
        for other in affine.propose(parts[1]):
            updates = tuple(_renamed(x.update.updates[0], name) for x, name in ((one, t0), (other, t1)))
            yield Proposal(Update(("max", "max"), terms, updates, largest, strategy="split of |.|"))


def _renamed(h: Expr, t: Expr) -> Expr:
    return substitute(h, {var("t", t.dtype): t})

"""Not trusted: products. ``t^p`` where ``g(r', c) = g(r, c)^p``; ``t k^n`` where ``g(r', c) = k g(r, c)``, n the number of
elements seen: neither the sign of the terms nor their logarithm matters for the second."""

from __future__ import annotations

from collections.abc import Iterator

from neptune_verified.fusion import derive
from neptune_verified.fusion.strategies.task import Proposal, Task, scalar
from neptune_verified.ir.expr import Op, op, var

_POWER, _RATIO = scalar("power", derive.power), scalar("ratio and count", derive.ratio)


def propose(task: Task) -> Iterator[Proposal]:
    if task.problem.reducer != "prod":
        return
    if task.problem.counts:
        t, n = var("t", task.problem.dtype), var("n")
        for found in _RATIO(task):
            h = found.update.updates[0]
            if isinstance(h, Op) and h.name == "mul" and h.args[0] is t:
                k = h.args[1]
                exponential = isinstance(k, Op) and k.name == "exp"
                power = op("exp", op("mul", n, k.args[0])) if exponential and isinstance(k, Op) else op("pow", k, n)
                yield task.scalar(op("mul", t, power), "ratio and count")
    yield from _POWER(task)

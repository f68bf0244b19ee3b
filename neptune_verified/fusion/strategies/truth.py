"""Not trusted: any and all: keep the accumulator, or join it with a producer's new value."""

from __future__ import annotations

from collections.abc import Iterator

from neptune_verified.fusion.strategies.task import Proposal, Task
from neptune_verified.ir.expr import op, var


def propose(task: Task) -> Iterator[Proposal]:
    if task.problem.reducer not in ("any", "all"):
        return
    t = var("t", "bool")
    yield task.scalar(t, "truth")
    for new in task.new:
        if new.dtype == "bool":
            yield task.scalar(op("and", t, new), "truth")
            yield task.scalar(op("or", t, new), "truth")

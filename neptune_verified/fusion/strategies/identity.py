"""Not trusted: a term that reads no producer needs no repair."""

from __future__ import annotations

from collections.abc import Iterator

from neptune_verified.fusion.strategies.task import Proposal, Task
from neptune_verified.ir.expr import var


def propose(task: Task) -> Iterator[Proposal]:
    if not task.depends:
        yield task.scalar(var("t", task.problem.dtype), "identity")

"""Not trusted: the line through two sample points, for max and min; O2 asks for a slope that is not negative."""

from __future__ import annotations

from collections.abc import Iterator

from neptune_verified.fusion import derive
from neptune_verified.fusion.strategies.task import Proposal, Task, scalar

_AFFINE = scalar("affine", derive.affine)


def propose(task: Task) -> Iterator[Proposal]:
    if task.problem.reducer in ("max", "min"):
        yield from _AFFINE(task)

"""Not trusted: ``h = t g(r', c0) / g(r, c0)`` at one sample point, for sums; the shift, for logaddexp.

The rank of ``g(r_i, c_j)`` says beforehand whether a sum can have it."""

from __future__ import annotations

from collections.abc import Iterator

from neptune_verified.fusion import derive
from neptune_verified.fusion.strategies.rank import rank
from neptune_verified.fusion.strategies.task import Proposal, Task, scalar

_SUM, _LOGADDEXP = scalar("ratio", derive.ratio), scalar("shift", derive.shift)


def propose(task: Task) -> Iterator[Proposal]:
    if task.problem.reducer == "sum" and rank(task) == 1:
        yield from _SUM(task)
    elif task.problem.reducer == "logaddexp":
        yield from _LOGADDEXP(task)

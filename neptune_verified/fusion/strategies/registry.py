"""Not trusted: the strategies, in order. A wrong proposal is refused by O1 to O6.

A strategy is one file here with a function ``propose(task)`` that yields updates, and one line in ``STRATEGIES``.
"""

from __future__ import annotations

from neptune_verified.fusion.strategies import (
    affine,
    identity,
    inverse,
    power,
    ratio,
    separable,
    split,
    truth,
)
from neptune_verified.fusion.strategies.task import Proposal, Strategy, Task

#: In order of preference.
STRATEGIES: tuple[tuple[str, Strategy], ...] = (
    ("identity", identity.propose),
    ("ratio", ratio.propose),
    ("power", power.propose),
    ("affine", affine.propose),
    ("truth", truth.propose),
    ("separable", separable.propose),
    ("inverse", inverse.propose),
)
#: Rewrites of the reduction itself, named beside a refusal: what holds the result is another set of accumulators.
REWRITES: tuple[tuple[str, Strategy], ...] = (("split of |.|", split.propose),)

__all__ = ["REWRITES", "STRATEGIES", "Proposal", "Strategy", "Task"]

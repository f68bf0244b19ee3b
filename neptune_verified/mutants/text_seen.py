"""Not trusted: what a run of an edited kernel file shows."""

from __future__ import annotations

from dataclasses import dataclass

SAME, CHANGES, CRASHES = "same", "changes", "crashes"


@dataclass(frozen=True, slots=True)
class Seen:
    """``status``: same, changes or crashes; ``where``: the first call that shows it."""

    status: str
    where: str = ""

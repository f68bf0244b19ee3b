"""Not trusted: the three exceptions that users see. Imports nothing heavy, so that every entry point can raise them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neptune_verified.ir.program import Loc


class VerificationError(Exception):
    """An obligation was not proved, and what was asked for depends on it. ``report`` holds all obligations."""

    def __init__(self, message: str, report: Any = None) -> None:
        super().__init__(message)
        self.report = report


class UnsupportedProgram(Exception):
    """The definition uses something that has no meaning here.

    ``construct`` is what is not supported, ``tensor`` the stage or input in which it stands, ``loc`` where the user
    wrote that tensor (None when there is no line). The message is ``construct in tensor (file:line): why; way out``.

    >>> print(UnsupportedProgram("tirx.atan", "s", None, "it has no meaning here"))
    tirx.atan in s (unknown line): it has no meaning here
    """

    def __init__(self, construct: str, tensor: str = "", loc: Loc | None = None, why: str = "") -> None:
        self.construct, self.tensor, self.loc = construct, tensor, loc
        where = f" in {tensor} ({loc if loc is not None else 'unknown line'})" if tensor else ""
        super().__init__(f"{construct}{where}" + (f": {why}" if why else ""))


class ShapeError(ValueError):
    """Shapes of the arguments of a kernel disagree with each other or with the definition."""

"""Not trusted: the paper's ``h = g(r', g_c^-1(r, t))``. For some terms O1 and O3 hold and O2 alone refuses it."""

from __future__ import annotations

from neptune_verified.fusion import derive
from neptune_verified.fusion.strategies.task import scalar

propose = scalar("inverse", derive.inverse)

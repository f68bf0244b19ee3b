"""Not trusted: what was proved of one compiled program, for people. Needs no prover, no TVM and no torch."""

from __future__ import annotations

from neptune_verified.report.model import Report

__all__ = ["Report"]

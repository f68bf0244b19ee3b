"""Trusted: the second reading of an emitted kernel file: an explicit evaluation over small lengths. *Bounded*."""

from neptune_verified.proofs.bounded.check import bounded
from neptune_verified.proofs.bounded.result import OBLIGATIONS, BoundedResult, Finding

__all__ = ["OBLIGATIONS", "BoundedResult", "Finding", "bounded"]

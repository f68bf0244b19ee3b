"""Trusted: the value of a te literal in its own type, and which literals mean minus infinity."""

from __future__ import annotations

import math
import struct

from neptune_verified.ir.expr import Const, const

#: The greatest finite value of each type; the least is its negative.
FINITE_MAX: dict[str, float] = {
    "float16": 65504.0,
    "bfloat16": float.fromhex("0x1.fep127"),
    "float32": float.fromhex("0x1.fffffep127"),
    "float64": float.fromhex("0x1.fffffffffffffp1023"),
}

#: Numbers up to here, as a whole branch of a select, look like a mask written as a number.
STAND_IN = -1e4


def rounded(value: float, dtype: str) -> float:
    """``value`` rounded to ``dtype``, ties to even. te keeps literals in double precision; their type is what counts.

    A finite number beyond the type's range gives the end of the range: ``te.min_value("bfloat16")`` is float32's.
    """
    if not math.isfinite(value) or dtype == "float64":
        return value
    limit = FINITE_MAX[dtype]
    if abs(value) >= limit:
        return math.copysign(limit, value)
    code = "<e" if dtype == "float16" else "<f"
    if dtype != "bfloat16":
        return float(struct.unpack(code, struct.pack(code, value))[0])
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return max(-limit, min(limit, float(struct.unpack("<f", struct.pack("<I", bits))[0])))


def float_literal(value: float, dtype: str) -> Const:
    """Raises ValueError for NaN."""
    return const(rounded(float(value), dtype), dtype)


def is_least(value: float, dtype: str) -> bool:
    """The literal is the least finite number of its own float type."""
    return math.isfinite(value) and rounded(value, dtype) == -FINITE_MAX[dtype]

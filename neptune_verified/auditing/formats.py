"""Not trusted: floating-point formats, and how exactly a GPU computes a function, in units of a format's roundoff.

The accuracies are upper bounds of what Triton's compilers emit for NVIDIA and AMD GPUs without fast-math flags beyond
Triton's own defaults: ``exp`` is ``ex2.approx`` of a rounded product, division is within two ulps, denormal fp32 numbers
may be flushed. (CUDA C++ Programming Guide, section "Mathematical Functions"; PTX ISA, "ex2", "div".)
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """``roundoff``: half an ulp of 1. ``tiny``: the absolute error that underflow may add. ``largest``: finite."""

    digits: int
    least_exponent: int
    tiny: float
    largest: float

    @property
    def roundoff(self) -> float:
        return float(2.0**-self.digits)


FORMATS: dict[str, Format] = {
    "float16": Format(11, -14, 2.0**-25, 65504.0),
    "bfloat16": Format(8, -126, 2.0**-126, 2.0**127 * (2 - 2.0**-7)),
    "float32": Format(24, -126, 2.0**-126, 2.0**127 * (2 - 2.0**-23)),
    "float64": Format(53, -1022, 2.0**-1022, 2.0**1023 * (2 - 2.0**-52)),
}

#: Of a function's result, in roundoffs of its type; what depends on the argument is said in ``exact``.
ROUNDINGS: dict[str, float] = {
    "add": 1, "sub": 1, "mul": 1, "div": 4, "sqrt": 4, "rsqrt": 4, "exp": 6, "exp2": 6, "log": 8, "tanh": 16,
    "sigmoid": 12, "erf": 16, "sin": 8, "cos": 8, "pow": 24, "floormod": 4,
}  # fmt: skip


def holds(wide: str, narrow: str) -> bool:
    """Whether every number of ``narrow`` is one of ``wide``."""
    a, b = FORMATS[wide], FORMATS[narrow]
    return a.digits >= b.digits and a.least_exponent <= b.least_exponent and a.largest >= b.largest

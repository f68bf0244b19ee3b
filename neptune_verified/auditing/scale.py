"""Not trusted: logarithmic axes for numbers >= 0, on which 0 has a place of its own.

Everything is in exponents of 2, so that no number of any type is too large or too small.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from neptune_verified.auditing.tables import number

#: Numbers of one decade that are marked: the first of these that gives enough marks.
_DIGITS = ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), tuple(1 + k / 5 for k in range(45)))
_FINEST = tuple(1 + k / 10 for k in range(90))
_ENOUGH, _MANY = 3, 5


@dataclass(frozen=True)
class Scale:
    """``low``, ``high``: exponents of 2 at its ends. ``zero``: the place of 0, where there is one to be shown."""

    low: float
    high: float
    zero: float | None
    positive: bool = True

    @staticmethod
    def of(values: Iterable[float]) -> Scale:
        """Of numbers >= 0; NaN is passed over."""
        found = {v for v in values if not math.isnan(v)}
        exponents = [math.log2(v) for v in found if v > 0]
        if not exponents:
            return Scale(1.0, 1.0, 0.0, False)
        low, high = min(exponents), max(exponents)
        room = max(0.06 * (high - low), 0.3)
        low, high = low - room, high + room
        return Scale(low, high, low - 0.07 * (high - low) if 0 in found else None)

    def at(self, x: float) -> float:
        if x == 0:
            return math.nan if self.zero is None else self.zero
        return math.log2(x)

    @property
    def limits(self) -> tuple[float, float]:
        if not self.positive:
            return -1.0, 1.0
        return (self.low if self.zero is None else self.zero - 0.05 * (self.high - self.low)), self.high

    def ticks(self) -> list[tuple[float, str]]:
        """Place and text of each mark."""
        found = [] if self.zero is None else [(self.zero, "0")]
        if not self.positive:
            return found
        marks: list[tuple[float, str]] = []
        for digits in (*_DIGITS, _FINEST):
            marks = self._marks(digits)
            if len(marks) >= _ENOUGH:
                break
        return found + marks[:: math.ceil(len(marks) / _MANY) or 1]

    def _marks(self, digits: tuple[float, ...]) -> list[tuple[float, str]]:
        ten = math.log2(10)
        decades = range(math.floor(self.low / ten), math.ceil(self.high / ten) + 1)
        places = ((math.log2(d) + e * ten, d, e) for e in decades for d in digits)
        return [(x, _label(d, e)) for x, d, e in places if self.low <= x <= self.high]


def _label(digit: float, exponent: int) -> str:
    return number(digit * 10.0**exponent) if -3 < exponent < 4 else f"{digit:g}e{exponent}"

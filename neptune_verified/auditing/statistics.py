"""Not trusted: statistics of errors that can be joined in any order, with the same result to the last bit.

Sums are exact rationals, counts are integers, and percentiles come from histograms whose bins are 1.1 % wide.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Bins of a histogram for each factor of two: a percentile is right within 2 ** (1 / 64) - 1.
PER_OCTAVE = 64
#: Parts into which each axis of an output is cut for the error against the position.
PARTS = 64


@dataclass
class Histogram:
    """Counts of non-negative numbers. ``bins[k]`` are those in [2 ** (k / 64), 2 ** ((k + 1) / 64)); zeros apart."""

    zeros: int = 0
    bins: dict[int, int] = field(default_factory=dict)
    largest: float = 0.0

    @staticmethod
    def of(x: NDArray[np.float64]) -> Histogram:
        """Of finite numbers >= 0."""
        positive = x[x > 0]
        keys, counts = np.unique(np.floor(np.log2(positive) * PER_OCTAVE).astype(np.int64), return_counts=True)
        bins = dict(zip(keys.tolist(), counts.tolist(), strict=True))
        return Histogram(int(x.size - positive.size), bins, float(x.max(initial=0.0)))

    @property
    def count(self) -> int:
        return self.zeros + sum(self.bins.values())

    def join(self, other: Histogram) -> Histogram:
        bins = {k: self.bins.get(k, 0) + other.bins.get(k, 0) for k in sorted(self.bins.keys() | other.bins.keys())}
        return Histogram(self.zeros + other.zeros, bins, max(self.largest, other.largest))

    def percentile(self, q: float) -> float:
        """The least number that is not below q percent of them, up to a bin's width; NaN of nothing."""
        if not self.count:
            return math.nan
        left = math.ceil(self.count * q / 100) - self.zeros
        if left <= 0:
            return 0.0
        for k in sorted(self.bins):
            left -= self.bins[k]
            if left <= 0:
                return min(float(2.0 ** ((k + 1) / PER_OCTAVE)), self.largest)
        return self.largest

    def data(self, per_octave: int = 4) -> dict[str, Any]:
        """For JSON, in coarser bins: [lower end, count] of each that is not empty."""
        coarse: dict[int, int] = {}
        for k, n in self.bins.items():
            at = k * per_octave // PER_OCTAVE
            coarse[at] = coarse.get(at, 0) + n
        listed = [[2.0 ** (k / per_octave), coarse[k]] for k in sorted(coarse)]
        return {"zeros": self.zeros, "bins": listed, "per_octave": per_octave, "max": self.largest}


@dataclass
class Profile:
    """Mean square error along one axis of an output, in PARTS equal parts of its length."""

    squares: tuple[Fraction, ...] = (Fraction(0),) * PARTS
    counts: tuple[int, ...] = (0,) * PARTS

    @staticmethod
    def of(squares: Sequence[float], counts: Sequence[int]) -> Profile:
        """From the sum of squared errors, and the number of elements, at each index of the axis."""
        n = len(squares)
        total, many = [Fraction(0)] * PARTS, [0] * PARTS
        for k, (s, c) in enumerate(zip(squares, counts, strict=True)):
            total[k * PARTS // n] += Fraction(s)
            many[k * PARTS // n] += c
        return Profile(tuple(total), tuple(many))

    def join(self, other: Profile) -> Profile:
        squares = tuple(a + b for a, b in zip(self.squares, other.squares, strict=True))
        return Profile(squares, tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)))

    def rms(self) -> list[float]:
        """One number for each part; NaN where there is no element."""
        return [math.sqrt(s / n) if n else math.nan for s, n in zip(self.squares, self.counts, strict=True)]


HISTOGRAMS = ("absolute", "relative", "ulps", "of_bound", "rows")


@dataclass
class Statistics:
    """What one contestant did to one output, over any number of samples.

    An element is *compared* where reference and result are finite. ``undefined``: the definition has no value there,
    and nothing is claimed. ``infinite``: both are the same infinity, or the reference exceeds the output's type and the
    result is that infinity. ``nan``, ``inf``, ``finite``: results of a wrong kind. ``unclaimed``: no bound follows from
    the structure (a comparison or an overflow depends on rounding). ``above``: errors above their bound."""

    compared: int = 0
    undefined: int = 0
    infinite: int = 0
    nan: int = 0
    inf: int = 0
    finite: int = 0
    unclaimed: int = 0
    above: int = 0
    square_error: Fraction = Fraction(0)
    square_value: Fraction = Fraction(0)
    absolute: Histogram = field(default_factory=Histogram)
    relative: Histogram = field(default_factory=Histogram)
    ulps: Histogram = field(default_factory=Histogram)
    #: Error over bound, where there is a bound.
    of_bound: Histogram = field(default_factory=Histogram)
    #: RMS error of each row: the elements along the last axis.
    rows: Histogram = field(default_factory=Histogram)
    #: By axis of the output.
    positions: dict[str, Profile] = field(default_factory=dict)

    @property
    def wrong(self) -> int:
        """Elements whose kind is wrong: NaN or infinite where a number is due, a number where an infinity is."""
        return self.nan + self.inf + self.finite

    @property
    def elements(self) -> int:
        return self.compared + self.undefined + self.infinite + self.wrong

    @property
    def rms(self) -> float:
        """Root of the mean square error."""
        return math.sqrt(self.square_error / self.compared) if self.compared else math.nan

    @property
    def relative_rms(self) -> float:
        """RMS error over RMS value; NaN where every value is 0."""
        return math.sqrt(self.square_error / self.square_value) if self.square_value else math.nan

    def join(self, other: Statistics) -> Statistics:
        numbers = ("compared", "undefined", "infinite", "nan", "inf", "finite", "unclaimed", "above")
        sums = {n: getattr(self, n) + getattr(other, n) for n in (*numbers, "square_error", "square_value")}
        joined = {n: getattr(self, n).join(getattr(other, n)) for n in HISTOGRAMS}
        axes = [*self.positions, *(a for a in other.positions if a not in self.positions)]
        empty = Profile()
        positions = {a: self.positions.get(a, empty).join(other.positions.get(a, empty)) for a in axes}
        return Statistics(**sums, **joined, positions=positions)

    def summary(self) -> dict[str, Any]:
        """Numbers for JSON; NaN and infinities as texts."""
        numbers = ("compared", "undefined", "infinite", "nan", "inf", "finite", "unclaimed", "above")
        found: dict[str, Any] = {n: getattr(self, n) for n in numbers}
        found |= {"rms": plain(self.rms), "relative_rms": plain(self.relative_rms)}
        for name in HISTOGRAMS:
            h: Histogram = getattr(self, name)
            found[name] = {f"p{q}": plain(h.percentile(q)) for q in (50, 90, 99)} | {"max": h.largest}
        return found

    def data(self) -> dict[str, Any]:
        """The summary with the histograms, and the RMS error along each axis."""
        found = self.summary()
        for name in HISTOGRAMS:
            found[name] |= getattr(self, name).data()
        found["positions"] = {axis: [plain(x) for x in p.rms()] for axis, p in self.positions.items()}
        return found


def plain(x: float) -> float | str:
    """A number that JSON can hold: "nan", "inf" and "-inf" are texts."""
    return x if math.isfinite(x) else str(x)


def joined(parts: Iterable[Statistics]) -> Statistics:
    total = Statistics()
    for part in parts:
        total = total.join(part)
    return total

"""Not trusted: families of generated values. Each finds a class of mistakes that random normal numbers do not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
#: Numbers of each type next to 1, 2 and so on are so far apart: the means around which a spread of 1 is still seen.
MEANS = {"float16": 512.0, "bfloat16": 128.0, "float32": 4096.0, "float64": 2.0**20}
LEAST = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 2.0**-1074}
NORMAL = {"float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022}


@dataclass(frozen=True)
class Draw:
    """One float input to be drawn. ``reduced``: the dimensions along which it is reduced; ``position`` among the float
    inputs, of which there are ``count``; ``contracted``: it meets another in a sum of products. ``infinite``: elements
    may be -inf. ``scale``: by which every magnitude is multiplied."""

    shape: tuple[int, ...]
    reduced: tuple[int, ...]
    dtype: str
    position: int
    count: int
    contracted: bool
    infinite: bool
    scale: float
    rng: np.random.Generator

    @property
    def large(self) -> float:
        """A magnitude whose square, or which itself, is large for an exponential."""
        return (100.0 if self.contracted else 10_000.0) * self.scale

    @property
    def along(self) -> tuple[int, ...]:
        """The dimensions along which something varies: those that are reduced, or the last one."""
        return self.reduced or tuple(range(len(self.shape)))[-1:]

    def normal(self) -> Array:
        kind = np.float64 if self.dtype == "float64" else np.float32
        return self.rng.standard_normal(self.shape, dtype=kind) * kind(self.scale)

    def uniform(self, low: float, high: float) -> Array:
        kind = np.float64 if self.dtype == "float64" else np.float32
        return self.rng.random(self.shape, dtype=kind) * kind(high - low) + kind(low)

    def full(self, value: float) -> Array:
        return np.full(self.shape, value, np.float64 if self.dtype == "float64" else np.float32)

    def at(self, place: Callable[[int], int]) -> tuple[Any, ...]:
        """The index of one place along each dimension of ``along``, everywhere in the others."""
        return tuple(place(n) if k in self.along else slice(None) for k, n in enumerate(self.shape))


def normal(d: Draw) -> Array:
    """Standard normal numbers."""
    return d.normal()


def heavy_tailed(d: Draw) -> Array:
    """Student's t with two degrees of freedom: a few numbers are far larger than the rest."""
    x = d.rng.standard_t(2.0, d.shape) * d.scale
    return np.asarray(np.clip(x, -d.large, d.large), d.full(0.0).dtype)


def all_equal(d: Draw) -> Array:
    """One number in the whole tensor: every maximum is reached everywhere."""
    return d.full((0.5 + d.rng.random()) * d.scale)


def very_negative(d: Draw) -> Array:
    """Far below 0, and so are products: the first tensor is positive where there are others. Finds a maximum that
    starts at 0 or at a finite number."""
    sign = 1.0 if d.position == 0 and d.count > 1 else -1.0
    return sign * d.uniform(0.5 * d.large, 1.5 * d.large)


def very_large(d: Draw) -> Array:
    """Far above 0, products too: an exponential that is not shifted overflows."""
    return d.uniform(0.5 * d.large, 1.5 * d.large)


def alternating(d: Draw) -> Array:
    """The sign changes from each element to the next along what is reduced: sums cancel."""
    sign = np.zeros(d.shape, np.int64)
    for k in d.along:
        sign = sign + np.arange(d.shape[k]).reshape([-1 if j == k else 1 for j in range(len(d.shape))])
    return d.uniform(0.5 * d.scale, 1.5 * d.scale) * (1 - 2 * (sign % 2)).astype(np.float32)


def one_dominant(d: Draw) -> Array:
    """One element of each reduction exceeds all others: what came before it has to be scaled down to nothing."""
    x = d.normal()
    x[d.at(lambda n: 2 * n // 3)] = d.large
    return x


def ascending(d: Draw) -> Array:
    """Sorted along what is reduced: a running maximum changes at every step."""
    x = d.normal()
    for k in d.along:
        x = np.sort(x, axis=k)
    return x


def ramp(d: Draw) -> Array:
    """Rising evenly along what is reduced, by about as much as one exponential can tell: a running maximum rises a little
    at every step, and all that came before counts in the result. Finds a step without its repair."""
    if d.contracted and d.position == 0:
        return d.uniform(0.5 * d.scale, 1.5 * d.scale)
    x = d.uniform(-0.01 * d.scale, 0.01 * d.scale)
    for k in d.along:
        steps = np.linspace(-1, 1, d.shape[k]).reshape([-1 if j == k else 1 for j in range(len(d.shape))])
        x = x + (0.3 if d.contracted else 1.0) * d.scale * steps.astype(x.dtype)
    return x


def large_mean(d: Draw) -> Array:
    """A spread of 1 around a large mean: finds variances as a difference of squares."""
    mean = 16.0 if d.contracted else MEANS[d.dtype]
    return d.normal() + d.full(mean * d.scale)


def dead_rows(d: Draw) -> Array:
    """Normal numbers, with rows and blocks of -inf where they are declared; integers at their extremes."""
    x = d.normal()
    return np.where(dead(d.shape, d.along), x.dtype.type(-math.inf), x) if d.infinite else x


def denormal(d: Draw) -> Array:
    """Below the least normal number of the type, of either sign, and not 0."""
    steps = d.rng.integers(1, round(NORMAL[d.dtype] / LEAST[d.dtype]), d.shape)
    return np.asarray(steps * d.rng.choice([-1.0, 1.0], d.shape) * LEAST[d.dtype], d.full(0.0).dtype)


def zeros(d: Draw) -> Array:
    """0 everywhere: maxima of absolute values and variances are 0."""
    return d.full(0.0)


def last_outlier(d: Draw) -> Array:
    """Equal numbers, and a large one at the very end of each reduction: finds a last tile that is dropped."""
    x = d.full(d.scale)
    x[d.at(lambda n: n - 1)] = d.large
    return x


def dead(shape: tuple[int, ...], along: tuple[int, ...]) -> Array:
    """Which elements are masked: of every three rows one whole, one in its first half, one not at all. What has no rows,
    in its first half."""
    last = along[-1] if along else 0
    out = np.zeros(shape, bool)
    if not shape:
        return out
    half = np.arange(shape[last]) < -(-shape[last] // 2)
    half = half.reshape([-1 if k == last else 1 for k in range(len(shape))])
    rows = [k for k in range(len(shape)) if k not in along]
    if not rows:
        return out | half
    index = np.arange(shape[rows[-1]]).reshape([-1 if k == rows[-1] else 1 for k in range(len(shape))])
    return np.asarray(out | (index % 3 == 0) | ((index % 3 == 1) & half))


FAMILIES: dict[str, Callable[[Draw], Array]] = {
    "normal": normal,
    "heavy-tailed": heavy_tailed,
    "all equal": all_equal,
    "very negative": very_negative,
    "very large": very_large,
    "alternating": alternating,
    "one dominant": one_dominant,
    "sorted": ascending,
    "ramp": ramp,
    "large mean": large_mean,
    "dead rows": dead_rows,
    "denormal": denormal,
    "zeros": zeros,
    "last outlier": last_outlier,
}


# ------------------------------------------------------------------------------------------------------- integers


def integers(family: str, shape: tuple[int, ...], low: int, high: int, rng: np.random.Generator) -> Array:
    """Indices, lengths and identities from ``low`` to ``high``, both included."""
    if family == "zeros":
        return np.full(shape, low, np.int64)
    if family == "all equal":
        return np.full(shape, (low + high) // 2, np.int64)
    if family == "dead rows":
        order = np.array([low, high, (low + high) // 2, min(low + 1, high), max(low, high - 1)])
        return order[np.arange(math.prod(shape)) % len(order)].reshape(shape)
    x = rng.integers(low, high, shape, endpoint=True)
    return np.sort(x, axis=-1) if family == "sorted" and shape else x


def truths(family: str, shape: tuple[int, ...], along: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Truth values, which are masks more often than not: true is live."""
    if family in ("zeros", "all equal"):
        return np.full(shape, family == "all equal")
    if family == "dead rows":
        return ~dead(shape, along)
    return rng.random(shape) < 0.5

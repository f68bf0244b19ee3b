"""Evaluates a refusal's candidate at its counterexample, from the text that people read and nothing else."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from neptune_verified.ir.loops import Refusal

NAN = math.nan


def _guarded(f: Callable[..., float]) -> Callable[..., float]:
    """NaN where f is undefined or an argument is."""

    def call(*args: float) -> float:
        if any(math.isnan(a) for a in args):
            return NAN
        try:
            return f(*args)
        except (ValueError, ZeroDivisionError):
            return NAN
        except OverflowError:
            return math.inf

    return call


def _log(x: float) -> float:
    return -math.inf if x == 0 else math.log(x)


class Number(float):
    """A float whose division by zero is undefined."""

    def __add__(self, other: Any) -> Number:
        return Number(float(self) + float(other))

    def __radd__(self, other: Any) -> Number:
        return Number(float(other) + float(self))

    def __sub__(self, other: Any) -> Number:
        return Number(float(self) - float(other))

    def __rsub__(self, other: Any) -> Number:
        return Number(float(other) - float(self))

    def __mul__(self, other: Any) -> Number:
        return Number(float(self) * float(other))

    def __rmul__(self, other: Any) -> Number:
        return Number(float(other) * float(self))

    def __truediv__(self, other: Any) -> Number:
        return Number(NAN if other == 0 else float(self) / float(other))

    def __rtruediv__(self, other: Any) -> Number:
        return Number(NAN if float(self) == 0 else float(other) / float(self))

    def __neg__(self) -> Number:
        return Number(-float(self))


def _wrap(f: Callable[..., float]) -> Callable[..., Number]:
    return lambda *args: Number(_guarded(f)(*map(float, args)))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": _wrap(math.exp),
    "log": _wrap(_log),
    "sqrt": _wrap(math.sqrt),
    "tanh": _wrap(math.tanh),
    "cos": _wrap(math.cos),
    "floor": _wrap(lambda x: float(math.floor(x))),
    "abs": _wrap(abs),
    "max": _wrap(max),
    "min": _wrap(min),
    "float32": Number,
}


def value(text: str) -> float:
    if text == "undefined":
        return NAN
    return float(text) if "inf" in text else float(Fraction(text))


def point(refusal: Refusal) -> tuple[dict[str, float], float, float]:
    """The names' values, and what the two sides are said to be there."""
    match = re.fullmatch(r"at (.*): (\S+) instead of (\S+)", refusal.counterexample)
    assert match, refusal.counterexample
    pairs = re.finditer(r"(.+?) = ([^,]+)(?:, |$)", match[1])
    return (
        {m[1]: value(m[2]) if m[2] not in ("true", "false") else NAN for m in pairs},
        value(match[2]),
        value(match[3]),
    )


def candidates(
    refusal: Refusal,
) -> Iterator[tuple[Callable[[Mapping[str, float]], float], Callable[[str, float], float]]]:
    """(h over names, guard of a producer's value); the text does not say whether old values are guarded, hence two."""
    found = re.search(r"h\(t\) = (.*?)((?:, with \w+ read as \d+ where it is [^,]+)*)$", refusal.reason)
    assert found, refusal.reason
    guards = {
        m[1]: (float(m[2]), m[3].split(" or "))
        for m in re.finditer(r"with (\w+) read as (\d+) where it is ([^,]+)", found[2])
    }
    points = {"zero": 0.0, "-inf": -math.inf, "+inf": math.inf}

    def guard(producer: str, x: float) -> float:
        new, where = guards.get(producer, (0.0, []))
        return new if any(x == points[w] for w in where) else x

    def h(values: Mapping[str, float], old: bool) -> float:
        names = {}
        for k, v in values.items():
            is_new = k.endswith("_new")
            names[k] = Number(guard(k.removesuffix("_new"), v) if is_new or old else v)
        return float(eval(found[1], {"__builtins__": {}, **FUNCTIONS}, names))

    for old in (False, True):
        yield lambda values, old=old: h(values, old), guard  # type: ignore[misc]


def same(a: float, b: float) -> bool:
    if not (math.isfinite(a) and math.isfinite(b)):
        return a == b or (math.isnan(a) and math.isnan(b))
    return abs(a - b) <= 1e-9 * max(1.0, abs(b))

"""Trusted: facts that a user declares about inputs and lengths; ``from_te`` turns them into assumptions.

A fact here still holds the te tensor or variable that it speaks of. This file imports no TVM.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from neptune_verified.ir.expr import FLOATS, INTS
from neptune_verified.ir.program import Assumption

#: |x| <= bound for an input of this type for which nothing else is declared.
DEFAULT_BOUNDS: dict[str, int] = {"float16": 65504, "bfloat16": 2**40, "float32": 2**40, "float64": 2**40}
MAX_LENGTH = 2**31 - 1


@dataclass(frozen=True, eq=False, slots=True)
class Fact:
    """``kind`` is one of ``ASSUMPTION_KINDS``; ``subject`` a te tensor or a te variable."""

    kind: str
    subject: Any
    value: float | int | None = None


def bounded(x: Any, value: float) -> Fact:
    """|x| <= value, for every finite element of x (see ``finite_or_minus_infinity`` for the other elements).

    Raises ValueError if ``value`` is negative or not finite.
    """
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"bounded takes a finite number >= 0, got {value!r}")
    return Fact("bounded", x, value)


def at_least(x: Any, value: float) -> Fact:
    """x >= value, e.g. ``at_least(S, 1)`` for a length that is never 0. Raises ValueError if not finite."""
    if not math.isfinite(value):
        raise ValueError(f"at_least takes a finite number, got {value!r}")
    return Fact("at_least", x, value)


def positive(x: Any) -> Fact:
    """x > 0."""
    return Fact("positive", x)


def nonnegative(x: Any) -> Fact:
    """x >= 0."""
    return Fact("nonnegative", x)


def nonzero(x: Any) -> Fact:
    """x != 0."""
    return Fact("nonzero", x)


def finite_or_minus_infinity(x: Any) -> Fact:
    """Each element of the float tensor x is finite or -inf (a mask that is added). Other inputs are finite."""
    return Fact("finite_or_minus_infinity", x)


def multiple_of(n: Any, value: int) -> Fact:
    """n % value == 0, for a length n. Raises ValueError unless ``value`` is an integer >= 1."""
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"multiple_of takes an integer >= 1, got {value!r}")
    return Fact("multiple_of", n, value)


def mistyped(kind: str, dtype: str, is_tensor: bool) -> str:
    """Why a fact of this kind cannot be said of something of this type; "" if it can."""
    if kind == "finite_or_minus_infinity" and dtype not in FLOATS:
        return f"its type is {dtype}, which has no infinity"
    if kind == "multiple_of" and (is_tensor or dtype not in INTS):
        return "only a length or an integer argument is a multiple of something"
    if dtype == "bool":
        return "its type is bool"
    return ""


def defaults(declared: list[Assumption], floats: dict[str, str], lengths: list[str]) -> list[Assumption]:
    """What holds where nothing was declared: finite ranges by type, and 0 <= n < 2**31 for lengths.

    ``floats`` maps float inputs and float arguments to their types.
    """
    said = {(a.kind, a.subject) for a in declared}
    out = [
        Assumption("bounded", name, DEFAULT_BOUNDS[dtype], origin="default")
        for name, dtype in floats.items()
        if ("bounded", name) not in said
    ]
    for name in lengths:
        if not said & {(kind, name) for kind in ("at_least", "positive", "nonnegative")}:
            out.append(Assumption("at_least", name, 0, origin="default"))
        if ("bounded", name) not in said:
            out.append(Assumption("bounded", name, MAX_LENGTH, origin="default"))
    return out

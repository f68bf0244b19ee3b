"""Trusted: exact integers and truth values of the definition; for Triton's, see ``scalars``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from neptune_verified.proofs.bounded.field import Array
from neptune_verified.proofs.bounded.result import Unsupported
from neptune_verified.proofs.bounded.values import Bit, Int

_EXACT: dict[str, Callable[..., Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "abs": np.abs,
    "max": np.maximum, "min": np.minimum,
    # A zero divisor gives 0, as in ``ir.interpret``.
    "floordiv": lambda x, y: np.where(y == 0, 0, x // np.where(y == 0, 1, y)),
    "floormod": lambda x, y: np.where(y == 0, 0, x % np.where(y == 0, 1, y)),
}  # fmt: skip
COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
FOLDS: dict[str, Callable[[Array, int, int], Array]] = {
    "sum": lambda x, axis, e: x.sum(axis=axis),
    "prod": lambda x, axis, e: x.prod(axis=axis),
    "max": lambda x, axis, e: x.max(axis=axis, initial=e),
    "min": lambda x, axis, e: x.min(axis=axis, initial=e),
}


def exact(name: str, args: list[Array]) -> Int | Bit:
    if name in COMPARE:
        return Bit(COMPARE[name](*args))
    if name not in _EXACT:
        raise Unsupported(f"no meaning for {name} on integers")
    return Int(np.asarray(_EXACT[name](*args)))


def _join(a: Bit, b: Bit) -> Array | None:
    if a.bad is None and b.bad is None:
        return None
    return np.asarray((False if a.bad is None else a.bad) | (np.zeros_like(b.a) if b.bad is None else b.bad))


def logic(name: str, args: list[Bit], strict: bool = True) -> Bit:
    """``strict``: an undefined operand makes the result undefined (else: unless the other operand decides it)."""
    if name == "not":
        return Bit(~args[0].a, args[0].bad)
    a, b = args
    bad = _join(a, b)
    if name in ("and", "or"):
        value = a.a & b.a if name == "and" else a.a | b.a
        if bad is not None and not strict:
            decides = [(~x.a if name == "and" else x.a) & (True if x.bad is None else ~x.bad) for x in (a, b)]
            bad = bad & ~(decides[0] | decides[1])
            value = np.where(decides[0] | decides[1], name == "or", value)
        return Bit(value, bad)
    if name in ("eq", "ne"):
        return Bit((a.a == b.a) if name == "eq" else (a.a != b.a), bad)
    raise Unsupported(f"no meaning for {name} on truth values")


def choose(c: Bit, x: Bit, y: Bit) -> Bit:
    parts = [np.zeros_like(v.a) if v.bad is None else v.bad for v in (x, y)]
    bad = np.where(c.a, *parts) | (np.zeros_like(c.a) if c.bad is None else c.bad)
    return Bit(np.where(c.a, x.a, y.a), bad if bad.any() else None)


def fold_bits(reducer: str, x: Bit, axis: int) -> Bit:
    if reducer not in ("any", "all"):
        raise Unsupported(f"no meaning for {reducer} on truth values")
    value = x.a.any(axis=axis) if reducer == "any" else x.a.all(axis=axis)
    return Bit(np.asarray(value), None if x.bad is None else np.asarray(x.bad.any(axis=axis)))

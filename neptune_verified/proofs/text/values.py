"""Trusted: what a name of a kernel holds while the text is read: a number, a tile, or a pointer into a tensor.

A tile is a function of its lanes: an expression over ``lane(k, n)`` for its k-th dimension of n lanes. Integers and truth
values are kept as expressions; each float tile that a name is given to becomes a *definition* of its own, read by
``Read("%name.number", lanes)``, so that expressions stay small and a carried value can be told by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from neptune_verified.ir.expr import Axis, Expr, Op, axis, const, read, substitute


def lane(k: int, n: int) -> Axis:
    """The lane index of a tile's k-th dimension, 0 <= lane < n, for n > 1. A dimension of one lane has the index 0."""
    return axis(f"lane{k}", n)


def lanes(shape: tuple[int, ...]) -> tuple[Expr, ...]:
    return tuple(const(0, "int32") if n == 1 else lane(k, n) for k, n in enumerate(shape))


def opened(e: Expr, shape: tuple[int, ...], indices: tuple[Expr, ...]) -> Expr:
    """A tile's expression at the lanes ``indices``."""
    own = lanes(shape)
    return substitute(e, {a: i for a, i in zip(own, indices, strict=True) if isinstance(a, Axis) and a is not i})


@dataclass(frozen=True, slots=True)
class Tile:
    """``shape`` in lanes; () is a scalar of the device."""

    shape: tuple[int, ...]
    expr: Expr

    @property
    def dtype(self) -> str:
        return self.expr.dtype

    def moved(self, to: Mapping[int, int], shape: tuple[int, ...]) -> Tile:
        """The same tile with dimension k as dimension ``to[k]`` of ``shape`` (dimensions of one lane may be left out)."""
        mapping = {lane(k, self.shape[k]): lane(j, shape[j]) for k, j in to.items() if self.shape[k] > 1}
        return Tile(shape, substitute(self.expr, {a: b for a, b in mapping.items() if a is not b}))


@dataclass(frozen=True, slots=True)
class Pointer:
    """The element of ``tensor`` at ``indices`` (dimension -> index), for each lane of ``shape``."""

    tensor: str
    indices: tuple[tuple[int, Expr], ...] = ()
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Stride:
    """The run-time stride of a tensor's dimension, in elements; of any size, 0 included."""

    tensor: str
    dimension: int


@dataclass(frozen=True, slots=True)
class Offset:
    """A 64-bit index times a stride."""

    index: Tile
    stride: Stride


#: bool, int and float are numbers that are known when the kernel is compiled.
Value = Tile | Pointer | Stride | Offset | bool | int | float


@dataclass(frozen=True, slots=True)
class Definition:
    """A float tile that was given a name: ``read(name, lanes)`` is ``expr``."""

    name: str
    shape: tuple[int, ...]
    expr: Expr
    line: int

    def read(self) -> Expr:
        return read(self.name, lanes(self.shape), self.expr.dtype)

    def at(self, indices: tuple[Expr, ...]) -> Expr:
        return opened(self.expr, self.shape, indices)


@dataclass(frozen=True, slots=True)
class Access:
    """A load or a store of one element per lane, where ``mask`` holds. ``facts``: ranges of the loops around it."""

    tensor: str
    shape: tuple[int, ...]
    indices: tuple[Expr, ...]
    mask: Expr
    loops: tuple[int, ...]
    line: int
    value: Tile | None = None


@dataclass(slots=True)
class Loop:
    """``for symbol in range(low, high, step)``. ``carried``: name -> (before, at the start of an iteration, at its end)."""

    number: int
    symbol: Expr
    low: Expr
    high: Expr
    step: int
    line: int
    carried: dict[str, Carry]


@dataclass(slots=True)
class Carry:
    """A value that a loop carries: ``start`` names it in an iteration, ``exit`` after the loop; ``end`` is the value of
    one iteration's end, ``before`` that of the loop's beginning."""

    name: str
    loop: int
    shape: tuple[int, ...]
    start: str
    exit: str
    before: Expr
    end: Expr

    @property
    def update(self) -> tuple[Expr | None, Expr]:
        """The condition under which an iteration changes the value (None: it always does), and what it becomes."""
        match self.end:
            case Op("select", (c, new, old)) if old is self.whole:
                return c, new
        return None, self.end

    @property
    def whole(self) -> Expr:
        """The value at the start of an iteration, as it is read there."""
        return read(self.start, lanes(self.shape), self.before.dtype)

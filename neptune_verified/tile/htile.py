"""Not trusted: HTile, the tile IR. A wrong tile program is refused by O13 (not yet built) and caught by the tests.

A *value* is a tile with one dimension per axis of ``axes``, in the kernel's axis order, or a scalar. Statements::

    Assign(dst, op, args, attr)    dst = op(args), see OPS below
    Rebind(dst, src)               a carried value takes its new value
    For(axis, tiled, body)         over all values of an axis, or over its tiles
    Store(output, indices, value, mask)

Operations of Assign::

    const value | size name | index axis       literal; length; the axis's index or tile of indices
    op name | cast dtype                       elementwise; operands were brought to common dimensions by ``align``
    align axes                                 unsqueeze to the dimensions of ``axes`` (a superset)
    permute axes | broadcast axes              reorder dimensions; stretch to full extent
    load tensor | lane axis                    read with 64-bit offsets under a mask; "the lane lies in the axis's range"
    reduce (reducer, axis)                     over one dimension
    dot (precision,)                           a[m, k], b[k, n] (, accumulator[m, n])
    full (axes, value)                         a constant tile
"""

from __future__ import annotations

from dataclasses import dataclass, field

from neptune_verified.ir.expr import Axis, Expr


@dataclass(frozen=True, slots=True)
class Value:
    name: str
    axes: tuple[Axis, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Assign:
    dst: Value
    op: str
    args: tuple[Value, ...] = ()
    attr: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class Rebind:
    dst: Value
    src: Value


@dataclass(slots=True)
class For:
    """``tiled``: ``axis`` is a tile of BLOCK indices in each step; otherwise one index."""

    axis: Axis
    tiled: bool
    body: list[Statement] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Store:
    output: str
    indices: tuple[Value, ...]
    value: Value
    mask: Value | None


Statement = Assign | Rebind | For | Store


def reads(s: Statement) -> tuple[Value, ...]:
    """The values that a statement reads itself (those of a loop's body are the body's)."""
    match s:
        case Assign(args=args):
            return args
        case Rebind(src=src):
            return (src,)
        case Store(indices=indices, value=value, mask=mask):
            return (*indices, value, *((mask,) if mask else ()))
        case For():
            return ()


@dataclass(frozen=True, slots=True)
class OutputTensor:
    name: str
    shape: tuple[Expr, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class TileKernel:
    """One kernel: ``grid`` axes in order, those in ``blocked`` by tiles; every tile dimension has a block size, given
    by ``blocks`` when it is fixed (an axis held whole) and by the tile configuration otherwise."""

    name: str
    grid: tuple[Axis, ...]
    blocked: tuple[Axis, ...]
    order: tuple[Axis, ...]
    blocks: dict[Axis, int]
    streamed: tuple[Axis, ...]
    body: tuple[Statement, ...]
    tensors: tuple[str, ...]
    sizes: tuple[str, ...]
    outputs: tuple[OutputTensor, ...]
    dots: tuple[tuple[Axis, ...], ...]
    widest: tuple[tuple[Axis, ...], ...]


@dataclass(frozen=True, slots=True)
class TileProgram:
    name: str
    kernels: tuple[TileKernel, ...]
    roundings: tuple[str, ...]

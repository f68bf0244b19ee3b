"""Not trusted: HTile, the tile IR. A wrong tile program is refused by O13 (not yet built) and caught by the tests.

A *value* is a tile with one dimension per axis of ``axes``, in the kernel's axis order, or a scalar. Statements::

    Assign(dst, op, args, attr)    dst = op(args), see OPS below
    Rebind(dst, src)               a carried value takes its new value
    Bound(symbol, value)           a scalar integer of loop bounds, or the condition of an If, over sizes, program
                                   indices, scalar values (``symbol_of``), earlier bounds, and the symbols ``first_of``,
                                   ``last_of`` (row of the tile; the first also of a loop's) and ``block_of`` (tile size)
    If(condition, body)            carried values that the body does not rebind, or that it never gets to, stay
    For(axis, tiled, body)         over all values of an axis, or over its tiles, or over those from ``lo`` to ``hi``
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

from neptune_verified.ir.expr import Axis, Expr, Var, subterms, var
from neptune_verified.tile.blocks import Packing


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
    """``tiled``: ``axis`` is a tile of BLOCK indices in each step; otherwise one index. ``lo`` and ``hi``: the first index
    of the first tile and the end, multiples of BLOCK (None: all tiles)."""

    axis: Axis
    tiled: bool
    body: list[Statement] = field(default_factory=list)
    lo: Expr | None = None
    hi: Expr | None = None


@dataclass(frozen=True, slots=True)
class Bound:
    symbol: Var
    value: Expr


@dataclass(slots=True)
class If:
    """``condition`` is the symbol of a Bound."""

    condition: Var
    body: list[Statement] = field(default_factory=list)


def symbol_of(v: Value) -> Var:
    """A scalar value in a Bound."""
    return var(v.name, v.dtype)


def first_of(a: Axis) -> Var:
    """The first index of the program's tile of a blocked axis, or of the loop's tile of the axis that it runs over."""
    return var(f"{a.name}.first", "int32")


def last_of(a: Axis) -> Var:
    """The last index of the program's tile that lies in the axis."""
    return var(f"{a.name}.last", "int32")


def block_of(a: Axis) -> Var:
    return var(f"{a.name}.block", "int32")


@dataclass(frozen=True, slots=True)
class Store:
    output: str
    indices: tuple[Value, ...]
    value: Value
    mask: Value | None


Statement = Assign | Rebind | For | If | Store | Bound


def reads(s: Statement) -> tuple[Value, ...]:
    """The values that a statement reads itself (those of a body are the body's, those of a Bound its symbols)."""
    match s:
        case Assign(args=args):
            return args
        case Rebind(src=src):
            return (src,)
        case Store(indices=indices, value=value, mask=mask):
            return (*indices, value, *((mask,) if mask else ()))
        case For() | If() | Bound():
            return ()


def scalars_of(s: Statement) -> tuple[str, ...]:
    """Names of the scalar values and symbols in a bound or in the ends of a loop."""
    given = {Bound: ("value",), For: ("lo", "hi")}.get(type(s), ())
    ends = [e for e in (getattr(s, name) for name in given) if e is not None]
    return tuple(x.name for e in ends for x in subterms(e) if isinstance(x, Var))


@dataclass(frozen=True, slots=True)
class OutputTensor:
    name: str
    shape: tuple[Expr, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class TileKernel:
    """One kernel: ``grid`` axes in order, those in ``blocked`` by tiles; every tile dimension has a block size, given
    by ``blocks`` when it is fixed (an axis held whole, or packed) and by the tile configuration otherwise."""

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
    packing: Packing | None = None


@dataclass(frozen=True, slots=True)
class Kernels:
    """What computes the outputs of one nest: the rolling update, and where there is one its split-K form: kernels in order,
    the tensors ``between`` them, and the length that is cut (``extent``)."""

    rolling: TileKernel
    split: tuple[TileKernel, ...] = ()
    between: tuple[OutputTensor, ...] = ()
    extent: Expr | None = None

    @property
    def all(self) -> tuple[TileKernel, ...]:
        return (self.rolling, *self.split)


@dataclass(frozen=True, slots=True)
class TileProgram:
    name: str
    kernels: tuple[Kernels, ...]
    roundings: tuple[str, ...]

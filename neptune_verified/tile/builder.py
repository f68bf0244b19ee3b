"""Not trusted: the parts of a tile kernel under construction: scopes, dimensions, emission."""

from __future__ import annotations

from dataclasses import dataclass, field

from neptune_verified.ir.expr import (
    Axis,
    Const,
    Expr,
    Reduce,
    subterms,
)
from neptune_verified.ir.kinds import KindAnalysis
from neptune_verified.ir.loops import Nest, output_expr, term
from neptune_verified.ir.program import Program
from neptune_verified.tile.blocks import blocked_axes, pack, padded
from neptune_verified.tile.contract import Conversions
from neptune_verified.tile.htile import (
    Assign,
    Statement,
    Value,
)

#: An axis of a nested reduction of at most this many elements is held whole; longer or symbolic ones are looped over.
NESTED_LIMIT = 512


@dataclass
class Scope:
    """A statement list and what is known in it. ``axes`` and ``names`` are bound by the loop that opened it."""

    statements: list[Statement]
    axes: frozenset[Axis] = frozenset()
    names: frozenset[str] = frozenset()
    memo: dict[object, Value] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)


class TileBuilder:
    """Axes are brought into the kernel's order; a value goes into the innermost scope that it needs."""

    def __init__(
        self, program: Program, nest: Nest, interpreted: bool, conversions: Conversions, roundings: dict[str, None]
    ) -> None:
        self.program, self.conversions, self.roundings = program, conversions, roundings
        self.nest, self.packing = pack(nest)
        self.interpreted = interpreted
        self.kinds = KindAnalysis(program)
        self.stream_tiles = tuple(dict.fromkeys(p.stream[-1] for p in self.nest.passes if p.stream))
        self.nested, self.looped = self._nested_axes()
        self.blocked = blocked_axes(self.nest, self.nested, self.packing)
        self.scopes = [Scope([])]
        #: First index and end of stream axes of which a program owns a share.
        self.ends: dict[Axis, tuple[Value, Value]] = {}
        self.levels: dict[Expr, int] = {}
        self.counter = 0
        self.tensors: dict[str, None] = {}
        self.sizes: dict[str, None] = {}
        self.dots: dict[tuple[Axis, ...], None] = {}
        self.widest: dict[tuple[Axis, ...], None] = {}
        self.stage = ""
        #: Values that an inserted rounding applies to: every use of them sees the rounded value.
        self.rounded: dict[Expr, str] = {}
        #: Axes none of whose lanes is out of range in the loop that is built.
        self.inside: frozenset[Axis] = frozenset()
        #: What must hold at an element of the stream axis that counts, in the term that is built; None where nothing can
        #: leak from the others.
        self.counts: Expr | None = None
        #: Loads under a mask of the elements that count for some row.
        self.guarded: set[str] = set()

    def _nested_axes(self) -> tuple[dict[Axis, None], dict[Axis, None]]:
        """Axes of the reductions that are computed in place: those held whole, and those looped over."""
        exprs = [e for p in self.nest.passes for c in p.carried for e in (term(self.nest, p, c),)]
        exprs += [output_expr(self.nest, o, p) for p in self.nest.passes for o in p.stores]
        exprs += [output_expr(self.nest, o) for o in self.nest.outputs]
        axes = dict.fromkeys(a for e in exprs for x in subterms(e) if isinstance(x, Reduce) for a in x.axes)
        return {a: None for a in axes if self.whole(a)}, {a: None for a in axes if not self.whole(a)}

    def order(self) -> tuple[Axis, ...]:
        """The kernel's dimension order: rows, stream, whole axes, axes of nested reductions."""
        return tuple(dict.fromkeys((*self.blocked, *self.stream_tiles, *self.nest.inner, *self.nested, *self.looped)))

    def whole(self, a: Axis) -> bool:
        return isinstance(a.extent, Const) and a.extent.value <= NESTED_LIMIT

    def note(self, text: str) -> None:
        """List a float rounding that is inserted or moved, once."""
        self.roundings[f"{self.stage}: {text}"] = None

    def lower(self, e: Expr) -> Value:
        raise NotImplementedError("TileExpressions lowers expressions")

    def elementwise(self, name: str, values: tuple[Value, ...], dtype: str) -> Value:
        axes = self.sorted(tuple(dict.fromkeys(a for v in values for a in v.axes)))
        self.note_width(axes)
        aligned = tuple(self.align(v, axes) for v in values)
        return self.assign("op", aligned, dtype, axes=axes, attr=(name,))

    def cast(self, v: Value, dtype: str) -> Value:
        if v.dtype == dtype:
            return v
        return self.assign("cast", (v,), dtype, axes=v.axes, attr=(dtype,))

    def lane(self, a: Axis) -> Value:
        """The lanes of ``a`` that lie in its range, or in the program's share of it."""
        end = self.ends[a][1] if a in self.ends else self.lower(a.extent)
        return self.elementwise("lt", (self.lower(a), end), "bool")

    def lanes(self, axes: tuple[Axis, ...]) -> Value | None:
        """The lanes that lie in the range of every one of the axes; None where all do."""
        mask: Value | None = None
        for a in axes:
            if not self.exact(a):
                mask = self.both(mask, self.lane(a))
        return mask

    def both(self, a: Value | None, b: Value) -> Value:
        return b if a is None else self.elementwise("and", (a, b), "bool")

    def some_row_counts(self, k: Axis) -> Value | None:
        """The lanes of ``k`` whose element counts for some row of the tile that there is."""
        if self.counts is None or k not in self.counts.free:
            return None
        alive = self.lower(self.counts)
        for a in [a for a in alive.axes if a is not k]:
            if not self.exact(a):
                alive = self.both(alive, self.lane(a))
            rest = tuple(x for x in alive.axes if x is not a)
            alive = self.assign("reduce", (alive,), "bool", axes=rest, attr=("any", alive.axes.index(a)))
        return alive

    def is_tile(self, a: Axis) -> bool:
        return (
            a in self.blocked or a in self.stream_tiles or a in self.nest.inner or a in self.nested or a in self.looped
        )

    def cut(self, a: Axis) -> bool:
        """The axis is cut into tiles, or packed into one."""
        return a in self.blocked or a in self.stream_tiles or a in self.looped

    def exact(self, a: Axis) -> bool:
        """No lane of the axis's tiles is ever out of range (here)."""
        if a in self.inside:
            return True
        if self.cut(a):
            return False
        return isinstance(a.extent, Const) and padded(a) == a.extent.value

    def sorted(self, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        order = {a: k for k, a in enumerate(self.order())}
        return tuple(sorted((a for a in axes if a in order), key=lambda a: order[a]))

    def align(self, v: Value, axes: tuple[Axis, ...]) -> Value:
        if v.axes == axes or not v.axes:
            return v
        return self.assign("align", (v,), v.dtype, axes=axes, attr=(v.axes,))

    def broadcast(self, v: Value, axes: tuple[Axis, ...]) -> Value:
        if v.axes == axes:
            return v
        if set(v.axes) == set(axes):
            return self.permute(v, axes)
        ordered = self.sorted(axes)
        full = self.assign("broadcast", (self.align(v, ordered),), v.dtype, axes=ordered, attr=())
        return self.permute(full, axes)

    def permute(self, v: Value, axes: tuple[Axis, ...]) -> Value:
        if v.axes == axes:
            return v
        return self.assign("permute", (v,), v.dtype, axes=axes, attr=(tuple(v.axes.index(a) for a in axes),))

    def note_width(self, axes: tuple[Axis, ...]) -> None:
        self.widest[axes] = None

    def fresh(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}%{self.counter}"  # no user's name has this sign

    def scope_of(self, args: tuple[Value, ...], attr: tuple[object, ...]) -> Scope:
        """The innermost scope that defines one of the arguments."""
        level = 0
        for k, scope in enumerate(self.scopes):
            inside = any(x.name in scope.defined or x.name in scope.names for x in args)
            if inside or any(x in scope.axes for x in attr if isinstance(x, Axis)):
                level = k
        return self.scopes[level]

    def assign(
        self,
        op_name: str,
        args: tuple[Value, ...],
        dtype: str,
        axes: tuple[Axis, ...] = (),
        attr: tuple[object, ...] = (),
        scope: Scope | None = None,
    ) -> Value:
        scope = scope or self.scope_of(args, attr)
        key = (op_name, args, dtype, axes, attr)
        if key not in scope.memo:
            stem = {"load": f"{attr[0]}_tile" if attr else "", "dot": "dot"}.get(op_name, "t")
            scope.memo[key] = self.emit(Value(self.fresh(stem), axes, dtype), op_name, args, attr, scope)
        return scope.memo[key]

    def emit(self, dst: Value, op_name: str, args: tuple[Value, ...], attr: tuple[object, ...], scope: Scope) -> Value:
        scope.statements.append(Assign(dst, op_name, args, attr))
        scope.defined.add(dst.name)
        return dst

    def top_assign(self, dst: Value, op_name: str, attr: tuple[object, ...]) -> None:
        self.scopes[0].statements.append(Assign(dst, op_name, (), attr))

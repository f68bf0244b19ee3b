"""Not trusted: expressions as TensorIR statements, each subexpression once, in the outermost loop that allows it.

Statements are collected in a stack of scopes, one per open loop. An expression belongs to the outermost scope in which
its axes are bound and the carried values that it reads are final; there its value is bound to a variable, and every
later use finds that variable. Evaluation is total (a read out of range gives NaN, or 0 for integers; so does integer
division by zero), so moving it out of a loop, or from a branch to a loop outside, cannot fail. Branches of a select
that hold a reduction become an ``if``, so that what is masked is not computed; other selects are an instruction.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tvm import tirx

from neptune_verified.errors import UnsupportedProgram
from neptune_verified.ir.expr import (
    FLOATS,
    REDUCERS,
    Axis,
    Const,
    Expr,
    Op,
    Read,
    Reduce,
    Size,
    Var,
    children,
    subterms,
)
from neptune_verified.targets import tir_scalar as scalar
from neptune_verified.targets.tir_scalar import Prim, number


@dataclass(eq=False)
class Scope:
    """A loop body, or a branch (``conditional``). ``lane``: the position in its tile of the loop over a tile."""

    axes: dict[Axis, Prim] = field(default_factory=dict)
    stmts: list[Prim] = field(default_factory=list)
    memo: dict[tuple[Expr, bool], Prim] = field(default_factory=dict)
    conditional: bool = False
    lane: Prim = None


@dataclass(eq=False)
class Slot:
    """A local buffer over ``axes``, in registers of ``dtype``, that is constant while ``home`` is open."""

    buffer: Prim
    axes: tuple[Axis, ...]
    dtype: str
    home: Scope
    raw: bool = False  # an accumulator itself: not rounded to its 16-bit type when it is read
    tiled: bool = False  # one copy for each element of the tile


@dataclass(frozen=True)
class Array:
    """A tensor in memory: a flat buffer and its lengths."""

    buffer: Prim
    shape: tuple[Expr, ...]
    dtype: str


def product(values: Iterable[Prim]) -> Prim:
    result = None
    for v in values:
        result = v if result is None else tirx.Mul(result, v)
    return number(1, "int64") if result is None else result


def sequence(stmts: list[Prim]) -> Prim:
    return tirx.SeqStmt(stmts) if len(stmts) > 1 else stmts[0]


class Emitter:
    def __init__(self, arrays: dict[str, Array], sizes: dict[str, Prim], roots: Iterable[Expr]) -> None:
        self.arrays, self.sizes = arrays, sizes
        self.stack = [Scope()]
        self.slots: dict[str, Slot] = {}
        self.tile_slots: dict[Expr, Slot] = {}
        self.names: dict[str, int] = {}
        self.half: dict[Expr, bool] = {}
        self.uses: dict[Expr, int] = {}
        for e in {x: None for root in roots for x in subterms(root)}:
            for k in children(e):
                self.uses[k] = self.uses.get(k, 0) + 1

    # -- statements ------------------------------------------------------------------------------------------

    @property
    def top(self) -> Scope:
        return self.stack[-1]

    def emit(self, stmt: Prim) -> None:
        self.top.stmts.append(stmt)

    def name(self, wanted: str) -> str:
        base = re.sub(r"\W", "_", wanted)
        self.names[base] = self.names.get(base, 0) + 1
        return base if self.names[base] == 1 else f"{base}_{self.names[base]}"

    def let(self, value: Prim, name: str) -> Prim:
        """A variable for an integer of the loop structure."""
        if isinstance(value, (tirx.Var, tirx.IntImm)):
            return value
        variable = tirx.Var(self.name(name), "int64")
        self.emit(tirx.Bind(variable, value))
        return variable

    def bind(self, value: Prim, dtype: str, name: str = "value") -> Prim:
        """The value of an expression, kept for later uses: in a buffer of one element, which LLVM makes a register.

        TVM's lowering analyses the values of variables as integers, and fails on some floats."""
        if isinstance(value, (tirx.Var, tirx.IntImm, tirx.FloatImm)):
            return value
        slot = Slot(self.allocate(name, dtype, number(1, "int64")), (), dtype, self.top)
        self.put(slot, value)
        return self.get(slot)

    def allocate(self, name: str, dtype: str, length: Prim) -> Prim:
        kind = scalar.storage(scalar.register(dtype))
        buffer = tirx.decl_buffer([length], kind, self.name(name))  # small "local" ones are not put on the stack
        self.emit(tirx.AllocBuffer(buffer))
        return buffer

    @contextmanager
    def loop(self, name: str, extent: Prim, kind: Prim = tirx.ForKind.SERIAL) -> Iterator[Prim]:
        variable = tirx.Var(self.name(name), "int64")
        self.stack.append(Scope())
        yield variable
        body = self.stack.pop().stmts
        if body:
            self.emit(tirx.For(variable, number(0, "int64"), extent, kind, sequence(body)))

    @contextmanager
    def loops(self, axes: Iterable[Axis]) -> Iterator[None]:
        """A nest of serial loops, one per axis, over its whole range."""
        todo = tuple(axes)
        if not todo:
            yield
            return
        with self.loop(todo[0].name, self.extent(todo[0])) as variable:
            self.top.axes[todo[0]] = variable
            with self.loops(todo[1:]):
                yield

    @contextmanager
    def branch(self) -> Iterator[Scope]:
        scope = Scope(conditional=True)
        self.stack.append(scope)
        yield scope
        self.stack.pop()

    @contextmanager
    def within(self, depth: int) -> Iterator[None]:
        """Work in an outer scope: what is emitted comes after its statements so far, before the loops open in it."""
        saved = self.stack
        self.stack = saved[: depth + 1]
        yield
        self.stack = saved

    # -- carried values --------------------------------------------------------------------------------------

    def offset(self, slot: Slot) -> Prim:
        """The position in a slot's buffer at the current axes."""
        position = next((s.lane for s in reversed(self.stack) if s.lane is not None), None) if slot.tiled else None
        for a in slot.axes:
            here = self.axis(a)
            position = here if position is None else tirx.Add(tirx.Mul(position, self.extent(a)), here)
        return number(0, "int64") if position is None else position

    def get(self, slot: Slot) -> Prim:
        value = tirx.BufferLoad(slot.buffer, [self.offset(slot)])
        return scalar.loaded(value, "bool") if slot.dtype == "bool" else value

    def put(self, slot: Slot, value: Prim) -> None:
        value = scalar.stored(value, "bool") if slot.dtype == "bool" else value
        self.emit(tirx.BufferStore(slot.buffer, value, [self.offset(slot)]))

    # -- expressions -----------------------------------------------------------------------------------------

    def axis(self, a: Axis) -> Prim:
        return next(s.axes[a] for s in reversed(self.stack) if a in s.axes)

    def extent(self, a: Axis) -> Prim:
        """The number of steps along an axis: a literal where it is known, never negative in use."""
        return self.lower(a.extent)

    def depth(self, e: Expr) -> int:
        """Index of the scope to which ``e`` belongs."""
        result = 0
        for x in subterms(e):
            if isinstance(x, Var):
                result = max(result, self.stack.index(self.slots[x.name].home))
            slot = self.tile_slots.get(x)
            if slot is not None:
                result = max(result, self.stack.index(slot.home))
        for a in e.free:
            result = max(result, next(k for k in range(len(self.stack) - 1, -1, -1) if a in self.stack[k].axes))
        while result + 1 < len(self.stack) and self.stack[result + 1].conditional:
            result += 1
        return result

    def lower(self, e: Expr, wide: bool = False) -> Prim:
        """The value of ``e`` in a register. ``wide``: 16-bit operations are not rounded (for repairs)."""
        match e:
            case Const():
                return scalar.literal(e)
            case Axis():
                return self.axis(e)
            case Size(name):
                return self.sizes[name]
            case _:
                pass
        wide = wide and self._has_half(e)
        for scope in self.stack:
            if (e, wide) in scope.memo:
                return scope.memo[e, wide]
        depth = self.depth(e)
        inline = depth == len(self.stack) - 1 and self.uses.get(e, 0) <= 1 and not isinstance(e, Reduce)
        with self.within(depth):
            value = self._value(e, wide)
            if not inline:
                value = self.bind(value, e.dtype)
            self.top.memo[e, wide] = value
        return value

    def _value(self, e: Expr, wide: bool) -> Prim:
        if e in self.tile_slots:
            return self.get(self.tile_slots[e])
        match e:
            case Var(name, dtype):
                slot = self.slots[name]
                value = self.get(slot)
                return value if slot.raw else self._rounded(value, dtype)
            case Read():
                return self._read(e)
            case Op("select", (cond, x, y)) if self._costly(x) or self._costly(y):
                return self._if(e, cond, x, y, wide)
            case Op(name, args, dtype):
                values = [self.lower(a, wide) for a in args]
                if name in scalar.SEVERAL:
                    values = [self.bind(v, a.dtype) for v, a in zip(values, args, strict=True)]
                value = scalar.operation(name, dtype, values, [a.dtype for a in args])
                return value if wide or name == "select" else self._rounded(value, dtype)
            case Reduce():
                return self._reduce(e)
            case _:
                raise UnsupportedProgram(type(e).__name__, why="the llvm target cannot evaluate it")

    def _has_half(self, e: Expr) -> bool:
        if e not in self.half:
            self.half[e] = any(x.dtype in scalar.HALVES for x in subterms(e))
        return self.half[e]

    def _rounded(self, value: Prim, dtype: str) -> Prim:
        return scalar.rounded(self.bind(value, "float32"), dtype) if dtype in scalar.HALVES else value

    def _read(self, e: Read) -> Prim:
        array = self.arrays[e.tensor]
        indices = [self.lower(i) for i in e.indices]
        position, outside = self.flat(indices, array.shape), []
        for given, at, length in zip(e.indices, indices, array.shape, strict=True):
            if not _inside(given, length):
                outside.append((at, self.lower(length)))
        if not outside:
            return scalar.loaded(tirx.BufferLoad(array.buffer, [position]), array.dtype)
        inside = number(1, "bool")
        for at, length in outside:
            here = tirx.And(tirx.GE(at, number(0, "int64")), tirx.LT(at, length))
            inside = tirx.And(inside, here)
        inside = self.bind(inside, "bool", "inside")
        position = tirx.Select(inside, position, number(0, "int64"))
        value = scalar.loaded(tirx.BufferLoad(array.buffer, [position]), array.dtype)
        kind = scalar.register(array.dtype)
        return tirx.Select(inside, value, number(math.nan if kind in FLOATS else 0, kind))

    def flat(self, indices: Iterable[Prim], shape: Iterable[Expr]) -> Prim:
        """Row-major offset, in 64 bits."""
        position = None
        for at, length in zip(indices, shape, strict=True):
            position = at if position is None else tirx.Add(tirx.Mul(position, self.lower(length)), at)
        return number(0, "int64") if position is None else position

    def _costly(self, branch: Expr) -> bool:
        """Would the branch evaluate a reduction here, that is neither known nor moved to an outer loop?"""
        known = any((branch, w) in s.memo for s in self.stack for w in (False, True)) or branch in self.tile_slots
        if known or isinstance(branch, (Const, Axis, Size)):
            return False
        if isinstance(branch, Reduce):
            return self.depth(branch) == len(self.stack) - 1
        return any(self._costly(k) for k in children(branch))

    def _if(self, e: Expr, cond: Expr, x: Expr, y: Expr, wide: bool) -> Prim:
        slot = Slot(self.allocate("chosen", e.dtype, number(1, "int64")), (), e.dtype, self.top)
        test = self.lower(cond, wide)
        sides = []
        for side in (x, y):
            with self.branch() as scope:
                self.put(slot, scalar.convert(self.lower(side, wide), *map(scalar.register, (side.dtype, e.dtype))))
            sides.append(sequence(scope.stmts))
        self.emit(tirx.IfThenElse(test, *sides))
        return self.get(slot)

    def _reduce(self, e: Reduce) -> Prim:
        slot = Slot(self.allocate("acc", e.dtype, number(1, "int64")), (), e.dtype, self.top)
        self.put(slot, self.lower(REDUCERS[e.reducer].neutral(e.dtype)))
        with self.loops(e.axes):
            self.accumulate(slot, e.reducer, self.lower(e.body))
        return self._rounded(self.get(slot), e.dtype)

    def accumulate(self, slot: Slot, reducer: str, value: Prim) -> None:
        operands = self.get(slot), value
        if reducer == "logaddexp":
            operands = self.bind(operands[0], slot.dtype), self.bind(operands[1], slot.dtype)
        self.put(slot, scalar.combine(reducer, slot.dtype, *operands))


def _inside(index: Expr, length: Expr) -> bool:
    """Is ``0 <= index < length`` plain to see?"""
    if isinstance(index, Axis):
        extent = index.extent
        both = isinstance(extent, Const) and isinstance(length, Const)
        return extent is length or (both and int(extent.value) <= int(length.value))  # type: ignore[attr-defined]
    return isinstance(index, Const) and isinstance(length, Const) and 0 <= int(index.value) < int(length.value)

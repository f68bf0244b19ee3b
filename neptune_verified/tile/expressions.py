"""Not trusted: expressions, loads, reductions and contractions as tiles.

Placement: a value is computed in the outermost scope in which everything that it reads is known, so loop-invariant tiles
are loaded once. A scope is the kernel's top level, a loop over stream tiles, or the loop of a nested reduction.
"""

from __future__ import annotations

from itertools import pairwise

from neptune_verified.errors import UnsupportedProgram
from neptune_verified.ir.expr import (
    INF,
    INTS,
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
    const,
    subterms,
)
from neptune_verified.ir.kinds import NONNEGATIVE, in_range
from neptune_verified.ir.loops import wide
from neptune_verified.tile.blocks import padded
from neptune_verified.tile.builder import Scope, TileBuilder
from neptune_verified.tile.contract import SIXTEEN, Contraction, find_contraction
from neptune_verified.tile.htile import (
    For,
    Rebind,
    Value,
)

TRANSCENDENTAL = ("exp", "exp2", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "pow", "div")


class TileExpressions(TileBuilder):
    """Lowers expressions; one instance per kernel."""

    #: A mask that loads take in addition; ``shared``: every use of a load in this loop may see it.
    alive: Value | None = None
    shared = True

    def level(self, e: Expr) -> int:
        """Index of the innermost scope that ``e`` needs."""
        if e not in self.levels:
            level = 0
            for k, scope in enumerate(self.scopes):
                if (e.free & scope.axes) or (isinstance(e, Var) and e.name in scope.names):
                    level = k
            self.levels[e] = max([level, *(self.level(x) for x in children(e))])
            if isinstance(e, Reduce | Axis):
                own = [k for k, s in enumerate(self.scopes) if e.free & s.axes]
                inner = [self._var_level(x) for x in subterms(e) if isinstance(x, Var)]
                self.levels[e] = max([0, *own, *inner])
        return self.levels[e]

    def _var_level(self, v: Var) -> int:
        return max([0, *(k for k, s in enumerate(self.scopes) if v.name in s.names)])

    def lower(self, e: Expr) -> Value:
        scope = self.scopes[self.level(e)]
        if e in scope.memo:
            return scope.memo[e]
        value = self._lower(e, scope)
        if e in self.rounded:
            scope.memo["narrow", e] = self.cast(value, self.rounded[e])
            value = self.cast(scope.memo["narrow", e], e.dtype)
        scope.memo[e] = value
        return value

    def narrow(self, e: Expr, dtype: str) -> Value:
        """``e`` as an operand of type ``dtype``: without a widening, or in its rounded form."""
        value = self.lower(without_widening(e, dtype))
        return self.scopes[self.level(e)].memo.get(("narrow", e), value)

    def _lower(self, e: Expr, scope: Scope) -> Value:
        match e:
            case Const(value, dtype):
                return self.assign("const", (), dtype, attr=(value,), scope=scope)
            case Size(name, dtype):
                self.sizes[name] = None
                return self.assign("size", (), dtype, attr=(name,), scope=scope)
            case Axis():
                axes = (e,) if self.is_tile(e) else ()
                return self.assign("index", (), "int32", axes=axes, attr=(e,), scope=scope)
            case Var(name, dtype, axes):
                stored = Value(name, self.sorted(axes), wide(dtype))
                return self.cast(stored, dtype)
            case Read():
                return self.load(e, scope)
            case Reduce():
                return self.nested_reduce(e)
            case Op("cast", (x,), dtype):
                return self.cast(self.lower(x), dtype)
            case Op(name, args, dtype):
                return self.operation(name, args, dtype)
            case _:
                raise TypeError(f"no tile form for {type(e).__name__}")

    def operation(self, name: str, args: tuple[Expr, ...], dtype: str) -> Value:
        if name == "round":
            raise UnsupportedProgram("round", self.stage, None, "there is no tile code for it yet; use floor(x + 0.5)")
        values = tuple(self.lower(a) for a in args)
        if name == "pow" and isinstance(args[1], Const):
            name, values = f"pow:{args[1].value}", values[:1]
        if name in ("floordiv", "floormod") and dtype in INTS and all(self.kinds.of(a) <= NONNEGATIVE for a in args):
            name += ":nonnegative"
        own = name.split(":")[0]
        if dtype in SIXTEEN and own in TRANSCENDENTAL:
            self.note(f"{own} of {dtype} is computed in float32 and rounded once")
        elif not any(v.dtype == "bfloat16" for v in values) or own == "select":
            return self.elementwise(name, values, dtype)
        # bfloat16 arithmetic through float32 gives the same values (24 >= 2 * 8 + 2 bits), on every target.
        wide = tuple(self.cast(v, "float32") if v.dtype in SIXTEEN else v for v in values)
        result = self.elementwise(name, wide, "float32" if dtype in SIXTEEN else dtype)
        return self.cast(result, dtype)

    def load(self, e: Read, scope: Scope) -> Value:
        self.tensors[e.tensor] = None
        shape = self.program.tensor(e.tensor).shape
        indices = tuple(self.lower(i) for i in e.indices)
        axes = self.sorted(tuple(dict.fromkeys(a for v in indices for a in v.axes)))
        self.note_width(axes)
        mask = self.lanes(axes)
        for expr, value, extent in zip(e.indices, indices, shape, strict=True):
            if not (isinstance(expr, Axis) and expr.extent is extent):
                for test in self._bounds(expr, value, extent):
                    mask = self.both(mask, test)
        if self.alive is not None and set(self.alive.axes) <= set(axes):
            mask = self.both(mask, self.alive)
        aligned = tuple(self.align(v, axes) for v in indices)
        args = (*aligned, *((self.align(mask, axes),) if mask else ()))
        result = self.assign("load", args, e.dtype, axes=axes, attr=(e.tensor, len(indices)), scope=scope)
        if self.alive is not None:
            self.guarded.add(result.name)
        return result

    def _bounds(self, expr: Expr, value: Value, extent: Expr) -> list[Value]:
        if in_range(expr, extent):
            return []
        tests = [self.elementwise("lt", (value, self.lower(extent)), "bool")]
        if not self.kinds.of(expr) <= NONNEGATIVE:
            tests.append(self.elementwise("ge", (value, self.lower(const(0, "int32"))), "bool"))
        return tests

    def combine(self, reducer: str, a: Value, b: Value) -> Value:
        name = {"sum": "add", "prod": "mul", "any": "or", "all": "and"}.get(reducer, reducer)
        return self.elementwise(name, (a, b), a.dtype)

    def nested_reduce(self, e: Reduce) -> Value:
        """A reduction in place: whole axes by tile reductions, others by a loop with an accumulator."""
        looped = [a for a in e.axes if not self.whole(a)]
        whole = [a for a in e.axes if a not in looped]
        if not looped:
            return self._reduce_axes(e.reducer, tuple(whole), e.body, e.dtype)
        return self._looped_reduce(e, looped, tuple(whole))

    def _reduce_axes(self, reducer: str, axes: tuple[Axis, ...], body: Expr, dtype: str) -> Value:
        """Over whole axes: the last one by a contraction if possible, the others one by one."""
        if len(axes) == 1:
            contraction = self.contraction(reducer, axes[0], body)
            if contraction is not None:
                return self.cast(
                    self.permute(self.dot(contraction, None), self.sorted((contraction.m, contraction.n))), dtype
                )
        return self.cast(self.reduce_tile(reducer, axes[-1], body, axes[:-1]), dtype)

    def _looped_reduce(self, e: Reduce, looped: list[Axis], whole: tuple[Axis, ...]) -> Value:
        level = self.level(e)
        hidden, self.scopes = self.scopes[level + 1 :], self.scopes[: level + 1]
        last = looped[-1]
        free = self.sorted(tuple(a for a in _tile_axes(e, self)))
        acc = Value(self.fresh("acc"), free, wide(e.dtype))
        self.emit(acc, "full", (), (number_of(REDUCERS[e.reducer].neutral(e.dtype)),), self.scopes[-1])
        loops = [For(a, a is last) for a in looped]
        for outer, loop in pairwise(loops):
            outer.body.append(loop)
        self.scopes.append(Scope(loops[-1].body, frozenset(looped), frozenset({acc.name})))
        self.levels.clear()
        contraction = self.contraction(e.reducer, last, e.body) if not whole else None
        if contraction is not None:
            dims = (contraction.m, contraction.n)
            new = self.permute(self.dot(contraction, self.permute(acc, dims)), acc.axes)
        else:
            local = self.cast(self.reduce_tile(e.reducer, last, e.body, whole), acc.dtype)
            new = self.broadcast(self.combine(e.reducer, acc, local), acc.axes)
        loops[-1].body.append(Rebind(acc, new))
        self.scopes.pop()
        self.scopes[-1].statements.append(loops[0])
        self.scopes += hidden
        self.levels.clear()
        return self.cast(acc, e.dtype)

    def reduce_tile(self, reducer: str, axis: Axis, body: Expr, more: tuple[Axis, ...] = ()) -> Value:
        """Reduce ``body`` over the lanes of ``axis`` (and ``more``); lanes out of range get the neutral element."""
        value = self.lower(body)
        dtype = value.dtype
        value = self.cast(value, wide(dtype))
        if self.counts is not None and axis in self.counts.free:
            fill = self.assign("const", (), value.dtype, attr=(number_of(REDUCERS[reducer].neutral(dtype)),))
            value = self.elementwise("select", (self.lower(self.counts), value, fill), value.dtype)
        for a in (axis, *more):
            value = self._reduce_one(reducer, a, value, dtype)
        return value

    def extreme(self, reducer: str, e: Expr) -> Value:
        """The greatest or least of the lanes of a tile of integers that lie in range, with a name that says so."""
        value = self.lower(e)
        for a in value.axes:
            value = self._reduce_one(reducer, a, value, value.dtype)
        scope, key = self.scope_of((value,), ()), ("extreme", reducer, e)
        if key not in scope.memo:
            stem = e.tensor if isinstance(e, Read) else "t"
            name = Value(self.fresh(f"{stem}_{reducer}"), (), value.dtype)
            scope.memo[key] = self.emit(name, "op", (value,), ("copy",), scope)
        return scope.memo[key]

    def _reduce_one(self, reducer: str, a: Axis, value: Value, dtype: str) -> Value:
        axes = self.sorted(tuple(dict.fromkeys((*value.axes, a))))
        value = self.broadcast(value, axes)
        self.note_width(axes)
        if not self.exact(a):
            neutral = REDUCERS[reducer].neutral(dtype)
            fill = self.assign("const", (), value.dtype, attr=(number_of(neutral),))
            lane = self.align(self.lane(a), axes)
            value = self.assign("op", (lane, value, fill), value.dtype, axes=axes, attr=("select",))
        rest = tuple(x for x in axes if x is not a)
        return self.assign("reduce", (value,), value.dtype, axes=rest, attr=(reducer, axes.index(a)))

    def contraction(self, reducer: str, k: Axis, body: Expr) -> Contraction | None:
        if reducer != "sum" or body.dtype == "float64":
            return None
        found = find_contraction(body, k, self.is_tile, self.conversions.strict)
        if found is not None and not all(self.wide_enough(a) for a in (found.m, k, found.n)):
            return None
        return found

    def carried_contraction(self, reducer: str, k: Axis, body: Expr) -> Contraction | None:
        """Of a sum that the loop carries: an operand may be taken as two numbers."""
        found = self.contraction(reducer, k, body)
        if found is None or not self.conversions.doubles(self.lane_count(found.rows)):
            return found
        return found.doubled(body)

    def lane_count(self, a: Axis) -> int | None:
        """Lanes of a whole or packed axis; None for one that is cut into tiles."""
        if self.packing is not None and a is self.packing.axis:
            return self.packing.lanes
        return None if self.cut(a) else padded(a)

    def wide_enough(self, a: Axis) -> bool:
        """At least 16 lanes: cut axes always get blocks of 16 or more where they are part of a dot."""
        return self.cut(a) or padded(a) >= 16

    def dot(self, c: Contraction, acc: Value | None) -> Value:
        for text in c.roundings:
            self.note(text)
        self.dots[(c.m, c.k, c.n)] = None
        self.note_width((c.m, c.n))
        for part in ("high", "low") if c.twice else ("",):
            a = self._operand(c.a, c.a_dtype, (c.m, c.k), c.k, c.a_is_load, part if c.rows is c.m else "")
            b = self._operand(c.b, c.b_dtype, (c.k, c.n), c.k, c.b_is_load, part if c.rows is c.n else "")
            args = (a, b) if acc is None else (a, b, acc)
            acc = self.assign("dot", args, "float32", axes=(c.m, c.n), attr=("ieee",), scope=None)
        assert acc is not None
        return acc

    def _operand(self, e: Expr, dtype: str, dims: tuple[Axis, Axis], k: Axis, is_load: bool, part: str) -> Value:
        """An operand with dimensions ``dims``; lanes of ``k`` out of range are 0 (a masked load gives 0 already).

        So are those that count for no row, in an operand that has no rows: 0 times what stands there may be NaN."""
        masked = frozenset() if self.counts is None else self.counts.free
        alive = None if masked & (set(dims) - {k}) else self.some_row_counts(k)
        self.alive = alive if is_load and self.shared else None
        loaded = self._half(e, dtype, part) if part else self.narrow(e, dtype)
        self.alive = None
        value = self.broadcast(loaded, self.sorted(dims))
        if alive is not None and loaded.name not in self.guarded:
            zero = self.assign("const", (), value.dtype, attr=(const(0, value.dtype).value,))
            value = self.elementwise("select", (alive, value, zero), value.dtype)
        if self.interpreted and dtype == "bfloat16":  # products of bfloat16 numbers are exact in float32
            dtype = "float32"
            value = self.cast(self.cast(value, "bfloat16"), dtype)
        if not is_load and not self.exact(k):
            zero = self.assign("const", (), value.dtype, attr=(const(0, value.dtype).value,))
            lane = self.align(self.lane(k), value.axes)
            value = self.assign("op", (lane, value, zero), value.dtype, axes=value.axes, attr=("select",))
        return self.permute(self.cast(value, dtype), dims)

    def _half(self, e: Expr, dtype: str, part: str) -> Value:
        """The nearest number of type ``dtype``, or what it leaves: 0 where it overflows, so that infinities stay."""
        value = self.lower(e)
        high = self.cast(value, dtype)
        if part == "high":
            return high
        near = self.cast(high, value.dtype)
        infinite, zero = (self.lower(const(x, value.dtype)) for x in (INF, 0))
        finite = self.elementwise("lt", (self.elementwise("abs", (near,), value.dtype), infinite), "bool")
        rest = self.elementwise("sub", (value, near), value.dtype)
        return self.cast(self.elementwise("select", (finite, rest, zero), value.dtype), dtype)


def without_widening(e: Expr, dtype: str) -> Expr:
    return e.args[0] if isinstance(e, Op) and e.name == "cast" and e.args[0].dtype == dtype else e


def number_of(e: Expr) -> object:
    assert isinstance(e, Const)
    return e.value


def _tile_axes(e: Reduce, kernel: TileExpressions) -> list[Axis]:
    bound = set(e.axes)
    axes = {a for a in e.free if kernel.is_tile(a)}
    axes |= {a for x in subterms(e) if isinstance(x, Var) for a in x.axes if kernel.is_tile(a)}
    return [a for a in axes if a not in bound]

"""Not trusted: from a verified loop program to tiles (loop-scalar IR to HTile, Neptune section 5).

The four steps: the nests are given; scalar accesses become tile accesses with offsets and masks (``access``); operands
get their axes in the kernel's order and are unsqueezed or permuted to match (``_align``); sums of products with both
operands at least 16 wide become ``dot`` (``contract``).

Placement: a value is computed in the outermost scope in which everything that it reads is known, so loop-invariant tiles
are loaded once. A scope is the kernel's top level, a loop over stream tiles, or the loop of a nested reduction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from neptune_verified.errors import UnsupportedProgram
from neptune_verified.ir.expr import (
    FLOATS,
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
    contains,
    substitute,
    subterms,
    transform,
    var,
)
from neptune_verified.ir.kinds import NONNEGATIVE, KindAnalysis
from neptune_verified.ir.loops import Carried, Nest, Output, Pass, T, output_expr, step, term
from neptune_verified.ir.program import Program
from neptune_verified.proofs.kernel import VerifiedProgram
from neptune_verified.tile.blocks import blocked_axes, padded
from neptune_verified.tile.contract import Contraction, find_contraction
from neptune_verified.tile.htile import (
    Assign,
    For,
    OutputTensor,
    Rebind,
    Statement,
    Store,
    TileKernel,
    TileProgram,
    Value,
)

#: An axis of a nested reduction of at most this many elements is held whole; longer or symbolic ones are looped over.
NESTED_LIMIT = 512
SIXTEEN = ("float16", "bfloat16")


@dataclass
class Scope:
    """A statement list and what is known in it. ``axes`` and ``names`` are bound by the loop that opened it."""

    statements: list[Statement]
    axes: frozenset[Axis] = frozenset()
    names: frozenset[str] = frozenset()
    memo: dict[object, Value] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)


def lower(verified: VerifiedProgram, target: str = "", strict_rounding: bool = False) -> TileProgram:
    """The tile program; ``target`` matters only where Triton's interpreter lacks bfloat16 arithmetic.

    Raises UnsupportedProgram, naming the construct, where a program has no tile form."""
    loops = verified.loops
    roundings: dict[str, None] = {}
    kernels = tuple(
        _Kernel(loops.program, nest, target == "interpret", strict_rounding, roundings).build() for nest in loops.nests
    )
    return TileProgram(loops.program.name, kernels, tuple(roundings))


class _Kernel:
    def __init__(
        self, program: Program, nest: Nest, interpreted: bool, strict: bool, roundings: dict[str, None]
    ) -> None:
        self.program, self.nest, self.strict, self.roundings = program, nest, strict, roundings
        self.interpreted = interpreted
        self.kinds = KindAnalysis(program)
        self.blocked = blocked_axes(nest)
        self.stream_tiles = tuple(dict.fromkeys(p.stream[-1] for p in nest.passes if p.stream))
        self.nested, self.looped = self._nested_axes()
        self.scopes = [Scope([])]
        self.levels: dict[Expr, int] = {}
        self.counter = 0
        self.tensors: dict[str, None] = {}
        self.sizes: dict[str, None] = {}
        self.dots: dict[tuple[Axis, ...], None] = {}
        self.widest: dict[tuple[Axis, ...], None] = {}
        self.stage = ""
        #: Values that an inserted rounding applies to: every use of them sees the rounded value.
        self.rounded: dict[Expr, str] = {}

    # -- kernel --------------------------------------------------------------------------------------------

    def _nested_axes(self) -> tuple[dict[Axis, None], dict[Axis, None]]:
        """Axes of the reductions that are computed in place: those held whole, and those looped over."""
        exprs = [e for p in self.nest.passes for c in p.carried for e in (term(self.nest, p, c),)]
        exprs += [output_expr(self.nest, o, p) for p in self.nest.passes for o in p.stores]
        exprs += [output_expr(self.nest, o) for o in self.nest.outputs]
        axes = dict.fromkeys(a for e in exprs for x in subterms(e) if isinstance(x, Reduce) for a in x.axes)
        return {a: None for a in axes if self.whole(a)}, {a: None for a in axes if not self.whole(a)}

    def build(self) -> TileKernel:
        for h in self.nest.hoists:
            self.stage = h.name
            producers = [x for x in subterms(h.template) if isinstance(x, Reduce)]
            if any(_narrowing(x) and contains(x, producers) for x in subterms(h.old.body)):
                self.note("a rounding is moved across a hoisted factor")
        for p in self.nest.passes:
            self._pass(p)
        for out in self.nest.outputs:
            self._store(out, output_expr(self.nest, out))
        outputs = [*self.nest.outputs, *(o for p in self.nest.passes for o in p.stores)]
        order = self.order()
        for a in (*self.nest.grid, *self.nest.inner, *(a for p in self.nest.passes for a in p.stream), *order):
            self._note_sizes(a.extent)
        for out in outputs:
            for a in out.axes:
                self._note_sizes(a.extent)
        blocks = {a: padded(a) for a in (*self.nest.inner, *self.nested)}
        self._drop_unused()
        return TileKernel(
            self.nest.name,
            self.nest.grid,
            self.blocked,
            order,
            blocks,
            tuple(dict.fromkeys((*self.stream_tiles, *self.looped))),
            tuple(self.scopes[0].statements),
            tuple(t.name for t in self.program.inputs if t.name in self.tensors),
            tuple(s.name for s in self.program.sizes if s.name in self.sizes),
            tuple(OutputTensor(o.name, tuple(a.extent for a in o.axes), o.expr.dtype) for o in outputs),
            tuple(self.dots),
            tuple(self.widest),
        )

    def order(self) -> tuple[Axis, ...]:
        """The kernel's dimension order: rows, stream, whole axes, axes of nested reductions."""
        return tuple(dict.fromkeys((*self.blocked, *self.stream_tiles, *self.nest.inner, *self.nested, *self.looped)))

    def _note_sizes(self, e: Expr) -> None:
        for x in subterms(e):
            if isinstance(x, Size):
                self.sizes[x.name] = None

    def _drop_unused(self) -> None:
        """Values that nothing reads (an operand that became part of a dot) are left out."""
        used: set[str] = set()

        def mark(statements: list[Statement]) -> None:
            for s in statements:
                match s:
                    case Assign(_, _, args):
                        used.update(a.name for a in args)
                    case Rebind(_, src):
                        used.add(src.name)
                    case Store(_, indices, value, mask):
                        used.update(v.name for v in (*indices, value, *((mask,) if mask else ())))
                    case For(body=body):
                        mark(body)

        def sweep(statements: list[Statement]) -> bool:
            keep: list[Statement] = []
            inner = False
            for s in statements:
                if isinstance(s, For):
                    inner |= sweep(s.body)
                if not isinstance(s, Assign) or s.dst.name in used:
                    keep.append(s)
            changed = len(keep) != len(statements) or inner
            statements[:] = keep
            return changed

        changed = True
        while changed:
            used.clear()
            mark(self.scopes[0].statements)
            changed = sweep(self.scopes[0].statements)

    # -- passes --------------------------------------------------------------------------------------------

    def _pass(self, p: Pass) -> None:
        top = self.scopes[0]
        for c in p.carried:
            self.stage = c.name
            self.top_assign(self.carry(c), "full", attr=(_number(c.neutral),))
        names = frozenset({T, *(c.name for c in p.carried), *(c.new.name for c in p.carried)})
        loops = [For(a, a is p.stream[-1]) for a in p.stream]
        for outer, loop in pairwise(loops):
            outer.body.append(loop)
        self.scopes.append(Scope(loops[-1].body, frozenset(p.stream), names))
        self.levels.clear()
        self._find_roundings([term(self.nest, p, c) for c in p.carried if c.value.reducer == "sum"], p.stream[-1])
        updates = [(c, self._update(p, c)) for c in p.carried]
        for out in p.stores:
            self._store(out, output_expr(self.nest, out, p))
        for c, new in updates:
            loops[-1].body.append(Rebind(self.carry(c), new))
        self.scopes.pop()
        self.levels.clear()
        top.statements.append(loops[0])

    def _find_roundings(self, terms: list[Expr], axis: Axis) -> None:
        for e in terms:
            for reduction in [x for x in subterms(e) if isinstance(x, Reduce) and len(x.axes) == 1]:
                self._note_rounding(self._contraction(reduction.reducer, reduction.axes[0], reduction.body))
            self._note_rounding(self._contraction("sum", axis, e))

    def _note_rounding(self, c: Contraction | None) -> None:
        for e, dtype in ((c.a, c.a_dtype), (c.b, c.b_dtype)) if c is not None and c.roundings else ():
            if e.dtype != dtype and _without_widening(e, dtype) is e:
                self.rounded[e] = dtype

    def carry(self, c: Carried) -> Value:
        return Value(c.name, self.sorted(c.axes), _wide(c.value.dtype))

    def _update(self, p: Pass, c: Carried) -> Value:
        self.stage = c.name
        if c.value.dtype in SIXTEEN:
            self.note(f"carried in float32 and rounded once to {c.value.dtype}")
        if c.repair and any(_narrowing(x) and contains(x, self._running(p)) for x in subterms(term(self.nest, p, c))):
            self.note("the rounding of a value that is repaired is taken of the running value")
        h = self.lower(_widened(substitute(step(self.nest, p, c), {var(T, c.value.dtype): c.var})))
        new = Value(c.new.name, self.sorted(c.axes), _wide(c.value.dtype))
        body = term(self.nest, p, c)
        axis = p.stream[-1]
        contraction = self._contraction(c.value.reducer, axis, body)
        if contraction is not None:
            dims = (contraction.m, contraction.n)
            acc = self.broadcast(h, dims)
            result = self.dot(contraction, acc)
            aligned = self.permute(result, new.axes)
            self.emit(new, "op", (aligned,), ("copy",), self.scopes[-1])
        else:
            local = self.reduce_tile(c.value.reducer, axis, body)
            local = self.cast(local, new.dtype)
            combined = self.combine(c.value.reducer, h, local)
            full = self.broadcast(combined, new.axes)
            self.emit(new, "op", (full,), ("copy",), self.scopes[-1])
        return new

    @staticmethod
    def _running(p: Pass) -> list[Expr]:
        return [c.new for c in p.carried]

    def combine(self, reducer: str, a: Value, b: Value) -> Value:
        name = {"sum": "add", "prod": "mul", "any": "or", "all": "and"}.get(reducer, reducer)
        return self.elementwise(name, (a, b), a.dtype)

    # -- stores --------------------------------------------------------------------------------------------

    def _store(self, out: Output, expr: Expr) -> None:
        self.stage = out.name
        value = self.lower(expr)
        scope = self.scopes[-1] if len(self.scopes) > 1 else self.scopes[0]
        dims = self.sorted(tuple(a for a in out.axes if self.is_tile(a)))
        value = self.broadcast(value, dims)
        indices = tuple(self.lower(a) for a in out.axes)
        mask: Value | None = None
        for a in dims:
            if not self.exact(a):
                mask = self.both(mask, self.lane(a))
        mask = self.align(mask, dims) if mask else None
        scope.statements.append(Store(out.name, indices, value, mask))

    # -- expressions ---------------------------------------------------------------------------------------

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
        value = self.lower(_without_widening(e, dtype))
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
                stored = Value(name, self.sorted(axes), _wide(dtype))
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

    def note(self, text: str) -> None:
        """List a float rounding that is inserted or moved, once."""
        self.roundings[f"{self.stage}: {text}"] = None

    def elementwise(self, name: str, values: tuple[Value, ...], dtype: str) -> Value:
        axes = self.sorted(tuple(dict.fromkeys(a for v in values for a in v.axes)))
        self.note_width(axes)
        aligned = tuple(self.align(v, axes) for v in values)
        return self.assign("op", aligned, dtype, axes=axes, attr=(name,))

    def cast(self, v: Value, dtype: str) -> Value:
        if v.dtype == dtype:
            return v
        return self.assign("cast", (v,), dtype, axes=v.axes, attr=(dtype,))

    # -- loads ---------------------------------------------------------------------------------------------

    def load(self, e: Read, scope: Scope) -> Value:
        self.tensors[e.tensor] = None
        shape = self.program.tensor(e.tensor).shape
        indices = tuple(self.lower(i) for i in e.indices)
        axes = self.sorted(tuple(dict.fromkeys(a for v in indices for a in v.axes)))
        self.note_width(axes)
        mask: Value | None = None
        for a in axes:
            if not self.exact(a):
                mask = self.both(mask, self.lane(a))
        for expr, value, extent in zip(e.indices, indices, shape, strict=True):
            if not (isinstance(expr, Axis) and expr.extent is extent):
                for test in self._bounds(expr, value, extent):
                    mask = self.both(mask, test)
        aligned = tuple(self.align(v, axes) for v in indices)
        args = (*aligned, *((self.align(mask, axes),) if mask else ()))
        return self.assign("load", args, e.dtype, axes=axes, attr=(e.tensor, len(indices)), scope=scope)

    def _bounds(self, expr: Expr, value: Value, extent: Expr) -> list[Value]:
        if isinstance(expr, Const) and isinstance(extent, Const) and 0 <= expr.value < extent.value:
            return []
        tests = [self.elementwise("lt", (value, self.lower(extent)), "bool")]
        if not self.kinds.of(expr) <= NONNEGATIVE:
            tests.append(self.elementwise("ge", (value, self.lower(const(0, "int32"))), "bool"))
        return tests

    def lane(self, a: Axis) -> Value:
        """The lanes of ``a`` that lie in its range."""
        return self.elementwise("lt", (self.lower(a), self.lower(a.extent)), "bool")

    def both(self, a: Value | None, b: Value) -> Value:
        return b if a is None else self.elementwise("and", (a, b), "bool")

    # -- reductions ----------------------------------------------------------------------------------------

    def nested_reduce(self, e: Reduce) -> Value:
        """A reduction in place: whole axes by tile reductions, others by a loop with an accumulator."""
        looped = [a for a in e.axes if not self.whole(a)]
        whole = [a for a in e.axes if a not in looped]
        if not looped:
            return self._reduce_axes(e.reducer, tuple(whole), e.body, e.dtype)
        return self._looped_reduce(e, looped, tuple(whole))

    def whole(self, a: Axis) -> bool:
        return isinstance(a.extent, Const) and a.extent.value <= NESTED_LIMIT

    def _reduce_axes(self, reducer: str, axes: tuple[Axis, ...], body: Expr, dtype: str) -> Value:
        """Over whole axes: the last one by a contraction if possible, the others one by one."""
        if len(axes) == 1:
            contraction = self._contraction(reducer, axes[0], body)
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
        acc = Value(self.fresh("acc"), free, _wide(e.dtype))
        self.emit(acc, "full", (), (_number(REDUCERS[e.reducer].neutral(e.dtype)),), self.scopes[-1])
        loops = [For(a, a is last) for a in looped]
        for outer, loop in pairwise(loops):
            outer.body.append(loop)
        self.scopes.append(Scope(loops[-1].body, frozenset(looped), frozenset({acc.name})))
        self.levels.clear()
        contraction = self._contraction(e.reducer, last, e.body) if not whole else None
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
        value = self.cast(value, _wide(dtype))
        for a in (axis, *more):
            value = self._reduce_one(reducer, a, value, dtype)
        return value

    def _reduce_one(self, reducer: str, a: Axis, value: Value, dtype: str) -> Value:
        axes = self.sorted(tuple(dict.fromkeys((*value.axes, a))))
        value = self.broadcast(value, axes)
        self.note_width(axes)
        if not self.exact(a):
            neutral = REDUCERS[reducer].neutral(dtype)
            fill = self.assign("const", (), value.dtype, attr=(_number(neutral),))
            lane = self.align(self.lane(a), axes)
            value = self.assign("op", (lane, value, fill), value.dtype, axes=axes, attr=("select",))
        rest = tuple(x for x in axes if x is not a)
        return self.assign("reduce", (value,), value.dtype, axes=rest, attr=(reducer, axes.index(a)))

    # -- contractions --------------------------------------------------------------------------------------

    def _contraction(self, reducer: str, k: Axis, body: Expr) -> Contraction | None:
        if reducer != "sum" or body.dtype == "float64":
            return None
        found = find_contraction(body, k, self.is_tile, self.strict)
        if found is not None and not all(self.wide_enough(a) for a in (found.m, k, found.n)):
            return None
        return found

    def wide_enough(self, a: Axis) -> bool:
        """At least 16 lanes: cut axes always get blocks of 16 or more where they are part of a dot."""
        return a in self.blocked or a in self.stream_tiles or a in self.looped or padded(a) >= 16

    def dot(self, c: Contraction, acc: Value | None) -> Value:
        a = self._operand(c.a, c.a_dtype, (c.m, c.k), c.k, c.a_is_load)
        b = self._operand(c.b, c.b_dtype, (c.k, c.n), c.k, c.b_is_load)
        for text in c.roundings:
            self.note(text)
        self.dots[(c.m, c.k, c.n)] = None
        self.note_width((c.m, c.n))
        args = (a, b) if acc is None else (a, b, acc)
        return self.assign("dot", args, "float32", axes=(c.m, c.n), attr=("ieee",), scope=None)

    def _operand(self, e: Expr, dtype: str, dims: tuple[Axis, Axis], k: Axis, is_load: bool) -> Value:
        """An operand with dimensions ``dims``; lanes of ``k`` out of range are 0 (a masked load gives 0 already)."""
        value = self.broadcast(self.narrow(e, dtype), self.sorted(dims))
        if self.interpreted and dtype == "bfloat16":  # products of bfloat16 numbers are exact in float32
            dtype = "float32"
            value = self.cast(self.cast(value, "bfloat16"), dtype)
        if not is_load and not self.exact(k):
            zero = self.assign("const", (), value.dtype, attr=(const(0, value.dtype).value,))
            lane = self.align(self.lane(k), value.axes)
            value = self.assign("op", (lane, value, zero), value.dtype, axes=value.axes, attr=("select",))
        return self.permute(self.cast(value, dtype), dims)

    # -- dimensions ----------------------------------------------------------------------------------------

    def is_tile(self, a: Axis) -> bool:
        return (
            a in self.blocked or a in self.stream_tiles or a in self.nest.inner or a in self.nested or a in self.looped
        )

    def exact(self, a: Axis) -> bool:
        """No lane of the axis's tiles is ever out of range."""
        if a in self.blocked or a in self.stream_tiles or a in self.looped:
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

    # -- emission ------------------------------------------------------------------------------------------

    def fresh(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}_{self.counter}"

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


TRANSCENDENTAL = ("exp", "exp2", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "pow", "div")


def _without_widening(e: Expr, dtype: str) -> Expr:
    return e.args[0] if isinstance(e, Op) and e.name == "cast" and e.args[0].dtype == dtype else e


def _wide(dtype: str) -> str:
    """16-bit reductions are carried in fp32 and rounded once."""
    return "float32" if dtype in SIXTEEN else dtype


def _widened(e: Expr) -> Expr:
    """A repair over carried values, in the type in which they are carried."""

    def fn(x: Expr) -> Expr | None:
        if isinstance(x, Var) and x.dtype in SIXTEEN:
            return var(x.name, "float32", x.axes)
        if isinstance(x, Const) and x.dtype in SIXTEEN:
            return const(x.value, "float32")
        return None

    return transform(e, fn)


def _narrowing(e: Expr) -> bool:
    return isinstance(e, Op) and e.name == "cast" and e.dtype in SIXTEEN and e.args[0].dtype in FLOATS


def _number(e: Expr) -> object:
    assert isinstance(e, Const)
    return e.value


def _tile_axes(e: Reduce, kernel: _Kernel) -> list[Axis]:
    bound = set(e.axes)
    axes = {a for a in e.free if kernel.is_tile(a)}
    axes |= {a for x in subterms(e) if isinstance(x, Var) for a in x.axes if kernel.is_tile(a)}
    return [a for a in axes if a not in bound]


__all__ = ["lower"]

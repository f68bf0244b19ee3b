"""Not trusted: from a verified loop program to tiles (loop-scalar IR to HTile, Neptune section 5).

The four steps: the nests are given; scalar accesses become tile accesses with offsets and masks (``load``); operands get
their axes in the kernel's order and are unsqueezed or permuted to match (``align``); sums of products with both operands
at least 16 wide become ``dot`` (``contract``). This file has the frame: kernels, passes, accumulators and stores.
"""

from __future__ import annotations

from itertools import pairwise

from neptune_verified.ir.expr import (
    FLOATS,
    Axis,
    Expr,
    Op,
    Reduce,
    Size,
    Var,
    contains,
    substitute,
    subterms,
    var,
)
from neptune_verified.ir.loops import Carried, Nest, Output, Pass, T, output_expr, span, step, term, wide, widened
from neptune_verified.ir.program import Program
from neptune_verified.ir.split import split_form
from neptune_verified.proofs.kernel import VerifiedProgram
from neptune_verified.tile.blocks import padded
from neptune_verified.tile.builder import Scope
from neptune_verified.tile.contract import SIXTEEN, Contraction, Conversions
from neptune_verified.tile.expressions import TileExpressions, number_of
from neptune_verified.tile.htile import (
    Assign,
    Bound,
    For,
    If,
    Kernels,
    OutputTensor,
    Rebind,
    Statement,
    Store,
    TileKernel,
    TileProgram,
    Value,
    reads,
    scalars_of,
    symbol_of,
)
from neptune_verified.tile.live import LiveTest
from neptune_verified.tile.masks import Mask, assume
from neptune_verified.tile.passes import EVERYTHING, LoopPlan, mask_of, owned, plan, program_scalars


def lower(verified: VerifiedProgram, target: str = "", conversions: Conversions | None = None) -> TileProgram:
    """The tile program; ``target`` matters only where Triton's interpreter lacks bfloat16 arithmetic.

    Raises UnsupportedProgram, naming the construct, where a program has no tile form."""
    loops = verified.loops
    roundings: dict[str, None] = {}

    def build(program: Program, nest: Nest) -> TileKernel:
        return _Kernel(program, nest, target == "interpret", conversions or Conversions(), roundings).build()

    kernels = []
    for nest in loops.nests:
        form = split_form(loops.program, nest) if nest.split else None
        parts = tuple(build(form.program, part) for part in form.nests) if form else ()
        between = tuple(OutputTensor(t.name, t.shape, t.dtype) for t in form.temporaries) if form else ()
        kernels.append(Kernels(build(loops.program, nest), parts, between, form.extent if form else None))
    return TileProgram(loops.program.name, tuple(kernels), tuple(roundings))


class _Kernel(TileExpressions):
    #: Conditions that hold in the loop that is built, and the mask of its pass.
    given: dict[Expr, Expr]
    mask: Mask

    def build(self) -> TileKernel:
        for h in self.nest.hoists:
            self.stage = h.name
            producers = [x for x in subterms(h.template) if isinstance(x, Reduce)]
            if any(_narrowing(x) and contains(x, producers) for x in subterms(h.old.body)):
                self.note("a rounding is moved across a hoisted factor")
        for p in self.nest.passes:
            self._share(p)
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
        if self.packing:
            blocks[self.packing.axis] = self.packing.lanes
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
            self.packing,
        )

    def _note_sizes(self, e: Expr) -> None:
        for x in subterms(e):
            if isinstance(x, Size):
                self.sizes[x.name] = None

    def _drop_unused(self) -> None:
        """Values that nothing reads (an operand that became part of a dot) are left out."""
        used: set[str] = set()

        def mark(statements: list[Statement]) -> None:
            for s in statements:
                used.update(v.name for v in reads(s))
                used.update(scalars_of(s))
                if isinstance(s, For | If):
                    mark(s.body)

        def sweep(statements: list[Statement]) -> bool:
            keep: list[Statement] = []
            inner = False
            for s in statements:
                if isinstance(s, For | If):
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

    def _share(self, p: Pass) -> None:
        """The ends of the part of the stream that the program owns, by names that say so."""
        if self.nest.share is None or p.stream[-1] in self.ends:
            return
        a, names = p.stream[-1], ("first", "end")
        values = [self.lower(e) for e in span(self.nest, a)]
        low, high = (
            self.emit(Value(self.fresh(f"{a.name}_{n}"), (), v.dtype), "op", (v,), ("copy",), self.scopes[0])
            for n, v in zip(names, values, strict=True)
        )
        self.ends[a] = low, high

    def _pass(self, p: Pass) -> None:
        for c in p.carried:
            self.stage = c.name
            self.top_assign(self.carry(c), "full", attr=(number_of(c.neutral),))
        mask = mask_of(self.nest, p, self.kinds)
        scalars = program_scalars(self.nest, p, self.blocked, mask)
        symbols: dict[Expr, Var] = {x: symbol_of(self.lower(x)) for x in scalars}
        packed = self.packing is not None and self.packing.axis in mask.predicate.free  # rows of several groups' ends
        found = (
            EVERYTHING if packed else plan(self.program, self.nest, p, self.blocked, mask, self._has_dot(p), symbols)
        )
        if p.stream and p.stream[-1] in self.ends:
            low, high = (symbol_of(v) for v in self.ends[p.stream[-1]])
            found = owned(found, p.stream[-1], low, high)
        loops = [self._loop(p, x, mask, found.live) for x in found.loops]
        for x in found.bounds:
            self._note_sizes(x.value)
        self.scopes[0].statements += [*found.bounds, *loops]

    def _loop(self, p: Pass, loop: LoopPlan, mask: Mask, live: LiveTest) -> For:
        """The pass over the tiles of one loop; in a full one with no mask of the stream axis, nor a test of the tile."""
        self.given = mask.holds() if loop.full else {}
        self.mask, self.shared = mask, not p.stores
        self.inside = frozenset(p.stream) if loop.full else frozenset()
        names = frozenset({T, *(c.name for c in p.carried), *(c.new.name for c in p.carried)})
        loops = [
            For(a, a is p.stream[-1], [], *((loop.lo, loop.hi) if a is p.stream[-1] else (None, None)))
            for a in p.stream
        ]
        for outer, inner in pairwise(loops):
            outer.body.append(inner)
        self.scopes.append(Scope(loops[-1].body, frozenset(p.stream), names))
        self.levels.clear()
        self._find_roundings([self._term(p, c) for c in p.carried if c.value.reducer == "sum"], p.stream[-1])
        test = self._test(p.stream[-1], live) if live.extremes and not loop.full else None
        updates = [(c, self._update(p, c)) for c in p.carried]
        for out in p.stores:
            self._store(out, output_expr(self.nest, out, p))
        for c, new in updates:
            self.scopes[-1].statements.append(Rebind(self.carry(c), new))
        if test is not None:
            _join(loops[-1].body, test, self.scopes[-1].statements)
        self.scopes.pop()
        self.levels.clear()
        self.given, self.inside = {}, frozenset()
        return loops[0]

    def _test(self, stream: Axis, live: LiveTest) -> Bound:
        """Whether the tile may have a live element; what follows in the loop's scope goes into a list of its own."""
        values: dict[Expr, Expr] = {s: symbol_of(self.extreme(e.reducer, e.read)) for s, e in live.extremes.items()}
        self._note_sizes(live.condition)
        self.scopes[-1].statements = []
        return Bound(var(f"{stream.name}.live.1", "bool"), substitute(live.condition, values))

    def _term(self, p: Pass, c: Carried) -> Expr:
        return assume(term(self.nest, p, c), self.given)

    def _has_dot(self, p: Pass) -> bool:
        """Some reduction of the pass, its own or one in a term, is a matrix product."""
        for c in p.carried:
            body = term(self.nest, p, c)
            if self.contraction(c.value.reducer, p.stream[-1], body):
                return True
            inner = [x for x in subterms(body) if isinstance(x, Reduce) and len(x.axes) == 1]
            if any(self.contraction(x.reducer, x.axes[0], x.body) for x in inner):
                return True
        return False

    def _find_roundings(self, terms: list[Expr], axis: Axis) -> None:
        for e in terms:
            for reduction in [x for x in subterms(e) if isinstance(x, Reduce) and len(x.axes) == 1]:
                self._note_rounding(self.contraction(reduction.reducer, reduction.axes[0], reduction.body))
            self._note_rounding(self.carried_contraction("sum", axis, e))

    def _note_rounding(self, c: Contraction | None) -> None:
        if c is not None and c.rounded and not c.twice:
            self.rounded[c.wide] = c.rounded

    def carry(self, c: Carried) -> Value:
        return Value(c.name, self.sorted(c.axes), wide(c.value.dtype))

    def _update(self, p: Pass, c: Carried) -> Value:
        self.stage = c.name
        if c.value.dtype in SIXTEEN:
            self.note(f"carried in float32 and rounded once to {c.value.dtype}")
        if c.repair and any(_narrowing(x) and contains(x, self._running(p)) for x in subterms(self._term(p, c))):
            self.note("the rounding of a value that is repaired is taken of the running value")
        h = self.lower(widened(substitute(step(self.nest, p, c), {var(T, c.value.dtype): c.var})))
        new = Value(c.new.name, self.sorted(c.axes), wide(c.value.dtype))
        body = self._term(p, c)
        axis = p.stream[-1]
        contraction = self.carried_contraction(c.value.reducer, axis, body)
        leaks = not self.given and self.mask.reaches(body, axis)
        self.counts = self.mask.predicate if leaks else None
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
        self.counts = None
        return new

    @staticmethod
    def _running(p: Pass) -> list[Expr]:
        return [c.new for c in p.carried]

    def _store(self, out: Output, expr: Expr) -> None:
        self.stage = out.name
        value = self.lower(expr)
        scope = self.scopes[-1] if len(self.scopes) > 1 else self.scopes[0]
        dims = self.sorted(tuple(a for a in out.axes if self.is_tile(a)))
        value = self.broadcast(value, dims)
        indices = tuple(self.lower(a) for a in out.axes)
        mask = self.lanes(dims)
        mask = self.align(mask, dims) if mask else None
        scope.statements.append(Store(out.name, indices, value, mask))


def _join(body: list[Statement], test: Bound, update: list[Statement]) -> None:
    """The update goes under the test, unless it has a loop of its own."""
    if any(isinstance(s, For) for s in update):
        body += update
    else:
        body += [test, If(test.symbol, update)]


def _narrowing(e: Expr) -> bool:
    return isinstance(e, Op) and e.name == "cast" and e.dtype in SIXTEEN and e.args[0].dtype in FLOATS


__all__ = ["lower"]

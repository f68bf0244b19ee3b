"""Not trusted: one nest of a loop program as one TensorIR function; the tests compare it with the interpreter.

The function follows ``ir/loops.py``: one parallel loop over the flattened grid; in it, for each pass, the carried
buffers are initialised (statements of their own: a reduction over nothing must leave the neutral element), the stream
is walked tile by tile, each tile is reduced into a local buffer, and the repaired accumulator is combined with it into
``NAME_new``, which becomes the accumulator when the tile is done.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx

from neptune_verified.ir.expr import Axis, Expr, Op, Read, Reduce, Size, Var, substitute, subterms, var
from neptune_verified.ir.loops import Carried, LoopProgram, Nest, Output, Pass, T, output_expr, step, term
from neptune_verified.targets import tir_scalar as scalar
from neptune_verified.targets.tir_emit import Array, Emitter, Slot, product, sequence
from neptune_verified.targets.tir_scalar import Prim, number

#: Operations that are worth a place in a buffer when two loops over the same tile need them.
HEAVY = frozenset(("exp", "exp2", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "pow", "div"))


@dataclass(frozen=True)
class Function:
    """A PrimFunc and the names of its arguments, in order: tensors read, tensors written, sizes and scalars."""

    name: str
    prim: Any
    reads: tuple[str, ...]
    writes: tuple[Output, ...]
    sizes: tuple[Size, ...]


def acc(c: Carried) -> Var:
    """The accumulator as its own repair reads it: not rounded."""
    return var(f"{c.name}%acc", c.value.dtype, c.axes)


def repaired(nest: Nest, p: Pass, c: Carried) -> Expr:
    return substitute(step(nest, p, c), {var(T, c.value.dtype): acc(c)})


def nest_function(loops: LoopProgram, nest: Nest, tile: int) -> Function:
    return _NestWriter(loops, nest, tile).function()


class _NestWriter:
    def __init__(self, loops: LoopProgram, nest: Nest, tile: int) -> None:
        self.nest, self.tile = nest, tile
        self.terms = {c.name: term(nest, p, c) for p in nest.passes for c in p.carried}
        self.repairs = {c.name: repaired(nest, p, c) for p in nest.passes for c in p.carried}
        stores = {out.name: output_expr(nest, out, p) for p in nest.passes for out in p.stores}
        self.values = stores | {out.name: output_expr(nest, out) for out in nest.outputs}
        self.outs = tuple(out for p in nest.passes for out in p.stores) + nest.outputs
        self.roots = [*self.terms.values(), *self.repairs.values(), *self.values.values()]
        self.dtypes = {t.name: t.dtype for t in loops.program.inputs}
        self.dtypes |= {s.name: s.dtype for s in loops.program.stages}
        shapes = {t.name: t.shape for t in loops.program.inputs}
        for other in loops.nests:
            for out in (*other.outputs, *(o for p in other.passes for o in p.stores)):
                shapes[out.name] = tuple(a.extent for a in out.axes)
        self.shapes = shapes

    # -- signature -------------------------------------------------------------------------------------------

    def function(self) -> Function:
        used = {x: None for root in self._everything() for x in subterms(root)}
        reads = tuple(name for name in self.shapes if any(isinstance(x, Read) and x.tensor == name for x in used))
        written = {out.name: out for out in self.outs}
        arrays = {name: self._array(name) for name in (*reads, *written)}
        sizes = {x.name: x for x in used if isinstance(x, Size)}
        for name in (*reads, *written):
            sizes |= {x.name: x for d in self.shapes[name] for x in subterms(d) if isinstance(x, Size)}
        variables = {name: tirx.Var(name, scalar.register(x.dtype)) for name, x in sizes.items()}
        self.e = Emitter(arrays, variables, self.roots)
        self.e.names |= dict.fromkeys((*arrays, *variables), 1)
        with self._grid():
            for p in self.nest.passes:
                self._pass(p)
            for out in self.nest.outputs:
                self._store(out, self.values[out.name])
        params = [*(arrays[n].buffer for n in reads), *(arrays[n].buffer for n in written), *variables.values()]
        prim = tirx.PrimFunc(params, sequence(self.e.top.stmts))
        name = re.sub(r"\W", "_", self.nest.name)
        prim = prim.with_attr("global_symbol", name).with_attr("tirx.noalias", True)
        return Function(name, prim, reads, tuple(written.values()), tuple(sizes.values()))

    def _everything(self) -> Iterable[Expr]:
        yield from self.roots
        axes: dict[Axis, None] = dict.fromkeys((*self.nest.grid, *self.nest.inner))
        axes |= {a: None for p in self.nest.passes for a in p.stream}
        for root in self.roots:
            axes |= {a: None for x in subterms(root) if isinstance(x, Reduce) for a in x.axes}
        yield from (a.extent for a in axes)

    def _array(self, name: str) -> Array:
        dtype = self.dtypes[name]
        length = tirx.Var(f"{name}_len", "int64")
        return Array(tirx.decl_buffer([length], scalar.storage(dtype), name), self.shapes[name], dtype)

    # -- loops -----------------------------------------------------------------------------------------------

    @contextmanager
    def _grid(self) -> Iterator[None]:
        """One parallel loop over all grid axes; the body of a nest without grid axes stands alone."""
        e = self.e
        extents = [tirx.Max(e.extent(a), number(0, "int64")) for a in self.nest.grid]
        with e.loop("block", e.let(product(extents), "blocks"), tirx.ForKind.PARALLEL) as block:
            rest = block
            for a, extent in reversed(list(zip(self.nest.grid, extents, strict=True))):
                last = a is self.nest.grid[0]
                e.top.axes[a] = e.let(rest if last else tirx.Mod(rest, extent), a.name)
                rest = rest if last else e.let(tirx.Div(rest, extent), "rest")
            yield

    @contextmanager
    def _tile_loop(self, stream: Axis, start: Prim, length: Prim) -> Iterator[None]:
        with self.e.loop("lane", length) as lane:
            self.e.top.lane = lane
            self.e.top.axes[stream] = self.e.let(tirx.Add(start, lane), stream.name)
            yield

    def _inner(self, axes: Iterable[Axis]) -> tuple[Axis, ...]:
        wanted = set(axes)
        return tuple(a for a in self.nest.inner if a in wanted)

    # -- passes ----------------------------------------------------------------------------------------------

    def _pass(self, p: Pass) -> None:
        e = self.e
        body = e.top
        old, new, local = ({c.name: self._slot(c, suffix) for c in p.carried} for suffix in ("", "_new", "_tile"))
        for c in p.carried:
            self._fill(old[c.name], c)
        shared = self._shared(p)
        room = {x: self._tile_slot(x, p) for x in shared}
        with ExitStack() as open_loops:
            for a in p.stream[:-1]:
                open_loops.enter_context(e.loops((a,)))
            self._tiles(p, p.stream[-1], old, new, local, room)
        e.tile_slots.clear()
        for c in p.carried:
            e.slots[c.name] = old[c.name]
            old[c.name].home = body

    def _tiles(
        self,
        p: Pass,
        last: Axis,
        old: dict[str, Slot],
        new: dict[str, Slot],
        local: dict[str, Slot],
        room: dict[Expr, Slot],
    ) -> None:
        e, tile = self.e, number(self.tile, "int64")
        extent = e.extent(last)
        rounded_up = tirx.Add(tirx.Max(extent, number(0, "int64")), number(self.tile - 1, "int64"))
        with e.loop("tile", e.let(tirx.Div(rounded_up, tile), "tiles")) as index:
            start = e.let(tirx.Mul(index, tile), "start")
            length = e.let(tirx.Min(tile, tirx.Sub(extent, start)), "length")
            for c in p.carried:
                old[c.name].home = new[c.name].home = e.top
                e.slots[c.name] = old[c.name]
                e.slots[acc(c).name] = replace(old[c.name], raw=True)
            for slot in room.values():
                slot.home = e.top
            for c in p.carried:
                self._share([self.terms[c.name]], room, last, start, length)
                self._update(c, old[c.name], new[c.name], local[c.name], last, start, length)
            for c in p.carried:
                with e.loops(old[c.name].axes):
                    e.put(old[c.name], e.get(new[c.name]))
            self._share([self.values[out.name] for out in p.stores], room, last, start, length)
            for out in p.stores:
                with self._tile_loop(last, start, length):
                    self._store(out, self.values[out.name])

    def _update(self, c: Carried, old: Slot, new: Slot, local: Slot, last: Axis, start: Prim, length: Prim) -> None:
        e = self.e
        self._fill(local, c)
        with self._tile_loop(last, start, length), e.loops(local.axes):
            e.accumulate(local, c.value.reducer, e.lower(self.terms[c.name]))
        with e.loops(new.axes):
            value = e.bind(e.lower(self.repairs[c.name], wide=True), c.value.dtype, "repaired")
            e.put(new, value)
            e.accumulate(new, c.value.reducer, e.get(local))
        e.slots[c.new.name] = new

    def _slot(self, c: Carried, suffix: str) -> Slot:
        axes = self._inner(c.axes)
        buffer = self.e.allocate(c.name + suffix, c.value.dtype, self._room(axes))
        return Slot(buffer, axes, c.value.dtype, self.e.top)

    def _room(self, axes: tuple[Axis, ...], copies: int = 1) -> Prim:
        """How many elements a buffer over ``axes`` needs; at least one, also for an axis of length 0."""
        total, lengths = copies, []
        for a in axes:
            extent = self.e.extent(a)
            if isinstance(extent, tirx.IntImm):
                total *= max(1, int(extent.value))
            else:
                lengths.append(tirx.Max(extent, number(1, "int64")))
        if not lengths:
            return number(total, "int64")
        return self.e.let(product([number(total, "int64"), *lengths]), "room")

    def _fill(self, slot: Slot, c: Carried) -> None:
        with self.e.loops(slot.axes):
            self.e.put(slot, self.e.lower(c.neutral))

    # -- values that several loops over a tile need -----------------------------------------------------------

    def _shared(self, p: Pass) -> list[Expr]:
        """Expensive subexpressions of at least two of the pass's loops, each within no other such of the same loops."""
        units = [self.terms[c.name] for c in p.carried] + [self.values[out.name] for out in p.stores]
        where: dict[Expr, frozenset[int]] = {}
        for k, unit in enumerate(units):
            for x in subterms(unit):
                where[x] = where.get(x, frozenset()) | {k}
        found = [x for x in where if len(where[x]) > 1 and p.stream[-1] in x.free and self._worth(x, p)]
        return [x for x in found if not any(y is not x and where[y] == where[x] and x in subterms(y) for y in found)]

    def _worth(self, x: Expr, p: Pass) -> bool:
        if isinstance(x, (Var, Read)) or not x.free <= {*self.nest.grid, *self.nest.inner, *p.stream}:
            return False
        inside = subterms(x)
        if any(isinstance(y, Reduce) for y in inside):
            return True
        return not self._inner(x.free) and any(isinstance(y, Op) and y.name in HEAVY for y in inside)

    def _tile_slot(self, x: Expr, p: Pass) -> Slot:
        axes = self._inner(x.free)
        buffer = self.e.allocate("shared", x.dtype, self._room(axes, self.tile))
        return Slot(buffer, axes, x.dtype, self.e.top, tiled=True)

    def _share(self, units: list[Expr], room: dict[Expr, Slot], last: Axis, start: Prim, length: Prim) -> None:
        """Evaluate what these loops share and no earlier one of this tile did; inner expressions come first."""
        e = self.e
        needed = {x: None for unit in units for x in subterms(unit)}
        todo = [x for x in needed if x in room and e.tile_slots.get(x) is None]
        for x in todo:
            with self._tile_loop(last, start, length), e.loops(room[x].axes):
                e.put(room[x], e.lower(x))
            e.tile_slots[x] = room[x]

    # -- outputs ---------------------------------------------------------------------------------------------

    def _store(self, out: Output, value: Expr) -> None:
        e = self.e
        array = e.arrays[out.name]
        with e.loops(self._inner(out.axes)):
            result = e.lower(value)
            result = scalar.convert(result, scalar.register(value.dtype), scalar.register(array.dtype))
            if array.dtype == "bfloat16":
                result = e.bind(result, "float32")
            position = e.flat([e.axis(a) for a in out.axes], array.shape)
            store = tirx.BufferStore(array.buffer, scalar.stored(result, array.dtype), [position])
            for a in self.nest.grid:
                if a not in out.axes:  # every block has the same value: the first one writes it
                    store = tirx.IfThenElse(tirx.EQ(e.axis(a), number(0, "int64")), store, None)
            e.emit(store)

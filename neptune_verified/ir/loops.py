"""Trusted: the fused loop program, what it means, and how it runs.

A ``Nest`` becomes one kernel. It runs its passes one after the other; a pass is one sequential traversal of its stream
axes, tile by tile::

    for grid axes (parallel):
        for each pass:
            X = neutral element                                  for each carried X
            for each tile of the stream axes:
                X_new = combine(H(X, r, r_new), reduce over the tile of G(r_new, element))
                store the map outputs of this pass
        store the other outputs

``G`` is the reduced term in which every reduction that is carried is read from its variable: that of an earlier pass in
its final value, that of the same pass in its value *after* this tile (``NAME_new``), guarded. ``H`` is the repair. The
local reduction of a tile before it is combined is privatization. Nothing of ``G`` is stored: it is computed here from
the definition (``value``), so a loop program cannot disagree with it; what the compiler was free to choose are the
passes, the repairs, the guards and the hoists, and each of those has its obligations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from neptune_verified.ir.example import Example
from neptune_verified.ir.expr import (
    FLOATS,
    INF,
    REDUCERS,
    Axis,
    Const,
    Expr,
    Reduce,
    Var,
    children,
    const,
    op,
    size,
    substitute,
    subterms,
    transform,
    var,
)
from neptune_verified.ir.interpret import Array, Evaluator, Frame, canonical, combine_array, reduce_array, size_env
from neptune_verified.ir.program import Program

T = "t"  # the accumulator's symbol in a repair function
_NARROW = ("float16", "bfloat16")

#: Of a nest that is split: the number of splits, and the number of elements of the last stream axis that each of them owns.
SPLITS, SPLIT_SIZE = size("splits"), size("split_size")


def span(nest: Nest, a: Axis, s: Expr | None = None) -> tuple[Expr, Expr]:
    """First index and end of a last stream axis, for the index ``s`` of the nest's share (the axis itself by default)."""
    if nest.share is None:
        return const(0, "int32"), a.extent
    low = op("mul", nest.share if s is None else s, SPLIT_SIZE)
    return low, op("min", op("add", low, SPLIT_SIZE), a.extent)


@dataclass(frozen=True, slots=True)
class Guard:
    """``producer`` is replaced by ``value`` wherever it is one of ``points`` ("-inf", "zero", "+inf")."""

    producer: str
    points: tuple[str, ...]
    value: Fraction

    def apply(self, r: Expr) -> Expr:
        numbers = {"-inf": -INF, "zero": 0, "+inf": INF}
        condition: Expr | None = None
        for point in self.points:
            test = op("eq", r, const(numbers[point], r.dtype))
            condition = test if condition is None else op("or", condition, test)
        return r if condition is None else op("select", condition, const(self.value, r.dtype), r)


@dataclass(frozen=True, slots=True)
class Repair:
    """``h`` over the symbols t, P (a producer's old value) and P_new (without axes), for each P of ``producers``, and over
    closed loop-invariant terms (a length, a parameter, a reduction of an earlier pass).

    ``guard_old`` guards the old values too; ``keep_neutral`` gives the neutral element back for the neutral element;
    ``hold`` leaves the accumulator as it is while an old value is one that the guards replace, or an infinity."""

    producers: tuple[str, ...]
    h: Expr
    guards: tuple[Guard, ...] = ()
    guard_old: bool = False
    keep_neutral: bool = False
    hold: bool = False
    strategy: str = ""


@dataclass(frozen=True, slots=True)
class Carried:
    """An accumulator: finally equal to ``value``, a closed reduction over the nest's grid and inner axes."""

    name: str
    value: Reduce
    axes: tuple[Axis, ...]
    repair: Repair | None = None

    @property
    def var(self) -> Var:
        return var(self.name, self.value.dtype, self.axes)

    @property
    def new(self) -> Var:
        return var(f"{self.name}_new", self.value.dtype, self.axes)

    @property
    def neutral(self) -> Expr:
        return REDUCERS[self.value.reducer].neutral(self.value.dtype)


@dataclass(frozen=True, slots=True)
class Output:
    """``name[axes] = expr``, closed, after hoisting."""

    name: str
    axes: tuple[Axis, ...]
    expr: Expr


@dataclass(frozen=True, slots=True)
class Pass:
    """One traversal of the ``stream`` axes: accumulators in order, and outputs that have the stream axes themselves."""

    stream: tuple[Axis, ...]
    carried: tuple[Carried, ...]
    stores: tuple[Output, ...] = ()


@dataclass(frozen=True, slots=True)
class Hoist:
    """``old`` is replaced by ``template`` with X0, X1, ... read as ``inner``: loop-invariant factors leave a reduction."""

    name: str
    old: Reduce
    template: Expr
    inner: tuple[Reduce, ...]

    def slots(self) -> tuple[Var, ...]:
        return tuple(var(f"X{k}", r.dtype) for k, r in enumerate(self.inner))

    @property
    def new(self) -> Expr:
        return substitute(self.template, dict(zip(self.slots(), self.inner, strict=True)))


@dataclass(frozen=True, slots=True)
class Refusal:
    """An edge that was not fused: the consumer starts a new pass. ``counterexample`` is a point of the ``obligation``,
    ``example`` a run in which the refused update computes a wrong value, where one was found."""

    consumer: str
    producers: tuple[str, ...]
    reason: str
    obligation: str = ""
    counterexample: str = ""
    example: Example | None = None


@dataclass(frozen=True, slots=True)
class Nest:
    """One kernel. ``hoists`` are in the order in which they were applied to the outputs' closed expressions.

    ``split``: it has a split-K form too (``ir.split``). ``share``: the grid axis of the kernels of such a form, whose
    index s cuts the last stream axis of every pass down to s * split_size <= j < (s + 1) * split_size."""

    name: str
    grid: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    passes: tuple[Pass, ...]
    outputs: tuple[Output, ...]
    hoists: tuple[Hoist, ...] = ()
    split: bool = False
    share: Axis | None = None

    def carried(self) -> tuple[Carried, ...]:
        return tuple(c for p in self.passes for c in p.carried)


@dataclass(frozen=True, slots=True)
class LoopProgram:
    program: Program
    nests: tuple[Nest, ...]
    refusals: tuple[Refusal, ...] = ()
    fused: bool = True

    @property
    def passes(self) -> int:
        """Sequential traversals of a fused axis, over all kernels: the greatest number over the reduced domains.

        A chain of reductions that stands inside another reduction is computed in place, one traversal for each link."""
        counts: dict[tuple[Expr, ...], int] = {}
        for nest in self.nests:
            inside: dict[tuple[Expr, ...], int] = {}
            for p in nest.passes:
                domain = tuple(a.extent for a in p.stream)
                counts[domain] = counts.get(domain, 0) + 1
                carried = {c.value: c.var for c in nest.carried()}
                terms = [read_carried(c.value.body, carried) for c in p.carried]
                for e in terms + [output_expr(nest, o, p) for o in p.stores]:
                    for d, n in chain_lengths(e).items():
                        inside[d] = max(inside.get(d, 0), n)
            for d, n in inside.items():
                counts[d] = max(counts.get(d, 0), n)
        return max(counts.values(), default=0)


def chain_lengths(e: Expr) -> dict[tuple[Expr, ...], int]:
    """For each domain, the longest chain of reductions over it in which each reads the one before."""
    depth: dict[Expr, dict[tuple[Expr, ...], int]] = {}
    for x in subterms(e):
        own: dict[tuple[Expr, ...], int] = {}
        for k in children(x):
            for d, n in depth[k].items():
                own[d] = max(own.get(d, 0), n)
        if isinstance(x, Reduce):
            d = tuple(a.extent for a in x.axes)
            own[d] = own.get(d, 0) + 1
        depth[x] = own
    return depth[e]


# ---------------------------------------------------------------------------------------- derived expressions


def read_carried(e: Expr, values: Mapping[Any, Expr]) -> Expr:
    """``e`` with every outermost carried reduction read from its variable."""
    return transform(e, lambda x: values.get(x)) if values else e


def finals(nest: Nest, before: Pass | None = None) -> dict[Expr, Expr]:
    """Carried reductions -> variables with final values, of the passes before ``before`` (all when None)."""
    result: dict[Expr, Expr] = {}
    for p in nest.passes:
        if p is before:
            break
        result |= {c.value: c.var for c in p.carried}
    return result


def term(nest: Nest, p: Pass, c: Carried) -> Expr:
    """G: the reduced term at an element of the stream, over new (guarded) values of this pass's producers."""
    body = substitute(c.value.body, dict(zip(c.value.axes, p.stream, strict=True)))
    return read_carried(body, finals(nest, p) | guarded_news(p, c))


def guarded_news(p: Pass, c: Carried) -> dict[Expr, Expr]:
    repair = c.repair or Repair((), c.var)
    guards = {g.producer: g for g in repair.guards}
    result: dict[Expr, Expr] = {}
    for producer in p.carried:
        if producer.name in repair.producers:
            new = producer.new
            result[producer.value] = guards[producer.name].apply(new) if producer.name in guards else new
    return result


def symbols(c: Carried) -> tuple[Var, Var]:
    """A producer's old and new value as the symbols of a repair function."""
    return var(c.name, c.value.dtype), var(f"{c.name}_new", c.value.dtype)


def dead_state(p: Pass, c: Carried) -> Expr | None:
    """Over the old symbols: some producer is still at a point that the guards replace, or infinite."""
    assert c.repair is not None
    points = {g.producer: set(g.points) for g in c.repair.guards}
    values = {"-inf": -INF, "zero": 0, "+inf": INF}
    condition: Expr | None = None
    for producer in p.carried:
        if producer.name in c.repair.producers:
            old, _ = symbols(producer)
            infinite = {"-inf", "+inf"} if old.dtype in FLOATS else set()
            for point in sorted(points.get(producer.name, set()) | infinite):
                test = op("eq", old, const(values[point], old.dtype))
                condition = test if condition is None else op("or", condition, test)
    return condition


def repair_of(p: Pass, c: Carried) -> Expr:
    """H over the symbols t, P and P_new, with the guards; the accumulator itself where nothing is repaired."""
    t = var(T, c.value.dtype)
    if c.repair is None or not c.repair.producers:
        return t
    guards = {g.producer: g for g in c.repair.guards}
    mapping: dict[Expr, Expr] = {}
    for producer in p.carried:
        if producer.name in guards and producer.name in c.repair.producers:
            old, new = symbols(producer)
            mapping[new] = guards[producer.name].apply(new)
            if c.repair.guard_old:
                mapping[old] = guards[producer.name].apply(old)
    h = substitute(c.repair.h, mapping)
    dead = dead_state(p, c) if c.repair.hold else None
    if dead is not None:
        h = op("select", dead, t, h)
    if c.repair.keep_neutral:
        h = op("select", op("eq", t, c.neutral), c.neutral, h)
    return h


def step(nest: Nest, p: Pass, c: Carried) -> Expr:
    """H as it runs: over Var(t), the carried variables before and after this tile, and finals of earlier passes."""
    mapping: dict[Expr, Expr] = dict(finals(nest, p))
    for producer in p.carried:
        old, new = symbols(producer)
        mapping |= {old: producer.var, new: producer.new}
    return substitute(repair_of(p, c), mapping)


def output_expr(nest: Nest, out: Output, before: Pass | None = None) -> Expr:
    """An output over the carried variables (for a store inside a pass: those of earlier passes)."""
    return read_carried(out.expr, finals(nest, before))


def wide(dtype: str) -> str:
    """The type in which a value is carried: 16-bit reductions are accumulated in float32 and rounded once."""
    return "float32" if dtype in _NARROW else dtype


def widened(h: Expr) -> Expr:
    """A repair function over values in the types in which they are carried."""

    def fn(x: Expr) -> Expr | None:
        if isinstance(x, Var) and x.dtype in _NARROW:
            return var(x.name, "float32", x.axes)
        if isinstance(x, Const) and x.dtype in _NARROW:
            return const(x.value, "float32")
        return None

    return transform(h, fn)


# ---------------------------------------------------------------------------------------- interpreter


def run_loops(
    loops: LoopProgram,
    inputs: Mapping[str, Array],
    scalars: Mapping[str, float] | None = None,
    tile: int = 4,
) -> dict[str, Array]:
    """Execute the fused loop program in float64 with tiles of ``tile`` elements along the last stream axis."""
    env = size_env(loops.program, {k: np.shape(v) for k, v in inputs.items()}, scalars or {})
    results: dict[str, Array] = {}
    for nest in loops.nests:
        # An earlier kernel's result is an input of a later one.
        evaluator = Evaluator({**{k: canonical(v) for k, v in inputs.items()}, **results}, env)
        results |= run_nest(nest, evaluator, tile)
    return {name: results[name] for name in loops.program.outputs}


def run_nest(nest: Nest, ev: Evaluator, tile: int) -> dict[str, Array]:
    whole = ev.whole(nest.grid + nest.inner)
    results: dict[str, Array] = {}
    for base in [whole] if nest.share is None else _shares(nest.share, whole):
        for p in nest.passes:
            for c in p.carried:
                ev.vars[c.name] = ev.eval(c.neutral, base).reshape((1,) * len(base.axes))
            for values in tiles(ev, p.stream, tile, owned(ev, nest, base)):
                run_tile(ev, nest, p, base, values)
            store_pass(ev, nest, p, base, tile, results)
        finish(ev, nest, base, results)
    return results


def _shares(share: Axis, whole: Frame) -> Iterator[Frame]:
    """One frame for each index of ``share``."""
    k = whole.axes.index(share)
    for s in whole.values[k]:
        yield Frame(whole.axes, (*whole.values[:k], np.array([s]), *whole.values[k + 1 :]))


def run_tile(ev: Evaluator, nest: Nest, p: Pass, base: Frame, values: tuple[Array, ...]) -> None:
    """One step of a pass: every accumulator takes in one tile of the stream."""
    frame = Frame(base.axes, base.values)
    inner = frame.extended(p.stream, values)
    for c in p.carried:
        _update(ev, c, term(nest, p, c), step(nest, p, c), frame, inner)
    for c in p.carried:
        ev.vars[c.name] = ev.vars.pop(f"{c.name}_new")


def store_pass(ev: Evaluator, nest: Nest, p: Pass, base: Frame, tile: int, results: dict[str, Array]) -> None:
    """The map outputs of a pass; they read what earlier passes have finished."""
    for out in p.stores:
        results.setdefault(out.name, _blank(ev, out))
        e = output_expr(nest, out, p)
        for values in tiles(ev, p.stream, tile, owned(ev, nest, base)):
            inner = Frame(base.axes, base.values).extended(p.stream, values)
            _store(results, ev, out, ev.eval(e, inner), inner)


def finish(ev: Evaluator, nest: Nest, base: Frame, results: dict[str, Array]) -> None:
    """The outputs that are stored after all passes."""
    for out in nest.outputs:
        frame = Frame(base.axes, base.values)
        _store(results, ev, out, ev.eval(output_expr(nest, out), frame), frame)


def owned(ev: Evaluator, nest: Nest, base: Frame) -> tuple[int, int] | None:
    """First index and end of the nest's share of a stream axis, which may lie beyond the axis; None without shares."""
    if nest.share is None:
        return None
    s, n = int(base.values[base.axes.index(nest.share)][0]), ev.integer(SPLIT_SIZE)
    return s * n, (s + 1) * n


def tiles(
    ev: Evaluator, stream: tuple[Axis, ...], tile: int, share: tuple[int, int] | None = None
) -> Iterator[tuple[Array, ...]]:
    """Index arrays of each tile, in order: one element of every stream axis but the last, which is cut into tiles."""
    if not stream:
        return
    extents = [ev.integer(a.extent) for a in stream]
    low, high = (0, extents[-1]) if share is None else (share[0], min(share[1], extents[-1]))
    for outer in np.ndindex(*extents[:-1]):
        for start in range(low, high, tile):
            last = np.arange(start, min(start + tile, high), dtype=np.int64)
            yield (*(np.array([k], dtype=np.int64) for k in outer), last)


def _update(ev: Evaluator, c: Carried, g: Expr, h: Expr, frame: Frame, inner: Frame) -> None:
    value = ev.eval(g, inner)
    n = len(frame.axes)
    sizes = tuple(len(v) for v in inner.values[n:])
    own = value.shape[:n] if value.ndim else (1,) * n
    local = reduce_array(
        c.value.reducer, np.broadcast_to(value, own + sizes), tuple(range(n, n + len(sizes))), c.value.dtype
    )
    ev.vars[T] = ev.vars[c.name]
    repaired = ev.eval(h, Frame(frame.axes, frame.values))
    with np.errstate(all="ignore"):
        ev.vars[f"{c.name}_new"] = combine_array(c.value.reducer, repaired, local)


def _blank(ev: Evaluator, out: Output) -> Array:
    return np.full(tuple(ev.integer(a.extent) for a in out.axes), np.nan)


def _store(results: dict[str, Array], ev: Evaluator, out: Output, value: Array, frame: Frame) -> None:
    """Write ``value``, whose dimensions are the frame's axes, to the output's elements that the frame covers."""
    target = results.setdefault(out.name, _blank(ev, out))
    position = {a: frame.axes.index(a) for a in out.axes}
    value = value if value.ndim else value.reshape((1,) * len(frame.axes))
    others = [k for k in range(len(frame.axes)) if k not in position.values()]
    value = value[tuple(0 if k in others else slice(None) for k in range(len(frame.axes)))]
    kept = [k for k in range(len(frame.axes)) if k not in others]
    value = np.transpose(value, [kept.index(position[a]) for a in out.axes])
    index = tuple(frame.values[position[a]] for a in out.axes)
    target[np.ix_(*index) if index else ()] = value

"""Trusted: what the split-K update of a nest is: kernels of its own, with tensors between them.

The last stream axis of every pass is cut into ``splits`` shares of ``split_size`` elements each; the last ones may be short,
or empty. For each pass one after the other:

    partial   each split runs the rolling update over its share from the initial state; its state is stored
    join      r = f over the splits of r_s                    for what needs no repair
              t = f over the splits of H(t_s, r_s, r)         for its consumers, repaired to the joined r

and a pass that only stores runs over the shares. A split that owns nothing has the initial state, which is neutral. That
the joined values are the definition's is what O14 and O15 say (``proofs.join``); over an empty axis nothing is joined, and
the rolling update runs. What is carried in 16 bits is stored between the kernels in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from neptune_verified.ir.expr import (
    Axis,
    Expr,
    axis,
    op,
    read,
    reduce_,
    substitute,
    var,
)
from neptune_verified.ir.interpret import Array, Evaluator, canonical, size_env
from neptune_verified.ir.kinds import KindAnalysis
from neptune_verified.ir.loops import (
    SPLIT_SIZE,
    SPLITS,
    Carried,
    LoopProgram,
    Nest,
    Output,
    Pass,
    T,
    read_carried,
    repair_of,
    run_nest,
    symbols,
    wide,
    widened,
)
from neptune_verified.ir.program import Program, Tensor


class Unsplittable(Exception):
    """The nest has no split-K form; the message says why."""


@dataclass(frozen=True, slots=True)
class SplitForm:
    """``program``: the definition's, with the tensors between the kernels as inputs. ``extent``: the length that is cut."""

    program: Program
    nests: tuple[Nest, ...]
    temporaries: tuple[Tensor, ...]
    extent: Expr


def split_form(program: Program, nest: Nest) -> SplitForm:
    """Raises Unsplittable."""
    return _Form(program, nest).build()


class _Form:
    def __init__(self, program: Program, nest: Nest) -> None:
        self.program, self.nest = program, nest
        self.analysis = KindAnalysis(program)
        self.s = axis("split", SPLITS)
        names = [t.name for t in program.inputs] + [x.name for x in program.sizes] + [x.name for x in program.stages]
        self.taken = {*names, *(c.name for c in nest.carried())}
        self.temporaries: list[Tensor] = []
        self.kinds: list[tuple[str, frozenset[str]]] = []
        #: Carried reductions of the passes before, as they are read.
        self.known: dict[Expr, Expr] = {}
        self.nests: list[Nest] = []

    def build(self) -> SplitForm:
        nest = self.nest
        if taken := {SPLITS.name, SPLIT_SIZE.name} & self.taken:
            raise Unsplittable(f"the name {min(taken)} is the program's own")
        if not any(p.carried for p in nest.passes):
            raise Unsplittable("nothing is reduced")
        extents = {p.stream[-1].extent if p.stream else None for p in nest.passes}
        extent = next(iter(extents))
        if len(extents) > 1 or extent is None:
            raise Unsplittable("its passes run over axes of different lengths")
        for c in nest.carried():
            if missing := [a.name for a in nest.grid if a not in c.axes]:
                raise Unsplittable(f"{c.name} is the same along {missing[0]}, so that several kernels would store it")
        last = max(k for k, p in enumerate(nest.passes) if p.carried)
        for k, p in enumerate(nest.passes):
            self.add(k, p, k == last)
        program = replace(
            self.program,
            inputs=(*self.program.inputs, *self.temporaries),
            sizes=(*self.program.sizes, SPLITS, SPLIT_SIZE),
            between=tuple(self.kinds),
        )
        return SplitForm(program, tuple(self.nests), tuple(self.temporaries), extent)

    def add(self, k: int, p: Pass, last: bool) -> None:
        nest, s = self.nest, self.s
        stores = tuple(Output(o.name, o.axes, self.closed(o.expr)) for o in p.stores)
        part = Pass(p.stream, self.partial(p), stores)
        parts = tuple(
            Output(self.between(f"{c.name}_part", c, own.axes, own), own.axes, own.value)
            for c, own in zip(p.carried, part.carried, strict=True)
        )
        self.nests.append(Nest(f"{nest.name}_part{k}", (*nest.grid, s), nest.inner, (part,), parts, share=s))
        if not p.carried:
            return
        joined = self.joined(part, {c.name: o.name for c, o in zip(p.carried, parts, strict=True)})
        # What the outputs of this kernel read.
        values = {self.closed(c.value): _narrow(joined[c.name].value, c.value.dtype) for c in p.carried}
        outputs = [Output(o.name, o.axes, read_carried(self.closed(o.expr), values)) for o in nest.outputs if last]
        for c in p.carried if nest.passes[k + 1 :] else ():
            own = joined[c.name]
            name = self.between(c.name, c, own.axes, own)
            outputs.append(Output(name, own.axes, own.value))
            self.known[c.value] = _narrow(read(name, own.axes, own.value.dtype), c.value.dtype)
        levels: dict[int, list[Carried]] = {}
        for name, level in _levels(p).items():
            levels.setdefault(level, []).append(joined[name])
        passes = tuple(Pass((s,), tuple(levels[n])) for n in sorted(levels))
        self.nests.append(Nest(f"{nest.name}_join{k}", nest.grid, nest.inner, passes, tuple(outputs)))

    def closed(self, e: Expr) -> Expr:
        """With the values of earlier passes read from where they were stored."""
        return read_carried(e, self.known)

    def between(self, wanted: str, c: Carried, axes: tuple[Axis, ...], own: Carried) -> str:
        """A new tensor for values of ``c``."""
        name, k = wanted if wanted != c.name else f"{wanted}_all", 1
        while name in self.taken:
            name, k = f"{wanted}_{k}", k + 1
        self.taken.add(name)
        self.temporaries.append(Tensor(name, tuple(a.extent for a in axes), own.value.dtype))
        self.kinds.append((name, self.analysis.of(c.value) | self.analysis.of(c.neutral)))
        return name

    def partial(self, p: Pass) -> tuple[Carried, ...]:
        """The accumulators of one split."""
        own: dict[Expr, Expr] = {}
        result: list[Carried] = []
        for c in p.carried:
            dtype = wide(c.value.dtype)
            body = read_carried(self.closed(c.value.body), own)
            body = op("cast", body, dtype=dtype) if body.dtype != dtype else body
            value = reduce_(c.value.reducer, c.value.axes, body)
            own[self.closed(c.value)] = _narrow(value, c.value.dtype)
            repair = c.repair and replace(c.repair, h=widened(self.closed(c.repair.h)))
            result.append(Carried(c.name, value, (self.s, *c.axes), repair))
        return tuple(result)

    def joined(self, part: Pass, stored: Mapping[str, str]) -> dict[str, Carried]:
        result: dict[str, Carried] = {}
        for c in part.carried:
            mapping: dict[Expr, Expr] = {var(T, c.value.dtype): self.state(c, stored)}
            producers = c.repair.producers if c.repair else ()
            for other in part.carried:
                if other.name in producers:
                    old, new = symbols(other)
                    mapping |= {old: self.state(other, stored), new: result[other.name].value}
            body = substitute(repair_of(part, c), mapping)
            result[c.name] = Carried(c.name, reduce_(c.value.reducer, (self.s,), body), c.axes[1:])
        return result

    @staticmethod
    def state(c: Carried, stored: Mapping[str, str]) -> Expr:
        return read(stored[c.name], c.axes, c.value.dtype)


def _levels(p: Pass) -> dict[str, int]:
    """How many joins must have ended before a value can be joined."""
    found: dict[str, int] = {}
    for c in p.carried:
        found[c.name] = max((found[n] + 1 for n in c.repair.producers), default=0) if c.repair else 0
    return found


def _narrow(e: Expr, dtype: str) -> Expr:
    return e if e.dtype == dtype else op("cast", e, dtype=dtype)


# ---------------------------------------------------------------------------------------- interpreter


def run_split(
    loops: LoopProgram,
    inputs: Mapping[str, Array],
    splits: int,
    scalars: Mapping[str, float] | None = None,
    tile: int = 4,
    size: int | None = None,
) -> dict[str, Array]:
    """Execute the split-K form in float64 with ``splits`` splits of ``size`` elements (by default, as few as will do);
    those beyond the last element own nothing. Raises Unsplittable."""
    if splits < 1:
        raise ValueError(f"a pass has at least one split, got {splits}")
    env = size_env(loops.program, {k: np.shape(v) for k, v in inputs.items()}, scalars or {})
    results: dict[str, Array] = {}
    arrays = {k: canonical(v) for k, v in inputs.items()}
    for nest in loops.nests:
        if not nest.carried():  # a map
            results |= run_nest(nest, Evaluator({**arrays, **results}, env), tile)
            continue
        form = split_form(loops.program, nest)
        n = Evaluator({}, env).integer(form.extent)
        own = size or max(1, -(-n // splits))
        if own * splits < n:
            raise ValueError(f"{splits} splits of {own} elements do not hold {n}")
        more = {SPLITS.name: splits, SPLIT_SIZE.name: own}
        for part in form.nests if n else (nest,):
            results |= run_nest(part, Evaluator({**arrays, **results}, {**env, **more}), tile)
    return {name: results[name] for name in loops.program.outputs}


__all__ = ["SplitForm", "Unsplittable", "run_split", "split_form"]

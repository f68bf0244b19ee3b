"""Not trusted: from a program to a loop program with the fewest passes. A wrong result is refused by the proofs.

Steps: close the outputs over the inputs (``ir.inline``); choose which outputs share a kernel; hoist loop-invariant
factors; give every reduction its pass (``fusion.passes``); store map outputs that run over a stream axis in the first
pass in which everything that they read is final.
"""

from __future__ import annotations

import keyword
from dataclasses import replace

from neptune_verified.fusion.hoist import hoist_all
from neptune_verified.fusion.outputs import Group, fits_whole, group_outputs, stream_axes, top_reductions
from neptune_verified.fusion.passes import Schedule
from neptune_verified.ir.expr import Axis, Expr, Reduce, substitute, subterms
from neptune_verified.ir.inline import Closed, inline
from neptune_verified.ir.loops import Hoist, LoopProgram, Nest, Output, Pass, Refusal, T
from neptune_verified.ir.printing import match_axes
from neptune_verified.ir.program import Program
from neptune_verified.ir.spec import RESERVED
from neptune_verified.proofs.abstract import UnsupportedTerm
from neptune_verified.proofs.kernel import Prover
from neptune_verified.proofs.obligations import hoist_obligations


def fuse(program: Program, prover: Prover | None = None, enabled: bool = True) -> LoopProgram:
    """The fused loop program. ``enabled=False`` fuses and hoists nothing: one pass per chained reduction."""
    prover = prover or Prover()
    closed = inline(program)
    nests: list[Nest] = []
    refusals: list[Refusal] = []
    todo = group_outputs(closed.outputs)
    names = _Names(program)
    while todo:
        group = todo.pop(0)
        outputs = tuple(group.outputs)
        nest = Nest(f"{program.name}_{len(nests)}" if nests or todo else program.name, (), (), (), ())
        built = _Builder(program, closed, prover, enabled, names).build(group, nest)
        if built is None:  # an axis that must be cut is missing in some output: a kernel of its own for each
            todo = [Group([out]) for out in outputs] + todo
            continue
        nests.append(built[0])
        refusals += built[1]
    return LoopProgram(program, tuple(nests), tuple(refusals), enabled)


class _Names:
    """Names of carried values: the stage's name, made unique over the program."""

    def __init__(self, program: Program) -> None:
        reserved = {T, *(t.name for t in program.inputs), *(s.name for s in program.sizes), *keyword.kwlist}
        self.taken = set(reserved)

    def fresh(self, wanted: str) -> str:
        name, k = wanted, 1
        while name in self.taken or RESERVED.fullmatch(name):
            name, k = f"{wanted}_{k}", k + 1
        self.taken.add(name)
        return name


class _Builder:
    def __init__(self, program: Program, closed: Closed, prover: Prover, enabled: bool, names: _Names) -> None:
        self.program, self.prover, self.enabled, self.fresh = program, prover, enabled, names
        self.stage_of = dict(closed.names)

    def build(self, group: Group, nest: Nest) -> tuple[Nest, list[Refusal]] | None:
        self._learn_names(group)
        hoists = self._hoist(group) if self.enabled else []
        streams = {out.name: stream_axes(group, out) for out in group.outputs}
        spatial = tuple(dict.fromkeys(a for out in group.outputs for a in out.axes if a not in streams[out.name]))
        split = self._split_axes(group, spatial)
        if split is None:
            return None
        grid, inner = split
        schedule = Schedule(self.program, replace(nest, grid=grid, inner=inner), self.prover, self.enabled)
        for r in group.tops():
            schedule.place(r, self.fresh.fresh(self._name(r)))
        passes, outputs = self._stores(group, streams, schedule)
        return Nest(nest.name, grid, inner, passes, outputs, tuple(hoists)), schedule.refusals

    # -- names ---------------------------------------------------------------------------------------------

    def _learn_names(self, group: Group) -> None:
        """Stage names of the reductions, which were recorded over the stages' own axes."""
        patterns = [(e, name) for e, name in self.stage_of.items() if isinstance(e, Reduce)]
        for out in group.outputs:
            for r in subterms(out.expr):
                if isinstance(r, Reduce) and r not in self.stage_of:
                    name = next((n for p, n in patterns if match_axes(p, r, tuple(p.free)) is not None), None)
                    if name:
                        self.stage_of[r] = name

    def _name(self, r: Expr) -> str:
        return self.stage_of.get(r, "acc")

    # -- hoists --------------------------------------------------------------------------------------------

    def _hoist(self, group: Group) -> list[Hoist]:
        hoists: list[Hoist] = []

        def accept(h: Hoist) -> bool:
            try:
                return self.prover.first_failure(hoist_obligations(self.program, h)) is None
            except UnsupportedTerm:
                return False

        for k, out in enumerate(group.outputs):
            expr, done = hoist_all(out.expr, self._name, accept)
            group.outputs[k] = replace(out, expr=expr)
            for h in done:
                self._rename_after(h)
            hoists += [h for h in done if h not in hoists]
            for j in range(len(group.outputs)):
                if j != k:
                    other = group.outputs[j].expr
                    for h in done:
                        other = substitute(other, {h.old: h.new})
                    group.outputs[j] = replace(group.outputs[j], expr=other)
        return hoists

    def _rename_after(self, h: Hoist) -> None:
        name = self._name(h.old)
        self.stage_of = {substitute(e, {h.old: h.new}): n for e, n in self.stage_of.items() if e is not h.old}
        for r in h.inner:
            self.stage_of.setdefault(r, name)

    # -- axes ----------------------------------------------------------------------------------------------

    @staticmethod
    def _split_axes(group: Group, spatial: tuple[Axis, ...]) -> tuple[tuple[Axis, ...], tuple[Axis, ...]] | None:
        """Grid axes are those that everything depends on; the others are held whole if they fit, else cut as well."""
        tops = group.tops()
        outs = [set(out.axes) for out in group.outputs]
        grid, inner = [], []
        for a in spatial:
            everywhere = all(a in axes for axes in outs)
            if everywhere and all(a in r.free for r in tops):
                grid.append(a)
            elif fits_whole(a):
                inner.append(a)
            elif everywhere:
                grid.append(a)
            else:
                return None
        return tuple(grid), tuple(inner)

    # -- map outputs over a stream axis ----------------------------------------------------------------------

    @staticmethod
    def _stores(
        group: Group, streams: dict[str, tuple[Axis, ...]], schedule: Schedule
    ) -> tuple[tuple[Pass, ...], tuple[Output, ...]]:
        stores: dict[tuple[tuple[Expr, ...], int], list[Output]] = {}
        plain: list[Output] = []
        for out in group.outputs:
            if not streams[out.name]:
                plain.append(out)
                continue
            domain = tuple(a.extent for a in streams[out.name])
            mapping: dict[Expr, Axis] = dict(zip(streams[out.name], schedule.stream(domain), strict=True))
            axes = tuple(mapping.get(a, a) for a in out.axes)
            moved = Output(out.name, axes, substitute(out.expr, mapping))
            time = max((schedule.time[r] + 1 for r in top_reductions(out.expr, out.axes)), default=0)
            stores.setdefault((domain, time), []).append(moved)
            schedule.slots.setdefault((domain, time), [])
        order = sorted(schedule.slots, key=lambda s: (s[1], list(schedule.streams).index(s[0])))
        passes = tuple(
            Pass(schedule.stream(d), tuple(schedule.slots[d, t]), tuple(stores.get((d, t), ()))) for d, t in order
        )
        return passes, tuple(plain)


__all__ = ["fuse"]

"""Not trusted: which outputs share a kernel, and which axes they share. A wrong choice fails the structure check."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from neptune_verified.ir.expr import FLOATS, Axis, Const, Expr, Op, Reduce, axis, substitute, subterms
from neptune_verified.ir.loops import Output

#: An axis that is held whole in a tile has at most this many elements; longer ones are cut over the grid.
WHOLE_LIMIT = 256

Domain = tuple[Expr, ...]


def domain_of(r: Reduce) -> Domain:
    return tuple(a.extent for a in r.axes)


def top_reductions(expr: Expr, axes: tuple[Axis, ...]) -> list[Reduce]:
    """Reductions that depend on output axes alone, inner ones first: those that a kernel can carry."""
    allowed = set(axes)
    return [x for x in subterms(expr) if isinstance(x, Reduce) and x.free <= allowed]


@dataclass
class Group:
    """Outputs of one kernel, over common axes."""

    outputs: list[Output]

    @property
    def axes(self) -> tuple[Axis, ...]:
        return tuple(dict.fromkeys(a for out in self.outputs for a in out.axes))

    def tops(self) -> list[Reduce]:
        seen: dict[Reduce, None] = {}
        for out in self.outputs:
            for r in top_reductions(out.expr, out.axes):
                seen[r] = None
        return list(seen)


def group_outputs(outputs: dict[str, tuple[tuple[Axis, ...], Expr]]) -> list[Group]:
    """Greedy: an output joins the first kernel with which it shares a reduction, or rows and a reduced domain; where
    nothing is reduced, one with which it shares something computed."""
    groups: list[Group] = []
    for name, (axes, expr) in outputs.items():
        fresh = Output(name, *_rename(axes, expr, tuple(f"{name}_{a.name}" for a in axes)))
        for group in groups:
            merged = _join(group, fresh)
            if merged is not None:
                group.outputs.append(merged)
                break
        else:
            groups.append(Group([Output(name, *_rename(axes, expr, tuple(a.name for a in axes)))]))
    return groups


def _rename(axes: tuple[Axis, ...], expr: Expr, names: tuple[str, ...]) -> tuple[tuple[Axis, ...], Expr]:
    new = tuple(axis(n, a.extent) for n, a in zip(names, axes, strict=True))
    return new, substitute(expr, dict(zip(axes, new, strict=True)))


def _join(group: Group, out: Output) -> Output | None:
    """``out`` over the group's axes, by the order-preserving matching that shares most; None if nothing."""
    have = set(group.tops())
    domains = {domain_of(r) for r in have}
    best: tuple[int, Output] | None = None
    for k in range(len(out.axes), -1, -1):
        for chosen in combinations(range(len(out.axes)), k):
            for targets in combinations(group.axes, k):
                if any(out.axes[i].extent is not t.extent for i, t in zip(chosen, targets, strict=True)):
                    continue
                mapping: dict[Expr, Expr] = {out.axes[i]: t for i, t in zip(chosen, targets, strict=True)}
                axes = tuple(mapping.get(a, a) for a in out.axes)
                candidate = Output(out.name, axes, substitute(out.expr, mapping))  # type: ignore[arg-type]
                tops = top_reductions(candidate.expr, candidate.axes)
                shared = 2 * len(have & set(tops))
                # Over the same rows and the same domain one traversal serves both, though they share no reduction.
                shared += set(axes) == set(group.axes) and bool({domain_of(r) for r in tops} & domains)
                shared += not have and not tops and _maps_share(group, candidate)
                if shared and (best is None or shared > best[0]) and _streams_stay(group, candidate):
                    best = (shared, candidate)
    return best[1] if best else None


def _maps_share(group: Group, candidate: Output) -> bool:
    """Maps, one over all axes of the others, that compute a float value in common: once for both, its reads included."""
    over, have = set(candidate.axes), set(group.axes)
    return (over <= have or have <= over) and any(_computed(o.expr) & _computed(candidate.expr) for o in group.outputs)


def _computed(e: Expr) -> set[Expr]:
    return {x for x in subterms(e) if isinstance(x, Op) and x.name != "cast" and x.dtype in FLOATS and x.free}


def _streams_stay(group: Group, candidate: Output) -> bool:
    """No output loses an axis over which its kernel streams: it would become a grid axis, and the work a power more."""
    together = Group([*group.outputs, candidate])
    return all(len(stream_axes(together, o)) >= len(stream_axes(Group([o]), o)) for o in together.outputs)


def stream_axes(group: Group, out: Output) -> tuple[Axis, ...]:
    """Axes of ``out`` over which the kernel streams: those of a carried domain on which no reduction depends."""
    tops = group.tops()
    free = [a for a in out.axes if not any(a in r.free for r in tops)]
    for r in top_reductions(out.expr, out.axes):
        domain = domain_of(r)
        for chosen in reversed(list(combinations(free, len(domain)))):
            if tuple(a.extent for a in chosen) == domain:
                return chosen
    return ()


def fits_whole(a: Axis) -> bool:
    return isinstance(a.extent, Const) and 0 < int(a.extent.value) <= WHOLE_LIMIT

"""Not trusted: what a definition does with its inputs, as far as one has to know it to choose values and lengths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from neptune_verified.ir.expr import FLOATS, INTS, Axis, Expr, Op, Read, Reduce, Size, children, subterms
from neptune_verified.ir.interpret import Evaluator
from neptune_verified.ir.program import Program

COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
ORDERED = ("lt", "le", "gt", "ge")


@dataclass
class Structure:
    """``reduced``: for each input, the dimensions along which it is reduced, there or in a later stage. ``contracted``:
    float inputs of which two or more meet in one sum. ``indexed``: input -> the dimensions that its values index.
    ``lengths``: integer input -> the extents of axes that are compared with it by order. ``identities``: integer inputs
    that are compared otherwise. ``masks``: pairs of a length of rows and one of columns that one condition compares."""

    reduced: dict[str, tuple[int, ...]]
    contracted: frozenset[str]
    indexed: dict[str, list[Expr]] = field(default_factory=dict)
    lengths: dict[str, list[Expr]] = field(default_factory=dict)
    identities: frozenset[str] = frozenset()
    masks: tuple[tuple[str, str], ...] = ()

    def index_range(self, name: str, evaluator: Evaluator) -> int | None:
        """The shortest dimension that the values of an input index; None where they index nothing."""
        return min((evaluator.integer(d) for d in self.indexed[name]), default=0) if name in self.indexed else None

    def length_range(self, name: str, evaluator: Evaluator) -> int | None:
        """The longest extent with which the values of an input are compared; None where there is none."""
        return max(evaluator.integer(d) for d in self.lengths[name]) if name in self.lengths else None

    def reduced_sizes(self, program: Program) -> list[str]:
        """The symbolic lengths over which something is reduced."""
        found = [
            d.name
            for t in program.inputs
            for k, d in enumerate(t.shape)
            if isinstance(d, Size) and k in self.reduced[t.name]
        ]
        return list(dict.fromkeys(found))


def structure(program: Program) -> Structure:
    reduced = _reduced(program)
    reached = _reached(program)
    integers = {t.name for t in program.inputs if t.dtype in INTS}
    found = Structure({t.name: tuple(sorted(reduced[t.name])) for t in program.inputs}, _contracted(program))
    shapes = {t.name: t.shape for t in program.inputs}
    shapes |= {s.name: tuple(a.extent for a in s.axes) for s in program.stages}
    identities: set[str] = set()
    masks: dict[tuple[str, str], None] = {}
    for s in program.stages:
        for x in subterms(s.body):
            if isinstance(x, Read):
                for i, d in zip(x.indices, shapes[x.tensor], strict=True):
                    for name in _read(i, reached):
                        found.indexed.setdefault(name, []).append(d)
            elif isinstance(x, Op) and x.name in COMPARISONS:
                names = _read(x, reached) & integers
                axes = set().union(*(_axes(a) for a in x.args))
                extents = sorted((a.extent for a in axes), key=str)
                if x.name in ORDERED and extents:
                    for name in names:
                        found.lengths.setdefault(name, []).extend(extents)
                else:
                    identities |= names
                masks |= dict.fromkeys(_pairs(axes, {(s.name, k): a for k, a in enumerate(s.axes)}, reduced))
    found.identities = frozenset(identities - set(found.lengths))
    found.masks = tuple(masks)
    return found


def _reduced(program: Program) -> dict[str, set[int]]:
    """For each input and stage: the dimensions whose index is a reduction's, in some stage that reads it or later."""
    names = [*(t.name for t in program.inputs), *(s.name for s in program.stages)]
    found: dict[str, set[int]] = {name: set() for name in names}
    for s in reversed(program.stages):
        kept = {a for k, a in enumerate(s.axes) if k not in found[s.name]}
        for x in subterms(s.body):
            if isinstance(x, Read):  # by axes of reductions, or axes that are reduced later
                found[x.tensor] |= {k for k, i in enumerate(x.indices) if i.free - kept}
    return found


def _reached(program: Program) -> dict[str, frozenset[str]]:
    """The inputs that each tensor is computed from."""
    found = {t.name: frozenset({t.name}) for t in program.inputs}
    for s in program.stages:
        found[s.name] = frozenset().union(*(found[x.tensor] for x in subterms(s.body) if isinstance(x, Read)))
    return found


def _read(e: Expr, reached: Mapping[str, frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*(reached[x.tensor] for x in subterms(e) if isinstance(x, Read)))


def _contracted(program: Program) -> frozenset[str]:
    """Through stages without a reduction, what meets in a sum."""
    floats = {t.name for t in program.inputs if t.dtype in FLOATS}
    elementwise: dict[str, frozenset[str]] = {name: frozenset({name}) for name in floats}
    found: set[str] = set()
    for s in program.stages:
        reads = [elementwise.get(x.tensor, frozenset()) for x in subterms(s.body) if isinstance(x, Read)]
        together = frozenset().union(*reads)
        sums = any(isinstance(x, Reduce) and x.reducer == "sum" for x in subterms(s.body))
        elementwise[s.name] = frozenset() if any(isinstance(x, Reduce) for x in subterms(s.body)) else together
        if sums and len(together) > 1:
            found |= together
    return frozenset(found)


def _axes(e: Expr) -> set[Axis]:
    """The axes in an expression, those inside the indices of reads apart."""
    if isinstance(e, Axis):
        return {e}
    return set() if isinstance(e, Read) else set().union(*(_axes(x) for x in children(e)))


def _pairs(
    axes: set[Axis], own: Mapping[tuple[str, int], Axis], reduced: Mapping[str, set[int]]
) -> Iterator[tuple[str, str]]:
    """Lengths of a row axis and of a column axis: one that stays, and one that is reduced."""
    stays = {a for (stage, k), a in own.items() if k not in reduced[stage]}
    rows = sorted({a.extent.name for a in axes & stays if isinstance(a.extent, Size)})
    columns = sorted({a.extent.name for a in axes - stays if isinstance(a.extent, Size)})
    for r in rows:
        for c in columns:
            if r != c:
                yield r, c

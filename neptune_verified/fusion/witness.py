"""Not trusted: small inputs with which a loop that fuses a refused edge computes a wrong value. For people; see
``ir.example``.

Lengths grow from 1. For each, the inputs over a few simple values are tried, all of them where they are few, and
otherwise a fixed sequence; simplest first. What is found is made simpler still, and kept only if many digits agree
(``fusion.exact``). That nothing was found proves nothing: an update can be refused because it was not proved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from neptune_verified.fusion.exact import Row
from neptune_verified.fusion.layout import Found, Layout, scalar
from neptune_verified.fusion.pools import lengths_of
from neptune_verified.fusion.trials import Outcome, Setup, scalar_arguments, spatial_axes
from neptune_verified.ir.example import Example, Nested
from neptune_verified.ir.expr import FLOATS
from neptune_verified.ir.interpret import Array
from neptune_verified.ir.loops import Carried, Nest, Pass, Repair
from neptune_verified.ir.printing import Printer, match_axes
from neptune_verified.ir.program import Program
from neptune_verified.proofs.evaluate import FIND, OutOfReach
from neptune_verified.proofs.verdict import Counterexample

#: Runs, of all trials each, that one search may have.
RUNS = 40
#: Lengths, from the first one at which a wrong value was found that is no number, at which one that is is looked for.
PATIENCE = 3
#: Wrong trials of one run that are looked at to many digits.
CONFIRMED = 8


def find_example(
    program: Program, nest: Nest, p: Pass, consumer: Carried, point: Counterexample | None = None
) -> Example | None:
    """A run of ``p``, in which ``consumer`` carries the refused repair, whose final value of ``consumer`` is wrong.

    An update that fails because a producer starts at an infinity tells little. Then an example is looked for in which
    the update is left out as long as that lasts (``hold``); this form of it was refused too."""
    assert consumer.repair is not None

    def search(hold: bool) -> _Answer | None:
        assert consumer.repair is not None
        c = replace(consumer, repair=replace(consumer.repair, hold=hold))
        return _Search(program, nest, _needed(p, c), c, point).run()

    try:
        found = search(consumer.repair.hold)
        if found is not None and not found.telling and not consumer.repair.hold:
            held = search(True)
            found = held if held is not None and held.rank > found.rank else found
        return found and _example(program, *found)
    except (OutOfReach, ArithmeticError, MemoryError, ValueError, TypeError):
        return None  # an explanation less; what is proved and refused does not depend on it


def _needed(p: Pass, consumer: Carried) -> Pass:
    """The pass with what the consumer reads, directly or not."""
    wanted = {consumer.name}
    for c in reversed(p.carried):
        if c.name in wanted and c.repair is not None:
            wanted |= set(c.repair.producers)
    return Pass(p.stream, (*(c for c in p.carried if c.name in wanted - {consumer.name}), consumer))


class _Answer(NamedTuple):
    layout: Layout
    found: Found

    @property
    def rank(self) -> tuple[bool, bool]:
        return self.found.finite, not self.layout.setup.single

    @property
    def telling(self) -> bool:
        return all(self.rank)


class _Search:
    def __init__(self, program: Program, nest: Nest, p: Pass, consumer: Carried, point: Counterexample | None) -> None:
        self.program, self.nest, self.pass_, self.consumer = program, nest, p, consumer
        self.extra = _numbers(point)
        self.runs = 0

    def run(self) -> _Answer | None:
        """The shortest row on which a number comes out wrong; if there is none, on which no number comes out."""
        best: _Answer | None = None
        patience = PATIENCE
        for sizes in lengths_of(self.program, self.pass_):
            setup = Setup(self.program, self.nest, self.pass_, self.consumer, sizes)
            if not setup.possible:
                break
            layout = Layout(setup, self.extra)
            found = self.look(layout, layout.trials())
            if found and (found.finite or best is None):
                best = _Answer(layout, self.shrink(layout, found))
            patience -= best is not None
            if best is not None and (best.found.finite or not patience):
                break
        return best

    def look(self, layout: Layout, ranks: Array) -> Found | None:
        """The simplest of these trials that is wrong, and has a number as its value if one of them has."""
        if self.runs >= RUNS:
            return None
        self.runs += 1
        outcome = layout.setup.run(layout.tensors(ranks))
        order = sorted(_wrong(outcome), key=lambda w: (not w[1], int(ranks[w[0][0]].sum()), w[0]))
        fallback = None
        for at, _ in order[:CONFIRMED]:
            seen = float(outcome.want[at]), float(outcome.got[at])
            found = layout.confirm(ranks[at[0]], at[1:], seen)
            if found is not None and found.finite:
                return found
            fallback = fallback or found
        return fallback

    def shrink(self, layout: Layout, found: Found) -> Found:
        """Elements one after the other, and tensors as a whole, to simpler values."""
        while True:
            simpler = list(_simpler(layout, found.ranks))
            better = self.look(layout, np.array(simpler)) if simpler else None
            if better is None or (found.finite and not better.finite):
                return found
            found = better


def _wrong(outcome: Outcome) -> list[tuple[tuple[int, ...], bool]]:
    finite = outcome.finite
    return [(tuple(map(int, at)), bool(finite[tuple(at)])) for at in np.argwhere(outcome.wrong)]


def _simpler(layout: Layout, ranks: Array) -> Iterator[Array]:
    for part in layout.parts.values():
        if ranks[part].any():
            smaller = ranks.copy()
            smaller[part] = 0
            yield smaller
    for k in np.flatnonzero(ranks):
        for r in range(int(ranks[k])):
            smaller = ranks.copy()
            smaller[k] = r
            yield smaller


def _numbers(point: Counterexample | None) -> tuple[Fraction, ...]:
    """Short binary numbers at which the statement was seen to fail."""
    found = []
    for text in point.values.values() if point is not None else ():
        try:
            x = Fraction(text)
        except ValueError:
            continue
        if abs(x) <= 64 and 64 % x.denominator == 0:
            found.append(x)
    return tuple(dict.fromkeys(found))


# ---------------------------------------------------------------------------------------- the answer


def _example(program: Program, layout: Layout, found: Found) -> Example:
    s = layout.setup
    one = {name: values[0] for name, values in layout.tensors(found.ranks[None]).items()}
    dtypes = {t.name: t.dtype for t in program.inputs}
    what, index = _place(program, s, found.index)
    repair = s.consumer.repair
    held = tuple(_held(c, repair) for c in s.pass_.carried if repair and repair.hold and c.name in repair.producers)
    return Example(
        tuple(sorted((name, _nested(one[name], dtypes[name] == "bool")) for name in dtypes)),
        tuple(sorted((a.name, scalar(Fraction(float(one[a.name])))) for a in scalar_arguments(program))),
        tuple(sorted(s.sizes.items())),
        s.tile,
        held,
        what,
        index,
        scalar(found.before),
        scalar(found.after),
    )


def _held(producer: Carried, repair: Repair) -> str:
    points = {point for g in repair.guards if g.producer == producer.name for point in g.points}
    infinite = ["infinite"] if producer.value.dtype in FLOATS else []
    return f"{producer.name} is {' or '.join(infinite + ['zero'] * ('zero' in points))}"


def _place(program: Program, s: Setup, index: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """The stage that is the reduction, with the stage's own index, or else the accumulator."""
    env = dict(zip(spatial_axes(s.nest), index, strict=True))
    row = Row({}, s.sizes, env, FIND)
    own = s.consumer.name
    for name, axes, body in sorted(Printer(program).stages, key=lambda stage: stage[0] != own):
        binding = match_axes(body, s.consumer.value, axes)
        if binding is not None:
            return name, tuple(int(row.value(binding[a], env)) if a in binding else 0 for a in axes)
    return f"accumulator {own}", tuple(env[a] for a in s.consumer.axes)


def _nested(x: Array, truth: bool) -> Nested:
    if x.ndim:
        return tuple(_nested(row, truth) for row in x)
    return bool(x) if truth else scalar(x.item() if np.isinf(x) else Fraction(x.item()))


__all__ = ["find_example"]

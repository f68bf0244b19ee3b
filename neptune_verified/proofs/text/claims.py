"""Trusted: what the values that loops carry are, by induction over the tiles.

A *claim* says that a value which a loop of the text carries is a carried value of the loop program, at given index
expressions of its axes: at the start of an iteration ``@old`` over the elements that were processed so far, at its end
``@new``, after the loop ``@fin``. Claims arise where the two sides are compared, and are proved together: each by its
start (the neutral element, or the end of the loop before), and by one iteration with an arbitrary tile, in which the
claims about the other values may be used. What one iteration must give is the loop program's step, whose obligations O1
to O7, O14 carry it to the definition (docs/trust.md, the induction).

A claim about the value after a loop is *complete* if every element of the stream is in exactly one iteration of exactly one
loop of the chain (O8), or its term is the neutral element for every row of the program (O10).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from typing import Protocol

from neptune_verified.ir.expr import (
    FLOATS,
    INTS,
    REDUCERS,
    TRUE,
    Axis,
    Const,
    Expr,
    Op,
    Read,
    Reduce,
    Size,
    axis,
    const,
    op,
    reduce_,
    size,
    substitute,
    subterms,
    transform,
    var,
)
from neptune_verified.ir.kinds import EXTENDED, NINF, TRUTH, UNDEF, KindAnalysis, Kinds
from neptune_verified.ir.loops import Carried, Pass
from neptune_verified.proofs.text.findings import Unproved
from neptune_verified.proofs.text.integers import Facts, both, within, zero
from neptune_verified.proofs.text.match import Matcher
from neptune_verified.proofs.text.reader import Reading
from neptune_verified.proofs.text.states import States, combined, tile_reduction
from neptune_verified.proofs.text.unseen import Update, check_unseen, contributions
from neptune_verified.proofs.text.values import Carry, Loop, opened


class Ground(Protocol):
    """Makes facts that hold of every program of the launch: lengths, digits of the program index."""

    def facts(self) -> Facts: ...

    def is_uniform(self, x: Size) -> bool:
        """One number for the whole program: a length, an argument, a digit of the program index."""
        ...


@dataclass(frozen=True, slots=True)
class Claim:
    """``carry`` is the carried value ``name`` at ``indices`` (one for each of its axes), for all lanes ``lane?k``."""

    carry: Carry
    name: str
    indices: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Position:
    """A lane of the stream, and for each lane of the value what makes it a row of the definition."""

    position: Size
    rows: dict[Size, tuple[Expr, ...]]


def claim_lanes(shape: tuple[int, ...]) -> tuple[Expr, ...]:
    return tuple(const(0, "int32") if n == 1 else size(f"lane?{k}") for k, n in enumerate(shape))


def lane_facts(shape: tuple[int, ...]) -> tuple[Expr, ...]:
    """The ranges of ``claim_lanes``."""
    lanes_ = zip(claim_lanes(shape), shape, strict=True)
    return tuple(x for lane_, n in lanes_ if n > 1 for x in within(lane_, zero(), const(n, "int32")))


def loop_facts(loop: Loop) -> tuple[Expr, ...]:
    """The loop's variable in an arbitrary iteration."""
    result: tuple[Expr, ...] = within(loop.symbol, loop.low, loop.high)
    if loop.step > 1:
        steps = op("floormod", op("sub", loop.symbol, loop.low), const(loop.step, "int32"))
        result = (*result, op("eq", steps, zero()))
    return result


def covers(loop: Loop, j: Expr) -> Expr:
    """Some iteration's tile holds the element j."""
    step = const(loop.step, "int32")
    tile = op("mul", op("floordiv", op("sub", j, loop.low), step), step)
    return op("and", op("le", loop.low, j), op("lt", op("add", loop.low, tile), loop.high))


def bounds(condition: Expr, facts: Facts) -> list[Expr]:
    """The greatest and least of some lanes bound each of them: at the indices at hand."""
    found = []
    for x in subterms(condition):
        if isinstance(x, Reduce) and x.reducer in ("max", "min") and x.dtype in INTS and len(x.axes) == 1:
            for i in facts.indices:
                if facts.holds(op("lt", i, x.axes[0].extent)):
                    element = substitute(x.body, {x.axes[0]: i})
                    found.append(op("le", element, x) if x.reducer == "max" else op("le", x, element))
    return found


def partners(reading: Reading, names: list[str]) -> dict[str, str]:
    """Which value of the text is to be which of the loop program, by their names: a guess, which the claims prove."""
    own = list(dict.fromkeys(v for loop in reading.loops for v in loop.carried))
    found = {n: n for n in names if n in own}
    for n in names:
        if n not in found.values():
            like = [v for v in own if v not in found and re.fullmatch(re.escape(n) + r"_\d+", v)]
            found |= dict.fromkeys(like[:1], n)
    return found


class Claims:
    def __init__(self, reading: Reading, states: States, analysis: KindAnalysis, ground: Ground) -> None:
        self.reading, self.states, self.analysis, self.ground = reading, states, analysis, ground
        self.by_carry: dict[str, Claim] = {}
        self.partners = partners(reading, [c.name for c in states.nest.carried()])
        self.todo: list[Claim] = []
        self.completeness: dict[str, Claim] = {}
        #: For the report: loops whose skipped elements were shown to be neutral.
        self.skipping: list[str] = []
        #: Values with a mask, of which it was shown that positions that every row masks are not looked at.
        self.unseen: list[str] = []
        #: Sums of products of which an operand is taken as two numbers of a 16-bit type.
        self.doubled: dict[str, str] = {}

    # -- where the two sides meet --------------------------------------------------------------------------

    def state(self, m: Matcher, t: Expr, s: Read) -> bool:
        """The text's value ``t`` against a carried value of the loop program."""
        kind, name = s.tensor[1:].split(":", 1)
        _, c = self.states.carried(name)
        for _ in range(10_000):
            if isinstance(t, Read):
                found = self.meaning(m, t, kind)
                if found is not None:
                    root = self.outermost(found)
                    if kind == "fin" and root is not found:
                        return m.differ("O8", f"{found.name} is read before the loops around it have ended")
                    if not self.believe(m, root, t.indices, name, s.indices):
                        return False
                    if kind == "fin":
                        self.completeness[root.start] = self.by_carry[root.start]
                    return True
                if t.tensor in self.reading.starts or t.tensor in self.reading.exits:
                    stale = {"old": "before", "new": "after", "fin": "at the end of"}[kind]
                    what = t.tensor.lstrip("%").split("@")[0]
                    return m.differ(
                        "O8", f"{what} is not {name} {stale} {'the pass' if kind == 'fin' else 'this tile'}"
                    )
                if t.tensor in self.reading.definitions:
                    t = self.reading.definitions[t.tensor].at(t.indices)
                    continue
            if kind == "fin" and isinstance(t, Const):
                return self.untouched(m, t, name, s.indices)
            opened_ = m.head(t, whole=False)
            if opened_ is not t:
                t = opened_
                continue
            if isinstance(t, Op) and t.name == "select":
                atom = m.open_atom(t.args[0])
                return atom is not None and m.split(atom, t, s)
            return m.differ("O8", f"something else than {name} of the loop program ({c.value.reducer})")
        raise Unproved("O13", "a name that cannot be resolved")

    def meaning(self, m: Matcher, t: Read, kind: str) -> Carry | None:
        """The carry that ``t`` is, if it is that of a value before, after or at the end of ..."""
        if kind == "old":
            carry = self.reading.starts.get(t.tensor)
            return carry if carry is not None and carry.loop in m.inside and not self.updated(m, carry) else None
        if kind == "fin":
            return self.reading.exits.get(t.tensor)
        for number in m.inside:
            for carry in self.reading.loops[number].carried.values():
                _, end = carry.update
                if isinstance(end, Read) and end.tensor == t.tensor and t.tensor in self.reading.definitions:
                    return carry
        return None

    def updated(self, m: Matcher, carry: Carry) -> bool:
        """A loop inside, in which the comparison is made, has updated the value since this one's iteration began."""
        return any(c.before is carry.whole for n in m.inside for c in self.reading.loops[n].carried.values())

    def constant(self, m: Matcher, s: Read) -> Fraction | float | bool | None:
        """The value after its pass of a carried value that no loop of the text updates."""
        name = s.tensor.split(":", 1)[1]
        if name in self.partners.values():
            return None
        _, c = self.states.carried(name)
        neutral = self.states.neutral(c)
        return neutral.value if self.untouched(m, neutral, name, s.indices) else None

    def untouched(self, m: Matcher, t: Const, name: str, indices: tuple[Expr, ...]) -> bool:
        """No loop updates the value: it is the neutral element, and so is every element of the stream, for every value
        that its repair reads too."""
        p, c = self.states.carried(name)
        if t is not self.states.neutral(c):
            return m.differ("O8", f"a constant where the loop program has {name}")
        own = dict(zip(c.axes, indices, strict=True))
        for other in p.carried:
            if other is c or (c.repair is not None and other.name in c.repair.producers):
                at: dict[Axis, Expr] = {a: own[a] for a in other.axes}
                with m.facts.case(), m.because("O10"):
                    self.element(m, p, at | dict(zip(c.axes, indices, strict=True)), at)
                    if m.facts.impossible():
                        continue
                    if not m.equal(self.states.neutral(other), self.states.term(p, other, at)):
                        return m.differ("O10", f"{other.name}: an element that no tile holds is not neutral")
        self.skipping.append(name)
        return True

    def outermost(self, carry: Carry) -> Carry:
        """Of the loops around each other that update one value."""
        while isinstance(carry.before, Read) and carry.before.tensor in self.reading.starts:
            carry = self.reading.starts[carry.before.tensor]
        return carry

    def believe(self, m: Matcher, carry: Carry, at: tuple[Expr, ...], name: str, indices: tuple[Expr, ...]) -> bool:
        """Take up the claim; it is proved later, unless it contradicts one that is there."""
        _, c = self.states.carried(name)
        if self.partners.get(carry.name) != name:
            return m.differ("O8", f"{carry.name} where the loop program has {name}")
        own = claim_lanes(carry.shape)
        if len(at) != len(own):
            return m.differ("O13", f"{carry.name} has another shape than {name}")
        moved: dict[Expr, Expr] = {}
        for symbol, lane_, n in zip(at, own, carry.shape, strict=True):
            if n == 1:
                continue
            if not isinstance(symbol, Size) or symbol in moved:
                return m.differ("O13", f"{carry.name} is read at something else than a lane")
            moved[symbol] = lane_
        for a, index in zip(c.axes, indices, strict=True):
            if not m.facts.between(index, zero(), a.extent):
                return m.differ("O13", f"{name} is wanted beyond its axis {a.name}")
        # A lane of the value at hand that is none of this carried value's: it has no meaning in a claim about all its lanes.
        for x in {x for i in indices for x in subterms(i) if isinstance(x, Size)}:
            if x not in moved and not self.ground.is_uniform(x):
                return m.differ("O13", f"{carry.name}, read along one dimension, where {name} has another")
        claim = Claim(carry, name, tuple(substitute(i, moved) for i in indices))
        known = self.by_carry.get(carry.start)
        if known is not None:
            return self.same(known, claim) or m.differ("O8", f"{carry.name} would have to be {known.name} and {name}")
        self.by_carry[carry.start] = claim
        self.todo.append(claim)
        return True

    def same(self, a: Claim, b: Claim) -> bool:
        if a.name != b.name:
            return False
        if a.indices == b.indices:
            return True
        facts = self.facts_of(a)
        return all(facts.equal(x, y) for x, y in zip(a.indices, b.indices, strict=True))

    def after(self, m: Matcher, t: Read, s: Expr) -> bool:
        """A value after (or in) a loop against an expression that is no carried value: a reduction in place."""
        carry = self.reading.exits.get(t.tensor)
        if carry is None or not isinstance(s, Reduce):
            what = t.tensor.lstrip("%").split("@")[0]
            return m.differ("O8", f"{what}, a value that a loop carries, where the definition has another")
        return self.in_place(m, carry, t.indices, s)

    # -- kinds ---------------------------------------------------------------------------------------------

    def kinds(self, m: Matcher, x: Read) -> Kinds | None:
        """Kinds of a number that is read: of an input, of a carried value, of one that a claim says to be a carried value
        before or after a tile; None for another value."""
        if x.dtype == "bool":
            return TRUTH
        if x.tensor.startswith("@"):
            found = self.carried_kinds(x.tensor.split(":", 1)[1])
        elif x.tensor in self.analysis.shapes:
            found = self.analysis.declared(x.tensor) | ({UNDEF} if m.hides(x) else set())
        elif name := self.claimed(m, x):
            found = self.carried_kinds(name)
        else:
            return None
        for point, kind in ((float("-inf"), NINF), (0, "zero"), (float("inf"), "+inf")):
            if x.dtype in FLOATS and m.compared(op("eq", x, const(point, x.dtype))) is False:
                found -= {kind}
        return found

    def claimed(self, m: Matcher, x: Read) -> str:
        """The carried value that a value of this iteration is, in one of the definition's rows, by a claim."""
        carry = self.meaning(m, x, "old") or self.meaning(m, x, "new")
        claim = self.by_carry.get(self.outermost(carry).start) if carry is not None else None
        if carry is None or claim is None or len(x.indices) != len(carry.shape):
            return ""
        lanes_ = zip(claim_lanes(carry.shape), x.indices, strict=True)
        own: dict[Expr, Expr] = {a: i for a, i in lanes_ if isinstance(a, Size)}
        _, c = self.states.carried(claim.name)
        at = [(substitute(i, own), a.extent) for i, a in zip(claim.indices, c.axes, strict=True)]
        return claim.name if all(m.facts.between(i, zero(), n) for i, n in at) else ""

    def analysed(self, m: Matcher, e: Expr) -> Kinds:
        """Kinds of an expression of the definition, from those of its inputs and carried values."""
        given: dict[Expr, Kinds] = {}

        def fn(x: Expr) -> Expr | None:
            if not isinstance(x, Read):
                return None
            symbol = var(f"{x.tensor}?{len(given)}", x.dtype)
            found = self.kinds(m, x)
            given[symbol] = EXTENDED | {UNDEF} if found is None else found
            return symbol

        opened_ = transform(e, fn)
        return self.analysis.under(given).of(opened_)

    def carried_kinds(self, name: str) -> Kinds:
        """A carried value over any part of its stream."""
        _, c = self.states.carried(name)
        return self.analysis.of(c.value) | self.analysis.of(c.neutral)

    # -- proofs --------------------------------------------------------------------------------------------

    def facts_of(self, claim: Claim) -> Facts:
        """An arbitrary program and lane at which the carried value is one of the definition's."""
        _, c = self.states.carried(claim.name)
        facts = self.ground.facts()
        for x in lane_facts(claim.carry.shape):
            facts.add(x)
        for a, index in zip(c.axes, claim.indices, strict=True):
            for x in within(index, zero(), a.extent):
                facts.add(x)
        return facts

    def prove_all(self) -> None:
        while self.todo:
            self.prove(self.todo.pop())
        # An element that is skipped has to be neutral for the values that a repair reads too: the definition's see it.
        last = {claim.carry.loop for claim in self.completeness.values()}
        for claim in [c for c in self.by_carry.values() if c.carry.loop in last]:
            self.complete(claim)
        if self.todo:
            self.prove_all()

    def prove(self, claim: Claim) -> None:
        """Start and step."""
        carry = claim.carry
        p, c = self.states.carried(claim.name)
        facts = self.facts_of(claim)
        m = Matcher(self.reading, facts, self.analysis, self)
        lanes_ = claim_lanes(carry.shape)
        line = self.reading.loops[carry.loop].line
        self.start(m, claim, opened(carry.before, carry.shape, lanes_), line)
        loops, end = self.nest(carry)
        if len(loops) != len(p.stream):
            raise Unproved("O8", f"{claim.name} is reduced over {len(p.stream)} axes, by {len(loops)} loops", line)
        at: dict[Axis, Expr] = dict(zip(c.axes, claim.indices, strict=True))
        inside: list[Expr] = []
        for loop in loops:
            for x in loop_facts(loop):
                facts.add(x)
        for a, loop in zip(p.stream[:-1], loops[:-1], strict=True):
            at[a] = loop.symbol
            inside += within(loop.symbol, zero(), a.extent)
        last, a = loops[-1], p.stream[-1]
        index = axis("tile", last.step)
        at[a] = op("add", last.symbol, index) if last.step > 1 else last.symbol
        inside += within(at[a], *self.states.span(p, a, at))
        neutral = self.states.neutral(c)
        m.inside = tuple(loop.number for loop in loops)
        condition, update = self.update(loops, end)
        if condition is not None:
            with facts.case((condition, False)):
                self.left_alone(m, claim, loops, at, condition)
            facts.add(condition)
        update = opened(update, carry.shape, lanes_)
        wanted = self.states.step(p, c, at)
        terms = self.terms(p, c, at, len(contributions(m, update)))
        for g in terms:
            local = tile_reduction(c.value.reducer, both(*inside), g, neutral, index)
            wanted = combined(c.value.reducer, wanted, local)
        m.require(update, wanted, f"{claim.name} after a tile", loops[-1].line)
        rows = self.at_position(m, claim, loops[-1], at)
        m.blame = (-1, "O9", "")
        seen = Update(update, len(terms))
        found = check_unseen(m, c, self.states.term(p, c, at), neutral, seen, rows.position, rows.rows)
        if found is None:
            raise Unproved(m.blame[1], m.blame[2], loops[-1].line)
        self.unseen += [claim.name] if found else []

    def terms(self, p: Pass, c: Carried, at: Mapping[Axis, Expr], count: int) -> tuple[Expr, ...]:
        """What one element contributes, in as many parts as the text adds: the term, or the two halves of a product."""
        halves = self.states.halves(p, c, at) if count == 2 else None
        if halves is None:
            return (self.states.term(p, c, at),)
        dtype, *parts = halves
        self.doubled[c.name] = dtype
        return tuple(parts)

    def at_position(self, m: Matcher, claim: Claim, last: Loop, at: dict[Axis, Expr]) -> Position:
        """One element of the tile, in the range of its axis; ``at`` gets its index."""
        p, _ = self.states.carried(claim.name)
        a = p.stream[-1]
        position = m.fresh(const(last.step, "int32"))
        at[a] = op("add", last.symbol, position) if last.step > 1 else last.symbol
        for x in within(at[a], *self.states.span(p, a, at)):
            m.facts.add(x)
        shape = claim.carry.shape
        rows = {
            x: (*within(x, zero(), const(n, "int32")), *self.row(claim, x))
            for x, n in zip(claim_lanes(shape), shape, strict=True)
            if isinstance(x, Size)
        }
        return Position(position, rows)

    @staticmethod
    def update(loops: list[Loop], end: Expr) -> tuple[Expr | None, Expr]:
        """The condition under which the innermost loop changes the value, and what it becomes."""
        for carry in loops[-1].carried.values():
            if carry.end is end:
                return carry.update
        return None, end

    def left_alone(self, m: Matcher, claim: Claim, loops: list[Loop], at: dict[Axis, Expr], condition: Expr) -> None:
        """An iteration that changes nothing: every element of its tile is neutral, in every row of the program."""
        line = loops[-1].line
        for carry in loops[-1].carried.values():
            if carry.name in self.partners and carry.update[0] is not condition:
                raise Unproved("O8", f"{carry.name} changes in an iteration in which {claim.carry.name} does not", line)
        p, c = self.states.carried(claim.name)
        with m.facts.case(), m.because("O10"):
            place = dict(at)
            self.at_position(m, claim, loops[-1], place)
            for x in bounds(condition, m.facts):
                m.facts.add(x)
            if m.facts.impossible():
                return
            what = f"{claim.name}: an element of a tile that is left out is not neutral"
            m.require(self.states.neutral(c), self.states.term(p, c, place), what, line)
        self.skipping.append(claim.name)

    def row(self, claim: Claim, x: Size) -> tuple[Expr, ...]:
        """What makes a lane of the value one of the definition's rows: the indices that it is part of are in range."""
        _, c = self.states.carried(claim.name)
        own = [(i, a) for i, a in zip(claim.indices, c.axes, strict=True) if any(y is x for y in subterms(i))]
        return tuple(y for i, a in own for y in within(i, zero(), a.extent))

    def start(self, m: Matcher, claim: Claim, before: Expr, line: int) -> None:
        """The neutral element, or what an earlier loop of the chain has left."""
        _, c = self.states.carried(claim.name)
        if isinstance(before, Read) and before.tensor in self.reading.exits:
            carry = self.reading.exits[before.tensor]
            if not self.believe(m, carry, before.indices, claim.name, claim.indices):
                raise Unproved(m.blame[1], f"{claim.name} before the loop: {m.blame[2]}", line)
            return
        with m.because("O8"):
            m.require(before, self.states.neutral(c), f"{claim.name} before the loop", line)

    def nest(self, carry: Carry) -> tuple[list[Loop], Expr]:
        """The loops that update a value, outermost first, and its value at the end of an innermost iteration."""
        loops = [self.reading.loops[carry.loop]]
        while isinstance(carry.end, Read) and carry.end.tensor in self.reading.exits:
            inner = self.reading.exits[carry.end.tensor]
            if inner.before is not carry.whole or inner.shape != carry.shape:
                raise Unproved("O8", f"{carry.name} is set anew between two loops", loops[-1].line)
            loops.append(self.reading.loops[inner.loop])
            # In the innermost loop's iteration the value is read by that loop's name.
            carry = inner
        return loops, carry.end

    def chain(self, carry: Carry) -> list[Carry]:
        """The loops that updated the value one after the other, first to last."""
        found = [carry]
        while isinstance(carry.before, Read) and carry.before.tensor in self.reading.exits:
            carry = self.reading.exits[carry.before.tensor]
            found.insert(0, carry)
        return found

    def complete(self, claim: Claim) -> None:
        p, c = self.states.carried(claim.name)
        facts = self.facts_of(claim)
        m = Matcher(self.reading, facts, self.analysis, self)
        at: dict[Axis, Expr] = dict(zip(c.axes, claim.indices, strict=True))
        self.element(m, p, at, at)
        chain = self.chain(claim.carry)
        line = self.reading.loops[chain[-1].loop].line
        nests = [self.nest(x)[0] for x in chain]
        self.partition(m, nests, [(at[a], a.extent) for a in p.stream], line)
        missed = self.missed(nests, at[p.stream[-1]])
        with facts.case((missed, True)):
            if facts.impossible():
                return
            with m.because("O10"):
                g, neutral = self.states.term(p, c, at), self.states.neutral(c)
                m.require(neutral, g, f"{claim.name}: an element that no tile holds is not neutral", line)
        self.skipping.append(claim.name)

    def element(self, m: Matcher, p: Pass, row: Mapping[Axis, Expr], at: dict[Axis, Expr]) -> None:
        """An arbitrary element of the stream, or of the row's share of it."""
        for a in p.stream:
            at[a] = m.fresh(a.extent)
            for x in within(at[a], *self.states.span(p, a, row)):
                m.facts.add(x)

    @staticmethod
    def missed(nests: list[list[Loop]], j: Expr) -> Expr:
        held = covers(nests[0][-1], j)
        for loops in nests[1:]:
            held = op("or", held, covers(loops[-1], j))
        return op("not", held)

    def partition(self, m: Matcher, nests: list[list[Loop]], stream: list[tuple[Expr, Expr]], line: int) -> None:
        """No element is in two tiles; outer loops run over whole axes."""
        if len(nests) > 1 and any(len(loops) > 1 for loops in nests):
            raise Unproved("O8", "several nests of loops update one value", line)
        for loops in nests:
            for loop, (_, extent) in zip(loops[:-1], stream[:-1], strict=True):
                whole = m.facts.equal(loop.low, zero()) and m.facts.equal(loop.high, extent) and loop.step == 1
                if not whole:
                    raise Unproved("O8", "a loop does not run over its whole axis", loop.line)
        j = stream[-1][0]
        tails = [loops[-1] for loops in nests]
        for k, a in enumerate(tails):
            for b in tails[k + 1 :]:
                if not m.facts.fails(op("and", covers(a, j), covers(b, j))):
                    raise Unproved("O8", "an element may be in tiles of two loops", b.line)

    # -- reductions in place -------------------------------------------------------------------------------

    def in_place(self, m: Matcher, carry: Carry, at: tuple[Expr, ...], s: Reduce) -> bool:
        """A loop that reduces ``s``, whose result nothing repairs: its start, one iteration, and its domain."""
        neutral = REDUCERS[s.reducer].neutral(s.dtype)
        if not m.equal(opened(carry.before, carry.shape, at), neutral):
            return m.differ("O8", f"{carry.name} does not start at the neutral element")
        loops, end = self.nest(carry)
        innermost = carry if len(loops) == 1 else self.innermost(carry)
        found = False
        for chosen in permutations(s.axes, len(loops)):
            with m.facts.case():
                found = self._in_place(m, innermost, loops, end, at, s, chosen)
            if found:
                break
        return found

    def innermost(self, carry: Carry) -> Carry:
        while isinstance(carry.end, Read) and carry.end.tensor in self.reading.exits:
            carry = self.reading.exits[carry.end.tensor]
        return carry

    def _in_place(
        self,
        m: Matcher,
        carry: Carry,
        loops: list[Loop],
        end: Expr,
        at: tuple[Expr, ...],
        s: Reduce,
        chosen: tuple[Axis, ...],
    ) -> bool:
        last = loops[-1]
        for a, loop in zip(chosen, loops, strict=True):
            whole = m.facts.equal(loop.low, zero()) and m.facts.equal(loop.high, a.extent)
            if not whole or (loop is not last and loop.step != 1):
                return m.differ("O8", f"{carry.name}: a loop does not run over its whole axis")
            for x in loop_facts(loop):
                m.facts.add(x)
        index = axis("tile", last.step)
        place: Mapping[Expr, Expr] = dict(zip(chosen, (loop.symbol for loop in loops), strict=True))
        position = op("add", last.symbol, index) if last.step > 1 else last.symbol
        body = substitute(s.body, {**place, chosen[-1]: position})
        rest = tuple(a for a in s.axes if a not in chosen)
        g = reduce_(s.reducer, rest, body) if rest else body
        inside = both(*within(position, zero(), chosen[-1].extent)) if last.step > 1 else TRUE
        neutral = REDUCERS[s.reducer].neutral(s.dtype)
        local = tile_reduction(s.reducer, inside, g, neutral, index)
        old = opened(carry.whole, carry.shape, at)
        before = m.inside
        m.inside = (*before, *(loop.number for loop in loops))
        result = m.equal(opened(end, carry.shape, at), combined(s.reducer, old, local))
        m.inside = before
        return result

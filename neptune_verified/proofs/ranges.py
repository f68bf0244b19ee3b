"""Trusted: what must hold so that no intermediate of the fused program leaves the range of its type (O7).

O7 speaks of inputs on which every value of the *definition* is in the finite range of its type, its reductions over any
part of their domain included (they may be taken in any order). The *derived* values are those that the definition does
not have: the term at the producers' values so far, each part of a repair, accumulators of repaired and hoisted
reductions. Each gets an interval, leaves first, and one statement that it holds, given the intervals of its operands:

    O7.argument     the argument of an exponential is <= 0, so that the exponential lies in [0, 1]
    O7.quotient     a quotient's numerator is not larger than its denominator, so that it lies in [-1, 1]
    O7.relative     the value is not larger than the definition's own value at the end of the row
    O7.divisor      what a repair divides by, and the definition does not, does not underflow (``proofs.divisors``)
    O7.range        the value lies in its interval, a part of the range of its type
    O7.literal      so does a number
    O7.accumulator  so does a sum of as many terms as the domain has elements; or: what was accumulated so far is not
                    larger than the definition's own partial reduction

Infinite values are exact and no overflow: they come from infinite operands or from log 0. Underflow to 0 is allowed but
in a divisor. A
repaired accumulator itself needs no interval of its own repair: by O1 and O2 it is a reduction of terms (O14), whose
interval is that of the accumulator. A statement is chosen by interval arithmetic alone, so that it is the same whenever
it is made anew; if none is true, the edge is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

from neptune_verified.ir import intervals as iv
from neptune_verified.ir.bounds import Intervals
from neptune_verified.ir.expr import INF, Expr, Op, Var, const, op, substitute, subterms, var
from neptune_verified.ir.intervals import Interval, Range
from neptune_verified.ir.kinds import FINITE, NINF, NONNEGATIVE, PINF, UNDEF, KindAnalysis, Kinds
from neptune_verified.ir.loops import Carried, Hoist, Nest, Pass, T, wide
from neptune_verified.ir.program import Program
from neptune_verified.proofs.abstract import UnsupportedTerm
from neptune_verified.proofs.divisors import divisors, lost_divisors
from neptune_verified.proofs.edge import Edge, variables
from neptune_verified.proofs.evaluation import evaluated
from neptune_verified.proofs.facts import provenance
from neptune_verified.proofs.range_walk import End, Walk, box_facts, condition, inside, path, results
from neptune_verified.proofs.statement import Goal, Hypothesis, NeverFalse, Statement, Symbol

#: Suffix of the producers' values at the end of the row.
FINAL = "_final"
#: An exponential of more is no factor that a sum should have.
MOST_PEAK = 16


class EdgeRanges:
    """O7 of one fused edge: the intervals, the claims, and the interval of the accumulator."""

    def __init__(self, edge: Edge) -> None:
        self.edge = edge
        self.consumer = edge.consumer
        self.t = var(T, self.consumer.value.dtype)
        self.h = edge.repair(self.t)  # its closed terms are symbols from here on
        self.intervals = Intervals(edge.analysis)
        self.symbols: dict[Var, Kinds] = {v: edge.abstract.kinds_of(x) for x, v in edge.abstract.elements.items()}
        for c in edge.producers:
            for suffix in ("", "_new", FINAL):
                self.symbols[var(c.name + suffix, c.value.dtype)] = edge.state[c.name]
        self.symbols[self.t] = edge.kinds
        self.whole = iv.representable(wide(self.consumer.value.dtype))
        self.boxes, self.origins = self.leaves()
        self.reasons = self.why()
        plain = self.walk(False)
        self.result = plain if plain.fits else self.walk(True)
        self.claims = self.result.claims

    def walk(self, tight: bool) -> Walk:
        edge = self.edge
        kinds = KindAnalysis(None, dict(self.symbols.items()))
        moving, own = {self.t, *self.states()}, set(subterms(edge.g))
        walk = Walk(
            kinds, self.boxes, dict(self.origins), lambda e: e not in own or not moving.isdisjoint(subterms(e)), tight
        )
        walk.why, walk.count_origin = self.reasons, edge.provenance.count(self.consumer.value.axes)
        walk.peak = self.peak
        G = edge.at_new(edge.guarded(edge.g, self.consumer))
        end = End(lambda e: edge_final(edge, e), edge.later("_new", FINAL))
        term = walk.visit(G, edge.seen("_new"), end)
        self.accumulate(walk, G, term)
        walk.attained = self.at_extremes(walk, G)
        walk.visit(self.h, edge.later("", "_new"), skip=results(self.h))
        where = evaluated(self.h)
        for d in lost_divisors(self.h, self.own_divisors(), walk.boxes, kinds.of):
            apart = op("ge", op("abs", d), const(iv.SMALLEST[d.dtype], d.dtype))
            facts = [*edge.later("", "_new"), *path(condition(where[d]))]
            walk.claims.append(("divisor", NeverFalse(apart), facts, ()))
        return walk

    def own_divisors(self) -> set[Expr]:
        """What the definition's term divides by, at old and new states, guarded or not."""
        edge = self.edge
        terms = [edge.g, edge.guarded(edge.g, self.consumer)]
        return {d for g in terms for x in (g, edge.at_new(g)) for d in divisors(x)}

    def peak(self, e: Expr) -> Fraction:
        """The value of ``e`` in a step that changes nothing, at the element that is the running max or min itself."""
        guards = {g.producer: g for g in self.consumer.repair.guards} if self.consumer.repair else {}
        here: dict[Expr, Expr] = {}
        for c in self.edge.producers:
            old, new = self.edge.symbols[c.name]
            element = self.edge.elements[c.name]
            here |= {old: new}
            if c.name in guards:
                here |= {guards[c.name].apply(old): new, guards[c.name].apply(new): new}
            if c.value.reducer in ("max", "min") and isinstance(element, Var):
                here |= {element: new}
        live: dict[Expr, Kinds] = {v: k & FINITE or k for v, k in self.symbols.items()}
        found = Intervals(KindAnalysis(None, live), self.boxes, fits=False).of(substitute(e, here))
        if found is None or not isinstance(found.hi, Fraction) or found.hi > MOST_PEAK:
            return Fraction(0)
        peak = iv.rational_above(found.hi)
        return max(Fraction(0), peak) if isinstance(peak, Fraction) else Fraction(0)

    def at_extremes(self, walk: Walk, G: Expr) -> dict[Expr, Range]:
        """A running max or min is an element that was seen: what was claimed of the term's nodes for every such element
        holds with the old state in its place."""
        found: dict[Expr, Range] = {}
        elements, where = set(self.edge.abstract.elements.values()), evaluated(G)
        for c in self.edge.producers:
            element, state = self.edge.elements[c.name], self.edge.symbols[c.name][0]
            if c.value.reducer in ("max", "min") and isinstance(element, Var):
                nothing = NINF if c.value.reducer == "max" else PINF
                absent = (op("eq", element, const(-INF if nothing == NINF else INF, element.dtype)), False)
                for n in subterms(G):
                    # It is claimed of all elements, or of all but those that are as if they were not there.
                    everywhere = not where[n].isdisjoint((frozenset(), frozenset({absent})))
                    if isinstance(n, Op) and everywhere and variables(n) & elements == {element}:
                        value = substitute(n, {element: state})
                        kinds: dict[Expr, Kinds] = dict(self.symbols.items())
                        kinds[state] = frozenset({nothing})
                        unseen = Intervals(KindAnalysis(None, kinds), {**walk.leaves, state: None}, fits=False)
                        found[value] = iv.hull(walk.boxes.get(n), unseen.of(value))
        return found

    def states(self) -> list[Var]:
        return [var(c.name + s, c.value.dtype) for c in self.edge.producers for s in ("", "_new", FINAL)]

    def leaves(self) -> tuple[dict[Expr, Range], dict[Expr, str]]:
        edge = self.edge
        boxes: dict[Expr, Range] = {}
        origins: dict[Expr, str] = {}
        terms = (c.value.body for c in (self.consumer, *edge.producers))
        axes = self.consumer.value.axes
        own = {y for e in terms for y in subterms(e)}
        own |= {
            y
            for c in edge.producers
            for y in subterms(substitute(c.value.body, dict(zip(c.value.axes, axes, strict=True))))
        }
        for x, v in edge.abstract.elements.items():
            require_range(x, own, self.intervals, "the repair")
            boxes[v] = self.intervals.of(x)
            origins[v] = edge.provenance.interval(x)
        for c in edge.producers:
            if c.repair is not None and c.repair.producers:
                if edge.pass_.carried.index(c) >= edge.pass_.carried.index(self.consumer):
                    raise UnsupportedTerm(f"{self.consumer.name} is repaired over {c.name}, which comes after it")
                r = accumulator_interval(edge.program, edge.nest, edge.pass_, c)
                if r is not None and not r.within(iv.representable(c.value.dtype)):
                    raise UnsupportedTerm(
                        f"{c.name} is read in {c.value.dtype} before the end of the row and may not fit"
                    )
                why = f"proved: O7 of {c.name}"
            else:
                r = self.intervals.of(c.value)
                why = edge.provenance.interval(c.value)
            for suffix in ("", "_new", FINAL):
                v = var(c.name + suffix, c.value.dtype)
                boxes[v] = None if r is None else iv.short(r)
                origins[v] = why
        return boxes, origins

    def why(self) -> dict[Expr, tuple[str, ...]]:
        """Where the kinds of the symbols come from."""
        edge = self.edge
        found: dict[Expr, tuple[str, ...]] = {v: edge.provenance.origins(x) for x, v in edge.abstract.elements.items()}
        for c in edge.producers:
            found |= {var(c.name + s, c.value.dtype): edge.grounds.origins(c) for s in ("", "_new", FINAL)}
        return {**found, self.t: edge.grounds.origins(self.consumer)}

    def accumulate(self, walk: Walk, G: Expr, term: Range) -> None:
        """The interval of the accumulator, and the claim that it needs."""
        c = self.consumer
        if c.value.dtype == "bool":
            self.accumulator: Range = None
            return
        n = self.intervals.count(c.value.axes)
        found = iv.reduced(c.value.reducer, term, n, c.value.dtype)
        if found is not None and found.within(self.whole):
            if c.value.reducer == "sum" and term is not None and isinstance(n, Fraction):
                walk.claims.append(walk.sum_claim(G, term, n, self.whole))
            found = iv.short(found).meet(self.whole)
        elif found is not None:
            walk.fits = False
            h = self.edge.repair(self.t, "_new", FINAL)
            goal = NeverFalse(walk.at_most(self.t, h))
            walk.claims.append(("accumulator", goal, self.edge.later("_new", FINAL), ()))
            found = found.meet(self.whole)
        self.accumulator = with_gap(self.edge, self.intervals, found)
        walk.leaves[self.t] = self.accumulator
        walk.origins[self.t] = f"proved: O7, the accumulator {c.name}"

    def statements(self) -> list[tuple[str, Statement]]:
        return [(claim[0], self.statement(*claim)) for claim in self.claims]

    def statement(self, part: str, goal: Goal, facts: list[Hypothesis], extra: tuple[Symbol, ...]) -> Statement:
        """With the intervals of the symbols, where the facts do not hold them already."""
        edge, given = self.edge, {s.var for s in extra}
        known = {v for h in facts if h.origin.startswith("proved: O7") for v in variables(h.expr)}
        finals = tuple(
            edge.grounds.symbol(c, var(c.name + FINAL, c.value.dtype), f"{c.name} at the end of the row")
            for c in edge.producers
        )
        accumulator = edge.grounds.symbol(self.consumer, self.t, f"a value of the accumulator {self.consumer.name}")
        result = edge.statement(goal, facts, (*extra, *finals, accumulator))
        # The interval of the accumulator is what the claim on it is for.
        if not extra and (part == "accumulator" or _is_relation(goal)):
            return result
        walk = self.result
        boxes = [
            h
            for s in result.symbols
            if s.var not in given and s.var not in known
            for h in box_facts(s.var, walk.leaves.get(s.var), s.kinds, walk.origins.get(s.var, ""))
            if h not in facts
        ]
        return Statement(result.symbols, (*result.hypotheses, *boxes), goal)


def hoist_ranges(
    hoist: Hoist,
    program: Program,
    analysis: KindAnalysis,
    leaves: Mapping[Var, Expr],
    slots: Mapping[Var, Expr],
    template: Expr,
    old: Expr,
    facts: list[Hypothesis],
) -> list[tuple[str, Goal, list[Hypothesis], tuple[Symbol, ...]]]:
    """O7 of a hoist: what the inner reductions sum, their sums, and the template up to its root, which is the old value.

    ``leaves``: symbols of ``template`` and terms with the closed expressions that they stand for; ``slots``: the template's
    slots with their reductions' terms."""
    intervals = Intervals(analysis)
    kinds: dict[Expr, Kinds] = {v: analysis.of(x) - {UNDEF} or FINITE for v, x in leaves.items()}
    kinds |= {s: analysis.of(r) - {UNDEF} for s, r in zip(slots, hoist.inner, strict=True)}
    own, known = set(subterms(old)), provenance(program)
    written = set(subterms(hoist.old.body))
    for x in leaves.values():
        require_range(x, written, intervals, "the hoisted factor")

    boxes: dict[Expr, Range] = {v: intervals.complete(x) for v, x in leaves.items()}
    origins: dict[Expr, str] = {v: known.interval(x, complete=True) for v, x in leaves.items()}
    why: dict[Expr, tuple[str, ...]] = {
        v: known.origins(x) for v, x in (*leaves.items(), *zip(slots, hoist.inner, strict=True))
    }
    n = intervals.count(hoist.old.axes)

    def walk(tight: bool) -> Walk:
        result = Walk(KindAnalysis(None, kinds), boxes, dict(origins), lambda e: e not in own, tight, everywhere=True)
        result.why, result.count_origin = why, known.count(hoist.old.axes)
        for slot, term in slots.items():
            if slot.dtype == "bool":
                continue
            r, whole = result.visit(term, facts), iv.representable(wide(slot.dtype))
            total = iv.reduced(hoist.old.reducer, r, n, slot.dtype)
            if hoist.old.reducer == "sum" and r is not None and isinstance(n, Fraction):
                result.claims.append(result.sum_claim(term, r, n, whole))
            elif total is not None and not total.within(whole):
                result.claims.append(("accumulator", NeverFalse(inside(slot, whole, kinds[slot])), [], ()))
            result.fits &= total is None or total.within(whole)
            result.leaves[slot] = None if total is None else iv.short(total).meet(whole)
            # It is accumulated in more bits than it is read in, and is no value of the definition.
            read = iv.representable(slot.dtype)
            if total is not None and not total.within(read):
                result.claims.append(("range", NeverFalse(inside(slot, read, kinds[slot])), [], ()))
            result.origins[slot] = f"proved: O7, a partial result of {hoist.name}"
        result.visit(template, [], skip=results(template))
        return result

    plain = walk(False)
    return (plain if plain.fits else walk(True)).claims


def require_range(x: Expr, own: set[Expr], intervals: Intervals, what: str) -> None:
    """Parts of a closed term that are none of the definition's values (``own``) are in the range of their types by
    interval arithmetic, or the term is refused."""
    given: dict[Expr, Range] = {y: intervals.of(y) for y in subterms(x) if y in own}
    plain = Intervals(intervals.analysis, given, fits=False)
    for y in subterms(x):
        r = plain.of(y) if y not in own and y.dtype != "bool" else None
        if r is not None and not r.within(iv.representable(y.dtype)):
            raise UnsupportedTerm(f"{what} computes a value that may leave the range of {y.dtype}")


def _is_relation(goal: Goal) -> bool:
    """An order between terms, which holds whatever the bounds are."""
    return isinstance(goal, NeverFalse) and isinstance(goal.predicate, Op) and goal.predicate.name == "le"


def edge_final(edge: Edge, e: Expr) -> Expr:
    """``e``, over the states "_new", at the end of the row."""
    pairs: dict[Expr, Expr] = {new: var(old.name + FINAL, old.dtype) for old, new in edge.symbols.values()}
    return substitute(e, pairs)


def with_gap(edge: Edge, intervals: Intervals, r: Range) -> Range:
    """A sum of terms >= 0 over a running max or min has seen the element that attains it. If nothing live was seen it is
    0; otherwise it is at least its term there."""
    c = edge.consumer
    if r is None or c.value.reducer != "sum" or not edge.kinds <= NONNEGATIVE:
        return r
    dead = edge.dead(c, "")
    if dead is None:
        return r
    G = edge.guarded(edge.g, c)
    if edge.possible([dead, *(h.expr for h in edge.seen("")), op("ne", G, const(0, G.dtype))]):
        return r
    best = Fraction(0)
    for p in edge.producers:
        element, state = edge.elements[p.name], edge.symbols[p.name][0]
        if p.value.reducer not in ("max", "min") or not isinstance(element, Var):
            continue
        there = substitute(edge.g, {element: state})
        symbols: dict[Expr, Kinds] = {v: edge.abstract.kinds_of(x) for x, v in edge.abstract.elements.items()}
        symbols |= {edge.symbols[q.name][0]: edge.state[q.name] & FINITE for q in edge.producers}
        given: dict[Expr, Range] = {v: intervals.of(x) for x, v in edge.abstract.elements.items()}
        given |= {edge.symbols[q.name][0]: iv.ANY for q in edge.producers}
        least = Intervals(KindAnalysis(None, symbols), given, fits=False).of(there)
        if least is not None and isinstance(least.lo, Fraction):
            best = max(best, least.lo)
    return Interval(r.lo, r.hi, best) if best <= r.hi else r


@lru_cache(maxsize=4096)
def _ranges(program: Program, nest: Nest, p: Pass, c: Carried) -> EdgeRanges:
    return EdgeRanges(Edge(program, nest, p, c))


def edge_ranges(program: Program, nest: Nest, p: Pass, c: Carried) -> EdgeRanges:
    """O7 of a carried value that is repaired; what stands after it in the pass does not matter."""
    until = p.carried[: p.carried.index(c) + 1]
    return _ranges(program, Nest(nest.name, nest.grid, nest.inner, (), ()), Pass(p.stream, until), c)


def accumulator_interval(program: Program, nest: Nest, p: Pass, c: Carried) -> Range:
    """That of a producer, which is carried before its consumer."""
    return edge_ranges(program, nest, p, c).accumulator

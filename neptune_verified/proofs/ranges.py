"""Trusted: what must hold so that no intermediate of the fused program leaves the range of its type (O7).

O7 speaks of inputs on which every value of the *definition* is in the finite range of its type, its reductions over any
part of their domain included (they may be taken in any order). The *derived* values are those that the definition does
not have: the term at the producers' values so far, each part of a repair, accumulators of repaired and hoisted
reductions. Each gets an interval, leaves first, and one statement that it holds, given the intervals of its operands:

    O7.argument     the argument of an exponential is <= 0, so that the exponential lies in [0, 1]
    O7.quotient     a quotient's numerator is not larger than its denominator, so that it lies in [-1, 1]
    O7.relative     the value is not larger than the definition's own value at the end of the row
    O7.range        the value lies in its interval, a part of the range of its type
    O7.accumulator  so does a sum of as many terms as the domain has elements; or: what was accumulated so far is not
                    larger than the definition's own partial reduction

Infinite values are exact and no overflow: they come from infinite operands or from log 0. Underflow to 0 is allowed. A
repaired accumulator itself needs no interval of its own repair: by O1 and O2 it is a reduction of terms (O14), whose
interval is that of the accumulator. A statement is chosen by interval arithmetic alone, so that it is the same whenever
it is made anew; if none is true, the edge is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, reduce

from neptune_verified.ir import intervals as iv
from neptune_verified.ir.expr import (
    FLOATS,
    INF,
    REDUCERS,
    Const,
    Expr,
    Op,
    Var,
    children,
    const,
    op,
    subterms,
    substitute,
    var,
)
from neptune_verified.ir.intervals import Interval, Intervals, Range
from neptune_verified.ir.kinds import FINITE, NINF, NONNEGATIVE, PINF, UNDEF, KindAnalysis, Kinds
from neptune_verified.ir.loops import Carried, Hoist, Nest, Pass, T
from neptune_verified.ir.program import Program
from neptune_verified.proofs.abstract import UnsupportedTerm
from neptune_verified.proofs.edge import Edge, implies, variables
from neptune_verified.proofs.evaluation import Guards, evaluated
from neptune_verified.proofs.statement import Goal, Hypothesis, NeverFalse, Statement, Symbol
from neptune_verified.proofs.statement_text import expr_text

#: exp of these is in the range of the type, and a short number.
EXP_LIMIT = {"float16": 11, "bfloat16": 88, "float32": 88, "float64": 709}
FINAL = "_final"
#: part, goal, hypotheses, symbols beside those of the edge
Claim = tuple[str, Goal, list[Hypothesis], tuple[Symbol, ...]]


def inside(e: Expr, r: Interval, kinds: Kinds) -> Expr:
    """``e`` is infinite, as far as its kinds allow, or in the interval."""
    parts: list[Expr] = []
    for name, bound, infinity, kind in (("ge", r.lo, -INF, NINF), ("le", r.hi, INF, PINF)):
        if isinstance(bound, Fraction):
            fact = op(name, e, const(bound, e.dtype))
            parts.append(op("or", op("eq", e, const(infinity, e.dtype)), fact) if kind in kinds else fact)
    return parts[0] if len(parts) == 1 else op("and", *parts) if parts else op("eq", e, e)


def box_facts(v: Var, r: Range, kinds: Kinds, origin: str) -> list[Hypothesis]:
    """The interval of a symbol as hypotheses."""
    if r is None or v.dtype == "bool":
        return []
    facts = []
    if isinstance(r.lo, Fraction) or isinstance(r.hi, Fraction):
        facts.append(Hypothesis(inside(v, r, kinds), origin))
    if r.gap and r.lo == 0:
        away = op("or", op("eq", v, const(0, v.dtype)), op("ge", v, const(r.gap, v.dtype)))
        facts.append(Hypothesis(away, origin))
    return facts


@dataclass(frozen=True)
class End:
    """What the definition has in place of a term's node, at the end of the row, and what is known of the states then."""

    value: Callable[[Expr], Expr]
    facts: list[Hypothesis]


def path(guards: set[Guards]) -> list[Hypothesis]:
    """The conditions under which a node is evaluated; what a ``select`` leaves aside may take any value."""
    if frozenset() in guards:
        return []
    ways: list[Expr] = []
    for some in sorted(guards, key=lambda g: sorted(expr_text(c) for c, _ in g)):
        parts = [c if taken else op("not", c) for c, taken in sorted(some, key=lambda x: expr_text(x[0]))]
        ways.append(reduce(lambda a, b: op("and", a, b), parts))
    fact = reduce(lambda a, b: op("or", a, b), ways)
    return [Hypothesis(fact, "domain: where the value is chosen")]


@dataclass
class Walk:
    """Intervals of the nodes of terms over symbols, and the claims that they need.

    ``boxes`` holds the intervals of the nodes, at first of the symbols, ``origins`` where they come from. ``derived`` tells
    which nodes are not the definition's values. ``tight``: every exponential's argument is claimed to be <= 0, not only
    where it must be, ``everywhere``: also of those that are the definition's.
    """

    kinds: KindAnalysis
    boxes: dict[Expr, Range]
    origins: dict[Expr, str]
    derived: Callable[[Expr], bool]
    tight: bool
    everywhere: bool = False
    claims: list[Claim] = field(default_factory=list)
    fits: bool = True
    #: Intervals of nodes that are a term's node at an element seen (see ``EdgeRanges.at_extremes``).
    attained: dict[Expr, Range] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.leaves = dict(self.boxes)

    def fresh(self, name: str, dtype: str) -> Var:
        """A symbol that none of the user's names is."""
        taken = {v.name for v in self.leaves if isinstance(v, Var)}
        return var(next(n for n in (name, *(f"{name}_{k}" for k in range(len(taken) + 1))) if n not in taken), dtype)

    def kinds_of(self, e: Expr) -> Kinds:
        return self.kinds.of(e) - {UNDEF}

    def visit(self, root: Expr, facts: list[Hypothesis], end: End | None = None, skip: Iterable[Expr] = ()) -> Range:
        """Give every node of ``root`` its interval. ``facts``: what relates the symbols. ``end``: the nodes' values in the
        definition, if they have any. Nodes in ``skip`` need no interval."""
        left_out, where = set(skip), evaluated(root)
        # What is claimed of a node holds under the facts and conditions of this root alone.
        self.boxes = dict(self.leaves)
        for e in subterms(root):
            if e not in self.boxes and e not in left_out and e.dtype != "bool":
                self.boxes[e] = self.node(e, [*facts, *path(where[e])], end)
        return self.boxes.get(root)

    def node(self, e: Expr, facts: list[Hypothesis], end: End | None) -> Range:
        found = iv.by_sign(self.interval(e, facts), self.kinds.of(e), e.dtype not in FLOATS)
        if found is None:
            return None
        whole = iv.representable(e.dtype)
        if not isinstance(e, Op) or not self.derived(e):
            return found.meet(whole)
        if e.name == "div" and not found.within(whole) and e.dtype in FLOATS:
            a, b = (op("abs", x) for x in e.args)
            bound = op("le", a, b)
            if self.kinds_of(e.args[0]) & {NINF, PINF}:
                bound = op("or", op("eq", a, const(INF, a.dtype)), bound)
            self.claims.append(("quotient", NeverFalse(bound), facts, ()))
            return found.meet(iv.UNIT)
        if not found.within(whole) and self.attained.get(e) is not None:
            return found.meet(self.attained[e])  # type: ignore[arg-type]
        if not found.within(whole):
            if end is not None:
                bound = op("le", op("abs", e), op("abs", end.value(e)))
                self.claims.append(("relative", NeverFalse(bound), [*facts, *end.facts], ()))
            else:
                self.fits = False
                self.claims.append(("range", NeverFalse(inside(e, whole, self.kinds_of(e))), facts, ()))
            return found.meet(whole)
        found = iv.short(found).meet(whole)
        if self.needs_claim(e):
            self.claim(e, found)
        return found

    def interval(self, e: Expr, facts: list[Hypothesis]) -> Range:
        if isinstance(e, Const):
            return iv.point(e.value) if isinstance(e.value, Fraction) else None
        if not isinstance(e, Op):
            return iv.ANY
        if e.name == "select":
            return iv.select(e.args[0], *(self.boxes[x] for x in e.args[1:]), *e.args[1:])
        args = [self.boxes.get(x) for x in e.args]
        eligible = e.name in ("exp", "exp2") and (self.derived(e) or (self.tight and self.everywhere))
        if eligible and args[0] is not None:
            limit = 0 if self.tight else EXP_LIMIT.get(e.dtype, 0)
            if args[0].hi > limit:
                claim = NeverFalse(op("le", e.args[0], const(0, e.args[0].dtype)))
                self.claims.append(("argument", claim, facts, ()))
                args[0] = Interval(min(args[0].lo, Fraction(0)), Fraction(0))
        return iv.operation(e, args, [self.kinds_of(x) for x in e.args])

    @staticmethod
    def needs_claim(e: Op) -> bool:
        """Others are bounded by what the function is, choose between operands, or are monotone in arguments whose own
        intervals are claimed."""
        if e.name == "pow":
            return isinstance(e.args[1], Const)
        if e.name == "cast":
            return e.args[0].dtype != "bool"
        return e.name in ("add", "sub", "mul", "div", "sqrt", "rsqrt", "log", "floordiv", "floormod")

    def claim(self, e: Op, r: Interval) -> None:
        """``e`` lies in ``r`` whenever its operands lie in their intervals."""
        names: dict[Expr, Expr] = {}
        symbols: list[Symbol] = []
        hypotheses: list[Hypothesis] = []
        for k, x in enumerate(e.args):
            if isinstance(x, Const) or x in names:
                continue
            v = x if isinstance(x, Var) else self.fresh(f"u{k}", x.dtype)
            names[x] = v
            assert isinstance(v, Var)
            origin = self.origins.get(x, f"proved: O7, the interval of {expr_text(x)}")
            if v is not x:
                symbols.append(Symbol(v, self.kinds_of(x) or FINITE, expr_text(x)))
            hypotheses += box_facts(v, self.boxes[x], self.kinds_of(x), origin)
        flat = op(e.name, *(names.get(x, x) for x in e.args), dtype=e.dtype if e.name == "cast" else None)
        self.claims.append(("range", NeverFalse(inside(flat, r, self.kinds_of(e))), hypotheses, tuple(symbols)))

    def sum_claim(self, term: Expr, r: Interval, n: Fraction, whole: Interval) -> Claim:
        """A sum of up to n values of ``term`` is in the range of the accumulator's type."""
        u, count = self.fresh("u0", term.dtype), self.fresh("count", term.dtype)
        kinds = (self.kinds_of(term) & FINITE) or FINITE
        goal = NeverFalse(op("le", op("mul", count, op("abs", u)), const(whole.hi, term.dtype)))
        origin = "derived: a domain has at most as many elements as its lengths allow"
        facts = [
            Hypothesis(op("le", count, const(n, term.dtype)), origin),
            *box_facts(u, iv.short(r), kinds, f"proved: O7, the interval of {expr_text(term)}"),
        ]
        return (
            "accumulator",
            goal,
            facts,
            (Symbol(count, NONNEGATIVE, "the number of elements"), Symbol(u, kinds, expr_text(term))),
        )


class EdgeRanges:
    """O7 of one fused edge: the intervals, the claims, and the interval of the accumulator."""

    def __init__(self, edge: Edge) -> None:
        self.edge = edge
        self.consumer = edge.consumer
        self.intervals = Intervals(edge.analysis)
        self.symbols: dict[Var, Kinds] = {v: edge.abstract.kinds_of(x) for x, v in edge.abstract.elements.items()}
        for c in edge.producers:
            for suffix in ("", "_new", FINAL):
                self.symbols[var(c.name + suffix, c.value.dtype)] = edge.state[c.name]
        self.t = var(T, self.consumer.value.dtype)
        self.symbols[self.t] = edge.kinds
        self.whole = iv.representable(_wide(self.consumer.value.dtype))
        plain = self.walk(False)
        self.result = plain if plain.fits else self.walk(True)
        self.claims = self.result.claims

    def walk(self, tight: bool) -> Walk:
        edge = self.edge
        kinds = KindAnalysis(None, {v: k for v, k in self.symbols.items()})
        moving = {self.t, *self.states()}
        walk = Walk(kinds, *self.leaves(), lambda e: not moving.isdisjoint(subterms(e)), tight)
        G = edge.at_new(edge.guarded(edge.g, self.consumer))
        end = End(lambda e: edge_final(edge, e), edge.later("_new", FINAL))
        term = walk.visit(G, edge.seen("_new"), end)
        self.accumulate(walk, G, term)
        walk.attained = self.at_extremes(walk, G)
        h = edge.repair(self.t)
        walk.visit(h, edge.later("", "_new"), skip=results(h))
        return walk

    def at_extremes(self, walk: Walk, G: Expr) -> dict[Expr, Range]:
        """A running max or min is an element that was seen: what was claimed of the term's nodes for every such element
        holds with the old state in its place."""
        found: dict[Expr, Range] = {}
        elements = set(self.edge.abstract.elements.values())
        for c in self.edge.producers:
            element, state = self.edge.elements[c.name], self.edge.symbols[c.name][0]
            if c.value.reducer in ("max", "min") and isinstance(element, Var):
                for n in subterms(G):
                    if isinstance(n, Op) and variables(n) & elements == {element}:
                        # 0: where nothing was seen, the state is infinite, and the value infinite or 0.
                        found[substitute(n, {element: state})] = iv.hull(walk.boxes.get(n), iv.point(0))
        return found

    def states(self) -> list[Var]:
        return [var(c.name + s, c.value.dtype) for c in self.edge.producers for s in ("", "_new", FINAL)]

    def leaves(self) -> tuple[dict[Expr, Range], dict[Expr, str]]:
        edge = self.edge
        boxes: dict[Expr, Range] = {}
        origins: dict[Expr, str] = {}
        for x, v in edge.abstract.elements.items():
            boxes[v] = self.intervals.of(x)
            origins[v] = self.origin(x, boxes[v])
        for c in edge.producers:
            if c.repair is not None and c.repair.producers:
                if edge.pass_.carried.index(c) >= edge.pass_.carried.index(self.consumer):
                    raise UnsupportedTerm(f"{self.consumer.name} is repaired over {c.name}, which comes after it")
                r = accumulator_interval(edge.program, edge.nest, edge.pass_, c)
                why = f"proved: O7 of {c.name}"
            else:
                r = self.intervals.of(c.value)
                why = self.origin(c.value, r)
            for suffix in ("", "_new", FINAL):
                v = var(c.name + suffix, c.value.dtype)
                boxes[v] = None if r is None else iv.short(r)
                origins[v] = why
        return boxes, origins

    def origin(self, x: Expr, r: Range) -> str:
        return interval_origin(self.edge.program, x, r)

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
            goal = NeverFalse(op("le", op("abs", self.t), op("abs", h)))
            walk.claims.append(("accumulator", goal, self.edge.later("_new", FINAL), ()))
            found = found.meet(self.whole)
        self.accumulator = with_gap(self.edge, self.intervals, found)
        walk.leaves[self.t] = self.accumulator
        walk.origins[self.t] = f"proved: O7, the accumulator {c.name}"

    def statements(self) -> list[tuple[str, Statement]]:
        return [(part, self.statement(goal, facts, extra)) for part, goal, facts, extra in self.claims]

    def statement(self, goal: Goal, facts: list[Hypothesis], extra: tuple[Symbol, ...]) -> Statement:
        """With the intervals of the symbols, where the facts do not hold them already."""
        edge, given = self.edge, {s.var for s in extra}
        known = {v for h in facts if h.origin.startswith("proved: O7") for v in variables(h.expr)}
        finals = tuple(
            Symbol(var(c.name + FINAL, c.value.dtype), edge.state[c.name], f"{c.name} at the end of the row")
            for c in edge.producers
        )
        accumulator = Symbol(self.t, edge.kinds, f"a value of the accumulator {self.consumer.name}")
        result = edge.statement(goal, facts, (*extra, *finals, accumulator))
        if not extra and _is_relation(goal):
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
    own = set(subterms(old))

    def walk(tight: bool) -> Walk:
        boxes: dict[Expr, Range] = {v: intervals.complete(x) for v, x in leaves.items()}
        origins: dict[Expr, str] = {v: interval_origin(program, x, boxes[v]) for v, x in leaves.items()}
        result = Walk(KindAnalysis(None, kinds), boxes, origins, lambda e: e not in own, tight, everywhere=True)
        n = intervals.count(hoist.old.axes)
        for slot, term in slots.items():
            if slot.dtype == "bool":
                continue
            r, whole = result.visit(term, facts), iv.representable(_wide(slot.dtype))
            total = iv.reduced(hoist.old.reducer, r, n, slot.dtype)
            if hoist.old.reducer == "sum" and r is not None and isinstance(n, Fraction):
                result.claims.append(result.sum_claim(term, r, n, whole))
            elif total is not None and not total.within(whole):
                result.claims.append(("accumulator", NeverFalse(inside(slot, whole, kinds[slot])), [], ()))
            result.fits &= total is None or total.within(whole)
            result.leaves[slot] = None if total is None else iv.short(total).meet(whole)
            result.origins[slot] = f"proved: O7, a partial result of {hoist.name}"
        result.visit(template, [], skip=results(template))
        return result

    plain = walk(False)
    return (plain if plain.fits else walk(True)).claims


def _is_relation(goal: Goal) -> bool:
    """An order between terms, which holds whatever the bounds are."""
    return isinstance(goal, NeverFalse) and isinstance(goal.predicate, Op) and goal.predicate.name == "le"


def _wide(dtype: str) -> str:
    """16-bit reductions are accumulated in float32."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def edge_final(edge: Edge, e: Expr) -> Expr:
    """``e``, over the states "_new", at the end of the row."""
    pairs: dict[Expr, Expr] = {new: var(old.name + FINAL, old.dtype) for old, new in edge.symbols.values()}
    return substitute(e, pairs)


def results(h: Expr) -> list[Expr]:
    """The nodes of a repair whose value, where it is chosen, is the repaired accumulator, and which nothing else reads."""
    found = [h]
    for e in found:
        if isinstance(e, Op) and e.name == "select":
            found += [x for x in e.args[1:] if isinstance(x, Op)]
    read = {k for e in subterms(h) for k in children(e) if e not in found or (isinstance(e, Op) and k is e.args[0])}
    return [e for e in found if e not in read and isinstance(e, Op)]


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
        given = {v: intervals.of(x) for x, v in edge.abstract.elements.items()}
        given |= {edge.symbols[q.name][0]: iv.ANY for q in edge.producers}
        least = Intervals(KindAnalysis(None, symbols), given, fits=False).of(there)
        if least is not None and isinstance(least.lo, Fraction):
            best = max(best, least.lo)
    return Interval(r.lo, r.hi, best) if best <= r.hi else r


def interval_origin(program: Program, x: Expr, r: Range) -> str:
    """Where an interval comes from: the declared facts on what the expression reads, or that the definition fits."""
    names = {getattr(y, "tensor", getattr(y, "name", "")) for y in subterms(x)}
    facts = [str(a) for a in program.assumptions if a.subject in names and a.kind in ("bounded", "at_least")]
    if r is not None and x.dtype in FLOATS and (r.hi == iv.LARGEST[x.dtype] or r.lo == -iv.LARGEST[x.dtype]):
        return f"assumed by O7: the definition's values are in the range of {x.dtype}"
    return f"derived: interval arithmetic from {', '.join(facts)}" if facts else "derived: interval arithmetic"


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

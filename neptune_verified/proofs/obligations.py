"""Trusted: what must hold for a fused edge and for a hoist (O1 to O6).

**A fused edge.** Consumer X = Reduce(f, g(r, c)) runs in the same pass as its producers r. With the guard y(.) of the
repair, write G(r, c) = g(y(r), c) for the emitted term and H(t, r, r') for the emitted repair. The loop keeps

    X = Reduce over the elements seen of G(r, c_j)                     (invariant)

and a step of the loop, from r to r', needs exactly

    O1  H(G(r, c), r, r') = G(r', c)       for every element c that was seen under r, wherever G(r', c) is defined
    O2  H(x f y, r, r') = H(x, r, r') f H(y, r, r')
    O4  H(e_f, r, r') = e_f                for all states, the producers' initial values included
    O5  f is associative, commutative, and e_f is neutral
    O6  (a) H is defined for every reachable state; (b) G(r, c) = g(r, c) wherever g(r, c) is defined, so the loop ends
        with the definition's value wherever there is one
    O3  H(t, r, r) = t, H(H(t, r, r'), r', r'') = H(t, r, r'') for live states; a schedule may skip or repeat a rescale

**Reach**: every pair (state, later state). The kinds of a running value are those of its reduction (``ir.kinds``) and
its neutral element; a running max, min or sum of non-negative terms that is not repaired itself is monotone; an element
that was seen is bounded by the running max, and is 0 where a running sum of non-negative terms is 0. Elements (subterms
without producers) range over all values of their kinds.

**A hoist** replaces ``Reduce(f, old_j)`` by ``T(Reduce(f, x_j), Reduce(f, y_j), ...)`` with a template T over loop-invariant
values: O1 ``T(x_j, y_j, ...) = old_j``, O2 ``T`` distributes over f in all slots at once, O4 ``T(e_f, ...) = e_f``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from neptune_verified.ir.expr import INF, REDUCERS, Expr, Reduce, Size, Var, const, op, substitute, subterms, var
from neptune_verified.ir.kinds import (
    FINITE,
    NINF,
    NONNEGATIVE,
    PINF,
    POS,
    TRUE,
    UNDEF,
    ZERO,
    KindAnalysis,
    Kinds,
    reduce_kinds,
)
from neptune_verified.ir.loops import Carried, Hoist, Nest, Pass, T, read_carried, repair_of
from neptune_verified.ir.printing import Printer
from neptune_verified.ir.program import Program
from neptune_verified.proofs.abstract import Abstraction, UnsupportedTerm
from neptune_verified.proofs.evaluation import require_hoistable, require_same_evaluation
from neptune_verified.proofs.statement import Defined, Equal, Goal, Hypothesis, Refines, Statement, Symbol


@dataclass(frozen=True, slots=True)
class Obligation:
    """One statement that must hold: ``kind`` is O1 to O6, ``part`` tells statements of one kind apart, ``stage`` is the
    consumer, ``step`` the transformation that needs it."""

    kind: str
    part: str
    stage: str
    step: str
    statement: Statement

    @property
    def id(self) -> str:
        return f"{self.kind}{f'.{self.part}' if self.part else ''}"


def implies(a: Expr, b: Expr) -> Expr:
    return op("or", op("not", a), b)


def _is(x: Expr, value: float) -> Expr:
    return op("eq", x, const(value, x.dtype))


class Edge:
    """The symbols, terms and reachable states of one fused edge."""

    def __init__(self, program: Program, nest: Nest, p: Pass, consumer: Carried) -> None:
        if consumer.repair is None:
            raise ValueError(f"{consumer.name} is not repaired")
        self.program, self.nest, self.pass_, self.consumer = program, nest, p, consumer
        self.producers = tuple(c for c in p.carried if c.name in consumer.repair.producers)
        # A step of the loop happens on a non-empty domain only.
        self.analysis = KindAnalysis(program).under(
            {a.extent: frozenset({POS}) for a in p.stream if isinstance(a.extent, Size)}
        )
        self.symbols = {
            c.name: (var(c.name, c.value.dtype), var(f"{c.name}_new", c.value.dtype)) for c in self.producers
        }
        self.abstract = Abstraction(self.analysis, [var(T, consumer.value.dtype), *self._pairs()])
        self.axes = consumer.value.axes
        values = {c.value: self.symbols[c.name][0] for c in self.producers}
        self.g = self.abstract(read_carried(consumer.value.body, values))
        self.elements = {c.name: self._element(c) for c in self.producers}
        self.state: dict[str, Kinds] = {}
        for c in self.producers:
            self.state[c.name] = self._state_kinds(c, self.elements[c.name])
        self.kinds = self._state_kinds(consumer, self.guarded(self.g, consumer))
        unsure = [c for c in self.producers if UNDEF in self.analysis.of(c.value)]
        require_same_evaluation(
            self.g, self._pairs(), self.abstract.undefinable(), [self.symbols[c.name][0] for c in unsure]
        )

    # -- terms ---------------------------------------------------------------------------------------------

    def _pairs(self) -> list[Var]:
        return [s for pair in self.symbols.values() for s in pair]

    def _element(self, c: Carried) -> Expr:
        """The reduced term of producer ``c`` at the same element, over the old values of its own producers."""
        body = substitute(c.value.body, dict(zip(c.value.axes, self.axes, strict=True)))
        values = {q.value: self.symbols[q.name][0] for q in self.producers}
        return self.guarded(self.abstract(read_carried(body, values)), c)

    def guarded(self, e: Expr, c: Carried) -> Expr:
        """``e`` with the guards that ``c``'s term has on its producers."""
        guards = {g.producer: g for g in c.repair.guards} if c.repair else {}
        mapping: dict[Expr, Expr] = {}
        for name, (old, new) in self.symbols.items():
            if name in guards:
                mapping |= {old: guards[name].apply(old), new: guards[name].apply(new)}
        return substitute(e, mapping)

    def at_new(self, e: Expr, suffix: str = "_new") -> Expr:
        return substitute(e, {old: var(old.name + suffix, old.dtype) for old, _ in self.symbols.values()})

    def repair(self, t: Expr, source: str = "", target: str = "_new") -> Expr:
        """H(t, r, r') with r, r' the symbols of the given suffixes ("" is the old state)."""
        h = self.abstract(repair_of(self.pass_, self.consumer))
        _require_defined(self.abstract, h, "the repair")
        mapping: dict[Expr, Expr] = {var(T, self.consumer.value.dtype): t}
        for old, new in self.symbols.values():
            mapping[old] = var(old.name + source, old.dtype)
            mapping[new] = var(old.name + target, old.dtype)
        return substitute(h, mapping)

    # -- reach ---------------------------------------------------------------------------------------------

    def _state_kinds(self, c: Carried, element: Expr) -> Kinds:
        """Kinds of the running value of ``c``: of a reduction of its elements over reachable producer states."""
        symbols = [self.symbols[p.name][0] for p in self.producers if p.name in self.state]
        parts = list(self.abstract.elements.values())
        used = set(subterms(element))
        names = [s for s in symbols if s in used]
        options = [[(s, k) for k in self.state[s.name]] for s in names]
        elements = {v: x for x, v in self.abstract.elements.items()}
        atoms = [v for v in parts if v in used or any(v in subterms(self.elements[s.name]) for s in names)]
        options += [[(v, k) for k in self.abstract.kinds_of(elements[v])] for v in atoms]
        kinds: Kinds = frozenset()
        hypotheses = [h.expr for s in names for h in self._seen(s.name, "")]
        for here in _cases(options, hypotheses):
            kinds |= here.of(element)
        return reduce_kinds(c.value.reducer, kinds - {UNDEF}, c.value.dtype) - {UNDEF}

    def possible(self, hypotheses: list[Expr], suffix: str = "") -> bool:
        """Can the hypotheses hold together, as far as kinds tell? (No is certain.) States have the given suffix."""
        elements = {v: x for x, v in self.abstract.elements.items()}
        used = {v for h in hypotheses for v in _vars(h)}
        states = {var(s.name + suffix, s.dtype): self.state[s.name] for s, _ in self.symbols.values()}
        options = [[(v, k) for k in kinds] for v, kinds in states.items() if v in used]
        options += [[(v, k) for k in self.abstract.kinds_of(elements[v])] for v in elements if v in used]
        return any(True for _ in _cases(options, hypotheses))

    def _seen(self, name: str, suffix: str) -> list[Hypothesis]:
        """What is known of an element that producer ``name`` has seen, at its state with the given suffix."""
        c = next(p for p in self.producers if p.name == name)
        r = var(name + suffix, c.value.dtype)
        element = self.at_new(self.elements[name], suffix) if suffix else self.elements[name]
        match c.value.reducer:
            case "max" | "logaddexp":
                what = f"derived: {name} is the {c.value.reducer} of the elements seen"
                return [Hypothesis(op("le", element, r), what)]
            case "min":
                return [Hypothesis(op("ge", element, r), f"derived: {name} is the min of the elements seen")]
            case "sum" if self.state[name] <= NONNEGATIVE:
                fact = implies(_is(r, 0), _is(element, 0))
                return [Hypothesis(fact, f"derived: {name} is a sum of terms >= 0, so all of them are 0 where it is")]
            case _:
                return []

    def seen(self, suffix: str) -> list[Hypothesis]:
        return [h for c in self.producers for h in self._seen(c.name, suffix)]

    def later(self, source: str, target: str) -> list[Hypothesis]:
        """What is known of a state and a later one."""
        facts: list[Hypothesis] = []
        for c in self.producers:
            r, s = var(c.name + source, c.value.dtype), var(c.name + target, c.value.dtype)
            repaired = c.repair is not None and bool(c.repair.producers)
            if c.value.reducer in ("max", "logaddexp") and not repaired:
                facts.append(Hypothesis(op("le", r, s), f"derived: {c.name} is a running {c.value.reducer}"))
            elif c.value.reducer == "min" and not repaired:
                facts.append(Hypothesis(op("ge", r, s), f"derived: {c.name} is a running min"))
            elif c.value.reducer == "sum" and self.state[c.name] <= NONNEGATIVE:
                if not repaired:
                    facts.append(Hypothesis(op("le", r, s), f"derived: {c.name} is a running sum of terms >= 0"))
                elif self._keeps_sign(c):
                    fact = implies(_is(s, 0), _is(r, 0))
                    dead = self._dead(c, source)
                    if dead is not None:
                        fact = op("or", dead, fact)
                    facts.append(Hypothesis(fact, f"derived: {c.name} stays positive, its repair factor is"))
        return facts + self._empty_while_dead(source) + self._empty_while_dead(target)

    def _dead(self, c: Carried, suffix: str) -> Expr | None:
        """A producer of producer ``c`` is guarded or infinite: nothing live was seen."""
        guards = {g.producer: g.points for g in c.repair.guards} if c.repair else {}
        values = {NINF: -INF, PINF: INF, ZERO: 0.0}
        condition: Expr | None = None
        for q in self.producers:
            if c.repair is not None and q.name in c.repair.producers:
                r = var(q.name + suffix, q.value.dtype)
                for k in sorted((set(guards.get(q.name, ())) | {NINF, PINF}) & self.state[q.name]):
                    test = op("eq", r, const(values[k], r.dtype))
                    condition = test if condition is None else op("or", condition, test)
        return condition

    def _empty_while_dead(self, suffix: str) -> list[Hypothesis]:
        """A repaired sum of terms >= 0 is 0 while a producer of its own is dead, if what such a state has seen is 0."""
        facts = []
        for c in self.producers:
            dead = self._dead(c, suffix)
            if c.value.reducer != "sum" or not self.state[c.name] <= NONNEGATIVE or dead is None:
                continue
            seen = [h.expr for q in self.producers if q is not c for h in self._seen(q.name, suffix)]
            element = self.at_new(self.elements[c.name], suffix) if suffix else self.elements[c.name]
            if not self.possible([dead, *seen, op("ne", element, const(0, element.dtype))], suffix):
                fact = implies(dead, _is(var(c.name + suffix, c.value.dtype), 0))
                facts.append(Hypothesis(fact, f"derived: {c.name} has seen nothing live while its producer is dead"))
        return facts

    def _keeps_sign(self, c: Carried) -> bool:
        """Is a positive accumulator of producer ``c`` still positive after its repair, in every live state?"""
        assert c.repair is not None
        given: dict[Expr, Kinds] = {var(T, c.value.dtype): frozenset({POS})}
        own = [p for p in self.pass_.carried if p.name in c.repair.producers]
        for p in own:
            live = frozenset(self.state.get(p.name, FINITE)) & FINITE
            given |= dict.fromkeys(self.symbols.get(p.name, ()), live)
        return self.analysis.under(given).of(repair_of(self.pass_, c)) <= {POS}

    def live(self, suffix: str) -> list[Hypothesis]:
        """The producers' values are finite and not guarded."""
        facts: list[Hypothesis] = []
        guards = {g.producer: g.points for g in self.consumer.repair.guards} if self.consumer.repair else {}
        for c in self.producers:
            r = var(c.name + suffix, c.value.dtype)
            values = {NINF: -INF, PINF: INF, ZERO: 0.0}
            points = set(guards.get(c.name, ())) | ({NINF, PINF} & self.state[c.name])
            facts += [
                Hypothesis(op("ne", r, const(values[k], r.dtype)), f"domain: live states ({c.name} is not {k})")
                for k in sorted(points & self.state[c.name])
            ]
        return facts

    # -- statements ----------------------------------------------------------------------------------------

    def statement(self, goal: Goal, hypotheses: list[Hypothesis], extra: tuple[Symbol, ...] = ()) -> Statement:
        show = Printer(self.program)
        candidates: list[Symbol] = list(extra)
        for c in self.producers:
            old, new = self.symbols[c.name]
            for v, when in ((old, "before"), (new, "after"), (var(f"{c.name}_later", old.dtype), "later on")):
                candidates.append(Symbol(v, self.state[c.name], f"{c.name}, the running {c.value.reducer}, {when}"))
        candidates += self.abstract.symbols(show)
        used = _used(goal)
        # A hypothesis is kept when it speaks of symbols that occur, or links them to others that then occur.
        kept: list[Hypothesis] = []
        for _ in hypotheses:
            kept = [h for h in hypotheses if _vars(h.expr) & used]
            used |= {v for h in kept for v in _vars(h.expr)}
        return Statement(tuple(s for s in candidates if s.var in used), tuple(kept), goal)


def _require_defined(abstract: Abstraction, e: Expr, what: str) -> None:
    """Elements are taken to be defined, because a term that evaluates an undefined one is undefined itself. That does not
    excuse a repair or a template, which are evaluated whatever the terms do."""
    used = set(subterms(e))
    for x, v in abstract.elements.items():
        if v in used and UNDEF in abstract.analysis.of(x):
            raise UnsupportedTerm(f"{what} reads a value that can be undefined")


def _cases(options: list[list[tuple[Var, str]]], hypotheses: list[Expr]) -> Iterator[KindAnalysis]:
    """Every combination of kinds under which none of the hypotheses is certainly false."""
    for case in product(*options):
        here = KindAnalysis(None, {v: frozenset({k}) for v, k in case})
        if all(TRUE in here.of(h) for h in hypotheses):
            yield here


def _vars(e: Expr) -> set[Expr]:
    return {x for x in subterms(e) if isinstance(x, Var)}


def _used(goal: Goal) -> set[Expr]:
    return {v for e in Statement((), (), goal).terms() for v in _vars(e)}


def edge_obligations(program: Program, nest: Nest, p: Pass, consumer: Carried) -> tuple[Obligation, ...]:
    """All obligations of one fused edge. Raises UnsupportedTerm where they cannot be stated."""
    edge = Edge(program, nest, p, consumer)
    dtype, reducer = consumer.value.dtype, REDUCERS[consumer.value.reducer]
    show = ", ".join(c.name for c in edge.producers)
    label = f"rolling update of {consumer.name} over {show}"
    t, x, y = (var(n, dtype) for n in (T, "x", "y"))
    accumulators = [Symbol(v, edge.kinds, f"a value of the accumulator {consumer.name}") for v in (t, x, y)]
    G = edge.guarded(edge.g, consumer)
    h, reach = edge.repair, edge.later("", "_new")
    e_f = consumer.neutral

    def make(kind: str, part: str, goal: Goal, hyps: list[Hypothesis]) -> Obligation:
        return Obligation(kind, part, consumer.name, label, edge.statement(goal, hyps, tuple(accumulators)))

    later_live = edge.live("") + edge.live("_new") + reach
    chain = later_live + edge.live("_later") + edge.later("_new", "_later")
    return (
        make("O1", "", Refines(h(G), edge.at_new(G)), reach + edge.seen("")),
        make("O2", "", Equal(h(reducer.combine(x, y)), reducer.combine(h(x), h(y))), reach),
        make("O3", "identity", Equal(h(t, "", ""), t), edge.live("")),
        make("O3", "composition", Equal(h(h(t), "_new", "_later"), h(t, "", "_later")), chain),
        make("O4", "", Equal(h(e_f), e_f), reach),
        *reducer_laws(consumer.value, edge.kinds, consumer.name),
        make("O6", "repair", Defined(h(t)), reach),
        make("O6", "term", Refines(edge.at_new(G), edge.at_new(edge.g)), edge.seen("_new")),
    )


def reducer_laws(value: Reduce, kinds: Kinds, stage: str) -> tuple[Obligation, ...]:
    """O5 on the values that the accumulator can take."""
    f, e = REDUCERS[value.reducer].combine, REDUCERS[value.reducer].neutral(value.dtype)
    x, y, z = (var(n, value.dtype) for n in ("x", "y", "z"))
    symbols = [Symbol(v, kinds, f"a value of {stage}") for v in (x, y, z)]
    goals = {
        "associative": Equal(f(f(x, y), z), f(x, f(y, z))),
        "commutative": Equal(f(x, y), f(y, x)),
        "neutral": Equal(f(e, x), x),
    }
    result = []
    for part, goal in goals.items():
        used = _used(goal)
        statement = Statement(tuple(s for s in symbols if s.var in used), (), goal)
        result.append(Obligation("O5", part, stage, f"reducer {value.reducer}", statement))
    return tuple(result)


def _seen_by_invariants(hoist: Hoist, names: dict[Reduce, Var], abstract: Abstraction) -> list[Hypothesis]:
    """A reduction over the hoist's own domain has seen the element at hand: a max is >= it."""
    facts = []
    extents = [a.extent for a in hoist.old.axes]
    for x, v in names.items():
        if x.reducer in ("max", "min") and [a.extent for a in x.axes] == extents:
            element = abstract(read_carried(substitute(x.body, dict(zip(x.axes, hoist.old.axes, strict=True))), names))
            fact = op("le" if x.reducer == "max" else "ge", element, v)
            facts.append(Hypothesis(fact, f"derived: {v.name} is the {x.reducer} of terms, this element's included"))
    return facts


def hoist_obligations(program: Program, hoist: Hoist) -> tuple[Obligation, ...]:
    """O1, O2 and O4 of a hoist, over the template's loop-invariant values and the elements."""
    slots = hoist.slots()
    extents = [a.extent for a in hoist.old.axes]
    if any(r.reducer != hoist.old.reducer or [a.extent for a in r.axes] != extents for r in hoist.inner):
        raise ValueError(f"hoist {hoist.name}: inner reductions must have the outer one's reducer and domain")
    analysis = KindAnalysis(program)
    invariants = [x for x in subterms(hoist.template) if isinstance(x, Reduce)]
    bound = set(hoist.old.axes)
    if any(x.free & bound for x in subterms(hoist.template)):
        raise ValueError(f"hoist {hoist.name}: the template depends on the reduction axis")
    names: dict[Reduce, Var] = {x: var(f"A{k}", x.dtype) for k, x in enumerate(invariants)}
    abstract = Abstraction(analysis, [*names.values(), *slots])
    template = abstract(read_carried(hoist.template, names))
    # Over an empty domain nothing of the old term is evaluated, and the template is. A reduction over the same domain is
    # its neutral element then, hence defined; nothing else that can be undefined may stand in the template.
    _require_defined(abstract, template, "the hoisted factor")
    for x in invariants:
        if [a.extent for a in x.axes] != extents and UNDEF in analysis.of(x):
            raise UnsupportedTerm("the hoisted factor reads a value that can be undefined")
    old = abstract(read_carried(hoist.old.body, names))
    bodies = [substitute(r.body, dict(zip(r.axes, hoist.old.axes, strict=True))) for r in hoist.inner]
    inner = [abstract(read_carried(body, names)) for body in bodies]
    unsure = [names[x] for x in invariants if UNDEF in analysis.of(x)]
    require_hoistable(template, old, dict(zip(slots, inner, strict=True)), [*abstract.undefinable(), *unsure])
    show = Printer(program)
    f, e = REDUCERS[hoist.old.reducer], REDUCERS[hoist.old.reducer].neutral
    kinds = {s: analysis.of(r) - {UNDEF} for s, r in zip(slots, hoist.inner, strict=True)}
    invariant_symbols = [Symbol(v, analysis.of(x) - {UNDEF}, show(x)) for x, v in names.items()]

    def fill(values: list[Expr]) -> Expr:
        return substitute(template, dict(zip(slots, values, strict=True)))

    def pair(name: str) -> tuple[list[Expr], list[Symbol]]:
        vs = [var(f"{name}{k}", s.dtype) for k, s in enumerate(slots)]
        return list(vs), [
            Symbol(v, kinds[s], f"a partial result of {hoist.name}") for v, s in zip(vs, slots, strict=True)
        ]

    xs, x_symbols = pair("x")
    ys, y_symbols = pair("y")
    both = [f.combine(a, b) for a, b in zip(xs, ys, strict=True)]
    seen = _seen_by_invariants(hoist, names, abstract)
    goals: list[tuple[str, Goal]] = [
        ("O1", Refines(fill(inner), old)),
        ("O2", Equal(fill(both), f.combine(fill(xs), fill(ys)))),
        ("O4", Equal(fill([e(s.dtype) for s in slots]), e(hoist.old.dtype))),
    ]
    result = []
    for kind, goal in goals:
        used = _used(goal)
        symbols = [*x_symbols, *y_symbols, *invariant_symbols, *abstract.symbols(show)]
        # Only O1 speaks of an element of the domain, which the reductions over that domain have seen.
        facts = tuple(h for h in seen if kind == "O1" and _vars(h.expr) & used)
        used |= {v for h in facts for v in _vars(h.expr)}
        statement = Statement(tuple(s for s in symbols if s.var in used), facts, goal)
        result.append(Obligation(kind, "hoist", hoist.name, f"hoisting out of {hoist.name}", statement))
    return tuple(result)


__all__ = ["Edge", "Obligation", "edge_obligations", "hoist_obligations", "implies", "reducer_laws"]

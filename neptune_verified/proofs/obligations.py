"""Trusted: what must hold for a fused edge and for a hoist (O1 to O7, O14).

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
    O7  no derived value leaves the finite range of its type where the definition's values do not (``proofs.ranges``)
    O14 the state after each step is the definition's reduction over the elements seen (``proofs.states``)

**A hoist** replaces ``Reduce(f, old_j)`` by ``T(Reduce(f, x_j), Reduce(f, y_j), ...)`` with a template T over loop-invariant
values: O1 ``T(x_j, y_j, ...) = old_j``, O2 ``T`` distributes over f in all slots at once, O4 ``T(e_f, ...) = e_f``, and O7.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from neptune_verified.ir.expr import (
    FLOATS,
    REDUCERS,
    Expr,
    Reduce,
    Var,
    int_limit,
    op,
    substitute,
    subterms,
    var,
)
from neptune_verified.ir.kinds import (
    UNDEF,
    KindAnalysis,
    Kinds,
)
from neptune_verified.ir.loops import Carried, Hoist, Nest, Pass, T, read_carried
from neptune_verified.ir.printing import Printer
from neptune_verified.ir.program import Program
from neptune_verified.proofs.abstract import Abstraction, UnsupportedTerm
from neptune_verified.proofs.edge import Edge, implies, require_defined, used_variables, variables
from neptune_verified.proofs.evaluation import require_hoistable
from neptune_verified.proofs.facts import provenance
from neptune_verified.proofs.ranges import edge_ranges, hoist_ranges
from neptune_verified.proofs.statement import Defined, Equal, Goal, Hypothesis, Refines, Statement, Symbol
from neptune_verified.proofs.states import step_claim


@dataclass(frozen=True, slots=True)
class Obligation:
    """One statement that must hold: ``kind`` is O1 to O7, O14 or O15, ``part`` tells statements of one kind apart, ``stage``
    is the consumer, ``step`` the transformation that needs it."""

    kind: str
    part: str
    stage: str
    step: str
    statement: Statement

    @property
    def id(self) -> str:
        return f"{self.kind}{f'.{self.part}' if self.part else ''}"


def edge_obligations(program: Program, nest: Nest, p: Pass, consumer: Carried) -> tuple[Obligation, ...]:
    """All obligations of one fused edge. Raises UnsupportedTerm where they cannot be stated."""
    return tuple(each_edge_obligation(program, nest, p, consumer))


def each_edge_obligation(program: Program, nest: Nest, p: Pass, consumer: Carried) -> Iterator[Obligation]:
    """The same one by one, for those who may not need all of them."""
    edge = Edge(program, nest, p, consumer)
    dtype, reducer = consumer.value.dtype, REDUCERS[consumer.value.reducer]
    show = ", ".join(c.name for c in edge.producers)
    label = f"rolling update of {consumer.name} over {show}"
    t, x, y = (var(n, dtype) for n in (T, "x", "y"))
    accumulators = [edge.grounds.symbol(consumer, v, f"a value of the accumulator {consumer.name}") for v in (t, x, y)]
    G = edge.guarded(edge.g, consumer)
    h, reach = edge.repair, edge.later("", "_new")
    e_f = consumer.neutral

    def make(kind: str, part: str, goal: Goal, hyps: list[Hypothesis]) -> Obligation:
        return Obligation(kind, part, consumer.name, label, edge.statement(goal, hyps, tuple(accumulators)))

    later_live = edge.live("") + edge.live("_new") + reach
    chain = later_live + edge.live("_later") + edge.later("_new", "_later")
    yield make("O1", "", Refines(h(G), edge.at_new(G)), reach + edge.seen(""))
    yield make("O2", "", Equal(h(reducer.combine(x, y)), reducer.combine(h(x), h(y))), reach)
    yield make("O3", "identity", Equal(h(t, "", ""), t), edge.live(""))
    yield make("O3", "composition", Equal(h(h(t), "_new", "_later"), h(t, "", "_later")), chain)
    yield make("O4", "", Equal(h(e_f), e_f), reach)
    yield from reducer_laws(consumer, edge.kinds, edge.grounds.origins(consumer))
    yield make("O6", "repair", Defined(h(t)), reach)
    yield make("O6", "term", Refines(edge.at_new(G), edge.at_new(edge.g)), edge.seen("_new"))
    for part, statement in edge_ranges(program, nest, p, consumer).statements():
        yield Obligation("O7", part, consumer.name, label, statement)
    yield make("O14", "step", *step_claim(edge))


def state_obligations(program: Program, c: Carried) -> tuple[Obligation, ...]:
    """O5 of an accumulator that needs no repair: tiles and trees change the order of its elements all the same."""
    return reducer_laws(c, KindAnalysis(program).of(c.value) - {UNDEF}, provenance(program).origins(c.value))


def reducer_laws(c: Carried, kinds: Kinds, origins: tuple[str, ...]) -> tuple[Obligation, ...]:
    """O5 on the values that the accumulator can take, its own initial value included.

    Where one side of associativity is undefined nothing is claimed; with commutativity that covers both directions."""
    value, f, e = c.value, REDUCERS[c.value.reducer].combine, c.neutral
    x, y, z = (var(n, value.dtype) for n in ("x", "y", "z"))
    kinds = kinds | (KindAnalysis().of(e) - {UNDEF})
    symbols = [Symbol(v, kinds, f"a value of {c.name}", origins) for v in (x, y, z)]
    # Values of both signs of infinity, or an infinity and 0, may have no sum or product.
    total = UNDEF not in KindAnalysis(None, dict.fromkeys((x, y, z), kinds)).of(f(f(x, y), z))
    claim = Equal if total else Refines
    goals: dict[str, Goal] = {
        "associative": claim(f(f(x, y), z), f(x, f(y, z))),
        "commutative": claim(f(x, y), f(y, x)),
        "neutral": Equal(f(e, x), x),
    }
    result = []
    for part, goal in goals.items():
        used = used_variables(goal)
        facts = tuple(h for s in symbols if s.var in used for h in _range_facts(s.var))
        statement = Statement(tuple(s for s in symbols if s.var in used), facts, goal)
        result.append(Obligation("O5", part, c.name, f"reducer {value.reducer}", statement))
    return tuple(result)


def _range_facts(v: Var) -> list[Hypothesis]:
    """An integer lies in the range of its type."""
    if v.dtype in FLOATS or v.dtype == "bool":
        return []
    low, high = (op(name, v, int_limit(v.dtype, k)) for k, name in enumerate(("ge", "le")))
    return [Hypothesis(bound, f"domain: the range of {v.dtype}") for bound in (low, high)]


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
        raise UnsupportedTerm(f"hoist {hoist.name}: inner reductions must have the outer one's reducer and domain")
    analysis = KindAnalysis(program)
    invariants = [x for x in subterms(hoist.template) if isinstance(x, Reduce)]
    bound = set(hoist.old.axes)
    if any(x.free & bound for x in subterms(hoist.template)):
        raise UnsupportedTerm(f"hoist {hoist.name}: the template depends on the reduction axis")
    names: dict[Reduce, Var] = {x: var(f"A{k}", x.dtype) for k, x in enumerate(invariants)}
    abstract = Abstraction(analysis, [*names.values(), *slots])
    template = abstract(read_carried(hoist.template, names))
    # Over an empty domain nothing of the old term is evaluated, and the template is. A reduction over the same domain is
    # its neutral element then, hence defined; nothing else that can be undefined may stand in the template.
    require_defined(abstract, template, "the hoisted factor")
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
    known = provenance(program)
    why = {s: known.origins(r) for s, r in zip(slots, hoist.inner, strict=True)}
    invariant_symbols = [Symbol(v, analysis.of(x) - {UNDEF}, show(x), known.origins(x)) for x, v in names.items()]

    def fill(values: list[Expr]) -> Expr:
        return substitute(template, dict(zip(slots, values, strict=True)))

    def pair(name: str) -> tuple[list[Expr], list[Symbol]]:
        vs = [var(f"{name}{k}", s.dtype) for k, s in enumerate(slots)]
        return list(vs), [
            Symbol(v, kinds[s], f"a partial result of {hoist.name}", why[s]) for v, s in zip(vs, slots, strict=True)
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
    slot_symbols = [Symbol(s, kinds[s], f"a partial result of {hoist.name}", why[s]) for s in slots]
    leaves = {v: x for x, v in (*names.items(), *abstract.elements.items())}
    terms = dict(zip(slots, inner, strict=True))
    # Only O1 and O7 speak of an element of the domain, which the reductions over that domain have seen.
    claims: list[tuple[str, str, Goal, list[Hypothesis], tuple[Symbol, ...]]]
    claims = [(kind, "hoist", goal, seen if kind == "O1" else [], ()) for kind, goal in goals]
    ranges = hoist_ranges(hoist, program, analysis, leaves, terms, template, old, seen)
    claims += [("O7", f"hoist.{part}", goal, facts, extra) for part, goal, facts, extra in ranges]
    result = []
    for kind, part, goal, hypotheses, extra in claims:
        used = used_variables(goal)
        symbols = [*extra, *x_symbols, *y_symbols, *slot_symbols, *invariant_symbols]
        symbols += abstract.symbols(show, known.origins)
        facts = tuple(h for h in hypotheses if variables(h.expr) & used)
        used |= {v for h in facts for v in variables(h.expr)}
        statement = Statement(tuple(s for s in symbols if s.var in used), facts, goal)
        result.append(Obligation(kind, part, hoist.name, f"hoisting out of {hoist.name}", statement))
    return tuple(result)


__all__ = [
    "Edge",
    "Obligation",
    "edge_obligations",
    "hoist_obligations",
    "implies",
    "reducer_laws",
    "state_obligations",
]

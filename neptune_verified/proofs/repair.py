"""Trusted: what must hold for an online update that a person wrote or a strategy found.

A reduction ``Reduce(f, g(r, c))`` runs in one loop with the reductions r (its *producers*). The loop keeps accumulators
``t`` (or ``t0, t1, ...``), each a reduction of its own term, and possibly ``n``, the number of elements seen:

    t_k = Reduce(f_k, G_k(r, c_j)) over the elements seen,      G_k = g_k with the producers guarded          (invariant)

A step sees at least one new element. It takes r to r', every t_k to H_k(t, n, r, r'), and joins G_k(r', c) of the new
elements. The statements, for every k; *live* states have seen an element, the *first* state has seen none:

    O1  H_k(G(r, c), 1, r, r') = G_k(r', c)            wherever the right side is defined; c seen under r
    O2  H_k(x f y, m + n, r, r') = H_k(x, m, r, r') f_k H_k(y, n, r, r')
    O3  H_k(t, n, r, r) = t_k;  H_k(H(t, n, r, r'), n, r', r'') = H_k(t, n, r, r'')           live states
    O4  H_k(e, 0, r, r') = e_k                          r live, and r the producers' initial values ("first")
    O5  every f_k is associative, commutative, with neutral element e_k
    O6  H_k is defined on live states; G_k = g_k wherever g_k is defined
    value (where the result is not t_0 itself): W(G(r, c)) = g(r, c), W(x f y) = W(x) f W(y), W(e) = e_f

By O1, O2, O4, O5 the invariant holds after every step, in any order and any split; the value is then W(t).

**Producers** are sum, prod, max, min, mean, logsumexp, any, all of an element term, or *given*: any two values of their
domain, with no relation between them (then nothing is stated about the first state, which nobody knows). Facts of live
states: a running max, min, logsumexp or a sum of terms >= 0 is monotone unless its term reads other producers, and
bounds each element seen. A mean is finite, its initial value any number, with n = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from neptune_verified.ir.expr import INF, REDUCERS, Expr, Var, const, op, substitute, subterms, var
from neptune_verified.ir.kinds import (
    NINF,
    NONNEGATIVE,
    PINF,
    UNDEF,
    ZERO,
    KindAnalysis,
    Kinds,
    reduce_kinds,
    reduce_some,
)
from neptune_verified.ir.loops import Guard
from neptune_verified.proofs.evaluation import evaluated
from neptune_verified.proofs.obligations import implies
from neptune_verified.proofs.statement import Goal, Hypothesis, Statement, Symbol

PRODUCERS = ("sum", "prod", "max", "min", "mean", "logsumexp", "any", "all")
#: The reducer with which partial results of a producer are joined.
JOIN = {"mean": "sum", "logsumexp": "logaddexp"}
COUNT = "n"
LIVE_POINTS = {NINF: -INF, PINF: INF, ZERO: 0}


class IllFormed(ValueError):
    """The question cannot be stated; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Producer:
    """``element`` is its reduced term, over elements, parameters and earlier producers; ``reducer`` "" if it is given by
    its domain alone. ``declared`` are the kinds that the user states for it."""

    var: Var
    reducer: str
    element: Expr | None
    declared: Kinds

    @property
    def name(self) -> str:
        return self.var.name

    @property
    def new(self) -> Var:
        return var(f"{self.name}_new", self.var.dtype)


@dataclass(frozen=True, slots=True)
class Problem:
    """The reduction ``reducer`` of ``term`` over elements, with ``producers`` in the same loop."""

    reducer: str
    term: Expr
    producers: tuple[Producer, ...]
    elements: tuple[Symbol, ...]
    parameters: tuple[Symbol, ...] = ()
    facts: tuple[Hypothesis, ...] = ()

    @property
    def dtype(self) -> str:
        return self.term.dtype

    @property
    def counts(self) -> bool:
        """Is ``n`` the number of elements seen? Not where it is a name of the user's."""
        return COUNT not in {s.var.name for s in (*self.elements, *self.parameters)} | {p.name for p in self.producers}


@dataclass(frozen=True, slots=True)
class Update:
    """``updates`` over the accumulators, n, the producers' old and new values and the parameters; ``terms`` are what the
    accumulators reduce, ``value`` what the reduction is in terms of the accumulators."""

    reducers: tuple[str, ...]
    terms: tuple[Expr, ...]
    updates: tuple[Expr, ...]
    value: Expr
    guards: tuple[Guard, ...] = ()
    strategy: str = field(default="", compare=False)


def accumulators(terms: Sequence[Expr]) -> tuple[Var, ...]:
    return tuple(var("t" if len(terms) == 1 else f"t{k}", x.dtype) for k, x in enumerate(terms))


def combine(reducer: str) -> Callable[[Expr, Expr], Expr]:
    return REDUCERS[JOIN.get(reducer, reducer)].combine


def free(e: Expr) -> set[Var]:
    return {x for x in subterms(e) if isinstance(x, Var)}


class Reach:
    """The live states of a problem: kinds, order, and what an element knows of the producers that have seen it."""

    def __init__(self, problem: Problem, guards: tuple[Guard, ...] = ()) -> None:
        self.problem = problem
        self.guards = {g.producer: g for g in guards}
        self.given: dict[Expr, Kinds] = {s.var: s.kinds for s in (*problem.elements, *problem.parameters)}
        self.kinds: dict[str, Kinds] = {}
        for p in problem.producers:
            self.kinds[p.name] = self.given[p.var] = self._live_kinds(p)

    def _live_kinds(self, p: Producer) -> Kinds:
        if p.element is None:
            return p.declared
        kinds = self.of(p.element) - {UNDEF}
        if p.reducer == "logsumexp":
            live = reduce_kinds("logaddexp", kinds, p.var.dtype) - (frozenset() if NINF in kinds else {NINF})
        else:
            live = reduce_some("sum" if p.reducer == "mean" else p.reducer, kinds, p.var.dtype)
        live = (live - {UNDEF}) & p.declared
        if not live:
            raise IllFormed(f"no value of {p.name} is left: a {p.reducer} of such terms is never as declared")
        return live

    def of(self, e: Expr) -> Kinds:
        return KindAnalysis(None, self.given).of(e)

    def guarded(self, e: Expr) -> Expr:
        mapping: dict[Expr, Expr] = {}
        for p in self.problem.producers:
            if p.name in self.guards:
                mapping |= {v: self.guards[p.name].apply(v) for v in (p.var, p.new)}
        return substitute(e, mapping)

    def moved(self, e: Expr, source: str = "", target: str = "_new") -> Expr:
        """``e`` with the old values at the state ``source`` and the new ones at ``target``."""
        mapping: dict[Expr, Expr] = {}
        for p in self.problem.producers:
            mapping |= {p.var: var(p.name + source, p.var.dtype), p.new: var(p.name + target, p.var.dtype)}
        return substitute(e, mapping)

    def seen(self, suffix: str = "") -> list[Hypothesis]:
        facts: list[Hypothesis] = []
        for p in self.problem.producers:
            if p.element is not None:
                facts += [Hypothesis(self.moved(h.expr, suffix), h.origin) for h in self._bound(p, p.element)]
        return facts

    def _bound(self, p: Producer, element: Expr) -> list[Hypothesis]:
        match p.reducer:
            case "max" | "logsumexp":
                return [Hypothesis(op("le", element, p.var), f"derived: {p.name} is >= each element seen")]
            case "min":
                return [Hypothesis(op("ge", element, p.var), f"derived: {p.name} is <= each element seen")]
            case "sum" if self.of(element) - {UNDEF} <= NONNEGATIVE:
                return [Hypothesis(op("le", element, p.var), f"derived: {p.name} is a sum of terms >= 0")]
            case "any":
                return [Hypothesis(implies(element, p.var), f"derived: {p.name} is true where an element seen is")]
            case "all":
                return [Hypothesis(implies(p.var, element), f"derived: {p.name} is false where an element seen is")]
            case _:
                return []

    def later(self, source: str = "", target: str = "_new") -> list[Hypothesis]:
        facts = [Hypothesis(self.moved(h.expr, s), h.origin) for h in self.problem.facts for s in (source, target)]
        names = {p.var for p in self.problem.producers}
        for p in self.problem.producers:
            if p.element is None or free(p.element) & names:
                continue
            r, s = var(p.name + source, p.var.dtype), var(p.name + target, p.var.dtype)
            why = f"derived: {p.name} is a running {p.reducer}"
            if p.reducer in ("max", "logsumexp"):
                facts.append(Hypothesis(op("le", r, s), why))
            elif p.reducer == "min":
                facts.append(Hypothesis(op("ge", r, s), why))
            elif p.reducer == "sum" and self.of(p.element) - {UNDEF} <= NONNEGATIVE:
                facts.append(Hypothesis(op("le", r, s), f"{why} of terms >= 0"))
            elif p.reducer in ("any", "all"):
                facts.append(Hypothesis(implies(r, s) if p.reducer == "any" else implies(s, r), why))
        return list(dict.fromkeys(facts))

    def unguarded(self, *suffixes: str) -> list[Hypothesis]:
        """The producers are not at a point where a guard replaces them."""
        return [
            Hypothesis(op("ne", r, const(LIVE_POINTS[k], r.dtype)), f"domain: live states ({p.name} is not {k})")
            for p in self.problem.producers
            if p.name in self.guards
            for suffix in suffixes
            for r in [var(p.name + suffix, p.var.dtype)]
            for k in sorted(set(self.guards[p.name].points) & self.kinds[p.name])
        ]

    def first(self) -> dict[Expr, Expr] | None:
        """The producers' values before any element; None where one of them is unknown. A mean's is any number."""
        values: dict[Expr, Expr] = {}
        for p in self.problem.producers:
            if p.element is None:
                return None
            if p.reducer != "mean":
                values[p.var] = REDUCERS[JOIN.get(p.reducer, p.reducer)].neutral(p.var.dtype)
        return values

    def symbols(self) -> list[Symbol]:
        result: list[Symbol] = []
        for p in self.problem.producers:
            what = f"{p.name}, the running {p.reducer}" if p.reducer else f"{p.name}, any value of its domain"
            for suffix, when in (("", "before"), ("_new", "after"), ("_later", "later on")):
                result.append(Symbol(var(p.name + suffix, p.var.dtype), self.kinds[p.name], f"{what}, {when}"))
        return [*result, *self.problem.elements, *self.problem.parameters]

    def statement(self, goal: Goal, facts: Sequence[Hypothesis], extra: Sequence[Symbol] = ()) -> Statement:
        """Facts are kept when they speak of symbols that occur, or link them to others that then occur. What ``extra`` says
        of a symbol comes before what its role says."""
        used = {v for e in Statement((), (), goal).terms() for v in free(e)}
        kept: list[Hypothesis] = []
        while True:
            more = [h for h in facts if free(h.expr) & used]
            used |= {v for h in more for v in free(h.expr)}
            if len(more) == len(kept):
                break
            kept = more
        ranges: dict[Var, Symbol] = {}
        for s in (*extra, *self.symbols()):
            if s.var in used:
                ranges.setdefault(s.var, s)
        return Statement(tuple(ranges.values()), tuple(kept), goal)


def check_update(problem: Problem, update: Update) -> None:
    """Refuse what is not an update at all: an unknown symbol, an element in an update. Raises IllFormed."""
    sizes = {len(update.reducers), len(update.terms), len(update.updates)}
    if len(sizes) != 1 or not update.terms:
        raise IllFormed("repair and term need the same number of entries, at least one")
    unknown = {r for r in (*update.reducers, problem.reducer) if r not in REDUCERS}
    if unknown:
        raise IllFormed(f"unknown reducer {sorted(unknown)[0]}")
    old = {p.var for p in problem.producers}
    state = set(accumulators(update.terms)) | ({var(COUNT)} if problem.counts else set())
    parameters = {s.var for s in problem.parameters}
    elements = {s.var for s in problem.elements}
    allowed = state | old | {p.new for p in problem.producers} | parameters
    for e, ok in (*((u, allowed) for u in update.updates), (update.value, state | parameters)):
        for v in sorted(free(e) - ok, key=lambda v: v.name):
            if v in elements:
                raise IllFormed(
                    f"the repair reads {v.name}, which varies from element to element; if it is the same for all of "
                    "them, name it as a parameter"
                )
            raise IllFormed(f"the repair reads {v.name}, which is no accumulator, producer or parameter")
    for e in update.terms:
        for v in sorted(free(e) - old - parameters - elements, key=lambda v: v.name):
            raise IllFormed(f"the term reads {v.name}, which is no element, producer or parameter")
    _check_evaluated(problem, update)
    if {g.producer for g in update.guards} - {p.name for p in problem.producers}:
        raise IllFormed("a guard names a stranger")


def _check_evaluated(problem: Problem, update: Update) -> None:
    """Producers are taken to be defined, because an undefined one makes the definition undefined. That holds only where
    the term evaluates it for every element, and must not be used for one that it does not."""
    reach, where = Reach(problem), evaluated(problem.term)
    read = set().union(*(free(u) for u in update.updates))
    for p in problem.producers:
        unsure = p.element is not None and UNDEF in reach.of(p.element)
        always = frozenset() in where.get(p.var, ())
        if unsure and not always and (p.var in where or {p.var, p.new} & read):
            raise IllFormed(f"{p.name} can be undefined, and the term does not read it for every element")

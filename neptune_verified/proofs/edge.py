"""Trusted: the symbols, the terms and the reachable states of one fused edge.

**Reach** is every pair (state, later state) that the producers can have together, described by facts. The kinds of a
running value are those of its reduction (``ir.kinds``) and its neutral element; a running max, min or sum of non-negative
terms that is not repaired itself is monotone; an element that was seen is bounded by the running max, and is 0 where a
running sum of non-negative terms is 0. Elements (subterms without producers) range over all values of their kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import product

from neptune_verified.ir.bounds import Intervals
from neptune_verified.ir.expr import (
    FLOATS,
    INF,
    Axis,
    Const,
    Expr,
    Op,
    Read,
    Size,
    Var,
    const,
    contains,
    op,
    substitute,
    subterms,
    transform,
    var,
)
from neptune_verified.ir.intervals import SMALLEST
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
from neptune_verified.ir.loops import Carried, Nest, Pass, T, dead_state, read_carried, repair_of, symbols
from neptune_verified.ir.printing import Printer
from neptune_verified.ir.program import Program
from neptune_verified.proofs.abstract import Abstraction, UnsupportedTerm
from neptune_verified.proofs.evaluation import require_same_evaluation
from neptune_verified.proofs.facts import provenance
from neptune_verified.proofs.grounds import Grounds
from neptune_verified.proofs.statement import Goal, Hypothesis, Statement, Symbol

#: The kind of value at which these reductions start, and to which a running one does not return.
_NEUTRAL = {"max": NINF, "logaddexp": NINF, "min": PINF}
#: Operations through which a term keeps its relation to an element, whatever else it holds.
_SIMPLE = ("add", "sub", "mul", "neg", "abs", "max", "min", "cast")


def implies(a: Expr, b: Expr) -> Expr:
    return op("or", op("not", a), b)


def _at_extremum(e: Expr, r: Expr) -> Expr:
    """With the finite value ``r`` of an extremum in place of its element: what it takes from itself is 0, and it is no
    infinity."""

    def fn(x: Expr) -> Expr | None:
        match x:
            case Op("sub", (a, b)) if a is b is r:
                return const(0, x.dtype)
            case Op("select", (Op("eq", (a, Const(value))), _, other)) if a is r and value in (INF, -INF):
                return transform(other, fn)
            case _:
                return None

    return transform(e, fn)


def _is_exact(e: Expr) -> bool:
    """Its value is one of its operands, up to the sign, or a truth value."""
    return isinstance(e, Op) and (e.dtype == "bool" or e.name in ("neg", "abs", "max", "min", "select"))


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
        loop = tuple(a.extent for a in p.stream if isinstance(a.extent, Size))
        self.analysis = KindAnalysis(program).under(dict.fromkeys(loop, frozenset({POS})))
        self.provenance = provenance(program, loop)
        self.symbols = {
            c.name: (var(c.name, c.value.dtype), var(f"{c.name}_new", c.value.dtype)) for c in self.producers
        }
        self._require_own_producers()
        self.abstract = Abstraction(self.analysis, [var(T, consumer.value.dtype), *self._pairs()])
        self.axes = consumer.value.axes
        values: dict[Expr, Expr] = {c.value: self.symbols[c.name][0] for c in self.producers}
        self._keep_elements(read_carried(consumer.value.body, values), values)
        self.g = self.abstract(read_carried(consumer.value.body, values))
        self.elements = {c.name: self._element(c) for c in self.producers}
        self.state: dict[str, Kinds] = {}
        for c in self.producers:
            self.state[c.name] = self._state_kinds(c, self.elements[c.name]) | self._underflow(c)
        self.kinds = self._state_kinds(consumer, self.guarded(self.g, consumer))
        unsure = [c for c in self.producers if UNDEF in self.analysis.of(c.value)]
        require_same_evaluation(
            self.g, self._pairs(), self.abstract.undefinable(), [self.symbols[c.name][0] for c in unsure]
        )

    # -- terms ---------------------------------------------------------------------------------------------

    def _pairs(self) -> list[Var]:
        return [s for pair in self.symbols.values() for s in pair]

    def _require_own_producers(self) -> None:
        """What is said of a producer's elements takes its term over this edge's producers, and it runs over its own."""
        values: dict[Expr, Expr] = {c.value: self.symbols[c.name][0] for c in self.producers}
        for c in self.producers:
            names = c.repair.producers if c.repair else ()
            own: dict[Expr, Expr] = {q.value: symbols(q)[0] for q in self.pass_.carried if q.name in names}
            if read_carried(c.value.body, own) is not read_carried(c.value.body, values):
                raise UnsupportedTerm(f"{c.name} runs over other values than {self.consumer.name} is repaired over")

    def _keep_elements(self, body: Expr, values: dict[Expr, Expr]) -> None:
        """Elements of producers become symbols of their own, where all that the term makes of them is simple: then
        ``max(x, 0)`` keeps its relation to the x of a running maximum."""
        fixed = set(self._pairs())
        for c in self.producers:
            x = substitute(c.value.body, dict(zip(c.value.axes, self.axes, strict=True)))
            around = [e for e in subterms(body) if e is not x and not fixed & set(subterms(e)) and contains(e, [x])]
            inside = set(subterms(read_carried(x, values)))
            if around and not fixed & inside and all(isinstance(e, Op) and e.name in _SIMPLE for e in around):
                self.abstract(x)

    def _element(self, c: Carried) -> Expr:
        """The reduced term of producer ``c`` at the same element, over the old values of its own producers."""
        return self.guarded(self.abstract(self._body(c)), c)

    def _body(self, c: Carried) -> Expr:
        """The same without guards, in the definition's elements."""
        body = substitute(c.value.body, dict(zip(c.value.axes, self.axes, strict=True)))
        values: dict[Expr, Expr] = {q.value: self.symbols[q.name][0] for q in self.producers}
        return read_carried(body, values)

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
        require_defined(self.abstract, h, "the repair")
        mapping: dict[Expr, Expr] = {var(T, self.consumer.value.dtype): t}
        for old, new in self.symbols.values():
            mapping[old] = var(old.name + source, old.dtype)
            mapping[new] = var(old.name + target, old.dtype)
        return substitute(h, mapping)

    # -- reach ---------------------------------------------------------------------------------------------

    def _state_kinds(self, c: Carried, element: Expr) -> Kinds:
        """Kinds of the running value of ``c``: of a reduction of its elements over reachable producer states."""
        states, atoms = self.read_by(c, element)
        known = {**{s: self.state[s.name] for s in states}, **{v: self.abstract.kinds_of(x) for v, x in atoms.items()}}
        return self.reached(c, element, known, [h.expr for s in states for h in self._seen(s.name, "")])

    def read_by(self, c: Carried, element: Expr) -> tuple[list[Var], dict[Var, Expr]]:
        """The states on which the term of ``c`` depends, and the elements, those that these states have seen included."""
        earlier = list(self.producers if c is self.consumer else self.producers[: self.producers.index(c)])
        used = set(subterms(element))
        states = [s for s in (self.symbols[p.name][0] for p in earlier) if s in used]
        used |= {v for s in states for v in subterms(self.elements[s.name])}
        return states, {v: x for x, v in self.abstract.elements.items() if v in used}

    @staticmethod
    def reached(c: Carried, element: Expr, known: Mapping[Var, Kinds], hypotheses: list[Expr]) -> Kinds:
        """Kinds of a reduction of ``element``, from those of the symbols that it reads."""
        kinds = _over_cases(element, tuple(known.items()), tuple(hypotheses))
        return reduce_kinds(c.value.reducer, kinds - {UNDEF}, c.value.dtype) - {UNDEF}

    def _underflow(self, c: Carried) -> Kinds:
        """Zero, where terms that are never 0 are computed and may be too small for their type: the first ones may all be,
        where the definition's value at the end is not. A sum begins at 0 anyway."""
        return frozenset({ZERO}) if c.value.reducer != "sum" and self._may_vanish(c) else frozenset()

    def _may_vanish(self, c: Carried) -> bool:
        """Whether a term (or a product) that is not 0 may be computed as 0."""
        body, dtype = c.value.body, c.value.dtype
        kept = all(isinstance(y, Read | Axis | Size | Const) or _is_exact(y) for y in subterms(body))
        if dtype not in FLOATS or (kept and c.value.reducer != "prod"):
            return False
        r = Intervals(self.analysis).of(c.value if c.value.reducer == "prod" else body)
        return r is not None and any(p.lo < SMALLEST[dtype] and p.hi > -SMALLEST[dtype] for p in r.nonzero)

    def _attained(self, c: Carried) -> bool:
        """Whether the element at which a running maximum (or minimum) lies gives a term that no type loses: 1, of
        ``exp(x - m)``. Then a sum of terms >= 0 is computed as 0 only if nothing live was seen."""
        term = self._body(c)
        for q in (q for q in self.producers if q.value.reducer in ("max", "min")):
            r = self.symbols[q.name][0]
            found = Intervals(self.analysis).of(_at_extremum(substitute(term, {self._body(q): r}), r))
            if found is not None and found.lo >= SMALLEST[c.value.dtype]:
                return True
        return False

    def possible(self, hypotheses: list[Expr], suffix: str = "") -> bool:
        """Can the hypotheses hold together, as far as kinds tell? (No is certain.) States have the given suffix."""
        elements = {v: x for x, v in self.abstract.elements.items()}
        used = {v for h in hypotheses for v in variables(h)}
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
            case "sum" if self.state[name] <= NONNEGATIVE and (self._attained(c) or not self._may_vanish(c)):
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
                    dead = self.dead(c, source)
                    if dead is not None:
                        fact = op("or", dead, fact)
                    why = f"derived: {c.name} stays positive, its repair factor is"
                    facts.append(Hypothesis(fact, self.grounds.because(why, c)))
        return facts + self._empty_while_dead(source) + self._empty_while_dead(target)

    def dead(self, c: Carried, suffix: str) -> Expr | None:
        """A producer of ``c`` is guarded or infinite in the state with this suffix: nothing live was seen."""
        condition = dead_state(self.pass_, c) if c.repair is not None else None
        if condition is None:
            return None
        pairs: dict[Expr, Expr] = {
            old: var(old.name + suffix, old.dtype) for old, _ in map(symbols, self.pass_.carried)
        }
        return substitute(condition, pairs)

    def _empty_while_dead(self, suffix: str) -> list[Hypothesis]:
        """A repaired sum of terms >= 0 is 0 while a producer of its own is dead, if what such a state has seen is 0."""
        facts = []
        for c in self.producers:
            dead = self.dead(c, suffix)
            if c.value.reducer != "sum" or not self.state[c.name] <= NONNEGATIVE or dead is None:
                continue
            seen = [h.expr for q in self.producers if q is not c for h in self._seen(q.name, suffix)]
            element = self.at_new(self.elements[c.name], suffix) if suffix else self.elements[c.name]
            if not self.possible([dead, *seen, op("ne", element, const(0, element.dtype))], suffix):
                fact = implies(dead, _is(var(c.name + suffix, c.value.dtype), 0))
                why = f"derived: {c.name} has seen nothing live while its producer is dead"
                facts.append(Hypothesis(fact, self.grounds.because(why, c)))
        return facts

    def _keeps_sign(self, c: Carried) -> bool:
        """Is a positive accumulator of producer ``c`` still positive after its repair, in every live state?"""
        assert c.repair is not None
        given: dict[Expr, Kinds] = {var(T, c.value.dtype): frozenset({POS})}
        own = [p for p in self.pass_.carried if p.name in c.repair.producers]
        for p in own:
            old, new = symbols(p)
            given[old] = self.state[p.name] & FINITE
            # A value that was live can become infinite; a running maximum does not return to its neutral element.
            given[new] = self.state[p.name] - {_NEUTRAL.get(p.value.reducer, "")}
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

    @cached_property
    def grounds(self) -> Grounds:
        return Grounds(self)

    # -- statements ----------------------------------------------------------------------------------------

    def statement(self, goal: Goal, hypotheses: list[Hypothesis], extra: tuple[Symbol, ...] = ()) -> Statement:
        show = Printer(self.program)
        candidates: list[Symbol] = list(extra)
        for c in self.producers:
            old, new = self.symbols[c.name]
            for v, when in ((old, "before"), (new, "after"), (var(f"{c.name}_later", old.dtype), "later on")):
                candidates.append(self.grounds.symbol(c, v, f"{c.name}, the running {c.value.reducer}, {when}"))
        candidates += self.abstract.symbols(show, self.provenance.origins)
        used = used_variables(goal)
        # A hypothesis is kept when it speaks of symbols that occur, or links them to others that then occur.
        kept: list[Hypothesis] = []
        for _ in hypotheses:
            kept = [h for h in hypotheses if variables(h.expr) & used]
            used |= {v for h in kept for v in variables(h.expr)}
        return Statement(tuple(s for s in candidates if s.var in used), tuple(kept), goal)


def require_defined(abstract: Abstraction, e: Expr, what: str) -> None:
    """Elements are taken to be defined, because a term that evaluates an undefined one is undefined itself. That does not
    excuse a repair or a template, which are evaluated whatever the terms do."""
    used = set(subterms(e))
    for x, v in abstract.elements.items():
        if v in used and UNDEF in abstract.analysis.of(x):
            raise UnsupportedTerm(f"{what} reads a value that can be undefined")


@lru_cache(maxsize=4096)
def _over_cases(element: Expr, known: tuple[tuple[Var, Kinds], ...], hypotheses: tuple[Expr, ...]) -> Kinds:
    """Kinds of ``element`` in every case that the hypotheses allow; the same for many candidates of a repair."""
    kinds: Kinds = frozenset()
    for here in _cases([[(v, k) for k in ks] for v, ks in known], list(hypotheses)):
        kinds |= here.of(element)
    return kinds


def _cases(options: list[list[tuple[Var, str]]], hypotheses: list[Expr]) -> Iterator[KindAnalysis]:
    """Every combination of kinds under which none of the hypotheses is certainly false."""
    for case in product(*options):
        here = KindAnalysis(None, {v: frozenset({k}) for v, k in case})
        if all(TRUE in here.of(h) for h in hypotheses):
            yield here


def variables(e: Expr) -> set[Expr]:
    return {x for x in subterms(e) if isinstance(x, Var)}


def used_variables(goal: Goal) -> set[Expr]:
    return {v for e in Statement((), (), goal).terms() for v in variables(e)}

"""Trusted: from SymPy expressions to the problem and the update that statements are made of.

Symbols are matched by name; what SymPy assumes of them (``positive=True``) and what ``domain`` says ("0 < x <= 1") is
assumed here, and listed. A symbol without assumptions is a finite real number. Every symbol of a term that is no
producer and no parameter is an element: it varies, and a repair may not read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sympy as sp

from neptune_verified.ir.expr import REDUCERS, Const, Expr, Op, Var, is_const, op, var
from neptune_verified.ir.kinds import EXTENDED, FINITE, NEG, NINF, PINF, POS, TRUE, TRUTH, ZERO, KindAnalysis, Kinds
from neptune_verified.proofs.repair import (
    COUNT,
    PRODUCERS,
    IllFormed,
    Problem,
    Producer,
    Reach,
    Update,
    accumulators,
    free,
)
from neptune_verified.proofs.statement import Hypothesis, Symbol
from neptune_verified.proofs.statement_text import expr_text, kinds_text
from neptune_verified.proofs.sympy_reading import read_sympy

DTYPE = "float32"
DOMAINS: dict[str, Kinds] = {
    "real": FINITE,
    "positive": frozenset({POS}),
    "negative": frozenset({NEG}),
    "nonnegative": frozenset({ZERO, POS}),
    "nonpositive": frozenset({NEG, ZERO}),
    "nonzero": frozenset({NEG, POS}),
    "real or -inf": FINITE | {NINF},
    "extended": EXTENDED,
    "bool": TRUTH,
}


class Question:
    """One table of symbols for everything that is asked about one reduction."""

    def __init__(
        self,
        reducer: str,
        term: Any,
        producers: Mapping[Any, tuple[str, Any] | None],
        facts: Iterable[Any] = (),
        parameters: Iterable[Any] = (),
        domain: Mapping[Any, Any] | None = None,
        others: Sequence[Any] = (),
    ) -> None:
        if reducer not in REDUCERS:
            raise IllFormed(f"unknown reducer {reducer!r}; there are {', '.join(REDUCERS)}")
        self.reducer = reducer
        self.facts = [f for fact in facts for f in (fact.args if isinstance(fact, sp.And) else (fact,))]
        self.domain = {_name(k): v for k, v in (domain or {}).items()}
        self.given = {_name(p): _producer(_name(p), spec) for p, spec in producers.items()}
        self.parameters = list(dict.fromkeys(_name(p) for p in parameters))
        expressions = [term, *(e for spec in self.given.values() if spec for e in spec[1:]), *self.facts, *others]
        self.truths = _truths(expressions) | {p for p, spec in self.given.items() if spec and spec[0] in ("any", "all")}
        for spec in self.given.values():
            if spec and spec[0] in ("any", "all") and isinstance(spec[1], sp.Symbol):
                self.truths.add(spec[1].name)
        if reducer in ("any", "all") and isinstance(term, sp.Symbol):
            self.truths.add(term.name)
        self.assumed: dict[str, Kinds] = {}
        for s in (s for e in [*expressions, *producers, *parameters] for s in _symbols(e)):
            self._assume(s)
        self.symbols: dict[str, Expr] = {}
        self.problem = self._problem(term, [s.name for e in [term, *self._elements()] for s in _symbols(e)])

    def _assume(self, s: Any) -> None:
        kinds = (
            TRUTH if s.name in self.truths else _kinds(s) if s.is_extended_real is not None else self._default(s.name)
        )
        self.assumed[s.name] = self.assumed.get(s.name, kinds) & kinds
        if not self.assumed[s.name]:
            raise IllFormed(f"the assumptions on {s.name} contradict each other")

    def _default(self, name: str) -> Kinds:
        """Of a symbol that nothing is said of: a real number, or whatever the reduction of a producer can be."""
        return TRUTH if name in self.truths else EXTENDED if self.given.get(name) else FINITE

    def _elements(self) -> list[Any]:
        return [spec[1] for spec in self.given.values() if spec]

    def var(self, name: str) -> Var:
        found = var(name, "bool" if name in self.truths else DTYPE)
        self.symbols[name] = found
        return found

    def read(self, e: Any) -> Expr:
        return read_sympy(e, self.symbols, DTYPE)

    def _problem(self, term: Any, names: list[str]) -> Problem:
        reserved = {"t", *(f"t{k}" for k in range(10)), *(f"{p}{s}" for p in self.given for s in ("_new", "_later"))}
        for name in [*names, *self.given, *self.parameters]:
            if name in reserved:
                raise IllFormed(f"{name} stands for an accumulator or a new value: give the symbol another name")
        counted = COUNT not in self.given and COUNT not in self.parameters
        if counted and COUNT in names:
            raise IllFormed("n is the number of elements seen; if it is a parameter, say so")
        for name in [*names, *self.given, *self.parameters]:
            self.var(name)
        self.facts += [fact for name in list(self.symbols) for fact in self._domain(name)]
        facts = self._facts()
        producers = []
        for name, spec in self.given.items():
            kinds = self.assumed.get(name, self._default(name))
            producers.append(
                Producer(self.var(name), spec[0] if spec else "", self.read(spec[1]) if spec else None, kinds)
            )
        self._check_order(producers)
        names = [x for x in dict.fromkeys(names) if x not in self.given and x not in self.parameters]
        elements = tuple(Symbol(self.var(x), self.assumed[x], "an element") for x in names)
        parameters = tuple(
            Symbol(self.var(x), self.assumed.get(x, FINITE), "a parameter, the same for every element")
            for x in self.parameters
        )
        return Problem(self.reducer, self.read(term), tuple(producers), elements, parameters, tuple(facts))

    @staticmethod
    def _check_order(producers: Sequence[Producer]) -> None:
        for k, p in enumerate(producers):
            later = {q.var for q in producers[k:]}
            if p.element is not None and free(p.element) & later:
                raise IllFormed(f"{p.name} reads itself or a later producer: list producers in order")

    def _domain(self, name: str) -> list[Any]:
        """The facts that the domain of a symbol states; a word narrows its kinds at once."""
        said = self.domain.get(name)
        if said is None:
            return []
        if isinstance(said, str) and said in DOMAINS:
            if said == "bool":
                self.truths.add(name)
                self.var(name)
                self.assumed[name] = TRUTH
            elif said in ("extended", "real or -inf"):
                self.assumed[name] = DOMAINS[said]
            else:
                self.assumed[name] = self.assumed.get(name, self._default(name)) & DOMAINS[said]
            return []
        if not isinstance(said, sp.logic.boolalg.Boolean):
            raise IllFormed(f"the domain of {name} is {said!r}; say one of {', '.join(DOMAINS)}, or an inequality")
        said = said.xreplace({s: sp.Symbol(name) for s in said.free_symbols if s.name == "x" and name != "x"})
        return list(said.args) if isinstance(said, sp.And) else [said]

    def _facts(self) -> list[Hypothesis]:
        """Facts; what says no more than the sign or finiteness of one symbol narrows its kinds instead."""
        kept = []
        for fact in dict.fromkeys(self.facts):
            if fact == sp.true:
                continue
            for s in _symbols(fact):
                if s.name not in self.symbols:
                    raise IllFormed(f"the fact {fact} speaks of {s.name}, which occurs nowhere else")
            e = self.read(fact)
            if e.dtype != "bool":
                raise IllFormed(f"{fact} is no fact: write a comparison")
            if not self._narrow(e):
                kept.append(Hypothesis(e, f"declared: {fact}"))
        return kept

    def _narrow(self, e: Expr) -> bool:
        """Drop the kinds of a symbol that the comparison with a constant excludes; True if that says all of it."""
        match e:
            case Op(name, (Var() as v, Const() as bound)) if v.dtype != "bool" and name != "eq":
                pass
            case Op(name, (Const() as bound, Var() as v)) if v.dtype != "bool" and name in _MIRROR:
                name = _MIRROR[name]
            case _:
                return False
        test = op(name, v, bound)
        before = self.assumed.get(v.name, self._default(v.name))
        kinds = frozenset(k for k in before if TRUE in KindAnalysis(None, {v: frozenset({k})}).of(test))
        if not kinds:
            raise IllFormed(f"the facts on {v.name} contradict each other")
        self.assumed[v.name] = kinds
        return is_const(bound, 0) or isinstance(bound.value, float)

    def update(self, terms: Sequence[Any], repairs: Sequence[Any]) -> Update:
        """A person's update: the accumulators have the reduction's own reducer."""
        read_terms = tuple(self.read(x) for x in terms)
        names = dict(self.symbols)
        names |= {t.name: t for t in accumulators(read_terms)}
        names |= {p.new.name: p.new for p in self.problem.producers}
        if self.problem.counts:
            names[COUNT] = var(COUNT)
        for e in repairs:
            for s in sorted(_symbols(e), key=lambda s: s.name):
                if s.name not in names:
                    raise IllFormed(f"the repair reads {s.name}, which is no accumulator, producer or parameter")
        read_repairs = tuple(read_sympy(x, names, DTYPE) for x in repairs)
        value = accumulators(read_terms)[0]
        return Update((self.reducer,) * len(read_terms), read_terms, read_repairs, value, strategy="given")

    def assumptions(self) -> list[str]:
        """What is taken for granted, in words."""
        reach = Reach(self.problem)
        lines = []
        for p in self.problem.producers:
            what = f"the running {p.reducer} of {expr_text(p.element)}" if p.element is not None else "a running value"
            lines.append(f"{p.name}: {what}, {kinds_text(reach.kinds[p.name])} once an element was seen")
        lines += [f"{s.var.name}: {s.meaning}, {kinds_text(s.kinds)}" for s in self.problem.elements]
        lines += [f"{s.var.name}: {s.meaning}, {kinds_text(s.kinds)}" for s in self.problem.parameters]
        return [*lines, *(h.origin for h in self.problem.facts)]


_MIRROR = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "ne": "ne"}


def _name(x: Any) -> str:
    name = x.name if isinstance(x, sp.Symbol) else x
    if not isinstance(name, str) or not name.isidentifier():
        raise IllFormed(f"{x} is no symbol")
    return name


def _symbols(e: Any) -> list[Any]:
    return sorted(e.free_symbols, key=lambda s: s.name) if isinstance(e, sp.Basic) else []


def _producer(name: str, spec: tuple[str, Any] | None) -> tuple[str, Any] | None:
    if spec is None:
        return None
    reducer, element = spec
    if reducer not in PRODUCERS:
        raise IllFormed(f"{name} is a {reducer}; producers are {', '.join(PRODUCERS)}")
    return reducer, sp.sympify(element)


def _truths(expressions: Sequence[Any]) -> set[str]:
    """Symbols that stand where a truth value is wanted."""
    found: set[str] = set()
    for e in expressions:
        for x in sp.preorder_traversal(e) if isinstance(e, sp.Basic) else ():
            if isinstance(x, sp.And | sp.Or | sp.Not | sp.Xor):
                found |= {a.name for a in x.args if isinstance(a, sp.Symbol)}
            if isinstance(x, sp.Piecewise):
                found |= {c.name for _, c in x.args if isinstance(c, sp.Symbol)}
    return found


def _kinds(s: Any) -> Kinds:
    """The kinds that SymPy's assumptions on a symbol leave."""
    if s.is_extended_real is False:
        raise IllFormed(f"{s.name} is not real")
    negative, positive, zero = s.is_extended_negative, s.is_extended_positive, s.is_zero
    infinite = s.is_extended_real is True and s.is_finite is None
    possible = {
        NEG: negative is not False and zero is not True,
        ZERO: zero is not False and not negative and not positive,
        POS: positive is not False and zero is not True,
        NINF: infinite and negative is not False,
        PINF: infinite and positive is not False,
    }
    return frozenset(k for k, yes in possible.items() if yes)


__all__ = ["DOMAINS", "Question"]

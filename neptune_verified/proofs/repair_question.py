"""Trusted: from SymPy expressions to the problem and the update that statements are made of.

Symbols are matched by name; what SymPy assumes of them (``positive=True``) and what ``domain`` says ("0 < x <= 1") is
assumed here, and listed. A symbol without assumptions is a finite real number. Every symbol of a term that is no
producer and no parameter is an element: it varies, and a repair may not read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sympy as sp

from neptune_verified.ir.expr import REDUCERS, Const, Expr, Op, Var, is_const, op, var
from neptune_verified.ir.kinds import (
    EXTENDED,
    FINITE,
    TRUE,
    TRUTH,
    UNDEF,
    KindAnalysis,
    Kinds,
)
from neptune_verified.proofs.repair import (
    COUNT,
    IllFormed,
    Problem,
    Producer,
    Reach,
    Update,
    accumulators,
    free,
)
from neptune_verified.proofs.repair_symbols import (
    DOMAINS,
    kinds_of,
    producer_of,
    speaks,
    symbol_name,
    symbols_of,
    truth_names,
)
from neptune_verified.proofs.statement import Hypothesis, Symbol
from neptune_verified.proofs.statement_text import expr_text, kinds_text
from neptune_verified.proofs.sympy_reading import read_sympy

DTYPE = "float32"


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
        self.domain = {symbol_name(k): v for k, v in (domain or {}).items()}
        self.given = {symbol_name(p): producer_of(symbol_name(p), spec) for p, spec in producers.items()}
        self.parameters = list(dict.fromkeys(symbol_name(p) for p in parameters))
        expressions = [term, *(e for spec in self.given.values() if spec for e in spec[1:]), *self.facts, *others]
        self.truths = truth_names(expressions) | {
            p for p, spec in self.given.items() if spec and spec[0] in ("any", "all")
        }
        for spec in self.given.values():
            if spec and spec[0] in ("any", "all") and isinstance(spec[1], sp.Symbol):
                self.truths.add(spec[1].name)
        if reducer in ("any", "all") and isinstance(term, sp.Symbol):
            self.truths.add(term.name)
        self.assumed: dict[str, Kinds] = {}
        self.symbols: dict[str, Expr] = {}
        self.hidden: dict[str, Any] = {}
        for s in (s for e in [*expressions, *producers, *parameters] for s in symbols_of(e)):
            self._assume(s)
        self.facts += [fact for name in self.domain for fact in self._domain(name)]
        self.facts = [self.hide(f) for f in self.facts]
        self.given = {p: spec and (spec[0], self.hide(spec[1])) for p, spec in self.given.items()}
        term = self.hide(term)
        self.problem = self._problem(term, [s.name for e in [term, *self._elements()] for s in symbols_of(e)])

    def hide(self, e: Any) -> Any:
        """Functions without a rule in the provers (tanh, erf, ...) of elements and parameters, as symbols of their own: what
        holds for all values of these holds for the functions'."""
        if not isinstance(e, sp.Basic):
            return e
        running = set(self.given) | {f"{p}{s}" for p in self.given for s in ("_new", "_later")} | _ACCUMULATORS
        found: dict[Any, Any] = {}
        walk = sp.preorder_traversal(e)
        for x in walk:
            if isinstance(x, _OPAQUE) and not {s.name for s in x.free_symbols} & running:
                walk.skip()
                if self._hidden(x):
                    found[x] = sp.Symbol(str(x))
        return e.xreplace(found)

    def _hidden(self, x: Any) -> bool:
        name, inner = str(x), [s.name for s in x.free_symbols]
        symbols: dict[str, Expr] = {s: var(s, "bool" if s in self.truths else DTYPE) for s in inner}
        given = {v: self.assumed.get(s, self._default(s)) for s, v in symbols.items()}
        kinds = KindAnalysis(None, given).of(read_sympy(x, symbols, DTYPE)) if inner else frozenset({UNDEF})
        if UNDEF in kinds:
            return False
        self.assumed[name], self.hidden[name] = kinds, x
        if set(inner) <= set(self.parameters) and name not in self.parameters:
            self.parameters.append(name)
        return True

    def _assume(self, s: Any) -> None:
        kinds = TRUTH if s.name in self.truths else kinds_of(s) if speaks(s) else self._default(s.name)
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
        reserved = _ACCUMULATORS | {f"{p}{s}" for p in self.given for s in ("_new", "_later")}
        for name in [*names, *self.given, *self.parameters]:
            if name in reserved:
                raise IllFormed(f"{name} stands for an accumulator or a new value: give the symbol another name")
        counted = COUNT not in self.given and COUNT not in self.parameters
        if counted and COUNT in names:
            raise IllFormed("n is the number of elements seen; if it is a parameter, say so")
        for name in [*names, *self.given, *self.parameters]:
            self.var(name)
        for name in self.domain:
            if name not in self.symbols and name not in {s.name for x in self.hidden.values() for s in x.free_symbols}:
                raise IllFormed(f"the domain of {name} is given, which occurs nowhere")
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
        if not isinstance(said, sp.logic.boolalg.Boolean) or isinstance(said, sp.Symbol):
            raise IllFormed(f"the domain of {name} is {said!r}; say one of {', '.join(DOMAINS)}, or an inequality")
        said = said.xreplace({s: sp.Symbol(name) for s in said.free_symbols if s.name == "x" and name != "x"})
        return list(said.args) if isinstance(said, sp.And) else [said]

    def _facts(self) -> list[Hypothesis]:
        """Facts; what says no more than the sign or finiteness of one symbol narrows its kinds instead."""
        kept = []
        for fact in dict.fromkeys(self.facts):
            if fact == sp.true:
                continue
            for s in symbols_of(fact):
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
        terms, repairs = [self.hide(x) for x in terms], [self.hide(x) for x in repairs]
        read_terms = tuple(self.read(x) for x in terms)
        names = dict(self.symbols)
        names |= {t.name: t for t in accumulators(read_terms)}
        names |= {p.new.name: p.new for p in self.problem.producers}
        if self.problem.counts:
            names[COUNT] = var(COUNT)
        for e in repairs:
            for s in sorted(symbols_of(e), key=lambda s: s.name):
                if s.name not in names:
                    raise IllFormed(f"the repair reads {s.name}, which is no accumulator, producer or parameter")
        read_repairs = tuple(read_sympy(x, names, DTYPE) for x in repairs)
        value = accumulators(read_terms)[0]
        return Update((self.reducer,) * len(read_terms), read_terms, read_repairs, value, strategy="given")

    def assumptions(self) -> list[str]:
        """What is taken for granted, in words."""
        anything = EXTENDED | TRUTH
        reach = Reach(self.problem)
        free_of = Reach(
            replace(self.problem, producers=tuple(replace(p, declared=anything) for p in self.problem.producers))
        )
        lines = []
        for p in self.problem.producers:
            kinds = kinds_text(reach.kinds[p.name])
            if p.element is None:
                lines.append(f"{p.name}: a running value, {kinds}")
                continue
            declared = " (declared)" if reach.kinds[p.name] != free_of.kinds[p.name] else ""
            what = f"the running {p.reducer} of {expr_text(p.element)}"
            lines.append(f"{p.name}: {what}, {kinds}{declared} once an element was seen")
        lines += [f"{s.var.name}: {s.meaning}, {kinds_text(s.kinds)}" for s in self.problem.elements]
        lines += [f"{s.var.name}: {s.meaning}, {kinds_text(s.kinds)}" for s in self.problem.parameters]
        return [*lines, *(h.origin for h in self.problem.facts)]


_OPAQUE = (sp.tanh, sp.erf, sp.sin, sp.cos, sp.floor, sp.ceiling)
_ACCUMULATORS = {"t", *(f"t{k}" for k in range(10))}
_MIRROR = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "ne": "ne"}


__all__ = ["Question"]

"""Trusted: which facts the range of an expression rests on, and whether every fact of a statement has a source.

What is declared of inputs, or so by default, is a ``Fact``. Those that a range rests on are found by leaving out one after
the other: a fact without which the range would be no larger is left out, and what is left is named. So the facts that are
named are enough to derive the range, and none of them is idle. What the operations make of them is described in words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from neptune_verified.ir.bounds import Intervals
from neptune_verified.ir.expr import FLOATS, Axis, Const, Expr, Op, Read, Reduce, Size, Var, subterms
from neptune_verified.ir.intervals import Range, representable
from neptune_verified.ir.kinds import EXTENDED, FINITE, NINF, NONNEGATIVE, PINF, POS, TRUTH, UNDEF, KindAnalysis, Kinds
from neptune_verified.ir.program import Assumption, Program
from neptune_verified.proofs.statement import Statement, legal
from neptune_verified.proofs.statement_text import expr_text, kinds_text


@dataclass(frozen=True, slots=True)
class Fact:
    """``origin`` is its text; it is the assumption of this kind on ``subject``, or one of the kinds below."""

    origin: str
    subject: str
    kind: str


#: An input is finite; a step of a loop has an element; the definition's values are in range.
FINITE_INPUT, NOT_EMPTY, FITS = "finite", "not empty", "fits"
IN_RANGE = Fact("assumed: O7, the definition's values are in the range of their types", "", FITS)


def assumption_text(a: Assumption) -> str:
    return str(a) if a.expr is None else expr_text(a.expr)


@lru_cache(maxsize=256)
def input_facts(program: Program) -> tuple[Fact, ...]:
    """Everything that may be used of inputs and lengths: what is declared, the defaults, and that floats are finite."""
    facts = [Fact(f"{a.origin}: {assumption_text(a)}", a.subject, a.kind) for a in program.assumptions]
    masks = {a.subject for a in program.assumptions if a.kind == "finite_or_minus_infinity"}
    floats = _floats(program)
    facts += [Fact(f"default: {name} is finite", name, FINITE_INPUT) for name in floats if name not in masks]
    return tuple(facts)


def _floats(program: Program) -> list[str]:
    named = [(t.name, t.dtype) for t in program.inputs] + [(s.name, s.dtype) for s in program.sizes]
    return [name for name, dtype in named if dtype in FLOATS]


def needed(facts: Sequence[Fact], enough: Callable[[frozenset[Fact]], bool]) -> tuple[Fact, ...]:
    """Those of ``facts`` that are left when each that is not needed beside the others is left out."""
    kept = list(facts)
    for f in reversed(facts):
        less = [k for k in kept if k is not f]
        if enough(frozenset(less)):
            kept = less
    return tuple(kept)


class Provenance:
    """What the ranges of closed expressions of a program rest on. ``loop``: lengths that are not 0 in a step of the loop."""

    def __init__(self, program: Program, loop: tuple[Expr, ...] = ()) -> None:
        self.program = program
        own = {a: k for k, a in KindAnalysis(program).facts.items()}
        # Of two assumptions of one kind on one subject only one is in force (``KindAnalysis.facts``).
        idle = {f"{a.origin}: {assumption_text(a)}" for a in program.assumptions if a not in own}
        self.facts = [f for f in input_facts(program) if f.origin not in idle]
        self.loop = {Fact("derived: a step of the loop has an element", n.name, NOT_EMPTY): n
                     for n in loop if isinstance(n, Size)}  # fmt: skip
        self._analyses: dict[frozenset[Fact], KindAnalysis] = {}
        self._intervals: dict[frozenset[Fact], Intervals] = {}
        self._kinds: dict[Expr, tuple[Fact, ...]] = {}
        self._origins: dict[tuple[Expr | tuple[Axis, ...], bool], str] = {}

    def analysis(self, kept: frozenset[Fact]) -> KindAnalysis:
        """Kinds, if nothing but ``kept`` is known of inputs and lengths."""
        if kept not in self._analyses:
            result = KindAnalysis(self.program)
            known = {(f.subject, f.kind) for f in kept}
            finite = {subject for subject, kind in known if kind in (FINITE_INPUT, "finite_or_minus_infinity")}
            result.facts = {key: a for key, a in result.facts.items() if key in known}
            result.unbounded = frozenset(_floats(self.program)) - finite
            given: dict[Expr, Kinds] = {n: frozenset({POS}) for f, n in self.loop.items() if f in kept}
            self._analyses[kept] = result.under(given) if given else result
        return self._analyses[kept]

    def intervals(self, kept: frozenset[Fact]) -> Intervals:
        if kept not in self._intervals:
            self._intervals[kept] = Intervals(self.analysis(kept), fits=IN_RANGE in kept)
        return self._intervals[kept]

    def relevant(self, *expressions: Expr) -> list[Fact]:
        names = {name for x in expressions for name in _names(x)}
        return [f for f in (*self.facts, *self.loop) if f.subject in names]

    # -- kinds ---------------------------------------------------------------------------------------------

    def kinds(self, x: Expr) -> tuple[Fact, ...]:
        """The facts that the kinds of ``x`` rest on."""
        if x not in self._kinds:
            facts = self.relevant(x)
            wanted = self.analysis(frozenset(facts)).of(x)
            self._kinds[x] = needed(facts, lambda kept: self.analysis(kept).of(x) <= wanted)
        return self._kinds[x]

    def origins(self, x: Expr) -> tuple[str, ...]:
        """Why a symbol that stands for ``x`` has no more kinds than it has."""
        facts = self.kinds(x)
        return (*(f.origin for f in facts), *describe(x, self.analysis(frozenset(facts)).of(x)))

    # -- intervals -----------------------------------------------------------------------------------------

    def interval(self, x: Expr, complete: bool = False) -> str:
        """Where the interval of ``x`` comes from (``complete``: of a reduction over its whole domain), as one origin."""
        if (x, complete) not in self._origins:
            self._origins[x, complete] = self._interval(x, complete)
        return self._origins[x, complete]

    def _interval(self, x: Expr, complete: bool) -> str:
        facts = [*self.relevant(x), IN_RANGE]

        def found(kept: frozenset[Fact]) -> Range:
            intervals = self.intervals(kept)
            return intervals.complete(x) if complete else intervals.of(x)

        wanted = found(frozenset(facts))
        named = needed(facts, lambda kept: _no_larger(found(kept), wanted))
        plain = isinstance(x, Read | Size) and wanted == representable(x.dtype)
        first = f"domain: the range of {x.dtype}" if plain else "derived: interval arithmetic"
        return "; ".join([first, *(f.origin for f in named)])

    def count(self, axes: tuple[Axis, ...]) -> str:
        """Where the greatest number of elements of a domain comes from."""
        if (axes, False) not in self._origins:
            self._origins[axes, False] = self._count(axes)
        return self._origins[axes, False]

    def _count(self, axes: tuple[Axis, ...]) -> str:
        facts = self.relevant(*(a.extent for a in axes))
        wanted = self.intervals(frozenset(facts)).count(axes)
        named = needed(facts, lambda kept: self.intervals(kept).count(axes) <= wanted)
        first = "derived: a domain has at most as many elements as its lengths allow"
        return "; ".join([first, *(f.origin for f in named)])


@lru_cache(maxsize=64)
def provenance(program: Program, loop: tuple[Expr, ...] = ()) -> Provenance:
    return Provenance(program, loop)


def _no_larger(found: Range, wanted: Range) -> bool:
    if found is None or wanted is None:
        return found is None
    return found.within(wanted) and found.gap >= wanted.gap


def _names(x: Expr) -> set[str]:
    """Inputs and lengths that ``x`` reads, those of its domains included."""
    found: set[str] = set()
    for e in subterms(x):
        match e:
            case Read(tensor=name) | Size(name=name):
                found.add(name)
            case Axis(extent=extent):
                found |= _names(extent)
            case Reduce(axes=axes):
                found |= {name for a in axes for name in _names(a.extent)}
    return found


# ------------------------------------------------------------------------------------------------- in words

_NAMED = {"mul": "product", "div": "quotient", "add": "sum", "sub": "difference", "neg": "negation"}


def describe(x: Expr, kinds: Kinds) -> tuple[str, ...]:
    """What the outermost operation makes of its operands; nothing where that is no restriction, or an input's own."""
    kinds, never = kinds - {UNDEF}, kinds <= {UNDEF}
    every = TRUTH if x.dtype == "bool" else EXTENDED if x.dtype in FLOATS else FINITE
    if isinstance(x, Read | Const) or every <= kinds:
        return ()
    return (
        f"derived: {_noun(x, kinds)} is never defined" if never else f"derived: {_noun(x, kinds)} is {said(kinds)}",
    )


def _noun(x: Expr, kinds: Kinds) -> str:
    match x:
        case Size(name=name):
            return f"the length {name}"
        case Axis():
            return "an index"
        case Reduce("sum", _, Op("mul", (a, b))) if a is b:
            return "a sum of squares"
        case Reduce("max" | "min" as reducer) if not kinds & {NINF, PINF}:
            return f"a {reducer} of such terms, at least one of them,"
        case Reduce(reducer=reducer):
            return f"a {reducer} of such terms"
        case Op("mul", (a, b)) if a is b:
            return "a square"
        case Op("select"):
            return "a choice of such values"
        case Op("exp" | "exp2" | "sqrt" | "abs" | "log" | "tanh" | "sigmoid" as name):
            return f"{name} of such a value"
        case Op(name):
            return f"a {_NAMED.get(name, name)} of such values"
        case _:
            return "such a value"


def said(kinds: Kinds) -> str:
    """``finite >= 0``, ``-inf or finite``."""
    return kinds_text(kinds).strip("{}").replace(", ", " or ")


def running(reducer: str, kinds: Kinds) -> str:
    """What a running value is, whatever it has seen."""
    if reducer in ("max", "min") and kinds & {NINF, PINF}:
        return f"derived: a running {reducer} of such terms, which starts at {'-inf' if reducer == 'max' else 'inf'}"
    terms = "terms >= 0" if reducer == "sum" and kinds <= NONNEGATIVE | {PINF} else "such terms"
    return f"derived: a running {reducer} of {terms}"


def over_symbols(
    x: Expr, kinds: Kinds, given: dict[Expr, Kinds], origins: dict[Expr, tuple[str, ...]]
) -> tuple[str, ...]:
    """The same of a term over symbols: the origins of those whose kinds matter, and what the term makes of them."""
    symbols = [v for v in dict.fromkeys(subterms(x)) if isinstance(v, Var) and v in given]
    kept: dict[Expr, Kinds] = {v: given[v] for v in symbols}
    for v in symbols:
        less = {u: k for u, k in kept.items() if u is not v}
        if KindAnalysis(None, less).of(x) - {UNDEF} <= kinds:
            kept = less
    return tuple(dict.fromkeys([*(o for v in kept for o in origins.get(v, ())), *describe(x, kinds)]))


# ------------------------------------------------------------------------------------------------ the check


class Stated(Protocol):
    """An obligation (``proofs.obligations``)."""

    @property
    def kind(self) -> str: ...

    @property
    def id(self) -> str: ...

    @property
    def statement(self) -> Statement: ...


_PROVED = re.compile(r"proved: (O\d+)\b.*")


def baseless(program: Program, obligations: Iterable[Stated]) -> str:
    """A fact that nobody declared, derived or proves, with the obligation that uses it; "" if there is none."""
    stated = list(obligations)
    known = {f.origin for f in input_facts(program)}
    kinds = {o.kind for o in stated}
    for o in stated:
        silent = next((s.var.name for s in o.statement.symbols if s.restricted and not s.origins), "")
        if silent:
            return f"{o.id}: nothing says why {silent} is restricted"
        for origin in used(o.statement):
            proved = _PROVED.fullmatch(origin)
            if not legal(origin) or (origin.startswith("proved: ") and not (proved and proved[1] in kinds)):
                return f"{o.id} uses a fact that has no source: {origin!r}"
            if origin.startswith(("declared: ", "default: ")) and origin not in known:
                return f"{o.id} uses a fact that nobody declared: {origin!r}"
    return ""


def used(statement: Statement) -> tuple[str, ...]:
    """The origins of everything that the statement assumes: of hypotheses, and of the ranges of symbols."""
    ranges = [origin for s in statement.symbols for origin in s.origins]
    return tuple(dict.fromkeys([*ranges, *(origin for h in statement.hypotheses for origin in h.origins)]))

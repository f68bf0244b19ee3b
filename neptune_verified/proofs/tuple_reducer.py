"""Trusted: what makes an operation on tuples a reducer (O5), and a merge of partial results right.

``combine`` gives each component of ``C(a, b)`` over the symbols NAME_a and NAME_b, ``neutral`` the tuple e. On the domain D
(each component's kinds, and the facts between them) it must hold that

    O5 closed        C(a, b) is defined and in D, and e is in D: what was merged can be merged again
    O5 associative   C(C(a, b), c) = C(a, C(b, c))
    O5 commutative   C(a, b) = C(b, a)
    O5 neutral       C(e, a) = a; with commutativity also C(a, e) = a, and C(e, e) = e

Then a reduction depends neither on the order of its elements nor on how they are grouped, ties included. (Milakov and
Gimelshein 2018, section 3.1, prove this of one pair; Neptune takes reducers as given.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from neptune_verified.ir.expr import INF, Expr, Var, const, op, substitute, var
from neptune_verified.ir.kinds import NEG, NINF, PINF, POS, ZERO, KindAnalysis, Kinds
from neptune_verified.proofs.edge import used_variables, variables
from neptune_verified.proofs.obligations import Obligation
from neptune_verified.proofs.statement import Defined, Equal, Goal, Holds, Hypothesis, Statement, Symbol

OPERANDS = ("a", "b", "c")
DTYPE = "float32"


class NoReducer(ValueError):
    """The operation cannot be stated; the text names the part and the way out."""


@dataclass(frozen=True)
class TupleReducer:
    """``names`` of the components with their kinds; ``combine`` over ``NAME_a``, ``NAME_b``; ``facts`` over ``NAME``."""

    names: tuple[str, ...]
    kinds: tuple[Kinds, ...]
    combine: tuple[Expr, ...]
    neutral: tuple[Expr, ...]
    facts: tuple[Expr, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.names) == len(self.kinds) == len(self.combine) == len(self.neutral):
            raise NoReducer("a reducer has as many domains, results and neutral values as components")

    def operand(self, which: str) -> tuple[Var, ...]:
        return tuple(var(f"{n}_{which}", DTYPE) for n in self.names)

    def merged(self, left: Sequence[Expr], right: Sequence[Expr]) -> tuple[Expr, ...]:
        """C(left, right), component by component."""
        pairs: dict[Expr, Expr] = dict(zip(self.operand("a"), left, strict=True))
        pairs |= dict(zip(self.operand("b"), right, strict=True))
        return tuple(substitute(e, pairs) for e in self.combine)

    def facts_of(self, values: Sequence[Expr]) -> tuple[Expr, ...]:
        own: dict[Expr, Expr] = {var(n, DTYPE): v for n, v in zip(self.names, values, strict=True)}
        return tuple(substitute(f, own) for f in self.facts)

    def statement(self, goal: Goal, operands: str) -> Statement:
        """Over the components that the goal speaks of, with the facts between these."""
        used = used_variables(goal)
        symbols, facts = [], []
        for which in operands:
            values = self.operand(which)
            named = zip(values, self.names, self.kinds, strict=True)
            symbols += [Symbol(v, k, f"{n} of {which}") for v, n, k in named if v in used]
            origin = f"declared: a fact of every partial result, of {which}"
            facts += [Hypothesis(f, origin) for f in self.facts_of(values) if variables(f) <= used]
        return Statement(tuple(symbols), tuple(facts), goal)


def within(e: Expr, kinds: Kinds) -> Iterator[Expr]:
    """``e`` has one of these kinds, as predicates that hold together."""
    zero, low, high = const(0, e.dtype), const(-INF, e.dtype), const(INF, e.dtype)
    if NINF not in kinds:
        yield op("gt", e, low)
    if PINF not in kinds:
        yield op("lt", e, high)
    if NEG not in kinds:
        below = op("ge", e, zero)
        yield op("or", below, op("eq", e, low)) if NINF in kinds else below
    if POS not in kinds:
        above = op("le", e, zero)
        yield op("or", above, op("eq", e, high)) if PINF in kinds else above
    if ZERO not in kinds:
        yield op("ne", e, zero)


def reducer_obligations(r: TupleReducer) -> tuple[Obligation, ...]:
    """Everything that must hold of a tuple reducer, for each component."""
    a, b, c = (r.operand(x) for x in OPERANDS)
    ab, ba = r.merged(a, b), r.merged(b, a)
    outer, inner = r.merged(ab, c), r.merged(a, r.merged(b, c))
    with_neutral = r.merged(r.neutral, a)
    result: list[Obligation] = []

    def add(part: str, name: str, goal: Goal, operands: str) -> None:
        result.append(Obligation("O5", part, name, "tuple reducer", r.statement(goal, operands)))

    for k, name in enumerate(r.names):
        if not KindAnalysis().of(r.neutral[k]) <= r.kinds[k]:
            raise NoReducer(f"the neutral value of {name} is not in its domain")
        add("closed", name, Defined(ab[k]), "ab")
        for fact in within(ab[k], r.kinds[k]):
            add("closed", name, Holds(fact), "ab")
        add("commutative", name, Equal(ab[k], ba[k]), "ab")
        add("neutral", name, Equal(with_neutral[k], a[k]), "a")
        add("associative", name, Equal(outer[k], inner[k]), "abc")
    for fact in r.facts_of(r.neutral):
        add("closed", "facts", Holds(fact), "")
    for fact in r.facts_of(ab):
        add("closed", "facts", Holds(fact), "ab")
    return tuple(dict.fromkeys(result))

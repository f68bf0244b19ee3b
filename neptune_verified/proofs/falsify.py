"""Trusted: tries a statement on points before any prover runs, so that a false one comes back with a small witness.

A counterexample is found at 50 digits and kept only if 110 digits give the same values, so rounding refutes nothing.
That no counterexample was found proves nothing; the provers decide. Points are special values of each kind first
(every combination of kinds, simplest first), then rationals from a fixed sequence, so answers do not vary between runs.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from neptune_verified.ir.expr import INTS, Const, Expr, Op, Var, contains
from neptune_verified.proofs.evaluate import (
    CONFIRM,
    FIND,
    INF,
    UNDEFINED,
    Meaning,
    OutOfReach,
    Terms,
    Unsupported,
    Value,
    is_inf,
    show,
)
from neptune_verified.proofs.limits import LIMITS, Limits
from neptune_verified.proofs.statement import (
    BOOL_KINDS,
    NUMBER_KINDS,
    Defined,
    Equal,
    Holds,
    NeverFalse,
    Refines,
    Statement,
)
from neptune_verified.proofs.verdict import Counterexample

#: Simplest first: 0, 1, -1, small integers, halves, infinities.
SIMPLE: tuple[Value, ...] = (
    *(Fraction(n) for n in (0, 1, -1, 2, -2, 3, -3)),
    *(Fraction(*q) for q in ((1, 2), (-1, 2), (1, 3), (-1, 3), (5, 1), (-5, 1), (10, 1), (-10, 1))),
    -INF,
    INF,
)
ORDER = {kind: rank for rank, kind in enumerate(("zero", "false", "pos", "true", "neg", "-inf", "+inf"))}


@dataclass(slots=True)
class Survey:
    """What the points say: how many satisfy the hypotheses, on how many of these the claim says anything."""

    points: int = 0
    relevant: int = 0
    counterexample: Counterexample | None = None
    unsupported: str = ""
    #: The counterexample's point: symbol -> value.
    point: dict[str, Value] = field(default_factory=dict)


def kind_of(x: Value) -> str:
    if isinstance(x, bool):
        return "true" if x else "false"
    if is_inf(x):
        return "+inf" if x > 0 else "-inf"
    return "zero" if x == 0 else "pos" if x > 0 else "neg"


def falsify(statement: Statement, limits: Limits = LIMITS) -> Counterexample | None:
    """A point at which the statement is false, as small as was found, or None."""
    return survey(statement, limits).counterexample


def satisfiable(statement: Statement, limits: Limits = LIMITS) -> bool:
    """True if a point was found that satisfies all hypotheses."""
    try:
        return Search(statement, limits).run(enough=1).points > 0
    except Unsupported:
        return False


def ever_defined(statement: Statement, limits: Limits = LIMITS) -> bool:
    """True if, for a ``Refines`` goal, the right side is defined at some admissible point; otherwise as satisfiable."""
    return survey(statement, limits).relevant > 0


def refutes(statement: Statement, point: dict[Var, Value]) -> Counterexample | None:
    """The counterexample at this point if it is one, made small. A point outside the domain is none."""
    try:
        search = Search(statement, LIMITS)
    except Unsupported:
        return None
    false = search.in_domain(point) and search.is_counterexample(point)
    return search.counterexample(search.shrink(point)) if false else None


def false_at(statement: Statement, point: Mapping[str, Value]) -> bool:
    """Whether a point that was found for another statement, which may have more symbols, refutes this one too."""
    try:
        search = Search(statement, LIMITS)
    except Unsupported:
        return False
    if not all(v.name in point for v in search.vars):
        return False
    own = {v: point[v.name] for v in search.vars}
    return search.in_domain(own) and search.is_counterexample(own)


def admissible(statement: Statement, point: dict[Var, Value]) -> bool:
    """Whether the point lies in the domain and satisfies the hypotheses, at two precisions."""
    try:
        search = Search(statement, LIMITS)
        return search.in_domain(point) and all(search.outcome(point, m).admissible for m in (FIND, CONFIRM))
    except (Unsupported, OutOfReach):
        return False


def survey(statement: Statement, limits: Limits = LIMITS) -> Survey:
    """Run the search and report; a construct without a value at a point is reported, not raised."""
    return _survey(statement.wordless(), limits)


@lru_cache(maxsize=4096)
def _survey(statement: Statement, limits: Limits) -> Survey:
    try:
        return Search(statement, limits).run()
    except Unsupported as e:
        return Survey(unsupported=str(e))


@dataclass(slots=True)
class Outcome:
    """One point: are the hypotheses true, does the claim say anything there, is it true, both sides."""

    admissible: bool
    relevant: bool = False
    true: bool = True
    sides: tuple[Value, ...] = ()
    values: list[Value] = field(default_factory=list)


class Search:
    def __init__(self, statement: Statement, limits: Limits) -> None:
        self.statement, self.limits = statement, limits
        for s in statement.symbols:
            if not s.kinds <= set(BOOL_KINDS if s.var.dtype == "bool" else NUMBER_KINDS):
                raise Unsupported(f"{s.var.name} has kinds of another type")
        self.vars = tuple(s.var for s in statement.symbols)
        self.kinds = {s.var: ordered(s.kinds) for s in statement.symbols}
        self.hypotheses = [h.expr for h in statement.hypotheses]
        self.terms = Terms((*self.hypotheses, *statement.terms()))
        if len(self.kinds) < len(self.vars):
            raise Unsupported("a symbol is quantified twice")
        unbound = [n.name for n in self.terms.nodes if isinstance(n, Var) and n not in self.kinds]
        if unbound:
            raise Unsupported(f"symbol {unbound[0]} is not quantified")
        self.random = random.Random(20260726)
        self.pools = {v: self.pool(v) for v in self.vars}

    # ------------------------------------------------------------------------------------------ one point

    def in_domain(self, point: dict[Var, Value]) -> bool:
        return set(point) == set(self.vars) and all(self.admits(v, x) for v, x in point.items())

    def admits(self, v: Var, x: Value) -> bool:
        fits = v.dtype not in INTS or is_inf(x) or isinstance(x, bool) or x.denominator == 1
        return fits and isinstance(x, bool) == (v.dtype == "bool") and kind_of(x) in self.kinds[v]

    def outcome(self, point: dict[Var, Value], meaning: Meaning) -> Outcome:
        values: list[Value] = []
        for h in self.hypotheses:
            self.terms.evaluate(point, meaning, values, self.terms.ends[h])
            if values[self.terms.index[h]] is not True:
                return Outcome(False, values=values)
        self.terms.evaluate(point, meaning, values, len(self.terms.nodes))
        sides = tuple(values[self.terms.index[t]] for t in self.statement.terms())
        match self.statement.goal:
            case Equal():
                return Outcome(True, True, sides[0] is not UNDEFINED and meaning.agree(*sides), sides, values)
            case Refines():
                defined = sides[1] is not UNDEFINED
                return Outcome(True, defined, not defined or meaning.agree(*sides), sides, values)
            case Defined():
                return Outcome(True, True, sides[0] is not UNDEFINED, sides, values)
            case Holds():
                return Outcome(True, True, sides[0] is True, sides, values)
            case NeverFalse():
                return Outcome(True, sides[0] is not UNDEFINED, sides[0] is not False, sides, values)

    def is_counterexample(self, point: dict[Var, Value]) -> bool:
        """False at both precisions, with the same values on both sides."""
        try:
            found = self.outcome(point, FIND)
            if not found.admissible or found.true:
                return False
            again = self.outcome(point, CONFIRM)
        except OutOfReach:
            return False
        return again.admissible and not again.true and all(map(same, found.sides, again.sides))

    def counterexample(self, point: dict[Var, Value]) -> Counterexample:
        sides = self.outcome(point, CONFIRM).sides
        left = show(sides[0])
        match self.statement.goal:
            case Equal() | Refines():
                right = show(sides[1])
                if left == right:
                    left, right = show(sides[0], 40), show(sides[1], 40)
            case Defined():
                right = "a defined value"
            case Holds():
                right = "true"
            case NeverFalse(predicate):
                left, right = self.comparison(predicate, point)
        return Counterexample({v.name: show(point[v]) for v in self.vars}, left, right)

    def comparison(self, predicate: Expr, point: dict[Var, Value]) -> tuple[str, str]:
        """What is compared in the part of a false predicate that is false: "3" and "at most 0"."""
        values = self.outcome(point, CONFIRM).values
        e = predicate
        while isinstance(e, Op) and e.name in ("and", "or"):
            e = next(a for a in reversed(e.args) if values[self.terms.index[a]] is False)
        limit = {"le": "at most", "ge": "at least"}.get(e.name, "") if isinstance(e, Op) else ""
        if not limit or not isinstance(e, Op):
            return "false", "true"
        a, b = (show(values[self.terms.index[x]]) for x in e.args)
        return a, f"{limit} {b}"

    # ------------------------------------------------------------------------------------------ the search

    def run(self, enough: int | None = None) -> Survey:
        """Look until a counterexample, ``enough`` admissible points, or the limits."""
        result = Survey()
        seen: set[tuple[Value, ...]] = set()
        deadline = time.monotonic() + self.limits.falsify_ms / 1000
        if not all(self.kinds.values()):
            return result
        for attempt, point in enumerate(self.candidates()):
            if attempt >= self.limits.attempts or result.points >= (enough or self.wanted):
                break
            if time.monotonic() > deadline:
                break
            try:
                repaired = self.repair(point)
                key = tuple((type(repaired[v]), repaired[v]) for v in self.vars) if repaired else ()
                if repaired is None or key in seen:
                    continue
                seen.add(key)
                outcome = self.outcome(repaired, FIND)
            except OutOfReach:
                continue
            result.points += 1
            result.relevant += outcome.relevant
            if not outcome.true and self.is_counterexample(repaired):
                small = self.shrink(repaired)
                result.counterexample, result.point = self.counterexample(small), {v.name: small[v] for v in small}
                return result
        return result

    def candidates(self) -> Iterator[dict[Var, Value]]:
        """Every combination of kinds at its simplest, then again and again at other values of these kinds."""
        total = 1
        for kinds in self.kinds.values():
            total *= len(kinds)
        if total <= self.limits.kind_combinations:
            combos = sorted(itertools.product(*self.kinds.values()), key=simplicity)
        else:
            combos = [tuple(map(self.random.choice, self.kinds.values())) for _ in range(self.limits.kind_combinations)]
        self.wanted = min(self.limits.points, max(60, 4 * len(combos)))
        for combo in combos:
            yield {v: self.pools[v][kind][0] for v, kind in zip(self.vars, combo)}
        while True:
            for combo in combos:
                yield {v: self.draw(v, kind) for v, kind in zip(self.vars, combo)}

    def pool(self, v: Var) -> dict[str, list[Value]]:
        """The values of each kind to draw from, simplest first; the statement's own numbers and neighbours are last."""
        if v.dtype == "bool":
            return {"true": [True], "false": [False]}
        own = [n.value for n in self.terms.nodes if isinstance(n, Const) and isinstance(n.value, Fraction)]
        near = [c + d for c in own if abs(c) < 1_000_000 for d in (0, 1, -1)]
        # Bounds of a type or of an input, and how close to 0 a value may come that they divide.
        near += [x for c in own if abs(c) >= 1_000_000 for x in (c, -c, c / 2, 1 / c)]
        pools: dict[str, list[Value]] = {kind: [] for kind in NUMBER_KINDS}
        for x in (*SIMPLE, *near):
            kind = kind_of(x)
            integral = v.dtype not in INTS or is_inf(x) or x.denominator == 1
            if integral and x not in pools[kind]:
                pools[kind].append(x)
        return pools

    def draw(self, v: Var, kind: str) -> Value:
        pool = self.pools[v][kind]
        if kind not in ("neg", "pos") or self.random.random() < 0.7:
            return self.random.choice(pool)
        size = Fraction(self.random.randint(1, 12), 1 if v.dtype in INTS else self.random.randint(1, 6))
        return size if kind == "pos" else -size

    # ------------------------------------------------------------------------------------------ repair and shrink

    def repair(self, point: dict[Var, Value]) -> dict[Var, Value] | None:
        """The point, moved where a hypothesis says how (``x <= y``: swapped; ``x == e``: set); None if that fails."""
        for _ in range(4):
            broken = self.broken(point)
            if broken is None:
                return point
            h, values = broken
            moves = self.moves(h, values, point)
            if not moves:
                return None
            point = {**point, **moves}
            if not self.in_domain(point):
                return None
        return point if self.broken(point) is None else None

    def broken(self, point: dict[Var, Value]) -> tuple[Expr, list[Value]] | None:
        values: list[Value] = []
        for h in self.hypotheses:
            self.terms.evaluate(point, FIND, values, self.terms.ends[h])
            if values[self.terms.index[h]] is not True:
                return h, values
        return None

    def moves(self, h: Expr, values: list[Value], point: dict[Var, Value]) -> dict[Var, Value]:
        if not isinstance(h, Op) or len(h.args) != 2:
            return {}
        a, b = h.args
        if h.name == "or":
            return self.moves(self.random.choice((a, b)), values, point)
        if h.name == "and":
            return self.moves(a if values[self.terms.index[a]] is not True else b, values, point)
        if h.name not in ("eq", "le", "lt", "ge", "gt", "ne"):
            return {}
        if isinstance(a, Var) and isinstance(b, Var) and h.name in ("le", "lt", "ge", "gt") and point[a] != point[b]:
            return {a: point[b], b: point[a]}
        return self.set_side(h.name, a, b, values) or self.set_side(MIRROR[h.name], b, a, values)

    def set_side(self, name: str, a: Expr, b: Expr, values: list[Value]) -> dict[Var, Value]:
        """Make ``a name b`` true by choosing the variable ``a``."""
        if not isinstance(a, Var) or contains(b, (a,)):
            return {}
        value = values[self.terms.index[b]]
        step = Fraction(self.random.randint(1, 3))
        if not isinstance(value, Fraction) and not (is_inf(value) and name in ("eq", "le", "ge")):
            return {}
        if is_inf(value) or name == "eq":
            return {a: value}
        if name in ("le", "ge"):
            step = self.random.choice((Fraction(0), step))
        return {a: value - step if name in ("le", "lt") else value + step}

    def shrink(self, point: dict[Var, Value]) -> dict[Var, Value]:
        """Each symbol in turn to the first simpler value with which the statement is still false."""
        for _ in range(2):
            for v in self.vars:
                for x in SIMPLE:
                    if isinstance(point[v], bool) or x == point[v]:
                        break
                    smaller = {**point, v: x}
                    if self.admits(v, x) and self.is_counterexample(smaller):
                        point = smaller
                        break
        return point


def simplicity(kinds: tuple[str, ...]) -> list[int]:
    return sorted((ORDER[k] for k in kinds), reverse=True)


MIRROR = {"eq": "eq", "ne": "ne", "le": "ge", "ge": "le", "lt": "gt", "gt": "lt"}


def ordered(kinds: frozenset[str]) -> tuple[str, ...]:
    """Kinds in their fixed order (a set has none)."""
    return tuple(sorted(kinds, key=(*NUMBER_KINDS, *BOOL_KINDS).index))


def same(x: Value, y: Value) -> bool:
    """One value at two precisions."""
    if type(x) is Fraction or is_inf(x) or isinstance(x, bool) or x is UNDEFINED:
        return type(x) is type(y) and bool(x == y)
    if type(y) is Fraction or is_inf(y) or isinstance(y, bool) or y is UNDEFINED:
        return False
    return CONFIRM.agree(CONFIRM.mp.mpf(x), y)

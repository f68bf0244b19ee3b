"""Trusted: a second route for statements that only compare: every weak order of the symbols, ties included.

Where terms are made of symbols, infinities, comparisons, connectives, selects, max and min alone, truth depends only on how
the symbols are ordered (an increasing map of the finite numbers onto themselves changes neither side), so that one point for
each weak order decides. This is how ties of argmax and of top-k are seen to.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from fractions import Fraction

from neptune_verified.ir.expr import Const, Expr, Op, Var, subterms
from neptune_verified.proofs.evaluate import FIND, INF, UNDEFINED, Terms, Value
from neptune_verified.proofs.limits import LIMITS, Limits
from neptune_verified.proofs.statement import Defined, Equal, Holds, NeverFalse, Refines, Statement
from neptune_verified.proofs.verdict import RouteResult, Verdict

ROUTE = "orders"
_OPS = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not", "select", "max", "min"})
_FINITE = frozenset({"neg", "zero", "pos"})


def applies(statement: Statement) -> bool:
    """Only comparisons, and every symbol is a truth value or ranges over all finite numbers (its sign does not matter)."""
    terms = [*statement.terms(), *(h.expr for h in statement.hypotheses)]
    for e in (x for t in terms for x in subterms(t)):
        if isinstance(e, Const) and e.dtype != "bool" and isinstance(e.value, Fraction):
            return False
        if isinstance(e, Op) and e.name not in _OPS:
            return False
        if not isinstance(e, Const | Op | Var):
            return False
    return all(s.var.dtype == "bool" or not s.kinds & _FINITE or s.kinds >= _FINITE for s in statement.symbols)


def prove(statement: Statement, limits: Limits = LIMITS) -> RouteResult:
    """PROVED if the statement holds at every weak order; UNKNOWN otherwise (the falsifier refutes), or if there are more
    orders than the limit."""
    start = time.perf_counter()
    verdict, detail = _decide(statement, limits)
    return RouteResult(ROUTE, verdict, (time.perf_counter() - start) * 1000, detail)


def _decide(statement: Statement, limits: Limits) -> tuple[Verdict, str]:
    if not applies(statement):
        return Verdict.UNSUPPORTED, "more than an order is asked for"
    if len({s.var for s in statement.symbols}) < len(statement.symbols):
        return Verdict.UNKNOWN, "a symbol is quantified twice"
    terms = Terms((*(h.expr for h in statement.hypotheses), *statement.terms()))
    if any(isinstance(n, Var) and n not in {s.var for s in statement.symbols} for n in terms.nodes):
        return Verdict.UNKNOWN, "a symbol is not quantified"
    admissible = tried = 0
    for point in points(statement):
        tried += 1
        if tried > limits.orders:
            return Verdict.UNKNOWN, f"more than {limits.orders} orders"
        values: list[Value] = []
        terms.evaluate(point, FIND, values, len(terms.nodes))
        if any(values[terms.index[h.expr]] is not True for h in statement.hypotheses):
            continue
        admissible += 1
        if not _true(statement, [values[terms.index[t]] for t in statement.terms()]):
            return Verdict.UNKNOWN, "false at " + ", ".join(f"{v.name} = {x}" for v, x in point.items())
    return (Verdict.PROVED, "") if admissible else (Verdict.VACUOUS, "no order satisfies the hypotheses")


def _true(statement: Statement, sides: list[Value]) -> bool:
    match statement.goal:
        case Equal():
            return sides[0] is not UNDEFINED and _same(sides[0], sides[1])
        case Refines():
            return sides[1] is UNDEFINED or _same(sides[0], sides[1])
        case Defined():
            return sides[0] is not UNDEFINED
        case Holds():
            return sides[0] is True
        case NeverFalse():
            return sides[0] is True or sides[0] is UNDEFINED


def _same(x: Value, y: Value) -> bool:
    return y is not UNDEFINED and x is not UNDEFINED and isinstance(x, bool) == isinstance(y, bool) and bool(x == y)


def points(statement: Statement) -> Iterator[dict[Var, Value]]:
    """One point for each weak order of the symbols of each group that is compared, and for each truth value."""
    groups = [list(_group(statement, names)) for names in grouped(statement)]
    for parts in itertools.product(*groups):
        yield {v: x for part in parts for v, x in part.items()}


def grouped(statement: Statement) -> list[list[Var]]:
    """Symbols that meet in a comparison, a select, a max or a min, directly or through others."""
    parent = {s.var: s.var for s in statement.symbols}

    def find(v: Var) -> Var:
        while parent[v] is not v:
            v = parent[v]
        return v

    def join(vs: Iterable[Var]) -> None:
        some = [v for v in vs if v in parent and v.dtype != "bool"]
        for v in some[1:]:
            parent[find(v)] = find(some[0])

    for t in (*statement.terms(), *(h.expr for h in statement.hypotheses)):
        for e in subterms(t):
            if isinstance(e, Op) and e.name not in ("and", "or", "not"):
                join(v for a in (e.args[1:] if e.name == "select" else e.args) for v in reachable(a))
    if isinstance(statement.goal, Equal | Refines):
        join(v for t in statement.terms() for v in reachable(t))
    groups: dict[Var, list[Var]] = {}
    for v in parent:
        groups.setdefault(find(v), []).append(v)
    return list(groups.values())


def reachable(e: Expr) -> Iterator[Var]:
    """Symbols that can be the value of ``e``."""
    if isinstance(e, Var):
        yield e
    elif isinstance(e, Op) and e.name in ("select", "max", "min"):
        for a in e.args[1:] if e.name == "select" else e.args:
            yield from reachable(a)


def _group(statement: Statement, names: list[Var]) -> Iterator[dict[Var, Value]]:
    kinds = {s.var: s.kinds for s in statement.symbols}
    if names[0].dtype == "bool":
        for v in names:
            yield from ({v: k == "true"} for k in sorted(kinds[v]))
        return
    levels = range(len(names))
    choices = [
        [x for kind, x in (("-inf", -INF), ("+inf", INF)) if kind in kinds[v]]
        + ([Fraction(k) for k in levels] if kinds[v] & _FINITE else [])
        for v in names
    ]
    for values in itertools.product(*choices):
        used = {x for x in values if isinstance(x, Fraction)}
        if used == set(map(Fraction, range(len(used)))):
            yield dict(zip(names, values, strict=True))

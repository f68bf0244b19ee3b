"""Trusted: what must hold for an update that uses what the producers are (a running mean makes ``sum (c - r)`` zero).

Such an update is right for whole prefixes and not element by element. For sums, let b_0, ..., b_K be terms that begin
with those of the accumulators, and let the sums ``sum_j e_l(c_j) = V_l`` over the elements seen be known from the
producers: ``sum e = r`` for a sum, ``sum e = n r`` and ``sum 1 = n`` for a mean. With factors K, a free of elements:

    O1.expansion   sum_j K_ij(r, r') b_j(r, c) = b_i(r', c)             so  sum b_i(r', c) = sum_j K_ij sum b_j(r, c)
    O1.relation    b_j(r, c) = sum_l a_jl(r) e_l(r, c), j > accumulators    so  sum b_j(r, c) = sum_l a_jl V_l
    O1             H_i(t, n, r, r') = sum_j K_ij T_j                    T_j = t_j, or the right side of the relation
    O3.identity, O4.first, O5, O6                                       as in ``proofs.repair``

The sums over a prefix are linear, so an accumulator that holds ``sum b_i(r, c)`` is taken to ``sum b_i(r', c)`` for every
r'; an empty prefix is the first state and no other. That serves a loop, and a split whose parts are each repaired with
their own n and r before they are added. It does not serve a repeated rescale: after it r' is not the producers' value
for these elements. O3's composition is therefore not claimed, and neither is O2, which speaks of parts repaired with a
common r.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce as fold

from neptune_verified.ir.expr import Expr, const, op, var
from neptune_verified.ir.kinds import FINITE, POS, UNDEF
from neptune_verified.proofs.obligations import Obligation
from neptune_verified.proofs.repair import COUNT, IllFormed, Problem, Update, free
from neptune_verified.proofs.repair_obligations import Components, composed, defined, first, laws
from neptune_verified.proofs.statement import Equal, Hypothesis, Refines, Symbol


@dataclass(frozen=True, slots=True)
class Expansion:
    """``extra`` terms after the accumulators' own; ``matrix`` has a row for each accumulator, ``relations`` a row of
    coefficients of the known sums for each extra term."""

    extra: tuple[Expr, ...]
    matrix: tuple[tuple[Expr, ...], ...]
    relations: tuple[tuple[Expr, ...], ...]


def known_sums(problem: Problem) -> tuple[tuple[Expr, Expr], ...]:
    """(e, V) with ``sum e`` over the elements seen equal to V."""
    one, n = const(1, problem.dtype), var(COUNT)
    result: list[tuple[Expr, Expr]] = []
    for p in problem.producers:
        if p.element is not None and p.reducer == "mean":
            result.append((p.element, op("mul", n, p.var)))
        elif p.element is not None and p.reducer == "sum":
            result.append((p.element, p.var))
    if any(p.reducer == "mean" for p in problem.producers):
        result.append((one, n))
    return tuple(result)


def context_obligations(problem: Problem, update: Update, expansion: Expansion) -> tuple[Obligation, ...]:
    """Everything that must hold. Raises IllFormed where the parts do not fit together."""
    c = Components(problem, update)
    sums = known_sums(problem)
    _check(c, expansion, len(sums))
    basis = (*c.G, *(c.reach.guarded(x) for x in expansion.extra))
    matrix = [[c.reach.guarded(k) for k in row] for row in expansion.matrix]
    relations = [[c.reach.guarded(a) for a in row] for row in expansion.relations]
    totals: list[Expr] = list(c.t)
    result: list[Obligation] = []
    facts = [*c.reach.later(), *c.reach.seen()]
    for j, row in enumerate(relations):
        linear = Equal(basis[len(c.t) + j], _dot(row, [e for e, _ in sums]))
        result.append(c.obligation("O1", f"relation.{j + 1}", linear, facts))
        totals.append(_dot(row, [v for _, v in sums]))
    for i, row in enumerate(matrix):
        moved = c.reach.moved(c.G[i], "_new")
        result.append(c.obligation("O1", c.label(i, "expansion"), Refines(_dot(row, basis), moved), facts))
        total = Equal(c.step(i, c.t, c.n), _dot(row, totals))
        live = [Hypothesis(op("ge", c.n, const(1, c.n.dtype)), "domain: live states (an element was seen)")]
        statement = c.reach.statement(total, [*c.reach.later(), *live], [*_positive_count(), *c.symbols()])
        result.append(Obligation("O1", c.label(i), "t", f"update of the {problem.reducer}", statement))
        result += [composed(c, i)[0], *first(c, i), *defined(c, i)]
        result += laws("sum", c.t[i].dtype, c.kinds[i])
    return tuple(dict.fromkeys(result))


def _positive_count() -> list[Symbol]:
    return [Symbol(var(COUNT), frozenset({POS}), "the number of elements seen")]


def _dot(row: list[Expr], values: list[Expr] | tuple[Expr, ...]) -> Expr:
    return fold(lambda x, y: op("add", x, y), [op("mul", a, v) for a, v in zip(row, values, strict=True)])


def _check(c: Components, expansion: Expansion, sums: int) -> None:
    problem, update = c.problem, c.update
    if {problem.reducer, *update.reducers} != {"sum"} or update.value is not c.t[0]:
        raise IllFormed("known sums serve sums alone")
    if update.terms[0] is not problem.term:
        raise IllFormed("the first accumulator does not hold the reduction")
    width = len(update.terms) + len(expansion.extra)
    if len(expansion.matrix) != len(update.terms) or any(len(row) != width for row in expansion.matrix):
        raise IllFormed("the expansion has the wrong number of factors")
    if len(expansion.relations) != len(expansion.extra) or any(len(row) != sums for row in expansion.relations):
        raise IllFormed("the relations have the wrong number of coefficients")
    for e in (*update.terms, *expansion.extra, *(e for e, _ in known_sums(problem))):
        if not c.reach.of(e) - {UNDEF} <= FINITE:
            raise IllFormed("known sums serve finite terms alone")
    parameters = {s.var for s in problem.parameters}
    old = {p.var for p in problem.producers} | parameters
    for rows, allowed in ((expansion.matrix, old | {p.new for p in problem.producers}), (expansion.relations, old)):
        if any(free(x) - allowed for row in rows for x in row):
            raise IllFormed("a factor of the expansion reads an element")
    if any(free(x) - old - {s.var for s in problem.elements} for x in expansion.extra):
        raise IllFormed("a term of the expansion reads something that is no element, producer or parameter")


__all__ = ["Expansion", "context_obligations", "known_sums"]

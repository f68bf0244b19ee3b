"""Trusted: statements that hold if a repair exists; a point that refutes one is a witness that none does.

Two running values r -> r' and elements a, b (all of them seen under r, where the producers' reductions are known):

    R1     g(r, a) = g(r, b)  implies  g(r', a) = g(r', b)        else no function of the accumulator and r, r' serves both
    order  g(r, a) <= g(r, b)  implies  g(r', a) <= g(r', b)      under max and min: the larger accumulator must stay larger
    minor  det g(r_i, c_j) = 0, i, j = 1 .. K + 1                 under sum: else no linear repair with K accumulators

R1 and order speak of one accumulator. A repair of a sum is additive in the accumulators (O2), hence linear if it is
continuous, and the matrix g(r_i, c_j) then has rank K at most. All terms named are defined at a witness: where the
definition is undefined nothing is asked of a repair.
"""

from __future__ import annotations

from neptune_verified.ir.expr import Expr, Var, const, op, substitute, var
from neptune_verified.proofs.repair import Problem, Reach
from neptune_verified.proofs.statement import Equal, Goal, Holds, Hypothesis, Statement, Symbol


def copies(problem: Problem, suffix: str) -> dict[Expr, Expr]:
    return {s.var: var(f"{s.var.name}[{suffix}]", s.var.dtype) for s in problem.elements}


def one_value(problem: Problem, ordered: bool) -> Statement:
    """R1, or order."""
    reach = Reach(problem)
    a, b = copies(problem, "a"), copies(problem, "b")
    new = reach.moved(problem.term, "_new")
    before = op("le" if ordered else "eq", substitute(problem.term, a), substitute(problem.term, b))
    after = [substitute(new, a), substitute(new, b)]
    goal: Goal = Holds(op("le", *after)) if ordered else Equal(*after)
    facts = reach.later()
    facts += [Hypothesis(substitute(h.expr, x), h.origin) for h in reach.seen() for x in (a, b)]
    why = "the accumulators are ordered so" if ordered else "both elements leave the same accumulator"
    extra = [Symbol(_var(x[s.var]), s.kinds, "an element") for x in (a, b) for s in problem.elements]
    return reach.statement(goal, [Hypothesis(before, f"domain: {why}"), *map(_defined, after), *facts], extra)


def minor(problem: Problem, size: int) -> Statement:
    """The determinant of ``size`` values of the producers times ``size`` elements is 0."""
    reach = Reach(problem)
    elements = [copies(problem, str(j + 1)) for j in range(size)]
    rows: list[list[Expr]] = []
    symbols = [Symbol(_var(x[s.var]), s.kinds, "an element") for x in elements for s in problem.elements]
    facts: list[Hypothesis] = []
    for i in range(size):
        values: dict[Expr, Expr] = {p.var: var(f"{p.name}[{i + 1}]", p.var.dtype) for p in problem.producers}
        symbols += [Symbol(_var(values[p.var]), reach.kinds[p.name], "a running value") for p in problem.producers]
        g = substitute(problem.term, values)
        rows.append([substitute(g, x) for x in elements])
        facts += reach.later("[1]", f"[{i + 1}]") if i else []
    facts += reach.seen("[1]")
    facts = [Hypothesis(substitute(h.expr, x), h.origin) for h in facts for x in elements]
    value = determinant(rows)
    goal = Equal(value, const(0, problem.dtype))
    return reach.statement(goal, list(dict.fromkeys([_defined(value), *facts])), symbols)


def determinant(rows: list[list[Expr]]) -> Expr:
    """By minors of the last rows, each written once."""
    size = len(rows)
    memo: dict[tuple[int, ...], Expr] = {(): const(1, rows[0][0].dtype)}

    def of(columns: tuple[int, ...]) -> Expr:
        if columns not in memo:
            row = rows[size - len(columns)]
            total: Expr | None = None
            for k, j in enumerate(columns):
                term = op("mul", row[j], of(columns[:k] + columns[k + 1 :]))
                total = term if total is None else op("sub" if k % 2 else "add", total, term)
            assert total is not None
            memo[columns] = total
        return memo[columns]

    return of(tuple(range(size)))


def _defined(e: Expr) -> Hypothesis:
    """``e = e`` is true where e is defined and not true where it is not."""
    return Hypothesis(op("eq", e, e), "domain: the definition is defined")


def _var(e: Expr) -> Var:
    assert isinstance(e, Var)
    return e


__all__ = ["copies", "determinant", "minor", "one_value"]

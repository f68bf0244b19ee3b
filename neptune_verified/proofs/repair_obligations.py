"""Trusted: O1 to O6 of an online update, as the head of ``proofs.repair`` states them, element by element.

``prefix_statements`` state the same of whole prefixes of one or two elements, written out: bounded, so they prove
nothing, but a point that refutes one is a run of the user's own loop that comes out wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from neptune_verified.ir.expr import REDUCERS, Expr, Var, const, op, substitute, var
from neptune_verified.ir.kinds import FINITE, NONNEGATIVE, UNDEF, Kinds, reduce_kinds
from neptune_verified.proofs.obligations import Obligation
from neptune_verified.proofs.repair import (
    COUNT,
    IllFormed,
    Problem,
    Reach,
    Update,
    accumulators,
    check_update,
    combine,
    free,
)
from neptune_verified.proofs.statement import Defined, Equal, Goal, Hypothesis, Refines, Statement, Symbol


class Components:
    """The accumulators of an update, with n as one more where the update reads it."""

    def __init__(self, problem: Problem, update: Update) -> None:
        check_update(problem, update)
        self.problem, self.update = problem, update
        self.reach = Reach(problem, update.guards)
        self.t = accumulators(update.terms)
        self.n = var(COUNT)
        averaged = any(p.reducer == "mean" for p in problem.producers)
        if averaged and not problem.counts:
            raise IllFormed("n counts the elements of a mean: give the other n another name")
        self.counts = problem.counts and (averaged or any(self.n in free(u) for u in update.updates))
        self.G = tuple(self.reach.guarded(g) for g in update.terms)
        self.kinds = [
            reduce_kinds(f, self.reach.of(g) - {UNDEF}, g.dtype) - {UNDEF}
            for f, g in zip(update.reducers, self.G, strict=True)
        ]
        self.h = tuple(self.reach.guarded(u) for u in update.updates)
        self.neutral = tuple(REDUCERS[f].neutral(t.dtype) for f, t in zip(update.reducers, self.t, strict=True))

    def label(self, k: int, part: str = "") -> str:
        name = self.t[k].name if len(self.t) > 1 else ""
        return ".".join(x for x in (part, name) if x)

    def step(self, k: int, state: Sequence[Expr], count: Expr, source: str = "", target: str = "_new") -> Expr:
        """H_k at a state."""
        h = self.reach.moved(self.h[k], source, target)
        mapping: dict[Expr, Expr] = dict(zip(self.t, state, strict=True))
        return substitute(h, {**mapping, self.n: count} if self.counts else mapping)

    def state(self, name: str) -> tuple[Var, ...]:
        """Other values of the accumulators; no symbol of a person is called ``t0[x]``."""
        return tuple(var(f"{t.name}[{name}]", t.dtype) for t in self.t)

    def symbols(self) -> list[Symbol]:
        result = [
            Symbol(v, kinds, f"a value of the accumulator {t.name}")
            for state in (self.t, self.state("x"), self.state("y"))
            for v, t, kinds in zip(state, self.t, self.kinds, strict=True)
        ]
        counts = (self.n, var("n[x]"), var("n[y]")) if self.counts else ()
        return [*result, *(Symbol(v, NONNEGATIVE, "a number of elements seen") for v in counts)]

    def obligation(self, kind: str, part: str, goal: Goal, facts: Sequence[Hypothesis]) -> Obligation:
        statement = self.reach.statement(goal, facts, self.symbols())
        return Obligation(kind, part, "t", f"update of the {self.problem.reducer}", statement)


def update_obligations(problem: Problem, update: Update) -> tuple[Obligation, ...]:
    """Everything that must hold for the update. Raises IllFormed where it is no update."""
    c = Components(problem, update)
    result: list[Obligation] = []
    for k in range(len(c.t)):
        result += [term_repair(c, k), distributive(c, k), *composed(c, k), *neutral(c, k), *defined(c, k)]
    for f, t, kinds in zip(update.reducers, c.t, c.kinds, strict=True):
        result += laws(f, t.dtype, kinds)
    return tuple(dict.fromkeys((*result, *value_obligations(c))))


def term_repair(c: Components, k: int) -> Obligation:
    reach = c.reach
    goal = Refines(c.step(k, c.G, const(1, "float32")), reach.moved(c.G[k], "_new"))
    return c.obligation("O1", c.label(k), goal, [*reach.later(), *reach.seen()])


def distributive(c: Components, k: int) -> Obligation:
    x, y = c.state("x"), c.state("y")
    m, n = var("n[x]"), var("n[y]")
    both = [combine(f)(a, b) for f, a, b in zip(c.update.reducers, x, y, strict=True)]
    joined = combine(c.update.reducers[k])(c.step(k, x, m), c.step(k, y, n))
    return c.obligation("O2", c.label(k), Equal(c.step(k, both, op("add", m, n)), joined), c.reach.later())


def composed(c: Components, k: int) -> tuple[Obligation, Obligation]:
    reach = c.reach
    # An any or all is one of the values that it joins, so these are all that there are.
    joined = c.problem.dtype == "bool" and len(c.t) == 1
    t, seen = (c.G, reach.seen()) if joined else (c.t, [])
    identity = Equal(c.step(k, t, c.n, "", ""), t[k])
    facts = [*reach.problem.facts, *seen]
    once = [c.step(j, t, c.n) for j in range(len(t))]
    twice = Equal(c.step(k, once, c.n, "_new", "_later"), c.step(k, t, c.n, "", "_later"))
    chain = [*reach.later(), *reach.later("_new", "_later"), *reach.unguarded("", "_new", "_later"), *seen]
    return (
        c.obligation("O3", c.label(k, "identity"), identity, [*facts, *reach.unguarded("")]),
        c.obligation("O3", c.label(k, "composition"), twice, chain),
    )


def neutral(c: Components, k: int) -> list[Obligation]:
    return [c.obligation("O4", c.label(k), kept(c, k), c.reach.later()), *first(c, k)]


def kept(c: Components, k: int) -> Equal:
    """The neutral element stays what it is."""
    return Equal(c.step(k, c.neutral, const(0, "float32")), c.neutral[k])


def first(c: Components, k: int) -> list[Obligation]:
    """The same at the producers' initial values; no statement where they are not known."""
    reach, values = c.reach, c.reach.first()
    if values is None or not c.problem.producers:
        return []
    goal = Equal(substitute(kept(c, k).lhs, values), c.neutral[k])
    old = {p.var for p in c.problem.producers}
    facts = [h for h in reach.later() if not free(h.expr) & old]
    extra = [Symbol(p.var, FINITE, f"what {p.name} holds at first: any number") for p in c.problem.producers]
    statement = reach.statement(goal, facts, extra)
    return [Obligation("O4", c.label(k, "first"), "t", f"update of the {c.problem.reducer}", statement)]


def defined(c: Components, k: int) -> list[Obligation]:
    reach = c.reach
    result = [c.obligation("O6", c.label(k, "repair"), Defined(c.step(k, c.t, c.n)), reach.later())]
    if c.G[k] is not c.update.terms[k]:
        goal = Refines(reach.moved(c.G[k], "_new"), reach.moved(c.update.terms[k], "_new"))
        facts = [*reach.later("_new", "_later"), *reach.seen("_new")]
        result.append(c.obligation("O6", c.label(k, "term"), goal, facts))
    return result


def value_obligations(c: Components) -> list[Obligation]:
    """The result in terms of the accumulators: a homomorphism that gives the term of one element."""
    f, w = c.problem.reducer, c.update.value
    if w is c.t[0] and f == c.update.reducers[0] and c.update.terms[0] is c.problem.term:
        return []

    def at(values: Sequence[Expr]) -> Expr:
        mapping: dict[Expr, Expr] = dict(zip(c.t, values, strict=True))
        return substitute(w, mapping)

    x, y = c.state("x"), c.state("y")
    both = [combine(g)(a, b) for g, a, b in zip(c.update.reducers, x, y, strict=True)]
    reach = [*c.reach.later(), *c.reach.seen()]
    e = REDUCERS[f].neutral(c.problem.dtype)
    return [
        c.obligation("O1", "value", Refines(at(c.G), c.problem.term), reach),
        c.obligation("O2", "value", Equal(at(both), combine(f)(at(x), at(y))), []),
        c.obligation("O4", "value", Equal(at(c.neutral), e), []),
        *laws(f, c.problem.dtype, reduce_kinds(f, c.reach.of(c.problem.term) - {UNDEF}, c.problem.dtype) - {UNDEF}),
    ]


def laws(reducer: str, dtype: str, kinds: Kinds) -> list[Obligation]:
    """O5 on the values that an accumulator can take."""
    f, e = REDUCERS[reducer].combine, REDUCERS[reducer].neutral(dtype)
    x, y, z = (var(name, dtype) for name in ("x", "y", "z"))
    goals = {
        "associative": ((x, y, z), Equal(f(f(x, y), z), f(x, f(y, z)))),
        "commutative": ((x, y), Equal(f(x, y), f(y, x))),
        "neutral": ((x,), Equal(f(e, x), x)),
    }
    return [
        Obligation("O5", part, "t", f"reducer {reducer}", Statement(tuple(Symbol(v, kinds) for v in vs), (), goal))
        for part, (vs, goal) in goals.items()
    ]


# ------------------------------------------------------------------------------------------------ prefixes


def prefix_statements(problem: Problem, update: Update) -> list[tuple[str, Statement]]:
    """(accumulator, statement): after one and two elements, and after one more, the repaired value is the true one."""
    c = Components(problem, update)
    return [(c.t[k].name, _prefix(c, k, seen)) for seen in (1, 2) for k in range(len(c.t))]


def _prefix(c: Components, k: int, seen: int) -> Statement:
    problem = c.problem
    copies: list[dict[Expr, Expr]] = [
        {s.var: var(f"{s.var.name}[{i}]", s.var.dtype) for s in problem.elements} for i in range(1, seen + 2)
    ]
    old = _running(problem, copies[:seen], "")
    new = _running(problem, copies, "_new")
    both = {**old, **new}
    at_old = [substitute(substitute(g, old), copy) for g in c.G for copy in copies[:seen]]
    state = [_join(f, at_old[j * seen : (j + 1) * seen]) for j, f in enumerate(c.update.reducers)]
    repaired = substitute(c.step(k, c.t, c.n), both)
    mapping: dict[Expr, Expr] = dict(zip(c.t, state, strict=True))
    repaired = substitute(repaired, {**mapping, c.n: const(seen, "float32")})
    moved = substitute(c.reach.moved(c.G[k], "_new"), new)
    true = _join(c.update.reducers[k], [substitute(moved, copy) for copy in copies[:seen]])
    facts = [Hypothesis(substitute(substitute(h.expr, both), copy), h.origin) for h in problem.facts for copy in copies]
    extra = [
        Symbol(
            var(f"{s.var.name}[{i}]", s.var.dtype),
            s.kinds,
            f"element {i} {'seen' if i <= seen else 'of the next step'}",
        )
        for i in range(1, seen + 2)
        for s in problem.elements
    ]
    return c.reach.statement(Refines(repaired, true), facts, extra)


def _running(problem: Problem, copies: Sequence[Mapping[Expr, Expr]], suffix: str) -> dict[Expr, Expr]:
    """Each producer's value after the elements of ``copies``; a given producer stays a symbol."""
    values: dict[Expr, Expr] = {}
    for p in problem.producers:
        if p.element is None:
            continue
        now = {q.var: var(q.name + suffix, q.var.dtype) for q in problem.producers}
        element = substitute(p.element, {q: values.get(v, v) for q, v in now.items()})
        parts = [substitute(element, copy) for copy in copies]
        total = _join(p.reducer, parts)
        if p.reducer == "mean":
            total = op("div", total, const(len(parts), p.var.dtype))
        values[var(p.name + suffix, p.var.dtype)] = total
    return values


def _join(reducer: str, parts: Sequence[Expr]) -> Expr:
    result = parts[0]
    for x in parts[1:]:
        result = combine(reducer)(result, x)
    return result

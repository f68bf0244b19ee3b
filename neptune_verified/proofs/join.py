"""Trusted: what must hold for the split-K update (O14 and O15), beside the obligations of the fused edges.

Each split reduces its share of the domain from the initial state; two partial states are joined by

    r_ab = r_a f_r r_b                                              for a producer
    C((t_a, r_a), (t_b, r_b)) = H(t_a, r_a, r_ab) f H(t_b, r_b, r_ab)   for its consumer

With F(S) = (f over j in S of G(r_S, c_j), r_S) the claim is F(a ++ b) = C(F(a), F(b)), F(empty) = (e_f, e_r), which
makes results independent of the number of splits, their sizes and their order. (A domain is not empty here: over an empty
one nothing is joined.) It needs

    O14 dead         while a producer is dead, what was seen contributes the neutral element: the state of X is e_f then,
                     whatever the guard's value is
    O15 join         H(G(r_a, c), r_a, r_ab) f H(G(r_b, d), r_b, r_ab) = G(r_ab, c) f G(r_ab, d)
    O15 neutral      C(F(empty), x) = x, for live and dead x
    O15 composition  H(H(t, r, r'), r', r'') = H(t, r, r'') on every state, dead ones included

Associativity and commutativity of C follow: both sides of ``C(C(x, y), z) = C(x, C(y, z))`` are, by composition and O2,
``H(t_x, r_x, r) f H(t_y, r_y, r) f H(t_z, r_z, r)`` with r the joined producer, and f is a commutative monoid (O5).
"""

from __future__ import annotations

from neptune_verified.ir.expr import REDUCERS, Expr, op, var
from neptune_verified.ir.loops import Nest, Pass
from neptune_verified.ir.program import Program
from neptune_verified.proofs.obligations import Edge, Obligation, implies
from neptune_verified.proofs.statement import Equal, Goal, Hypothesis, Refines
from neptune_verified.proofs.states import dead_claim, second, second_symbols


def split_obligations(program: Program, nest: Nest, p: Pass) -> tuple[Obligation, ...]:
    """O14 and O15 of one pass. Raises UnsupportedTerm where they cannot be stated."""
    result: list[Obligation] = []
    for c in p.carried:
        if c.repair is not None:
            result += _Join(Edge(program, nest, p, c)).obligations()
    return tuple(result)


def neutral_while_dead(edge: Edge, t: Expr, suffix: str) -> list[Hypothesis]:
    """``t``, a value of the consumer's accumulator in the state with this suffix, is neutral while a producer is dead."""
    c = edge.consumer
    condition = edge.dead(c, suffix)
    if condition is None:
        return []
    fact = implies(condition, op("eq", t, c.neutral))
    return [Hypothesis(fact, f"derived: O14, {c.name} is neutral while a producer is dead")]


class _Join:
    def __init__(self, edge: Edge) -> None:
        self.edge = edge
        self.consumer = edge.consumer
        self.neutral = edge.consumer.neutral
        self.dtype = edge.consumer.value.dtype
        self.reducer = REDUCERS[edge.consumer.value.reducer]

    def obligations(self) -> list[Obligation]:
        edge, f = self.edge, self.reducer.combine
        h = edge.repair
        G = edge.guarded(edge.g, self.consumer)
        t = var("t", self.dtype)
        goals: list[tuple[str, str, Goal, list[Hypothesis]]] = []
        dead = dead_claim(edge)
        if dead is not None:
            goals.append(("O14", "dead", *dead))
        at_a, at_b = edge.at_new(G, "_a"), second(edge, edge.at_new(G, "_b"))
        joined = f(edge.at_new(G, "_ab"), second(edge, edge.at_new(G, "_ab")))
        reach = edge.later("_a", "_ab") + edge.later("_b", "_ab") + edge.seen("_a")
        reach += [Hypothesis(second(edge, x.expr), x.origin) for x in edge.seen("_b")]
        goals.append(("O15", "join", Refines(f(h(at_a, "_a", "_ab"), h(at_b, "_b", "_ab")), joined), reach))
        facts = edge.later("", "_new") + neutral_while_dead(edge, t, "_new")
        goals.append(("O15", "neutral", Equal(f(h(self.neutral), h(t, "_new", "_new")), t), facts))
        facts = edge.later("", "_new") + edge.later("_new", "_later") + neutral_while_dead(edge, t, "")
        goals.append(("O15", "composition", Equal(h(h(t), "_new", "_later"), h(t, "", "_later")), facts))
        return [self._make(*goal) for goal in goals]

    def _make(self, kind: str, part: str, goal: Goal, facts: list[Hypothesis]) -> Obligation:
        edge, name = self.edge, self.consumer.name
        symbols = [edge.grounds.symbol(self.consumer, var("t", self.dtype), f"a value of the accumulator {name}")]
        for c in edge.producers:
            for suffix, when in (("_a", "in one split"), ("_b", "in the other"), ("_ab", "joined")):
                symbols.append(edge.grounds.symbol(c, var(c.name + suffix, c.value.dtype), f"{c.name} {when}"))
        symbols += second_symbols(edge, "an element of the other split")
        step = f"split-K update of {name} over {', '.join(c.name for c in edge.producers)}"
        return Obligation(kind, part, name, step, edge.statement(goal, facts, tuple(symbols)))

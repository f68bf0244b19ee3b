"""Trusted: what the accumulator of a fused edge means at every step (O14), over the extended reals.

    O14 step   after a step to a live state r', from any r, what an element seen before contributes is the definition's own
               term, H(G(r, c), r, r') = g(r', c) wherever the right side is defined. An element of the tile contributes
               G(r', c), which is g(r', c) by O6, as is everything while r' is dead: by O1, O2 and O5 the state is the
               definition's reduction over what was seen
    O14 dead   while a producer is dead, what was seen contributes the neutral element: the state is e_f then, whatever
               the guard's value is (partial states of splits may be joined with such a one; a rolling update needs it not)

No equation between outputs can see a guard's value that is kept as state: the last row may be right and the next one, or
the value that another reduction reads meanwhile, wrong.
"""

from __future__ import annotations

from neptune_verified.ir.expr import Expr, Var, substitute, var
from neptune_verified.proofs.edge import Edge, used_variables, variables
from neptune_verified.proofs.statement import Equal, Goal, Hypothesis, Refines, Symbol


def moving(edge: Edge) -> list[Var]:
    """Elements proper; the other subterms are parameters, the same ones at every element."""
    bound = set(edge.consumer.value.axes)
    return [v for x, v in edge.abstract.elements.items() if x.free & bound]


def second(edge: Edge, e: Expr) -> Expr:
    """``e`` at another element, with symbols of its own."""
    return substitute(e, {v: var(f"{v.name}d", v.dtype) for v in moving(edge)})


def second_symbols(edge: Edge, meaning: str) -> list[Symbol]:
    kinds = {v: edge.abstract.kinds_of(x) for x, v in edge.abstract.elements.items()}
    why = {v: edge.provenance.origins(x) for x, v in edge.abstract.elements.items()}
    return [Symbol(var(f"{v.name}d", v.dtype), kinds[v], meaning, why[v]) for v in moving(edge)]


def dead_claim(edge: Edge) -> tuple[Goal, list[Hypothesis]] | None:
    """O14 dead; None where no element can be seen by a dead producer: then dead means that nothing was seen."""
    dead = edge.dead(edge.consumer, "")
    if dead is None:
        return None
    facts = [*edge.seen(""), Hypothesis(dead, "domain: a producer is dead")]
    if not edge.possible([h.expr for h in facts]):
        return None
    return Equal(edge.guarded(edge.g, edge.consumer), edge.consumer.neutral), facts


def step_claim(edge: Edge) -> tuple[Goal, list[Hypothesis]]:
    """O14 step."""
    G = edge.guarded(edge.g, edge.consumer)
    goal = Refines(edge.repair(G), edge.at_new(edge.g))
    # Producers that the term does not read may be dead; naming them would only multiply the cases.
    live = [h for h in edge.live("_new") if variables(h.expr) <= used_variables(goal)]
    return goal, [*live, *edge.later("", "_new"), *edge.seen("")]

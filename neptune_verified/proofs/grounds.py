"""Trusted: which facts about inputs the running values of a fused edge rest on (see ``proofs.facts``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neptune_verified.ir.expr import Expr, Var, subterms
from neptune_verified.ir.kinds import EXTENDED, UNDEF, Kinds
from neptune_verified.ir.loops import Carried
from neptune_verified.proofs.facts import Fact, needed, running
from neptune_verified.proofs.statement import Symbol

if TYPE_CHECKING:
    from neptune_verified.proofs.edge import Edge

#: With more cases than this, the facts that a running value rests on are not thinned out: enough, if not all needed.
MOST_CASES = 2000


class Grounds:
    """``rests_on``: the facts about inputs that suffice for the kinds of each running value of the edge."""

    def __init__(self, edge: Edge) -> None:
        self.edge = edge
        self.rests_on: dict[str, tuple[Fact, ...]] = {}
        for c in edge.producers:
            self.rests_on[c.name] = self._facts(c, edge.elements[c.name], edge.state[c.name])
        own = edge.consumer
        self.rests_on[own.name] = self._facts(own, edge.guarded(edge.g, own), edge.kinds)

    def _facts(self, c: Carried, element: Expr, wanted: Kinds) -> tuple[Fact, ...]:
        edge, found = self.edge, self.rests_on
        states, atoms = edge.read_by(c, element)
        facts = [f for s in states for f in found[s.name]]
        facts = list(dict.fromkeys([*facts, *(f for x in atoms.values() for f in edge.provenance.kinds(x))]))
        if len(EXTENDED) ** (len(states) + len(atoms)) > MOST_CASES:
            return tuple(facts)

        def enough(kept: frozenset[Fact]) -> bool:
            known = {s: edge.state[s.name] for s in states if kept.issuperset(found[s.name])}
            seen = [h.expr for s in known for h in edge._seen(s.name, "")]
            analysis = edge.provenance.analysis(kept)
            kinds: dict[Var, Kinds] = {v: known.get(v, EXTENDED) for v in states}
            kinds |= {v: analysis.of(x) - {UNDEF} or edge.abstract.kinds_of(x) for v, x in atoms.items()}
            return edge.reached(c, element, kinds, seen) <= wanted

        return needed(facts, enough)

    def because(self, why: str, c: Carried) -> str:
        """``why``, with the facts about elements that it may rest on and that the symbols of ``c`` and of its producers do
        not name."""
        own = (c.name, *(c.repair.producers if c.repair else ()))
        named = {f for name in own for f in self.rests_on.get(name, ())}
        seen = {v for e in self.edge.elements.values() for v in subterms(e)}
        atoms = [x for x, v in self.edge.abstract.elements.items() if v in seen]
        facts = dict.fromkeys(f for x in atoms for f in self.edge.provenance.kinds(x))
        return "; ".join([why, *(f.origin for f in facts if f not in named)])

    def origins(self, c: Carried) -> tuple[str, ...]:
        return (*(f.origin for f in self.rests_on[c.name]), running(c.value.reducer, self._kinds(c)))

    def symbol(self, c: Carried, v: Var, meaning: str) -> Symbol:
        """A symbol for a value of ``c`` in the loop."""
        return Symbol(v, self._kinds(c), meaning, self.origins(c))

    def _kinds(self, c: Carried) -> Kinds:
        return self.edge.kinds if c is self.edge.consumer else self.edge.state[c.name]


__all__ = ["Grounds"]

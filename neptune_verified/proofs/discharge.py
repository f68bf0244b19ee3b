"""Trusted: decides a statement: points first, then whether it says anything, then both routes.

``discharge(statement)`` returns the combined verdict with every route's answer. A statement that a point refutes is
not given to a prover; one whose hypotheses no point satisfies, or whose right side is defined nowhere, is vacuous. One
that assumes something without a legal origin is unsupported, whatever it says.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache

from neptune_verified.proofs import falsify, route_orders, route_sympy, route_z3
from neptune_verified.proofs.limits import LIMITS, Limits
from neptune_verified.proofs.statement import Statement
from neptune_verified.proofs.verdict import Counterexample, RouteResult, Verdict, combine

__all__ = ["LIMITS", "Discharged", "Limits", "discharge"]


@dataclass(frozen=True, slots=True)
class Discharged:
    """The verdict, what each route said (``falsifier`` only where it decided), and the counterexample if refuted."""

    verdict: Verdict
    routes: tuple[RouteResult, ...]
    counterexample: Counterexample | None = None

    @property
    def ms(self) -> float:
        return sum(r.ms for r in self.routes)


def discharge(statement: Statement, limits: Limits = LIMITS) -> Discharged:
    """Decide the statement; the answer is remembered for the life of the process."""
    unfounded = statement.unfounded()
    if unfounded:
        return Discharged(Verdict.UNSUPPORTED, (RouteResult("origins", Verdict.UNSUPPORTED, detail=unfounded),))
    return _discharge(statement, limits)


@lru_cache(maxsize=4096)
def _discharge(statement: Statement, limits: Limits) -> Discharged:
    start = time.perf_counter()
    seen = falsify.survey(statement, limits)
    ms = (time.perf_counter() - start) * 1000
    found = seen.counterexample
    if found:
        route = RouteResult("falsifier", Verdict.REFUTED, ms, str(found), counterexample=found)
        return Discharged(Verdict.REFUTED, (route,), found)
    if not seen.unsupported and not seen.relevant:
        why = "satisfies the hypotheses" if not seen.points else "makes the right side defined"
        route = RouteResult("falsifier", Verdict.VACUOUS, ms, f"no point that was tried {why}")
        return Discharged(Verdict.VACUOUS, (route,))
    second = route_sympy.prove(statement, limits.sympy_ms, limits)
    if second.verdict not in (Verdict.PROVED, Verdict.REFUTED) and route_orders.applies(statement):
        second = route_orders.prove(statement, limits)
    routes = (route_z3.prove(statement, limits.z3_ms, limits), second)
    verdict = combine(r.verdict for r in routes)
    return Discharged(verdict, routes, next((r.counterexample for r in routes if r.counterexample), None))

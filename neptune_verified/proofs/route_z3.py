"""Trusted: the Z3 route: a statement is proved if Z3 finds its negation unsatisfiable.

What Z3 is given is the text that ``RouteResult.script`` holds, and nothing else. Satisfiable refutes nothing by itself
(an exponential is an arbitrary positive real there): the model's point counts only if the statement is false at it
when evaluated.
"""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

import z3

from neptune_verified.ir.expr import Var
from neptune_verified.proofs import falsify
from neptune_verified.proofs.evaluate import INF, Value
from neptune_verified.proofs.limits import LIMITS, Limits
from neptune_verified.proofs.statement import Defined, Equal, Holds, NeverFalse, Refines, Statement
from neptune_verified.proofs.verdict import Counterexample, RouteResult, Verdict
from neptune_verified.proofs.z3_cases import UNDEFINED, Lowering, TooManyCases
from neptune_verified.proofs.z3_guards import Case, Guard, meet
from neptune_verified.proofs.z3_poly import TooLarge
from neptune_verified.proofs.z3_text import Formula, Script, guard_formula, symbol_name

ROUTE = "z3"


def prove(statement: Statement, timeout_ms: int = LIMITS.z3_ms, limits: Limits = LIMITS) -> RouteResult:
    """Decide the statement. Never raises: a failure is UNKNOWN, a construct without encoding UNSUPPORTED."""
    start = time.perf_counter()
    try:
        result = Goal(statement, timeout_ms, limits).decide()
    except (TooManyCases, TooLarge) as e:
        result = RouteResult(ROUTE, Verdict.UNKNOWN, detail=str(e))
    except Exception as e:  # fail closed whatever went wrong
        result = RouteResult(ROUTE, Verdict.UNKNOWN, detail=f"{type(e).__name__}: {e}")
    ms = (time.perf_counter() - start) * 1000
    return RouteResult(ROUTE, result.verdict, ms, result.detail, result.script, result.counterexample)


def script(statement: Statement, facts: bool = False, limits: Limits = LIMITS) -> str:
    """The text that ``prove`` runs, the same for the same statement; ``facts``: with exp and log increasing."""
    return Goal(statement, limits.z3_ms, limits).text(facts)


def run_script(text: str, timeout_ms: int = LIMITS.z3_ms, limits: Limits = LIMITS) -> Verdict:
    """Run a text of ``prove`` again. PROVED only if its one check gives unsat; sat is UNKNOWN: it refutes nothing."""
    try:
        return VERDICTS[check(text, timeout_ms, limits)[0]]
    except Exception:  # malformed text proves nothing
        return Verdict.UNKNOWN


VERDICTS = {"unsat": Verdict.PROVED, "sat": Verdict.UNKNOWN, "unknown": Verdict.UNKNOWN, "timeout": Verdict.TIMEOUT}


def check(text: str, timeout_ms: int, limits: Limits) -> tuple[str, Any]:
    """unsat, sat, unknown or timeout; and the solver. A text has one check, at its end."""
    commands = [line for line in text.splitlines() if line and not line.startswith(";")]
    if commands[-1] != "(check-sat)" or "check-sat" in "".join(commands[:-1]):
        return "unknown", None
    solver = z3.Solver(ctx=z3.Context())
    solver.set(timeout=timeout_ms, rlimit=limits.z3_rlimit)
    solver.from_string(text)
    answer = str(solver.check())
    late = answer == "unknown" and "timeout" in solver.reason_unknown()
    return "timeout" if late else answer, solver


class Goal:
    """One statement, lowered."""

    def __init__(self, statement: Statement, timeout_ms: int, limits: Limits) -> None:
        self.statement, self.timeout_ms, self.limits = statement, timeout_ms, limits
        self.lowering = Lowering(statement.symbols, limits.z3_cases)
        self.hypotheses = [self.truth(self.lowering.cases(h.expr)) for h in statement.hypotheses]
        self.failures: list[Formula] = []
        self.opaque: list[str] = []
        self.lower_goal()

    def truth(self, cases: list[Case]) -> Formula:
        """True or not expressible: a hypothesis that this route cannot read excludes nothing."""
        return ("or", *(guard_formula(g) for g, v in cases if v == ("bool", True) or v[0] == "opaque"))

    def lower_goal(self) -> None:
        cases = [self.lowering.cases(t) for t in self.statement.terms()]
        match self.statement.goal:
            case Equal() | Refines():
                for gl, left in cases[0]:
                    for gr, right in cases[1]:
                        guard = meet(gl, gr)
                        if guard is not None:
                            self.compare(guard, left, right)
            case Defined():
                for guard, value in cases[0]:
                    if value == UNDEFINED or value[0] == "opaque":
                        self.fail(guard, value)
            case Holds():
                for guard, value in cases[0]:
                    if value != ("bool", True):
                        self.fail(guard, value)
            case NeverFalse():
                for guard, value in cases[0]:
                    if value != ("bool", True) and value != UNDEFINED:
                        self.fail(guard, value)

    def compare(self, guard: Guard, left: tuple[object, ...], right: tuple[object, ...]) -> None:
        if right == UNDEFINED and isinstance(self.statement.goal, Refines):
            return
        if left[0] == right[0] == "real":
            self.failures.append(("and", guard_formula(guard), ("differ", left[1], right[1])))
        elif left != right or left == UNDEFINED or left[0] == "opaque":
            self.fail(guard, left, right)

    def fail(self, guard: Guard, *values: tuple[object, ...]) -> None:
        self.failures.append(guard_formula(guard))
        self.opaque += [str(v[1]) for v in values if v[0] == "opaque"]

    def text(self, facts: bool) -> str:
        failures = list(dict.fromkeys(self.failures))
        return self.print([*self.hypotheses, ("or", *failures)], facts)

    def print(self, formulas: list[Formula], facts: bool) -> str:
        symbols = self.statement.symbols
        names = [f"{symbol_name(symbols, k)}: {s.meaning or s.var.name}, one of {', '.join(falsify.ordered(s.kinds))}"
                 for k, s in enumerate(symbols)]  # fmt: skip
        origins = [f"assumed: {h.origin}" for h in self.statement.hypotheses]
        return Script(symbols, formulas, facts).text([*names, *origins])

    def decide(self) -> RouteResult:
        answer = ""
        for facts in (False, True):
            text = self.text(facts)
            if facts and text == self.text(False):
                break
            answer, solver = check(text, self.timeout_ms, self.limits)
            if answer == "unsat":
                return self.not_vacuous(text)
            found = self.replay(solver) if answer == "sat" else None
            if found:
                return RouteResult(ROUTE, Verdict.REFUTED, detail=str(found), script=text, counterexample=found)
        if self.opaque:
            return RouteResult(ROUTE, Verdict.UNSUPPORTED, detail="; ".join(dict.fromkeys(self.opaque)), script=text)
        verdict = Verdict.TIMEOUT if answer == "timeout" else Verdict.UNKNOWN
        return RouteResult(ROUTE, verdict, detail=f"Z3 says {answer}; no confirmed counterexample", script=text)

    def not_vacuous(self, text: str) -> RouteResult:
        """Proved, if some point satisfies the hypotheses: the model's, or one that the falsifier finds."""
        empty = [s.var.name for s in self.statement.symbols if not s.kinds]
        if empty:
            return RouteResult(ROUTE, Verdict.VACUOUS, detail=f"{empty[0]} has no values", script=text)
        if not self.hypotheses:
            return RouteResult(ROUTE, Verdict.PROVED, script=text)
        answer, solver = check(self.print(list(self.hypotheses), False), self.timeout_ms, self.limits)
        if answer == "unsat":
            return RouteResult(ROUTE, Verdict.VACUOUS, detail="the hypotheses contradict each other", script=text)
        witness = answer == "sat" and falsify.admissible(self.statement, self.point(solver))
        if witness or falsify.satisfiable(self.statement, self.limits):
            return RouteResult(ROUTE, Verdict.PROVED, script=text)
        why = "no point was found that satisfies the hypotheses"
        return RouteResult(ROUTE, Verdict.UNKNOWN, detail=why, script=text)

    def replay(self, solver: Any) -> Counterexample | None:
        """The model's point, if the statement is false there."""
        return falsify.refutes(self.statement, self.point(solver))

    def point(self, solver: Any) -> dict[Var, Value]:
        model = solver.model()
        values = {d.name(): model[d] for d in model.decls()}
        point: dict[Var, Value] = {}
        for k, s in enumerate(self.statement.symbols):
            name = symbol_name(self.statement.symbols, k)
            point[s.var] = point_value(name, values, s.var.dtype == "bool", s.kinds)
        return point


def point_value(name: str, values: dict[str, Any], is_bool: bool, kinds: frozenset[str]) -> Value:
    if is_bool:
        return z3.is_true(values[name]) if name in values else "true" in kinds and "false" not in kinds
    for kind, value in (("-inf", -INF), ("+inf", INF)):
        only = kinds == {kind}
        flag = values.get(f"{name}!{'ninf' if kind == '-inf' else 'pinf'}")
        if only or (flag is not None and z3.is_true(flag)):
            return value
    found = values.get(name)
    if found is None:
        return Fraction(0) if "zero" in kinds else Fraction(1) if "pos" in kinds else Fraction(-1)
    if z3.is_algebraic_value(found):
        found = found.approx(20)
    return Fraction(found.numerator_as_long(), found.denominator_as_long())

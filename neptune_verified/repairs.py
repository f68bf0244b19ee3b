"""Not trusted: the prover and the deriver by themselves, on SymPy expressions. What is proved, ``proofs`` has proved.

>>> import sympy as sp
>>> c, m, v, t, m_new = sp.symbols("c m v t m_new")
>>> prove_repair("sum", sp.exp(c - m) * v, {m: ("max", c)}, t * sp.exp(m - m_new)).proved
True
>>> print(derive_repair("sum", (c - m) ** 2, {m: ("mean", c)}).updates[0])
n*(m - m_new)**2 + t
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from neptune_verified.expressions import parse
from neptune_verified.fusion.strategies.refute import witnesses
from neptune_verified.fusion.strategies.registry import REWRITES, STRATEGIES
from neptune_verified.fusion.strategies.task import Proposal, Strategy, Task
from neptune_verified.fusion.sympify import CannotDerive
from neptune_verified.ir.kinds import NINF, PINF, ZERO
from neptune_verified.ir.loops import Guard
from neptune_verified.proofs.falsify import falsify
from neptune_verified.proofs.kernel import Proved
from neptune_verified.proofs.limits import Limits
from neptune_verified.proofs.repair import IllFormed, Update
from neptune_verified.proofs.repair_context import context_obligations, known_sums
from neptune_verified.proofs.repair_obligations import prefix_statements, update_obligations
from neptune_verified.proofs.repair_question import Question
from neptune_verified.proofs.repair_symbols import DOMAINS
from neptune_verified.proofs.verdict import Verdict
from neptune_verified.repair_results import Refused, Repair, RepairReport, discharge_all, first_refuted

Producers = Mapping[Any, tuple[str, Any] | None] | Iterable[Any]
#: Fewer points than for programs: every statement here is small, and the provers decide in any case.
LIMITS = Limits(points=40, attempts=300, falsify_ms=1_000)


def prove_repair(
    reducer: str,
    term: Any,
    producers: Producers,
    repair: Any,
    facts: Iterable[Any] = (),
    *,
    parameters: Iterable[Any] = (),
    domain: Mapping[Any, Any] | None = None,
) -> RepairReport:
    """Is this online update right? ``repair`` over t (or t0, t1, ... with lists), the producers' symbols (old values),
    NAME_new, n (the number of elements seen) and parameters. Raises IllFormed (a ValueError) where it cannot be stated."""
    terms, repairs = _list(term), _list(repair)
    question = _question(reducer, terms[0], producers, facts, parameters, domain, (*terms[1:], *repairs))
    update = question.update(terms, repairs)
    return _judge(question, update)


def derive_repair(
    reducer: str,
    term: Any,
    producers: Producers,
    facts: Iterable[Any] = (),
    *,
    parameters: Iterable[Any] = (),
    domain: Mapping[Any, Any] | None = None,
) -> Repair | Refused:
    """A proved online update of ``Reduce(reducer, term)``, or a refusal with what shows that there is none."""
    question = _question(reducer, _expression(term), producers, facts, parameters, domain)
    task = Task(question.problem)
    best: tuple[Proposal, RepairReport] | None = None
    obstacle = ""
    for proposal in _proposals(task, STRATEGIES):
        try:
            update, report = _attempt(question, proposal)
        except IllFormed as e:
            obstacle = str(e)
            continue
        if report.proved:
            return Repair.of(question, update, report)
        if best is None or _rank(report) > _rank(best[1]):
            best = proposal, report
    return _refused(question, task, best, obstacle)


# ------------------------------------------------------------------------------------------------ deriving


def _proposals(task: Task, strategies: Sequence[tuple[str, Strategy]]) -> Iterator[Proposal]:
    for _, strategy in strategies:
        try:
            yield from strategy(task)
        except (CannotDerive, IllFormed):
            continue


def _attempt(question: Question, proposal: Proposal) -> tuple[Update, RepairReport]:
    """The proposal under the first guards with which everything is proved, or under those that get furthest."""
    best: tuple[Update, RepairReport] | None = None
    for update in _guarded(question, proposal.update):
        report = _prove(question, Proposal(update, proposal.expansion), stop=True)
        if report.proved:
            return update, report
        if best is None or _rank(report) > _rank(best[1]):
            best = update, report
        if not any(_undefined(p) for p in report.failed):
            break
    assert best is not None
    return best


def _undefined(p: Proved) -> bool:
    """Could a guard help?"""
    found = p.result.counterexample
    return p.obligation.kind in ("O4", "O6") or (found is not None and found.left == "undefined")


def _guarded(question: Question, update: Update) -> Iterator[Update]:
    """No guard, then producers read as a neutral number where they are infinite, 0, or what they hold at first."""
    from dataclasses import replace

    yield update
    if len(update.reducers) > 6:
        return
    options = []
    for p in question.problem.producers:
        if p.element is None or p.var.dtype == "bool":
            continue
        end = {"max": NINF, "logsumexp": NINF, "min": PINF}.get(p.reducer)
        choices: list[tuple[str, ...]] = [(), (end,), (ZERO,), (end, ZERO)] if end else [(), (ZERO,)]
        options.append([Guard(p.name, c, Fraction(1 if ZERO in c else 0)) for c in choices])
    for guards in sorted(product(*options), key=lambda gs: sum(len(g.points) for g in gs)):
        chosen = tuple(g for g in guards if g.points)
        if chosen:
            yield replace(update, guards=chosen)


def _prove(question: Question, proposal: Proposal, stop: bool) -> RepairReport:
    if proposal.expansion is None:
        obligations = update_obligations(question.problem, proposal.update)
    else:
        obligations = context_obligations(question.problem, proposal.update, proposal.expansion)
    refuted = first_refuted(obligations) if stop else None
    proved = discharge_all([refuted] if refuted else obligations, LIMITS, stop)
    return RepairReport.of(question, proposal, proved)


def _rank(report: RepairReport) -> tuple[bool, str]:
    """A refused candidate that got further tells more, and a counterexample more than none."""
    first = report.failed[0]
    return first.result.counterexample is not None, first.obligation.kind


def _refused(question: Question, task: Task, best: tuple[Proposal, RepairReport] | None, obstacle: str) -> Refused:
    alternative = None
    for proposal in _proposals(task, REWRITES):
        try:
            update, report = _attempt(question, proposal)
        except IllFormed:
            continue
        if report.proved:
            alternative = Repair.of(question, update, report)
            break
    return Refused.of(question, witnesses(task), best, alternative, obstacle)


# ------------------------------------------------------------------------------------------------ judging


def _judge(question: Question, update: Update) -> RepairReport:
    """Element by element; then with what the producers tell; then runs of the user's own loop."""
    report = _prove(question, Proposal(update), stop=False)
    if report.proved:
        return report
    if known_sums(question.problem) and question.problem.reducer == "sum":
        for proposal in _completed(question, update):
            other = _prove(question, proposal, stop=False)
            if other.proved:
                return other
    for name, statement in prefix_statements(question.problem, update):
        found = falsify(statement, LIMITS)
        if found is not None:
            return report.with_run(name, found)
    return report


def _completed(question: Question, update: Update) -> Iterator[Proposal]:
    """The user's update with an expansion that could show it right."""
    from neptune_verified.fusion.strategies.context import propose
    from neptune_verified.fusion.strategies.jets import basis
    from neptune_verified.fusion.strategies.linear import matrix
    from neptune_verified.fusion.strategies.rank import LARGEST, rank

    task = Task(question.problem, update.terms)
    try:
        size = rank(task)
        if not len(update.terms) <= size <= LARGEST:
            return
        terms = basis(task, size)
        for found in propose(task, terms, matrix(task, terms), len(update.terms)):
            yield Proposal(update, found.expansion)
    except (CannotDerive, IllFormed):
        return


# ------------------------------------------------------------------------------------------------ reading


def _question(
    reducer: str,
    term: Any,
    producers: Producers,
    facts: Iterable[Any],
    parameters: Iterable[Any],
    domain: Mapping[Any, Any] | None,
    others: Sequence[Any] = (),
) -> Question:
    given: dict[Any, tuple[str, Any] | None] = {}
    if isinstance(producers, Mapping):
        given = {k: None if s is None else (s[0], _expression(s[1])) for k, s in producers.items()}
    else:
        given = dict.fromkeys(producers)
    said = {k: parse(v) if isinstance(v, str) and v not in DOMAINS else v for k, v in (domain or {}).items()}
    return Question(reducer, term, given, [_expression(f) for f in facts], parameters, said, others)


def _expression(x: Any) -> Any:
    import sympy as sp

    return parse(x) if isinstance(x, str) else sp.sympify(x)


def _list(x: Any) -> list[Any]:
    found = list(x) if isinstance(x, list | tuple) else [x]
    if not found:
        raise IllFormed("repair and term need at least one entry")
    return [_expression(e) for e in found]


__all__ = ["IllFormed", "Refused", "Repair", "RepairReport", "Verdict", "derive_repair", "prove_repair"]

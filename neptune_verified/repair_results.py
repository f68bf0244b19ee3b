"""Not trusted: what ``prove_repair`` and ``derive_repair`` give back, and its text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from neptune_verified.fusion.strategies.refute import Witness
from neptune_verified.fusion.strategies.task import Proposal
from neptune_verified.fusion.sympify import CannotDerive, to_sympy
from neptune_verified.ir.expr import Expr, Var, subterms, var
from neptune_verified.proofs.discharge import discharge
from neptune_verified.proofs.falsify import falsify
from neptune_verified.proofs.kernel import Proved
from neptune_verified.proofs.limits import Limits
from neptune_verified.proofs.obligations import Obligation
from neptune_verified.proofs.repair import Update, accumulators, free
from neptune_verified.proofs.statement_text import expr_text, statement_text
from neptune_verified.proofs.verdict import Counterexample, Verdict

if TYPE_CHECKING:
    from neptune_verified.proofs.repair_question import Question


#: A look at what guards decide, before O1 and O2 are proved under the wrong ones.
GLANCE = Limits(points=8, attempts=80, falsify_ms=40)


def first_refuted(obligations: Sequence[Obligation]) -> Obligation | None:
    return next((o for o in obligations if o.kind in ("O4", "O6") and falsify(o.statement, GLANCE) is not None), None)


def discharge_all(obligations: Sequence[Obligation], limits: Limits, stop: bool) -> tuple[Proved, ...]:
    done: list[Proved] = []
    for o in obligations:
        done.append(Proved(o, discharge(o.statement, limits)))
        if stop and not done[-1].holds:
            break
    return tuple(done)


@dataclass(frozen=True, slots=True)
class RepairReport:
    """Every obligation of one update with both verdicts; ``run`` is a run of the loop that comes out wrong."""

    proved_obligations: tuple[Proved, ...]
    assumptions: tuple[str, ...]
    notes: tuple[str, ...] = ()
    update: tuple[str, ...] = ()
    run: tuple[str, Counterexample] | None = None

    @staticmethod
    def of(question: Question, proposal: Proposal, done: tuple[Proved, ...]) -> RepairReport:
        lines = update_lines(proposal.update)
        return RepairReport(done, tuple(question.assumptions()), _notes(question, proposal), lines)

    def with_run(self, accumulator: str, found: Counterexample) -> RepairReport:
        return replace(self, run=(accumulator, found))

    @property
    def obligations(self) -> tuple[Proved, ...]:
        return self.proved_obligations

    @property
    def failed(self) -> tuple[Proved, ...]:
        return tuple(p for p in self.proved_obligations if not p.holds)

    @property
    def proved(self) -> bool:
        """All obligations are proved by both routes."""
        return bool(self.proved_obligations) and not self.failed and self.run is None

    @property
    def verdict(self) -> Verdict:
        if self.proved:
            return Verdict.PROVED
        if self.run is not None:
            return Verdict.REFUTED
        verdicts = [p.result.verdict for p in self.failed]
        order = (Verdict.DISAGREEMENT, Verdict.REFUTED, Verdict.VACUOUS, Verdict.UNSUPPORTED, Verdict.TIMEOUT)
        return next((v for v in order if v in verdicts), Verdict.UNKNOWN)

    @property
    def counterexample(self) -> Counterexample | None:
        """A wrong run if there is one, otherwise a point that refutes an obligation."""
        if self.run is not None:
            return self.run[1]
        return next((p.result.counterexample for p in self.failed if p.result.counterexample), None)

    @property
    def ms(self) -> float:
        return sum(p.result.ms for p in self.proved_obligations)

    def lines(self, whole: bool = False) -> list[str]:
        result = [f"{self.verdict.value}: {line}" if k == 0 else f"  {line}" for k, line in enumerate(self.update)]
        if self.run is not None:
            result.append(f"wrong run: {run_text(*self.run)}")
        for p in self.proved_obligations if whole else self.failed:
            result.append(f"{p.obligation.id} {p.result.verdict.value}: {statement_text(p.obligation.statement)}")
            if p.result.counterexample:
                result.append(f"  false {p.result.counterexample}")
            elif not p.holds:
                result += [f"  {r.route}: {r.verdict.value} {r.detail}".rstrip() for r in p.result.routes]
        if self.proved:
            result.append(f"{len(self.proved_obligations)} obligations, each proved by both routes in {self.ms:.0f} ms")
        result += [f"assumed: {a}" for a in self.assumptions]
        return [*result, *(f"note: {n}" for n in self.notes)]

    def text(self, whole: bool = False) -> str:
        return "\n".join(self.lines(whole))

    def __str__(self) -> str:
        return self.text()


def run_text(accumulator: str, found: Counterexample) -> str:
    point = ", ".join(f"{k} = {v}" for k, v in found.values.items())
    return f"with {point}, the repaired {accumulator} is {found.left} and the true one {found.right}"


def update_lines(update: Update) -> tuple[str, ...]:
    names = accumulators(update.terms)
    lines = [
        f"{t.name} = {f} of {expr_text(g)}, repaired by {expr_text(h)}"
        for t, f, g, h in zip(names, update.reducers, update.terms, update.updates, strict=True)
    ]
    lines += [f"{g.producer} read as {g.value} where it is {' or '.join(g.points)}" for g in update.guards]
    return (*lines, *([] if update.value is names[0] else [f"the result is {expr_text(update.value)}"]))


def _notes(question: Question, proposal: Proposal) -> tuple[str, ...]:
    notes = []
    given = [p.name for p in question.problem.producers if p.element is None]
    if given:
        notes.append(
            f"{', '.join(given)} may move between any two values of the domain; nothing is said of the first step, since "
            "what they reduce is not given"
        )
    if proposal.expansion is not None:
        notes.append("right for whole prefixes only: rescale once per step, each part with its own n and old values")
    if any(var("n") in free(h) for h in proposal.update.updates) and question.problem.counts:
        notes.append("n is the number of elements seen before the step")
    return tuple(notes)


@dataclass(frozen=True, slots=True)
class Repair:
    """A proved update. ``terms``, ``updates`` and ``value`` are SymPy expressions over t (or t0, t1, ...), the producers'
    old and new values and n; ``guards`` says where a producer is read as another number."""

    reducers: tuple[str, ...]
    terms: tuple[Any, ...]
    updates: tuple[Any, ...]
    value: Any
    strategy: str
    guards: tuple[str, ...]
    report: RepairReport

    @staticmethod
    def of(question: Question, update: Update, report: RepairReport) -> Repair:
        symbols = _sympy_symbols(update, question.hidden)

        def show(e: Expr) -> Any:
            try:
                return to_sympy(e, symbols)
            except CannotDerive:
                return expr_text(e)

        guards = tuple(f"{g.producer} read as {g.value} where it is {' or '.join(g.points)}" for g in update.guards)
        return Repair(
            update.reducers, tuple(map(show, update.terms)), tuple(map(show, update.updates)), show(update.value),
            update.strategy, guards, report,
        )  # fmt: skip

    @property
    def accumulators(self) -> int:
        """The accumulators that are reduced; the number n of elements seen is not among them."""
        return len(self.updates)

    @property
    def proved(self) -> bool:
        return self.report.proved

    def text(self) -> str:
        return f"strategy {self.strategy}, {self.accumulators} accumulator(s)\n{self.report.text()}"

    def __str__(self) -> str:
        return self.text()


def _sympy_symbols(update: Update, hidden: dict[str, Any]) -> dict[Expr, Any]:
    import sympy as sp

    parts = (*update.terms, *update.updates, update.value)
    return {v: hidden.get(v.name, sp.Symbol(v.name)) for e in parts for v in subterms(e) if isinstance(v, Var)}


@dataclass(frozen=True, slots=True)
class Refused:
    """No repair is proved. ``witnesses`` show that none of a kind exists (one accumulator, or a linear one of several), as
    far as such were found; ``best`` is what refused the best candidate; ``alternative`` a proved rewriting of the reduction,
    if there is one; ``obstacle`` says why a candidate could not even be stated."""

    reduction: str
    witnesses: tuple[Witness, ...]
    best: RepairReport | None
    alternative: Repair | None
    obstacle: str = ""

    @staticmethod
    def of(
        question: Question,
        witnesses: tuple[Witness, ...],
        best: tuple[Proposal, RepairReport] | None,
        alternative: Repair | None,
        obstacle: str = "",
    ) -> Refused:
        over = ", ".join(p.name for p in question.problem.producers)
        reduction = f"the {question.problem.reducer} of {expr_text(question.problem.term)} over {over or 'nothing'}"
        return Refused(reduction, witnesses, best[1] if best else None, alternative, obstacle)

    @property
    def proved(self) -> bool:
        return False

    @property
    def witness(self) -> Witness | None:
        return self.witnesses[0] if self.witnesses else None

    @property
    def reason(self) -> str:
        reasons = [witness_text(w) for w in self.witnesses]
        return f"no repair of {self.reduction} is proved" + "".join(f"; {r}" for r in reasons)

    def text(self) -> str:
        lines = [f"refused: no repair of {self.reduction} is proved", *map(witness_text, self.witnesses)]
        if self.best is None and self.obstacle:
            lines.append(self.obstacle)
        if self.best is not None:
            lines.append(f"the best candidate: {self.best.update[0]}")
            lines += [f"  {line}" for line in self.best.lines()[1:] if "assumed:" not in line and "note:" not in line]
        if self.alternative is not None:
            lines.append("the reduction can be rewritten: " + "; ".join(self.alternative.report.update))
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()


def witness_text(w: Witness) -> str:
    point = ", ".join(f"{k} = {v}" for k, v in w.point.values.items())
    if w.kind == "minor":
        count = f"{w.size - 1} or fewer accumulators" if w.size > 2 else "one accumulator"
        return (
            f"none that is linear in {count} exists: the determinant of the term at {point} is {w.point.left} and not 0"
        )
    if w.kind == "order":
        return (
            f"none with one accumulator exists: at {point} the larger of two accumulators has to become the smaller one"
        )
    return (
        f"none with one accumulator exists: at {point} two elements leave the same accumulator, and it has to become both "
        f"{w.point.left} and {w.point.right}"
    )

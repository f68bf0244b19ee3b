"""Trusted: the only door from loop programs to code generation.

``verify`` states every obligation of a loop program anew from its definition, has each discharged by both routes, checks
that the loop program is built from the definition by exactly the stated steps, and only then makes a ``VerifiedProgram``.
Python cannot hide a constructor; a test asserts that no other module calls it, and the real boundary is
``neptune-verified check`` on the saved text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from neptune_verified.ir.expr import FLOATS, Expr, Reduce, Var, substitute, subterms
from neptune_verified.ir.inline import inline
from neptune_verified.ir.loops import LoopProgram, Nest, Output, Pass, T
from neptune_verified.ir.program import Program
from neptune_verified.ir.spec import loop_faults
from neptune_verified.ir.split import Unsplittable, split_form
from neptune_verified.proofs import discharge as discharge_
from neptune_verified.proofs import edge, facts, ranges
from neptune_verified.proofs import falsify as falsify_
from neptune_verified.proofs.abstract import UnsupportedTerm
from neptune_verified.proofs.discharge import Discharged, discharge
from neptune_verified.proofs.evaluate import Value
from neptune_verified.proofs.facts import baseless
from neptune_verified.proofs.falsify import survey
from neptune_verified.proofs.join import split_obligations
from neptune_verified.proofs.obligations import Obligation, edge_obligations, hoist_obligations, state_obligations
from neptune_verified.proofs.statement import Statement
from neptune_verified.proofs.verdict import Verdict

#: What was proved: the first line of certificate and report. Of kernels whose text was read back, without and with a split-K
#: update among them, and of a loop program.
COVERAGE = "proved O1-O14, O16"
SPLIT_COVERAGE = "proved O1-O16"
LOOPS_COVERAGE = "proved O1-O7, O14; not checked, for want of a Triton text: O8-O13, O16"


@dataclass(frozen=True, slots=True)
class Proved:
    """An obligation with what the provers said of it."""

    obligation: Obligation
    result: Discharged

    @property
    def holds(self) -> bool:
        return self.result.verdict is Verdict.PROVED


def coverage_of(loops: LoopProgram, text: bool) -> str:
    """``text``: a kernel's text was read back."""
    if not text:
        return LOOPS_COVERAGE
    return SPLIT_COVERAGE if any(nest.split for nest in loops.nests) else COVERAGE


class Refused(Exception):
    """The loop program is not verified. ``failed`` are the obligations that were not proved, with their results."""

    def __init__(self, message: str, failed: tuple[Proved, ...] = ()) -> None:
        super().__init__(message)
        self.failed = failed


def forget() -> None:
    """Empty every table of statements and answers that this process remembers: for timings, and for changed checkers."""
    for table in (discharge_._discharge, falsify_._survey, ranges._ranges, edge._over_cases, facts.provenance):
        table.cache_clear()


class Store(Protocol):
    """Results of earlier runs. Whoever hands one to a prover trusts it (``proofs.cache``); ``check`` hands none."""

    def get(self, statement: Statement) -> Discharged | None: ...

    def put(self, statement: Statement, result: Discharged) -> None: ...

    def survived(self, statement: Statement) -> bool: ...

    def put_survivor(self, statement: Statement) -> None: ...


class Prover:
    """Discharges obligations and remembers results by statement (statements are values, so equal ones are one)."""

    def __init__(self, store: Store | None = None) -> None:
        self.memo: dict[Statement, Discharged] = {}
        self.store = store

    def prove(self, obligation: Obligation) -> Proved:
        found = self.known(obligation)
        if found is None:
            found = self.memo[obligation.statement] = discharge(obligation.statement)
            if self.store is not None:
                self.store.put(obligation.statement, found)
        return Proved(obligation, found)

    def known(self, obligation: Obligation) -> Discharged | None:
        """The result, if it need not be found any more."""
        statement = obligation.statement
        if statement not in self.memo and self.store is not None:
            found = self.store.get(statement)
            if found is not None:
                self.memo[statement] = found
        return self.memo.get(statement)

    def refuting_point(self, obligation: Obligation) -> Mapping[str, Value] | None:
        """A cheap look for a counterexample, before any prover runs; that there is none (None) decides nothing. Empty for a
        statement that is known to have one."""
        known, statement = self.known(obligation), obligation.statement
        if known is not None:
            return {} if known.verdict is Verdict.REFUTED and known.routes[0].route == "falsifier" else None
        if self.store is not None and self.store.survived(statement):
            return None
        found = survey(statement)
        if self.store is not None and not found.counterexample:
            self.store.put_survivor(statement)
        return found.point if found.counterexample else None

    def first_failure(self, obligations: Iterable[Obligation]) -> Proved | None:
        return next((p for p in map(self.prove, obligations) if not p.holds), None)


@dataclass(frozen=True, slots=True)
class VerifiedProgram:
    """A loop program all of whose obligations are proved. Made by ``verify`` alone."""

    loops: LoopProgram
    proved: tuple[Proved, ...]
    coverage: str = field(default=LOOPS_COVERAGE)


def required(loops: LoopProgram) -> tuple[Obligation, ...]:
    """Every obligation of a loop program, stated from its definition. Raises Refused where one cannot be stated."""
    result: list[Obligation] = []
    for nest in loops.nests:
        try:
            for hoist in nest.hoists:
                result += hoist_obligations(loops.program, hoist)
            for p in nest.passes:
                for c in p.carried:
                    if c.repair is not None:
                        result += edge_obligations(loops.program, nest, p, c)
                    else:
                        result += state_obligations(loops.program, c)
                if nest.split:
                    result += split_obligations(loops.program, nest, p)
        except UnsupportedTerm as e:
            raise Refused(f"{nest.name}: {e}") from e
    require_grounded(loops.program, result)
    return tuple(dict.fromkeys(result))


def require_grounded(program: Program, obligations: Iterable[Obligation]) -> None:
    """Every fact that a statement uses is derived, or declared of this program. Raises Refused."""
    fault = baseless(program, obligations)
    if fault:
        raise Refused(fault)


def verify(
    loops: LoopProgram, prover: Prover | None = None, progress: Callable[[Proved], None] | None = None
) -> VerifiedProgram:
    """Prove everything, or raise Refused."""
    check_structure(loops)
    prover = prover or Prover()
    proved = []
    for obligation in required(loops):
        proved.append(prover.prove(obligation))
        if progress:
            progress(proved[-1])
    failed = tuple(p for p in proved if not p.holds)
    if failed:
        first = failed[0]
        raise Refused(f"{first.obligation.id} of {first.obligation.step}: {first.result.verdict.value}", failed)
    return VerifiedProgram(loops, tuple(proved))


# ------------------------------------------------------------------------------------------------ structure


def check_structure(loops: LoopProgram) -> None:
    """The loop program is the definition, inlined, with the hoists applied in order and the top reductions carried."""
    faults = loop_faults(loops)
    _require(not faults, "; ".join(faults))
    closed = inline(loops.program)
    written = [out.name for nest in loops.nests for out in _outputs(nest)]
    _require(
        sorted(written) == sorted(loops.program.outputs), f"outputs written {written}, wanted {loops.program.outputs}"
    )
    for nest in loops.nests:
        for out in _outputs(nest):
            axes, expr = closed.outputs[out.name]
            _require(
                [a.extent for a in axes] == [a.extent for a in out.axes] and len(set(out.axes)) == len(out.axes),
                f"{out.name} is written over axes of other extents",
            )
            expr = substitute(expr, dict(zip(axes, out.axes, strict=True)))
            for hoist in nest.hoists:
                expr = substitute(expr, {hoist.old: hoist.new})
            _require(expr is out.expr, f"{out.name} is not its definition after the hoists")
            _require(expr.free <= set(out.axes), f"{out.name} depends on an axis that it does not have")
        for hoist in nest.hoists:
            reads = hoist.template.free.union(*(r.free for r in hoist.inner))
            _require(reads <= hoist.old.free, f"the hoist of {hoist.name} reads an axis that its reduction does not")
        for p in nest.passes:
            _check_pass(nest, p)
        _require(nest.share is None, f"{nest.name} is a part of a split-K form, which is derived")
        if nest.split:
            try:
                split_form(loops.program, nest)
            except Unsplittable as e:
                _require(False, f"{nest.name} has no split-K form: {e}")
        names = [c.name for c in nest.carried()]
        _require(len(set(names)) == len(names) and T not in names, f"carried names are not unique: {names}")


def _outputs(nest: Nest) -> list[Output]:
    return [*nest.outputs, *(out for p in nest.passes for out in p.stores)]


def _check_pass(nest: Nest, p: Pass) -> None:
    spatial = nest.grid + nest.inner
    for out in nest.outputs:
        _require(set(out.axes) <= set(spatial), f"{out.name} has an axis that its kernel does not run over")
    for out in p.stores:
        _require(set(out.axes) <= set(spatial + p.stream), f"{out.name} has an axis that its pass does not run over")
        _require(set(p.stream) <= set(out.axes), f"{out.name} lacks a stream axis of the pass that stores it")
    earlier: set[str] = set()
    for c in p.carried:
        _require(isinstance(c.value, Reduce) and c.value.free <= set(spatial), f"{c.name} depends on its own stream")
        _require([a.extent for a in c.value.axes] == [a.extent for a in p.stream], f"{c.name} reduces another domain")
        _require(c.axes == tuple(a for a in spatial if a in c.value.free), f"{c.name} is carried over wrong axes")
        if c.repair is not None:
            _require(
                set(c.repair.producers) <= earlier, f"{c.name} is repaired over a value that is not updated before it"
            )
            _require(c.repair.h.free <= set(spatial), f"{c.name}'s repair depends on the stream")
            _require(
                _variables(c.repair.h) <= _repair_symbols(c.repair.producers), f"{c.name}'s repair reads other values"
            )
            _require({g.producer for g in c.repair.guards} <= set(c.repair.producers), f"{c.name} guards a stranger")
            integers = {q.name for q in p.carried if q.value.dtype not in FLOATS}
            infinite = {g.producer for g in c.repair.guards if set(g.points) - {"zero"}}
            _require(not integers & infinite, f"{c.name} guards an integer against an infinity")
        earlier.add(c.name)


def _variables(e: Expr) -> set[str]:
    return {x.name for x in subterms(e) if isinstance(x, Var)}


def _repair_symbols(producers: tuple[str, ...]) -> set[str]:
    return {T, *producers, *(f"{p}_new" for p in producers)}


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise Refused(f"the loop program does not come from its definition: {message}")

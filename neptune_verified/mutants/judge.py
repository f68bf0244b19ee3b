"""Not trusted: what the verifier says of a wrong transformation, and whether the transformation is one.

The verifier is asked everything, not only up to its first refusal, so that it is known which checks refuse a mutant. A
verdict that is not definite (timeout, unknown, unsupported) refuses a program, but is no proof that it is wrong: it does
not count as a kill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from neptune_verified.ir.loops import LoopProgram
from neptune_verified.mutants.execute import Difference, difference, references
from neptune_verified.mutants.model import Mutant
from neptune_verified.proofs.abstract import UnsupportedTerm
from neptune_verified.proofs.discharge import LIMITS, discharge
from neptune_verified.proofs.join import split_obligations
from neptune_verified.proofs.kernel import Refused, check_structure, required
from neptune_verified.proofs.obligations import Obligation, edge_obligations, hoist_obligations, state_obligations
from neptune_verified.proofs.verdict import Verdict

#: Where a mutant can be refused: by the shape of the loop program, because nothing can be stated of it, by an obligation.
COLUMNS = ("structure", "statement", "O1", "O2", "O3", "O4", "O5", "O6", "O7", "O14", "O15")
KILLED, SAME, EQUIVALENT, SURVIVED, UNDECIDED = (
    "killed", "refused, no difference found", "equivalent, proved", "SURVIVED", "undecided",
)  # fmt: skip
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """A judgement as text: what a worker process sends back, and what is printed."""

    program: str
    group: str
    kind: str
    what: str
    status: str
    refused: dict[str, str]
    unsure: dict[str, str]
    difference: str

    @property
    def name(self) -> str:
        return f"{self.program}: {self.kind} ({self.what})" if self.what else f"{self.program}: {self.kind}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """``refused``: column -> why, in one line; ``unsure``: obligations without a definite verdict."""

    mutant: Mutant
    refused: dict[str, str]
    unsure: dict[str, str]
    difference: str

    def row(self) -> Row:
        m = self.mutant
        return Row(m.program, m.group, m.kind, m.what, self.status, self.refused, self.unsure, self.difference)

    @property
    def status(self) -> str:
        if self.refused:
            return KILLED if self.difference else SAME
        if self.unsure:
            return UNDECIDED
        return SURVIVED if self.difference else EQUIVALENT


@dataclass(frozen=True)
class Base:
    """A right loop program: ``unproved`` are statements about splits that are not decided for it."""

    loops: LoopProgram
    unproved: frozenset[Key]

    @property
    def splits(self) -> bool:
        return not self.unproved


#: Which mutants there are must not depend on how busy the machine is. Fewer points are tried than for a compile: what they
#: miss is left to the provers, and an undecided mutant that is wrong would be reported.
PATIENT = replace(LIMITS, z3_ms=20_000, sympy_ms=20_000, points=100, attempts=800, kind_combinations=120)


def _holds(o: Obligation) -> bool:
    return discharge(o.statement, PATIENT).verdict is Verdict.PROVED


def base_of(loops: LoopProgram) -> Base:
    """A loop program that the verifier accepts; ValueError otherwise."""
    check_structure(loops)
    wrong = [o.id for o in required(loops) if not _holds(o)]
    if wrong:
        raise ValueError(f"{loops.program.name} is not verified itself: {', '.join(wrong)}")
    return Base(loops, frozenset(_key(o) for o in _splits(loops) if not _holds(o)))


def _key(o: Obligation) -> Key:
    return o.kind, o.part, o.stage


def _splits(loops: LoopProgram) -> Iterator[Obligation]:
    for nest in loops.nests:
        for p in nest.passes:
            yield from split_obligations(loops.program, nest, p)


def judge(mutant: Mutant, base: Base) -> Judgement:
    references(base.loops.program)
    with mutant.world.active():
        refused, unsure = verdicts(mutant.loops, base)
        found = _execute(mutant.loops, base, "structure" in refused)
    return Judgement(mutant, refused, unsure, str(found or ""))


def _execute(loops: LoopProgram, base: Base, ill_formed: bool) -> Difference | str | None:
    """How the run differs from the definition, or that an ill-formed program does not run."""
    try:
        return difference(loops, base.loops.program, base.splits)
    except Exception as e:
        if not ill_formed:
            raise
        return f"it does not run: {type(e).__name__}"


def verdicts(loops: LoopProgram, base: Base) -> tuple[dict[str, str], dict[str, str]]:
    """Everything that refuses the loop program, by column, and everything that is undecided."""
    refused: dict[str, str] = {}
    unsure: dict[str, str] = {}
    try:
        check_structure(loops)
        if loops.program != base.loops.program:
            refused["structure"] = "another definition"
    except Refused as e:
        refused["structure"] = str(e)
    stated: dict[Obligation, None] = {}

    def add(state: Callable[[], Iterable[Obligation]]) -> bool:
        try:
            stated.update(dict.fromkeys(state()))
        except (UnsupportedTerm, Refused, ValueError) as e:
            refused.setdefault("statement", str(e))
        except Exception as e:  # of an ill-formed loop program nothing need be statable
            if "structure" not in refused:
                raise
            refused.setdefault("statement", f"{type(e).__name__}: {e}")
        else:
            return True
        return False

    if not add(partial(required, loops)):
        for state in _parts(loops):
            add(state)
    for nest in loops.nests:
        for p in nest.passes:
            add(partial(split_obligations, loops.program, nest, p))
    for o in stated:
        if o.kind in ("O14", "O15") and _key(o) in base.unproved:
            continue
        result = discharge(o.statement, PATIENT)
        text = f"{o.id} of {o.step}: {result.verdict.value} {result.counterexample or ''}".strip()
        if result.verdict in (Verdict.REFUTED, Verdict.VACUOUS):
            refused.setdefault(o.kind, text)
        elif result.verdict is not Verdict.PROVED:
            unsure.setdefault(o.kind, text)
    return refused, unsure


def _parts(loops: LoopProgram) -> Iterator[Callable[[], Iterable[Obligation]]]:
    """What ``required`` asks, one by one, so that a statement that cannot be made hides no other."""
    for nest in loops.nests:
        for hoist in nest.hoists:
            yield partial(hoist_obligations, loops.program, hoist)
        for p in nest.passes:
            for c in p.carried:
                if c.repair is not None:
                    yield partial(edge_obligations, loops.program, nest, p, c)
                else:
                    yield partial(state_obligations, loops.program, c)


__all__ = ["COLUMNS", "Base", "Judgement", "Row", "base_of", "judge", "verdicts"]

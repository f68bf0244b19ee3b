"""Not trusted: what a user asks of the compiler: rolling update or split-K, and into how many parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from neptune_verified.errors import UnsupportedProgram
from neptune_verified.ir.loops import LoopProgram, Nest, Refusal
from neptune_verified.ir.program import Program
from neptune_verified.ir.split import Unsplittable, split_form
from neptune_verified.proofs.abstract import UnsupportedTerm
from neptune_verified.proofs.join import split_obligations
from neptune_verified.proofs.kernel import Proved, Prover

UPDATES = ("auto", "rolling", "split-k")


@dataclass(frozen=True, slots=True)
class Schedule:
    """``update``: "rolling" writes kernels with one sequential loop alone; "split-k" demands that each kernel that reduces
    has a split-K form too; "auto" writes one wherever it is proved, for GPUs. A file with both chooses at each call, by
    shape and device. ``splits``, ``split_size``: the defaults of the launcher's arguments of these names (at most one of
    them); with None the launcher chooses.

    A *template* is a function from a ``Program`` to a ``Schedule``; whatever takes the one takes the other.

    Raises ValueError for an unknown update, or numbers that are no positive ints."""

    update: str = "auto"
    splits: int | None = None
    split_size: int | None = None

    def __post_init__(self) -> None:
        if self.update not in UPDATES:
            raise ValueError(f"update is {self.update!r}: choose one of {', '.join(UPDATES)}")
        for name in ("splits", "split_size"):
            n = getattr(self, name)
            if n is not None and (type(n) is not int or not 1 <= n < 2**31):
                raise ValueError(f"{name} is {n!r}: it must be a positive int below 2^31, or None")
        if self.splits is not None and self.split_size is not None:
            raise ValueError(f"splits = {self.splits} and split_size = {self.split_size}: give one of them")
        if self.update == "rolling" and (self.splits, self.split_size) != (None, None):
            raise ValueError(
                "a rolling update has no splits: choose update='split-k', or leave splits and split_size out"
            )


Template = Schedule | Callable[[Program], Schedule]


def schedule_of(template: Template | None, program: Program) -> Schedule:
    """The schedule that a template gives for a program. Raises TypeError where it gives something else."""
    found = template(program) if callable(template) else template
    if found is None:
        return Schedule()
    if not isinstance(found, Schedule):
        raise TypeError(f"a schedule is an nv.Schedule, or a function that returns one, got {type(found).__name__}")
    return found


def with_splits(loops: LoopProgram, schedule: Schedule, prover: Prover, gpu: bool) -> tuple[LoopProgram, list[Proved]]:
    """The loop program with ``split`` set for each nest whose split-K form is proved; and what failed of one that is
    demanded.

    Raises UnsupportedProgram where a form that is demanded does not exist."""
    if schedule.update == "rolling" or (schedule.update == "auto" and not gpu and not _asked(schedule)):
        return loops, []
    demanded = schedule.update == "split-k"
    nests: list[Nest] = []
    refusals: list[Refusal] = []
    failed: list[Proved] = []
    for nest in loops.nests:
        found = _split(loops.program, nest, prover)
        if found is None:
            nests.append(replace(nest, split=True))
            continue
        nests.append(nest)
        why, proved = found
        carried = [c.name for c in nest.carried()]
        if demanded and proved is None and carried:
            raise UnsupportedProgram(f"a split-K update of {nest.name}", why=why)
        if demanded and proved is not None:
            failed.append(proved)
        if proved is not None:
            consumer = proved.obligation.stage
            refusals.append(Refusal(consumer, ("split-K update",), why, proved.obligation.id))
    return replace(loops, nests=tuple(nests), refusals=(*loops.refusals, *refusals)), failed


def _asked(schedule: Schedule) -> bool:
    return schedule.splits is not None or schedule.split_size is not None


def _split(program: Program, nest: Nest, prover: Prover) -> tuple[str, Proved | None] | None:
    """None if the nest may be split; else why not, and the obligation that fails."""
    try:
        split_form(program, nest)
        obligations = [o for p in nest.passes for o in split_obligations(program, nest, p)]
    except (Unsplittable, UnsupportedTerm) as e:
        return str(e), None
    failed = prover.first_failure(obligations)
    return None if failed is None else (f"not proved: {failed.result.verdict.value}", failed)

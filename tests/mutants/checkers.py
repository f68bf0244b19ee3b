"""What the tests of changed checkers share: asking the verifier anew, and mutants by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from neptune_verified.ir.loops import LoopProgram
from neptune_verified.mutants.catalogue import base, mutants_of
from neptune_verified.mutants.execute import Difference, difference
from neptune_verified.mutants.model import Mutant
from neptune_verified.proofs import kernel
from neptune_verified.proofs.join import split_obligations
from neptune_verified.proofs.kernel import Prover, Refused, forget, verify
from neptune_verified.proofs.obligations import Obligation


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    """Answers of a changed checker must not be remembered, nor those of the true one be given for it."""
    forget()
    yield
    forget()


def accepts(loops: LoopProgram) -> bool:
    forget()
    try:
        verify(loops, Prover())
    except Refused:
        return False
    return True


def accepts_split(loops: LoopProgram) -> bool:
    forget()
    stated = [o for n in loops.nests for p in n.passes for o in split_obligations(loops.program, n, p)]
    return all(Prover().prove(o).holds for o in stated)


MUTANTS: dict[str, dict[str, Mutant]] = {}


def mutant(name: str) -> Mutant:
    program = name.split(":")[0]
    if program not in MUTANTS:
        MUTANTS[program] = {m.name: m for m in mutants_of(program)}
    return MUTANTS[program][name]


def right(program: str) -> LoopProgram:
    return base(program).loops


NOTHING_REPAIRED = "logsumexp: nothing repaired (l over m)"


def required_without(*dropped: str) -> Callable[[LoopProgram], tuple[Obligation, ...]]:
    true = kernel.required
    return lambda loops: tuple(o for o in true(loops) if o.kind not in dropped)


def differs(loops: LoopProgram) -> Difference | None:
    return difference(loops, loops.program, False)

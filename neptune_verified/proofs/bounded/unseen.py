"""Trusted: what no element of a program's output depends on may hold anything, NaN included (O9).

A program runs again with all such parts of its inputs undefined. What it stores has to be what it stored before.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from neptune_verified.ir.program import Program
from neptune_verified.proofs.bounded.access import Access
from neptune_verified.proofs.bounded.compare import Closed, boxes
from neptune_verified.proofs.bounded.definition import Frame
from neptune_verified.proofs.bounded.field import Array, U
from neptune_verified.proofs.bounded.memory import Memory
from neptune_verified.proofs.bounded.result import Fault, Finding, Unknown
from neptune_verified.proofs.bounded.seen import Dependence, parts
from neptune_verified.proofs.bounded.trial import Done, Evaluation
from neptune_verified.proofs.bounded.values import Val

#: Programs of a trial that run again.
_PROGRAMS = 4


def unseen(evaluation: Evaluation, program: Program, closed: Closed) -> tuple[list[Finding], int]:
    """Findings, and the number of programs that ran again; after ``evaluation`` found nothing."""
    memory = evaluation.memory
    shapes = {t.name: memory[t.name].shape for t in program.inputs}
    bits = parts(program, shapes)
    readings = {name: Dependence(memory, name, b, evaluation.trial.sizes) for name, b in bits.items()}
    findings: list[Finding] = []
    again = 0
    for done in evaluation.programs[:_PROGRAMS] + evaluation.programs[_PROGRAMS:][-1:]:
        try:
            undefined = {name: (b & ~_seen(readings[name], closed, done, memory)) != 0 for name, b in bits.items()}
        except Unknown:
            continue
        spoiled = _spoiled(memory, undefined)
        if spoiled is None:
            continue
        again += 1
        try:
            access = evaluation.program_again(done, spoiled)
        except Fault as e:
            if e.id != "O9":
                raise
            findings.append(Finding("O9", f"kernel.py:{e.line}", e.what, evaluation.trial.sizes))
            break
        if what := _differ(done, access):
            findings.append(Finding("O9", f"kernel.py:{access.lines[what]}", f"{what} depends on inputs that no row of "
                                    f"program {done.pid} counts", evaluation.trial.sizes))  # fmt: skip
            break
    return findings, again


def _seen(reading: Dependence, closed: Closed, done: Done, memory: Mapping[str, Memory]) -> np.uint64:
    """The parts that some stored element may depend on."""
    total = U(0)
    for name, where, _ in done.access.stores:
        axes, expr = closed[name]
        for used, _ in boxes([where], memory[name].shape):
            total |= np.bitwise_or.reduce(reading.eval(expr, Frame(axes, used)).bits, axis=None)
    return total


def _spoiled(memory: Mapping[str, Memory], undefined: Mapping[str, Array]) -> dict[str, Memory] | None:
    result = dict(memory)
    some = False
    for name, where in undefined.items():
        m = memory[name]
        if not isinstance(m.value, Val) or not np.any(where):
            continue
        some = True
        v = m.value
        f = np.where(where, np.nan, v.f)
        result[name] = Memory(name, m.shape, m.dtype, Val(f, v.P, v.Q, v.E, v.dtype, v.fits))
    return result if some else None


def _differ(done: Done, access: Access) -> str:
    """The name of an output that holds something undefined only now; that it holds other numbers cannot be."""
    for (name, _, before), (_, _, after) in zip(done.access.stores, access.stores, strict=True):
        if isinstance(before, Val) and isinstance(after, Val) and np.any(np.isnan(after.f) & ~np.isnan(before.f)):
            return name
    return ""

"""Trusted: an emitted text is proved by both routes, or refused: the symbolic reading and the bounded evaluation."""

from __future__ import annotations

from dataclasses import replace

from neptune_verified.ir.loops import LoopProgram
from neptune_verified.proofs.bounded import bounded
from neptune_verified.proofs.text.findings import Finding, TextRefused
from neptune_verified.proofs.text.proof import TEXT_OBLIGATIONS, TextProof, read_back


def prove_text(loops: LoopProgram, source: str, target: str, definition: str | None = None) -> TextProof:
    """O8 to O13 and O16 of kernel.py. Raises TextRefused, with the findings of the route that does not prove them."""
    proof = read_back(loops, source, target, definition)
    try:
        second = bounded(loops.program, source, target)
    except (ValueError, KeyError, IndexError, ArithmeticError, TypeError, RecursionError, MemoryError) as e:
        what = f"the bounded evaluation fails: {type(e).__name__}: {str(e)[:200]}"
        raise TextRefused(Finding("O13", "kernel.py:1", what)) from None
    if second.findings:
        raise TextRefused(*(Finding(f.id, f.place, f"{f.what} (bounded evaluation)") for f in second.findings))
    if second.verdict != "proved":
        what = f"the bounded evaluation says {second.verdict}: {second.detail}"
        raise TextRefused(Finding("O13", "kernel.py:1", what))
    return replace(proof, second={id_: second.covers(id_) for id_ in TEXT_OBLIGATIONS}, routes=("lanes", "bounded"))

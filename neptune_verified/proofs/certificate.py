"""Trusted: certificate.json: every statement with its proof, bound by hashes to definition, loop program and kernel.

A certificate is evidence for a reader and for ``proofs.check``, which believes nothing in it: it states everything
anew from program.json and loop.json and compares.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from neptune_verified.ir.loops import LoopProgram
from neptune_verified.ir.loops_json import refusal_data
from neptune_verified.ir.program import Program
from neptune_verified.ir.serialize import SEMANTICS_VERSION, loops_to_json, program_hash, sha256
from neptune_verified.proofs.certificate_format import certificate_to_json
from neptune_verified.proofs.facts import input_facts
from neptune_verified.proofs.kernel import Proved, VerifiedProgram, coverage_of
from neptune_verified.proofs.limits import LIMITS
from neptune_verified.proofs.obligations import Obligation
from neptune_verified.proofs.statement import BOOL_KINDS, NUMBER_KINDS
from neptune_verified.proofs.statement_text import expr_text, statement_text
from neptune_verified.proofs.text import TextProof
from neptune_verified.proofs.text.evidence import text_data
from neptune_verified.proofs.verdict import RouteResult

__all__ = ["certificate_to_json", "definition_hash", "evidence", "make_certificate"]


def make_certificate(
    verified: VerifiedProgram, kernel_text: str, extra: Mapping[str, Any], text: TextProof | None = None
) -> dict[str, Any]:
    """The certificate of a verified program and the text of its kernel; coverage comes first.

    ``extra``: "roundings" lists the float conversions that the compiler inserted, "kernel" what is known of the kernel
    (target, tile configurations); nothing else. ``text``: what was proved of its text; None for a target without."""
    coverage = coverage_of(verified.loops, text is not None)
    return evidence(verified.loops, verified.proved, kernel_text, extra, coverage, text)


def evidence(
    loops: LoopProgram,
    proved: Iterable[Proved],
    kernel_text: str,
    extra: Mapping[str, Any],
    coverage: str,
    text: TextProof | None = None,
) -> dict[str, Any]:
    """The same data for a program that need not be verified; ``coverage`` says what it is."""
    strangers = sorted(extra.keys() - {"roundings", "kernel"})
    if strangers:
        raise ValueError(f"a certificate has no place for {', '.join(strangers)}")
    program = loops.program
    return {
        "coverage": coverage,
        "program": program.name,
        "semantics_version": SEMANTICS_VERSION,
        "hashes": hashes(loops, kernel_text),
        "tools": tools(),
        "limits": asdict(LIMITS),
        "passes": loops.passes,
        "assumptions": assumptions_data(program),
        "notes": list(program.notes),
        "obligations": [proved_data(p) for p in proved],
        "text": text_data(text) if text is not None else [],
        "refused": [refusal_data(r) for r in loops.refusals],
        "roundings": list(extra.get("roundings", ())),
        "kernel": _plain(extra.get("kernel", {})),
    }


def _plain(value: Any) -> Any:
    """Tuples become lists, so that a certificate equals what is read back from its text."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


def definition_hash(program: Program) -> str:
    """What stands after "definition: " in the kernel's docstring."""
    return f"sha256:{program_hash(program, SEMANTICS_VERSION)}"


def hashes(loops: LoopProgram, kernel_text: str) -> dict[str, str]:
    return {
        "definition": definition_hash(loops.program),
        "loops": f"sha256:{sha256(loops_to_json(loops, SEMANTICS_VERSION))}",
        "kernel": f"sha256:{sha256(kernel_text)}",
    }


def tools() -> dict[str, str]:
    names = {"z3": "z3-solver", "sympy": "sympy", "neptune_verified": "neptune-verified"}
    return {**{name: version(package) for name, package in names.items()}, "python": platform.python_version()}


def assumptions_data(program: Program) -> list[dict[str, str]]:
    """What is declared of inputs and lengths, and the defaults, that floats are finite included."""
    facts = [f.origin.partition(": ") for f in input_facts(program)]
    return [{"text": text, "origin": source} for source, _, text in facts]


def obligation_data(o: Obligation) -> dict[str, Any]:
    """What ``check`` derives from program.json and loop.json, and compares with the stored fields of the same names."""
    order = (*NUMBER_KINDS, *BOOL_KINDS)
    return {
        "id": o.id,
        "kind": o.kind,
        "stage": o.stage,
        "step": o.step,
        "statement": statement_text(o.statement),
        "symbols": [
            {
                "name": s.var.name,
                "dtype": s.var.dtype,
                "kinds": [k for k in order if k in s.kinds],
                "meaning": s.meaning,
                "origins": list(s.origins),
            }
            for s in o.statement.symbols
        ],
        "assumptions": [{"text": expr_text(h.expr), "origin": h.origin} for h in o.statement.hypotheses],
    }


def proved_data(p: Proved) -> dict[str, Any]:
    data = obligation_data(p.obligation)
    data["script"] = script_lines(next((r.script for r in p.result.routes if r.script), ""))
    data["verdict"] = p.result.verdict.value
    data["routes"] = [_route(r) for r in p.result.routes]
    found = p.result.counterexample
    if found is not None:
        data["counterexample"] = {"values": dict(found.values), "left": found.left, "right": found.right}
    return data


def script_lines(text: str) -> list[str]:
    """A script as a list of lines, which makes certificates readable and their differences small."""
    return text.removesuffix("\n").split("\n") if text else []


def _route(r: RouteResult) -> dict[str, Any]:
    return {"route": r.route, "verdict": r.verdict.value, "ms": round(r.ms, 1), "detail": r.detail}

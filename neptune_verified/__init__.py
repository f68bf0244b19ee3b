"""neptune_verified: a verification-first tensor compiler.

>>> import neptune_verified as nv
>>> program = nv.Program.from_te(inputs=[q, k, v], outputs=[o], name="attention")   # doctest: +SKIP
>>> kernel = nv.compile(program, target="interpret")                                # doctest: +SKIP

Names are imported when they are first used, so that importing the package stays cheap: TVM, torch and SymPy take seconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Program": "neptune_verified.ir.program",
    "bounded": "neptune_verified.frontend.te",
    "at_least": "neptune_verified.frontend.te",
    "positive": "neptune_verified.frontend.te",
    "nonnegative": "neptune_verified.frontend.te",
    "nonzero": "neptune_verified.frontend.te",
    "finite_or_minus_infinity": "neptune_verified.frontend.te",
    "multiple_of": "neptune_verified.frontend.te",
    "neg_inf": "neptune_verified.frontend.te",
    "compile": "neptune_verified.pipeline",
    "verify": "neptune_verified.pipeline",
    "Kernel": "neptune_verified.pipeline",
    "Schedule": "neptune_verified.schedule",
    "load": "neptune_verified.runtime",
    "check": "neptune_verified.proofs.check",
    "merge": "neptune_verified.merging",
    "merge_report": "neptune_verified.merging",
    "audit": "neptune_verified.auditing.run",
    "record": "neptune_verified.auditing.recording",
    "prove_repair": "neptune_verified.repairs",
    "derive_repair": "neptune_verified.repairs",
    "prove_reducer": "neptune_verified.reducers",
    "VerificationError": "neptune_verified.errors",
    "UnsupportedProgram": "neptune_verified.errors",
    "ShapeError": "neptune_verified.errors",
}

if TYPE_CHECKING:
    from neptune_verified.auditing.recording import record
    from neptune_verified.auditing.run import audit
    from neptune_verified.errors import ShapeError, UnsupportedProgram, VerificationError
    from neptune_verified.frontend.te import (
        at_least,
        bounded,
        finite_or_minus_infinity,
        multiple_of,
        neg_inf,
        nonnegative,
        nonzero,
        positive,
    )
    from neptune_verified.ir.program import Program
    from neptune_verified.merging import merge, merge_report
    from neptune_verified.pipeline import Kernel, compile, verify
    from neptune_verified.proofs.check import check
    from neptune_verified.reducers import prove_reducer
    from neptune_verified.repairs import derive_repair, prove_repair
    from neptune_verified.runtime import load
    from neptune_verified.schedule import Schedule

__all__ = [
    "Kernel",
    "Program",
    "Schedule",
    "ShapeError",
    "UnsupportedProgram",
    "VerificationError",
    "at_least",
    "audit",
    "bounded",
    "check",
    "compile",
    "derive_repair",
    "finite_or_minus_infinity",
    "load",
    "merge",
    "merge_report",
    "multiple_of",
    "neg_inf",
    "nonnegative",
    "nonzero",
    "positive",
    "prove_reducer",
    "prove_repair",
    "record",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'neptune_verified' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])

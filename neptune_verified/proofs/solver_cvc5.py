"""Trusted, where it is asked for: cvc5 as a second solver for the scripts of a certificate (optional package cvc5)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from neptune_verified.proofs.verdict import Verdict

#: Wall clock of one script: a hundred times the slowest of the known true statements.
LIMIT_MS = 5_000


class SolverUnavailable(ValueError):
    """The solver that was asked for is not installed; the message says how to get it."""


def load() -> Any:
    """The module cvc5. Raises SolverUnavailable."""
    try:
        return import_module("cvc5")
    except ImportError:
        raise SolverUnavailable("cvc5 is not installed: `pip install cvc5`, or check with Z3 (the default)") from None


def run_script(text: str, timeout_ms: int = LIMIT_MS) -> Verdict:
    """PROVED only if the one check of the text gives unsat. Anything else proves nothing."""
    cvc5 = load()
    try:
        solver = cvc5.Solver(cvc5.TermManager())
        solver.setOption("tlimit-per", str(timeout_ms))
        parser = cvc5.InputParser(solver)
        parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "script")
        answers = _run(parser, solver)
    except Exception:  # malformed text proves nothing; cvc5's own exceptions have no common base
        return Verdict.UNKNOWN
    return Verdict.PROVED if answers == ["unsat"] else Verdict.UNKNOWN


def _run(parser: Any, solver: Any) -> list[str]:
    answers: list[str] = []
    symbols = parser.getSymbolManager()
    while True:
        command = parser.nextCommand()
        if command.isNull():
            return answers
        said = command.invoke(solver, symbols).strip()
        if said and said != "success":
            answers.append(said)

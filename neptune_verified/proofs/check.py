"""Trusted: checks a saved folder and believes nothing in it but program.json.

1. program.json is read; its definition is printed for a person, because it is what was proved.
2. loop.json is read; the loop program must come from the definition by the stated steps (``kernel.check_structure``).
3. Every statement that the loop program needs is made anew (``kernel.required``), decided again by both routes, and its
   script is run again by the solver that was asked for.
4. certificate.json must say exactly that: the same statements, symbols, assumptions and scripts, all proved.
5. kernel.py is read back and proved to compute the loop program (``proofs.text``); certificate.json must say what was found.
6. The hashes of definition, loop program and kernel text must agree, the one in the kernel's docstring included.

Every difference is a ``Problem``. A kernel.py that holds no Triton (target "llvm") is bound to the proofs by its hash alone,
and the coverage says so. Imports neither TVM nor torch nor ``fusion`` nor ``tile``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neptune_verified.ir.jsontext import FormatError, read_text
from neptune_verified.ir.loops import LoopProgram
from neptune_verified.ir.loops_json import refusal_data
from neptune_verified.ir.printing import program_text
from neptune_verified.ir.program import Program
from neptune_verified.ir.serialize import SEMANTICS_VERSION, loops_from_json, program_from_json, sha256
from neptune_verified.proofs import route_z3, solver_cvc5
from neptune_verified.proofs.certificate import assumptions_data, definition_hash, obligation_data, script_lines
from neptune_verified.proofs.certificate_format import certificate_from_json
from neptune_verified.proofs.discharge import Discharged, discharge
from neptune_verified.proofs.kernel import (
    LOOPS_COVERAGE,
    Refused,
    check_structure,
    coverage_of,
    required,
)
from neptune_verified.proofs.obligations import Obligation
from neptune_verified.proofs.text import TextRefused, prove_text
from neptune_verified.proofs.text.evidence import text_data
from neptune_verified.proofs.verdict import RouteResult, Verdict

SOLVERS: dict[str, Callable[[str], Verdict]] = {"z3": route_z3.run_script, "cvc5": solver_cvc5.run_script}
_TRITON = re.compile(r"^\s*(import|from) triton", re.MULTILINE)
_DOCSTRING_HASH = re.compile(r"^definition: (\S*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason why the folder is not what it claims to be."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True, slots=True)
class Checked:
    """A statement made anew, both routes' verdict, and what the solver said of its script."""

    id: str
    stage: str
    step: str
    verdict: Verdict
    script: Verdict


@dataclass(frozen=True, slots=True)
class CheckReport:
    """``ok`` only if there is no problem and every statement was proved again."""

    folder: str
    solver: str
    definition: str
    checked: tuple[Checked, ...]
    problems: tuple[Problem, ...]
    seconds: float
    coverage: str
    kernels: int = 0

    @property
    def ok(self) -> bool:
        return not self.problems

    def text(self) -> str:
        """Coverage, the definition in readable mathematics, what was proved again, and every problem."""
        lines = [self.coverage, "", "definition:", *(f"  {line}" for line in self.definition.splitlines()), ""]
        again = sum(c.verdict is Verdict.PROVED and c.script is Verdict.PROVED for c in self.checked)
        lines.append(f"{again} of {len(self.checked)} statements proved again, scripts run by {self.solver}")
        if self.kernels:
            s = "" if self.kernels == 1 else "s"
            lines.append(f"kernel.py read back and proved, at {self.kernels} tile configuration{s}")
        lines += [f"problem: {p}" for p in self.problems]
        lines.append(f"{self.folder}: {'ok' if self.ok else f'NOT ok, {len(self.problems)} problem(s)'}")
        return "\n".join(lines)


def check(folder: str | Path, solver: str = "z3", progress: Callable[[Checked], None] | None = None) -> CheckReport:
    """Check a folder that ``save`` wrote.

    Raises FileNotFoundError without a program.json, FormatError if it is malformed (then there is nothing to check
    against), SolverUnavailable if cvc5 is asked for and missing. Everything else is a problem in the report."""
    if solver not in SOLVERS:
        raise ValueError(f"unknown solver {solver!r}: choose one of {', '.join(SOLVERS)}")
    if solver == "cvc5":
        solver_cvc5.load()
    start = time.perf_counter()
    program = program_from_json(read_text(Path(folder), "program.json"))
    run = _Check(Path(folder), program, SOLVERS[solver], progress)
    run.all()
    seconds = time.perf_counter() - start
    return CheckReport(
        Path(folder).name,
        solver,
        program_text(program),
        tuple(run.checked),
        tuple(run.problems),
        seconds,
        run.coverage,
        run.kernels,
    )


class _Check:
    def __init__(
        self,
        folder: Path,
        program: Program,
        solve: Callable[[str], Verdict],
        progress: Callable[[Checked], None] | None,
    ) -> None:
        self.folder, self.program, self.solve, self.progress = folder, program, solve, progress
        self.coverage, self.kernels, self.triton = LOOPS_COVERAGE, 0, False
        self.problems: list[Problem] = []
        self.checked: list[Checked] = []

    def problem(self, where: str, what: str) -> None:
        self.problems.append(Problem(where, what))

    def all(self) -> None:
        definition = definition_hash(self.program)
        loops_text, kernel, certificate_text = (self.text(n) for n in ("loop.json", "kernel.py", "certificate.json"))
        loops = self.loops(loops_text) if loops_text is not None else None
        certificate = self.certificate(certificate_text) if certificate_text is not None else None
        if kernel is not None:
            self.docstring(kernel, definition)
        if certificate is not None:
            self.hash(certificate, "definition", "program.json", definition)
            self.hash(certificate, "loops", "loop.json", loops_text and f"sha256:{sha256(loops_text)}")
            self.hash(certificate, "kernel", "kernel.py", kernel and f"sha256:{sha256(kernel)}")
            if kernel is None:  # a problem of its own
                self.coverage = certificate["coverage"]
            elif _TRITON.search(kernel):
                self.triton = True
                self.coverage = coverage_of(loops, True) if loops is not None else certificate["coverage"]
            self.header(certificate, loops)
        if loops is not None:
            self.statements(loops, certificate)
            if kernel is not None and self.triton:
                self.kernel_text(loops, kernel, certificate)

    # -- files ---------------------------------------------------------------------------------------------

    def text(self, name: str) -> str | None:
        try:
            return read_text(self.folder, name)
        except FileNotFoundError:
            self.problem(name, "the file is missing")
        except FormatError as e:
            self.problem(name, str(e).removeprefix(f"{name}: "))
        return None

    def loops(self, text: str) -> LoopProgram | None:
        try:
            return loops_from_json(text, self.program, SEMANTICS_VERSION)
        except FormatError as e:
            self.problem("loop.json", str(e).removeprefix("loop.json: "))
            return None

    def certificate(self, text: str) -> dict[str, Any] | None:
        try:
            return certificate_from_json(text)
        except FormatError as e:
            self.problem("certificate.json", str(e).removeprefix("certificate.json: "))
            return None

    def docstring(self, kernel: str, definition: str) -> None:
        found = _DOCSTRING_HASH.findall(kernel)
        if found != [definition]:
            said = ", ".join(found) or "no definition at all"
            self.problem("kernel.py", f"its docstring names {said}, program.json is {definition}")

    def hash(self, certificate: dict[str, Any], name: str, file: str, own: str | None) -> None:
        stored = certificate["hashes"][name]
        if own is not None and stored != own:
            self.problem(file, f"not the file that was certified: it hashes to {own}, the certificate says {stored}")

    def header(self, certificate: dict[str, Any], loops: LoopProgram | None) -> None:
        wanted: dict[str, Any] = {
            "coverage": self.coverage,
            "semantics_version": SEMANTICS_VERSION,
            "program": self.program.name,
            "assumptions": assumptions_data(self.program),
            "notes": list(self.program.notes),
        }
        if loops is not None:
            wanted |= {"passes": loops.passes, "refused": [refusal_data(r) for r in loops.refusals]}
        for name, own in wanted.items():
            if certificate[name] != own:
                self.problem("certificate.json", f"{name}: it says {certificate[name]!r}, should be {own!r}")

    def kernel_text(self, loops: LoopProgram, kernel: str, certificate: dict[str, Any] | None) -> None:
        """kernel.py is read back; the certificate says of it what was found."""
        target = certificate["kernel"].get("target") if certificate else None
        found = re.search(r'^TARGET = "([^"]*)"$', kernel, re.MULTILINE)
        if certificate is not None and (found is None or target != found.group(1)):
            self.problem("certificate.json", f"kernel: its target is {target!r}, kernel.py has another")
        try:
            proof = prove_text(loops, kernel, found.group(1) if found else "")
        except TextRefused as e:
            for finding in e.findings:
                self.problem("kernel.py", f"{finding.id}: {finding.where.removeprefix('kernel.py:')}: {finding.what}")
            return
        except Exception as e:  # a text from elsewhere may be ill in any way; nothing is proved then
            self.problem("kernel.py", f"it cannot be read back: {type(e).__name__}: {e}")
            return
        self.kernels = len(proof.kernels)
        if certificate is not None and certificate["text"] != text_data(proof):
            self.problem("certificate.json", "text: it says something else of kernel.py than what was proved")

    # -- statements ----------------------------------------------------------------------------------------

    def obligations(self, loops: LoopProgram) -> tuple[Obligation, ...]:
        try:
            check_structure(loops)
        except Refused as e:
            self.problem("loop.json", str(e))
            return ()
        try:
            return required(loops)
        except Refused as e:
            self.problem("loop.json", f"what must be proved of it cannot be stated: {e}")
        except Exception as e:  # a loop program from elsewhere may be ill in any way; nothing is proved then
            self.problem("loop.json", f"what must be proved of it cannot be stated: {type(e).__name__}: {e}")
        return ()

    def statements(self, loops: LoopProgram, certificate: dict[str, Any] | None) -> None:
        """Each statement is decided again; the certificate lists exactly these, with their scripts, all proved."""
        left = list(certificate["obligations"]) if certificate else []
        wanted_order = self.obligations(loops)
        if certificate is not None:
            self.order(wanted_order, left)
        for o in wanted_order:
            wanted = obligation_data(o)
            entry = next((e for e in left if all(e[k] == wanted[k] for k in ("id", "stage", "step"))), None)
            self.prove(o, entry)
            if entry is not None:
                left.remove(entry)
                self.compare(o, wanted, entry)
            elif certificate is not None:
                self.problem("certificate.json", f"{_name(o)}: it is missing")
        for entry in left:
            self.problem("certificate.json", f"{entry['id']}, {entry['step']}, is no obligation of this loop program")

    def order(self, obligations: tuple[Obligation, ...], entries: list[dict[str, Any]]) -> None:
        """The certificate lists the obligations as they are stated anew; a missing or foreign one is told by name."""
        stated = [(o.id, o.stage, o.step) for o in obligations]
        listed = [(e["id"], e["stage"], e["step"]) for e in entries]
        if stated != listed and sorted(stated) == sorted(listed):
            self.problem("certificate.json", "its obligations stand in another order than they are stated")

    def prove(self, o: Obligation, entry: dict[str, Any] | None) -> None:
        result = _discharge(o)
        if entry is not None and result.verdict is Verdict.PROVED:
            ran, listed = [r.route for r in result.routes], [r["route"] for r in entry["routes"]]
            if ran != listed and len(listed) > 1:
                routes = f"its routes are {', '.join(listed)}, should be {', '.join(ran)}"
                self.problem("certificate.json", f"{_name(o)}: {routes}")
        own = next((r.script for r in result.routes if r.script), "")
        stored = "\n".join([*entry["script"], ""]) if entry else ""
        script = stored if stored in _scripts(o) else own
        said = self.solve(script) if script else Verdict.UNSUPPORTED
        self.checked.append(Checked(o.id, o.stage, o.step, result.verdict, said))
        if self.progress:
            self.progress(self.checked[-1])
        if result.verdict is not Verdict.PROVED:
            found = result.counterexample
            details = "; ".join(f"{r.route} says {r.verdict.value}" for r in result.routes)
            self.problem("loop.json", f"{_name(o)}: {result.verdict.value}{f' {found}' if found else ''} ({details})")
        elif said is not Verdict.PROVED:
            self.problem("loop.json", f"{_name(o)}: the solver says {said.value} of its script")

    def compare(self, o: Obligation, wanted: dict[str, Any], entry: dict[str, Any]) -> None:
        for name in (k for k in wanted if entry[k] != wanted[k]):
            self.problem("certificate.json", f"{_name(o)}: its {name} differs from the one stated anew")
        if entry["script"] not in [script_lines(text) for text in _scripts(o)]:
            self.problem("certificate.json", f"{_name(o)}: its script is not that of its statement")
        said = {entry["verdict"], *(r["verdict"] for r in entry["routes"])}
        if said != {Verdict.PROVED.value} or len(entry["routes"]) < 2:
            self.problem("certificate.json", f"{_name(o)}: it is not recorded as proved by both routes")


def _scripts(o: Obligation) -> list[str]:
    """The texts that the Z3 route can run: the second one adds facts about exp and log when the first does not do."""
    try:
        return [route_z3.script(o.statement, facts) for facts in (False, True)]
    except Exception:  # fail closed: a statement without a text has no script
        return []


def _name(o: Obligation) -> str:
    return f"{o.id}, {o.step}" + (f" ({o.stage})" if o.stage not in o.step.split() else "")


def _discharge(o: Obligation) -> Discharged:
    try:
        return discharge(o.statement)
    except Exception as e:  # fail closed: a statement from elsewhere may be ill in any way
        return Discharged(Verdict.UNKNOWN, (RouteResult("none", Verdict.UNKNOWN, detail=f"{type(e).__name__}: {e}"),))

"""Not trusted: the content of a report, in plain texts and numbers.

It is built from a definition, its loop program and a certificate, whether these are objects or files of a folder, so
that both give the same report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neptune_verified.ir.jsontext import FormatError, read_text
from neptune_verified.ir.loops import Hoist, LoopProgram, Nest, Refusal
from neptune_verified.ir.loops_json import refusal_data
from neptune_verified.ir.loops_text import guard_text, loops_text
from neptune_verified.ir.printing import Printer, program_text
from neptune_verified.ir.program import Program
from neptune_verified.ir.program_json import base_name
from neptune_verified.ir.serialize import loops_from_json, program_from_json, program_hash
from neptune_verified.proofs.certificate_format import certificate_from_json
from neptune_verified.report.uses import FactLine, fact_lines

if TYPE_CHECKING:
    from rich.console import Group

    from neptune_verified.proofs.kernel import Proved, VerifiedProgram
    from neptune_verified.proofs.text import TextProof


@dataclass(frozen=True, slots=True)
class HoistLine:
    """``stage`` is computed as ``text``: loop-invariant factors have left its reduction."""

    stage: str
    text: str


@dataclass(frozen=True, slots=True)
class FusedEdge:
    """``consumer`` runs in the pass of its ``producers``, repaired by ``repair`` (t is the accumulator)."""

    kernel: str
    consumer: str
    producers: tuple[str, ...]
    strategy: str
    repair: str
    guards: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """``coverage`` says what was proved and what was not checked, and comes first everywhere. ``obligations``, ``text``
    (what was proved of the kernel's text), ``assumptions``, ``kernel``, ``hashes`` and ``tools`` are those of the
    certificate (docs/certificate.md)."""

    coverage: str
    program: str
    definition: tuple[str, ...]
    locations: Mapping[str, str]
    loops: tuple[str, ...]
    kernels: int
    passes: int
    hoists: tuple[HoistLine, ...]
    fused: tuple[FusedEdge, ...]
    refused: tuple[Refusal, ...]
    obligations: tuple[Mapping[str, Any], ...]
    text: tuple[Mapping[str, Any], ...]
    assumptions: tuple[Mapping[str, str], ...]
    facts: tuple[FactLine, ...]
    notes: tuple[str, ...]
    roundings: tuple[str, ...]
    kernel: Mapping[str, Any]
    hashes: Mapping[str, str]
    tools: Mapping[str, str]

    @classmethod
    def from_folder(cls, path: str | Path) -> Report:
        """The report of a folder that ``save`` wrote. It shows what the certificate says; ``proofs.check`` proves it.

        Raises FileNotFoundError or FormatError, in one line."""
        folder = Path(path)
        if not folder.is_dir():
            raise FileNotFoundError(f"there is no folder {folder.name}")
        program = program_from_json(read_text(folder, "program.json"))
        certificate = certificate_from_json(read_text(folder, "certificate.json"))
        version = certificate["semantics_version"]
        if certificate["hashes"]["definition"] != f"sha256:{program_hash(program, version)}":
            raise FormatError("certificate.json: it belongs to another definition than program.json")
        return cls.from_parts(loops_from_json(read_text(folder, "loop.json"), program, version), certificate)

    @classmethod
    def from_verified(
        cls,
        verified: VerifiedProgram,
        kernel_text: str = "",
        extra: Mapping[str, Any] | None = None,
        coverage: str | None = None,
        text: TextProof | None = None,
    ) -> Report:
        """The report of a verified program. The arguments are those of ``certificate.make_certificate``."""
        coverage = coverage or verified.coverage
        return cls.from_proved(verified.loops, verified.proved, coverage, kernel_text, extra, text)

    @classmethod
    def from_proved(
        cls,
        loops: LoopProgram,
        proved: Iterable[Proved],
        coverage: str,
        kernel_text: str = "",
        extra: Mapping[str, Any] | None = None,
        text: TextProof | None = None,
    ) -> Report:
        """The report of a program of which some obligation may have failed; ``coverage`` has to say so."""
        from neptune_verified.proofs.certificate import evidence

        return cls.from_parts(loops, evidence(loops, proved, kernel_text, extra or {}, coverage, text))

    @classmethod
    def from_parts(cls, loops: LoopProgram, certificate: Mapping[str, Any]) -> Report:
        program = loops.program
        return cls(
            certificate["coverage"],
            program.name,
            tuple(program_text(program).splitlines()),
            {s.name: f"{base_name(s.loc.file)}:{s.loc.line}" for s in program.stages if s.loc.file},
            tuple(loops_text(loops).splitlines()),
            len(loops.nests),
            loops.passes,
            tuple(_hoist_line(h, program) for nest in loops.nests for h in nest.hoists),
            tuple(edge for nest in loops.nests for edge in _fused_edges(nest)),
            loops.refusals,
            tuple(certificate["obligations"]),
            tuple(certificate["text"]),
            tuple(certificate["assumptions"]),
            fact_lines(certificate["assumptions"], certificate["obligations"]),
            tuple(certificate["notes"]),
            tuple(certificate["roundings"]),
            certificate["kernel"],
            certificate["hashes"],
            certificate["tools"],
        )

    def summary(self) -> str:
        """One line: "attention: 1 kernel, 1 pass; 2 edges fused, 0 not; 23 of 23 obligations proved"."""
        proved = sum(o["verdict"] == "proved" for o in self.obligations)
        counts = f"{plural(self.kernels, 'kernel')}, {plural(self.passes, 'pass', 'passes')}"
        edges = f"{plural(len(self.fused), 'edge')} fused, {len(self.refused)} not"
        return f"{self.program}: {counts}; {edges}; {proved} of {plural(len(self.obligations), 'obligation')} proved"

    def to_json(self) -> dict[str, Any]:
        """Plain dicts and lists, coverage first."""
        return {**asdict(self), "refused": [refusal_data(r) for r in self.refused]}

    def markdown(self) -> str:
        from neptune_verified.report.markdown import markdown

        return markdown(self)

    def html(self) -> str:
        """One file without script that needs nothing from outside."""
        from neptune_verified.report.html import html

        return html(self)

    def terminal(self) -> Group:
        from neptune_verified.report.terminal import terminal

        return terminal(self)


def plural(n: int, one: str, many: str = "") -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"


def _hoist_line(h: Hoist, program: Program) -> HoistLine:
    """The template with each reduction that is left shown in full and everything else by its stage."""
    show = Printer(program)
    slots = {s.name: f"{r.reducer} of ({show(r.body)})" for s, r in zip(h.slots(), h.inner, strict=True)}
    text = show(h.template)
    where = "; ".join(f"{name} = {shown}" for name, shown in slots.items())
    return HoistLine(h.name, f"{text} with {where}")


def _fused_edges(nest: Nest) -> Iterable[FusedEdge]:
    for p in nest.passes:
        for c in p.carried:
            if c.repair is not None:
                guards = tuple(guard_text(g, c.repair.guard_old) for g in c.repair.guards)
                if c.repair.keep_neutral:
                    guards += (f"the accumulator stays {Printer()(c.neutral)} while nothing was seen",)
                if c.repair.hold:
                    guards += (
                        "the accumulator is left alone while a producer's old value is one of these, or infinite",
                    )
                shown = Printer()(c.repair.h)
                yield FusedEdge(nest.name, c.name, c.repair.producers, c.repair.strategy, shown, guards)


__all__ = ["FusedEdge", "HoistLine", "Report", "plural"]

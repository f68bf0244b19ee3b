"""Not trusted: what the reader of kernel files says of an edited one, and whether the edit is wrong.

The reader is asked first, then the file is run. An edit is wrong if a run shows it, or if its kind is wrong although no
small run can show it."""

from __future__ import annotations

import importlib
import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from neptune_verified.ir.loops import LoopProgram
from neptune_verified.ir.program_json import program_hash
from neptune_verified.ir.serialize import SEMANTICS_VERSION
from neptune_verified.mutants.text_catalogue import TextMutant
from neptune_verified.mutants.text_programs import TARGET, text_base
from neptune_verified.mutants.text_seen import SAME, Seen

#: Returns the findings for which a file is refused: (obligation id, place, what). None: it is accepted.
Reader = Callable[[LoopProgram, str, str], "list[Finding] | None"]

KILLED, CAUTIOUS, EQUIVALENT, SURVIVED, UNREAD = "killed", "refused", "equivalent", "SURVIVED", "not read"
STATUSES = (KILLED, CAUTIOUS, EQUIVALENT, SURVIVED, UNREAD)
ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a file is refused. ``id`` is an obligation's; "error" if the reader itself failed."""

    id: str
    where: str
    what: str


@dataclass(frozen=True, slots=True)
class TextRow:
    """One edit, what it does, and what was said of it."""

    name: str
    program: str
    group: str
    kind: str
    line: int
    why: str
    seen: Seen
    findings: tuple[Finding, ...] | None
    read: bool

    @property
    def wrong(self) -> bool:
        return self.seen.status != SAME or bool(self.why)

    @property
    def status(self) -> str:
        if not self.read:
            return UNREAD
        if self.findings is None:
            return SURVIVED if self.wrong else EQUIVALENT
        # A reader that fails has not refused anything for a reason.
        if any(f.id == ERROR for f in self.findings):
            return SURVIVED if self.wrong else CAUTIOUS
        return KILLED if self.wrong else CAUTIOUS

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(sorted({f.id for f in self.findings or ()}, key=lambda i: (len(i), i)))

    @property
    def at_the_line(self) -> bool:
        """Whether some finding names the line that was edited."""
        return any(re.search(rf":{self.line}\b", f.where) for f in self.findings or ())

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "program": self.program,
            "group": self.group,
            "kind": self.kind,
            "line": self.line,
            "status": self.status,
            "wrong": self.wrong,
            "by_kind": self.why,
            "run": self.seen.status,
            "difference": self.seen.where,
            "findings": [{"id": f.id, "where": f.where, "what": f.what} for f in self.findings or ()],
        }


def reader() -> Reader | None:
    """The reader of kernel files, or None where this version has none."""
    try:
        text = importlib.import_module("neptune_verified.proofs.text")
    except ModuleNotFoundError as e:
        if e.name != "neptune_verified.proofs.text":
            raise
        return None

    named = "definition" in inspect.signature(text.read_back).parameters

    def read(loops: LoopProgram, source: str, target: str) -> list[Finding] | None:
        more = {"definition": program_hash(loops.program, SEMANTICS_VERSION)} if named else {}
        try:
            text.read_back(loops, source, target, **more)
        except text.TextRefused as refused:
            found = [Finding(str(f.id), str(f.where), str(f.what)) for f in refused.findings]
            return found or [Finding(ERROR, "", "refused without a finding")]
        except Exception as e:
            return [Finding(ERROR, "", f"{type(e).__name__}: {' '.join(str(e).split())[:200]}")]
        return None

    return read


def right_file_findings(read: Reader, programs: Iterable[str]) -> dict[str, list[Finding]]:
    """Programs whose right file is refused: what is said of their edits says nothing."""
    found = {}
    for p in programs:
        base = text_base(p)
        if (findings := read(base.loops, base.source, TARGET)) is not None:
            found[p] = findings
    return found


def judge_text(mutant: TextMutant, read: Reader | None, look: Callable[[str, str], Seen]) -> TextRow:
    """``look`` runs a file (``Oracle.ask``)."""
    m = mutant
    findings = read(text_base(m.program).loops, m.source, TARGET) if read else None
    seen = look(m.program, m.source)
    kept = None if findings is None else tuple(findings)
    return TextRow(m.name, m.program, m.group, m.kind, m.line, m.why, seen, kept, read is not None)


@dataclass(frozen=True)
class TextSummary:
    rows: tuple[TextRow, ...]
    refused_bases: dict[str, list[Finding]]

    def count(self, status: str) -> int:
        return sum(r.status == status for r in self.rows)

    def of(self, status: str) -> list[TextRow]:
        return [r for r in self.rows if r.status == status]

    @property
    def wrong(self) -> list[TextRow]:
        return [r for r in self.rows if r.wrong]

    @property
    def kill_rate(self) -> float:
        wrong = [r for r in self.wrong if r.status != UNREAD]
        return sum(r.status == KILLED for r in wrong) / len(wrong) if wrong else 0.0

    @property
    def fine(self) -> bool:
        """Every wrong file is refused, every right one accepted, and there was a reader to say so."""
        return not (self.of(SURVIVED) or self.of(UNREAD) or self.refused_bases)

    def kinds(self) -> dict[str, Counter[str]]:
        """kind -> how many edits, by status, by what a run shows, by obligation id of the refusal."""
        table: dict[str, Counter[str]] = {}
        order = {g: k for k, g in enumerate(dict.fromkeys(r.group for r in self.rows))}
        for r in sorted(self.rows, key=lambda r: (order[r.group], r.kind)):
            cells = table.setdefault(f"{r.group}: {r.kind}", Counter())
            cells["mutants"] += 1
            cells["wrong"] += r.wrong
            cells.update((r.status, r.seen.status, *r.ids))
            cells["by kind"] += bool(r.why) and r.seen.status == SAME
        return table

    def ids(self) -> list[str]:
        return sorted({i for r in self.rows for i in r.ids}, key=lambda i: (len(i), i))

    def alone(self, id_: str) -> list[TextRow]:
        """Wrong edits that this obligation alone refuses."""
        return [r for r in self.of(KILLED) if r.ids == (id_,)]

    def to_json(self) -> dict[str, Any]:
        return {
            "mutants": len(self.rows),
            "programs": sorted({r.program for r in self.rows}),
            "counts": {s: self.count(s) for s in STATUSES},
            "runs": dict(Counter(r.seen.status for r in self.rows)),
            "wrong": len(self.wrong),
            "kill_rate": self.kill_rate,
            "refused_right_files": {
                p: [f"{f.id} {f.where}: {f.what}" for f in fs] for p, fs in self.refused_bases.items()
            },
            "survivors": [r.name for r in self.of(SURVIVED)],
            "equivalent": [r.name for r in self.of(EQUIVALENT)],
            "kinds": {k: dict(c) for k, c in self.kinds().items()},
            "all": [r.to_json() for r in self.rows],
        }


__all__ = ["Finding", "Reader", "TextRow", "TextSummary", "judge_text", "reader", "right_file_findings"]

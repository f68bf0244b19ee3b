"""Not trusted: what an audit found, as data; how it is shown is in ``terminal`` and ``html``."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from neptune_verified.auditing.statistics import Statistics, joined, plain

#: The names of the two contestants that every audit has: the kernel, and the definition stage by stage in its own types.
KERNEL, UNFUSED = "kernel", "unfused"
FORMAT = "neptune_verified audit 1"


@dataclass(frozen=True)
class OutputInfo:
    """An output of the definition: its dtype ("float16") and the names of its axes."""

    name: str
    dtype: str
    axes: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """One element of one output of the kernel: the worst of a sample. ``bound`` is None where none follows."""

    sample: str
    output: str
    index: tuple[int, ...]
    have: float
    want: float
    error: float
    ulps: float
    bound: float | None

    @property
    def of_bound(self) -> float:
        """Error over bound; 0 where there is no bound or no error, infinite where the bound is 0 and there is one."""
        if self.bound is None or self.error == 0:
            return 0.0
        return self.error / self.bound if self.bound else math.inf


@dataclass
class Sample:
    """One set of inputs and what came of it. ``origin``: "generated", "file" or "searched"; ``family`` of the generated
    ones ("normal", "very large", ...), the file's name of the others. ``shapes`` by input; ``scalars`` by name."""

    name: str
    origin: str
    family: str
    shapes: dict[str, tuple[int, ...]]
    scalars: dict[str, float]
    #: contestant -> output -> statistics; a peer that gives fewer outputs has fewer.
    statistics: dict[str, dict[str, Statistics]] = field(default_factory=dict)
    #: The kernel's worst element of each output, by error over bound, or by ulps where there is no bound.
    worst: tuple[Case, ...] = ()
    #: The kernel's rows with the greatest RMS error: output, index of the row, RMS.
    rows: tuple[tuple[str, tuple[int, ...], float], ...] = ()
    #: What was changed before anything ran ("q: float32 to float16").
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Check:
    """One line of the budget. ``measured`` and ``limit`` are numbers in ``unit`` ("ulps", "x its bound", "elements")."""

    name: str
    output: str
    measured: float
    limit: float
    unit: str
    ok: bool
    #: The sample that shows it, where one does.
    sample: str = ""


@dataclass
class AuditResult:
    """Errors of a kernel and of its peers on the same inputs against float64, and whether they are within the budget.

    ``file``: whether the kernel's text is the one that its certificate is bound to. ``missing``: peers that could not
    run, and why. ``searched``: inputs tried by the search for bad ones, 0 without."""

    program: str
    target: str
    definition: str
    file: str
    machine: dict[str, str]
    outputs: tuple[OutputInfo, ...]
    contestants: tuple[str, ...]
    samples: list[Sample] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    searched: int = 0
    #: The inputs of the sample with the kernel's worst element: name -> tensor. Not part of the JSON.
    worst_inputs: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Within the budget."""
        return all(c.ok for c in self.checks)

    def total(self, contestant: str, output: str, *samples: str) -> Statistics:
        """Over all samples, or over those named."""
        chosen = [s for s in self.samples if not samples or s.name in samples]
        parts = (s.statistics.get(contestant, {}).get(output) for s in chosen)
        return joined(p for p in parts if p is not None)

    @property
    def worst(self) -> list[Case]:
        """The kernel's worst element of each output: of all samples, the largest error over bound, then ulps."""
        found = []
        for o in self.outputs:
            cases = [c for s in self.samples for c in s.worst if c.output == o.name]
            if cases:
                found.append(max(cases, key=lambda c: (c.of_bound, c.ulps, c.sample)))
        return found

    def data(self) -> dict[str, Any]:
        """For JSON (docs/audit.md)."""
        return {
            "format": FORMAT,
            "program": self.program,
            "target": self.target,
            "definition": self.definition,
            "file": self.file,
            "machine": self.machine,
            "ok": self.ok,
            "checks": [asdict(c) | {"measured": plain(c.measured), "limit": plain(c.limit)} for c in self.checks],
            "outputs": [asdict(o) for o in self.outputs],
            "contestants": list(self.contestants),
            "missing": self.missing,
            "searched": self.searched,
            "worst": [_case(c) for c in self.worst],
            "totals": {c: {o.name: self.total(c, o.name).data() for o in self.outputs} for c in self.contestants},
            "samples": [_sample(s) for s in self.samples],
        }

    def text(self) -> str:
        """The table of errors and the verdict, as plain text."""
        from neptune_verified.auditing.terminal import text

        return text(self)

    def html(self) -> str:
        """One page with the table and the plots; nothing in it comes from elsewhere."""
        from neptune_verified.auditing.html import html

        return html(self)

    def save(self, folder: str | Path) -> Path:
        """Write audit.json, audit.html and worst.pt (the inputs with the worst element); all or nothing.

        Raises FileExistsError for a folder that holds other files, OSError where it cannot be written."""
        from neptune_verified.auditing.saving import save

        return save(self, Path(folder))


def _case(c: Case) -> dict[str, Any]:
    numbers = {k: plain(getattr(c, k)) for k in ("have", "want", "error", "ulps")}
    bound = None if c.bound is None else plain(c.bound)
    return {"sample": c.sample, "output": c.output, "index": list(c.index)} | numbers | {"bound": bound}


def _sample(s: Sample) -> dict[str, Any]:
    return {
        "name": s.name,
        "origin": s.origin,
        "family": s.family,
        "shapes": {k: list(v) for k, v in s.shapes.items()},
        "scalars": {k: plain(v) for k, v in s.scalars.items()},
        "notes": list(s.notes),
        "worst": [_case(c) for c in s.worst],
        "rows": [{"output": o, "row": list(r), "rms": plain(x)} for o, r, x in s.rows],
        "statistics": {c: {o: x.summary() for o, x in per.items()} for c, per in s.statistics.items()},
    }

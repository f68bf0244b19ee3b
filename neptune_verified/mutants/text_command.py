"""Not trusted: ``neptune-verified mutants --text``: wrong edits of kernel files, run and read back."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from neptune_verified.mutants.text_catalogue import EACH, text_catalogue
from neptune_verified.mutants.text_judge import (
    CAUTIOUS,
    EQUIVALENT,
    KILLED,
    STATUSES,
    SURVIVED,
    UNREAD,
    Reader,
    TextRow,
    TextSummary,
    judge_text,
    reader,
    right_file_findings,
)  # fmt: skip
from neptune_verified.mutants.text_oracle import Oracle
from neptune_verified.mutants.text_programs import TEXT_PROGRAMS
from neptune_verified.mutants.text_seen import CHANGES, CRASHES, SAME


def text_mutants_command(
    every: bool = False,
    json_: bool = False,
    programs: Iterable[str] = (),
    out: Path | None = None,
    console: Console | None = None,
    each: int | None = EACH,
) -> bool:
    """Judge the edits and print the tables; True if every wrong file is refused and every right one accepted.

    ``every`` lists each edit; ``json_`` prints JSON, ``out`` is a file for it. ``each``: edits of one kind (None: all).
    Raises ValueError for an unknown program."""
    names = list(programs) or list(TEXT_PROGRAMS)
    for name in names:
        if name not in TEXT_PROGRAMS:
            raise ValueError(f"unknown program {name!r}: choose some of {', '.join(TEXT_PROGRAMS)}")
    start = time.perf_counter()
    console = console or Console()
    found = run_text(names, reader(), each, None if json_ else console)
    data = json.dumps(found.to_json() | {"seconds": round(time.perf_counter() - start, 1)}, indent=1)
    if out is not None:
        out.write_text(data + "\n")
    if json_:
        console.print_json(data)
    else:
        console.print(text_report(found, time.perf_counter() - start, every))
    return found.fine


def run_text(
    programs: list[str], read: Reader | None, each: int | None = EACH, console: Console | None = None
) -> TextSummary:
    """Every chosen edit of the programs, run and read back."""
    rows = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=console or Console(quiet=True), transient=True)
    with progress, Oracle() as oracle:
        task = progress.add_task("printing kernel files", total=None)
        mutants = text_catalogue(programs, each)
        refused = right_file_findings(read, programs) if read else {}
        progress.update(task, total=len(mutants))
        for m in mutants:
            progress.update(task, description=f"{m.program}: {m.kind}"[:48].ljust(48))
            rows.append(judge_text(m, read, oracle.ask))
            progress.advance(task)
    return TextSummary(tuple(rows), refused)


# ------------------------------------------------------------------------------------------------- the report


def text_report(found: TextSummary, seconds: float, every: bool = False) -> Group:
    parts: list[RenderableType] = [_table(found), Text()]
    if every:
        parts += [_listing(found), Text()]
    parts += [_ids(found), Text()] if found.ids() else []
    for status, what in ((EQUIVALENT, "accepted, and no run differs"), (CAUTIOUS, "refused, though no run differs")):
        rows = found.of(status)
        if rows:
            parts.append(Text(f"{what}: {', '.join(r.name for r in rows)}", style="dim"))
    for p, findings in found.refused_bases.items():
        f = findings[0]
        parts.append(Text(f"the right file of {p} is refused: {f.id} {f.where}: {f.what}", style="bold red"))
    parts += [Text(f"SURVIVED: {r.name}: {_reason(r)}", style="bold red") for r in found.of(SURVIVED)]
    programs = len({r.program for r in found.rows})
    counts = ", ".join(f"{found.count(s)} {s}" for s in STATUSES if found.count(s))
    runs = ", ".join(
        f"{sum(r.seen.status == s for r in found.rows)} {what}"
        for s, what in ((CHANGES, "change the result or the memory touched"), (CRASHES, "crash"), (SAME, "run alike"))
    )
    unseen = sum(r.seen.status == SAME and bool(r.why) for r in found.rows)
    parts.append(Text(f"{len(found.rows)} edits of {programs} kernel files in {seconds:.0f} s: {counts}"))
    parts.append(Text(f"run: {runs}; of these last {unseen} are wrong all the same"))
    if found.of(UNREAD):
        parts.append(Text("nothing was read back: neptune_verified.proofs.text is missing", style="bold red"))
    else:
        killed = found.count(KILLED)
        rate = (
            f"kill rate {100 * found.kill_rate:.4g} %: {len(found.wrong)} files are wrong, {killed} of them are refused"
        )
        parts.append(Text(rate, style="bold green" if found.fine else "bold red"))
    return Group(*parts)


def _table(found: TextSummary) -> Table:
    table = Table(title="wrong edits of kernel files", box=None, header_style="dim")
    columns = ["mutants", "wrong", CHANGES, CRASHES, "by kind", *(s for s in STATUSES if found.count(s)), *found.ids()]
    table.add_column("edit")
    for c in columns:
        table.add_column(c, justify="right", no_wrap=True)
    kinds = found.kinds()
    for kind, cells in kinds.items():
        table.add_row(kind, *(str(cells[c] or "") for c in columns))
    table.add_row("all", *(str(sum(cells[c] for cells in kinds.values())) for c in columns), style="bold")
    return table


def _ids(found: TextSummary) -> Table:
    table = Table(title="what each obligation refuses", box=None, show_header=False)
    for i in found.ids():
        alone = found.alone(i)
        example = f", {len(alone)} alone, e.g. {alone[0].name}" if alone else ", none alone"
        table.add_row(i, f"{sum(i in r.ids for r in found.of(KILLED))}{example}")
    return table


def _listing(found: TextSummary) -> Table:
    table = Table(title="every edit", box=None, header_style="dim")
    for name in ("edit", "verdict", "refused by", "what a run shows"):
        table.add_column(name, overflow="fold")
    for r in found.rows:
        table.add_row(r.name, r.status, ", ".join(r.ids), _reason(r))
    return table


def _reason(r: TextRow) -> str:
    error = "".join(f.what for f in r.findings or () if f.id == "error")
    seen = r.seen.where or (f"by kind: {r.why}" if r.why else "no difference found")
    return f"{seen}; the reader failed: {error}" if error else seen


__all__ = ["run_text", "text_mutants_command", "text_report"]

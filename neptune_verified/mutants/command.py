"""Not trusted: ``neptune-verified mutants``: judges the catalogue in parallel processes and prints the matrix."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from neptune_verified.mutants.catalogue import base, mutants_of
from neptune_verified.mutants.judge import COLUMNS, KILLED, SURVIVED, Row, judge
from neptune_verified.mutants.matrix import STATUSES, Summary, summary
from neptune_verified.mutants.programs import PROGRAMS

Progress = Callable[[str, int, int], None]
#: Programs that share statements are judged in one process, which remembers what was proved. The longest work comes first.
TOGETHER = (
    ("squared_weights", "logsumexp", "softmax", "sink"),
    ("masked_mean",),
    ("attention",),
    ("scaled_max", "signed_max", "turned_max"),
)


def mutants_command(
    text: bool = False,
    json_: bool = False,
    programs: Iterable[str] = (),
    jobs: int | None = None,
    progress: Progress | None = None,
    console: Console | None = None,
) -> bool:
    """Judge the catalogue and print it; True if every mutant that changes the meaning was refused.

    ``text`` lists every mutant, ``json_`` prints JSON; ``programs`` are names of mutants/programs.py (all of them).
    ``progress`` is told a program that is done, and how many of how many are. Raises ValueError for an unknown name."""
    start = time.perf_counter()
    names = list(programs) or list(PROGRAMS)
    strangers = [n for n in names if n not in PROGRAMS]
    if strangers:
        raise ValueError(f"unknown program {strangers[0]!r}: choose some of {', '.join(PROGRAMS)}")
    found = run(names, jobs or os.cpu_count() or 1, progress)
    seconds = time.perf_counter() - start
    console = console or Console()
    if json_:
        console.print_json(json.dumps(found.to_json() | {"seconds": round(seconds, 1)}))
    else:
        console.print(report(found, seconds, text))
    return not found.missed


def run(programs: list[str], jobs: int = 1, progress: Progress | None = None) -> Summary:
    """Every mutant of the programs, judged; the order does not depend on the number of processes."""
    rows: dict[str, list[Row]] = {}
    for name, done in _each(programs, jobs):
        rows[name] = done
        if progress:
            progress(name, len(rows), len(programs))
    return summary(row for name in programs for row in rows[name])


def _each(programs: list[str], jobs: int) -> Iterator[tuple[str, list[Row]]]:
    if jobs == 1 or len(programs) == 1:
        yield from ((name, judge_program(name)) for name in programs)
        return
    together = [[n for n in group if n in programs] for group in TOGETHER]
    grouped = {n for group in together for n in group}
    work = [group for group in together if group] + [[n] for n in programs if n not in grouped]
    # A fresh interpreter for each worker: the provers keep state that does not survive a fork.
    with ProcessPoolExecutor(min(jobs, len(work)), multiprocessing.get_context("spawn")) as pool:
        for future in as_completed([pool.submit(_judge_group, names) for names in work]):
            yield from future.result()


def _judge_group(names: list[str]) -> list[tuple[str, list[Row]]]:
    return [(name, judge_program(name)) for name in names]


def judge_program(name: str) -> list[Row]:
    """The judgements of one program's mutants."""
    return [judge(m, base(name)).row() for m in mutants_of(name)]


# ------------------------------------------------------------------------------------------------- the report


def report(found: Summary, seconds: float, every: bool = False) -> Group:
    parts: list[RenderableType] = [_matrix(found), Text(), _needed(found), Text()]
    if every:
        parts += [_listing(found), Text()]
    parts += [_line(r) for r in found.missed]
    programs = len({r.program for r in found.rows})
    counts = ", ".join(f"{found.count(s)} {s}" for s in STATUSES if found.count(s))
    parts.append(Text(f"{len(found.rows)} mutants of {programs} programs in {seconds:.0f} s: {counts}"))
    style = "bold red" if found.missed else "bold green"
    rate = f"{len(found.wrong)} change the meaning, {len(found.wrong) - len(found.missed)} of them are refused"
    parts.append(Text(f"kill rate {100 * found.kill_rate:.4g} %: {rate}", style=style))
    return Group(*parts)


def _matrix(found: Summary) -> Table:
    table = Table(title="mutants refused, by kind and by what refuses them", box=None, header_style="dim")
    for name in ("kind of mutant", "mutants", "wrong", *COLUMNS):
        table.add_column(
            name, justify="left" if name == "kind of mutant" else "right", no_wrap=name != "kind of mutant"
        )
    for kind, cells in found.matrix().items():
        table.add_row(kind, *(str(cells[c] or "") for c in ("mutants", KILLED, *COLUMNS)))
    totals = [sum(c in r.refused for r in found.rows) for c in COLUMNS]
    table.add_row("all", str(len(found.rows)), str(found.count(KILLED)), *map(str, totals), style="bold")
    return table


def _needed(found: Summary) -> Table:
    table = Table(title="what each check is needed for", box=None, show_header=False)
    for column in COLUMNS:
        table.add_row(column, found.needed(column))
    return table


def _listing(found: Summary) -> Table:
    table = Table(title="every mutant", box=None, header_style="dim")
    for name in ("mutant", "verdict", "refused by", "difference"):
        table.add_column(name, overflow="fold")
    for r in found.rows:
        table.add_row(r.name, r.status, ", ".join(r.refused) or ", ".join(f"{c}?" for c in r.unsure), r.difference)
    return table


def _line(r: Row) -> Text:
    what = "SURVIVED" if r.status == SURVIVED else "not decided"
    return Text(f"{what}: {r.name}: {r.difference}", style="bold red")


__all__ = ["judge_program", "mutants_command", "report", "run"]

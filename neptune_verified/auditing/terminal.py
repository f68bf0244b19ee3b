"""Not trusted: an audit for the terminal, and as plain text."""

from __future__ import annotations

import io
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from neptune_verified.auditing import tables
from neptune_verified.auditing.result import AuditResult, OutputInfo
from neptune_verified.auditing.tables import Table, View, clean
from neptune_verified.report.terminal import heading, indented, section

WIDTH = 80
#: Columns of numbers that stand beside each other; what is wider is cut into tables below each other.
ABREAST = 6


def text(result: AuditResult) -> str:
    """As plain text of 80 columns; its first line is the verdict."""
    out = io.StringIO()
    Console(file=out, width=WIDTH, color_system=None, force_terminal=False, emoji=False).print(renderable(result))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def renderable(result: AuditResult) -> Group:
    """The whole audit; its first line is the verdict."""
    return Group(*_parts(View(result)))


def _parts(view: View) -> Iterator[RenderableType]:
    r = view.result
    yield Text(tables.verdict(view), style="bold green" if view.passed else "bold red")
    subject = RichTable(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    subject.add_column(style="dim", overflow="fold")
    subject.add_column(overflow="fold")
    for name, value in tables.subject(r):
        subject.add_row(_cell(name), _cell(value))
    yield subject
    for output in r.outputs:
        yield from _output(view, output)
    yield from heading("checks")
    yield from _tables(tables.checks(r), "no budget")
    yield from section("worst element of the kernel", (clean(tables.worst_text(c)) for c in r.worst))
    for output in r.outputs:
        rows = tables.rows_of(r, output)
        if rows.rows:
            yield from heading(f"worst rows of {clean(output.name)}")
            yield from _tables(rows)
    for output in r.outputs:
        if list(view.ran(output)):
            yield from heading(f"RMS of {clean(output.name)} by family of samples")
            yield from _tables(tables.families(view, output))
    yield from section("peers that did not run", (clean(f"{name}: {why}") for name, why in r.missing.items()))
    yield from section("inputs", [tables.searched(r)])


def _output(view: View, output: OutputInfo) -> Iterator[RenderableType]:
    yield from heading(clean(f"error of {output.name}[{', '.join(output.axes)}], {output.dtype}, against float64"))
    if not list(view.ran(output)):
        yield indented("nobody gave this output")
        return
    yield from _tables(tables.errors(view, output))
    yield Text()
    yield from _tables(tables.counts(view, output))
    yield from (indented(note, style="dim") for note in tables.count_notes(view, output))


def _tables(t: Table, empty: str = "") -> Iterator[RenderableType]:
    """The table, cut where it has too many columns of numbers."""
    if not t.rows:
        yield indented(empty)
        return
    above = [name for name, many in t.groups for _ in range(many)] or [""] * len(t.columns)
    for start in range(t.numbers.start, t.numbers.stop, ABREAST):
        if start > t.numbers.start:
            yield Text()
        numbers = range(start, min(start + ABREAST, t.numbers.stop))
        shown = [k for k in range(len(t.columns)) if k in numbers or k not in t.numbers]
        grid = RichTable(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
        for k in shown:
            width = max(len(row[k]) for row in t.rows) if k in t.numbers else None
            head = Text("\n".join(filter(None, (above[k], clean(t.columns[k])))))
            grid.add_column(
                head, justify="right" if width else "left", min_width=width, overflow="fold", vertical="top"
            )
        for number, row in enumerate(t.rows):
            grid.add_row(*(_cell(row[k]) for k in shown), style="bold red" if number in t.failed else "")
        yield Padding(grid, (0, 0, 0, 2), expand=False)


def _cell(value: str) -> Text:
    return Text(clean(value))

"""Not trusted: a report for the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from neptune_verified.report import lines as text
from neptune_verified.report.model import Report
from neptune_verified.report.steps import (
    KINDS,
    ROUTES,
    Step,
    Used,
    claim_lines,
    quantifier_and_claim,
    remarks,
    route_of,
    steps,
)

_STYLES = {"proved": "green", "refuted": "bold red", "disagreement": "bold red"}
#: A claim up to this length stays on one line, which is what 80 columns leave beside id and verdicts.
_SHORT = 36


def terminal(report: Report) -> Group:
    """The whole report; its first line is the coverage."""
    return Group(*_parts(report))


def _parts(r: Report) -> Iterator[RenderableType]:
    yield Text(r.coverage, style="bold")
    yield Text(r.summary())
    yield from heading("definition")
    yield _definition(r)
    yield from section("fused loop program", r.loops)
    yield from section("fusion", _fusion(r))
    yield from section("assumptions on inputs", map(text.fact_text, text.input_rows(r)))
    yield from section("derived facts", map(text.fact_text, text.derived_rows(r)))
    yield from section("replaced by the front end", r.notes)
    yield from section("roundings inserted", r.roundings)
    yield from section("kernel", text.kernel_lines(r))
    yield from section("the kernel's text, read back", text.text_lines(r))
    yield from heading("obligations")
    if not r.obligations:
        yield indented(text.NO_OBLIGATIONS)
        return
    yield indented(f"each decided by {' and by '.join(ROUTES)}, times in ms; {_kinds(r)}", style="dim")
    for step in steps(r.obligations):
        yield from _step(step)


def heading(title: str) -> Iterator[Text]:
    yield from (Text(), Text(title, style="bold cyan"))


def section(title: str, content: Iterable[str]) -> Iterator[Text | Padding]:
    found = list(content)
    if found:
        yield from heading(title)
        yield from (indented(line) for line in found)


def indented(line: str, by: int = 2, style: str = "") -> Padding:
    """Continuation lines of what is too wide stand under its first word."""
    own = len(line) - len(line.lstrip())
    return Padding(Text(line.lstrip(), style=style), (0, 0, 0, by + own), expand=False)


def _fusion(r: Report) -> Iterator[str]:
    yield from (f"{h.stage} hoisted: {h.text}" for h in r.hoists)
    for edge in r.fused:
        yield text.fused_text(edge)
        yield from (f"  guard: {guard}" for guard in edge.guards)
    for refusal in r.refused:
        first, *more = text.refused_lines(refusal)
        yield first
        yield from (f"  {line}" for line in more)


def _definition(r: Report) -> Padding:
    """Each stage, and at its right the place where it was written."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(overflow="fold")
    for line, place in text.definition_pairs(r):
        table.add_row(Text(line), *([Text(place, style="dim", no_wrap=True)] if r.locations else []))
    return Padding(table, (0, 0, 0, 2), expand=False)


def _kinds(r: Report) -> str:
    kinds = sorted({o["kind"] for o in r.obligations}, key=lambda kind: (len(kind), kind))
    return ", ".join(f"{kind} {KINDS.get(kind, '')}".strip() for kind in kinds)


# ------------------------------------------------------------------------------------------- obligations


def _step(step: Step) -> Iterator[RenderableType]:
    yield from (Text(), indented(step.title, style="bold"))
    table = _table("claim", "id", *ROUTES)
    for o in step.obligations:
        style = _STYLES.get(o["verdict"], "yellow")
        table.add_row(Text(o["id"], style=style), _claim(o), *(_answer(o, route) for route in ROUTES))
    yield Padding(table, (0, 0, 0, 4), expand=False)
    if step.symbols:
        yield from _list("for all", step.symbols, users=False)
    if step.assumptions:
        yield from _list("assumed", step.assumptions, users=True)


def _claim(o: Mapping[str, Any]) -> Text:
    _, claim = quantifier_and_claim(o["statement"])
    cell = Text(claim if len(claim) <= _SHORT else "\n".join(claim_lines(claim)))
    for remark in (o["verdict"] if o["verdict"] != "proved" else "", *remarks(o), text.counterexample_text(o)):
        if remark:
            cell.append(f"\n{remark}", style="bold red")
    return cell


def _answer(o: Mapping[str, Any], route: str) -> Text:
    found = route_of(o, route)
    if found is None:
        return Text("not run", style="yellow")
    return Text(f"{found['verdict']} {found['ms']}", style=_STYLES.get(found["verdict"], "yellow"))


def _list(title: str, entries: tuple[Used, ...], users: bool) -> Iterator[RenderableType]:
    """Each entry once, with the obligations that use it where these are not all of the step and ``users`` asks for them,
    or where the step has another entry of that name."""
    yield indented(title, 4, "dim")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    names = Counter(entry.text.split()[0] for entry in entries)
    for entry in entries:
        wanted = not entry.everywhere and (users or names[entry.text.split()[0]] > 1)
        note = f"{entry.note}; used by {entry.users}" if wanted else entry.note
        table.add_row(Text(entry.text), Text(note.removeprefix("; "), style="dim"))
    yield Padding(table, (0, 0, 0, 6), expand=False)


def _table(wide: str, first: str, *others: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(first, no_wrap=True)
    table.add_column(wide, overflow="fold")
    for name in others:
        table.add_column(name, no_wrap=True)
    return table

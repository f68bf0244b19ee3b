"""Not trusted: a report for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from neptune_verified.report import lines as text
from neptune_verified.report.model import Report

_STYLES = {"proved": "green", "refuted": "bold red", "disagreement": "bold red"}


def terminal(report: Report) -> Group:
    """The whole report; its first line is the coverage."""
    return Group(*_parts(report))


def _parts(r: Report) -> Iterator[Text | Padding]:
    yield Text(r.coverage, style="bold")
    yield Text(r.summary())
    yield from _section("definition", text.definition_lines(r))
    yield from _section("fused loop program", r.loops)
    yield from _section("fusion", _fusion(r))
    yield from _section("assumptions on inputs", text.origin_lines(r))
    yield from _section("replaced by the front end", r.notes)
    yield from _section("roundings inserted", r.roundings)
    yield from _section("kernel", text.kernel_lines(r))
    yield from _heading("obligations")
    if not r.obligations:
        yield _indented(text.NO_OBLIGATIONS)
    for o in r.obligations:
        yield from _obligation(o)


def _heading(title: str) -> Iterator[Text]:
    yield from (Text(), Text(title, style="bold cyan"))


def _section(title: str, content: Iterable[str]) -> Iterator[Text | Padding]:
    found = list(content)
    if found:
        yield from _heading(title)
        yield from (_indented(line) for line in found)


def _indented(line: str, by: int = 2, style: str = "") -> Padding:
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


def _obligation(o: Mapping[str, Any]) -> Iterator[Padding]:
    yield _indented(f"{text.obligation_title(o)}: {text.verdict_text(o)}", style=_STYLES.get(o["verdict"], "yellow"))
    yield _indented(o["statement"], 4)
    yield from (_indented(line, 6, "dim") for line in text.symbol_lines(o))
    yield from (_indented(f"assumed: {line}", 6, "dim") for line in text.assumption_lines(o))
    found = text.counterexample_text(o)
    if found:
        yield _indented(found, 6, "bold red")

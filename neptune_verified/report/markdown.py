"""Not trusted: a report as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from neptune_verified.report import lines as text
from neptune_verified.report.model import Report
from neptune_verified.report.steps import step_title


def markdown(report: Report) -> str:
    """The whole report; its first line is the coverage."""
    return "\n".join(_lines(report)) + "\n"


def _lines(r: Report) -> Iterator[str]:
    yield r.coverage
    yield from ("", f"# {r.program}", "", r.summary())
    yield from _code("Definition", text.definition_lines(r))
    yield from _code("Fused loop program", r.loops)
    yield from _fusion(r)
    yield from _table("Assumptions on inputs", text.input_rows(r), "none")
    yield from _table("Derived facts", text.derived_rows(r), "")
    yield from _list("Replaced by the front end", r.notes, "nothing")
    yield from _list("Roundings inserted", r.roundings, "none")
    yield from _list("Kernel", text.kernel_lines(r), "")
    yield from _list("The kernel's text, read back", text.text_lines(r), "")
    yield from ("", "## Obligations", *(() if r.obligations else ("", text.NO_OBLIGATIONS)))
    for o in r.obligations:
        yield from _obligation(o)
    made_with = ", ".join(f"{name} {version}" for name, version in r.tools.items())
    yield from _list("Provenance", [*(f"{k}: {v}" for k, v in r.hashes.items()), f"made with {made_with}"], "")


def _code(title: str, content: Iterable[str]) -> Iterator[str]:
    yield from ("", f"## {title}", "", "```", *content, "```")


def _list(title: str, content: Iterable[str], empty: str) -> Iterator[str]:
    found = list(content)
    if found or empty:
        yield from ("", f"## {title}", "")
        yield from ((f"- {_plain(line)}" for line in found) if found else (empty,))


def _table(title: str, rows: Iterable[tuple[str, str, str]], empty: str) -> Iterator[str]:
    found = list(rows)
    if found or empty:
        yield from ("", f"## {title}", "")
        yield from (("| fact | origin | used by |", "| --- | --- | --- |") if found else (empty,))
        yield from (
            f"| {' | '.join(map(_plain, (row[0], row[1], row[2].removeprefix('used by '))))} |" for row in found
        )


def _fusion(r: Report) -> Iterator[str]:
    yield from ("", "## Fusion", "")
    yield from (f"- {h.stage} hoisted: `{h.text}`" for h in r.hoists)
    for edge in r.fused:
        yield f"- {edge.consumer} over {', '.join(edge.producers)}: fused, strategy {edge.strategy}, h = `{edge.repair}`"
        yield from (f"  - guard: `{guard}`" for guard in edge.guards)
    for refusal in r.refused:
        first, *more = text.refused_lines(refusal)
        yield f"- {_plain(first)}"
        yield from (f"  - {_plain(line)}" for line in more)
    if not (r.hoists or r.fused or r.refused):
        yield "no reduction depends on another one over the same axis"


def _obligation(o: Mapping[str, Any]) -> Iterator[str]:
    yield from ("", f"### {o['id']}, {step_title(o)}", "", f"`{o['statement']}`", "")
    for s in o["symbols"]:
        why = "; ".join(s["origins"])
        yield f"- `{s['name']}: {s['meaning']}`" + (f", {_plain(why)}" if why else "")
    yield from (f"- assumed: `{a['text']}`, {_plain(a['origin'])}" for a in o["assumptions"])
    found = text.counterexample_text(o)
    if found:
        yield f"- {_plain(found)}"
    yield f"- {_plain(text.verdict_text(o))}"


def _plain(line: str) -> str:
    """Text in which Markdown finds no markup."""
    return "".join(f"\\{c}" if c in "\\`*_<|" else c for c in line)

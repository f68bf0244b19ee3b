"""Not trusted: sentences that all renderings of a report share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from neptune_verified.ir.example import example_text
from neptune_verified.ir.loops import Refusal
from neptune_verified.report.model import FusedEdge, Report
from neptune_verified.report.uses import LISTED, ON_INPUTS, users_text

#: An example up to this length is shown where one line has to do.
SHORT_EXAMPLE = 160
NO_EXAMPLE = "no input was found with which the refused update goes wrong: it is not proved"
OUT_OF_RANGE = (
    "over the reals the refused update is right: a value that the definition does not have may overflow its type"
)
NO_OBLIGATIONS = "none: no reduction is fused with another one, and nothing is hoisted"


def fused_text(e: FusedEdge) -> str:
    return f"{e.consumer} over {', '.join(e.producers)}: fused, strategy {e.strategy or 'unnamed'}, h = {e.repair}"


def refused_lines(r: Refusal) -> Iterator[str]:
    yield f"{r.consumer} over {', '.join(r.producers)}: not fused, {r.reason}"
    if r.obligation:
        yield f"refused by {r.obligation}"
    if r.counterexample:
        yield f"false {r.counterexample}"
    if example := example_line(r):
        yield example


def refused_notice(r: Refusal) -> str:
    """One line; an example that is not short is left to the report."""
    example = example_line(r)
    told = " ".join(line for line in refused_lines(r) if line != example)
    return f"{told}. {example}" if example and len(example) <= SHORT_EXAMPLE else told


def example_line(r: Refusal) -> str:
    """A run that goes wrong; nothing where no update was tried."""
    if r.example or not r.obligation:
        return example_text(r.example) if r.example else ""
    return OUT_OF_RANGE if r.obligation.startswith("O7") else NO_EXAMPLE


def verdict_text(o: Mapping[str, Any]) -> str:
    """``proved: z3 proved in 12.0 ms, sympy proved in 3.1 ms``"""
    routes = ", ".join(route_text(r) for r in o["routes"])
    return f"{o['verdict']}: {routes}" if routes else str(o["verdict"])


def route_text(r: Mapping[str, Any]) -> str:
    detail = f" ({r['detail']})" if r["detail"] else ""
    return f"{r['route']} {r['verdict']} in {r['ms']} ms{detail}"


def counterexample_text(o: Mapping[str, Any]) -> str:
    found = o.get("counterexample")
    if not found:
        return ""
    point = ", ".join(f"{name} = {value}" for name, value in found["values"].items())
    return f"false at {point}: {found['left']} instead of {found['right']}"


def definition_pairs(report: Report) -> Iterator[tuple[str, str]]:
    """Each line of the definition with the place where it was written, or nothing."""
    for line in report.definition:
        name = line.split("[")[0].split(" = ")[0]
        yield line, report.locations.get(name, "") if " = " in line else ""


def definition_lines(report: Report) -> Iterator[str]:
    for line, place in definition_pairs(report):
        yield f"{line}    # {place}" if place else line


def kernel_lines(report: Report) -> Iterator[str]:
    for name, value in report.kernel.items():
        if isinstance(value, Mapping):
            for key, entry in value.items():
                yield f"{name} of {key}: {', '.join(map(str, entry)) if isinstance(entry, list | tuple) else entry}"
        else:
            yield f"{name}: {value}"


def text_lines(report: Report) -> Iterator[str]:
    """What was proved of the kernel's text; configurations of which the same was established share a line."""
    same: dict[tuple[str, ...], list[str]] = {}
    for e in report.text:
        key = (e["id"], e["kernel"], e["covers"], e["verdict"], ", ".join(e["routes"]))
        same.setdefault(key, []).append(e["configuration"])
    for (id_, kernel, covers, verdict, routes), configurations in same.items():
        yield f"{id_}, {kernel} ({', '.join(configurations)}): {covers}: {verdict} by {routes}"
    for id_, looked_at in {e["id"]: e["bounded"] for e in report.text if e["bounded"]}.items():
        yield f"{id_}, bounded evaluation: {looked_at}"


def input_rows(report: Report) -> Iterator[tuple[str, str, str]]:
    """What is assumed of inputs and lengths, who says so, and what uses it."""
    for f in report.facts:
        if f.source in ON_INPUTS:
            yield f.text, f.source, users_text(f, report.obligations)


def derived_rows(report: Report) -> Iterator[tuple[str, str, str]]:
    """The same of what was derived, and of what O7 assumes of the definition."""
    for f in report.facts:
        if f.source in LISTED:
            yield f.text, f.source, users_text(f, report.obligations)


def fact_text(row: tuple[str, str, str]) -> str:
    text, source, users = row
    return f"{text} ({source}): {users}"

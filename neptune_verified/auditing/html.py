"""Not trusted: an audit as one HTML page: no script, nothing from outside, readable on a phone and on paper.

The template is ``templates/audit.html.j2``. Every text is escaped; plots are the only markup that is not the template's.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Template
from markupsafe import Markup

from neptune_verified.auditing import tables
from neptune_verified.auditing.plots import Plot, plots, swatch
from neptune_verified.auditing.result import AuditResult, OutputInfo
from neptune_verified.auditing.tables import View, clean
from neptune_verified.report.page import environment


def html(result: AuditResult) -> str:
    """The whole audit; its first line of text is the verdict."""
    view = View(result)
    swatches = [swatch(k, "swatch") for k in range(len(result.contestants))]
    return _template().render(
        r=result,
        verdict=tables.verdict(view),
        passed=view.passed,
        subject=list(tables.subject(result)),
        searched=tables.searched(result),
        checks=tables.checks(result),
        worst=tables.worst(result.worst),
        outputs=[_output(view, o) for o in result.outputs],
        legend=lambda plot, id_: [(_own(swatches[k], f"{id_}-{k}"), name) for k, name in plot.names],
    )


def _output(view: View, output: OutputInfo) -> dict[str, Any]:
    return {
        "info": output,
        "errors": tables.errors(view, output),
        "counts": tables.counts(view, output),
        "notes": list(tables.count_notes(view, output)),
        "families": tables.families(view, output),
        "rows": tables.rows_of(view.result, output),
        "samples": tables.samples(view, output),
        "plots": plots(view, output),
    }


@cache
def _template() -> Template:
    found = environment("neptune_verified.auditing", {"drawn": _drawn})
    # Only what a template prints; a plot is markup already.
    found.finalize = lambda x: clean(x) if type(x) is str else x
    return found.get_template("audit.html.j2")


def _own(swatch: str, prefix: str) -> Markup:
    """With names of its own for its parts, since a page shows the same one several times."""
    return Markup(swatch.replace("swatch-", f"{prefix}-"))


def _drawn(plot: Plot) -> list[Markup]:
    return [Markup(panel) for panel in plot.panels]

"""Not trusted: a report as one HTML file: no script, nothing from outside, readable on a phone and on paper.

The template is ``templates/report.html.j2``. Every text is escaped; ``mathematics`` alone makes markup, of escaped text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from jinja2 import Template
from markupsafe import Markup, escape

from neptune_verified.report import lines, steps
from neptune_verified.report.model import Report
from neptune_verified.report.page import environment

_SIGNS = (
    (re.compile(r" <= "), " ≤ "),
    (re.compile(r" >= "), " ≥ "),
    (re.compile(r" != "), " ≠ "),
    (re.compile(r" - "), " − "),
    (re.compile(r" \* "), " · "),
    (re.compile(r"(?<![\w.])-inf\b"), "−∞"),
    (re.compile(r"(?<![\w.])\+?inf\b"), "∞"),
    (re.compile(r"^for all "), "∀ "),
    (re.compile(r" in (?=\{)"), " ∈ "),
)
_RANGE = re.compile(r"\b([a-z]+)_\{([^{}]*)\}")
_POWER = re.compile(r"\b2\^(\d+)")


def html(report: Report) -> str:
    """The whole report; its first line of text is the coverage."""
    return _template().render(
        r=report,
        holds=report.coverage.startswith("proved") and all(o["verdict"] == "proved" for o in report.obligations),
        definition=list(lines.definition_pairs(report)),
        steps=steps.steps(report.obligations),
        kernel=list(lines.kernel_lines(report)),
        kernel_text=list(lines.text_lines(report)),
        inputs=list(lines.input_rows(report)),
        derived=list(lines.derived_rows(report)),
        no_obligations=lines.NO_OBLIGATIONS,
        kinds=steps.KINDS,
        present={o["kind"] for o in report.obligations},
        routes=steps.ROUTES,
    )


@cache
def _template() -> Template:
    filters: dict[str, Callable[..., object]] = {
        "mathematics": mathematics,
        "quantifier": lambda o: steps.quantifier_and_claim(o["statement"])[0],
        "claim": lambda o: steps.claim_lines(steps.quantifier_and_claim(o["statement"])[1]),
        "symbols": lambda o: list(steps.symbol_rows(o)),
        "remarks": lambda o: list(steps.remarks(o)),
        "counterexample": lines.counterexample_text,
        "example": lines.example_line,
    }
    found = environment("neptune_verified.report", filters)
    found.globals["route_of"] = steps.route_of
    return found.get_template("report.html.j2")


def mathematics(text: str) -> Markup:
    """An expression with the signs of mathematics, and the range of a reduction below it, powers of two above.

    >>> str(mathematics("max_{j<N} (x[j]) <= inf"))
    'max<sub>j&lt;N</sub> (x[j]) ≤ ∞'
    """
    for pattern, sign in _SIGNS:
        text = pattern.sub(sign, text)
    below = _RANGE.sub(r"\1<sub>\2</sub>", str(escape(text)))
    return Markup(_POWER.sub(r"2<sup>\1</sup>", below))


__all__ = ["html", "mathematics"]

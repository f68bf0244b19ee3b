"""Not trusted: what every page is made with: templates in which every text is escaped, and the style of a verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

_CLASSES = {"proved": "proved", "refuted": "refuted", "disagreement": "refuted"}


def environment(package: str, filters: Mapping[str, Callable[..., object]]) -> Environment:
    """The templates of ``package``, and those that all pages share (page.html.j2, page.css.j2)."""
    shared = "neptune_verified.report"
    found = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, shared))]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update({"look": look, **filters})
    return found


def look(verdict: Any) -> str:
    """The style of a verdict: one of three, whatever the text is."""
    return _CLASSES.get(verdict, "open")

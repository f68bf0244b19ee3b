"""What a plot shows, read from its SVG: lines and marks in the numbers of its axes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.report.page import Element, read

Point = tuple[float, float]


@dataclass
class Drawn:
    """``x``, ``y``: from a place in the picture to a number, by two marks of a logarithmic axis; None for another one.
    ``marks``: texts of the marks of the axes, and their places."""

    svg: Element
    x_marks: dict[str, float]
    y_marks: dict[str, float]

    @property
    def x(self) -> Callable[[float], float]:
        return _logarithmic(self.x_marks)

    @property
    def y(self) -> Callable[[float], float]:
        return _logarithmic(self.y_marks)

    def part(self, name: str) -> Element | None:
        """The line or the marks of a contestant: "line0"."""
        found = [e for e in self.svg.walk() if e.attributes.get("id", "").endswith(f"-data-{name}")]
        assert len(found) < 2
        return found[0] if found else None

    def line(self, name: str) -> list[Point]:
        """The corners of a line, in the picture."""
        part = self.part(name)
        assert part is not None, name
        (path,) = (e for e in part.all("path") if "clip-path" in e.attributes)
        return [(float(a), float(b)) for a, b in re.findall(r"[ML] (\S+) (\S+)", path.attributes["d"])]

    def dots(self, name: str) -> list[Point]:
        part = self.part(name)
        assert part is not None, name
        return [(float(e.attributes["x"]), float(e.attributes["y"])) for e in part.all("use")]


def drawn(svg: str) -> Drawn:
    page = read(svg)
    marks: tuple[dict[str, float], dict[str, float]] = ({}, {})
    for e in page.all("g"):
        groups = [c for c in e.children if isinstance(c, Element)]
        if len(groups) == 3 and groups[0].all("path") and groups[1].all("use") and groups[2].all("text"):
            ((x0, y0), (x1, y1)) = re.findall(r"[ML] (\S+) (\S+)", groups[0].all("path")[0].attributes["d"])
            assert (x0 == x1) != (y0 == y1), "the line of the grid is upright or level"
            place = groups[1].all("use")[0].attributes["x" if x0 == x1 else "y"]
            marks[0 if x0 == x1 else 1][groups[2].all("text")[0].text] = float(place)
    return Drawn(page, *marks)


def _logarithmic(marks: dict[str, float]) -> Callable[[float], float]:
    numbers = sorted((float(text), place) for text, place in marks.items() if text != "0")
    (low, at_low), (high, at_high) = numbers[0], numbers[-1]
    assert low < high
    for number, place in numbers:
        share = (math.log(number) - math.log(low)) / (math.log(high) - math.log(low))
        assert abs(at_low + share * (at_high - at_low) - place) < 0.01, "the axis is logarithmic"
    return lambda place: low * (high / low) ** ((place - at_low) / (at_high - at_low))

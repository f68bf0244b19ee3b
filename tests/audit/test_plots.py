"""Plots show the numbers that NumPy finds in the errors, read back from the drawn lines; the same data, the same bytes."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
import pytest

import neptune_verified.auditing
from neptune_verified.auditing import svg
from neptune_verified.auditing.plots import Plot, plots, swatch
from neptune_verified.auditing.result import AuditResult, OutputInfo
from neptune_verified.auditing.scale import Scale
from neptune_verified.auditing.statistics import PARTS, Profile, Statistics
from neptune_verified.auditing.tables import View
from tests.audit.drawn import drawn
from tests.audit.results import AUDITS, FAMILIES, STRANGE, alone, audit, everywhere, raw, statistics_of, two_outputs
from tests.report.page import contrast, read

TEMPLATES = Path(neptune_verified.auditing.__file__).parent / "templates"
CONTESTANTS = range(5)


def of(r: AuditResult, output: int = 0) -> dict[str, Plot]:
    return {p.name: p for p in plots(View(r), r.outputs[output])}


@pytest.fixture(scope="module")
def five() -> dict[str, Plot]:
    return of(audit())


def shares(x: np.ndarray) -> dict[int, float]:
    """Percent of numbers in each half octave."""
    keys, counts = np.unique(np.floor(2 * np.log2(x)), return_counts=True)
    return {int(k): 100 * n / x.size for k, n in zip(keys, counts, strict=True)}


@pytest.mark.parametrize("name", ["errors", "ulps", "rows"])
@pytest.mark.parametrize("k", CONTESTANTS)
def test_histograms(name: str, k: int, five: dict[str, Plot]) -> None:
    r = audit()
    error = raw(r, r.contestants[k])[0]
    wanted = shares({"errors": error, "ulps": error * 2.0**11, "rows": np.sqrt((error**2).mean(axis=-1))}[name].ravel())
    d = drawn(five[name].panels[0])
    corners = [(d.x(x), d.y(y)) for x, y in d.line(f"line{k}")]
    found: dict[int, float] = {}
    for (x0, y0), (x1, y1) in pairwise(corners):
        if x1 > x0 * 1.0001:
            assert y1 == pytest.approx(y0, rel=1e-6), "a step is level"
            found[round(2 * math.log2(x0))] = y0
            assert 2 * math.log2(x0) == pytest.approx(round(2 * math.log2(x0)), abs=1e-3)
            assert x1 >= x0 * 2**0.5 * 0.999
    floor = min(y for _, y in corners)
    assert corners[0][1] == corners[-1][1] == floor < min(wanted.values())
    assert {b for b, y in found.items() if y > floor * 1.0001} == set(wanted)
    assert all(found[b] == pytest.approx(share, rel=2e-3) for b, share in wanted.items())


@pytest.mark.parametrize("k", CONTESTANTS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_errors_by_position(k: int, axis: int, five: dict[str, Plot]) -> None:
    r = audit()
    error = raw(r, r.contestants[k])[0].reshape(6, 2, 24, 16)
    others = tuple({0, 1, 2, 3} - {axis + 1})
    wanted = np.sqrt((error**2).mean(axis=others))
    d = drawn(five["positions"].panels[axis])
    start, end = d.x_marks["0"], d.x_marks["100"]
    length = wanted.size
    assert len(five["positions"].panels) == 3
    levels = {}
    corners = d.line(f"line{k}")
    for (x0, y0), (x1, _) in pairwise(corners):
        if x1 > x0:
            levels[round((x0 - start) / (end - start) * PARTS)] = d.y(y0)
    assert corners[-1][0] == pytest.approx(end, abs=0.01)
    assert levels == {i * PARTS // length: pytest.approx(wanted[i], rel=2e-3) for i in range(length)}


@pytest.mark.parametrize("k", CONTESTANTS)
def test_errors_by_family(k: int, five: dict[str, Plot]) -> None:
    r = audit()
    d = drawn(five["families"].panels[0])
    assert set(d.y_marks) == set(FAMILIES)
    dots = d.dots(f"dots{k}")
    for x, y in dots:
        family = min(d.y_marks, key=lambda f: abs(d.y_marks[f] - y))
        assert d.x(x) == pytest.approx(np.sqrt(np.mean(raw(r, r.contestants[k], family)[0] ** 2)), rel=2e-3)
    assert len(dots) == len({round(y) for _, y in dots}) == len(FAMILIES)


def test_every_contestant_looks_different() -> None:
    looks = [svg.Look.of(k) for k in range(25)]
    assert len(set(looks)) == 25
    for part in ("color", "dash", "marker"):
        assert len({getattr(look, part) for look in looks[:5]}) == 5, part
    assert len({swatch(k, "s") for k in range(25)}) == 25


def test_colors_are_those_of_the_style_and_can_be_seen() -> None:
    style = (TEMPLATES / "audit.css.j2").read_text()
    light, dark, paper = ([c for _, c in re.findall(r"--series-(\d): (#\w+);", block)] for block in _roots(style))
    assert tuple(light) == tuple(paper) == svg.COLORS and len(dark) == len(light)
    assert all(contrast(c, "#ffffff") >= 3 for c in light), "graphics need 3:1"
    assert all(contrast(c, "#0d1117") >= 3 for c in dark)


def _roots(style: str) -> list[str]:
    found = re.findall(r":root \{(.*?)\}", style)
    assert len(found) == 3
    return found


def test_axes_say_what_they_show(five: dict[str, Plot]) -> None:
    wanted = {
        "errors": ["absolute error (unit of the output)", "share of elements (%)"],
        "ulps": ["error (ulps)", "share of elements (%)"],
        "rows": ["RMS error of a row (unit of the output)", "share of rows (%)"],
        "families": ["RMS error (unit of the output)", "family of samples"],
        "positions": ["position along b (% of its length)", "RMS (unit of the output)"],
    }
    assert list(five) == list(wanted)
    for name, plot in five.items():
        texts = [e.text for e in read(plot.panels[0]).all("text")]
        assert set(wanted[name]) <= set(texts)
        assert "(x" in plot.caption and "(y" in plot.caption
        label = read(plot.panels[0]).all("svg")[0].attributes["aria-label"]
        assert plot.caption in label and "compiled" in label


def test_what_has_no_data_is_left_out() -> None:
    assert of(AUDITS["nothing compared"]()) == {} == of(AUDITS["empty"]())
    lse = of(two_outputs(), 1)
    (panel,) = lse["positions"].panels
    assert "position along b (" in panel and lse["errors"].names == ((0, "kernel"),)
    r = alone()
    for s in r.samples:
        s.statistics["kernel"]["o"].positions = {"b": Profile(), "i": Profile.of([1.0], [4])}
    assert "positions" not in of(r), "an axis without numbers, an axis of one element"


def test_a_contestant_without_elements_has_no_line() -> None:
    r = audit()
    for s in r.samples:
        s.statistics["eager"]["o"] = Statistics(undefined=3)
    found = of(r)
    for plot in found.values():
        assert [c for _, c in plot.names] == ["kernel", "unfused", "compiled", "reference float32"]
        name = "dots" if plot.name == "families" else "line"
        parts = [drawn(plot.panels[0]).part(f"{name}{k}") is not None for k in CONTESTANTS]
        assert parts == [True, True, False, True, True]


def test_zeros_have_a_place_of_their_own() -> None:
    r = alone()
    error = np.abs(np.random.default_rng(0).normal(0, 1e-3, (2, 24, 16)))
    error[:, ::2] = 0
    r.samples = [replace(r.samples[0], statistics={"kernel": {"o": statistics_of(error, error + 1)}})]
    found = of(r)
    d = drawn(found["errors"].panels[0])
    ((x, y),) = d.dots("zeros0")
    assert x == pytest.approx(d.x_marks["0"], abs=0.5) and d.y(y) == pytest.approx(50, rel=1e-3)
    assert min(x for x, _ in d.line("line0")) > d.x_marks["0"]
    levels = {round(y, 3) for _, y in drawn(found["positions"].panels[1]).line("line0")}
    assert round(drawn(found["positions"].panels[1]).y_marks["0"], 3) in levels and len(levels) > 10


def test_nothing_but_zeros() -> None:
    found = of(two_outputs(), 1)
    d = drawn(found["errors"].panels[0])
    ((x, _),) = d.dots("zeros0")
    assert d.part("line0") is None and d.x_marks == {"0": pytest.approx(x, abs=0.01)}
    assert len(drawn(found["families"].panels[0]).dots("dots0")) == len(FAMILIES)
    assert len({y for _, y in drawn(found["positions"].panels[0]).line("line0")}) == 1


@pytest.mark.parametrize("values", [[5e-324, 1.7e308], [1.0], [1.0, 1.001], [3e-8, 2.5e-3], [7.0, 12.0, 0.0]])
def test_scales(values: list[float]) -> None:
    s = Scale.of([*values, math.nan])
    low, high = s.limits
    places = [s.at(v) for v in values]
    assert all(low < p < high for p in places) and sorted(places) == [s.at(v) for v in sorted(values)]
    ticks = s.ticks()
    assert 2 <= len(ticks) <= 7 and all(low <= at <= high for at, _ in ticks)
    assert len({text for _, text in ticks}) == len(ticks)
    for at, text in ticks:
        digits, _, exponent = text.partition("e")
        place = s.zero if text == "0" else math.log2(float(digits)) + int(exponent or 0) * math.log2(10)
        assert place == pytest.approx(at, abs=1e-2)
    assert ("0" in [text for _, text in ticks]) == (0.0 in values)


def test_many_families_are_cut() -> None:
    families = [f"family {k}" for k in range(30)]
    r = audit({"kernel": 1e-4}, families)
    for k, s in enumerate(r.samples):
        rng = np.random.default_rng(k)
        s.statistics["kernel"]["o"] = statistics_of(np.abs(rng.normal(0, 1.5**k, (2, 24, 16))), np.ones((2, 24, 16)))
    plot = of(r)["families"]
    assert (
        set(drawn(plot.panels[0]).y_marks) == set(families[6:]) and "the 24 of 30 with the greatest RMS" in plot.caption
    )


def test_the_same_data_give_the_same_bytes(five: dict[str, Plot]) -> None:
    mine = {"lines.linewidth": 9.0, "axes.grid": True, "font.size": 30.0, "text.usetex": True, "svg.fonttype": "path"}
    with matplotlib.rc_context(mine):
        assert of(audit()) == five
        assert all(matplotlib.rcParams[k] == v for k, v in mine.items()), "what the user set is set again"
    panels = [p for plot in five.values() for p in plot.panels]
    assert not any(word in p for p in panels for word in ("http", "date", "metadata", "<style", "<?xml", "<!DOCTYPE"))
    ids = [i for p in panels for i in re.findall(r' id="([^"]*)"', p)]
    assert len(ids) == len(set(ids))
    assert not re.search(r"(?:fill|stroke): #", "".join(panels)), "every colour is the page's"


@pytest.mark.parametrize(
    "name", ["$x_1$", "<script>alert(1)</script>", "a & b", "$\\frac{", "名前", "\x1b[2J", "\udcff"]
)
def test_names_are_shown_as_they_are(name: str) -> None:
    r = audit({"kernel": 1e-4, name: 1e-3}, (name,))
    r.outputs = (OutputInfo("o", "float16", ("b", name, "j")),)
    for s in r.samples:
        for per in s.statistics.values():
            per["o"].positions[name] = per["o"].positions.pop("i")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = of(r)
    shown = name if name.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in name)
    cut = shown if len(shown) <= 22 else shown[:21] + "…"
    texts = {plot.name: [e.text for p in plot.panels for e in read(p).all("text")] for plot in found.values()}
    assert cut in texts["families"] and f"position along {cut} (% of its length)" in texts["positions"]
    assert all("<script" not in p for plot in found.values() for p in plot.panels)
    "".join(p for plot in found.values() for p in plot.panels).encode()


def test_strange_names_everywhere() -> None:
    r = everywhere(audit(), STRANGE)
    plain = {(e.tag, tuple(e.attributes)) for plot in of(audit()).values() for p in plot.panels for e in read(p).walk()}
    found = of(r)
    assert set(found) == {"errors", "ulps", "rows", "families", "positions"}
    assert {
        (e.tag, tuple(e.attributes)) for plot in found.values() for p in plot.panels for e in read(p).walk()
    } == plain

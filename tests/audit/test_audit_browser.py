"""The page of an audit in a real browser: nothing is wider than a phone, nothing is logged, both themes, lines are drawn."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.audit.results import AUDITS, STRANGE, everywhere, page, two_outputs
from tests.browser import SIZES, framed, logged, measurer, pages_on_paper, run, themes
from tests.report.page import contrast

LONG = "_an_unbroken_name_of_a_contestant" * 8

measured = measurer(
    ".scroll > table",
    """
  tables: Object.fromEntries([...page.querySelectorAll('table')].map(
    e => [e.getAttribute('aria-labelledby'), e.querySelectorAll('tbody tr').length])),
  boxes: [...page.querySelectorAll('.scroll')].map(e => [e.clientWidth, e.scrollWidth]),
  plots: [...page.querySelectorAll('svg.plot')].map(svg => {
    const box = e => { const b = e.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom] };
    const lines = [...svg.querySelectorAll('[id*="-data-"]')].map(e => ({
      id: e.id.replace(/.*-data-/, ''),
      box: box(e),
      stroke: view.getComputedStyle(e.querySelector('path[clip-path], use') || e).stroke,
      length: [...e.querySelectorAll('path[clip-path]')].reduce((n, p) => n + p.getTotalLength(), 0),
    }));
    const text = svg.querySelector('text');
    return {name: svg.closest('figure').getAttribute('aria-labelledby'), box: box(svg), lines,
            ink: view.getComputedStyle(text).fill, texts: [...svg.querySelectorAll('text')].map(box),
            letters: text.getBoundingClientRect().height};
  }),
  swatches: [...page.querySelectorAll('svg.swatch')].map(e => e.getBoundingClientRect().width),
""",
)


@SIZES
@pytest.mark.parametrize("name", AUDITS)
def test_the_page_is_as_wide_as_the_screen(name: str, width: int, height: int, browser: str, tmp_path: Path) -> None:
    r = AUDITS[name]()
    for m in measured(browser, tmp_path, page(name), width, height):
        assert m["inner"] == width
        assert m["scroll"] <= width and m["wide"] == []
        assert m["details"] == (len(r.outputs) if r.samples else 0)
        assert m["coverage"] < 50, "the verdict is what one sees first"
        assert m["scripts"] == 0
        assert all(own <= width for own, _ in m["boxes"])


@SIZES
@pytest.mark.parametrize("ending", [LONG, STRANGE], ids=["long", "strange"])
def test_names_make_nothing_wider(ending: str, width: int, height: int, browser: str, tmp_path: Path) -> None:
    for m in measured(browser, tmp_path, everywhere(two_outputs(), ending).html(), width, height):
        assert m["scroll"] <= width and m["wide"] == [] and m["scripts"] == 0


def test_wide_tables_scroll_inside_on_a_phone(browser: str, tmp_path: Path) -> None:
    folded, _ = measured(browser, tmp_path, page("five contestants"), 360, 800)
    assert sum(own < content for own, content in folded["boxes"]) >= 3


def test_tables_have_their_rows(browser: str, tmp_path: Path) -> None:
    _, m = measured(browser, tmp_path, page("over budget"), 1280, 900)
    assert m["tables"] == {
        "t-checks": 7,
        "t-errors-0": 5,
        "t-counts-0": 5,
        "t-families-0": 3,
        "t-rows-0": 5,
        "t-worst": 1,
        "t-samples-0": 6,
    }


@SIZES
def test_every_line_is_drawn(width: int, height: int, browser: str, tmp_path: Path) -> None:
    folded, _ = measured(browser, tmp_path, page("five contestants"), width, height)
    names = [p["name"] for p in folded["plots"]]
    assert names == ["c-0-errors", "c-0-ulps", "c-0-rows", "c-0-families", *["c-0-positions"] * 3]
    for plot in folded["plots"]:
        check_plot(plot, width, 5)
    assert all(w > 30 for w in folded["swatches"]) and len(folded["swatches"]) == 25


def check_plot(plot: dict[str, Any], width: int, contestants: int) -> None:
    left, top, right, bottom = plot["box"]
    assert 250 < right - left <= width and bottom - top > 120
    assert plot["letters"] >= 9, "small, but letters"
    for x0, y0, x1, y1 in plot["texts"]:
        assert x0 >= left - 2 and x1 <= right + 2 and y0 >= top - 2 and y1 <= bottom + 2, "no text is cut"
    kind = "dots" if plot["name"].endswith("families") else "line"
    assert [line["id"] for line in plot["lines"]] == [f"{kind}{k}" for k in range(contestants)]
    for line in plot["lines"]:
        x0, y0, x1, y1 = line["box"]
        assert left <= x0 < x1 <= right + 1 and top - 1 <= y0 <= y1 <= bottom, "it is inside the picture"
        if kind == "line":
            assert line["length"] > 100 and x1 - x0 > 10
        else:
            assert y1 - y0 > 60, "a mark for each family"
    assert len({tuple(line["box"]) for line in plot["lines"]}) == contestants, "no line lies on another"
    assert len({line["stroke"] for line in plot["lines"]}) == contestants


@pytest.mark.parametrize(
    "id_", ["plot-0-errors-data-line1", "plot-0-families-data-dots2", "plot-0-position1-data-line3"]
)
def test_a_line_that_is_missing_is_noticed(id_: str, browser: str, tmp_path: Path) -> None:
    whole = page("five contestants")
    (group,) = re.findall(rf'<g id="{id_}">.*?</g>', whole, re.DOTALL)
    erased = whole.replace(group, re.sub(r"<(path [^>]*clip-path|use )[^>]*>", "", group))
    assert len(erased) < len(whole)
    folded, _ = measured(browser, tmp_path, erased, 1280, 900)
    with pytest.raises(AssertionError, match="it is inside the picture"):
        for plot in folded["plots"]:
            check_plot(plot, 1280, 5)


def test_light_and_dark(browser: str, tmp_path: Path) -> None:
    dark, light = themes(measured, browser, tmp_path, page("five contestants"))
    assert [dark["paper"], light["paper"]] == ["rgb(13, 17, 23)", "rgb(255, 255, 255)"]
    for m in (dark, light):
        paper = color(m["paper"])
        for plot in m["plots"]:
            assert contrast(color(plot["ink"]), paper) >= 4.5, "texts of plots"
            assert all(contrast(color(line["stroke"]), paper) >= 3 for line in plot["lines"])
    strokes = [{line["stroke"] for p in m["plots"] for line in p["lines"]} for m in (dark, light)]
    assert len(strokes[0]) == len(strokes[1]) == 5 and not strokes[0] & strokes[1]


def color(text: str) -> str:
    """
    >>> color("rgb(13, 17, 23)")
    '#0d1117'
    """
    return "#" + "".join(f"{int(n):02x}" for n in re.findall(r"\d+", text)[:3])


@SIZES
def test_it_can_be_drawn(width: int, height: int, browser: str, tmp_path: Path) -> None:
    picture = tmp_path / "page.png"
    shown = framed(page("five contestants"), width, height)
    done = run(browser, tmp_path, shown, f"--screenshot={picture}", f"--window-size={max(width, 500)},{height}")
    assert not logged(done)
    data = picture.read_bytes()
    assert data.startswith(b"\x89PNG") and struct.unpack(">II", data[16:24]) == (max(width, 500), height)
    assert len(data) > 15_000, "an empty page makes a smaller picture"


def test_paper_shows_what_is_folded(browser: str, tmp_path: Path) -> None:
    whole = page("five contestants")
    folded = pages_on_paper(browser, tmp_path / "folded", whole)
    assert folded == pages_on_paper(browser, tmp_path / "open", whole.replace("<details>", "<details open>")) > 1

"""The HTML report in a real browser without a window: nothing is wider than a phone, nothing is logged, both themes."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.browser import SIZES, framed, logged, measurer, pages_on_paper, run, themes
from tests.report.examples import REPORTS, everywhere, fused

LONG = "an_unbroken_name_of_a_stage_" * 12

measured = measurer(
    "pre, thead",
    """
  claims: Math.min(width, ...[...page.querySelectorAll('.claim')].map(e => e.clientWidth)),
  pre: [...page.querySelectorAll('pre')].map(e => [e.clientWidth, e.scrollWidth]),
""",
)


@SIZES
@pytest.mark.parametrize("name", REPORTS)
def test_the_page_is_as_wide_as_the_screen(name: str, width: int, height: int, browser: str, tmp_path: Path) -> None:
    report = REPORTS[name]()
    for m in measured(browser, tmp_path, report.html(), width, height):
        assert m["inner"] == width
        assert m["scroll"] <= width and m["wide"] == []
        assert m["claims"] > 320 if width == 360 else m["claims"] > 400, "a statement has room"
        assert m["details"] == len(report.obligations) + 1
        assert m["coverage"] < 50, "the coverage is what one sees first"
        assert m["scripts"] == 0


def test_code_scrolls_inside_on_a_phone(browser: str, tmp_path: Path) -> None:
    folded, _ = measured(browser, tmp_path, fused().html(), 360, 800)
    ((own, content),) = folded["pre"]
    assert own <= 360 < content


@SIZES
def test_long_names_make_nothing_wider(width: int, height: int, browser: str, tmp_path: Path) -> None:
    for m in measured(browser, tmp_path, everywhere(fused(), LONG).html(), width, height):
        assert m["scroll"] <= width and m["wide"] == []


def test_light_and_dark(browser: str, tmp_path: Path) -> None:
    papers = [m["paper"] for m in themes(measured, browser, tmp_path, fused().html())]
    assert papers == ["rgb(13, 17, 23)", "rgb(255, 255, 255)"]


@SIZES
def test_it_can_be_drawn(width: int, height: int, browser: str, tmp_path: Path) -> None:
    picture = tmp_path / "page.png"
    page = framed(fused().html(), width, height)
    done = run(browser, tmp_path, page, f"--screenshot={picture}", f"--window-size={max(width, 500)},{height}")
    assert not logged(done)
    data = picture.read_bytes()
    assert data.startswith(b"\x89PNG") and struct.unpack(">II", data[16:24]) == (max(width, 500), height)
    assert len(data) > 15_000, "an empty page makes a smaller picture"


def test_paper_shows_what_is_folded(browser: str, tmp_path: Path) -> None:
    """Unfolding beforehand makes the printed report no longer."""
    folded = fused().html()
    sizes = [
        pages_on_paper(browser, tmp_path / "folded", folded),
        pages_on_paper(browser, tmp_path / "open", folded.replace("<details>", "<details open>")),
    ]
    assert sizes[0] == sizes[1] > 3


def test_the_policy_stops_what_is_not_part_of_the_page(browser: str, tmp_path: Path) -> None:
    """That nothing was logged means something: what the page does not allow is logged, and does not run."""
    page = fused().html().replace("</main>", "<script>document.body.remove()</script></main>")
    done = run(browser, tmp_path, framed(page, 360, 800), "--dump-dom")
    assert any("Content Security Policy" in line for line in logged(done))
    with pytest.raises(AssertionError, match="Executing inline script violates"):
        measured(browser, tmp_path, page, 360, 800)

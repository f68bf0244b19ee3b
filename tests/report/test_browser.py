"""The HTML report in a real browser without a window: nothing is wider than a phone, nothing is logged, both themes.

The page is shown unchanged in a frame of the wanted size; a script of the page around it measures.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import absent
from tests.report.examples import REPORTS, everywhere, fused

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
LONG = "an_unbroken_name_of_a_stage_" * 12

MEASURE = """
const frame = document.querySelector('iframe'), page = frame.contentDocument, view = frame.contentWindow;
const width = view.innerWidth, all = [...page.querySelectorAll('body *')];
const inside = e => e.closest('pre') || e.closest('thead');
const measure = () => ({
  inner: width,
  scroll: page.documentElement.scrollWidth,
  wide: all.filter(e => !inside(e) && e.getBoundingClientRect().right > width + 0.5).map(e => e.outerHTML.slice(0, 80)),
  claims: Math.min(width, ...[...page.querySelectorAll('.claim')].map(e => e.clientWidth)),
  details: page.querySelectorAll('details').length,
  pre: [...page.querySelectorAll('pre')].map(e => [e.clientWidth, e.scrollWidth]),
  paper: view.getComputedStyle(page.body).backgroundColor,
  coverage: page.querySelector('.coverage').getBoundingClientRect().top,
  scripts: page.scripts.length,
});
const folded = measure();
page.querySelectorAll('details').forEach(e => e.open = true);
document.title = JSON.stringify([folded, measure()]);
"""


@pytest.fixture(scope="module")
def browser() -> str:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        absent(f"no browser on PATH (one of {', '.join(NAMES)}): apt-get install chromium")
    return found


def run(browser: str, folder: Path, page: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Show a page. The profile is a folder of its own, so that browsers that run at the same time do not meet."""
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr"]
    command += [f"--user-data-dir={folder / 'profile'}", "--force-device-scale-factor=1", *options, path.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)


def framed(page: str, width: int, height: int, script: str = "") -> str:
    """The page in a frame, since a browser's window does not become as narrow as a phone."""
    frame = f'<iframe style="border:0;width:{width}px;height:{height}px" srcdoc="{html.escape(page)}"></iframe>'
    load = f"<script>document.querySelector('iframe').onload = () => {{{script}}}</script>" if script else ""
    return f'<!doctype html><meta name="color-scheme" content="light dark"><style>body{{margin:0}}</style>{frame}{load}'


def measured(browser: str, folder: Path, page: str, width: int, height: int, *options: str) -> list[dict[str, Any]]:
    """What the frame measures, first as the page comes, then with everything unfolded; fails on a logged message."""
    done = run(browser, folder, framed(page, width, height, MEASURE), "--dump-dom", *options)
    assert not logged(done), logged(done)
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
    assert title, done.stdout[:500]
    found: list[dict[str, Any]] = json.loads(html.unescape(title[1]))
    return found


def logged(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]


SIZES = pytest.mark.parametrize(("width", "height"), [(360, 800), (1280, 900)], ids=["phone", "desk"])


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
    papers = [
        measured(browser, tmp_path / name, fused().html(), 360, 800, f"--blink-settings=preferredColorScheme={scheme}")
        for name, scheme in (("dark", 0), ("light", 1))
        if not (tmp_path / name).mkdir()  # type: ignore[func-returns-value]
    ]
    assert [m[0]["paper"] for m in papers] == ["rgb(13, 17, 23)", "rgb(255, 255, 255)"]


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
    sizes = []
    for name, page in (("folded", fused().html()), ("open", fused().html().replace("<details>", "<details open>"))):
        folder, paper = tmp_path / name, tmp_path / f"{name}.pdf"
        folder.mkdir()
        run(browser, folder, page, f"--print-to-pdf={paper}", "--no-pdf-header-footer")
        sizes.append(paper.read_bytes().count(b"/Type /Page\n") or paper.read_bytes().count(b"/Type/Page"))
    assert sizes[0] == sizes[1] > 3


def test_the_policy_stops_what_is_not_part_of_the_page(browser: str, tmp_path: Path) -> None:
    """That nothing was logged means something: what the page does not allow is logged, and does not run."""
    page = fused().html().replace("</main>", "<script>document.body.remove()</script></main>")
    done = run(browser, tmp_path, framed(page, 360, 800), "--dump-dom")
    assert any("Content Security Policy" in line for line in logged(done))
    with pytest.raises(AssertionError, match="Executing inline script violates"):
        measured(browser, tmp_path, page, 360, 800)

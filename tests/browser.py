"""Pages in a real browser without a window: run, put into a frame of the wanted size, measured, and what was logged.

The page is shown unchanged in the frame; a script of the page around it measures.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SIZES = pytest.mark.parametrize(("width", "height"), [(360, 800), (1280, 900)], ids=["phone", "desk"])

#: ``inside`` says which elements may be wider than the screen, ``extra`` is what else ``measure`` gives.
_MEASURE = """
const frame = document.querySelector('iframe'), page = frame.contentDocument, view = frame.contentWindow;
const width = view.innerWidth, all = [...page.querySelectorAll('body *')];
const inside = e => e.closest('INSIDE');
const measure = () => ({
  inner: width,
  scroll: page.documentElement.scrollWidth,
  wide: all.filter(e => !inside(e) && e.getBoundingClientRect().right > width + 0.5).map(e => e.outerHTML.slice(0, 80)),
  details: page.querySelectorAll('details').length,
  paper: view.getComputedStyle(page.body).backgroundColor,
  coverage: page.querySelector('.coverage').getBoundingClientRect().top,
  scripts: page.scripts.length,
  EXTRA
});
const folded = measure();
page.querySelectorAll('details').forEach(e => e.open = true);
document.title = JSON.stringify([folded, measure()]);
"""


def find() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


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


Measured = Callable[..., list[dict[str, Any]]]


def measurer(inside: str, extra: str) -> Measured:
    """A function that measures pages: first as the page comes, then with everything unfolded; it fails on a logged message.

    What is in an element that matches ``inside`` may be wider than the screen; ``extra``: more entries of a measurement."""
    script = _MEASURE.replace("INSIDE", inside).replace("EXTRA", extra)

    def measured(browser: str, folder: Path, page: str, width: int, height: int, *options: str) -> list[dict[str, Any]]:
        done = run(browser, folder, framed(page, width, height, script), "--dump-dom", *options)
        assert not logged(done), logged(done)
        title = re.search(r"<title>(.*?)</title>", done.stdout, re.DOTALL)
        assert title, done.stdout[:500]
        found: list[dict[str, Any]] = json.loads(html.unescape(title[1]))
        return found

    return measured


def themes(measured: Measured, browser: str, folder: Path, page: str) -> list[dict[str, Any]]:
    """The page in dark and in light, as measured before anything is unfolded."""
    found = []
    for name, scheme in (("dark", 0), ("light", 1)):
        own = folder / name
        own.mkdir()
        option = f"--blink-settings=preferredColorScheme={scheme}"
        found.append(measured(browser, own, page, 360, 800, option)[0])
    return found


def logged(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def pages_on_paper(browser: str, folder: Path, page: str) -> int:
    """How many sheets a print of it has."""
    folder.mkdir()
    paper = folder / "page.pdf"
    run(browser, folder, page, f"--print-to-pdf={paper}", "--no-pdf-header-footer")
    return paper.read_bytes().count(b"/Type /Page\n") or paper.read_bytes().count(b"/Type/Page")

"""The page of an audit: what it says, that no text becomes markup, that it needs nothing and nobody is shut out.

How it looks is tested in test_audit_browser.py, what its plots show in test_plots.py.
"""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

from tests.audit.results import AUDITS, STRANGE, audit, everywhere, over_budget, page, raw, two_outputs
from tests.audit.test_terminal import VERDICTS
from tests.report.page import Element, has_structure, needs_nothing_from_outside, outline, read


def tables(shown: Element) -> dict[str, list[list[str]]]:
    """The cells of each table's rows, by the name of its title, without the head."""
    found = {}
    for t in shown.all("table"):
        body = t.all("tbody")[0].all("tr")
        cells = [[c.text for c in row.children if isinstance(c, Element)] for row in body]
        found[t.attributes["aria-labelledby"]] = cells
        assert {len(row) for row in cells} == {len(t.all("thead")[0].all("tr")[-1].all("th"))}, "every row is full"
    return found


@pytest.mark.parametrize("name", AUDITS)
def test_the_verdict_is_the_first_text(name: str) -> None:
    body = read(page(name)).all("body")[0]
    assert body.text.startswith(VERDICTS[name])
    good = name in ("five contestants", "two outputs", "alone")
    assert body.all("p")[0].attributes["class"] == f"coverage {'passed' if good else 'failed'}"


def test_rows_of_tables() -> None:
    found = {name: len(cells) for name, cells in tables(read(page("two outputs"))).items()}
    assert found == {
        "t-checks": 7,
        "t-errors-0": 5,
        "t-counts-0": 5,
        "t-families-0": 3,
        "t-rows-0": 5,
        "t-errors-1": 1,
        "t-counts-1": 1,
        "t-families-1": 3,
        "t-worst": 1,
        "t-samples-0": 6,
        "t-samples-1": 6,
    }


def test_numbers() -> None:
    r = over_budget()
    found = tables(read(r.html()))
    error, want = raw(r, "kernel")
    kernel = found["t-errors-0"][0]
    assert kernel[0] == "kernel"
    assert [float(kernel[k]) for k in (1, 2, 6, 9, 11, 12)] == [
        pytest.approx(x, rel=6e-3)
        for x in (
            np.sqrt(np.mean(error**2)),
            np.sqrt(np.mean(error**2) / np.mean(want**2)),
            error.max(),
            (error / np.abs(want)).max(),
            error.max() * 2**11,
            error.max() / 0.02,
        )
    ]
    assert found["t-counts-0"][0] == ["kernel", "4608", "3", "48", "7"]
    for k, s in enumerate(r.samples):
        row = found["t-samples-0"][k]
        assert row[:3] == [s.name, s.origin, s.family] and "q 2×24×8, k 2×16×8, scale = 0.125" in row[3]
        assert ("; q: float32 to float16" in row[3]) == (k == 2)
        mine = error[2 * k : 2 * k + 2]
        assert float(row[4]) == pytest.approx(np.sqrt(np.mean(mine**2)), rel=6e-3)
        assert float(row[9]) == pytest.approx(mine.max() * 2**11, rel=6e-3)
        assert float(row[10]) == pytest.approx(mine.max() / 0.02, rel=6e-3)


def test_checks_and_the_worst() -> None:
    shown = read(page("over budget"))
    found = tables(shown)
    assert [row[5] for row in found["t-checks"]] == ["ok"] * 5 + ["FAILED"] * 2
    assert found["t-checks"][-1] == ["largest error", "o", "2.00004", "2", "ulps", "FAILED", "very large 3"]
    failed = [row for row in shown.all("tr") if row.attributes.get("class") == "failed"]
    assert len(failed) == 2 and all(row.all("span")[0].attributes["class"] == "verdict refuted" for row in failed)
    (case,) = over_budget().worst
    assert found["t-worst"][0][:5] == [
        "o",
        case.sample,
        "[" + ", ".join(map(str, case.index)) + "]",
        f"{case.have:.9g}",
        f"{case.want:.9g}",
    ]


def test_figures_say_who_is_in_them() -> None:
    r = two_outputs()
    shown = read(page("two outputs"))
    figures = shown.all("figure")
    assert len(figures) == 10
    for k, figure in enumerate(figures):
        (caption,) = figure.all("figcaption")
        assert [e.text for e in caption.all("li")] == (list(r.contestants) if k < 5 else ["kernel"])
        plots = [e for e in figure.all("svg") if e.attributes["class"] == "plot"]
        assert len(plots) == (3 if k == 4 else 1)
        assert all(e.attributes["role"] == "img" and e.attributes["aria-label"] for e in plots)
        assert all(e.attributes["aria-hidden"] == "true" for e in figure.all("svg") if e not in plots)


def test_what_was_audited() -> None:
    shown = read(page("five contestants"))
    pairs = dict(zip([e.text for e in shown.all("dt")], [e.text for e in shown.all("dd")], strict=True))
    assert pairs == {
        "program": "attention",
        "target": "cuda:90",
        "kernel file": "the text that the certificate is bound to",
        "definition": "sha256:" + "ab" * 32,
        "device": "a GPU",
        "torch": "2.13.0",
        "inputs": "6 samples (5 generated, 1 file); the search for bad inputs tried 640",
        "flash_attn": "did not run: not installed",
    }
    assert [e.attributes for e in shown.all("details")] == [{}], "samples are folded"


def test_nothing_to_show_says_so() -> None:
    text = read(page("nothing compared")).text
    assert "No element was compared: there is nothing to plot." in text
    text = read(page("empty")).text
    assert "Nobody gave this output." in text and "There is no budget." in text


# ------------------------------------------------------------------------------------------- safety


@pytest.mark.parametrize("name", AUDITS)
def test_no_text_becomes_markup(name: str) -> None:
    strange = everywhere(AUDITS[name](), STRANGE)
    text = strange.html()
    assert outline(text) <= {kind for other in AUDITS for kind in outline(page(other))}
    shown = read(text)
    assert shown.all("h1")[0].text == "attention" + STRANGE.replace("\x1b", "\ufffd")
    assert not shown.all("script") and not shown.all("img") and "{{ 7 * 7 }}" in shown.text and "$x_1$" in shown.text
    if name == "five contestants":
        said = [e.attributes["aria-label"] for e in shown.all("svg") if "aria-label" in e.attributes]
        assert len(said) == 7 and all("<script>alert(1)</script> $x_1$" in s for s in said)


@pytest.mark.parametrize("name", AUDITS)
def test_it_needs_nothing_from_outside(name: str) -> None:
    needs_nothing_from_outside(page(name))


def test_names_of_any_bytes_can_be_written() -> None:
    r = everywhere(audit(), "\udcff\x00")
    assert "\x00" not in r.html() and r.html().encode()


# ------------------------------------------------------------------------------------------- everybody can read it


@pytest.mark.parametrize("name", AUDITS)
def test_structure_that_a_screen_reader_needs(name: str) -> None:
    shown = read(page(name))
    has_structure(shown)
    for e in shown.walk():
        if "scroll" in e.attributes.get("class", ""):
            assert e.attributes["tabindex"] == "0" and e.attributes["role"] == "region", "a keyboard can scroll it"


def test_the_same_audit_gives_the_same_page() -> None:
    assert audit().html() == page("five contestants")
    assert not re.search(r"20\d\d-\d\d-\d\d", page("five contestants"))


def test_an_audit_is_read_without_drawing_tools() -> None:
    code = "import sys, neptune_verified.auditing.result, neptune_verified.auditing.html; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"matplotlib", "torch", "tvm", "triton", "sympy", "z3", "rich"}

"""The HTML report: what it says, that no text of a program becomes markup, that it needs nothing and nobody is shut out.

How it looks is tested in test_browser.py.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import neptune_verified.report
from neptune_verified.ir.example import example_text
from neptune_verified.report.html import mathematics
from neptune_verified.report.lines import NO_OBLIGATIONS
from tests.report.examples import REPORTS, STRANGE, everywhere, fused, not_fused, not_verified, refuted
from tests.report.page import Element, contrast, has_structure, needs_nothing_from_outside, outline, read

STYLE = Path(neptune_verified.report.__file__).parent / "templates" / "page.css.j2"


def shown(text: str) -> str:
    """A text as a page shows it, one blank between words."""
    return read(str(mathematics(text))).text


def words(element: Element) -> str:
    """Without the blanks around elements, which ``text`` cannot know to be none."""
    return element.text.replace(" ", "")


# ------------------------------------------------------------------------------------------- content


@pytest.mark.parametrize("name", REPORTS)
def test_coverage_is_the_first_text(name: str) -> None:
    report = REPORTS[name]()
    body = read(report.html()).all("body")[0]
    assert body.text.startswith(report.coverage)
    looks = "partial" if name in ("fused", "not fused") else "failed"
    assert body.all("p")[0].attributes["class"] == f"coverage {looks}"


@pytest.mark.parametrize("name", REPORTS)
def test_every_obligation_with_statement_assumptions_verdicts_and_times(name: str) -> None:
    report = REPORTS[name]()
    rows = [row for table in read(report.html()).all("table") for row in table.all("tr")]
    rows = [row for row in rows if row.all("details")]
    assert len(rows) == len(report.obligations)
    for o in report.obligations:
        row = next(r for r in rows if r.all("th")[0].text.split()[0] == o["id"] and says(r, o["statement"]))
        details = row.all("details")[0]
        assert ("open" in details.attributes) == (o["verdict"] != "proved")
        for s in o["symbols"]:
            assert s["meaning"] in details.text
        for a in o["assumptions"]:
            assert shown(a["text"]).replace(" ", "") in words(details) and a["origin"] in details.text
        for r in o["routes"]:
            assert f"{r['ms']} ms" in row.text and r["verdict"] in row.text
        rows.remove(row)


def says(row: Element, statement: str) -> bool:
    """Quantifier and claim are laid out apart, without the colon between them."""
    (cell,) = (e for e in row.all("td") if e.attributes.get("class") == "statement")
    said = "".join(words(e) for e in cell.all("div"))
    return said == shown(statement).replace(": ", " ", 1).replace(" ", "") or said == shown(statement).replace(" ", "")


def test_a_refused_fusion_comes_with_reason_obligation_and_counterexample() -> None:
    (refusal,) = not_fused().refused
    section = read(not_fused().html()).by_id("fusion").text
    assert refusal.reason in section and f"refused by {refusal.obligation}," in section
    assert f"counterexample false {refusal.counterexample}" in section and " instead of " in section
    assert refusal.example is not None
    assert f"example run {example_text(refusal.example)}" in section


def test_a_refuted_obligation_comes_with_its_counterexample() -> None:
    page = read(refuted().html())
    text = page.by_id("obligations").text
    assert "refuted ; refuted by the falsifier in" in text and "not run" in text
    assert re.search(r"false at [^:]+: \S+ instead of \S+", text)
    assert "What was to be fused (not proved)" in page.text


def test_the_other_things_that_are_signed() -> None:
    report = fused()
    page = read(report.html())
    definition = page.by_id("definition")
    assert "attention.py:7" in definition.text and "m: the identity of max is -inf" in definition.text
    for line in report.definition:
        assert shown(line).replace(" ", "") in words(definition)
    for line in report.loops:
        assert shown(line).replace(" ", "") in words(page.by_id("fusion"))
    for edge in report.fused:
        assert all(shown(t).replace(" ", "") in words(page.by_id("fusion")) for t in (edge.repair, *edge.guards))
    assert "|q| ≤ 100 declared" in page.by_id("inputs").text and "|k| ≤ 65504 default" in page.by_id("inputs").text
    kernel = page.by_id("kernel").text
    assert "p: to float16, an operand of a dot" in kernel and "configurations of k: a, b" in kernel
    assert all(digest in kernel for digest in report.hashes.values())
    assert all(f"{tool} {version}" in kernel for tool, version in report.tools.items())
    assert [e.text for e in page.by_id("signature").all("dt")] == ["Name", "Date", "Signature"]


def test_nothing_proved_says_so() -> None:
    page = read(replace(not_verified(), obligations=()).html())
    assert not page.by_id("obligations").all("table") and NO_OBLIGATIONS in page.text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("max_{j<N} (x[j]) <= 3", "max<sub>j&lt;N</sub> (x[j]) ≤ 3"),
        ("for all m in {-inf, finite}", "∀ m ∈ {−∞, finite}"),
        ("a * b - c != +inf", "a · b − c ≠ ∞"),
        ("|N| <= 2^31 - 1", "|N| ≤ 2<sup>31</sup> − 1"),
        ("info + x_inf + inf_x - finite", "info + x_inf + inf_x − finite"),
        ("a_{<b>}", "a<sub>&lt;b&gt;</sub>"),
    ],
)
def test_signs_of_mathematics(text: str, wanted: str) -> None:
    assert str(mathematics(text)) == wanted


# ------------------------------------------------------------------------------------------- safety


@pytest.mark.parametrize("name", REPORTS)
def test_no_text_becomes_markup(name: str) -> None:
    strange = everywhere(REPORTS[name](), STRANGE)
    assert outline(strange.html()) <= {kind for make in REPORTS.values() for kind in outline(make().html())} | {
        ("sup", ())
    }
    page = read(strange.html())
    assert page.all("h1")[0].text == strange.program and strange.program.endswith(STRANGE)
    assert not page.all("script") and not page.all("img")


def test_strange_verdicts_choose_no_style() -> None:
    page = read(everywhere(fused(), '" onclick="x').html())
    for e in page.walk():
        assert not any(name.startswith("on") for name in e.attributes)
    assert {e.attributes["class"] for e in page.all("span") if "verdict" in e.attributes.get("class", "")} == {
        "verdict open"
    }


@pytest.mark.parametrize("name", REPORTS)
def test_it_needs_nothing_from_outside(name: str) -> None:
    needs_nothing_from_outside(REPORTS[name]().html())


# ------------------------------------------------------------------------------------------- everybody can read it


@pytest.mark.parametrize("name", REPORTS)
def test_structure_that_a_screen_reader_needs(name: str) -> None:
    has_structure(read(REPORTS[name]().html()))


@pytest.mark.parametrize("theme", [0, 1, 2], ids=["light", "dark", "print"])
def test_contrast(theme: int) -> None:
    block = re.findall(r":root \{(.*?)\}", STYLE.read_text(), re.DOTALL)[theme]
    color = dict(re.findall(r"--(\w+): (#\w+);", block))
    pairs = [(name, "paper") for name in ("ink", "quiet", "link", "good", "bad", "open")]
    pairs += [("ink", back) for back in ("inset", "partial", "failed")]
    for front, back in pairs:
        assert contrast(color[front], color[back]) >= 4.5, f"{front} on {back}"

"""An audit as plain text: the verdict first, the numbers that NumPy finds in the errors, never wider than a terminal."""

from __future__ import annotations

import io
import math
import re

import numpy as np
import pytest
from rich.console import Console

from neptune_verified.auditing.result import AuditResult, Case, Check
from neptune_verified.auditing.tables import NOTHING, View, apart, number, of_bound, worst_text
from neptune_verified.auditing.terminal import renderable, text
from tests.audit.results import AUDITS, STRANGE, alone, audit, empty, everywhere, over_budget, raw, two_outputs

LONG = "_an_unbroken_name_of_a_contestant" * 6
VERDICTS = {
    "five contestants": "within its error budget",
    "over budget": "OVER ITS ERROR BUDGET: 2 of 7 checks failed",
    "two outputs": "within its error budget",
    "alone": "within its error budget",
    "nothing compared": "within its error budget, but NO ELEMENT WAS COMPARED",
    "empty": "NO ERROR BUDGET: nothing was checked",
}


def section(shown: str, title: str) -> list[str]:
    """The lines below a heading."""
    lines = shown.splitlines()
    start = next(k for k, line in enumerate(lines) if line.startswith(title)) + 1
    end = next((k for k in range(start, len(lines)) if lines[k] and not lines[k].startswith(" ")), len(lines))
    return lines[start:end]


def rows(lines: list[str], name: str) -> list[list[str]]:
    """What stands behind ``name`` in each line that begins with it."""
    return [line.split()[len(name.split()) :] for line in lines if line.strip().startswith(name + " ")]


@pytest.mark.parametrize("name", AUDITS)
def test_the_verdict_is_the_first_line(name: str) -> None:
    r = AUDITS[name]()
    assert text(r).splitlines()[0] == r.text().splitlines()[0] == VERDICTS[name]
    out = io.StringIO()
    Console(file=out, width=80, color_system="standard", force_terminal=True).print(renderable(r))
    good = name in ("five contestants", "two outputs", "alone")
    assert out.getvalue().startswith("\x1b[1;32m" if good else "\x1b[1;31m")


@pytest.mark.parametrize("name", AUDITS)
@pytest.mark.parametrize("ending", ["", LONG, STRANGE], ids=["short", "long", "strange"])
def test_it_fits_a_terminal_and_commands_nothing(name: str, ending: str) -> None:
    shown = text(everywhere(AUDITS[name](), ending) if ending else AUDITS[name]())
    assert max(map(len, shown.splitlines())) <= 80
    assert all(c.isprintable() or c == "\n" for c in shown)
    assert not any(line.endswith(" ") for line in shown.splitlines())
    assert "[2J" in shown if ending == STRANGE else "…" not in shown, "nothing is cut off, brackets are no markup"


@pytest.mark.parametrize("contestant", ["kernel", "unfused", "eager", "compiled"])
def test_the_numbers_of_a_contestant(contestant: str) -> None:
    r = audit()
    error, want = raw(r, contestant)
    relative, ulps = error / np.abs(want), error * 2.0**11
    top, bottom, compared = rows(section(text(r), "error of o[b, i, j], float16"), contestant)

    def exact(x: float) -> object:
        return pytest.approx(x, rel=6e-3)  # three digits

    def binned(x: np.ndarray, q: int) -> object:
        return pytest.approx(float(np.percentile(x, q, method="inverted_cdf")) * 2 ** (1 / 128), rel=0.012)

    assert [float(x) for x in top] == [
        exact(np.sqrt(np.mean(error**2))),
        exact(np.sqrt(np.mean(error**2) / np.mean(want**2))),
        *(binned(error, q) for q in (50, 90, 99)),
        exact(error.max()),
    ]
    *numbers, bound = bottom
    assert [float(x) for x in numbers] == [
        *(binned(relative, q) for q in (90, 99)),
        exact(relative.max()),
        binned(ulps, 99),
        exact(ulps.max()),
    ]
    assert (bound == NOTHING) == (contestant in ("eager", "compiled"))
    assert bound == NOTHING or float(bound) == exact(error.max() / 0.02)
    assert compared == [str(error.size)]


def test_counts_that_are_zero_for_all_are_a_sentence() -> None:
    shown = section(text(over_budget()), "error of o")
    (heads,) = rows(shown, "elements")
    assert heads == ["compared", "NaN", "undefined", "no", "bound"]
    assert rows(shown, "kernel")[-1] == ["4608", "3", "48", "7"] and rows(shown, "unfused")[-1] == [
        "4608",
        "0",
        "0",
        "0",
    ]
    assert "  0 for all: inf, finite, infinite, above bound" in shown
    assert "  NaN: NaN where the reference has a value" in shown
    assert "  0 for all: NaN, inf, finite, undefined, infinite, no bound, above bound" in section(
        text(audit()), "error of o"
    )


def test_an_error_above_its_bound_is_counted() -> None:
    r = alone()
    s = r.samples[0].statistics["kernel"]["o"]
    s.above = 5
    shown = section(text(r), "error of o")
    assert rows(shown, "elements") == [["compared", "above", "bound"]] and rows(shown, "kernel")[-1] == ["1536", "5"]


def test_checks() -> None:
    shown = section(text(over_budget()), "checks")
    assert sum(" ok" in line for line in shown) == 5 and sum("FAILED" in line for line in shown) == 2
    assert rows(shown, "p99 error") == [["o", "0.75", "4", "ulps", "FAILED"]]
    # 2.00004 is not 2, whatever three digits say.
    assert rows(shown, "largest error")[-1] == ["o", "2.00004", "2", "ulps", "FAILED", "very", "large", "3"]


def test_the_worst_element_and_the_worst_rows() -> None:
    r = audit()
    shown = " ".join(" ".join(section(text(r), "worst element of the kernel")).split())
    error, want = raw(r, "kernel")
    at = np.unravel_index(error.argmax(), error.shape)
    number_, first = divmod(int(at[0]), 2)
    e, w = error[at], want[at]
    assert shown.startswith(
        f"o[{first}, {at[1]}, {at[2]}] in {r.samples[number_].name}: {w + e:.9g} instead of {w:.9g}, error"
    )
    assert float(re.findall(r"error (\S+),", shown)[0]) == pytest.approx(e, rel=6e-3)
    assert float(re.findall(r"(\S+) ulps", shown)[0]) == pytest.approx(e * 2**11, rel=6e-3)
    assert shown.endswith("of its bound 0.02")
    rms = np.sqrt((error**2).mean(axis=-1)).reshape(len(r.samples), -1).max(axis=1)
    listed = [float(line.split()[-1]) for line in section(text(r), "worst rows of o")[1:] if line]
    assert listed == [pytest.approx(x, rel=6e-3) for x in sorted(rms, reverse=True)[:5]]


def test_rms_by_family() -> None:
    r = audit()
    shown = section(text(r), "RMS of o by family of samples")
    assert rows(shown, "RMS") == [["kernel", "unfused", "eager", "compiled", "reference", "float32"]]
    for family in ("normal", "very large", "near zero"):
        (found,) = rows(shown, family)
        wanted = [np.sqrt(np.mean(raw(r, c, family)[0] ** 2)) for c in r.contestants]
        assert [float(x) for x in found] == [pytest.approx(x, rel=6e-3) for x in wanted]


def test_what_ran_and_what_did_not() -> None:
    shown = text(audit())
    assert section(shown, "peers that did not run") == ["  flash_attn: not installed", ""]
    assert section(shown, "inputs") == ["  6 samples (5 generated, 1 file); the search for bad inputs tried 640"]
    assert "kernel file  the text that the certificate is bound to" in shown and "device       a GPU" in shown
    assert "bad inputs were not searched for" in text(empty()) and "peers" not in text(empty())


def test_an_output_that_only_the_kernel_gives() -> None:
    shown = section(text(two_outputs()), "error of lse[b, one], float32")
    assert rows(shown, "kernel") == [["0"] * 6, ["0"] * 6, ["24"]] and not rows(shown, "unfused")


def test_many_contestants_are_cut_into_tables() -> None:
    sizes = {"kernel": 1e-4, **{f"peer number {k}": 1e-3 for k in range(9)}}
    shown = section(text(audit(sizes)), "RMS of o by family of samples")
    assert [len(found) for found in rows(shown, "normal")] == [6, 4]


@pytest.mark.parametrize(
    ("x", "wanted"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (123456.0, "1.23e5"),
        (9999.5, "10000"),
        (1234.5, "1234"),
        (0.0123456, "0.0123"),
        (0.00999, "9.99e-3"),
        (1e-300, "1e-300"),
        (2.5e-7, "2.5e-7"),
        (math.inf, "inf"),
        (math.nan, NOTHING),
        (-0.5, "-0.5"),
    ],
)
def test_numbers(x: float, wanted: str) -> None:
    assert number(x) == wanted
    if math.isfinite(x):
        assert float(wanted) == pytest.approx(x, rel=5e-3)


def test_what_differs_is_shown_to_differ() -> None:
    assert apart(1.0, 1.0) == ("1", "1") and apart(0.5, 1.0) == ("0.5", "1")
    assert apart(1.0000001, 1.0) == ("1.0000001", "1") and apart(0.99999, 1.0)[0] == "0.99999"
    near = np.nextafter(1000.0, 2000.0)
    assert apart(float(near), 1000.0)[0] != "1000"


def test_an_error_where_none_is_allowed_is_the_worst() -> None:
    case = Case("s", "o", (0,), 1.0, 0.0, 1.0, 3.0, 0.0)
    assert of_bound(case) == "inf" and worst_text(case).endswith("inf of its bound 0")
    other = Case("s", "o", (1,), 9.0, 0.0, 9.0, 30.0, 0.5)
    r = alone()
    r.samples[0].worst = (other, case)
    assert r.worst == [case]
    assert worst_text(Case("s", "o", (), 1.0, 0.0, 1.0, 3.0, None)).endswith("3 ulps, no bound follows")


def test_ok_needs_checks_and_elements() -> None:
    r: AuditResult = alone()
    assert View(r).passed
    r.checks = [Check("c", "o", 2, 1, "ulps", False)]
    assert not View(r).passed and not r.ok
    r.checks = []
    assert not View(r).passed

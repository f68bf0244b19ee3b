"""Reports: their text (golden files), the same from objects and from a folder, and folders that are none.

ACCEPT=1 in the environment writes the golden files anew.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from neptune_verified.fusion.fuse import fuse
from neptune_verified.ir.expr import var
from neptune_verified.ir.serialize import FormatError
from neptune_verified.proofs.kernel import Prover, VerifiedProgram, required, verify
from neptune_verified.report import Report
from tests.definitions import attention, softmax, unfusable
from tests.proofs.folders import edit_json, whole, write

GOLDEN = Path(__file__).parent / "golden"
COVERAGE = "proved O1-O14, O16"


@pytest.fixture(scope="module")
def verified() -> VerifiedProgram:
    return verify(fuse(attention()))


def report_of(verified: VerifiedProgram) -> Report:
    return whole(verified)


def steady(report: Report) -> Report:
    """Without what differs from run to run and from machine to machine."""
    obligations = tuple({**o, "routes": [{**r, "ms": 1.0} for r in o["routes"]]} for o in report.obligations)
    hashes = dict.fromkeys(report.hashes, "sha256:...")
    return replace(report, obligations=obligations, hashes=hashes, tools=dict.fromkeys(report.tools, "..."))


def compare(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("ACCEPT") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    wanted = path.read_text() if path.exists() else ""
    assert text == wanted, f"golden/{name} differs. If the new text is right: ACCEPT=1 python -m pytest tests/report"


def shown(report: Report) -> str:
    console = Console(width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115 -- closed with the process
    console.print(report.terminal())
    return "\n".join(line.rstrip() for line in console.export_text().splitlines()) + "\n"


# ------------------------------------------------------------------------------------------- texts


def test_the_report_of_a_fused_program_as_markdown(verified: VerifiedProgram) -> None:
    compare("attention.md", steady(report_of(verified)).markdown())


@pytest.mark.parametrize("program", [softmax(), unfusable()], ids=["softmax", "waves"])
def test_the_report_for_the_terminal(program: Any) -> None:
    compare(f"{program.name}.txt", shown(steady(report_of(verify(fuse(program))))))


def test_a_program_that_is_refused(verified: VerifiedProgram) -> None:
    """Where a proof fails the report holds the failure, with its counterexample."""
    nest = verified.loops.nests[0]
    p = nest.passes[0]
    carried = tuple(
        replace(c, repair=replace(c.repair, h=var("t"))) if c.name == "l" and c.repair else c for c in p.carried
    )
    wrong = replace(verified.loops, nests=(replace(nest, passes=(replace(p, carried=carried),)),))
    prover = Prover()
    report = Report.from_proved(wrong, [prover.prove(o) for o in required(wrong)], "REFUSED: O1 of l")
    text = report.markdown()
    assert text.splitlines()[0] == "REFUSED: O1 of l"
    assert "- refuted: falsifier refuted in" in text and "- false at " in text
    words = " ".join(shown(report).split())
    assert "refuted by the falsifier in" in words and "not run" in words and "false at " in words
    assert sum(o["verdict"] == "proved" for o in report.obligations) < len(report.obligations)


def test_coverage_comes_first_everywhere(verified: VerifiedProgram) -> None:
    report = report_of(verified)
    assert report.markdown().splitlines()[0] == COVERAGE
    assert shown(report).splitlines()[0] == COVERAGE
    assert next(iter(report.to_json().items())) == ("coverage", COVERAGE)
    assert Report.from_verified(verified, coverage="NOT VERIFIED").markdown().startswith("NOT VERIFIED\n")


def test_what_a_reviewer_looks_for(verified: VerifiedProgram) -> None:
    report = report_of(verified)
    assert report.passes == 1 and report.kernels == 1
    assert [(e.consumer, e.producers, e.strategy) for e in report.fused] == [
        ("l", ("m",), "ratio"),
        ("o", ("m",), "ratio"),
    ]
    assert report.fused[0].guards == ("m' = m_new, or 0 where that is -inf",)
    assert [h.stage for h in report.hoists] == ["o"]
    assert report.locations == {"s": "attention.py:7", "m": "attention.py:9"}
    text = shown(report)
    assert re.search(r"m\[i\] = max_\{r1_0<N\} \(sm\[i, r1_0\]\) +attention\.py:9$", text, re.MULTILINE)
    assert "|q| <= 100 (declared)" in text and "|k| <= 65504 (default)" in text
    assert "m: the identity of max is -inf" in text
    assert "p: to float16, an operand of a dot" in text
    assert "configurations of k: a, b" in text


def test_why_an_edge_is_not_fused() -> None:
    report = Report.from_verified(verify(fuse(unfusable())))
    (refusal,) = report.refused
    assert refusal.consumer == "waves" and refusal.reason
    assert f"waves over total: not fused, {refusal.reason}" in " ".join(shown(report).split())


def test_to_json_is_json(verified: VerifiedProgram) -> None:
    data = report_of(verified).to_json()
    assert json.loads(json.dumps(data))["program"] == "attention"


# ------------------------------------------------------------------------------------------- folders


def test_a_folder_gives_the_same_report(verified: VerifiedProgram, tmp_path: Path) -> None:
    assert Report.from_folder(write(tmp_path / "f", verified)) == report_of(verified)


def test_a_folder_is_shown_without_compiler_and_provers(verified: VerifiedProgram, tmp_path: Path) -> None:
    write(tmp_path / "f", verified)
    code = (
        "import sys\n"
        "from neptune_verified.report import Report\n"
        f"print(len(Report.from_folder({str(tmp_path / 'f')!r}).markdown()) > 1000)\n"
        "heavy = ('tvm', 'torch', 'triton', 'z3', 'sympy', 'neptune_verified.fusion', 'neptune_verified.tile')\n"
        "print([m for m in heavy if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["True", "[]"]


def drop(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).unlink()


WRONG: dict[str, tuple[Callable[[Path], object], type[Exception], str]] = {
    "no certificate": (drop("certificate.json"), FileNotFoundError, "f holds no certificate.json"),
    "no loop program": (drop("loop.json"), FileNotFoundError, "f holds no loop.json"),
    "no definition": (drop("program.json"), FileNotFoundError, "f holds no program.json"),
    "broken": (lambda f: (f / "loop.json").write_text("{"), FormatError, "loop.json: not JSON"),
    "binary": (lambda f: (f / "loop.json").write_bytes(b"\xff"), FormatError, "loop.json: not UTF-8 text"),
    "other definition": (
        lambda f: edit_json(f, "program.json", lambda d: d.update(name="other")),
        FormatError,
        "certificate.json: it belongs to another definition than program.json",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_folder_that_is_none(name: str, verified: VerifiedProgram, tmp_path: Path) -> None:
    damage, error, message = WRONG[name]
    folder = write(tmp_path / "f", verified)
    damage(folder)
    with pytest.raises(error) as caught:
        Report.from_folder(folder)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_no_folder_at_all(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no folder nowhere"):
        Report.from_folder(tmp_path / "nowhere")

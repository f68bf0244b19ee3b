"""``neptune-verified audit`` as a user runs it: on a folder and on a definition, its files, its exit codes, bad input."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import torch

from tests.browser import logged
from tests.browser import run as show
from tests.command import ROOT, run, run_alone

PEER = """
import torch

def double(q, k, v, *, program, D=0):
    assert program == "attention" and D in (0, 16), (program, D)
    s = q.double() @ k.double().transpose(1, 2) / 4
    return (torch.softmax(s, -1) @ v.double()).half()

def half_as_much(q, k, v):
    return double(q, k, v, program="attention") / 2
"""


def alone(*args: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Where nobody said that kernels are to be interpreted."""
    return run_alone(*args, cwd=cwd, without=("TRITON_INTERPRET",))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit") / "attention"
    source = "examples/attention.py:attention"
    done = run(
        "compile", source, "--target", "interpret", "--out", str(folder), "--set", "H=1", "D=16", "dtype=float16"
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_a_folder_against_the_peers_of_its_definition(built: Path, browser: str, tmp_path: Path) -> None:
    """What the README says, its page in a browser, and the same again from the inputs that it kept."""
    out = tmp_path / "audit"
    sizes = ("--sizes", "M=20", "N=70", "--families", "normal,very negative,ramp")
    done = alone("audit", str(built), "--against", "flex,sdpa", *sizes, "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("within its error budget\n") and "Warning" not in done.stderr
    for name in ("kernel", "unfused", "flex", "sdpa"):
        assert re.search(rf"^ *{name} +\d", done.stdout, re.MULTILINE), name
    assert done.stdout.splitlines()[-1] == f"wrote {out}"
    assert {p.name for p in out.iterdir()} == {"audit.json", "audit.html", "worst.pt"}
    data = json.loads((out / "audit.json").read_text())
    assert data["ok"] and data["contestants"] == ["kernel", "unfused", "flex", "sdpa"] and not data["missing"]
    assert {s["family"] for s in data["samples"]} == {"normal", "very negative", "ramp"}
    assert data["totals"]["flex"]["o"]["compared"] == data["totals"]["kernel"]["o"]["compared"] == 3 * 20 * 16
    (normal,) = (s for s in data["samples"] if s["family"] == "normal")
    assert all(1e-5 < normal["statistics"][c]["o"]["relative_rms"] < 1e-3 for c in data["contestants"])

    shown = show(browser, tmp_path, (out / "audit.html").read_text(), "--dump-dom")
    assert not logged(shown)
    assert shown.stdout.count("<svg") >= 4 and "within its error budget" in shown.stdout
    assert len(re.findall(r'<th scope="row">(?:kernel|unfused|flex|sdpa)</th>', shown.stdout)) >= 4

    again = run("audit", str(built), "--inputs", str(out / "worst.pt"), "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["worst"][0]["error"] == data["worst"][0]["error"]


def test_a_definition_with_a_peer_of_ones_own(tmp_path: Path) -> None:
    """Parameters reach the peer; a budget in units of a peer; exit code 5."""
    (tmp_path / "mine.py").write_text(PEER)
    torch.save([torch.randn(1, n, 16) for n in (5, 9, 9)], tmp_path / "x.pt")
    common = ("audit", f"{ROOT}/examples/attention.py:attention", "--set", "H=1", "D=16", "dtype=float16")
    common += ("--target", "interpret", "--inputs", "x.pt", "--against", "mine.py:double,half_as_much")
    done = alone(*common, "--budget", "half_as_much=0.1", "relative_rms=1e-3", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "q: float32 to float16" in run(*common, "--json", cwd=tmp_path).stdout
    done = run(*common, "--budget", "half_as_much=1e-9", "double=5", cwd=tmp_path)
    assert done.returncode == 5 and done.stdout.startswith("OVER ITS ERROR BUDGET: 1 of 4 checks failed")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nowhere"], "nowhere is neither a folder nor FILE.py:FUNCTION"),
        (["examples"], "examples holds no kernel.py"),
        (["BUILT", "--target", "cuda:90"], "--target is for FILE.py:FUNCTION"),
        (["BUILT", "--against", "flash3"], "attention.py: it has no 'flash3'"),
        (["BUILT", "--against", "no.py:flex"], "no.py: no such file"),
        (["BUILT", "--against", "kernel"], "a peer cannot be called 'kernel'"),
        (["BUILT", "--budget", "rms"], "--budget takes NAME=VALUE, got 'rms'"),
        (["BUILT", "--budget", "rms=low"], "--budget rms: a number is wanted, got 'low'"),
        (["BUILT", "--budget", "speed=1"], "a budget has no 'speed'"),
        (["BUILT", "--budget", "flex=1"], "a budget has no 'flex'"),
        (["BUILT", "--sizes", "N=x"], "--sizes N: a number is wanted, got 'x'"),
        (["BUILT", "--sizes", "K=1"], "attention has no size 'K'"),
        (["BUILT", "--sizes", "N=-1"], "N >= 0"),
        (["BUILT", "--families", "normal,odd"], "no family 'odd'"),
        (["BUILT", "--inputs", "none.pt"], "none.pt: no such file"),
        (["BUILT", "--inputs", "README.md"], "inputs are read from files called .pt"),
        (["BUILT", "--seeds", "0"], "--seeds is at least 1"),
        (["BUILT", "--search", "-1"], "--search at least 0"),
        (["BUILT", "--out", "README.md/x"], "README.md is not a folder"),
    ],
)
def test_bad_input_is_one_line(args: list[str], message: str, built: Path) -> None:
    done = run("audit", *(str(built) if a == "BUILT" else a for a in args))
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ") and message in line, line


def test_a_folder_with_other_files_is_left_alone(built: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    done = run("audit", str(built), "--families", "zeros", "--sizes", "M=1", "N=1", "--out", str(tmp_path))
    assert done.returncode == 1 and "holds other files" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]

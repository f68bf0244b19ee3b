"""The benchmark of the ten operators, for Triton's interpreter: right kernels pass, a wrong one fails, peers agree."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def operators(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / "operators.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | {"PYTHONPATH": ""})


def test_operators_are_judged_and_timed(tmp_path: Path) -> None:
    folder, only = str(tmp_path / "build"), ("--only", "^dc_alibi", "--dtypes", "float16")
    built = operators("build", "--target", "interpret", "--out", folder, *only)
    assert built.returncode == 0, built.stderr
    assert sorted(p.name for p in (tmp_path / "build").iterdir()) == ["dc_alibi-float16", "dc_alibi-float16-small"]

    right = operators("correct", "--build", folder, "--lengths", "1", "17", "--out", f"{tmp_path}/c.json", *only)
    assert right.returncode == 0, right.stdout + right.stderr
    assert json.loads((tmp_path / "c.json").read_text())["ok"] == 6
    timed = operators("time", "--build", folder, "--lengths", "16", "--out", f"{tmp_path}/t.json", *only)
    assert timed.returncode == 0, timed.stdout + timed.stderr
    (row,) = json.loads((tmp_path / "t.json").read_text())["rows"]
    assert set(row["ms"]) == {"ours", "flex"} and row["difference"]["flex"] < 2e-3
    assert re.search(r"^dc_alibi +float16 +16 .* - +- +[\d.]+ GB/s", timed.stdout, re.MULTILINE)

    kernel = tmp_path / "build" / "dc_alibi-float16-small" / "kernel.py"
    text = kernel.read_text()
    kernel.write_text(text.replace("* 0.125)", "* 0.126)"))
    assert kernel.read_text() != text
    wrong = operators("correct", "--build", folder, "--lengths", "17", *only)
    assert wrong.returncode == 1
    assert re.search(r"^dc_alibi-float16-small +1x17 .* FAILED$", wrong.stdout, re.MULTILINE)
    assert re.search(r"^dc_alibi-float16 +1x17 .* ok$", wrong.stdout, re.MULTILINE)

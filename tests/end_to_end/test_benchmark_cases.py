"""The cases for a GPU, built for Triton's interpreter: the runner passes right kernels and fails wrong ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def cases(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / "cases.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | {"PYTHONPATH": ""})


def test_cases_are_run_and_a_wrong_kernel_fails(tmp_path: Path) -> None:
    only = "^(lengths|12_heads_on_2)-"
    built = cases("build", "--target", "interpret", "--dtypes", "float32", "--only", only, "--out", str(tmp_path))
    assert built.returncode == 0, built.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["12_heads_on_2-float32", "lengths-float32"]
    right = cases("run", "--kernels", str(tmp_path))
    assert right.returncode == 0, right.stdout + right.stderr
    assert re.search(r"^\d\d ok, 0 failed$", right.stdout, re.MULTILINE)

    kernel = tmp_path / "lengths-float32" / "kernel.py"
    text = kernel.read_text()
    at = text.index("import torch")
    wrong = re.sub(r"mask=\((t_\d+) & t_\d+\)\[:, None\]", r"mask=\1[:, None]", text[at:])
    assert wrong != text[at:]
    kernel.write_text(text[:at] + wrong)
    (tmp_path / "12_heads_on_2-float32" / "kernel.py").write_text("ENTRY = 'case'")
    failed = cases("run", "--kernels", str(tmp_path), "--failures")
    assert failed.returncode == 1
    assert re.search(r"^lengths-float32 .*nan beyond.* FAILED$", failed.stdout, re.MULTILINE)
    assert re.search(r"^12_heads_on_2-float32 .*AttributeError.* FAILED$", failed.stdout, re.MULTILINE)
    assert re.search(r"^\d+ ok, [1-9]\d* failed$", failed.stdout, re.MULTILINE)

"""The command line, called as a user calls it, in this process: loading torch and TVM anew takes longer than most tests.

Some tests start a process of their own, to show that nothing which was imported here is needed."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from neptune_verified import cli

ROOT = Path(__file__).parents[1]
#: What the output looks like depends on these.
SHOWN = {"COLUMNS": "200", "NO_COLOR": "1"}


def run(*args: str, cwd: Path = ROOT, env: Mapping[str, str] = SHOWN) -> subprocess.CompletedProcess[str]:
    out, err = io.StringIO(), io.StringIO()
    code: int | str | None = None
    with (
        chdir(cwd),
        patch.dict(os.environ, env),
        patch.object(sys, "argv", ["neptune-verified", *args]),
        patch.object(sys, "path", [*sys.path]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            cli.main()
        except SystemExit as e:
            code = e.code
    assert isinstance(code, int)
    return subprocess.CompletedProcess(["neptune-verified", *args], code, out.getvalue(), err.getvalue())


def run_alone(*args: str, cwd: Path = ROOT, without: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """In a process of its own."""
    environment = {k: v for k, v in os.environ.items() if k not in without} | SHOWN
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "neptune_verified.cli", *args]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, check=False)

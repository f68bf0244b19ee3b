"""Loads a compiled folder's kernel.py, with torch and triton alone, for whatever it was compiled for."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from types import ModuleType


def load(folder: Path) -> tuple[ModuleType, bool]:
    """The kernel file as a module, and whether it is for Triton's interpreter, which has to be chosen before its import."""
    file = folder / "kernel.py"
    interpret = 'TARGET = "interpret"' in file.read_text()
    if interpret:
        os.environ["TRITON_INTERPRET"] = "1"
    spec = importlib.util.spec_from_file_location(re.sub(r"\W", "_", folder.name), file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, interpret

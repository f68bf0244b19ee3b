"""Loads and runs emitted kernel files. Needs torch and triton alone; both are imported when something is launched.

Not trusted: what runs is the text of kernel.py, which the certificate is bound to by hash.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from neptune_verified.errors import ShapeError, UnsupportedProgram

INTERPRET = "interpret"


def gpu_target() -> str | None:
    """The target of the GPU that is there ("cuda:90", "hip:gfx942"), or None. torch is asked only if a driver exists."""
    if not (Path("/dev/nvidiactl").exists() or Path("/dev/kfd").exists() or "torch" in sys.modules):
        return None
    import torch

    if not torch.cuda.is_available():
        return None
    if torch.version.hip:
        return f"hip:{torch.cuda.get_device_properties(0).gcnArchName.split(':')[0]}"
    major, minor = torch.cuda.get_device_capability()
    return f"cuda:{major}{minor}"


def check_target(target: str) -> str:
    """``target`` itself if it is one that kernels are written for; UnsupportedProgram otherwise."""
    if not isinstance(target, str):
        raise TypeError(f"target is a text such as 'cuda:90', got {type(target).__name__}")
    kind, _, arch = target.partition(":")
    if (
        target in (INTERPRET, "llvm")
        or (kind == "cuda" and arch.isdigit() and 70 <= int(arch) < 200)
        or (kind == "hip" and arch.startswith("gfx"))
    ):
        return target
    raise UnsupportedProgram(
        f"target {target!r}", why='targets are "cuda:90" and the like, "hip:gfx942", "interpret" and "llvm"'
    )


def enter_interpreter() -> None:
    """Triton decides when it is imported whether its own library functions are interpreted."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        return
    if "triton" in sys.modules:
        raise RuntimeError(
            "the target 'interpret' needs Triton's interpreter, but triton was imported without it: "
            "set TRITON_INTERPRET=1 before the first import of triton"
        )
    os.environ["TRITON_INTERPRET"] = "1"


class LoadedKernel:
    """A kernel file in memory. Call it with torch tensors, in the order of the definition's inputs.

    Returns one tensor, or a tuple in the order of ``outputs``. Raises ShapeError where a rank, dtype, device or length
    does not fit, RuntimeError where the target's device is not there.
    """

    def __init__(self, source: str, name: str, target: str) -> None:
        self.source, self.name, self.target = source, name, target
        self._function: Callable[..., Any] | None = None

    @property
    def function(self) -> Callable[..., Any]:
        if self._function is None:
            if self.target == INTERPRET:
                enter_interpreter()
            elif os.environ.get("TRITON_INTERPRET") == "1":
                raise RuntimeError(
                    f"this kernel was compiled for {self.target}; unset TRITON_INTERPRET to run it there"
                )
            module = module_from_text(self.source, self.name)
            module.ShapeError = ShapeError  # type: ignore[attr-defined]
            self._function = getattr(module, self.name)
        return self._function

    def __call__(self, *tensors: Any, out: Any = None, config: str | None = None, **scalars: Any) -> Any:
        if self.target != INTERPRET and tensors and not getattr(tensors[0], "is_cuda", False):
            raise RuntimeError(
                f"this kernel was compiled for {self.target}, and the tensors are on "
                f"{getattr(tensors[0], 'device', 'no device')}: move them there, or compile with target='interpret'"
            )
        try:
            return self.function(*tensors, out=out, config=config, **scalars)
        except TypeError as e:
            if "argument" in str(e) and self.name in str(e):
                raise ShapeError(str(e)) from None
            raise


_FOLDERS: list[str] = []


def module_from_text(source: str, name: str) -> ModuleType:
    """Import ``source``; Triton reads a kernel's text from its file, so there is one (temporary) until exit."""
    if not _FOLDERS:
        _FOLDERS.append(tempfile.mkdtemp(prefix="neptune_verified_"))
        atexit.register(shutil.rmtree, _FOLDERS[0], ignore_errors=True)
    path = Path(_FOLDERS[0]) / f"{name}_{len(os.listdir(_FOLDERS[0]))}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"cannot import the kernel file {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load(folder: str | Path) -> LoadedKernel:
    """A saved kernel (``kernel.save``). The folder's certificate is not checked here: that is ``neptune-verified check``.

    Raises FileNotFoundError with one line where a file is missing."""
    path = Path(folder) / "kernel.py"
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder} holds no kernel.py: it is not a folder written by `neptune-verified compile`"
        )
    source = path.read_text()
    found = {k: re.search(rf'^{k} = "([^"]+)"$', source, re.MULTILINE) for k in ("ENTRY", "TARGET")}
    entry, target = found["ENTRY"], found["TARGET"]
    if entry is None or target is None:
        raise ValueError(f"{path} has no ENTRY and TARGET: it is no kernel file for a GPU or for Triton's interpreter")
    return LoadedKernel(source, entry.group(1), target.group(1))

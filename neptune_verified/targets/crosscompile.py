"""Compiles the kernels of an emitted file for a GPU that need not be there: ``python -m ... FILE TARGET``.

Not trusted: it only says whether Triton accepts the text, and what the machine code needs. Runs as a process of its own,
because Triton decides at import whether it interprets.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from neptune_verified.errors import UnsupportedProgram
from neptune_verified.runtime import check_target


@dataclass(frozen=True, slots=True)
class Compiled:
    """One kernel in one configuration: shared memory in bytes, and the size of the machine code."""

    kernel: str
    config: str
    shared: int
    binary: int


def crosscompile(source: str, name: str, target: str, folder: str | Path) -> list[Compiled]:
    """Compile every configuration in ``source`` for ``target``; UnsupportedProgram with Triton's last line if it fails."""
    check_target(target)
    path = Path(folder) / f"{name}_aot.py"
    path.write_text(source)
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", __name__, str(path), target]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [x for x in done.stderr.splitlines() if x.strip()]
        raise UnsupportedProgram(
            f"target {target}", name, None, f"Triton does not compile the kernel: {lines[-1] if lines else '?'}"
        )
    return [Compiled(**row) for row in json.loads(done.stdout.splitlines()[-1])]


def _target(text: str) -> Any:
    from triton.backends.compiler import GPUTarget

    kind, _, arch = text.partition(":")
    return GPUTarget("cuda", int(arch), 32) if kind == "cuda" else GPUTarget("hip", arch, 64)


def _main(path: str, target: str) -> None:
    import importlib.util

    import triton
    from triton.compiler import ASTSource

    spec = importlib.util.spec_from_file_location("kernel_text", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows = []
    for name in [n for n in dir(module) if n.endswith("_kernel")]:
        signature = dict(getattr(module, f"{name.upper()}_SIGNATURE"))
        for config, (blocks, options, _) in getattr(module, f"{name.upper()}_CONFIGS").items():
            constants = {k: 1 for k, v in signature.items() if v == "one"} | blocks
            types = {
                k: "constexpr" if k in constants else v for k, v in (signature | dict.fromkeys(blocks, "")).items()
            }
            aligned = [k for k, v in types.items() if v.startswith("*") or (k.startswith("stride_") and v == "i32")]
            attrs = {(list(types).index(k),): [["tt.divisibility", 16]] for k in aligned}
            source = ASTSource(
                getattr(module, name), types, {(list(types).index(k),): v for k, v in constants.items()}, attrs
            )
            built = triton.compile(source, target=_target(target), options=dict(options))
            binary = next(len(built.asm[k]) for k in ("cubin", "hsaco") if k in built.asm)
            rows.append(asdict(Compiled(name, config, int(built.metadata.shared), binary)))
    print(json.dumps(rows))


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2])

"""The architecture as tests: who may import whom, who knows an operator's name, who may make a VerifiedProgram."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "neptune_verified"
CORE = ("ir", "fusion", "proofs", "tile")
#: What no file of the core may know. (Strategy and op names such as "exp" are mathematics, not operators.)
OPERATORS = re.compile(r"attention|softmax|flash|layer_?norm|rms_?norm|query|performer|welford", re.IGNORECASE)
FORBIDDEN = {
    "ir": ("fusion", "proofs", "tile", "targets", "pipeline", "report", "cli"),
    "proofs": ("fusion", "tile", "targets", "pipeline", "report", "cli"),
    "fusion": ("tile", "targets", "pipeline", "report", "cli"),
    "tile": ("targets", "pipeline", "report", "cli"),
}


def files(folder: str) -> list[Path]:
    found = sorted((PACKAGE / folder).rglob("*.py"))
    assert found, folder
    return found


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("folder", CORE)
def test_no_operator_is_known_by_name(folder: str) -> None:
    for path in files(folder):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = line.split("#")[0]
            assert not OPERATORS.search(code), f"{path.name}:{number}: {line.strip()}"


@pytest.mark.parametrize("folder", CORE)
def test_imports_go_one_way(folder: str) -> None:
    for path in files(folder):
        for module in imports(path):
            for other in FORBIDDEN[folder]:
                assert not module.startswith(f"neptune_verified.{other}"), f"{path} imports {module}"


@pytest.mark.parametrize("folder", ["ir", "proofs"])
def test_the_trusted_part_imports_neither_tvm_nor_torch(folder: str) -> None:
    for path in files(folder):
        assert not {m.split(".")[0] for m in imports(path)} & {"tvm", "torch", "triton"}, path


def test_only_the_kernel_makes_verified_programs() -> None:
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "VerifiedProgram":
                assert path.name == "kernel.py", f"{path}:{node.lineno} makes a VerifiedProgram"


def test_each_file_says_whether_it_is_trusted() -> None:
    for folder in (*CORE, "frontend", "targets", "report", "auditing"):
        for path in files(folder):
            text = ast.get_docstring(ast.parse(path.read_text())) or ""
            if path.name != "__init__.py":
                assert text.startswith(("Trusted", "Not trusted", "Compiles")), f"{path}: {text[:60]!r}"


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, neptune_verified, neptune_verified.cli; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(done.stdout))
    assert not loaded & {"tvm", "torch", "triton", "sympy", "z3", "numpy", "jinja2", "matplotlib"}

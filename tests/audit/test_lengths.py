"""Lengths at which a kernel is audited when nobody says any; what the package imports."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from neptune_verified.auditing import lengths
from neptune_verified.auditing.assumptions import size_violations
from neptune_verified.auditing.generate import generate
from neptune_verified.auditing.lengths import default_sizes
from neptune_verified.auditing.structure import structure
from neptune_verified.ir.expr import op, size
from neptune_verified.ir.program import Assumption
from tests.audit.test_generate import causal
from tests.audit.test_inputs import weighted
from tests.definitions import attention


@pytest.mark.parametrize("small", [True, False])
def test_default_sizes(small: bool) -> None:
    found = default_sizes(causal(), small)
    assert {"M": 1, "N": 1} in found
    assert any(e["M"] > e["N"] > 1 for e in found) and any(e["N"] > e["M"] > 1 for e in found)
    assert any(e["N"] > 128 and e["N"] % 64 and e["M"] % 16 for e in found)
    assert any(e["N"] == 0 and e["M"] for e in found) and any(e["M"] == 0 and e["N"] for e in found)
    assert max(max(e.values()) for e in found) <= (5000 if small else 20000)


def test_default_sizes_within_assumptions() -> None:
    for e in default_sizes(attention(), True):
        assert size_violations(attention(), e) == [] and e["N"] >= 16
    p = replace(causal(), assumptions=(Assumption("holds", "", None, op("le", size("N"), size("M"))),))
    assert all(e["N"] <= e["M"] for e in default_sizes(p, True))
    sizes = default_sizes(weighted(), True)
    assert all(e["N"] % 2 == 0 and e["shift"] == 0.75 for e in sizes)
    assert all(generate(weighted(), "normal", e).scalars == {"shift": 0.75} for e in sizes)


def test_requested_sizes() -> None:
    p = causal()
    assert all(e["M"] == 7 for e in default_sizes(p, True, {"M": 7}))
    assert default_sizes(p, True, {"M": 7, "N": 9}) == [{"M": 7, "N": 9}]
    with pytest.raises(ValueError, match="causal has no size 'K': choose among M, N"):
        default_sizes(p, True, {"K": 7})
    with pytest.raises(ValueError, match=r"N % 16 == 0 at M = .*, N = 5: give them all"):
        default_sizes(attention(), True, {"N": 5})


def test_nothing_heavy_is_imported() -> None:
    """Audits run on GPU machines that have torch alone."""
    modules = "generate", "inputs", "recording", "peers"
    code = "import sys; sys.modules |= dict.fromkeys(('tvm', 'z3', 'sympy')); from neptune_verified.auditing import "
    code += ", ".join(modules) + "; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_front_end_agrees_on_indices() -> None:
    pytest.importorskip("tvm")
    from neptune_verified.frontend.check import index_ranges
    from neptune_verified.ir.interpret import Evaluator

    evaluator: Any = Evaluator({}, {"M": 3, "N": 4, "T": 3, "shift": 0.5})
    assert index_ranges(weighted(), evaluator) == {"k": structure(weighted()).index_range("k", evaluator)}


def test_an_audit_needs_neither_tvm_nor_a_prover() -> None:
    code = "import sys; sys.modules |= dict.fromkeys(('tvm', 'z3', 'sympy')); import neptune_verified as nv; nv.audit; "
    code += "import neptune_verified.auditing.command, neptune_verified.auditing.search, neptune_verified.auditing.html"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_each_file_says_that_it_is_not_trusted() -> None:
    files = list(Path(lengths.__file__).parent.glob("*.py"))
    assert len(files) > 20
    for path in files:
        text = path.read_text()
        assert path.name == "__init__.py" or text.startswith('"""Not trusted: ')
        assert len(text.splitlines()) <= 300, path

"""Every example's certificate: proved again from its own text, by Z3 and by cvc5, and no longer once it is tampered with."""

from __future__ import annotations

from pathlib import Path

import pytest

from neptune_verified.proofs import solver_cvc5
from neptune_verified.proofs.check import check
from neptune_verified.proofs.verdict import Verdict
from tests.accepted.test_examples import TABLE, built
from tests.proofs.folders import edit_json, write

EXAMPLES = [pytest.param(*key, id=":".join(key)) for key in TABLE]


@pytest.mark.parametrize(("stem", "function"), EXAMPLES)
def test_z3_and_cvc5_prove_it_again(stem: str, function: str, tmp_path: Path) -> None:
    folder = write(tmp_path / function, built(stem, function, "float32").verified)
    for solver in ("z3", "cvc5"):
        report = check(folder, solver=solver)
        assert report.ok, report.text()
        assert report.checked and all(c.verdict is c.script is Verdict.PROVED for c in report.checked)


@pytest.mark.parametrize(("stem", "function"), EXAMPLES)
def test_a_script_with_one_assertion_less_is_another_one(stem: str, function: str, tmp_path: Path) -> None:
    folder = write(tmp_path / function, built(stem, function, "float32").verified)

    def weaken(certificate: dict[str, list[dict[str, list[str]]]]) -> None:
        script = certificate["obligations"][-1]["script"]
        del script[max(k for k, line in enumerate(script) if line.startswith("(assert"))]

    edit_json(folder, "certificate.json", weaken)
    assert any("its script is not that of its statement" in str(p) for p in check(folder).problems)


def test_cvc5_is_asked_in_this_test_run() -> None:
    """The optional solver is part of what the test command installs; without it the tests above would say nothing."""
    assert solver_cvc5.load()

"""An audit finds planted faults, names inputs that show them, and finds nothing in the kernels as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import neptune_verified as nv
from tests.audit.faults import FAULTS, JUMP, Fault, planted

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
#: More than 64 tiles, in few rows.
SIZES = {"M": 2, "N": 4485}


def sizes(fault: Fault) -> dict[str, int | float]:
    return {"M": 40, "N": 19} if "causal" in fault.source or "norms" in fault.source else dict(SIZES)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    folder = planted(fault, tmp_path / "kernel")
    result = nv.audit(folder, families=[*fault.shown, *fault.hidden], sizes=sizes(fault))
    assert not result.ok and "NOT the file that was proved" in result.file
    wrong = {s.family for s in result.samples for x in s.statistics["kernel"].values() if x.above or x.wrong}
    assert wrong == set(fault.shown)
    failed = [c for c in result.checks if not c.ok]
    by_name = {s.name: s for s in result.samples}
    assert {by_name[c.sample].family for c in failed} <= set(fault.shown), "the inputs that show it are named"
    assert not any(result.total("unfused", o.name).above for o in result.outputs)

    # The inputs that are kept show it by themselves.
    result.save(tmp_path / "audit")
    again = nv.audit(folder, tmp_path / "audit" / "worst.pt")
    assert not again.ok and len(again.samples) == 1
    assert again.worst[0].error == result.worst[0].error

    # The kernel without the fault is within its budget on all of them.
    text = (folder / "kernel.py").read_text()
    for old, new, _ in fault.edits:
        text = text.replace(new, old)
    (folder / "kernel.py").write_text(text)
    right = nv.audit(folder, families=[*fault.shown, *fault.hidden], sizes=sizes(fault))
    assert right.ok, [c for c in right.checks if not c.ok]


def test_the_search_finds_what_no_family_shows(tmp_path: Path) -> None:
    folder = planted(JUMP, tmp_path / "kernel")
    length = {"M": 2, "N": 200}
    assert nv.audit(folder, sizes=length).ok
    found = nv.audit(folder, sizes=length, families=["normal"], search=150)
    assert not found.ok and 0 < found.searched <= 150
    assert found.worst[0].of_bound > 1 and found.worst[0].sample == "searched 1"
    assert found.samples[-1].origin == "searched"
    assert not nv.audit(folder, found.worst_inputs).ok
    first, again = (nv.audit(folder, sizes=length, families=["normal"], search=12) for _ in range(2))
    assert all(torch.equal(again.worst_inputs[k], x) for k, x in first.worst_inputs.items()), "the same search"

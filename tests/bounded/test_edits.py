"""Edited kernels: none is proved, unless the edit leaves the meaning as it is, and the finding names the obligation."""

from __future__ import annotations

import pytest

from neptune_verified.proofs.bounded import bounded
from tests.accepted.harness import Built
from tests.accepted.programs import CASES
from tests.accepted.test_examples import built as example
from tests.bounded.edits import EDITS, Edit
from tests.bounded.test_accepted import accepted

FILES = {"attention_lse": "attention", "causal": "attention", "softmax": "softmax", "layernorm": "norms"}


def base(name: str) -> Built:
    return accepted(name) if name in CASES else example(FILES[name], name, "float32")


@pytest.mark.parametrize("edit", EDITS, ids=lambda e: f"{e.kind}-{e.kernel}-{e.old[:24]}-{e.new[:24]}")
def test_edits(edit: Edit) -> None:
    b = base(edit.kernel)
    result = bounded(b.program, edit.apply(b.source))
    if edit.ids == "SAME":
        assert result.verdict == "proved", result.detail
        return
    assert result.verdict == "refuted", result
    finding = result.findings[0]
    assert finding.id in edit.ids.split(), finding
    assert finding.place.startswith("kernel.py:")


def test_kinds_are_all_there() -> None:
    assert len([e for e in EDITS if e.ids != "SAME"]) >= 60
    assert len({e.kernel for e in EDITS}) >= 6


#: What a file may not hold, as an edit of one that is fine, and the construct that is named.
FOREIGN = [
    (r"import torch\n", "import torch\nimport os\n", "imports"),
    (r"ENTRY = ", "X = 1\nENTRY = ", "X"),
    (r"    pid = tl.program_id\(0\)", "    pid = tl.program_id(0)\n    print(pid)", "print"),
    (r"    pid = tl.program_id\(0\)", "    pid = tl.program_id(0)\n    tl.debug_barrier()", "tl.debug_barrier"),
    (r"    pid = tl.program_id\(0\)", "    pid = tl.program_id(0)\n    while pid < 0:\n        pid = pid + 1", "While"),
    (r"tl\.exp\(", "tl.exp.__call__(", "tl.exp.__call__"),
    (r"rows >= entry\[2\]", "rows > entry[2]", "_pick"),
    (r"@triton\.jit", "@triton.jit(debug=True)", "unknown function"),
    (r"for x0_start in range\(0, N, BLOCK_X0\)", "for x0_start in tl.range(0, N, BLOCK_X0)", "range"),
    (r"    return p", "    torch.cuda.synchronize()\n    return p", "statement of the launcher|torch.cuda"),
]


@pytest.mark.parametrize(("old", "new", "named"), FOREIGN, ids=lambda x: x[:30])
def test_foreign_constructs_are_unsupported(old: str, new: str, named: str) -> None:
    b = base("softmax")
    result = bounded(b.program, Edit("foreign", "softmax", old, new, "").apply(b.source))
    assert result.verdict == "unsupported", result
    assert any(part in result.detail for part in named.split("|")), result.detail
    assert result.detail.startswith("kernel.py:")

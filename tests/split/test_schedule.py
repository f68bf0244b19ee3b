"""Rolling update or split-K: what a schedule asks for, and what the launcher chooses."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import neptune_verified as nv
from neptune_verified.cli import app
from neptune_verified.ir.expr import axis, op, read, reduce_, size
from neptune_verified.ir.program import Program, Stage, Tensor
from neptune_verified.tile.host import HOST_SPLIT
from tests.split import kernels as k

LIMIT = 2**31 - 8192
SCOPE: dict[str, Any] = {"torch": torch}
exec("\n".join(["class ShapeError(ValueError):", "    pass", *HOST_SPLIT]), SCOPE)
shares = SCOPE["_shares"]
CPU = SimpleNamespace(is_cuda=False, device="cpu")
counts = st.integers(0, LIMIT)
some = st.one_of(st.none(), st.integers(1, 2**40))


@given(
    counts, st.integers(0, 2**31), st.integers(1, 16), st.sampled_from([1, 2, 16, 64, 1024, 4096]), some, st.booleans()
)
def test_what_the_proof_assumes_of_shares(
    n: int, programs: int, waves: int, block: int, asked: int | None, size_asked: bool
) -> None:
    """The contract in proofs/text/library.py, for every argument."""
    how = (None, asked) if size_asked else (asked, None)
    count, size_ = shares(n, programs, waves, block, CPU, *how)
    assert type(count) is type(size_) is int and count >= 1
    if count > 1:
        assert size_ >= 1 and size_ % block == 0
        assert count <= n <= count * size_ <= LIMIT


@pytest.mark.parametrize(("n", "programs", "splits", "size_"), [
    (0, 1, None, None), (1, 1, None, None), (4096, 10**6, None, None), (10**6, 132, 1, None), (100, 1, None, 100),
])  # fmt: skip
def test_one_share_where_there_is_nothing_to_gain(
    n: int, programs: int, splits: int | None, size_: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    processors = SimpleNamespace(multi_processor_count=132)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: processors)
    gpu = SimpleNamespace(is_cuda=True, device="cuda:0")
    assert shares(n, programs, 1, 128, gpu, splits, size_)[0] == 1


def test_long_axes_and_few_programs_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    processors = SimpleNamespace(multi_processor_count=132)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: processors)
    gpu = SimpleNamespace(is_cuda=True, device="cuda:0")
    count, size_ = shares(32768, 8, 1, 128, gpu, None, None)
    assert 8 <= count <= 17 and (count - 1) * size_ < 32768 <= count * size_
    # More programs of their own, fewer shares; a fixed size depends on nothing else.
    assert shares(32768, 64, 1, 128, gpu, None, None)[0] < count
    assert {shares(32768, p, 1, 128, gpu, None, 1000) for p in (1, 8, 10**6)} == {(32, 1024)}


@pytest.mark.parametrize(("given_", "text"), [
    ({"update": "splitk"}, "update is 'splitk': choose one of auto, rolling, split-k"),
    ({"update": "split-k", "splits": 0}, "splits is 0"),
    ({"update": "split-k", "splits": 2.0}, r"splits is 2\.0"),
    ({"split_size": 2**31}, "split_size is 2147483648"),
    ({"splits": 2, "split_size": 64}, "give one of them"),
    ({"update": "rolling", "splits": 2}, "a rolling update has no splits"),
])  # fmt: skip
def test_a_schedule_that_says_nothing_sensible(given_: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        nv.Schedule(**given_)


def test_a_template_is_a_function_of_the_program() -> None:
    def template(program: Program) -> nv.Schedule:
        return nv.Schedule("split-k", splits=2) if program.name == "logsumexp" else nv.Schedule("rolling")

    lse = nv.compile(k.program("logsumexp"), "interpret", template)
    assert lse.loops.nests[0].split and "splits=2, split_size=None" in lse.source
    x = torch.randn(3, 40)
    assert torch.allclose(lse(x), torch.logsumexp(x, 1), atol=1e-6)
    assert not nv.compile(k.program("softmax"), "interpret", template).loops.nests[0].split
    with pytest.raises(TypeError, match=r"a schedule is an nv\.Schedule, or a function that returns one, got str"):
        nv.compile(k.program("logsumexp"), "interpret", lambda p: "rolling")  # type: ignore[arg-type, return-value]


def test_by_default_gpus_get_both_updates_and_the_interpreter_one() -> None:
    assert not nv.compile(k.program("logsumexp"), "interpret").loops.nests[0].split
    gpu = nv.compile(k.program("logsumexp"), "cuda:90")
    assert gpu.loops.nests[0].split and gpu.certificate is not None
    rolling = nv.compile(k.program("logsumexp"), "cuda:90", nv.Schedule("rolling"))
    assert "_shares" not in rolling.source and rolling.certificate is not None
    assert rolling.certificate["coverage"] == "proved O1-O14, O16"


def test_what_cannot_be_split_is_refused_where_it_is_demanded() -> None:
    """Two reductions over different lengths in one kernel."""
    m, n, length = size("M"), size("N"), size("L")
    i, a, b = axis("i", m), axis("a", n), axis("b", length)
    total = op(
        "add", reduce_("sum", (a,), read("x", (i, a), "float32")), reduce_("sum", (b,), read("y", (i, b), "float32"))
    )
    inputs = (Tensor("x", (m, n), "float32"), Tensor("y", (m, length), "float32"))
    program = Program("two", inputs, (m, n, length), (Stage("z", (i,), total),), ("z",))
    with pytest.raises(nv.UnsupportedProgram, match="its passes run over axes of different lengths"):
        nv.compile(program, "interpret", nv.Schedule("split-k"))
    assert not nv.compile(program, "cuda:90").loops.nests[0].split


def test_a_map_has_nothing_to_split() -> None:
    n = size("N")
    j = axis("j", n)
    inputs = (Tensor("x", (n,), "float32"),)
    program = Program("twice", inputs, (n,), (Stage("y", (j,), op("add", *2 * [read("x", (j,), "float32")])),), ("y",))
    kernel = nv.compile(program, "interpret", nv.Schedule("split-k"))
    assert kernel(torch.ones(3)).tolist() == [2, 2, 2]


def test_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import neptune_verified as nv\nfew = nv.Schedule('split-k', split_size=256)\nnumber = 3\n")
    out = tmp_path / "out"
    run = CliRunner().invoke
    start = ["compile", "examples/softmax.py:logsumexp", "--target", "interpret", "--out", str(out)]
    assert run(app, [*start, "--schedule", f"{file}:few"]).exit_code == 0
    assert "split_size=256" in (out / "kernel.py").read_text()
    assert run(app, [*start, "--schedule", "rolling"]).exit_code == 0
    assert "_shares" not in (out / "kernel.py").read_text()
    for wrong in ("splitk", f"{file}:number", f"{file}:missing", "nowhere.py:few"):
        assert run(app, [*start, "--schedule", wrong]).exit_code != 0

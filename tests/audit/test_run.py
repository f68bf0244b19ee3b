"""nv.audit: contestants, inputs of every kind, budgets, bad arguments; results that do not depend on order."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from tvm import te, tirx

import neptune_verified as nv
from neptune_verified.auditing.accumulation import Operand, accumulation_of
from neptune_verified.auditing.result import KERNEL, UNFUSED
from neptune_verified.cli import read_definition
from neptune_verified.ir.expr import Reduce
from tests.accepted.products import products

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@cache
def attention() -> Any:
    program, _ = read_definition(f"{EXAMPLES}/attention.py:attention", {"H": 2, "D": 16, "dtype": "float16"})
    return nv.compile(program, "interpret")


@cache
def logsumexp() -> Any:
    program, _ = read_definition(f"{EXAMPLES}/softmax.py:logsumexp", {})
    return nv.compile(program, "interpret")


def drawn(M: int, N: int, seed: int = 0) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(2, n, 16, generator=g).half() for n in (M, N, N)]


def softmax64(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q.double() @ k.double().transpose(1, 2) / 4, -1) @ v.double()


def test_errors_are_those_against_float64() -> None:
    given = drawn(9, 130)
    result = nv.audit(attention(), given)
    error = (attention()(*given).double() - softmax64(*given)).abs()
    found = result.total(KERNEL, "o")
    assert result.contestants == (KERNEL, UNFUSED) and result.outputs[0].axes == ("h", "i", "d")
    assert found.compared == error.numel() and not found.wrong
    assert found.rms == pytest.approx(float(error.square().mean().sqrt()), rel=1e-6)
    assert found.absolute.largest == pytest.approx(float(error.max()), rel=1e-6)
    assert found.absolute.percentile(90) == pytest.approx(float(error.flatten().quantile(0.9)), rel=0.03)
    assert found.positions["i"].rms()[0] == pytest.approx(float(error[:, 0].square().mean().sqrt()), rel=1e-6)
    rows = error.square().mean(-1).sqrt()
    assert found.rows.largest == pytest.approx(float(rows.max()), rel=1e-6)
    assert result.samples[0].rows[0][1] == tuple(divmod(int(rows.argmax()), 9))
    worst = result.worst[0]
    assert worst.bound is not None and 0 < worst.error <= worst.bound
    assert float(attention()(*given)[worst.index]) == worst.have
    assert worst.ulps == pytest.approx(worst.error / 2.0 ** (math.floor(math.log2(abs(worst.want))) - 10), rel=1e-9)
    assert result.ok and "proved" in result.file


def test_a_peer_is_measured_on_the_same_inputs_and_may_fail() -> None:
    def coarse(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (softmax64(q, k, v) + 0.25).half()

    def wrong_shape(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return q[0]

    def broken(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("out of order\nsecond line")

    peers = {"coarse": coarse, "wrong_shape": wrong_shape, "broken": broken}
    result = nv.audit(attention(), drawn(3, 20), against=peers, budget={"coarse": 0.01, "relative_rms": 1e-2})
    assert result.total("coarse", "o").rms == pytest.approx(0.25, rel=1e-2)
    assert result.missing == {
        "wrong_shape": "it gives o as [3, 16], the definition says [2, 3, 16]",
        "broken": "RuntimeError: out of order",
    }
    assert [c.name for c in result.checks][-2:] == ["RMS beside coarse", "relative_rms"] and result.ok
    strict = nv.audit(attention(), drawn(3, 20), against=peers, budget={"coarse": 1e-6, "max_ulps": 0.01})
    assert [c.name for c in strict.checks if not c.ok] == ["RMS beside coarse", "max_ulps"] and not strict.ok


def test_the_order_of_samples_does_not_matter() -> None:
    samples = [drawn(3, n, n) for n in (5, 70, 129)]
    one, other = nv.audit(attention(), samples), nv.audit(attention(), samples[::-1])
    assert one.total(KERNEL, "o") == other.total(KERNEL, "o")
    assert json.dumps(one.data()["totals"]) == json.dumps(other.data()["totals"])


def test_batches_and_recordings_and_files_are_samples(tmp_path: Path) -> None:
    with nv.record() as recording:
        for n in (7, 20):
            q, k, v = (x[None].float() for x in drawn(4, n, n))
            torch.nn.functional.scaled_dot_product_attention(q, k, v)
    recorded = nv.audit(attention(), recording)
    assert [s.shapes["k"] for s in recorded.samples] == [(2, 7, 16), (2, 20, 16)]
    assert "q: float32 to float16" in recorded.samples[0].notes
    path = tmp_path / "x.pt"
    recording.save(path)
    assert nv.audit(attention(), path).total(KERNEL, "o") == recorded.total(KERNEL, "o")
    torch.save({n: torch.stack([x, 2 * x]) for n, x in zip("qkv", drawn(4, 7), strict=True)}, path)
    assert len(nv.audit(attention(), [path, drawn(4, 7)]).samples) == 3


def test_undefined_and_infinite_values() -> None:
    """The log-sum-exp of nothing is -inf; of +inf it has no value here, and nothing is compared."""
    result = nv.audit(logsumexp(), sizes={"N": 0})
    assert result.ok and result.total(KERNEL, "lse").infinite == result.total(KERNEL, "lse").elements > 0
    x = torch.zeros(3, 5)
    x[1] = math.inf
    found = nv.audit(logsumexp(), [x]).total(KERNEL, "lse")
    assert (found.compared, found.undefined) == (2, 1)


def test_what_a_kernel_leaves_out_is_not_a_number() -> None:
    from dataclasses import replace

    from neptune_verified.auditing.inputs import from_samples
    from neptune_verified.auditing.run import Auditor
    from neptune_verified.auditing.subject import subject_of

    def lazy(*tensors: torch.Tensor, out: tuple[torch.Tensor, ...], **_: Any) -> None:
        out[0][:, :-1] = attention()(*tensors)[:, :-1]

    auditor = Auditor(replace(subject_of(attention()), launch=lazy), {})
    (given,) = from_samples(attention().program, drawn(5, 9))
    found = auditor.sample(*auditor.with_reference(given))
    assert found.statistics[KERNEL]["o"].nan == 2 * 16
    assert found.worst[0].error == math.inf and math.isnan(found.worst[0].have)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"budget": {"speed": 1}}, "a budget has no 'speed'; it may limit rms, relative_rms"),
        ({"budget": {"kernel": 1}}, "a budget has no 'kernel'"),
        ({"budget": {"rms": -1}}, "budget rms: a number >= 0 is wanted, got -1"),
        ({"budget": {"rms": math.nan}}, "budget rms: a number >= 0 is wanted, got nan"),
        ({"families": ["odd"]}, "no family 'odd'; there are normal, "),
        ({"families": ["normal"], "inputs": [torch.zeros(1)]}, "inputs and families exclude each other"),
        ({"inputs": []}, "inputs: 0 tensors, wanted 3"),
        ({"inputs": [3, "x"]}, "inputs[0] is int"),
        ({"against": {"unfused": max}}, "a peer cannot be called 'unfused'"),
        ({"sizes": {"K": 3}}, "attention has no size 'K': choose among "),
        ({"inputs": "none.pt"}, "none.pt: no such file"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as raised:
        nv.audit(attention(), **arguments)
    assert str(raised.value).startswith(message) and "\n" not in str(raised.value)


def test_folders_that_hold_no_kernel(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"holds no kernel\.py"):
        nv.audit(tmp_path)
    folder = attention().save(tmp_path / "k")
    for name in ("program.json", "loop.json"):
        text = (folder / name).read_text()
        (folder / name).unlink()
        with pytest.raises(FileNotFoundError, match=f"holds no {name}"):
            nv.audit(folder)
        (folder / name).write_text(text)
    (folder / "certificate.json").write_text("{}")
    with pytest.raises(ValueError, match="is no certificate"):
        nv.audit(folder)
    (folder / "certificate.json").unlink()
    assert "NOT VERIFIED" in nv.audit(folder, drawn(1, 3)).file


def test_a_kernel_for_a_gpu_needs_one(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    folder = nv.compile(attention().program, "cuda:90").save(tmp_path / "k")
    with pytest.raises(ValueError, match=r"compiled for cuda:90, and there is no such GPU here: .* --target interpret"):
        nv.audit(folder)


def test_llvm_is_audited_too() -> None:
    program, _ = read_definition(f"{EXAMPLES}/norms.py:l2norm", {})
    result = nv.audit(nv.compile(program, "llvm"), sizes={"M": 3, "N": 70})
    assert result.ok and result.total(KERNEL, "norm").compared > 10


def test_the_interpreter_cuts_off_the_digits_of_bfloat16() -> None:
    """Triton's interpreter truncates where a GPU rounds: twice the error, which is within the bound on that target alone."""
    program, _ = read_definition(f"{EXAMPLES}/attention.py:attention", {"H": 1, "D": 16, "dtype": "bfloat16"})
    kernel = nv.compile(program, "interpret")
    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, n, 16, generator=g).bfloat16() for n in (40, 70, 70))
    v = v.abs() + 8  # what is cut off adds up
    result = nv.audit(kernel, [q, k, v])
    assert result.ok
    (case,) = result.worst
    assert case.ulps > 0.5, "rounded to the nearest number it would be half an ulp, and the weights' errors"
    other = kernel.source.replace('TARGET = "interpret"', 'TARGET = "cuda:90"')
    assert accumulation_of(kernel.loops, other, ()).roundoff("bfloat16") == 2.0**-8
    assert accumulation_of(kernel.loops, kernel.source, ()).roundoff("bfloat16") == 2.0**-7


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_bound_knows_operands_that_are_two_numbers(dtype: str) -> None:
    """Of sums of products in float32: the bound falls with the error, and an error of one number's size is above it."""
    given = [torch.rand(5, 70), torch.rand(70, 16).to(getattr(torch, dtype))]
    worst = {}
    for operands in ("x1", "x2"):
        result = nv.audit(nv.compile(products(dtype), "interpret", operands=operands), given)
        (worst[operands],) = result.worst
        assert result.ok and result.samples[0].worst[0].of_bound < 1
    bound = worst["x2"].bound
    assert bound is not None and 2 * bound < worst["x1"].error


def test_of_kernels_that_differ_the_larger_error_counts() -> None:
    p = products("float16")
    extents = tuple(a.extent for s in p.stages if isinstance(s.body, Reduce) for a in s.body.axes)
    one, two = (nv.compile(p, "interpret", operands=o).roundings for o in ("x1", "x2"))
    loops = nv.compile(p, "interpret").loops
    for roundings, twice in (((*one, *two), False), ((*two, *one), False), (two, True), (one, False)):
        assert accumulation_of(loops, "", roundings).operands == {extents: Operand("float16", twice)}


def test_nothing_is_claimed_of_0_over_what_underflows() -> None:
    """exp(-6)^30 is 0 in float32, and 0 over it undefined, where the definition is 0."""
    M, N = te.var("M"), te.var("N")
    x, j = te.placeholder((M, N), "float32", "x"), te.reduce_axis((0, N), "j")
    product = te.comm_reducer(lambda a, b: a * b, lambda t: tirx.const(1, t))
    a = te.compute((M,), lambda i: product(te.exp(-te.abs(x[i, j])), axis=j), "a")
    b = te.compute((M,), lambda i: te.min(te.floor(te.exp(-te.abs(x[i, j]))) / a[i], axis=j), "b")
    kernel = nv.compile(nv.Program.from_te([x], [b], "p"), "interpret")
    result = nv.audit(kernel, [torch.full((1, 30), 6.0)])
    assert result.worst[0].bound is None and float(kernel(torch.full((1, 30), 6.0))[0]) != 0
    assert nv.audit(kernel, [torch.full((1, 3), 6.0)]).worst[0].bound == 0  # exp(-18) is no 0

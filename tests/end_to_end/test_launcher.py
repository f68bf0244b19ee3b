"""What a user may do wrong with a compiled kernel, and names that meet those of the emitted text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tvm import te

import neptune_verified as nv

F = "float32"


def entropy(stage: str = "h", tensor: str = "x", axis: str = "i", length: str = "N") -> nv.Program:
    """m + log l - h / l of each row: three reductions, one pass."""
    M, N = te.var("M"), te.var(length)
    x = te.placeholder((M, N), F, tensor)
    a, b, c = (te.reduce_axis((0, N), n) for n in "abc")
    m = te.compute((M,), lambda i: te.max(x[i, a], axis=a), "m")
    low = te.compute((M,), lambda i: te.sum(te.exp(x[i, b] - m[i]), axis=b), "l")
    h = te.compute((M,), lambda i: te.sum(te.exp(x[i, c] - m[i]) * x[i, c], axis=c), stage)
    rows: dict[str, Any] = {}
    exec(
        f"f = lambda {axis}: m[{axis}] + log(l[{axis}]) - h[{axis}] / l[{axis}]",
        {"m": m, "l": low, "h": h, "log": te.log},
        rows,
    )
    return nv.Program.from_te([x], [te.compute((M,), rows["f"], "out_")], "entropy")


@pytest.mark.parametrize(
    "names",
    [
        {},
        {"stage": "t"},
        {"stage": "t_1"},
        {"stage": "x_tile_12"},
        {"stage": "_pick"},
        {"tensor": "torch"},
        {"tensor": "stride_x_0"},
        {"axis": "BLOCK_I"},
        {"axis": "pid"},
        {"length": "tl"},
    ],
    ids=str,
)
def test_names_do_not_change_the_result(names: dict[str, str]) -> None:
    x = torch.randn(3, 9, generator=torch.Generator().manual_seed(0))
    kernel = nv.compile(entropy(**names), target="interpret")
    assert kernel.passes == 1
    want = torch.distributions.Categorical(logits=x.double()).entropy()
    assert torch.allclose(kernel(x).double(), want, atol=1e-5)


def heads() -> nv.Program:
    """Query head h reads key head h // 3; scale is a scalar argument."""
    N = te.var("N")
    scale = te.var("scale", F)
    q, k = te.placeholder((6, 8), F, "q"), te.placeholder((2, N, 8), F, "k")
    d, j = te.reduce_axis((0, 8), "d"), te.reduce_axis((0, N), "j")
    s = te.compute((6, N), lambda h, n: te.sum(q[h, d] * k[h // 3, n, d], axis=d), "s")
    return nv.Program.from_te([q, k], [te.compute((6,), lambda h: te.max(s[h, j] * scale, axis=j), "m")], "heads")


@pytest.fixture(scope="module")
def grouped() -> nv.Kernel:
    return nv.compile(heads(), target="interpret")


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(1)
    return torch.randn(6, 8, generator=g), torch.randn(2, 21, 8, generator=g)


def test_grouped_heads(grouped: nv.Kernel) -> None:
    q, k = inputs()
    want = torch.einsum("hd,hnd->hn", q, k.repeat_interleave(3, 0)).amax(1) * 0.5
    assert torch.allclose(grouped(q, k, scale=0.5), want, atol=1e-5)


def _expanded(q: torch.Tensor) -> torch.Tensor:
    return torch.empty(1).expand(6)


WRONG: dict[str, tuple[Callable[[nv.Kernel], Any], type[Exception], str]] = {
    "length": (
        lambda f: f(inputs()[0], torch.zeros(2, 3, 7), scale=1.0),
        nv.ShapeError,
        "k.shape[2] is 7, the definition says 8",
    ),
    "rank": (lambda f: f(inputs()[0][0], inputs()[1], scale=1.0), nv.ShapeError, "q has 1 dimensions"),
    "dtype": (lambda f: f(inputs()[0].double(), inputs()[1], scale=1.0), nv.ShapeError, "q is torch.float64"),
    "no tensor": (lambda f: f(inputs()[0], 3, scale=1.0), TypeError, "k must be a torch.Tensor"),
    "no scalar": (lambda f: f(*inputs()), Exception, "scale"),
    "text for a scalar": (lambda f: f(*inputs(), scale="1"), TypeError, "scale must be a number, got str"),
    "gradient": (lambda f: f(inputs()[0].requires_grad_(), inputs()[1], scale=1.0), RuntimeError, "no backward"),
    "out of another shape": (lambda f: f(*inputs(), scale=1.0, out=torch.empty(5)), nv.ShapeError, "out[0] is"),
    "expanded out": (lambda f: f(*inputs(), scale=1.0, out=_expanded(inputs()[0])), nv.ShapeError, "is expanded"),
    "two outs": (lambda f: f(*inputs(), scale=1.0, out=(torch.empty(6), torch.empty(6))), nv.ShapeError, "2 tensors"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_named(grouped: nv.Kernel, name: str) -> None:
    call, error, text = WRONG[name]
    with pytest.raises(error) as caught:
        call(grouped)
    assert text in str(caught.value)


def test_out_may_not_share_memory_with_an_input(grouped: nv.Kernel) -> None:
    storage = torch.randn(6, 8)
    with pytest.raises(nv.ShapeError, match="shares memory"):
        grouped(storage, inputs()[1], scale=1.0, out=storage.view(-1)[:6])


def test_out_is_written() -> None:
    kernel = nv.compile(entropy(), target="interpret")
    x, out = torch.randn(2, 5), torch.full((2,), float("nan"))
    assert kernel(x, out=out) is out
    assert torch.isfinite(out).all()


def test_a_chain_inside_another_reduction_counts_its_traversals() -> None:
    M, N = te.var("M"), te.var("N")
    x = te.placeholder((M, N), F, "x")
    a, b, c = te.reduce_axis((0, N), "a"), te.reduce_axis((0, N), "b"), te.reduce_axis((0, M), "c")
    m = te.compute((M,), lambda i: te.max(x[i, a], axis=a), "m")
    low = te.compute((M,), lambda i: te.sum(te.exp(x[i, b] - m[i]), axis=b), "l")
    total = te.compute((1,), lambda z: te.sum(m[c] + te.log(low[c]), axis=c), "total")
    kernel = nv.compile(nv.Program.from_te([x], [total], "mean_lse"), target="interpret")
    assert kernel.passes == 2
    y = torch.randn(4, 7)
    assert torch.allclose(kernel(y), torch.logsumexp(y, 1).sum().view(1), atol=1e-5)


def test_compile_wants_a_program() -> None:
    with pytest.raises(TypeError, match=r"nv\.Program\.from_te"):
        nv.compile(([], []))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="target is a text"):
        nv.compile(entropy(), target=5)  # type: ignore[arg-type]

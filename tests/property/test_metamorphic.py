"""Relations between runs of one kernel, and with numpy: attention with its log-sum-exp, and a norm."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import neptune_verified as nv
from neptune_verified.cli import read_definition
from neptune_verified.pipeline import Kernel
from tests.property.inputs import laid_out

H, D = 2, 16
#: Below, at and beyond the tile of 64 keys.
LENGTHS = [1, 5, 64, 65, 150]
ROWS = 5
CLOSE = {"rtol": 2e-5, "atol": 2e-5}
Tensors = tuple[torch.Tensor, ...]


@cache
def attention(split: bool = False) -> Kernel:
    program = read_definition(
        "examples/operators.py:pf_global", {"H": H, "Hk": 1, "D": D, "dtype": "float32", "lse": True}
    )[0]
    return nv.compile(program, "interpret", nv.Schedule("split-k") if split else None)


@cache
def norm(split: bool = False) -> Kernel:
    program = read_definition("examples/norms.py:rmsnorm_amax", {})[0]
    return nv.compile(program, "interpret", nv.Schedule("split-k") if split else None)


def drawn(n: int, seed: int = 0, batch: int = 2) -> Tensors:
    """q [batch, H, ROWS, D], k and v [batch, 1, n, D]."""
    g = torch.Generator().manual_seed(seed)
    shapes = [(batch, H, ROWS, D), (batch, 1, n, D), (batch, 1, n, D)]
    return tuple(torch.randn(shape, generator=g) * 2 for shape in shapes)


def run(*tensors: torch.Tensor, **how: Any) -> Tensors:
    """(o, lse), in the one configuration that has the same number of rows in a tile for every length."""
    out: Tensors = attention()(*tensors, config="small", **how)
    return out


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    Q, K, V = (x.double().numpy() for x in (q, k, v))
    s = np.einsum("bhid,bjd->bhij", Q, K[:, 0]) / math.sqrt(D)
    top = s.max(axis=-1, keepdims=True)
    e = np.exp(s - top)
    total = e.sum(axis=-1, keepdims=True)
    return np.einsum("bhij,bjd->bhid", e / total, V[:, 0]), (top + np.log(total))[..., 0]


def close(got: torch.Tensor, want: Any, **tolerance: float) -> None:
    np.testing.assert_allclose(got.double().numpy(), np.asarray(want), **(tolerance or CLOSE))


def same_bits(a: torch.Tensor, b: torch.Tensor) -> None:
    assert torch.equal(a.contiguous().view(torch.int32), b.contiguous().view(torch.int32))


# ------------------------------------------------------------------------------------------------ attention


@pytest.mark.parametrize("n", LENGTHS)
def test_the_order_of_the_keys_does_not_matter(n: int) -> None:
    q, k, v = drawn(n)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(1))
    o, lse = run(q, k[:, :, order], v[:, :, order])
    for got, want in zip((o, lse), reference(q, k, v), strict=True):
        close(got, want)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("shift", [-300.0, 7.0, 300.0])
def test_a_constant_added_to_all_scores_is_added_to_the_lse_alone(n: int, shift: float) -> None:
    """A last dimension of q and k that contributes shift to every score."""
    q, k, v = drawn(n)
    q[..., -1] = 0
    o, lse = run(q, k, v)
    q[..., -1], k[..., -1] = shift, math.sqrt(D)
    moved, moved_lse = run(q, k, v)
    close(moved, o.double(), rtol=2e-4, atol=2e-4)
    close(moved_lse, lse.double() + shift, rtol=1e-5, atol=1e-4)
    close(moved_lse, reference(q, k, v)[1], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("n", LENGTHS)
def test_the_result_scales_with_v_exactly_by_powers_of_two(n: int) -> None:
    q, k, v = drawn(n)
    o, lse = run(q, k, v)
    scaled, scaled_lse = run(q, k, v * 2.0**-9)
    same_bits(scaled, o * 2.0**-9)
    same_bits(scaled_lse, lse)
    close(run(q, k, v * 3)[0], 3 * reference(q, k, v)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", LENGTHS)
def test_a_constant_v_is_the_result(n: int) -> None:
    q, k, v = drawn(n)
    for c in (1.0, -2.5):
        close(run(q, k, torch.full_like(v, c))[0], np.full(q.shape, c), rtol=2e-6, atol=0)


@pytest.mark.parametrize("n", LENGTHS)
def test_equal_keys_give_the_mean_and_the_logarithm_of_their_number(n: int) -> None:
    q, k, v = drawn(n)
    o, lse = run(torch.zeros_like(q), k, v)
    close(o, np.broadcast_to(v.double().numpy().mean(axis=2, keepdims=True), o.shape))
    close(lse, np.full(lse.shape, math.log(n)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("splits", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [5, 65, 150])
def test_the_number_of_splits_changes_rounding_alone(n: int, splits: int) -> None:
    q, k, v = drawn(n)
    for got, want in zip(attention(split=True)(q, k, v, splits=splits), reference(q, k, v), strict=True):
        close(got, want)


@pytest.mark.parametrize("n", [5, 150])
def test_a_batch_is_its_parts_bit_by_bit(n: int) -> None:
    q, k, v = drawn(n, batch=3)
    together = run(q, k, v)
    for b in range(3):
        for whole, part in zip(together, run(q[b : b + 1], k[b : b + 1], v[b : b + 1]), strict=True):
            same_bits(whole[b : b + 1], part)
    for i in range(ROWS):
        for whole, part in zip(together, run(q[:, :, i : i + 1], k, v), strict=True):
            same_bits(whole[:, :, i : i + 1], part)


@pytest.mark.parametrize("layout", ["transposed", "stepped", "offset"])
@pytest.mark.parametrize("n", [5, 65])
def test_strides_change_no_bit(n: int, layout: str) -> None:
    tensors = drawn(n)
    for a, b in zip(run(*tensors), run(*(laid_out(x, layout) for x in tensors)), strict=True):
        same_bits(a, b)


def test_an_expanded_tensor_is_its_copy() -> None:
    q, k, v = drawn(65)
    expanded = [x[:1].expand(x.shape) for x in (q, k, v)]
    for a, b in zip(run(*expanded), run(*(x.contiguous() for x in expanded)), strict=True):
        same_bits(a, b)


@pytest.mark.parametrize(("n", "cut"), [(5, 2), (65, 64), (150, 1), (150, 90)])
def test_parts_merge_to_the_whole(n: int, cut: int) -> None:
    q, k, v = drawn(n)
    a, b = run(q, k[:, :, :cut], v[:, :, :cut]), run(q, k[:, :, cut:], v[:, :, cut:])
    for got, want in zip(nv.merge(*a, *b), reference(q, k, v), strict=True):
        close(got, want)


def test_nothing_merges_with_something_to_that() -> None:
    q, k, v = drawn(5)
    o, lse = run(q, k, v)
    nothing = torch.full_like(o, float("nan")), torch.full_like(lse, -math.inf)
    merged = nv.merge(o, lse, *nothing)
    close(merged[0], o.double(), rtol=1e-6, atol=1e-6)
    close(merged[1], lse.double(), rtol=1e-6, atol=1e-6)


# ------------------------------------------------------------------------------------------------ a norm


def matrix(n: int, seed: int = 0) -> Tensors:
    """x [7, n], w [n]."""
    g = torch.Generator().manual_seed(seed)
    return torch.randn((7, n), generator=g), torch.randn((n,), generator=g)


def amax(x: torch.Tensor, w: torch.Tensor) -> np.ndarray[Any, Any]:
    X, W = x.double().numpy(), w.double().numpy()
    return np.asarray(np.abs(X * W).max(axis=1) / np.sqrt((X * X).mean(axis=1) + 1e-6))


NORM_LENGTHS = [1, 17, 1024, 1025, 2100]


@pytest.mark.parametrize("n", NORM_LENGTHS)
def test_norm_permuted(n: int) -> None:
    x, w = matrix(n)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(1))
    close(norm()(x[:, order], w[order]), amax(x, w))


@pytest.mark.parametrize("n", NORM_LENGTHS)
def test_norm_is_homogeneous(n: int) -> None:
    """Of degree 1 in w, exactly for powers of two; of degree 0 in x, where eps is small beside its squares."""
    x, w = matrix(n)
    y = norm()(x, w)
    same_bits(norm()(x, w * -4), y * 4)
    close(norm()(x * 1024, w), amax(x * 1024, w))
    large = x + torch.sign(x)
    close(norm()(large * 3, w), norm()(large, w).double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", NORM_LENGTHS)
def test_norm_of_a_constant(n: int) -> None:
    x = torch.full((7, n), 3.0)
    close(norm()(x, torch.ones(n)), np.full(7, 3 / math.sqrt(9 + 1e-6)), rtol=1e-6, atol=0)


@pytest.mark.parametrize("splits", [1, 2, 5])
def test_norm_split(splits: int) -> None:
    x, w = matrix(2100)
    close(norm(split=True)(x, w, splits=splits), amax(x, w))


@pytest.mark.parametrize("layout", ["transposed", "stepped", "offset"])
def test_norm_rows_and_strides_change_no_bit(layout: str) -> None:
    x, w = matrix(1025)
    y = norm()(x, w)
    same_bits(norm()(laid_out(x, layout), laid_out(w, layout)), y)
    same_bits(norm()(x[2:5], w), y[2:5])
    same_bits(norm()(x.flip(0), w), y.flip(0))

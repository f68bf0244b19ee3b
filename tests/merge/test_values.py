"""What ``nv.merge`` computes, against attention over all keys at once, in float64."""

from __future__ import annotations

import itertools
import math
from functools import reduce
from pathlib import Path

import pytest
import torch

import neptune_verified as nv
from neptune_verified import merging
from neptune_verified.targets.crosscompile import crosscompile

TYPES = {torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float32: 2e-6}
INF = math.inf

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")


def attention(s: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Over scores s: [..., N] and v: [..., N, Dv], in float64; 0 and -inf where no score is live."""
    s, v = s.double(), v.double()
    lse = torch.logsumexp(s, -1)
    p = torch.where((s == -INF) | (lse == -INF)[..., None], 0.0, torch.exp(s - lse[..., None]))
    return (p[..., None, :] @ v)[..., 0, :], lse


def scores(*shape: int, scale: float = 3.0, dead: float = 0.3) -> torch.Tensor:
    s = torch.randn(*shape, dtype=torch.float64) * scale
    return torch.where(torch.rand(*shape) < dead, -INF, s)


def part(s: torch.Tensor, v: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    o, lse = attention(s, v)
    return o.to(dtype), lse.float()


def close(got: tuple[torch.Tensor, torch.Tensor], want: tuple[torch.Tensor, torch.Tensor], tolerance: float) -> None:
    (o, lse), (want_o, want_lse) = got, want
    assert not o.isnan().any() and not lse.isnan().any()
    torch.testing.assert_close(o.double(), want_o, rtol=0, atol=tolerance * max(1.0, float(want_o.abs().max())))
    torch.testing.assert_close(lse.double(), want_lse.double(), rtol=1e-6, atol=1e-6)


def one(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


# ------------------------------------------------------------------------------------------------ halves and thirds


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(7,), (2, 3, 65)])
def test_halves_give_the_whole(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    s, v = scores(*shape, 24), torch.randn(*shape, 24, 16)
    halves = [part(s[..., k : k + 12], v[..., k : k + 12, :], dtype) for k in (0, 12)]
    close(nv.merge(*halves[0], *halves[1]), attention(s, v), TYPES[dtype])


@pytest.mark.parametrize("dtype", TYPES)
def test_three_parts_in_any_order_and_association(dtype: torch.dtype) -> None:
    s, v = scores(40, 17, dead=0.6), torch.randn(40, 17, 16)
    s[:4, :5] = -INF  # rows without a live key in the first part
    s[4] = -INF  # and in none
    cuts = [(0, 5), (5, 6), (6, 17)]
    parts = [part(s[:, i:j], v[:, i:j], dtype) for i, j in cuts]
    for a, b, c in itertools.permutations(parts):
        close(nv.merge(*nv.merge(*a, *b), *c), attention(s, v), 2 * TYPES[dtype])
        close(nv.merge(*a, *nv.merge(*b, *c)), attention(s, v), 2 * TYPES[dtype])


def test_many_parts_one_key_each() -> None:
    s, v = scores(5, 12), torch.randn(5, 12, 16)
    parts = [part(s[:, k : k + 1], v[:, k : k + 1], torch.float32) for k in range(12)]
    close(reduce(lambda a, b: nv.merge(*a, *b), parts), attention(s, v), 4e-6)


@pytest.mark.parametrize("dtype", TYPES)
def test_an_empty_part_changes_nothing(dtype: torch.dtype) -> None:
    s, v = scores(9, 6), torch.randn(9, 6, 16)
    whole = part(s, v, dtype)
    empty = part(s[:, :0], v[:, :0], dtype)
    assert (empty[0] == 0).all() and (empty[1] == -INF).all()
    for out, lse in (nv.merge(*whole, *empty), nv.merge(*empty, *whole)):
        assert torch.equal(out, whole[0]) and torch.equal(lse, whole[1])


def test_it_merges_what_compiled_attention_gives_for_parts_of_the_keys() -> None:
    """The kernel of ``merging.chain`` over all keys, and over two disjoint sets of them."""
    kernel = nv.compile(merging.chain(), target="interpret")
    s, v = scores(6, 20, dead=0.5).float(), torch.randn(20, 16)
    s[0, :8], s[1, 8:], s[2] = -INF, -INF, -INF
    merged = nv.merge(*kernel(s[:, :8].contiguous(), v[:8]), *kernel(s[:, 8:].contiguous(), v[8:]))
    close(merged, tuple(x.double() for x in kernel(s, v)), 2e-6)
    close(merged, attention(s, v.expand(6, 20, 16)), 2e-6)


# ------------------------------------------------------------------------------------------------ dead sides


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("garbage", [0.0, 3.0, -6e4, INF, math.nan])
def test_a_dead_side_is_not_looked_at(dtype: torch.dtype, garbage: float) -> None:
    out = torch.randn(4, 16).to(dtype)
    lse = one([-1e4, 0.0, 7.5, 1e30])
    dead = torch.full_like(out, garbage), torch.full_like(lse, -INF)
    for merged in (nv.merge(out, lse, *dead), nv.merge(*dead, out, lse)):
        assert torch.equal(merged[0], out) and torch.equal(merged[1], lse)


@pytest.mark.parametrize("garbage", [0.0, 3.0, math.nan])
def test_both_sides_dead(garbage: float) -> None:
    dead = torch.full((3, 16), garbage), torch.full((3,), -INF)
    out, lse = nv.merge(*dead, *dead)
    assert (out == 0).all() and (lse == -INF).all()


# ------------------------------------------------------------------------------------------------ far and near


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("gap", [1e4, -1e4, 200.0, 1e30])
def test_lse_far_apart(dtype: torch.dtype, gap: float) -> None:
    a, b = torch.randn(2, 16).to(dtype), torch.randn(2, 16).to(dtype)
    base = one([0.0, -3e3])
    out, lse = nv.merge(a, base + gap, b, base)
    assert torch.equal(out, a if gap > 0 else b)
    assert torch.equal(lse, torch.maximum(base + gap, base))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("level", [0.0, -1e4, 88.0, 1e4])
def test_equal_lse(dtype: torch.dtype, level: float) -> None:
    a, b = torch.randn(3, 16).to(dtype), torch.randn(3, 16).to(dtype)
    lse = torch.full((3,), level)
    out, joined = nv.merge(a, lse, b, lse)
    # Triton's interpreter cuts off where a GPU rounds to bfloat16: one unit in the last place.
    unit = torch.finfo(dtype).eps if dtype is torch.bfloat16 else 0.0
    torch.testing.assert_close(out, ((a.float() + b.float()) / 2).to(dtype), rtol=unit, atol=0)
    torch.testing.assert_close(joined.double(), lse.double() + math.log(2), rtol=1e-6, atol=1e-6)
    assert torch.equal(nv.merge(a, lse, a, lse)[0], a)


@pytest.mark.parametrize("dtype", TYPES)
def test_values_at_the_end_of_their_range_do_not_overflow(dtype: torch.dtype) -> None:
    largest = torch.full((1, 16), torch.finfo(dtype).max, dtype=dtype)
    out, _ = nv.merge(largest, one([2.0]), largest, one([2.0]))
    assert torch.equal(out, largest)


def test_it_is_symmetric() -> None:
    a, b = torch.randn(50, 16), torch.randn(50, 16)
    la, lb = scores(50).float(), scores(50).float()
    one_way, other_way = nv.merge(a, la, b, lb), nv.merge(b, lb, a, la)
    assert all(torch.equal(x, y) for x, y in zip(one_way, other_way, strict=True))


# ------------------------------------------------------------------------------------------------ shapes and strides


@pytest.mark.parametrize("width", [1, 16, 40])
@pytest.mark.parametrize("rows", [(), (0,), (1,), (2, 0, 3), (2, 3, 1, 5)])
def test_leading_dimensions(rows: tuple[int, ...], width: int) -> None:
    s, v = scores(*rows, 6), torch.randn(*rows, 6, width)
    a, b = (part(s[..., k : k + 3], v[..., k : k + 3, :], torch.float32) for k in (0, 3))
    out, lse = nv.merge(*a, *b)
    assert out.shape == (*rows, width) and lse.shape == rows and lse.dtype is torch.float32
    want = attention(s, v)
    torch.testing.assert_close(out.double(), want[0], rtol=0, atol=1e-5)
    torch.testing.assert_close(lse.double(), want[1], rtol=1e-6, atol=1e-6)


def test_any_strides() -> None:
    """Heads before and after positions, every second column, one row for all."""
    a, b = torch.randn(3, 5, 16), torch.randn(3, 5, 32)[..., ::2]
    la, lb = torch.randn(5, 3).T, torch.randn(1, 1).expand(3, 5)
    want = nv.merge(a.contiguous(), la.contiguous(), b.contiguous(), lb.contiguous())
    got = nv.merge(a, la, b, lb)
    turned = nv.merge(*(x.transpose(0, 1) for x in (a, la, b, lb)))
    for x, y, z in zip(want, got, turned, strict=True):
        assert torch.equal(x, y) and torch.equal(x, z.transpose(0, 1))


def test_a_wide_value_takes_two_kernels_and_is_right() -> None:
    a, b = torch.randn(3, 260), torch.randn(3, 260)
    la, lb = torch.randn(3), torch.randn(3)
    out, lse = nv.merge(a, la, b, lb)
    w = torch.exp(torch.stack([la, lb]).double() - torch.logaddexp(la, lb).double())
    torch.testing.assert_close(out.double(), w[0][:, None] * a + w[1][:, None] * b, rtol=0, atol=1e-5)
    torch.testing.assert_close(lse, torch.logaddexp(la, lb), rtol=1e-6, atol=1e-6)
    assert len(merging.compiled("float32", 260, "interpret").loops.nests) == 2


# ------------------------------------------------------------------------------------------------ compiled once


def test_one_fused_kernel_with_a_certificate() -> None:
    for dtype in merging.DTYPES:
        kernel = merging.compiled(dtype, 16, "interpret")
        assert len(kernel.loops.nests) == 1 and kernel.source.startswith("# proved O1-O14, O16")
        assert kernel.certificate is not None


@pytest.mark.parametrize("target", ["cuda:90", "hip:gfx942"])
def test_it_compiles_for_gpus_with_none_present(target: str, tmp_path: Path) -> None:
    kernel = merging.compiled("bfloat16", 128, target)
    built = crosscompile(kernel.source, "merge", target, tmp_path)
    assert len(built) == 1 and built[0].binary > 1000


def test_it_is_compiled_once_for_all_numbers_of_rows() -> None:
    def once(rows: int) -> None:
        nv.merge(torch.zeros(rows, 16), torch.zeros(rows), torch.zeros(rows, 16), torch.zeros(rows))

    once(1)
    before = merging.compiled.cache_info()
    for rows in (2, 3, 500):
        once(rows)
    after = merging.compiled.cache_info()
    assert after.misses == before.misses and after.hits == before.hits + 3

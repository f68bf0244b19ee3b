"""The faults of ``test_kernel_cases`` in split-K kernels: splits of a few keys, empty ones, more splits than keys.

The tiles of the emitted text, and what shares are multiples of, are made as small as the case asks for. The numbers are
those of the project's list of cases (1, the merge of empty results, is in tests/merge).
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest
import torch
from tvm import te, tirx

import neptune_verified as nv
from neptune_verified.proofs.text import read_back
from neptune_verified.runtime import LoadedKernel
from tests.cases import test_kernel_cases as one
from tests.cases.test_kernel_cases import INF, Array, averages, check, in_tiles, qkv, scores

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
SPLIT = nv.Schedule("split-k")


@cache
def kernel(name: str) -> nv.Kernel:
    g = one.GRAPHS[name]()
    return nv.compile(nv.Program.from_te(g.inputs, g.outputs, "case", g.facts), "interpret", SPLIT)


def small(source: str, tile: int) -> str:
    """In tiles of another size, and with shares of a multiple of it."""
    return re.sub(r"(_shares\(.*, programs, \d+, )\d+", rf"\g<1>{tile}", in_tiles(source, tile))


@cache
def runner(name: str, tile: int) -> LoadedKernel:
    return LoadedKernel(small(kernel(name).source, tile), "case", "interpret")


def every_split(
    name: str, inputs: tuple[Array, ...], want: tuple[Array, Array], tile: int, counts: tuple[int, ...]
) -> None:
    for splits in counts:
        o, lse = runner(name, tile)(*map(torch.tensor, inputs), splits=splits)
        check((o.double().numpy(), lse.double().numpy()), want, f"{name}, {splits} splits")


@pytest.mark.parametrize("name", ["bottom-right", "lengths"])
def test_the_text_is_proved_in_other_tiles_too(name: str) -> None:
    proof = read_back(kernel(name).loops, small(kernel(name).source, 16), "interpret")
    assert {"_case_kernel", "_case_part0_kernel", "_case_join0_kernel"} == {k.kernel for k in proof.kernels}


def test_3_a_window_of_5_keys_over_4_splits_of_2() -> None:
    """Ranges 0-2, 2-4, 4-5 and an empty fourth; and every other number of splits."""
    inputs = qkv(5, 5)
    age = np.arange(5)[:, None] - np.arange(5)[None, :]
    want = averages(scores(*inputs[:2]), inputs[2], (age >= 0) & (age < 5))
    every_split("window", inputs, want, 2, (1, 2, 3, 4, 5, 6, 9))
    inputs = qkv(3, 33)  # most splits hold no key that any row sees
    age = np.arange(3)[:, None] - np.arange(33)[None, :]
    want = averages(scores(*inputs[:2]), inputs[2], (age >= 0) & (age < 5))
    every_split("window", inputs, want, 4, (2, 8, 33))


@pytest.mark.parametrize("poison", [np.nan, INF, -INF])
@pytest.mark.parametrize(("n", "have"), [(3, (1, 3)), (40, (0, 33)), (40, (16, 17))])
def test_5_what_stands_beyond_the_length_is_not_seen(n: int, have: tuple[int, int], poison: float) -> None:
    q, k, v = qkv(3, n, b=2)
    live = np.arange(n)[None, None, None, :] < np.array(have)[:, None, None, None]
    want = averages(scores(q, k), v, live)
    for b, length in enumerate(have):
        k[b, :, length:], v[b, :, length:] = poison, poison
    every_split("lengths", (q, k, v, np.array(have, np.int32)), want, 16, (1, 2, 3))


def test_6_causal_aligned_bottom_right() -> None:
    for m, n in ((2, 5), (5, 2)):
        q, k, v = qkv(m, n)
        s = scores(q, k)
        seen = np.arange(n)[None, :] <= np.arange(m)[:, None] + (n - m)
        want = averages(s, v, seen)
        assert m <= n or (not want[0][:, :, :3].any() and (want[1][:, :, :3] == -INF).all())
        every_split("bottom-right", (q, k, v), want, 2, (1, 2, 3, n, n + 2))


@pytest.mark.parametrize(("name", "kv", "of"), [("three heads", 2, [0, 0, 1])])
def test_11_heads_of_any_ratio(name: str, kv: int, of: list[int]) -> None:
    q, k, v = qkv(3, 40, h=len(of), kv=kv)
    every_split(name, (q, k, v), averages(scores(q, k[:, of]), v[:, of]), 16, (1, 2, 3))


@pytest.mark.parametrize("name", ["bias, lengths"])
def test_12_tails_scores_and_masks(name: str) -> None:
    """Lengths about a tile, with a score function and a mask: as with one split, bit for bit within rounding."""
    g = one.GRAPHS[name]()
    tile = 16
    for n in (1, tile - 1, tile, tile + 1, 2 * tile + 1):
        rng = np.random.default_rng(n)
        shapes = {"M": 3, "N": n, "B": 2}
        inputs = []
        for t in g.inputs:
            shape = [int(d) if hasattr(d, "value") or isinstance(d, int) else shapes[d.name] for d in t.shape]
            kind = str(t.dtype)
            whole = rng.integers(0, n + 1, shape).astype(np.int32)
            inputs.append(whole if kind == "int32" else rng.normal(size=shape).astype(np.float32))
        o, lse = (x.double().numpy() for x in runner(name, tile)(*map(torch.tensor, inputs), splits=1))
        every_split(name, tuple(inputs), (o, lse), tile, (2, 3, n + 1))


@pytest.mark.parametrize(("d", "dv"), [(17, 31), (72, 17)])
def test_14_head_dimensions(d: int, dv: int) -> None:
    inputs = qkv(3, 40, d=d, dv=dv)
    every_split(f"{d} and {dv}", inputs, averages(scores(*inputs[:2]), inputs[2]), 16, (1, 2, 3))


@pytest.mark.parametrize(("b", "m", "n"), [(0, 3, 40), (2, 0, 40), (2, 3, 0), (0, 0, 0)])
def test_15_empty_lengths(b: int, m: int, n: int) -> None:
    inputs = qkv(m, n, b=b)
    want = averages(scores(*inputs[:2]), inputs[2]) if n else (np.zeros((b, 2, m, 16)), np.full((b, 2, m), -INF))
    every_split("plain", inputs, want, 16, (1, 2, 7))


def test_16_v_of_ones_gives_the_mass() -> None:
    q, k, v = qkv(3, 40)
    v[:] = 1
    o, _ = averages(scores(q, k), v)
    assert np.allclose(o, 1)
    for splits in (1, 2, 3):
        got, _ = runner("plain", 16)(*map(torch.tensor, (q, k, v)), splits=splits)
        assert (got.double() - 1).abs().max() <= 2**-22


def with_sink(H: int = 1, D: int = 16) -> nv.Program:
    """softmax over the keys and one more logit that has no value: q [H, D], k and v [H, N, D], sink [H]."""
    N, f32 = te.var("N"), "float32"
    q, sink = te.placeholder((H, D), f32, "q"), te.placeholder((H,), f32, "sink")
    k, v = (te.placeholder((H, N, D), f32, x) for x in "kv")
    d, *js = (te.reduce_axis((0, n), f"r{x}") for x, n in (("d", D), ("m", N), ("l", N), ("o", N)))
    s = te.compute((H, N), lambda h, j: te.sum(q[h, d] * k[h, j, d], axis=d), "s")
    top = te.compute((H,), lambda h: te.max(s[h, js[0]], axis=js[0]), "top")
    m = te.compute((H,), lambda h: tirx.max(top[h], sink[h]), "m")
    e = te.compute((H, N), lambda h, j: te.exp(s[h, j] - m[h]), "e")
    keys = te.compute((H,), lambda h: te.sum(e[h, js[1]], axis=js[1]), "keys")
    total = te.compute((H,), lambda h: keys[h] + te.exp(sink[h] - m[h]), "total")
    o = te.compute((H, D), lambda h, c: te.sum(e[h, js[2]] / total[h] * v[h, js[2], c], axis=js[2]), "o")
    return nv.Program.from_te([q, k, v, sink], [o], "sinks")


def test_17_a_sink_enters_once() -> None:
    """Four logits of 0 and a sink of 2.125: 4 / (4 + exp(2.125)) of V = 1, whatever the splits."""
    k = nv.compile(with_sink(), "interpret", SPLIT)
    assert k.passes == 1
    run = LoadedKernel(small(k.source, 2), "sinks", "interpret")
    q, keys, v = torch.zeros(1, 16), torch.zeros(1, 4, 16), torch.ones(1, 4, 16)
    for splits in (1, 2, 3, 4, 5):
        o = run(q, keys, v, torch.tensor([2.125]), splits=splits)
        assert torch.allclose(o, torch.full_like(o, 4 / (4 + np.exp(2.125))), rtol=1e-6), splits
    assert round(4 / (4 + np.exp(2.125)), 3) == 0.323

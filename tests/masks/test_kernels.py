"""Kernels whose loops come from a mask, in Triton's interpreter, against numpy in float64."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

import neptune_verified as nv
from tests.accepted.harness import F32, Built, Graph, assert_refines, build
from tests.masks.programs import MASKS, attention, compiled, live, masked, reference

LENGTHS = ((1, 1), (16, 16), (33, 50), (50, 33), (5, 40), (40, 5), (17, 16), (70, 64), (0, 3), (3, 0), (0, 0))
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@cache
def built(name: str) -> Built:
    return compiled(name)


def inputs(m: int, n: int, seed: int = 0, H: int = 2, D: int = 16) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {s: rng.normal(size=(H, x, D)).astype(np.float32) for s, x in (("q", m), ("k", n), ("v", n))}


def loops(b: Built, which: str = "") -> list[str]:
    """The text of each loop over column tiles."""
    lines = b.source[b.source.index(f"def _{which}") :].split("\n")
    result: list[list[str]] = []
    for line in lines:
        if line.startswith("    for x0_start"):
            result.append([])
        elif line.startswith("#: Argument types"):
            break
        if result and line.startswith(("    for x0_start", "        ")):
            result[-1].append(line)
    return ["\n".join(x) for x in result]


@pytest.mark.parametrize("name", MASKS)
def test_masked_attention(name: str) -> None:
    b = built(name)
    for m, n in LENGTHS:
        arrays = inputs(m, n, seed=m)
        want = reference(**arrays, mask=live(name, m, n))
        for tile in (16, 0):
            assert_refines(b.run(arrays, tile)["o"], want, 1e-5, f"{name}, M = {m}, N = {n}, tile {tile}")


@pytest.mark.parametrize("name", ["causal bottom-right", "window", "local and global", "block diagonal", "prefix"])
def test_what_is_masked_for_every_row_of_a_tile_does_not_matter(name: str) -> None:
    """NaN and inf in keys and values that no row of a row tile sees: skipped tiles, and columns of visited ones."""
    b = built(name)
    for m, n in ((16, 40), (40, 70), (70, 40)):
        arrays, mask = inputs(m, n), live(name, m, n)
        with np.errstate(all="ignore"):
            want = reference(**arrays, mask=mask)
        for first in range(0, m, 16):  # the "small" configuration has 16 rows; others may see what is spoiled
            unseen = ~mask[first : first + 16].any(axis=0)
            spoiled = {k: x.copy() for k, x in arrays.items()}
            spoiled["k"][:, unseen] = np.nan
            spoiled["v"][:, unseen] = np.inf
            spoiled["v"][:, unseen, ::2] = np.nan
            got = b.run_config(spoiled, "small", 16)["o"][:, first : first + 16]
            assert_refines(got, want[:, first : first + 16], 1e-5, f"{name}, rows from {first} of {m}, N = {n}")


def test_full_loops_have_no_mask() -> None:
    full, mixed = loops(built("causal"))
    assert "x0 < N" in mixed
    assert "x0[None, :] <= i[:, None]" in mixed
    assert "x0 < N" not in full
    assert "i[:, None]" not in full
    assert "mask=" not in full
    for name, number in (("window", 3), ("prefix-LM", 2), ("odd keys", 1), ("never", 0), ("local and global", 4)):
        assert len(loops(built(name))) == number


def test_bounds_are_scalars_named_before_the_loops() -> None:
    for name in ("causal bottom-right", "window bottom-right", "local and global", "block diagonal"):
        text = built(name).source
        heads = re.findall(r"for x0_start in range\((.*)\):", text)
        assert heads
        for head in heads:
            assert re.fullmatch(r"(0|x0_\w+), x0_\w+, BLOCK_X0", head), head
        bounds = [x for x in text.split("\n") if re.match(r"    x0_\w+ = ", x)]
        assert all(
            set(re.findall(r"tl\.\w+", x)) <= {"tl.minimum", "tl.maximum", "tl.cast", "tl.int64"} for x in bounds
        )


def test_no_mask_tensor() -> None:
    assert "torch.ones" not in built("window").source
    assert "torch.tril" not in built("window").source


# ------------------------------------------------------------------------------------- other sources of masks


def test_a_scalar_argument() -> None:
    """The window's width is given at the call, and may be 0 or less."""
    M, N, w = te.var("M"), te.var("N"), te.var("w")
    q, k, v = (te.placeholder((2, n, 16), F32, s) for s, n in (("q", M), ("k", N), ("v", N)))
    b = build(masked(lambda h, i, j: tirx.all(j <= i, i - j < w), q, k, v), "scalar")
    assert len(loops(b)) == 3
    for m, n in ((40, 40), (33, 70), (70, 33), (0, 5), (3, 0)):
        for width in (-5, 0, 1, 7, 100, 2**31 - 8192):
            arrays = inputs(m, n)
            i, j = np.arange(m)[:, None], np.arange(n)[None, :]
            want = reference(**arrays, mask=(j <= i) & (i - j < width))
            got = b.run_config(arrays, None, 16, w=width)["o"]
            assert_refines(got, want, 1e-5, f"w = {width}, M = {m}, N = {n}")


def test_a_window_of_each_head() -> None:
    """The program's own head is a scalar of the bounds."""
    b = build(attention(lambda h, i, j: tirx.all(j <= i, i - j < 3 + h * 20), 2, 16), "heads")
    assert len(loops(b)) == 3
    for m, n in ((70, 70), (33, 50)):
        arrays = inputs(m, n)
        i, j = np.arange(m)[:, None], np.arange(n)[None, :]
        want = np.concatenate(
            [
                reference(**{k: x[h : h + 1] for k, x in arrays.items()}, mask=(j <= i) & (i - j < 3 + h * 20))
                for h in range(2)
            ]
        )
        assert_refines(b.run(arrays, 16)["o"], want, 1e-5, f"M = {m}, N = {n}")


def test_masks_that_read_a_tensor_guard_the_values() -> None:
    """Lengths, and documents: what no row sees is not loaded."""
    N, M = te.var("N"), te.var("M")
    lens = te.placeholder((2,), "int32", "lens")
    q, k, v = (te.placeholder((2, n, 16), F32, s) for s, n in (("q", M), ("k", N), ("v", N)))
    b = build(masked(lambda h, i, j: j < lens[h], q, k, v, (lens,)), "lengths")
    assert len(loops(b)) == 2
    for m, n, have in ((20, 40, (0, 17)), (20, 40, (40, 33)), (3, 50, (1, 50))):
        arrays = inputs(m, n)
        mask = np.stack([np.broadcast_to(np.arange(n)[None, :] < x, (m, n)) for x in have])
        want = reference(**arrays, mask=mask)
        for h, x in enumerate(have):
            arrays["k"][h, x:] = np.nan
            arrays["v"][h, x:] = np.nan
        got = b.run(arrays | {"lens": np.array(have, np.int32)}, 16)["o"]
        assert_refines(got, want, 1e-5, f"lengths {have} of {n}")


def test_documents() -> None:
    N = te.var("N")
    doc = te.placeholder((N,), "int32", "doc")
    q, k, v = (te.placeholder((2, N, 16), F32, s) for s in "qkv")
    b = build(masked(lambda h, i, j: tirx.all(doc[i] == doc[j], j <= i), q, k, v, (doc,)), "documents")
    assert len(loops(b)) == 1
    n = 60
    docs = np.repeat([3, 5, 4], (16, 30, 14)).astype(np.int32)
    arrays = inputs(n, n)
    mask = (docs[:, None] == docs[None, :]) & np.tri(n, dtype=bool)
    want = reference(**arrays, mask=mask)
    got = b.run(arrays | {"doc": docs}, 16)["o"]
    assert_refines(got, want, 1e-5, "documents")
    arrays["v"][:, 16:] = np.nan  # the rows of the first document, a tile of their own, see none of it
    got = b.run_config(arrays | {"doc": docs}, "small", 16)["o"]
    assert_refines(got[:, :16], want[:, :16], 1e-5, "the first document")


def rows(term: Any, reducer: Any) -> Graph:
    g = Graph()
    x = g.input("x")
    return g.returns(g.row("y", reducer, lambda i, j: term(i, j, x)))


@pytest.mark.parametrize(
    ("reducer", "fill", "skips"),
    [(te.max, nv.neg_inf(F32), True), (te.max, -1.0, False), (te.max, -1e9, False), (te.sum, 0.0, True),
     (te.sum, 1.0, False), (te.min, nv.neg_inf(F32), False)],
)  # fmt: skip
def test_tiles_are_skipped_only_where_the_masked_value_is_neutral(reducer: Any, fill: Any, skips: bool) -> None:
    b = build(rows(lambda i, j, x: tirx.if_then_else(j <= i, x[i, j], fill), reducer), "y")
    (loop,) = loops(b)
    assert loop.startswith("    for x0_start in range(0, x0_hi, BLOCK_X0)") == skips
    assert ("range(0, N, BLOCK_X0)" in loop) == (not skips)
    for m, n in ((3, 40), (40, 3), (20, 20), (4, 0)):
        arrays = {"x": np.random.default_rng(n).normal(size=(m, n)).astype(np.float32)}
        assert_refines(b.run(arrays, 4)["y"], b.define(arrays)["y"], 1e-5, f"M = {m}, N = {n}")


def test_a_product_of_masked_terms_is_1() -> None:
    g = Graph()
    x = g.input("x")
    j = te.reduce_axis((0, g.N), "j")
    product = te.comm_reducer(lambda a, b: a * b, lambda t: tirx.const(1, t), name="product")
    y = te.compute((g.M,), lambda i: product(tirx.if_then_else(j <= i, x[i, j], 1.0), axis=j), "y")
    b = build(g.returns(y), "y")
    assert "range(0, x0_hi, BLOCK_X0)" in loops(b)[0]
    arrays = {"x": np.random.default_rng(0).normal(size=(20, 30)).astype(np.float32)}
    assert_refines(b.run(arrays, 4)["y"], b.define(arrays)["y"], 1e-5, "product")


def test_every_reduction_of_the_pass_must_ignore_the_masked_elements() -> None:
    """One sum is masked, the other in the same loop is not."""
    g = Graph()
    x = g.input("x")
    a = g.row("a", te.sum, lambda i, j: tirx.if_then_else(j <= i, x[i, j], 0.0))
    c = g.row("c", te.sum, lambda i, j: x[i, j] * x[i, j])
    b = build(g.returns(a, c), "two")
    assert all("range(0, N, BLOCK_X0)" in x for x in loops(b))
    arrays = {"x": np.random.default_rng(0).normal(size=(20, 30)).astype(np.float32)}
    for out, value in b.run(arrays, 4).items():
        assert_refines(value, b.define(arrays)[out], 1e-5, out)


def test_a_pass_that_stores_visits_every_tile() -> None:
    """The masked softmax: its output has zeros where it is masked, which someone has to write."""
    g = Graph()
    x = g.input("x")
    s = g.map("s", lambda i, j: tirx.if_then_else(j <= i, x[i, j], nv.neg_inf(F32)))
    m = g.row("m", te.max, lambda i, j: s[i, j])
    e = g.map("e", lambda i, j: te.exp(s[i, j] - m[i]))
    total = g.row("total", te.sum, lambda i, j: e[i, j])
    b = build(g.returns(g.map("p", lambda i, j: e[i, j] / total[i])), "softmax")
    heads = [x.split("\n")[0] for x in loops(b)]
    assert "range(0, x0_hi" in heads[0]
    assert "range(0, N" in heads[-1]
    arrays = {"x": np.random.default_rng(0).normal(size=(20, 30)).astype(np.float32)}
    assert_refines(b.run(arrays, 4)["p"], b.define(arrays)["p"], 1e-5, "softmax")


def test_a_weight_that_is_masked_is_not_multiplied() -> None:
    """A sum that is no matrix product: 0 times NaN cannot come in at all."""
    g = Graph()
    x, w = g.input("x"), g.input("w", (g.N,))
    s = g.map("s", lambda i, j: tirx.if_then_else(j <= i, x[i, j], nv.neg_inf(F32)))
    m = g.row("m", te.max, lambda i, j: s[i, j])
    e = g.map("e", lambda i, j: te.exp(s[i, j] - m[i]))
    b = build(g.returns(g.row("a", te.sum, lambda i, j: e[i, j] * w[j])), "weights")
    rng = np.random.default_rng(0)
    arrays = {"x": rng.normal(size=(5, 30)).astype(np.float32), "w": rng.normal(size=30).astype(np.float32)}
    want = b.define(arrays)["a"]
    arrays["w"][5:] = np.nan
    assert_refines(b.run(arrays, 4)["a"], want, 1e-5, "a")


def test_no_mask_at_all() -> None:
    """Whole tiles without the test of the last lane, then the last tile."""
    b = build(attention(lambda h, i, j: j >= 0, 2, 16), "everything")
    full, mixed = loops(b)
    assert full.startswith("    for x0_start in range(0, x0_full_hi,")
    assert ("mask=" in mixed, "mask=" in full) == (True, False)
    for m, n in LENGTHS:
        arrays = inputs(m, n)
        assert_refines(b.run(arrays, 16)["o"], reference(**arrays, mask=np.ones((m, n), bool)), 1e-5, f"{m}, {n}")


def test_a_store_of_the_same_load_is_not_masked() -> None:
    """The pass also writes a function of v, at columns that no row counts."""
    g = Graph()
    x, v = g.input("x"), g.input("v", (g.N, 16))
    s = g.map("s", lambda i, j: tirx.if_then_else(j <= i, x[i, j], nv.neg_inf(F32)))
    m = g.row("m", te.max, lambda i, j: s[i, j])
    e = g.map("e", lambda i, j: te.exp(s[i, j] - m[i]))
    j = te.reduce_axis((0, g.N), "jo")
    o = te.compute((g.M, 16), lambda i, c: te.sum(e[i, j] * v[j, c], axis=j), "o")
    y = te.compute((g.M, g.N), lambda i, j: e[i, j] + v[j, 0], "y")
    w = te.compute((g.N, 16), lambda j, c: v[j, c] * 2.0, "w")
    b = build(g.returns(o, y, w), "stores")
    rng = np.random.default_rng(0)
    arrays = {"x": rng.normal(size=(5, 40)).astype(np.float32), "v": rng.normal(size=(40, 16)).astype(np.float32)}
    want = b.define(arrays)
    for out, value in b.run(arrays, 16).items():
        assert_refines(value, want[out], 1e-5, out)


def test_a_mask_in_several_selects() -> None:
    """One condition each way, and one under another: all of them bound the loops."""
    dead = nv.neg_inf(F32)
    g = Graph()
    q, k, v = (te.placeholder((g.M if s == "q" else g.N, 16), F32, s) for s in "qkv")
    d, j1, j2 = te.reduce_axis((0, 16), "d"), te.reduce_axis((0, g.N), "j1"), te.reduce_axis((0, g.N), "j2")
    qk = te.compute((g.M, g.N), lambda i, j: te.sum(q[i, d] * k[j, d], axis=d), "qk")
    later = te.compute((g.M, g.N), lambda i, j: tirx.if_then_else(j > i, dead, qk[i, j]), "later")
    s = te.compute((g.M, g.N), lambda i, j: tirx.if_then_else(i - j < 20, later[i, j], dead), "s")
    m = te.compute((g.M,), lambda i: te.max(s[i, j1], axis=j1), "m")
    e = te.compute((g.M, g.N), lambda i, j: te.exp(s[i, j] - m[i]), "e")
    o = te.compute((g.M, 16), lambda i, c: te.sum(e[i, j2] * v[j2, c], axis=j2), "o")
    g.inputs = [q, k, v]
    b = build(g.returns(o), "several")
    assert len(loops(b)) == 3
    full = loops(b)[1]
    assert "-inf" not in full.split("m_new =")[0]
    for m_, n in ((40, 40), (30, 70)):
        arrays = {key: x[0] for key, x in inputs(m_, n, H=1).items()}
        assert_refines(b.run(arrays, 16)["o"], b.define(arrays)["o"], 1e-5, f"{m_}, {n}")

"""Masks that read a tensor: what their loops and the test of a tile leave out, in Triton's interpreter and by
enumeration."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tvm import te, tirx

import neptune_verified as nv
from neptune_verified.targets.crosscompile import crosscompile
from tests.accepted.harness import F32, Graph, assert_refines, build
from tests.masks.counting import INT, PROGRAMS, ROWS, built, check, documents, lengths, live_tiles, rows, tri
from tests.masks.programs import attention, masked, reference
from tests.masks.test_kernels import inputs, loops

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


# --------------------------------------------------------------------------------------------------- documents


@pytest.mark.parametrize("causal", [False, True])
def test_documents(causal: bool) -> None:
    name = "documents, causal" if causal else "documents"
    (loop,) = loops(built(name))
    assert ("range(0, x0_hi, BLOCK_X0)" in loop) == causal
    assert "if x0_live:" in loop
    rng = np.random.default_rng(0)
    for n in (0, 1, 15, 16, 17, 33, 70):
        by_length = np.repeat(np.arange(20), rng.integers(1, 20, 20))[:n]
        for docs in (by_length, -by_length, rng.integers(0, 3, n), np.full(n, 2**31 - 1), np.full(n, -(2**31))):
            docs = docs.astype(np.int32)
            arrays = inputs(n, n, H=1) | {"doc": docs}
            mask = docs[:, None] == docs[None, :]
            visited, updated = check(name, arrays, mask & tri(n) if causal else mask)
            want = live_tiles((mask & tri(n) if causal else mask)[None])
            assert set(want) <= set(updated)
            assert visited == live_tiles((tri(n) if causal else np.ones((n, n), bool))[None])
            # The ids are in order: documents are intervals, and so are the ids of a tile.
            if (np.diff(docs) >= 0).all() or (np.diff(docs) <= 0).all():
                assert updated == want, (n, docs)


def test_documents_out_of_order_skip_by_their_least_and_greatest_ids() -> None:
    docs = np.repeat([5, 9, 1, 9], 16).astype(np.int32)
    arrays = inputs(64, 64, H=1) | {"doc": docs}
    visited, updated = check("documents", arrays, docs[:, None] == docs[None, :])
    assert len(visited) == 16
    assert updated == [0, 16, 48, 32, 16, 48]


# ----------------------------------------------------------------------------------------------------- lengths


@pytest.mark.parametrize("causal", [False, True])
def test_lengths(causal: bool) -> None:
    """A length of each head is a bound of the loops."""
    name = "lengths, causal" if causal else "lengths"
    assert len(loops(built(name))) == 2
    assert "if " not in "".join(loops(built(name)))
    for m, n in ((20, 40), (40, 20), (16, 33), (0, 5), (5, 0), (0, 0)):
        for lens in ((0, 17), (16, 33), (-5, n), (n + 9, 1), (2**31 - 1, -(2**31))):
            arrays = inputs(m, n) | {"lens": np.array(lens, np.int32)}
            i, j = np.arange(m)[:, None], np.arange(n)[None, :]
            mask = np.stack([np.broadcast_to((j < x) & ((j <= i) | (not causal)), (m, n)) for x in lens])
            visited, _ = check(name, arrays, mask)
            assert visited == live_tiles(mask), (m, n, lens)


def test_a_length_in_the_loops_and_documents_in_the_test() -> None:
    N = te.var("N")
    doc, lens = te.placeholder((N,), INT, "doc"), te.placeholder((2,), INT, "lens")
    q, k, v = (te.placeholder((2, N, 16), F32, s) for s in "qkv")
    g = masked(lambda h, i, j: tirx.all(doc[i] == doc[j], j < lens[h]), q, k, v, (doc, lens))
    PROGRAMS["both"] = lambda: g
    (loop,) = loops(built("both"))
    assert "range(0, x0_hi, BLOCK_X0)" in loop
    assert "lens" not in loop[loop.index("x0_live =") : loop.index("if x0_live")]
    n, docs = 60, np.repeat([1, 2, 3], 20).astype(np.int32)
    for have in ((0, 33), (60, 16)):
        arrays = inputs(n, n) | {"doc": docs, "lens": np.array(have, np.int32)}
        mask = (docs[:, None] == docs) & (np.arange(n) < np.array(have)[:, None, None])
        visited, updated = check("both", arrays, mask)
        # In the tile of the last column the ids after it count too: one tile more for a head, at most.
        assert set(live_tiles(mask)) <= set(updated) <= set(visited)
        assert len(updated) <= len(live_tiles(mask)) + 2


# ------------------------------------------------------------------------------------------------- of each row


@pytest.mark.parametrize("name", ["windows", "windows, other side", "row lengths", "row lengths or the first"])
def test_a_number_of_each_row(name: str) -> None:
    assert all("if x0_live:" in x for x in loops(built(name)) if "mask=" in x)
    rng = np.random.default_rng(1)
    for m, n in ((1, 1), (16, 40), (40, 33), (50, 70), (0, 5), (5, 0)):
        for w in (rng.integers(0, 20, m), np.zeros(m), np.full(m, -3), np.arange(m) // 2, np.full(m, 10**6)):
            w = w.astype(np.int32)
            i, j, x = np.arange(m)[:, None], np.arange(n)[None, :], w[:, None].astype(np.int64)
            mask = {"windows": (j <= i) & (i - j < x), "windows, other side": j > i - x, "row lengths": j < x,
                    "row lengths or the first": (j < 3) | (j < x)}[name]  # fmt: skip
            mask = np.broadcast_to(mask, (m, n))
            visited, updated = check(name, inputs(m, n, H=1) | {"w": w}, mask)
            assert set(live_tiles(mask[None])) <= set(updated) <= set(visited)
            if name.startswith("row lengths"):
                assert updated == live_tiles(mask[None])
            if (w <= 0).all() and name in ("windows", "row lengths"):
                # The window's test is of the least distance and the greatest width: it errs by one tile at most.
                assert len(updated) <= (m + ROWS - 1) // ROWS


# --------------------------------------------------------------------------------------------------- otherwise


def test_rows_that_are_read_through_offsets() -> None:
    """The ids of a segment start at an offset of the program."""
    T, N = te.var("T"), te.var("N")
    doc, start = te.placeholder((T,), INT, "doc"), te.placeholder((2,), INT, "start")
    q, k, v = (te.placeholder((2, N, 16), F32, s) for s in "qkv")
    g = masked(lambda h, i, j: doc[start[h] + i] == doc[start[h] + j], q, k, v, (doc, start))
    PROGRAMS["offsets"] = lambda: g
    text = built("offsets").source
    assert "if x0_live:" in text
    assert text.count("tl.load(start_ptr") == 1
    assert text.count("tl.load(doc_ptr") == 1 + len(loops(built("offsets")))
    n, docs = 40, np.repeat([1, 7, 2, 5, 5, 3], 16).astype(np.int32)
    arrays = inputs(n, n) | {"doc": docs, "start": np.array([0, 50], np.int32)}
    mask = np.stack([docs[a : a + n, None] == docs[None, a : a + n] for a in (0, 50)])
    check("offsets", arrays, mask)


@pytest.mark.parametrize(("dtype", "shape"), [("int64", "row"), ("int8", "row"), ("float32", "row"), ("int32", "both")])
def test_what_is_not_told_has_no_test(dtype: str, shape: str) -> None:
    N = te.var("N")
    x = te.placeholder((N,) if shape == "row" else (N, N), dtype, "x")
    q, k, v = (te.placeholder((1, N, 16), F32, s) for s in "qkv")
    own = (lambda i, j: x[i] == x[j]) if shape == "row" else (lambda i, j: x[i, j] > tirx.const(0, dtype))
    b = build(masked(lambda h, i, j: tirx.all(own(i, j), j <= i), q, k, v, (x,)), "untold")
    (loop,) = loops(b)
    assert "if " not in loop
    assert "range(0, x0_hi, BLOCK_X0)" in loop
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2, (40,) if shape == "row" else (40, 40)).astype(dtype)
    mask = (values[:, None] == values[None, :]) if shape == "row" else values > 0
    arrays = inputs(40, 40, H=1)
    want = reference(**arrays, mask=mask & tri(40))
    assert_refines(b.run(arrays | {"x": values}, 16)["o"], want, 1e-5, dtype)


def test_rows_of_the_grid_have_a_length_each() -> None:
    """The rows of the tile are the batch: the greatest length of them counts."""
    g = Graph()
    x, lens = g.input("x"), g.input("lens", (g.M,), INT)
    b = build(g.returns(g.row("y", te.sum, lambda i, j: tirx.if_then_else(j < lens[i], x[i, j], 0.0))), "y")
    (loop,) = loops(b)
    assert "if x0_live:" in loop
    for m, n in ((5, 40), (9, 17), (0, 3), (3, 0)):
        lens_ = (np.arange(m) * 5).astype(np.int32)
        arrays = {"x": np.random.default_rng(0).normal(size=(m, n)).astype(np.float32), "lens": lens_}
        assert_refines(b.run(arrays, 4)["y"], b.define(arrays)["y"], 1e-5, f"{m}, {n}")


def test_a_padding_id() -> None:
    """``!=``: a tile of nothing but padding."""
    N = te.var("N")
    ids = te.placeholder((N,), INT, "ids")
    q, k, v = (te.placeholder((1, N, 16), F32, s) for s in "qkv")
    PROGRAMS["padding"] = lambda: masked(lambda h, i, j: ids[j] != 0, q, k, v, (ids,))
    x = np.zeros(70, np.int32)
    x[:20], x[50] = 3, -4
    mask = np.broadcast_to(x != 0, (70, 70))
    _, updated = check("padding", inputs(70, 70, H=1) | {"ids": x}, mask)
    assert updated == live_tiles(mask[None])


def test_an_attention_of_two_heads_has_the_bound_of_its_own() -> None:
    lens = te.placeholder((2,), INT, "lens")
    b = build(attention(lambda h, i, j: tirx.all(j < lens[1 - h] + 3, i - j < lens[h]), 2, 16, (lens,)), "heads")
    for m, n in ((40, 40), (17, 50)):
        for have in ((5, 20), (-3, 2**31 - 4), (0, 0)):
            i, j = np.arange(m)[:, None], np.arange(n)[None, :]
            mask = np.stack([(j < int(have[1 - h]) + 3) & (i - j < have[h]) for h in range(2)])
            arrays = inputs(m, n)
            got = b.run(arrays | {"lens": np.array(have, np.int32)}, 16)["o"]
            assert_refines(got, reference(**arrays, mask=mask), 1e-5, f"{have}")


@pytest.mark.parametrize("name", ["documents, causal", "lengths, causal", "windows"])
def test_text_is_proved_and_compiles(name: str, tmp_path: Path) -> None:
    g = {
        "documents, causal": lambda: documents(True, 2, "float16", 64),
        "lengths, causal": lambda: lengths(True),
        "windows": lambda: rows(lambda i, j, w: tirx.all(j <= i, i - j < w[i]), 2),
    }[name]()
    kernel = nv.compile(nv.Program.from_te(g.inputs, g.outputs, name="masked"), target="cuda:90")
    assert ("if x0_live:" in kernel.source) == ("lengths" not in name)
    assert all(c.binary > 1000 for c in crosscompile(kernel.source, "masked", "cuda:90", tmp_path))


def test_an_update_with_a_loop_of_its_own_has_no_test() -> None:
    """The head dimension is looped over."""
    N, D = te.var("N"), te.var("D")
    g = Graph()
    ids, q, k = te.placeholder((N,), INT, "ids"), te.placeholder((N, D), F32, "q"), te.placeholder((N, D), F32, "k")
    d, j = te.reduce_axis((0, D), "d"), te.reduce_axis((0, N), "j")
    s = te.compute((N, N), lambda i, j: te.sum(q[i, d] * k[j, d], axis=d), "s")
    dead = nv.neg_inf(F32)
    m = te.compute((N,), lambda i: te.max(tirx.if_then_else(ids[i] == ids[j], s[i, j], dead), axis=j), "m")
    g.inputs = [q, k, ids]
    b = build(g.returns(m), "looped")
    text = b.source
    assert "for r" in text
    assert "if " not in "".join(loops(b))
    assert "ids_max" not in text
    rng = np.random.default_rng(0)
    arrays = {"q": rng.normal(size=(20, 9)).astype(np.float32), "k": rng.normal(size=(20, 9)).astype(np.float32)}
    arrays["ids"] = rng.integers(0, 3, 20).astype(np.int32)
    assert_refines(b.run(arrays, 16)["m"], b.define(arrays)["m"], 1e-5, "m")

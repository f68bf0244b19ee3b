"""Attention under masks that read a tensor, and which tiles its kernels visit and update."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from tvm import te, tirx

from neptune_verified.runtime import LoadedKernel
from tests.accepted.harness import F32, Built, Graph, assert_refines, build
from tests.masks.programs import Array, masked, reference

INT = "int32"
ROWS = 16  # of the configuration "small"

_COUNTING = """
VISITED, UPDATED = [], []


def _visit(start):
    VISITED.append(int(start))
    return start


def _update(live):
    if live:
        UPDATED.append(VISITED[-1])
    return live


"""


def documents(causal: bool, H: int = 1, dtype: str = F32, D: int = 16) -> Graph:
    N = te.var("N")
    doc = te.placeholder((N,), INT, "doc")
    q, k, v = (te.placeholder((H, N, D), dtype, s) for s in "qkv")
    both = (lambda i, j: tirx.all(doc[i] == doc[j], j <= i)) if causal else (lambda i, j: doc[i] == doc[j])
    return masked(lambda h, i, j: both(i, j), q, k, v, (doc,))


def lengths(causal: bool) -> Graph:
    M, N = te.var("M"), te.var("N")
    lens = te.placeholder((2,), INT, "lens")
    q, k, v = (te.placeholder((2, n, 16), F32, s) for s, n in (("q", M), ("k", N), ("v", N)))
    both = (lambda h, i, j: tirx.all(j < lens[h], j <= i)) if causal else (lambda h, i, j: j < lens[h])
    return masked(both, q, k, v, (lens,))


def rows(mask: Callable[[Any, Any, Any], Any], H: int = 1) -> Graph:
    """``w`` has a number for each row."""
    M, N = te.var("M"), te.var("N")
    w = te.placeholder((M,), INT, "w")
    q, k, v = (te.placeholder((H, n, 16), F32, s) for s, n in (("q", M), ("k", N), ("v", N)))
    return masked(lambda h, i, j: mask(i, j, w), q, k, v, (w,))


PROGRAMS: dict[str, Callable[[], Graph]] = {
    "documents": lambda: documents(False),
    "documents, causal": lambda: documents(True),
    "lengths": lambda: lengths(False),
    "lengths, causal": lambda: lengths(True),
    "windows": lambda: rows(lambda i, j, w: tirx.all(j <= i, i - j < w[i])),
    "windows, other side": lambda: rows(lambda i, j, w: j > i - w[i]),
    "row lengths": lambda: rows(lambda i, j, w: j < w[i]),
    "row lengths or the first": lambda: rows(lambda i, j, w: tirx.any(j < 3, j < w[i])),
}


@cache
def built(name: str) -> Built:
    return build(PROGRAMS[name](), "masked")


@cache
def counting(name: str, block: int) -> LoadedKernel:
    """The kernel in tiles of ROWS by ``block``, which notes what it does; ``[0]`` is what it visits."""
    text = built(name).kernel(block).source
    head, tail = text.split("@triton.jit", 1)
    tail = tail.replace("x0 = x0_start +", "x0 = _visit(x0_start) +").replace("if x0_live:", "if _update(x0_live):")
    return LoadedKernel(head + _COUNTING.lstrip() + "@triton.jit" + tail, "masked", "interpret")


def run(name: str, arrays: dict[str, Any], block: int = 16) -> tuple[Array, list[int], list[int]]:
    """The result, and the tiles that are visited and updated, in the order of the programs."""
    kernel = counting(name, block)
    notes = kernel.function.__globals__
    notes["VISITED"].clear()
    notes["UPDATED"].clear()
    tensors = [torch.tensor(arrays[t.name]) for t in built(name).program.inputs]
    result = kernel(*tensors, config="small").double().numpy()
    return result, list(notes["VISITED"]), list(notes["UPDATED"])


def live_tiles(mask: Array, block: int = 16) -> list[int]:
    """The starts of the tiles with a live element, by head and row tile."""
    found: list[int] = []
    for head in mask:
        for first in range(0, head.shape[0], ROWS):
            seen = head[first : first + ROWS].any(axis=0)
            found += [s for s in range(0, head.shape[1], block) if seen[s : s + block].any()]
    return found


def check(name: str, arrays: dict[str, Any], mask: Array, block: int = 16) -> tuple[list[int], list[int]]:
    """Right, and also where what no row of a row tile sees is NaN."""
    H = arrays["q"].shape[0]
    mask = np.broadcast_to(mask, (H, *mask.shape[-2:]))
    with np.errstate(all="ignore"):
        want = reference(arrays["q"], arrays["k"], arrays["v"], mask)
    got, visited, updated = run(name, arrays, block)
    assert_refines(got, want, 1e-5, name)
    for first in range(0, mask.shape[1], ROWS):
        unseen = ~mask[:, first : first + ROWS].any(axis=1)
        spoiled = arrays | {s: np.where(unseen[:, :, None], np.float32(np.nan), arrays[s]) for s in "kv"}
        got, *_ = run(name, spoiled, block)
        assert_refines(got[:, first : first + ROWS], want[:, first : first + ROWS], 1e-5, f"{name}, from {first}")
    return visited, updated


def tri(n: int) -> Array:
    return np.tri(n, dtype=bool)

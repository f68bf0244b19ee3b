"""Masked attention with any mask, and its value in numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import te, tirx

import neptune_verified as nv
from tests.accepted.harness import Built, Graph, build

Array = NDArray[Any]
F32 = "float32"
#: (i, j, M, N, logical operations) -> condition
Mask = Callable[[Any, Any, Any, Any, Any], Any]


class OnTe:
    @staticmethod
    def all(*xs: Any) -> Any:
        return tirx.all(*xs)

    @staticmethod
    def any(*xs: Any) -> Any:
        return tirx.any(*xs)

    @staticmethod
    def div(x: Any, d: int) -> Any:
        return te.floordiv(x, d)


class OnNumpy:
    @staticmethod
    def all(*xs: Any) -> Any:
        return np.logical_and.reduce(np.broadcast_arrays(*xs))

    @staticmethod
    def any(*xs: Any) -> Any:
        return np.logical_or.reduce(np.broadcast_arrays(*xs))

    @staticmethod
    def div(x: Any, d: int) -> Any:
        return x // d


MASKS: dict[str, Mask] = {
    "causal": lambda i, j, M, N, f: j <= i,
    "causal bottom-right": lambda i, j, M, N, f: j <= i + (N - M),
    "window": lambda i, j, M, N, f: f.all(i - j >= 0, i - j < 20),
    "window bottom-right": lambda i, j, M, N, f: f.all(j <= i + (N - M), j > i + (N - M) - 9),
    "two-sided window": lambda i, j, M, N, f: f.all(i - j <= 10, j - i <= 3),
    "prefix": lambda i, j, M, N, f: j < 21,
    "prefix-LM": lambda i, j, M, N, f: f.any(j < 21, j <= i),
    "local and global": lambda i, j, M, N, f: f.any(j < 4, f.all(i - j <= 5, j - i <= 5)),
    "sinks and window, causal": lambda i, j, M, N, f: f.all(j <= i, f.any(j < 3, i - j < 24)),
    "block diagonal": lambda i, j, M, N, f: f.div(i, 12) == f.div(j, 12),
    "block causal": lambda i, j, M, N, f: f.div(j, 12) <= f.div(i, 12),
    "odd keys": lambda i, j, M, N, f: j % 2 == 1,
    "never": lambda i, j, M, N, f: f.all(j < i, j > i),
}


def attention(
    mask: Callable[[Any, Any, Any], Any], H: int, D: int, extra: tuple[Any, ...] = (), dtype: str = F32
) -> Graph:
    """``mask(h, i, j)``; rows without a key give 0. ``extra``: more inputs, which the mask reads."""
    M, N = te.var("M"), te.var("N")
    q, k, v = (te.placeholder((H, n, D), dtype, s) for s, n in (("q", M), ("k", N), ("v", N)))
    return masked(mask, q, k, v, extra)


def masked(mask: Callable[[Any, Any, Any], Any], q: Any, k: Any, v: Any, extra: tuple[Any, ...] = ()) -> Graph:
    H, M, D = q.shape
    N = k.shape[1]
    d = te.reduce_axis((0, D), "d")
    qk = te.compute((H, M, N), lambda h, i, j: te.sum(q[h, i, d].astype(F32) * k[h, j, d].astype(F32), axis=d), "qk")
    dead = nv.neg_inf(F32)
    scale = 1 / math.sqrt(int(D))
    s = te.compute((H, M, N), lambda h, i, j: tirx.if_then_else(mask(h, i, j), qk[h, i, j] * scale, dead), "s")
    j1, j2, j3 = (te.reduce_axis((0, N), f"j{n}") for n in (1, 2, 3))
    m = te.compute((H, M), lambda h, i: te.max(s[h, i, j1], axis=j1), "m")
    e = te.compute(
        (H, M, N), lambda h, i, j: tirx.if_then_else(s[h, i, j] == dead, 0.0, te.exp(s[h, i, j] - m[h, i])), "e"
    )
    total = te.compute((H, M), lambda h, i: te.sum(e[h, i, j2], axis=j2), "l")
    p = te.compute((H, M, N), lambda h, i, j: tirx.if_then_else(total[h, i] == 0.0, 0.0, e[h, i, j] / total[h, i]), "p")
    o = te.compute((H, M, D), lambda h, i, c: te.sum(p[h, i, j3] * v[h, j3, c].astype(F32), axis=j3), "o")
    return Graph(inputs=[q, k, v, *extra], outputs=[o])


def compiled(name: str, H: int = 2, D: int = 16) -> Built:
    M, N = te.var("M"), te.var("N")
    q, k, v = (te.placeholder((H, n, D), F32, s) for s, n in (("q", M), ("k", N), ("v", N)))
    graph = masked(lambda h, i, j: MASKS[name](i, j, M, N, OnTe), q, k, v)
    return build(graph, "masked")


def live(name: str, m: int, n: int) -> Array:
    i, j = np.arange(m)[:, None], np.arange(n)[None, :]
    return np.array(np.broadcast_to(MASKS[name](i, j, m, n, OnNumpy), (m, n)), dtype=bool)


def reference(q: Array, k: Array, v: Array, mask: Array) -> Array:
    """float64; a row without a key is 0."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    s = np.where(mask, np.einsum("hid,hjd->hij", q, k) / math.sqrt(q.shape[-1]), -np.inf)
    m = s.max(axis=-1, keepdims=True, initial=-np.inf)
    e = np.where(mask, np.exp(s - np.where(np.isfinite(m), m, 0)), 0)
    total = e.sum(axis=-1, keepdims=True)
    return np.asarray(np.einsum("hij,hjd->hid", np.where(total == 0, 0, e / np.where(total == 0, 1, total)), v))

"""Attention in the order of the mathematics: scores, their maximum, exponentials, normalisation, product.

Each function returns the inputs and the outputs. Arithmetic is float32, outputs have the inputs' type ``dtype``; the
lengths M (queries) and N (keys) are symbolic.

Compile it: `neptune-verified compile examples/attention.py:attention --verify --set H=4 D=64`
"""

from __future__ import annotations

import math

from peers import flex, sdpa  # noqa: F401 (for `audit --against flex,sdpa`)
from tvm import te, tirx

import neptune_verified as nv

F32 = "float32"
Graph = tuple[list[te.Tensor], list[te.Tensor]]


def _inputs(H: int, D: int, dtype: str) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """q: [H, M, D], k: [H, N, D], v: [H, N, D]."""
    M, N = te.var("M"), te.var("N")
    q = te.placeholder((H, M, D), dtype, "q")
    k = te.placeholder((H, N, D), dtype, "k")
    v = te.placeholder((H, N, D), dtype, "v")
    return q, k, v


def _scores(q: te.Tensor, k: te.Tensor) -> te.Tensor:
    H, M, D = q.shape
    N = k.shape[1]
    d = te.reduce_axis((0, D), "d")
    qk = te.compute((H, M, N), lambda h, i, j: te.sum(q[h, i, d].astype(F32) * k[h, j, d].astype(F32), axis=d), "qk")
    return te.compute((H, M, N), lambda h, i, j: qk[h, i, j] * (1 / math.sqrt(int(D))), "s")


def _row(reducer, name: str, s: te.Tensor, term) -> te.Tensor:
    """``name[h, i] = reducer over j of term(h, i, j)``."""
    H, M, N = s.shape
    j = te.reduce_axis((0, N), f"j_{name}")
    return te.compute((H, M), lambda h, i: reducer(term(h, i, j), axis=j), name)


def _times(p: te.Tensor, v: te.Tensor, name: str, dtype: str) -> te.Tensor:
    """The product p @ v, for each head."""
    H, M, N = p.shape
    j = te.reduce_axis((0, N), f"j_{name}")
    pv = te.compute(
        (H, M, v.shape[2]), lambda h, i, d: te.sum(p[h, i, j] * v[h, j, d].astype(F32), axis=j), f"{name}_f32"
    )
    return te.compute(pv.shape, lambda h, i, d: pv[h, i, d].astype(dtype), name)


def attention(H: int = 4, D: int = 64, dtype: str = "float32") -> Graph:
    """softmax(q k^T / sqrt(D)) v."""
    q, k, v = _inputs(H, D, dtype)
    s = _scores(q, k)
    m = _row(te.max, "m", s, lambda h, i, j: s[h, i, j])
    e = te.compute(s.shape, lambda h, i, j: te.exp(s[h, i, j] - m[h, i]), "e")
    total = _row(te.sum, "l", s, lambda h, i, j: e[h, i, j])
    p = te.compute(s.shape, lambda h, i, j: e[h, i, j] / total[h, i], "p")
    return [q, k, v], [_times(p, v, "o", dtype)]


def causal(H: int = 4, D: int = 64, dtype: str = "float32") -> Graph:
    """Query i sees the keys j <= i + (N - M): the last query sees them all."""
    q, k, v = _inputs(H, D, dtype)
    M, N = q.shape[1], k.shape[1]
    qk = _scores(q, k)
    s = te.compute(
        qk.shape, lambda h, i, j: tirx.if_then_else(j <= i + (N - M), qk[h, i, j], nv.neg_inf(F32)), "masked"
    )
    m = _row(te.max, "m", s, lambda h, i, j: s[h, i, j])
    # Where M > N the first queries see no key. The two selects make their outputs 0; nothing else would.
    e = te.compute(
        s.shape,
        lambda h, i, j: tirx.if_then_else(s[h, i, j] == nv.neg_inf(F32), 0.0, te.exp(s[h, i, j] - m[h, i])),
        "e",
    )
    total = _row(te.sum, "l", s, lambda h, i, j: e[h, i, j])
    p = te.compute(s.shape, lambda h, i, j: tirx.if_then_else(total[h, i] == 0.0, 0.0, e[h, i, j] / total[h, i]), "p")
    return [q, k, v], [_times(p, v, "o", dtype)]


def attention_lse(H: int = 4, D: int = 64, dtype: str = "float32") -> Graph:
    """Attention, and the log-sum-exp of each row of scores (always float32)."""
    q, k, v = _inputs(H, D, dtype)
    s = _scores(q, k)
    m = _row(te.max, "m", s, lambda h, i, j: s[h, i, j])
    e = te.compute(s.shape, lambda h, i, j: te.exp(s[h, i, j] - m[h, i]), "e")
    total = _row(te.sum, "l", s, lambda h, i, j: e[h, i, j])
    p = te.compute(s.shape, lambda h, i, j: e[h, i, j] / total[h, i], "p")
    lse = te.compute(total.shape, lambda h, i: m[h, i] + te.log(total[h, i]), "lse")
    return [q, k, v], [_times(p, v, "o", dtype), lse]


def two_consumers(H: int = 4, D: int = 64, dtype: str = "float32") -> Graph:
    """Two reductions over one maximum, both returned: l = sum exp(s - m) and a = sum exp(s - m) w.

    w: [H, N] weighs the keys, so a / l is the expectation of w under the attention."""
    q, k, _ = _inputs(H, D, dtype)
    w = te.placeholder((H, k.shape[1]), dtype, "w")
    s = _scores(q, k)
    m = _row(te.max, "m", s, lambda h, i, j: s[h, i, j])
    e = te.compute(s.shape, lambda h, i, j: te.exp(s[h, i, j] - m[h, i]), "e")
    total = _row(te.sum, "l", s, lambda h, i, j: e[h, i, j])
    a = _row(te.sum, "a", s, lambda h, i, j: e[h, i, j] * w[h, j].astype(F32))
    return [q, k, w], [total, a]

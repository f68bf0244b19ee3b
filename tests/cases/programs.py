"""Attention as FlexAttention's users write it: a score function, a mask, grouped heads, any head dimensions, lse."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import te, tirx

import neptune_verified as nv
from tests.accepted.harness import F32, Graph
from tests.masks.programs import MASKS, OnTe

#: (b, h, i, j) -> condition; (s, b, h, i, j) -> score
Mask = Callable[[Any, Any, Any, Any], Any]
Score = Callable[[Any, Any, Any, Any, Any], Any]
DEAD = nv.neg_inf(F32)
M, N, B = te.var("M"), te.var("N"), te.var("B")


def attention(
    mask: Mask | None = None,
    score: Score | None = None,
    late: Callable[[Any], Any] | None = None,
    *,
    H: int = 2,
    KV: int = 0,
    head: Callable[[Any], Any] | None = None,
    D: int = 16,
    Dv: int = 0,
    dtype: str = F32,
    extra: tuple[Any, ...] = (),
    facts: tuple[Any, ...] = (),
) -> Graph:
    """Scale, score, mask, ``late`` (what a user may put after the mask), softmax. Rows without a key: 0, lse -inf.

    ``head``: the key head of a query head. ``extra``: inputs that mask and score read."""
    KV, Dv = KV or H, Dv or D
    head = head or (lambda h: te.floordiv(h, H // KV) if KV != H else h)
    q = te.placeholder((B, H, M, D), dtype, "q")
    k = te.placeholder((B, KV, N, D), dtype, "k")
    v = te.placeholder((B, KV, N, Dv), dtype, "v")
    d, scale = te.reduce_axis((0, D), "d"), 1 / math.sqrt(D)
    scores, rows = (B, H, M, N), (B, H, M)
    qk = te.compute(
        scores, lambda b, h, i, j: te.sum(q[b, h, i, d].astype(F32) * k[b, head(h), j, d].astype(F32), axis=d), "qk"
    )
    s = te.compute(scores, lambda b, h, i, j: qk[b, h, i, j] * scale, "scaled")
    if score is not None:
        scaled, function = s, score
        s = te.compute(scores, lambda b, h, i, j: function(scaled[b, h, i, j], b, h, i, j), "scored")
    if mask is not None:
        scored, condition = s, mask
        s = te.compute(
            scores, lambda b, h, i, j: tirx.if_then_else(condition(b, h, i, j), scored[b, h, i, j], DEAD), "masked"
        )
    if late is not None:
        before, last = s, late
        s = te.compute(scores, lambda b, h, i, j: last(before[b, h, i, j]), "late")
    j1, j2, j3 = (te.reduce_axis((0, N), f"j{n}") for n in (1, 2, 3))
    m = te.compute(rows, lambda b, h, i: te.max(s[b, h, i, j1], axis=j1), "m")
    e = te.compute(
        scores,
        lambda b, h, i, j: tirx.if_then_else(s[b, h, i, j] == DEAD, 0.0, te.exp(s[b, h, i, j] - m[b, h, i])),
        "e",
    )
    total = te.compute(rows, lambda b, h, i: te.sum(e[b, h, i, j2], axis=j2), "l")
    p = te.compute(
        scores, lambda b, h, i, j: tirx.if_then_else(total[b, h, i] == 0.0, 0.0, e[b, h, i, j] / total[b, h, i]), "p"
    )
    pv = te.compute(
        (B, H, M, Dv),
        lambda b, h, i, c: te.sum(p[b, h, i, j3] * v[b, head(h), j3, c].astype(F32), axis=j3),
        "o_f32",
    )
    o = te.compute(pv.shape, lambda b, h, i, c: pv[b, h, i, c].astype(dtype), "o")
    lse = te.compute(rows, lambda b, h, i: m[b, h, i] + te.log(total[b, h, i]), "lse")
    return Graph(inputs=[q, k, v, *extra], outputs=[o, lse], facts=list(facts))


# ------------------------------------------------------------------------------------------- masks and scores


def family(name: str) -> Mask:
    """A mask of tests/masks."""
    return lambda b, h, i, j: MASKS[name](i, j, M, N, OnTe)


def lengths() -> tuple[Mask, tuple[Any, ...]]:
    """The keys of batch b are those before lens[b]."""
    lens = te.placeholder((B,), "int32", "lens")
    return (lambda b, h, i, j: j < lens[b]), (lens,)


def key_bias() -> tuple[Score, tuple[Any, ...], tuple[Any, ...]]:
    """A number added to the score of each key, which may be -inf."""
    bias = te.placeholder((N,), F32, "bias")
    return (lambda s, b, h, i, j: s + bias[j]), (bias,), (nv.finite_or_minus_infinity(bias),)


def bias() -> tuple[Score, tuple[Any, ...]]:
    """A number of each head, query and key."""
    x = te.placeholder((2, M, N), F32, "bias")
    return (lambda s, b, h, i, j: s + x[h, i, j]), (x,)


def alibi(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    """Two heads: slopes 1/4 and 1/2."""
    return s + (h + 1).astype(F32) * 0.25 * (j - i).astype(F32)


def soft_cap(x: Any, cap: float = 1.0) -> Any:
    return te.tanh(x * (1 / cap)) * cap


def capped(s: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
    return soft_cap(s)


def slopes() -> tuple[Score, tuple[Any, ...]]:
    """ALiBi as it is for softmax, which does not see what is added to a whole row: the distance from the last key."""
    x = te.placeholder((2,), F32, "slopes")
    return (lambda s, b, h, i, j: s + x[h] * (j - (N - 1)).astype(F32)), (x,)

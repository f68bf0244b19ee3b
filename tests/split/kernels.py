"""Programs with split-K forms, compiled once for Triton's interpreter, and references in plain numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from tvm import te

import neptune_verified as nv
from neptune_verified.cli import read_definition
from neptune_verified.pipeline import Kernel

F32 = "float32"
Arrays = dict[str, np.ndarray[Any, Any]]


def decode(H: int = 4, Hk: int = 2, D: int = 16, dtype: str = "float16") -> nv.Program:
    """One query for each head: q [B, H, D], k and v [B, ceil(H / G), N, D] with G = ceil(H / Hk)."""
    B, N, G = te.var("B"), te.var("N"), -(-H // Hk)
    q = te.placeholder((B, H, D), dtype, "q")
    k, v = (te.placeholder((B, Hk, N, D), dtype, x) for x in "kv")
    d, *js = (te.reduce_axis((0, n), f"r{name}") for name, n in (("d", D), ("m", N), ("l", N), ("o", N)))

    def head(h: Any) -> Any:
        return te.floordiv(h, G) if G > 1 else h

    def score(b: Any, h: Any, j: Any) -> Any:
        return te.sum(q[b, h, d].astype(F32) * k[b, head(h), j, d].astype(F32), axis=d)

    qk = te.compute((B, H, N), score, "qk")
    s = te.compute((B, H, N), lambda b, h, j: qk[b, h, j] * (1 / math.sqrt(D)), "s")
    m = te.compute((B, H), lambda b, h: te.max(s[b, h, js[0]], axis=js[0]), "m")
    e = te.compute((B, H, N), lambda b, h, j: te.exp(s[b, h, j] - m[b, h]), "e")
    total = te.compute((B, H), lambda b, h: te.sum(e[b, h, js[1]], axis=js[1]), "l")

    def weighed(b: Any, h: Any, c: Any) -> Any:
        return te.sum(e[b, h, js[2]] / total[b, h] * v[b, head(h), js[2], c].astype(F32), axis=js[2])

    o32 = te.compute((B, H, D), weighed, "o32")
    o = te.compute((B, H, D), lambda b, h, c: o32[b, h, c].astype(dtype), "o")
    return nv.Program.from_te([q, k, v], [o], "decode")


def decode_reference(x: Arrays) -> list[np.ndarray[Any, Any]]:
    q, k, v = x["q"], x["k"], x["v"]
    G = -(-q.shape[1] // k.shape[1])
    heads = [h // G for h in range(q.shape[1])]
    s = np.einsum("bhd,bhjd->bhj", q, k[:, heads]) / math.sqrt(q.shape[2])
    if not s.shape[2]:
        return [np.zeros_like(q)]
    w = np.exp(s - s.max(axis=2, keepdims=True))
    return [np.einsum("bhj,bhjd->bhd", w / w.sum(axis=2, keepdims=True), v[:, heads])]


def _softmax(x: Arrays) -> list[np.ndarray[Any, Any]]:
    s = next(iter(x.values()))
    if not s.shape[1]:
        return [s]
    w = np.exp(s - s.max(axis=1, keepdims=True))
    return [w / w.sum(axis=1, keepdims=True)]


def _logsumexp(x: Arrays) -> list[np.ndarray[Any, Any]]:
    s = next(iter(x.values()))
    return [torch.logsumexp(torch.from_numpy(s), 1).numpy()]


def _norm(x: Arrays) -> list[np.ndarray[Any, Any]]:
    s = next(iter(x.values()))
    if not s.shape[1]:
        return [np.full(s.shape[0], np.nan)]  # the definition says -inf * 0 there
    return [np.sqrt((s * s).sum(axis=1))]


def _attention(x: Arrays) -> list[np.ndarray[Any, Any]]:
    q, k, v = (x[n] for n in "qkv")
    s = np.einsum("hid,hjd->hij", q, k) / math.sqrt(q.shape[2])
    if not s.shape[2]:
        return [np.zeros_like(q), np.full(q.shape[:2], -np.inf)]
    w = np.exp(s - s.max(axis=2, keepdims=True))
    total = w.sum(axis=2, keepdims=True)
    lse = torch.logsumexp(torch.from_numpy(s), 2).numpy()
    return [np.einsum("hij,hjd->hid", w / total, v), lse]


def _causal(x: Arrays) -> list[np.ndarray[Any, Any]]:
    q, k, v = (x[n] for n in "qkv")
    M, N = q.shape[1], k.shape[1]
    o = np.zeros_like(q)
    for i in range(M):
        seen = i + N - M + 1
        if seen > 0:
            s = np.einsum("hd,hjd->hj", q[:, i], k[:, :seen]) / math.sqrt(q.shape[2])
            w = np.exp(s - s.max(axis=1, keepdims=True))
            o[:, i] = np.einsum("hj,hjd->hd", w / w.sum(axis=1, keepdims=True), v[:, :seen])
    return [o]


def _softplus_sum(x: Arrays) -> list[np.ndarray[Any, Any]]:
    s = next(iter(x.values()))
    if not s.shape[1]:
        return [np.zeros(s.shape[0])]
    return [np.log1p(np.exp(s - s.max(axis=1, keepdims=True))).sum(axis=1)]


def _amax(x: Arrays) -> list[np.ndarray[Any, Any]]:
    s, w = x.values()
    if not s.shape[1]:
        return [np.full(s.shape[0], -np.inf)]  # the maximum of nothing; no rms is read
    return [np.abs(s * w).max(axis=1) / np.sqrt((s * s).mean(axis=1) + 1e-6)]


def _layernorm(x: Arrays) -> list[np.ndarray[Any, Any]]:
    s, w, b = x.values()
    if not s.shape[1]:
        return [s]
    z = (s - s.mean(axis=1, keepdims=True)) / np.sqrt(s.var(axis=1, keepdims=True) + 1e-5)
    return [z * w + b]


#: name -> (definition, parameters, reference, relative and absolute tolerance)
Reference = Callable[[Arrays], list[np.ndarray[Any, Any]]]
PROGRAMS: dict[str, tuple[str, dict[str, Any], Reference, float]] = {
    "attention": ("examples/attention.py:attention", {"H": 2, "D": 16, "dtype": "float16"}, _attention, 2e-3),
    "attention_lse": ("examples/attention.py:attention_lse", {"H": 2, "D": 16}, _attention, 1e-5),
    "causal": ("examples/attention.py:causal", {"H": 2, "D": 16}, _causal, 1e-5),
    "softmax": ("examples/softmax.py:softmax", {}, _softmax, 1e-5),
    "logsumexp": ("examples/softmax.py:logsumexp", {}, _logsumexp, 1e-5),
    "l2norm": ("examples/norms.py:l2norm", {}, _norm, 1e-5),
    "rmsnorm_amax": ("examples/norms.py:rmsnorm_amax", {}, _amax, 1e-4),
    "layernorm": ("examples/norms.py:layernorm", {}, _layernorm, 1e-4),
    "softplus_sum": ("examples/unfusable.py:softplus_sum", {}, _softplus_sum, 1e-5),
    "decode": ("", {}, decode_reference, 2e-3),
    "decode_three": ("", {"H": 6, "Hk": 2, "dtype": "bfloat16"}, decode_reference, 2e-2),
    "decode_uneven": ("", {"H": 7, "Hk": 3, "dtype": "float32"}, decode_reference, 1e-5),
    "decode_heads": ("", {"H": 3, "Hk": 3}, decode_reference, 2e-3),
}


@cache
def program(name: str) -> nv.Program:
    source, parameters, *_ = PROGRAMS[name]
    return read_definition(source, parameters)[0] if source else decode(**parameters)


@cache
def kernel(name: str) -> Kernel:
    return nv.compile(program(name), "interpret", nv.Schedule("split-k"))


def inputs(name: str, n: int, rows: int = 3, seed: int = 0) -> list[torch.Tensor]:
    """Tensors with the split length ``n``, and ``rows`` of every other length that is symbolic."""
    g = torch.Generator().manual_seed(seed)
    cut = kernel(name).loops.nests[0].passes[0].stream[-1].extent
    shapes = [[n if d is cut else int(getattr(d, "value", rows)) for d in t.shape] for t in program(name).inputs]
    return [
        torch.randn(shape, generator=g).to(getattr(torch, t.dtype))
        for shape, t in zip(shapes, program(name).inputs, strict=True)
    ]


def reference(name: str, tensors: list[torch.Tensor]) -> list[np.ndarray[Any, Any]]:
    arrays = {t.name: x.double().numpy() for t, x in zip(program(name).inputs, tensors, strict=True)}
    return PROGRAMS[name][2](arrays)


def results(name: str, tensors: list[torch.Tensor], **how: Any) -> list[torch.Tensor]:
    found = kernel(name)(*tensors, **how)
    return list(found) if isinstance(found, tuple) else [found]

"""Ten attention operators of language and vision models, in the order of the mathematics.

Prefill (``pf_``): q [B, H, M, D], k [B, Hk, N, D], v [B, Hk, N, Dv], output [B, H, M, Dv]. Decode (``dc_``): one query at
the last position, q [B, H, D], output [B, H, Dv]. B, M and N are symbolic. Query head h reads key head h // (H // Hk).
Query i stands at position i + (N - M): the last query sees the last key. Where M > N, the first queries of a causal
operator see no key; their output is 0 and their log-sum-exp -inf. So are those of every row where N = 0.

Scores are float32; the output has the type ``dtype`` of q, k and v. Further parameters of every operator:

    D, Dv      sizes of a head; Dv is D unless given
    lse        one more output, [B, H, M] or [B, H], float32: the log-sum-exp m + log l of each row
    row_max    one more output of that shape: the maximum m of each row
    sink       one more input, the last, [H], float32: a logit of each head that has no value; m and l count it

Compile one: `neptune-verified compile examples/operators.py:pf_gqa --verify --set H=4 Hk=2 D=16 lse=True`
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from peers import flex, sdpa  # noqa: F401 (for `audit --against flex,sdpa`)
from tvm import te, tirx

import neptune_verified as nv

F32 = "float32"
DEAD = nv.neg_inf(F32)
Graph = tuple[list[te.Tensor], list[te.Tensor]]
#: Whether a query sees a key; the argument is how far the key is ahead: its position less that of the query.
Mask = Callable[[Any], Any]


# ----------------------------------------------------------------------------------------------- the operators


def pf_global(H: int = 32, Hk: int = 32, **options: Any) -> Graph:
    """Prefill: every query sees every key (ViT-L)."""
    return _attention(_prefill(H), Hk, **options)


def pf_causal(H: int = 32, Hk: int = 32, **options: Any) -> Graph:
    """Prefill, causal (GPT-3 6.7B)."""
    return _attention(_prefill(H), Hk, mask=_causal, **options)


def pf_alibi(H: int = 32, Hk: int = 32, **options: Any) -> Graph:
    """Prefill, causal, with ALiBi (MPT-7B): one more input, slopes [H], float32."""
    return _attention(_prefill(H), Hk, mask=_causal, alibi=True, **options)


def pf_gqa(H: int = 64, Hk: int = 8, **options: Any) -> Graph:
    """Prefill, causal, grouped heads (Llama-3 70B)."""
    return _attention(_prefill(H), Hk, mask=_causal, **options)


def pf_softcap(H: int = 32, Hk: int = 16, cap: float = 50.0, **options: Any) -> Graph:
    """Prefill, causal, grouped heads, scores capped softly (Gemma-2 27B)."""
    return _attention(_prefill(H), Hk, mask=_causal, cap=cap, **options)


def pf_window(H: int = 32, Hk: int = 8, cap: float = 50.0, window: int = 4096, **options: Any) -> Graph:
    """Prefill, causal over the last ``window`` keys, grouped heads, scores capped softly (Gemma-2 27B)."""
    return _attention(_prefill(H), Hk, mask=lambda ahead: tirx.all(ahead <= 0, ahead > -window), cap=cap, **options)


def dc_causal(H: int = 32, Hk: int = 32, **options: Any) -> Graph:
    """Decode: the last query sees every key (GPT-3 6.7B)."""
    return _attention(_decode(H), Hk, **options)


def dc_alibi(H: int = 32, Hk: int = 32, **options: Any) -> Graph:
    """Decode with ALiBi (MPT-7B): one more input, slopes [H], float32."""
    return _attention(_decode(H), Hk, alibi=True, **options)


def dc_gqa(H: int = 64, Hk: int = 8, **options: Any) -> Graph:
    """Decode, grouped heads (Llama-3 70B)."""
    return _attention(_decode(H), Hk, **options)


def dc_softcap(H: int = 32, Hk: int = 16, cap: float = 50.0, **options: Any) -> Graph:
    """Decode, grouped heads, scores capped softly (Gemma-2 27B)."""
    return _attention(_decode(H), Hk, cap=cap, **options)


# ------------------------------------------------------------------------------------------ what they are made of


class _Queries(NamedTuple):
    """The rows of the scores. ``axes`` names the indices of a row: batch, head and, in prefill, query."""

    axes: str
    shape: tuple[Any, ...]
    N: te.Var
    position: Callable[..., Any]

    def rows(self, name: str, f: Callable[..., Any], *column: tuple[str, Any]) -> te.Tensor:
        """``name[*row] = f(row)``, or with a column (its name and its size) ``name[*row, c] = f(row, c)``."""
        n = len(self.axes)
        shape, names = (*self.shape, *(size for _, size in column)), [*self.axes, *(c for c, _ in column)]
        return te.compute(shape, lambda *x: f(x[:n], *x[n:]), name, varargs_names=names)

    def scores(self, name: str, f: Callable[..., Any]) -> te.Tensor:
        """``name[*row, j] = f(row, j)`` for every key j."""
        return self.rows(name, f, ("j", self.N))

    def reduce(self, reducer: Any, name: str, f: Callable[..., Any], *column: tuple[str, Any]) -> te.Tensor:
        """``name[*row] = reducer over all keys j of f(row, j)``; with a column, as in ``rows``."""
        j = te.reduce_axis((0, self.N), f"j_{name}")
        return self.rows(name, lambda r, *c: reducer(f(r, j, *c), axis=j), *column)

    def ahead(self, row: tuple[Any, ...], j: Any) -> Any:
        """How far key j is ahead of the query."""
        return j - self.position(*row)


def _prefill(H: int) -> _Queries:
    M, N = te.var("M"), te.var("N")
    return _Queries("bhi", (te.var("B"), H, M), N, lambda b, h, i: i + (N - M))


def _decode(H: int) -> _Queries:
    N = te.var("N")
    return _Queries("bh", (te.var("B"), H), N, lambda b, h: N - 1)


def _causal(ahead: Any) -> Any:
    return ahead <= 0


def _attention(
    x: _Queries,
    Hk: int,
    *,
    mask: Mask | None = None,
    alibi: bool = False,
    cap: float | None = None,
    D: int = 128,
    Dv: int | None = None,
    dtype: str = "float16",
    lse: bool = False,
    row_max: bool = False,
    sink: bool = False,
) -> Graph:
    """Inputs and outputs of one operator."""
    B, H = x.shape[:2]
    if H % Hk:
        raise ValueError(f"{H} query heads are no multiple of {Hk} key heads")
    q = te.placeholder((*x.shape, D), dtype, "q")
    k = te.placeholder((B, Hk, x.N, D), dtype, "k")
    v = te.placeholder((B, Hk, x.N, Dv or D), dtype, "v")
    slopes = te.placeholder((H,), F32, "slopes") if alibi else None
    logit = te.placeholder((H,), F32, "sink") if sink else None
    s = _scores(x, q, k, slopes, cap, mask)
    m, e, total = _exponentials(x, s, mask is not None, logit)
    o = _average(x, e, total, v, mask is not None)
    outputs = [x.rows("o", lambda r, c: o(*r, c).astype(dtype), ("c", Dv or D))]
    if lse:
        outputs.append(x.rows("lse", lambda r: m(*r) + te.log(total(*r))))
    if row_max:
        outputs.append(m)
    return [q, k, v, *(t for t in (slopes, logit) if t is not None)], outputs


def _scores(
    x: _Queries, q: te.Tensor, k: te.Tensor, slopes: te.Tensor | None, cap: float | None, mask: Mask | None
) -> te.Tensor:
    """q k^T / sqrt(D); then ALiBi, then the soft cap, then the mask, where there are such."""
    group, D = x.shape[1] // int(k.shape[1]), int(k.shape[3])
    d = te.reduce_axis((0, D), "d")

    def product(r: Any, j: Any) -> Any:
        return q(*r, d).astype(F32) * k(r[0], te.floordiv(r[1], group), j, d).astype(F32)

    qk = x.scores("qk", lambda r, j: te.sum(product(r, j), axis=d))
    s = x.scores("s", lambda r, j: qk(*r, j) * (1 / math.sqrt(D)))
    if slopes is not None:
        plain = s
        s = x.scores("biased", lambda r, j: plain(*r, j) + slopes[r[1]] * x.ahead(r, j).astype(F32))
    if cap:
        uncapped = s
        s = x.scores("capped", lambda r, j: te.tanh(uncapped(*r, j) * (1 / cap)) * cap)
    if mask:
        unmasked = s
        s = x.scores("masked", lambda r, j: tirx.if_then_else(mask(x.ahead(r, j)), unmasked(*r, j), DEAD))
    return s


def _exponentials(
    x: _Queries, s: te.Tensor, masked: bool, sink: te.Tensor | None
) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """The maximum m of each row, e = exp(s - m), and the sum l of e. A sink joins m, so that no exponential is above 1.

    Where a query sees no key, s - m is -inf less -inf: e is 0 for what is masked. An empty sum is 0 by itself."""
    m = x.reduce(te.max, "m", lambda r, j: s(*r, j))
    if sink is not None:
        m_keys = m
        m = x.rows("m_sink", lambda r: tirx.max(m_keys(*r), sink[r[1]]))

    def exponential(r: Any, j: Any) -> Any:
        e = te.exp(s(*r, j) - m(*r))
        return tirx.if_then_else(s(*r, j) == DEAD, 0.0, e) if masked else e

    e = x.scores("e", exponential)
    total = x.reduce(te.sum, "l", lambda r, j: e(*r, j))
    if sink is not None:
        l_keys = total
        total = x.rows("l_sink", lambda r: l_keys(*r) + te.exp(sink[r[1]] - m(*r)))
    return m, e, total


def _average(x: _Queries, e: te.Tensor, total: te.Tensor, v: te.Tensor, masked: bool) -> te.Tensor:
    """(e / l) v in float32; 0 where a query sees no key."""
    group, Dv = x.shape[1] // int(v.shape[1]), int(v.shape[3])

    def weight(r: Any, j: Any) -> Any:
        p = e(*r, j) / total(*r)
        return tirx.if_then_else(total(*r) == 0.0, 0.0, p) if masked else p

    p = x.scores("p", weight)

    def product(r: Any, j: Any, c: Any) -> Any:
        return p(*r, j) * v(r[0], te.floordiv(r[1], group), j, c).astype(F32)

    return x.reduce(te.sum, "o_f32", product, ("c", Dv))

"""What others compute for the definitions of attention.py and operators.py, for `audit --against flex,sdpa`.

Each function takes the tensors of the definition, in its order, and the definition's name as ``program``; further keyword
arguments are the parameters that it was made with. It returns the output and, where it can, the log-sum-exp and the maximum
of each row of scores, as the definition does. Rows that see no key are 0. What a peer cannot do is a NotImplementedError.

This file needs torch alone. `flex` is compiled on a GPU; on a CPU its uncompiled form runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Form:
    """What a definition has beside softmax(q k^T / sqrt(D)) v."""

    causal: bool = False
    alibi: bool = False
    cap: float = 0.0
    window: int = 0
    lse: bool = False


FORMS = {
    "attention": Form(),
    "causal": Form(causal=True),
    "attention_lse": Form(lse=True),
    "pf_global": Form(),
    "pf_causal": Form(causal=True),
    "pf_alibi": Form(causal=True, alibi=True),
    "pf_gqa": Form(causal=True),
    "pf_softcap": Form(causal=True, cap=50.0),
    "pf_window": Form(causal=True, cap=50.0, window=4096),
    "dc_causal": Form(),
    "dc_alibi": Form(alibi=True),
    "dc_gqa": Form(),
    "dc_softcap": Form(cap=50.0),
}


@dataclass(frozen=True)
class Problem:
    """q: [B, H, M, D], k: [B, Hk, N, D], v: [B, Hk, N, Dv], and what is done to the scores."""

    q: Tensor
    k: Tensor
    v: Tensor
    slopes: Tensor | None
    form: Form
    outputs: tuple[str, ...]
    #: From the result's [B, H, M, ...] to the definition's shape.
    shaped: Callable[[Any], Any]

    @property
    def grouped(self) -> bool:
        return self.q.shape[1] != self.k.shape[1]

    @property
    def lengths(self) -> tuple[int, int]:
        return self.q.shape[2], self.k.shape[2]

    def dead(self) -> int:
        """The number of rows that see no key: the first ones."""
        M, N = self.lengths
        return max(0, M - N) if self.form.causal or N == 0 else 0

    def empty(self) -> bool:
        return 0 in self.q.shape or 0 in self.k.shape

    def returned(self, o: Tensor, **rows: Tensor | None) -> Any:
        """The outputs in the order of the definition, up to one that is not there. Dead rows are 0 in o, -inf in others."""
        dead = self.dead()
        results = []
        for name in self.outputs:
            x = o if name == "o" else rows.get(name)
            if x is None:
                break
            if dead:
                x = x.clone()
                x[:, :, :dead] = 0.0 if name == "o" else -math.inf
            results.append(self.shaped(x))
        return results[0] if len(results) == 1 else tuple(results)

    def nothing(self) -> Any:
        """The result where there is no query or no key."""
        o = self.q.new_zeros((*self.q.shape[:3], self.v.shape[3]))
        row = self.q.new_full(self.q.shape[:3], -math.inf).float()
        return self.returned(o, lse=row, row_max=row)


def _problem(
    peer: str,
    tensors: tuple[Tensor, ...],
    program: str,
    cap: float | None,
    window: int | None,
    lse: bool,
    row_max: bool,
    sink: bool,
) -> Problem:
    if program not in FORMS:
        raise NotImplementedError(f"{peer} knows no {program!r}; it knows {', '.join(FORMS)}")
    if sink:
        raise NotImplementedError(f"{peer} knows no sink, a logit without a value: compare without sink=True")
    form = FORMS[program]
    cap, window = form.cap if cap is None else cap, form.window if window is None else window
    form = Form(form.causal, form.alibi, cap if form.cap else 0.0, window if form.window else 0, form.lse or lse)
    q, k, v, *rest = tensors
    slopes = rest[0] if form.alibi else None
    outputs = ("o", *(["lse"] if form.lse else []), *(["row_max"] if row_max else []))
    if program.startswith("dc_"):  # one query, at the position of the last key: it sees them all
        return Problem(q[:, :, None], k, v, slopes, form, outputs, lambda x: x[:, :, 0])
    if q.dim() == 3:
        return Problem(q[None], k[None], v[None], slopes, form, outputs, lambda x: x[0])
    return Problem(q, k, v, slopes, form, outputs, lambda x: x)


# ------------------------------------------------------------------------------------------------ FlexAttention


def flex(
    *tensors: Tensor,
    program: str,
    cap: float | None = None,
    window: int | None = None,
    lse: bool = False,
    row_max: bool = False,
    sink: bool = False,
) -> Any:
    """torch's FlexAttention: masks and changes of scores as functions. It gives row maxima on a GPU alone."""
    from torch.nn.attention.flex_attention import AuxRequest, create_block_mask

    x = _problem("FlexAttention", tensors, program, cap, window, lse, row_max, sink)
    if x.empty():
        return x.nothing()
    M, N = x.lengths
    more = {
        "score_mod": _score_mod(x),
        "block_mask": create_block_mask(_mask_mod(x), None, None, M, N, device=x.q.device) if x.form.causal else None,
        "enable_gqa": x.grouped,
        "return_aux": AuxRequest(lse="lse" in x.outputs, max_scores="row_max" in x.outputs and x.q.is_cuda),
    }
    shapes = tuple((t.shape, t.stride(), t.dtype, t.device) for t in (x.q, x.k, x.v))
    run = _runner((program, cap, window, x.outputs, shapes))
    o, aux = run(x.q, x.k, x.v, **more)
    return x.returned(o, lse=aux.lse, row_max=aux.max_scores)


#: The function for the latest shape.
_LATEST: dict[Any, Any] = {}


def _runner(shape: Any) -> Any:
    """Each shape is traced anew, compiled or not, and torch has a limit to how often it traces one function."""
    import torch
    from torch.nn.attention.flex_attention import flex_attention

    if shape not in _LATEST:
        _LATEST.clear()
        torch._dynamo.reset()
        on_gpu = shape[-1][0][-1].type == "cuda"
        _LATEST[shape] = torch.compile(flex_attention, dynamic=False) if on_gpu else _quietly(flex_attention)
    return _LATEST[shape]


def _quietly(run: Any) -> Any:
    """Without the advice to compile."""
    import warnings

    def quiet(*tensors: Tensor, **more: Any) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "flex_attention called without torch.compile", UserWarning)
            return run(*tensors, **more)

    return quiet


# The functions inside of the next two are traced: they see tensors and numbers alone.


def _score_mod(x: Problem) -> Any:
    import torch

    (M, N), cap, slopes, tanh = x.lengths, x.form.cap, x.slopes, torch.tanh
    ahead = N - M
    if slopes is not None:
        return lambda s, b, h, i, j: s + slopes[h] * (j - i - ahead)
    return (lambda s, b, h, i, j: cap * tanh(s / cap)) if cap else None


def _mask_mod(x: Problem) -> Any:
    (M, N), window = x.lengths, x.form.window
    ahead = N - M
    if window:
        return lambda b, h, i, j: (j <= i + ahead) & (j > i + ahead - window)
    return lambda b, h, i, j: j <= i + ahead


# --------------------------------------------------------------------------- scaled_dot_product_attention


def _backend(peer: str, backend: str | None, summary: str) -> Any:
    def run(
        *tensors: Tensor,
        program: str,
        cap: float | None = None,
        window: int | None = None,
        lse: bool = False,
        row_max: bool = False,
        sink: bool = False,
    ) -> Any:
        return _sdpa(peer, backend, _problem(peer, tensors, program, cap, window, lse, row_max, sink))

    run.__doc__ = summary
    return run


def _sdpa(peer: str, backend: str | None, x: Problem) -> Any:
    import warnings
    from contextlib import nullcontext

    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    if x.form.cap:
        raise NotImplementedError(f"{peer} has no soft cap: compare with cap=0, or against flex")
    if backend and not x.q.is_cuda:
        raise NotImplementedError(f"{peer} runs on a GPU alone: use sdpa or flex here")
    if x.empty():
        return x.nothing()
    dead = x.dead()
    live = replace(x, q=x.q[:, :, dead:])  # what comes of a row without a key depends on the backend
    with warnings.catch_warnings(), sdpa_kernel(getattr(SDPBackend, backend)) if backend else nullcontext():
        warnings.simplefilter("ignore", UserWarning)  # why each other backend was not used
        o = scaled_dot_product_attention(live.q, x.k, x.v, enable_gqa=x.grouped, **_mask(peer, backend, live))
    return x.returned(torch.cat([o.new_zeros((*o.shape[:2], dead, o.shape[3])), o], dim=2) if dead else o)


def _mask(peer: str, backend: str | None, x: Problem) -> dict[str, Any]:
    """What tells scaled_dot_product_attention of masks and biases: a flag where that is enough, else a tensor."""
    import torch

    (M, N), form = x.lengths, x.form
    if x.slopes is None and not form.causal:
        return {}
    if x.slopes is None and not form.window and M == N:
        return {"is_causal": True}
    if backend == "FLASH_ATTENTION":
        if x.slopes is not None or form.window:
            raise NotImplementedError(f"{peer} takes no biases and no windows: compare against flex")
        from torch.nn.attention.bias import causal_lower_right

        return {"attn_mask": causal_lower_right(M, N)}
    ahead = torch.arange(N, device=x.q.device)[None, :] - torch.arange(N - M, N, device=x.q.device)[:, None]
    seen = ahead <= 0 if form.causal else torch.ones_like(ahead, dtype=torch.bool)
    if form.window:
        seen &= ahead > -form.window
    if x.slopes is None:
        return {"attn_mask": seen}
    bias = (x.slopes[:, None, None] * ahead).masked_fill(~seen, -math.inf)
    return {"attn_mask": bias[None].to(x.q.dtype)}


sdpa = _backend(
    "SDPA", None, "torch's scaled_dot_product_attention, by the backend that it chooses. ALiBi is biases in q's type."
)
cudnn = _backend("cuDNN", "CUDNN_ATTENTION", "The same by cuDNN, on a GPU.")
flash = _backend("flash", "FLASH_ATTENTION", "The same by FlashAttention, on a GPU; it takes no masks or biases.")

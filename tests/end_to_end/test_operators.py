"""examples/operators.py: one pass and a certificate for each; kernels against attention in float64, written anew here."""

from __future__ import annotations

import inspect
import math
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import neptune_verified as nv
from neptune_verified.user_files import load_file

#: Lanes beyond the lengths may overflow; numpy says so.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
FILE = Path(__file__).parents[2] / "examples" / "operators.py"
#: Query heads and key heads of each operator: ratios of 1, 2, 3 and 4.
HEADS = {
    "pf_global": (2, 2), "pf_causal": (2, 2), "pf_alibi": (2, 2), "pf_gqa": (4, 1), "pf_softcap": (4, 2),
    "pf_window": (3, 1), "dc_causal": (2, 2), "dc_alibi": (2, 2), "dc_gqa": (6, 2), "dc_softcap": (4, 2),
}  # fmt: skip
D, WINDOW, CAP = 16, 24, 2.0
DTYPES = ("float16", "bfloat16")
#: Largest error of the output and of lse, relative to the value or 1: the product sees rounded weights, and so
#: does their sum. (Triton's interpreter truncates to bfloat16, where a GPU rounds.)
LIMITS = {"float32": (1e-5, 1e-5), "float16": (2e-3, 1.5e-3), "bfloat16": (1.6e-2, 1.2e-2)}
#: Queries and keys: tails of tiles, two and more tiles, more queries than keys (the first see none), no keys.
PREFILL = ((1, 1), (17, 40), (40, 17), (1, 40), (70, 150), (5, 0))
DECODE = (1, 17, 70, 600, 0)
#: Kernels with a sink; that of the others is the same text, and runs by LLVM.
SINKS = (
    ("pf_global", "bfloat16"), ("pf_alibi", "float16"), ("pf_window", "bfloat16"), ("dc_alibi", "bfloat16"),
    ("dc_gqa", "float16"),
)  # fmt: skip


@cache
def module() -> Any:
    return load_file(FILE)


@cache
def kernel(name: str, dtype: str, sink: bool, target: str = "interpret") -> nv.Kernel:
    H, Hk = HEADS[name]
    own: dict[str, Any] = {"cap": CAP} if name.endswith(("softcap", "window")) else {}
    own |= {"window": WINDOW} if name == "pf_window" else {}
    graph = getattr(module(), name)(H=H, Hk=Hk, D=D, dtype=dtype, lse=True, row_max=True, sink=sink, **own)
    built = nv.compile(nv.Program.from_te(*graph, name), target)
    assert built.certificate is not None
    assert built.passes == 1
    return built


class Inputs(NamedTuple):
    q: torch.Tensor  # [B, H, M, D] or [B, H, D]
    k: torch.Tensor  # [B, Hk, N, D]
    v: torch.Tensor
    slopes: torch.Tensor | None
    sink: torch.Tensor | None

    def given(self) -> list[torch.Tensor]:
        return [t for t in self if t is not None]


def draw(name: str, dtype: str, sink: bool, N: int, M: int | None = None) -> Inputs:
    H, Hk = HEADS[name]
    g = torch.Generator().manual_seed(1000 * N + (M or 0))

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=g).to(getattr(torch, dtype))

    q = normal(2, H, D) if M is None else normal(2, H, M, D)
    slopes = torch.tensor([2.0 ** -(h + 1) for h in range(H)]) if name.endswith("alibi") else None
    logits = torch.tensor([1.5, -80.0, 80.0, 0.0, -2.0, 4.0][:H]) if sink else None
    return Inputs(q * 2, normal(2, Hk, N, D), normal(2, Hk, N, D), slopes, logits)


def reference(name: str, x: Inputs) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The weighted average of v, the log-sum-exp and the maximum of the logits, with a sink as one more logit at V = 0."""
    q, k, v = (t.double() for t in x[:3])
    if name.startswith("dc_"):
        o, lse, top = reference("pf_" + name[3:], x._replace(q=x.q[:, :, None]))
        return o[:, :, 0], lse[:, :, 0], top[:, :, 0]
    (B, H, M, _), N = q.shape, k.shape[2]
    k, v = (t.repeat_interleave(H // k.shape[1], dim=1) for t in (k, v))
    logits = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(D)
    query, key = torch.arange(N - M, N)[:, None], torch.arange(N)[None, :]
    if x.slopes is not None:
        logits = logits - x.slopes.double()[:, None, None] * (query - key)
    if name in ("pf_softcap", "pf_window"):
        logits = CAP * torch.tanh(logits / CAP)
    if name != "pf_global":
        seen = (query >= key) & (query - key < (WINDOW if name == "pf_window" else N + M + 1))
        logits = logits.masked_fill(~seen, -math.inf)
    extra = torch.full((H,), -math.inf).double() if x.sink is None else x.sink.double()
    logits = torch.cat([logits, extra[:, None, None].expand(B, H, M, 1)], dim=-1)
    lse = torch.logsumexp(logits, dim=-1)
    weights = torch.nan_to_num(torch.exp(logits - lse[..., None]), nan=0.0)
    return weights[..., :N] @ v, lse, logits.amax(-1)


def error(have: Any, want: torch.Tensor) -> float:
    """The largest, each relative to its value or 1; infinite where infinities differ, or something is not a number."""
    have, finite = torch.as_tensor(have).double(), want.isfinite()
    assert have.shape == want.shape
    if not torch.equal(have[~finite], want[~finite]) or not have[finite].isfinite().all():
        return math.inf
    off = (have[finite] - want[finite]).abs() / want[finite].abs().clamp_min(1.0)
    return float(off.max()) if finite.any() else 0.0


def compare(name: str, dtype: str, x: Inputs, got: Any, what: str) -> None:
    want = reference(name, x)
    limits = (*LIMITS[dtype], 1e-5)
    for part, have, value, limit in zip(("o", "lse", "row max"), got, want, limits, strict=True):
        found = error(have, value)
        assert found <= limit, f"{name}, {dtype}, {what}: {part} is off by {found:.1e}, {limit:.1e} is allowed"


def lengths(name: str) -> list[dict[str, int]]:
    if name.startswith("dc_"):
        return [{"N": n} for n in DECODE]
    return [{"M": m, "N": n} for m, n in PREFILL]


@pytest.mark.parametrize(("name", "dtype"), [(name, DTYPES[k % 2]) for k, name in enumerate(HEADS)])
def test_operator(name: str, dtype: str) -> None:
    run = kernel(name, dtype, sink=False)
    for sizes in lengths(name):
        x = draw(name, dtype, False, **sizes)
        compare(name, dtype, x, run(*x.given()), str(sizes))


@pytest.mark.parametrize(("name", "dtype"), SINKS)
def test_sink(name: str, dtype: str) -> None:
    run = kernel(name, dtype, sink=True)
    for sizes in lengths(name):
        x = draw(name, dtype, True, **sizes)
        compare(name, dtype, x, run(*x.given()), str(sizes))


@pytest.mark.parametrize(("name", "dtype", "target"), [
    *((*pair, "interpret") for pair in SINKS),
    *((name, "float32", "llvm") for name in HEADS if not name.endswith("causal")),
])  # fmt: skip
def test_a_sink_takes_its_share(name: str, dtype: str, target: str) -> None:
    """Four logits 0 and a sink of 2.125, V = 1: 4 / (4 + e^2.125). Then a sink above everything, and one below."""
    x = draw(name, dtype, True, 4, None if name.startswith("dc_") else 1)
    run, slopes = kernel(name, dtype, True, target), None if x.slopes is None else x.slopes * 0
    for logit, share in ((2.125, 0.32328), (80.0, 0.0), (-80.0, 1.0)):
        y = Inputs(x.q * 0, x.k, torch.ones_like(x.v), slopes, torch.full((HEADS[name][0],), logit))
        o, lse, top = run(*(y.given() if target == "interpret" else [t.numpy() for t in y.given()]))
        assert error(o, torch.full(o.shape, share).double()) <= 2e-3
        assert error(lse, torch.full(lse.shape, math.log(4 + math.exp(logit))).double()) <= LIMITS[dtype][1]
        assert error(top, torch.full(top.shape, max(logit, 0.0)).double()) == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [n for n in HEADS if n.startswith("pf_") and n != "pf_global"])
def test_queries_without_a_key_give_zero(name: str, dtype: str) -> None:
    o, lse, top = kernel(name, dtype, sink=False)(*draw(name, dtype, False, 7, 40).given())
    assert not o[:, :, :33].any() and (o[:, :, 33:].abs().amax(-1) > 0).all()
    for rows in (lse, top):
        assert (rows[:, :, :33] == -math.inf).all() and rows[:, :, 33:].isfinite().all()


@pytest.mark.parametrize("name", HEADS)
def test_llvm(name: str) -> None:
    """The fused loop program, built by TVM: all with a sink, but for two."""
    sink = name not in ("pf_causal", "dc_causal")
    run = kernel(name, "float32", sink, "llvm")
    for sizes in lengths(name):
        x = draw(name, "float32", sink, **sizes)
        compare(name, "float32", x, run(*(t.numpy() for t in x.given())), f"llvm, {sizes}")


def test_every_operator_is_here() -> None:
    public = {n for n, f in vars(module()).items() if inspect.isfunction(f) and n.startswith(("pf_", "dc_"))}
    assert public == set(HEADS)
    defined = {n for n, f in vars(module()).items() if inspect.isfunction(f) and f.__module__ == "operators"}
    assert {n for n in defined if not n.startswith("_")} == public


def test_heads_must_divide() -> None:
    with pytest.raises(ValueError, match="5 query heads are no multiple of 2 key heads"):
        module().pf_gqa(H=5, Hk=2)

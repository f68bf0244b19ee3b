"""The emitted attention kernel on q, k, v of a pretrained BERT of chemical reactions, against float64."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import neptune_verified as nv
from neptune_verified.cli import read_definition
from tests.assets.bert import Activation

ROOT = Path(__file__).parents[2]


def kernel(dtype: str) -> Callable[..., torch.Tensor]:
    program, _ = read_definition(f"{ROOT}/examples/attention.py:attention", {"H": 4, "D": 64, "dtype": dtype})
    compiled = nv.compile(program, target="interpret")
    assert compiled.passes == 1
    return compiled


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    s = q.double() @ k.double().transpose(1, 2) / 8
    return torch.softmax(s, -1) @ v.double()


def unfused(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """fp16 arithmetic with fp32 accumulation, a tensor in memory after each step."""
    half = torch.float16
    s = ((q.float() @ k.float().transpose(1, 2)) / 8).to(half)
    e = torch.exp(s.float() - s.float().amax(-1, keepdim=True)).to(half)
    p = (e.float() / e.float().sum(-1, keepdim=True)).to(half)
    return (p.float() @ v.float()).to(half)


def rms(have: torch.Tensor, want: torch.Tensor) -> float:
    assert torch.isfinite(have).all()
    return float((have.double() - want).norm() / want.norm())


@pytest.mark.asset
def test_fp32_is_within_1e6_of_float64(rxnfp_activations: list[Activation]) -> None:
    run = kernel("float32")
    errors = []
    for a in rxnfp_activations:
        errors.append(rms(run(a.q, a.k, a.v), reference(a.q, a.k, a.v)))
    assert len(errors) == 96
    assert max(errors) < 1e-6, f"worst layer: {max(errors):.2e}"


@pytest.mark.asset
def test_fp16_is_not_above_unfused_fp16(rxnfp_activations: list[Activation]) -> None:
    run = kernel("float16")
    ours, theirs = [], []
    for a in rxnfp_activations:
        q, k, v = (x.half() for x in (a.q, a.k, a.v))
        want = reference(q, k, v)
        ours.append(rms(run(q, k, v), want))
        theirs.append(rms(unfused(q, k, v), want))
    assert all(mine <= other for mine, other in zip(ours, theirs, strict=True)), (
        f"worst: {max(ours):.2e} against {max(theirs):.2e}"
    )

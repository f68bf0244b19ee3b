"""Recording: what is kept, that results stay, that nothing stays patched, and which paths are not seen."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as functional
from torch import nn

import neptune_verified as nv
from neptune_verified.auditing.inputs import from_file
from tests.definitions import attention

sdpa = functional.scaled_dot_product_attention  # a name that a model may have imported


def three(*shape: int) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    return [torch.randn(*shape, generator=g) for _ in range(3)]


@pytest.mark.parametrize("call", [sdpa, lambda *x: functional.scaled_dot_product_attention(*x)])
def test_attention_is_recorded_however_it_is_called(call: Any) -> None:
    x = three(2, 4, 8)
    x[0].requires_grad_()
    want = call(*x)
    with nv.record() as recording:
        have = call(*x)
    call(*x)
    assert torch.equal(have, want) and have.requires_grad and recording.calls == 1
    (sample,) = recording.samples
    assert all(torch.equal(a, b) for a, b in zip(sample, x, strict=True))
    assert all(not t.requires_grad and t.device.type == "cpu" for t in sample)
    with torch.no_grad():
        x[1].zero_()
    assert sample[1].abs().sum() > 0


def test_what_else_is_known_of_a_call() -> None:
    q, k, v = three(2, 4, 8)
    with nv.record() as recording:
        sdpa(q, k, v)
        sdpa(q, k, v, is_causal=True, scale=0.25)
        sdpa(query=q, key=k, value=v, attn_mask=torch.ones(4, 4, dtype=torch.bool))
        sdpa(q, k, v, None, 0.0, True)
        with pytest.raises(TypeError):
            sdpa(q)
    assert recording.notes == [
        (),
        ("recorded with is_causal=True, scale=0.25",),
        ("recorded with attn_mask [4, 4]",),
        ("recorded with is_causal=True",),
    ]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("gradients", [True, False])
def test_layers_of_torch(training: bool, gradients: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 5, 16)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train(training)
    heads = nn.MultiheadAttention(16, 2, batch_first=True).train(training)
    with torch.set_grad_enabled(gradients):
        want = encoder(x), heads(x, x, x, need_weights=False)[0]
        with nv.record() as recording:
            have = encoder(x), heads(x, x, x, need_weights=False)[0]
            assert recording.calls == 3
            heads(x, x, x)
            assert recording.calls == 3, "with weights it multiplies by itself: the docstring says so"
    for a, b in zip(have, want, strict=True):
        torch.testing.assert_close(a, b, atol=2e-6, rtol=1e-5)
        assert torch.equal(a, b) or not (training or gradients), "only the fast path for inference rounds otherwise"
    assert [tuple(t.shape) for t in recording.samples[0]] == [(2, 2, 5, 8)] * 3


def test_nothing_stays(tmp_path: Path) -> None:
    before = functional.scaled_dot_product_attention, functional.multi_head_attention_forward
    for fast in (True, False):
        torch.backends.mha.set_fastpath_enabled(fast)
        with pytest.raises(ZeroDivisionError), nv.record() as recording:
            assert not torch.backends.mha.get_fastpath_enabled()
            raise ZeroDivisionError
        assert torch.backends.mha.get_fastpath_enabled() is fast
    torch.backends.mha.set_fastpath_enabled(True)
    assert before == (functional.scaled_dot_product_attention, functional.multi_head_attention_forward)
    assert torch.overrides._get_current_function_mode() is None
    sdpa(*three(2, 4, 8))
    assert recording.calls == 0
    with pytest.raises(ValueError, match="nothing was recorded in 0 calls"):
        recording.save(tmp_path / "x.pt")


def test_limit_and_every() -> None:
    with nv.record(limit=2, every=3) as recording:
        for k in range(10):
            sdpa(*(t * k for t in three(1, 2, 4)))
    assert recording.calls == 10 and len(recording.samples) == 2
    assert torch.equal(recording.samples[1][0], three(1, 2, 4)[0] * 3)
    for wrong in ({"limit": 0}, {"every": 0}):
        with pytest.raises(ValueError, match="at least 1"), nv.record(**wrong):
            pass


class Layer(nn.Module):
    def forward(self, x: torch.Tensor, n: int, mask: torch.Tensor | None = None) -> torch.Tensor:
        return x * n if mask is None else x * mask


def test_a_module() -> None:
    layer, other = Layer(), Layer()
    x, mask = torch.ones(2, 3), torch.zeros(2, 3)
    with nv.record(layer) as recording:
        assert torch.equal(layer(x, 2), x * 2)
        layer(x, 1, mask=mask)
        layer(x, 2, mask)
        other(x, 2)
    layer(x, 2)
    assert [s if isinstance(s, list) else list(s) for s in recording.samples][1] == ["x", "mask"]
    assert [len(s) for s in recording.samples] == [1, 2, 2] and isinstance(recording.samples[2], list)
    assert not layer._forward_pre_hooks and not layer._forward_pre_hooks_with_kwargs
    with pytest.raises(ZeroDivisionError), nv.record(layer):
        raise ZeroDivisionError
    assert not layer._forward_pre_hooks


def test_inference_mode() -> None:
    with torch.inference_mode(), nv.record() as recording:
        sdpa(*three(1, 2, 4))
    assert not recording.samples[0][0].is_inference()


def test_what_is_saved_is_read(tmp_path: Path) -> None:
    q, k, v = (t.half() for t in three(2, 16, 8))
    with nv.record() as recording:
        sdpa(q, k, v, scale=1 / math.sqrt(8) + 1)
        sdpa(q[0], k[0], v[0])
    found = list(from_file(attention(), recording.save(tmp_path / "x.pt")))
    assert [f.name for f in found] == ["x.pt[0, 0]", "x.pt[0, 1]", "x.pt[1]"]
    assert torch.equal(found[1].tensors["k"], k[1]) and torch.equal(found[2].tensors["v"], v[0])
    assert found[0].notes[0].startswith("recorded with scale=1.35") and found[2].notes == ()


def test_names_are_chosen(tmp_path: Path) -> None:
    layer = Layer()
    with nv.record(layer) as recording:
        layer(torch.ones(2, 3), 1, mask=torch.zeros(2, 3))
    path = recording.save(tmp_path / "x.pt", names={"a": "mask"})
    assert list(torch.load(path, weights_only=True)["samples"][0]) == ["a"]
    with pytest.raises(ValueError, match="no 'y' was recorded: choose among"):
        recording.save(path, names={"a": "y"})
    with pytest.raises(ValueError, match=r"FILE\.pt"):
        recording.save(tmp_path / "x.npz")

"""Split-K kernels, run: every number of splits gives the definition's values."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import neptune_verified as nv
from tests.split import kernels as k

#: What a split is a multiple of, for Triton's interpreter, is at most 1024: long axes for programs without products.
LONG = dict.fromkeys(("softmax", "logsumexp", "l2norm", "rmsnorm_amax", "layernorm", "softplus_sum"), 2100)


def close(name: str, tensors: list[torch.Tensor], **how: object) -> None:
    want = k.reference(name, tensors)
    got = k.results(name, tensors, **how)
    for a, b in zip(got, want, strict=False):
        tolerance = k.PROGRAMS[name][3]
        np.testing.assert_allclose(a.double().numpy(), b, rtol=tolerance, atol=tolerance, err_msg=f"{name} {how}")


@pytest.mark.parametrize("name", k.PROGRAMS)
def test_it_is_verified_and_has_both_updates(name: str) -> None:
    kernel = k.kernel(name)
    assert kernel.certificate is not None
    assert kernel.certificate["coverage"] == "proved O1-O16"
    kinds = {o["kind"] for o in kernel.certificate["obligations"]}
    assert "O5" in kinds and ("O15" in kinds or not any(c.repair for n in kernel.loops.nests for c in n.carried()))
    names = {x["kernel"] for x in kernel.certificate["text"]}
    assert {f"_{kernel.loops.nests[0].name}{x}_kernel" for x in ("", "_part0", "_join0")} <= names


@pytest.mark.parametrize("name", k.PROGRAMS)
@pytest.mark.parametrize("n", [0, 1, 5])
def test_every_split_count_from_one_to_more_than_the_elements(name: str, n: int) -> None:
    tensors = k.inputs(name, n, rows=2)
    for splits in sorted({1, 2, 3, n, n + 1, n + 7} - {0}):
        close(name, tensors, splits=splits)


@pytest.mark.parametrize("name", k.PROGRAMS)
def test_several_splits_that_are_full_and_a_short_one(name: str) -> None:
    n = LONG.get(name, 200)
    tensors = k.inputs(name, n)
    for splits in (2, 3, 4):
        close(name, tensors, splits=splits)
    close(name, tensors, split_size=LONG[name] // 2 if name in LONG else 64)


def test_all_counts_at_one_length() -> None:
    tensors = k.inputs("logsumexp", 30)
    for splits in range(1, 34):
        close("logsumexp", tensors, splits=splits)


@pytest.mark.parametrize("name", ["attention_lse", "softmax", "softplus_sum", "decode_three", "decode_heads"])
def test_one_split_has_the_bits_of_the_rolling_update(name: str) -> None:
    rolling = nv.compile(k.program(name), "interpret", nv.Schedule("rolling"))
    tensors = k.inputs(name, 150)
    want = rolling(*tensors)
    for a, b in zip(k.results(name, tensors, splits=1), want if isinstance(want, tuple) else (want,), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", ["attention", "decode", "logsumexp"])
def test_the_same_bits_from_run_to_run(name: str) -> None:
    tensors = k.inputs(name, LONG.get(name, 200))
    first = k.results(name, tensors, splits=3)
    for _ in range(3):
        assert all(map(torch.equal, first, k.results(name, tensors, splits=3)))


@pytest.mark.parametrize("name", ["decode", "decode_heads"])
def test_with_a_fixed_split_size_a_row_does_not_depend_on_the_batch(name: str) -> None:
    tensors = k.inputs(name, 300, rows=3)
    together = k.results(name, tensors, split_size=64)[0]
    for b in range(3):
        alone = k.results(name, [x[b : b + 1] for x in tensors], split_size=64)[0]
        assert torch.equal(alone[0], together[b])


def test_the_launcher_says_what_is_wrong_with_splits() -> None:
    tensors = k.inputs("logsumexp", 5)
    for how, text in (
        ({"splits": 0}, "splits is 0: it must be a positive int"),
        ({"splits": -2}, "splits is -2"),
        ({"splits": 2.0}, r"splits is 2\.0"),
        ({"splits": True}, "splits is True"),
        ({"split_size": 0}, "split_size is 0"),
        ({"splits": 2, "split_size": 64}, "splits = 2 and split_size = 64: give one of them"),
    ):
        with pytest.raises(ValueError, match=text):
            k.results("logsumexp", tensors, **how)


def test_masked_splits_add_nothing() -> None:
    """A row of which whole splits are dead, in each place (cases.md, 1 and 3): the first keys are far behind the row."""
    tensors = k.inputs("causal", 150, rows=150)
    for splits in (2, 3):
        close("causal", tensors, splits=splits)
    tensors = k.inputs("causal", 66, rows=70)  # the first 4 rows see no key
    for splits in (1, 2, 66):
        close("causal", tensors, splits=splits)
        assert not k.results("causal", tensors, splits=splits)[0][:, :4].any()


def test_very_negative_scores_in_all_splits_but_one() -> None:
    tensors = k.inputs("logsumexp", 2100)
    x = tensors[0]
    x[:, :2050] = -1e5
    for splits in (1, 2, 3):
        close("logsumexp", [x], splits=splits)
    x[:] = -1e30
    close("logsumexp", [x], splits=3)


def test_what_is_beyond_an_output_is_not_touched() -> None:
    tensors = k.inputs("attention", 130)
    frame = torch.full((2, 5, 18), 7.0, dtype=torch.float16)
    k.results("attention", tensors, splits=3, out=frame[:, 1:4, 1:17])
    close("attention", tensors, splits=3)
    assert (frame[:, 0] == 7).all() and (frame[:, 4] == 7).all() and (frame[:, :, 0] == 7).all()
    assert (frame[:, :, 17] == 7).all() and not (frame[:, 1:4, 1:17] == 7).all()

"""What ``nv.merge`` refuses, and what it says."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

import neptune_verified as nv


def arguments(**changes: Any) -> dict[str, Any]:
    good = {"out_a": torch.zeros(2, 3, 8), "lse_a": torch.zeros(2, 3)}
    return good | {"out_b": torch.zeros(2, 3, 8), "lse_b": torch.zeros(2, 3)} | changes


#: Name -> (what is changed, the error, its text).
CASES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "numpy": (
        {"out_a": np.zeros((2, 3, 8))}, TypeError,
        "out_a is a ndarray, and merge takes torch tensors: torch.as_tensor makes one",
    ),
    "nothing": ({"lse_b": None}, TypeError, "lse_b is a NoneType, and merge takes torch tensors"),
    "float64": (
        {"out_a": torch.zeros(2, 3, 8).double()}, TypeError,
        "out_a is float64, and merge takes float16, bfloat16, float32: convert it",
    ),
    "integers": ({"out_b": torch.zeros(2, 3, 8).int()}, TypeError, "out_b is int32, and merge takes float16"),
    "half lse": (
        {"lse_a": torch.zeros(2, 3).half()}, TypeError,
        "lse_a is float16, and a log-sum-exp is float32: lse_a.float() converts it",
    ),
    "double lse": ({"lse_b": torch.zeros(2, 3).double()}, TypeError, "lse_b is float64, and a log-sum-exp is float32"),
    "two types": (
        {"out_b": torch.zeros(2, 3, 8).half()}, TypeError,
        "out_b is torch.float16, out_a is torch.float32: convert one of them",
    ),
    "no columns": (
        {"out_a": torch.zeros(2, 3, 0)}, nv.ShapeError,
        "out_a has shape [2, 3, 0], and merge takes [..., Dv] with Dv >= 1",
    ),
    "a number": ({"out_a": torch.zeros(())}, nv.ShapeError, "out_a has shape [], and merge takes [..., Dv]"),
    "other width": (
        {"out_b": torch.zeros(2, 3, 16)}, nv.ShapeError, "out_b has shape [2, 3, 16], out_a has [2, 3, 8]",
    ),
    "other rows": ({"out_b": torch.zeros(2, 4, 8)}, nv.ShapeError, "out_b has shape [2, 4, 8], out_a has [2, 3, 8]"),
    "would broadcast": (
        {"out_b": torch.zeros(1, 3, 8)}, nv.ShapeError, "out_b has shape [1, 3, 8], out_a has [2, 3, 8]",
    ),
    "flattened lse": (
        {"lse_a": torch.zeros(6)}, nv.ShapeError, "lse_a has shape [6], out_a without its last dimension [2, 3]",
    ),
    "turned lse": (
        {"lse_b": torch.zeros(3, 2)}, nv.ShapeError,
        "lse_b has shape [3, 2], out_a without its last dimension [2, 3]: give both sides the same rows, in the same order",
    ),
    "lse with a column": ({"lse_b": torch.zeros(2, 3, 1)}, nv.ShapeError, "lse_b has shape [2, 3, 1]"),
    "elsewhere": (
        {"lse_b": torch.zeros(2, 3, device="meta")}, nv.ShapeError, "lse_b is on meta, out_a on cpu: move it there",
    ),
    "gradient": (
        {"out_a": torch.zeros(2, 3, 8, requires_grad=True)}, RuntimeError,
        "out_a requires a gradient, and merge has no backward: detach it or use torch.no_grad()",
    ),
    "lse gradient": (
        {"lse_b": torch.zeros(2, 3, requires_grad=True)}, RuntimeError, "lse_b requires a gradient",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_does_not_fit_is_said(name: str) -> None:
    changes, error, text = CASES[name]
    with pytest.raises(error, match="^" + re.escape(text)):
        nv.merge(**arguments(**changes))


def test_no_device_that_it_runs_on() -> None:
    tensors = {k: x.to("meta") for k, x in arguments().items()}
    with pytest.raises(
        RuntimeError, match="merge runs on a CPU or a GPU, and the tensors are on meta: move them there"
    ):
        nv.merge(**tensors)


def test_a_gradient_is_no_matter_where_none_is_recorded() -> None:
    with torch.no_grad():
        out, _ = nv.merge(**arguments(out_a=torch.zeros(2, 3, 8, requires_grad=True)))
    assert not out.requires_grad


def test_both_names_are_public() -> None:
    assert {"merge", "merge_report"} <= set(nv.__all__) <= set(dir(nv))
    assert callable(nv.merge) and callable(nv.merge_report)

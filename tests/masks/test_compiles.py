"""Kernels with loops from a mask compile for a GPU that is not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tvm import te

import neptune_verified as nv
from neptune_verified.targets.crosscompile import crosscompile
from tests.accepted.harness import F32, assert_refines, build
from tests.masks.programs import MASKS, OnTe, masked, reference
from tests.masks.test_kernels import inputs, loops


@pytest.mark.parametrize("name", ["causal bottom-right", "window", "local and global"])
def test_text_compiles(name: str, tmp_path: Path) -> None:
    M, N = te.var("M"), te.var("N")
    q, k, v = (te.placeholder((2, n, 64), "float16", s) for s, n in (("q", M), ("k", N), ("v", N)))
    g = masked(lambda h, i, j: MASKS[name](i, j, M, N, OnTe), q, k, v)
    program = nv.Program.from_te(g.inputs, g.outputs, name="masked")
    # The loops of a share are those of the axis, clamped: one of the masks shows that they compile too.
    kernel = nv.compile(program, "cuda:90", nv.Schedule("auto" if name == "window" else "rolling"))
    built = crosscompile(kernel.source, "masked", "cuda:90", tmp_path)
    assert all(c.binary > 1000 for c in built)


def test_lengths_that_are_constants(tmp_path: Path) -> None:
    q, k, v = (te.placeholder((2, n, 16), F32, s) for s, n in (("q", 40), ("k", 300), ("v", 300)))
    g = masked(lambda h, i, j: j <= i + 260, q, k, v)
    b = build(g, "constant")
    assert [x.split("\n")[0].split(", ")[1] for x in loops(b)] == ["x0_full_hi", "x0_hi"]
    arrays = inputs(40, 300)
    mask = np.arange(300)[None, :] <= np.arange(40)[:, None] + 260
    assert_refines(b.run(arrays, 16)["o"], reference(**arrays, mask=mask), 1e-5, "40, 300")
    kernel = nv.compile(nv.Program.from_te(g.inputs, g.outputs, name="constant"), target="cuda:90")
    assert crosscompile(kernel.source, "constant", "cuda:90", tmp_path)

"""Outputs without a reduction share a kernel where they compute something in common, over axes of one of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import neptune_verified as nv
from neptune_verified.fusion.fuse import fuse
from neptune_verified.ir.expr import Expr, axis, const, op, read, size
from neptune_verified.ir.interpret import run_program
from neptune_verified.ir.loops import run_loops
from neptune_verified.ir.program import Program, Stage, Tensor
from neptune_verified.mutants.programs import default_bounds

F = "float32"
M, N = size("M"), size("N")
ROW, J = axis("i", M), axis("j", N)


def program(width: int, row: Expr, whole: Expr, reverse: bool = False) -> Program:
    """y[i] = row(a[i]) and z[i, d] = whole(a[i], x[i, d]), with the stage w = exp(a) read by both or not."""
    d = axis("d", width)
    stages = (
        Stage("w", (ROW,), op("exp", read("a", (ROW,), F))),
        Stage("y", (ROW,), row),
        Stage("z", (ROW, d), op("mul", whole, read("x", (ROW, d), F))),
    )
    inputs = (Tensor("a", (M,), F), Tensor("x", (M, const(width, "int32")), F))
    return Program("maps", inputs, (M,), stages, ("z", "y") if reverse else ("y", "z"), default_bounds(inputs, (M,)))


W, A = read("w", (ROW,), F), read("a", (ROW,), F)
ONE = const(1, F)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("width", "row", "whole", "kernels"),
    [
        (16, op("add", W, ONE), W, 1),
        (256, op("add", W, ONE), W, 1),
        (257, op("add", W, ONE), W, 2),  # too wide to be held whole
        (16, op("add", A, ONE), W, 2),  # nothing computed in common
        (16, A, A, 2),
    ],
)
def test_maps_share_a_kernel(width: int, row: Expr, whole: Expr, kernels: int, reverse: bool) -> None:
    p = program(width, row, whole, reverse)
    loops = fuse(p)
    assert len(loops.nests) == kernels
    rng = np.random.default_rng(0)
    arrays = {"a": rng.normal(size=3), "x": rng.normal(size=(3, width))}
    want, got = run_program(p, arrays), run_loops(loops, arrays)
    for name in p.outputs:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-12)


def test_outputs_over_other_axes_do_not_share() -> None:
    """y[i] and z[j] of the same tensor: neither runs over all axes of the other."""
    k = axis("k", M)
    stages = (
        Stage("y", (ROW,), op("add", op("exp", read("a", (ROW,), F)), op("exp", read("b", (const(0, "int32"),), F)))),
        Stage("z", (J,), op("mul", op("exp", read("b", (J,), F)), ONE)),
        Stage("t", (k, J), op("mul", op("exp", read("b", (J,), F)), read("a", (k,), F))),
    )
    inputs = (Tensor("a", (M,), F), Tensor("b", (N,), F))
    facts = default_bounds(inputs, (M, N))
    assert len(fuse(Program("apart", inputs, (M, N), stages, ("y", "z"), facts)).nests) == 2
    # One runs over all axes of the other, but both are long: no axis is held whole.
    assert len(fuse(Program("long", inputs, (M, N), stages, ("z", "t"), facts)).nests) == 2


@pytest.mark.parametrize("reverse", [False, True])
def test_the_shared_kernel_is_proved_and_right(reverse: bool) -> None:
    p = program(16, op("add", W, ONE), W, reverse)
    kernel = nv.compile(p, target="interpret")
    assert kernel.certificate is not None and len(kernel.loops.nests) == 1
    a, x = torch.randn(70), torch.randn(70, 16)
    got = dict(zip(p.outputs, kernel(a, x), strict=True))
    torch.testing.assert_close(got["y"], torch.exp(a) + 1)
    torch.testing.assert_close(got["z"], torch.exp(a)[:, None] * x)

"""Operands of products that are taken as two 16-bit numbers: the text is proved, changes of it are not, and it is closer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tvm import te

import neptune_verified as nv
from neptune_verified.ir.expr import Op
from neptune_verified.proofs.text.evidence import covers
from neptune_verified.proofs.text.states import States
from tests.accepted.harness import F32, Graph, build
from tests.accepted.products import products
from tests.text.bases import Edit, check, prove

W = "twice"
FINITE = r"\(tl\.abs\(t_42\) < float\(\"inf\"\)\)"
LOW = rf"tl\.cast\(tl\.where\({FINITE}, \(t_31 - t_42\), 0\.0\), tl\.float16\)"
HIGH = r"tl\.dot\(t_36, v_tile_40, \(o32 \* t_25\[:, None\]\), input_precision=\"ieee\"\)"


def test_it_is_proved_and_listed() -> None:
    for k in prove(W).kernels:
        assert k.doubled == (("o32", "float16"),) and k.rounded == ()
        assert "an operand of o32 taken as two float16 numbers" in covers(k, "O16")


def test_what_is_rounded_is_not_listed_as_two() -> None:
    assert {k.doubled for k in prove("half").kernels} == {()}


@pytest.mark.parametrize(
    "edit",
    [
        Edit(W, rf"tl\.dot\({LOW}, v_tile_40, ({HIGH}), input_precision=\"ieee\"\)", r"\1", "O16"),
        Edit(W, HIGH, "(o32 * t_25[:, None])", "O16"),
        Edit(W, LOW, "t_36", "O13"),
        Edit(W, r"\(t_31 - t_42\)", "(t_42 - t_31)", "O16"),
        Edit(W, r"\(t_31 - t_42\)", "(t_31 + t_42)", "O13"),
        Edit(W, r"\(t_31 - t_42\)", "(t_17 - t_42)", "O13"),
        Edit(W, r"\(t_31 - t_42\)", "((t_31 - t_42) * 0.5)", "O13"),
        Edit(W, rf"tl\.where\({FINITE}, \(t_31 - t_42\), 0\.0\)", "(t_31 - t_42)", "O16"),  # inf - inf is NaN
        Edit(W, FINITE, '(tl.abs(t_42) >= float("inf"))', "O16"),
        Edit(W, FINITE, '(tl.abs(t_31) < float("inf"))', "O16"),  # what overflows leaves -inf
        Edit(W, r"\(t_31 - t_42\), 0\.0\)", "(t_31 - t_42), 1.0)", "O13"),
        Edit(W, r"t_36 = (.*)\n", r"t_36 = tl.cast(tl.cast(t_31, tl.bfloat16), tl.float16)\n", "O16", "from bfloat16"),
        Edit(W, r"t_42 = (.*)\n", r"t_42 = tl.cast(tl.cast(t_31, tl.bfloat16), tl.float32)\n", "O16", "from bfloat16"),
        Edit(W, rf"{LOW}, v_tile_40", r'tl.cast(t_31 - t_42, tl.float16), k_tile_13', "O13", "k is read"),
        Edit(W, r"tl\.sum\(t_31, ", "tl.sum(tl.cast(tl.cast(t_31, tl.float16), tl.float32), ", "O16"),
        Edit(W, r"dot_49 = (.*)\n", r'dot_49 = tl.dot(t_36, v_tile_40, \1, input_precision="ieee")\n', "O13"),
        Edit(W, r"\(o32 \* t_25\[:, None\]\)", "o32", "O8"),
        Edit(W, r"mask=\(t_57 & .*\)\[:, None\], other", "mask=t_57[:, None], other", "O9", "masked for every row"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_refused(edit: Edit) -> None:
    check(edit)


def test_the_other_factor_stays_as_it_is() -> None:
    """x * float32(float16(x)) is not high * float32(float16(high)) + low * float32(float16(low))."""
    g = Graph()
    x = g.input("x")
    narrow = lambda i, j: x[i, j].astype("float16").astype(F32)  # noqa: E731
    b = build(g.returns(g.row("s", te.sum, lambda i, j: x[i, j] * narrow(i, j))), "s")
    (nest,) = b.loops.nests
    (p,) = nest.passes
    states, at = States(nest, {}), {a: a for a in (*nest.grid, *p.stream)}
    halves = states.halves(p, p.carried[0], at)
    assert halves is not None and halves[0] == "float16"
    whole = states.term(p, p.carried[0], at)
    for half in halves[1:]:
        assert isinstance(half, Op) and isinstance(whole, Op)
        assert half.args[1] is whole.args[1] and half.args[0] is not whole.args[0]


@pytest.mark.parametrize(("dtype", "digits"), [("float16", 21), ("bfloat16", 14)])
def test_the_error_of_two_numbers_is_that_of_twice_the_digits(dtype: str, digits: int) -> None:
    g = torch.Generator().manual_seed(1)
    x, v = torch.randn(20, 70, generator=g), torch.randn(70, 16, generator=g).to(getattr(torch, dtype))
    exact = x.double().exp().numpy() @ v.double().numpy()
    size = x.double().exp().numpy() @ v.double().abs().numpy()
    errors = {}
    for operands in ("x1", "x2"):
        kernel = nv.compile(products(dtype), "interpret", operands=operands)
        errors[operands] = float(np.abs((kernel(x, v).double().numpy() - exact) / size).max())
        (what,) = kernel.roundings
        assert ("two" in what) == (operands == "x2")
    assert errors["x2"] < 2.0**-digits < 2.0**-12 < 8 * errors["x1"]


def test_what_overflows_is_infinite_and_no_nan() -> None:
    x, v = torch.full((3, 5), 12.0), torch.ones(5, 16, dtype=torch.float16)  # exp(12) > 65504
    x[2] = 1.0
    for operands in ("x1", "x2"):
        found = nv.compile(products("float16"), "interpret", operands=operands)(x, v)
        assert (found[:2] == torch.inf).all() and found[2, 0] == pytest.approx(5 * np.e, rel=1e-3)


def attention(rows: int) -> nv.Program:
    """One query for each of ``rows`` heads that share keys."""
    from neptune_verified.cli import read_definition

    return read_definition("examples/operators.py:dc_gqa", {"H": 2 * rows, "Hk": 2, "D": 16})[0]


@pytest.mark.parametrize(("rows", "operands", "two"), [
    (4, "auto", True), (16, "auto", True), (32, "auto", False), (32, "x2", True), (4, "x1", False),
])  # fmt: skip
def test_few_rows_are_taken_as_two_numbers_unless_something_else_is_asked(rows: int, operands: str, two: bool) -> None:
    kernel = nv.compile(attention(rows), "interpret", operands=operands)
    assert ["sum of two float16 numbers" in r for r in kernel.roundings] == [two]
    loops = 2  # full tiles, and the last one; each has a product of q and k
    assert kernel.source.count("tl.dot(") == loops * (3 if two else 2)


def test_strict_rounding_leaves_nothing_to_choose() -> None:
    kernel = nv.compile(products("float16"), "interpret", strict_rounding=True, operands="x2")
    assert kernel.roundings == () and "tl.cast(v_tile" in kernel.source and "tl.float16" not in kernel.source


def test_weights_that_are_not_rounded_sum_to_one() -> None:
    kernel = nv.compile(attention(4), "interpret")
    g = torch.Generator().manual_seed(2)
    q, k = torch.randn(2, 8, 16, generator=g).half(), torch.randn(2, 2, 75, 16, generator=g).half()
    assert (kernel(q, k, torch.ones_like(k)) == 1).all()


def test_a_wrong_word_is_refused_with_the_right_ones() -> None:
    with pytest.raises(ValueError, match="operands is 'x3': one of auto, x1, x2"):
        nv.compile(attention(4), "interpret", operands="x3")

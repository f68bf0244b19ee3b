"""Programs that a scalar repair fuses: the passes, the proofs, and three executions of each against numpy."""

from __future__ import annotations

from functools import cache
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from tvm import te

from tests.accepted.harness import F32, Arrays, Built, Graph, assert_refines, assert_same, build, scenarios
from tests.accepted.programs import CASES, Case

TILE = 16
LENGTHS = (0, 1, 2, TILE - 1, TILE, TILE + 1, 37)
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@cache
def built(name: str) -> Built:
    return build(CASES[name].graph(), name)


def wanted(case: Case, b: Built, arrays: Arrays) -> Arrays:
    """The reference's values, NaN where the definition is undefined; the definition agrees with it elsewhere."""
    with np.errstate(all="ignore"):
        values = case.reference(**{k: v.astype(np.float64) if v.dtype.kind == "f" else v for k, v in arrays.items()})
    result = {}
    for (name, definition), value in zip(b.define(arrays).items(), values, strict=True):
        result[name] = np.where(np.isnan(definition), np.nan, value)
        assert_refines(definition, result[name], 1e-9, f"definition of {name}")
    return result


def sizes(case: Case, N: int, M: int = 3) -> dict[str, int]:
    return {"M": M, "N": N, **case.sizes}


@pytest.mark.parametrize("name", CASES)
def test_passes_and_proofs(name: str) -> None:
    b = built(name)
    assert b.loops.passes == CASES[name].passes, b.loops.refusals
    assert not b.loops.refusals
    assert len(b.loops.nests) == CASES[name].kernels
    assert all(p.holds for p in b.verified.proved)


@pytest.mark.parametrize("name", CASES)
def test_loops_refine_the_definition_and_do_not_depend_on_tiles(name: str) -> None:
    case, b = CASES[name], built(name)
    for N in LENGTHS:
        for scenario, arrays in scenarios(b.program, sizes(case, N), case.draws, seed=N):
            definition = b.define(arrays)
            first = b.loop(arrays, 1)
            for tile in (1, 3, TILE, 1000):
                got = first if tile == 1 else b.loop(arrays, tile)
                for out, value in got.items():
                    assert_refines(value, definition[out], 1e-9, f"{out}, N = {N}, tile {tile}, {scenario}")
                # Undefined elements too: what stands there may depend on nothing but the row.
                assert_same(got.values(), first.values(), f"tiles {tile} and 1, N = {N}, {scenario}")


@pytest.mark.parametrize("name", CASES)
def test_kernel_agrees_with_numpy(name: str) -> None:
    case, b = CASES[name], built(name)
    for N in LENGTHS:
        for scenario, arrays in scenarios(b.program, sizes(case, N), case.draws, seed=N):
            want = wanted(case, b, arrays)
            for out, value in b.run(arrays, TILE).items():
                assert_refines(value, want[out], case.tolerance, f"{out}, N = {N}, {scenario}")


@pytest.mark.parametrize("name", CASES)
def test_kernel_as_emitted_on_long_and_no_rows(name: str) -> None:
    case, b = CASES[name], built(name)
    for M, N in ((2, case.long), (5, 3), (0, 3)):
        _, arrays = next(scenarios(b.program, sizes(case, N, M), case.draws))
        want = wanted(case, b, arrays)
        for out, value in b.run(arrays).items():
            assert_refines(value, want[out], 3 * case.tolerance, f"{out}, M = {M}, N = {N}")


def spaced(x: torch.Tensor) -> torch.Tensor:
    """Equal values, with every stride doubled or more, and the first and last dimensions swapped in memory."""
    if x.dim() == 0:
        return x
    room = torch.full([2 * n + 1 for n in reversed(x.shape)], 7, dtype=torch.int32).to(x.dtype)
    view = room[tuple(slice(1, 2 * n + 1, 2) for n in reversed(x.shape))].permute(*reversed(range(x.dim())))
    view.copy_(x)
    assert not view.is_contiguous() or x.numel() <= 1
    return view


@pytest.mark.parametrize(
    "name", ["four_inputs", "two_reduction_axes", "normalisation_inside_the_product", "added_mask"]
)
def test_strides_do_not_matter(name: str) -> None:
    case, b = CASES[name], built(name)
    _, arrays = next(scenarios(b.program, sizes(case, 21), case.draws))
    plain, strided = b.run(arrays, TILE), b.run(arrays, TILE, change=spaced)
    assert all(np.array_equal(plain[k], strided[k]) for k in plain)


def test_other_rows_do_not_matter() -> None:
    """A dead row beside live ones, and the same live rows alone, give the same bits."""
    case, b = CASES["added_mask"], built("added_mask")
    arrays = dict(scenarios(b.program, sizes(case, 33, M=4), case.draws))["dead"]
    alone = {k: v[1:] for k, v in arrays.items()}
    for out, value in b.run(arrays, TILE).items():
        assert np.array_equal(value[1:], b.run(alone, TILE)[out])


def test_a_positive_sum_that_underflows_at_first() -> None:
    """exp(-200) is 0 in float32; x / s with the first tile's s would overflow, so O7 asks for a pass of its own. (Bounds
    that let it be fused leave no room for the underflow.)"""
    g = Graph()
    x = g.input("x")
    s = g.row("s", te.sum, lambda i, j: te.exp(x[i, j]))
    q = g.row("q", te.max, lambda i, j: x[i, j] / s[i])
    b = build(g.returns(q, g.row("u", te.sum, lambda i, j: x[i, j] / s[i] * (x[i, j] / s[i]))), "underflow")
    assert b.loops.passes == 2
    assert [r.obligation for r in b.loops.refusals] == ["O7.quotient"] * 2
    values = np.full((1, 40), -1, np.float32)
    values[:, :20] = -200
    got, want = b.run({"x": values}, TILE), b.define({"x": values})
    for out in want:
        assert_refines(got[out], want[out], 1e-6, out)


def test_a_mask_before_very_negative_scores() -> None:
    """A factor exp(0 - m) made of the guarded -inf overflows for m = -200, and 0 * inf is NaN."""
    case, b = CASES["added_mask"], built("added_mask")
    _, arrays = next(scenarios(b.program, sizes(case, 40), case.draws))
    arrays |= {"x": arrays["x"] - 200, "bias": np.where(np.arange(40) < 20, -np.inf, arrays["bias"]).astype(np.float32)}
    want = wanted(case, b, arrays)
    for out, value in b.run(arrays, TILE).items():
        assert_refines(value, want[out], case.tolerance, out)


# ------------------------------------------------------------------------------------------------ order of factors


def _product(order: tuple[int, ...], divided: bool) -> Graph:
    g = Graph()
    x, w = g.input("x"), g.input("w")
    m = g.row("m", te.max, lambda i, j: x[i, j])
    n = g.row("n", te.max, lambda i, j: te.abs(x[i, j]))

    def term(i: Any, j: Any) -> Any:
        factors = [
            te.exp(x[i, j] - m[i]),
            w[i, j],
            te.const(0.5, F32),
            x[i, j] / n[i] if divided else te.const(3.0, F32),
        ]
        result = factors[order[0]]
        for k in order[1:]:
            result = result * factors[k]
        return result

    return g.returns(g.row("s", te.sum, term))


@pytest.mark.parametrize("divided", [False, True])
def test_the_order_of_factors_does_not_matter(divided: bool) -> None:
    arrays: Arrays | None = None
    for order in list(permutations(range(4)))[:: 12 if divided else 6]:
        b = build(_product(order, divided), "factors")
        assert b.loops.passes == 1, order
        if arrays is None:
            arrays = dict(scenarios(b.program, {"M": 2, "N": 19}, {}))["normal"]
            want = b.define(arrays)["s"]
        assert_refines(b.loop(arrays, 4)["s"], want, 1e-9, str(order))


@pytest.mark.parametrize(
    "term",
    [
        lambda x, m: te.exp(x - m) * 0.5,
        lambda x, m: 0.5 * te.exp(-1.0 * (m - x)),
        lambda x, m: te.exp(x * 1.0 - m * 1.0) / 2.0,
        lambda x, m: te.exp((x - m) * 2.0 / 2.0 - 0.25),
        lambda x, m: te.exp(0.125 + (x - m) * 0.3) * 1e-3 / 7.0,
        lambda x, m: te.power(2.0, (x - m) * 1.4426950408889634),
        lambda x, m: (te.exp(x - m) + te.exp(x - m)) * 0.1,
        lambda x, m: te.exp(x - m) - 3.0 * te.exp(2.0 * x - m - x),
    ],
)
def test_literals_and_spellings(term: Any) -> None:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: x[i, j])
    b = build(g.returns(g.row("s", te.sum, lambda i, j: term(x[i, j], m[i]))), "spelling")
    assert b.loops.passes == 1, b.loops.refusals
    arrays = dict(scenarios(b.program, {"M": 2, "N": 19}, {}))["normal"]
    assert_refines(b.run(arrays, TILE)["s"], b.define(arrays)["s"], 1e-4, "kernel")

"""Programs beside the accepted ones: several kernels, scalar arguments, integers, truth values, functions, no fusion."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from tvm import te, tirx

from neptune_verified.proofs.bounded import bounded
from tests.accepted.harness import F32, Built, Graph, build
from tests.accepted.programs import CASES
from tests.bounded.edits import Edit


def rows_and_columns(g: Graph) -> Graph:
    x, i = g.input("x"), te.reduce_axis((0, g.M), "i")
    return g.returns(
        g.row("a", te.sum, lambda i, j: x[i, j]), te.compute((g.N,), lambda j: te.max(x[i, j], axis=i), "c")
    )


def scalar_arguments(g: Graph) -> Graph:
    x, w, alpha = g.input("x"), te.var("w"), te.var("alpha", F32)
    inside = lambda i, j: tirx.all(j >= i - w, j <= i)  # noqa: E731
    return g.returns(g.row("s", te.sum, lambda i, j: tirx.if_then_else(inside(i, j), x[i, j] * alpha, 0.0)))


def narrow_integers(g: Graph) -> Graph:
    x = g.input("x", dtype="int8")
    return g.returns(g.row("s", te.sum, lambda i, j: x[i, j].astype("int32")))


def truth_values_and_integers(g: Graph) -> Graph:
    x = g.input("x")
    return g.returns(
        g.map("p", lambda i, j: x[i, j] > 0.5), g.map("q", lambda i, j: te.floor(x[i, j] * 100.0).astype("int32"))
    )


def quantised(g: Graph) -> Graph:
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: te.abs(x[i, j]))
    return g.returns(g.map("q", lambda i, j: te.floor(x[i, j] / m[i] * 127.0).astype("int8")), m)


def functions(g: Graph) -> Graph:
    x = g.input("x")
    return g.returns(g.row("s", te.sum, lambda i, j: te.tanh(x[i, j]) * te.sigmoid(x[i, j]) + te.erf(x[i, j])))


def negative_quotients(g: Graph) -> Graph:
    x = g.input("x")
    return g.returns(g.row("s", te.sum, lambda i, j: tirx.if_then_else(te.floordiv(i - j, 3) < -1, x[i, j], 0.0)))


def far_threshold(g: Graph) -> Graph:
    x = g.input("x")
    return g.returns(g.row("s", te.sum, lambda i, j: tirx.if_then_else(x[i, j] > 88.0, x[i, j], 1.0)))


def far_exponents(g: Graph) -> Graph:
    """exp(-(sum x w)^2) leaves the range of float64 for most inputs, so they are drawn smaller."""
    x, w = g.input("x"), g.input("w")
    a = g.row("a", te.sum, lambda i, j: x[i, j] * w[i, j])
    return g.returns(g.row("s", te.sum, lambda i, j: te.exp(-a[i] * a[i]) * te.abs(x[i, j])))


PROGRAMS = {f.__name__: f for f in (
    rows_and_columns, scalar_arguments, narrow_integers, truth_values_and_integers, quantised, functions,
    negative_quotients, far_threshold, far_exponents,
)}  # fmt: skip


@cache
def other(name: str) -> Built:
    define: Callable[[Graph], Any] = PROGRAMS[name]
    return build(define(Graph()), name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    b = other(name)
    result = bounded(b.program, b.source)
    assert result.verdict == "proved", result.detail


@pytest.mark.parametrize("name", ["shift_by_max_under_sum", "normalisation_inside_the_product", "lengths_of_rows"])
def test_unfused(name: str) -> None:
    b = build(CASES[name].graph(), name, fused=False)
    result = bounded(b.program, b.source)
    assert result.verdict == "proved", result.detail


WRONG = [
    Edit("launcher", "rows_and_columns", r"\(x, c, \*x", "(x, a, *x", "O11 O13"),
    Edit("launcher", "rows_and_columns", r"return a, c", "return c, a", "O13"),
    Edit("scalar", "scalar_arguments", r"(x_tile_\d+) \* alpha", r"\1 + alpha", "O13"),
    Edit("scalar", "scalar_arguments", r"\(i - w\)", "(i + w)", "O13"),
    Edit("integer", "narrow_integers", r"tl\.sum\(", "tl.max(", "O13"),
    Edit("bool", "truth_values_and_integers", r"(x_tile_\d+) > 0\.5", r"\1 > 0.25", "O13"),
    Edit("integer", "truth_values_and_integers", r"100\.0", "101.0", "O13"),
    Edit("function", "functions", r"_tanh\((x_tile)", r"tl.erf(\1", "O13"),
    Edit("floor", "negative_quotients", r"_floordiv\((\(.*?\)), 3\)", r"(\1 // 3)", "O12"),
    Edit("value", "far_exponents", r"tl\.exp\(\(\(-a\) \* a\)\)", "tl.exp((-a) * (a * 1.5))", "O13"),
    Edit("value", "far_exponents", r"tl\.exp\(\(\(-a\) \* a\)\)", "tl.exp(-tl.abs(a))", "O13"),
    Edit("value", "far_exponents", r"range\(0, N, BLOCK_X0\)", "range(BLOCK_X0, N, BLOCK_X0)", "O13"),
    Edit("value", "far_exponents", r"x_tile_12 \* w_tile_18", "x_tile_12 + w_tile_18", "O13"),
    Edit("value", "far_threshold", r", (x_tile_\d+), 1\.0\)", r", (\1 * 2.0), 1.0)", "O13"),
]


@pytest.mark.parametrize("edit", WRONG, ids=lambda e: f"{e.kernel}-{e.new[:20]}")
def test_wrong_programs(edit: Edit) -> None:
    b = other(edit.kernel)
    result = bounded(b.program, edit.apply(b.source))
    assert result.verdict == "refuted", result
    assert result.findings[0].id in edit.ids.split(), result.findings

"""Examples of refused fusions over inputs of other kinds: fixed lengths, products, scalars, declared facts, masks."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import te

import neptune_verified as nv
from neptune_verified.fusion.fuse import fuse
from neptune_verified.fusion.pools import pool_of
from neptune_verified.ir.example import Example, Nested, example_data, example_text, read_example
from neptune_verified.ir.program import Program
from tests.accepted.harness import F32, PROVER, Graph, from_te


def softplus(x: Any) -> Any:
    return te.log(1.0 + te.exp(x))


def examples(program: Program) -> dict[str, Example | None]:
    return {r.consumer: r.example for r in fuse(program, PROVER).refusals}


def example(g: Graph) -> Example:
    (found,) = examples(from_te(g.inputs, g.outputs, "p", g.facts)).values()
    assert found is not None
    return found


def value(e: Example, name: str) -> Any:
    return np.array(dict(e.inputs)[name], dtype=np.float64)


def products(M: Any, N: Any, D: int) -> dict[str, Example | None]:
    q, k, v = (te.placeholder((n, D), F32, name) for n, name in ((M, "q"), (N, "k"), (N, "v")))
    d, j1, j2, j3 = te.reduce_axis((0, D), "d"), *(te.reduce_axis((0, N), f"j{n}") for n in (1, 2, 3))
    z = te.compute((M, N), lambda i, j: te.sum(q[i, d] * k[j, d], axis=d), "z")
    m = te.compute((M,), lambda i: te.max(z[i, j1], axis=j1), "m")
    a = te.compute((M, N), lambda i, j: softplus(z[i, j] - m[i]), "a")
    n = te.compute((M,), lambda i: te.sum(a[i, j2], axis=j2), "n")
    o = te.compute((M, D), lambda i, c: te.sum(a[i, j3] / n[i] * v[j3, c], axis=j3), "o")
    return examples(from_te([q, k, v], [o], "p", []))


def products_wanted(e: Example) -> float:
    z = value(e, "k") @ value(e, "q")[e.index[0]]
    a = np.log(1 + np.exp(z - z.max()))
    return float(a.sum() if e.what == "n" else a @ value(e, "v")[:, e.index[1]])


def close(a: object, b: float) -> bool:
    assert isinstance(a, int | float)
    return abs(a - b) <= 1e-6 * abs(b)


@pytest.mark.parametrize(("M", "N", "D"), [(None, None, 16), (4, 16, 16), (1, 1024, 8)])
def test_products_of_rows(M: int | None, N: int | None, D: int) -> None:
    found = products(M or te.var("M"), N or te.var("N"), D)
    assert set(found) == {"n", "o"}
    for name, e in found.items():
        assert e is not None
        assert e.what == {"n": "n", "o": "accumulator o"}[name]  # o's division by n has left its reduction
        assert close(e.before, products_wanted(e)) and not close(e.after, products_wanted(e))
        assert sum(np.count_nonzero(value(e, t)) for t in "qkv") <= 4
        assert e.tile == (1 if N is None else -(-N // 3)) and dict(e.lengths).get("N", 0) <= 3
        assert read_example(json.loads(json.dumps(example_data(e))), "e") == e
        assert len(json.dumps(example_data(e))) < 1000 and len(example_text(e)) < 400


def test_a_scalar_argument_is_given() -> None:
    g, scale = Graph(), te.var("scale", F32)
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: x[i, j])
    g.returns(g.row("s", te.sum, lambda i, j: te.abs(x[i, j] * scale - m[i])))
    e = example(g)
    ((name, factor),) = e.scalars
    row = value(e, "x")[0]
    assert name == "scale" and isinstance(factor, int | float)
    assert close(e.before, float(np.abs(row * factor - row.max()).sum())) and f"scale = {factor}" in example_text(e)


FACTS: dict[str, tuple[Callable[[Any, Graph], Any], Callable[[Any], bool]]] = {
    "positive": (lambda x, g: nv.positive(x), lambda x: bool((x > 0).all())),
    "nonzero": (lambda x, g: nv.nonzero(x), lambda x: bool((x != 0).all())),
    "nonnegative": (lambda x, g: nv.nonnegative(x), lambda x: bool((x >= 0).all())),
    "bounded": (lambda x, g: nv.bounded(x, 0.5), lambda x: bool((np.abs(x) <= 0.5).all())),
    "at least": (lambda x, g: nv.at_least(x, 2), lambda x: bool((x >= 2).all())),
    "lengths": (lambda x, g: nv.multiple_of(g.N, 4), lambda x: x.shape[1] % 4 == 0),
    "long rows": (lambda x, g: nv.at_least(g.N, 6), lambda x: x.shape[1] >= 6),
}


@pytest.mark.parametrize("name", FACTS)
def test_inputs_are_as_declared(name: str) -> None:
    fact, holds = FACTS[name]
    g = Graph()
    x = g.input("x")
    g.facts.append(fact(x, g))
    m = g.row("m", te.max, lambda i, j: x[i, j])
    g.returns(g.row("s", te.sum, lambda i, j: te.abs(x[i, j] - m[i])))
    e = example(g)
    row = value(e, "x")
    assert holds(row) and close(e.before, float(np.abs(row[0] - row[0].max()).sum()))


def test_only_what_may_be_a_mask_is_minus_infinity() -> None:
    g = Graph()
    x, w, k = g.input("x"), g.input("w"), g.input("k", dtype="int32")
    g.facts.append(nv.finite_or_minus_infinity(w))
    m = g.row("m", te.max, lambda i, j: w[i, j])
    g.returns(g.row("s", te.sum, lambda i, j: te.abs(x[i, j] - m[i]) * k[i, j].astype(F32)))
    program = from_te(g.inputs, g.outputs, "p", g.facts)
    pools = {t.name: pool_of(program, t.name, t.dtype, ()) for t in program.inputs}
    assert [name for name, pool in pools.items() if -np.inf in pool] == ["w"]
    assert pools["k"].dtype == np.int64 and pools["x"][0] == 0


@pytest.mark.parametrize(
    ("nested", "text"),
    [
        (((0, "-inf"), (1, 0.5)), "x = [[0, -inf], [1, 0.5]]"),
        (((0,) * 20, (0,) * 19 + (3,)), "x = 0 everywhere except x[1, 19] = 3"),
        ((True, False), "x = [true, false]"),
        (2, "x = 2"),
    ],
)
def test_texts_and_round_trips(nested: Nested, text: str) -> None:
    e = Example((("x", nested),), (("c", -0.25),), (("N", 2),), 3, ("m is infinite",), "y", (1, 2), "-inf", 1)
    assert read_example(json.loads(json.dumps(example_data(e))), "e") == e
    assert example_text(e) == (
        f"With {text}, c = -0.25 (N = 2), 3 elements at a time, the refused update (left out while m is infinite) gives "
        "y[1, 2] = 1 where the definition gives -inf."
    )

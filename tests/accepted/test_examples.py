"""The files under examples/: passes, and their kernels against numpy, in each of their types."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from neptune_verified.user_files import load_file
from tests.accepted.harness import Array, Arrays, Built, Graph, assert_refines, build, normal, scenarios
from tests.accepted.programs import col, shifted, soft, sq, top, total

EXAMPLES = Path(__file__).parents[2] / "examples"
TILE = 16
SMALL = {"H": 2, "D": 16}
#: Relative to the largest value; for 16-bit types the unit roundoff, twice: of the output and of what a dot is given.
TOLERANCE = {"float32": 3e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@cache
def module(stem: str) -> ModuleType:
    return load_file(EXAMPLES / f"{stem}.py")


@cache
def built(stem: str, function: str, dtype: str) -> Built:
    define = getattr(module(stem), function)
    sizes = {k: v for k, v in SMALL.items() if k in inspect.signature(define).parameters}
    inputs, outputs = define(dtype=dtype, **sizes)
    return build(Graph(inputs=inputs, outputs=outputs), function)


def scores(q: Array, k: Array) -> Array:
    return np.asarray(np.einsum("hid,hjd->hij", q, k) / np.sqrt(q.shape[-1]))


def attention(q: Array, k: Array, v: Array) -> tuple[Array, ...]:
    s = scores(q, k)
    return soft(s) @ v, top(s) + np.log(total(shifted(s)))


def causal(q: Array, k: Array, v: Array) -> tuple[Array, ...]:
    s = scores(q, k)
    i, j = np.indices(s.shape[1:])
    return (soft(np.where(j <= i + (s.shape[2] - s.shape[1]), s, -np.inf)) @ v,)


def two_consumers(q: Array, k: Array, w: Array) -> tuple[Array, ...]:
    e = shifted(scores(q, k))
    return total(e), total(e * w[:, None, :])


def layernorm(x: Array, w: Array, b: Array) -> tuple[Array, ...]:
    z = x - x.mean(-1, keepdims=True) if x.size else x
    return (z / np.sqrt(sq(z).mean(-1, keepdims=True) + 1e-5) * w + b if x.size else x,)


def rmsnorm_amax(x: Array, w: Array) -> tuple[Array, ...]:
    return (top(np.abs(x * w)) / np.sqrt(sq(x).mean(-1) + 1e-6) if x.size else np.full(len(x), np.nan),)


#: file, function -> passes, reference
TABLE: dict[tuple[str, str], tuple[int, Callable[..., tuple[Array, ...]]]] = {
    ("attention", "attention"): (1, lambda q, k, v: attention(q, k, v)[:1]),
    ("attention", "causal"): (1, causal),
    ("attention", "attention_lse"): (1, attention),
    ("attention", "two_consumers"): (1, two_consumers),
    ("softmax", "softmax"): (2, lambda x: (soft(x),)),
    ("softmax", "logsumexp"): (1, lambda x: (top(x) + np.log(total(shifted(x))),)),
    ("norms", "l2norm"): (1, lambda x: (np.sqrt(total(sq(x))),)),
    ("norms", "rmsnorm_amax"): (1, rmsnorm_amax),
    ("norms", "layernorm"): (3, layernorm),
    ("unfusable", "softplus_sum"): (2, lambda x: (total(np.log(1 + np.exp(x - col(top(x))))),)),
}


def compare(b: Built, reference: Any, arrays: Arrays, tile: int, tolerance: float, what: str) -> None:
    definition = b.define(arrays)
    with np.errstate(all="ignore"):
        values = reference(**{k: v.astype(np.float64) for k, v in arrays.items()})
    for (name, defined), got, value in zip(definition.items(), b.run(arrays, tile).values(), values, strict=True):
        want = np.where(np.isnan(defined), np.nan, value)
        assert_refines(defined, want, 1e-7, f"definition of {name}, {what}")
        assert_refines(got, want, tolerance, f"kernel, {name}, {what}")


@pytest.mark.parametrize(("stem", "function"), TABLE)
def test_example(stem: str, function: str) -> None:
    passes, reference = TABLE[stem, function]
    b = built(stem, function, "float32")
    assert b.loops.passes == passes and len(b.loops.nests) == 1
    assert all(p.holds for p in b.verified.proved)
    for M, N in ((3, 0), (1, 1), (5, 2), (3, TILE - 1), (17, TILE), (2, TILE + 1), (20, 33), (0, 3)):
        for scenario, arrays in scenarios(b.program, {"M": M, "N": N}, {}, seed=N):
            if scenario in ("spread", "tiny") and stem in ("norms", "attention"):
                continue  # scores of 10^4 have an error of 10^-3 before any exponential; eps decides over tiny rows
            compare(b, reference, arrays, TILE, TOLERANCE["float32"], f"M = {M}, N = {N}, {scenario}")


def test_every_example_is_tested() -> None:
    found = {
        (path.stem, name)
        for path in EXAMPLES.glob("*.py")
        for name, f in vars(module(path.stem)).items()
        if inspect.isfunction(f) and f.__module__ == path.stem and not name.startswith("_")
        if path.stem != "peers"  # tests/audit/test_peers.py
    }
    operators = {(stem, name) for stem, name in found if stem == "operators"}  # tests/end_to_end/test_operators.py
    assert found - operators == set(TABLE) and operators


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("stem", "function"), [("attention", "attention"), ("attention", "causal"), ("softmax", "softmax")]
)
def test_sixteen_bits(stem: str, function: str, dtype: str) -> None:
    passes, reference = TABLE[stem, function]
    b = built(stem, function, dtype)
    assert b.loops.passes == passes
    for M, N in ((3, 1), (17, TILE), (20, 33)):
        arrays = dict(scenarios(b.program, {"M": M, "N": N}, {}, seed=N))["normal"]
        compare(b, reference, arrays, TILE, TOLERANCE[dtype], f"M = {M}, N = {N}")


def test_first_queries_without_a_key_give_zero() -> None:
    b = built("attention", "causal", "float32")
    _, arrays = next(scenarios(b.program, {"M": 40, "N": 7}, {}))
    out = b.run(arrays, TILE)["o"]
    assert (out[:, : 40 - 7] == 0).all() and (np.abs(out[:, 40 - 7 :]).max(-1) > 0).all()


def test_l2norm_of_huge_and_of_zero_rows() -> None:
    b = built("norms", "l2norm", "float32")
    x = np.zeros((4, 40), np.float32)
    x[0, 38:] = 3e30, 4e30
    x[1, 20:22] = 3e-30, -4e-30
    x[2, 0] = -1e38
    out = b.run({"x": x}, TILE)["norm"]
    assert np.allclose(out, [5e30, 5e-30, 1e38, 0], rtol=1e-6, atol=0)


def test_softmax_of_rows_that_would_overflow() -> None:
    b = built("softmax", "softmax", "float32")
    rng = np.random.default_rng(0)
    x = (normal(rng, (3, 40)) * 1e4).astype(np.float32)
    assert_refines(b.run({"x": x}, TILE)["p"], soft(x.astype(np.float64)), 1e-6, "p")

"""The registry of programs that must be fused, each with its passes and a definition in numpy that knows nothing of ours.

A reference is given the arrays by name, in float64; where it is NaN, it says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm import te, tirx

from neptune_verified.frontend.te import at_least, bounded, finite_or_minus_infinity, neg_inf
from tests.accepted.harness import F32, Array, Draw, Graph

Reference = Callable[..., tuple[Array, ...]]


@dataclass(frozen=True)
class Case:
    """``sizes`` are lengths besides M and N; ``draws`` give inputs that need values of their own; ``long`` is a length N
    above the emitted tile, where the definition's interpreter can afford one."""

    name: str
    passes: int
    graph: Callable[[], Graph]
    reference: Reference
    sizes: Mapping[str, int] = field(default_factory=dict)
    draws: Mapping[str, Draw] = field(default_factory=dict)
    tolerance: float = 3e-5
    kernels: int = 1
    long: int = 1025


CASES: dict[str, Case] = {}


def accepted(passes: int, reference: Reference, **options: Any) -> Callable[[Callable[[], Graph]], Callable[[], Graph]]:
    def register(graph: Callable[[], Graph]) -> Callable[[], Graph]:
        CASES[graph.__name__] = Case(graph.__name__, passes, graph, reference, **options)
        return graph

    return register


# -------------------------------------------------------------------------------------------- numpy, over the last axis


def top(x: Array, axis: Any = -1) -> Array:
    return np.asarray(np.max(x, axis=axis, initial=-np.inf))


def low(x: Array) -> Array:
    return np.asarray(np.min(x, axis=-1, initial=np.inf))


def total(x: Array, axis: Any = -1) -> Array:
    return np.asarray(np.sum(x, axis=axis))


def col(r: Array) -> Array:
    return r[..., None]


def shifted(x: Array) -> Array:
    """exp(x - max x), 0 where x is -inf."""
    return np.where(x == -np.inf, 0.0, np.exp(x - col(top(x))))


def soft(x: Array) -> Array:
    """softmax, 0 for a row with no live element."""
    e = shifted(x)
    s = col(total(e))
    return np.divide(e, s, out=np.zeros_like(e), where=s != 0)


def sq(x: Any) -> Any:
    return x * x


def ints(low_: int, high: int) -> Draw:
    return lambda rng, shape: rng.integers(low_, high, shape)


def bools(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.random(shape) < 0.4


def positives(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.asarray(np.abs(rng.normal(size=shape)) + 0.01)


# ---------------------------------------------------------------------------- shift and scale, under sum, max and min


@accepted(1, lambda x: (total(np.exp(x - col(top(x)))),))
def shift_by_max_under_sum() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: x[i, j])
    return g.returns(g.row("s", te.sum, lambda i, j: te.exp(x[i, j] - m[i])))


@accepted(1, lambda x: (total(np.exp(col(low(x)) - x) * x),))
def shift_by_min_under_sum() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.min, lambda i, j: x[i, j])
    return g.returns(g.row("s", te.sum, lambda i, j: te.exp(m[i] - x[i, j]) * x[i, j]))


@accepted(1, lambda x: (top(x - col(low(x))),))
def shift_by_min_under_max() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.min, lambda i, j: x[i, j])
    return g.returns(g.row("s", te.max, lambda i, j: x[i, j] - m[i]))


@accepted(1, lambda x: (low(2 * x - 3 * col(top(x))),))
def shift_by_max_under_min() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: x[i, j])
    return g.returns(g.row("s", te.min, lambda i, j: 2.0 * x[i, j] - 3.0 * m[i]))


@accepted(1, lambda x: (total(x / col(top(np.abs(x)))),))
def scale_by_max_under_sum() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: te.abs(x[i, j]))
    return g.returns(g.row("s", te.sum, lambda i, j: x[i, j] / m[i]))


@accepted(1, lambda x: (total(x * col(top(x))) if x.shape[-1] else np.zeros(len(x)),))
def factor_under_sum() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: x[i, j])
    return g.returns(g.row("s", te.sum, lambda i, j: x[i, j] * m[i]))


@accepted(1, lambda x: (total(sq(x / col(top(np.abs(x))))),))
def scale_of_squares_by_max_under_sum() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: te.abs(x[i, j]))
    return g.returns(g.row("s", te.sum, lambda i, j: te.power(x[i, j] / m[i], 2.0)))


@accepted(1, lambda x: (top(x / col(total(np.abs(x) + 1))),))
def scale_by_positive_sum_under_max() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.sum, lambda i, j: te.abs(x[i, j]) + 1.0)
    return g.returns(g.row("s", te.max, lambda i, j: x[i, j] / m[i]))


@accepted(1, lambda x: (low(x * col(top(np.abs(x)))),))
def scale_by_max_under_min() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: te.abs(x[i, j]))
    return g.returns(g.row("s", te.min, lambda i, j: m[i] * x[i, j]))


@accepted(1, lambda x, w: (top(x * col(total(w))), low(x / col(total(w)))), draws={"w": positives})
def scale_by_declared_sum() -> Graph:
    g = Graph()
    x, w = g.input("x"), g.input("w")
    # Without the bounds the first sums could be so small that x / m overflows where the definition does not.
    g.facts = [at_least(w, 2**-10), bounded(w, 2**10), bounded(x, 2**20)]
    m = g.row("m", te.sum, lambda i, j: w[i, j])
    a = g.row("a", te.max, lambda i, j: x[i, j] * m[i])
    return g.returns(a, g.row("b", te.min, lambda i, j: x[i, j] / m[i]))


@accepted(1, lambda x, w: (top(np.abs(x * w)) / np.sqrt(total(x * x) / x.shape[-1] + 1e-6),))
def scale_by_rms_under_max() -> Graph:
    g = Graph()
    x, w = g.input("x"), g.input("w", (g.N,))
    ss = g.row("ss", te.sum, lambda i, j: x[i, j] * x[i, j])
    rms = g.each("rms", lambda i: te.sqrt(ss[i] / g.N.astype(F32) + 1e-6))
    return g.returns(g.row("amax", te.max, lambda i, j: te.abs(x[i, j] * w[j]) / rms[i]))


@accepted(1, lambda x: (top(x - col(total(x / x.shape[-1]))), low(x - col(total(x / x.shape[-1])))))
def length_as_a_value() -> Graph:
    g = Graph()
    x = g.input("x")
    mean = g.row("mean", te.sum, lambda i, j: x[i, j] / g.N.astype(F32))
    a = g.row("a", te.max, lambda i, j: x[i, j] - mean[i])
    return g.returns(a, g.row("b", te.min, lambda i, j: x[i, j] - mean[i]))


# ------------------------------------------------------------------------------------ several producers, chains, outputs


@accepted(1, lambda x: (total(np.exp(x - col(top(x))) * (x / col(top(np.abs(x))))),))
def two_producers() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: x[i, j])
    n = g.row("n", te.max, lambda i, j: te.abs(x[i, j]))
    return g.returns(g.row("s", te.sum, lambda i, j: te.exp(x[i, j] - m[i]) * (x[i, j] / n[i])))


@accepted(1, lambda x: (total(np.exp((x - col(top(x))) + 0.5 * (col(low(x)) - x))),))
def max_and_min_as_producers() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: x[i, j])
    n = g.row("n", te.min, lambda i, j: x[i, j])
    return g.returns(g.row("s", te.sum, lambda i, j: te.exp((x[i, j] - m[i]) + (n[i] - x[i, j]) * 0.5)))


@accepted(1, lambda x: (top(np.exp(x - col(top(x))) / col(total(np.exp(x - col(top(x)))))),))
def chain_of_three() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: x[i, j])
    s = g.row("s", te.sum, lambda i, j: te.exp(x[i, j] - m[i]))
    return g.returns(g.row("q", te.max, lambda i, j: te.exp(x[i, j] - m[i]) / s[i]))


def _four(x: Array) -> tuple[Array]:
    e = np.exp(x - col(top(x)))
    p = e / col(total(e))
    return (total(p / col(top(p))),)


@accepted(1, _four)
def chain_of_four() -> Graph:
    g = Graph()
    x = g.input("x")
    a = g.row("a", te.max, lambda i, j: x[i, j])
    b = g.row("b", te.sum, lambda i, j: te.exp(x[i, j] - a[i]))
    p = g.map("p", lambda i, j: te.exp(x[i, j] - a[i]) / b[i])
    c = g.row("c", te.max, lambda i, j: p[i, j])
    return g.returns(g.row("d", te.sum, lambda i, j: p[i, j] / c[i]))


@accepted(1, lambda x: (total(sq(soft(x))) if x.shape[-1] else np.zeros(x.shape[0]),))
def collision_probability() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: x[i, j])
    e = g.map("e", lambda i, j: te.exp(x[i, j] - m[i]))
    s = g.row("s", te.sum, lambda i, j: e[i, j])
    return g.returns(g.row("q", te.sum, lambda i, j: te.power(e[i, j] / s[i], 2.0)))


@accepted(1, lambda x: (total(np.exp(x - col(top(x)))), total(np.exp(2 * (x - col(top(x)))) * x)))
def two_consumers_two_outputs() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: x[i, j])
    a = g.row("a", te.sum, lambda i, j: te.exp(x[i, j] - m[i]))
    return g.returns(a, g.row("b", te.sum, lambda i, j: te.exp((x[i, j] - m[i]) * 2.0) * x[i, j]))


@accepted(1, lambda x: (top(x), low(x), total(x)))
def outputs_that_share_nothing_but_the_stream() -> Graph:
    g = Graph()
    x = g.input("x")
    names = (("a", te.max), ("b", te.min), ("c", te.sum))
    return g.returns(*(g.row(name, reducer, lambda i, j: x[i, j]) for name, reducer in names))


@accepted(2, lambda x: (soft(x), top(x) + np.log(total(np.exp(x - col(top(x)))))))
def output_over_the_stream_and_one_beside_it() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: x[i, j])
    s = g.row("s", te.sum, lambda i, j: te.exp(x[i, j] - m[i]))
    p = g.map("p", lambda i, j: te.exp(x[i, j] - m[i]) / s[i])
    return g.returns(p, g.each("lse", lambda i: m[i] + te.log(s[i])))


@accepted(
    1, lambda y: (top(y, (-1, -2)), total(np.exp(y - top(y, (-1, -2))[:, None, None]) * y, (-1, -2))), sizes={"P": 3}
)
def two_reduction_axes() -> Graph:
    g = Graph()
    P = te.var("P")
    y = g.input("y", (g.M, P, g.N))
    a, b, c, d = (te.reduce_axis((0, n), k) for n, k in ((P, "a"), (g.N, "b"), (P, "c"), (g.N, "d")))
    m = te.compute((g.M,), lambda i: te.max(y[i, a, b], axis=[a, b]), "m")
    s = te.compute((g.M,), lambda i: te.sum(te.exp(y[i, c, d] - m[i]) * y[i, c, d], axis=[c, d]), "s")
    return g.returns(m, s)


@accepted(1, lambda y: (total(np.exp(total(y) - col(top(total(y))))),), sizes={"P": 5}, tolerance=1e-3)
def reduction_of_reductions() -> Graph:
    g = Graph()
    P = te.var("P")
    y = g.input("y", (g.M, P, g.N))
    b, a, c = te.reduce_axis((0, g.N), "b"), te.reduce_axis((0, P), "a"), te.reduce_axis((0, P), "c")
    u = te.compute((g.M, P), lambda i, p: te.sum(y[i, p, b], axis=b), "u")
    m = te.compute((g.M,), lambda i: te.max(u[i, a], axis=a), "m")
    return g.returns(te.compute((g.M,), lambda i: te.sum(te.exp(u[i, c] - m[i]), axis=c), "s"))


@accepted(1, lambda x, w, b, v: (total(np.exp(x * w + col(b) - col(top(x * w + col(b)))) * v),))
def four_inputs() -> Graph:
    g = Graph()
    x, w, b, v = g.input("x"), g.input("w", (g.N,)), g.input("b", (g.M,)), g.input("v")
    s = g.map("s", lambda i, j: x[i, j] * w[j] + b[i])
    m = g.row("m", te.max, lambda i, j: s[i, j])
    return g.returns(g.row("o", te.sum, lambda i, j: te.exp(s[i, j] - m[i]) * v[i, j]))


@accepted(1, lambda x, v: (soft(x) @ v,), sizes={}, tolerance=1e-4)
def normalisation_inside_the_product() -> Graph:
    g = Graph()
    x, v = g.input("x"), g.input("v", (g.N, 16))
    m = g.row("m", te.max, lambda i, j: x[i, j])
    e = g.map("e", lambda i, j: te.exp(x[i, j] - m[i]))
    s = g.row("s", te.sum, lambda i, j: e[i, j])
    p = g.map("p", lambda i, j: e[i, j] / s[i])
    j = te.reduce_axis((0, g.N), "j")
    return g.returns(te.compute((g.M, 16), lambda i, d: te.sum(p[i, j] * v[j, d], axis=j), "o"))


# --------------------------------------------------------------------------------------- predicates, selects, dead rows


def _window(x: Array) -> Array:
    i, j = np.indices(x.shape)
    return np.where((j >= i) & (j < i + 3), x, -np.inf)


@accepted(1, lambda x: (total(shifted(_window(x))),))
def window_in_both_terms() -> Graph:
    g = Graph()
    x = g.input("x")
    live = lambda i, j: tirx.all(j >= i, j < i + 3)  # noqa: E731
    m = g.row("m", te.max, lambda i, j: tirx.if_then_else(live(i, j), x[i, j], neg_inf(F32)))
    return g.returns(
        g.row("s", te.sum, lambda i, j: tirx.if_then_else(live(i, j), te.exp(x[i, j] - m[i]), 0.0)),
    )


@accepted(1, lambda x: (total(shifted(np.where(np.arange(x.shape[1]) > 2, x, -np.inf))),))
def condition_of_the_reduction() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: x[i, j], where=lambda j: j > 2)
    return g.returns(g.row("s", te.sum, lambda i, j: te.exp(x[i, j] - m[i]), where=lambda j: j > 2))


@accepted(1, lambda x: (total(np.where(x > 0, np.exp(x - col(top(np.abs(x)))), np.exp(-col(top(np.abs(x)))))),))
def condition_on_a_value() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: te.abs(x[i, j]))
    term = lambda i, j: tirx.if_then_else(x[i, j] > 0.0, te.exp(x[i, j] - m[i]), te.exp(-m[i]))  # noqa: E731
    return g.returns(g.row("s", te.sum, term))


@accepted(1, lambda x, b: (total(np.where(b, x, 0)) / np.maximum(total(b * 1.0), 1),), draws={"b": bools})
def mean_of_the_masked() -> Graph:
    g = Graph()
    x, b = g.input("x"), g.input("b", dtype="bool")
    c = g.row("c", te.sum, lambda i, j: b[i, j].astype(F32))
    n = g.each("n", lambda i: te.max(c[i], 1.0))
    return g.returns(g.row("s", te.sum, lambda i, j: tirx.if_then_else(b[i, j], x[i, j], 0.0) / n[i]))


def _with_selects(g: Graph, s: Any, v: Any) -> Graph:
    m = g.row("m", te.max, lambda i, j: s[i, j])
    e = g.map("e", lambda i, j: tirx.if_then_else(s[i, j] == neg_inf(F32), 0.0, te.exp(s[i, j] - m[i])))
    n = g.row("n", te.sum, lambda i, j: e[i, j])
    p = g.map("p", lambda i, j: tirx.if_then_else(n[i] == 0.0, 0.0, e[i, j] / n[i]))
    return g.returns(g.row("o", te.sum, lambda i, j: p[i, j] * v(i, j)), g.each("lse", lambda i: m[i] + te.log(n[i])))


def _masked(s: Array, v: Array) -> tuple[Array, Array]:
    lse = np.where(total(shifted(s)) == 0, -np.inf, top(s) + np.log(total(shifted(s))))
    return total(soft(s) * v), lse


@accepted(
    1,
    lambda x, lens, w: _masked(np.where(np.arange(x.shape[1]) < col(lens), x, -np.inf), w),
    draws={"lens": ints(0, 20)},
)
def lengths_of_rows() -> Graph:
    g = Graph()
    x, lens, w = g.input("x"), g.input("lens", (g.M,), "int32"), g.input("w", (g.N,))
    s = g.map("s", lambda i, j: tirx.if_then_else(j < lens[i], x[i, j], te.min_value(F32)))
    return _with_selects(g, s, lambda i, j: w[j])


@accepted(1, lambda x, bias: _masked(x + bias, x))
def added_mask() -> Graph:
    g = Graph()
    x, bias = g.input("x"), g.input("bias")
    g.facts = [finite_or_minus_infinity(bias)]
    return _with_selects(g, g.map("s", lambda i, j: x[i, j] + bias[i, j]), lambda i, j: x[i, j])


@accepted(1, lambda x: (np.where(top(x) == -np.inf, np.nan, top(x) + np.log(total(shifted(x)))),))
def textbook_definition_on_dead_rows() -> Graph:
    g = Graph()
    x = g.input("x")
    g.facts = [finite_or_minus_infinity(x)]
    m = g.row("m", te.max, lambda i, j: x[i, j])
    s = g.row("s", te.sum, lambda i, j: te.exp(x[i, j] - m[i]))
    return g.returns(g.each("lse", lambda i: m[i] + te.log(s[i])))


# ---------------------------------------------------------------------------------------- literals, indices, reducers


def _literals(x: Array) -> tuple[Array]:
    y = 3.5 * x * float(np.float32(0.1)) + 7.25  # a literal has the value that its type holds
    return (total(10 / 3 * np.exp((y - col(top(y))) * 0.5)),)


@accepted(1, _literals)
def literals_anywhere() -> Graph:
    g = Graph()
    x = g.input("x")
    y = g.map("y", lambda i, j: 3.5 * x[i, j] * 0.1 + 7.25)
    m = g.row("m", te.max, lambda i, j: y[i, j])
    return g.returns(g.row("s", te.sum, lambda i, j: 2.5 * te.exp((y[i, j] - m[i]) * 0.5) * 4.0 / 3.0 - 0.0))


@accepted(1, lambda x: (total(np.exp(np.maximum(x, 0) - np.maximum(col(top(x)), 0))),))
def clamped_producer() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: x[i, j])
    return g.returns(g.row("s", te.sum, lambda i, j: te.exp(te.max(x[i, j], 0.0) - te.max(m[i], 0.0))))


def _next(x: Array) -> Array:
    y = np.zeros_like(x)
    y[:, :-1] = x[:, 1:]
    return y


@accepted(1, lambda x: (total(np.exp(_next(x) - col(top(_next(x)))) * x),))
def neighbours() -> Graph:
    g = Graph()
    x = g.input("x")
    y = g.map("y", lambda i, j: tirx.if_then_else(j + 1 < g.N, x[i, j + 1], 0.0))
    m = g.row("m", te.max, lambda i, j: y[i, j])
    return g.returns(g.row("s", te.sum, lambda i, j: te.exp(y[i, j] - m[i]) * x[i, j]))


@accepted(
    1,
    lambda x, k, table: (total(np.exp(table[k] + x - col(top(table[k] + x)))),),
    sizes={"K": 7},
    draws={"k": ints(0, 7)},
)
def table_lookup() -> Graph:
    g = Graph()
    K = te.var("K")
    x, k, table = g.input("x"), g.input("k", dtype="int32"), g.input("table", (K,))
    y = g.map("y", lambda i, j: table[k[i, j]] + x[i, j])
    m = g.row("m", te.max, lambda i, j: y[i, j])
    return g.returns(g.row("s", te.sum, lambda i, j: te.exp(y[i, j] - m[i])))


@accepted(1, lambda k: (total(np.exp(k - col(top(k * 1.0)))),), draws={"k": ints(-9, 9)})
def integer_producer() -> Graph:
    g = Graph()
    k = g.input("k", dtype="int32")
    m = g.row("m", te.max, lambda i, j: k[i, j].astype(F32))
    return g.returns(g.row("s", te.sum, lambda i, j: te.exp(k[i, j].astype(F32) - m[i])))


def logaddexp(dtype: str = F32) -> Any:
    combine = lambda a, b: te.max(a, b) + te.log(1.0 + te.exp(-te.abs(a - b)))  # noqa: E731
    return te.comm_reducer(combine, lambda t: tirx.const(float("-inf"), t))


@accepted(1, lambda x: (np.logaddexp.reduce(x - col(top(np.abs(x))), axis=-1),))
def shift_under_logaddexp() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: te.abs(x[i, j]))
    return g.returns(g.row("s", logaddexp(), lambda i, j: x[i, j] - m[i]))


@accepted(1, lambda x: (total(np.exp(x - col(np.logaddexp.reduce(x, axis=-1, initial=-np.inf))) * x),))
def logaddexp_as_producer() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", logaddexp(), lambda i, j: x[i, j])
    return g.returns(g.row("s", te.sum, lambda i, j: te.exp(x[i, j] - m[i]) * x[i, j]))


def _powers(x: Array) -> tuple[Array, ...]:
    return (np.prod(np.exp(-0.01 * np.abs(x) / col(total(np.abs(x) + 1))), axis=-1),)


@accepted(1, _powers)
def power_under_product() -> Graph:
    g = Graph()
    x = g.input("x")
    product = te.comm_reducer(lambda a, b: a * b, lambda t: tirx.const(1, t))
    m = g.row("m", te.sum, lambda i, j: te.abs(x[i, j]) + 1.0)
    return g.returns(g.row("s", product, lambda i, j: te.power(te.exp(te.abs(x[i, j]) * -0.01), 1.0 / m[i])))


# -------------------------------------------------------- square inputs: axes of equal extent are not to be confused


def _square(x: Array) -> tuple[Array, ...]:
    return (total(np.exp(x - col(top(x))) / (1 + np.abs(top(x)))[None, :]),)


@accepted(1, _square, tolerance=1e-4, long=50)
def maximum_of_another_row_as_an_element() -> Graph:
    """m is read twice: at the row, which is a producer, and at the element, where it is a nested reduction."""
    g = Graph()
    g.M = g.N
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: x[i, j])
    return g.returns(g.row("s", te.sum, lambda i, j: te.exp(x[i, j] - m[i]) / (te.abs(m[j]) + 1.0)))


@accepted(2, lambda x: (soft(x.T),), long=130)
def softmax_of_the_transpose() -> Graph:
    g = Graph()
    g.M = g.N
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: x[j, i])
    s = g.row("s", te.sum, lambda i, j: te.exp(x[j, i] - m[i]))
    return g.returns(g.map("p", lambda i, j: te.exp(x[j, i] - m[i]) / s[i]))

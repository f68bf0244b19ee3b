"""The registry of fusions that must be refused: where, why, and in how many passes the program runs instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm import te, tirx

from neptune_verified.frontend.te import neg_inf, positive
from tests.accepted.harness import F32, Array, Draw, Graph
from tests.accepted.programs import col, ints, low, positives, sq, top, total


@dataclass(frozen=True)
class Refused:
    """``consumer`` is not fused with ``producers``: ``obligation`` fails, at a point where one exists.

    ``term`` is the reduced term in numpy, of the element's and the producers' values, by which the point is replayed:
    an O1 by the term itself, an O2 by ``combine``. ``running`` gives the producer's value of the elements so far.
    ``why`` is part of the reason where no obligation can be stated.
    """

    name: str
    graph: Callable[[], Graph]
    reference: Callable[..., tuple[Array, ...]]
    obligation: str
    passes: int = 2
    consumer: str = "s"
    producers: tuple[str, ...] = ("m",)
    term: Callable[..., Any] | None = None
    running: Callable[[Array], Any] | None = None
    combine: Callable[[Any, Any], Any] = np.add
    why: str = ""
    draws: Mapping[str, Draw] = field(default_factory=dict)
    tolerance: float = 3e-5


FUSIONS: dict[str, Refused] = {}

MAX, MIN, SUM = te.max, te.min, te.sum
NUMPY: dict[Any, tuple[Callable[..., Array], Callable[[Any, Any], Any]]] = {
    MAX: (top, np.maximum),
    MIN: (low, np.minimum),
    SUM: (total, np.add),
}


def product(term: Any, axis: Any, **where: Any) -> Any:
    return te.comm_reducer(lambda a, b: a * b, lambda t: tirx.const(1, t))(term, axis=axis, **where)


NUMPY[product] = (lambda x: np.prod(x, axis=-1), np.multiply)


def pair(
    name: str,
    obligation: str,
    producer: Any,
    consumer: Any,
    term: Callable[[Any, Any], Any],
    numpy: Callable[[Any, Any], Any],
    of: Callable[[Any], Any] = lambda x: x,
    of_numpy: Callable[[Any], Any] = lambda x: x,
    **options: Any,
) -> None:
    """m = producer of ``of(x)``, s = consumer of ``term(x, m)``, for the rows of x."""

    def graph() -> Graph:
        g = Graph()
        x = g.input("x")
        m = g.row("m", producer, lambda i, j: of(x[i, j]))
        return g.returns(g.row("s", consumer, lambda i, j: term(x[i, j], m[i])))

    def reference(x: Array) -> tuple[Array, ...]:
        m = NUMPY[producer][0](of_numpy(x))
        return (NUMPY[consumer][0](numpy(x, col(m))),)

    def running(x: Array) -> Any:
        return NUMPY[producer][0](of_numpy(x))

    combine = NUMPY[consumer][1]
    FUSIONS[name] = Refused(name, graph, reference, obligation, term=numpy, running=running, combine=combine, **options)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


# -------------------------------------------------------------- sums: no factor of r alone turns one term into the other

pair("softplus", "O2", MAX, SUM, lambda x, m: te.log(1.0 + te.exp(x - m)), lambda x, m: np.log(1 + np.exp(x - m)))
pair("distance", "O1", MAX, SUM, lambda x, m: te.abs(x - m), lambda x, m: np.abs(x - m))
pair("relu", "O1", SUM, SUM, lambda x, m: te.max(x - m, 0.0), lambda x, m: np.maximum(x - m, 0))
pair("logistic", "O1", MAX, SUM, lambda x, m: te.sigmoid(x - m), lambda x, m: sigmoid(x - m))
pair("gaussian", "O1", MAX, SUM, lambda x, m: te.exp(-sq(x - m)), lambda x, m: np.exp(-sq(x - m)))
pair("hyperbolic", "O1", MAX, SUM, lambda x, m: te.tanh(x - m), lambda x, m: np.tanh(x - m))
pair("cosine", "O1", MAX, SUM, lambda x, m: te.cos(x - m), lambda x, m: np.cos(x - m))
pair("steps", "O1", MAX, SUM, lambda x, m: te.floor(x - m), lambda x, m: np.floor(x - m))
pair("squares", "O1", MAX, SUM, lambda x, m: sq(x - m), lambda x, m: sq(x - m))
pair("entropy", "O1", MAX, SUM, lambda x, m: te.exp(x - m) * (x - m), lambda x, m: np.exp(x - m) * (x - m))
pair("offset_needs_a_count", "O2", MAX, SUM, lambda x, m: x + m, lambda x, m: x + m)
pair("root", "O1", MAX, SUM, lambda x, m: te.sqrt(m - x), lambda x, m: np.sqrt(m - x))
pair("logarithm", "O2", MAX, SUM, lambda x, m: te.log(m - x + 1.0), lambda x, m: np.log(m - x + 1))
pair("reciprocal", "O2", MAX, SUM, lambda x, m: 1.0 / (1.0 + m - x), lambda x, m: 1 / (1 + m - x))
pair(
    "temperature",
    "O1",
    MAX,
    SUM,
    lambda x, m: te.exp(x * 0.01 * m),
    lambda x, m: np.exp(x * float(np.float32(0.01)) * m),
)
pair("one_part_moves", "O1", MAX, SUM, lambda x, m: te.exp(x - m) + x, lambda x, m: np.exp(x - m) + x)
pair(
    "producer_in_a_condition",
    "O1",
    MAX,
    SUM,
    lambda x, m: tirx.if_then_else(x < m, x, 0.0),
    lambda x, m: np.where(x < m, x, 0),
)
pair(
    "one_branch_moves",
    "O1",
    MAX,
    SUM,
    lambda x, m: tirx.if_then_else(x > 0.0, te.exp(x - m), x),
    lambda x, m: np.where(x > 0, np.exp(x - m), x),
)

# ------------------------------------------------------------- max and min: a factor of unknown sign turns max into min

pair("max_times_a_sum", "O2", SUM, MAX, lambda x, m: x * m, lambda x, m: x * m)
pair("min_times_a_sum", "O2", SUM, MIN, lambda x, m: x * m, lambda x, m: x * m)
pair("max_times_a_max", "O2", MAX, MAX, lambda x, m: x * m, lambda x, m: x * m)
pair("max_over_a_sum", "O2", SUM, MAX, lambda x, m: x / m, lambda x, m: np.where(m == 0, np.nan, x / m))
pair("max_over_a_max", "O2", MAX, MAX, lambda x, m: x / m, lambda x, m: np.where(m == 0, np.nan, x / m))
pair("max_of_squares", "O1", SUM, MAX, lambda x, m: sq(x - m), lambda x, m: sq(x - m))
pair("max_of_distances", "O1", SUM, MAX, lambda x, m: te.abs(x - m), lambda x, m: np.abs(x - m))

# -------------------------------------------------------------------------- products: a scale is counted by each factor

pair("product_of_shifted", "O2", MAX, product, lambda x, m: te.exp(x - m), lambda x, m: np.exp(x - m))

# ------------------------------------------------- range: the update is right over the reals, and would overflow (O7)

# The least of the elements so far, or their mean, bounds no exponential: exp(0 - (-1000)) is +inf in every type.
pair("shift_by_the_least", "O7.argument", MIN, SUM, lambda x, m: te.exp(x - m), lambda x, m: np.exp(x - m))
# exp(-m) of the first maximum may be +inf where that of the last is not: exp(x) * exp(-m) is then 0 * inf.
pair(
    "difference_taken_apart", "O7.argument", MAX, SUM,
    lambda x, m: te.exp(x) * te.exp(-m), lambda x, m: np.exp(x) * np.exp(-m), tolerance=1e-3,
)  # fmt: skip
pair("shift_by_a_sum", "O7.argument", SUM, SUM, lambda x, m: te.exp(x - m), lambda x, m: np.exp(x - m))


def registered(
    obligation: str, reference: Callable[..., tuple[Array, ...]], **options: Any
) -> Callable[[Callable[[], Graph]], Callable[[], Graph]]:
    def register(graph: Callable[[], Graph]) -> Callable[[], Graph]:
        FUSIONS[graph.__name__] = Refused(graph.__name__, graph, reference, obligation, **options)
        return graph

    return register


# ---------------------------------------------------------------- a guard would change a value that the definition has


def _third(x: Array) -> Array:
    i, j = np.indices(x.shape)
    return np.where(j % 3 == i % 3, x, -np.inf)


@registered("O1", lambda x: (total(np.exp(x - col(top(_third(x))))),), tolerance=1e-3)
def max_over_other_elements() -> Graph:
    """Where no element of the third is there, exp(x - (-inf)) is +inf and the definition says so."""
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: tirx.if_then_else(j % 3 == i % 3, x[i, j], neg_inf(F32)))
    return g.returns(g.row("s", te.sum, lambda i, j: te.exp(x[i, j] - m[i])))


@registered("O6.term", lambda x, y: (top(x * col(total(np.abs(y)))),))
def factor_that_may_be_zero() -> Graph:
    """While all of y is 0, every product is 0 and the max of x is lost."""
    g = Graph()
    x, y = g.input("x"), g.input("y")
    m = g.row("m", te.sum, lambda i, j: te.abs(y[i, j]))
    return g.returns(g.row("s", te.max, lambda i, j: x[i, j] * m[i]))


# --------------------------------------------------------------------------------------------------- several producers


@registered(
    "O2",
    lambda x: (total(np.exp((x - col(top(x))) / (col(total(np.abs(x))) + 1))),),
    producers=("m", "n"),
)
def temperature_by_a_producer() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: x[i, j])
    n = g.row("n", te.sum, lambda i, j: te.abs(x[i, j]))
    return g.returns(g.row("s", te.sum, lambda i, j: te.exp((x[i, j] - m[i]) / (n[i] + 1.0))))


@registered("O1", lambda x: (total(sq(x - col(total(x) / x.shape[-1]))) / x.shape[-1],), consumer="v", producers=("a",))
def variance() -> Graph:
    g = Graph()
    x = g.input("x")
    a = g.row("a", te.sum, lambda i, j: x[i, j])
    mean = g.each("mean", lambda i: a[i] / g.N.astype(F32))
    v = g.row("v", te.sum, lambda i, j: (x[i, j] - mean[i]) * (x[i, j] - mean[i]))
    return g.returns(g.each("var", lambda i: v[i] / g.N.astype(F32)))


def _three(x: Array) -> tuple[Array, ...]:
    a = np.log(1 + np.exp(x - col(top(x))))
    return (total(np.tanh(x - col(total(a)))),)


@registered("O1", _three, passes=3, producers=("a",), tolerance=1e-4)
def three_passes() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: x[i, j])
    a = g.row("a", te.sum, lambda i, j: te.log(1.0 + te.exp(x[i, j] - m[i])))
    return g.returns(g.row("s", te.sum, lambda i, j: te.tanh(x[i, j] - a[i])))


def _both(x: Array) -> tuple[Array, ...]:
    z = x - col(top(x))
    return total(np.exp(z)), total(np.abs(z))


@registered("O1", _both)
def one_consumer_of_two() -> Graph:
    """The other consumer stays fused with the max."""
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: x[i, j])
    n = g.row("n", te.sum, lambda i, j: te.exp(x[i, j] - m[i]))
    return g.returns(n, g.row("s", te.sum, lambda i, j: te.abs(x[i, j] - m[i])))


# ----------------------------------------------------------------------------------------------------------- range (O7)


@registered("O7.quotient", lambda x, w: (low(x / col(total(w))),), draws={"w": positives})
def divisor_that_may_be_tiny() -> Graph:
    """The first of the w may be 1e-30, their sum 1: then x / w overflows where the definition does not."""
    g = Graph()
    x, w = g.input("x"), g.input("w")
    g.facts = [positive(w)]
    m = g.row("m", te.sum, lambda i, j: w[i, j])
    return g.returns(g.row("s", te.min, lambda i, j: x[i, j] / m[i]))


@registered("O7.argument", lambda x: (total(np.exp(x - col(top(x)))),))
def maximum_in_another_order() -> Graph:
    """The last k elements say nothing about the first k."""
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: x[i, g.N - 1 - j])
    return g.returns(g.row("s", te.sum, lambda i, j: te.exp(x[i, j] - m[i])))


@registered("O7.argument", lambda x, b: (total(np.exp(x + b - col(top(x)))),), tolerance=1e-4)
def bias_after_the_maximum() -> Graph:
    """exp(x + b - max x): the bias is not under the maximum."""
    g = Graph()
    x, b = g.input("x"), g.input("b")
    m = g.row("m", te.max, lambda i, j: x[i, j])
    return g.returns(g.row("s", te.sum, lambda i, j: te.exp(x[i, j] + b[i, j] - m[i])))


def _square(x: Array) -> tuple[Array, ...]:
    return (total(np.exp(x - top(x)[None, :] - col(top(x)))),)


@registered("O7.argument", _square, tolerance=1e-4)
def maximum_of_another_row_as_an_element() -> Graph:
    """m is read twice: at the row, which is a producer, and at the element, where it is a nested reduction; if that one is
    negative, x - m[j] - m[i] is not <= 0."""
    g = Graph()
    g.M = g.N
    x = g.input("x")
    m = g.row("m", te.max, lambda i, j: x[i, j])
    return g.returns(g.row("s", te.sum, lambda i, j: te.exp(x[i, j] - m[j] - m[i])))


@registered("O7.relative", lambda x: (np.prod(np.exp(0.01 * x / col(total(np.abs(x) + 1))), axis=-1),))
def power_of_a_product() -> Graph:
    g = Graph()
    x = g.input("x")
    m = g.row("m", te.sum, lambda i, j: te.abs(x[i, j]) + 1.0)
    return g.returns(g.row("s", product, lambda i, j: te.power(te.exp(x[i, j] * 0.01), 1.0 / m[i])))


# ------------------------------------------------------------------------- a running value that no term can be made of


def _gathered(x: Array, k: Array, w: Array) -> tuple[Array, ...]:
    at = np.clip(np.max(k, axis=-1, initial=-1), 0, max(len(w) - 1, 0))
    return (total(np.exp(x * col(w[at]))) if len(w) else np.zeros(len(x)),)


@registered("", _gathered, why="used inside another reduction or as an index", draws={"k": ints(0, 9)})
def running_value_as_an_index() -> Graph:
    g = Graph()
    x, k, w = g.input("x"), g.input("k", dtype="int32"), g.input("w", (g.N,))
    m = g.row("m", te.max, lambda i, j: k[i, j])
    return g.returns(g.row("s", te.sum, lambda i, j: te.exp(x[i, j] * w[te.min(te.max(m[i], 0), g.N - 1)])))


def _nested(x: Array, w: Array) -> tuple[Array, ...]:
    return (total(np.max(np.sin(w[None] * top(x)[:, None, None]), axis=-1)),)


@registered("", _nested, why="used inside another reduction or as an index", tolerance=1e-4)
def running_value_inside_a_nested_reduction() -> Graph:
    g = Graph()
    x, w = g.input("x"), g.input("w", (g.N, 4))
    m = g.row("m", te.max, lambda i, j: x[i, j])
    d = te.reduce_axis((0, 4), "d")
    y = te.compute((g.M, g.N), lambda i, j: te.max(te.sin(w[j, d] * m[i]), axis=d), "y")
    return g.returns(g.row("s", te.sum, lambda i, j: y[i, j]))

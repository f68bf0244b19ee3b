"""Programs that have no meaning here, or no kernel: one line each, with construct, tensor, place and way out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from tvm import te, tirx

from neptune_verified.errors import UnsupportedProgram
from neptune_verified.frontend.te import from_te, record_lines
from tests.accepted.harness import F32, Graph, build

#: name -> (graph, construct, tensor, part of the reason)
PROGRAMS: dict[str, tuple[Callable[[], Graph], str, str, str]] = {}


def unsupported(construct: str, tensor: str, why: str) -> Callable[[Callable[[], Graph]], Callable[[], Graph]]:
    def register(graph: Callable[[], Graph]) -> Callable[[], Graph]:
        PROGRAMS[graph.__name__] = graph, construct, tensor, why
        return graph

    return register


@unsupported("reducer over tuples of 2", "best", "no argmax")
def argmax() -> Graph:
    g = Graph()
    x = g.input("x")

    def combine(a: Any, b: Any) -> Any:
        return tirx.Select(a[1] >= b[1], a[0], b[0]), tirx.Select(a[1] >= b[1], a[1], b[1])

    def identity(i: str, v: str) -> Any:
        return tirx.const(-1, i), te.min_value(v)

    j = te.reduce_axis((0, g.N), "j")
    best = te.compute((g.M,), lambda i: te.comm_reducer(combine, identity)((j, x[i, j]), axis=j), name="best")
    return g.returns(best[0])


@unsupported("te.scan", "sums", "only te.compute has a meaning here")
def running_sum() -> Graph:
    g = Graph()
    x = g.input("x")
    state = te.placeholder((g.M, g.N), F32, "state")
    first = te.compute((1, g.N), lambda _, j: x[0, j], "first")
    update = te.compute((g.M, g.N), lambda i, j: state[i - 1, j] + x[i, j], "update")
    return g.returns(te.scan(first, update, state, name="sums"))


@unsupported("type float8_e4m3fn", "x", "the types of inputs are")
def eight_bit_floats() -> Graph:
    g = Graph()
    x = g.input("x", dtype="float8_e4m3fn")
    return g.returns(g.row("m", te.max, lambda i, j: x[i, j].astype(F32)))


@unsupported("placeholder that is not an input", "w", "list it in inputs")
def forgotten_input() -> Graph:
    g = Graph()
    x = g.input("x")
    w = te.placeholder((g.N,), F32, "w")
    return g.returns(g.row("s", te.sum, lambda i, j: x[i, j] * w[j]))


@unsupported("range of axis j", "s", "take the whole range and a condition (where=)")
def ragged_rows() -> Graph:
    g = Graph()
    x = g.input("x")
    return g.returns(te.compute((g.M,), lambda i: te.sum(x[i, 0], axis=te.reduce_axis((0, i), "j")), "s"))


@unsupported("literal NaN", "y", "select another value before it arises")
def literal_nan() -> Graph:
    g = Graph()
    x = g.input("x")
    return g.returns(g.map("y", lambda i, j: tirx.if_then_else(x[i, j] > 0.0, x[i, j], tirx.const(float("nan"), F32))))


@unsupported("identity 1 of max", "m", "it is not neutral")
def maximum_that_starts_at_one() -> Graph:
    g = Graph()
    x = g.input("x")
    from_one = te.comm_reducer(lambda a, b: te.max(a, b), lambda t: tirx.const(1, t))
    return g.returns(g.row("m", from_one, lambda i, j: x[i, j]))


@unsupported("tirx.atan", "m", "write it with the operations that have")
def function_without_meaning() -> Graph:
    g = Graph()
    x = g.input("x")
    return g.returns(g.row("m", te.max, lambda i, j: te.atan(x[i, j])))


@pytest.mark.parametrize("name", PROGRAMS)
def test_refused_by_the_front_end(name: str) -> None:
    graph, construct, tensor, why = PROGRAMS[name]
    with record_lines():
        g = graph()
    with pytest.raises(UnsupportedProgram) as caught:
        from_te(g.inputs, g.outputs, name)
    error = caught.value
    assert (error.construct, error.tensor) == (construct, tensor)
    assert why in str(error) and "\n" not in str(error)
    source, first = inspect.getsourcelines(graph)
    assert error.loc is not None
    here = error.loc.file == __file__ and first <= error.loc.line < first + len(source)
    assert here or error.loc.file == inspect.getsourcefile(Graph), error.loc


def test_no_kernel_for_a_rounding_function() -> None:
    """It has a meaning, and the interpreter runs it; there is no tile code yet."""
    g = Graph()
    x = g.input("x")
    with pytest.raises(UnsupportedProgram, match=r"^round in y \(.*use floor\(x \+ 0\.5\)"):
        build(g.returns(g.map("y", lambda i, j: te.round(x[i, j]))), "rounded")

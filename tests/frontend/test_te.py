"""The te front end: values against numpy written by hand, names, sizes, notes and assumptions."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

from neptune_verified.frontend import te as nv
from neptune_verified.ir.expr import INF, Const, Op, Reduce, const, op, size, subterms
from neptune_verified.ir.interpret import run_program
from neptune_verified.ir.program import Assumption, Loc, Program

RNG = np.random.default_rng(7)


def f32(name: str, *shape: Any, dtype: str = "float32") -> Any:
    return te.placeholder(shape, name=name, dtype=dtype)


def evaluate(arrays: dict[Any, np.ndarray], *outputs: Any, **scalars: float) -> list[np.ndarray]:
    """Read, check the reading against TVM, and interpret."""
    program = nv.from_te(list(arrays), list(outputs), "p")
    assert nv.check_reading(program, list(outputs), list(arrays)).startswith("agrees with TVM on")
    named = {t.name: a for t, a in zip(program.inputs, arrays.values(), strict=True)}
    values = run_program(program, named, scalars)
    return [values[n] for n in program.outputs]


def unary(fn: Any, x: np.ndarray, dtype: str = "float32") -> np.ndarray:
    t = f32("x", len(x), dtype=dtype)
    return evaluate({t: x}, te.compute((len(x),), lambda i: fn(t[i]), name="o"))[0]


def draw(*shape: int) -> np.ndarray:
    return RNG.integers(-16, 17, shape) / 8.0


# ---------------------------------------------------------------------------------------------- scalar operations

X = np.array([0.25, 0.5, 1.0, 1.5, 2.5, 3.0])
SIGNED = np.array([-2.5, -1.5, -1.0, -0.25, 0.0, 0.5, 1.5, 2.5])


@pytest.mark.parametrize(
    "fn, reference, x",
    [
        (te.exp, np.exp, SIGNED),
        (tirx.exp2, np.exp2, SIGNED),
        (te.log, np.log, X),
        (tirx.log2, np.log2, X),
        (te.log10, np.log10, X),
        (tirx.log1p, np.log1p, X),
        (te.sqrt, np.sqrt, X),
        (te.rsqrt, lambda x: 1 / np.sqrt(x), X),
        (te.tanh, np.tanh, SIGNED),
        (te.sigmoid, lambda x: 1 / (1 + np.exp(-x)), SIGNED),
        (te.abs, np.abs, SIGNED),
        (te.erf, np.vectorize(math.erf), SIGNED),
        (te.sin, np.sin, SIGNED),
        (te.cos, np.cos, SIGNED),
        (te.floor, np.floor, SIGNED),
        (te.ceil, np.ceil, SIGNED),
        (te.round, np.round, SIGNED),
        (te.nearbyint, np.round, SIGNED),
        (te.trunc, np.trunc, SIGNED),
        (lambda x: te.power(x, tirx.const(1.5, "float32")), lambda x: x**1.5, X),
        (lambda x: -x, lambda x: -x, SIGNED),
        (lambda x: 1.0 / x, lambda x: 1 / x, X),
        (lambda x: te.max(x, 0.5), lambda x: np.maximum(x, 0.5), SIGNED),
        (lambda x: tirx.Min(x, tirx.const(0.5, "float32")), lambda x: np.minimum(x, 0.5), SIGNED),
        (lambda x: te.if_then_else(x > 0, x, x * 2), lambda x: np.where(x > 0, x, 2 * x), SIGNED),
        (lambda x: tirx.Select(x.asobject() >= 0, x.asobject(), x * 2), lambda x: np.where(x >= 0, x, 2 * x), SIGNED),
        (lambda x: x.astype("int32").astype("float32"), np.trunc, SIGNED),
        (lambda x: x.astype("bool").astype("float32"), lambda x: (x != 0) * 1.0, SIGNED),
        (lambda x: (x.astype("float16") * 2).astype("float32"), lambda x: 2 * x, SIGNED),
    ],
)
def test_functions(fn: Any, reference: Any, x: np.ndarray) -> None:
    np.testing.assert_allclose(unary(fn, x), reference(x), rtol=1e-7)


@pytest.mark.parametrize(
    "fn, reference",
    [
        (lambda a, b: a < b, np.less),
        (lambda a, b: a <= b, np.less_equal),
        (lambda a, b: a > b, np.greater),
        (lambda a, b: a >= b, np.greater_equal),
        (lambda a, b: tirx.EQ(a, b), np.equal),
        (lambda a, b: tirx.NE(a, b), np.not_equal),
        (lambda a, b: te.all(a < b, b > 0), lambda x, y: (x < y) & (y > 0)),
        (lambda a, b: te.any(a < b, b > 0), lambda x, y: (x < y) | (y > 0)),
        (lambda a, b: (a < b) & (b > 0), lambda x, y: (x < y) & (y > 0)),
        (lambda a, b: (a < b) | (b > 0), lambda x, y: (x < y) | (y > 0)),
        (lambda a, b: (a < b) ^ (b > 0), lambda x, y: (x < y) ^ (y > 0)),
        (lambda a, b: ~(a < b), lambda x, y: ~(x < y)),
        (lambda a, b: tirx.Not(a < b), lambda x, y: ~(x < y)),
    ],
)
def test_truth_values(fn: Any, reference: Any) -> None:
    a, b = f32("a", 25), f32("b", 25)
    x, y = (v.ravel() for v in np.meshgrid([-1.0, 0, 0.5, 1, 2], [-1.0, 0, 0.5, 1, 2]))
    o = te.compute((25,), lambda i: fn(a(i), b(i)), name="o")
    assert str(o.dtype) == "bool"
    np.testing.assert_array_equal(evaluate({a: x, b: y}, o)[0], reference(x, y) * 1.0)


@pytest.mark.parametrize(
    "fn, reference",
    [
        (te.floordiv, lambda x, y: x // y),
        (te.floormod, lambda x, y: x % y),
        (te.truncdiv, lambda x, y: np.trunc(x / y)),
        (te.truncmod, np.fmod),
        (te.abs, None),
        (lambda a, b: te.max(a, b) - te.min(a, b), lambda x, y: np.abs(x - y)),
    ],
)
def test_integers_of_either_sign(fn: Any, reference: Any) -> None:
    a, b = f32("a", 36, dtype="int32"), f32("b", 36, dtype="int32")
    x, y = (v.ravel() for v in np.meshgrid([-7, -4, -1, 0, 3, 7], [-3, -2, -1, 1, 2, 3]))
    if fn is te.abs:
        o, want = te.compute((36,), lambda i: te.abs(a[i] - 3) + b[i], name="o"), np.abs(x - 3) + y
    else:
        guarded = te.compute((36,), lambda i: fn(a(i), te.if_then_else(b[i] == 0, 1, b[i])), name="o")
        o, want = guarded, reference(x, y)
    np.testing.assert_array_equal(evaluate({a: x, b: y}, o)[0], want)


def test_truncated_division_of_an_axis_is_floor_division() -> None:
    x = f32("x", 8)
    program = nv.from_te([x], [te.compute((8,), lambda i: x[te.truncdiv(i, 2) + te.truncmod(i, 3)], name="o")], "p")
    assert {n.name for n in subterms(program.stages[0].body) if isinstance(n, Op)} == {"floordiv", "floormod", "add"}


def test_infinity_tests() -> None:
    x = f32("x", 3)
    inf = te.compute((3,), lambda i: te.isinf(x[i]), name="inf")
    fin = te.compute((3,), lambda i: te.isfinite(x[i]), name="fin")
    program = nv.from_te([x], [inf, fin], "p")
    values = run_program(program, {"x": np.array([-INF, 1.0, INF])})
    np.testing.assert_array_equal(values["inf"], [1, 0, 1])
    np.testing.assert_array_equal(values["fin"], [0, 1, 0])


def test_let_is_replaced_by_its_value() -> None:
    x, y = f32("x", 4), tirx.Var("y", "float32")
    v = draw(4)
    o = te.compute((4,), lambda i: tirx.Let(y, x[i] + 1.0, y * y), name="o")
    np.testing.assert_allclose(evaluate({x: v}, o)[0], (v + 1) ** 2)


def test_a_shared_subexpression_is_read_once() -> None:
    x = f32("x", 4)

    def doubled(i: Any) -> Any:
        e = x(i)
        for _ in range(14):  # a tree of 2**14 nodes (te itself walks the tree)
            e = e * 0.25 + e * 0.25
        return e

    program = nv.from_te([x], [te.compute((4,), doubled, name="o")], "p")
    assert len(subterms(program.stages[0].body)) < 200


def test_literals_are_rounded_to_their_type() -> None:
    x = f32("x", 4, dtype="bfloat16")
    program = nv.from_te([x], [te.compute((4,), lambda i: x[i] * tirx.const(0.1, "bfloat16"), name="o")], "p")
    literal = next(n for n in subterms(program.stages[0].body) if isinstance(n, Const) and n.dtype == "bfloat16")
    assert literal.value == Fraction(0.10009765625)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_float_types(dtype: str) -> None:
    v = draw(6)
    np.testing.assert_allclose(unary(lambda x: x + x, v, dtype), 2 * v)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "bool"])
def test_integer_types(dtype: str) -> None:
    v = np.array([0, 1, 1, 0])
    np.testing.assert_array_equal(unary(lambda x: x.astype("float32") * 0.5, v, dtype), v / 2)


# ---------------------------------------------------------------------------------------------- shapes and reductions


def test_matrix_product_with_symbolic_lengths() -> None:
    m, n, k = te.var("M"), te.var("N"), te.var("K")
    a, b, r = f32("a", m, k), f32("b", k, n), te.reduce_axis((0, k), "k")
    o = te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="o")
    x, y = draw(4, 3), draw(3, 5)
    np.testing.assert_allclose(evaluate({a: x, b: y}, o)[0], x @ y)


def test_several_reduction_axes_and_no_axes() -> None:
    x = f32("x", 3, 4)
    i, j = te.reduce_axis((0, 3), "i"), te.reduce_axis((0, 4), "j")
    total = te.compute((), lambda: te.sum(x[i, j], axis=[i, j]), name="total")
    shifted = te.compute((3, 4), lambda a, b: x[a, b] - total() / 12.0, name="shifted")
    none = te.compute((3,), lambda a: te.max(x[a, 0], axis=[]), name="none")
    v = draw(3, 4)
    got = evaluate({x: v}, total, shifted, none)
    np.testing.assert_allclose(got[0], v.sum())
    np.testing.assert_allclose(got[1], v - v.mean())
    np.testing.assert_allclose(got[2], v[:, 0])


def test_lower_bound_of_a_range_is_shifted_to_zero() -> None:
    n = te.var("N")
    x, k = f32("x", n), te.reduce_axis((2, n), "k")
    o = te.compute((1,), lambda i: te.sum(x[k] * k.var.astype("float32"), axis=k), name="o")
    v = draw(7)
    np.testing.assert_allclose(evaluate({x: v}, o)[0], [(v * np.arange(7))[2:].sum()])
    assert run_program(nv.from_te([x], [o], "p"), {"x": v[:1]})["o"] == [0.0]  # N - 2 < 0: nothing is summed


def test_where_is_a_select_with_the_neutral_element() -> None:
    n = te.var("N")
    x = f32("x", n, n)
    ks = [te.reduce_axis((0, n), "k") for _ in range(2)]
    sums = te.compute((n,), lambda i: te.sum(x[i, ks[0]], axis=ks[0], where=ks[0] < i), name="sums")
    tops = te.compute((n,), lambda i: te.max(x[i, ks[1]], axis=ks[1], where=ks[1] <= i), name="tops")
    v = draw(5, 5)
    got = evaluate({x: v}, sums, tops)
    np.testing.assert_allclose(got[0], [v[i, :i].sum() for i in range(5)])
    np.testing.assert_allclose(got[1], [v[i, : i + 1].max() for i in range(5)])


def test_arithmetic_of_lengths() -> None:
    n = te.var("N")
    x = f32("x", n)
    twice = te.compute((n * 2,), lambda i: x[i // 2], name="twice")
    half = te.compute((n // 2 + 1,), lambda i: x[i], name="half")
    mean = te.compute((n,), lambda i: x[i] / n.astype("float32"), name="mean")
    v = draw(5)
    got = evaluate({x: v}, twice, half, mean)
    np.testing.assert_allclose(got[0], np.repeat(v, 2))
    np.testing.assert_allclose(got[1], v[:3])
    np.testing.assert_allclose(got[2], v / 5)


def test_arithmetic_in_the_shape_of_an_input_whose_lengths_stand_alone_elsewhere() -> None:
    n = te.var("N")
    x, y = f32("x", n), f32("y", n * 2)
    program = nv.from_te([x, y], [te.compute((n,), lambda i: x[i] + y[i * 2], name="o")], "p")
    assert program.inputs[1].shape == (op("mul", size("N"), const(2, "int32")),)


def test_int64_lengths() -> None:
    n = te.var("N", "int64")
    x, k = f32("x", n), te.reduce_axis((1, n), "k")
    o = te.compute((n,), lambda i: te.sum(x[k] * i.astype("float32"), axis=k), name="o")
    v = draw(5)
    np.testing.assert_allclose(evaluate({x: v}, o)[0], np.arange(5) * v[1:].sum())
    p = nv.from_te([x], [te.compute((n,), lambda i: x[i], name="o")], "p")
    assert p.sizes == (size("N", "int64"),)
    assert p.stages[0].body.indices == p.stages[0].axes  # an index carries no widening cast


def test_gather_and_embedding() -> None:
    n, m = te.var("N"), te.var("M")
    table, index = f32("table", m, 4), f32("index", n, dtype="int64")
    o = te.compute((n, 4), lambda i, j: table[index[i], j], name="o")
    t, ix = draw(6, 4), np.array([5, 0, 3])
    np.testing.assert_allclose(evaluate({table: t, index: ix}, o)[0], t[ix])


def test_several_outputs_of_one_computation() -> None:
    x = f32("x", 4)
    double, square = te.compute((4,), lambda i: (x[i] * 2.0, x[i] * x[i]), name="both")
    v = draw(4)
    got = evaluate({x: v}, square, double)
    np.testing.assert_allclose(got, [v * v, 2 * v])
    program = nv.from_te([x], [square], "p")
    assert [s.name for s in program.stages] == ["both_1"] and program.outputs == ("both_1",)


def test_the_same_te_computation_twice_is_two_stages() -> None:
    x = f32("x", 4)
    a, b = (te.compute((4,), lambda i: x[i] + 1.0, name="a") for _ in range(2))
    o = te.compute((4,), lambda i: a[i] * b[i], name="o")
    program = nv.from_te([x], [o, a], "p")
    assert [s.name for s in program.stages] == ["a", "a_1", "o"] and program.outputs == ("o", "a")


def test_unused_input_and_scalar_arguments() -> None:
    n, scale, flag = te.var("N"), te.var("scale", "float32"), te.var("shift", "int32")
    x, unused = f32("x", n), f32("unused", te.var("U"))
    o = te.compute((n,), lambda i: x[i] * scale + flag.astype("float32"), name="o")
    v = draw(3)
    got = evaluate({unused: draw(2), x: v}, o, scale=0.5, shift=3)
    np.testing.assert_allclose(got[0], v / 2 + 3)
    program = nv.from_te([x], [o], "p")
    assert [(s.name, s.dtype) for s in program.sizes] == [("N", "int32"), ("scale", "float32"), ("shift", "int32")]
    assert program.shape_sizes() == {"N"}


def test_a_length_that_no_shape_gives_is_an_argument() -> None:
    k = te.var("K")
    x, r = f32("x", 8), te.reduce_axis((0, k), "r")
    o = te.compute((1,), lambda i: te.sum(x[te.min(r.var, 7)], axis=r), name="o")
    v = draw(8)
    np.testing.assert_allclose(evaluate({x: v}, o, K=3)[0], [v[:3].sum()])


def test_stages_are_in_topological_order_and_only_those_reached() -> None:
    x = f32("x", 4)
    a = te.compute((4,), lambda i: x[i] + 1.0, name="a")
    te.compute((4,), lambda i: a[i] + 1.0, name="not_reached")
    b = te.compute((4,), lambda i: a[i] * x[i], name="b")
    c = te.compute((4,), lambda i: b[i] + a[i], name="c")
    assert [s.name for s in nv.from_te([x], [c, b], "p").stages] == ["a", "b", "c"]


# ---------------------------------------------------------------------------------------------- reducers


def reduction(combine: Any, identity: Any, x: np.ndarray, dtype: str = "float32", term: Any = lambda e: e) -> Program:
    t = f32("x", te.var("N"), te.var("K"), dtype=dtype)
    k = te.reduce_axis((0, t.shape[1]), "k")
    reducer = te.comm_reducer(combine, identity)
    o = te.compute((t.shape[0],), lambda i: reducer(term(t(i, k.var)), axis=k), name="o")
    program = nv.from_te([t], [o], "p")
    assert nv.check_reading(program, [o], [t]).startswith("agrees")
    reduction.value = run_program(program, {"x": x})["o"]  # type: ignore[attr-defined]
    return program


def reducer_of(program: Program) -> str:
    body = program.stages[0].body
    assert isinstance(body, Reduce)
    return body.reducer


V = np.array([[0.5, -1.0, 2.0], [1.5, 1.5, -0.25]])


@pytest.mark.parametrize(
    "combine, identity, name, reference",
    [
        (lambda a, b: b + a, lambda t: tirx.const(0, t), "sum", lambda v: v.sum(1)),
        (lambda a, b: a * b, lambda t: tirx.const(1, t), "prod", lambda v: v.prod(1)),
        (lambda a, b: te.max(b, a), te.min_value, "max", lambda v: v.max(1)),
        (lambda a, b: te.max(a, b), lambda t: tirx.const(-INF, t), "max", lambda v: v.max(1)),
        (lambda a, b: tirx.Select(a > b, a, b), te.min_value, "max", lambda v: v.max(1)),
        (lambda a, b: tirx.Select(b <= a, a, b), te.min_value, "max", lambda v: v.max(1)),
        (lambda a, b: te.if_then_else(a < b, a, b), te.max_value, "min", lambda v: v.min(1)),
        (lambda a, b: te.min(a, b), te.max_value, "min", lambda v: v.min(1)),
    ],
)
def test_reducers(combine: Any, identity: Any, name: str, reference: Any) -> None:
    assert reducer_of(reduction(combine, identity, V)) == name
    np.testing.assert_allclose(reduction.value, reference(V))  # type: ignore[attr-defined]


LOGADDEXP = {
    "te": lambda a, b: te.logaddexp(a, b),
    "plain": lambda a, b: te.log(te.exp(b) + te.exp(a)),
    "abs": lambda a, b: te.max(a, b) + te.log(1.0 + te.exp(-te.abs(a - b))),
    "abs swapped": lambda a, b: tirx.log1p(te.exp(-te.abs(b - a))) + te.max(b, a),
    "min": lambda a, b: te.max(a, b) + tirx.log1p(te.exp(te.min(a, b) - te.max(a, b))),
    "shifted": lambda a, b: te.max(a, b) + te.log(te.exp(a - te.max(a, b)) + te.exp(b - te.max(a, b))),
    "one-sided": lambda a, b: a + te.log(1.0 + te.exp(b - a)),
    "select": lambda a, b: tirx.Select(a > b, a, b) + te.log(te.exp(0.0 - te.abs(a - b)) + 1.0),
}


@pytest.mark.parametrize("spelling", LOGADDEXP)
def test_logaddexp_in_any_spelling(spelling: str) -> None:
    t, k = f32("x", 2, 3), te.reduce_axis((0, 3), "k")
    reducer = te.comm_reducer(LOGADDEXP[spelling], te.min_value)
    program = nv.from_te([t], [te.compute((2,), lambda i: reducer(t[i, k], axis=k), name="o")], "p")
    assert reducer_of(program) == "logaddexp"
    np.testing.assert_allclose(run_program(program, {"x": V})["o"], np.log(np.exp(V).sum(1)))


def test_reducers_on_truth_values() -> None:
    for combine, start, name, reference in (
        (lambda a, b: te.any(a, b), False, "any", np.any),
        (lambda a, b: te.all(a, b), True, "all", np.all),
        (lambda a, b: a | b, False, "any", np.any),
        (lambda a, b: a & b, True, "all", np.all),
    ):
        program = reduction(combine, lambda t, s=start: tirx.const(s, "bool"), V, term=lambda e: e > 0)
        assert reducer_of(program) == name
        np.testing.assert_array_equal(reduction.value, reference(V > 0, axis=1))  # type: ignore[attr-defined]


def test_integer_maximum_keeps_its_identity() -> None:
    x, k = f32("x", 4, dtype="int32"), te.reduce_axis((0, 4), "k")
    program = nv.from_te([x], [te.compute((), lambda: te.max(x[k], axis=k), name="o")], "p")
    assert reducer_of(program) == "max" and not program.notes


# ---------------------------------------------------------------------------------------------- minus infinity


def masked(literal: Any, dtype: str = "float32", **options: Any) -> Program:
    x = f32("x", 4, dtype=dtype)
    o = te.compute((4,), lambda i: te.if_then_else(i < 2, x[i], literal), name="s")
    return nv.from_te([x], [o], "p", **options)


def branch(program: Program) -> Any:
    body = program.stages[0].body
    assert isinstance(body, Op)
    return body.args[2].value


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_least_number_as_a_branch_is_minus_infinity(dtype: str) -> None:
    program = masked(te.min_value(dtype), dtype)
    assert branch(program) == -INF
    assert len(program.notes) == 1 and "in stage s" in program.notes[0] and "read as -inf" in program.notes[0]


def test_least_number_stays_a_number_if_asked() -> None:
    program = masked(te.min_value("float32"), min_value="finite")
    assert branch(program) == -(2**128 - 2**104)
    assert "finite stand-in" in program.notes[0]


def test_least_number_elsewhere_stays_a_number() -> None:
    x = f32("x", 4)
    least = te.min_value("float32")
    o = te.compute((4,), lambda i: te.max(x[i], least) + te.if_then_else(i < 2, x[i] + least, x[i]), name="o")
    program = nv.from_te([x], [o], "p")
    assert not program.notes and not any(
        n.value == -INF for n in subterms(program.stages[0].body) if isinstance(n, Const)
    )


def test_stand_ins_are_noted() -> None:
    program = masked(tirx.const(-1e9, "float32"))
    assert branch(program) == -1e9
    assert program.notes == ("finite stand-in -1e+09 in stage s; write nv.neg_inf('float32')",)
    assert masked(tirx.const(-65504.0, "float32")).notes and not masked(tirx.const(-9999.0, "float32")).notes


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_neg_inf(dtype: str) -> None:
    program = masked(nv.neg_inf(dtype), dtype)
    assert branch(program) == -INF and not program.notes
    assert branch(masked(tirx.const(float("-inf"), dtype), dtype, min_value="finite")) == -INF


def test_neg_inf_of_an_integer_type_is_refused() -> None:
    with pytest.raises(ValueError, match="int32 has no infinity"):
        nv.neg_inf("int32")


def test_identities_of_max_and_min_are_noted() -> None:
    x = f32("x", 3)
    ks = [te.reduce_axis((0, 3), "k") for _ in range(2)]
    hi = te.compute((), lambda: te.max(x[ks[0]], axis=ks[0]), name="hi")
    lo = te.compute((), lambda: te.min(x[ks[1]], axis=ks[1]), name="lo")
    notes = nv.from_te([x], [hi, lo], "p", min_value="finite").notes
    assert notes == (
        "identity -3.40282e+38 of max in stage hi is read as -inf",
        "identity 3.40282e+38 of min in stage lo is read as inf",
    )


# ---------------------------------------------------------------------------------------------- names and lines


def test_names_are_unique_identifiers() -> None:
    n, other = te.var("N"), te.var("N")
    x, y = f32("x", n), f32("x", other)
    a = te.compute((n,), lambda i: x[i] + y[0], name="x")
    b = te.compute((other,), lambda i: y[i] + a[0], name="lambda")
    c = te.compute((n,), lambda r1_0: a[r1_0] + b[0], name="a.b c")
    program = nv.from_te([x, y], [c], "my program")
    assert [t.name for t in program.inputs] == ["x", "x_1"]
    assert [s.name for s in program.sizes] == ["N", "N_1"]
    assert [s.name for s in program.stages] == ["x_2", "lambda_", "a_b_c"]
    assert program.stages[2].axes[0].name == "r1_0_"  # r1_0 is the canonical name of a bound axis
    assert program.name == "my_program"
    assert "size 'N' is called N_1" in program.notes and "input 'x' is called x_1" in program.notes
    assert nv.from_te([x, y], [c], "my program") == program


def test_axis_names_are_the_users_and_unique_in_a_stage() -> None:
    i = te.var("i")
    x = f32("x", i, 4)
    o = te.compute((i, 4), lambda *ax: x[ax[0], ax[1]], name="o", varargs_names=["j", "j"])
    assert [a.name for a in nv.from_te([x], [o], "p").stages[0].axes] == ["j", "j_1"]
    o = te.compute((i, 4), lambda i, j: x[i, j], name="o")
    assert [a.name for a in nv.from_te([x], [o], "p").stages[0].axes] == ["i_1", "j"]


def test_lines_are_recorded() -> None:
    plain = te.compute, te.placeholder, te.reduce_axis
    with nv.record_lines() as lines:
        x = te.placeholder((4,), name="x")
        o = te.compute((4,), lambda i: x[i], name="o")
    here = lines.of(o.op)
    assert here.file == __file__ and here.line == lines.of(x.op).line + 1
    assert nv.from_te([x], [o], "p").stages[0].loc == here
    assert (te.compute, te.placeholder, te.reduce_axis) == plain
    with nv.record_lines():
        pass
    assert nv.from_te([x], [o], "p").stages[0].loc == Loc()
    assert nv.from_te([x], [o], "p", lines=lines).stages[0].loc == here


def test_te_is_restored_after_an_error_and_recording_nests() -> None:
    plain = te.compute
    with pytest.raises(KeyError), nv.record_lines():
        raise KeyError
    assert te.compute is plain
    with nv.record_lines() as outer:
        x = te.placeholder((4,), name="x")
        with nv.record_lines() as inner:
            o = te.compute((4,), lambda i: x[i], name="o")
    assert te.compute is plain and outer.of(o.op) == inner.of(o.op) != Loc()


# ---------------------------------------------------------------------------------------------- assumptions


def test_declared_and_default_assumptions() -> None:
    n, m, scale = te.var("N"), te.var("M"), te.var("scale", "float32")
    q, k = f32("q", n, dtype="float16"), f32("k", m)
    ids = f32("ids", n, dtype="int32")
    o = te.compute((n,), lambda i: q[i].astype("float32") * k[ids[i]] * scale, name="o")
    facts = [nv.bounded(q, 1e4), nv.at_least(n, 1), nv.multiple_of(m, 16), nv.finite_or_minus_infinity(k)]
    facts += [nv.positive(scale), nv.nonzero(q), nv.nonnegative(ids)]
    program = nv.from_te([q, k, ids], [o], "p", assume=facts)
    declared = [str(a) for a in program.assumptions if a.origin == "declared"]
    assert declared == [
        "|q| <= 10000",
        "N >= 1",
        "M % 16 == 0",
        "k is finite or -inf",
        "scale > 0",
        "q != 0",
        "ids >= 0",
    ]
    default = {(a.kind, a.subject, a.value) for a in program.assumptions if a.origin == "default"}
    assert default == {
        ("bounded", "k", 2**40),
        ("bounded", "scale", 2**40),
        ("bounded", "N", 2**31 - 1),
        ("at_least", "M", 0),
        ("bounded", "M", 2**31 - 1),
    }


@pytest.mark.parametrize("dtype, bound", [("float16", 65504), ("bfloat16", 2**40), ("float64", 2**40)])
def test_default_bounds(dtype: str, bound: int) -> None:
    x = f32("x", 4, dtype=dtype)
    program = nv.from_te([x], [te.compute((4,), lambda i: x[i], name="o")], "p")
    assert program.assumptions == (Assumption("bounded", "x", bound, origin="default"),)


@pytest.mark.parametrize(
    "make, why",
    [
        (lambda: nv.bounded("x", -1.0), "bounded takes a finite number >= 0, got -1.0"),
        (lambda: nv.bounded("x", math.inf), "bounded takes a finite number >= 0, got inf"),
        (lambda: nv.at_least("x", math.nan), "at_least takes a finite number, got nan"),
        (lambda: nv.multiple_of("n", 0), "multiple_of takes an integer >= 1, got 0"),
    ],
)
def test_facts_without_meaning(make: Any, why: str) -> None:
    with pytest.raises(ValueError) as error:
        make()
    assert str(error.value) == why


# ---------------------------------------------------------------------------------------------- whole programs


def test_masked_softmax_attention() -> None:
    sq, sk = te.var("Sq"), te.var("Sk")
    q, k, v = f32("q", sq, 8), f32("k", sk, 8), f32("v", sk, 8)
    d = te.reduce_axis((0, 8), "d")
    js = [te.reduce_axis((0, sk), "j") for _ in range(3)]
    s = te.compute((sq, sk), lambda i, j: te.sum(q[i, d] * k[j, d], axis=d), name="s")
    mask = te.compute((sq, sk), lambda i, j: te.if_then_else(j <= i, s[i, j], nv.neg_inf("float32")), name="sm")
    m = te.compute((sq,), lambda i: te.max(mask[i, js[0]], axis=js[0]), name="m")
    e = te.compute((sq, sk), lambda i, j: te.exp(mask[i, j] - m[i]), name="e")
    total = te.compute((sq,), lambda i: te.sum(e[i, js[1]], axis=js[1]), name="l")
    o = te.compute((sq, 8), lambda i, c: te.sum(e[i, js[2]] / total[i] * v[js[2], c], axis=js[2]), name="o")
    qs, ks, vs = draw(5, 8), draw(7, 8), draw(7, 8)
    scores = np.where(np.arange(7)[None] <= np.arange(5)[:, None], qs @ ks.T, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    want = weights / weights.sum(1, keepdims=True) @ vs
    np.testing.assert_allclose(evaluate({q: qs, k: ks, v: vs}, o)[0], want)


def test_names_of_a_program_occur_once() -> None:
    x = f32("x", 4)
    stages = [x]
    for _ in range(5):
        stages.append(te.compute((4,), lambda i: stages[-1][i] + 1.0, name="h"))
    program = nv.from_te([x], [stages[-1]], "p")
    assert max(Counter(s.name for s in program.stages).values()) == 1

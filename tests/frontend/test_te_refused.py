"""What the te front end refuses: each message names the construct, the tensor and the line, and says a way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tvm import te, tirx

from neptune_verified.errors import UnsupportedProgram
from neptune_verified.frontend import te as nv
from neptune_verified.ir.program import Program

N, M = 4, 6


def refused(define: Callable[[Any], Any], construct: str, tensor: str, why: str, **options: Any) -> UnsupportedProgram:
    """``define`` takes x: [4, 6] fp32 and returns the outputs; the last te call of its source is the culprit's."""
    with nv.record_lines() as lines:
        x = te.placeholder((N, M), name="x")
        made = define(x)
        outputs = list(made) if isinstance(made, (tuple, list)) else [made]
    culprit = next((t for t in outputs if isinstance(t, te.Tensor) and t.op.name == tensor), None)
    with pytest.raises(UnsupportedProgram) as caught:
        nv.from_te([x], outputs, "p", **options)
    error, text = caught.value, str(caught.value)
    assert error.__cause__ is None and (error.__suppress_context__ or error.__context__ is None)
    assert (error.construct, error.tensor) == (construct, tensor)
    assert text.startswith(f"{construct} in {tensor} ({__file__}:") and why in text
    assert error.loc is not None and error.loc.line > 0
    if culprit is not None:
        assert error.loc == lines.of(culprit.op)
    return error


def mapped(body: Callable[..., Any], *shape: Any) -> Callable[[Any], Any]:
    return lambda x: te.compute(shape or (N,), lambda i: body(x, i), name="s")


SCALARS = {
    "tirx.atan": (lambda x, i: te.atan(x[i, 0]), "has no meaning in a definition"),
    "tirx.sinh": (lambda x, i: te.sinh(x[i, 0]), "has no meaning"),
    "tirx.tan": (lambda x, i: te.tan(x[i, 0]), "has no meaning"),
    "tirx.exp10": (lambda x, i: tirx.exp10(x(i, 0)), "has no meaning"),
    "tirx.fmod": (lambda x, i: te.fmod(x(i, 0), x(i, 1)), "has no meaning"),
    "tirx.hypot": (lambda x, i: tirx.hypot(x(i, 0), x(i, 1)), "has no meaning"),
    "tirx.copysign": (lambda x, i: tirx.copysign(x(i, 0), x(i, 1)), "has no meaning"),
    "tirx.ldexp": (lambda x, i: tirx.ldexp(x(i, 0), i), "has no meaning"),
    "tirx.nextafter": (lambda x, i: tirx.nextafter(x(i, 0), x(i, 1)), "has no meaning"),
    "tirx.reinterpret": (lambda x, i: tirx.reinterpret("int32", x(i, 0)), "has no meaning"),
    "tirx.call_extern": (lambda x, i: tirx.call_extern("float32", "f", x(i, 0)), "has no meaning"),
    "tirx.tvm_call_packed": (lambda x, i: tirx.call_packed("f", x(i, 0)), "has no meaning"),
    "tirx.popcount": (lambda x, i: te.popcount(i), "has no meaning"),
    "prim.clz": (lambda x, i: tirx.clz(i), "has no meaning"),
    "tirx.isnan": (lambda x, i: te.isnan(x[i, 0]), "cannot be tested for"),
    "literal NaN": (lambda x, i: x[i, 0] + tirx.const(float("nan"), "float32"), "select another value"),
    "tirx.LShift": (lambda x, i: x[i << 1, 0], "no meaning"),
    "tirx.RShift": (lambda x, i: x[i >> 1, 0], "no meaning"),
    "tirx.BitwiseAnd of int32": (lambda x, i: x[i & 3, 0], "use // and %"),
    "tirx.BitwiseNot of int32": (lambda x, i: x[~i, 0], "only a truth value"),
    "tirx.exp of int32": (lambda x, i: tirx.exp(i), "cast its argument first"),
    "type float8_e4m3fn": (lambda x, i: x[i, 0].astype("float8_e4m3fn"), "cast to one of them"),
    "type uint32": (lambda x, i: x[i, 0].astype("uint32"), "cast to one of them"),
    "tirx.Broadcast": (lambda x, i: tirx.Broadcast(x(i, 0), 4), "no meaning in a definition"),
    "add in int8": (lambda x, i: x[i, 0].astype("int8") + x[i, 1].astype("int8"), "cast both operands to int32"),
    "sub in uint8": (lambda x, i: x[i, 0].astype("uint8") - x[i, 1].astype("uint8"), "may wrap around"),
}


@pytest.mark.parametrize("construct", SCALARS)
def test_scalar_operations(construct: str) -> None:
    body, why = SCALARS[construct]
    refused(mapped(body), construct, "s", why)


def reducing(combine: Any, identity: Any, cast: str = "float32") -> Callable[[Any], Any]:
    def define(x: Any) -> Any:
        k = te.reduce_axis((0, M), "k")
        reducer = te.comm_reducer(combine, identity)
        return te.compute((N,), lambda i: reducer(x[i, k].astype(cast), axis=k), name="s")

    return define


def literal(value: float) -> Callable[[str], Any]:
    return lambda t: tirx.const(value, t)


REDUCERS = {
    "identity 1 of sum": (lambda a, b: a + b, literal(1), "the neutral element is 0"),
    "identity 0 of prod": (lambda a, b: a * b, literal(0), "the neutral element is 1"),
    "identity 0 of max": (lambda a, b: te.max(a, b), literal(0), "the neutral element is -inf"),
    "identity -1e+30 of max": (lambda a, b: te.max(a, b), literal(-1e30), "the neutral element is -inf"),
    "identity 0 of min": (lambda a, b: te.min(a, b), literal(0), "the neutral element is inf"),
    "identity -1e+30 of logaddexp": (lambda a, b: te.logaddexp(a, b), literal(-1e30), "the neutral element is -inf"),
    "combiner lambda a, b: a - b": (lambda a, b: a - b, literal(0), "no other combiner is known"),
    "combiner lambda a, b: (a + b) * 0.5": (lambda a, b: (a + b) * 0.5, literal(0), "no other combiner is known"),
    "combiner lambda a, b: a + b * 2.0": (lambda a, b: a + b * 2.0, literal(0), "no other combiner is known"),
    "combiner lambda a, b: a": (lambda a, b: a, literal(0), "no other combiner is known"),
    "combiner lambda a, b: max(fabs(a), b)": (lambda a, b: te.max(te.abs(a), b), literal(0), "no other combiner"),
}


@pytest.mark.parametrize("construct", REDUCERS)
def test_reducers(construct: str) -> None:
    combine, identity, why = REDUCERS[construct]
    with nv.record_lines():
        s = reducing(combine, identity)(te.placeholder((N, M), name="x"))
    with pytest.raises(UnsupportedProgram) as caught:
        nv.from_te(list(s.op.input_tensors), [s], "p")
    assert f" in s ({__file__}:" in str(caught.value) and why in str(caught.value)
    said = caught.value.construct.replace("float32(", "").replace(")", "")
    assert said == construct.replace(")", ""), said


NOT_LOGADDEXP = {
    "base 2": lambda a, b: tirx.log2(tirx.exp2(a) + tirx.exp2(b)),
    "difference": lambda a, b: te.log(te.exp(a) - te.exp(b)),
    "min for max": lambda a, b: te.min(a, b) + te.log(1.0 + te.exp(-te.abs(a - b))),
    "sign": lambda a, b: te.max(a, b) + te.log(1.0 + te.exp(te.abs(a - b))),
    "a constant": lambda a, b: te.max(a, b) + te.log(2.0 + te.exp(-te.abs(a - b))),
    "no absolute value": lambda a, b: te.max(a, b) + te.log(1.0 + te.exp(b - a)),
    "twice": lambda a, b: te.log(te.exp(a) + te.exp(a)),
    "three": lambda a, b: te.log(te.exp(a) + te.exp(b) + 1.0),
}


@pytest.mark.parametrize("spelling", NOT_LOGADDEXP)
def test_what_only_looks_like_logaddexp(spelling: str) -> None:
    s = reducing(NOT_LOGADDEXP[spelling], te.min_value)(te.placeholder((N, M), name="x"))
    with pytest.raises(UnsupportedProgram, match=r"combiner .* in s .*no other combiner is known"):
        nv.from_te(list(s.op.input_tensors), [s], "p")


def test_argmax() -> None:
    def combine(a: Any, b: Any) -> Any:
        return tirx.Select(a[1] >= b[1], a[0], b[0]), tirx.Select(a[1] >= b[1], a[1], b[1])

    argmax = te.comm_reducer(combine, lambda t0, t1: (tirx.const(-1, t0), te.min_value(t1)))

    def define(x: Any) -> Any:
        k = te.reduce_axis((0, M), "k")
        return te.compute((N,), lambda i: argmax((k.var, x[i, k]), axis=k), name="s")

    refused(define, "reducer over tuples of 2", "s", "no argmax")


def test_initial_value() -> None:
    def define(x: Any) -> Any:
        k = te.reduce_axis((0, M), "k")
        return te.compute((N,), lambda i: te.sum(x[i, k], axis=k, init=tirx.const(3.0, "float32")), name="s")

    refused(define, "init=", "s", "add the initial value in a stage after it")


def test_sum_that_may_wrap() -> None:
    def define(x: Any) -> Any:
        k = te.reduce_axis((0, M), "k")
        return te.compute((N,), lambda i: te.sum(x[i, k].astype("int8"), axis=k), name="s")

    with pytest.raises(UnsupportedProgram, match=r"in int8 in s \(.*cast (both operands|the term) to int32 first"):
        x = te.placeholder((N, M), name="x")
        nv.from_te([x], [define(x)], "p")


def test_ragged_range() -> None:
    def body(x: Any, i: Any) -> Any:
        k = te.reduce_axis((0, i + 1), "k")
        return te.sum(x[i, k], axis=k)

    refused(mapped(body), "range of axis k", "s", "where=")


def test_range_read_from_a_tensor() -> None:
    def define(x: Any) -> Any:
        k = te.reduce_axis((0, x(0, 0).astype("int32")), "k")
        return te.compute((N,), lambda i: te.sum(x[i, k], axis=k), name="s")

    refused(define, "read of x", "s", "a shape depends on lengths alone")


def test_axis_of_no_reduction() -> None:
    def define(x: Any) -> Any:
        k = te.reduce_axis((0, M), "k")
        return te.compute((N,), lambda i: x[i, k], name="s")

    refused(define, "axis k", "s", "reduce over it")


def test_axis_of_another_reduction_without_recorded_lines() -> None:
    x = te.placeholder((N, M), name="x")
    k = te.reduce_axis((0, M), "k")
    a = te.compute((N,), lambda i: te.sum(x[i, k], axis=k), name="a")
    s = te.compute((N,), lambda i: a[i] + x[i, k], name="s")
    with pytest.raises(UnsupportedProgram, match=r"axis k in s \("):
        nv.from_te([x], [s], "p")


def test_axis_given_twice() -> None:
    def define(x: Any) -> Any:
        k = te.reduce_axis((0, M), "k")
        return te.compute((N,), lambda i: te.sum(x[i, k], axis=[k, k]), name="s")

    refused(define, "axis given twice", "s", "list each reduction axis once")


def test_float_index() -> None:
    x = te.placeholder((N, M), name="x")
    with pytest.raises(Exception):  # noqa: B017 - te refuses it by itself; if it ever does not, we do
        nv.from_te([x], [te.compute((N,), lambda i: x[x[i, 0], 0], name="s")], "p")


def test_let_bound_twice() -> None:
    v = tirx.Var("v", "float32")
    body = lambda x, i: tirx.Let(v, x(i, 0), v * v) + tirx.Let(v, x(i, 1), v * v)  # noqa: E731
    refused(mapped(body), "tirx.Let of v", "s", "give each Let its own variable")


def test_extern() -> None:
    def define(x: Any) -> Any:
        return te.extern((N, M), [x], lambda ins, outs: tirx.call_packed("f", ins[0], outs[0]), name="s")

    try:
        refused(define, "te.extern", "s", "only te.compute has a meaning here")
    except TypeError:
        pytest.skip("te.extern cannot be built in this TVM")


def test_scan() -> None:
    def define(x: Any) -> Any:
        state = te.placeholder((N, M), name="state")
        start = te.compute((1, M), lambda _, j: x[0, j], name="start")
        step = te.compute((N, M), lambda t, j: state[t - 1, j] + x[t, j], name="step")
        return te.scan(start, step, state, inputs=[x], name="s")

    refused(define, "te.scan", "s", "only te.compute has a meaning here")


def test_placeholder_that_is_not_an_input() -> None:
    def define(x: Any) -> Any:
        w = te.placeholder((N,), name="w")
        return te.compute((N,), lambda i: x[i, 0] * w[i], name="s")

    refused(define, "placeholder that is not an input", "w", "list it in inputs")


def test_output_that_is_a_placeholder() -> None:
    refused(lambda x: x, "outputs[0] is a placeholder", "x", "copy it with te.compute")


def test_output_given_twice() -> None:
    def define(x: Any) -> Any:
        s = te.compute((N,), lambda i: x[i, 0], name="s")
        return [s, s]

    refused(define, "outputs[1] given twice", "s", "list each tensor once")


def test_arguments() -> None:
    x, n = te.placeholder((N,), name="x"), te.var("n")
    s = te.compute((N,), lambda i: x[i], name="s")
    for inputs, outputs, text in (
        ([x], [], "no outputs in p (unknown line): list the tensors that the kernel returns"),
        ([x, x], [s], "inputs[1] given twice in x (unknown line): list each tensor once"),
        ([s], [s], "inputs[0] is computed in s (unknown line): an input must be a te.placeholder"),
        ([x, n], [s], "Var as inputs[1] in p (unknown line): it must be a te tensor"),
        ([x], ["s"], "str as outputs[0] in p (unknown line): it must be a te tensor"),
    ):
        with pytest.raises(UnsupportedProgram) as caught:
            nv.from_te(inputs, outputs, "p", lines=nv.Lines())
        assert str(caught.value).startswith(text)
    with pytest.raises(ValueError, match='min_value is "mask" or "finite"'):
        nv.from_te([x], [s], "p", min_value="minus")


def inputs_refused(shape: tuple[Any, ...], dtype: str, construct: str, why: str) -> None:
    with nv.record_lines():
        x = te.placeholder(shape, name="x", dtype=dtype)
        s = te.compute((N,), lambda i: tirx.const(1.0, "float32"), name="s")
    with pytest.raises(UnsupportedProgram) as caught:
        nv.from_te([x], [s], "p")
    assert str(caught.value).startswith(f"{construct} in x ({__file__}:") and why in str(caught.value)


def test_types_of_inputs() -> None:
    inputs_refused((N,), "float8_e4m3fn", "type float8_e4m3fn", "the types of inputs are")
    inputs_refused((N,), "uint64", "type uint64", "the types of inputs are")
    inputs_refused((N,), "float32x4", "type float32x4", "the types of inputs are")


def test_length_that_no_shape_gives_by_itself() -> None:
    n = te.var("n")
    inputs_refused((n * 2,), "float32", "arithmetic in shape[0]", "n must stand alone in the shape of some input")
    inputs_refused((N, n // 4 + 1), "float32", "arithmetic in shape[1]", "n must stand alone")


@pytest.mark.parametrize(
    "fact, construct, tensor, why",
    [
        (lambda x, n, s: nv.bounded(s, 1), "assumption bounded", "s", "about the inputs and about the lengths"),
        (lambda x, n, s: nv.positive(te.var("other")), "assumption positive", "other", "that the program uses"),
        (lambda x, n, s: nv.at_least(n + 1, 2), "assumption at_least", "Add", "about the inputs"),
        (lambda x, n, s: nv.multiple_of(x, 2), "assumption multiple_of", "x", "only a length"),
        (lambda x, n, s: nv.finite_or_minus_infinity(n), "assumption finite_or_minus_infinity", "n", "no infinity"),
        (lambda x, n, s: "N >= 1", "str in assume", "p", "facts are made by nv.bounded"),
    ],
)
def test_assumptions(fact: Any, construct: str, tensor: str, why: str) -> None:
    n = te.var("n")
    x = te.placeholder((n,), name="x")
    s = te.compute((n,), lambda i: x[i], name="s")
    with pytest.raises(UnsupportedProgram) as caught:
        nv.from_te([x], [s], "p", assume=[fact(x, n, s)])
    assert (caught.value.construct, caught.value.tensor) == (construct, tensor) and why in str(caught.value)


def test_an_expression_too_deep_for_python_is_no_traceback() -> None:
    def body(x: Any, i: Any) -> Any:
        e = x(i, 0)
        for _ in range(3000):
            e = e * x(i, 1)
        return e

    x = te.placeholder((N, M), name="x")
    s = te.compute((N,), lambda i: body(x, i), name="s")
    with pytest.raises(UnsupportedProgram, match=r"expression nested too deeply in p .*split it into several stages"):
        nv.from_te([x], [s], "p")


def test_no_traceback_of_tvm(monkeypatch: pytest.MonkeyPatch) -> None:
    from neptune_verified.frontend import reading

    def broken(*_: Any) -> Program:
        raise RuntimeError("Check failed: (x) is false: something\n  in C++")

    monkeypatch.setattr(reading.Reading, "program", broken)
    with pytest.raises(UnsupportedProgram) as caught:
        nv.from_te([], [], "p")
    assert "RuntimeError: Check failed: (x) is false: something)" in str(caught.value)
    assert caught.value.__suppress_context__ and "C++" not in str(caught.value)

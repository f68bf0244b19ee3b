"""The front end's self check: right readings pass, wrong ones are refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tvm import te, tirx

from neptune_verified.errors import UnsupportedProgram
from neptune_verified.frontend import te as nv
from neptune_verified.ir.expr import Expr, Op, Read, Reduce, const, op, read, reduce_, transform
from neptune_verified.ir.program import Program


def softmax() -> tuple[list[Any], list[Any]]:
    n, k = te.var("N"), te.var("K")
    x = te.placeholder((n, k), name="x")
    js = [te.reduce_axis((0, k), "j") for _ in range(2)]
    m = te.compute((n,), lambda i: te.max(x[i, js[0]], axis=js[0]), name="m")
    total = te.compute((n,), lambda i: te.sum(te.exp(x[i, js[1]] - m[i]), axis=js[1]), name="l")
    o = te.compute((n, k), lambda i, j: te.exp(x[i, j] - m[i]) / total[i], name="o")
    return [x], [o]


def rewritten(program: Program, stage: str, fn: Callable[[Expr], Expr | None]) -> Program:
    stages = tuple(replace(s, body=transform(s.body, fn)) if s.name == stage else s for s in program.stages)
    assert stages != program.stages, "the mutant must differ"
    return replace(program, stages=stages)


def renamed(old: str, new: str) -> Callable[[Expr], Expr | None]:
    return lambda e: op(new, *e.args) if isinstance(e, Op) and e.name == old else None


def swapped(e: Expr) -> Expr | None:
    return op(e.name, e.args[1], e.args[0]) if isinstance(e, Op) and e.name in ("sub", "div") else None


def other_reducer(name: str) -> Callable[[Expr], Expr | None]:
    def fn(e: Expr) -> Expr | None:
        return reduce_(name, e.axes, e.body) if isinstance(e, Reduce) else None

    return fn


M0 = read("m", [const(0, "int32")], "float32")
MUTANTS: dict[str, tuple[str, Callable[[Expr], Expr | None]]] = {
    "exp2 for exp": ("o", renamed("exp", "exp2")),
    "operands swapped": ("o", swapped),
    "mul for div": ("o", renamed("div", "mul")),
    "min for max": ("m", other_reducer("min")),
    "max for sum": ("l", other_reducer("max")),
    "no exp": ("l", lambda e: e.args[0] if isinstance(e, Op) and e.name == "exp" else None),
    "index": ("o", lambda e: M0 if isinstance(e, Read) and e.tensor == "m" else None),
}


def test_a_right_reading_passes_quickly() -> None:
    inputs, outputs = softmax()
    program = nv.from_te(inputs, outputs, "softmax")
    start = time.perf_counter()
    text = nv.check_reading(program, outputs, inputs)
    assert time.perf_counter() - start < 2
    assert text.startswith("agrees with TVM on ") and text.endswith("elements of its stages, in 3 sets of shapes")


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_reading_is_refused(mutant: str) -> None:
    inputs, outputs = softmax()
    program = rewritten(nv.from_te(inputs, outputs, "softmax"), *MUTANTS[mutant])
    pattern = r"front end and TVM disagree, [mlo]\[.*\] is .* as read and .* in TVM at N = "
    with pytest.raises(UnsupportedProgram, match=pattern):
        nv.check_reading(program, outputs, inputs)


def test_other_tensors_are_refused() -> None:
    inputs, outputs = softmax()
    program = nv.from_te(inputs, outputs, "softmax")
    x = te.placeholder((4,), name="x")
    with pytest.raises(UnsupportedProgram, match="not the tensors that the program was read from"):
        nv.check_reading(program, [te.compute((4,), lambda i: x[i], name="o")], [x])


def test_conditions_of_reductions_are_compared_although_tvm_ignores_them() -> None:
    n = te.var("N")
    x, k = te.placeholder((n, n), name="x"), te.reduce_axis((1, n), "k")
    s = te.compute((n,), lambda i: te.sum(x[i, k], axis=k, where=k <= i), name="s")
    program = nv.from_te([x], [s], "p")
    assert nv.check_reading(program, [s], [x]).endswith("where= was compared by itself, because TVM ignores it")
    wrong = rewritten(program, "s", lambda e: op("lt", *e.args) if isinstance(e, Op) and e.name == "le" else None)
    with pytest.raises(UnsupportedProgram, match="not the tensors"):
        nv.check_reading(wrong, [s], [x])


def test_a_condition_that_is_never_true() -> None:
    x, k = te.placeholder((4,), name="x"), te.reduce_axis((0, 4), "k")
    s = te.compute((), lambda: te.sum(x[k], axis=k, where=tirx.const(False, "bool")), name="s")
    assert "where= was compared by itself" in nv.check_reading(nv.from_te([x], [s], "p"), [s], [x])


def test_declared_facts_are_respected() -> None:
    n = te.var("N")
    x, y = te.placeholder((n,), name="x"), te.placeholder((n,), name="y")
    s = te.compute((n,), lambda i: te.sqrt(x[i]) + te.log(y[i]) + x[n - 16], name="s")
    facts = [nv.multiple_of(n, 16), nv.at_least(n, 20), nv.at_least(x, 2), nv.positive(y)]
    text = nv.check_reading(nv.from_te([x, y], [s], "p", assume=facts), [s], [x, y])
    count = text.removeprefix("agrees with TVM on ").split(" ")[0]
    assert f"{count} of {count} elements" in text


def test_what_tvm_cannot_build_is_said() -> None:
    x = te.placeholder((4,), name="x", dtype="float16")
    s = te.compute((4,), lambda i: te.erf(x[i]), name="s")
    assert nv.check_reading(nv.from_te([x], [s], "p"), [s], [x]).startswith("not compared with TVM: it could not build")


def test_reads_far_outside_are_not_run() -> None:
    x = te.placeholder((4,), name="x")
    s = te.compute((4,), lambda i: te.if_then_else(i < 9, x[i % 4], x[i + 100_000_000]), name="s")
    t = te.compute((4,), lambda i: tirx.Select(i < 9, x(i), x(i + 100_000_000)), name="t")
    for o in (s, t):
        text = nv.check_reading(nv.from_te([x], [o], "p"), [o], [x])
        assert text == f"not compared with TVM: stage {o.op.name} reads x far outside of it" or text.startswith(
            "agrees"
        )


def test_what_is_always_undefined_is_said() -> None:
    x = te.placeholder((4,), name="x")
    s = te.compute((4,), lambda i: te.log(-1.0 - x[i] * x[i]), name="s")
    text = nv.check_reading(nv.from_te([x], [s], "p"), [s], [x])
    assert text == "not compared with TVM: every value of the definition was undefined or infinite"


def test_large_programs_are_not_run() -> None:
    x = te.placeholder((1024, 1024), name="x")
    s = te.compute((1024, 1024), lambda i, j: x[i, j] * 2.0, name="s")
    text = nv.check_reading(nv.from_te([x], [s], "p"), [s], [x])
    assert text == "not compared with TVM: its tensors are too large, or a range is empty"


def test_a_mask_that_matters_is_explained() -> None:
    x = te.placeholder((4,), name="x")
    m = te.compute((4,), lambda i: te.if_then_else(i < 2, x[i], te.min_value("float32")), name="m")
    s = te.compute((4,), lambda i: te.if_then_else(m[i] > nv.neg_inf("float32"), 1.0, 2.0), name="s")
    with pytest.raises(UnsupportedProgram, match=r"disagree.*read as -inf: where that matters, write nv.neg_inf"):
        nv.check_reading(nv.from_te([x], [s], "p"), [s], [x])
    program = nv.from_te([x], [s], "p", min_value="finite")
    assert nv.check_reading(program, [s], [x]).startswith("agrees")

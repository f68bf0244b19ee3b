"""Values in float64 against the interpreter; bounds against perturbed arguments and against the definition's types."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neptune_verified.auditing import exact_ops
from neptune_verified.auditing.accumulation import Accumulation
from neptune_verified.auditing.evaluate import Evaluator, Value
from neptune_verified.auditing.exact import Exact
from neptune_verified.auditing.formats import FORMATS, ROUNDINGS
from neptune_verified.auditing.parts import outputs
from neptune_verified.auditing.typed import Typed, torch_type
from neptune_verified.frontend.te import from_te
from neptune_verified.ir.expr import FLOATS, Op, op, var
from neptune_verified.ir.interpret import MEANING, run_program, size_env
from neptune_verified.ir.program import Program
from tests.accepted.harness import Arrays, scenarios
from tests.accepted.programs import CASES

CPU = torch.device("cpu")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@cache
def program(name: str) -> Program:
    graph = CASES[name].graph()
    return from_te(graph.inputs, graph.outputs, name=name, assume=graph.facts)


def drawn(name: str, M: int, N: int) -> Iterator[tuple[Arrays, dict[str, int | float], dict[str, float]]]:
    """Arrays, all sizes, and the scalars among them."""
    case, p = CASES[name], program(name)
    lengths = {"M": M, "N": N, **case.sizes}
    for _, arrays in scenarios(p, lengths, case.draws):
        scalars = {s.name: 0.75 if s.dtype in FLOATS else 2 for s in p.sizes if s.name not in p.shape_sizes()}
        scalars |= {k: v for k, v in lengths.items() if k in scalars}
        yield arrays, size_env(p, {k: x.shape for k, x in arrays.items()}, scalars), scalars


def tensors(p: Program, arrays: Arrays) -> dict[str, torch.Tensor]:
    return {t.name: torch.as_tensor(arrays[t.name]).to(torch_type(t.dtype)) for t in p.inputs}


@pytest.mark.parametrize(("limit", "M", "N"), [(1 << 30, 3, 21), (40, 5, 7), (40, 1, 1), (40, 4, 0)])
@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_the_interpreter(name: str, limit: int, M: int, N: int) -> None:
    p = program(name)
    for arrays, sizes, scalars in drawn(name, M, N):
        want = run_program(p, arrays, scalars)
        found = outputs(Evaluator(p, tensors(p, arrays), sizes, Exact(p, sizes, CPU, Accumulation())), limit)
        for output, value in found.items():
            np.testing.assert_allclose(value.x.numpy(), want[output], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_the_definition_in_its_own_types_is_within_its_bound(name: str) -> None:
    p = program(name)
    for arrays, sizes, _ in drawn(name, 3, 40):
        given = tensors(p, arrays)
        exact = outputs(Evaluator(p, given, sizes, Exact(p, sizes, CPU, Accumulation())), 1 << 30)
        typed = outputs(Evaluator(p, given, sizes, Typed(CPU)), 1 << 30)
        for output, value in exact.items():
            want = value.x.double()
            bound = torch.zeros_like(want) if value.d is None else value.d
            have = typed[output].x.double()
            claimed = want.isfinite() & bound.isfinite()
            assert bool(((have - want).abs()[claimed] <= bound[claimed]).all()), output
            infinite = want.isinf() & bound.isfinite()
            assert torch.equal(have[infinite], want[infinite])


# ---------------------------------------------------------------------------------------------- single operations

UNARY = ("exp", "exp2", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "sin", "cos", "erf")
UNARY += ("neg", "abs", "floor", "ceil", "round")
BINARY = ("add", "sub", "mul", "div", "max", "min", "pow", "floordiv", "floormod")
small = st.floats(-8, 8).filter(lambda x: x == 0 or abs(x) > 1e-3)
errors = st.sampled_from([0.0, 1e-9, 1e-5, 1e-3, 0.1, 1.0])


def applied(name: str, xs: list[float], ds: list[float]) -> tuple[float, float]:
    """The value of an operation, and the part of its bound that comes from its arguments."""
    e = op(name, *(var(f"x{k}") for k in range(len(xs))))
    assert isinstance(e, Op)
    args = [Value(torch.tensor(x, dtype=torch.float64), torch.tensor(d, dtype=torch.float64)) for x, d in zip(xs, ds)]
    x, d, _ = exact_ops.apply(e, args, {})
    assert d is not None
    return float(x), float(d)


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_no_perturbation_of_the_arguments_goes_beyond_the_bound(name: str, data: Any) -> None:
    many = 1 if name in UNARY else 2
    xs, ds = data.draw(st.tuples(*[small] * many)), data.draw(st.tuples(*[errors] * many))
    value, bound = applied(name, list(xs), list(ds))
    with np.errstate(all="ignore"):
        want = float(MEANING[name](*(np.float64(x) for x in xs)))
        assert value == pytest.approx(want, rel=1e-12, abs=1e-300, nan_ok=True)
        if not math.isfinite(want) or not bound < math.inf:
            return
        for share in data.draw(st.lists(st.tuples(*[st.floats(-1, 1)] * many), min_size=1, max_size=4)):
            moved = float(MEANING[name](*(np.float64(x + d * s) for x, d, s in zip(xs, ds, share, strict=True))))
            assert abs(moved - want) <= bound * (1 + 1e-9) + 1e-12 * abs(want) + 1e-14, (xs, ds, share)


def test_what_a_function_needs_must_be_certain() -> None:
    for name, x in (("log", [1e-3]), ("rsqrt", [1e-3]), ("div", [1.0, 1e-3]), ("sqrt", [1e-3])):
        assert applied(name, x, [0.0] * (len(x) - 1) + [0.1])[1] == math.inf
        assert applied(name, x, [0.0] * (len(x) - 1) + [1e-6])[1] < 2


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "sin", "cos", "div", "pow"])
def test_float32_functions_are_as_exact_as_it_is_said(name: str) -> None:
    g = torch.Generator().manual_seed(0)
    x = torch.rand(20_000, generator=g) * 20 + 1e-3
    x = x if name in ("log", "sqrt", "rsqrt", "pow") else x - 10
    y = torch.rand(20_000, generator=g) * 4 + 0.1
    args = (x, y) if name in ("div", "pow") else (x,)
    have = {"div": torch.div, "pow": torch.pow}.get(name, getattr(torch, name))(*args)
    e = op(name, *(var(f"x{k}") for k in range(len(args))))
    assert isinstance(e, Op)
    want, _, roundings = exact_ops.apply(e, [Value(a.double()) for a in args], {})
    assert roundings is not None and ROUNDINGS[name] > 0
    limit = torch.as_tensor(roundings) * FORMATS["float32"].roundoff * want.abs() + 1e-37
    assert bool(((have.double() - want).abs() <= limit).all())


def test_comparisons_and_choices_that_depend_on_rounding() -> None:
    assert applied("lt", [1.0, 1.05], [0.1, 0.0]) == (1.0, 1.0)
    assert applied("lt", [1.0, 1.2], [0.1, 0.0]) == (1.0, 0.0)
    assert applied("eq", [-math.inf, -math.inf], [0.0, 0.0]) == (1.0, 0.0)
    e = op("select", var("c", "bool"), var("x"), var("y"))
    assert isinstance(e, Op)

    def chosen(unsure: float) -> tuple[float, float]:
        args = [Value(torch.tensor(v, dtype=torch.float64), torch.tensor(d, dtype=torch.float64))
                for v, d in ((1.0, unsure), (2.0, 0.25), (5.0, 0.5))]  # fmt: skip
        x, d, _ = exact_ops.apply(e, args, {})
        assert d is not None
        return float(x), float(d)

    assert chosen(0.0) == (2.0, 0.25)
    assert chosen(1.0) == (2.0, 3.5), "the other branch, and its error"

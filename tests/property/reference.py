"""What a definition's value is, and how far rounding may move it.

The value is that of ``run_program``: float64, stage by stage, unfused. How far float32 arithmetic may be from it is
measured on the same definition: every operation's result is moved by up to its type's unit roundoff, at random, and
each reduction by what its depth of additions may lose; the largest change of the output over a few such runs is the
size of a rounding error there. In one more run every result is rounded to its type, which shows what underflows. An
output that is ill-conditioned moves far and is judged loosely, one that is not hardly moves and is judged sharply.
Values that leave the range of their type (where the definition promises nothing) become undefined in these runs, and an
output that is undefined, or not finite in one of them and finite in another, is not compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from neptune_verified.ir.expr import FLOATS, Const, Expr, Op, Read, Reduce
from neptune_verified.ir.interpret import Evaluator, Frame, reduce_array, run_program, size_env
from neptune_verified.ir.program import Program

Array = NDArray[Any]
Arrays = Mapping[str, Array]

#: Unit roundoff, least subnormal, greatest number. Triton's interpreter cuts off the digits of a bfloat16, which is twice
#: the error of rounding.
TYPES = {
    "float16": (2.0**-11, 2.0**-24, 65504.0),
    "bfloat16": (2.0**-7, 2.0**-133, 3.3895313892515355e38),
    "float32": (2.0**-24, 2.0**-149, 3.4028234663852886e38),
    "float64": (2.0**-53, 2.0**-1074, 1.7976931348623157e308),
}
#: Runs with moved values, and how many times the largest change an error may be.
RUNS, FACTOR = 6, 16.0
#: Elements that a tile takes in at a time: a reduction's depth of additions is log2 of it, and one more for each tile.
TILE = 64


class Moved(Evaluator):
    """Evaluates with every float result moved by a rounding error of its type; out of range is undefined.

    ``rng``: None rounds to the type instead. ``narrow``: the type to which the compiler rounds operands of a matrix product,
    and so the roundoff of products."""

    def __init__(
        self, tensors: Arrays, sizes: Mapping[str, Any], rng: np.random.Generator | None, narrow: str = ""
    ) -> None:
        super().__init__(tensors, sizes)
        self.rng, self.narrow = rng, narrow
        self.underflows = False

    def _moved(self, value: Array, noise: Array, dtype: str) -> Array:
        if self.rng is None:
            normal = TYPES[dtype][1] / TYPES[dtype][0]
            self.underflows |= bool(np.any((value != 0) & (np.abs(value) < normal)))
            return rounded(value, dtype)
        moved = self.rng.uniform(-1.0, 1.0, np.shape(value)) * np.where(np.isfinite(value), noise, 0.0)
        return np.asarray(value + moved)

    def _eval(self, e: Expr, frame: Frame) -> Array:
        if isinstance(e, Reduce) and e.dtype in FLOATS:
            return self._reduced(e, frame)
        value = super()._eval(e, frame)
        if e.dtype not in FLOATS or isinstance(e, Const | Read):
            return value
        if not isinstance(e, Op) or e.name in ("select", "neg", "abs", "max", "min"):
            return value
        roundoff, least, greatest = TYPES[e.dtype]
        if e.name == "mul" and self.narrow:
            roundoff, least = TYPES[self.narrow][:2]
        if e.name in ("exp", "exp2", "log", "tanh", "sigmoid", "erf", "sin", "cos", "pow", "rsqrt"):
            roundoff *= 2
        arguments = [self.eval(a, frame) for a in e.args]
        infinite = np.isinf(value)
        if infinite.any():
            # An infinity of finite numbers is an overflow, but for the logarithm of 0.
            made = infinite & np.logical_and.reduce([np.broadcast_to(np.isfinite(a), value.shape) for a in arguments])
            if e.name == "log":
                made &= arguments[0] != 0
            value = np.where(made, np.nan, value)
        value = np.where(np.isfinite(value) & (np.abs(value) > greatest), np.nan, value)
        if e.name == "cast" and all(a.dtype == e.dtype for a in e.args):
            return value
        return self._moved(value, np.abs(np.nan_to_num(value)) * roundoff + least, e.dtype)

    def _reduced(self, e: Reduce, frame: Frame) -> Array:
        roundoff, least, greatest = TYPES[e.dtype]
        inner = self.whole(e.axes, frame)
        body = self.eval(e.body, inner)
        full = tuple(len(v) for v in inner.values)
        body = np.broadcast_to(body, full)
        dims = tuple(range(len(frame.axes), len(full)))
        value = reduce_array(e.reducer, body, dims, e.body.dtype)
        n = math.prod(full[len(frame.axes) :])
        depth = math.log2(min(n, TILE) + 1) + n / TILE + 2
        finite = np.isfinite(body)
        size = np.abs(np.where(finite, body, 0.0))
        if e.reducer == "sum":
            # Every part of the domain has to be in range, and an addition loses of what was added up so far.
            size = np.asarray(np.sum(size, axis=dims))
            value = np.where(size > greatest, np.nan, value)
        elif e.reducer == "prod":
            large = np.asarray(np.sum(np.log(np.maximum(size, 1.0)), axis=dims))
            small = np.asarray(np.sum(np.log(np.clip(size, 1e-300, 1.0)), axis=dims))
            outside = (large > math.log(greatest)) | ((small < math.log(least)) & (value != 0))
            value, depth = np.where(outside, np.nan, value), n + 2.0
            size = np.abs(value)
        else:
            size = np.abs(value)  # a repair multiplies it, or shifts it by what the elements so far had
        return self._moved(value, np.nan_to_num(size, posinf=0.0) * roundoff * depth + least * (n + 1), e.dtype)


def rounded(value: Array, dtype: str) -> Array:
    """``value`` to the nearest number of the type, subnormal ones included."""
    if dtype == "bfloat16":
        return np.asarray(torch.tensor(np.asarray(value, np.float32)).to(torch.bfloat16).double().numpy())
    return np.asarray(np.asarray(value).astype(dtype).astype(np.float64))


@dataclass(frozen=True)
class Wanted:
    """The definition's value, and the error that rounding may make; NaN in ``error`` where nothing is compared.

    ``underflows``: some value of the definition is too small for its type, in this output or another."""

    value: Array
    error: Array
    underflows: bool = False


def _moved(
    program: Program, inputs: Arrays, scalars: Mapping[str, Any], seed: int | None, narrow: str
) -> tuple[dict[str, Array], bool]:
    env = size_env(program, {k: np.shape(v) for k, v in inputs.items()}, scalars)
    rng = None if seed is None else np.random.default_rng(seed)
    evaluator = Moved(inputs, env, rng, narrow)
    for stage in program.stages:
        frame = evaluator.whole(stage.axes)
        value = evaluator.eval(stage.body, frame)
        full = tuple(len(v) for v in frame.values)
        evaluator.tensors[stage.name] = np.array(np.broadcast_to(value, full))
    return {name: evaluator.tensors[name] for name in program.outputs}, evaluator.underflows


def wanted(
    program: Program, inputs: Arrays, scalars: Mapping[str, Any] | None = None, narrow: str = ""
) -> dict[str, Wanted]:
    """Every output by name. ``narrow``: a 16-bit type to which the compiler may round factors."""
    with np.errstate(all="ignore"):
        values = run_program(program, inputs, scalars)
        runs = [_moved(program, inputs, scalars or {}, seed, narrow) for seed in (None, *range(RUNS))]
        found = {}
        for name, value in values.items():
            least = TYPES[program.stage(name).dtype][1] if program.stage(name).dtype in TYPES else 0.0
            error = np.zeros(value.shape)
            for run, _ in runs:
                same = (value == run[name]) | (np.isfinite(value) & np.isfinite(run[name]))
                change = np.where(value == run[name], 0.0, np.abs(value - run[name]))
                error = np.maximum(error, np.where(same, change, np.nan))
            found[name] = Wanted(value, FACTOR * error + least, runs[0][1])
    return found


def fault(got: Array, want: Wanted) -> str:
    """The first difference that rounding does not explain, as text; "" if there is none."""
    if got.shape != want.value.shape:
        return f"shape {got.shape} instead of {want.value.shape}"
    judged = ~np.isnan(want.value) & ~np.isnan(want.error)
    with np.errstate(all="ignore"):
        right = np.where(np.isfinite(want.value), np.abs(got - want.value) <= want.error, got == want.value)
    wrong = np.argwhere(judged & ~right)
    if not len(wrong):
        return ""
    k = tuple(int(n) for n in wrong[0])
    return (
        f"[{', '.join(map(str, k))}] is {got[k]:.9g} instead of {want.value[k]:.9g} +- {want.error[k]:.2g}, "
        f"as are {len(wrong) - 1} more of {want.value.size}"
    )


def lost_to_underflow(got: Array, want: Wanted) -> bool:
    """Everything that is wrong is as good as 0, and values of the definition underflow: a product that is taken in another
    order, a factor of a repair far below 1. docs/limitations.md says that this is not looked at. NaN and infinities are
    never lost to underflow."""
    finite = np.isfinite(want.value) & ~np.isnan(want.error)
    with np.errstate(all="ignore"):
        wrong = finite & ~(np.abs(got - want.value) <= want.error)
        zero = np.isfinite(got) & (np.abs(got) < TYPES["float32"][1] / TYPES["float32"][0])
    return want.underflows and not np.any(wrong & ~zero)


def judged(want: Wanted) -> int:
    """How many elements are compared."""
    return int(np.sum(~np.isnan(want.value) & ~np.isnan(want.error)))

"""Trusted: what an expression and a program mean, executed in float64 with numpy.

This file is the reference for everything else; read it beside the head of ``expr.py``. Representation: floats are
float64 arrays in which NaN stands for *undefined*; integers are int64 arrays; truth values are float64 arrays of 0 and
1, again with NaN for undefined, so that an undefined condition stays visible. An array has one dimension per axis of
its frame (size 1 where the value does not depend on that axis), a scalar expression none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neptune_verified.ir.expr import INTS, REDUCERS, Axis, Const, Expr, Op, Read, Reduce, Size, Var
from neptune_verified.ir.program import Program

Array = NDArray[Any]
UNDEFINED = float("nan")


class Frame:
    """One dimension per axis; ``values`` holds the indices that each axis takes (a slice of its range, or all of it)."""

    def __init__(self, axes: tuple[Axis, ...], values: tuple[Array, ...], outer: Frame | None = None) -> None:
        self.axes, self.values, self.outer = axes, values, outer
        self.memo: dict[Expr, Array] = {}

    def index(self, a: Axis) -> Array:
        position = self.axes.index(a)
        shape = [1] * len(self.axes)
        shape[position] = -1
        return self.values[position].reshape(shape)

    def extended(self, axes: tuple[Axis, ...], values: tuple[Array, ...]) -> Frame:
        return Frame(self.axes + axes, self.values + values, outer=self)


class Evaluator:
    """Evaluates expressions given input arrays, sizes, and the values of carried variables."""

    def __init__(self, tensors: Mapping[str, Array], sizes: Mapping[str, int | float]) -> None:
        self.tensors = {name: canonical(value) for name, value in tensors.items()}
        self.sizes = sizes
        self.vars: dict[str, Array] = {}

    def integer(self, e: Expr) -> int:
        """The value of a closed integer expression (an extent)."""
        return int(self.eval(e, Frame((), ())))

    def whole(self, axes: tuple[Axis, ...], outer: Frame | None = None) -> Frame:
        values = tuple(np.arange(max(0, self.integer(a.extent)), dtype=np.int64) for a in axes)
        return Frame(axes, values) if outer is None else outer.extended(axes, values)

    def eval(self, e: Expr, frame: Frame) -> Array:
        if e in frame.memo:
            return frame.memo[e]
        outer = frame.outer
        if outer is not None and not (e.free & set(frame.axes[len(outer.axes) :])) and not isinstance(e, Var):
            value = self.eval(e, outer)
            value = value.reshape(value.shape + (1,) * (len(frame.axes) - value.ndim)) if value.ndim else value
        else:
            with np.errstate(all="ignore"):
                value = self._eval(e, frame)
        frame.memo[e] = value
        return value

    def _eval(self, e: Expr, frame: Frame) -> Array:
        match e:
            case Const(number, dtype):
                return literal(number, dtype)
            case Size(name, dtype):
                return np.asarray(self.sizes[name], dtype=np.int64 if dtype in INTS else np.float64)
            case Axis():
                return frame.index(e)
            case Var(name):
                value = self.vars[name]
                return value.reshape(value.shape + (1,) * (len(frame.axes) - value.ndim)) if value.ndim else value
            case Read(tensor, indices):
                return gather(self.tensors[tensor], [self.eval(i, frame) for i in indices])
            case Op(name, args, dtype):
                values = [self.eval(a, frame) for a in args]
                if name == "cast":
                    return cast_(values[0], args[0].dtype, dtype)
                return INTEGER_OPS[name](*values) if integer_op(name, args) else MEANING[name](*values)
            case Reduce(reducer, axes, body):
                inner = self.whole(axes, frame)
                value = self.eval(body, inner)
                value = np.broadcast_to(value, _shape(value, inner, len(axes)))
                dims = tuple(range(len(frame.axes), len(inner.axes)))
                return reduce_array(reducer, value, dims, body.dtype)
            case _:
                raise TypeError(f"no meaning for {type(e).__name__}")


def _shape(value: Array, frame: Frame, reduced: int) -> tuple[int, ...]:
    """The shape of ``value`` with its last ``reduced`` dimensions stretched to their full extent."""
    own = value.shape if value.ndim else (1,) * len(frame.axes)
    full = tuple(len(v) for v in frame.values)
    keep = len(full) - reduced
    return own[:keep] + full[keep:]


def canonical(x: Array) -> Array:
    """float64, int64, or float64 truth values."""
    a = np.asarray(x)
    return a.astype(np.int64) if a.dtype.kind in "iu" else a.astype(np.float64)


def literal(value: Fraction | float | bool, dtype: str) -> Array:
    return np.asarray(int(value), dtype=np.int64) if dtype in INTS else np.asarray(float(value))


def gather(tensor: Array, indices: list[Array]) -> Array:
    """Element-wise read; an index outside the tensor gives *undefined* (0 for integers)."""
    if not indices:
        return tensor
    idx = np.broadcast_arrays(*indices) if len(indices) > 1 else indices
    inside = np.ones(idx[0].shape, dtype=bool)
    for i, n in zip(idx, tensor.shape, strict=True):
        inside &= (i >= 0) & (i < n)
    if tensor.size == 0:
        return np.full(idx[0].shape, UNDEFINED if tensor.dtype.kind == "f" else 0)
    value = tensor[tuple(np.clip(i, 0, n - 1) for i, n in zip(idx, tensor.shape, strict=True))]
    return np.where(inside, value, UNDEFINED if tensor.dtype.kind == "f" else 0)


def cast_(x: Array, source: str, target: str) -> Array:
    if target in INTS:
        return np.trunc(np.nan_to_num(x, nan=0.0)).astype(np.int64) if x.dtype.kind == "f" else x
    if target == "bool" and source != "bool":
        return np.where(np.isnan(x), UNDEFINED, x != 0) if x.dtype.kind == "f" else (x != 0).astype(np.float64)
    return x.astype(np.float64)


def integer_op(name: str, args: tuple[Expr, ...]) -> bool:
    return name in INTEGER_OPS and all(a.dtype in INTS for a in args)


def _div(x: Array, y: Array) -> Array:
    return np.where(y == 0, UNDEFINED, x / np.where(y == 0, 1.0, y))


def _pow(x: Array, y: Array) -> Array:
    # numpy gives 1 for NaN ** 0 and 1 ** NaN; undefined is absorbing.
    undefined = np.isnan(x) | np.isnan(y) | ((x == 0) & (y < 0)) | ((x < 0) & (y != np.floor(y)))
    return np.where(undefined, UNDEFINED, np.power(x, y))


def _compare(fn: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def compare(x: Array, y: Array) -> Array:
        undefined = np.isnan(x.astype(np.float64)) | np.isnan(y.astype(np.float64))
        return np.where(undefined, UNDEFINED, fn(x, y))

    return compare


def _select(c: Array, x: Array, y: Array) -> Array:
    if x.dtype.kind == "i" and y.dtype.kind == "i":
        return np.where(c == 1, x, y)
    return np.where(np.isnan(c), UNDEFINED, np.where(c == 1, x, y))


def _erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


#: The meaning of each operation on float64 arrays.
MEANING: dict[str, Callable[..., Array]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": _div,
    "neg": lambda x: -x,
    "abs": lambda x: np.asarray(np.abs(x)),
    "max": lambda x, y: np.maximum(x, y),
    "min": lambda x, y: np.minimum(x, y),
    "pow": _pow,
    "floordiv": lambda x, y: np.floor(_div(x, y)),
    "floormod": lambda x, y: x - np.floor(_div(x, y)) * y,
    "exp": lambda x: np.asarray(np.exp(x)),
    "exp2": lambda x: np.asarray(np.exp2(x)),
    "log": lambda x: np.asarray(np.log(x)),
    "sqrt": lambda x: np.asarray(np.sqrt(x)),
    "rsqrt": lambda x: np.where(x == 0, UNDEFINED, 1.0 / np.sqrt(x)),
    "tanh": lambda x: np.asarray(np.tanh(x)),
    "sigmoid": lambda x: np.where(x >= 0, 1.0 / (1.0 + np.exp(-x)), np.exp(x) / (1.0 + np.exp(x))),
    "erf": _erf,
    "sin": lambda x: np.asarray(np.sin(x)),
    "cos": lambda x: np.asarray(np.cos(x)),
    "floor": lambda x: np.asarray(np.floor(x)),
    "ceil": lambda x: np.asarray(np.ceil(x)),
    "round": lambda x: np.asarray(np.round(x)),
    "lt": _compare(lambda x, y: x < y),
    "le": _compare(lambda x, y: x <= y),
    "gt": _compare(lambda x, y: x > y),
    "ge": _compare(lambda x, y: x >= y),
    "eq": _compare(lambda x, y: x == y),
    "ne": _compare(lambda x, y: x != y),
    "and": lambda x, y: x * y,
    "or": lambda x, y: np.maximum(x, y),
    "not": lambda x: 1.0 - x,
    "select": _select,
}
# sigmoid(+-inf): the branch that is not taken may be inf/inf, which ``where`` discards.

#: On integers: exact, floor division; a zero divisor gives 0 (an integer has no *undefined*; such a read is out of range).
INTEGER_OPS: dict[str, Callable[..., Array]] = {
    **{name: MEANING[name] for name in ("add", "sub", "mul", "neg", "abs", "max", "min")},
    "floordiv": lambda x, y: np.where(y == 0, 0, x // np.where(y == 0, 1, y)),
    "floormod": lambda x, y: np.where(y == 0, 0, x % np.where(y == 0, 1, y)),
}


def reduce_array(reducer: str, x: Array, dims: tuple[int, ...], dtype: str) -> Array:
    """Reduce over ``dims``; over nothing this is the neutral element."""
    if reducer == "sum":
        return np.asarray(np.add.reduce(x, axis=dims))
    if reducer == "prod":
        return np.asarray(np.multiply.reduce(x, axis=dims))
    if reducer in ("max", "any", "min", "all"):
        return _extremum(np.maximum if reducer in ("max", "any") else np.minimum, reducer, x, dims, dtype)
    if reducer == "logaddexp":
        return np.asarray(np.logaddexp.reduce(x.reshape(_merge(x.shape, dims)), axis=-1))
    raise TypeError(f"no meaning for reducer {reducer}")


def combine_array(reducer: str, a: Array, b: Array) -> Array:
    """Two partial results joined; the reducer on two values."""
    if reducer == "logaddexp":
        return np.asarray(np.logaddexp(a, b))
    name = {"sum": "add", "prod": "mul", "any": "max", "all": "min"}.get(reducer, reducer)
    return MEANING[name](a, b)


def _merge(shape: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
    """Trailing dims merged to one (reductions append their axes at the end of the frame)."""
    n = 1
    for d in dims:
        n *= shape[d]
    return (*shape[: dims[0]], n)


def _extremum(fn: np.ufunc, reducer: str, x: Array, dims: tuple[int, ...], dtype: str) -> Array:
    neutral = REDUCERS[reducer].neutral(dtype)
    assert isinstance(neutral, Const)
    return np.asarray(fn.reduce(x, axis=dims, initial=literal(neutral.value, dtype)))


def size_env(
    program: Program, shapes: Mapping[str, tuple[int, ...]], scalars: Mapping[str, float]
) -> dict[str, int | float]:
    """Lengths read from input shapes; ValueError when two shapes disagree or a fixed dimension differs."""
    env: dict[str, int | float] = dict(scalars)
    for t in program.inputs:
        shape = shapes[t.name]
        if len(shape) != len(t.shape):
            raise ValueError(f"{t.name} has {len(shape)} dimensions, the definition says {len(t.shape)}")
        for position, (have, want) in enumerate(zip(shape, t.shape, strict=True)):
            if isinstance(want, Size) and env.setdefault(want.name, have) != have:
                raise ValueError(f"{t.name}.shape[{position}] is {have}, but {want.name} = {env[want.name]}")
    lengths = Evaluator({}, env)
    for t in program.inputs:
        for position, (have, want) in enumerate(zip(shapes[t.name], t.shape, strict=True)):
            if not isinstance(want, Size) and lengths.integer(want) != have:
                raise ValueError(f"{t.name}.shape[{position}] is {have}, the definition says {lengths.integer(want)}")
    return env


def run_program(
    program: Program, inputs: Mapping[str, Array], scalars: Mapping[str, float] | None = None
) -> dict[str, Array]:
    """The definition's value, stage by stage, unfused, in float64. Returns every output by name."""
    env = size_env(program, {k: np.shape(v) for k, v in inputs.items()}, scalars or {})
    evaluator = Evaluator(inputs, env)
    for stage in program.stages:
        frame = evaluator.whole(stage.axes)
        value = evaluator.eval(stage.body, frame)
        full = tuple(len(v) for v in frame.values)
        evaluator.tensors[stage.name] = np.array(np.broadcast_to(value, full))
    return {name: evaluator.tensors[name] for name in program.outputs}

"""Trusted: the definition's value in normal form, over whole (small) tensors: no tiles, no schedule.

As in ``ir.interpret``, an array has one dimension per axis of its frame, of length 1 where the value does not depend on
that axis; a frame may hold a part of an axis' range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from neptune_verified.ir.expr import FLOATS, INTS, REDUCERS, Axis, Const, Expr, Op, Read, Reduce, Size
from neptune_verified.proofs.bounded import integers
from neptune_verified.proofs.bounded.contract import contract
from neptune_verified.proofs.bounded.domain import Domain
from neptune_verified.proofs.bounded.field import Array
from neptune_verified.proofs.bounded.memory import Memory
from neptune_verified.proofs.bounded.result import Unknown, Unsupported
from neptune_verified.proofs.bounded.values import Bit, Int, Val

Value = Val | Int | Bit
#: Elements of the largest intermediate that is worth evaluating.
LIMIT = 6_000_000
_UNARY = ("neg", "abs", "exp", "exp2", "log", "sigmoid", "sqrt")
_BINARY = ("add", "sub", "mul", "div", "pow")
_COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")


class Frame:
    """One dimension per axis, and the indices that it takes."""

    def __init__(self, axes: tuple[Axis, ...], values: tuple[Array, ...], outer: Frame | None = None) -> None:
        self.axes, self.values, self.outer = axes, values, outer
        self.memo: dict[Expr, Value] = {}

    def index(self, a: Axis) -> Int:
        k = self.axes.index(a)
        return Int(self.values[k].reshape([-1 if d == k else 1 for d in range(len(self.axes))]), 32)


class Definition:
    def __init__(self, domain: Domain, memory: Mapping[str, Memory], sizes: Mapping[str, int | float]) -> None:
        self.domain, self.memory, self.sizes = domain, memory, sizes

    def length(self, e: Expr) -> int:
        value = self.eval(e, Frame((), ()))
        assert isinstance(value, Int)
        return int(value.a)

    def eval(self, e: Expr, frame: Frame) -> Value:
        if e in frame.memo:
            return frame.memo[e]
        outer = frame.outer
        if outer is not None and not (e.free & set(frame.axes[len(outer.axes) :])):
            value, more = self.eval(e, outer), len(frame.axes) - len(outer.axes)
            value = value.each(lambda a: a.reshape(a.shape + (1,) * more) if a.ndim else a)
        else:
            with np.errstate(all="ignore"):
                value = self._eval(e, frame)
        if math.prod(value.shape) > LIMIT:
            raise Unknown("the definition is too large to be evaluated at these lengths")
        frame.memo[e] = value
        return value

    def _eval(self, e: Expr, frame: Frame) -> Value:
        match e:
            case Const(number, dtype):
                if dtype == "bool":
                    return Bit(np.asarray(bool(number)))
                if dtype in INTS:
                    return Int(np.asarray(int(number), dtype=np.int64))
                return self.domain.constant(number if isinstance(number, float) else Fraction(number), dtype)
            case Size(name, dtype):
                return self._size(name, dtype)
            case Axis():
                return frame.index(e)
            case Read(tensor, indices):
                return self._read(tensor, [self.eval(i, frame) for i in indices])
            case Reduce():
                return self._reduce(e, frame)
            case Op("cast", (x,), dtype):
                return self._cast(self.eval(x, frame), dtype)
            case Op("select", (c, x, y)):
                return self._select(self.eval(c, frame), self.eval(x, frame), self.eval(y, frame))
            case Op(name, args):
                return self._op(name, [self.eval(a, frame) for a in args])
            case _:
                raise Unsupported(f"no meaning for {type(e).__name__} in the definition")

    def _size(self, name: str, dtype: str) -> Value:
        if dtype in INTS:
            return Int(np.asarray(self.sizes[name], dtype=np.int64))
        return self.domain.constant(Fraction(self.sizes[name]), dtype)

    def _read(self, tensor: str, indices: list[Value]) -> Value:
        where = [i.a for i in indices if isinstance(i, Int)]
        inside = np.ones((), dtype=bool)
        for i, n in zip(where, self.memory[tensor].shape, strict=True):
            if not np.all((i >= 0) & (i < n)):
                inside = inside & (i >= 0) & (i < n)
        value = self.memory[tensor].gather(where)
        if inside.ndim and isinstance(value, Val):
            value.f = np.where(inside, value.f, np.nan)
        return value

    def _cast(self, x: Value, dtype: str) -> Value:
        if dtype in INTS:
            if isinstance(x, Val):
                return Int(np.trunc(np.nan_to_num(x.f, nan=0.0, posinf=0.0, neginf=0.0)).astype(np.int64))
            return Int(x.a.astype(np.int64))
        if dtype == "bool":
            return self._op("ne", [x, self._zero(x)]) if not isinstance(x, Bit) else x
        return self.domain.cast(x, dtype) if isinstance(x, Val) else self._from(x, dtype)

    def _from(self, x: Int | Bit, dtype: str) -> Val:
        v = self.domain.integers(x.a.astype(np.int64), dtype)
        if isinstance(x, Bit) and x.bad is not None:
            v.f = np.where(x.bad, np.nan, v.f)
        return v

    def _zero(self, x: Value) -> Value:
        return self.domain.constant(Fraction(0), x.dtype) if isinstance(x, Val) else Int(np.zeros((), dtype=np.int64))

    def _select(self, c: Value, x: Value, y: Value) -> Value:
        assert isinstance(c, Bit)
        if isinstance(x, Val) and isinstance(y, Val):
            return self.domain.where(c, x, y)
        if isinstance(x, Bit) and isinstance(y, Bit):
            return integers.choose(c, x, y)
        assert isinstance(x, Int) and isinstance(y, Int)
        return Int(np.where(c.a, x.a, y.a))

    def _op(self, name: str, args: list[Value]) -> Value:
        if all(isinstance(a, Val) for a in args):
            return self.floats(name, [a for a in args if isinstance(a, Val)])
        if all(isinstance(a, Bit) for a in args):
            return integers.logic(name, [a for a in args if isinstance(a, Bit)])
        if all(isinstance(a, Int) for a in args):
            return integers.exact(name, [a.a for a in args if isinstance(a, Int)])
        raise Unsupported(f"{name} of mixed types in the definition")

    def floats(self, name: str, args: list[Val]) -> Value:
        d = self.domain
        if name in _UNARY or name in _BINARY:
            return getattr(d, name)(*args)  # type: ignore[no-any-return]
        if name in _COMPARE:
            return d.compare(name, *args)
        match name:
            case "max" | "min":
                return d.extremum(name, *args)
            case "rsqrt":
                return d.cast(d.reciprocal(d.sqrt(args[0].typed("float64"))), args[0].dtype)
            case "tanh" | "erf" | "sin" | "cos":
                return d.opaque_function(name, *args)
            case "floor" | "ceil" | "round":
                return d.whole(name, *args)
            case "floordiv" | "floormod":
                q = d.whole("floor", d.div(*args))
                return q if name == "floordiv" else d.sub(args[0], d.mul(q, args[1]))
            case _:
                raise Unsupported(f"no meaning for {name} on floats")

    # -- reductions --------------------------------------------------------------------------------------------

    def _reduce(self, e: Reduce, frame: Frame) -> Value:
        values = tuple(np.arange(max(0, self.length(a.extent)), dtype=np.int64) for a in e.axes)
        inner = Frame(frame.axes + e.axes, frame.values + values, frame)
        n = len(frame.axes)
        full = tuple(len(v) for v in values)
        if e.reducer == "sum" and isinstance(e.body, Op) and e.body.name == "mul" and e.dtype in FLOATS and all(full):
            a, b = (self.eval(x, inner) for x in e.body.args)
            exact = not self.domain.opaque or e.dtype in ("float32", "float64")  # no product is rounded
            if isinstance(a, Val) and isinstance(b, Val) and exact:
                return contract(self.domain, a, b, n, full)
        body = self.eval(e.body, inner)
        own = body.shape[:n] if body.shape else (1,) * n
        if math.prod(own + full) > LIMIT:
            raise Unknown("the definition is too large to be evaluated at these lengths")
        body = body.each(lambda a: np.broadcast_to(a, own + full).reshape(*own, math.prod(full)))
        return self.fold(e.reducer, body, n, e.dtype)

    def fold(self, reducer: str, x: Value, axis: int, dtype: str) -> Value:
        d = self.domain
        if isinstance(x, Val):
            if reducer in ("max", "min"):
                return d.arg(reducer, x, axis)
            if reducer == "sum":
                return d.sum(x, axis)
            if reducer == "prod":
                return d.fold(d.mul, x, axis, Fraction(1))
            if reducer == "logaddexp":
                return d.fold(d.logaddexp, x, axis, -math.inf)
            raise Unsupported(f"no meaning for {reducer} on floats")
        if isinstance(x, Bit):
            return integers.fold_bits(reducer, x, axis)
        assert isinstance(x, Int)
        neutral = REDUCERS[reducer].neutral(dtype)
        assert isinstance(neutral, Const)
        return Int(integers.FOLDS[reducer](x.a, axis, int(neutral.value)))

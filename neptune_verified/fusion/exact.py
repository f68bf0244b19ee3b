"""Not trusted: one row of a pass at one small input, to many digits; what a search in floating point found is kept only
if this finds it too. The operations' meaning is that of ``proofs.evaluate``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import product
from typing import Any

from neptune_verified.ir.expr import REDUCERS, Axis, Const, Expr, Op, Read, Reduce, Size, Var
from neptune_verified.ir.interpret import Array, Evaluator
from neptune_verified.ir.loops import Carried, Nest, Pass, T, step, term, tiles
from neptune_verified.proofs.evaluate import UNDEFINED, Meaning, OutOfReach, Value, apply

#: Operations after which a run is given up: such an input is no small example.
LARGEST_RUN = 60_000
_COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}


class Row:
    """The values of expressions in one row: ``env`` gives the grid and inner axes."""

    def __init__(
        self, tensors: Mapping[str, Array], sizes: Mapping[str, int | float], env: Mapping[Axis, int], meaning: Meaning
    ) -> None:
        self.tensors, self.sizes, self.env, self.meaning = tensors, sizes, env, meaning
        self.vars: dict[str, Value] = {}
        self.memo: dict[Any, Value] = {}
        self.done = 0

    def definition(self, c: Carried) -> Value:
        return self.value(c.value, self.env)

    def fused(self, nest: Nest, p: Pass, consumer: Carried, tile: int) -> Value:
        """The accumulator of ``consumer`` after the last tile."""
        steps = [(c, term(nest, p, c), step(nest, p, c)) for c in p.carried]
        state = {c.name: self.value(c.neutral, self.env) for c in p.carried}
        for block in tiles(Evaluator({}, self.sizes), p.stream, tile):
            self.vars = dict(state)
            for c, g, h in steps:
                self.vars[T] = state[c.name]
                self.memo.clear()
                repaired, local = self.value(h, self.env), self.reduce(c.value.reducer, p.stream, g, self.env, block)
                self.vars[f"{c.name}_new"] = self.combine(c.value.reducer, repaired, local)
            state = {name: self.vars[f"{name}_new"] for name in state}
        return state[consumer.name]

    # -- expressions -----------------------------------------------------------------------------------------

    def value(self, e: Expr, env: Mapping[Axis, int]) -> Value:
        key = (e, tuple(env[a] for a in e.free))
        if key not in self.memo:
            self.done += 1
            if self.done > LARGEST_RUN:
                raise OutOfReach
            self.memo[key] = self._value(e, env)
        return self.memo[key]

    def _value(self, e: Expr, env: Mapping[Axis, int]) -> Value:
        match e:
            case Const(number):
                return number
            case Size(name):
                return Fraction(self.sizes[name])
            case Axis():
                return Fraction(env[e])
            case Var(name):
                return self.vars[name]
            case Read(tensor, indices):
                at = [self.value(i, env) for i in indices]
                return self.element(tensor, at, e.dtype)
            case Op("select", (condition, x, y)):
                chosen = self.value(condition, env)
                return UNDEFINED if chosen is UNDEFINED else self.value(x if chosen else y, env)
            case Op(_, args):
                return apply(e, [self.value(a, env) for a in args], self.meaning)
            case Reduce(reducer, axes, body):
                whole = [range(int(self.value(a.extent, env))) for a in axes]
                return self.reduce(reducer, axes, body, env, whole)
        raise TypeError(f"no meaning for {type(e).__name__}")

    def element(self, tensor: str, at: list[Value], dtype: str) -> Value:
        array = self.tensors[tensor]
        if not all(i is not UNDEFINED and 0 <= i < n for i, n in zip(at, array.shape, strict=True)):
            return UNDEFINED if array.dtype.kind == "f" else Fraction(0)
        x = array[tuple(int(i) for i in at)].item()
        return bool(x) if dtype == "bool" else x if x in (float("inf"), float("-inf")) else Fraction(x)

    def reduce(self, reducer: str, axes: tuple[Axis, ...], body: Expr, env: Mapping[Axis, int], where: Any) -> Value:
        neutral = REDUCERS[reducer].neutral(body.dtype)
        total: Value = self.value(neutral, {})
        for index in _indices(where):
            total = self.combine(reducer, total, self.value(body, {**env, **dict(zip(axes, index, strict=True))}))
        return total

    def combine(self, reducer: str, a: Value, b: Value) -> Value:
        if a is UNDEFINED or b is UNDEFINED:
            return UNDEFINED
        m = self.meaning
        return m.log(m.add(m.exp(a), m.exp(b))) if reducer == "logaddexp" else m.table[_COMBINE[reducer]](a, b)


def _indices(where: Any) -> Iterator[tuple[int, ...]]:
    return product(*([int(k) for k in values] for values in where))

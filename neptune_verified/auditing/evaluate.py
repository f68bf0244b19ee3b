"""Not trusted: a definition on torch tensors, unfused: each stage by itself, on the elements that are asked for.

What an operation does is left to an ``Arithmetic``: ``exact`` computes in float64 and carries error bounds, ``typed``
computes in the definition's own types. Both are tested against ``ir.interpret``, which is the meaning.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from neptune_verified.ir.expr import FLOATS, REDUCERS, Axis, Const, Expr, Op, Read, Reduce, Size
from neptune_verified.ir.interpret import Evaluator as Lengths
from neptune_verified.ir.program import Program, Stage


@dataclass(frozen=True)
class Value:
    """``x``: one dimension per axis of the frame (size 1 where it does not depend on that axis), or none. ``d``: how far
    a kernel's value may be from it; None for not at all."""

    x: Tensor
    d: Tensor | None = None

    def view(self, f: Any) -> Value:
        """The same elements in another arrangement."""
        return Value(f(self.x), None if self.d is None else f(self.d))


class Arithmetic(ABC):
    """The operations of ``ir.expr`` on values, ``stage`` being the one that they are computed for."""

    device: torch.device

    @abstractmethod
    def number(self, value: float, dtype: str) -> Value: ...

    @abstractmethod
    def tensor(self, x: Tensor, dtype: str) -> Value: ...

    @abstractmethod
    def outside(self, v: Value, inside: Tensor) -> Value:
        """``v`` where ``inside``; undefined elsewhere (0 for integers)."""

    @abstractmethod
    def cast(self, v: Value, source: str, target: str) -> Value: ...

    @abstractmethod
    def apply(self, e: Op, args: Sequence[Value]) -> Value: ...

    def neutral(self, e: Reduce) -> Value:
        """A reduction over nothing."""
        found = REDUCERS[e.reducer].neutral(e.dtype)
        assert isinstance(found, Const)
        return self.number(float(found.value), e.dtype)

    @abstractmethod
    def reduce(self, e: Reduce, v: Value, dims: tuple[int, ...], stage: str) -> Value:
        """Over the trailing ``dims``, which have their full extents, none of them 0."""

    @abstractmethod
    def contract(
        self, e: Reduce, parts: Sequence[Expr], factors: Sequence[Value], equation: str, times: int, stage: str
    ) -> Value:
        """``times`` the sum of the product of ``factors``, whose dimensions ``equation`` names."""


class Frame:
    """One dimension per axis; ``values`` are the indices that each takes."""

    def __init__(self, axes: tuple[Axis, ...], values: tuple[Tensor, ...], outer: Frame | None = None) -> None:
        self.axes, self.values, self.outer = axes, values, outer
        self.memo: dict[Expr, Value] = {}


class Evaluator:
    """One set of inputs. ``sizes`` holds lengths and scalars."""

    def __init__(
        self, program: Program, tensors: Mapping[str, Tensor], sizes: Mapping[str, float], arithmetic: Arithmetic
    ) -> None:
        self.program, self.arithmetic, self.sizes = program, arithmetic, sizes
        self.lengths = Lengths({}, sizes)
        self.inputs = {t.name: arithmetic.tensor(tensors[t.name], t.dtype) for t in program.inputs}
        self.known = {s.name: s for s in program.stages}
        self.ranges: dict[int, Tensor] = {}
        self.bounds: dict[int, tuple[int, int]] = {}
        self.done: dict[tuple[Any, ...], tuple[Value, tuple[Tensor, ...]]] = {}

    # ------------------------------------------------------------------------------------------ indices

    def range(self, n: int) -> Tensor:
        """0 ... n - 1; the same tensor each time."""
        if n not in self.ranges:
            self.ranges[n] = self.part(0, n)
        return self.ranges[n]

    def part(self, first: int, end: int) -> Tensor:
        values = torch.arange(first, end, device=self.arithmetic.device)
        self.bounds[id(values)] = (first, end - 1)
        return values

    def extents(self, stage: Stage) -> tuple[int, ...]:
        return tuple(max(0, self.lengths.integer(a.extent)) for a in stage.axes)

    def _reach(self, index: Expr, value: Value, frame: Frame) -> tuple[int, int]:
        """The least and the greatest value of an index; (0, -1) of none."""
        if isinstance(index, Axis):
            return self.bounds[id(frame.values[frame.axes.index(index)])]
        if not value.x.numel():
            return 0, -1
        low, high = torch.aminmax(value.x)
        return int(low), int(high)

    # ------------------------------------------------------------------------------------------ stages

    def forget(self) -> None:
        """Drop the stages that were computed for a part of their elements."""
        whole = {id(x) for x in self.ranges.values()}
        self.done = {k: v for k, v in self.done.items() if all(i in whole for i in k[1:])}

    def stage(self, name: str, values: tuple[Tensor, ...]) -> Value:
        """A stage at the given indices of its axes: one dimension for each."""
        key = (name, *map(id, values))
        if key not in self.done:
            stage = self.known[name]
            self.done[key] = (self.eval(stage.body, Frame(stage.axes, values), name), values)
        return self.done[key][0]

    # ------------------------------------------------------------------------------------------ expressions

    def eval(self, e: Expr, frame: Frame, stage: str) -> Value:
        if e not in frame.memo:
            outer = frame.outer
            if outer is not None and not e.free & set(frame.axes[len(outer.axes) :]):
                more = len(frame.axes) - len(outer.axes)
                value = self.eval(e, outer, stage)
                found = value.view(lambda x: x.reshape(x.shape + (1,) * more)) if value.x.ndim else value
            else:
                found = self._eval(e, frame, stage)
            frame.memo[e] = found
        return frame.memo[e]

    def _eval(self, e: Expr, frame: Frame, stage: str) -> Value:
        match e:
            case Const(value, dtype):
                return self.arithmetic.number(float(value), dtype)
            case Size(name, dtype):
                return self.arithmetic.number(self.sizes[name], dtype)
            case Axis():
                k = frame.axes.index(e)
                shape = [1] * len(frame.axes)
                shape[k] = -1
                return Value(frame.values[k].reshape(shape))
            case Read():
                return self._read(e, frame, stage)
            case Op(name, args):
                values = [self.eval(a, frame, stage) for a in args]
                if name == "cast":
                    return self.arithmetic.cast(values[0], args[0].dtype, e.dtype)
                return self.arithmetic.apply(e, values)
            case Reduce():
                return self._reduce(e, frame, stage)
            case _:
                raise TypeError(f"no meaning for {type(e).__name__}")

    def _read(self, e: Read, frame: Frame, stage: str) -> Value:
        indices = [self.eval(i, frame, stage) for i in e.indices]
        reach = [self._reach(i, v, frame) for i, v in zip(e.indices, indices, strict=True)]
        if e.tensor in self.inputs:
            return self._gather(self.inputs[e.tensor], indices, reach)
        extents = self.extents(self.known[e.tensor])
        plain = [
            isinstance(i, Axis) and high < n for i, (_, high), n in zip(e.indices, reach, extents, strict=True)
        ] if len(set(e.indices)) == len(e.indices) else [False] * len(extents)  # fmt: skip
        axes = [i if isinstance(i, Axis) and p else None for i, p in zip(e.indices, plain, strict=True)]
        values = tuple(
            self.range(n) if a is None else frame.values[frame.axes.index(a)]
            for a, n in zip(axes, extents, strict=True)
        )
        value = self.stage(e.tensor, values)
        if all(plain):
            return _placed(value, [frame.axes.index(a) for a in axes if a is not None], len(frame.axes))
        full = value.view(lambda x: x.expand([len(v) for v in values]))
        # Along an axis that is read plainly the stage has the frame's own indices, in order.
        own = [
            Value(torch.arange(len(v), device=v.device).reshape(i.x.shape)) if a is not None else i
            for a, v, i in zip(axes, values, indices, strict=True)
        ]
        return self._gather(
            full, own, [(0, len(v) - 1) if a is not None else r for a, v, r in zip(axes, values, reach)]
        )

    def _gather(self, tensor: Value, indices: list[Value], reach: list[tuple[int, int]]) -> Value:
        """Element-wise read; undefined (0 for integers) outside of the tensor."""
        if not indices:
            return tensor
        shape = tensor.x.shape
        inside: Tensor | None = None
        at = []
        for i, n, (low, high) in zip(indices, shape, reach, strict=True):
            x = i.x
            if high >= low and (low < 0 or high >= n):
                ok = (x >= 0) & (x < n)
                inside = ok if inside is None else inside & ok
                x = x.clamp(0, max(n - 1, 0))
            at.append(x)
        if 0 in shape:  # nothing can be inside
            size = torch.broadcast_shapes(*(x.shape for x in at))
            blank = Value(torch.zeros(size, dtype=tensor.x.dtype, device=tensor.x.device))
            return self.arithmetic.outside(blank, torch.zeros(size, dtype=torch.bool, device=tensor.x.device))
        found = tensor.view(lambda t: t[tuple(at)])
        unsure = [i.d for i in indices if i.d is not None]
        if unsure:  # an index that depends on rounding
            doubt = sum((d != 0).double() for d in unsure)
            d = torch.zeros_like(found.x, dtype=torch.float64) if found.d is None else found.d
            found = Value(found.x, torch.where(doubt > 0, math.inf, d))
        return found if inside is None else self.arithmetic.outside(found, inside)

    # ------------------------------------------------------------------------------------------ reductions

    def _reduce(self, e: Reduce, frame: Frame, stage: str) -> Value:
        extents = tuple(max(0, self.lengths.integer(a.extent)) for a in e.axes)
        if 0 in extents:
            return self.arithmetic.neutral(e)
        inner = Frame(frame.axes + e.axes, frame.values + tuple(map(self.range, extents)), frame)
        parts = factors_of(e.body) if e.reducer == "sum" and e.dtype in FLOATS else [e.body]
        n = len(frame.axes)
        if len(parts) > 1:
            factors = [self.eval(p, inner, stage) for p in parts]
            if not any(bool(f.x.isinf().any()) for f in factors):
                return self._contract(e, parts, factors, inner, n, stage)
            # An infinity times a sum is not the sum of its products.
        value = self.eval(e.body, inner, stage)
        own = value.x.shape[:n] if value.x.ndim else (1,) * n
        full = value.view(lambda x: x.expand(own + extents))
        return self.arithmetic.reduce(e, full, tuple(range(n, n + len(extents))), stage)

    def _contract(self, e: Reduce, parts: list[Expr], factors: list[Value], inner: Frame, n: int, stage: str) -> Value:
        letters = [chr(ord("a") + k) for k in range(len(inner.axes))]
        sizes = [len(v) for v in inner.values]
        used: set[int] = set()
        names, squeezed = [], []
        for f in factors:
            kept = (
                [k for k, size in enumerate(f.x.shape) if size != 1 or (sizes[k] == 1 and k >= n)] if f.x.ndim else []
            )
            used |= set(kept)
            names.append("".join(letters[k] for k in kept))
            squeezed.append(f.view(lambda x, kept=kept: x.reshape([x.shape[k] for k in kept])))
        out = [k for k in range(n) if k in used]
        equation = f"{','.join(names)}->{''.join(letters[k] for k in out)}"
        times = math.prod(sizes[k] for k in range(n, len(sizes)) if k not in used)
        value = self.arithmetic.contract(e, parts, squeezed, equation, times, stage)
        shape = [value.x.shape[out.index(k)] if k in out else 1 for k in range(n)]
        return value.view(lambda x: x.reshape(shape))


def _placed(value: Value, places: list[int], dims: int) -> Value:
    """A stage's value, whose dimensions are its own axes, at these dimensions of a frame."""
    if not value.x.ndim:
        return value
    order = sorted(range(len(places)), key=lambda k: places[k])
    shape = [1] * dims
    for k in order:
        shape[places[k]] = value.x.shape[k]
    return value.view(lambda x: x.permute(order).reshape(shape))


def factors_of(e: Expr) -> list[Expr]:
    """The factors of a product of floats, left to right."""
    if isinstance(e, Op) and e.name == "mul" and e.dtype in FLOATS:
        return [f for a in e.args for f in factors_of(a)]
    return [e]

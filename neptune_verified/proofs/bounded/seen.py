"""Trusted: which parts of the float inputs an output element can depend on, whatever numbers they hold (O9).

The definition is read with every float an unknown finite number. Integers and truth values are known, and what they
decide is known too: the branch that a mask takes, 0 times something, -inf minus something. (Not so a weight that is
computed from indices, as j % 3: its 0 times something undefined is undefined in the definition.) One input at a time is cut
into parts along its symbolic lengths, one bit each; a value carries the bits of the parts that it may depend on. An
element is in several parts: if nothing depends on one of them, nothing depends on the element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from neptune_verified.ir.expr import FLOATS, INTS, Axis, Const, Expr, Op, Read, Reduce, Size, subterms
from neptune_verified.ir.program import Program
from neptune_verified.proofs.bounded.definition import Frame
from neptune_verified.proofs.bounded.field import Array, U
from neptune_verified.proofs.bounded.inputs import extent
from neptune_verified.proofs.bounded.memory import Memory
from neptune_verified.proofs.bounded.result import Unknown
from neptune_verified.proofs.bounded.values import Bit, Int, Val

_ELEMENTS = 2_000_000
_ABSORBS = {"and": 0.0, "or": 1.0, "mul": 0.0}
_TABLE: dict[str, Callable[..., Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum,
    "neg": np.negative, "abs": np.abs, "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not,
    "floordiv": lambda x, y: np.floor_divide(x, np.where(y == 0, 1, y)) * (y != 0),
    "floormod": lambda x, y: np.mod(x, np.where(y == 0, 1, y)) * (y != 0),
}  # fmt: skip
_FOLDS: dict[str, Callable[..., Array]] = {
    "sum": np.sum, "prod": np.prod, "any": np.any, "all": np.all,
    "max": lambda x, axis: np.max(x, axis=axis, initial=-np.inf),
    "min": lambda x, axis: np.min(x, axis=axis, initial=np.inf),
}  # fmt: skip


@dataclass(slots=True)
class Part:
    """A number where it is ``known``; the ``bits`` of the parts that it may depend on."""

    a: Array
    known: Array
    bits: Array


def parts(program: Program, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """The bits of the elements of each float input that has a symbolic length; dimensions of constant length stay at 1."""
    result: dict[str, Array] = {}
    for t in program.inputs:
        cut = [k for k, d in enumerate(t.shape) if isinstance(d, Size)]
        if t.dtype not in FLOATS or not 1 <= len(cut) <= 16:
            continue
        each = 64 // len(cut)
        bits = np.zeros([n if k in cut else 1 for k, n in enumerate(shapes[t.name])], dtype=U)
        for at, k in enumerate(cut):
            n, stretches = shapes[t.name][k], each - each // 4
            index = np.arange(n)
            # Most bits stand for stretches, the others for every so many elements.
            first = U(1) << (at * each + index * stretches // max(1, n)).astype(U)
            second = U(1) << (at * each + stretches + index % (each - stretches)).astype(U)
            bits = bits | (first | second).reshape([-1 if d == k else 1 for d in range(len(t.shape))])
        result[t.name] = bits
    return result


class Dependence:
    """On the input ``tensor``, with the ``bits`` of its elements."""

    def __init__(
        self, memory: Mapping[str, Memory], tensor: str, bits: Array, sizes: Mapping[str, int | float]
    ) -> None:
        self.memory, self.tensor, self.bits, self.sizes = memory, tensor, bits, sizes
        self.memo: dict[tuple[Frame, Expr], Part] = {}

    def eval(self, e: Expr, frame: Frame) -> Part:
        key = (frame, e)
        if key not in self.memo:
            outer = frame.outer
            if outer is not None and not (e.free & set(frame.axes[len(outer.axes) :])):
                v = self.eval(e, outer)
                more = (1,) * (len(frame.axes) - len(outer.axes))
                v = Part(*(x.reshape(x.shape + more) if x.ndim else x for x in (v.a, v.known, v.bits)))
            else:
                with np.errstate(all="ignore"):
                    v = self._eval(e, frame)
            if max(v.a.size, v.bits.size) > _ELEMENTS:
                raise Unknown("too large")
            self.memo[key] = v
        return self.memo[key]

    def _eval(self, e: Expr, frame: Frame) -> Part:
        match e:
            case Const(number):
                return _known(np.asarray(float(number)))
            case Size(name):
                return _known(np.asarray(float(self.sizes[name])))
            case Axis():
                return _known(frame.index(e).a.astype(np.float64))
            case Read(tensor, indices):
                return self._read(tensor, [self.eval(i, frame) for i in indices])
            case Reduce():
                return self._reduce(e, frame)
            case Op("select", (c, x, y)):
                return _select(self.eval(c, frame), self.eval(x, frame), self.eval(y, frame))
            case Op("cast", (x,), dtype):
                v = self.eval(x, frame)
                whole = dtype not in FLOATS and dtype != "bool"
                a = np.trunc(v.a) if whole else (v.a != 0) * 1.0 if dtype == "bool" else v.a
                return Part(np.asarray(a), v.known, v.bits)
            case Op(name, args):
                return _op(name, [self.eval(x, frame) for x in args], [not _weight(x) for x in args])
            case _:
                raise Unknown(f"no dependence for {type(e).__name__}")

    def _read(self, tensor: str, indices: list[Part]) -> Part:
        memory, bits = self.memory[tensor], self.bits
        if not all(i.known.all() for i in indices):
            raise Unknown("an index that is unknown")
        where = [np.clip(i.a, 0, max(0, n - 1)).astype(np.int64) for i, n in zip(indices, memory.shape, strict=True)]
        if not math.prod(memory.shape):
            raise Unknown("an empty tensor")
        if isinstance(memory.value, Val) and tensor != self.tensor:
            return Part(np.zeros(()), np.zeros((), dtype=bool), np.zeros((), dtype=U))
        if isinstance(memory.value, Val):
            own = tuple(np.zeros((), dtype=np.int64) if n == 1 else w for w, n in zip(where, bits.shape, strict=True))
            b = np.asarray(bits[own])
            return Part(np.zeros(()), np.zeros((), dtype=bool), b)
        value = memory.gather(where)
        assert isinstance(value, Int | Bit)
        return _known(np.asarray(value.a, dtype=np.float64))

    def _reduce(self, e: Reduce, frame: Frame) -> Part:
        values = tuple(np.arange(max(0, extent(a.extent, self.sizes)), dtype=np.int64) for a in e.axes)
        n = len(frame.axes)
        if not all(len(v) for v in values) or e.reducer not in _FOLDS:
            raise Unknown("a reduction of another kind, or an empty one")
        inner = Frame(frame.axes + e.axes, frame.values + values, frame)
        body = self.eval(e.body, inner)
        folded = [x.reshape((1,) * (n + len(values) - x.ndim) + x.shape) for x in (body.a, body.known, body.bits)]
        axes = tuple(range(n, n + len(values)))
        a, known, bits = folded
        for k, v in zip(axes, values, strict=True):
            if a.shape[k] == 1 and e.reducer in ("sum", "prod"):
                a = a * len(v) if e.reducer == "sum" else a ** len(v)
        return Part(
            np.asarray(_FOLDS[e.reducer](a, axis=axes), dtype=np.float64),
            np.asarray(known.all(axis=axes)),
            np.bitwise_or.reduce(bits, axis=axes),
        )


def _known(a: Array) -> Part:
    return Part(a, np.ones((), dtype=bool), np.zeros((), dtype=U))


def _select(c: Part, x: Part, y: Part) -> Part:
    first = c.a != 0
    same = x.known & y.known & (x.a == y.a)
    bits = c.bits | np.where(c.known, np.where(first, x.bits, y.bits), x.bits | y.bits)
    known = np.where(c.known, np.where(first, x.known, y.known), same)
    return Part(np.where(c.known & ~first, y.a, x.a), known, bits)


def _weight(e: Expr) -> bool:
    """A float that is computed from indices: where it is 0 it is no mask."""
    match e:
        case Op("cast", (x,), dtype):
            return dtype in FLOATS and x.dtype in INTS and all(t.dtype in INTS for t in subterms(x))
        case Op("add" | "sub" | "mul" | "div" | "neg" | "abs", args):
            return all(_weight(x) or isinstance(x, Const) for x in args) and any(_weight(x) for x in args)
        case _:
            return False


def _op(name: str, args: list[Part], masks: list[bool]) -> Part:
    """``masks``: whether an operand decides where it is 0 in a product, and the like."""
    every = np.asarray(np.logical_and.reduce(np.broadcast_arrays(*(x.known for x in args))))
    bits = args[0].bits
    for x in args[1:]:
        bits = bits | x.bits
    if name not in _TABLE:
        return Part(np.zeros(()), np.zeros((), dtype=bool), bits)
    result = Part(np.asarray(_TABLE[name](*(x.a for x in args)), dtype=np.float64), every, bits)
    for x, mask in zip(args, masks, strict=True):
        if name in _ABSORBS and mask:  # this operand decides, and the other one is not looked at
            result = _decided(result, x.known & (x.a == _ABSORBS[name]), x.a, x.bits)
        if name in ("add", "sub"):
            infinite = x.known & np.isinf(x.a)
            result = _decided(result, infinite & ~every, -x.a if name == "sub" and x is args[1] else x.a, bits)
    if name == "div":
        result = _decided(result, args[0].known & (args[0].a == 0) & ~args[1].known, args[0].a, result.bits)
    return result


def _decided(v: Part, where: Array, a: Array, bits: Array) -> Part:
    return Part(np.where(where, a, v.a), v.known | where, np.where(where, bits, v.bits))

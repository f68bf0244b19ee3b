"""Trusted: tensors in global memory, their random contents, and an account of what was written."""

from __future__ import annotations

import math

import numpy as np

from neptune_verified.ir.expr import FLOATS
from neptune_verified.proofs.bounded.field import Array, U
from neptune_verified.proofs.bounded.values import Bit, Int, Val

WIDTHS = {"int8": 8, "uint8": 8, "int16": 16, "int32": 32, "int64": 64}


class Memory:
    """One tensor. ``written`` counts the stores of each element of an output."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: str, value: Val | Int | Bit | None = None) -> None:
        self.name, self.shape, self.dtype = name, shape, dtype
        self.is_input = value is not None
        self.value: Val | Int | Bit = self._blank() if value is None else value
        self.written = np.zeros(() if self.is_input else shape, dtype=np.int64)
        self.line = 0  # of the last store
        self.complete = self.is_input  # an output: once its kernel has ended

    def _blank(self) -> Val | Int | Bit:
        if self.dtype in FLOATS:
            none = np.zeros(self.shape, dtype=U)
            return Val(np.full(self.shape, np.nan), none, none.copy(), none.copy(), self.dtype, self.dtype)
        if self.dtype == "bool":
            return Bit(np.zeros(self.shape, dtype=bool), np.zeros(self.shape, dtype=bool))
        return Int(np.zeros(self.shape, dtype=np.int64), WIDTHS[self.dtype])

    def gather(self, indices: list[Array]) -> Val | Int | Bit:
        """The elements at ``indices``, which are moved into the tensor where they lie outside."""
        if not indices:
            return self.value.each(lambda a: a)
        if not math.prod(self.shape):
            shape = np.broadcast_shapes(*(i.shape for i in indices))
            return Memory("", (1,), self.dtype).value.each(lambda a: np.broadcast_to(a, shape))
        inside = tuple(
            i if not i.size or (i.min() >= 0 and i.max() < n) else np.clip(i, 0, n - 1)
            for i, n in zip(indices, self.shape, strict=True)
        )
        return self.value.each(lambda a: a[inside])

    def put(self, where: tuple[Array, ...], value: Val | Int | Bit | None) -> None:
        """``value`` (flat; none: only counted) at the elements ``where``."""
        np.add.at(self.written, where, 1)
        if value is not None and not where:  # a tensor without dimensions
            value = value.each(lambda a: a.reshape(()))
        if isinstance(value, Val) and isinstance(self.value, Val):
            self._put_float(self.value, where, value)
        elif isinstance(value, Int | Bit) and isinstance(self.value, Int | Bit):
            self.value.a[where] = value.a
            if isinstance(value, Bit) and isinstance(self.value, Bit) and self.value.bad is not None:
                self.value.bad[where] = False if value.bad is None else value.bad

    @staticmethod
    def _put_float(mine: Val, where: tuple[Array, ...], value: Val) -> None:
        mine.f[where], mine.P[where] = value.f, value.P
        if value.Q is None:
            mine.Q = None
        elif mine.Q is not None:
            mine.Q[where] = value.Q
        if value.E is None:
            mine.E = None
        elif mine.E is not None:
            mine.E[where] = value.E

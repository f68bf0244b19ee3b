"""Not trusted: a definition in its own types, unfused, as torch computes it: what fusion and its roundings add to that.

16-bit sums and products are accumulated in float32 and rounded once, as torch does. What the definition leaves undefined
is whatever torch makes of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from neptune_verified.auditing.evaluate import Arithmetic, Value
from neptune_verified.auditing.exact_ops import COMPARISONS, INTEGERS, LOGIC
from neptune_verified.ir.expr import INTS, Expr, Op, Reduce

_LOGIC: dict[str, Callable[..., Tensor]] = dict(
    zip(LOGIC, (torch.logical_and, torch.logical_or, torch.logical_not), strict=True)
)
_FLOATS: dict[str, Callable[..., Tensor]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow, "neg": torch.neg,
    "abs": torch.abs, "max": torch.maximum, "min": torch.minimum, "exp": torch.exp, "exp2": torch.exp2, "log": torch.log,
    "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "erf": torch.erf,
    "sin": torch.sin, "cos": torch.cos, "floor": torch.floor, "ceil": torch.ceil, "round": torch.round,
    "floordiv": torch.floor_divide, "floormod": torch.remainder,
}  # fmt: skip


def torch_type(dtype: str) -> torch.dtype:
    found = getattr(torch, dtype)
    assert isinstance(found, torch.dtype)
    return found


class Typed(Arithmetic):
    def __init__(self, device: torch.device) -> None:
        self.device = device

    def number(self, value: float, dtype: str) -> Value:
        return Value(torch.tensor(int(value) if dtype in INTS else value, dtype=torch_type(dtype), device=self.device))

    def tensor(self, x: Tensor, dtype: str) -> Value:
        return Value(x)

    def outside(self, v: Value, inside: Tensor) -> Value:
        return Value(torch.where(inside, v.x, math.nan if v.x.is_floating_point() else 0))

    def cast(self, v: Value, source: str, target: str) -> Value:
        x = v.x.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0) if target in INTS and v.x.is_floating_point() else v.x
        return Value(x.to(torch_type(target)))

    def apply(self, e: Op, args: Sequence[Value]) -> Value:
        xs = [a.x for a in args]
        if e.name in COMPARISONS:
            return Value(COMPARISONS[e.name](*xs))
        if e.name in _LOGIC:
            return Value(_LOGIC[e.name](*xs))
        if e.name == "select":
            return Value(torch.where(xs[0].bool(), xs[1], xs[2]).to(torch_type(e.dtype)))
        table = INTEGERS if e.dtype in INTS else _FLOATS
        return Value(table[e.name](*xs).to(torch_type(e.dtype)))

    def reduce(self, e: Reduce, v: Value, dims: tuple[int, ...], stage: str) -> Value:
        dtype = torch_type(e.dtype)
        flat = v.x.reshape(*v.x.shape[: dims[0]], math.prod(v.x.shape[k] for k in dims))
        reduced: dict[str, Callable[[], Tensor]] = {
            "sum": lambda: flat.sum(-1, dtype=dtype),
            "prod": lambda: flat.prod(-1, dtype=dtype),
            "max": lambda: flat.amax(-1),
            "min": lambda: flat.amin(-1),
            "any": lambda: flat.any(-1),
            "all": lambda: flat.all(-1),
            "logaddexp": lambda: torch.logsumexp(flat.float() if dtype.itemsize == 2 else flat, -1).to(dtype),
        }
        return Value(reduced[e.reducer]())

    def contract(
        self, e: Reduce, parts: Sequence[Expr], factors: Sequence[Value], equation: str, times: int, stage: str
    ) -> Value:
        return Value(torch.einsum(equation, *(f.x for f in factors)) * times)

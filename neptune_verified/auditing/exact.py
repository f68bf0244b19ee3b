"""Not trusted: float64 values of a definition, each with a bound on how far a kernel may be from it.

A bound is a running error analysis (Higham, *Accuracy and Stability of Numerical Algorithms*, 2002, section 3.3): an error
that is there already goes through each operation as its derivative says, and each operation adds its own rounding, in
the types and in the order of accumulation of the fused program (``accumulation``). It is of first order in sums and
products of roundoffs; through ``exp``, ``log``, quotients and powers the errors go as they are. A bound is infinite, so
that nothing is claimed, where a comparison or a conversion to an integer depends on rounding, and where a value may
leave the finite range of its type. NaN stands for *undefined*.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from neptune_verified.auditing import exact_ops
from neptune_verified.auditing.accumulation import Accumulation
from neptune_verified.auditing.evaluate import Arithmetic, Value
from neptune_verified.auditing.formats import FORMATS, holds
from neptune_verified.ir.expr import FLOATS, INTS, Const, Expr, Op, Reduce
from neptune_verified.ir.interpret import Evaluator as Lengths
from neptune_verified.ir.loops import wide
from neptune_verified.ir.program import Program

NARROW = ("float16", "bfloat16")


class Exact(Arithmetic):
    """``accumulation`` says how each sum is accumulated; None computes values without bounds."""

    def __init__(
        self, program: Program, sizes: Mapping[str, float], device: torch.device, accumulation: Accumulation | None
    ) -> None:
        self.device, self.lengths, self.accumulation = device, Lengths({}, sizes), accumulation
        self.bodies = {s.name: s.body for s in program.stages}
        #: Whether some finite value may be beyond the largest of its type.
        self.overflow = torch.zeros((), dtype=torch.bool, device=device)

    # ------------------------------------------------------------------------------------------ values

    def number(self, value: float, dtype: str) -> Value:
        if dtype in INTS:
            return Value(torch.tensor(int(value), device=self.device))
        x = torch.tensor(float(value), dtype=torch.float64, device=self.device)
        if dtype in FLOATS and math.isfinite(value) and float(x.to(getattr(torch, dtype))) != value:
            return self.rounded(Value(x), dtype, 1)
        return Value(x)

    def tensor(self, x: Tensor, dtype: str) -> Value:
        return Value(x.to(torch.int64 if dtype in INTS else torch.float64))

    def outside(self, v: Value, inside: Tensor) -> Value:
        x = v.x.broadcast_to(torch.broadcast_shapes(v.x.shape, inside.shape))
        return Value(torch.where(inside, x, math.nan if x.is_floating_point() else 0), v.d)

    def rounded(self, v: Value, dtype: str, roundings: float | Tensor) -> Value:
        """``v`` after that many roundings of its own size to ``dtype``."""
        if self.accumulation is None:
            return Value(v.x)
        f = FORMATS[dtype]
        size = v.x.abs()
        d = size * (roundings * self.accumulation.roundoff(dtype)) + f.tiny
        if v.d is not None:
            d = d + v.d
            d = torch.where((v.x == 0) & (v.d == 0), 0.0, d)
        else:
            d = torch.where(v.x == 0, 0.0, d)
        return self.claimed(Value(v.x, d), dtype)

    def claimed(self, v: Value, dtype: str) -> Value:
        """An infinite value is exact unless its bound is infinite; a value that may overflow has no bound."""
        if v.d is None or self.accumulation is None:
            return Value(v.x)
        finite = v.x.isfinite()
        d = v.d.nan_to_num(nan=math.inf, posinf=math.inf)
        over = finite & (v.x.abs() + d > FORMATS[dtype].largest)
        self.overflow |= (over & d.isfinite()).any()
        d = torch.where(finite, torch.where(over, math.inf, d), torch.where(d.isinf(), math.inf, 0.0))
        return Value(v.x, d)

    # ------------------------------------------------------------------------------------------ operations

    def cast(self, v: Value, source: str, target: str) -> Value:
        x, d = v.x, v.d
        if target in INTS:
            if source in INTS or source == "bool":
                return Value(x.to(torch.int64), None if d is None else torch.where(d > 0, math.inf, 0.0))
            changed = None if d is None else (x - d).trunc() != (x + d).trunc()
            found = x.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).trunc().to(torch.int64)
            return Value(found, None if changed is None else torch.where(changed, math.inf, 0.0))
        if target == "bool":
            truth = torch.where(x.isnan(), math.nan, (x != 0).double()) if x.is_floating_point() else (x != 0).double()
            return Value(truth, None if d is None else ((x.abs() <= d) & (d > 0)).double())
        y = Value(x.to(torch.float64), d)
        if source in INTS:
            exact = bool((y.x.abs() <= 2.0 ** FORMATS[target].digits).all())
            return y if exact else self.rounded(y, target, 1)
        return y if source == "bool" or holds(target, source) else self.rounded(y, target, 1)

    def apply(self, e: Op, args: Sequence[Value]) -> Value:
        if e.args[0].dtype in INTS and e.dtype in INTS and e.name != "select":
            x = exact_ops.INTEGERS[e.name](*(a.x for a in args))
            unsure = [a.d for a in args if a.d is not None]
            return Value(x, sum(unsure[1:], unsure[0]).broadcast_to(x.shape) if unsure else None)
        x, d, roundings = exact_ops.apply(e, args, self.bodies if self.accumulation is not None else None)
        if e.dtype not in FLOATS:
            return Value(x, d)
        if roundings is None:  # nothing is computed: a choice, a sign
            return Value(x, d) if d is None else self.claimed(Value(x, d), e.dtype)
        return self.rounded(Value(x, d), e.dtype, roundings)

    # ------------------------------------------------------------------------------------------ reductions

    def reduce(self, e: Reduce, v: Value, dims: tuple[int, ...], stage: str) -> Value:
        n = math.prod(v.x.shape[k] for k in dims)
        if e.reducer in ("max", "min", "any", "all"):
            return self._extremum(e, v, dims, stage, n)
        if e.reducer == "sum":
            x = v.x.sum(dims)
            if e.dtype in INTS:
                return Value(x, None if v.d is None else v.d.sum(dims))
            return self._sum(e, x, v, dims, stage, n)
        flat = v.view(lambda t: t.reshape(*t.shape[: dims[0]], n))
        if e.reducer == "prod":
            x = flat.x.prod(-1)
            if e.dtype in INTS or self.accumulation is None:
                return Value(x, None if flat.d is None else flat.d.sum(-1))
            size = flat.x.abs()
            d = (size if flat.d is None else size + flat.d).prod(-1) - size.prod(-1)
            return self.rounded(Value(x, d), wide(e.dtype), self.depth(stage, n))
        x = torch.logsumexp(flat.x, -1)
        if self.accumulation is None:
            return Value(x)
        # Each step is an exponential and a logarithm near 1, and is rounded at the size of what was seen so far.
        largest = torch.where(flat.x.isfinite(), flat.x.abs(), 0.0).amax(-1)
        own = (16 + largest) * (self.depth(stage, n) * FORMATS[wide(e.dtype)].roundoff)
        if flat.d is not None:
            own = own + torch.where(flat.x == -math.inf, 0.0, flat.d).amax(-1)
        d = torch.where(x.isinf(), 0.0, own)
        return self._narrow(self.rounded(Value(x, d), wide(e.dtype), 8), e.dtype)

    def _extremum(self, e: Reduce, v: Value, dims: tuple[int, ...], stage: str, n: int) -> Value:
        most = e.reducer in ("max", "any")
        extreme = torch.amax if most else torch.amin
        x = extreme(v.x, dims)
        if v.d is None and self.repairs(stage) == 0:
            return Value(x)
        d: Tensor | None = None
        if v.d is not None:
            if e.dtype in FLOATS:
                low, high = extreme(v.x - v.d, dims), extreme(v.x + v.d, dims)
                d = torch.maximum((x - low).abs(), (high - x).abs())
                d = torch.where(x.isinf() & (low == x) & (high == x), 0.0, d)
            else:
                d = v.d.amax(dims)
        if e.dtype not in FLOATS:
            return Value(x, d)
        steps = self.depth(stage, n) if self.repairs(stage) else 0.0
        return self.rounded(Value(x, d), wide(e.dtype), steps) if steps else self.claimed(Value(x, d), e.dtype)

    def _sum(self, e: Reduce, x: Tensor, v: Value, dims: tuple[int, ...], stage: str, n: int) -> Value:
        if self.accumulation is None:
            return Value(x)
        size, d = v.x.abs(), v.d
        operand = self.accumulation.operand_error(e)
        if operand:  # what is rounded for a product is rounded for this sum too
            own = torch.where(v.x == 0, 0.0, size * (copies(e.body) * operand.relative) + operand.absolute)
            d = own if d is None else d + own
        error = size.sum(dims) * (self.depth(stage, n) * FORMATS[wide(e.dtype)].roundoff)
        if d is not None:
            error = error + d.sum(dims)
        return self._narrow(self.claimed(Value(x, error), e.dtype), e.dtype)

    def contract(
        self, e: Reduce, parts: Sequence[Expr], factors: Sequence[Value], equation: str, times: int, stage: str
    ) -> Value:
        x = torch.einsum(equation, *(f.x for f in factors)) * times
        if self.accumulation is None:
            return Value(x)
        sizes = [f.x.abs() for f in factors]
        grown = list(sizes)
        operand = self.accumulation.operand_error(e)
        for k, (p, f) in enumerate(zip(parts, factors, strict=True)):
            if f.d is not None:
                grown[k] = grown[k] + f.d
            own = isinstance(p, Op) and p.name == "cast" and p.args[0].dtype in NARROW
            if operand and not own:  # itself, or, where no other factor has 16 bits, by its use in a product that has
                error = sizes[k] * (copies(p) * operand.relative) + operand.absolute
                grown[k] = grown[k] + torch.where(f.x == 0, 0.0, error)
        plain = torch.einsum(equation, *sizes) * times
        d = (torch.einsum(equation, *grown) * times - plain).clamp(min=0.0)
        n = math.prod(self.lengths.integer(a.extent) for a in e.axes)
        steps = self.depth(stage, n) * (operand.products if operand else 1) + len(parts)
        carried = FORMATS[wide(e.dtype)]
        d = (
            d + plain * (steps * carried.roundoff) + torch.where(plain == 0, 0.0, n * carried.tiny)
        )  # products may underflow
        return self._narrow(self.claimed(Value(x, d), e.dtype), e.dtype)

    # ------------------------------------------------------------------------------------------ accumulation

    def depth(self, stage: str, n: int) -> float:
        return 0.0 if self.accumulation is None else self.accumulation.depth(stage, n)

    def repairs(self, stage: str) -> float:
        return 0.0 if self.accumulation is None else self.accumulation.repairs.get(stage, 0.0)

    def _narrow(self, v: Value, dtype: str) -> Value:
        """A reduction of 16-bit numbers is accumulated in float32, and rounded once."""
        return self.rounded(v, dtype, 1) if dtype in NARROW else v


def copies(e: Expr) -> float:
    """How many times a value that is rounded may be a factor of this one."""
    match e:
        case Op("pow", (x, Const(n))):
            return max(1.0, abs(float(n))) * copies(x)
        case Op("mul", (x, y)):
            return copies(x) + copies(y)
        case _:
            return 1.0

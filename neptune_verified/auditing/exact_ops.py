"""Not trusted: each operation in float64, how an error goes through it, and how many roundings it adds.

``apply`` gives the value, the error that comes from its arguments (None for none), and the roundings of the result (None
where nothing is computed). Where an argument's error is as large as what a function needs (a divisor, the argument of a
logarithm), the error is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from neptune_verified.auditing.evaluate import Value
from neptune_verified.auditing.formats import ROUNDINGS
from neptune_verified.ir.expr import INTS, Const, Expr, Op, Read, Reduce, Size

Result = tuple[Tensor, Tensor | None, "float | Tensor | None"]
NAN, INF = math.nan, math.inf


def apply(e: Op, args: Sequence[Value], bodies: Mapping[str, Expr] | None) -> Result:
    """``bodies``: those of the stages, by name; None where no errors are wanted."""
    xs = [a.x for a in args]
    ds = [a.d for a in args]
    some = any(d is not None for d in ds)
    zeros = [torch.zeros((), dtype=torch.float64, device=x.device) if d is None else d for x, d in zip(xs, ds)]
    if e.name in COMPARISONS:
        x = _comparison(e.name, xs[0], xs[1])
        close = (xs[0] - xs[1]).abs() <= zeros[0] + zeros[1]
        return x, (close & (zeros[0] + zeros[1] > 0)).double() if some else None, None
    if e.name == "select":
        return _select(xs, ds, zeros)
    if e.name in LOGIC:
        return LOGIC[e.name](*xs), torch.stack(torch.broadcast_tensors(*zeros)).amax(0) if some else None, None
    x = VALUES[e.name](*(x.double() for x in xs))
    if bodies is None:
        return x, None, None
    if e.name in UNROUNDED:
        return x, UNROUNDED[e.name](x, xs, zeros) if some else None, None
    d = ERRORS[e.name](nonnegative(e.args[0], bodies), x, xs, zeros) if some else None
    return x, d, _roundings(e.name, x, xs)


def _roundings(name: str, x: Tensor, xs: Sequence[Tensor]) -> float | Tensor:
    """In units of the result's roundoff; an exponential's grow with its argument, which is rounded on the way."""
    n = ROUNDINGS[name]
    if name in ("exp", "exp2", "sigmoid"):
        return n + 2 * xs[0].abs().clamp(max=2000.0)
    if name == "pow":
        log = xs[0].abs().log().nan_to_num(nan=0.0, posinf=2000.0, neginf=-2000.0)
        return n + 4 * (xs[1].double() * log).abs()
    if name in ("log", "sin", "cos", "erf"):  # exact to an absolute error, as the argument's own rounding is
        return n + 4 / x.abs().clamp(min=1e-30, max=1.0)
    return n


# ---------------------------------------------------------------------------------------------- values


def _div(x: Tensor, y: Tensor) -> Tensor:
    return torch.where(y == 0, NAN, x / torch.where(y == 0, 1.0, y))


def _pow(x: Tensor, y: Tensor) -> Tensor:
    undefined = x.isnan() | y.isnan() | ((x == 0) & (y < 0)) | ((x < 0) & (y != y.floor()))
    return torch.where(undefined, NAN, torch.pow(x, y))


def _mod(x: Tensor, y: Tensor) -> Tensor:
    return x - torch.floor(_div(x, y)) * y


VALUES: dict[str, Callable[..., Tensor]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": _div, "pow": _pow, "neg": torch.neg, "abs": torch.abs,
    "max": torch.maximum, "min": torch.minimum, "floordiv": lambda x, y: torch.floor(_div(x, y)), "floormod": _mod,
    "exp": torch.exp, "exp2": torch.exp2, "log": torch.log, "sqrt": torch.sqrt,
    "rsqrt": lambda x: torch.where(x == 0, NAN, torch.rsqrt(x)), "tanh": torch.tanh, "sigmoid": torch.sigmoid,
    "erf": torch.erf, "sin": torch.sin, "cos": torch.cos, "floor": torch.floor, "ceil": torch.ceil, "round": torch.round,
}  # fmt: skip

INTEGERS: dict[str, Callable[..., Tensor]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "neg": torch.neg, "abs": torch.abs,
    "max": torch.maximum, "min": torch.minimum,
    "floordiv": lambda x, y: torch.where(y == 0, 0, torch.div(x, torch.where(y == 0, 1, y), rounding_mode="floor")),
    "floormod": lambda x, y: torch.where(y == 0, 0, torch.remainder(x, torch.where(y == 0, 1, y))),
}  # fmt: skip

LOGIC: dict[str, Callable[..., Tensor]] = {"and": torch.mul, "or": torch.maximum, "not": lambda x: 1.0 - x}

COMPARISONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge, "eq": torch.eq, "ne": torch.ne,
}  # fmt: skip


def _comparison(name: str, x: Tensor, y: Tensor) -> Tensor:
    found = COMPARISONS[name](x, y).double()
    undefined = [z.isnan() for z in (x, y) if z.is_floating_point()]
    return torch.where(sum(undefined[1:], undefined[0]).bool(), NAN, found) if undefined else found


def _select(xs: Sequence[Tensor], ds: Sequence[Tensor | None], zeros: Sequence[Tensor]) -> Result:
    c, a, b = xs
    x = torch.where(c == 1, a, b)
    if x.is_floating_point():
        x = torch.where(c.isnan(), NAN, x)
    if all(d is None for d in ds):
        return x, None, None
    d = torch.where(c == 1, zeros[1], zeros[2])
    if ds[0] is not None:
        apart = torch.where(a == b, 0.0, (a - b).abs().double()) + torch.maximum(zeros[1], zeros[2])
        d = torch.where(ds[0] > 0, apart if x.is_floating_point() else INF, d)
    return x, d.broadcast_to(x.shape), None


# ---------------------------------------------------------------------------------------------- errors

#: Its first argument says that no value of the operation's (first) argument is below 0, as it is computed.
Error = Callable[[bool, Tensor, Sequence[Tensor], Sequence[Tensor]], Tensor]


def _mul(sure: bool, x: Tensor, xs: Sequence[Tensor], ds: Sequence[Tensor]) -> Tensor:
    (a, b), (da, db) = (v.abs() for v in xs), ds
    signs = (a > da) & (b > db)  # an infinite product of two certain signs
    return torch.where(a.isinf() | b.isinf(), torch.where(signs, 0.0, INF), a * db + b * da + da * db)


def _div_error(sure: bool, x: Tensor, xs: Sequence[Tensor], ds: Sequence[Tensor]) -> Tensor:
    b, (da, db) = xs[1].abs(), ds
    left = b - db
    known = (da + torch.where(x == 0, 0.0, x.abs()) * db) / left
    known = torch.where(b.isinf(), 0.0, known)
    # A divisor that may be computed as 0 leaves nothing to claim, of a numerator of 0 either.
    return torch.where(left > 0, known.nan_to_num(nan=0.0, posinf=INF), INF)


def _exp(base: float) -> Error:
    def error(sure: bool, x: Tensor, xs: Sequence[Tensor], ds: Sequence[Tensor]) -> Tensor:
        grown = torch.expm1(ds[0] * math.log(base))
        return torch.where((x == 0) & (xs[0] == -INF), 0.0, x * grown)

    return error


def _log(sure: bool, x: Tensor, xs: Sequence[Tensor], ds: Sequence[Tensor]) -> Tensor:
    a, da = xs[0], ds[0]
    return torch.where(da == 0, 0.0, torch.where(da < a, -torch.log1p(-da / a), INF))


def _sqrt(sure: bool, x: Tensor, xs: Sequence[Tensor], ds: Sequence[Tensor]) -> Tensor:
    a, da = xs[0], ds[0]
    least = (a - da).clamp(min=0.0).sqrt()
    d = torch.maximum((a + da).sqrt() - x, x - least)
    return d if sure else torch.where((a >= da) | (da == 0), d, INF)


def _rsqrt(sure: bool, x: Tensor, xs: Sequence[Tensor], ds: Sequence[Tensor]) -> Tensor:
    a, da = xs[0], ds[0]
    return torch.where(da == 0, 0.0, torch.where(da < a, (a - da).rsqrt() - x, INF))


def _tanh(sure: bool, x: Tensor, xs: Sequence[Tensor], ds: Sequence[Tensor]) -> Tensor:
    nearest = torch.tanh((xs[0].abs() - ds[0]).clamp(min=0.0))
    return ds[0] * (1 - nearest * nearest)


def _sigmoid(sure: bool, x: Tensor, xs: Sequence[Tensor], ds: Sequence[Tensor]) -> Tensor:
    nearest = torch.sigmoid((xs[0].abs() - ds[0]).clamp(min=0.0))
    return ds[0] * nearest * (1 - nearest)


def _pow_error(sure: bool, x: Tensor, xs: Sequence[Tensor], ds: Sequence[Tensor]) -> Tensor:
    a, y, da, dy = xs[0].abs(), xs[1].double(), ds[0], ds[1]
    least, most, size = (a - da).clamp(min=0.0), a + da, x.abs()
    grown = torch.where(y >= 0, torch.maximum(most.pow(y) - size, size - least.pow(y)), least.pow(y) - size)
    grown = torch.where((y < 0) & (da >= a), INF, grown)
    # A negative number has powers at integers alone.
    grown = torch.where((y != y.floor()) & (xs[0] - da < 0), INF, grown)
    of_power = torch.where(
        xs[0] - da > 0, (size + grown) * torch.expm1(torch.maximum(most.log().abs(), least.log().abs()) * dy), INF
    )
    return grown + torch.where(dy == 0, 0.0, of_power)


def _mod_error(sure: bool, x: Tensor, xs: Sequence[Tensor], ds: Sequence[Tensor]) -> Tensor:
    return torch.where((ds[0] == 0) & (ds[1] == 0), 0.0, INF)


ERRORS: dict[str, Error] = {
    "add": lambda _, x, xs, ds: ds[0] + ds[1],
    "sub": lambda _, x, xs, ds: ds[0] + ds[1],
    "mul": _mul,
    "div": _div_error,
    "pow": _pow_error,
    "exp": _exp(math.e),
    "exp2": _exp(2.0),
    "log": _log,
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "erf": lambda _, x, xs, ds: ds[0] * (2 / math.sqrt(math.pi)),
    "sin": lambda _, x, xs, ds: ds[0],
    "cos": lambda _, x, xs, ds: ds[0],
    "floormod": _mod_error,
}


def _steps(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Sequence[Tensor], Sequence[Tensor]], Tensor]:
    """A step function: exact unless the argument's error crosses a step."""

    def error(x: Tensor, xs: Sequence[Tensor], ds: Sequence[Tensor]) -> Tensor:
        low, high = f(xs[0] - ds[0]), f(xs[0] + ds[0])
        return torch.where(ds[0] == 0, 0.0, torch.maximum((high - x).abs(), (x - low).abs()))

    return error


def _quotient(x: Tensor, xs: Sequence[Tensor], ds: Sequence[Tensor]) -> Tensor:
    return torch.where((ds[0] == 0) & (ds[1] == 0), 0.0, INF)


#: Operations that add no rounding of their own.
UNROUNDED: dict[str, Callable[[Tensor, Sequence[Tensor], Sequence[Tensor]], Tensor]] = {
    "neg": lambda x, xs, ds: ds[0],
    "abs": lambda x, xs, ds: ds[0],
    "max": lambda x, xs, ds: torch.maximum(ds[0], ds[1]).broadcast_to(x.shape),
    "min": lambda x, xs, ds: torch.maximum(ds[0], ds[1]).broadcast_to(x.shape),
    "floor": _steps(torch.floor),
    "ceil": _steps(torch.ceil),
    "round": _steps(torch.round),
    "floordiv": _quotient,
}


def nonnegative(e: Expr, bodies: Mapping[str, Expr]) -> bool:
    """Whether no value of ``e``, as it is computed, is below 0."""

    def is_(x: Expr) -> bool:
        return nonnegative(x, bodies)

    match e:
        case Const(value):
            return value >= 0
        case Read(tensor):
            return tensor in bodies and is_(bodies[tensor])
        case Op("mul", (a, b)):
            return a is b or (is_(a) and is_(b))
        case Op("abs" | "exp" | "exp2" | "sqrt" | "rsqrt" | "sigmoid"):
            return True
        case Op("add" | "div" | "min", (a, b)) | Op("select", (_, a, b)):
            return is_(a) and is_(b)
        case Op("max", (a, b)):
            return is_(a) or is_(b)
        case Op("pow", (a, Const(n))):
            return is_(a) or n % 2 == 0
        case Op("cast", (a,)) | Reduce("sum" | "prod" | "max" | "min", _, a):
            return is_(a) or (isinstance(a, Size) and a.dtype in INTS)
        case _:
            return False

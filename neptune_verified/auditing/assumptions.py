"""Not trusted: which inputs and lengths a definition's assumptions let in, and how others are changed to be let in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from neptune_verified.ir.expr import FLOATS, INTS, Size
from neptune_verified.ir.interpret import Evaluator, Frame
from neptune_verified.ir.printing import Printer
from neptune_verified.ir.program import Assumption, Program, Tensor

if TYPE_CHECKING:
    from torch import Tensor as TorchTensor

Sizes = Mapping[str, int | float]
#: What stands for 0 where 0 is excluded.
SMALL = 2.0**-10


def stated(program: Program, subject: str) -> dict[str, float | int]:
    """The assumptions on one input or size, declared or default: kind -> value (0 where a kind has none)."""
    found: dict[str, float | int] = {}
    for a in program.assumptions:
        if a.subject == subject:
            found[a.kind] = 0 if a.value is None else a.value
    return found


def text(a: Assumption) -> str:
    return Printer()(a.expr) if a.kind == "holds" and a.expr is not None else str(a)


# ------------------------------------------------------------------------------------------------------ checking


def size_violations(program: Program, sizes: Sizes) -> list[str]:
    """The assumptions on lengths and scalars that these values break, as texts."""
    found = []
    for a in program.assumptions:
        if a.kind == "holds" and a.expr is not None:
            if float(Evaluator({}, sizes).eval(a.expr, Frame((), ()))) != 1:
                found.append(f"{text(a)} at {_shown(sizes)}")
        elif a.subject in sizes and not _holds(a, sizes[a.subject]):
            found.append(f"{text(a)} at {a.subject} = {sizes[a.subject]:g}")
    return found


def _shown(sizes: Sizes) -> str:
    return ", ".join(f"{k} = {v:g}" for k, v in sizes.items())


def _holds(a: Assumption, x: float | int) -> bool:
    value = a.value or 0
    return {
        "bounded": abs(x) <= value,
        "at_least": x >= value,
        "positive": x > 0,
        "nonnegative": x >= 0,
        "nonzero": x != 0,
        "multiple_of": x % (value or 1) == 0,
    }.get(a.kind, True)


def tensor_violations(program: Program, tensors: Mapping[str, TorchTensor]) -> list[str]:
    """Likewise for the elements of inputs: what is broken, and the first element that breaks it. Of the assumptions that
    nobody declared, the ranges alone count."""
    found = []
    for a in program.assumptions:
        if a.subject not in tensors or (a.origin == "default" and a.kind != "bounded"):
            continue
        x = tensors[a.subject]
        infinite = "finite_or_minus_infinity" in stated(program, a.subject)
        wrong = _broken(a, x, infinite)
        if wrong is not None and bool(wrong.any()):
            found.append(f"{text(a)} at {place(a.subject, wrong)}")
    return found


def place(name: str, where: TorchTensor) -> str:
    """The first element for which ``where`` is true."""
    at = where.nonzero()[0].tolist()
    return f"{name}[{', '.join(map(str, at))}]" if at else name


def _broken(a: Assumption, x: TorchTensor, infinite: bool) -> TorchTensor | None:
    if x.dtype.is_floating_point:
        x, value = x.double(), float(a.value or 0)
        low = value
    else:
        x, value, low = x.long(), math.floor(a.value or 0), math.ceil(a.value or 0)
    match a.kind:
        case "bounded":
            return ((x > value) | (x < -value)) & ~(x == -math.inf) if infinite else (x > value) | (x < -value)
        case "at_least":
            return x < low
        case "positive":
            return x <= 0
        case "nonnegative":
            return x < 0
        case "nonzero":
            return x == 0
        case "finite_or_minus_infinity":
            return x == math.inf
        case _:
            return None


# ---------------------------------------------------------------------------------------------------- respecting


def respecting_size(n: int, s: Size, program: Program) -> int | float:
    """The value next to n that the assumptions on this one size let in."""
    mine = stated(program, s.name)
    least = math.ceil(mine.get("at_least", 0))
    if "positive" in mine or "nonzero" in mine:
        least = max(1, least)
    step = int(mine.get("multiple_of", 1)) or 1
    value = -(-max(n, least) // step) * step
    if (bound := mine.get("bounded")) is not None and value > bound:
        value = math.floor(bound) // step * step
    if s.dtype == "bool":
        return value % 2
    return value if s.dtype in INTS else float(value)


def respecting(t: Tensor, x: TorchTensor, program: Program) -> TorchTensor:
    """x, of the declared type, changed as little as the assumptions on it demand; -inf stays where it may be."""
    import torch

    mine = stated(program, t.name)
    if t.dtype == "bool":
        return x
    kept = x == -math.inf if t.dtype in FLOATS else torch.zeros((), dtype=torch.bool)
    if mine.keys() & {"positive", "nonnegative"} or mine.get("at_least", -1) >= 0:
        x = x.abs()
    if mine.get("at_least", 0) > 0 and t.dtype in FLOATS:
        x = x + mine["at_least"]
    bound = mine.get("bounded")
    if bound is not None and t.dtype in FLOATS:
        most = float(x.masked_fill(kept, 0.0).abs().max()) if x.numel() else 0.0
        if math.isinf(most):
            x, most = x.nan_to_num(posinf=bound, neginf=-bound), bound
        if most > bound:
            x = (x.double() * (bound / most)).to(x.dtype)
    if mine.keys() & {"positive", "nonzero"}:
        x = x.masked_fill(x == 0, 1 if t.dtype in INTS else SMALL)
    low = mine.get("at_least", -math.inf)
    high = math.inf if bound is None else bound
    x = x.clamp(_next(max(low, -high), x.dtype, up=True), _next(high, x.dtype, up=False))
    if mine.keys() & {"positive", "nonzero"} and high < SMALL:
        x = x.masked_fill(x == 0, _next(high, x.dtype, up=False))
    return torch.where(kept, -math.inf, x).to(x.dtype) if bool(kept.any()) else x


def _next(value: float, dtype: Any, up: bool) -> float | int:
    """The number of this type next to ``value`` that is not below it (``up``) or not above it."""
    import torch

    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        if math.isinf(value):
            return int(info.max if value > 0 else info.min)
        return int(min(max(math.ceil(value) if up else math.floor(value), info.min), info.max))
    if math.isinf(value):
        return value
    near = torch.tensor(value, dtype=torch.float64).to(dtype)
    if (float(near) < value) if up else (float(near) > value):
        bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[near.element_size()]
        away = (float(near) >= 0) == up  # from 0: the number's magnitude grows
        near = (near.view(bits) + (1 if away else -1)).view(dtype) if float(near) or up else near
    return float(near)

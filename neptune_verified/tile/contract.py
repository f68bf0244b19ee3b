"""Not trusted: recognises sums of products as matrix products.

``sum_k a * b`` is a ``dot`` where the factors split into those over (m, k) and those over (k, n) for two tile axes m, n.
An operand that is an exact widening of a 16-bit value is taken in 16 bits (the products of the matrix unit are exact and
accumulated in fp32); an fp32 operand beside a 16-bit one is rounded to that type, or taken as the sum of two numbers of
it, in two products: conversions that a compiler may insert, and that are listed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from neptune_verified.ir.expr import Axis, Expr, Op, Read, Var, op, subterms
from neptune_verified.tile.blocks import DOT_ROWS, product_factors

SIXTEEN = ("float16", "bfloat16")
#: What is done with a float32 operand of a dot beside a 16-bit one. "x1" rounds it; "x2" takes it as the sum of two
#: 16-bit numbers, in two products (as bf16x2 does), which leaves no error of its own in a 16-bit result; "auto" is x2 where
#: there are so few rows that reading the other operand takes the time.
OPERANDS = ("auto", "x1", "x2")


@dataclass(frozen=True, slots=True)
class Conversions:
    """Which float conversions may be inserted; ``strict``: none."""

    strict: bool = False
    operands: str = "auto"

    def doubles(self, rows: int | None) -> bool:
        """Whether an operand with so many rows (None: a tile of any size) is taken as two numbers."""
        return self.operands == "x2" or (self.operands == "auto" and rows is not None and rows <= DOT_ROWS)


@dataclass(frozen=True, slots=True)
class Contraction:
    m: Axis
    k: Axis
    n: Axis
    a: Expr
    b: Expr
    a_dtype: str
    b_dtype: str
    a_is_load: bool
    b_is_load: bool
    #: The 16-bit type to which the fp32 operand is rounded; "" where none is.
    rounded: str = ""
    #: Whether that operand is taken as the sum of two numbers of that type instead.
    twice: bool = False

    @property
    def wide(self) -> Expr:
        """The operand that is rounded."""
        return self.a if _narrow(self.a) != self.rounded else self.b

    @property
    def rows(self) -> Axis:
        """The axis that the rounded operand has and the other one does not."""
        return self.m if self.wide is self.a else self.n

    @property
    def roundings(self) -> tuple[str, ...]:
        if not self.rounded:
            return ()
        if self.twice:
            return (f"an operand of a dot is taken as the sum of two {self.rounded} numbers, in two products",)
        return (f"an operand of a dot is rounded to {self.rounded}, the other operand's type, in every use",)

    def doubled(self, body: Expr) -> Contraction:
        """With two numbers for the rounded operand, where ``body`` is the product of that and the other."""
        if not self.rounded or body not in (op("mul", self.a, self.b), op("mul", self.b, self.a)):
            return self
        return replace(self, twice=True)


def find_contraction(body: Expr, k: Axis, is_tile: Callable[[Axis], bool], strict: bool) -> Contraction | None:
    """None where ``sum over k of body`` is no matrix product."""
    factors = product_factors(body)
    axes = [{a for a in tile_axes(f) if is_tile(a)} for f in factors]
    others = list(dict.fromkeys(a for s in axes for a in sorted(s, key=lambda x: x.name) if a is not k))
    if len(others) != 2:
        return None
    for m, n in (others, others[::-1]):
        left = [f for f, s in zip(factors, axes, strict=True) if n not in s]
        right = [f for f, s in zip(factors, axes, strict=True) if n in s]
        sides = [s for s in axes if n in s]
        if any(m in s for s in sides) or not any(k in s for s in sides):
            continue
        if not any(m in s and k in s for s in axes):
            continue
        return _typed(m, k, n, left, right, strict)
    return None


def tile_axes(e: Expr) -> set[Axis]:
    """Axes on which a factor's tile has a dimension: its free axes, those of carried values included."""
    return set(e.free)


def _typed(m: Axis, k: Axis, n: Axis, left: list[Expr], right: list[Expr], strict: bool) -> Contraction | None:
    a, b = _product(left), _product(right)
    a_type, b_type = _narrow(a), _narrow(b)
    rounded = ""
    if a_type != b_type:
        narrow = {t for t in (a_type, b_type) if t in SIXTEEN}
        if len(narrow) == 1 and not strict and "float64" not in (a_type, b_type):
            target = rounded = narrow.pop()
        else:
            target = "float32"
        a_type = b_type = target
    if a_type not in (*SIXTEEN, "float32"):
        return None
    return Contraction(m, k, n, a, b, a_type, b_type, _is_load(a), _is_load(b), rounded)


def _product(factors: list[Expr]) -> Expr:
    result = factors[0]
    for f in factors[1:]:
        result = op("mul", result, f)
    return result


def _narrow(e: Expr) -> str:
    """The 16-bit type that ``e`` is an exact widening of, or its own type."""
    if isinstance(e, Op) and e.name == "cast" and e.args[0].dtype in SIXTEEN and e.dtype in ("float32", "float64"):
        return e.args[0].dtype
    return e.dtype


def _is_load(e: Expr) -> bool:
    """A plain load: lanes out of range are 0 already."""
    while isinstance(e, Op) and e.name == "cast":
        e = e.args[0]
    return isinstance(e, Read) and not any(isinstance(x, Var) for x in subterms(e))

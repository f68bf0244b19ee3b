"""Trusted: Triton's operators: types of results, widths of integers, and which operation of the domain is meant.

An integer has the width that Triton gives it: int32 for program ids, ranges and arguments, int64 after a cast; a literal
takes the width of what it meets. A stride is a symbol (``Int.terms``), as it may be any number, and a product with it has
to be taken in 64 bits.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from neptune_verified.proofs.bounded import integers
from neptune_verified.proofs.bounded.domain import Domain
from neptune_verified.proofs.bounded.field import Array
from neptune_verified.proofs.bounded.result import Fault, Unsupported
from neptune_verified.proofs.bounded.values import Bit, Ghost, Int, Lit, Ptr, Val

Item = Val | Int | Bit | Lit | Ghost | Ptr
_RANK = {"float64": 4, "float32": 3, "float16": 2, "bfloat16": 1}
_FLOAT = {"add": "add", "sub": "sub", "mul": "mul", "div": "div", "max": "extremum", "min": "extremum"}


class NeedsValues(Exception):
    """The path or the addresses depend on float values, which this run does not follow."""


def shape_of(x: Item) -> tuple[int, ...]:
    return () if isinstance(x, Lit) else x.shape


def joint(*items: Item) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*(shape_of(x) for x in items))
    except ValueError as e:
        raise Fault("O13", f"shapes {', '.join(str(list(shape_of(x))) for x in items)} do not fit") from e


def common(a: Item, b: Item, divides: bool = False) -> str:
    """The float type of ``a op b``."""
    types = [x.dtype for x in (a, b) if isinstance(x, Val | Ghost) and x.dtype != "bool"]
    if not types:
        return "float32"
    top = max(types, key=_RANK.__getitem__)
    if top in ("float16", "bfloat16") and (divides or len(set(types)) > 1):
        return "float32" if divides or "bfloat16" in types else top
    return top


def to_float(domain: Domain, x: Item, dtype: str) -> Val:
    match x:
        case Val():
            return x if x.dtype == dtype else domain.cast(x, dtype)
        case Lit():
            return domain.literal(x, dtype)
        case Int() if not x.terms:
            return domain.integers(x.a, dtype)
        case Bit():
            v = domain.integers(x.a.astype(np.int64), dtype)
            if x.bad is not None:
                v.f = np.where(x.bad, np.nan, v.f)
            return v
        case _:
            raise Unsupported("a pointer or a stride used as a number")


def sized(a: Array, width: int, what: str) -> Int:
    if width in (8, 16, 32) and a.size:
        limit = 1 << (width - 1)
        if width == 8 and limit <= a.max() < 256:
            raise Unsupported(f"{what} does not fit int8, and it is not followed whether it is a uint8")
        if a.max() >= limit or a.min() < -limit:
            raise Fault("O12", f"{what} leaves int{width}")
    return Int(a, width)


def binary(domain: Domain, name: str, a: Item, b: Item) -> Item:
    joint(a, b)
    if isinstance(a, Ptr) or isinstance(b, Ptr):
        a, b = (a, b) if isinstance(a, Ptr) else (b, a)
        if name != "add" or not isinstance(b, Int) or not isinstance(a, Ptr):
            raise Unsupported(f"{name} on a pointer")
        offset = integer(domain, "add", a.offset, b)
        assert isinstance(offset, Int)
        return Ptr(a.tensor, offset)
    if isinstance(a, Ghost) or isinstance(b, Ghost):
        boolean = name in integers.COMPARE or (isinstance(a, Ghost | Bit) and a_bool(a)) or name in ("and", "or")
        return Ghost(joint(a, b), "bool" if boolean else common(a, b, name == "div"))
    if isinstance(a, Bit) and isinstance(b, Bit):
        return integers.logic(name, [a, b], strict=False)
    if isinstance(a, Bit) or isinstance(b, Bit):
        return _bit_and_number(domain, name, a, b)
    if isinstance(a, Int) and isinstance(b, Int):
        return integer(domain, name, a, b)
    if isinstance(a, Lit) and isinstance(b, Lit):
        return _literals(name, a, b)
    dtype = common(a, b, name == "div")
    x, y = to_float(domain, a, dtype), to_float(domain, b, dtype)
    if name in integers.COMPARE:
        return domain.compare(name, x, y)
    if name not in _FLOAT:
        raise Unsupported(f"{name} on floats")
    if name in ("max", "min"):
        return domain.extremum(name, x, y)
    return getattr(domain, _FLOAT[name])(x, y)  # type: ignore[no-any-return]


def a_bool(x: Ghost | Bit) -> bool:
    return isinstance(x, Bit) or x.dtype == "bool"


def _bit_and_number(domain: Domain, name: str, a: Item, b: Item) -> Item:
    bit, other, turned = (a, b, False) if isinstance(a, Bit) else (b, a, True)
    assert isinstance(bit, Bit)
    if isinstance(other, Int) and not other.terms and other.width == 0 and name in ("eq", "ne") and other.a == 0:
        return integers.logic("not", [bit]) if name == "eq" else bit
    if name in ("and", "or") and isinstance(other, Int) and other.width == 0 and int(other.a) in (0, 1):
        return integers.logic(name, [bit, Bit(other.a != 0)], strict=False)
    if isinstance(other, Int) and bit.bad is None:
        number = Int(bit.a.astype(np.int64), 32)
        return integer(domain, name, *((other, number) if turned else (number, other)))
    raise Unsupported(f"{name} of a truth value and a number")


def _literals(name: str, a: Lit, b: Lit) -> Item:
    if not (isinstance(a.value, Fraction) and isinstance(b.value, Fraction)):
        raise Unsupported(f"{name} of two infinite literals")
    if name in ("add", "sub", "mul"):
        value = {"add": a.value + b.value, "sub": a.value - b.value, "mul": a.value * b.value}[name]
        return Lit(Fraction(float(value)))
    raise Unsupported(f"{name} of two literals")


def integer(domain: Domain, name: str, a: Int, b: Int) -> Item:
    width = max(a.width, b.width)
    if a.terms or b.terms:
        return _with_strides(name, a, b, width)
    if name in integers.COMPARE:
        return Bit(integers.COMPARE[name](a.a, b.a))
    if name == "div":
        return domain.div(domain.integers(a.a, "float32"), domain.integers(b.a, "float32"))
    if name in ("floordiv", "floormod"):
        if np.any(b.a == 0):
            raise Fault("O12", "a division by zero")
        if np.any(a.a < 0) or np.any(b.a < 0):
            sign = "//" if name == "floordiv" else "%"
            raise Fault("O12", f"{sign} truncates in Triton, and an operand is negative")
    if name in ("and", "or"):
        raise Unsupported(f"bitwise {name} of integers")
    result = integers.exact(name, [a.a, b.a])
    assert isinstance(result, Int)
    return sized(result.a, width, f"the result of {name}")


def _with_strides(name: str, a: Int, b: Int, width: int) -> Int:
    """Linear forms in strides: sums, and products with an index."""
    if name == "mul" and not (a.terms and b.terms):
        a, b = (a, b) if a.terms else (b, a)
        assert a.terms is not None
        if width != 64:
            raise Fault("O12", "an index times a stride is taken in 32 bits")
        zero = np.zeros((), dtype=np.int64) if not a.a.any() else a.a * b.a
        return Int(zero, 64, {k: t * b.a for k, t in a.terms.items()})
    if name in ("add", "sub"):
        sign = 1 if name == "add" else -1
        terms: dict[tuple[str, int], Any] = dict(a.terms or {})
        for k, t in (b.terms or {}).items():
            terms[k] = terms[k] + sign * t if k in terms else sign * t
        if width != 64 and any(np.any(t) for t in terms.values()):
            raise Fault("O12", "an offset is taken in 32 bits")
        return Int(a.a + sign * b.a, width, terms)
    raise Unsupported(f"{name} of a stride")


def negative(domain: Domain, x: Item) -> Item:
    match x:
        case Lit(value):
            return Lit(-value)
        case Int() if not x.terms:
            return sized(-x.a, x.width, "a negation")
        case Val():
            return domain.neg(x)
        case Ghost():
            return x
        case _:
            raise Unsupported("the negative of a truth value, a pointer or a stride")


def select(domain: Domain, c: Item, a: Item, b: Item) -> Item:
    joint(c, a, b)
    if isinstance(c, Int) and not c.terms:
        c = Bit(c.a != 0)
    floats = any(isinstance(x, Val | Lit | Ghost) for x in (a, b))
    if isinstance(c, Ghost) or isinstance(a, Ghost) or isinstance(b, Ghost):
        if isinstance(c, Ghost) and not floats:
            raise NeedsValues
        boolean = any(isinstance(x, Ghost | Bit) and a_bool(x) for x in (a, b))
        return Ghost(joint(c, a, b), "bool" if boolean else common(a, b))
    if not isinstance(c, Bit):
        raise Unsupported("a condition that is no truth value")
    if isinstance(a, Bit) and isinstance(b, Bit):
        return integers.choose(c, a, b)
    if isinstance(a, Int) and isinstance(b, Int) and not a.terms and not b.terms:
        if c.bad is not None and c.bad.any():
            raise Fault("O9", "an integer is chosen by an undefined condition")
        return Int(np.where(c.a, a.a, b.a), max(a.width, b.width))
    if floats:
        dtype = common(a, b)
        return domain.where(c, to_float(domain, a, dtype), to_float(domain, b, dtype))
    raise Unsupported("tl.where over mixed types")

"""Not trusted: an operation of the expression language in TVM scalar arithmetic; tests compare with the interpreter.

How a value of each dtype is held in a register, and in a buffer:

    =====================  ==========  ==========================================================================
    dtype                  register    buffer
    =====================  ==========  ==========================================================================
    float64, float32       the same    the same
    float16                float32     float16; every operation rounds its result to float16 once
    bfloat16               float32     uint16, the bits; every operation rounds its result to bfloat16 once
    int8 ... int64, uint8  int64       the same; integers are exact, as in the interpreter, and wrap when stored
    bool                   bool        uint8
    =====================  ==========  ==========================================================================

Nodes are made by their constructors, never by TVM's overloaded operators, which fold constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import tirx

from neptune_verified.errors import UnsupportedProgram
from neptune_verified.ir.expr import FLOATS, INTS, Const

#: A TVM expression. TVM's classes carry no types that a checker could use.
Prim = Any

HALVES = ("float16", "bfloat16")


def register(dtype: str) -> str:
    if dtype in INTS:
        return "int64"
    return "float32" if dtype in HALVES else dtype


def storage(dtype: str) -> str:
    return {"bool": "uint8", "bfloat16": "uint16"}.get(dtype, dtype)


def number(value: float | int, kind: str) -> Prim:
    """A literal of a register type, or of an unsigned type."""
    return tirx.FloatImm(kind, float(value)) if kind in FLOATS else tirx.IntImm(kind, int(value))


def literal(e: Const) -> Prim:
    return number(e.value if isinstance(e.value, float) else _plain(e), register(e.dtype))


def _plain(e: Const) -> float | int:
    return float(e.value) if e.dtype in FLOATS else int(e.value)


# ---------------------------------------------------------------------------------------------- buffers


def loaded(value: Prim, dtype: str) -> Prim:
    """From what a buffer of this dtype holds to a register."""
    if dtype == "bool":
        return tirx.NE(value, number(0, "uint8"))
    if dtype == "bfloat16":
        return tirx.reinterpret("float32", tirx.shift_left(tirx.Cast("uint32", value), number(16, "uint32")))
    if dtype == "float16":
        return _widened(value)
    return value if storage(dtype) == register(dtype) else tirx.Cast(register(dtype), value)


def _widened(half: Prim) -> Prim:
    """float16 to float32 by arithmetic on the bits, exactly: LLVM calls a library function where the CPU has no F16C.

    The method of Marat Dukhan's FP16 library: a normal number, infinity or NaN has its exponent moved by a
    multiplication with 2^-112, a subnormal one its mantissa put behind that of 0.5."""
    u, f = "uint32", "float32"
    word = tirx.shift_left(tirx.Cast(u, tirx.reinterpret("uint16", half)), number(16, u))
    sign = tirx.bitwise_and(word, number(0x80000000, u))
    twice = tirx.shift_left(word, number(1, u))
    moved = tirx.reinterpret(f, tirx.Add(tirx.shift_right(twice, number(4, u)), number(0xE0 << 23, u)))
    behind = tirx.bitwise_or(tirx.shift_right(twice, number(17, u)), number(126 << 23, u))
    small = tirx.Sub(tirx.reinterpret(f, behind), number(0.5, f))
    value = tirx.Select(tirx.LT(twice, number(1 << 27, u)), small, tirx.Mul(moved, number(2.0**-112, f)))
    return tirx.reinterpret(f, tirx.bitwise_or(sign, tirx.reinterpret(u, value)))


def stored(value: Prim, dtype: str) -> Prim:
    """From a register to what a buffer of this dtype holds: 16-bit floats are rounded to nearest even."""
    if dtype == "bfloat16":
        return tirx.Cast("uint16", tirx.shift_right(_bfloat16_bits(value), number(16, "uint32")))
    return value if storage(dtype) == register(dtype) else tirx.Cast(storage(dtype), value)


def rounded(value: Prim, dtype: str) -> Prim:
    """The value of a register, rounded to the dtype that it stands for."""
    if dtype == "float16":
        return tirx.Cast("float32", tirx.Cast("float16", value))
    return tirx.reinterpret("float32", _bfloat16_bits(value)) if dtype == "bfloat16" else value


def _bfloat16_bits(value: Prim) -> Prim:
    """Float32 bits whose lower half is 0. Adding half a unit to the bits of a NaN could overflow: it gets its own."""
    u = "uint32"
    bits = tirx.reinterpret(u, value)
    odd = tirx.bitwise_and(tirx.shift_right(bits, number(16, u)), number(1, u))
    up = tirx.Add(bits, tirx.Add(number(0x7FFF, u), odd))
    kept = tirx.bitwise_and(up, number(0xFFFF0000, u))
    return tirx.Select(tirx.EQ(value, value), kept, number(0x7FC00000, u))


# ---------------------------------------------------------------------------------------------- operations


def convert(value: Prim, source: str, target: str) -> Prim:
    """Between register types. A float becomes an integer by truncation, NaN and what is out of range 0."""
    if source == target:
        return value
    if target == "bool":
        return tirx.Not(tirx.EQ(value, number(0, source)))
    if source in FLOATS and target == "int64":
        fits = tirx.LT(_intrinsic("fabs", value, kind=source), number(2.0**63, source))
        return tirx.Cast(target, tirx.Select(fits, value, number(0, source)))
    return tirx.Cast(target, value)


def operation(name: str, dtype: str, args: list[Prim], types: list[str]) -> Prim:
    """``name`` over registers of the dtypes ``types``: a register of ``dtype``, not yet rounded to it."""
    kind = register(dtype)
    if name == "cast":
        return convert(args[0], register(types[0]), kind)
    if name == "select":
        a, b = (convert(x, register(t), kind) for x, t in zip(args[1:], types[1:], strict=True))
        return tirx.Select(args[0], a, b)
    if name in _COMPARE:
        common = _common(types)
        a, b = (convert(x, register(t), common) for x, t in zip(args, types, strict=True))
        return _COMPARE[name](a, b)
    if name in _LOGIC:
        return _LOGIC[name](*(convert(x, register(t), "bool") for x, t in zip(args, types, strict=True)))
    args = [convert(x, register(t), kind) for x, t in zip(args, types, strict=True)]
    table: dict[str, Callable[..., Prim]] = _FLOAT if kind in FLOATS else _INT if kind == "int64" else _BOOL
    if name not in table:
        raise UnsupportedProgram(f"{name} of {dtype}", why="the llvm target has no such operation")
    return table[name](kind, *args)


#: Operations that read an argument more than once: the caller binds their arguments to variables first.
SEVERAL = frozenset(("abs", "floordiv", "floormod", "cast"))


def combine(reducer: str, dtype: str, x: Prim, y: Prim) -> Prim:
    """The reducer on two registers; logaddexp in its stable form."""
    if reducer == "logaddexp":
        return _logaddexp(register(dtype), x, y)
    name = {"sum": "add", "prod": "mul", "any": "or", "all": "and"}.get(reducer, reducer)
    return operation(name, dtype, [x, y], [dtype, dtype])


def _common(types: list[str]) -> str:
    kinds = {register(t) for t in types}
    return next((k for k in ("float64", "float32", "int64") if k in kinds), "int64")


def _intrinsic(name: str, *args: Prim, kind: str) -> Prim:
    return tirx.call_llvm_pure_intrin(kind, f"llvm.{name}", *args)


def _logaddexp(kind: str, x: Prim, y: Prim) -> Prim:
    top = _intrinsic("maximum", x, y, kind=kind)
    low = _intrinsic("minimum", x, y, kind=kind)
    tail = _libm("log1p")(kind, tirx.exp(tirx.Sub(low, top)))
    same = tirx.EQ(low, top)  # also both -inf or both +inf, where low - top is undefined
    return tirx.Add(top, tirx.Select(same, number(0.6931471805599453, kind), tail))


def _call(fn: Callable[[Prim], Prim]) -> Callable[..., Prim]:
    return lambda kind, x: fn(x)


def _node(cls: Callable[..., Prim]) -> Callable[..., Prim]:
    return lambda kind, x, y: cls(x, y)


def _libm(name: str) -> Callable[..., Prim]:
    """TVM's own tanh loses all digits near 0."""
    return lambda kind, x: tirx.call_pure_extern(kind, name if kind == "float64" else f"{name}f", x)


def _named(name: str) -> Callable[..., Prim]:
    return lambda kind, *args: _intrinsic(name, *args, kind=kind)


def _floor_quotient(kind: str, x: Prim, y: Prim) -> Prim:
    return _intrinsic("floor", _divide(kind, x, y), kind=kind)


def _divide(kind: str, x: Prim, y: Prim) -> Prim:
    """TVM refuses a literal 0 as a divisor; the quotient is undefined."""
    zero = isinstance(y, tirx.FloatImm) and float(y.value) == 0
    return number(math.nan, kind) if zero else tirx.Div(x, y)


def _by_nonzero(cls: Callable[..., Prim]) -> Callable[..., Prim]:
    """Integer division; by zero it gives 0, as in the interpreter."""

    def divide(kind: str, x: Prim, y: Prim) -> Prim:
        if isinstance(y, tirx.IntImm) and int(y.value) != 0:
            return cls(x, y)
        zero = tirx.EQ(y, number(0, kind))
        return tirx.Select(zero, number(0, kind), cls(x, tirx.Select(zero, number(1, kind), y)))

    return divide


#: A minus sign is a subtraction from -0, which is exact. maximum and minimum pass NaN on; max and min of TVM do not.
_FLOAT: dict[str, Callable[..., Prim]] = {
    "add": _node(tirx.Add),
    "sub": _node(tirx.Sub),
    "mul": _node(tirx.Mul),
    "div": _divide,
    "neg": lambda kind, x: tirx.Sub(number(-0.0, kind), x),
    "abs": _named("fabs"),
    "max": _named("maximum"),
    "min": _named("minimum"),
    "pow": _node(tirx.pow),
    "floordiv": _floor_quotient,
    "floormod": lambda kind, x, y: tirx.Sub(x, tirx.Mul(_floor_quotient(kind, x, y), y)),
    "exp": _call(tirx.exp),
    "exp2": _call(tirx.exp2),
    "log": _call(tirx.log),
    "sqrt": _call(tirx.sqrt),
    "rsqrt": lambda kind, x: tirx.Div(number(1, kind), tirx.sqrt(x)),
    "tanh": _libm("tanh"),
    "sigmoid": lambda kind, x: tirx.Div(
        number(1, kind), tirx.Add(number(1, kind), tirx.exp(tirx.Sub(number(-0.0, kind), x)))
    ),
    "erf": _libm("erf"),
    "sin": _call(tirx.sin),
    "cos": _call(tirx.cos),
    "floor": _named("floor"),
    "ceil": _named("ceil"),
    "round": _named("nearbyint"),
}

_INT: dict[str, Callable[..., Prim]] = {
    "add": _node(tirx.Add),
    "sub": _node(tirx.Sub),
    "mul": _node(tirx.Mul),
    "neg": lambda kind, x: tirx.Sub(number(0, kind), x),
    "abs": lambda kind, x: tirx.Max(x, tirx.Sub(number(0, kind), x)),
    "max": _node(tirx.Max),
    "min": _node(tirx.Min),
    "floordiv": _by_nonzero(tirx.FloorDiv),
    "floormod": _by_nonzero(tirx.FloorMod),
}

_BOOL: dict[str, Callable[..., Prim]] = {"max": _node(tirx.Or), "min": _node(tirx.And), "mul": _node(tirx.And)}

_COMPARE: dict[str, Callable[..., Prim]] = {
    "lt": tirx.LT,
    "le": tirx.LE,
    "gt": tirx.GT,
    "ge": tirx.GE,
    "eq": tirx.EQ,
    "ne": lambda x, y: tirx.Not(tirx.EQ(x, y)),
}

_LOGIC: dict[str, Callable[..., Prim]] = {"and": tirx.And, "or": tirx.Or, "not": tirx.Not}

"""Trusted: constants that an expression is certain to equal, and small rewritings that change no value.

Rounding is not looked at here: all of this holds of the numbers of the types themselves (widenings are exact; sums, products
and quotients of 16-bit numbers, computed in float32 and rounded once, are the 16-bit results, because 24 >= 2 p + 2 for the
precisions p = 11 and p = 8; a selection of one of its operands commutes with widening).
"""

from __future__ import annotations

from fractions import Fraction

from neptune_verified.ir.expr import FLOATS, INF, INTS, Const, Expr, Number, Op, Reduce, const, op, reduce_
from neptune_verified.proofs.text.calls import exact

SIXTEEN = ("float16", "bfloat16")
_ORDER = {d: k for k, d in enumerate(("float32", "float64"), 1)} | dict.fromkeys(SIXTEEN, 0)
#: Operations of 16-bit numbers that are the float32 operation, rounded once: exactly, or listed (see ``widened``).
EXACT = ("add", "sub", "mul", "div", "sqrt", "max", "min", "neg", "abs", "floor", "ceil")
WIDENED = ("exp", "exp2", "log", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "pow")
COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")


def widens(source: str, target: str) -> bool:
    """Every number of ``source`` is one of ``target``."""
    return source in FLOATS and target in FLOATS and _ORDER[source] < _ORDER[target]


def plain(e: Expr) -> Expr:
    """One rewriting at the top of ``e`` that changes no value; ``e`` itself where there is none."""
    match e:
        case Op("cast", (x,), dtype):
            return _cast(e, x, dtype)
        case Op("neg", (Const(value, dtype),)) if dtype != "bool":
            return const(-value, dtype)
        case Op(name, args, dtype) if dtype in SIXTEEN and name in (*EXACT, *WIDENED):
            wide = [op("cast", a, dtype="float32") for a in args]
            return op("cast", op(name, *wide), dtype=dtype)
        case Op(name, (a, b)) if name in COMPARE and a.dtype in SIXTEEN:
            return op(name, op("cast", a, dtype="float32"), op("cast", b, dtype="float32"))
        case Op("ne", (Reduce("max" | "min" as f, axes, Op("cast", (x,))), Const(value))) if (
            x.dtype == "bool" and value == 0
        ):
            return reduce_("any" if f == "max" else "all", axes, x)
        case Reduce(f, axes, body) if body.dtype in SIXTEEN:
            return op("cast", reduce_(f, axes, op("cast", body, dtype="float32")), dtype=body.dtype)
        case _:
            return e


def _cast(e: Expr, x: Expr, dtype: str) -> Expr:
    if isinstance(x, Const) and dtype in FLOATS and x.dtype in (*FLOATS, *INTS) and exact(x.value, dtype):
        return const(x.value, dtype)
    if isinstance(x, Const) and dtype in INTS and x.dtype in INTS:
        return const(x.value, dtype)
    if dtype == "bool" and x.dtype != "bool":
        return op("ne", x, const(0, x.dtype))
    if isinstance(x, Op) and x.name == "cast" and widens(x.args[0].dtype, x.dtype):
        inner = x.args[0]
        if inner.dtype == dtype or widens(inner.dtype, dtype):
            return op("cast", inner, dtype=dtype)
    return e


def arithmetic(name: str, values: list[Number]) -> Number | None:
    """The value of an operation on constants; None where it is undefined, or not a rational number."""
    if name in COMPARE and len(values) == 2:
        a, b = values
        return {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b, "ne": a != b}[name]
    infinite = any(v in (INF, -INF) for v in values)
    match name, values:
        case (("add" | "sub"), [a, b]):
            if a in (INF, -INF) and b in (INF, -INF):
                opposite = (a == b) == (name == "sub")
                return None if opposite else a
            return a + b if name == "add" else a - b
        case "mul", [a, b] if not infinite:
            return a * b
        case "div", [a, b] if not infinite and b != 0:
            return Fraction(a) / Fraction(b)
        case "max", [a, b]:
            return max(a, b)
        case "min", [a, b]:
            return min(a, b)
        case "neg", [a]:
            return -a
        case "abs", [a]:
            return -a if a < 0 else a
        case (("exp" | "exp2"), [a]) if a == -INF:
            return Fraction(0)
        case (("exp" | "exp2"), [a]) if a == 0:
            return Fraction(1)
        case "log", [a] if a == 1:
            return Fraction(0)
        case "log", [a] if a == 0:
            return -INF
        case _:
            return None

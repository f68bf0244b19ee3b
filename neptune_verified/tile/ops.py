"""Not trusted: how each elementwise operation is written in Triton, and the helper functions that some need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from neptune_verified.ir.expr import FLOATS, INF

#: Triton functions that a kernel file carries when it uses them.
HELPERS: dict[str, str] = {
    "_tanh": """
@triton.jit
def _tanh(x):
    # exp of a negative argument only, so nothing overflows; a series near 0, where 1 - exp cancels.
    a = tl.abs(x)
    e = tl.exp(-2.0 * a)
    far = (1.0 - e) / (1.0 + e)
    s = a * a
    near = a * (1.0 - s * (1.0 / 3.0 - s * (2.0 / 15.0 - s * (17.0 / 315.0))))
    r = tl.where(a < 0.125, near, far)
    return tl.where(x < 0.0, -r, r)
""",
    "_sigmoid": """
@triton.jit
def _sigmoid(x):
    e = tl.exp(-tl.abs(x))
    return tl.where(x >= 0.0, 1.0 / (1.0 + e), e / (1.0 + e))
""",
    "_floordiv": """
@triton.jit
def _floordiv(a, b):
    # Triton truncates; the definition rounds to minus infinity.
    q = a // b
    r = a - q * b
    return tl.where((r != 0) & ((r < 0) != (b < 0)), q - 1, q)
""",
    "_floormod": """
@triton.jit
def _floormod(a, b):
    return a - _floordiv(a, b) * b
""",
    "_pow": """
@triton.jit
def _pow(x, y):
    r = tl.exp2(y * tl.log2(tl.abs(x)))
    whole = tl.floor(y) == y
    odd = whole & (tl.floor(y * 0.5) * 2.0 != y)
    r = tl.where(x < 0.0, tl.where(whole, tl.where(odd, -r, r), float("nan")), r)
    return tl.where((y == 0.0) | (x == 1.0), 1.0, r)
""",
    "_mul": """
@triton.jit
def _mul(a, b):
    return a * b
""",
    "_logaddexp": """
@triton.jit
def _logaddexp(a, b):
    m = tl.maximum(a, b)
    shift = tl.where(m == float("-inf"), 0.0, m)
    return tl.where(m == float("-inf"), m, shift + tl.log(tl.exp(a - shift) + tl.exp(b - shift)))
""",
}
NEEDS = {"_floormod": ("_floordiv",)}

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
    "floordiv:nonnegative": "//", "floormod:nonnegative": "%",
}  # fmt: skip
_CALLS = {
    "max": "tl.maximum", "min": "tl.minimum", "exp": "tl.exp", "exp2": "tl.exp2", "log": "tl.log", "sqrt": "tl.sqrt",
    "rsqrt": "tl.rsqrt", "abs": "tl.abs", "erf": "tl.erf", "sin": "tl.sin", "cos": "tl.cos", "floor": "tl.floor",
    "ceil": "tl.ceil", "tanh": "_tanh", "sigmoid": "_sigmoid", "floordiv": "_floordiv", "floormod": "_floormod",
    "logaddexp": "_logaddexp", "select": "tl.where", "pow": "_pow",
}  # fmt: skip

TRITON_TYPES = {
    "float16": "tl.float16", "bfloat16": "tl.bfloat16", "float32": "tl.float32", "float64": "tl.float64",
    "int8": "tl.int8", "int16": "tl.int16", "int32": "tl.int32", "int64": "tl.int64", "uint8": "tl.uint8",
    "bool": "tl.int1",
}  # fmt: skip


def literal(value: object, dtype: str) -> str:
    if dtype == "bool":
        return "1" if value else "0"
    if value in (INF, -INF):
        return 'float("inf")' if value == INF else 'float("-inf")'
    assert isinstance(value, Fraction)
    if dtype in FLOATS:
        text = repr(float(value))
        return f"({text})" if value < 0 else text
    return f"({int(value)})" if value < 0 else str(int(value))


def call(name: str, args: Sequence[str], need: Callable[[str], None]) -> str:
    """The text of an elementwise operation; ``need`` is told of helpers."""
    if name == "copy":
        return args[0]
    if name in _INFIX:
        return f"({args[0]} {_INFIX[name]} {args[1]})"
    if name == "neg":
        return f"(-{args[0]})"
    if name == "not":
        return f"({args[0]} == 0)"
    if name.startswith("pow:"):
        return _power(args[0], Fraction(name[4:]))
    function = _CALLS[name]
    if function in HELPERS:
        need(function)
    return f"{function}({', '.join(args)})"


def _power(x: str, exponent: Fraction) -> str:
    if exponent == 0:
        return f"tl.where({x} == {x}, 1.0, {x})"
    if exponent < 0:
        return f"(1.0 / {_power(x, -exponent)})"
    if exponent == Fraction(1, 2):
        return f"tl.sqrt({x})"
    if exponent.denominator == 1 and exponent <= 16:
        return _integer_power(x, int(exponent))
    if exponent.denominator == 1:
        sign = "" if exponent % 2 == 0 else f" * tl.where({x} < 0.0, -1.0, 1.0)"
        return f"(tl.exp2({float(exponent)!r} * tl.log2(tl.abs({x}))){sign})"
    return f"tl.exp2({float(exponent)!r} * tl.log2({x}))"


def _integer_power(x: str, n: int) -> str:
    if n == 1:
        return x
    half = _integer_power(x, n // 2)
    square = f"({half} * {half})"
    return square if n % 2 == 0 else f"({square} * {x})"

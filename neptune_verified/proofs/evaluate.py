"""Trusted: the value of a statement's terms at one point, to many digits.

Finite values are ``Fraction`` as long as they are exact and mpmath numbers afterwards; infinities are float infinities,
truth values are bool, and ``UNDEFINED`` absorbs everything but the branch that a ``select`` does not take. A difference
that cancels all but the last digits of inexact numbers is 0; whoever relies on a value evaluates it at two precisions
and keeps it only if both agree, so neither that rule nor rounding can decide anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

import mpmath
from mpmath.ctx_mp import MPContext

from neptune_verified.ir.expr import FLOATS, INTS, Const, Expr, Op, Var, subterms

INF = math.inf


class Undefined:
    __slots__ = ()

    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = Undefined()

#: Fraction | mpf | +-inf | bool | UNDEFINED; mpmath has no types to name.
Value = Any
Point = Mapping[Var, Value]


class Unsupported(Exception):
    """A construct that has no value at a point of a statement; the text names it."""


class OutOfReach(Exception):
    """A number too large to compute with; the point says nothing."""


#: Beyond this exponents are not computed (e**100000 has 43430 digits).
LARGEST_EXPONENT = 100_000
#: Fractions with more bits than this become inexact.
LARGEST_FRACTION = 4_000


def is_inf(x: Value) -> bool:
    return type(x) is float


class Meaning:
    """The operations at ``digits`` decimal digits."""

    def __init__(self, digits: int) -> None:
        self.mp = MPContext()
        self.mp.dps = digits
        self.noise = self.mp.mpf(10) ** (12 - digits)
        self.table: dict[str, Callable[..., Value]] = {
            "add": self.add, "sub": lambda x, y: self.add(x, self.neg(y)), "mul": self.mul, "div": self.div,
            "pow": self.pow, "neg": self.neg, "max": lambda x, y: x if self.compare(x, y) >= 0 else y,
            "min": lambda x, y: x if self.compare(x, y) <= 0 else y,
            "abs": lambda x: self.neg(x) if self.sign(x) < 0 else x,
            "exp": self.exp, "exp2": self.exp2, "log": self.log, "sqrt": self.sqrt,
            "rsqrt": lambda x: self.div(Fraction(1), self.sqrt(x)),
            "tanh": lambda x: Fraction(self.sign(x)) if is_inf(x) else self.smooth(self.mp.tanh, x),
            "sigmoid": self.sigmoid,
            "erf": lambda x: Fraction(self.sign(x)) if is_inf(x) else self.smooth(self.mp.erf, x),
            "sin": lambda x: UNDEFINED if is_inf(x) else self.smooth(self.mp.sin, x),
            "cos": lambda x: UNDEFINED if is_inf(x) else Fraction(1) if x == 0 else self.mp.cos(self.real(x)),
            "floor": lambda x: self.whole(self.mp.floor, math.floor, x),
            "ceil": lambda x: self.whole(self.mp.ceil, math.ceil, x),
            "round": lambda x: self.whole(self.mp.nint, round, x),
            "floordiv": lambda x, y: self.table["floor"](self.div(x, y)), "floormod": self.floormod,
            "lt": lambda x, y: self.compare(x, y) < 0, "le": lambda x, y: self.compare(x, y) <= 0,
            "gt": lambda x, y: self.compare(x, y) > 0, "ge": lambda x, y: self.compare(x, y) >= 0,
            "eq": lambda x, y: self.compare(x, y) == 0, "ne": lambda x, y: self.compare(x, y) != 0,
            "and": lambda x, y: x and y, "or": lambda x, y: x or y, "not": lambda x: not x,
        }  # fmt: skip

    def real(self, x: Value) -> Value:
        return self.mp.mpf(x.numerator) / x.denominator if type(x) is Fraction else x

    def sign(self, x: Value) -> int:
        return int(x > 0) - int(x < 0)

    def compare(self, x: Value, y: Value) -> int:
        if type(x) is type(y):
            return (x > y) - (x < y) if type(x) is not self.mp.mpf else self.sign(self.add(x, -y))
        if is_inf(x) or is_inf(y):
            return self.sign(x) if is_inf(x) else -self.sign(y)
        return self.sign(self.add(x, -y))

    def add(self, x: Value, y: Value) -> Value:
        if type(x) is Fraction and type(y) is Fraction:
            return self.bounded(x + y)
        if is_inf(x) or is_inf(y):
            return UNDEFINED if is_inf(x) and is_inf(y) and x != y else x if is_inf(x) else y
        a, b = self.real(x), self.real(y)
        total = a + b
        return Fraction(0) if abs(total) <= self.noise * max(abs(a), abs(b)) else total

    def bounded(self, x: Fraction) -> Value:
        large = x.numerator.bit_length() + x.denominator.bit_length() > LARGEST_FRACTION
        return self.real(x) if large else x

    def neg(self, x: Value) -> Value:
        return x if x is UNDEFINED else -x

    def mul(self, x: Value, y: Value) -> Value:
        if type(x) is Fraction and type(y) is Fraction:
            return self.bounded(x * y)
        if is_inf(x) or is_inf(y):
            sign = self.sign(x) * self.sign(y)
            return sign * INF if sign else UNDEFINED
        return Fraction(0) if x == 0 or y == 0 else self.real(x) * self.real(y)

    def div(self, x: Value, y: Value) -> Value:
        if x is UNDEFINED or y is UNDEFINED or (not is_inf(y) and y == 0):
            return UNDEFINED
        if is_inf(y):
            return UNDEFINED if is_inf(x) else Fraction(0)
        if is_inf(x):
            return x if y > 0 else -x
        if type(x) is Fraction and type(y) is Fraction:
            return self.bounded(x / y)
        return Fraction(0) if x == 0 else self.real(x) / self.real(y)

    def exp(self, x: Value) -> Value:
        if is_inf(x):
            return INF if x > 0 else Fraction(0)
        if x == 0:
            return Fraction(1)
        if abs(x) > LARGEST_EXPONENT:
            raise OutOfReach
        return self.mp.exp(self.real(x))

    def exp2(self, x: Value) -> Value:
        if type(x) is Fraction and x.denominator == 1 and abs(x) < 1000:
            return Fraction(2) ** int(x)
        return self.exp(x if is_inf(x) else self.mul(self.mp.ln2 * 1, x))

    def log(self, x: Value) -> Value:
        if x == 0:
            return -INF
        if x < 0:
            return UNDEFINED
        return x if is_inf(x) else Fraction(0) if x == 1 else self.mp.log(self.real(x))

    def sqrt(self, x: Value) -> Value:
        if x < 0:
            return UNDEFINED
        if is_inf(x):
            return x
        if type(x) is Fraction:
            roots = math.isqrt(x.numerator), math.isqrt(x.denominator)
            if roots[0] ** 2 == x.numerator and roots[1] ** 2 == x.denominator:
                return Fraction(*roots)
        return self.mp.sqrt(self.real(x))

    def pow(self, x: Value, y: Value) -> Value:
        if not is_inf(y) and y == 0:
            return Fraction(1)
        if is_inf(x) or is_inf(y):
            return self.pow_infinite(x, y)
        if x == 0:
            return Fraction(0) if y > 0 else UNDEFINED
        if type(y) is Fraction and y.denominator == 1 and abs(y) <= 64:
            return self.bounded(x ** int(y)) if type(x) is Fraction else x ** int(y)
        if x < 0:
            integer = type(y) is Fraction and y.denominator == 1
            return self.mul(Fraction(1 - 2 * (int(y) % 2)), self.pow(-x, y)) if integer else UNDEFINED
        if y == Fraction(1, 2):
            return self.sqrt(x)
        return self.exp(self.mul(y, self.log(x)))

    def pow_infinite(self, x: Value, y: Value) -> Value:
        """At least one of base and exponent is infinite, the exponent is not 0."""
        if is_inf(y):
            if x < 0 or (x == 0 and y < 0):
                return UNDEFINED
            side = self.compare(x, Fraction(1)) * self.sign(y)
            return Fraction(1) if side == 0 else INF if side > 0 else Fraction(0)
        integer = type(y) is Fraction and y.denominator == 1
        if x < 0 and not integer:
            return UNDEFINED
        if y < 0:
            return Fraction(0)
        return -INF if x < 0 and int(y) % 2 else INF

    def sigmoid(self, x: Value) -> Value:
        return self.div(Fraction(1), self.add(Fraction(1), self.exp(self.neg(x))))

    def smooth(self, fn: Callable[[Value], Value], x: Value) -> Value:
        """An odd function of mpmath at a finite point."""
        return Fraction(0) if x == 0 else fn(self.real(x))

    def whole(self, inexact: Callable[[Value], Value], exact: Callable[[Fraction], int], x: Value) -> Value:
        if x is UNDEFINED or is_inf(x):
            return x
        return Fraction(exact(x) if type(x) is Fraction else int(inexact(x)))

    def floormod(self, x: Value, y: Value) -> Value:
        quotient = self.table["floordiv"](x, y)
        product = UNDEFINED if quotient is UNDEFINED else self.mul(quotient, y)
        return UNDEFINED if product is UNDEFINED else self.add(x, self.neg(product))

    def cast(self, x: Value, source: str, target: str) -> Value:
        if target == "bool":
            return x if source == "bool" else x != 0
        if source == "bool":
            return Fraction(int(x))
        if target in FLOATS or source in INTS:
            return x
        return UNDEFINED if is_inf(x) else self.whole(int, math.trunc, x)

    def agree(self, x: Value, y: Value) -> bool:
        """Equal: exactly if both are exact, otherwise to 30 digits."""
        if x is UNDEFINED or y is UNDEFINED:
            return x is y
        if isinstance(x, bool) or isinstance(y, bool) or is_inf(x) or is_inf(y):
            return type(x) is type(y) and bool(x == y)
        if type(x) is Fraction and type(y) is Fraction:
            return x == y
        a, b = self.real(x), self.real(y)
        return bool(abs(a - b) <= self.mp.mpf(10) ** -30 * max(abs(a), abs(b)))


#: 50 digits find a difference, 110 digits confirm it.
FIND, CONFIRM = Meaning(50), Meaning(110)


class Terms:
    """Expressions in evaluation order: every distinct node once, arguments first."""

    def __init__(self, roots: Iterable[Expr]) -> None:
        self.index: dict[Expr, int] = {}
        self.ends: dict[Expr, int] = {}
        for root in roots:
            for node in subterms(root):
                self.index.setdefault(node, len(self.index))
            self.ends[root] = len(self.index)
        self.nodes = list(self.index)
        for node in self.nodes:
            if not isinstance(node, Const | Var | Op):
                raise Unsupported(f"{type(node).__name__} in a statement")
        self.args = [tuple(self.index[a] for a in n.args) if isinstance(n, Op) else () for n in self.nodes]

    def evaluate(self, point: Point, meaning: Meaning, values: list[Value], end: int) -> None:
        """Append to ``values`` the value of each node before position ``end``."""
        for position in range(len(values), end):
            node = self.nodes[position]
            if isinstance(node, Const):
                values.append(literal(node))
            elif isinstance(node, Var):
                values.append(point[node])
            elif isinstance(node, Op):
                values.append(apply(node, [values[k] for k in self.args[position]], meaning))


def literal(node: Const) -> Value:
    return node.value


def apply(node: Op, args: list[Value], meaning: Meaning) -> Value:
    if node.name == "select":
        return args[0] if args[0] is UNDEFINED else args[1] if args[0] else args[2]
    for x in args:
        if x is UNDEFINED:
            return UNDEFINED
    if node.name == "cast":
        return meaning.cast(args[0], node.args[0].dtype, node.dtype)
    if node.name in ("floordiv", "floormod") and node.dtype in INTS and args[1] == 0:
        return Fraction(0)
    return meaning.table[node.name](*args)


def show(x: Value, digits: int = 12) -> str:
    """A value as text: fractions as p/q, inexact numbers to ``digits`` digits."""
    if isinstance(x, bool):
        return "true" if x else "false"
    if is_inf(x):
        return "+inf" if x > 0 else "-inf"
    return str(mpmath.nstr(x, digits)) if not isinstance(x, Fraction | Undefined) else str(x)

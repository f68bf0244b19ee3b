"""Not trusted: between expressions and SymPy, for the derivation of repairs. (The proofs have lowerings of their own.)"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from itertools import product

import sympy as sp

from neptune_verified.ir.expr import Const, Expr, Op, Var, const, op, substitute, subterms, var

Go = Callable[[sp.Expr], Expr]
#: Binary digits of a number of each type.
DIGITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


class CannotDerive(Exception):
    """The term has an operation for which no repair is derived; the message names it."""


def cases(e: Expr, limit: int = 16) -> list[Expr]:
    """The select-free variants of ``e``: one for each truth value of its conditions (at most ``limit``)."""
    todo, done = [e], []
    while todo:
        x = todo.pop(0)
        select = next((s for s in subterms(x) if isinstance(s, Op) and s.name == "select"), None)
        if select is None:
            if x not in done:
                done.append(x)
        else:
            # Innermost first, and both ways for every occurrence of this condition.
            condition = select.args[0]
            for branch in (1, 2):
                chosen: dict[Expr, Expr] = {
                    s: s.args[branch]
                    for s in subterms(x)
                    if isinstance(s, Op) and s.name == "select" and s.args[0] is condition
                }
                todo.append(substitute(x, chosen))
        if len(todo) + len(done) > limit:
            raise CannotDerive("the term has too many conditions")
    return done


_FUNCTIONS = {
    "exp": sp.exp,
    "log": sp.log,
    "sqrt": sp.sqrt,
    "abs": sp.Abs,
    "neg": lambda x: -x,
    "exp2": lambda x: sp.Integer(2) ** x,
    "rsqrt": lambda x: 1 / sp.sqrt(x),
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "pow": lambda x, y: x**y,
    "max": sp.Max,
    "min": sp.Min,
    "sigmoid": lambda x: 1 / (1 + sp.exp(-x)),
    "tanh": sp.tanh,
    "erf": sp.erf,
    "sin": sp.sin,
    "cos": sp.cos,
    "floor": sp.floor,
    "ceil": sp.ceiling,
}
_UNARY = {sp.log: "log", sp.Abs: "abs", sp.tanh: "tanh", sp.erf: "erf", sp.sin: "sin", sp.cos: "cos"}
_UNARY |= {sp.floor: "floor", sp.ceiling: "ceil"}


def readable(e: Expr) -> bool:
    """``to_sympy`` reads the outermost operation."""
    return not isinstance(e, Op) or e.name in ("cast", "select") or e.name in _FUNCTIONS


def to_sympy(e: Expr, symbols: dict[Expr, sp.Symbol]) -> sp.Expr:
    match e:
        case Var():
            return symbols[e]
        case Const(value, dtype) if dtype != "bool" and not isinstance(value, float):
            return sp.Rational(Fraction(value).numerator, Fraction(value).denominator)
        case Op("cast", (x,)):
            return to_sympy(x, symbols)
        case Op(name, args) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(to_sympy(a, symbols) for a in args))
        case Op(name):
            raise CannotDerive(f"no repair is derived through {name} of a running value")
        case _:
            raise CannotDerive(f"no repair is derived through {e!r}")


def from_sympy(e: sp.Expr, names: dict[sp.Symbol, Var], dtype: str) -> Expr:
    """Back to an expression, in a numerically sound form: differences stay differences, and quotients of equal powers
    become powers of quotients, so that (r / r')^2 does not square r."""

    def go(x: sp.Expr) -> Expr:
        return from_sympy(x, names, dtype)

    if e is sp.E:
        return op("exp", const(1, dtype))
    if e.is_Symbol:
        return op("cast", names[e], dtype=dtype)
    if e.is_Rational:
        return const(Fraction(int(e.p), int(e.q)), dtype)
    if e.is_Add:
        return _sum(e, go)
    if e.is_Mul:
        return _product(e, go, dtype)
    if e.is_Pow or isinstance(e, sp.exp):
        return _power(e, go, dtype)
    if e.func in _UNARY:
        return op(_UNARY[e.func], go(e.args[0]))
    binary = {sp.Max: "max", sp.Min: "min"}.get(e.func)
    if binary:
        result = go(e.args[0])
        for x in e.args[1:]:
            result = op(binary, result, go(x))
        return result
    raise CannotDerive(f"the candidate has the unsupported form {e.func.__name__}")


def _sum(e: sp.Expr, go: Go) -> Expr:
    positive = [a for a in e.args if not a.could_extract_minus_sign()]
    negative = [-a for a in e.args if a.could_extract_minus_sign()]
    key = sp.default_sort_key
    result: Expr | None = None
    for a in sorted(positive, key=key):
        result = go(a) if result is None else op("add", result, go(a))
    for a in sorted(negative, key=key):
        result = op("neg", go(a)) if result is None else op("sub", result, go(a))
    assert result is not None
    return result


def _product(e: sp.Expr, go: Go, dtype: str) -> Expr:
    above: dict[sp.Expr, list[sp.Expr]] = {}
    below: dict[sp.Expr, list[sp.Expr]] = {}
    coefficient = sp.Integer(1)
    for factor in sorted(e.args, key=sp.default_sort_key):
        if factor.is_Rational:
            coefficient *= factor
            continue
        base, exponent = factor.as_base_exp()
        if isinstance(factor, sp.exp) or not exponent.is_Rational:  # 2^a and e^a with one a are two factors
            base, exponent = factor, sp.Integer(1)
        if exponent.is_Rational and exponent < 0:
            below.setdefault(-exponent, []).append(base)
        else:
            above.setdefault(exponent, []).append(base)
    parts: list[Expr] = []
    divisors: list[Expr] = []
    for exponent in [*above, *(q for q in below if q not in above)]:
        tops, bottoms = above.get(exponent, []), below.get(exponent, [])
        while tops and bottoms:
            quotient = op("div", go(tops.pop(0)), go(bottoms.pop(0)))
            parts.append(_raise(quotient, exponent, dtype))
        parts += [_raise(go(b), exponent, dtype) for b in tops]
        divisors += [_raise(go(b), exponent, dtype) for b in bottoms]
    numbers = _representable(coefficient, dtype)
    if parts and len(numbers) > 1:  # a number of more digits than the type has is a sum of such as it has
        whole = _multiplied(parts, divisors)
        terms = [op("mul", const(n, dtype), whole) for n in numbers]
        return reduce(lambda x, y: op("add", x, y), terms)
    if coefficient != 1 or not parts:
        parts.insert(0, go(coefficient))
    return _multiplied(parts, divisors)


def _multiplied(parts: list[Expr], divisors: list[Expr]) -> Expr:
    result = parts[0]
    for x in parts[1:]:
        result = op("mul", result, x)
    for x in divisors:
        result = op("div", result, x)
    return result


def _representable(c: sp.Rational, dtype: str) -> list[Fraction]:
    """Numbers of the type, the largest first, whose sum is ``c``; ``c`` itself where a few are not enough."""
    left, found = Fraction(int(c.p), int(c.q)), list[Fraction]()
    digits = DIGITS.get(dtype, 24)
    while left and len(found) < 3:
        exponent = math.frexp(float(left))[1] - digits
        unit = Fraction(2) ** exponent
        found.append(round(left / unit) * unit)
        left -= found[-1]
    return found if not left else [Fraction(int(c.p), int(c.q))]


def _power(e: sp.Expr, go: Go, dtype: str) -> Expr:
    if isinstance(e, sp.exp):
        return op("exp", go(sp.factor_terms(e.args[0])))
    base, exponent = e.as_base_exp()
    if base == 2 and not exponent.is_Rational:
        return op("exp2", go(sp.factor_terms(exponent)))
    if exponent.is_Rational and exponent < 0:
        return op("div", const(1, dtype), _raise(go(base), -exponent, dtype))
    return _raise(go(base), exponent, dtype, go)


def _raise(x: Expr, exponent: sp.Expr, dtype: str, go: Go | None = None) -> Expr:
    if exponent == 1:
        return x
    if exponent == sp.Rational(1, 2):
        return op("sqrt", x)
    if exponent.is_Integer and 2 <= exponent <= 4:
        result = x
        for _ in range(int(exponent) - 1):
            result = op("mul", result, x)
        return result
    if exponent.is_Rational:
        return op("pow", x, const(Fraction(int(exponent.p), int(exponent.q)), dtype))
    if go is not None:
        return op("pow", x, go(exponent))
    raise CannotDerive(f"the candidate has the exponent {exponent}")


def samples(symbols: list[sp.Symbol]) -> list[dict[sp.Symbol, sp.Rational]]:
    """Points for the elements of a term, simple ones first."""
    values = [sp.Integer(1), sp.Integer(0), sp.Integer(2), sp.Integer(-1), sp.Rational(1, 2)]
    if len(symbols) > 3:
        return [dict.fromkeys(symbols, v) for v in values]
    points = [dict(zip(symbols, p, strict=True)) for p in product(values, repeat=len(symbols))]
    return sorted(points, key=lambda p: (len(set(p.values())), sum(values.index(v) for v in p.values())))


def normal(e: sp.Expr) -> sp.Expr:
    """A cancelled form with exponentials combined; a heuristic form here (the proofs decide)."""
    return sp.powsimp(sp.cancel(sp.expand(sp.expand_log(e), power_exp=True)), combine="exp")


__all__ = ["CannotDerive", "cases", "from_sympy", "normal", "samples", "to_sympy", "var"]

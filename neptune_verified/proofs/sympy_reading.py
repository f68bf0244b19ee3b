"""Trusted: what a SymPy expression means as a term of a statement.

The meaning is that of the expression as SymPy holds it, after SymPy's own evaluation of it (``x - x`` is 0 before anyone
sees it). A product is one numerator over one denominator, the powers with a negative exponent below; ``2**x`` is exp2;
``Piecewise`` is a chain of selects. Everything that is not listed here is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce as fold
from typing import Any

import sympy as sp

from neptune_verified.ir.expr import INF, Expr, const, op

#: Exponents and numbers beyond this are a typing error, and would only cost time.
LARGEST_EXPONENT = 64


class Unreadable(ValueError):
    """The expression has no meaning here; the text names the part and the way out."""


_UNARY: dict[Any, str] = {
    sp.exp: "exp", sp.log: "log", sp.Abs: "abs", sp.tanh: "tanh", sp.erf: "erf", sp.sin: "sin", sp.cos: "cos",
    sp.floor: "floor", sp.ceiling: "ceil",
}  # fmt: skip
_CHAINS: dict[Any, str] = {sp.Max: "max", sp.Min: "min", sp.And: "and", sp.Or: "or"}
_RELATIONS: dict[Any, str] = {
    sp.StrictLessThan: "lt", sp.LessThan: "le", sp.StrictGreaterThan: "gt", sp.GreaterThan: "ge",
    sp.Equality: "eq", sp.Unequality: "ne",
}  # fmt: skip


def read_sympy(e: Any, symbols: Mapping[str, Expr], dtype: str = "float32") -> Expr:
    """The term that ``e`` stands for; ``symbols`` gives the variables by name. Raises Unreadable."""
    memo: dict[Any, Expr] = {}

    def go(x: Any) -> Expr:
        if x not in memo:
            memo[x] = _read(x, symbols, dtype, go)
        return memo[x]

    return go(sp.sympify(e))


def _read(e: Any, symbols: Mapping[str, Expr], dtype: str, go: Callable[[Any], Expr]) -> Expr:
    if isinstance(e, sp.Symbol):
        if e.name not in symbols:
            raise Unreadable(f"the symbol {e.name} is not known here")
        return symbols[e.name]
    if e in (sp.true, sp.false):
        return const(e == sp.true, "bool")
    if e in (sp.oo, -sp.oo):
        return const(INF if e == sp.oo else -INF, dtype)
    if e.is_Rational:
        return const(Fraction(int(e.p), int(e.q)), dtype)
    if e.is_Float:
        return const(Fraction(*(int(n) for n in sp.Rational(e).as_numer_denom())), dtype)
    if e is sp.E:
        return op("exp", const(1, dtype))
    if e.is_Add:
        return _sum(e, go)
    if e.is_Mul:
        return _product(e, dtype, go)
    if e.is_Pow:
        return _power(e.base, e.exp, dtype, go)
    if e.func in _UNARY:
        if len(e.args) != 1:
            raise Unreadable(f"{e.func.__name__} takes one argument here")
        return op(_UNARY[e.func], go(e.args[0]))
    if e.func in _CHAINS:
        return fold(lambda x, y: op(_CHAINS[e.func], x, y), [go(a) for a in e.args])
    if e.func in _RELATIONS:
        return op(_RELATIONS[e.func], go(e.lhs), go(e.rhs))
    if isinstance(e, sp.Not):
        return op("not", go(e.args[0]))
    if isinstance(e, sp.Xor) and len(e.args) == 2:
        return op("ne", go(e.args[0]), go(e.args[1]))
    if isinstance(e, sp.Piecewise):
        return _piecewise(e, go)
    raise Unreadable(f"{e.func.__name__} has no meaning here: {e}")


def _sum(e: Any, go: Callable[[Any], Expr]) -> Expr:
    """Terms with a minus sign are subtracted, after those without one."""
    minus = [a for a in e.args if _negative(a)]
    plus = [a for a in e.args if not _negative(a)]
    result = fold(lambda x, y: op("add", x, y), [go(a) for a in plus]) if plus else op("neg", go(-minus.pop(0)))
    return fold(lambda x, a: op("sub", x, go(-a)), minus, result)


def _negative(e: Any) -> bool:
    return bool(e.as_coeff_Mul()[0].is_negative)


def _product(e: Any, dtype: str, go: Callable[[Any], Expr]) -> Expr:
    above, below = [], []
    coefficient, rest = e.as_coeff_Mul()
    if not coefficient.is_Rational:
        coefficient, rest = sp.S.One, e
    for factor in sp.Mul.make_args(rest):
        if factor.is_Pow and factor.exp.is_Rational and factor.exp < 0:
            below.append(_power(factor.base, -factor.exp, dtype, go))
        else:
            above.append(go(factor))
    if abs(coefficient.p) != 1 or not above:
        above.insert(0, const(abs(int(coefficient.p)), dtype))
    if coefficient.q != 1:
        below.insert(0, const(int(coefficient.q), dtype))
    result = fold(lambda x, y: op("mul", x, y), above)
    if below:
        result = op("div", result, fold(lambda x, y: op("mul", x, y), below))
    return op("neg", result) if coefficient < 0 else result


def _power(base: Any, exponent: Any, dtype: str, go: Callable[[Any], Expr]) -> Expr:
    if exponent.is_Rational:
        if abs(exponent.p) > LARGEST_EXPONENT or exponent.q > LARGEST_EXPONENT:
            raise Unreadable(f"the exponent {exponent} is too large")
        if exponent < 0:
            return op("div", const(1, dtype), _power(base, -exponent, dtype, go))
        if exponent == 1:
            return go(base)
        return op("sqrt", go(base)) if exponent == sp.Rational(1, 2) else op("pow", go(base), go(exponent))
    if base == 2:
        return op("exp2", go(exponent))
    return op("pow", go(base), go(exponent))


def _piecewise(e: Any, go: Callable[[Any], Expr]) -> Expr:
    *cases, (last, otherwise) = e.args
    if otherwise != sp.true:
        raise Unreadable(f"a Piecewise needs a last case with the condition True: {e}")
    return fold(lambda rest, case: op("select", go(case[1]), go(case[0]), rest), reversed(cases), go(last))


__all__ = ["Unreadable", "read_sympy"]

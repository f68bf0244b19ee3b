"""Not trusted: formulas typed by a person, as SymPy expressions. Nothing in them is executed.

Python's grammar, a closed list of functions, exact numbers (``0.1`` is 1/10). Only names, numbers, ``+ - * / **``,
comparisons, ``and or not`` and calls of the functions below; everything else is refused with its text.

>>> parse("exp(c - m)*v")
v*exp(c - m)
>>> parse("c.real")
Traceback (most recent call last):
neptune_verified.expressions.FormulaError: 'c.real' is no part of a formula
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import sympy as sp

#: A formula by hand is shorter; powers of numbers beyond this would only cost memory.
LONGEST, DEEPEST, LARGEST_POWER, LARGEST_NUMBER = 2_000, 60, 64, 4_000


class FormulaError(ValueError):
    """The text is no formula; the message shows the part and the way out."""


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": sp.exp, "log": sp.log, "sqrt": sp.sqrt, "abs": sp.Abs, "Abs": sp.Abs, "tanh": sp.tanh, "erf": sp.erf,
    "sin": sp.sin, "cos": sp.cos, "max": sp.Max, "Max": sp.Max, "min": sp.Min, "Min": sp.Min,
    "exp2": lambda x: sp.Integer(2) ** x, "sigmoid": lambda x: 1 / (1 + sp.exp(-x)),
    "select": lambda c, x, y: sp.Piecewise((x, c), (y, True)), "Rational": lambda p, q: sp.Rational(p, q),
}  # fmt: skip
_ARITY = {"max": None, "Max": None, "min": None, "Min": None, "select": 3, "Rational": 2}
_COMPARE: dict[type[ast.cmpop], Callable[..., Any]] = {
    ast.Lt: sp.Lt, ast.LtE: sp.Le, ast.Gt: sp.Gt, ast.GtE: sp.Ge, ast.Eq: sp.Eq, ast.NotEq: sp.Ne,
}  # fmt: skip


def parse(text: str) -> Any:
    """The expression, over symbols without assumptions. Raises FormulaError."""
    if len(text) > LONGEST:
        raise FormulaError(f"a formula of {len(text)} characters; {LONGEST} are read")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise FormulaError(f"{text!r} is no formula") from None
    result = _Reader(text.strip()).read(tree.body, 0)
    if isinstance(result, sp.Basic) and result.has(sp.nan, sp.zoo):
        raise FormulaError(f"{text!r} has no value")
    return result


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text

    def part(self, node: ast.expr) -> str:
        return repr((ast.get_source_segment(self.text, node) or self.text)[:60])

    def read(self, node: ast.expr, depth: int) -> Any:
        if depth > DEEPEST:
            raise FormulaError("a formula nested too deeply")

        def go(x: ast.expr) -> Any:
            return self.read(x, depth + 1)

        match node:
            case ast.Constant(value=bool()):
                return sp.true if node.value else sp.false
            case ast.Constant(value=int() | float()):
                return _number(ast.get_source_segment(self.text, node) or str(node.value))
            case ast.Name(id=name):
                if name in _FUNCTIONS:
                    raise FormulaError(f"{name} is a function: write {name}(...)")
                if name.startswith("_"):
                    raise FormulaError(f"{name!r} is no name for a symbol")
                return {"inf": sp.oo, "oo": sp.oo}.get(name) or sp.Symbol(name)
            case ast.UnaryOp(op=ast.USub(), operand=x):
                return -self.numeric(x, go)
            case ast.UnaryOp(op=ast.UAdd(), operand=x):
                return self.numeric(x, go)
            case ast.UnaryOp(op=ast.Not(), operand=x):
                return sp.Not(self.truth(x, go))
            case ast.BinOp(left=x, op=operator, right=y):
                return self.binary(node, operator, self.numeric(x, go), self.numeric(y, go))
            case ast.BoolOp(op=operator, values=values):
                parts = [self.truth(v, go) for v in values]
                return sp.And(*parts) if isinstance(operator, ast.And) else sp.Or(*parts)
            case ast.Compare(left=x, ops=ops, comparators=rest):
                return self.compare(node, [go(v) for v in (x, *rest)], ops)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
                return self.call(node, name, [go(a) for a in args])
            case ast.Call(func=ast.Name(id=name)):
                raise FormulaError(f"{name!r} is no function here; there are: {', '.join(sorted(_FUNCTIONS))}")
            case _:
                raise FormulaError(f"{self.part(node)} is no part of a formula")

    def numeric(self, node: ast.expr, go: Callable[[ast.expr], Any]) -> Any:
        value = go(node)
        if isinstance(value, sp.logic.boolalg.Boolean) and not isinstance(value, sp.Symbol):
            raise FormulaError(f"{self.part(node)} is a truth value where a number is wanted")
        return value

    def truth(self, node: ast.expr, go: Callable[[ast.expr], Any]) -> Any:
        value = go(node)
        if not isinstance(value, sp.logic.boolalg.Boolean):
            raise FormulaError(f"{self.part(node)} is a number where a truth value is wanted")
        return value

    def binary(self, node: ast.expr, operator: ast.operator, x: Any, y: Any) -> Any:
        match operator:
            case ast.Add():
                return x + y
            case ast.Sub():
                return x - y
            case ast.Mult():
                return x * y
            case ast.Div():
                if y == 0:
                    raise FormulaError(f"{self.part(node)} divides by 0")
                return x / y
            case ast.Pow():
                if y.is_number and not (y.is_Rational and abs(y.p) <= LARGEST_POWER and y.q <= LARGEST_POWER):
                    raise FormulaError(f"{self.part(node)} has an exponent that is not a small fraction")
                if x.is_Rational and y.is_Rational and (abs(x.p) + x.q).bit_length() * abs(y.p) > LARGEST_NUMBER:
                    raise FormulaError(f"{self.part(node)} is too large a number")
                return x**y
            case _:
                raise FormulaError(f"{self.part(node)}: only + - * / ** are read")

    def compare(self, node: ast.expr, values: list[Any], ops: list[ast.cmpop]) -> Any:
        parts = []
        for op, x, y in zip(ops, values, values[1:], strict=False):
            if type(op) not in _COMPARE:
                raise FormulaError(f"{self.part(node)}: only < <= > >= == != are read")
            parts.append(_COMPARE[type(op)](x, y))
        return parts[0] if len(parts) == 1 else sp.And(*parts)

    def call(self, node: ast.expr, name: str, args: list[Any]) -> Any:
        arity = _ARITY.get(name, 1)
        if not args or (arity is not None and len(args) != arity):
            raise FormulaError(f"{self.part(node)}: {name} takes {arity or 'some'} argument(s)")
        try:
            return _FUNCTIONS[name](*args)
        except (TypeError, ValueError, AttributeError) as e:
            raise FormulaError(f"{self.part(node)}: {e}") from None


def _number(text: str) -> Any:
    try:
        value = Fraction(text.replace("_", ""))
    except ValueError:
        raise FormulaError(f"{text!r} is no decimal number") from None
    if value.numerator.bit_length() + value.denominator.bit_length() > LARGEST_NUMBER:
        raise FormulaError(f"{text[:20]!r} is too large")
    return sp.Rational(value.numerator, value.denominator)


__all__ = ["FormulaError", "parse"]

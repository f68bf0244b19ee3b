"""Trusted: the SymPy route's meaning of operations: extended reals over SymPy expressions with sign assumptions.

A value is a finite SymPy expression, a float infinity, a bool, or ``UNDEFINED``. Each operation asks SymPy's
assumptions for what it needs (a divisor's zero, a logarithm's sign); where they do not tell, ``Undecided`` is raised
with the expression whose sign would, and the caller splits the case. Nothing is simplified before it is known to be
defined. Equality is ``is_zero`` of a normal form; ``simplify``, ``solve`` and ``force`` are not used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import sympy as sp

from neptune_verified.ir.expr import FLOATS, INTS, Const, Expr, Op, Var
from neptune_verified.proofs import sympy_bounds

INF = math.inf
#: sympy.Expr | +-inf | bool | Undefined; SymPy has no types to name.
Value = Any


class Undefined:
    __slots__ = ()

    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = Undefined()


class Undecided(Exception):
    """The sign of ``expr`` decides (or of ``other``, which is the same), and the assumptions do not give it."""

    def __init__(self, expr: Any, other: Any = None) -> None:
        super().__init__(f"sign of {expr}")
        self.expr = expr
        self.forms = (expr,) if other is None else (expr, other)


class Unsupported(Exception):
    """A construct that this route does not express; the text names it."""


class Contradiction(Exception):
    """The assumed signs exclude each other: the case is empty."""


class OutOfTime(BaseException):
    """The deadline has passed. Not an Exception, so that no handler inside SymPy can hold it."""


def infinite(x: Value) -> bool:
    return type(x) is float


def signs(e: Any) -> frozenset[int]:
    """The signs that a finite expression can have, as far as SymPy's assumptions tell."""
    found = own_signs(e)
    if len(found) > 1 and e.is_Add:
        for form in (sp.factor_terms(e), factored(e)):
            found &= own_signs(form)
            if len(found) == 1:
                break
    return found


def consistent(e: Any, found: frozenset[int]) -> frozenset[int]:
    """No sign at all is no contradiction of the case, but a fault of SymPy's: nothing may be concluded from it."""
    if not found:
        raise ValueError(f"SymPy gives {e} no sign")
    return found


def own_signs(e: Any) -> frozenset[int]:
    if e.is_positive:
        return frozenset((1,))
    if e.is_negative:
        return frozenset((-1,))
    if e.is_zero:
        return frozenset((0,))
    possible = {-1, 0, 1}
    if e.is_nonnegative:
        possible.discard(-1)
    if e.is_nonpositive:
        possible.discard(1)
    if e.is_zero is False:
        possible.discard(0)
    return frozenset(possible)


def factored(e: Any) -> Any:
    return sp.factor(sp.together(e)) if sp.count_ops(e) < 60 else e


def zero(e: Any) -> bool:
    """Whether a finite expression is 0, by normal form."""
    if e == 0 or sp.expand(e) == 0:
        return True
    return bool(normal(e) == 0)


def normal(e: Any) -> Any:
    expanded = sp.expand(sp.expand_log(e), power_exp=True)
    return sp.powsimp(sp.factor_terms(sp.cancel(expanded)), combine="exp")


def equal(x: Any, y: Any) -> bool:
    """Equality of two finite values; where logarithms occur, also of their exponentials (exp is one-to-one)."""
    if x == y or zero(x - y):
        return True
    return bool((x - y).has(sp.log)) and zero(sp.exp(sp.expand_log(x)) - sp.exp(sp.expand_log(y)))


def monotone_image(x: Any, y: Any) -> Any:
    """log x - log y for positive x and y, exp x - exp y where logarithms occur: of the sign of x - y. Or None."""
    if x.is_positive and y.is_positive:
        return sp.expand_log(sp.log(x) - sp.log(y))
    if x.has(sp.log) or y.has(sp.log):
        return sp.exp(sp.expand_log(x)) - sp.exp(sp.expand_log(y))
    return None


def add(x: Value, y: Value) -> Value:
    if infinite(x) or infinite(y):
        return UNDEFINED if infinite(x) and infinite(y) and x != y else x if infinite(x) else y
    return x + y


def exp(x: Value) -> Value:
    if infinite(x):
        return INF if x > 0 else sp.S.Zero
    return sp.exp(x)


class Operations:
    """The operations in one case, in which the expressions of ``assumed`` have the given signs, and those of ``boxes``
    lie in the given intervals."""

    def __init__(self, assumed: Mapping[Any, int], boxes: Mapping[Any, sympy_bounds.Box]) -> None:
        self.assumed, self.boxes = assumed, boxes
        self.table: dict[str, Callable[..., Value]] = {
            "add": add, "sub": lambda x, y: add(x, -y), "mul": self.mul, "div": self.div, "pow": self.power,
            "neg": lambda x: -x, "abs": self.absolute,
            "max": self.extremum((0, 1), (-1,)), "min": self.extremum((-1, 0), (1,)),
            "exp": exp, "exp2": lambda x: exp(x if infinite(x) else x * sp.log(2)), "log": self.log,
            "sqrt": lambda x: self.power(x, sp.Rational(1, 2)), "rsqrt": lambda x: self.power(x, sp.Rational(-1, 2)),
            "sigmoid": lambda x: self.div(sp.S.One, add(sp.S.One, exp(-x))),
            "lt": self.comparison(-1), "le": self.comparison(-1, 0), "gt": self.comparison(1),
            "ge": self.comparison(0, 1), "eq": self.comparison(0), "ne": self.comparison(-1, 1),
            "not": lambda x: not x,
        }  # fmt: skip

    def decide(self, e: Any, *groups: tuple[int, ...]) -> int:
        """The position of the group that holds the sign of e; raises Undecided when more than one can."""
        possible = consistent(e, own_signs(e))
        for form, direction in ((e, 1), (-e, -1)):
            if form in self.assumed:
                possible &= {direction * self.assumed[form]}
        if len(possible) > 1 and self.boxes:
            possible &= sympy_bounds.signs(e, self.boxes)
        live = [k for k, group in enumerate(groups) if possible & set(group)]
        if len(live) > 1:  # other forms of e, which take time, may tell more
            possible &= consistent(e, signs(e))
            live = [k for k, group in enumerate(groups) if possible & set(group)]
        if len(live) == 1:
            return live[0]
        if not live:
            raise Contradiction
        raise Undecided(e)

    def compare(self, x: Value, y: Value, *groups: tuple[int, ...]) -> int:
        """The position of the group that holds the sign of x - y."""
        if infinite(x) or infinite(y):
            a, b = (x if infinite(x) else 0), (y if infinite(y) else 0)
            sign = (a > b) - (a < b)
            return next(k for k, group in enumerate(groups) if sign in group)
        try:
            return self.decide(x - y, *groups)
        except Undecided as first:
            other = monotone_image(x, y)
            if other is None:
                raise
            try:
                return self.decide(other, *groups)
            except Undecided:
                raise Undecided(first.expr, other) from None

    def mul(self, x: Value, y: Value) -> Value:
        if infinite(x) and infinite(y):
            return x * y
        if infinite(x) or infinite(y):
            finite, other = (y, x) if infinite(x) else (x, y)
            return (-other, UNDEFINED, other)[self.decide(finite, (-1,), (0,), (1,))]
        return x * y

    def div(self, x: Value, y: Value) -> Value:
        if infinite(y):
            return UNDEFINED if infinite(x) else sp.S.Zero
        if infinite(x):
            return (-x, UNDEFINED, x)[self.decide(y, (-1,), (0,), (1,))]
        return x / y if self.decide(y, (0,), (-1, 1)) else UNDEFINED

    def power(self, x: Value, y: Value) -> Value:
        if infinite(y):
            raise Unsupported("a power with an infinite exponent")
        if not y.is_Rational:
            return self.symbolic_power(x, y)
        if y == 0:
            return sp.S.One
        if infinite(x):
            if x < 0 and not y.is_Integer:
                return UNDEFINED
            return sp.S.Zero if y < 0 else -INF if x < 0 and y % 2 == 1 else INF
        if y.is_Integer and y > 0:
            return x**y
        at_zero = sp.S.Zero if y > 0 else UNDEFINED
        if y.is_Integer:
            return x**y if self.decide(x, (0,), (-1, 1)) else at_zero
        case = self.decide(x, (-1,), (0,), (1,))
        return (UNDEFINED, at_zero)[case] if case < 2 else x**y

    def symbolic_power(self, x: Value, y: Any) -> Value:
        if infinite(x) or self.decide(x, (-1,), (0, 1)) == 0:
            raise Unsupported("a power with a symbolic exponent of a negative or infinite base")
        if self.decide(x, (0,), (1,)):
            return sp.exp(y * sp.log(x))
        return (UNDEFINED, sp.S.One, sp.S.Zero)[self.decide(y, (-1,), (0,), (1,))]

    def log(self, x: Value) -> Value:
        if infinite(x):
            return x if x > 0 else UNDEFINED
        case = self.decide(x, (-1,), (0,), (1,))
        return (UNDEFINED, -INF)[case] if case < 2 else sp.log(x)

    def absolute(self, x: Value) -> Value:
        if infinite(x):
            return INF
        return x if self.decide(x, (-1,), (0, 1)) else -x

    def extremum(self, first: tuple[int, ...], other: tuple[int, ...]) -> Callable[[Value, Value], Value]:
        return lambda x, y: y if self.compare(x, y, first, other) else x

    def comparison(self, *true: int) -> Callable[[Value, Value], Value]:
        false = tuple(s for s in (-1, 0, 1) if s not in true)

        def fn(x: Value, y: Value) -> Value:
            if isinstance(x, bool):
                if true not in ((0,), (-1, 1)):
                    raise Unsupported("an order between truth values")
                return (x == y) == (true == (0,))
            return self.compare(x, y, true, false) == 0

        return fn

    def cast(self, x: Value, source: str, target: str) -> Value:
        if target == "bool":
            return x if source == "bool" else True if infinite(x) else bool(self.decide(x, (0,), (-1, 1)))
        if source == "bool":
            return sp.Integer(int(x))
        if target in FLOATS or source in INTS:
            return x
        raise Unsupported(f"cast to {target}")


class Evaluator:
    """Values of expressions in one case: ``env`` gives the symbols' values; ``tick`` is called at each operation."""

    def __init__(
        self,
        env: Mapping[Var, Value],
        assumed: Mapping[Any, int],
        tick: Callable[[], None],
        boxes: Mapping[Any, sympy_bounds.Box] | None = None,
    ) -> None:
        self.env, self.tick = env, tick
        self.operations = Operations(assumed, boxes or {})
        self.memo: dict[Expr, Value] = {}

    def value(self, e: Expr) -> Value:
        if e not in self.memo:
            self.memo[e] = self.evaluate(e)
        return self.memo[e]

    def evaluate(self, e: Expr) -> Value:
        match e:
            case Const(value, dtype):
                if dtype == "bool" or isinstance(value, float):
                    return value
                return sp.Rational(Fraction(value).numerator, Fraction(value).denominator)
            case Var() if e in self.env:
                return self.env[e]
            case Op("select", (c, x, y)):
                condition = self.value(c)
                return condition if condition is UNDEFINED else self.value(x if condition else y)
            case Op("and" | "or" as name, (x, y)):
                return self.connective(name == "or", x, y)
            case Op(name, args, dtype):
                self.tick()
                values = [self.value(a) for a in args]
                if any(v is UNDEFINED for v in values):
                    return UNDEFINED
                if name == "cast":
                    return self.operations.cast(values[0], args[0].dtype, dtype)
                if name not in self.operations.table or (name == "div" and dtype in INTS):
                    raise Unsupported(name)
                return self.operations.table[name](*values)
            case _:
                raise Unsupported(f"{type(e).__name__} {getattr(e, 'name', '')}".strip())

    def connective(self, decisive: bool, x: Expr, y: Expr) -> Value:
        """``x or y`` (``decisive`` is True) and ``x and y``: one side may decide while the other is not known, if that one
        cannot be undefined."""
        for one, other in ((x, y), (y, x)):
            try:
                first = self.value(one)
            except Undecided:
                continue
            if first is decisive and never_undefined(other):
                return decisive
        values = self.value(x), self.value(y)
        if any(v is UNDEFINED for v in values):
            return UNDEFINED
        return any(values) if decisive else all(values)


def never_undefined(e: Expr) -> bool:
    """Comparisons of symbols and literals, and connectives of them."""
    match e:
        case Var() | Const():
            return True
        case Op("lt" | "le" | "gt" | "ge" | "eq" | "ne", (x, y)):
            return isinstance(x, Var | Const) and isinstance(y, Var | Const)
        case Op("and" | "or" | "not", args):
            return all(map(never_undefined, args))
        case _:
            return False

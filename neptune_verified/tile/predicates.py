"""Not trusted: a predicate over indices as alternatives of linear constraints (disjunctive normal form).

A constraint says ``form >= 0``, or that a form has a given remainder. What is neither is dropped: the alternative then
holds for more indices than it says, which is the safe side for its users.
"""

from __future__ import annotations

from dataclasses import dataclass

from neptune_verified.ir.expr import INTS, Axis, Const, Expr, Op, Read, op, subterms
from neptune_verified.tile.forms import Linear, linear

#: A predicate with more alternatives than this is not looked into.
ALTERNATIVES = 12


class TooMany(Exception):
    """The normal form has more than ALTERNATIVES alternatives."""


@dataclass(frozen=True)
class AtLeastZero:
    form: Linear


@dataclass(frozen=True)
class Remainder:
    """``form % divisor == remainder``."""

    form: Linear
    divisor: int
    remainder: int


@dataclass(frozen=True)
class Unknown:
    """Some condition that is not looked into; it may hold or not."""


Constraint = AtLeastZero | Remainder | Unknown
Alternatives = list[list[Constraint]]
_NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


def alternatives(p: Expr, wanted: bool = True) -> Alternatives:
    """``p`` (its negation, if not ``wanted``) implies that one of the alternatives holds; it is equivalent to that where
    none has an Unknown. Raises TooMany."""
    match p:
        case Const(value):
            return [[]] if bool(value) == wanted else []
        case Op("not", (x,)):
            return alternatives(x, not wanted)
        case Op("and" | "or" as name, (x, y)):
            a, b = alternatives(x, wanted), alternatives(y, wanted)
            return _both(a, b) if (name == "and") == wanted else _either(a, b)
        case Op("select", (c, x, y)):
            yes = _both(alternatives(c, True), alternatives(x, wanted))
            return _either(yes, _both(alternatives(c, False), alternatives(y, wanted)))
        case Op("lt" | "le" | "gt" | "ge" | "eq" | "ne" as name, (x, y)) if x.dtype in INTS and y.dtype in INTS:
            return _comparison(name if wanted else _NEGATED[name], x, y)
        case _:
            return [[Unknown()]]


def _either(a: Alternatives, b: Alternatives) -> Alternatives:
    if len(a) + len(b) > ALTERNATIVES:
        raise TooMany
    return a + [c for c in b if c not in a]


def _both(a: Alternatives, b: Alternatives) -> Alternatives:
    if len(a) * len(b) > ALTERNATIVES:
        raise TooMany
    return [x + [c for c in y if c not in x] for x in a for y in b]


def _comparison(name: str, x: Expr, y: Expr) -> Alternatives:
    d = linear(y) - linear(x)
    match name:
        case "le":
            return _at_least_zero(d)
        case "lt":
            return _at_least_zero(d - 1)
        case "ge":
            return _at_least_zero(-d)
        case "gt":
            return _at_least_zero(-d - 1)
    rest = _remainder(d)
    if rest is not None:
        return _remainders(rest, name == "eq")
    if name == "eq":
        return _both(_at_least_zero(d), _at_least_zero(-d))
    return _either(_at_least_zero(d - 1), _at_least_zero(-d - 1))


def _remainder(d: Linear) -> Remainder | None:
    """``d == 0`` as a remainder, where it is one."""
    if len(d.terms) != 1:
        return None
    ((t, c),) = d.terms.items()
    if abs(c) != 1 or not isinstance(t, Op) or t.name != "floormod" or not isinstance(t.args[1], Const):
        return None
    return Remainder(linear(t.args[0]), int(t.args[1].value), -d.const * c)


def _remainders(r: Remainder, equal: bool) -> Alternatives:
    if r.divisor <= 0:
        return [[Unknown()]]
    inside = 0 <= r.remainder < r.divisor
    if equal:
        return [[r]] if inside else []
    if not inside:
        return [[]]
    if r.divisor == 1:
        return []
    return [[Remainder(r.form, 2, 1 - r.remainder)]] if r.divisor == 2 else [[Unknown()]]


def _at_least_zero(d: Linear) -> Alternatives:
    """``d >= 0``; minima, maxima and absolute values are taken apart."""
    for t, c in d.terms.items():
        if not isinstance(t, Op) or t.name not in ("min", "max", "abs"):
            continue
        x, y = t.args if t.name != "abs" else (t.args[0], op("neg", t.args[0]))
        rest = d.without([t])
        a, b = (_at_least_zero(rest + linear(z) * c) for z in (x, y))
        return _both(a, b) if (t.name == "min") == (c > 0) else _either(a, b)
    if not d.terms:
        return [[]] if d.const >= 0 else []
    return [[AtLeastZero(d)]]


def reads_tensor(form: Linear) -> bool:
    return any(isinstance(x, Read) for t in form.terms for x in subterms(t))


def mentions(e: Expr, axes: tuple[Axis | None, ...]) -> bool:
    return any(a in e.free for a in axes if a is not None)

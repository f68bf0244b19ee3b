"""Trusted: which kinds of value an expression can take, by abstract interpretation.

The kinds are ``-inf neg zero pos +inf undefined`` for numbers and ``true false undefined`` for truth values. The result
is an over-approximation: a kind that is missing cannot occur for inputs that satisfy the declared assumptions. These
are the *derived facts* of the proofs (a sum of squares is >= 0, exp is > 0 unless its argument is -inf).
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

from neptune_verified.ir.expr import (
    FLOATS,
    Axis,
    Const,
    Expr,
    Number,
    Op,
    Read,
    Reduce,
    Size,
    Var,
    children,
    substitute,
    subterms,
)
from neptune_verified.ir.program import Program

NINF, NEG, ZERO, POS, PINF, UNDEF = "-inf", "neg", "zero", "pos", "+inf", "undefined"
TRUE, FALSE = "true", "false"
Kinds = frozenset[str]
FINITE: Kinds = frozenset({NEG, ZERO, POS})
EXTENDED: Kinds = FINITE | {NINF, PINF}
NONNEGATIVE: Kinds = frozenset({ZERO, POS})
TRUTH: Kinds = frozenset({TRUE, FALSE})
_NEGATED = {NINF: PINF, NEG: POS, ZERO: ZERO, POS: NEG, PINF: NINF, UNDEF: UNDEF}


def _add(a: str, b: str) -> Kinds:
    if {a, b} == {NINF, PINF}:
        return frozenset({UNDEF})
    for inf in (NINF, PINF):
        if inf in (a, b):
            return frozenset({inf})
    if ZERO in (a, b):
        return frozenset({b if a == ZERO else a})
    return frozenset({a}) if a == b else FINITE


def _mul(a: str, b: str) -> Kinds:
    infinite = {a, b} & {NINF, PINF}
    if ZERO in (a, b):
        return frozenset({UNDEF if infinite else ZERO})
    negative = (a in (NINF, NEG)) != (b in (NINF, NEG))
    if infinite:
        return frozenset({NINF if negative else PINF})
    return frozenset({NEG if negative else POS})


def _inverse(b: str) -> str:
    return {ZERO: UNDEF, NINF: ZERO, PINF: ZERO}.get(b, b)


def _div(a: str, b: str) -> Kinds:
    if b == ZERO or ({a, b} <= {NINF, PINF}):
        return frozenset({UNDEF})
    return _mul(a, _inverse(b))


_ORDER = {NINF: 0, NEG: 1, ZERO: 2, POS: 3, PINF: 4}


def _max(a: str, b: str) -> Kinds:
    return frozenset({a if _ORDER[a] >= _ORDER[b] else b})


def _min(a: str, b: str) -> Kinds:
    return frozenset({a if _ORDER[a] <= _ORDER[b] else b})


def _pow(a: str, b: str, exponent: Expr) -> Kinds:
    if isinstance(exponent, Const) and a in FINITE and b in FINITE:
        q = exponent.value
        if q == 0:
            return frozenset({POS})
        if a == ZERO:
            return frozenset({UNDEF if q < 0 else ZERO})
        if a == POS:
            return frozenset({POS})
        if not isinstance(q, Fraction) or q.denominator != 1:
            return frozenset({UNDEF})
        return frozenset({POS if q.numerator % 2 == 0 else NEG})
    if a == POS and b in FINITE:
        return frozenset({POS})
    return EXTENDED | {UNDEF}


_SAME = {k: frozenset({k}) for k in (*EXTENDED, UNDEF)}
#: kind of the argument -> kinds of the result; an absent kind gives *undefined*.
_UNARY: dict[str, dict[str, Kinds]] = {
    "neg": {k: frozenset({_NEGATED[k]}) for k in EXTENDED},
    "abs": {NINF: _SAME[PINF], NEG: _SAME[POS], ZERO: _SAME[ZERO], POS: _SAME[POS], PINF: _SAME[PINF]},
    "exp": {NINF: _SAME[ZERO], NEG: _SAME[POS], ZERO: _SAME[POS], POS: _SAME[POS], PINF: _SAME[PINF]},
    "log": {ZERO: _SAME[NINF], POS: FINITE, PINF: _SAME[PINF]},
    "sqrt": {ZERO: _SAME[ZERO], POS: _SAME[POS], PINF: _SAME[PINF]},
    "rsqrt": {POS: _SAME[POS], PINF: _SAME[ZERO]},
    "tanh": {NINF: _SAME[NEG], NEG: _SAME[NEG], ZERO: _SAME[ZERO], POS: _SAME[POS], PINF: _SAME[POS]},
    "sigmoid": {NINF: _SAME[ZERO], NEG: _SAME[POS], ZERO: _SAME[POS], POS: _SAME[POS], PINF: _SAME[POS]},
    "sin": dict.fromkeys(FINITE, FINITE),
    "cos": dict.fromkeys(FINITE, FINITE),
    "floor": {NINF: _SAME[NINF], NEG: _SAME[NEG], ZERO: _SAME[ZERO], POS: NONNEGATIVE, PINF: _SAME[PINF]},
    "ceil": {NINF: _SAME[NINF], NEG: frozenset({NEG, ZERO}), ZERO: _SAME[ZERO], POS: _SAME[POS], PINF: _SAME[PINF]},
}
_UNARY["exp2"] = _UNARY["exp"]
_UNARY["erf"] = _UNARY["tanh"]
_UNARY["round"] = {**_UNARY["floor"], NEG: frozenset({NEG, ZERO})}
_BINARY = {"add": _add, "mul": _mul, "div": _div, "max": _max, "min": _min}


def _compare(name: str, a: str, b: str) -> Kinds:
    if a == b and a in FINITE and a != ZERO:
        return TRUTH
    x, y = _ORDER[a], _ORDER[b]
    result = {"lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y, "eq": x == y, "ne": x != y}[name]
    return frozenset({TRUE if result else FALSE})


class KindAnalysis:
    """Kinds of closed expressions of one program, under its assumptions. ``given`` fixes the kinds of symbols."""

    #: The analysis without the cases of a case split: what holds of every element, not of the one at hand.
    base: KindAnalysis

    def __init__(self, program: Program | None = None, given: dict[Expr, Kinds] | None = None) -> None:
        self.base = self
        self.given = dict(given or {})
        self.memo: dict[Expr, Kinds] = dict(self.given)
        self.elements: dict[Reduce, Kinds] = {}
        self.facts = {(a.subject, a.kind): a for a in program.assumptions} if program else {}
        self.lengths = program.shape_sizes() if program else frozenset()
        self.shapes = {t.name: t.shape for t in program.inputs} if program else {}
        #: Inputs that are not taken to be finite (``proofs.facts`` asks what holds without that).
        self.unbounded: frozenset[str] = frozenset()
        self.between: dict[str, Kinds] = dict(program.between) if program else {}

    def has(self, subject: str, kind: str) -> bool:
        return (subject, kind) in self.facts

    def declared(self, subject: str) -> Kinds:
        if subject in self.between:
            return self.between[subject]
        kinds = FINITE
        if self.has(subject, "positive") or self._at_least(subject, 0, strictly=True):
            kinds = frozenset({POS})
        elif self.has(subject, "nonnegative") or self._at_least(subject, 0):
            kinds = NONNEGATIVE
        elif self.has(subject, "nonzero"):
            kinds = frozenset({NEG, POS})
        if subject in self.unbounded:
            return kinds | {NINF, PINF}
        return kinds | {NINF} if self.has(subject, "finite_or_minus_infinity") else kinds

    def _at_least(self, subject: str, bound: float, strictly: bool = False) -> bool:
        fact = self.facts.get((subject, "at_least"))
        return (
            fact is not None
            and fact.value is not None
            and (fact.value > bound or (fact.value == bound and not strictly))
        )

    def of(self, e: Expr) -> Kinds:
        if e not in self.memo:
            self.memo[e] = self._of(e)
        return self.memo[e]

    def _of(self, e: Expr) -> Kinds:
        match e:
            case Const(value, dtype):
                if dtype == "bool":
                    return frozenset({TRUE if value else FALSE})
                return frozenset({_const_kind(value)})
            case Size(name):
                kinds = self.declared(name)
                return kinds & NONNEGATIVE if name in self.lengths else kinds
            case Axis():
                return NONNEGATIVE
            case Read(tensor, indices, dtype):
                kinds = TRUTH if dtype == "bool" else self.declared(tensor)
                shape = self.shapes.get(tensor, ())
                inside = len(shape) == len(indices) and all(map(in_range, indices, shape))
                return kinds if inside else kinds | {UNDEF}
            case Var(_, dtype):
                return TRUTH | {UNDEF} if dtype == "bool" else EXTENDED | {UNDEF}
            case Reduce():
                return self._reduce(e)
            case Op(name, args):
                return self._op(name, args, e)
            case _:
                raise TypeError(f"no kinds for {type(e).__name__}")

    def _op(self, name: str, args: tuple[Expr, ...], e: Op) -> Kinds:
        if name == "select":
            cond = self.of(args[0])
            result: Kinds = frozenset({UNDEF}) & cond
            if TRUE in cond:
                result |= self._refined(args[1], args[0], True)
            if FALSE in cond:
                result |= self._refined(args[2], args[0], False)
            return result
        kinds = [self.of(a) for a in args]
        result = frozenset({UNDEF}) if any(UNDEF in k for k in kinds) else frozenset()
        kinds = [k - {UNDEF} for k in kinds]
        if (name == "mul" and args[0] is args[1]) or (name == "sub" and args[0] is args[1]):
            for a in kinds[0]:
                result |= _mul(a, a) if name == "mul" else _SAME[UNDEF if a in (NINF, PINF) else ZERO]
            return result
        for combo in product(*kinds):
            result |= self._point(name, combo, args, e)
        return result

    def _point(self, name: str, combo: tuple[str, ...], args: tuple[Expr, ...], e: Op) -> Kinds:
        if name in ("lt", "le", "gt", "ge", "eq", "ne"):
            if args[0].dtype == "bool":
                return TRUTH
            return _compare(name, *combo)
        if name in ("and", "or", "not"):
            a = combo[0] == TRUE
            b = combo[-1] == TRUE
            value = {"and": a and b, "or": a or b, "not": not a}[name]
            return frozenset({TRUE if value else FALSE})
        if name == "cast":
            return self._cast(combo[0], args[0].dtype, e.dtype)
        if name == "sub":
            return _add(combo[0], _NEGATED[combo[1]])
        if name == "pow":
            return _pow(combo[0], combo[1], args[1])
        if name in _BINARY:
            return _BINARY[name](*combo)
        if name in _UNARY:
            return _UNARY[name].get(combo[0], frozenset({UNDEF}))
        if name in ("floordiv", "floormod"):
            if combo[1] == ZERO and e.dtype in FLOATS:
                return frozenset({UNDEF})
            if set(combo) <= NONNEGATIVE:
                return NONNEGATIVE
            return FINITE if e.dtype not in FLOATS else EXTENDED | {UNDEF}
        return EXTENDED | {UNDEF}

    @staticmethod
    def _cast(kind: str, source: str, target: str) -> Kinds:
        if target == "bool":
            return frozenset({TRUE if kind not in (ZERO, FALSE) else FALSE})
        if source == "bool":
            return frozenset({POS if kind == TRUE else ZERO})
        if source in FLOATS and target not in FLOATS:
            return FINITE if kind == NEG or kind in (NINF, PINF) else NONNEGATIVE
        return frozenset({kind})

    def _refined(self, branch: Expr, cond: Expr, value: bool) -> Kinds:
        """Kinds of a branch, using its own condition where that is a comparison of a subterm with a constant."""
        given = self._constraint(cond, value)
        if not given:
            return self.of(branch)
        return self.under(given).of(branch)

    def under(self, given: dict[Expr, Kinds]) -> KindAnalysis:
        """The same analysis with the kinds of some subterms fixed."""
        inner = KindAnalysis(None, {**self.given, **given})
        inner.facts, inner.lengths, inner.base, inner.shapes = self.facts, self.lengths, self.base, self.shapes
        inner.unbounded, inner.between = self.unbounded, self.between
        return inner

    def _constraint(self, cond: Expr, value: bool) -> dict[Expr, Kinds]:
        if not (isinstance(cond, Op) and cond.name in ("lt", "le", "gt", "ge", "eq", "ne")):
            return {}
        x, c = cond.args
        if not isinstance(c, Const) or isinstance(x, Const) or x.dtype == "bool":
            return {}
        wanted = TRUE if value else FALSE
        ck = _const_kind(c.value)
        keep = frozenset(k for k in self.of(x) if k == UNDEF or wanted in _compare(cond.name, k, ck))
        return {x: keep} if keep else {}

    def element_kinds(self, e: Reduce) -> Kinds:
        """Kinds of the reduced term at an element of the domain.

        A reduction over the same domain that occurs in the term has seen that very element: a max is >= it, a sum of
        non-negative terms that is 0 has only terms that are 0. Hence a case split over the kinds of both. One that
        occurs only inside another is not split (of a chain, each reduction knows the one before): the cases of a chain
        would double with every link, and a case that is not made loses precision, never soundness.
        """
        if e not in self.elements:
            self.elements[e] = self._element_kinds(e)
        return self.elements[e]

    def _element_kinds(self, e: Reduce) -> Kinds:
        inside = same_domain(e)
        seen = outermost(e.body, inside)
        producers = [x for x in inside if x in seen]
        if not producers:
            return self.of(e.body)
        result: Kinds = frozenset()
        for case in self._cases(producers, e.axes, {}):
            result |= self.under(case).of(e.body)
        return result

    def _cases(
        self, producers: list[Reduce], axes: tuple[Axis, ...], case: dict[Expr, Kinds]
    ) -> Iterator[dict[Expr, Kinds]]:
        if not producers:
            yield case
            return
        first, rest = producers[0], producers[1:]
        element = substitute(first.body, dict(zip(first.axes, axes, strict=True)))
        # What is inside ``first`` alone has no case: its kinds are found once, not in each case again.
        inner: dict[Expr, Kinds] = {x: self.of(x) for x in same_domain(first) if x not in case} if case else {}
        here = (self.under({**inner, **case}) if case else self).of(element)
        total = self.of(first)
        terms = self.base.element_kinds(first)
        signed = terms <= NONNEGATIVE or terms <= {NEG, ZERO}
        for p in here:
            for r in total:
                if p == UNDEF and r != UNDEF:
                    continue  # one undefined term makes the reduction undefined
                if UNDEF in (p, r) or compatible(first.reducer, r, p, signed):
                    yield from self._cases(rest, axes, {**case, element: frozenset({p}), first: frozenset({r})})

    def _reduce(self, e: Reduce) -> Kinds:
        kinds = self.element_kinds(e)
        if all(self.of(a.extent) <= {POS} for a in e.axes):
            return reduce_some(e.reducer, kinds, e.dtype)
        return reduce_kinds(e.reducer, kinds, e.dtype)


def in_range(index: Expr, extent: Expr) -> bool:
    """Is the index certainly inside a dimension of this extent? (An element outside is *undefined*.)"""
    if isinstance(index, Axis) and index.extent is extent:
        return True
    bounds = interval(index)
    return bounds is not None and isinstance(extent, Const) and bounds[0] >= 0 and bounds[1] < extent.value


def interval(e: Expr) -> tuple[Number, Number] | None:
    """Least and greatest value of an integer expression over axes of concrete extents; None where there are others."""
    match e:
        case Const(value, dtype) if dtype != "bool":
            return value, value
        case Axis(_, Const(value)):
            return 0, value - 1
        case Op("add" | "sub" | "mul" as name, (x, y)):
            a, b = interval(x), interval(y)
            if a is None or b is None:
                return None
            if name == "add":
                return a[0] + b[0], a[1] + b[1]
            if name == "sub":
                return a[0] - b[1], a[1] - b[0]
            corners = [p * q for p in a for q in b]
            return min(corners), max(corners)
        case Op("floordiv", (x, Const(d))) if d > 0:
            a = interval(x)
            return None if a is None else (a[0] // d, a[1] // d)
        case Op("floormod", (_, Const(d))) if d > 0:
            return 0, d - 1
        case _:
            return None


def reduce_some(reducer: str, body: Kinds, dtype: str) -> Kinds:
    """Kinds of a reduction of at least one value of the given kinds."""
    if reducer in ("max", "min") and dtype in FLOATS:
        return body
    if reducer == "sum" and body <= {POS}:
        return body
    return reduce_kinds(reducer, body, dtype)


def reduce_kinds(reducer: str, body: Kinds, dtype: str) -> Kinds:
    """Kinds of a reduction of any number of values (none included) of the given kinds."""
    extra = body & {UNDEF}
    kinds = body - {UNDEF}
    match reducer:
        case "sum":
            if kinds <= NONNEGATIVE:
                return NONNEGATIVE | extra
            if kinds <= {NEG, ZERO}:
                return frozenset({NEG, ZERO}) | extra
            infinite = kinds & {NINF, PINF}
            return FINITE | infinite | (frozenset({UNDEF}) if len(infinite) == 2 else extra)
        case "prod":
            if kinds <= {POS}:
                return frozenset({POS}) | extra
            return (
                NONNEGATIVE | {POS} if kinds <= NONNEGATIVE else FINITE if kinds <= FINITE else EXTENDED | {UNDEF}
            ) | extra
        case "max" if dtype in FLOATS:
            return kinds | {NINF} | extra
        case "min" if dtype in FLOATS:
            return kinds | {PINF} | extra
        case "logaddexp":
            return (kinds | {NINF} | (FINITE if kinds & FINITE else frozenset())) | extra
        case "any" | "all":
            return TRUTH | extra
        case _:
            return FINITE | extra


def same_domain(e: Reduce) -> list[Reduce]:
    """Reductions inside the term of ``e`` over the same domain that depend neither on its axes nor on those of a reduction
    between (such a value is a different one for each of its indices), inner ones first."""
    extents = tuple(a.extent for a in e.axes)
    bound = set(e.axes)
    return [
        x
        for x in subterms(e.body)
        if isinstance(x, Reduce)
        and not (x.free & bound)
        and x.free <= e.body.free
        and tuple(a.extent for a in x.axes) == extents
    ]


def outermost(e: Expr, targets: list[Reduce]) -> set[Expr]:
    """Those of ``targets`` that occur in ``e`` outside of the others."""
    wanted, seen, found, todo = set(targets), {e}, set[Expr](), [e]
    while todo:
        x = todo.pop()
        if x in wanted:
            found.add(x)
            continue
        fresh = [k for k in children(x) if k not in seen]
        seen.update(fresh)
        todo += fresh
    return found


def compatible(reducer: str, total: str, element: str, signed: bool) -> bool:
    """Can a reduction over some elements, one of kind ``element``, be of kind ``total``? ``signed``: no two of its terms
    have opposite signs (then a sum that is 0 has no term but 0)."""
    match reducer:
        case "max":
            return _ORDER[total] >= _ORDER[element]
        case "min":
            return _ORDER[total] <= _ORDER[element]
        case "sum":
            if element in (NINF, PINF):
                return total == element
            return not (signed and total == ZERO and element != ZERO)
        case _:
            return True


def _const_kind(value: object) -> str:
    number = float(value) if not hasattr(value, "numerator") else value  # type: ignore[arg-type]
    if number == float("inf"):
        return PINF
    if number == float("-inf"):
        return NINF
    return ZERO if number == 0 else POS if number > 0 else NEG  # type: ignore[operator]

"""Trusted: is a value of the text the value that the loop program says? By cases, lane by lane, with Z3 for the integers.

``equal(t, s)`` goes through both expressions together. A choice (a mask, a guard, ``where``) on either side splits the case;
under the facts of a case the other side's choice is then decided, whatever form it has. Cases that contradict themselves do
not arise. Nothing is rewritten but what ``fold`` lists, so the two sides perform the same operations on the same types in
the same order, up to: the order of the operands of a commutative operation; the tree in which a tile is reduced; the
expansion of a power with a known exponent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from neptune_verified.ir.expr import (
    FLOATS,
    INF,
    INTS,
    REDUCERS,
    Const,
    Expr,
    Op,
    Read,
    Reduce,
    Size,
    op,
    reduce_,
    size,
    substitute,
    subterms,
)
from neptune_verified.ir.kinds import EXTENDED, FINITE, UNDEF, ZERO, KindAnalysis
from neptune_verified.proofs.text.calls import exact
from neptune_verified.proofs.text.findings import Unproved
from neptune_verified.proofs.text.fold import COMPARE, arithmetic, plain, widens
from neptune_verified.proofs.text.integers import Facts, both, is_integer, within, zero
from neptune_verified.proofs.text.powers import expansions
from neptune_verified.proofs.text.reader import Reading

if TYPE_CHECKING:
    from neptune_verified.proofs.text.claims import Claims

_COMMUTE = ("add", "mul", "max", "min", "and", "or", "eq", "ne")
_DEPTH = 400


@dataclass(frozen=True, slots=True)
class Everywhere:
    """``condition`` has the value ``truth`` for every value of ``symbol`` for which all of ``inside`` hold."""

    symbol: Size
    condition: Expr
    truth: bool
    inside: tuple[Expr, ...]

    def at(self, x: Expr) -> list[Expr]:
        return [substitute(e, {self.symbol: x}) for e in (*self.inside, self.condition)]


class Matcher:
    def __init__(self, reading: Reading, facts: Facts, analysis: KindAnalysis, claims: Claims) -> None:
        self.reading, self.facts, self.analysis, self.claims = reading, facts, analysis, claims
        self.memo: dict[tuple[object, ...], bool] = {}
        #: (fact, condition) that are being compared.
        self.asked: set[tuple[Expr, Expr]] = set()
        #: Is what is compared first the text's, and second the definition's?
        self.sides = True
        self.inside: tuple[int, ...] = ()
        self.depth = 0
        self.counter = 0
        #: The deepest difference that was met: (depth, obligation, what).
        self.blame: tuple[int, str, str] = (-1, "O13", "the values differ")
        self.reason = "O13"
        #: While it is asked whether inputs are seen: the position that may not be, and what holds of every row.
        self.hidden: Size | None = None
        self.everywhere: Everywhere | None = None

    # -- verdicts ------------------------------------------------------------------------------------------

    def require(self, t: Expr, s: Expr, what: str, line: int | None = None) -> None:
        self.blame = (-1, self.reason, "the values differ")
        if not self.equal(t, s):
            _, id_, detail = self.blame
            raise Unproved(id_, f"{what}: {detail}", line)

    def differ(self, id_: str, what: str) -> bool:
        if self.depth > self.blame[0]:
            self.blame = (self.depth, id_, what)
        return False

    @contextmanager
    def because(self, id_: str) -> Iterator[None]:
        """Differences that are met inside are this obligation's."""
        before, self.reason = self.reason, id_
        try:
            yield
        finally:
            self.reason = before

    @contextmanager
    def unseen(self, position: Size, everywhere: Everywhere | None) -> Iterator[None]:
        """Inside, no input at this position has a value of which anything is known."""
        before = self.hidden, self.everywhere
        self.hidden, self.everywhere = position, everywhere
        try:
            yield
        finally:
            self.hidden, self.everywhere = before

    def hides(self, e: Read) -> bool:
        return self.hidden is not None and any(x is self.hidden for i in e.indices for x in subterms(i))

    def opened_reduction(self, e: Reduce, index: Expr) -> Expr:
        return _reduce_rest(e, e.axes[0], e.axes[1:], index)

    def fresh(self, n: Expr) -> Size:
        """An arbitrary index below n, which is added to the facts."""
        self.counter += 1
        x = size(f"any#{self.counter}")
        for c in within(x, zero(), n):
            self.facts.add(c)
        return x

    # -- equality ------------------------------------------------------------------------------------------

    def equal(self, t: Expr, s: Expr) -> bool:
        if t is s:
            return True
        key = (t, s, self.sides, self.hidden, self.everywhere, self.facts.trail)
        if key not in self.memo:
            if self.depth > _DEPTH:
                return self.differ("O13", "the expressions are nested too deep for the reader")
            self.depth += 1
            self.memo[key] = self._equal(t, s)
            self.depth -= 1
        return self.memo[key]

    def _equal(self, t: Expr, s: Expr) -> bool:
        s = self.head(s)
        if isinstance(s, Read) and s.tensor.startswith("@"):
            return self.claims.state(self, t, s)
        if isinstance(s, Read) and (needed := self.needed(s)):
            with self.facts.assuming(*needed):
                return self.equal(t, s)
        t = self.head(t)
        if t.dtype in INTS and s.dtype in INTS:  # what an integer is cast to is no matter of its value: it fits (O12)
            t, s = _uncast(t), _uncast(s)
        if t is s:
            return True
        if t.dtype != s.dtype and not (t.dtype in INTS and s.dtype in INTS):
            return self.differ("O16", f"{t.dtype} where the definition has {s.dtype}")
        if t.dtype in INTS and self.facts.equal(t, s):
            return True
        for side in (t, s):
            if isinstance(side, Op) and side.name == "select":
                atom = self.open_atom(side.args[0])
                return atom is not None and self.split(atom, t, s)
        if isinstance(t, Read) and t.tensor.startswith("%"):
            return self.claims.after(self, t, s)
        if isinstance(t, Const) or isinstance(s, Const):
            return self.constant(t, s)
        if t.dtype == "bool":
            return self.truth_values(t, s)
        if isinstance(t, Reduce) and isinstance(s, Reduce):
            return self.reductions(t, s)
        if isinstance(t, Read) and isinstance(s, Read):
            return self.reads(t, s)
        if isinstance(s, Op) and s.name == "pow" and not (isinstance(t, Op) and t.name == "pow"):
            return any(self.equal(t, e) for e in expansions(s)) or self.differ(self.reason, "a power differs")
        if isinstance(t, Op) and isinstance(s, Op) and t.name == s.name:
            return self.operations(t, s)
        return self.differ(
            self.reason if not _rounding(t, s) else "O16", f"{_name(t)} where the definition has {_name(s)}"
        )

    def needed(self, s: Read) -> list[Expr]:
        """Where the definition reads beyond a tensor it is undefined, and nothing is claimed: what must hold otherwise."""
        shape = self.analysis.shapes.get(s.tensor, ())
        inside = [c for i, n in zip(s.indices, shape, strict=False) for c in within(i, zero(i.dtype), n)]
        return [c for c in inside if not self.facts.holds(c)]

    def operations(self, t: Op, s: Op) -> bool:
        if t.name == "cast" and t.dtype != s.dtype and t.args[0].dtype in FLOATS:
            return self.differ("O16", f"a number is cast to {t.dtype} where the definition has {s.dtype}")
        if t.name == "cast" and t.args[0].dtype != s.args[0].dtype:
            return self.differ("O16", f"a cast from {t.args[0].dtype} where the definition casts {s.args[0].dtype}")
        if t.name == "mul" and (atom := self.choice(*t.args, *s.args)) is not None:
            # A factor that is 0 in one case makes the other one irrelevant there: the case goes around the product.
            return self.split(atom, t, s)
        pairs = list(zip(t.args, s.args, strict=True))
        if t.name in _COMMUTE:
            before = self.blame
            if all(self.equal(a, b) for a, b in pairs):
                return True
            kept, self.blame = self.blame, before
            if self.equal(t.args[0], s.args[1]) and self.equal(t.args[1], s.args[0]):
                return True
            if t.name == "mul" and self.constant_of(t) == 0 == self.constant_of(s, definition=True):
                return True  # 0 times any finite value
            self.blame = max(kept, self.blame, key=lambda b: b[0])
            return False
        return all(self.equal(a, b) for a, b in pairs)

    def choice(self, *factors: Expr) -> Expr | None:
        """An open condition on which a factor depends, conversions aside."""
        for e in factors:
            e = self.head(e)
            while isinstance(e, Op) and e.name == "cast":
                e = self.head(e.args[0])
            if isinstance(e, Op) and e.name == "select":
                return self.open_atom(e.args[0])
        return None

    def reads(self, t: Read, s: Read) -> bool:
        if t.tensor != s.tensor:
            return self.differ(self.reason, f"{t.tensor} is read where the definition reads {s.tensor}")
        for k, (a, b) in enumerate(zip(t.indices, s.indices, strict=True)):
            if not self.facts.equal(a, b) and not self.equal(a, b):
                return self.differ(self.reason, f"another element of {t.tensor} is read: dimension {k}")
        return True

    def constant(self, t: Expr, s: Expr) -> bool:
        a, b = self.constant_of(t), self.constant_of(s, definition=True)
        if a is not None and a == b:
            return True
        show = [_name(x) if v is None else _number(v) for x, v in ((t, a), (s, b))]
        return self.differ(self.reason, f"{show[0]} where the definition has {show[1]}")

    # -- choices -------------------------------------------------------------------------------------------

    def split(self, atom: Expr, t: Expr, s: Expr) -> bool:
        for truth in (True, False):
            instances = self.instances(atom, truth)
            with self.facts.case((atom, truth), *instances):
                if instances and self.facts.impossible():
                    continue
                if self.truth(atom) is not truth:
                    return self.differ(self.reason, f"a condition that stays open: {_name(atom)}")
                if not self.equal(t, s):
                    return False
        return True

    def instances(self, atom: Expr, truth: bool) -> list[tuple[Expr, bool]]:
        """What "none of the lanes" and "all of the lanes" say of the lanes at hand."""
        if (
            not isinstance(atom, Reduce)
            or len(atom.axes) != 1
            or (atom.reducer, truth) not in (("any", False), ("all", True))
        ):
            return []
        a = atom.axes[0]
        inside = [x for x in self.facts.indices if self.facts.between(x, zero(), a.extent)]
        return [(substitute(atom.body, {a: x}), truth) for x in inside]

    def truth(self, c: Expr) -> bool | None:
        """What the facts say of a truth value; None where they leave it open."""
        c = self.head(c, whole=False)
        if is_integer(c):
            return self.facts.decided(c)
        match c:
            case Const(value):
                return bool(value)
            case Op("not", (x,)):
                known = self.truth(x)
                return None if known is None else not known
            case Op("and" | "or" as name, (a, b)):
                left, right = self.truth(a), self.truth(b)
                strong = name == "or"
                if strong in (left, right):
                    return strong
                return None if left is None or right is None else not strong
        if isinstance(c, Reduce) and self.everywhere is not None and self.nowhere(c):
            return c.reducer == "all"
        return self.compared(c)

    def nowhere(self, c: Reduce) -> bool:
        """ "Some lane" is false, or "all lanes" true, because of what holds of every row."""
        if c.reducer not in ("any", "all") or len(c.axes) != 1 or self.everywhere is None:
            return False
        with self.facts.case():
            x = self.fresh(c.axes[0].extent)
            *inside, condition = self.everywhere.at(x)
            ranges = both(*inside)
            holds = condition if self.everywhere.truth else op("not", condition)
            self.facts.add(op("or", op("not", ranges), holds))
            body = substitute(c.body, {c.axes[0]: x})
            return self.facts.fails(body) if c.reducer == "any" else self.facts.holds(body)

    def compared(self, c: Expr) -> bool | None:
        """A comparison of floats, or another truth value: by its constants, or by what was assumed."""
        if isinstance(c, Op) and c.name in COMPARE:
            name, (a, b) = _turned(c)
            if name == "ne":
                known = self.compared(op("eq", a, b))
                return None if known is None else not known
            if a is b and UNDEF not in self.kinds(a):  # NaN is not equal to itself
                return name != "lt"
            x, y = self.constant_of(a), self.constant_of(b)
            if x is not None and y is not None:
                return bool(arithmetic(name, [x, y]))
        for fact, truth in reversed(self.facts.floats):
            # What is chosen in the one may depend on the other, and so on without end: then this fact does not help.
            if (fact, c) not in self.asked:
                self.asked.add((fact, c))
                try:
                    same = self.follows(fact, c)
                finally:
                    self.asked.remove((fact, c))
                if same is not None:
                    return truth is same
        return None

    def follows(self, fact: Expr, c: Expr) -> bool | None:
        """Is ``c`` what ``fact`` is (True), or what it is not (False)?"""
        if fact is c or self.same_atom(fact, c):
            return True
        if isinstance(fact, Reduce) and isinstance(c, Reduce) and self.quietly(fact, c):
            return True
        if isinstance(fact, Op) and fact.name == "ne" and self.same_atom(op("eq", *fact.args), c):
            return False
        return None

    def same_atom(self, fact: Expr, c: Expr) -> bool:
        if not isinstance(fact, Op) or not isinstance(c, Op):
            return False
        if fact.name not in COMPARE or c.name not in COMPARE or fact.args[0].dtype != c.args[0].dtype:
            return False
        (f, x), (g, y) = _turned(fact), _turned(c)
        if f != g:
            return False
        before = self.blame
        found = self.either(x, y) or (f in ("eq", "ne") and self.either((x[1], x[0]), y))
        self.blame = before
        return found

    def quietly(self, a: Expr, b: Expr) -> bool:
        """Equality of which no difference is to be reported."""
        before = self.blame
        found = self.either((a,), (b,))
        self.blame = before
        return found

    def either(self, x: tuple[Expr, ...], y: tuple[Expr, ...]) -> bool:
        """Pairwise equal; it is not known which side is the text's."""
        sides, self.sides = self.sides, False
        try:
            return self._either(x, y)
        finally:
            self.sides = sides

    def _either(self, x: tuple[Expr, ...], y: tuple[Expr, ...]) -> bool:
        return all(a is b or self.equal(a, b) or self.equal(b, a) for a, b in zip(x, y, strict=True))

    def open_atom(self, c: Expr) -> Expr | None:
        """A comparison in ``c`` that the facts leave open."""
        c = self.head(c, whole=False)
        if isinstance(c, Op) and c.name in ("and", "or", "not"):
            for x in c.args:
                if self.truth(x) is None:
                    return self.open_atom(x)
            return None
        if isinstance(c, Op) and c.name == "select":
            return self.open_atom(c.args[0])
        if isinstance(c, Op) and c.args[0].dtype in FLOATS:
            inner = self.choice(*c.args)  # what is compared may be a choice itself, which decides the comparison
            if inner is not None:
                return inner
        return c

    def truth_values(self, t: Expr, s: Expr) -> bool:
        """Both are equal in every case of their comparisons."""
        x, y = self.truth(t), self.truth(s)
        if x is not None and y is not None:
            return x == y or self.differ(self.reason, "a condition differs")
        if isinstance(t, Reduce) and isinstance(s, Reduce):
            return self.reductions(t, s)
        if isinstance(t, Read) and isinstance(s, Read):
            return self.reads(t, s)
        if x is None and y is None and isinstance(t, Op) and isinstance(s, Op) and t.name == s.name:
            before = self.blame
            if self.operations(t, s):
                return True
            self.blame = before
        side = t if x is None else s
        atom = self.open_atom(side)
        if atom is None or (atom is side and isinstance(side, Read | Reduce)):
            return self.differ(self.reason, f"the condition {_name(t)} where the definition has {_name(s)}")
        return self.split(atom, t, s)

    # -- reductions ----------------------------------------------------------------------------------------

    def reductions(self, t: Reduce, s: Reduce) -> bool:
        """One axis of the text's against each that the definition has: lanes beyond its extent hold the neutral element."""
        if t.reducer != s.reducer:
            return self.differ(self.reason, f"a {t.reducer} where the definition has a {s.reducer}")
        own, rest_t = t.axes[0], t.axes[1:]
        neutral = REDUCERS[t.reducer].neutral(t.body.dtype)
        for k, a in enumerate(s.axes):
            with self.facts.case():
                if not self.facts.holds(op("le", a.extent, own.extent)):
                    self.differ(self.reason, "fewer lanes are reduced than the definition has elements")
                    continue
                lane_ = self.fresh(own.extent)
                inner_t = _reduce_rest(t, own, rest_t, lane_)
                inner_s = _reduce_rest(s, a, s.axes[:k] + s.axes[k + 1 :], lane_)
                live = op("lt", lane_, a.extent)
                with self.facts.case((live, True)):
                    if not self.facts.impossible() and not self.equal(inner_t, inner_s):
                        continue
                with self.facts.case((live, False)), self.because("O9"):
                    if self.facts.impossible() or self.equal(inner_t, neutral):
                        return True
        return False

    # -- heads ---------------------------------------------------------------------------------------------

    def head(self, e: Expr, whole: bool = True) -> Expr:
        """The same value with its top operation in the open: names read, decided choices made."""
        for _ in range(10_000):
            n = self._head(e) if whole or not isinstance(e, Read) else e
            n = plain(n)
            if n is e:
                return e
            e = n
        raise Unproved("O13", "an expression that cannot be opened")

    def _head(self, e: Expr) -> Expr:
        match e:
            case Read(tensor, indices) if tensor in self.reading.definitions:
                return self.reading.definitions[tensor].at(indices)
            case Op("select", (c, a, b)):
                truth = self.truth(c)
                return e if truth is None else a if truth else b
            case Op("cast", (x,), dtype):
                inner = self.head(x)
                return e if inner is x else op("cast", inner, dtype=dtype)
            case _:
                return e

    def constant_of(self, e: Expr, definition: bool = False) -> Fraction | float | bool | None:
        """The constant that ``e`` is certain to be, with no rounding on the way; 0 times a finite value is 0.
        ``definition``: it is of the definition, whose values are those of mathematics."""
        e = self.head(e)
        value = self._constant_of(e, definition)
        rounded = isinstance(value, Fraction) and e.dtype in FLOATS and not exact(value, e.dtype)
        return None if rounded else value

    def _constant_of(self, e: Expr, definition: bool) -> Fraction | float | bool | None:
        match e:
            case Const(value):
                return value
            case Read(tensor) if tensor.startswith("@fin:"):
                return self.claims.constant(self, e)
            case Op("mul", (a, b)):
                x, y = self.constant_of(a, definition), self.constant_of(b, definition)
                if (x == 0 and self.finite(b, definition)) or (y == 0 and self.finite(a, definition)):
                    return Fraction(0)
                return None if x is None or y is None else arithmetic("mul", [x, y])
            case Op("div", (a, b)):
                x, y = self.constant_of(a, definition), self.constant_of(b, definition)
                if x == 0 and y is None and not {ZERO, UNDEF} & self.kinds(b, definition):
                    return Fraction(0)
                return None if x is None or y is None else arithmetic("div", [x, y])
            case Op("add" | "sub" as name, (a, b)):
                x, y = self.constant_of(a, definition), self.constant_of(b, definition)
                for infinite, other, turned in ((x, b, False), (y, a, name == "sub")):
                    if infinite is not None and infinite in (INF, -INF) and self.finite(other, definition):
                        return -infinite if turned else infinite
                return None if x is None or y is None else arithmetic(name, [x, y])
            case Op("cast", (x,), dtype) if dtype in FLOATS and x.dtype in FLOATS:
                inner = self.constant_of(x, definition)
                return inner if inner in (0, INF, -INF) else None
            case Op("exp" | "exp2" | "max" | "min" | "neg" | "abs" | "log" as name, args):
                values = [self.constant_of(a, definition) for a in args]
                known = [v for v in values if v is not None]
                return arithmetic(name, known) if len(known) == len(values) else None
            case _:
                return None

    def finite(self, e: Expr, definition: bool = False) -> bool:
        value = self.constant_of(e, definition)
        if value is not None:
            return value not in (INF, -INF)
        return bool(self.kinds(e, definition) <= FINITE)

    def kinds(self, e: Expr, definition: bool = False) -> frozenset[str]:
        """Kinds of a number of an input, or of a carried value, or of a choice of them; or of what the definition computes.
        What the text computes may overflow, or underflow to 0, where its mathematics does not: nothing is known of it."""
        if definition and self.sides:
            return self.claims.analysed(self, self.head(e))
        for _ in range(_DEPTH):
            if isinstance(e, Read) and (found := self.claims.kinds(self, e)) is not None:
                return found
            inner = self.head(e)
            while isinstance(inner, Op) and inner.name == "cast" and widens(inner.args[0].dtype, inner.dtype):
                inner = inner.args[0]
            if inner is e:
                break
            e = inner
        if isinstance(e, Const):
            return self.analysis.of(e)
        if not (isinstance(e, Op) and e.name == "select"):
            return EXTENDED | {UNDEF}
        result: frozenset[str] = frozenset()
        for x, truth in zip(e.args[1:], (True, False), strict=True):
            with self.facts.case((e.args[0], truth)):
                result |= self.kinds(x)
        return result


def _reduce_rest(e: Reduce, axis_: object, rest: tuple[object, ...], index: Expr) -> Expr:
    """The reduction over the other axes, at ``index`` of this one."""
    body = substitute(e.body, {axis_: index})  # type: ignore[dict-item]
    return reduce_(e.reducer, rest, body) if rest else body  # type: ignore[arg-type]


def _turned(c: Op) -> tuple[str, tuple[Expr, Expr]]:
    a, b = c.args
    return {"gt": ("lt", (b, a)), "ge": ("le", (b, a))}.get(c.name, (c.name, (a, b)))


def _uncast(e: Expr) -> Expr:
    while isinstance(e, Op) and e.name == "cast" and e.args[0].dtype in INTS:
        e = e.args[0]
    return e


def _rounding(t: Expr, s: Expr) -> bool:
    """One side is a conversion of floats that the other does not have."""
    return any(isinstance(x, Op) and x.name == "cast" and x.dtype in FLOATS for x in (t, s))


def _number(v: Fraction | float | bool) -> str:
    return str(float(v)) if not isinstance(v, bool) else str(v)


def _name(e: Expr) -> str:
    match e:
        case Op(name, _, dtype):
            return f"{name} ({dtype})"
        case Reduce(reducer):
            return f"a {reducer} over {len(e.axes)} axes"
        case Read(tensor):
            return tensor.lstrip("%@")
        case Const(value):
            return _number(value)
        case Size(name):
            return name
        case _:
            return type(e).__name__

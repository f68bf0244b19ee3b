"""Trusted: what holds of the integers in a text, decided by Z3 under the facts at hand.

A ``Facts`` is a stack: lengths and indices with their ranges at the bottom, the conditions of the case at hand on top. An
integer that the text loads, or computes in a way that has no integer arithmetic, is an unknown of its type's range. What Z3
does not settle within its limit is open, which never helps a proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache

import z3

from neptune_verified.ir.expr import INTS, Const, Expr, Op, Read, Reduce, Size, const, op, subterms
from neptune_verified.ir.loops import SPLIT_SIZE
from neptune_verified.proofs.text.calls import representable_ints

_MS = 2000
_COMPARE = ("lt", "le", "gt", "ge", "eq", "ne")


@cache
def _context() -> z3.Context:
    """One for all solvers here, apart from that of the other proofs: terms of several contexts do not mix."""
    return z3.Context()


def is_integer_atom(e: Expr) -> bool:
    """A comparison of integers, or an element of a tensor of truth values at integer indices."""
    if isinstance(e, Read):
        return e.dtype == "bool" and all(i.dtype in INTS for i in e.indices)
    if not (isinstance(e, Op) and e.name in _COMPARE and e.args[0].dtype in INTS):
        return False
    # "Some lane": more is known of it than of an integer.
    return not any(isinstance(x, Reduce) and isinstance(x.body, Op) and x.body.name == "cast" for x in e.args)


def is_integer(c: Expr) -> bool:
    """A truth value that is decided by integers alone."""
    if isinstance(c, Op) and c.name in ("and", "or", "not"):
        return all(map(is_integer, c.args))
    return is_integer_atom(c)


class Facts:
    """Integer facts as a Z3 solver, and facts about comparisons of floats as a list of (comparison, truth)."""

    def __init__(self, elements: Mapping[str, tuple[int, int]]) -> None:
        """``elements``: least and greatest element of tensors of integers."""
        self.elements = elements
        self.context = _context()
        self.solver = z3.Solver(ctx=self.context)
        self.solver.set("timeout", _MS)
        self.known: dict[Expr, z3.ArithRef] = {}
        self.counter = 0
        self.formulas: dict[Expr, z3.BoolRef] = {}
        self.floats: list[tuple[Expr, bool]] = []
        #: Arbitrary indices that the facts speak of.
        self.indices: list[Expr] = []
        #: What was assumed, in order: a key for what has been proved under it.
        self.trail: tuple[tuple[Expr, bool], ...] = ()
        self.answers: dict[tuple[Expr, tuple[tuple[Expr, bool], ...]], bool | None] = {}
        self.sides: list[z3.BoolRef] = []
        #: Points at which all facts hold: what is false at one of them is not proved, and Z3 need not be asked.
        self.models: list[z3.ModelRef] = []

    # -- translation ---------------------------------------------------------------------------------------

    def int(self, e: Expr) -> z3.ArithRef:
        if e not in self.known:
            self.known[e] = self._int(e)
        return self.known[e]

    def _int(self, e: Expr) -> z3.ArithRef:
        match e:
            case Const(value):
                return z3.IntVal(int(value), ctx=self.context)
            case Size(name):
                return z3.Int(name, ctx=self.context)
            case Op("add", (a, b)):
                return self.int(a) + self.int(b)
            case Op("sub", (a, b)):
                return self.int(a) - self.int(b)
            case Op("mul", (a, b)) if b is SPLIT_SIZE:
                # A number of its own, of which the launch says what is known: products of unknowns are hard for Z3.
                return z3.Int(self.fresh("p"), ctx=self.context)
            case Op("mul", (a, b)):
                return self.int(a) * self.int(b)
            case Op("neg", (a,)):
                return -self.int(a)
            case Op("max", (a, b)):
                x, y = self.int(a), self.int(b)
                return z3.If(x >= y, x, y)
            case Op("min", (a, b)):
                x, y = self.int(a), self.int(b)
                return z3.If(x <= y, x, y)
            case Op("abs", (a,)):
                x = self.int(a)
                return z3.If(x >= 0, x, -x)
            case Op("select", (c, a, b)):
                return z3.If(self.truth(c), self.int(a), self.int(b))
            case Op("cast", (a,)) if a.dtype in INTS:
                return self.int(a)  # that it fits is O12's
            case Op("cast", (a,)) if a.dtype == "bool":
                return z3.If(self.truth(a), z3.IntVal(1, ctx=self.context), z3.IntVal(0, ctx=self.context))
            case Op("floordiv" | "floormod" as name, (a, Const(n))) if n > 0:
                x = self.int(a)  # Z3's div and mod are floor for a positive divisor
                return x / int(n) if name == "floordiv" else x % int(n)
            case _:
                return self.unknown(e)

    def unknown(self, e: Expr) -> z3.ArithRef:
        """A number of its type of which nothing else is known; equal expressions are the same number."""
        if isinstance(e, Read) and all(i.dtype in INTS for i in e.indices):
            x = self.element(e.tensor, e.indices, z3.IntSort(self.context))
        else:
            x = z3.Int(self.fresh("i"), ctx=self.context)
        values = representable_ints(e.dtype)
        low, high = self.elements.get(e.tensor if isinstance(e, Read) else "", (values.start, values.stop - 1))
        self.side(z3.And(x >= low, x <= high))
        match e:
            case Op("floordiv" | "floormod" as name, (a, b)):
                u, d = self.int(a), self.int(b)
                q = x if name == "floordiv" else z3.Int(self.fresh("q"), ctx=self.context)
                r = x if name == "floormod" else u - q * d
                self.side(z3.Implies(d > 0, z3.And(u == q * d + r, r >= 0, r < d)))
        return x

    def fresh(self, kind: str) -> str:
        """A name that no other number or truth value has."""
        self.counter += 1
        return f"?{kind}{self.counter}"

    def element(self, tensor: str, indices: tuple[Expr, ...], sort: z3.SortRef) -> z3.ExprRef:
        """An element that is loaded: the same one at equal indices."""
        if not indices:
            return z3.Const(f"{tensor}[]", sort)
        function = z3.Function(f"{tensor}[]", *[z3.IntSort(self.context)] * len(indices), sort)
        return function(*(self.int(i) for i in indices))

    def side(self, c: z3.BoolRef) -> None:
        """Holds always: kept below everything that is assumed."""
        self.sides.append(c)
        self.models = []

    def truth(self, e: Expr) -> z3.BoolRef:
        if e not in self.formulas:
            self.formulas[e] = self._truth(e)
        return self.formulas[e]

    def _truth(self, e: Expr) -> z3.BoolRef:
        match e:
            case Const(value):
                return z3.BoolVal(bool(value), ctx=self.context)
            case Op("and", (a, b)):
                return z3.And(self.truth(a), self.truth(b))
            case Op("or", (a, b)):
                return z3.Or(self.truth(a), self.truth(b))
            case Op("not", (a,)):
                return z3.Not(self.truth(a))
            case Read(tensor, indices) if is_integer_atom(e):
                return self.element(tensor, indices, z3.BoolSort(self.context))
            case Op(name, (a, b)) if is_integer_atom(e):
                x, y = self.int(a), self.int(b)
                return {"lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y, "eq": x == y, "ne": x != y}[name]
            case _:
                return z3.Bool(self.fresh("b"), ctx=self.context)

    # -- facts ---------------------------------------------------------------------------------------------

    @contextmanager
    def assuming(self, *conditions: Expr) -> Iterator[None]:
        """Under further conditions (truth values over integers, or comparisons of floats)."""
        with self.case(*((c, True) for c in conditions)):
            yield

    @contextmanager
    def case(self, *conditions: tuple[Expr, bool]) -> Iterator[None]:
        before, floats, indices, models = self.trail, list(self.floats), list(self.indices), list(self.models)
        self.solver.push()
        try:
            for c, truth in conditions:
                self.add(c, truth)
            yield
        finally:
            self.solver.pop()
            self.trail, self.floats, self.indices, self.models = before, floats, indices, models

    def add(self, c: Expr, truth: bool = True) -> None:
        formula = self.truth(c)
        fact = formula if truth else z3.Not(formula)
        self.solver.add(fact)
        self.models = [m for m in self.models if z3.is_true(m.eval(fact, model_completion=True))]
        self.trail = (*self.trail, (c, truth))
        if isinstance(c, Op) and c.name == "lt" and isinstance(c.args[0], Size) and c.args[0] not in self.indices:
            self.indices.append(c.args[0])
        if not is_integer_atom(c) and not (
            isinstance(c, Const) or (isinstance(c, Op) and c.name in ("and", "or", "not"))
        ):
            self.floats.append((c, truth))

    def holds(self, c: Expr) -> bool:
        """Proved under the facts."""
        return self._refuted(self.truth(c), True, c)

    def fails(self, c: Expr) -> bool:
        """Its negation is proved under the facts."""
        return self._refuted(self.truth(c), False, c)

    def _refuted(self, formula: z3.BoolRef, truth: bool, c: Expr) -> bool:
        key = (op("not", c) if truth else c, self.trail)
        if key not in self.answers:
            wanted = z3.Not(formula) if truth else formula
            self.answers[key] = not self._possible(wanted)
        return bool(self.answers[key])

    def _possible(self, formula: z3.BoolRef) -> bool:
        """False only if the formula contradicts the facts."""
        if any(z3.is_true(m.eval(formula, model_completion=True)) for m in self.models):
            return True
        self.solver.push()
        self.solver.add(formula, *self.sides)
        answer = self.solver.check()
        if answer == z3.sat:
            self.models = [*self.models[-3:], self.solver.model()]
        self.solver.pop()
        return bool(answer != z3.unsat)

    def impossible(self) -> bool:
        """The facts contradict each other: the case does not arise."""
        return self.fails(const(True, "bool"))

    def satisfiable(self) -> bool:
        self.solver.push()
        self.solver.add(*self.sides)
        found = bool(self.solver.check() == z3.sat)
        self.solver.pop()
        return found

    def equal(self, a: Expr, b: Expr) -> bool:
        return a is b or self.holds(op("eq", a, b))

    def between(self, e: Expr, low: Expr, high: Expr) -> bool:
        """low <= e < high is proved under the facts."""
        return all(map(self.holds, within(e, low, high)))

    def decided(self, c: Expr) -> bool | None:
        """True or False where the facts decide an atom over integers, None otherwise."""
        for fact, truth in reversed(self.trail):
            if fact is c:
                return truth
        if self.holds(c):
            return True
        return False if self.fails(c) else None


def within(e: Expr, low: Expr, high: Expr) -> tuple[Expr, Expr]:
    """low <= e < high."""
    return op("le", low, e), op("lt", e, high)


def both(*conditions: Expr) -> Expr:
    """All of the conditions, of which there is one at least."""
    result = conditions[0]
    for c in conditions[1:]:
        result = op("and", result, c)
    return result


def zero(dtype: str = "int32") -> Expr:
    return const(0, dtype)


def mentions(e: Expr, names: Iterable[str]) -> set[str]:
    """Those of the names (of sizes, or of tensors) that occur."""
    wanted = set(names)
    found = {x.name for x in subterms(e) if isinstance(x, Size)} | {
        x.tensor for x in subterms(e) if isinstance(x, Read)
    }
    return found & wanted

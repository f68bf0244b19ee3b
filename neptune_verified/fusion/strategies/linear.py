"""Not trusted: the matrix between the accumulators at two states, exactly, and in a numerically sound form."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import sympy as sp
from sympy.polys.matrices import DomainMatrix
from sympy.polys.matrices.exceptions import DMNonInvertibleMatrixError

from neptune_verified.fusion.strategies.rank import Sampler, Values, matrix_rank
from neptune_verified.fusion.strategies.task import CannotDerive, Task
from neptune_verified.fusion.sympify import from_sympy, samples
from neptune_verified.ir.expr import Const, Expr, Op, Var, const, op

Row = tuple[Expr, ...]


class _Symbolic:
    """Exponentials and logarithms as symbols of their own, so that entries are rational functions."""

    def __init__(self) -> None:
        self.names: dict[Any, Any] = {}

    def hide(self, e: Any) -> Any:
        e = sp.expand(sp.expand_log(e), power_exp=True, log=False)

        def power(x: Any) -> Any:
            c, rest = x.args[0].as_coeff_Mul()
            base = sp.exp(rest / c.q)
            return self.names.setdefault(base, sp.Dummy(f"X{len(self.names)}", positive=True)) ** c.p

        e = e.replace(lambda x: isinstance(x, sp.exp), power)
        return e.replace(
            lambda x: isinstance(x, sp.log), lambda x: self.names.setdefault(x, sp.Dummy(f"L{len(self.names)}"))
        )

    def show(self, e: Any) -> Any:
        return e.xreplace({v: x for x, v in self.names.items()})


def points(task: Task, terms: Sequence[Expr], wanted: int) -> list[dict[Any, Any]]:
    """Simple elements at which ``terms`` are independent."""
    elements = [c for c in task.elements if c.dtype != "bool"]
    sampler = Sampler(task)
    state = {**sampler.parameters, **sampler.states(1)[0]}
    at = Values(terms)
    rows: list[list[Any]] = []
    chosen: list[dict[Any, Any]] = []
    symbols = [task.symbols[c] for c in elements]
    for point in samples(symbols) + _more(symbols):
        numbers = {c: _fraction(point[s]) for c, s in zip(elements, symbols, strict=True)}
        try:
            row = at({**state, **numbers})
        except CannotDerive:
            continue
        if matrix_rank([*rows, row]) == len(rows) + 1:
            rows.append(row)
            chosen.append(point)
        if len(chosen) == wanted:
            return chosen
    raise CannotDerive("no sample elements tell the accumulators apart")


def _more(symbols: list[Any]) -> list[dict[Any, Any]]:
    numbers = [3, -2, 4, -3, 5, -4]
    return [{s: sp.Integer(numbers[(k + i) % len(numbers)]) for i, s in enumerate(symbols)} for k in range(6)]


def _fraction(x: Any) -> Fraction:
    return Fraction(int(x.p), int(x.q))


def matrix(task: Task, terms: Sequence[Expr]) -> tuple[Row, ...]:
    """K with ``terms(r', c) = K terms(r, c)``, one row for each term."""
    at = points(task, terms, len(terms))
    hidden = _Symbolic()
    old = [[hidden.hide(x.subs(p)) for p in at] for x in map(task.sympy, terms)]
    new = [[hidden.hide(task.sympy(task.at_new(x)).subs(p)) for p in at] for x in terms]
    size = len(terms)
    both = DomainMatrix.from_Matrix(sp.Matrix(old + new)).to_field()
    below, above = both[:size, :], both[size:, :]
    try:
        factors = (above * below.inv()).to_Matrix()
    except DMNonInvertibleMatrixError:
        raise CannotDerive("the accumulators depend on each other") from None
    sound = _Sound(task)
    return tuple(tuple(sound(hidden.show(factors[i, j])) for j in range(size)) for i in range(size))


def solve(task: Task, goal: Expr, terms: Sequence[Expr]) -> Row | None:
    """Factors a, free of elements, with ``goal = sum a_l terms_l``; None if there are none."""
    sampler = Sampler(task)
    state = {**sampler.parameters, **sampler.states(1)[0]}
    at_terms, everything = Values(terms), Values([*terms, goal])
    random = [{**state, **c} for c in sampler.elements(len(terms) + 4)]
    rows = [everything(p) for p in random]
    if matrix_rank(rows) > matrix_rank([at_terms(p) for p in random]):
        return None
    at = points(task, terms, len(terms))
    hidden = _Symbolic()
    left = [[hidden.hide(x.subs(p)) for x in map(task.sympy, terms)] for p in at]
    right = [[hidden.hide(task.sympy(goal).subs(p))] for p in at]
    both = DomainMatrix.from_Matrix(sp.Matrix([[*a, *b] for a, b in zip(left, right, strict=True)])).to_field()
    try:
        found = (both[:, : len(terms)].inv() * both[:, len(terms) :]).to_Matrix()
    except DMNonInvertibleMatrixError:
        return None
    sound = _Sound(task)
    return tuple(sound(hidden.show(found[k, 0])) for k in range(len(terms)))


class _Sound:
    """Differences ``r - r'`` of old and new values as they are, never multiplied out."""

    def __init__(self, task: Task) -> None:
        self.dtype = task.problem.dtype
        self.names: dict[Any, Any] = {s: v for v, s in task.symbols.items() if isinstance(v, Var)}
        self.moves: list[tuple[Any, Any, Any]] = []
        self.elements = {task.symbols[c] for c in task.elements if c in task.symbols}
        for r, s in zip(task.old, task.new, strict=True):
            if r in task.symbols:
                d = sp.Symbol(f"d_{r.name}", real=True)
                self.names[d] = op("sub", r, s)
                self.moves.append((task.symbols[r], task.symbols[s], d))

    def __call__(self, e: Any) -> Expr:
        e = sp.powsimp(sp.factor(e), combine="exp")
        for r, s, d in self.moves:
            if e.has(s):
                moved = sp.expand(e.subs(r, s + d), power_exp=False)
                moved = moved if not moved.has(s) else sp.cancel(moved)
                e = sp.factor(moved) if not moved.has(s) else e
        e = sp.powsimp(e, combine="exp")
        if e.free_symbols & self.elements:
            raise CannotDerive("a factor depends on the elements")
        return from_sympy(e, self.names, self.dtype)


def combination(row: Sequence[Expr], values: Sequence[Expr]) -> Expr:
    """``sum_j row_j values_j`` without factors 1 and terms 0."""
    total: Expr | None = None
    for k, v in zip(row, values, strict=True):
        if (isinstance(k, Const) and k.value == 0) or (isinstance(v, Const) and v.value == 0):
            continue
        negative = isinstance(k, Op) and k.name == "neg"
        k = k.args[0] if negative and isinstance(k, Op) else k
        if isinstance(k, Const) and k.value == -1:
            k, negative = const(1, v.dtype), not negative
        one = isinstance(k, Const) and k.value == 1
        term = v if one else k if isinstance(v, Const) and v.value == 1 else op("mul", k, v)
        if total is None:
            total = op("neg", term) if negative else term
        else:
            total = op("sub" if negative else "add", total, term)
    if total is None:
        raise CannotDerive("a row of zeros")
    return total

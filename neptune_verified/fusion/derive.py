"""Not trusted: proposes repair functions; a wrong one is refused by O1 to O6.

Strategies, in order (DESIGN of the method: Neptune, section 4.2; the sample-point forms differ from the paper):

* *ratio* (sum): ``h = t * g(r', c0) / g(r, c0)`` at one sample point c0; no inverse, no condition on signs
* *affine* (max, min): the line through two sample points; *shift* (logaddexp); *power* (prod)
* *inverse*, the paper's: ``h = g(r', g_c^-1(r, t))``, by peeling invertible operations off the term
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import sympy as sp

from neptune_verified.fusion.sympify import CannotDerive, cases, from_sympy, normal, readable, samples, to_sympy
from neptune_verified.ir.expr import Const, Expr, Op, Var, contains, op, substitute, subterms, transform, var
from neptune_verified.ir.kinds import NONNEGATIVE, KindAnalysis, Kinds
from neptune_verified.ir.loops import T


@dataclass(frozen=True, slots=True)
class Problem:
    """Reduce(``reducer``, ``term``) with producers ``old`` -> ``new`` (symbols of the term), of the given kinds.

    ``parameters`` are symbols that do not depend on the element; a repair may read them."""

    reducer: str
    term: Expr
    old: tuple[Var, ...]
    new: tuple[Var, ...]
    kinds: tuple[Kinds, ...]
    dtype: str
    parameters: tuple[tuple[Var, Kinds], ...] = ()


#: What SymPy raises where a sample point has no value for it, or an expression grows too large.
_SYMPY_GAVE_UP = (ValueError, TypeError, ArithmeticError, AttributeError, NotImplementedError, RecursionError)
#: Operations of a repair: one that takes more is no gain over another pass.
LARGEST = 60
Strategy = Callable[[Problem], Iterator[Expr]]


def candidates(problem: Problem) -> Iterator[tuple[str, Expr]]:
    """(strategy, h) in order of preference; h over Var(t), old and new symbols.

    The last candidate leaves the accumulator as it is: right where the term does not change with its producers after
    all, and otherwise refused at a point that shows how it does."""
    reason = f"no strategy derives a repair for the reducer {problem.reducer}"
    problem = replace(problem, term=_readable(problem))
    seen: set[Expr] = set()
    for form, back in (opaque(problem), (problem, {})):
        for name, strategy in STRATEGIES.get(problem.reducer, ()):
            try:
                for found in strategy(form):
                    for h in _orders(substitute(found, back)):
                        if h not in seen:
                            seen.add(h)
                            yield name, h
            except CannotDerive as e:
                reason = str(e)
            except _SYMPY_GAVE_UP as e:
                reason = f"SymPy fails at the {name} of the term ({type(e).__name__})"
    unchanged = var(T, problem.dtype)
    if unchanged not in seen:
        yield "unchanged" if seen else f"unchanged: {reason}", unchanged


def _readable(problem: Problem) -> Expr:
    """The term with elements in place of what elements alone make and SymPy is not told of (``j % 3``): a repair reads none
    of them."""
    moving = {*problem.old, *(v for v, _ in problem.parameters)}
    found: dict[Expr, Expr] = {}

    def fn(x: Expr) -> Expr | None:
        if x.dtype == "bool" or isinstance(x, Var | Const) or not moving.isdisjoint(subterms(x)):
            return None
        if all(readable(y) for y in subterms(x) if y.dtype != "bool"):
            return None
        return found.setdefault(x, var(f"E{len(found)}", x.dtype))

    return transform(problem.term, fn)


def _orders(h: Expr) -> Iterator[Expr]:
    """``t * (a / b)``, and ``(t * a) / b``: a quotient that grows without bound may not meet a small t (O7)."""
    yield h
    match h:
        case Op("mul", (t, Op("div", (a, b)))):
            yield op("div", op("mul", t, a), b)


def opaque(problem: Problem) -> tuple[Problem, dict[Expr, Expr]]:
    """The problem with its maximal element-free subterms that read a producer as producers of their own.

    For ``|c| * rsqrt(r / n + eps)`` this gives ``u'/u`` with ``u = rsqrt(r / n + eps)``, instead of what algebra makes of
    it: shorter, and the form in which the user wrote it."""
    fixed = {*problem.old, *(v for v, _ in problem.parameters)}
    found: dict[Expr, Var] = {}

    def fn(x: Expr) -> Expr | None:
        if x.dtype == "bool" or isinstance(x, Var | Const) or not contains(x, problem.old):
            return None
        if all(v in fixed for v in subterms(x) if isinstance(v, Var)):
            return found.setdefault(x, var(f"U{len(found)}", x.dtype))
        return None

    term = transform(problem.term, fn)
    given: dict[Expr, Kinds] = {**dict(zip(problem.old, problem.kinds, strict=True)), **dict(problem.parameters)}
    analysis = KindAnalysis(None, given)
    renaming: dict[Expr, Expr] = dict(zip(problem.old, problem.new, strict=True))
    new = {x: var(f"{v.name}_new", v.dtype) for x, v in found.items()}
    back: dict[Expr, Expr] = {}
    for x, v in found.items():
        back |= {v: x, new[x]: substitute(x, renaming)}
    kinds = tuple(analysis.of(x) for x in found)
    form = Problem(
        problem.reducer,
        term,
        (*problem.old, *found.values()),
        (*problem.new, *new.values()),
        (*problem.kinds, *kinds),
        problem.dtype,
        problem.parameters,
    )
    return form, back


class _Sampled:
    """The term in SymPy, its select-free variants that depend on a producer, and their elements."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.symbols: dict[Expr, sp.Symbol] = {}
        for v, w, kinds in zip(problem.old, problem.new, problem.kinds, strict=True):
            facts = {"positive": True} if kinds <= NONNEGATIVE else {"real": True}
            self.symbols[v] = sp.Symbol(v.name, **facts)
            self.symbols[w] = sp.Symbol(w.name, **facts)
        self.variants = [x for x in cases(problem.term) if contains(x, problem.old)]
        for v, kinds in problem.parameters:
            self.symbols[v] = sp.Symbol(v.name, **({"positive": True} if kinds <= NONNEGATIVE else {"real": True}))
        for x in subterms(problem.term):
            if isinstance(x, Var) and x.dtype != "bool" and x not in self.symbols:
                self.symbols[x] = sp.Symbol(x.name, real=True)
        self.renaming = {self.symbols[v]: self.symbols[w] for v, w in zip(problem.old, problem.new, strict=True)}
        self.producers = set(self.renaming) | set(self.renaming.values())
        self.producers |= {self.symbols[v] for v, _ in problem.parameters if v in self.symbols}

    def terms(self) -> Iterator[tuple[sp.Expr, sp.Expr, list[sp.Symbol]]]:
        """(g(r, c), g(r', c), elements) of each variant."""
        for x in self.variants:
            g = to_sympy(x, self.symbols)
            yield g, g.subs(self.renaming, simultaneous=True), sorted(g.free_symbols - self.producers, key=str)

    def back(self, e: sp.Expr) -> Expr:
        if e.count_ops() > LARGEST:
            raise CannotDerive(f"a repair of more than {LARGEST} operations")
        names = {s: v for v, s in self.symbols.items() if isinstance(v, Var)}
        return from_sympy(e, names, self.problem.dtype)

    @property
    def t(self) -> Var:
        return var(T, self.problem.dtype)


def _finite(e: sp.Expr) -> bool:
    return not e.has(sp.nan, sp.zoo, sp.oo, -sp.oo)


def _normal(e: sp.Expr) -> sp.Expr:
    """NaN, which no repair has, for what has too many operations: its normal form may take minutes."""
    return sp.nan if e.count_ops() > LARGEST else normal(e)


def _at(e: sp.Expr, point: dict[sp.Symbol, sp.Expr]) -> sp.Expr:
    """The value at a sample point, NaN where SymPy has none."""
    try:
        return e.subs(point)
    except (ValueError, TypeError, ArithmeticError):  # the least of something and complex infinity, say
        return sp.nan


def _constants(s: _Sampled, at: Callable[[sp.Expr, sp.Expr], sp.Expr | None]) -> Iterator[Expr]:
    """Of each variant of the term: ``at(g(r, c0), g(r', c0))`` at the first sample point c0 where it has a value that does
    not depend on elements. ``at`` gives None where it does not apply."""
    for g, g_new, elements in s.terms():
        for point in samples(elements):
            old, new = _at(g, point), _at(g_new, point)
            k = at(old, new) if _finite(old) and _finite(new) else None
            if k is not None and _finite(k) and k.free_symbols <= s.producers:
                yield s.back(k)
                break


def _quotient(new: sp.Expr, old: sp.Expr) -> sp.Expr | None:
    return None if old == 0 or not _finite(old) else _normal(new / old)


def ratio(problem: Problem) -> Iterator[Expr]:
    s = _Sampled(problem)
    yield from (op("mul", s.t, k) for k in _constants(s, lambda old, new: _quotient(new, old)))


def affine(problem: Problem) -> Iterator[Expr]:
    s = _Sampled(problem)
    for g, g_new, elements in s.terms():
        points = samples(elements)
        pairs = ((p, q) for i, p in enumerate(points[:8]) for q in points[i + 1 : 8])
        for p, q in pairs:
            run = _at(g, q) - _at(g, p)
            rise = _at(g_new, q) - _at(g_new, p)
            if not _finite(run) or not _finite(rise) or normal(run) == 0:
                continue
            slope = _normal(rise / run)
            offset = _normal(_at(g_new, p) - slope * _at(g, p))
            if _finite(slope) and _finite(offset) and (slope.free_symbols | offset.free_symbols) <= s.producers:
                yield _line(s, slope, offset)
                break
        if not elements:  # the same value for every element, hence the extremum itself
            yield _line(s, sp.Integer(1), _normal(g_new - g))


def _line(s: _Sampled, slope: sp.Expr, offset: sp.Expr) -> Expr:
    h: Expr = s.t if slope == 1 else op("mul", s.t, s.back(slope))
    return h if offset == 0 else op("add", h, s.back(offset))


def shift(problem: Problem) -> Iterator[Expr]:
    s = _Sampled(problem)
    yield from (op("add", s.t, d) for d in _constants(s, lambda old, new: _normal(new - old)))


def power(problem: Problem) -> Iterator[Expr]:
    s = _Sampled(problem)

    def log(x: sp.Expr) -> sp.Expr:
        return sp.expand_log(sp.log(x), force=True)

    yield from (op("pow", s.t, k) for k in _constants(s, lambda old, new: _quotient(log(new), log(old))))


def inverse(problem: Problem) -> Iterator[Expr]:
    """Peel operations off the only occurrence of the only element; the paper's h, refused by O2 for most g."""
    for x in cases(problem.term):
        elements = [v for v in subterms(x) if isinstance(v, Var) and v not in problem.old and v.dtype != "bool"]
        if len(elements) != 1 or not contains(x, problem.old):
            continue
        solved = _peel(x, elements[0], var(T, problem.dtype))
        if solved is not None:
            at_new = substitute(x, dict(zip(problem.old, problem.new, strict=True)))
            yield substitute(at_new, {elements[0]: solved})


def _peel(x: Expr, element: Var, value: Expr) -> Expr | None:
    """Solve ``x == value`` for ``element``."""
    while x is not element:
        if not isinstance(x, Op):
            return None
        inside = [contains(a, [element]) for a in x.args]
        if sum(inside) != 1:
            return None
        k = inside.index(True)
        other = x.args[1 - k] if len(x.args) == 2 else None
        solved = _undo(x, k, other, value)
        if solved is None:
            return None
        x, value = x.args[k], solved
    return value


def _undo(x: Op, k: int, other: Expr | None, value: Expr) -> Expr | None:
    if other is None:
        inverse_of = {"exp": "log", "log": "exp", "neg": "neg"}
        if x.name == "cast":
            return op("cast", value, dtype=x.args[0].dtype)
        return op(inverse_of[x.name], value) if x.name in inverse_of else None
    match x.name:
        case "add":
            return op("sub", value, other)
        case "sub":
            return op("add", value, other) if k == 0 else op("sub", other, value)
        case "mul":
            return op("div", value, other)
        case "div":
            return op("mul", value, other) if k == 0 else op("div", other, value)
        case "pow" if k == 0 and isinstance(other, Const) and other.value == 2:
            return op("sqrt", value)
        case _:
            return None


#: reducer -> strategies in order of preference. A new strategy is one more entry.
STRATEGIES: dict[str, tuple[tuple[str, Strategy], ...]] = {
    "sum": (("ratio", ratio), ("inverse", inverse)),
    "max": (("affine", affine), ("inverse", inverse)),
    "min": (("affine", affine), ("inverse", inverse)),
    "prod": (("power", power), ("inverse", inverse)),
    "logaddexp": (("shift", shift), ("inverse", inverse)),
}

__all__ = ["STRATEGIES", "CannotDerive", "Problem", "candidates"]

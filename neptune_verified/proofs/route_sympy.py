"""Trusted: the SymPy route: a finite split over the kinds of every symbol, each case closed by SymPy's normal form.

A finite symbol starts as one case with the signs that its kinds allow and is split only where an operation needs to
know more: by its sign, two symbols by their order (``y = x + d``, d positive), or by the sign of an expression, which
is then assumed. Hypotheses drop cases that contradict them, and ``a <= b`` is used by the same substitution with d
nonnegative; a hypothesis that cannot be used is left out, which proves less, never more. SymPy refutes nothing: only a
point at which the statement evaluates to false does.
"""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sympy as sp

from neptune_verified.ir.expr import Const, Expr, Op, Var
from neptune_verified.proofs import falsify
from neptune_verified.proofs.limits import LIMITS, Limits
from neptune_verified.proofs.statement import (
    BOOL_KINDS,
    FINITE,
    NUMBER_KINDS,
    Defined,
    Equal,
    Holds,
    NeverFalse,
    Refines,
    Statement,
)
from neptune_verified.proofs.sympy_bounds import EVERYTHING, Box
from neptune_verified.proofs.sympy_terms import (
    INF,
    UNDEFINED,
    Contradiction,
    Evaluator,
    OutOfTime,
    Undecided,
    Unsupported,
    Value,
    equal,
    infinite,
    own_signs,
)
from neptune_verified.proofs.verdict import RouteResult, Verdict

ROUTE = "sympy"
ALL = frozenset((-1, 0, 1))
POSITIVE = frozenset((1,))
#: Signs of expressions assumed in one case, at most; each triples the cases.
MOST_ASSUMED = 4
OTHER_KINDS: tuple[tuple[str, Value], ...] = (("-inf", -INF), ("+inf", INF), ("true", True), ("false", False))
SIGN = {"neg": -1, "zero": 0, "pos": 1}
ASSUME: dict[frozenset[int], dict[str, bool]] = {
    frozenset((1,)): {"positive": True},
    frozenset((-1,)): {"negative": True},
    frozenset((0, 1)): {"nonnegative": True},
    frozenset((-1, 0)): {"nonpositive": True},
    frozenset((-1, 1)): {"real": True, "zero": False},
    ALL: {"real": True},
}


def prove(statement: Statement, timeout_ms: int = LIMITS.sympy_ms, limits: Limits = LIMITS) -> RouteResult:
    """Decide the statement. Never raises: an unexpected failure is UNKNOWN, a construct without meaning UNSUPPORTED."""
    start = time.perf_counter()
    counterexample = None
    try:
        with alarm(timeout_ms):
            verdict, detail = Split(statement, timeout_ms, limits).run()
        if verdict is Verdict.PROVED and statement.hypotheses and not falsify.satisfiable(statement, limits):
            verdict, detail = Verdict.UNKNOWN, "no point was found that satisfies the hypotheses"
        if verdict is Verdict.UNKNOWN:
            counterexample = falsify.falsify(statement, limits)
            verdict = Verdict.REFUTED if counterexample else verdict
            detail = str(counterexample) if counterexample else detail
    except Unsupported as e:
        verdict, detail = Verdict.UNSUPPORTED, str(e)
    except OutOfTime:
        verdict, detail = Verdict.TIMEOUT, f"more than {timeout_ms} ms"
    except Exception as e:  # fail closed whatever went wrong
        verdict, detail = Verdict.UNKNOWN, f"{type(e).__name__}: {e}"
    ms = (time.perf_counter() - start) * 1000
    return RouteResult(ROUTE, verdict, ms, detail, counterexample=counterexample)


@contextmanager
def alarm(timeout_ms: int) -> Iterator[None]:
    """Interrupt a single SymPy call that runs too long; without effect outside the main thread or if a timer runs."""
    usable = threading.current_thread() is threading.main_thread() and signal.getitimer(signal.ITIMER_REAL)[0] == 0

    def late(*_: object) -> None:
        raise OutOfTime

    previous = signal.signal(signal.SIGALRM, late) if usable else None
    if usable:
        signal.setitimer(signal.ITIMER_REAL, max(timeout_ms, 1) / 1000)
    try:
        yield
    finally:
        if usable:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)


@dataclass(frozen=True, slots=True)
class Case:
    """Values of the symbols, the signs of the SymPy symbols in them, the hypotheses already used, and the signs that
    expressions have in this case."""

    env: dict[Var, Value]
    signs: dict[Any, frozenset[int]]
    used: frozenset[int]
    assumed: dict[Any, int]

    def replace(self, old: Any, new: Any, signs: dict[Any, frozenset[int]]) -> Case:
        env = {v: x.xreplace({old: new}) if isinstance(x, sp.Basic) else x for v, x in self.env.items()}
        assumed = {e.xreplace({old: new}): sign for e, sign in self.assumed.items()}
        return Case(env, {**{s: k for s, k in self.signs.items() if s != old}, **signs}, self.used, assumed)

    def mark(self, hypothesis: int) -> Case:
        return Case(self.env, self.signs, self.used | {hypothesis}, self.assumed)

    def assume(self, e: Any, sign: int) -> Case:
        return Case(self.env, self.signs, self.used, {**self.assumed, e: sign})

    def __str__(self) -> str:
        return ", ".join(f"{v.name} = {describe(x, self.signs)}" for v, x in self.env.items())


def describe(x: Value, signs: dict[Any, frozenset[int]]) -> str:
    if infinite(x):
        return "+inf" if x > 0 else "-inf"
    words = {1: "positive", -1: "negative"}
    known = signs.get(x, ALL) if isinstance(x, sp.Symbol) else ALL
    return words[next(iter(known))] if len(known) == 1 and known != {0} else str(x)


class Split:
    """The cases of one statement."""

    def __init__(self, statement: Statement, timeout_ms: int, limits: Limits) -> None:
        self.statement, self.limits = statement, limits
        self.deadline = time.monotonic() + timeout_ms / 1000
        self.fresh = itertools.count()
        self.hypotheses = [h.expr for h in statement.hypotheses]
        #: Hypotheses that bound a symbol by a number narrow its box; they are not used by substitution.
        self.bounding = {k for k, h in enumerate(self.hypotheses) if any(True for _ in limits_of(h))}

    def boxes(self, case: Case) -> dict[Any, Box]:
        """What the hypotheses say of the values of symbols in this case."""
        found: dict[Any, Box] = {}
        for k in self.bounding:
            for v, low, number, unless_zero in limits_of(self.hypotheses[k]):
                x = case.env.get(v)
                if isinstance(x, sp.Basic) and (not unless_zero or x.is_zero is False):
                    lo, hi = found.get(x, EVERYTHING)
                    found[x] = (max(lo, number), hi) if low else (lo, min(hi, number))
        return found

    def tick(self) -> None:
        if time.monotonic() > self.deadline:
            raise OutOfTime

    def run(self) -> tuple[Verdict, str]:
        if len({s.var for s in self.statement.symbols}) < len(self.statement.symbols):
            raise ValueError("a symbol is quantified twice")
        for s in self.statement.symbols:
            if not s.kinds <= set(BOOL_KINDS if s.var.dtype == "bool" else NUMBER_KINDS):
                raise ValueError(f"{s.var.name} has kinds of another type")
        pending = list(self.initial())[::-1]
        survived, done = 0, 0
        while pending:
            case = pending.pop()
            self.tick()
            done += 1
            if done > self.limits.sympy_cases:
                return Verdict.UNKNOWN, f"more than {self.limits.sympy_cases} cases"
            parts = self.step(case)
            if isinstance(parts, str):
                return Verdict.UNKNOWN, f"{parts}, in the case {case}"
            survived += parts is None
            pending.extend(reversed(parts or []))
        if not survived:
            return Verdict.VACUOUS, "no case satisfies the hypotheses"
        return Verdict.PROVED, ""

    def symbol(self, name: str, signs: frozenset[int]) -> Any:
        """A new SymPy symbol with these signs; 0 if that is the only one."""
        return sp.S.Zero if signs == {0} else sp.Symbol(f"{name}_{next(self.fresh)}", **ASSUME[signs])

    def initial(self) -> Iterator[Case]:
        choices: list[list[Value]] = []
        for s in self.statement.symbols:
            own: list[Value] = []
            finite = frozenset(SIGN[k] for k in s.kinds & FINITE)
            if finite:
                own.append((s.var.name, finite))
            own += [x for kind, x in OTHER_KINDS if kind in s.kinds]
            choices.append(own)
        for combination in itertools.product(*choices):
            env: dict[Var, Value] = {}
            signs: dict[Any, frozenset[int]] = {}
            for s, x in zip(self.statement.symbols, combination, strict=True):
                env[s.var] = self.symbol(*x) if isinstance(x, tuple) else x
                if isinstance(x, tuple) and env[s.var] != 0:
                    signs[env[s.var]] = x[1]
            yield Case(env, signs, frozenset(), {})

    # ------------------------------------------------------------------------------------------ one case

    def step(self, case: Case) -> list[Case] | str | None:
        """Smaller cases to look at instead; None if the goal holds in this one; a reason why it is not seen to."""
        evaluator = Evaluator(case.env, case.assumed, self.tick, self.boxes(case))
        try:
            return self.look(case, evaluator)
        except Contradiction:
            return []

    def look(self, case: Case, evaluator: Evaluator) -> list[Case] | str | None:
        open_forms: tuple[Any, ...] = ()
        for k, h in enumerate(self.hypotheses):
            try:
                if evaluator.value(h) is not True:
                    return []
            except Unsupported:
                continue
            except Undecided as e:
                if k not in case.used and k not in self.bounding:
                    # An ``or`` is used again when one side is decided; every use of it leaves fewer signs open.
                    again = isinstance(h, Op) and h.name == "or"
                    parts = self.use(h, evaluator, case if again else case.mark(k), e)
                    if parts is not None:
                        return parts
                open_forms = open_forms or tuple(e.forms)
        try:
            if self.goal_holds(evaluator):
                return None
            found = self.refine(case, evaluator)
            # Where the goal is false, what a hypothesis leaves open may rule the case out.
            return found if isinstance(found, list) or not open_forms else self.split(case, *open_forms) or found
        except Undecided as e:
            return self.split(case, *e.forms) or str(e)

    def goal_holds(self, evaluator: Evaluator) -> bool:
        match self.statement.goal:
            case Equal(lhs, rhs) | Refines(lhs, rhs):
                right = evaluator.value(rhs)
                if right is UNDEFINED:
                    return isinstance(self.statement.goal, Refines)
                left = evaluator.value(lhs)
                if left is UNDEFINED:
                    return False
                if isinstance(left, bool) or infinite(left) or infinite(right):
                    return type(left) is type(right) and left == right
                return equal(left, right)
            case Defined(term):
                return evaluator.value(term) is not UNDEFINED
            case Holds(predicate):
                return evaluator.value(predicate) is True
            case NeverFalse(predicate):
                value = evaluator.value(predicate)
                return value is True or value is UNDEFINED

    def refine(self, case: Case, evaluator: Evaluator) -> list[Case] | str:
        """The goal is not seen to hold: an absolute value that SymPy introduced still calls for a split."""
        for term in self.statement.terms():
            value = evaluator.memo.get(term)
            if isinstance(value, sp.Basic):
                for inner in sorted(value.atoms(sp.Abs), key=str):
                    parts = self.split(case, inner.args[0])
                    if parts:
                        return parts
        return "not equal in normal form"

    def split(self, case: Case, *forms: Any) -> list[Case]:
        """Cases that decide the sign of all ``forms``: by the order of two symbols, by the sign of one, or by the sign
        itself. None if too much is assumed already."""
        factors = [f for e in forms for f in sp.Mul.make_args(sp.factor(sp.together(e)) if e.is_Add else e)]
        for factor in factors:
            pair = difference(factor)
            if pair and all(x in case.signs for x in pair):
                x, y = pair
                parts = self.above(case, x, y, False), self.above(case, y, x, False)
                if parts[0] and parts[1]:
                    return [case.replace(x, y, {}), *parts[0], *parts[1]]
        for factor in factors:
            for x in sorted(factor.free_symbols, key=str) if factor.is_Add else ():
                level = root(factor, x) if case.signs.get(x) == ALL else None
                if level is not None:
                    d, e = self.symbol("d", POSITIVE), self.symbol("d", POSITIVE)
                    return [case.replace(x, level, {}), case.replace(x, level + d, {d: POSITIVE}),
                            case.replace(x, level - e, {e: POSITIVE})]  # fmt: skip
        for factor in factors:
            for s in sorted(factor.free_symbols, key=str):
                if len(case.signs.get(s, ())) > 1:
                    return self.by_sign(case, s)
        if len(case.assumed) >= MOST_ASSUMED or forms[0] in case.assumed:
            return []
        return [case.assume(forms[0], sign) for sign in (-1, 0, 1)]

    def by_sign(self, case: Case, s: Any) -> list[Case]:
        name = s.name.rsplit("_", 1)[0]
        parts = []
        for sign in sorted(case.signs[s]):
            new = self.symbol(name, frozenset((sign,)))
            parts.append(case.replace(s, new, {new: frozenset((sign,))} if sign else {}))
        return parts

    def above(self, case: Case, x: Any, y: Any, equal_too: bool) -> list[Case]:
        """The case with x = y + d or y = x - d, d positive (or 0), whichever keeps what is known of both."""
        signs = frozenset((0, 1)) if equal_too else frozenset((1,))
        d = self.symbol("d", signs)
        low, high = case.signs.get(y, ALL), case.signs.get(x, ALL)
        kept = high == ALL or (-1 not in low and (0 in high or not equal_too or 0 not in low))
        if kept and x in case.signs:
            return [case.replace(x, y + d, {d: signs})]
        kept = low == ALL or (1 not in high and (0 in low or not equal_too or 0 not in high))
        if kept and y in case.signs:
            return [case.replace(y, x - d, {d: signs})]
        for s, known in ((y, low), (x, high)):
            if s in case.signs and len(known) > 1:
                return self.by_sign(case, s)
        return []

    # ------------------------------------------------------------------------------------------ hypotheses

    def use(self, h: Expr, evaluator: Evaluator, case: Case, why: Undecided) -> list[Case] | None:
        """Cases that together cover those points of ``case`` that satisfy h; None if h is not used."""
        if not isinstance(h, Op) or len(h.args) != 2:
            return self.retry(case, why)
        a, b = h.args
        if h.name == "and":
            return self.use_one(a, evaluator, case, why) or self.use_one(b, evaluator, case, why)
        if h.name == "or":
            return self.retry_either(a, b, evaluator, case)
        try:
            x, y = evaluator.value(a), evaluator.value(b)
        except (Undecided, Unsupported):
            return self.retry(case, why)
        if not isinstance(x, sp.Basic) or not isinstance(y, sp.Basic):
            return self.retry(case, why)
        if h.name in ("gt", "ge"):
            x, y = y, x
        if h.name == "eq":
            return self.assign(case, x, y) or self.assign(case, y, x) or self.retry(case, why)
        if h.name in ("lt", "le", "gt", "ge"):
            return self.order(case, x, y, h.name in ("le", "ge")) or self.retry(case, why)
        return self.retry(case, why)

    def use_one(self, h: Expr, evaluator: Evaluator, case: Case, why: Undecided) -> list[Case] | None:
        try:
            evaluator.value(h)
        except Undecided as e:
            return self.use(h, evaluator, case, e)
        except Unsupported:
            return None
        return None

    def retry(self, case: Case, why: Undecided) -> list[Case] | None:
        """Split by the sign of the one symbol that the hypothesis depends on, and look again."""
        symbols = [s for s in why.expr.free_symbols if len(case.signs.get(s, ())) > 1]
        return self.by_sign(case, symbols[0]) if len(symbols) == 1 else None

    def retry_either(self, a: Expr, b: Expr, evaluator: Evaluator, case: Case) -> list[Case] | None:
        """The split that decides one side of an ``or`` with the fewest cases."""
        found: list[list[Case]] = []
        for side in (a, b):
            try:
                evaluator.value(side)
            except Undecided as e:
                parts = self.retry(case, e)
                found += [parts] if parts else []
        return min(found, key=len, default=None)

    def assign(self, case: Case, x: Any, y: Any) -> list[Case] | None:
        if x in case.signs and not y.has(x):
            return [case.replace(x, y, {})]
        return None

    def order(self, case: Case, low: Any, high: Any, equal_too: bool) -> list[Case] | None:
        """low <= high (or <): one side a symbol that the other side does not hold."""
        if low in case.signs and high in case.signs:
            return self.above(case, high, low, equal_too) or None
        signs = frozenset((0, 1)) if equal_too else frozenset((1,))
        for x, other, direction in ((high, low, 1), (low, high, -1)):
            if x in case.signs and not other.has(x):
                d = self.symbol("d", signs)
                new = other + direction * d
                # What is known of the sign of x must not be lost.
                if case.signs[x] == ALL or own_signs(new) <= case.signs[x]:
                    return [case.replace(x, new, {d: signs})]
        return None


def limits_of(h: Expr) -> Iterator[tuple[Var, bool, Any, bool]]:
    """(symbol, from below, number, unless 0) for each bound of a symbol that h states: ``x <= 3``, also in an ``and``.

    ``x <= 3 or x == +inf`` bounds the finite values of x, ``x == 0 or x >= 3`` those that are not 0."""
    match h:
        case Op("and", (p, q)):
            yield from limits_of(p)
            yield from limits_of(q)
        case Op("or", (Op("eq", (a, Const(value))), rest)) if isinstance(value, float) or value == 0:
            other = isinstance(value, Fraction)
            yield from ((x, low, n, zero or other) for x, low, n, zero in limits_of(rest) if x is a)
        case Op("le" | "ge" as name, (Var() as x, Const(Fraction() as value))):
            yield x, name == "ge", sp.Rational(value.numerator, value.denominator), False


def difference(e: Any) -> tuple[Any, Any] | None:
    """(x, y) if e is x - y or y - x for two symbols, up to a number."""
    if not e.is_Add or len(e.args) != 2:
        return None
    (c, x), (d, y) = (term.as_coeff_Mul() for term in e.args)
    return (x, y) if x.is_Symbol and y.is_Symbol and c == -d else None


def root(e: Any, x: Any) -> Any:
    """The value of x at which a sum is 0, if the sum is a number times x, plus terms without x; otherwise None."""
    c = e.coeff(x)
    rest = sp.expand(e - c * x)
    return -rest / c if c.is_Rational and c != 0 and not rest.has(x) else None

"""Trusted: intervals of the nodes of a term, leaves first, and the claims of O7 that they need (see ``proofs.ranges``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce

from neptune_verified.ir import intervals as iv
from neptune_verified.ir.expr import FLOATS, INF, Const, Expr, Op, Var, children, const, op, subterms, var
from neptune_verified.ir.intervals import Interval, Range
from neptune_verified.ir.kinds import FINITE, NINF, NONNEGATIVE, PINF, UNDEF, KindAnalysis, Kinds
from neptune_verified.proofs.evaluation import Guards, evaluated
from neptune_verified.proofs.facts import over_symbols
from neptune_verified.proofs.statement import Goal, Hypothesis, NeverFalse, Symbol
from neptune_verified.proofs.statement_text import expr_text

#: exp of these is in the range of the type, and a short number.
EXP_LIMIT = {"float16": 11, "bfloat16": 88, "float32": 88, "float64": 709}
#: part, goal, hypotheses, symbols beside those of the edge
Claim = tuple[str, Goal, list[Hypothesis], tuple[Symbol, ...]]


def inside(e: Expr, r: Interval, kinds: Kinds) -> Expr:
    """``e`` is infinite, as far as its kinds allow, or in the interval."""
    parts: list[Expr] = []
    for name, bound, infinity, kind in (("ge", r.lo, -INF, NINF), ("le", r.hi, INF, PINF)):
        if isinstance(bound, Fraction):
            fact = op(name, e, const(bound, e.dtype))
            parts.append(op("or", op("eq", e, const(infinity, e.dtype)), fact) if kind in kinds else fact)
    return parts[0] if len(parts) == 1 else op("and", *parts) if parts else op("eq", e, e)


def box_facts(v: Var, r: Range, kinds: Kinds, origin: str) -> list[Hypothesis]:
    """The interval of a symbol as hypotheses."""
    if r is None or v.dtype == "bool":
        return []
    facts = []
    if isinstance(r.lo, Fraction) or isinstance(r.hi, Fraction):
        facts.append(Hypothesis(inside(v, r, kinds), origin))
    if r.gap and r.lo == 0:
        away = op("or", op("eq", v, const(0, v.dtype)), op("ge", v, const(r.gap, v.dtype)))
        facts.append(Hypothesis(away, origin))
    return facts


@dataclass(frozen=True)
class End:
    """What the definition has in place of a term's node, at the end of the row, and what is known of the states then."""

    value: Callable[[Expr], Expr]
    facts: list[Hypothesis]


def condition(guards: set[Guards]) -> Expr | None:
    """The condition under which a node is evaluated, None if it always is."""
    if frozenset() in guards:
        return None
    ways: list[Expr] = []
    for some in sorted(guards, key=lambda g: sorted(expr_text(c) for c, _ in g)):
        parts = [c if taken else op("not", c) for c, taken in sorted(some, key=lambda x: expr_text(x[0]))]
        ways.append(reduce(lambda a, b: op("and", a, b), parts))
    return reduce(lambda a, b: op("or", a, b), ways)


def path(where: Expr | None) -> list[Hypothesis]:
    """What a ``select`` leaves aside may take any value."""
    return [] if where is None else [Hypothesis(where, "domain: where the value is chosen")]


def exponent_of(e: Op, args: list[Range]) -> int | None:
    """The position of the argument in which ``e`` grows exponentially."""
    if e.name in ("exp", "exp2"):
        return 0
    base = args[0] if e.name == "pow" and not isinstance(e.args[1], Const) else None
    return 1 if base is not None and base.lo >= 1 else None


@dataclass
class Walk:
    """Intervals of the nodes of terms over symbols, and the claims that they need.

    ``boxes`` holds the intervals of the nodes, at first of the symbols, ``origins`` where they come from. ``derived`` tells
    which nodes are not the definition's values. ``tight``: every exponential's argument is claimed to be <= 0, not only
    where it must be, ``everywhere``: also of those that are the definition's.
    """

    kinds: KindAnalysis
    boxes: dict[Expr, Range]
    origins: dict[Expr, str]
    derived: Callable[[Expr], bool]
    tight: bool
    everywhere: bool = False
    #: What an argument of an exponential is at most, where it is claimed to be bounded; chosen, not believed.
    peak: Callable[[Expr], Fraction] = lambda e: Fraction(0)
    claims: list[Claim] = field(default_factory=list)
    fits: bool = True
    #: Intervals of nodes that are a term's node at an element seen (see ``EdgeRanges.at_extremes``).
    attained: dict[Expr, Range] = field(default_factory=dict)
    #: Where the kinds of the symbols come from, and the greatest number of elements of the domain.
    why: dict[Expr, tuple[str, ...]] = field(default_factory=dict)
    count_origin: str = ""

    def __post_init__(self) -> None:
        self.leaves = dict(self.boxes)

    def fresh(self, name: str, dtype: str) -> Var:
        """A symbol that none of the user's names is."""
        taken = {v.name for v in self.leaves if isinstance(v, Var)}
        return var(next(n for n in (name, *(f"{name}_{k}" for k in range(len(taken) + 1))) if n not in taken), dtype)

    def kinds_of(self, e: Expr) -> Kinds:
        return self.kinds.of(e) - {UNDEF}

    def visit(self, root: Expr, facts: list[Hypothesis], end: End | None = None, skip: Iterable[Expr] = ()) -> Range:
        """Give every node of ``root`` its interval. ``facts``: what relates the symbols. ``end``: the nodes' values in the
        definition, if they have any. Nodes in ``skip`` need no interval."""
        left_out, where = set(skip), evaluated(root)
        # What is claimed of a node holds under the facts and conditions of this root alone.
        self.boxes = dict(self.leaves)
        for e in subterms(root):
            if e not in self.boxes and e not in left_out and e.dtype != "bool":
                chosen = condition(where[e])
                self.boxes[e] = self.node(e, [*facts, *path(chosen)], end, chosen)
        return self.boxes.get(root)

    def node(self, e: Expr, facts: list[Hypothesis], end: End | None, chosen: Expr | None) -> Range:
        found = iv.by_sign(self.interval(e, facts), self.kinds.of(e), e.dtype not in FLOATS)
        if found is None:
            return None
        whole = iv.representable(e.dtype)
        if isinstance(e, Const) and not found.within(whole):
            self.claims.append(("literal", NeverFalse(inside(e, whole, self.kinds_of(e))), [], ()))
        if not isinstance(e, Op) or not self.derived(e):
            return found.meet(whole)
        if e.name == "div" and not found.within(whole) and e.dtype in FLOATS:
            a, b = (op("abs", x) for x in e.args)
            bound = op("le", a, b)
            if self.kinds_of(e.args[0]) & {NINF, PINF}:
                bound = op("or", op("eq", a, const(INF, a.dtype)), bound)
            self.claims.append(("quotient", NeverFalse(bound), facts, ()))
            return found.meet(iv.UNIT)
        known = self.attained.get(e)
        if not found.within(whole) and known is not None and known.within(whole):
            return found.meet(known)
        if not found.within(whole):
            if end is not None:
                bound = self.at_most(e, end.value(e))
                if chosen is not None and end.value(chosen) is not chosen:
                    # The definition has this value only where it chooses it too.
                    bound = op("and", end.value(chosen), bound)
                self.claims.append(("relative", NeverFalse(bound), [*facts, *end.facts], ()))
            else:
                self.fits = False
                self.claims.append(("range", NeverFalse(inside(e, whole, self.kinds_of(e))), facts, ()))
            return found.meet(whole)
        found = iv.short(found).meet(whole)
        if self.needs_claim(e):
            self.claim(e, found)
        return found

    def at_most(self, e: Expr, limit: Expr) -> Expr:
        """|e| <= |limit|, where a limit that is infinite is none."""
        a, b = op("abs", e), op("abs", limit)
        infinity, bound = const(INF, e.dtype), op("le", a, b)
        if self.kinds_of(limit) & {NINF, PINF}:
            bound = op("and", op("lt", b, infinity), bound)
            if self.kinds_of(e) & {NINF, PINF}:
                bound = op("or", op("eq", a, infinity), bound)
        return bound

    def interval(self, e: Expr, facts: list[Hypothesis]) -> Range:
        if isinstance(e, Const):
            return iv.point(e.value) if isinstance(e.value, Fraction) else None
        if not isinstance(e, Op):
            return iv.ANY
        if e.name == "select":
            condition, x, y = e.args
            return iv.select(condition, self.boxes[x], self.boxes[y], x, y)
        args = [self.boxes.get(x) for x in e.args]
        if self.derived(e) or (self.tight and self.everywhere):
            k = exponent_of(e, args)
            argument = None if k is None else args[k]
            if k is not None and argument is not None:
                args[k] = self.argument(e, e.args[k], argument, facts)
        return iv.operation(e, args, [self.kinds_of(x) for x in e.args])

    def argument(self, e: Op, x: Expr, r: Interval, facts: list[Hypothesis]) -> Interval:
        """The interval of what an exponential is taken of: its own, or the claim that it is at most 0 (or at most what it is
        where the element is the running maximum itself)."""
        limit = 0 if self.tight or e.name == "pow" else EXP_LIMIT.get(e.dtype, 0)
        if r.hi <= limit:
            return r
        peak = self.peak(x)
        self.claims.append(("argument", NeverFalse(op("le", x, const(peak, x.dtype))), facts, ()))
        return Interval(min(r.lo, peak), peak)

    @staticmethod
    def needs_claim(e: Op) -> bool:
        """Others are bounded by what the function is, choose between operands, or are monotone in arguments whose own
        intervals are claimed."""
        if e.name == "pow":
            return isinstance(e.args[1], Const)
        if e.name == "cast":
            return e.args[0].dtype != "bool"
        return e.name in ("add", "sub", "mul", "div", "sqrt", "rsqrt", "log", "floordiv", "floormod")

    def claim(self, e: Op, r: Interval) -> None:
        """``e`` lies in ``r`` whenever its operands lie in their intervals."""
        names: dict[Expr, Expr] = {}
        symbols: list[Symbol] = []
        hypotheses: list[Hypothesis] = []
        for k, x in enumerate(e.args):
            if isinstance(x, Const) or x in names:
                continue
            v = x if isinstance(x, Var) else self.fresh(f"u{k}", x.dtype)
            names[x] = v
            assert isinstance(v, Var)
            origin = self.origins.get(x, f"proved: O7, the interval of {expr_text(x)}")
            if v is not x:
                symbols.append(self.operand(v, x, self.kinds_of(x) or FINITE))
            hypotheses += box_facts(v, self.boxes[x], self.kinds_of(x), origin)
        flat = op(e.name, *(names.get(x, x) for x in e.args), dtype=e.dtype if e.name == "cast" else None)
        self.claims.append(("range", NeverFalse(inside(flat, r, self.kinds_of(e))), hypotheses, tuple(symbols)))

    def operand(self, v: Var, x: Expr, kinds: Kinds) -> Symbol:
        """A symbol that stands for a term over the walk's symbols."""
        number = (f"derived: {expr_text(x)} is a number",)
        why = number if isinstance(x, Const) else over_symbols(x, kinds, self.kinds.given, self.why)
        return Symbol(v, kinds, expr_text(x), why)

    def sum_claim(self, term: Expr, r: Interval, n: Fraction, whole: Interval) -> Claim:
        """A sum of up to n values of ``term`` is in the range of the accumulator's type."""
        u, count = self.fresh("u0", term.dtype), self.fresh("count", term.dtype)
        kinds = (self.kinds_of(term) & FINITE) or FINITE
        goal = NeverFalse(op("le", op("mul", count, op("abs", u)), const(whole.hi, term.dtype)))
        facts = [
            Hypothesis(op("le", count, const(n, term.dtype)), self.count_origin),
            *box_facts(u, iv.short(r), kinds, f"proved: O7, the interval of {expr_text(term)}"),
        ]
        return (
            "accumulator",
            goal,
            facts,
            (
                Symbol(count, NONNEGATIVE, "the number of elements", ("derived: a number of elements is >= 0",)),
                self.operand(u, term, kinds),
            ),
        )


def results(h: Expr) -> list[Expr]:
    """The nodes of a repair whose value, where it is chosen, is the repaired accumulator, and which nothing else reads."""
    found = [h]
    for e in found:
        if isinstance(e, Op) and e.name == "select":
            found += [x for x in e.args[1:] if isinstance(x, Op)]
    read = {k for e in subterms(h) for k in children(e) if e not in found or (isinstance(e, Op) and k is e.args[0])}
    return [e for e in found if e not in read and isinstance(e, Op)]

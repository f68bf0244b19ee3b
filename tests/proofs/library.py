"""Statements with known truth: terms g, repairs h by hand, and a small notation to write them in."""

# One repair to a line.
# ruff: noqa: E501

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from neptune_verified.ir.expr import (
    FALSE,
    INF,
    REDUCERS,
    TRUE,
    Const,
    Expr,
    Op,
    Var,
    const,
    is_const,
    op,
    rebuild,
    substitute,
    var,
)
from neptune_verified.proofs.statement import Defined, Equal, Goal, Holds, Hypothesis, Refines, Statement, Symbol

F = "float32"
REAL = ("neg", "zero", "pos")
KINDS = {
    "real": REAL,
    "positive": ("pos",),
    "nonnegative": ("zero", "pos"),
    "negative": ("neg",),
    "nonzero": ("neg", "pos"),
    "masked": ("-inf", *REAL),
    "extended": ("-inf", *REAL, "+inf"),
    "bool": ("true", "false"),
}
BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow"}
COMPARE = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}


def term(text: str, **named: Expr) -> Expr:
    """An expression in Python's notation; ``ninf``, ``pinf``, ``true``, ``false`` are literals, other names symbols."""
    named = {"ninf": const(-INF, F), "pinf": const(INF, F), "true": TRUE, "false": FALSE, **named}

    def go(n: ast.expr) -> Expr:
        match n:
            case ast.BinOp(left, operator, right):
                return op(BINARY[type(operator)], go(left), go(right))
            case ast.UnaryOp(ast.USub(), x):
                return op("neg", go(x))
            case ast.UnaryOp(ast.Not(), x):
                return op("not", go(x))
            case ast.Compare(left, [operator], [right]):
                return op(COMPARE[type(operator)], go(left), go(right))
            case ast.BoolOp(operator, [first, *rest]):
                result = go(first)
                for x in rest:
                    result = op("and" if isinstance(operator, ast.And) else "or", result, go(x))
                return result
            case ast.Call(ast.Name(name), args):
                return op(name, *map(go, args))
            case ast.Constant(value):
                return const(Fraction(value) if isinstance(value, int | float) else value, F)
            case ast.Name(name):
                return named.get(name, var(name, F))
        raise ValueError(ast.dump(n))

    return go(ast.parse(text.strip(), mode="eval").body)


def symbols(text: str) -> tuple[Symbol, ...]:
    """``"c: masked, r r2: positive"``."""
    result = []
    for part in text.split(","):
        names, domain = part.split(":")
        kinds = frozenset(KINDS[domain.strip()])
        result += [Symbol(var(name, "bool" if domain.strip() == "bool" else F), kinds) for name in names.split()]
    return tuple(result)


def say(domain: str, goal: str, *hypotheses: str) -> Statement:
    """``lhs = rhs`` Equal, ``lhs ~ rhs`` Refines, ``def t`` Defined, anything else Holds."""
    syms = symbols(domain)
    named: dict[str, Expr] = {s.var.name: s.var for s in syms}
    assumed = tuple(Hypothesis(term(h, **named), "declared: test") for h in hypotheses)
    claim: Goal
    if goal.startswith("def "):
        claim = Defined(term(goal[4:], **named))
    elif " ~ " in goal:
        claim = Refines(*(term(side, **named) for side in goal.split(" ~ ")))
    elif " = " in goal:
        claim = Equal(*(term(side, **named) for side in goal.split(" = ")))
    else:
        claim = Holds(term(goal, **named))
    return Statement(syms, assumed, claim)


@dataclass(frozen=True)
class Repair:
    """g over elements and producers, h over t, r and r' (written r_new), ``t``: what an accumulator can be."""

    name: str
    reducer: str
    g: str
    h: str
    domain: str
    producers: str
    hypotheses: tuple[str, ...] = ()
    t: str = "real"

    def parts(self) -> tuple[Expr, Expr, list[str]]:
        return term(self.g), term(self.h), self.producers.split()

    def moved(self, e: Expr, old: str, new: str) -> Expr:
        """Producers r + old -> r + new."""
        return substitute(e, {var(r + old, F): var(r + new, F) for r in self.producers.split()})

    def all_symbols(self, *extra: str) -> tuple[Symbol, ...]:
        base = symbols(self.domain)
        result = list(base)
        for suffix in ("_new", "_two"):
            result += [
                Symbol(var(s.var.name + suffix, F), s.kinds) for s in base if s.var.name in self.producers.split()
            ]
        result += [Symbol(var(x, F), frozenset(KINDS[self.t])) for x in extra]
        return tuple(result)

    def statement(self, goal: Goal, *extra: str) -> Statement:
        """Hypotheses are over r and r_new, and repeated for r_new and r_two."""
        wanted = [term(h) for h in self.hypotheses]
        used = {n for t in Statement((), (), goal).terms() for n in _vars(t)}
        syms = tuple(s for s in self.all_symbols(*extra) if s.var in used)
        hyps = [w for w in wanted if _vars(w) <= used]
        hyps += [s for w in wanted if _vars(s := substitute(w, self._later())) <= used and s not in hyps]
        return Statement(syms, tuple(Hypothesis(h, "declared: test") for h in hyps), goal)

    def equivalent(self, h: Expr) -> bool:
        """Mutants that equal the repair: a sign inside a square."""
        squared = [n for n in _nodes(h) if isinstance(n, Op) and n.name == "pow" and is_const(n.args[1], 2)]
        return any(isinstance(n, Op) and n.name == "neg" for x in squared for n in _nodes(x))

    def _later(self) -> dict[Expr, Expr]:
        names = self.producers.split()
        return {
            **{var(r, F): var(r + "_new", F) for r in names},
            **{var(r + "_new", F): var(r + "_two", F) for r in names},
        }

    def statements(self, h: Expr | None = None) -> dict[str, Statement]:
        g, own, _ = self.parts()
        h = own if h is None else h
        t, x, y = var("t", F), var("t1", F), var("t2", F)
        f = REDUCERS[self.reducer].combine

        def at(value: Expr) -> Expr:
            return substitute(h, {t: value})

        direct = self.moved(self.moved(h, "_new", "_two"), "", "")
        later = substitute(substitute(h, self._later()), {t: h})
        return {
            "O1": self.statement(Equal(at(g), self.moved(g, "", "_new"))),
            "O2": self.statement(Equal(at(f(x, y)), f(at(x), at(y))), "t1", "t2"),
            "O3": self.statement(Equal(later, direct), "t"),
            "O3i": self.statement(Equal(self.moved(h, "_new", ""), t), "t"),
            "O6": self.statement(Defined(h), "t"),
        }


def _vars(e: Expr) -> set[Expr]:
    return {n for n in _nodes(e) if isinstance(n, Var)}


def _nodes(e: Expr) -> Iterator[Expr]:
    yield e
    if isinstance(e, Op):
        for a in e.args:
            yield from _nodes(a)


REPAIRS = [
    Repair("1 softmax", "sum", "exp(c-m)", "t*exp(m-m_new)", "c m: real", "m"),
    Repair("2 weighted", "sum", "exp(c1-m)*c2", "t*exp(m-m_new)", "c1 c2 m: real", "m"),
    Repair("3a scale", "sum", "exp(a*(c-m))", "t*exp(a*(m-m_new))", "c m a: real", "m"),
    Repair("3b exp2", "sum", "exp2(a*(c-m))", "t*exp2(a*(m-m_new))", "c m a: real", "m"),
    Repair("3c base", "sum", "pow(2, (c-m)/log(2))", "t*exp(m-m_new)", "c m: real", "m"),
    Repair("3c literal", "sum", "exp2((c-m)*1.4426950408889634)", "t*exp2((m-m_new)*1.4426950408889634)", "c m: real", "m"),
    Repair("3d", "sum", "exp2(0.375*c-m)", "t*exp2(m-m_new)", "c m: real", "m"),
    Repair("4a", "sum", "a*exp(c1-r-b*c2)", "t*exp(r-r_new)", "c1 c2 r a b: real", "r"),
    Repair("4b", "sum", "a*c3*exp(c1-r-b*c2)", "t*exp(r-r_new)", "c1 c2 c3 r a b: real", "r"),
    Repair("4c", "sum", "a*exp(c1-r1-b*c2*c3)/r2", "t*(r2/r2_new)*exp(r1-r1_new)", "c1 c2 c3 r1 a b: real, r2: positive", "r1 r2"),
    Repair("5 L2", "sum", "(c/m)**2", "t*(m/m_new)**2", "c: real, m: positive", "m"),
    Repair("5 L2 mul", "sum", "(c/m)*(c/m)", "t*(m/m_new)**2", "c: real, m: positive", "m"),
    Repair("6a amax", "max", "abs(c*w)/r", "t*(r/r_new)", "c w: real, r: positive", "r", t="masked"),
    Repair("6b rms", "max", "abs(c*w)/sqrt(r/n+eps)", "t*(sqrt(r/n+eps)/sqrt(r_new/n+eps))",
           "c w: real, r: nonnegative, n eps: positive", "r", t="masked"),
    Repair("6b one root", "max", "abs(c*w)*rsqrt(r/128+0.00001)", "t*sqrt((r/128+0.00001)/(r_new/128+0.00001))",
           "c w: real, r: nonnegative", "r", t="masked"),
    Repair("7a", "max", "c/r", "t*(r/r_new)", "c: real, r: positive", "r", t="masked"),
    Repair("7b", "max", "c-r", "t+(r-r_new)", "c r: real", "r", t="masked"),
    Repair("7c", "min", "c-r", "t+(r-r_new)", "c r: real", "r"),
    Repair("12 decay", "sum", "exp((n-j)*log(lam))*c", "t*exp((n_new-n)*log(lam))", "j c n: real, lam: positive", "n", ("lam <= 1",)),
    Repair("17b", "max", "-c/r", "t*(r/r_new)", "c: real, r: positive", "r", t="masked"),
    Repair("17e", "max", "exp(c-r)", "t*exp(r-r_new)", "c r: real", "r", t="masked"),
    Repair("18a", "prod", "exp(r*log(c))", "t**(r_new/r)", "c r: positive", "r", t="positive"),
    Repair("18d", "logaddexp", "c-r", "t+(r-r_new)", "c r: real", "r", t="masked"),
    Repair("18e", "min", "c/r", "t*(r/r_new)", "c: real, r: positive", "r"),
    Repair("18f", "logaddexp", "a*c-r", "t+(r-r_new)", "a c r: real", "r", t="masked"),
    Repair("affine max", "max", "(c-r1)/r2", "t*(r2/r2_new)+(r1-r1_new)/r2_new", "c r1: real, r2: positive", "r1 r2", t="masked"),
    Repair("affine min", "min", "(c-r1)/r2", "t*(r2/r2_new)+(r1-r1_new)/r2_new", "c r1: real, r2: positive", "r1 r2"),
    Repair("max producer", "sum", "exp(c-m)*v", "t*exp(m-m_new)", "c v m: real", "m", ("m <= m_new",)),
    Repair("softmax of max and sum", "sum", "exp(c-m)/s", "t*(exp(m-m_new)*(s/s_new))", "c m: real, s: positive", "m s",
           ("m <= m_new",)),
    Repair("sigmoid weight", "sum", "x*sigmoid(c)/r", "t*(r/r_new)", "x c: real, r: positive", "r"),
]  # fmt: skip


def mutants(e: Expr, producers: list[str]) -> list[Expr]:
    """Every single edit of h: another operation, r and r_new exchanged at one place, a factor dropped, a number changed."""
    result: list[Expr] = []

    def at(x: Expr, wrap: object) -> None:
        assert callable(wrap)
        match x:
            case Op(name, args):
                for other in SWAP.get(name, ()):
                    result.append(wrap(op(other, *args)))
                if name in ("add", "sub", "mul", "div", "pow"):
                    result.append(wrap(args[0]))
                if name in ("sub", "div"):
                    result.append(wrap(op(name, args[1], args[0])))
                if name in ("exp", "exp2", "sqrt", "log"):
                    result.append(wrap(args[0]))
                for k, a in enumerate(args):
                    at(a, lambda new, k=k: wrap(rebuild(x, (*args[:k], new, *args[k + 1 :]))))
            case Var(name):
                if name.endswith("_new"):
                    result.append(wrap(var(name[: -len("_new")], F)))
                elif name in producers:
                    result.append(wrap(var(name + "_new", F)))
                result.append(wrap(op("neg", x)))
            case Const(value):
                result.append(wrap(const(value + 1, F)))

    at(e, lambda new: new)
    return [m for m in dict.fromkeys(result) if m is not e]


SWAP = {"add": ("sub",), "sub": ("add",), "mul": ("div", "add"), "div": ("mul",), "exp": ("exp2",), "exp2": ("exp",)}


__all__ = ["REPAIRS", "Holds", "Repair", "mutants", "say", "symbols", "term"]

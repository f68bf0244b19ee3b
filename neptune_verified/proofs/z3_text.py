"""Trusted: guarded cases as one SMT-LIB 2 text over the reals, without division.

Formulas are nested tuples; ``Script`` collects their atoms, names them in a fixed order, clears denominators (by
factors that the guards make positive or nonzero) and prints integer polynomials. Side constraints hold for the true
exponential, logarithm or root at every point, so they can never exclude one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction

from neptune_verified.proofs import z3_poly as P
from neptune_verified.proofs.statement import FINITE, Symbol
from neptune_verified.proofs.z3_guards import ALL_SIGNS, Guard

#: ("and" | "or", *formulas) | ("not", f) | ("sign", poly, signs) | ("differ", poly, poly) | ("kind", k, outcomes)
Formula = tuple[object, ...]
TRUE: Formula = ("and",)


def guard_formula(guard: Guard) -> Formula:
    parts: list[Formula] = []
    for (tag, what), outcomes in sorted(guard.items(), key=lambda item: (item[0][0], repr(item[0][1]))):
        parts.append((tag, what, outcomes))
    return ("and", *parts)


class Script:
    """Prints formulas over ``symbols``. ``facts`` adds the monotonicity of exp and log between all atoms used."""

    def __init__(self, symbols: Sequence[Symbol], formulas: Iterable[Formula], facts: bool) -> None:
        self.symbols = symbols
        self.formulas = list(formulas)
        self.exponents: dict[P.Atom, set[Fraction]] = {}
        for f in self.formulas:
            self.collect(f)
        if facts:
            self.formulas.extend(self.monotone())
            for f in self.formulas:
                self.collect(f)
        self.atoms = sorted(self.exponents)
        self.units = {a: unit(a, self.exponents[a]) for a in self.atoms}
        self.names = self.name()

    # ------------------------------------------------------------------------------------------ atoms

    def collect(self, f: Formula) -> None:
        if f[0] in ("and", "or", "not", "=>"):
            for part in f[1:]:
                self.collect(part)  # type: ignore[arg-type]
        for part in f[1:]:
            if f[0] in ("sign", "differ") and isinstance(part, tuple):
                self.collect_poly(part)

    def collect_poly(self, p: P.Poly) -> None:
        for mono, _ in p:
            for a, e in mono:
                seen = self.exponents.setdefault(a, set())
                if e in seen:
                    continue
                seen.add(e)
                if a[0] == "P":
                    self.collect_poly(a[1])

    def monotone(self) -> Iterable[Formula]:
        """exp and log are increasing: exp 0 = 1 and log 1 = 0 as instances, and log u >= k where u >= exp k for the numbers
        k with which a logarithm is compared, by bounds of exp k."""
        units = {a: unit(a, self.exponents[a]) for a in self.exponents if a[0] == "E"}
        exps = [(P.scale(atom_poly(a), u), P.atom(a, u)) for a, u in sorted(units.items())]
        logs = [(P.atom(a), a[1]) for a in sorted(self.exponents) if a[0] == "G"]
        for pairs in (exps, logs):
            points = [(P.ZERO_POLY, P.number(1)), *pairs]
            for k, (x, ex) in enumerate(points):
                for y, ey in points[:k]:
                    both_positive = ("and", ("sign", ex, POSITIVE), ("sign", ey, POSITIVE))
                    for signs in (frozenset((1,)), frozenset((0,))):
                        premise = nonzero(x, y) if pairs is exps else both_positive
                        yield ("=>", premise, ("=", ("sign", P.sub(x, y), signs), ("sign", P.sub(ex, ey), signs)))
        for log, limit in sorted({pair for f in self.formulas for pair in log_limits(f)}):
            low, high = exp_bounds(limit)
            above = ("sign", P.sub(log[1], P.number(high)), AT_LEAST)
            below = ("and", ("sign", log[1], POSITIVE), ("sign", P.sub(P.number(low), log[1]), AT_LEAST))
            over = P.sub(P.atom(log), P.number(limit))
            yield ("=>", above, ("sign", over, AT_LEAST))
            yield ("=>", below, ("sign", P.scale(over, -P.ONE), AT_LEAST))
        for x, ex in exps:
            tangent = ("sign", P.sub(ex, P.add(x, P.number(1))), frozenset((0, 1)))
            yield ("=>", nonzero(x, ()), tangent)

    def name(self) -> dict[P.Atom, str]:
        names: dict[P.Atom, str] = {}
        letters = {"E": "exp", "P": "root", "G": "log", "L": "logn"}
        for k, a in enumerate(self.atoms):
            names[a] = symbol_name(self.symbols, a[1]) if a[0] == "s" else f"{letters[a[0]]}!{k}"
        return names

    # ------------------------------------------------------------------------------------------ printing

    def text(self, comment: Iterable[str]) -> str:
        lines = [f"; {' '.join(line.split())}" for line in comment]
        lines += ["(set-info :status unsat)", "(set-logic QF_NRA)"]
        lines += self.declarations()
        lines += [f"(assert {self.formula(f)})" for f in self.formulas]
        return "\n".join([*lines, "(check-sat)", ""])

    def declarations(self) -> list[str]:
        lines: list[str] = []
        for k, s in enumerate(self.symbols):
            name = symbol_name(self.symbols, k)
            if s.kinds <= {"true", "false"}:
                lines.append(f"(declare-const {name} Bool)")
                if len(s.kinds) == 1:
                    lines.append(f"(assert {name})" if s.kinds == {"true"} else f"(assert (not {name}))")
                continue
            lines.append(f"(declare-const {name} Real)")
            flags = [flag for kind, flag in flags_of(name) if kind in s.kinds]
            lines += [f"(declare-const {flag} Bool)" for flag in flags]
            signs = frozenset(n for kind, n in (("neg", -1), ("zero", 0), ("pos", 1)) if kind in s.kinds)
            if len(flags) == 2:
                lines.append(f"(assert (not (and {flags[0]} {flags[1]})))")
            if signs != ALL_SIGNS:
                lines.append(f"(assert {join('or', [*flags, sign_text(name, signs)])})")
        for a in self.atoms:
            if a[0] in ("E", "G", "L") or (a[0] == "P" and self.units[a] != 1):
                lines.append(f"(declare-const {self.names[a]} Real)  ; {self.legend(a)}")
                if a[0] in ("E", "L"):
                    lines.append(f"(assert (< 0 {self.names[a]}))")
        for a in self.atoms:
            if a[0] == "P" and self.units[a] != 1:
                name, order = self.names[a], self.units[a].denominator
                power = join("*", [name] * order)
                base = self.sum(a[1])
                lines.append(f"(assert (=> (< 0 {base}) (and (< 0 {name}) (= {power} {base}))))")
        return lines

    def legend(self, a: P.Atom) -> str:
        """What a name stands for, for a person."""
        if a[0] == "E":
            return f"exp({show(self.symbols, P.scale(atom_poly(a), self.units[a]))})"
        if a[0] == "L":
            return f"log({a[1]})"
        if a[0] == "G":
            return f"log({show(self.symbols, a[1])})"
        return f"({show(self.symbols, a[1])})^({self.units[a]})"

    def formula(self, f: Formula) -> str:
        match f:
            case ("and" | "or" as tag, *parts):
                return join(tag, [self.formula(p) for p in parts])  # type: ignore[arg-type]
            case ("=>" | "=" as tag, x, y):
                return f"({tag} {self.formula(x)} {self.formula(y)})"  # type: ignore[arg-type]
            case ("sign", p, signs):
                return sign_text(self.sum(self.cleared([p], True)[0]), signs)  # type: ignore[arg-type, list-item]
            case ("differ", p, q):
                return f"(not (= {' '.join(self.sum(x) for x in self.cleared([p, q], False))}))"  # type: ignore[list-item]
            case ("truth", k, outcomes):
                return self.flag_text(symbol_name(self.symbols, k), outcomes, (("true", ""), ("false", "not ")))  # type: ignore[arg-type]
            case ("kind", k, outcomes):
                return self.kind_text(k, outcomes)  # type: ignore[arg-type]
            case _:
                raise ValueError(f"no text for {f[0]}")

    def flag_text(self, name: str, outcomes: frozenset[object], texts: tuple[tuple[str, str], ...]) -> str:
        return join("or", [f"(not {name})" if prefix else name for kind, prefix in texts if kind in outcomes])

    def kind_text(self, k: int, outcomes: frozenset[object]) -> str:
        kinds = self.symbols[k].kinds
        flags = [(kind, flag) for kind, flag in flags_of(symbol_name(self.symbols, k)) if kind in kinds]
        if all(kind in outcomes for kind, _ in flags) and ("finite" in outcomes or not kinds & FINITE):
            return "true"
        parts = [flag for kind, flag in flags if kind in outcomes]
        if "finite" in outcomes:
            parts.append(join("and", [f"(not {flag})" for _, flag in flags]))
        return join("or", parts)

    def cleared(self, polys: Sequence[P.Poly], keep_sign: bool) -> list[P.Poly]:
        """The polynomials times one common factor, so that no negative exponent or fraction is left."""
        least: dict[P.Atom, Fraction] = {}
        for p in polys:
            for mono, _ in p:
                for a, e in mono:
                    least[a] = min(least.get(a, Fraction(0)), e)
        factor: dict[P.Atom, Fraction] = {}
        for a, e in least.items():
            if e < 0:
                odd = keep_sign and a[0] in ("s", "P", "G") and self.units[a] == 1 and e.numerator % 2
                factor[a] = -e + 1 if odd else -e
        # P atoms stay atoms here (a whole power is printed as the polynomial's product).
        terms = [[(shifted(m, factor), c) for m, c in p] for p in polys]
        common = math.lcm(*(c.denominator for p in terms for _, c in p)) if any(terms) else 1
        return [tuple((m, c * common) for m, c in sorted(p)) for p in terms]

    def sum(self, p: P.Poly) -> str:
        return join("+", [self.product(m, c) for m, c in p])

    def product(self, mono: P.Mono, c: Fraction) -> str:
        if c.denominator != 1:
            raise P.TooLarge(f"the fraction {c}, which has no text")
        factors = [] if c == 1 and mono else [integer(c.numerator)]
        for a, e in mono:
            steps = e / self.units[a]
            if steps > LARGEST_PRINTED_POWER:
                raise P.TooLarge(f"the power {steps}")
            whole_power = a[0] == "P" and self.units[a] == 1
            factors += [self.sum(a[1]) if whole_power else self.names[a]] * int(steps)
        return join("*", factors)


#: Powers are printed as products.
LARGEST_PRINTED_POWER = 64
POSITIVE = frozenset((1,))
AT_LEAST = frozenset((0, 1))
#: exp of these is a number of a few hundred digits at most.
LARGEST_LOG = 800
_DIGITS = 30


def log_limits(f: Formula) -> Iterator[tuple[P.Atom, Fraction]]:
    """(log u, k) for each sign of ``c (log u - k)`` in the formula; k is not 0, which is log 1."""
    for part in f[1:] if f[0] in ("and", "or", "not", "=>", "=") else ():
        yield from log_limits(part)  # type: ignore[arg-type]
    poly: P.Poly = f[1] if f[0] == "sign" else ()  # type: ignore[assignment]
    if len(poly) == 2 and not poly[0][0] and len(poly[1][0]) == 1:
        (_, c), (((log, exponent),), d) = poly
        if log[0] == "G" and exponent == 1 and abs(c / d) <= LARGEST_LOG:
            yield log, -c / d


def exp_bounds(k: Fraction) -> tuple[Fraction, Fraction]:
    """Numbers not above and not below exp(k): the exponential of a decimal is rounded to the nearest one, so that its
    neighbours enclose it."""
    with localcontext(Context(prec=_DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN)) as context:
        context.rounding = ROUND_FLOOR
        low = (Decimal(k.numerator) / Decimal(k.denominator)).exp().next_minus()
        context.rounding = ROUND_CEILING
        high = (Decimal(k.numerator) / Decimal(k.denominator)).exp().next_plus()
    return Fraction(low), Fraction(high)


def atom_poly(a: P.Atom) -> P.Poly:
    return ((a[1], P.ONE),)


def nonzero(*polys: P.Poly) -> Formula:
    """Every symbol that a denominator of these polynomials holds is nonzero, every composite one as well."""
    below = sorted({a for p in polys for m, _ in p for a, e in m if e < 0})
    return ("and", *(("sign", P.atom(a) if a[0] != "P" else a[1], frozenset((-1, 1))) for a in below))


def shifted(mono: P.Mono, factor: dict[P.Atom, Fraction]) -> P.Mono:
    exponents = dict(mono)
    for a, e in factor.items():
        exponents[a] = exponents.get(a, Fraction(0)) + e
    return tuple(sorted((a, e) for a, e in exponents.items() if e))


def unit(a: P.Atom, exponents: Iterable[Fraction]) -> Fraction:
    """The power of the atom that its name stands for: every exponent is a multiple."""
    if a[0] == "E":
        numerator = math.gcd(*(e.numerator for e in exponents))
        return Fraction(numerator, math.lcm(*(e.denominator for e in exponents)))
    return Fraction(1, math.lcm(*(e.denominator for e in exponents)))


def symbol_name(symbols: Sequence[Symbol], k: int) -> str:
    """Letters of the user's name, and the position, which keeps names apart."""
    return f"{re.sub(r'[^A-Za-z0-9_]', '_', symbols[k].var.name)}!{k}"


def flags_of(name: str) -> tuple[tuple[str, str], ...]:
    return (("-inf", f"{name}!ninf"), ("+inf", f"{name}!pinf"))


def sign_text(term: str, signs: frozenset[object]) -> str:
    parts = {(-1,): "(< {} 0)", (0,): "(= {} 0)", (1,): "(< 0 {})", (-1, 0): "(<= {} 0)", (0, 1): "(<= 0 {})",
             (-1, 1): "(not (= {} 0))", (-1, 0, 1): "true", (): "false"}  # fmt: skip
    return parts[tuple(sorted(signs))].format(term)  # type: ignore[type-var, arg-type]


def join(op: str, parts: list[str]) -> str:
    empty = {"and": "true", "or": "false", "+": "0", "*": "1"}
    return empty[op] if not parts else parts[0] if len(parts) == 1 else f"({op} {' '.join(parts)})"


def integer(n: int) -> str:
    return str(n) if n >= 0 else f"(- {-n})"


def show(symbols: Sequence[Symbol], p: P.Poly) -> str:
    """A polynomial for a comment."""

    def one(a: P.Atom) -> str:
        if a[0] == "s":
            return symbol_name(symbols, a[1])
        if a[0] == "E":
            return f"exp({show(symbols, atom_poly(a))})"
        return f"log({a[1]})" if a[0] == "L" else f"{'log' if a[0] == 'G' else ''}({show(symbols, a[1])})"

    terms = [f"{c}" + "".join(f" * {one(a)}^({e})" for a, e in m) for m, c in p]
    return " + ".join(terms) or "0"

"""Trusted: polynomials over atoms, the normal form in which the Z3 route keeps finite values.

A polynomial is a sorted tuple of (monomial, rational coefficient), a monomial a sorted tuple of (atom, exponent).
Exponents are rational; a negative or fractional one stands on atoms that are nonzero or positive wherever the value is
used (the guards of ``z3_cases`` say so). Atoms are tagged tuples, ordered by structure alone::

    ("s", k)       the finite value of symbol k
    ("E", mono)    exp(mono), positive
    ("P", poly)    a nonzero polynomial under a negative power, a positive one under a fractional power
    ("G", poly)    log(poly), poly positive
    ("L", n)       log(n) for an integer n > 1, positive

``exp(sum q_i mu_i)`` is the product of ``E[mu_i]^q_i``, and ``exp(q log a) = a^q``, so equal exponentials are equal
polynomials.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from fractions import Fraction
from typing import Any

#: A tagged tuple; recursive through Mono and Poly.
Atom = tuple[str, Any]
Mono = tuple[tuple[Atom, Fraction], ...]
Poly = tuple[tuple[Mono, Fraction], ...]

ONE = Fraction(1)
ZERO_POLY: Poly = ()
#: Roots of higher order stay exponentials of logarithms (a float literal's exponent has denominator 2**52).
LARGEST_ROOT = 12
#: Powers are written out, so their size is bounded.
LARGEST_POWER = 16
LARGEST_NUMBER_POWER = 1024
LARGEST_POLY = 400
#: Terms of a quotient.
LARGEST_QUOTIENT = 40


class TooLarge(Exception):
    """The normal form would be too large to be of use."""


def number(c: Fraction | int) -> Poly:
    return (((), Fraction(c)),) if c else ()


def atom(a: Atom, exponent: Fraction = ONE) -> Poly:
    return ((((a, exponent),), ONE),)


def collect(terms: Iterable[tuple[Mono, Fraction]]) -> Poly:
    total: dict[Mono, Fraction] = {}
    for mono, c in terms:
        total[mono] = total.get(mono, Fraction(0)) + c
    if len(total) > LARGEST_POLY:
        raise TooLarge("a polynomial with too many terms")
    return tuple(sorted((m, c) for m, c in total.items() if c))


def add(p: Poly, q: Poly) -> Poly:
    return collect((*p, *q))


def scale(p: Poly, c: Fraction) -> Poly:
    return tuple((m, c * d) for m, d in p) if c else ()


def sub(p: Poly, q: Poly) -> Poly:
    return add(p, scale(q, -ONE))


def mul(p: Poly, q: Poly) -> Poly:
    terms: list[tuple[Mono, Fraction]] = []
    for m, c in p:
        for n, d in q:
            terms.extend(scale(mul_monos(m, n), c * d))
    return collect(terms)


def mul_monos(m: Mono, n: Mono) -> Poly:
    if not m or not n:
        return ((m or n, ONE),)
    exponents: dict[Atom, Fraction] = dict(m)
    for a, e in n:
        exponents[a] = exponents.get(a, Fraction(0)) + e
    return mono_poly(exponents)


def mono_poly(exponents: dict[Atom, Fraction]) -> Poly:
    """The monomial; a power of a polynomial that came back to a whole positive one is multiplied out."""
    whole = [a for a, e in exponents.items() if a[0] == "P" and e > 0 and e.denominator == 1]
    rest = tuple(sorted((a, e) for a, e in exponents.items() if e and a not in whole))
    result: Poly = ((rest, ONE),)
    for a in sorted(whole):
        result = mul(result, power(a[1], int(exponents[a])))
    return result


def power(p: Poly, n: int) -> Poly:
    """p**n for n >= 0."""
    if n > LARGEST_POWER:
        raise TooLarge(f"the power {n}")
    result = number(1)
    for _ in range(n):
        result = mul(result, p)
    return result


def content(p: Poly, wanted: Callable[[Atom], bool]) -> Mono:
    """The largest monomial over the ``wanted`` atoms that divides every term."""
    common: dict[Atom, Fraction] | None = None
    for mono, _ in p:
        own = {a: e for a, e in mono if wanted(a)}
        if common is None:
            common = own
        else:
            keys = {*common, *own}
            common = {a: min(common.get(a, Fraction(0)), own.get(a, Fraction(0))) for a in keys}
    return tuple(sorted((a, e) for a, e in (common or {}).items() if e))


def divide(p: Poly, mono: Mono, c: Fraction = ONE) -> Poly:
    terms: list[tuple[Mono, Fraction]] = []
    for m, d in p:
        exponents = dict(m)
        for a, e in mono:
            exponents[a] = exponents.get(a, Fraction(0)) - e
        terms.extend(scale(mono_poly(exponents), d / c))
    return collect(terms)


def scalar(p: Poly) -> Fraction:
    """The positive number c with which p / c has whole coefficients without a common divisor; p is nonzero.

    A polynomial that becomes an atom is divided by it: multiples of one polynomial share an atom, and its text needs no
    fractions."""
    return Fraction(math.gcd(*(c.numerator for _, c in p)), math.lcm(*(c.denominator for _, c in p)))


def is_number(p: Poly) -> bool:
    return all(not m for m, _ in p)


def value(p: Poly) -> Fraction:
    return p[0][1] if p else Fraction(0)


def inverse(p: Poly) -> Poly:
    """1/p for nonzero p."""
    mono = content(p, lambda a: True)
    c = scalar(p) if p[0][1] > 0 else -scalar(p)
    rest = divide(p, mono, c)
    result = scale(mono_poly({a: -e for a, e in mono}), 1 / c)
    return result if is_number(rest) else mul(result, atom(("P", rest), -ONE))


def root_power(p: Poly, q: Fraction, positive: Callable[[Atom], bool]) -> Poly:
    """p**q for positive p and q not an integer; ``positive`` tells which atoms are known to be."""
    return exp(scale(log(p, positive), q))


def cancelled(p: Poly) -> Poly:
    """p without those of its divisors that divide all of it, equal wherever they are nonzero: ``(a c + c) / (a + 1)`` is c.

    Only what an exact division gives is used; anything else stays as it is."""
    for a in sorted({a for m, _ in p for a, e in m if a[0] == "P" and e < 0 and e.denominator == 1}):
        if is_number(a[1]):
            continue
        while True:
            least = min((dict(m).get(a, Fraction(0)) for m, _ in p), default=Fraction(0))
            if least >= 0 or least.denominator != 1:
                break
            above = quotient(mul(p, atom(a, -least)), a[1])
            if above is None:
                break
            p = mul(above, atom(a, least + 1)) if least != -1 else above
    return p


def quotient(p: Poly, b: Poly) -> Poly | None:
    """q with p = q b, by long division in one order of the monomials; None if there is a rest."""

    def order(mono: Mono) -> tuple[Fraction, ...]:
        exponents = dict(mono)
        return tuple(exponents.get(a, Fraction(0)) for a in atoms)

    # An inverse of an atom is a unit of the division: only a divisor's own exponents must not be negative.
    atoms = sorted({a for m, _ in (*p, *b) for a, _ in m})
    if any(e < 0 for m, _ in b for _, e in m):
        return None
    lead, c = max(b, key=lambda term: order(term[0]))
    least = {a: min(dict(m).get(a, Fraction(0)) for m, _ in p) for a in atoms} if p else {}
    found: list[tuple[Mono, Fraction]] = []
    rest = p
    while rest:
        if len(found) > LARGEST_QUOTIENT:
            return None
        top, d = max(rest, key=lambda term: order(term[0]))
        exponents = dict(top)
        for a, e in lead:
            exponents[a] = exponents.get(a, Fraction(0)) - e
        if any(exponents.get(a, Fraction(0)) < e for a, e in least.items()):
            return None
        step = (tuple(sorted((a, e) for a, e in exponents.items() if e)), d / c)
        found.append(step)
        rest = sub(rest, mul((step,), b))
    result = collect(found)
    return result if mul(result, b) == p else None


def exp(p: Poly) -> Poly:
    with suppress(TooLarge):
        p = cancelled(p)
    result = number(1)
    for mono, q in p:
        result = mul(result, exp_term(mono, q))
    return result


def exp_term(mono: Mono, q: Fraction) -> Poly:
    if len(mono) == 1 and mono[0][1] == 1 and q.denominator <= LARGEST_ROOT:
        a = mono[0][0]
        if a[0] == "L":
            return base_power(number(a[1]), q)
        if a[0] == "G":
            return base_power(a[1], q)
    return ((((("E", mono), q),), ONE),)


def base_power(base: Poly, q: Fraction) -> Poly:
    """base**q, base positive and without positive content: a number, an atom, or a sum."""
    floor = math.floor(q)
    if is_number(base) and abs(floor) <= LARGEST_NUMBER_POWER:
        root = atom(("P", base), q - floor) if q != floor else number(1)
        return scale(root, value(base) ** floor)
    if abs(floor) > LARGEST_POWER:
        raise TooLarge(f"the power {q}")
    if q == floor:
        return power(base, floor) if q > 0 else power(inverse(base), -floor)
    return atom(("P", base), q)


def log(p: Poly, positive: Callable[[Atom], bool]) -> Poly:
    """log(p) for positive p."""
    mono = content(p, positive)
    c = scalar(p)
    rest = divide(p, mono, c)
    result = log_number(c)
    for a, e in mono:
        result = add(result, scale(log_atom(a), e))
    if rest == number(1):
        return result
    if any(e < 0 for m, _ in rest for _, e in m):
        raise TooLarge("the logarithm or root of a quotient whose divisor has no known sign")
    return add(result, atom(("G", rest)))


def log_atom(a: Atom) -> Poly:
    if a[0] == "E":
        return ((a[1], ONE),)
    if a[0] == "P":
        return log_number(value(a[1])) if is_number(a[1]) else atom(("G", a[1]))
    return atom(("G", atom(a)))


def log_number(c: Fraction) -> Poly:
    return sub(log_integer(c.numerator), log_integer(c.denominator))


def log_integer(n: int) -> Poly:
    """log(n) by the small primes of n; what is left over is an atom of its own."""
    terms: list[tuple[Mono, Fraction]] = []
    for prime in (2, 3, 5, 7, 11, 13):
        count = 0
        while n % prime == 0:
            n, count = n // prime, count + 1
        if count:
            terms.append((((("L", prime), ONE),), Fraction(count)))
    if n > 1:
        terms.append((((("L", n), ONE),), ONE))
    return collect(terms)

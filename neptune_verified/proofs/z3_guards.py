"""Trusted: guards of the Z3 route's cases, and what they say about the sign of a polynomial.

A guard is a conjunction of literals "key is one of these outcomes", where a key is the kind of a symbol, the truth of a
symbol, or the sign of a polynomial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from neptune_verified.proofs import z3_poly as P

#: -1, 0, 1; outcomes of a guard hold them beside the names of kinds.
Sign = Any
#: ("kind", k), ("truth", k) or ("sign", poly)
Key = tuple[str, object]
Guard = dict[Key, frozenset[Sign]]
#: ("undefined",) | ("inf", 1 | -1) | ("real", poly) | ("bool", b) | ("opaque", reason)
Value = tuple[object, ...]
Case = tuple[Guard, Value]
ALL_SIGNS: frozenset[Sign] = frozenset((-1, 0, 1))


def meet(g: Guard, h: Guard) -> Guard | None:
    """Both guards, or None when they exclude each other."""
    if not g or not h:
        return h or g
    small, large = (g, h) if len(g) <= len(h) else (h, g)
    result = dict(large)
    for key, outcomes in small.items():
        both = outcomes & result.get(key, outcomes)
        if not both:
            return None
        result[key] = both
    return result


class Signs:
    """Signs of polynomials, given those that each symbol can have."""

    def __init__(self, signs: Sequence[frozenset[Sign]]) -> None:
        self.signs = signs

    def positive(self, guard: Guard) -> Callable[[P.Atom], bool]:
        return lambda a: self.atom_signs(a, guard) == {1}

    def atom_signs(self, a: P.Atom, guard: Guard) -> frozenset[Sign]:
        """The signs that an atom can have; a P atom under a whole power is read as its polynomial."""
        if a[0] in ("E", "L"):
            return frozenset((1,))
        if a[0] == "s":
            return self.signs[a[1]] & guard.get(("sign", P.atom(a)), ALL_SIGNS)
        return self.poly_signs(a[1], guard) if a[0] == "P" else ALL_SIGNS

    def mono_signs(self, mono: P.Mono, c: Fraction, guard: Guard) -> frozenset[Sign]:
        result: set[Sign] = {1 if c > 0 else -1}
        for a, e in mono:
            if e.denominator == 1:
                signs = {(s * s if e.numerator % 2 == 0 else s) for s in self.atom_signs(a, guard)}
                result = {r * s for r in result for s in signs}
        return frozenset(result)

    def poly_signs(self, p: P.Poly, guard: Guard) -> frozenset[Sign]:
        if not p:
            return frozenset((0,))
        total: set[Sign] = {0}
        for mono, c in p:
            own = self.mono_signs(mono, c, guard)
            total = {z for x in total for y in own for z in sum_signs(x, y)}
            if total == ALL_SIGNS:
                break
        key, flip = self.sign_key(p, guard)
        if not key[1]:
            return frozenset((0,))
        known = guard.get(key, ALL_SIGNS)
        return frozenset(total & {-s if flip else s for s in known})

    def sign_key(self, p: P.Poly, guard: Guard) -> tuple[Key, bool]:
        """The literal that the sign of p is about: positive factors dropped, first coefficient made 1."""
        rest = P.divide(p, P.content(p, self.positive(guard)), abs(p[0][1]))
        flip = bool(rest) and rest[0][1] < 0
        return ("sign", P.scale(rest, Fraction(-1)) if flip else rest), flip

    def split(self, p: P.Poly, guard: Guard, *groups: tuple[int, ...]) -> Iterator[tuple[Guard, int]]:
        """One refined guard per group of signs that p can have, with the group's position."""
        possible = self.poly_signs(p, guard)
        live = [(k, possible & frozenset(group)) for k, group in enumerate(groups)]
        live = [(k, signs) for k, signs in live if signs]
        if len(live) == 1:
            yield guard, live[0][0]
            return
        key, flip = self.sign_key(p, guard)
        for k, signs in live:
            yield {**guard, key: frozenset(-s for s in signs) if flip else signs}, k


def sum_signs(x: object, y: object) -> tuple[int, ...]:
    if x == 0 or y == 0 or x == y:
        return (y if x == 0 else x,)  # type: ignore[return-value]
    return (-1, 0, 1)


def merged(cases: list[Case]) -> list[Case]:
    """Join cases of one value whose guards differ in one literal."""
    groups: dict[Value, list[Guard]] = {}
    for guard, value in cases:
        groups.setdefault(value, []).append(guard)
    result: list[Case] = []
    for value, guards in groups.items():
        joined: list[Guard] = []
        for guard in guards:
            joined = join(joined, guard)
        result.extend((g, value) for g in joined)
    return result


def join(guards: list[Guard], new: Guard) -> list[Guard]:
    for k, old in enumerate(guards):
        if len(old) == len(new) and old.keys() == new.keys():
            differ = [key for key in old if old[key] != new[key]]
            if len(differ) <= 1:
                rest = guards[:k] + guards[k + 1 :]
                wider = {key: old[key] | new[key] for key in old}
                return join(rest, {key: outcomes for key, outcomes in wider.items() if not full(key, outcomes)})
    return [*guards, new]


def full(key: Key, outcomes: frozenset[Sign]) -> bool:
    return key[0] == "sign" and outcomes == ALL_SIGNS

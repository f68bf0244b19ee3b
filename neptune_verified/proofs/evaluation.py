"""Trusted: which subterms a term evaluates, and under which conditions.

Statements take elements and producers to be defined. That is right where an undefined one makes the *definition*
undefined, so that nothing is claimed; it is wrong where the fused program evaluates a value that the definition leaves
alone (``select`` does not evaluate its other branch). Hence three rules, each a plain look at where a value stands:

* a producer that can be undefined must be evaluated by the consumer's term for every element;
* an element that can be undefined may stand under conditions on a running value only if it also stands outside of them;
* a hoist may evaluate such a value only where the old term does.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from neptune_verified.ir.expr import Expr, Op, Reduce, Var, children, subterms, transform
from neptune_verified.proofs.abstract import UnsupportedTerm

Guards = frozenset[tuple[Expr, bool]]
_LIMIT = 64


def evaluated(e: Expr) -> dict[Expr, set[Guards]]:
    """For each subterm of ``e``, the sets of select conditions under which it is evaluated (the least of them)."""
    found: dict[Expr, set[Guards]] = {x: set() for x in subterms(e)}
    found[e] = {frozenset()}
    for x in reversed(subterms(e)):
        for position, kid in enumerate(children(x)):
            extra: Guards = frozenset()
            if isinstance(x, Op) and x.name == "select" and position:
                extra = frozenset({(x.args[0], position == 1)})
            elif isinstance(x, Reduce):
                extra = frozenset({(x, True)})  # only if its domain is not empty
            found[kid] |= {g | extra for g in found[x]}
            found[kid] = {g for g in found[kid] if not any(h < g for h in found[kid])}
            if len(found[kid]) > _LIMIT:
                raise UnsupportedTerm("the term has too many conditions")
    return found


def require_same_evaluation(
    g: Expr, running: Iterable[Var], undefinable: Iterable[Var], producers: Iterable[Var]
) -> None:
    """The first two rules, for a term ``g`` over ``running`` symbols. Raises UnsupportedTerm."""
    where = evaluated(g)
    fixed = set(running)
    for p in producers:
        if frozenset() not in where.get(p, {frozenset()}):
            raise UnsupportedTerm(f"{p.name} can be undefined, and the term does not read it for every element")
    for c in undefinable:
        for guards in where.get(c, ()):
            free = frozenset(x for x in guards if not fixed & set(subterms(x[0])))
            if not any(other <= free for other in where[c]):
                raise UnsupportedTerm("whether a value that can be undefined is evaluated depends on a running value")


def require_hoistable(template: Expr, old: Expr, inner: dict[Var, Expr], undefinable: Iterable[Var]) -> None:
    """The third rule. ``inner`` gives each slot's reduced term; all terms are over the same symbols."""
    risky = set(undefinable)
    conditions = list(dict.fromkeys(x.args[0] for x in subterms(template) if isinstance(x, Op) and x.name == "select"))
    if len(conditions) > 4:
        raise UnsupportedTerm("the hoisted factor has too many conditions")
    for values in product((True, False), repeat=len(conditions)):
        path = dict(zip(conditions, values, strict=True))
        taken, original = _resolve(template, path), evaluated(_resolve(old, path))
        read = {x for e in (taken, *conditions) for x in subterms(e)}
        _require(read & risky, frozenset(), original, evaluated(old))
        for slot in set(subterms(taken)) & set(inner):
            assert isinstance(slot, Var)
            for c, sets in evaluated(_resolve(inner[slot], path)).items():
                for guards in sets if c in risky else ():
                    _require({c}, guards, original, evaluated(old))


def _require(values: set[Expr], guards: Guards, *where: dict[Expr, set[Guards]]) -> None:
    for c in values:
        if not any(g <= guards for places in where for g in places.get(c, ())):
            raise UnsupportedTerm("hoisting would evaluate a value that can be undefined where the definition does not")


def _resolve(e: Expr, path: dict[Expr, bool]) -> Expr:
    """``e`` with the selects on the path's conditions decided."""

    def fn(x: Expr) -> Expr | None:
        if isinstance(x, Op) and x.name == "select" and x.args[0] in path:
            return _resolve(x.args[1] if path[x.args[0]] else x.args[2], path)
        return None

    return transform(e, fn)

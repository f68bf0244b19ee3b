"""Not trusted: wrong repair functions and wrong guards, by small edits of right ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

from neptune_verified.ir.expr import (
    FLOATS,
    INF,
    Const,
    Expr,
    Op,
    Var,
    const,
    contains,
    op,
    substitute,
    subterms,
    var,
)
from neptune_verified.ir.loops import Carried, Guard, LoopProgram, Pass, Repair, T, symbols
from neptune_verified.mutants.model import Mutant, StartsAt, World, edit_carried, put_carried

Edit = tuple[str, str, Repair]
#: Edits that change nothing if a fact holds that is derived for some producers and not for others.
RISING, FALLING = "relies on a producer that never falls", "relies on a producer that never rises"


def repair_mutants(program: str, loops: LoopProgram) -> Iterator[Mutant]:
    """Every edit of every repair of a loop program."""
    for nest in loops.nests:
        for p in nest.passes:
            for c in p.carried:
                if c.repair is not None and c.repair.producers:
                    yield from _of(program, loops, p, c)
                yield from _starts(program, loops, c)


def _of(program: str, loops: LoopProgram, p: Pass, c: Carried) -> Iterator[Mutant]:
    assert c.repair is not None
    repair = c.repair
    producers = [q for q in p.carried if q.name in repair.producers]
    where = f"{c.name} over {', '.join(repair.producers)}"
    seen = {repair}
    for group, edits in (("repair", _h_edits(c, repair, producers)), ("guard", _guard_edits(repair, producers))):
        for kind, what, changed in edits:
            if changed not in seen:
                seen.add(changed)
                mutated = put_carried(loops, c.name, repair=changed)
                of = "fact" if kind.startswith("relies on") else group
                yield Mutant(program, of, kind, f"{where}{', ' if what else ''}{what}", mutated)
    if repair.guards:
        yield Mutant(program, "guard", "guard in the term alone", where, loops, World(bare_repair=c.name))


# ------------------------------------------------------------------------------------------------- h


def _h_edits(c: Carried, repair: Repair, producers: list[Carried]) -> Iterator[Edit]:
    t, h = var(T, c.value.dtype), repair.h
    one = const(1, h.dtype)
    pairs = [symbols(q) for q in producers]
    swap: dict[Expr, Expr] = {a: b for old, new in pairs for a, b in ((old, new), (new, old))}

    def with_h(kind: str, e: Expr, what: str = "") -> Edit:
        return kind, what, replace(repair, h=e)

    yield with_h("nothing repaired", t)
    yield with_h("old and new exchanged", substitute(h, swap))
    yield with_h("step doubled", substitute(h, {t: h}))
    yield with_h("accumulator forgotten", c.neutral)
    yield with_h("result doubled", op("add", h, h))
    yield with_h("result negated", op("neg", h))
    yield with_h("constant added to the result", op("add", h, one))
    yield with_h("result off by a millionth", op("mul", h, const(Fraction(1_000_001, 1_000_000), h.dtype)))
    yield with_h("accumulator cut off at 1", substitute(h, {t: op("min", t, one)}))
    yield with_h("accumulator's sign lost", substitute(h, {t: op("abs", t)}))
    for q, (old, new) in zip(producers, pairs, strict=True):
        yield with_h("producer stale", substitute(h, {new: old}), q.name)
        yield with_h("producer read too early", substitute(h, {old: new}), q.name)
        neutral = q.neutral
        if isinstance(neutral, Const) and isinstance(neutral.value, float):
            for value in (5, -5):
                h_dead = op("select", op("eq", old, neutral), const(value, h.dtype), h)
                changed = replace(repair, h=h_dead, keep_neutral=False, hold=False)
                yield "a constant while nothing was seen", f"{q.name}, {value}", changed
        if len(producers) > 1:
            yield with_h("old and new exchanged for one producer", substitute(h, {old: new, new: old}), q.name)
        for other in producers:
            if other is not q and other.value.dtype == q.value.dtype:
                a, b = symbols(other)
                yield with_h(
                    "one producer read for another", substitute(h, {old: a, new: b}), f"{other.name} for {q.name}"
                )
    for kind, place, e in _places(h):
        yield with_h(kind, e, place)


def _places(h: Expr) -> Iterator[tuple[str, str, Expr]]:
    """One node changed, everywhere that it occurs."""
    for x in subterms(h):
        for kind, new in _node(x):
            changed = substitute(h, {x: new})
            if changed is not h and contains(changed, [v for v in subterms(h) if isinstance(v, Var) and v.name == T]):
                yield kind, "", changed


def _node(x: Expr) -> Iterator[tuple[str, Expr]]:
    match x:
        case Op("exp" | "exp2" as name, (a,)):
            yield "sign of the exponent", op(name, op("neg", a))
            yield "exponential dropped", a
            yield "exponent doubled", op(name, op("add", a, a))
            yield f"{FALLING} (exponent)", op(name, op("max", a, const(0, a.dtype)))
            yield f"{RISING} (exponent)", op(name, op("min", a, const(0, a.dtype)))
            yield "another base", op("exp2" if name == "exp" else "exp", a)
        case Op("mul", (a, b)):
            yield "factor dropped", a
            yield "factor dropped", b
            yield "product becomes a quotient", op("div", a, b)
            yield "product becomes a sum", op("add", a, b)
        case Op("div", (a, b)):
            yield "divisor dropped", a
            yield "quotient turned over", op("div", b, a)
            yield "quotient becomes a product", op("mul", a, b)
            yield f"{RISING} (quotient)", op("min", x, const(1, x.dtype))
            yield f"{FALLING} (quotient)", op("max", x, const(1, x.dtype))
        case Op("add" | "sub" as name, (a, b)):
            yield "term dropped", a
            yield "sum becomes a difference and back", op({"add": "sub", "sub": "add"}[name], a, b)
            if name == "sub":
                yield "difference turned over", op("sub", b, a)
        case Op("pow", (a, b)):
            yield "power dropped", a
            yield "power off by one", op("pow", a, op("add", b, const(1, b.dtype)))
        case Op("sqrt" | "rsqrt", (a,)):
            yield "root dropped", a
        case Const(value, dtype) if dtype in FLOATS and not isinstance(value, float):
            yield "constant perturbed", const(Fraction(value) + 1, dtype)
            yield "constant perturbed", const(Fraction(value) * Fraction(3, 2), dtype)
        case _:
            return


# ------------------------------------------------------------------------------------------------- guards


def _guard_edits(repair: Repair, producers: list[Carried]) -> Iterator[Edit]:
    guards = {g.producer: g for g in repair.guards}
    for q in producers:
        others = tuple(g for g in repair.guards if g.producer != q.name)
        own = guards.get(q.name)

        def put(*points: str, value: Fraction, others: tuple[Guard, ...] = others, name: str = q.name) -> Repair:
            return replace(repair, guards=(*others, Guard(name, points, value)))

        if q.value.dtype not in FLOATS:
            continue
        if own is None:
            yield "guard where none is needed", f"{q.name} at -inf", put("-inf", value=Fraction(0))
            yield "guard at a live value", f"{q.name} at 0", put("zero", value=Fraction(1))
            continue
        yield "guard dropped", q.name, replace(repair, guards=others)
        h = substitute(repair.h, {new: own.apply(new) for new in (symbols(q)[1],)})
        yield "guard in h alone", q.name, replace(repair, guards=others, h=h)
        for point in own.points:
            kept = tuple(p for p in own.points if p != point)
            if kept:
                yield "guard point dropped", f"{q.name}, {point}", put(*kept, value=own.value)
            wrong = {"-inf": "+inf", "+inf": "-inf", "zero": "-inf"}[point]
            points = tuple(dict.fromkeys(wrong if p == point else p for p in own.points))
            yield "guard at another point", f"{q.name}, {wrong} for {point}", put(*points, value=own.value)
        if "zero" not in own.points:
            yield "guard at a live value", f"{q.name} at 0", put(*own.points, "zero", value=Fraction(1))
            live = put(*own.points, "zero", value=Fraction(1))
            yield "guard at a live value, old values too", f"{q.name} at 0", replace(live, guard_old=True)
            yield "guard at a live value, as itself", f"{q.name} at 0", put(*own.points, "zero", value=Fraction(0))
        for value in (own.value + 1, own.value - 1, own.value - 50_000):
            yield "guard with another value", f"{q.name} as {value}", put(*own.points, value=value)
    if repair.guards:
        yield "guard_old flipped", "", replace(repair, guard_old=not repair.guard_old)
    yield "keep_neutral flipped", "", replace(repair, keep_neutral=not repair.keep_neutral)
    yield "hold flipped", "", replace(repair, hold=not repair.hold)


# ------------------------------------------------------------------------------------------------- initial values


def _starts(program: str, loops: LoopProgram, c: Carried) -> Iterator[Mutant]:
    """The accumulator starts at another value, a finite stand-in for an infinite one among them."""
    neutral = c.neutral
    assert isinstance(neutral, Const)
    values: dict[str, float] = {"1": 1, "0": 0, "-1": -1, "-inf": -INF, "+inf": INF}
    if neutral.value in (INF, -INF):
        values["a finite stand-in"] = -65504.0 if neutral.value == -INF else 65504.0
    for text, value in values.items():
        start = const(value, c.value.dtype)
        if start is not neutral:
            mutated = edit_carried(loops, c.name, starting(start))
            yield Mutant(program, "start", f"accumulator starts at {text}", c.name, mutated)


def starting(start: Expr) -> Callable[[Carried], Carried]:
    return lambda c: StartsAt(c.name, c.value, c.axes, c.repair, start=start)


__all__ = ["repair_mutants", "starting"]

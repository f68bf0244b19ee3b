"""Not trusted: wrong hoists, wrong moves into a producer's pass, facts that nobody gave, wrong combines and reducers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from neptune_verified.fusion.fuse import fuse
from neptune_verified.ir.expr import (
    REDUCERS,
    Const,
    Expr,
    Op,
    Reduce,
    Reducer,
    const,
    op,
    reduce_,
    size,
    substitute,
    subterms,
    var,
)
from neptune_verified.ir.inline import inline
from neptune_verified.ir.loops import Carried, Guard, Hoist, LoopProgram, Nest, Output, Repair
from neptune_verified.ir.program import Assumption
from neptune_verified.mutants.model import Combine, Mutant, Operation, Side, World, put_nest
from neptune_verified.mutants.programs import F, add, div, exp, mul, num, sub, turn

ZERO_AS_ONE = (Guard("s", ("zero",), Fraction(1)),)


def special_mutants(program: str, loops: LoopProgram, splits: bool) -> Iterator[Mutant]:
    yield from _hoists(program, loops)
    yield from _moves(program, loops)
    yield from _facts(program, loops)
    if splits:
        yield from _combines(program, loops)
    yield from _reducers(program, loops)


# ------------------------------------------------------------------------------------------------- hoists


def _hoists(program: str, loops: LoopProgram) -> Iterator[Mutant]:
    for nest in loops.nests:
        for h in nest.hoists:
            for kind, changed in _hoist_edits(h):
                mutated = rehoisted(loops, nest, tuple(changed if x is h else x for x in nest.hoists))
                yield Mutant(program, "hoist", kind, h.name, mutated)
        for kind, name, template, body in HOISTS.get(program, ()):
            c = next(c for c in nest.carried() if c.name == name)
            inner = reduce_(c.value.reducer, c.value.axes, body(c.value, nest))
            hoist = Hoist(name, c.value, template(var("X0", F), c.value, nest), (inner,))
            mutated = rehoisted(loops, nest, (*nest.hoists, hoist), {name: inner})
            yield Mutant(program, "hoist", kind, name, mutated)


def rehoisted(
    loops: LoopProgram, nest: Nest, hoists: tuple[Hoist, ...], values: dict[str, Reduce] | None = None
) -> LoopProgram:
    """The nest with other hoists; its outputs follow from them, as the structure check wants it. ``values`` are carried
    instead of what their accumulators carried, without a repair."""
    closed = inline(loops.program)

    def out(o: Output) -> Output:
        axes, e = closed.outputs[o.name]
        e = substitute(e, dict(zip(axes, o.axes, strict=True)))
        for h in hoists:
            e = substitute(e, {h.old: h.new})
        return replace(o, expr=e)

    def carried(c: Carried) -> Carried:
        return replace(c, value=values[c.name], repair=None) if values and c.name in values else c

    passes = tuple(
        replace(p, carried=tuple(map(carried, p.carried)), stores=tuple(map(out, p.stores))) for p in nest.passes
    )
    new = replace(nest, hoists=hoists, passes=passes, outputs=tuple(map(out, nest.outputs)))
    return put_nest(loops, nest, new)


def _hoist_edits(h: Hoist) -> Iterator[tuple[str, Hoist]]:
    t = h.template
    for x in subterms(t):
        for kind, new in _template_node(x):
            yield kind, replace(h, template=substitute(t, {x: new}))
    yield "hoisted twice", replace(h, template=substitute(t, {h.slots()[0]: t}))
    for k, r in enumerate(h.inner):
        for kind, inner in (
            (
                "inner reduction out of the wrong reducer",
                reduce_("max" if r.reducer != "max" else "sum", r.axes, r.body),
            ),
            ("inner term doubled", reduce_(r.reducer, r.axes, add(r.body, r.body))),
            ("inner term is the whole term", h.old),
        ):
            yield kind, replace(h, inner=tuple(inner if n == k else other for n, other in enumerate(h.inner)))
    axis_read = op("cast", h.old.axes[0], dtype=F)
    yield "factor depends on the axis", replace(h, template=mul(t, axis_read))


def _template_node(x: Expr) -> Iterator[tuple[str, Expr]]:
    match x:
        case Op("select", (condition, a, b)):
            yield "guard dropped", b
            yield "only the guard left", a
            yield "branches exchanged", op("select", condition, b, a)
        case Op("div", (a, b)):
            yield "factor inverted", mul(a, b)
            yield "factor dropped", a
            yield "quotient turned over", div(b, a)
        case Op("eq", (a, Const(value, dtype))) if dtype == F and not isinstance(value, float):
            yield "guard at another point", op("eq", a, const(Fraction(value) + 1, dtype))
        case Op("eq", (a, b)):
            yield "guard at another point", op("ne", a, b)
        case Const(value, dtype) if dtype == F and not isinstance(value, float):
            yield "constant perturbed", const(Fraction(value) + 1, dtype)
        case _:
            return


def _value(nest: Nest, name: str) -> Reduce:
    return next(c.value for c in nest.carried() if c.name == name)


def _element(r: Reduce) -> Expr:
    """The x of the term."""
    return next(e for e in subterms(r.body) if getattr(e, "tensor", "") == "x")


def _square(r: Reduce) -> Expr:
    return mul(_element(r), _element(r))


Part = Callable[[Expr, Reduce, Nest], Expr]
#: program -> (kind, accumulator, template over X0, term that stays)
HOISTS: dict[str, list[tuple[str, str, Part, Callable[[Reduce, Nest], Expr]]]] = {
    "signed_max": [
        ("hoisted out of a max, sign unknown", "a", lambda x, r, n: div(x, _value(n, "s")), lambda r, n: _element(r)),
    ],
    "scaled_max": [
        ("hoisted out of a max, no guard", "a", lambda x, r, n: div(x, _value(n, "s")), lambda r, n: _element(r)),
    ],
    "waves": [
        ("hoisted out of a function", "a", lambda x, r, n: mul(x, _value(n, "s")), lambda r, n: op("cos", _element(r))),
    ],
    "softplus": [
        (
            "hoisted out of a function", "a", lambda x, r, n: div(x, exp(_value(n, "m"))),
            lambda r, n: op("log", add(num(1), exp(_element(r)))),
        ),
    ],
    "scaled_norm": [
        ("one factor of two hoisted", "s", lambda x, r, n: div(x, _value(n, "r")), lambda r, n: _square(r)),
    ],
    "centred_max": [
        ("summand hoisted out of a max, no guard", "a", lambda x, r, n: sub(x, _mean(n)), lambda r, n: _element(r)),
    ],
    "variance": [
        ("summand hoisted out of a square", "q", lambda x, r, n: sub(x, mul(_mean(n), _mean(n))), lambda r, n: _square(r)),
    ],
    "distances": [
        ("summand hoisted out of a sum", "a", lambda x, r, n: sub(x, _mean(n)), lambda r, n: op("abs", _element(r))),
    ],
}  # fmt: skip


def _mean(n: Nest) -> Expr:
    return div(_value(n, "s"), op("cast", size("N"), dtype=F))


# ------------------------------------------------------------------------------------------------- moves


def _symbols(name: str) -> tuple[Expr, Expr, Expr]:
    return var("t", F), var(name, F), var(f"{name}_new", F)


def _moves(program: str, loops: LoopProgram) -> Iterator[Mutant]:
    """A consumer that needs a pass of its own goes into its producer's, with a repair that looks right."""
    for nest in loops.nests:
        for name, kind, repair in _wrong_moves(program):
            if len(nest.passes) != 2:
                continue
            first, second = nest.passes
            moved = next(c for c in second.carried if c.name == name)
            merged = replace(first, carried=(*first.carried, replace(moved, repair=repair)))
            rest = tuple(c for c in second.carried if c is not moved)
            passes = (merged, replace(second, carried=rest)) if rest or second.stores else (merged,)
            mutated = put_nest(loops, nest, replace(nest, passes=passes))
            yield Mutant(program, "move", f"moved into its producer's pass: {kind}", name, mutated)


def _wrong_moves(program: str) -> Iterator[tuple[str, str, Repair]]:
    if program in ("signed_max", "waves", "distances", "variance"):
        name = "q" if program == "variance" else "a"
        t, s, s_new = _symbols("s")
        n = op("cast", size("N"), dtype=F)
        shift = div(sub(s, s_new), n)
        yield name, "nothing repaired", Repair(("s",), t)
        yield name, "ratio", Repair(("s",), mul(t, div(s, s_new)))
        yield name, "guarded ratio", Repair(("s",), mul(t, div(s, s_new)), ZERO_AS_ONE, True, True)
        yield name, "inverse ratio", Repair(("s",), mul(t, div(s_new, s)), ZERO_AS_ONE, True, True)
        yield name, "ratio without its sign", Repair(("s",), mul(t, op("abs", div(s, s_new))), ZERO_AS_ONE, True, True)
        yield name, "shift", Repair(("s",), add(t, shift), (), False, True)
        yield name, "square of the shift", Repair(("s",), add(t, mul(shift, shift)))
        yield name, "square of the shift, counted", Repair(("s",), add(t, mul(n, mul(shift, shift))))
    if program == "turned_max":
        t, s, s_new = _symbols("s")
        yield "a", "nothing repaired", Repair(("s",), t)
        yield "a", "turned", Repair(("s",), mul(t, mul(turn(s), turn(s_new))), (), False, True)
    if program in ("softplus", "clipped"):
        t, m, m_new = _symbols("m")
        guards = (Guard("m", ("-inf",) if program == "softplus" else ("+inf",), Fraction(0)),)
        shift = sub(m, m_new)
        yield "a", "nothing repaired", Repair(("m",), t)
        yield "a", "factor", Repair(("m",), mul(t, exp(shift)), guards)
        yield "a", "shift", Repair(("m",), add(t, shift), guards, True)
        yield "a", "shift cut off at 0", Repair(("m",), op("max", add(t, shift), num(0)), guards, True)
        inverse = op("log", add(num(1), mul(sub(exp(t), num(1)), exp(shift))))
        yield "a", "inverse of one term", Repair(("m",), inverse, guards, True)


# ------------------------------------------------------------------------------------------------- facts


def _facts(program: str, loops: LoopProgram) -> Iterator[Mutant]:
    """What the compiler makes of the definition if it takes a fact for granted that nobody declared."""
    true = loops.program
    for t in true.inputs:
        for kind in ("positive", "nonnegative", "nonzero"):
            if any(a.subject == t.name for a in true.assumptions) or t.dtype != F:
                continue
            invented = replace(true, assumptions=(*true.assumptions, Assumption(kind, t.name)))
            mutated = replace(fuse(invented), program=true)
            if mutated.nests != loops.nests:
                yield Mutant(program, "fact", f"{kind} input invented", t.name, mutated)
    for fact in true.assumptions:
        # The definition without the fact is another program; what was compiled with it is wrong for it.
        weaker = replace(true, assumptions=tuple(a for a in true.assumptions if a is not fact))
        yield Mutant(
            program, "fact", "loop program of a stronger definition", str(fact), replace(loops, program=weaker)
        )


# ------------------------------------------------------------------------------------------------- splits


KEEP, DROP, RIGHT = Side(how="keep"), Side(how="drop"), Side()
COMBINES: dict[str, Combine] = {
    "left side not repaired": Combine(KEEP, RIGHT),
    "right side not repaired": Combine(RIGHT, KEEP),
    "neither side repaired": Combine(KEEP, KEEP),
    "left side dropped": Combine(DROP, RIGHT),
    "right side dropped": Combine(RIGHT, DROP),
    "repaired to the right producer": Combine(Side(target="other"), Side(target="own")),
    "repaired to the left producer": Combine(Side(target="own"), Side(target="other")),
    "repaired from the other's producer": Combine(Side(source="other"), Side(source="other")),
    "repaired backwards": Combine(Side("joined", "own"), Side("joined", "own")),
}


def _combines(program: str, loops: LoopProgram) -> Iterator[Mutant]:
    if any(c.repair for nest in loops.nests for c in nest.carried()):
        for kind, combine in COMBINES.items():
            yield Mutant(program, "combine", f"combine: {kind}", "", loops, World(combine=combine))


# ------------------------------------------------------------------------------------------------- reducers


def _reducers(program: str, loops: LoopProgram) -> Iterator[Mutant]:
    """Two partial results joined by an operation that is no monoid with that neutral element."""
    if program not in ("logsumexp", "min_shift", "powers", "log_add", "rms_amax"):
        return
    half = Fraction(1, 2)
    operations: dict[str, tuple[Callable[[Expr, Expr], Expr], Operation]] = {
        "the left one kept": (lambda x, y: x, lambda a, b: a),
        "the right one kept": (lambda x, y: y, lambda a, b: b),
        "their difference": (lambda x, y: op("sub", x, y), lambda a, b: a - b),
        "their mean": (lambda x, y: mul(const(half, x.dtype), add(x, y)), lambda a, b: 0.5 * (a + b)),
        "one added each time": (
            lambda x, y: add(add(x, y), const(1, x.dtype)), lambda a, b: np.asarray(a + b + 1),
        ),
    }  # fmt: skip
    for reducer in dict.fromkeys(c.value.reducer for nest in loops.nests for c in nest.carried()):
        for kind, (combine, operation) in operations.items():
            entry = Reducer(reducer, combine, REDUCERS[reducer].neutral)
            world = World(reducer=(reducer, entry, operation))
            yield Mutant(program, "reducer", f"two partial results: {kind}", reducer, loops, world)


__all__ = ["special_mutants"]

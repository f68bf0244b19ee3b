"""Not trusted: wrong orders of steps, passes, outputs, reduced terms and domains."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from neptune_verified.ir.expr import FLOATS, INF, Const, Expr, Op, Reduce, const, op, reduce_, substitute, subterms
from neptune_verified.ir.loops import Carried, LoopProgram, Nest, Output, Pass
from neptune_verified.mutants.model import Mutant, put_carried, put_nest

Found = Iterator[tuple[str, str, str, LoopProgram]]


def shape_mutants(program: str, loops: LoopProgram) -> Iterator[Mutant]:
    seen = {loops}
    for edits in (_orders, _passes, _outputs, _values):
        for group, kind, what, changed in edits(loops):
            if changed not in seen:
                seen.add(changed)
                yield Mutant(program, group, kind, what, changed)


def _with_passes(loops: LoopProgram, nest: Nest, *passes: Pass) -> LoopProgram:
    return put_nest(loops, nest, replace(nest, passes=passes))


def _orders(loops: LoopProgram) -> Found:
    for nest in loops.nests:
        for k, p in enumerate(nest.passes):
            for c in p.carried:
                others = tuple(q for q in p.carried if q is not c)

                def put(*carried: Carried, k: int = k, p: Pass = p, nest: Nest = nest) -> LoopProgram:
                    return _with_passes(
                        loops, nest, *nest.passes[:k], replace(p, carried=carried), *nest.passes[k + 1 :]
                    )

                copy = replace(c, name=f"{c.name}_copy")
                yield "order", "reduction carried twice", c.name, put(*p.carried, copy)
                yield (
                    "order",
                    "two accumulators of one name",
                    c.name,
                    put(*p.carried, replace(others[0] if others else c, name=c.name)),
                )
                if c.repair is None:
                    if any(q.repair and c.name in q.repair.producers for q in others):
                        yield "order", "producer not carried", c.name, put(*others)
                        yield "order", "producer after its consumer", c.name, put(*others, c)
                    continue
                yield "order", "consumer before its producer", c.name, put(c, *others)
                for name in c.repair.producers:
                    left = tuple(n for n in c.repair.producers if n != name)
                    yield (
                        "order",
                        "producer not named",
                        f"{c.name} over {name}",
                        put_carried(loops, c.name, repair=replace(c.repair, producers=left)),
                    )


def _passes(loops: LoopProgram) -> Found:
    for nest in loops.nests:
        if len(nest.passes) > 1:
            yield "pass", "passes exchanged", "", _with_passes(loops, nest, *reversed(nest.passes))
        for k, p in enumerate(nest.passes):
            before, after = nest.passes[:k], nest.passes[k + 1 :]
            for c in (c for c in p.carried if c.repair is not None):
                rest = replace(p, carried=tuple(q for q in p.carried if q is not c))
                alone = replace(p, carried=(c,), stores=())
                bare = replace(alone, carried=(replace(c, repair=None),))
                yield (
                    "pass",
                    "consumer in a later pass, still repaired",
                    c.name,
                    _with_passes(loops, nest, *before, rest, alone, *after),
                )
                yield (
                    "pass",
                    "consumer in an earlier pass, not repaired",
                    c.name,
                    _with_passes(loops, nest, *before, bare, rest, *after),
                )
                yield (
                    "pass",
                    "consumer in its producer's pass, not repaired",
                    c.name,
                    put_carried(loops, c.name, repair=None),
                )
            if p.stores and k:
                first, last = nest.passes[k - 1], replace(p, stores=())
                moved = (*nest.passes[: k - 1], replace(first, stores=p.stores), last, *after)
                yield "pass", "stored a pass too early", p.stores[0].name, _with_passes(loops, nest, *moved)
            for a in p.stream:
                shorter = replace(p, stream=tuple(b for b in p.stream if b is not a))
                yield "pass", "stream axis dropped", a.name, _with_passes(loops, nest, *before, shorter, *after)


# ------------------------------------------------------------------------------------------------- outputs


def _outputs(loops: LoopProgram) -> Found:
    for nest in loops.nests:
        for out in nest.outputs:
            rest = tuple(o for o in nest.outputs if o is not out)
            for kind, what, changed in _output_edits(nest, out):
                yield "output", kind, what, put_nest(loops, nest, replace(nest, outputs=(*rest, changed)))
            yield "output", "output missing", out.name, put_nest(loops, nest, replace(nest, outputs=rest))
            yield (
                "output",
                "output written twice",
                out.name,
                put_nest(loops, nest, replace(nest, outputs=(*nest.outputs, out))),
            )
        if len(nest.outputs) > 1:
            a, b, *more = nest.outputs
            swapped = (replace(a, name=b.name), replace(b, name=a.name), *more)
            yield (
                "output",
                "outputs exchanged",
                f"{a.name}, {b.name}",
                put_nest(loops, nest, replace(nest, outputs=swapped)),
            )
        for k, p in enumerate(nest.passes):
            for out in p.stores:
                for kind, what, changed in _output_edits(nest, out):
                    stored = replace(p, stores=tuple(changed if o is out else o for o in p.stores))
                    yield (
                        "output",
                        kind,
                        what,
                        _with_passes(loops, nest, *nest.passes[:k], stored, *nest.passes[k + 1 :]),
                    )


def _output_edits(nest: Nest, out: Output) -> Iterator[tuple[str, str, Output]]:
    e = out.expr
    yield "output negated", out.name, replace(out, expr=op("neg", e))
    if len(out.axes) > 1:
        yield "output's axes exchanged", out.name, replace(out, axes=tuple(reversed(out.axes)))
    carried = nest.carried()
    for c in carried:
        for other in carried:
            if other is not c and other.value.dtype == c.value.dtype:
                changed = substitute(e, {c.value: other.value})
                yield "another result read", f"{out.name}: {other.name} for {c.name}", replace(out, expr=changed)
    for x in subterms(e):
        match x:
            case Op("select", (_, a, b)):
                yield (
                    "branches exchanged",
                    out.name,
                    replace(out, expr=substitute(e, {x: op("select", x.args[0], b, a)})),
                )
                yield "select dropped", out.name, replace(out, expr=substitute(e, {x: b}))
            case Op("div", (a, b)) if not isinstance(a, Const):
                yield "quotient turned over", out.name, replace(out, expr=substitute(e, {x: op("div", b, a)}))


# ------------------------------------------------------------------------------------------------- what is reduced


def _values(loops: LoopProgram) -> Found:
    """Another reduction is carried for one that others read; and the same change wherever it is read."""
    for nest in loops.nests:
        read = {n for c in nest.carried() if c.repair for n in c.repair.producers}
        for c in nest.carried():
            for kind, value in _reductions(c.value):
                if c.name in read:
                    yield (
                        "term",
                        f"producer with {kind}",
                        c.name,
                        put_carried(loops, c.name, value=value),
                    )
                yield "term", f"definition with {kind}", c.name, everywhere(loops, {c.value: value})


def _reductions(r: Reduce) -> Iterator[tuple[str, Reduce]]:
    def over(body: Expr) -> Reduce:
        return reduce_(r.reducer, r.axes, body)

    other = {"max": "min", "min": "max", "sum": "prod", "prod": "sum", "logaddexp": "max"}[r.reducer]
    yield "another reducer", reduce_(other, r.axes, r.body)
    if r.body.dtype in FLOATS:
        yield "its term negated", over(op("neg", r.body))
    for x in subterms(r.body):
        if isinstance(x, Op) and x.name == "select":
            condition, a, b = x.args
            live = b if isinstance(a, Const) else a
            yield "no mask", over(substitute(r.body, {x: live}))
            yield "its mask negated", over(substitute(r.body, {x: op("select", condition, b, a)}))
            for k in (a, b):
                if isinstance(k, Const) and k.value == -INF:
                    yield "a finite mask", over(substitute(r.body, {k: const(-65504, k.dtype)}))
                    yield "its masked elements 0", over(substitute(r.body, {k: const(0, k.dtype)}))


def everywhere(loops: LoopProgram, mapping: dict[Expr, Expr]) -> LoopProgram:
    """The substitution in every value, output and hoist: the loop program of another definition."""

    def e(x: Expr) -> Expr:
        return substitute(x, mapping)

    def r(x: Reduce) -> Reduce:
        changed = e(x)
        assert isinstance(changed, Reduce)
        return changed

    def nest(n: Nest) -> Nest:
        hoists = tuple(replace(h, old=r(h.old), template=e(h.template), inner=tuple(map(r, h.inner))) for h in n.hoists)
        passes = tuple(
            replace(p, carried=tuple(replace(c, value=r(c.value)) for c in p.carried), stores=tuple(map(out, p.stores)))
            for p in n.passes
        )
        return replace(n, hoists=hoists, passes=passes, outputs=tuple(map(out, n.outputs)))

    def out(o: Output) -> Output:
        return replace(o, expr=e(o.expr))

    return replace(loops, nests=tuple(map(nest, loops.nests)))


__all__ = ["everywhere", "shape_mutants"]

"""Trusted: what the loop program says that a kernel's values are, over the index expressions of its text.

A carried value is read as ``@old:NAME`` (before a tile), ``@new:NAME`` (after it) and ``@fin:NAME`` (after its pass), at one
index for each axis that it is carried over. A value of a 16-bit type is carried in float32 and rounded where it is read;
that, and the operands of a product that are rounded to the 16-bit type of the other operand, or taken as the sum of two
numbers of that type, are the conversions that are inserted (DESIGN.md section 4), and listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from neptune_verified.ir.expr import (
    INF,
    REDUCERS,
    Axis,
    Const,
    Expr,
    Op,
    Reduce,
    Var,
    const,
    op,
    read,
    reduce_,
    substitute,
    subterms,
    transform,
    var,
)
from neptune_verified.ir.loops import Carried, Nest, Output, Pass, T, output_expr, span, step, term, wide
from neptune_verified.proofs.text.fold import SIXTEEN
from neptune_verified.proofs.text.integers import zero

Indices = Mapping[Axis, Expr]


@dataclass(frozen=True)
class States:
    """The loop program of one kernel, with the operands in ``rounded`` rounded to a 16-bit type wherever they are used."""

    nest: Nest
    rounded: Mapping[Expr, str]

    def span(self, p: Pass, a: Axis, at: Indices) -> tuple[Expr, Expr]:
        """First index and end of a stream axis: of the last one in the share of ``at``, if the nest has shares."""
        if self.nest.share is None or a is not p.stream[-1]:
            return zero(), a.extent
        return span(self.nest, a, at[self.nest.share])

    def carried(self, name: str) -> tuple[Pass, Carried]:
        return next((p, c) for p in self.nest.passes for c in p.carried if c.name == name)

    def _round(self, e: Expr) -> Expr:
        if not self.rounded:
            return e
        done: dict[Expr, Expr] = {}

        def fn(x: Expr) -> Expr | None:
            if x not in self.rounded:
                return None
            if x not in done:
                inner = transform(x, lambda y: None if y is x else fn(y))
                done[x] = op("cast", op("cast", inner, dtype=self.rounded[x]), dtype=x.dtype)
            return done[x]

        return transform(e, fn)

    def _read(self, e: Expr, p: Pass | None, at: Indices, widened: bool) -> Expr:
        """Carried values as reads, rounded to their types unless they are ``widened``; then axes as indices."""
        own = {c.name for c in p.carried} if p else set()
        types = {c.name: c for c in self.nest.carried()}

        def fn(x: Expr) -> Expr | None:
            if widened and isinstance(x, Const) and x.dtype in SIXTEEN:
                return const(x.value, "float32")
            if not isinstance(x, Var):
                return None
            name = x.name.removesuffix("_new") if x.name not in types else x.name
            kind = "new" if name != x.name else "old" if name in own else "fin"
            c = types[name]
            value = read(f"@{kind}:{name}", tuple(c.axes), wide(c.value.dtype))
            return value if widened else op("cast", value, dtype=c.value.dtype)

        return substitute(transform(e, fn), dict[Expr, Expr](at.items()))

    def neutral(self, c: Carried) -> Const:
        value = REDUCERS[c.value.reducer].neutral(c.value.dtype)
        assert isinstance(value, Const)
        return const(value.value, wide(c.value.dtype))

    def term(self, p: Pass, c: Carried, at: Indices) -> Expr:
        """G at one element; ``at`` gives the stream axes too."""
        return self._term(term(self.nest, p, c), p, c, at)

    def _term(self, g: Expr, p: Pass, c: Carried, at: Indices) -> Expr:
        g = self._read(self._round(g), p, at, widened=False)
        return op("cast", g, dtype=wide(c.value.dtype)) if c.value.dtype in SIXTEEN else g

    def halves(self, p: Pass, c: Carried, at: Indices) -> tuple[str, Expr, Expr] | None:
        """A summed product of a float32 number and an exact widening of a 16-bit one, as the sum of two: with the nearest
        number of that type, and with the nearest to what it leaves (nothing, where it overflows)."""
        g = term(self.nest, p, c)
        if c.value.reducer != "sum" or c.value.dtype != "float32" or not (isinstance(g, Op) and g.name == "mul"):
            return None
        narrow = [x for x in g.args if isinstance(x, Op) and _widening(x)]
        if len(narrow) != 1:
            return None
        dtype, (e,) = narrow[0].args[0].dtype, (x for x in g.args if x is not narrow[0])
        high = _near(e, dtype)
        finite = op("lt", op("abs", high), const(INF, "float32"))
        low = _near(op("select", finite, op("sub", e, high), const(0, "float32")), dtype)
        # The other factor stays as it is, whatever it reads.
        first, second = (op("mul", *(x if y is e else y for y in g.args)) for x in (high, low))
        return dtype, self._term(first, p, c, at), self._term(second, p, c, at)

    def step(self, p: Pass, c: Carried, at: Indices) -> Expr:
        """H at the accumulator itself."""
        h = substitute(step(self.nest, p, c), {var(T, c.value.dtype): c.var})
        return self._read(h, p, at, widened=True)

    def output(self, out: Output, p: Pass | None, at: Indices) -> Expr:
        """``p``: the pass that stores it in its loop; None for those that are stored after all passes."""
        e = self._round(output_expr(self.nest, out, p))
        # A store inside a pass reads values of earlier passes alone: none of its own.
        return self._read(e, None, at, widened=False)


def combined(reducer: str, a: Expr, b: Expr) -> Expr:
    return REDUCERS[reducer].combine(a, b)


def tile_reduction(reducer: str, inside: Expr, g: Expr, neutral: Expr, index: Axis) -> Expr:
    """The reduction of ``g`` over one tile's lanes, of those that lie ``inside``."""
    return reduce_(reducer, (index,), op("select", inside, g, neutral))


def roundable(nest: Nest) -> dict[Expr, str]:
    """Factors of a summed product that may be rounded: those beside an exact widening of a 16-bit number."""
    found: dict[Expr, str] = {}
    bodies = [term(nest, p, c) for p in nest.passes for c in p.carried if c.value.reducer == "sum"]
    others = [output_expr(nest, o, p) for p in nest.passes for o in p.stores]
    others += [output_expr(nest, o) for o in nest.outputs]
    terms = [term(nest, p, c) for p in nest.passes for c in p.carried]
    for x in {x for e in (*others, *terms) for x in subterms(e)}:
        if isinstance(x, Reduce) and x.reducer == "sum":
            bodies.append(x.body)
    for body in bodies:
        factors = flattened(body)
        narrow = {f.args[0].dtype for f in factors if isinstance(f, Op) and _widening(f)}
        if len(narrow) == 1 and len(factors) > 1 and body.dtype == "float32":
            rest = [f for f in factors if not _widening(f)]
            for f in rest:
                found.setdefault(f, min(narrow))
            if len(rest) > 1:
                found.setdefault(_product(rest), min(narrow))
    return found


def flattened(e: Expr) -> list[Expr]:
    if isinstance(e, Op) and e.name == "mul":
        return flattened(e.args[0]) + flattened(e.args[1])
    return [e]


def _near(e: Expr, dtype: str) -> Expr:
    return op("cast", op("cast", e, dtype=dtype), dtype="float32")


def _product(factors: list[Expr]) -> Expr:
    result = factors[0]
    for f in factors[1:]:
        result = op("mul", result, f)
    return result


def _widening(e: Expr) -> bool:
    return isinstance(e, Op) and e.name == "cast" and e.args[0].dtype in SIXTEEN and e.dtype == "float32"

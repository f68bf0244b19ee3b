"""Not trusted: moves loop-invariant factors and conditions out of reductions; a wrong move is refused by O1, O2, O4.

``sum_j (e_j / l) * v_j`` becomes ``(sum_j e_j * v_j) / l``, guarded where l can be 0 (an empty axis: the left side is 0,
the unguarded right side 0/0), and ``reduce select(A, x_j, y_j)`` becomes ``select(A, reduce x_j, reduce y_j)`` for a
condition A that does not depend on j (Neptune, section 4: normalisation is delayed to the end of the loop).

A divisor that occurs more than once, as in ``sum (x / r)^2``, is left in place: such a scaling is there for the range of
the squares, and it has a repair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from neptune_verified.ir.expr import (
    FLOATS,
    INF,
    Axis,
    Const,
    Expr,
    Op,
    Reduce,
    Var,
    const,
    contains,
    op,
    reduce_,
    substitute,
    subterms,
    var,
)
from neptune_verified.ir.kinds import same_domain
from neptune_verified.ir.loops import Hoist

Accept = Callable[[Hoist], bool]


@dataclass
class _Product:
    """A product of factors: what stays in the reduction, and what leaves it."""

    stays: list[tuple[Expr, bool]]
    leaves: list[tuple[Expr, bool]]
    negative: bool = False


def hoist_all(expr: Expr, name_of: Callable[[Expr], str], accept: Accept) -> tuple[Expr, list[Hoist]]:
    """Apply hoists that ``accept`` (the proofs) lets through, innermost reductions first, until none is left."""
    done: list[Hoist] = []
    refused: set[Expr] = set()
    while True:
        candidate = next(
            (r for r in subterms(expr) if isinstance(r, Reduce) and r not in refused and _movable(r)), None
        )
        if candidate is None:
            return expr, done
        hoist = next((h for h in _proposals(candidate, name_of(candidate)) if accept(h)), None)
        if hoist is None:
            refused.add(candidate)
            continue
        done.append(hoist)
        expr = substitute(expr, {hoist.old: hoist.new})


def _movable(r: Reduce) -> bool:
    return bool(same_domain(r)) and next(_proposals(r, "?"), None) is not None


def _proposals(r: Reduce, name: str) -> Iterator[Hoist]:
    producers = same_domain(r)
    for guard in (False, True):
        inner: list[Expr] = []
        template = _split(r, r.body, producers, inner, guard)
        if template is None or template is _slot(r, 0):
            return
        # Worth it only if the reduction no longer waits for some producer.
        kept = {p for body in inner for p in producers if contains(body, [p])}
        if not {p for p in producers if contains(r.body, [p])} - kept:
            return
        # Bodies keep the axes of the old reduction; reduce_ names the bound axes anew.
        reductions = tuple(reduce_(r.reducer, r.axes, body) for body in inner)
        yield Hoist(name, r, template, reductions)


def _slot(r: Reduce, k: int) -> Var:
    return var(f"X{k}", r.dtype)


def _split(r: Reduce, body: Expr, producers: list[Reduce], inner: list[Expr], guard: bool) -> Expr | None:
    """A template for ``body``; None when nothing can leave the reduction."""
    chosen = _invariant_select(body, r.axes, producers)
    if chosen is not None:
        condition, x, y = chosen.args
        parts: list[Expr] = []
        for branch in (x, y):
            replaced = _fold_zero(substitute(body, {chosen: branch}))
            if r.reducer == "sum" and isinstance(replaced, Const) and replaced.value == 0:
                parts.append(const(0, body.dtype))
                continue
            # A condition on the divisor decides its own branch: no further guard is needed there.
            own = guard and not _tests_zero(condition)
            parts.append(_split(r, replaced, producers, inner, own) or _new_slot(r, replaced, inner))
        return op("select", condition, parts[0], parts[1])
    if r.reducer != "sum" or body.dtype not in FLOATS:
        return None
    product = _factors(body, r.axes, producers)
    if product is None:
        return None
    rest = _rebuild(product.stays, body.dtype, product.negative)
    slot = _new_slot(r, rest, inner)
    return _outside(slot, product.leaves, body.dtype, guard)


def _new_slot(r: Reduce, body: Expr, inner: list[Expr]) -> Var:
    inner.append(body)
    return _slot(r, len(inner) - 1)


def _invariant_select(body: Expr, axes: tuple[Axis, ...], producers: list[Reduce]) -> Op | None:
    """A select of ``body``, outside of inner reductions, whose condition is loop-invariant and reads a producer."""
    bound = set(axes)
    stack = [body]
    while stack:
        x = stack.pop()
        if not isinstance(x, Op):
            continue
        if x.name == "select" and not (x.args[0].free & bound) and contains(x.args[0], producers):
            return x
        stack.extend(x.args)
    return None


def _tests_zero(condition: Expr) -> bool:
    return isinstance(condition, Op) and condition.name in ("eq", "ne", "le", "lt", "gt", "ge")


def _fold_zero(e: Expr) -> Expr:
    """Products with a literal 0 are 0 (over finite factors; O1 checks it)."""
    if not isinstance(e, Op):
        return e
    args = tuple(_fold_zero(a) for a in e.args)
    zero = [isinstance(a, Const) and a.dtype != "bool" and a.value == 0 for a in args]
    if (e.name == "mul" and any(zero)) or (e.name in ("div", "neg", "cast") and zero[0] and e.dtype in FLOATS):
        return const(0, e.dtype)
    if all(a is b for a, b in zip(args, e.args, strict=True)):
        return e
    return op(e.name, *args, dtype=e.dtype) if e.name == "cast" else op(e.name, *args)


def _factors(body: Expr, axes: tuple[Axis, ...], producers: list[Reduce]) -> _Product | None:
    bound = set(axes)
    product = _Product([], [])

    def go(x: Expr, below: bool, dtype: str) -> None:
        if isinstance(x, Op) and x.name in ("mul", "div"):
            go(x.args[0], below, dtype)
            go(x.args[1], below != (x.name == "div"), dtype)
        elif isinstance(x, Op) and x.name == "neg":
            product.negative = not product.negative
            go(x.args[0], below, dtype)
        elif isinstance(x, Op) and x.name == "cast" and _crossable(x, bound, producers):
            inner = _factors(x.args[0], axes, producers)
            assert inner is not None
            product.negative ^= inner.negative
            rest = op("cast", _rebuild(inner.stays, x.args[0].dtype, False), dtype=x.dtype)
            product.stays.append((rest, below))
            product.leaves += [(f, d != below) for f, d in inner.leaves]
        elif not (x.free & bound) and contains(x, producers):
            product.leaves.append((x, below))
        else:
            product.stays.append((x, below))

    go(body, False, body.dtype)
    leaving = [x for x, _ in product.leaves]
    if not leaving or len(set(leaving)) != len(leaving):
        return None
    return product


def _crossable(x: Op, bound: set[Axis], producers: list[Reduce]) -> bool:
    """A float rounding of a quotient or product with a loop-invariant factor (listed in the certificate)."""
    source = x.args[0]
    if source.dtype not in FLOATS or x.dtype not in FLOATS or not isinstance(source, Op):
        return False
    if source.name == "cast":
        return _crossable(source, bound, producers)
    return source.name in ("mul", "div") and _factors(source, tuple(bound), producers) is not None


def _rebuild(factors: list[tuple[Expr, bool]], dtype: str, negative: bool) -> Expr:
    result: Expr | None = None
    for x, below in sorted(factors, key=lambda f: f[1]):
        x = op("cast", x, dtype=dtype)
        if result is None:
            result = op("div", const(1, dtype), x) if below else x
        else:
            result = op("div" if below else "mul", result, x)
    result = const(1, dtype) if result is None else result
    return op("neg", result) if negative else result


def _outside(slot: Expr, leaves: list[tuple[Expr, bool]], dtype: str, guard: bool) -> Expr:
    result = slot
    wide = max((x.dtype for x, _ in leaves), key=FLOATS.index)
    wide = wide if FLOATS.index(wide) > FLOATS.index(dtype) else dtype
    result = op("cast", result, dtype=wide)
    for x, below in leaves:
        x = op("cast", x, dtype=wide)
        moved = op("div" if below else "mul", result, x)
        if guard:
            # Over an empty axis a divisor can be 0 and a running max or min infinite; the sum is 0 then.
            bad = [0.0] if below else [-INF, INF]
            tests = [op("eq", x, const(v, wide)) for v in bad]
            condition = tests[0] if below else op("or", *tests)
            moved = op("select", condition, const(0, wide), moved)
        result = moved
    return op("cast", result, dtype=dtype)

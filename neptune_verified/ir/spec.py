"""Trusted: what a well-formed program and a well-formed loop program are.

``program_faults`` and ``loop_faults`` return one line per fault, none for what is well formed. They concern names,
scopes and types; whether a loop program computes its program is for the proofs.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, replace

from neptune_verified.ir.expr import (
    DTYPES,
    INTS,
    Axis,
    Const,
    Expr,
    Op,
    Read,
    Reduce,
    Size,
    Var,
    subterms,
    var,
)
from neptune_verified.ir.loops import Carried, Guard, Hoist, LoopProgram, Nest, Pass, T
from neptune_verified.ir.program import ASSUMPTION_KINDS, Assumption, Program

#: Bound axes of reductions; an axis of that name outside would be captured.
BOUND = re.compile(r"r[0-9]+_[0-9]+")
#: Symbols of the statements about one edge or hoist: a carried value of such a name would be taken for one of them.
RESERVED = re.compile(rf"{T}|[xyz]|[bc][0-9]+|[XAxy][0-9]+|\w+_(new|later|final)")
GUARD_POINTS = ("-inf", "zero", "+inf")
ARITHMETIC = ("add", "sub", "mul", "div", "pow", "max", "min", "floordiv", "floormod")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
LOGIC = ("and", "or", "not")


@dataclass(frozen=True, slots=True)
class Scope:
    """What an expression may mention: tensors with rank and dtype, sizes, axes, variables."""

    tensors: Mapping[str, tuple[int, str]]
    sizes: frozenset[Size]
    axes: frozenset[Axis] = frozenset()
    vars: Set[Var] = frozenset()


def is_name(name: str) -> bool:
    return name.isascii() and name.isidentifier() and not keyword.iskeyword(name)


def _name_faults(names: Iterable[str], what: str) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        if not is_name(name):
            yield f"{what} {name!r}: not an identifier"
        if name in seen:
            yield f"{what} {name}: the name is given twice"
        seen.add(name)


# ---------------------------------------------------------------------------------------- expressions


def expr_faults(e: Expr, scope: Scope, what: str) -> Iterator[str]:
    """Names that are not in scope, and operands of the wrong type."""
    unbound = sorted(a.name for a in e.free - scope.axes)
    if unbound:
        yield f"{what}: axis {', '.join(unbound)} is not bound"
    for x in subterms(e):
        match x:
            case Size() if x not in scope.sizes:
                yield f"{what}: {x.name} ({x.dtype}) is no declared size"
            case Var(name=name) if x not in scope.vars:
                yield f"{what}: the variable {name} ({x.dtype}) has no meaning here"
            case Read():
                yield from _read_faults(x, scope, what)
            case Op():
                yield from (f"{what}: {fault}" for fault in op_faults(x))
            case Reduce():
                yield from _reduce_faults(x, scope, what)
            case _:
                pass


def _read_faults(x: Read, scope: Scope, what: str) -> Iterator[str]:
    known = scope.tensors.get(x.tensor)
    if known is None:
        yield f"{what}: reads {x.tensor}, which is no input and no earlier stage"
    elif known != (len(x.indices), x.dtype):
        yield f"{what}: {x.tensor} is {known[1]} with {known[0]} axes, read as {x.dtype} with {len(x.indices)} indices"
    if any(i.dtype not in INTS for i in x.indices):
        yield f"{what}: {x.tensor} is read at an index that is no integer"


def _reduce_faults(x: Reduce, scope: Scope, what: str) -> Iterator[str]:
    if (x.reducer in ("any", "all")) != (x.dtype == "bool"):
        yield f"{what}: {x.reducer} of {x.dtype}"
    for a in x.axes:
        yield from extent_faults(a, scope, what)


def extent_faults(a: Axis, scope: Scope, what: str) -> Iterator[str]:
    yield from length_faults(a.extent, scope, f"{what}, extent of {a.name}")


def length_faults(e: Expr, scope: Scope, what: str) -> Iterator[str]:
    if e.dtype not in INTS or any(not isinstance(x, Const | Size | Op) for x in subterms(e)):
        yield f"{what}: a length is an integer expression over sizes"
    yield from expr_faults(e, Scope({}, scope.sizes), what)


def op_faults(x: Op) -> Iterator[str]:
    types = [a.dtype for a in x.args]
    shown = f"{x.name}({', '.join(types)})"
    if x.name in (*ARITHMETIC, *COMPARISONS) and types[0] != types[1]:
        yield f"{shown}: operands of two types"
    elif x.name in LOGIC and set(types) != {"bool"}:
        yield f"{shown}: operands that are no truth values"
    elif x.name == "select" and (types[0] != "bool" or types[1] != types[2]):
        yield f"{shown}: wants a truth value and two branches of one type"
    elif x.name not in (*COMPARISONS, *LOGIC, "select", "cast") and types[0] == "bool":
        yield f"{shown}: arithmetic on truth values"


# ---------------------------------------------------------------------------------------- programs


def program_faults(program: Program) -> list[str]:
    return list(_program_faults(program))


def _program_faults(program: Program) -> Iterator[str]:
    if not program.name or not program.name.isprintable():
        yield f"program name {program.name!r}: not a printable text"
    named = [*(t.name for t in program.inputs), *(s.name for s in program.sizes), *(s.name for s in program.stages)]
    yield from _name_faults(named, "name")
    sizes = frozenset(program.sizes)
    yield from (f"size {s.name}: a size is no {s.dtype}" for s in program.sizes if s.dtype == "bool")
    tensors: dict[str, tuple[int, str]] = {}
    for t in program.inputs:
        if t.dtype not in DTYPES:
            yield f"input {t.name}: unknown dtype {t.dtype}"
        for k, d in enumerate(t.shape):
            yield from length_faults(d, Scope({}, sizes), f"input {t.name}, shape[{k}]")
        tensors[t.name] = (len(t.shape), t.dtype)
    for s in program.stages:
        yield from _axis_faults(s.axes, f"stage {s.name}")
        for a in s.axes:
            yield from extent_faults(a, Scope({}, sizes), f"stage {s.name}")
        yield from expr_faults(s.body, Scope(tensors, sizes, frozenset(s.axes)), f"stage {s.name}")
        tensors[s.name] = (len(s.axes), s.dtype)
    yield from _output_faults(program)
    for k, fact in enumerate(program.assumptions):
        yield from _assumption_faults(fact, program, f"assumption {k}")


def _axis_faults(axes: tuple[Axis, ...], what: str) -> Iterator[str]:
    yield from _name_faults((a.name for a in axes), f"{what}, axis")
    yield from (f"{what}, axis {a.name}: names of bound axes are reserved" for a in axes if BOUND.fullmatch(a.name))


def _output_faults(program: Program) -> Iterator[str]:
    if not program.outputs:
        yield "a program needs an output"
    yield from _name_faults(program.outputs, "output")
    stages = {s.name for s in program.stages}
    yield from (f"output {name}: there is no such stage" for name in program.outputs if name not in stages)


def _assumption_faults(fact: Assumption, program: Program, what: str) -> Iterator[str]:
    if fact.origin not in ("declared", "default"):
        yield f"{what}: its origin is declared or default, not {fact.origin!r}"
    if fact.kind == "holds":
        if fact.expr is None or fact.expr.dtype != "bool" or fact.value is not None:
            yield f"{what}: holds takes a predicate and no value"
        else:
            yield from expr_faults(fact.expr, Scope({}, frozenset(program.sizes)), what)
        return
    if fact.kind not in ASSUMPTION_KINDS:
        yield f"{what}: unknown kind {fact.kind!r}"
    if fact.expr is not None:
        yield f"{what}: {fact.kind} takes no predicate"
    if (fact.value is None) == (fact.kind in ("bounded", "at_least", "multiple_of")):
        yield f"{what}: {fact.kind} {'needs a' if fact.value is None else 'takes no'} value"
    if fact.subject not in {t.name for t in program.inputs} | {s.name for s in program.sizes}:
        yield f"{what}: {fact.subject!r} is no input and no size"


# ---------------------------------------------------------------------------------------- loop programs


def loop_faults(loops: LoopProgram) -> list[str]:
    return list(_loop_faults(loops))


def _loop_faults(loops: LoopProgram) -> Iterator[str]:
    program = loops.program
    yield from _name_faults((n.name for n in loops.nests), "nest")
    taken = {t.name for t in program.inputs} | {s.name for s in program.sizes}
    carried = [c.name for nest in loops.nests for c in nest.carried()]
    yield from _name_faults(carried, "carried value")
    for name in carried:
        if name in taken or RESERVED.fullmatch(name):
            yield f"carried value {name}: the name is taken"
    scope = Scope({t.name: (len(t.shape), t.dtype) for t in program.inputs}, frozenset(program.sizes))
    for nest in loops.nests:
        yield from _nest_faults(nest, scope)


def _nest_faults(nest: Nest, scope: Scope) -> Iterator[str]:
    spatial = nest.grid + nest.inner
    yield from _axis_faults(spatial, f"nest {nest.name}")
    for a in dict.fromkeys(a for p in (None, *nest.passes) for a in (spatial if p is None else p.stream)):
        yield from extent_faults(a, scope, f"nest {nest.name}")
    here = Scope(scope.tensors, scope.sizes, frozenset(spatial))
    for h in nest.hoists:
        yield from _hoist_faults(h, scope)
    for out in nest.outputs:
        yield from _axis_faults(out.axes, f"output {out.name}")
        yield from expr_faults(out.expr, here, f"output {out.name}")
    for p in nest.passes:
        yield from _axis_faults(spatial + p.stream, f"nest {nest.name}, pass over {_names(p.stream)}")
        inside = Scope(scope.tensors, scope.sizes, here.axes | set(p.stream))
        for out in p.stores:
            yield from _axis_faults(out.axes, f"output {out.name}")
            yield from expr_faults(out.expr, inside, f"output {out.name}")
        for c in p.carried:
            yield from expr_faults(c.value, here, f"carried value {c.name}")
            yield from _repair_faults(c, p, here)


def _names(axes: tuple[Axis, ...]) -> str:
    return ", ".join(a.name for a in axes) or "nothing"


def _hoist_faults(h: Hoist, scope: Scope) -> Iterator[str]:
    """Hoisted terms may mention any axis (they are found inside the outputs); the template's slots are X0, X1, ..."""
    free = h.old.free.union(h.template.free, *(r.free for r in h.inner))
    open_ = Scope(scope.tensors, scope.sizes, free)
    if not h.inner:
        yield f"hoist {h.name}: no reduction is left"
    slots = set(h.slots())
    strangers = sorted({x.name for x in subterms(h.template) if isinstance(x, Var) and x not in slots})
    if strangers:
        yield f"hoist {h.name}: its template reads {', '.join(strangers)}"
    for e in (h.old, h.new if not strangers else h.old, *h.inner):
        yield from expr_faults(e, open_, f"hoist {h.name}")
    if h.template.dtype != h.old.dtype:
        yield f"hoist {h.name}: {h.old.dtype} is replaced by {h.template.dtype}"


def _repair_faults(c: Carried, p: Pass, scope: Scope) -> Iterator[str]:
    """A repair is over the accumulator, old and new values of producers, and closed terms over the nest's axes."""
    if c.repair is None:
        return
    what, repair = f"carried value {c.name}", c.repair
    yield from _name_faults(repair.producers, f"{what}, producer")
    yield from _name_faults((g.producer for g in repair.guards), f"{what}, guard of")
    dtypes = {q.name: q.value.dtype for q in p.carried}
    allowed = {var(T, c.value.dtype)}
    allowed |= {var(name + end, dtypes[name]) for name in repair.producers if name in dtypes for end in ("", "_new")}
    for x in subterms(repair.h):
        if isinstance(x, Read | Reduce) and any(isinstance(y, Var) for y in subterms(x)):
            yield f"{what}: its repair uses a running value inside a {type(x).__name__}"
    yield from expr_faults(repair.h, replace(scope, vars=allowed), f"{what}, repair")
    if repair.h.dtype != c.value.dtype:
        yield f"{what}: a repair of {c.value.dtype} that gives {repair.h.dtype}"
    yield from (fault for g in repair.guards for fault in _guard_faults(g, what))


def _guard_faults(g: Guard, what: str) -> Iterator[str]:
    if not g.points or len(set(g.points)) != len(g.points) or not set(g.points) <= set(GUARD_POINTS):
        yield f"{what}, guard of {g.producer}: points are some of {', '.join(GUARD_POINTS)}, each once; got {g.points}"


__all__ = ["RESERVED", "loop_faults", "op_faults", "program_faults"]

"""Trusted: reads ``te.sum``, ``te.max``, ``te.comm_reducer`` and the like as the reducers of the language.

A combiner is recognised by what it computes: it is brought into a normal form over x, y and M = max(x, y) (with
``min(x, y) = x + y - M`` and ``|x - y| = 2 M - x - y``), in which a logarithm of a sum of exponentials is the multiset
of its exponents. ``max(x, y) + log(1 + exp(-|x - y|))`` is then log of {M, x + y - M}, i.e. logaddexp.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

from neptune_verified.frontend.lines import key
from neptune_verified.frontend.literals import FINITE_MAX
from neptune_verified.frontend.scalars import NARROW, Reader
from neptune_verified.ir.expr import (
    FLOATS,
    REDUCERS,
    TRUE,
    Axis,
    Const,
    Expr,
    Op,
    Size,
    Var,
    axis,
    op,
    reduce_,
    subterms,
    var,
)

#: A linear combination of x, y, M, the constant "1", exponentials and logarithms: sorted (atom, coefficient) pairs.
Form = tuple[tuple[object, Fraction], ...]

X, Y, M, ONE = "x", "y", "M", "1"


def _form(terms: dict[object, Fraction]) -> Form:
    return tuple(sorted(((a, c) for a, c in terms.items() if c != 0), key=repr))


def _plus(p: Form, q: Form, factor: Fraction = Fraction(1)) -> Form:
    terms = dict(p)
    for atom, c in q:
        terms[atom] = terms.get(atom, Fraction(0)) + factor * c
    return _form(terms)


def _of(**terms: int) -> Form:
    return _form({({"one": ONE}.get(a, a)): Fraction(c) for a, c in terms.items()})


_MAX, _MIN, _ZERO = _of(M=1), _of(x=1, y=1, M=-1), _of()
_X, _Y = _of(x=1), _of(y=1)


def normal_form(e: Expr) -> Form | None:
    """The normal form of a combiner over the variables x and y, or None where it has none."""
    if isinstance(e, Var):
        return _X if e.name == X else _Y
    if isinstance(e, Const):
        return _form({ONE: Fraction(e.value)}) if math.isfinite(e.value) else None
    if not isinstance(e, Op):
        return None
    forms = [normal_form(a) for a in e.args] if e.name != "select" else []
    args = [f for f in forms if f is not None]
    if len(args) != len(forms):
        return None
    match e.name, args:
        case "add", [p, q]:
            return _plus(p, q)
        case "sub", [p, q]:
            return _plus(p, q, Fraction(-1))
        case "neg", [p]:
            return _plus(_ZERO, p, Fraction(-1))
        case (("max" | "min"), [p, q]) if {p, q} == {_X, _Y}:
            return _MAX if e.name == "max" else _MIN
        case "abs", [p] if p in (_of(x=1, y=-1), _of(x=-1, y=1)):
            return _of(M=2, x=-1, y=-1)
        case "exp", [p]:
            return _form({("exp", p): Fraction(1)}) if p != _ZERO else _of(one=1)
        case "log", [p]:
            return _log(p)
        case "select", []:
            return _select(*e.args)
        case _:
            return None


def _log(p: Form) -> Form | None:
    """log of a sum of exponentials, 1 being exp(0)."""
    exponents: list[Form] = []
    for atom, c in p:
        if c == 1 and atom == ONE:
            exponents.append(_ZERO)
        elif c == 1 and isinstance(atom, tuple) and atom[0] == "exp":
            exponents.append(atom[1])
        else:
            return None
    return _form({("log", tuple(sorted(exponents, key=repr))): Fraction(1)})


def _select(c: Expr, p: Expr, q: Expr) -> Form | None:
    """``select(x > y, x, y)`` and its seven relatives."""
    if not (isinstance(c, Op) and c.name in ("lt", "le", "gt", "ge") and {normal_form(a) for a in c.args} == {_X, _Y}):
        return None
    greater = c.args[0] if c.name in ("gt", "ge") else c.args[1]
    if {normal_form(p), normal_form(q)} != {_X, _Y}:
        return None
    return _MAX if p is greater else _MIN


def recognise(combiner: Expr) -> str | None:
    """The reducer that combines the variables x and y as this expression does."""
    match combiner:
        case Op("mul" | "or" | "and", (Var(a), Var(b))) if {a, b} == {X, Y}:
            return {"mul": "prod", "or": "any", "and": "all"}[combiner.name]
    form = normal_form(combiner)
    if form is None:
        return None
    simple = {_of(x=1, y=1): "sum", _MAX: "max", _MIN: "min"}.get(form)
    if simple:
        return simple
    logs = [atom for atom, c in form if isinstance(atom, tuple) and c == 1 and atom[0] == "log"]
    if len(logs) != 1:
        return None
    rest = _plus(form, _form({logs[0]: Fraction(1)}), Fraction(-1))
    exponents = Counter(_plus(p, rest) for p in logs[0][1])
    return "logaddexp" if exponents in (Counter((_X, _Y)), Counter((_MAX, _MIN))) else None


def read_reduction(reader: Reader, e: Any) -> Expr:
    """A te Reduce as a ``Reduce`` (as its term, when it reduces over no axis)."""
    if len(e.source) != 1:
        reader.refuse(
            f"reducer over tuples of {len(e.source)}",
            "only reducers of one value are read from te (no argmax); reduce each component in a stage of its own",
        )
    if len(e.init):
        reader.refuse("init=", "a reduction starts at its neutral element; add the initial value in a stage after it")
    dtype = reader.dtype(e)
    reducer = _reducer(reader, e, dtype)
    if dtype in NARROW and reducer in ("sum", "prod"):
        reader.refuse(f"{reducer} in {dtype}", "it may wrap around; cast the term to int32 first")
    axes = [bind_axis(reader, a, k) for k, a in enumerate(e.axis)]
    if len({key(a.var) for a in e.axis}) != len(e.axis):
        reader.refuse("axis given twice", "list each reduction axis once")
    body, condition = reader.read(e.source[0]), reader.read(e.condition)
    if not (reader.drop_conditions or condition is TRUE):
        body = op("select", condition, body, REDUCERS[reducer].neutral(dtype))
    return reduce_(reducer, axes, body) if axes else body


def bind_axis(reader: Reader, iter_var: Any, k: int) -> Axis:
    """An axis that starts at 0; the range's lower bound goes into the uses."""
    extent = reader.index(iter_var.dom.extent)
    check_length(reader, extent, f"range of axis {iter_var.var.name}")
    bound = axis(f"{iter_var.var.name}.{k}", extent)  # renamed by reduce_; the dot keeps it apart from other axes
    start = reader.read(iter_var.dom.min)
    check_length(reader, start, f"range of axis {iter_var.var.name}")
    dtype = start.dtype
    shifted = op("cast", bound, dtype=dtype)
    zero = isinstance(start, Const) and start.value == 0
    reader.bound[key(iter_var.var)] = bound if zero else op("add", shifted, start)
    return bound


def check_length(reader: Reader, e: Expr, what: str) -> None:
    """A length is made of constants and sizes alone."""
    for node in subterms(e):
        if not isinstance(node, (Const, Size, Op)):
            reader.refuse(what, "a range depends on lengths alone; take the whole range and a condition (where=)")


def _reducer(reader: Reader, e: Any, dtype: str) -> str:
    c = e.combiner
    inner = Reader(reader.stage, reader.loc, reader.sizes)
    inner.bound = {key(c.lhs[0]): var(X, dtype), key(c.rhs[0]): var(Y, dtype)}
    sizes_before = len(reader.sizes.found)
    combiner = inner.read(c.result[0])
    reducer = recognise(combiner)
    if reducer is None or len(reader.sizes.found) != sizes_before:
        reader.refuse(
            f"combiner {_text(c)}",
            "the reducers are +, *, max, min, and, or and log(exp(x) + exp(y)); no other combiner is known to be "
            "associative and commutative with a neutral element",
        )
    if reducer == "logaddexp" and not (isinstance(combiner, Op) and combiner.name == "log"):
        reader.notes.append(f"combiner of stage {reader.stage} is read as logaddexp, also where it is inf - inf")
    _check_identity(reader, reducer, inner.read(c.identity_element[0]), dtype)
    return reducer


def _check_identity(reader: Reader, reducer: str, identity: Expr, dtype: str) -> None:
    neutral = REDUCERS[reducer].neutral(dtype)
    assert isinstance(neutral, Const), "neutral elements are literals"
    if not isinstance(identity, Const):
        reader.refuse(f"identity of {reducer}", f"it is no literal; the neutral element is {_number(neutral.value)}")
    if identity.value == neutral.value:
        return
    sign = {"max": -1, "logaddexp": -1, "min": 1}.get(reducer, 0)
    if dtype in FLOATS and sign and identity.value * sign >= FINITE_MAX[dtype]:
        shown = _number(identity.value)
        reader.notes.append(f"identity {shown} of {reducer} in stage {reader.stage} is read as {sign * math.inf}")
        return
    reader.refuse(
        f"identity {_number(identity.value)} of {reducer}",
        f"it is not neutral, the neutral element is {_number(neutral.value)}; combine it in a stage of its own",
    )


def _number(value: Fraction | float | bool) -> str:
    return str(value) if isinstance(value, bool) else f"{float(value):.6g}"


def _text(combiner: Any) -> str:
    return str(combiner).replace("T.comm_reducer(", "").split(", [")[0].replace("T.", "")

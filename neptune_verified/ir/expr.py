"""Trusted: the expression language that programs, loop programs and obligations share.

Grammar::

    Expr   ::= Const(value, dtype)              number, or -inf / +inf, or a truth value
             | Size(name, dtype)                a length read from a shape, or a scalar argument
             | Axis(name, extent)               an iteration variable, 0 <= axis < extent
             | Var(name, dtype, axes)           a carried value, or a symbol of an obligation
             | Read(tensor, indices, dtype)     one element of an input or of a stage
             | Op(name, args, dtype)            see OPS
             | Reduce(reducer, axes, body)      see REDUCERS

Values are the reals, -inf, +inf and *undefined*. Undefined are ``inf - inf``, ``0 * inf``, ``inf / inf``,
``x / 0`` for every x, log and sqrt of a negative, ``0 ** negative`` and a negative to a non-integer;
``exp(-inf) = 0``, ``log 0 = -inf``, ``x / inf = 0`` for finite x, ``tanh(+-inf) = +-1``. Undefined is absorbing
everywhere except in ``select``, whose unselected branch is not evaluated. A reduction over nothing is the reducer's
neutral element. ``floordiv`` and ``floormod`` round to minus infinity. A cast from float to float is the identity
(rounding is accounted for elsewhere); a cast to an integer truncates, to bool it compares with 0.

Nodes are interned: structurally equal expressions are the same object, so equality is identity and traversals with a
table by object are linear in the size of the graph. Bound axes of a ``Reduce`` have canonical names that depend on the
height of the body alone, which makes alpha-equivalent reductions identical and substitution capture-free (an axis that
is substituted into a body comes from outside, hence from a greater height).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeVar, cast
from weakref import WeakValueDictionary

Number = Fraction | float | bool

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTS = ("int8", "int16", "int32", "int64", "uint8")
DTYPES = (*FLOATS, *INTS, "bool")

INF = math.inf

#: name -> (arity, result): "same" as the first argument, "bool", or "given" (the caller states the dtype).
OPS: dict[str, tuple[int, str]] = {
    **dict.fromkeys(("add", "sub", "mul", "div", "pow", "max", "min", "floordiv", "floormod"), (2, "same")),
    **dict.fromkeys(("neg", "abs", "exp", "exp2", "log", "sqrt", "rsqrt", "tanh", "sigmoid"), (1, "same")),
    **dict.fromkeys(("erf", "sin", "cos", "floor", "ceil", "round"), (1, "same")),
    **dict.fromkeys(("lt", "le", "gt", "ge", "eq", "ne", "and", "or"), (2, "bool")),
    "not": (1, "bool"),
    "select": (3, "second"),
    "cast": (1, "given"),
}


class Expr:
    """Base of the closed set of nodes below. ``free`` are the free axes, ``height`` the nesting depth of reductions."""

    __slots__ = ()
    dtype: str
    free: frozenset[Axis]
    height: int


_Node = TypeVar("_Node", bound=Expr)
_TABLE: WeakValueDictionary[tuple[object, ...], Expr] = WeakValueDictionary()


def _intern(cls: type[_Node], *fields: object) -> _Node:
    key = (cls, *fields)
    node = _TABLE.get(key)
    if node is None:
        node = cls(*fields)
        _TABLE[key] = node
    return cast(_Node, node)


def _finish(node: Expr, children: Iterable[Expr], bound: Iterable[Axis] = (), own: Iterable[Axis] = ()) -> None:
    children = tuple(children)
    free = frozenset(own).union(*(child.free for child in children)) if children else frozenset(own)
    object.__setattr__(node, "free", free - frozenset(bound))
    height = max((child.height for child in children), default=0)
    object.__setattr__(node, "height", height + (1 if isinstance(node, Reduce) else 0))


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Const(Expr):
    value: Number
    dtype: str
    free: frozenset[Axis] = field(init=False, repr=False)
    height: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _finish(self, ())


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Size(Expr):
    name: str
    dtype: str
    free: frozenset[Axis] = field(init=False, repr=False)
    height: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _finish(self, ())


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Var(Expr):
    """A symbol whose value depends on ``axes`` (none for the symbols of an obligation)."""

    name: str
    dtype: str
    axes: tuple[Axis, ...]
    free: frozenset[Axis] = field(init=False, repr=False)
    height: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _finish(self, (), own=self.axes)


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Axis(Expr):
    name: str
    extent: Expr
    dtype: str = field(default="int32", init=False)
    free: frozenset[Axis] = field(init=False, repr=False)
    height: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _finish(self, (), own=(self,))


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Read(Expr):
    tensor: str
    indices: tuple[Expr, ...]
    dtype: str
    free: frozenset[Axis] = field(init=False, repr=False)
    height: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _finish(self, self.indices)


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Op(Expr):
    name: str
    args: tuple[Expr, ...]
    dtype: str
    free: frozenset[Axis] = field(init=False, repr=False)
    height: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _finish(self, self.args)


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Reduce(Expr):
    reducer: str
    axes: tuple[Axis, ...]
    body: Expr
    dtype: str = field(init=False)
    free: frozenset[Axis] = field(init=False, repr=False)
    height: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.body.dtype)
        _finish(self, (self.body,), bound=self.axes)


# ---------------------------------------------------------------------------------------------- constructors


def const(value: int | float | Fraction | bool, dtype: str) -> Const:
    """A literal. Floats are taken at their exact binary value; NaN is refused with ValueError."""
    if dtype == "bool":
        return _intern(Const, bool(value), dtype)
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            raise ValueError("a NaN literal has no meaning in a definition")
        return _intern(Const, value, dtype)
    return _intern(Const, Fraction(value), dtype)


TRUE = const(True, "bool")
FALSE = const(False, "bool")


def size(name: str, dtype: str = "int32") -> Size:
    return _intern(Size, name, dtype)


def var(name: str, dtype: str = "float32", axes: Iterable[Axis] = ()) -> Var:
    return _intern(Var, name, dtype, tuple(axes))


def axis(name: str, extent: Expr | int) -> Axis:
    return _intern(Axis, name, extent if isinstance(extent, Expr) else const(extent, "int32"))


def read(tensor: str, indices: Iterable[Expr], dtype: str) -> Read:
    return _intern(Read, tensor, tuple(indices), dtype)


def op(name: str, *args: Expr, dtype: str | None = None) -> Expr:
    """Apply an operation of OPS. ``dtype`` is given for ``cast`` alone; a cast to the same type is no node."""
    arity, result = OPS[name]
    if len(args) != arity:
        raise ValueError(f"{name} takes {arity} arguments, got {len(args)}")
    if result == "given":
        if dtype not in DTYPES:
            raise ValueError(f"cast to unknown dtype {dtype!r}")
        return args[0] if args[0].dtype == dtype else _intern(Op, name, args, dtype)
    typed = {"same": args[0], "second": args[-1]}.get(result)
    return _intern(Op, name, args, "bool" if typed is None else typed.dtype)


def reduce_(reducer: str, axes: Iterable[Axis], body: Expr) -> Reduce:
    """Reduce ``body`` over ``axes``; the bound axes get their canonical names here."""
    if reducer not in REDUCERS:
        raise ValueError(f"unknown reducer {reducer!r}")
    given = tuple(axes)
    names = tuple(axis(f"r{body.height + 1}_{k}", a.extent) for k, a in enumerate(given))
    if captured := (body.free - frozenset(given)) & frozenset(names):
        raise ValueError(
            f"axis names like {sorted(a.name for a in captured)[0]} are reserved for bound axes: rename it"
        )
    body = substitute(body, dict(zip(given, names, strict=True)))
    return _intern(Reduce, reducer, names, body)


# ---------------------------------------------------------------------------------------------- reducers


@dataclass(frozen=True, slots=True)
class Reducer:
    """An associative, commutative operation with a neutral element (both proved: obligation O5)."""

    name: str
    combine: Callable[[Expr, Expr], Expr]
    neutral: Callable[[str], Expr]


def _logaddexp(x: Expr, y: Expr) -> Expr:
    return op("log", op("add", op("exp", x), op("exp", y)))


REDUCERS: dict[str, Reducer] = {
    r.name: r
    for r in (
        Reducer("sum", lambda x, y: op("add", x, y), lambda d: const(0, d)),
        Reducer("prod", lambda x, y: op("mul", x, y), lambda d: const(1, d)),
        Reducer("max", lambda x, y: op("max", x, y), lambda d: const(-INF, d) if d in FLOATS else int_limit(d, 0)),
        Reducer("min", lambda x, y: op("min", x, y), lambda d: const(INF, d) if d in FLOATS else int_limit(d, 1)),
        Reducer("any", lambda x, y: op("or", x, y), lambda d: FALSE),
        Reducer("all", lambda x, y: op("and", x, y), lambda d: TRUE),
        Reducer("logaddexp", _logaddexp, lambda d: const(-INF, d)),
    )
}


def int_limit(dtype: str, which: int) -> Const:
    """The least (0) or greatest (1) value of an integer type."""
    bits = int(dtype.lstrip("uint"))
    lo, hi = (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return const((lo, hi)[which], dtype)


# ---------------------------------------------------------------------------------------------- traversal


def children(e: Expr) -> tuple[Expr, ...]:
    match e:
        case Read(indices=kids) | Op(args=kids):
            return kids
        case Reduce(body=body):
            return (body,)
        case _:
            return ()


def rebuild(e: Expr, kids: tuple[Expr, ...]) -> Expr:
    """The same node over other children (of the same dtypes)."""
    match e:
        case Read(tensor, _, dtype):
            return read(tensor, kids, dtype)
        case Op(name, _, dtype):
            return op(name, *kids, dtype=dtype) if name == "cast" else op(name, *kids)
        case Reduce(reducer, axes, body):
            # Heights may have shrunk (a reduction was replaced by a variable): name the axes anew.
            return e if kids[0] is body else reduce_(reducer, axes, kids[0])
        case _:
            return e


def transform(e: Expr, fn: Callable[[Expr], Expr | None]) -> Expr:
    """Top-down rewriting: where ``fn`` returns an expression it replaces the node, and is not entered again."""
    memo: dict[Expr, Expr] = {}

    def go(x: Expr) -> Expr:
        if x not in memo:
            new = fn(x)
            if new is None:
                kids = children(x)
                new_kids = tuple(go(k) for k in kids)
                new = x if all(a is b for a, b in zip(kids, new_kids, strict=True)) else rebuild(x, new_kids)
            memo[x] = new
        return memo[x]

    return go(e)


def substitute(e: Expr, mapping: Mapping[Expr, Expr]) -> Expr:
    """Replace every occurrence of the keys, simultaneously. Keys that are axes replace free occurrences only."""
    if not mapping:
        return e
    axes = {k for k in mapping if isinstance(k, Axis)}
    only_axes = len(axes) == len(mapping)
    # Axes that a replacement brings in; those that the replaced term had itself were bound where it stood.
    put = frozenset().union(*(v.free - k.free for k, v in mapping.items()))

    def fn(x: Expr) -> Expr | None:
        if x in mapping:
            return mapping[x]
        if only_axes and not (x.free & axes):
            return x
        if isinstance(x, Reduce) and put & set(x.axes) and any(k in mapping for k in subterms(x.body)):
            raise ValueError(
                f"axis {sorted(a.name for a in put & set(x.axes))[0]} would be captured: open the reduction first"
            )
        return None

    return transform(e, fn)


def subterms(e: Expr) -> list[Expr]:
    """Every distinct node of the graph, children before parents (axes of reductions excluded)."""
    seen: dict[Expr, None] = {}

    def go(x: Expr) -> None:
        if x not in seen:
            for k in children(x):
                go(k)
            seen[x] = None

    go(e)
    return list(seen)


def is_const(e: Expr, value: float | int | None = None) -> bool:
    return isinstance(e, Const) and (value is None or e.value == value)


def contains(e: Expr, targets: Iterable[Expr]) -> bool:
    wanted = set(targets)
    return any(x in wanted for x in subterms(e))

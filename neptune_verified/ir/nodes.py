"""Trusted: expressions as a table of nodes, each over earlier ones, so that shared terms are written once.

A node is one of::

    ["const", dtype, value]              value "3", "-1/8", "inf", "-inf", "true", "false"
    ["size", name, dtype]
    ["axis", name, extent]
    ["var", name, dtype, [axis, ...]]
    ["read", tensor, [index, ...], dtype]
    ["op", name, [argument, ...]]        ["op", "cast", [argument], dtype]
    ["reduce", reducer, [axis, ...], body]

where extent, axis, index, argument and body are positions of earlier nodes. Nodes are numbered in the order in which
a walk from the roots finishes them, which depends on the expressions alone.
"""

from __future__ import annotations

import re
from fractions import Fraction

from neptune_verified.ir import jsontext as j
from neptune_verified.ir.expr import (
    DTYPES,
    FLOATS,
    INF,
    INTS,
    OPS,
    REDUCERS,
    Axis,
    Const,
    Expr,
    Op,
    Read,
    Reduce,
    Size,
    Var,
    axis,
    const,
    int_limit,
    op,
    read,
    reduce_,
    size,
    var,
)

_NUMBER = re.compile(r"-?[0-9]{1,4000}(/[1-9][0-9]{0,3999})?")


class Writer:
    """Collects nodes; ``ref`` is an expression's position in ``nodes``."""

    def __init__(self) -> None:
        self.nodes: list[object] = []
        self.index: dict[Expr, int] = {}

    def ref(self, e: Expr) -> int:
        if e not in self.index:
            node = self._node(e)
            self.index[e] = len(self.nodes)
            self.nodes.append(node)
        return self.index[e]

    def refs(self, es: tuple[Expr, ...]) -> list[int]:
        return [self.ref(e) for e in es]

    def _node(self, e: Expr) -> list[object]:
        match e:
            case Const(value, dtype):
                return ["const", dtype, number_text(value)]
            case Size(name, dtype):
                return ["size", name, dtype]
            case Axis(name=name, extent=extent):
                return ["axis", name, self.ref(extent)]
            case Var(name, dtype, axes):
                return ["var", name, dtype, self.refs(axes)]
            case Read(tensor, indices, dtype):
                return ["read", tensor, self.refs(indices), dtype]
            case Op("cast", args, dtype):
                return ["op", "cast", self.refs(args), dtype]
            case Op(name, args, _):
                return ["op", name, self.refs(args)]
            case Reduce(reducer=reducer, axes=axes, body=body):
                return ["reduce", reducer, self.refs(axes), self.ref(body)]
            case _:
                raise TypeError(f"no text for {type(e).__name__}")


def number_text(value: Fraction | float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


class Table:
    """The expressions of a file's node table."""

    def __init__(self, value: j.Json, where: str) -> None:
        self.where = where
        self.nodes: list[Expr] = []
        for node, here in j.each(value, where):
            try:
                self.nodes.append(self._node(j.items(node, here), here))
            except j.FormatError:
                raise
            except RecursionError:
                j.fail(here, "nested too deeply")
            except ValueError as e:
                j.fail(here, str(e))

    def ref(self, value: j.Json, where: str) -> Expr:
        position = j.integer(value, where)
        if not 0 <= position < len(self.nodes):
            j.fail(where, f"there is no node {position}" + (" before it" if where.startswith(self.where) else ""))
        return self.nodes[position]

    def refs(self, value: j.Json, where: str) -> tuple[Expr, ...]:
        return tuple(self.ref(v, w) for v, w in j.each(value, where))

    def axis(self, value: j.Json, where: str) -> Axis:
        e = self.ref(value, where)
        if not isinstance(e, Axis):
            j.fail(where, f"an axis is wanted, node {value} is a {type(e).__name__}")
        return e

    def axes(self, value: j.Json, where: str) -> tuple[Axis, ...]:
        return tuple(self.axis(v, w) for v, w in j.each(value, where))

    def reduction(self, value: j.Json, where: str) -> Reduce:
        e = self.ref(value, where)
        if not isinstance(e, Reduce):
            j.fail(where, f"a reduction is wanted, node {value} is a {type(e).__name__}")
        return e

    # -- nodes ---------------------------------------------------------------------------------------------

    def _node(self, node: list[j.Json], where: str) -> Expr:
        match node:
            case ["const", kind, value]:
                return _const(dtype(kind, where), j.string(value, where), where)
            case ["size", name, kind]:
                return size(j.string(name, where), dtype(kind, where))
            case ["axis", name, extent]:
                return axis(j.string(name, where), self.ref(extent, where))
            case ["var", name, kind, axes]:
                return var(j.string(name, where), dtype(kind, where), self.axes(axes, where))
            case ["read", tensor, indices, kind]:
                return read(j.string(tensor, where), self.refs(indices, where), dtype(kind, where))
            case ["op", name, args, *kind]:
                return self._op(j.string(name, where), self.refs(args, where), kind, where)
            case ["reduce", reducer, axes, body]:
                return self._reduce(j.string(reducer, where), self.axes(axes, where), self.ref(body, where), where)
        kind = str(node[0]) if node else ""
        raise j.FormatError(f"{where}: unknown node {kind!r} with {max(len(node) - 1, 0)} fields")

    @staticmethod
    def _op(name: str, args: tuple[Expr, ...], kind: list[j.Json], where: str) -> Expr:
        if name not in OPS:
            j.fail(where, f"unknown operation {name!r}")
        if len(args) != OPS[name][0]:
            j.fail(where, f"{name} takes {OPS[name][0]} arguments, got {len(args)}")
        if len(kind) != (name == "cast"):
            j.fail(where, "a type stands after the arguments of a cast, and of nothing else")
        if name != "cast":
            return op(name, *args)
        target = dtype(kind[0], where)
        if target == args[0].dtype:
            j.fail(where, f"a cast from {target} to itself")
        return op(name, *args, dtype=target)

    @staticmethod
    def _reduce(reducer: str, axes: tuple[Axis, ...], body: Expr, where: str) -> Expr:
        if reducer not in REDUCERS:
            j.fail(where, f"unknown reducer {reducer!r}")
        if not axes or len(set(axes)) != len(axes):
            j.fail(where, "a reduction needs axes, each once")
        made = reduce_(reducer, axes, body)
        if made.axes != axes:
            wanted, found = (", ".join(a.name for a in some) for some in (made.axes, axes))
            j.fail(where, f"the axes of this reduction are called {wanted}, not {found}")
        return made


def dtype(value: j.Json, where: str) -> str:
    name = j.string(value, where)
    if name not in DTYPES:
        j.fail(where, f"unknown dtype {name!r}")
    return name


def _const(kind: str, text: str, where: str) -> Expr:
    if kind == "bool":
        if text not in ("true", "false"):
            j.fail(where, f"{text!r} is no truth value")
        return const(text == "true", kind)
    if text in ("inf", "-inf"):
        if kind not in FLOATS:
            j.fail(where, f"{kind} has no infinity")
        return const(INF if text == "inf" else -INF, kind)
    value = rational(text, where)
    if kind in INTS:
        low, high = (int_limit(kind, k).value for k in (0, 1))
        if value.denominator != 1 or not low <= value <= high:
            j.fail(where, f"{text} is no {kind}")
    return const(value, kind)


def rational(value: j.Json, where: str) -> Fraction:
    """An exact number, "3" or "-1/8"."""
    text = j.string(value, where)
    if not _NUMBER.fullmatch(text):
        j.fail(where, f"{text!r} is no exact number; write 3 or -1/8")
    return Fraction(text)

"""Trusted: reads the scalar expressions of te into the expression language. One ``Reader`` per stage.

Every te node has one row in a table or one method here; a node without is refused. ``read(e)`` has the dtype that te
gives ``e``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from neptune_verified.errors import UnsupportedProgram
from neptune_verified.frontend.lines import key
from neptune_verified.frontend.literals import STAND_IN, float_literal, is_least
from neptune_verified.frontend.names import Names
from neptune_verified.ir.expr import (
    DTYPES,
    FLOATS,
    INF,
    INTS,
    Axis,
    Const,
    Expr,
    Op,
    Size,
    const,
    op,
    read,
    size,
)
from neptune_verified.ir.program import Loc

BINARY = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "FloorDiv": "floordiv",
    "FloorMod": "floormod",
    "Max": "max",
    "Min": "min",
    "LT": "lt",
    "LE": "le",
    "GT": "gt",
    "GE": "ge",
    "EQ": "eq",
    "NE": "ne",
    "And": "and",
    "Or": "or",
}
BITWISE = {"BitwiseAnd": "and", "BitwiseOr": "or", "BitwiseXor": "ne"}
#: Arithmetic in these types wraps around in te, and does not here.
NARROW = ("int8", "int16", "uint8")
ARITHMETIC = ("add", "sub", "mul")
#: te's calls with one argument that are one operation here. te rounds ties to even in both of its rounding functions.
UNARY_CALLS = {
    **{name: name for name in ("exp", "exp2", "log", "sqrt", "rsqrt", "tanh", "sigmoid")},
    **{name: name for name in ("erf", "sin", "cos", "floor", "ceil", "round")},
    "fabs": "abs",
    "nearbyint": "round",
}


@dataclass(slots=True)
class Sizes:
    """Lengths and scalar arguments, in order of first appearance."""

    names: Names
    found: dict[int, tuple[Size, Any]] = field(default_factory=dict)
    iteration: frozenset[int] = frozenset()  # variables of some stage's or reduction's axes: never a size

    def get(self, variable: Any, dtype: str) -> Size:
        k = key(variable)
        if k not in self.found:
            self.found[k] = (size(self.names.give(variable.name, "size"), dtype), variable)
        return self.found[k][0]

    def all(self) -> tuple[Size, ...]:
        return tuple(s for s, _ in self.found.values())


@dataclass(slots=True)
class Reader:
    """Reads the expressions of one stage (or of one shape, when ``tensors`` is empty)."""

    stage: str
    loc: Loc
    sizes: Sizes
    tensors: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)
    mask_literals: bool = True
    drop_conditions: bool = False  # read reductions without where=, as TVM's create_prim_func does
    notes: list[str] = field(default_factory=list)
    bound: dict[int, Expr] = field(default_factory=dict)
    memo: dict[int, Expr] = field(default_factory=dict)

    def refuse(self, construct: str, why: str) -> NoReturn:
        raise UnsupportedProgram(construct, self.stage, self.loc, why)

    def dtype(self, e: Any) -> str:
        dtype = str(e.ty)
        if dtype not in DTYPES:
            self.refuse(f"type {dtype}", f"the types are {', '.join(DTYPES)}; cast to one of them")
        return dtype

    def read(self, e: Any) -> Expr:
        k = key(e)  # te expressions are graphs: a shared node is read once
        if k not in self.memo:
            self.memo[k] = self._read(e)
        return self.memo[k]

    def _read(self, e: Any) -> Expr:
        kind = type(e).__name__
        if kind in BINARY:
            return self._binary(BINARY[kind], e)
        if kind in BITWISE:
            return self._bitwise(kind, e)
        method: Callable[[Any], Expr] | None = getattr(self, f"_{kind.lower()}", None) if kind in METHODS else None
        if method is None:
            self.refuse(f"tirx.{kind}", "it has no meaning in a definition; see docs/limitations.md for what has")
        return method(e)

    # ------------------------------------------------------------------------------------------ leaves

    def _var(self, e: Any) -> Expr:
        dtype = self.dtype(e)
        value = self.bound.get(key(e))
        if value is not None:
            return op("cast", value, dtype=dtype) if value.dtype != dtype else value
        if key(e) in self.sizes.iteration:
            self.refuse(f"axis {e.name}", "it is no axis of this stage; reduce over it, or index with the stage's own")
        return self.sizes.get(e, dtype)

    def _intimm(self, e: Any) -> Expr:
        return const(int(e.value), self.dtype(e))

    def _floatimm(self, e: Any) -> Expr:
        if math.isnan(e.value):
            self.refuse("literal NaN", "NaN is no value of a definition; select another value before it arises")
        return float_literal(e.value, self.dtype(e))

    # ------------------------------------------------------------------------------------------ operations

    def _binary(self, name: str, e: Any) -> Expr:
        if name == "and" and _not_nan_of(e.b) is not None and self._about(e.a, _not_nan_of(e.b)):
            return self.read(e.a)  # te spells isinf(x) and isfinite(x) with a NaN test; no value is a NaN here
        a, b = self.read(e.a), self.read(e.b)
        if name in ARITHMETIC and a.dtype in NARROW:
            self.refuse(f"{name} in {a.dtype}", "it may wrap around; cast both operands to int32 first")
        if a.dtype == "bool" and name not in ("and", "or", "eq", "ne"):
            if name not in ("max", "min"):
                self.refuse(f"{name} of bool", "cast to int32 first")
            name = {"max": "or", "min": "and"}[name]
        if name == "mul" and isinstance(b, Const) and b.value == -1:
            return op("neg", a)  # te writes -x as x * -1
        return op(name, a, b)

    def _about(self, test: Any, x: Any) -> bool:
        """``test`` is ``|x| == inf``, alone or inside te's spelling of ``not isinf(x)``."""
        kind = type(test).__name__
        if kind == "Not" and type(test.a).__name__ == "And":
            return self._same(_not_nan_of(test.a.b), x) and self._about(test.a.a, x)
        if kind != "EQ" or type(test.a).__name__ != "Call" or type(test.b).__name__ != "FloatImm":
            return False
        is_abs = str(getattr(test.a.op, "name", "")).endswith(".fabs")
        return is_abs and test.b.value == INF and self._same(test.a.args[0], x)

    def _same(self, a: Any, b: Any) -> bool:
        return a is not None and self.read(a) is self.read(b)

    def _bitwise(self, kind: str, e: Any) -> Expr:
        if self.dtype(e) != "bool":
            self.refuse(f"tirx.{kind} of {self.dtype(e)}", "only truth values may be combined bit by bit; use // and %")
        return op(BITWISE[kind], self.read(e.a), self.read(e.b))

    def _not(self, e: Any) -> Expr:
        return op("not", self.read(e.a))

    def _bitwisenot(self, e: Any) -> Expr:
        if self.dtype(e) != "bool":
            self.refuse(f"tirx.BitwiseNot of {self.dtype(e)}", "only a truth value may be inverted")
        return op("not", self.read(e.a))

    def _div(self, e: Any) -> Expr:
        a, b = self.read(e.a), self.read(e.b)
        return op("div", a, b) if self.dtype(e) in FLOATS else _truncdiv(a, b)

    def _mod(self, e: Any) -> Expr:
        a, b = self.read(e.a), self.read(e.b)
        if _nonnegative(a) and _nonnegative(b):
            return op("floormod", a, b)
        return op("sub", a, op("mul", _truncdiv(a, b), b))

    def _select(self, e: Any) -> Expr:
        return op("select", self.read(e.condition), self.branch(e.true_value), self.branch(e.false_value))

    def _cast(self, e: Any) -> Expr:
        return op("cast", self.read(e.value), dtype=self.dtype(e))

    def _let(self, e: Any) -> Expr:
        value, k = self.read(e.value), key(e.var)
        if self.bound.setdefault(k, value) is not value:
            self.refuse(f"tirx.Let of {e.var.name}", "the variable is bound twice; give each Let its own variable")
        return self.read(e.body)

    def branch(self, e: Any) -> Expr:
        """A whole branch of a select: here, and nowhere else, the least number of a float type is a mask."""
        if type(e).__name__ == "FloatImm" and self.dtype(e) in FLOATS:
            value, dtype = float(e.value), self.dtype(e)
            if self.mask_literals and is_least(value, dtype):
                self.notes.append(f"literal {value:.6g} in stage {self.stage}, the least {dtype}, is read as -inf")
                return const(-INF, dtype)
            if -INF < value <= STAND_IN:
                self.notes.append(f"finite stand-in {value:g} in stage {self.stage}; write nv.neg_inf({dtype!r})")
        return self.read(e)

    # ------------------------------------------------------------------------------------------ calls

    def _call(self, e: Any) -> Expr:
        name = str(getattr(e.op, "name", type(e.op).__name__))
        short = name.rpartition(".")[2]
        if name == "te.tensor_load":
            return self._load(e)
        if short == "if_then_else":
            return op("select", self.read(e.args[0]), self.branch(e.args[1]), self.branch(e.args[2]))
        if short == "likely":
            return self.read(e.args[0])
        if short == "isnan":
            self.refuse(name, "NaN is no value of a definition, and an undefined one cannot be tested for")
        if short not in UNARY_CALLS and short not in SPELLED_OUT:
            self.refuse(name, "it has no meaning in a definition; write it with the operations that have")
        if self.dtype(e) not in FLOATS:
            self.refuse(f"{name} of {self.dtype(e)}", "it is a function on floats; cast its argument first")
        args = [self.read(a) for a in e.args]
        return op(UNARY_CALLS[short], *args) if short in UNARY_CALLS else SPELLED_OUT[short](*args)

    def _load(self, e: Any) -> Expr:
        tensor = e.args[0]
        found = self.tensors.get((key(tensor.op), int(tensor.value_index)))
        if found is None:
            self.refuse(f"read of {tensor.op.name}", "a shape depends on lengths alone; pass the value as a te.var")
        return read(found[0], [self.index(i) for i in e.args[1:]], found[1])

    def index(self, e: Any) -> Expr:
        """An index, without te's widening casts (they do not change its value)."""
        i = self.read(e)
        while isinstance(i, Op) and i.name == "cast" and i.dtype == "int64" and i.args[0].dtype in INTS:
            i = i.args[0]
        if i.dtype not in INTS:
            self.refuse(f"index of type {i.dtype}", "cast it to int32")
        return i


METHODS = frozenset(
    {"Var", "IntImm", "FloatImm", "Not", "BitwiseNot", "Div", "Mod", "Select", "Cast", "Let", "Call"},
)


def _one(x: Expr) -> Expr:
    return const(1, x.dtype)


#: te's calls that are spelled with the operations of the language, exactly over the reals.
SPELLED_OUT: dict[str, Callable[..., Expr]] = {
    "pow": lambda x, y: op("pow", x, y),
    "log1p": lambda x: op("log", op("add", _one(x), x)),
    "log2": lambda x: op("div", op("log", x), op("log", const(2, x.dtype))),
    "log10": lambda x: op("div", op("log", x), op("log", const(10, x.dtype))),
    "trunc": lambda x: op("select", op("ge", x, const(0, x.dtype)), op("floor", x), op("ceil", x)),
}


def _not_nan_of(e: Any) -> Any:
    """x, if e is ``not isnan(x)``."""
    inner: Any = e.a if type(e).__name__ == "Not" else None
    if type(inner).__name__ == "Call" and str(getattr(inner.op, "name", "")).endswith(".isnan"):
        return inner.args[0]
    return None


def _nonnegative(e: Expr) -> bool:
    """Evidently >= 0: built from axes, lengths of shapes excluded (an int argument may be negative)."""
    match e:
        case Axis():
            return True
        case Const(value):
            return value >= 0
        case Op("add" | "mul" | "max" | "min" | "floordiv" | "floormod" | "cast", args):
            return all(_nonnegative(a) for a in args)
        case _:
            return False


def _truncdiv(a: Expr, b: Expr) -> Expr:
    """Integer division that rounds toward 0, in terms of floor division."""

    def by(divisor: Expr) -> Expr:
        if _nonnegative(a):
            return op("floordiv", a, divisor)
        negative = op("neg", op("floordiv", op("neg", a), divisor))
        return op("select", op("ge", a, const(0, a.dtype)), op("floordiv", a, divisor), negative)

    if _nonnegative(b):
        return by(b)
    return op("select", op("ge", b, const(0, b.dtype)), by(b), op("neg", by(op("neg", b))))

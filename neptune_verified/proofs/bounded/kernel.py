"""Trusted: interprets the body of one kernel for one program, from its syntax tree. Nothing of the file is executed."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from neptune_verified.proofs.bounded import scalars
from neptune_verified.proofs.bounded.calls import TYPES, Calls
from neptune_verified.proofs.bounded.coverage import Coverage
from neptune_verified.proofs.bounded.result import Fault, Unknown, Unsupported
from neptune_verified.proofs.bounded.scalars import Item, NeedsValues
from neptune_verified.proofs.bounded.values import Bit, Ghost, Int, Lit, Ptr, Val

_BINARY: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "floormod",
    ast.BitAnd: "and", ast.BitOr: "or", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq",
    ast.NotEq: "ne",
}  # fmt: skip
RESERVED = {"tl", "triton", "torch", "range", "float", "int"}
_STEPS = 20_000


class Interpreter:
    def __init__(self, calls: Calls, arguments: Mapping[str, Item], coverage: Coverage) -> None:
        self.calls, self.domain, self.coverage = calls, calls.domain, coverage
        self.names: dict[str, Any] = dict(arguments)
        self.line, self.steps = 0, 0

    def run(self, body: list[ast.stmt]) -> None:
        try:
            with np.errstate(all="ignore"):
                self.block(body)
        except (Fault, Unsupported) as e:
            e.line = e.line or self.line
            raise

    def block(self, body: list[ast.stmt]) -> None:
        for s in body:
            self.line = self.calls.access.line = s.lineno
            self.statement(s)

    def statement(self, s: ast.stmt) -> None:
        match s:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name not in RESERVED:
                self.names[name] = self.eval(value)
            case ast.Expr(value=ast.Call() as call):
                self.eval(call)
            case ast.For(target=ast.Name(id=name), iter=it, body=body, orelse=[]) if name not in RESERVED:
                self.loop(name, it, body)
            case ast.If(test=test, body=body, orelse=other):
                taken = self.condition(test)
                self.coverage.branch(s.lineno, taken)
                self.block(body if taken else other)
            case _:
                raise Unsupported(f"a statement of the kind {type(s).__name__}")

    def condition(self, test: ast.expr) -> bool:
        c = self.eval(test)
        if isinstance(c, Ghost):
            raise NeedsValues
        if not isinstance(c, Bit | Int) or c.shape or (isinstance(c, Int) and c.terms):
            raise Unsupported("a condition that is no scalar")
        if isinstance(c, Bit) and c.bad is not None and c.bad.any():
            raise Fault("O9", "a branch on an undefined condition")
        return bool(c.a)

    def loop(self, name: str, it: ast.expr, body: list[ast.stmt]) -> None:
        match it:
            case ast.Call(func=ast.Name(id="range"), args=args, keywords=[]) if 1 <= len(args) <= 3:
                bounds = [self.bound(a) for a in args]
            case _:
                raise Unsupported("a loop over something that is no range")
        if len(bounds) == 3 and bounds[2] <= 0:
            raise Unsupported("a loop that does not go up")
        line, count, before = self.line, 0, set(self.names)
        for value in range(*bounds):
            count += 1
            self.steps += 1
            if self.steps > _STEPS:
                raise Unknown("too many iterations")
            self.names[name] = Int(np.asarray(value, dtype=np.int64), 32)
            self.block(body)
        self.coverage.loop(line, count)
        # What a loop defines first is not there after it: it may have run no iteration.
        for inner in set(self.names) - before:
            del self.names[inner]

    def bound(self, e: ast.expr) -> int:
        x = self.eval(e)
        if isinstance(x, Int) and not x.shape and not x.terms:
            return int(x.a)
        raise Unsupported("a loop bound that is no integer")

    # -- expressions -------------------------------------------------------------------------------------------

    def eval(self, e: ast.expr) -> Any:
        match e:
            case ast.Name(id=name):
                if name in self.names:
                    return self.names[name]
                raise Fault("O13", f"{name} is not defined here", e.lineno)
            case ast.Constant(value=bool()):
                raise Unsupported("a literal truth value")
            case ast.Constant(value=int() as n):
                return Int(np.asarray(n, dtype=np.int64), 0)
            case ast.Constant(value=float() as x):
                return Lit(Fraction(x) if np.isfinite(x) else x)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return scalars.binary(self.domain, _BINARY[type(op)], self.eval(left), self.eval(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _BINARY:
                a, b = self.eval(left), self.eval(right)
                result = scalars.binary(self.domain, _BINARY[type(op)], a, b)
                if isinstance(result, Bit) and (isinstance(a, Val) or isinstance(b, Val)):
                    self.coverage.comparison(e, result)
                return result
            case ast.UnaryOp(op=ast.USub(), operand=x):
                return scalars.negative(self.domain, self.eval(x))
            case ast.Subscript(value=x, slice=index):
                return self.subscript(self.eval(x), index)
            case ast.Call():
                return self.call(e)
            case _:
                raise Unsupported(f"an expression of the kind {type(e).__name__}", e.lineno)

    def subscript(self, x: Any, index: ast.expr) -> Item:
        """``[:, None]`` and the like."""
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        key: list[Any] = []
        for part in parts:
            match part:
                case ast.Slice(lower=None, upper=None, step=None):
                    key.append(slice(None))
                case ast.Constant(value=None):
                    key.append(None)
                case _:
                    raise Unsupported("an index other than : and None")
        if isinstance(x, Lit | str | tuple):
            raise Unsupported("an index of a literal")
        if key.count(slice(None)) != len(x.shape):
            raise Fault("O13", f"{len(x.shape)} dimensions are indexed with {key.count(slice(None))}")
        rank = len(x.shape)
        if isinstance(x, Int | Ptr):
            return x.each(lambda a: a.reshape((1,) * (rank - a.ndim) + a.shape)[tuple(key)])
        return x.each(lambda a: a[tuple(key)])  # type: ignore[no-any-return]

    def call(self, e: ast.Call) -> Any:
        match e.func:
            case ast.Name(id="float") if len(e.args) == 1 and not e.keywords and isinstance(e.args[0], ast.Constant):
                values = {"-inf": -np.inf, "inf": np.inf, "nan": np.nan}
                if e.args[0].value in values:
                    return Lit(values[str(e.args[0].value)])
            case ast.Name(id=name) if name in self.calls.helpers and name not in self.names and not e.keywords:
                return self.calls.helper(self.calls.helpers[name], [self.eval(a) for a in e.args])
            case ast.Attribute(value=ast.Name(id="tl"), attr=name) if name in self.calls.table:
                return self.library(name, e)
        raise Unsupported(f"a call of {ast.unparse(e.func)}", e.lineno)

    def library(self, name: str, e: ast.Call) -> Any:
        keywords = {k.arg: self.argument(k.value) for k in e.keywords if k.arg is not None}
        if len(keywords) != len(e.keywords):
            raise Unsupported("** in a call")
        args = [self.argument(a) for a in e.args]
        try:
            return self.calls.table[name](*args, **keywords)
        except TypeError as error:
            raise Unsupported(f"tl.{name}: {error}", e.lineno) from error

    def argument(self, e: ast.expr) -> Any:
        match e:
            case ast.Attribute(value=ast.Name(id="tl"), attr=name) if name in TYPES:
                return TYPES[name]
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return tuple(self.eval(x) for x in parts)
            case ast.Constant(value=str() as text):
                return text
            case ast.Name(id=name) if name in self.calls.helpers and name not in self.names:
                return name
            case _:
                return self.eval(e)

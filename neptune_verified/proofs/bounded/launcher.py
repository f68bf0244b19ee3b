"""Trusted: interprets the launcher: what it checks, allocates, launches and returns for given shapes."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from neptune_verified.ir.program import Program
from neptune_verified.proofs.bounded.result import Fault, Unknown, Unsupported
from neptune_verified.proofs.bounded.source import HOST, Config, KernelFile
from neptune_verified.proofs.bounded.views import is_shares, shares_of

Number = int | float | bool
Shapes = Mapping[str, tuple[int, ...]]
#: ``_check_limit`` lets numbers of this size pass: a multiple of a tile above them is still an int32.
LIMIT = 2**31 - 8192

#: Names that mean something in the launcher's text.
_RESERVED = {"torch", "triton", "tl", "max", "min", "float", "int", "out", "config", "ShapeError", *HOST}
#: Names that certain statements alone give a value.
_OWN = {"blocks", "options", "shares", "share"}


class Rejected(Exception):
    """The launcher raises ShapeError."""


@dataclass(slots=True)
class Launch:
    """``arguments``: names of tensors, (tensor, dim) for a stride, numbers. ``values``: the constexpr arguments."""

    kernel: str
    arguments: list[str | tuple[str, int] | Number]
    config: Config
    programs: int
    line: int


@dataclass(slots=True)
class Outcome:
    outputs: dict[str, tuple[tuple[int, ...], str]] = field(default_factory=dict)
    between: dict[str, tuple[tuple[int, ...], str]] = field(default_factory=dict)
    launches: list[Launch] = field(default_factory=list)
    returned: tuple[str, ...] = ()


class Launcher:
    """One call of the launcher. ``choice``: the number of the configuration that every table gives; ``splits``: into how
    many shares an axis is split, where the launcher splits one."""

    def __init__(
        self,
        file: KernelFile,
        program: Program,
        shapes: Shapes,
        scalars: Mapping[str, Number],
        choice: int,
        splits: int = 1,
    ):
        self.splits = splits
        assert file.launcher is not None
        self.file, self.program, self.function = file, program, file.launcher
        self.shapes: dict[str, tuple[int, ...]] = dict(shapes)
        self.numbers: dict[str, Number] = dict(scalars)
        self.choice = choice
        self.picked: Config | None = None
        self.outcome = Outcome()
        self.checked = False

    def run(self) -> Outcome:
        self._signature()
        line = self.function.lineno
        try:
            for s in self.function.body:
                line = s.lineno
                self._statement(s)
        except (Fault, Unsupported) as e:
            e.line = e.line or line
            raise
        if not self.checked:
            raise Fault("O13", "rank and dtype of the inputs are not checked", self.function.lineno)
        return self.outcome

    def _signature(self) -> None:
        a = self.function.args
        names = [x.arg for x in a.args]
        if names != [t.name for t in self.program.inputs]:
            raise Fault("O13", f"the launcher takes {names}", self.function.lineno)
        keywords = [x.arg for x in a.kwonlyargs]
        scalars = [s.name for s in self.program.sizes if s.name not in self.program.shape_sizes()]
        defaults = [None if d is None else ast.unparse(d) for d in a.kw_defaults]
        cuts = any(is_shares(n) for n in ast.walk(self.function) if isinstance(n, ast.Assign))
        asked = ["splits", "split_size"] if cuts or "splits" in keywords else []
        numbers = defaults[len(defaults) - len(asked) :] if asked else []
        sensible = all(d == "None" or (d and d.isdecimal() and int(d) > 0) for d in numbers)
        sensible = sensible and (not numbers or "None" in numbers)
        plain = defaults[: len(defaults) - len(asked)]
        if (
            keywords != [*scalars, "out", "config", *asked]
            or plain != [*(None for _ in scalars), "None", "None"]
            or not sensible
        ):
            raise Fault("O13", f"the launcher takes the keywords {keywords}", self.function.lineno)
        if self.function.name != self.program.name:
            raise Fault("O13", f"the launcher is {self.function.name}, not {self.program.name}", self.function.lineno)
        assigned = {n.id for n in ast.walk(self.function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        if hidden := {*_RESERVED, *self.file.kernels, *self.file.tables, *asked} & {*names, *scalars, *assigned}:
            raise Unsupported(f"the launcher hides {sorted(hidden)[0]}", self.function.lineno)
        given = {*names, *(s.name for s in self.program.sizes), *self.program.outputs}
        if double := {*_OWN, "programs"} & given:
            raise Unsupported(f"{min(double)} has two meanings in the launcher", self.function.lineno)
        if any(x.annotation is not None for x in (*a.args, *a.kwonlyargs)):
            raise Unsupported("a launcher with annotations", self.function.lineno)
        if a.posonlyargs or a.vararg or a.kwarg or a.defaults:
            raise Unsupported("a launcher with other parameters", self.function.lineno)

    def _statement(self, s: ast.stmt) -> None:
        match s:
            case ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=args, keywords=[])):
                self._check(name, args)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call(func=ast.Name(id="_results"), args=args)):
                self._results([_name(n) for n in names], args)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call(func=ast.Name(id="_pick"), args=args)):
                self._pick([_name(n) for n in names], args)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call(func=ast.Name(id="_between"), args=args)):
                self._between([_name(n) for n in names], args)
            case ast.Assign() if is_shares(s):
                self._shares(*shares_of(s))
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name not in {*self.shapes, *_OWN}:
                self.numbers[name] = self.number(value)
            case ast.If(test=test, body=[ast.Raise(exc=ast.Call(func=ast.Name(id="ShapeError")))], orelse=[]):
                if self.number(test):
                    raise Rejected(ast.unparse(test))
            case ast.If(test=ast.Name(id=name), body=[ast.With(items=[item], body=[ast.Expr(value=call)])], orelse=[]):
                self._launch(name, item, call)
            case ast.Return(value=ast.Name(id=name)):
                self.outcome.returned = (name,)
            case ast.Return(value=ast.Tuple(elts=names)):
                self.outcome.returned = tuple(_name(n) for n in names)
            case _:
                raise Unsupported(f"a statement of the launcher: {ast.unparse(s)[:60]}")

    def _check(self, name: str, args: list[ast.expr]) -> None:
        if name == "_check_tensors":
            rows = [tuple(ast.unparse(x) for x in r.elts) for r in args[0].elts if isinstance(r, ast.Tuple)] \
                if isinstance(args[0], ast.Tuple) else []  # fmt: skip
            want = [(repr(t.name), t.name, str(len(t.shape)), f"torch.{t.dtype}") for t in self.program.inputs]
            if rows != want:
                raise Fault("O13", f"the inputs are checked as {rows}")
            self.checked = True
            for t in self.program.inputs:
                if len(self.shapes[t.name]) != len(t.shape):
                    raise Rejected(t.name)
        elif name == "_check_length" and len(args) == 4:
            if self.number(args[1]) != self.number(args[3]):
                raise Rejected(ast.unparse(args[1]))
        elif name == "_check_limit" and len(args) == 1 and isinstance(args[0], ast.Tuple):
            for row in args[0].elts:
                match row:
                    case ast.Tuple(elts=[ast.Constant(value=str() as what), x]):
                        if abs(self.number(x)) > LIMIT:
                            raise Rejected(what)
                    case _:
                        raise Unsupported("a call of _check_limit of another form")
        elif name != "_check_scalar":
            raise Unsupported(f"a call of {name} in the launcher")

    def _results(self, names: list[str], args: list[ast.expr]) -> None:
        match args:
            case [ast.Tuple(elts=specs), ast.Tuple(elts=inputs), ast.Name(id="out")] if len(specs) == len(names):
                pass
            case _:
                raise Unsupported("a call of _results of another form")
        if {_name(x) for x in inputs} != {t.name for t in self.program.inputs}:
            raise Fault("O11", "the results are not kept apart from every input")
        for name, spec in zip(names, specs, strict=True):
            shape, dtype = self._spec(spec)
            if name in self.shapes or name in self.numbers or name in _OWN:
                raise Unsupported(f"{name} is assigned twice")
            self.outcome.outputs[name] = (shape, dtype)
            self.shapes[name] = shape

    def _shares(self, length: ast.expr, block: int) -> None:
        """Shares as large as they have to be; the last ones may be empty."""
        n = int(self.number(length))
        if not 2 <= self.splits <= n:
            raise Unknown(f"{n} elements are not split into {self.splits} shares")
        most = (n + self.splits - 1) // self.splits
        size = -(-most // block) * block
        self.numbers |= {"shares": self.splits, "share": size}

    def _between(self, names: list[str], args: list[ast.expr]) -> None:
        match args:
            case [ast.Tuple(elts=specs), ast.Name(id=x)] if len(specs) == len(names) and x in self.shapes:
                pass
            case _:
                raise Unsupported("a call of _between of another form")
        for name, spec in zip(names, specs, strict=True):
            if name in self.shapes or name in self.numbers or name in _OWN:
                raise Unsupported(f"{name} is assigned twice")
            self.shapes[name], dtype = self._spec(spec)
            self.outcome.between[name] = (self.shapes[name], dtype)

    def _spec(self, spec: ast.expr) -> tuple[tuple[int, ...], str]:
        match spec:
            case ast.Tuple(elts=[ast.Tuple(elts=dims), ast.Attribute(value=ast.Name(id="torch"), attr=dtype)]):
                return tuple(int(self.number(d)) for d in dims), dtype
            case _:
                raise Unsupported("a result of another form")

    def _pick(self, names: list[str], args: list[ast.expr]) -> None:
        match args:
            case [ast.Name(id=table), rows, ast.Name(id="config") | ast.Constant(value=None)] if names == [
                "blocks",
                "options",
            ]:
                pass
            case _:
                raise Unsupported("a call of _pick of another form")
        if table not in self.file.tables:
            raise Fault("O13", f"there is no table {table}")
        configs, have = self.file.tables[table], self.number(rows)
        if not any(have >= c.rows for c in configs):
            raise Fault("O13", f"no configuration of {table} is for {have} rows")
        self.picked = configs[min(self.choice, len(configs) - 1)]

    def _launch(self, test: str, item: ast.withitem, call: ast.expr) -> None:
        device = item.context_expr
        if not (isinstance(device, ast.Call) and ast.unparse(device.func) == "_device" and item.optional_vars is None):
            raise Unsupported("a launch without its device")
        if len(device.args) != 1 or _name(device.args[0]) not in self.shapes:
            raise Unsupported("a device of something that is no tensor")
        match call:
            case ast.Call(
                func=ast.Subscript(value=ast.Name(id=kernel), slice=ast.Tuple(elts=[ast.Name(id=grid)])),
                args=args,
                keywords=[
                    ast.keyword(arg=None, value=ast.Name(id="blocks")),
                    ast.keyword(arg=None, value=ast.Name(id="options")),
                ],
            ) if grid == test:
                pass
            case _:
                raise Unsupported("a launch of another form")
        if kernel not in self.file.kernels:
            raise Fault("O13", f"there is no kernel {kernel}")
        if self.picked is None:
            raise Fault("O13", "a launch without a configuration")
        arguments: list[str | tuple[str, int] | Number] = []
        for a in args:
            arguments += self._argument(a)
        programs = int(self.number(ast.Name(id=grid)))
        if programs < 0:
            raise Fault("O11", f"a grid of {programs} programs")
        if programs >= 2**31:
            raise Fault("O12", "a grid that does not fit int32")
        if self.picked.options.get("enable_fp_fusion") is not False:
            raise Fault("O16", "the contraction of products and sums is left on")
        self.outcome.launches.append(Launch(kernel, arguments, self.picked, programs, call.lineno))
        self.picked = None

    def _argument(self, a: ast.expr) -> list[str | tuple[str, int] | Number]:
        match a:
            case ast.Starred(value=ast.Call(func=ast.Attribute(value=ast.Name(id=t), attr="stride"), args=[])):
                if t not in self.shapes:
                    raise Unsupported(f"strides of {t}, which is no tensor")
                return [(t, k) for k in range(len(self.shapes[t]))]
            case ast.Name(id=name) if name in self.shapes:
                return [name]
            case _:
                return [self.number(a)]

    def number(self, e: ast.expr) -> Number:
        match e:
            case ast.Constant(value=int() | float() as n):
                return n
            case ast.Name(id=name) if name in self.numbers:
                return self.numbers[name]
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id=t), attr="shape"), slice=ast.Constant(value=int() as k)
            ):
                if t not in self.shapes or not 0 <= k < len(self.shapes[t]):
                    raise Fault("O13", f"{t}.shape[{k}] is not there")
                return self.shapes[t][k]
            case ast.Subscript(value=ast.Name(id="blocks"), slice=ast.Constant(value=str() as name)):
                if self.picked is None or name not in self.picked.blocks:
                    raise Fault("O13", f"no block {name}")
                return self.picked.blocks[name]
            case ast.UnaryOp(op=ast.USub(), operand=x):
                return -self.number(x)
            case ast.UnaryOp(op=ast.Not(), operand=x):
                return not self.number(x)
            case ast.BinOp(left=left, op=op, right=right):
                return _arithmetic(op, self.number(left), self.number(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return _compare(op, self.number(left), self.number(right))
            case ast.Call(func=ast.Name(id="float"), args=[x], keywords=[]):
                return float(self.number(x))
            case ast.Call(func=ast.Name(id="max" | "min" as name), args=[x, y], keywords=[]):
                return (max if name == "max" else min)(self.number(x), self.number(y))
            case _:
                raise Unsupported(f"an expression of the launcher: {ast.unparse(e)[:60]}")


def _name(e: ast.expr) -> str:
    if isinstance(e, ast.Name):
        return e.id
    raise Unsupported(f"a name was expected: {ast.unparse(e)[:60]}")


def _arithmetic(op: ast.operator, a: Number, b: Number) -> Number:
    match op:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.FloorDiv() | ast.Mod():
            if b == 0:
                raise Fault("O12", "a division by zero in the launcher")
            return a // b if isinstance(op, ast.FloorDiv) else a % b
        case _:
            raise Unsupported(f"{type(op).__name__} in the launcher")


def _compare(op: ast.cmpop, a: Number, b: Number) -> bool:
    match op:
        case ast.GtE():
            return a >= b
        case ast.Eq():
            return a == b
        case _:
            raise Unsupported(f"{type(op).__name__} in the launcher")

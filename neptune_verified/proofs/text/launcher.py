"""Trusted: reads the launcher, statement by statement: what it checks, allocates, launches and returns.

The statements and their order are fixed: checks of the tensors, lengths, checks of lengths and arguments, results, launches.
Lengths are symbols; a length is what the first tensor that has it says, and every other dimension must have been checked.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from neptune_verified.ir.expr import FLOATS, Const, Expr, Op, Size, const, op, size
from neptune_verified.ir.loops import SPLIT_SIZE, SPLITS, LoopProgram
from neptune_verified.ir.program import Assumption
from neptune_verified.ir.split import SplitForm, split_form
from neptune_verified.proofs.text.findings import Unproved, at
from neptune_verified.proofs.text.integers import zero
from neptune_verified.proofs.text.launch import Grid, Ground
from neptune_verified.proofs.text.syntax import FileText

_KINDS = {"int": ("int", "an int"), "float": ("(int, float)", "a number")}
#: What makes an exception with a message.
_MESSAGE = (ast.Raise, ast.Call, ast.Name, ast.Load, ast.Constant, ast.JoinedStr, ast.FormattedValue)
#: Names that a launcher's text gives meanings of its own, or that have one in Python.
_OWN = frozenset({
    "blocks", "options", "programs", "shares", "share", "out", "config", "splits", "split_size",
    "torch", "triton", "tl", "float", "int", "max", "min", "range",
})  # fmt: skip
_OPS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "floormod"}


@dataclass(slots=True)
class Launch:
    """One kernel's launch. ``factors``: the number of programs as a product; ``blocks["B"]`` is ``Size("blocks.B")``.
    ``args``: ("tensor", name), ("stride", name, dimension) or ("size", name)."""

    kernel: str
    table: str
    factors: list[Expr]
    args: list[tuple[str, str, int]]
    line: int


@dataclass(slots=True)
class Launches:
    """The launches of one nest: the rolling update, or else the kernels of its split-K form; ``form`` is None where it has
    none. ``block``: the size of a share is a multiple of it."""

    form: SplitForm | None
    rolling: list[Launch] = field(default_factory=list)
    split: list[Launch] = field(default_factory=list)
    block: int = 1


@dataclass(slots=True)
class Launcher:
    nests: list[Launches] = field(default_factory=list)
    #: What it checks of lengths and arguments, besides the limit on all of them.
    checked: list[Assumption] = field(default_factory=list)


class LauncherReader:
    def __init__(self, file: FileText, loops: LoopProgram) -> None:
        self.file, self.program = file, loops.program
        self.forms = [split_form(loops.program, nest) if nest.split else None for nest in loops.nests]
        self.outputs = {
            o.name: o for nest in loops.nests for o in (*nest.outputs, *(s for p in nest.passes for s in p.stores))
        }
        self.inputs = {t.name: t for t in self.program.inputs}
        self.sizes = {s.name: s for s in self.program.sizes}
        self.known: dict[str, Expr] = {}
        self.dimensions: set[tuple[str, int]] = set()
        self.scalars: set[str] = set()
        self.limited: set[str] = set()
        self.tensors = False
        self.allocated = False
        self.table = ""
        self.programs: list[Expr] | None = None
        self.bounded = False
        #: The nest at hand, where its launches go, and the tensors between the kernels of its split-K form, once allocated.
        self.nest: Launches | None = None
        self.goes: list[Launch] | None = None
        self.between: dict[str, int] = {}
        self.found = Launcher()
        self.returned = False

    def read(self) -> Launcher:
        f = self.file.launcher
        assert f is not None
        self.names(f)
        self.signature(f)
        body = f.body[1:] if ast.get_docstring(f) is not None else f.body
        for s in body:
            with at(s.lineno):
                if self.returned:
                    raise Unproved("O13", "a statement after the return")
                self.statement(s)
        if not self.returned:
            raise Unproved("O13", "the launcher returns nothing", f.lineno)
        return self.found

    def names(self, f: ast.FunctionDef) -> None:
        """A name of the definition's, or of a tensor between two kernels, means that and nothing else in the whole text."""
        file = self.file
        meant = {*_OWN, *file.device, *file.host, *file.kernels, *file.tables, *file.signatures}
        given = [*self.inputs, *self.sizes, *self.outputs]
        for between in [[t.name for t in form.temporaries] for form in self.forms if form is not None]:
            if clash := meant.intersection(between) | set(given).intersection(between):
                raise Unproved("O13", f"{min(clash)} has two meanings in the launcher", f.lineno)
        if clash := meant.intersection(given) | {n for n in given if given.count(n) > 1}:
            raise Unproved("O13", f"{min(clash)} has two meanings in the launcher", f.lineno)

    def signature(self, f: ast.FunctionDef) -> None:
        a = f.args
        scalars = [s.name for s in self.program.sizes if s.name not in self.program.shape_sizes()]
        own = [x.arg for x in a.args], [x.arg for x in a.kwonlyargs]
        splits = ["splits", "split_size"] if any(self.forms) else []
        wanted = [t.name for t in self.program.inputs], [*scalars, "out", "config", *splits]
        defaults = [None if d is None else ast.unparse(d) for d in a.kw_defaults]
        plain = not (a.vararg or a.kwarg or a.posonlyargs or a.defaults or f.decorator_list)
        # Annotations are expressions that run when the file is imported.
        annotated = f.returns or any(x.annotation for x in (*a.args, *a.kwonlyargs)) or getattr(f, "type_params", None)
        plain = plain and not annotated
        if own != wanted or not plain:
            raise Unproved("O13", f"the launcher's parameters are {own}, should be {wanted}", f.lineno)
        asked = defaults[len(wanted[1]) - len(splits) :]
        for d in asked:  # any number that the caller could give as well
            if d != "None" and not (d is not None and d.isdecimal() and int(d) > 0):
                raise Unproved("O13", f"{d} is no number of splits, nor a size of one", f.lineno)
        if asked and "None" not in asked:
            raise Unproved("O13", "both a number of splits and a size are asked for, which _shares refuses", f.lineno)
        if defaults[: len(wanted[1]) - len(splits)] != [*([None] * len(scalars)), "None", "None"]:
            raise Unproved("O13", "a parameter of the launcher has a value of its own", f.lineno)

    # -- statements ----------------------------------------------------------------------------------------

    def statement(self, s: ast.stmt) -> None:
        match s:
            case ast.Expr(value=ast.Call(func=ast.Name(id=name), args=args, keywords=[])) if name in self.file.host:
                self.check(name, args)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript(value=ast.Attribute(attr="shape"))):
                self.length(name, self.dimension(s.value))
            case ast.If(test=ast.UnaryOp(op=ast.Not(), operand=test), body=[ast.Raise() as r], orelse=[]):
                if not all(isinstance(x, _MESSAGE) for x in ast.walk(r)):
                    raise Unproved(
                        "O13", "an exception of another form"
                    )  # a yield in it makes the function a generator
                self.assumption(test)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call(func=ast.Name(id="_results")) as call):
                self.results(names, call)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call(func=ast.Name(id="_pick")) as call):
                self.pick(names, call)
            case ast.Assign(targets=[ast.Name(id="programs")], value=value):
                self.programs, self.bounded = self.product(value), False
            case ast.If(test=ast.Name(id="programs"), body=[ast.With() as w], orelse=[]):
                self.launch(w)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call(func=ast.Name(id="_shares")) as call):
                self.shares(names, call)
            case ast.If(test=test, body=rolling, orelse=split) if ast.unparse(test) == "shares == 1":
                self.branches(rolling, split)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call(func=ast.Name(id="_between")) as call):
                self.temporaries(names, call)
            case ast.Return(value=value) if value is not None:
                self.result(value)
            case _:
                raise Unproved("O13", f"no launcher has this statement: {ast.unparse(s)[:80]}")

    def check(self, name: str, args: list[ast.expr]) -> None:
        if self.allocated and not (name == "_check_limit" and self.programs is not None):
            raise Unproved("O13", "a check after the results were allocated")
        match name, args:
            case "_check_tensors", [rows]:
                wanted = ", ".join(
                    f"('{t.name}', {t.name}, {len(t.shape)}, torch.{t.dtype})" for t in self.program.inputs
                )
                if ast.unparse(rows) != ast.unparse(ast.parse(f"({wanted},)", mode="eval")):
                    raise Unproved("O11", "the tensors' ranks and types are not checked as the definition has them")
                self.tensors = True
            case "_check_scalar", [ast.Constant(), ast.Name(id=x), kinds, ast.Constant()]:
                own = x in self.sizes and x not in self.program.shape_sizes()
                wanted = _KINDS["float" if self.sizes[x].dtype in FLOATS else "int"][0] if own else ""
                if ast.unparse(kinds) != wanted:
                    raise Unproved("O13", f"{x} is checked to be something else than the definition has")
                self.scalars.add(x)
                self.known[x] = self.sizes[x]
            case "_check_length", [ast.Constant(), have, ast.Constant(), want]:
                tensor, k = self.dimension(have)
                if not _same(self.expr(want), self.inputs[tensor].shape[k]):
                    raise Unproved(
                        "O11", f"{tensor}.shape[{k}] is checked to be another length than the definition has"
                    )
                self.dimensions.add((tensor, k))
            case "_check_limit", [ast.Tuple(elts=rows)]:
                for row in rows:
                    self.limit(row)
            case _:
                raise Unproved("O13", f"a check of another form: {name}")

    def limit(self, row: ast.expr) -> None:
        match row:
            case ast.Tuple(elts=[ast.Constant(), ast.Name(id="programs")]) if self.programs is not None:
                self.bounded = True
            case ast.Tuple(elts=[ast.Constant(), ast.Name(id=x)]) if (
                x in self.known and self.sizes[x].dtype not in FLOATS
            ):
                self.limited.add(x)
            case _:
                raise Unproved("O12", "a limit on something else than a length")

    def dimension(self, e: ast.expr) -> tuple[str, int]:
        match e:
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id=t), attr="shape"), slice=ast.Constant(value=int() as k)
            ):
                if self.tensors and t in self.inputs and 0 <= k < len(self.inputs[t].shape):
                    return t, k
        raise Unproved("O11", f"{ast.unparse(e)} is no dimension of a tensor that was checked")

    def length(self, name: str, where: tuple[str, int]) -> None:
        tensor, k = where
        want = self.inputs[tensor].shape[k]
        if not (isinstance(want, Size) and want.name == name) or name in self.known or name in self.inputs:
            raise Unproved(
                "O11", f"{name} is read from {tensor}.shape[{k}], which the definition says is another length"
            )
        self.known[name] = want
        self.dimensions.add(where)

    def assumption(self, test: ast.expr) -> None:
        match test:
            case ast.Compare(
                left=ast.Name(id=x), ops=[ast.GtE()], comparators=[ast.Constant(value=int() | float() as n)]
            ):
                fact = Assumption("at_least", x, n)
            case ast.Compare(
                left=ast.BinOp(left=ast.Name(id=x), op=ast.Mod(), right=ast.Constant(value=int() as n)),
                ops=[ast.Eq()],
                comparators=[ast.Constant(value=0)],
            ):
                fact = Assumption("multiple_of", x, n)
            case _:
                raise Unproved("O13", f"an unknown condition: {ast.unparse(test)[:60]}")
        if x not in self.known or self.allocated:
            raise Unproved("O13", f"a condition on {x}, which has no value here")
        declared = {(a.kind, a.subject, a.value) for a in self.program.assumptions}
        if (fact.kind, x, n) not in declared:
            raise Unproved("O13", f"the launcher refuses lengths that the definition allows: {ast.unparse(test)}")
        self.found.checked.append(fact)

    def complete_checks(self) -> None:
        """Before anything is allocated or launched, everything that the proof assumes has been checked."""
        missing = [f"{t.name}.shape[{k}]" for t in self.program.inputs for k in range(len(t.shape))
                   if (t.name, k) not in self.dimensions]  # fmt: skip
        if not self.tensors or missing:
            raise Unproved("O11", f"not checked: {', '.join(missing) or 'the tensors'}")
        if unknown := set(self.sizes) - set(self.known):
            raise Unproved("O13", f"these have no value: {sorted(unknown)}")
        if free := {s.name for s in self.program.sizes if s.dtype not in FLOATS} - self.limited:
            raise Unproved("O12", f"no limit is checked for {sorted(free)}")
        checked = {(a.kind, a.subject, a.value) for a in self.found.checked}
        for a in self.program.assumptions:
            of_length = a.kind in ("at_least", "multiple_of") and a.subject in self.sizes
            if of_length and (a.kind, a.subject, a.value) not in checked:
                raise Unproved("O13", f"the assumption {a} is not checked")

    def results(self, names: list[ast.expr], call: ast.Call) -> None:
        self.complete_checks()
        order = list(self.program.outputs)
        if self.allocated or [ast.unparse(n) for n in names] != order or len(call.args) != 3 or call.keywords:
            raise Unproved("O11", f"the results are not {', '.join(order)}")
        specs, inputs, out = call.args
        if ast.unparse(out) != "out" or ast.unparse(inputs) != ast.unparse(
            _tuple([t.name for t in self.program.inputs])
        ):
            raise Unproved("O11", "results may share memory with an input that is not among those compared")
        if not isinstance(specs, ast.Tuple) or len(specs.elts) != len(order):
            raise Unproved("O11", "the results' shapes are of another form")
        for name, spec in zip(order, specs.elts, strict=True):
            o = self.outputs[name]
            if not self.spec(spec, tuple(a.extent for a in o.axes), o.expr.dtype):
                raise Unproved("O11", f"{name} is allocated with another shape or type than the definition has")
        self.allocated = True

    def pick(self, names: list[ast.expr], call: ast.Call) -> None:
        if [ast.unparse(n) for n in names] != ["blocks", "options"] or len(call.args) != 3 or call.keywords:
            raise Unproved("O13", "a tile configuration is picked in another way")
        table, rows, config = call.args
        # The kernels that join splits have tables of other names, of which a caller asks for none.
        wanted = ast.unparse(config) in (("config", "None") if "share" in self.known else ("config",))
        if not (isinstance(table, ast.Name) and table.id in self.file.tables) or not wanted:
            raise Unproved("O13", f"{ast.unparse(table)} is no table of tile configurations")
        low = self.expr(rows)  # any number >= 0 picks some entry: the last one asks for no rows
        if not self.holds(op("le", zero(low.dtype), low)):
            raise Unproved("O13", "there may be lengths for which no configuration is picked")
        self.table, self.programs = table.id, None

    def launch(self, w: ast.With) -> None:
        if not self.allocated or not self.table or self.programs is None:
            raise Unproved("O13", "a launch before its results, its tiles or its number of programs are known")
        if not self.bounded:
            raise Unproved("O12", "no limit is checked for the number of programs")
        first = self.program.inputs[0].name
        device = [ast.unparse(i) for i in w.items]
        match w.body:
            case [ast.Expr(value=ast.Call(func=ast.Subscript(value=ast.Name(id=k), slice=grid)) as call)]:
                if device != [f"_device({first})"] or ast.unparse(grid) != "(programs,)" or k not in self.file.kernels:
                    raise Unproved("O13", "a launch of another form")
                if [(x.arg, ast.unparse(x.value)) for x in call.keywords] != [(None, "blocks"), (None, "options")]:
                    raise Unproved("O13", "a launch with other options than those that were picked")
                args = [x for a in call.args for x in self.argument(a)]
                self.next().append(Launch(k, self.table, self.programs, args, call.lineno))
                self.table, self.programs = "", None
            case _:
                raise Unproved("O13", "a launch of another form")

    def argument(self, e: ast.expr) -> list[tuple[str, str, int]]:
        match e:
            case ast.Name(id=x) if x in self.inputs or x in self.outputs or x in self.between:
                return [("tensor", x, 0)]
            case ast.Name(id=x) if x in self.known and (length := self.known[x]).dtype not in FLOATS:
                assert isinstance(length, Size)
                return [("size", length.name, 0)]
            case ast.Call(func=ast.Name(id="float"), args=[ast.Name(id=x)], keywords=[]) if x in self.known:
                if self.sizes[x].dtype in FLOATS:
                    return [("size", x, 0)]
            case ast.Starred(
                value=ast.Call(func=ast.Attribute(value=ast.Name(id=x), attr="stride"), args=[], keywords=[])
            ):
                ranks = {t.name: len(t.shape) for t in self.program.inputs} | self.between
                ranks |= {name: len(o.axes) for name, o in self.outputs.items()}
                if x in ranks:
                    return [("stride", x, k) for k in range(ranks[x])]
        raise Unproved("O13", f"an argument that is no tensor, stride or length: {ast.unparse(e)[:60]}")

    def result(self, value: ast.expr) -> None:
        wanted = list(self.program.outputs)
        own = [ast.unparse(x) for x in value.elts] if isinstance(value, ast.Tuple) else [ast.unparse(value)]
        if own != wanted:
            raise Unproved("O13", f"it returns {', '.join(own)}, should return {', '.join(wanted)}")
        self.returned = True

    # -- splits --------------------------------------------------------------------------------------------

    def next(self) -> list[Launch]:
        """Where the next launch goes: to a nest of its own if nothing is said of splits."""
        if self.goes is None:
            if len(self.found.nests) == len(self.forms) or self.forms[len(self.found.nests)] is not None:
                raise Unproved("O13", "a launch that belongs to no kernel of the loop program")
            self.found.nests.append(Launches(None))
            return self.found.nests[-1].rolling
        return self.goes

    def shares(self, names: list[ast.expr], call: ast.Call) -> None:
        form = self.forms[len(self.found.nests)] if len(self.found.nests) < len(self.forms) else None
        if form is None or self.goes is not None or self.nest is not None or not self.allocated:
            raise Unproved("O13", "a nest is split that the loop program does not split")
        if "_shares" not in self.file.host or [ast.unparse(n) for n in names] != ["shares", "share"] or call.keywords:
            raise Unproved("O13", "an axis is split in another way")
        match call.args:
            case [
                n,
                ast.Name(id="programs"),
                ast.Constant(value=int() as waves),
                ast.Constant(value=int() as block),
                ast.Name(id=x),
                *asked,
            ] if self.programs is not None and type(block) is type(waves) is int and block >= 1 and x in self.inputs:
                if [ast.unparse(a) for a in asked] == ["splits", "split_size"] and _same(self.expr(n), form.extent):
                    self.nest = Launches(form, block=block)
                    return
        raise Unproved("O13", "another length is split than the loop program splits, or in another way")

    def branches(self, rolling: list[ast.stmt], split: list[ast.stmt]) -> None:
        """``if shares == 1: ... else: ...`` about the nest at hand."""
        if self.nest is None or self.goes is not None:
            raise Unproved("O13", "a choice between kernels where nothing was split")
        nest, self.nest = self.nest, None
        for body, self.goes in ((rolling, nest.rolling), (split, nest.split)):
            if body is split:
                self.known |= {"shares": SPLITS, "share": SPLIT_SIZE}
            for s in body:
                with at(s.lineno):
                    if not _of_a_launch(s):
                        raise Unproved("O13", f"no choice between kernels has this statement: {ast.unparse(s)[:80]}")
                    self.statement(s)
            self.table, self.programs = "", None
        if len(nest.rolling) != 1 or nest.form is None or len(nest.split) != len(nest.form.nests):
            have = f"{len(nest.rolling)} and {len(nest.split)} launches"
            raise Unproved("O13", f"{have} in the branches of a choice, where the loop program has other kernels")
        self.goes, self.between = None, {}
        for name in ("shares", "share"):
            del self.known[name]
        self.found.nests.append(nest)

    def temporaries(self, names: list[ast.expr], call: ast.Call) -> None:
        form = self.forms[len(self.found.nests)] if self.goes is not None and "share" in self.known else None
        if form is None or self.between or len(call.args) != 2 or call.keywords or "_between" not in self.file.host:
            raise Unproved("O11", "tensors are allocated that are not between two kernels")
        specs, x = call.args
        wanted = {t.name: t for t in form.temporaries}
        if [ast.unparse(n) for n in names] != list(wanted) or ast.unparse(x) not in self.inputs:
            raise Unproved("O11", f"the tensors between the kernels are not {', '.join(wanted)}")
        if not isinstance(specs, ast.Tuple) or len(specs.elts) != len(wanted):
            raise Unproved("O11", "the tensors between the kernels have another form")
        for t, spec in zip(form.temporaries, specs.elts, strict=True):
            if not self.spec(spec, t.shape, t.dtype):
                raise Unproved("O11", f"{t.name} is allocated with another shape or type than what is stored there")
        self.between = {t.name: len(t.shape) for t in form.temporaries}

    def spec(self, spec: ast.expr, shape: tuple[Expr, ...], dtype: str) -> bool:
        match spec:
            case ast.Tuple(elts=[ast.Tuple(elts=own), t]) if len(own) == len(shape):
                same = all(_same(self.expr(e), n) for e, n in zip(own, shape, strict=True))
                return same and ast.unparse(t) == f"torch.{dtype}"
        return False

    # -- lengths -------------------------------------------------------------------------------------------

    def product(self, e: ast.expr) -> list[Expr]:
        if isinstance(e, ast.BinOp) and isinstance(e.op, ast.Mult):
            return [*self.product(e.left), *self.product(e.right)]
        match e:
            case ast.UnaryOp(
                op=ast.USub(),
                operand=ast.BinOp(
                    left=ast.UnaryOp(op=ast.USub(), operand=x),
                    op=ast.FloorDiv(),
                    right=ast.Subscript(value=ast.Name(id="blocks"), slice=ast.Constant(value=str(b))),
                ),
            ):
                # -(-x // b) is x / b rounded up: (x + b - 1) // b.
                block = size(f"blocks.{b}")
                return [op("floordiv", op("add", self.expr(x), op("sub", block, const(1, "int32"))), block)]
        return [self.expr(e)]

    def holds(self, c: Expr) -> bool:
        """Certain of the lengths, as far as they were checked until here."""
        form = self.forms[len(self.found.nests)] if "share" in self.known else None
        return Ground(form.program if form else self.program, self.found.checked, Grid([])).facts().holds(c)

    def expr(self, e: ast.expr) -> Expr:
        match e:
            case ast.Constant(value=int() as n) if type(n) is int:
                return const(n, "int32")
            case ast.Name(id=x) if x in self.known:
                return self.known[x]
            case ast.UnaryOp(op=ast.USub(), operand=x):
                return op("neg", self.expr(x))
            case ast.BinOp(left=a, op=o, right=b) if type(o) in _OPS:  # Python's // and % round down
                if isinstance(o, ast.FloorDiv | ast.Mod) and not self.holds(op("lt", zero(), self.expr(b))):
                    raise Unproved("O13", f"{ast.unparse(e)[:60]} may divide by 0")
                return op(_OPS[type(o)], self.expr(a), self.expr(b))
            case ast.Call(func=ast.Name(id="max" | "min" as name), args=[a, b], keywords=[]):
                return op(name, self.expr(a), self.expr(b))
        raise Unproved("O13", f"{ast.unparse(e)[:60]} is no length")


def _of_a_launch(s: ast.stmt) -> bool:
    """What a branch may hold: the tiles, programs and tensors of a launch, and the launch. All else is for both branches."""
    match s:
        case ast.Assign(value=ast.Call(func=ast.Name(id="_pick" | "_between"))):
            return True
        case ast.Assign(targets=[ast.Name(id="programs")]):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id="_check_limit"))):
            return True
        case ast.If(test=ast.Name(id="programs")):
            return True
    return False


def _tuple(names: list[str]) -> ast.expr:
    return ast.parse(f"({', '.join(names)},)", mode="eval").body


def _same(a: Expr, b: Expr) -> bool:
    """Equal as written, casts between integer types aside."""
    a, b = _bare(a), _bare(b)
    if isinstance(a, Op) and isinstance(b, Op):
        return a.name == b.name and all(_same(x, y) for x, y in zip(a.args, b.args, strict=True))
    if isinstance(a, Const) and isinstance(b, Const):
        return a.value == b.value
    return isinstance(a, Size) and isinstance(b, Size) and a.name == b.name


def _bare(e: Expr) -> Expr:
    while isinstance(e, Op) and e.name == "cast" and e.dtype not in FLOATS:
        e = e.args[0]
    return e

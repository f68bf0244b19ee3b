"""Trusted: reads the body of a Triton kernel, lane by lane, at the block sizes of one tile configuration.

Nothing is executed. A loop's body is read once, for an arbitrary iteration; the values that it carries are symbols there
and after the loop (``values.Carry``), and what they are is a matter of proof. Besides the values, reading collects what has
to be proved of the text itself: memory accesses, integer results and their widths, divisions.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from neptune_verified.ir.expr import FLOATS, INTS, Expr, Op, const, op, read, size
from neptune_verified.proofs.text.calls import Calls, representable_ints
from neptune_verified.proofs.text.findings import Unproved, at
from neptune_verified.proofs.text.launch import Grid
from neptune_verified.proofs.text.values import (
    Access,
    Carry,
    Definition,
    Loop,
    Offset,
    Pointer,
    Stride,
    Tile,
    Value,
)

_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.BitAnd: "and", ast.BitOr: "or"}
_COMPARE = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}


@dataclass(slots=True)
class Reading:
    """All that was read of one kernel."""

    definitions: dict[str, Definition] = field(default_factory=dict)
    starts: dict[str, Carry] = field(default_factory=dict)
    exits: dict[str, Carry] = field(default_factory=dict)
    loops: list[Loop] = field(default_factory=list)
    loads: list[Access] = field(default_factory=list)
    stores: list[Access] = field(default_factory=list)
    #: Integer results: value, loops around, line.
    integers: list[tuple[Expr, tuple[int, ...], int]] = field(default_factory=list)
    #: Operands of ``//`` and ``%``, which truncate: both must be >= 0, the second not 0.
    divisions: list[tuple[Expr, Expr, tuple[int, ...], int]] = field(default_factory=list)


class Reader(Calls):
    def __init__(
        self, env: dict[str, Value], dtypes: dict[str, str], ranks: dict[str, int], device: set[str], grid: Grid
    ) -> None:
        self.env, self.dtypes, self.ranks, self.device, self.grid = env, dtypes, ranks, device, grid
        self.found = Reading()
        self.around: tuple[int, ...] = ()
        self.counter = 0
        self.line = 0

    # -- statements ----------------------------------------------------------------------------------------

    def block(self, body: list[ast.stmt]) -> None:
        for s in body:
            self.line = s.lineno
            with at(s.lineno):
                self.statement(s)

    def statement(self, s: ast.stmt) -> None:
        match s:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.assign(name, self.value(value))
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="tl"), attr="store")) as call):
                self.store(call)
            case ast.If(test=test, body=body, orelse=[]):
                self.choice(test, body)
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range")) as bounds, orelse=[]):
                self.loop(name, bounds, s.body)
            case _:
                raise Unproved("O13", f"the reader does not know this statement: {ast.unparse(s)[:80]}")

    def named(self, name: str) -> None:
        """A name of the kernel's own: no function that is called, nor a module."""
        if name in self.device or name in ("tl", "triton", "torch", "range", "float"):
            raise Unproved("O13", f"{name} is given another meaning")

    def assign(self, name: str, value: Value) -> None:
        self.named(name)
        if isinstance(value, bool | int | float):
            # On a device it is a tile from here on: of 32 bits, which wrap and round, and promote what it meets.
            if type(value) is not int or value not in representable_ints("int32"):
                raise Unproved("O16", f"{name} is a number that Triton rounds to 32 bits")
            value = Tile((), const(value, "int32"))
        if isinstance(value, Tile) and value.dtype in FLOATS:
            value = self.define(name, value)
        self.env[name] = value

    def define(self, name: str, value: Tile) -> Tile:
        known = getattr(value.expr, "tensor", "")
        if known.startswith("%") and value.expr is self.whole(known, value.shape, value.dtype):
            return value
        self.counter += 1
        d = Definition(f"%{name}.{self.counter}", value.shape, value.expr, self.line)
        self.found.definitions[d.name] = d
        return Tile(value.shape, d.read())

    @staticmethod
    def whole(name: str, shape: tuple[int, ...], dtype: str) -> Expr:
        return Definition(name, shape, const(0, dtype), 0).read()

    def loop(self, name: str, bounds: ast.Call, body: list[ast.stmt]) -> None:
        if bounds.keywords or not 1 <= len(bounds.args) <= 3:
            raise Unproved("O13", "a range of another form")
        given = [self.value(a) for a in bounds.args]
        step = given[2] if len(given) == 3 else 1
        low, high = (0, given[0]) if len(given) == 1 else given[:2]
        if type(step) is not int or step < 1:
            raise Unproved("O13", "a loop's step is no positive number that is known when the kernel is compiled")
        self.named(name)
        number = len(self.found.loops)
        bounds_ = self.index(low), self.index(high)
        dtype = "int64" if any(b.dtype == "int64" for b in bounds_) else "int32"
        symbol = size(f"{name}#{number}", dtype)
        loop = Loop(number, symbol, *bounds_, step, self.line, {})
        self.found.loops.append(loop)
        # The variable is stepped once beyond the last iteration before it is compared.
        self.found.integers.append((op("add", symbol, const(step, dtype)), (*self.around, number), self.line))
        outside = dict(self.env)
        assigned = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        if name in assigned:
            raise Unproved("O13", f"the loop's variable {name} is changed in the loop")
        for v in sorted(assigned & set(outside)):
            before = outside[v]
            if not isinstance(before, Tile):
                raise Unproved("O13", f"{v}, which is no tile, is changed in a loop")
            start, exit_ = f"%{v}@start#{number}", f"%{v}@exit#{number}"
            carry = Carry(v, number, before.shape, start, exit_, before.expr, before.expr)
            loop.carried[v] = self.found.starts[start] = self.found.exits[exit_] = carry
            self.env[v] = Tile(before.shape, self.whole(start, before.shape, before.dtype))
        self.env[name] = Tile((), symbol)
        self.around = (*self.around, number)
        self.block(body)
        self.around = self.around[:-1]
        for v, carry in loop.carried.items():
            end = self.env[v]
            if not isinstance(end, Tile) or end.shape != carry.shape or end.dtype != carry.before.dtype:
                raise Unproved("O13", f"{v} changes its shape or type in a loop", loop.line)
            carry.end = end.expr
            outside[v] = Tile(carry.shape, self.whole(carry.exit, carry.shape, end.dtype))
        outside.pop(name, None)  # the loop's variable is not read after it
        self.env = outside

    def choice(self, test: ast.expr, body: list[ast.stmt]) -> None:
        """``if``: what it assigns has its new value where the condition holds, and its old one elsewhere."""
        c = self.value(test)
        if not isinstance(c, Tile) or c.shape != () or c.dtype != "bool":
            raise Unproved("O13", "a condition that is no truth value of the whole program")
        outside, loops, stores = dict(self.env), len(self.found.loops), len(self.found.stores)
        self.block(body)
        if len(self.found.loops) != loops or len(self.found.stores) != stores:
            raise Unproved("O13", "a loop or a store under a condition")
        for name, before in outside.items():
            after = self.env[name]
            if after is before:
                continue
            if not isinstance(before, Tile) or not isinstance(after, Tile):
                raise Unproved("O13", f"{name}, which is no tile, is changed under a condition")
            if after.shape != before.shape or after.dtype != before.dtype:
                raise Unproved("O13", f"{name} changes its shape or type under a condition")
            outside[name] = Tile(before.shape, op("select", c.expr, after.expr, before.expr))
        self.env = outside

    def index(self, v: Value) -> Expr:
        if type(v) is int:
            return const(v, "int32")
        if isinstance(v, Tile) and v.shape == () and v.dtype in ("int32", "int64"):
            return v.expr
        raise Unproved("O13", "a bound is no integer of the device")

    def store(self, call: ast.Call) -> None:
        if len(call.args) != 2 or {k.arg for k in call.keywords} - {"mask"}:
            raise Unproved("O13", "a store of another form")
        pointer, value = self.value(call.args[0]), self.value(call.args[1])
        if not isinstance(pointer, Pointer):
            raise Unproved("O11", "a store that is not to a tensor")
        dtype = self.dtypes[pointer.tensor]
        if isinstance(value, bool | int | float):
            value = Tile((), self.through_float32(value, dtype))
        if not isinstance(value, Tile) or value.dtype != dtype:
            raise Unproved("O16", f"a value of another type than {pointer.tensor}'s is stored, which rounds it unseen")
        mask = self.mask_of(call, pointer.shape)
        self.fits(value.shape, pointer.shape)
        self.found.stores.append(self.access(pointer, mask, value))

    def access(self, p: Pointer, mask: Expr, value: Tile | None = None) -> Access:
        given = dict(p.indices)
        indices = tuple(given.get(k, const(0, "int32")) for k in range(self.ranks[p.tensor]))
        return Access(p.tensor, p.shape, indices, mask, self.around, self.line, value)

    def mask_of(self, call: ast.Call, shape: tuple[int, ...]) -> Expr:
        given = [k.value for k in call.keywords if k.arg == "mask"]
        if not given:
            return const(True, "bool")
        mask = self.value(given[0])
        if not isinstance(mask, Tile) or mask.dtype != "bool":
            raise Unproved("O13", "a mask that is no truth value")
        self.fits(mask.shape, shape)
        return mask.expr

    @staticmethod
    def fits(shape: tuple[int, ...], whole: tuple[int, ...]) -> None:
        if shape and (len(shape) != len(whole) or any(a not in (1, b) for a, b in zip(shape, whole, strict=True))):
            raise Unproved("O13", f"a tile of shape {list(shape)} where {list(whole)} is wanted")

    # -- expressions ---------------------------------------------------------------------------------------

    def value(self, e: ast.expr) -> Value:
        match e:
            case ast.Constant(value=bool() | int() | float() as v):
                return v
            case ast.Name(id=name):
                if name not in self.env:
                    raise Unproved("O13", f"{name} is read, and has no value here")
                return self.env[name]
            case ast.BinOp(left=left, op=o, right=right):
                return self.binary(o, self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.USub(), operand=x):
                operand = self.value(x)
                if isinstance(operand, Tile):
                    return self.counted(Tile(operand.shape, op("neg", operand.expr)))
                if isinstance(operand, int | float) and not isinstance(operand, bool):
                    return -operand
            case ast.Compare(left=left, ops=[o], comparators=[right]) if type(o) in _COMPARE:
                return self.compare(_COMPARE[type(o)], self.value(left), self.value(right))
            case ast.Subscript(value=x, slice=ast.Tuple(elts=elts)):
                return self.expanded(self.value(x), elts)
            case ast.Call():
                return self.call(e)
        raise Unproved("O13", f"the reader does not know this expression: {ast.unparse(e)[:80]}")

    def binary(self, o: ast.operator, a: Value, b: Value) -> Value:
        if isinstance(a, Pointer) or isinstance(b, Pointer):
            return self.moved(a, b) if isinstance(o, ast.Add) and isinstance(a, Pointer) else self.unknown(o)
        if isinstance(b, Stride) and isinstance(o, ast.Mult):
            return self.offset(a, b)
        if isinstance(a, Stride | Offset) or isinstance(b, Stride | Offset):
            return self.unknown(o)
        if isinstance(o, ast.FloorDiv | ast.Mod):
            return self.divided("floordiv" if isinstance(o, ast.FloorDiv) else "floormod", a, b)
        if type(o) not in _BINARY:
            return self.unknown(o)
        name = _BINARY[type(o)]
        if not isinstance(a, Tile) and not isinstance(b, Tile):
            return self.constant(name, a, b)
        x, y = self.pair(a, b)
        if (name in ("and", "or")) != (x.dtype == "bool") or (name == "div" and x.dtype not in FLOATS):
            raise Unproved("O13", f"{name} of {x.dtype}")
        if name == "div" and x.dtype in ("float16", "bfloat16"):
            raise Unproved("O16", "a division of 16-bit numbers, whose result Triton gives in 32 bits")
        if x.dtype == "bfloat16":
            raise Unproved("O16", "arithmetic of bfloat16, which targets round differently")
        return self.elementwise(name, x, y)

    @staticmethod
    def unknown(o: ast.operator) -> Value:
        raise Unproved("O11", f"addresses are computed in another way ({type(o).__name__})")

    @staticmethod
    def constant(name: str, a: bool | int | float, b: bool | int | float) -> Value:
        if name == "div" and b:
            return a / b
        results = {"add": a + b, "sub": a - b, "mul": a * b}
        if name not in results or type(a) is bool or type(b) is bool:
            raise Unproved("O13", f"{name} of two constants")
        return results[name]

    def elementwise(self, name: str, *tiles: Tile) -> Tile:
        return self.counted(Tile(self.common(*(t.shape for t in tiles)), op(name, *(t.expr for t in tiles))))

    def counted(self, t: Tile) -> Tile:
        """A result of integer arithmetic has to fit its type."""
        if t.dtype in INTS:
            self.found.integers.append((t.expr, self.around, self.line))
        return t

    def divided(self, name: str, a: Value, b: Value) -> Value:
        if type(a) is int and type(b) is int and a >= 0 and b > 0:
            return a // b if name == "floordiv" else a % b
        x, y = self.pair(a, b)
        if x.dtype not in INTS:
            raise Unproved("O13", f"{name} of {x.dtype}")
        digit = self.grid.divided(name, x.expr, y.expr)
        if digit is not None:
            return Tile(self.common(x.shape, y.shape), digit)
        self.found.divisions.append((x.expr, y.expr, self.around, self.line))
        return self.elementwise(name, x, y)

    def compare(self, name: str, a: Value, b: Value) -> Value:
        for x, y in ((a, b), (b, a)):
            if isinstance(x, Tile) and x.dtype == "bool" and y == 0 and isinstance(y, int) and name in ("eq", "ne"):
                return Tile(x.shape, op("not", x.expr)) if name == "eq" else x
        if not isinstance(a, Tile) and not isinstance(b, Tile):
            raise Unproved("O13", "a comparison of two constants")
        return self.elementwise(name, *self.pair(a, b))

    def expanded(self, v: Value, elts: list[ast.expr]) -> Value:
        """``x[:, None]`` and the like."""
        tile = v.index if isinstance(v, Offset) else v
        kept = [k for k, x in enumerate(elts) if isinstance(x, ast.Slice)]
        plain = all(
            (isinstance(x, ast.Slice) and x.lower is x.upper is x.step is None)
            or (isinstance(x, ast.Constant) and x.value is None)
            for x in elts
        )
        if not isinstance(tile, Tile) or not plain or len(kept) != len(tile.shape):
            raise Unproved("O13", "an index of another form than [:, None]")
        shape = tuple(tile.shape[kept.index(k)] if k in kept else 1 for k in range(len(elts)))
        result = tile.moved(dict(enumerate(kept)), shape)
        return Offset(result, v.stride) if isinstance(v, Offset) else result

    # -- addresses -----------------------------------------------------------------------------------------

    def offset(self, a: Value, stride: Stride) -> Value:
        if not isinstance(a, Tile) or a.dtype != "int64":
            raise Unproved("O12", f"an index of {stride.tensor} is multiplied by a stride in fewer than 64 bits")
        return Offset(a, stride)

    def moved(self, p: Value, by: Value) -> Value:
        assert isinstance(p, Pointer)
        if not isinstance(by, Offset) or by.stride.tensor != p.tensor:
            raise Unproved("O11", f"an address in {p.tensor} that is not its index times its stride")
        k = by.stride.dimension
        if k in dict(p.indices):
            raise Unproved("O11", f"two indices of {p.tensor}'s dimension {k}")
        index = by.index.expr
        while isinstance(index, Op) and index.name == "cast" and index.args[0].dtype == "int32":
            index = index.args[0]  # widened for the product with the stride: the same number
        return Pointer(p.tensor, (*p.indices, (k, index)), self.common(p.shape, by.index.shape))

    def load(self, call: ast.Call) -> Tile:
        if len(call.args) != 1 or {k.arg for k in call.keywords} not in (set(), {"mask", "other"}):
            raise Unproved("O9", "a load of another form, or under a mask with no value for the other lanes")
        pointer = self.value(call.args[0])
        if not isinstance(pointer, Pointer):
            raise Unproved("O11", "a load that is not from a tensor")
        dtype = self.dtypes[pointer.tensor]
        access = self.access(pointer, self.mask_of(call, pointer.shape))
        self.found.loads.append(access)
        value: Expr = read(pointer.tensor, access.indices, dtype)
        if call.keywords:
            other = self.value(next(k.value for k in call.keywords if k.arg == "other"))
            if isinstance(other, Tile | Pointer | Stride | Offset):
                raise Unproved("O9", "the value of a load's other lanes is no constant")
            value = op("select", access.mask, value, self.through_float32(other, dtype))
        return Tile(pointer.shape, value)

"""Not trusted: prints the body of a tile kernel as Triton. Values that are used once are written where they are used."""

from __future__ import annotations

from collections import Counter

from neptune_verified.ir.expr import Axis
from neptune_verified.tile.htile import (
    Assign,
    Bound,
    For,
    If,
    Rebind,
    Statement,
    Store,
    TileKernel,
    Value,
    first_of,
    reads,
    scalars_of,
)
from neptune_verified.tile.ops import TRITON_TYPES, call, literal
from neptune_verified.tile.scalars import ScalarPrinter

_ALWAYS_INLINE = ("const", "size", "align")
_INLINE = ("op", "cast", "broadcast", "permute", "reduce", "dot")
_WIDTH = 100


class BodyPrinter(ScalarPrinter):
    def __init__(self, kernel: TileKernel) -> None:
        super().__init__(kernel)
        self.uses: Counter[str] = Counter()
        self.text: dict[str, str] = {}
        self._count(kernel.body)

    def _count(self, statements: tuple[Statement, ...] | list[Statement]) -> None:
        for s in statements:
            self.uses.update(v.name for v in reads(s))
            self.uses.update(2 * scalars_of(s))  # these are read by their names
            if isinstance(s, Rebind):  # a value that is carried on, and the one that it takes, stay variables
                self.uses.update((s.dst.name, s.src.name))
            elif isinstance(s, For | If):
                self._count(s.body)

    # -- lines -----------------------------------------------------------------------------------------------

    def lines(self) -> list[str]:
        return [*self._grid(), *self._block(self.kernel.body)]

    def _grid(self) -> list[str]:
        lines = ["pid = tl.program_id(0)"]
        grid = list(self.kernel.grid)
        packing = self.kernel.packing
        for k, a in reversed(list(enumerate(grid))):
            if packing and a is packing.axis:  # no number of its own: it is the group's
                continue
            count = self.extent(a)
            if a in self.kernel.blocked:
                count = f"tl.cdiv({count}, {self.blocks[a]})"
            place = "pid" if k == 0 else f"(pid % {count})"
            if a in self.kernel.blocked and self._bounded_by(a):
                lines += self._tile_ends(a, place)
            elif a in self.kernel.blocked:
                lines.append(f"{self.axis[a]} = {place} * {self.blocks[a]} + tl.arange(0, {self.blocks[a]})")
            else:
                lines.append(f"{self.axis[a]} = {place}")
            if k:
                lines.append(f"pid = pid // {count}")
        if packing:
            a, lane = packing.axis, self.names.fresh(f"{self.axis[packing.axis]}_lane")
            lines.append(f"{lane} = tl.arange(0, {packing.lanes})")
            # Lanes beyond the group have an index beyond the axis.
            index = f"{self.axis[packing.group]} * {packing.size} + {lane}"
            lines.append(f"{self.axis[a]} = tl.where({lane} < {packing.size}, {index}, {self.extent(a)})")
        for a, lanes in self.kernel.blocks.items():
            if packing and a is packing.axis:
                continue
            lines.append(f"{self.axis[a]} = tl.arange(0, {lanes})")
        return lines

    def _block(self, statements: tuple[Statement, ...] | list[Statement]) -> list[str]:
        lines: list[str] = []
        last_use = self._last_use(statements)
        for index, s in enumerate(statements):
            match s:
                case Assign():
                    text = self.expression(s)
                    if self._inlined(s, text, last_use, statements, index):
                        self.text[s.dst.name] = text
                        continue
                    name = self.name(s.dst)
                    if text != name:
                        lines.append(f"{name} = {text}")
                case Rebind(dst, src):
                    lines.append(f"{self.name(dst)} = {self.use(src)}")
                case Store():
                    lines.append(self.store(s))
                case Bound(symbol, value):
                    text = self.bound(value)
                    axis, stem, _ = symbol.name.rsplit(".", 2)
                    self.scalars[symbol] = self.names.fresh(f"{axis}_{stem}")
                    lines.append(f"{self.scalars[symbol]} = {text}")
                case For():
                    lines += self.loop(s)
                case If(condition, body):
                    lines += [f"if {self.scalars[condition]}:", *(f"    {x}" for x in self._block(body))]
        return lines

    @staticmethod
    def _last_use(statements: tuple[Statement, ...] | list[Statement]) -> dict[str, int]:
        return {v.name: k for k, s in enumerate(statements) for v in reads(s)}

    def _inlined(
        self,
        s: Assign,
        text: str,
        last_use: dict[str, int],
        statements: tuple[Statement, ...] | list[Statement],
        k: int,
    ) -> bool:
        if s.op in _ALWAYS_INLINE or s.op == "index":
            return True
        if s.op not in _INLINE or self.uses[s.dst.name] != 1 or len(text) > _WIDTH:
            return False
        at = last_use.get(s.dst.name)
        if at is None:
            return False
        # Not across a loop, a condition, or a rebinding of a carried value.
        return not any(isinstance(x, For | If | Rebind) for x in statements[k:at])

    def loop(self, s: For) -> list[str]:
        a, extent, name = s.axis, self.extent(s.axis), self.axis[s.axis]
        if not s.tiled:
            return [f"for {name} in range(0, {extent}):", *(f"    {x}" for x in self._block(s.body))]
        block = self.blocks[a]
        if a not in self.starts:
            self.starts[a] = self.names.fresh(f"{name}_start")
            self.scalars[first_of(a)] = self.starts[a]
        start = self.starts[a]
        lo = "0" if s.lo is None else self.bound(s.lo)
        hi = extent if s.hi is None else self.bound(s.hi)
        head = [f"for {start} in range({lo}, {hi}, {block}):", f"    {name} = {start} + tl.arange(0, {block})"]
        return head + [f"    {x}" for x in self._block(s.body)]

    def store(self, s: Store) -> str:
        pointer = self.pointer(s.output, list(s.indices), s.value.axes)
        mask = f", mask={self.use(s.mask)}" if s.mask else ""
        value = self.use(s.value)
        return f"tl.store({pointer}, {value}{mask})"

    # -- expressions -----------------------------------------------------------------------------------------

    def name(self, v: Value) -> str:
        if v.name not in self.values:
            self.values[v.name] = self.names.fresh(v.name.replace("%", "_"))
        return self.values[v.name]

    def use(self, v: Value) -> str:
        return self.text.get(v.name) or self.name(v)

    def lanes(self, a: Axis) -> str:
        return self.blocks[a] if a in self.blocks else str(self.kernel.blocks[a])

    def shape(self, axes: tuple[Axis, ...]) -> str:
        return f"[{', '.join(self.lanes(a) for a in axes)}]"

    def expression(self, s: Assign) -> str:
        args = [self.use(a) for a in s.args]
        match s.op:
            case "const":
                return literal(s.attr[0], s.dst.dtype)
            case "size":
                return str(s.attr[0])
            case "index":
                axis = s.attr[0]
                assert isinstance(axis, Axis)
                return self.axis[axis]
            case "op":
                if s.attr[0] in ("and", "or"):  # a scalar comparison may come as a number
                    args = [x if v.axes else f"tl.cast({x}, tl.int1)" for x, v in zip(args, s.args, strict=True)]
                return call(str(s.attr[0]), args, self.need)
            case "cast":
                if s.dst.dtype == "bool":
                    return f"({args[0]} != 0)"
                return f"tl.cast({args[0]}, {TRITON_TYPES[s.dst.dtype]})"
            case "align":
                return self._align(s, args[0])
            case "broadcast":
                source = s.args[0]
                if not source.axes:
                    return f"tl.full({self.shape(s.dst.axes)}, {args[0]}, {TRITON_TYPES[s.dst.dtype]})"
                return f"tl.broadcast_to({args[0]}, {self.shape(s.dst.axes)})"
            case "permute":
                order = s.attr[0]
                assert isinstance(order, tuple)
                return f"tl.trans({args[0]})" if order == (1, 0) else f"tl.permute({args[0]}, {order})"
            case "full":
                value = literal(s.attr[0], s.dst.dtype)
                return f"tl.full({self.shape(s.dst.axes)}, {value}, {TRITON_TYPES[s.dst.dtype]})"
            case "reduce":
                return self._reduce(s, args[0])
            case "dot":
                acc = f", {args[2]}" if len(args) == 3 else ""
                return f'tl.dot({args[0]}, {args[1]}{acc}, input_precision="{s.attr[0]}")'
            case "load":
                return self._load(s)
            case _:
                raise TypeError(f"no text for {s.op}")

    @staticmethod
    def _align(s: Assign, text: str) -> str:
        own = s.attr[0]
        assert isinstance(own, tuple)
        if own == s.dst.axes:
            return text
        return text + _index(own, s.dst.axes)

    def _reduce(self, s: Assign, x: str) -> str:
        reducer, axis = s.attr
        match reducer:
            case "sum" | "max" | "min":
                return f"tl.{reducer}({x}, axis={axis})"
            case "any" | "all":
                return f"(tl.{'max' if reducer == 'any' else 'min'}(tl.cast({x}, tl.int32), axis={axis}) != 0)"
            case _:
                helper = {"prod": "_mul", "logaddexp": "_logaddexp"}[str(reducer)]
                self.need(helper)
                return f"tl.reduce({x}, {axis}, {helper})"

    def _load(self, s: Assign) -> str:
        tensor, n = str(s.attr[0]), int(str(s.attr[1]))
        pointer = self.pointer(tensor, list(s.args[:n]), s.dst.axes)
        if len(s.args) == n:
            return f"tl.load({pointer})"
        other = "0.0" if s.dst.dtype.startswith(("float", "bfloat")) else "0"
        mask = self.use(s.args[n])
        if not s.args[n].axes:
            mask = f"tl.cast({mask}, tl.int1)"
        return f"tl.load({pointer}, mask={mask}, other={other})"

    def pointer(self, tensor: str, indices: list[Value], axes: tuple[Axis, ...]) -> str:
        """Base plus 64-bit offsets: a stride may be huge, whatever the lengths are."""
        scalars: list[str] = []
        tiles: list[str] = []
        for k, v in enumerate(indices):
            text = self.use(v)
            if text == "0":
                continue
            offset = f"tl.cast({text}, tl.int64) * stride_{tensor}_{k}"
            (tiles if v.axes else scalars).append(f"({offset})" if not v.axes else self._spread(offset, v, axes))
        return " + ".join([self.tensors[tensor], *scalars, *tiles])

    @staticmethod
    def _spread(offset: str, v: Value, axes: tuple[Axis, ...]) -> str:
        if v.axes == axes or len(v.axes) == len(axes):
            return f"({offset})"
        return f"({offset})" + _index(v.axes, axes)


def _index(own: tuple[Axis, ...], axes: tuple[Axis, ...]) -> str:
    """``[:, None]`` and the like: the dimensions of ``own`` among those of ``axes``."""
    return f"[{', '.join(':' if a in own else 'None' for a in axes)}]"

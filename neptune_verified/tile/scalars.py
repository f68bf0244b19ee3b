"""Not trusted: the names of a kernel's text, and its scalars: lengths, program indices, bounds of loops."""

from __future__ import annotations

import keyword

from neptune_verified.ir.expr import Axis, Const, Expr, Op, Size, Var, subterms
from neptune_verified.tile.htile import Bound, For, If, Statement, TileKernel, block_of, first_of, last_of
from neptune_verified.tile.ops import HELPERS, TRITON_TYPES, call, literal


class Names:
    """Python identifiers of a kernel: unique, and none of those that the text uses itself."""

    def __init__(self, taken: tuple[str, ...]) -> None:
        self.taken = {*taken, *keyword.kwlist, "tl", "triton", "torch", "pid", "float", "range"}

    def fresh(self, wanted: str) -> str:
        wanted = "".join(ch if ch.isalnum() or ch == "_" else "_" for ch in wanted)
        wanted = wanted if wanted and not wanted[0].isdigit() else f"v_{wanted}"
        name, k = wanted, 1
        while name in self.taken:
            name, k = f"{wanted}_{k}", k + 1
        self.taken.add(name)
        return name


class ScalarPrinter:
    def __init__(self, kernel: TileKernel) -> None:
        self.kernel = kernel
        outputs = [o.name for o in kernel.outputs]
        self.tensors = {t: f"{t}_ptr" for t in (*kernel.tensors, *outputs)}
        strides = [f"stride_{t}_{d}" for t in self.tensors for d in range(16)]
        self.names = Names((*kernel.sizes, *kernel.tensors, *outputs, *self.tensors.values(), *strides, *HELPERS))
        self.blocks = {a: self.names.fresh(f"BLOCK_{a.name.upper()}") for a in kernel.order if a not in kernel.blocks}
        self.axis = {a: self.names.fresh(a.name) for a in self._axes()}
        self.helpers: dict[str, None] = {}
        #: The names of the symbols of loop bounds.
        self.scalars: dict[Var, str] = {block_of(a): b for a, b in self.blocks.items()}
        self.starts: dict[Axis, str] = {}
        #: The names of values.
        self.values: dict[str, str] = {}

    def _axes(self) -> list[Axis]:
        found = dict.fromkeys((*self.kernel.grid, *self.kernel.order))

        def walk(statements: tuple[Statement, ...] | list[Statement]) -> None:
            for s in statements:
                if isinstance(s, For):
                    found[s.axis] = None
                if isinstance(s, For | If):
                    walk(s.body)

        walk(self.kernel.body)
        return list(found)

    def extent(self, a: Axis) -> str:
        return self.scalar(a.extent)

    def scalar(self, e: Expr) -> str:
        match e:
            case Const(value, dtype):
                return literal(value, dtype)
            case Size(name):
                return name
            case Op(name, args, _):
                if name == "cast":
                    return self.scalar(args[0])
                return call(name if name not in ("floordiv", "floormod") else f"{name}:nonnegative",
                            [self.scalar(a) for a in args], self.need)  # fmt: skip
            case _:
                raise TypeError(f"an extent cannot read {type(e).__name__}")

    def bound(self, e: Expr) -> str:
        """A scalar integer; arguments of ``//`` are not negative."""
        match e:
            case Const(value, dtype):
                return literal(value, dtype)
            case Size(name):
                return name
            case Axis():
                return self.axis[e]
            case Var(name):
                return self.scalars.get(e) or self.values[name]
            case Op("cast", (x,), dtype):
                return f"tl.cast({self.bound(x)}, {TRITON_TYPES[dtype]})"
            case Op(name, args):
                name = "floordiv:nonnegative" if name == "floordiv" else name
                return call(name, [self.bound(x) for x in args], self.need)
            case _:
                raise TypeError(f"a loop bound cannot read {type(e).__name__}")

    def _bounded_by(self, a: Axis) -> bool:
        """Some loop bound reads the ends of the tile of ``a``."""
        ends = (first_of(a), last_of(a))

        def walk(statements: tuple[Statement, ...] | list[Statement]) -> bool:
            for s in statements:
                if isinstance(s, Bound) and any(x in ends for x in subterms(s.value)):
                    return True
                if isinstance(s, For) and walk(s.body):
                    return True
            return False

        return walk(self.kernel.body)

    def _tile_ends(self, a: Axis, place: str) -> list[str]:
        name, block = self.axis[a], self.blocks[a]
        first, last = self.names.fresh(f"{name}_first"), self.names.fresh(f"{name}_last")
        self.scalars |= {first_of(a): first, last_of(a): last}
        return [
            f"{first} = {place} * {block}",
            f"{last} = tl.minimum({first} + {block}, {self.extent(a)}) - 1",
            f"{name} = {first} + tl.arange(0, {block})",
        ]

    def need(self, helper: str) -> None:
        self.helpers[helper] = None

"""Not trusted: the Python launcher of an emitted file, and the functions that it calls."""

from __future__ import annotations

import re

from neptune_verified.errors import UnsupportedProgram
from neptune_verified.ir.expr import FLOATS, Const, Expr, Op, Size
from neptune_verified.ir.loops import SPLIT_SIZE, SPLITS
from neptune_verified.ir.printing import Printer, number
from neptune_verified.ir.program import Program
from neptune_verified.tile.host import HOST, HOST_SPLIT
from neptune_verified.tile.htile import Kernels, OutputTensor, TileKernel
from neptune_verified.tile.text import BodyPrinter

#: Names in the launcher for the number of splits and their size, which its caller may ask for.
SPLIT_NAMES = {SPLITS.name: "shares", SPLIT_SIZE.name: "share"}
#: Names that the launcher's text gives a meaning, or that have one in Python or in the file.
RESERVED = frozenset({
    "blocks", "options", "programs", "shares", "share", "out", "config", "splits", "split_size",
    "torch", "triton", "tl", "float", "int", "max", "min", "range",
    *(m[1] for line in (*HOST, *HOST_SPLIT) if (m := re.match(r"(?:def|class) (\w+)", line))),
})  # fmt: skip
SPLIT_TEXT = (
    "splits: into how many parts the reduced axis is split; split_size: at least how many elements a part has (the same",
    "for every batch, so that a row's result does not depend on the other rows). By default as the device and the lengths",
    "suggest; splits=1 is one loop over the whole axis.",
)


def waves(k: TileKernel) -> int:
    """How many programs of a kernel each processor should get: many small ones, or few that multiply matrices (measured)."""
    return 1 if k.dots else 8


def check_names(program: Program, kernels: list[str]) -> None:
    """Raises UnsupportedProgram where a name of the definition means something else in the file."""
    named = [*(t.name for t in program.inputs), *(s.name for s in program.sizes), *program.outputs]
    sizes = {s.name for s in program.sizes}
    tables = {*kernels, *(f"{k.upper()}{x}" for k in kernels for x in ("_CONFIGS", "_SIGNATURE"))}
    for name in named:
        if name in RESERVED or (name == "pid" and name in sizes) or name in tables:
            why = "the kernel file gives this name a meaning of its own: rename it"
            raise UnsupportedProgram(f"the name {name}", why=why)


def kernel_name(k: TileKernel) -> str:
    return f"_{k.name}_kernel"


class Launcher:
    """A plain Python function: checks, reads lengths from shapes, allocates outputs, launches on the current stream."""

    def __init__(
        self, program: Program, nests: list[tuple[Kernels, list[tuple[TileKernel, BodyPrinter]]]], columns: int,
        defaults: tuple[int | None, int | None],
    ) -> None:  # fmt: skip
        self.defaults = defaults
        self.program, self.nests, self.columns = program, nests, columns
        rolling = [o for nest, _ in nests for o in nest.rolling.outputs]
        self.outputs = [o for name in program.outputs for o in rolling if o.name == name]
        self.split = any(nest.split for nest, _ in nests)
        self.scalars = [s for s in program.sizes if s.name not in program.shape_sizes()]

    def text(self) -> str:
        p = self.program
        keywords = [s.name for s in self.scalars]
        options = ["out=None", "config=None"]
        if self.split:
            options += [f"splits={self.defaults[0]}", f"split_size={self.defaults[1]}"]
        signature = ", ".join([*(t.name for t in p.inputs), "*", *keywords, *options])
        body = [*self._docstring(), *self._checks(), *self._outputs(), *self._launches(), *self._return()]
        lines = [f"def {p.name}({signature}):", *(f"    {line}" if line else "" for line in body)]
        return "\n".join([*HOST, *(("", "", *HOST_SPLIT) if self.split else ()), "", "", *lines])

    def _docstring(self) -> list[str]:
        show = Printer()
        lines = [f'"""{self.program.name}, fused.', ""]
        for t in self.program.inputs:
            lines.append(f"{t.name}: [{', '.join(show(d) for d in t.shape)}], {t.dtype}, any strides")
        for s in self.scalars:
            lines.append(f"{s.name}: {s.dtype}")
        lines.append(
            "Returns "
            + ", ".join(f"{o.name}: [{', '.join(show(d) for d in o.shape)}], {o.dtype}" for o in self.outputs)
        )
        lines += (
            ["", "Assumes: " + "; ".join(str(a) for a in self.program.assumptions)] if self.program.assumptions else []
        )
        lines += ["", "out: tensors to write to, in the order of the result. config: name of a tile configuration.",
                  *(SPLIT_TEXT if self.split else ()),
                  "Raises ShapeError where a rank, dtype, device or length does not fit.", '"""']  # fmt: skip
        return lines

    def _checks(self) -> list[str]:
        p = self.program
        rows = ", ".join(f'("{t.name}", {t.name}, {len(t.shape)}, torch.{t.dtype})' for t in p.inputs)
        lines = [f"_check_tensors(({rows},))"]
        for size in self.scalars:
            kinds, what = ("(int, float)", "a number") if size.dtype in FLOATS else ("int", "an int")
            lines.append(f'_check_scalar("{size.name}", {size.name}, {kinds}, "{what}")')
        known: set[str] = set()
        given: set[str] = set()
        for t in p.inputs:
            for k, d in enumerate(t.shape):
                have = f"{t.name}.shape[{k}]"
                if isinstance(d, Size) and d.name not in known:
                    known.add(d.name)
                    given.add(have)
                    lines.append(f"{d.name} = {have}")
        for t in p.inputs:
            for k, d in enumerate(t.shape):
                have = f"{t.name}.shape[{k}]"
                if have not in given:
                    lines.append(f'_check_length("{have}", {have}, "{Printer()(d)}", {python(d)})')
        limited = ", ".join(f'("{s.name}", {s.name})' for s in p.sizes if s.dtype not in FLOATS)
        if limited:
            lines.append(f"_check_limit(({limited},))")
        for a in p.assumptions:
            if a.kind in ("at_least", "multiple_of") and a.subject in {s.name for s in p.sizes}:
                test = f"{a.subject} >= {a.value}" if a.kind == "at_least" else f"{a.subject} % {a.value} == 0"
                lines += [f"if not {test}:",
                          f'    raise ShapeError(f"{a.subject} = {{{a.subject}}}, but the kernel assumes {a}")']  # fmt: skip
        return lines

    def _outputs(self) -> list[str]:
        inputs = ", ".join(t.name for t in self.program.inputs)
        specs = ", ".join(self._spec(o) for o in self.outputs)
        names = ", ".join(o.name for o in self.outputs)
        return [f"{names}{',' if len(self.outputs) == 1 else ''} = _results(({specs},), ({inputs},), out)"]

    def _launches(self) -> list[str]:
        lines = []
        first = self.program.inputs[0].name
        for nest, printers in self.nests:
            lines += self._grid(*printers[0])
            if not nest.split:
                lines += self._launch(*printers[0])
                continue
            assert nest.extent is not None
            cut = (
                f"{python(nest.extent)}, programs, {waves(printers[1][0])}, {self.columns}, {first}, splits, split_size"
            )
            lines += [f"shares, share = _shares({cut})", "if shares == 1:"]
            lines += [f"    {line}" for line in self._launch(*printers[0])]
            names = ", ".join(t.name for t in nest.between)
            specs = ", ".join(self._spec(t) for t in nest.between)
            lines += ["else:", f"    {names}{',' * (len(nest.between) == 1)} = _between(({specs},), {first})"]
            for k, printer in printers[1:]:
                lines += [f"    {line}" for line in (*self._grid(k, printer), *self._launch(k, printer))]
        return lines

    @staticmethod
    def _spec(t: OutputTensor) -> str:
        return f"(({', '.join(python(d) for d in t.shape)}{',' if t.shape else ''}), torch.{t.dtype})"

    @staticmethod
    def _grid(k: TileKernel, printer: BodyPrinter) -> list[str]:
        """The tile configuration of one kernel, and the number of its programs."""
        table, joins = f"{kernel_name(k).upper()}_CONFIGS", SPLITS.name in k.sizes and SPLIT_SIZE.name not in k.sizes
        rows = python(k.blocked[0].extent) if k.blocked else "1"
        counts = []
        for a in (a for a in k.grid if not (k.packing and a is k.packing.axis)):
            e = python(a.extent)
            counts.append(f'-(-({e}) // blocks["{printer.blocks[a]}"])' if a in k.blocked else f"({e})")
        return [
            # A configuration that is asked for is one of the kernels that read the inputs.
            f"blocks, options = _pick({table}, {rows}, {'None' if joins else 'config'})",
            f"programs = {' * '.join(counts) or '1'}",
            '_check_limit((("the number of programs", programs),))',
        ]

    def _launch(self, k: TileKernel, printer: BodyPrinter) -> list[str]:
        first = self.program.inputs[0].name
        names = [*k.tensors, *(o.name for o in k.outputs)]
        floats = {s.name for s in self.scalars if s.dtype in FLOATS}
        sizes = [f"float({n})" if n in floats else SPLIT_NAMES.get(n, n) for n in k.sizes]
        args = [*names, *(f"*{n}.stride()" for n in names), *sizes]
        return [
            "if programs:",
            f"    with _device({first}):",
            f"        {kernel_name(k)}[(programs,)]({', '.join(args)}, **blocks, **options)",
        ]

    def _return(self) -> list[str]:
        return [f"return {', '.join(o.name for o in self.outputs)}"]


def python(e: Expr) -> str:
    """An extent as a Python expression over sizes."""
    match e:
        case Const(value):
            return number(value)
        case Size(name):
            return SPLIT_NAMES.get(name, name)
        case Op("cast", (x,)):
            return python(x)
        case Op("max" | "min" as name, (x, y)):
            return f"{name}({python(x)}, {python(y)})"
        case Op(name, (x, y)):
            sign = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "floormod": "%"}[name]
            return f"({python(x)} {sign} {python(y)})"
        case _:
            raise TypeError(f"an extent cannot read {type(e).__name__}")

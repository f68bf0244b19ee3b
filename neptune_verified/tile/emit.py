"""Not trusted: the stand-alone kernel file, i.e. Triton kernels, tile configurations and a Python launcher."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from neptune_verified.ir.expr import FLOATS, Const, Expr, Op, Size
from neptune_verified.ir.printing import Printer, number, stage_text
from neptune_verified.ir.program import Program
from neptune_verified.tile.config import TileConfig, configurations
from neptune_verified.tile.htile import TileKernel, TileProgram
from neptune_verified.tile.ops import HELPERS, NEEDS
from neptune_verified.tile.text import BodyPrinter

AOT_TYPES = {
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64", "int8": "i8", "int16": "i16",
    "int32": "i32", "int64": "i64", "uint8": "u8", "bool": "i1",
}  # fmt: skip
ITEMSIZE = {"float16": 2, "bfloat16": 2, "float64": 8, "int8": 1, "uint8": 1, "int16": 2, "int64": 8, "bool": 1}


@dataclass(frozen=True, slots=True)
class Emitted:
    source: str
    configs: dict[str, tuple[str, ...]]


@cache
def _template() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    env = Environment(
        loader=PackageLoader("neptune_verified.tile"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return env.get_template("kernel.py.j2")


def emit(program: Program, tiles: TileProgram, target: str, definition: str, first_line: str, passes: int) -> Emitted:
    """The text of kernel.py for ``target``; ``definition`` is the program's hash, ``first_line`` a comment."""
    itemsize = max((ITEMSIZE.get(t.dtype, 4) for t in program.inputs), default=4)
    printers = [(k, BodyPrinter(k)) for k in tiles.kernels]
    kernels, helpers, configs = [], {}, {}
    for k, printer in printers:
        lines = printer.lines()
        chosen = configurations(k, target, itemsize)
        configs[k.name] = tuple(c.name for c in chosen)
        for h in printer.helpers:
            for needed in (*NEEDS.get(h, ()), h):
                helpers[needed] = HELPERS[needed].strip("\n") + "\n"
        kernels.append(
            {
                "name": _kernel_name(k),
                "params": _params(program, k, printer),
                "lines": lines,
                "table": f"{_kernel_name(k).upper()}_CONFIGS",
                "configs": [_config(c, printer) for c in chosen],
                "signature": _signature(program, k, printer),
            }
        )
    source = _template().render(
        first_line=first_line,
        entry=program.name,
        target=target,
        title=f"{program.name}: {len(kernels)} Triton kernel{'s' if len(kernels) > 1 else ''}, {passes} pass(es).",
        description="\n".join(f"    {stage_text(s)}" for s in program.stages),
        definition=definition,
        helpers=list(helpers.values()),
        kernels=kernels,
        launcher=_Launcher(program, printers).text(),
    )
    return Emitted(source, configs)


def _kernel_name(k: TileKernel) -> str:
    return f"_{k.name}_kernel"


def _rank(program: Program, k: TileKernel, name: str) -> int:
    for o in k.outputs:
        if o.name == name:
            return len(o.shape)
    return len(program.tensor(name).shape)


def _params(program: Program, k: TileKernel, printer: BodyPrinter) -> list[str]:
    names = [*k.tensors, *(o.name for o in k.outputs)]
    lines = [", ".join(printer.tensors[n] for n in names)]
    lines += [", ".join(f"stride_{n}_{d}" for d in range(_rank(program, k, n))) for n in names if _rank(program, k, n)]
    lines += [", ".join(k.sizes)] if k.sizes else []
    lines += [f"{b}: tl.constexpr" for b in printer.blocks.values()]
    return lines


def _signature(program: Program, k: TileKernel, printer: BodyPrinter) -> str:
    """Argument types for ahead-of-time compilation (lengths and strides as they are for contiguous tensors)."""
    dtypes = {t.name: t.dtype for t in program.inputs} | {o.name: o.dtype for o in k.outputs}
    sizes = {s.name: s.dtype for s in program.sizes}
    names = [*k.tensors, *(o.name for o in k.outputs)]
    entries = [f'"{printer.tensors[n]}": "*{AOT_TYPES[dtypes[n]]}"' for n in names]
    for n in names:
        rank = _rank(program, k, n)
        entries += [f'"stride_{n}_{d}": "{"one" if d == rank - 1 else "i32"}"' for d in range(rank)]
    entries += [f'"{s}": "{AOT_TYPES[sizes[s]]}"' for s in k.sizes]
    return f"{{{', '.join(entries)}}}"


def _config(c: TileConfig, printer: BodyPrinter) -> dict[str, str]:
    blocks = ", ".join(f'"{printer.blocks[a]}": {n}' for a, n in c.blocks.items() if a in printer.blocks)
    # Contraction of a*b+c is off: s*scale - m contracted could give exp an argument above 0.
    options = f'{{"num_warps": {c.num_warps}, "num_stages": {c.num_stages}, "enable_fp_fusion": False}}'
    return {"name": c.name, "blocks": f"{{{blocks}}}", "options": options, "rows": str(c.rows)}


class _Launcher:
    """A plain Python function: checks, reads lengths from shapes, allocates outputs, launches on the current stream."""

    def __init__(self, program: Program, printers: list[tuple[TileKernel, BodyPrinter]]) -> None:
        self.program, self.printers = program, printers
        self.outputs = [o for name in program.outputs for k, _ in printers for o in k.outputs if o.name == name]
        self.scalars = [s for s in program.sizes if s.name not in program.shape_sizes()]

    def text(self) -> str:
        p = self.program
        keywords = [s.name for s in self.scalars]
        signature = ", ".join([*(t.name for t in p.inputs), "*", *keywords, "out=None", "config=None"])
        body = [*self._docstring(), *self._checks(), *self._outputs(), *self._launches(), *self._return()]
        lines = [f"def {p.name}({signature}):", *(f"    {line}" if line else "" for line in body)]
        return "\n".join([*_PICK, "", "", *lines])

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
        specs = ", ".join(
            f"(({', '.join(python(d) for d in o.shape)}{',' if o.shape else ''}), torch.{o.dtype})"
            for o in self.outputs
        )
        names = ", ".join(o.name for o in self.outputs)
        return [f"{names}{',' if len(self.outputs) == 1 else ''} = _results(({specs},), ({inputs},), out)"]

    def _launches(self) -> list[str]:
        lines = []
        first = self.program.inputs[0].name
        for k, printer in self.printers:
            table = f"{_kernel_name(k).upper()}_CONFIGS"
            rows = python(k.blocked[0].extent) if k.blocked else "1"
            lines.append(f"blocks, options = _pick({table}, {rows}, config)")
            counts = []
            for a in k.grid:
                e = python(a.extent)
                counts.append(f'-(-({e}) // blocks["{printer.blocks[a]}"])' if a in k.blocked else f"({e})")
            lines.append(f"programs = {' * '.join(counts) or '1'}")
            names = [*k.tensors, *(o.name for o in k.outputs)]
            floats = {s.name for s in self.scalars if s.dtype in FLOATS}
            sizes = [f"float({n})" if n in floats else n for n in k.sizes]
            args = [*names, *(f"*{n}.stride()" for n in names), *sizes]
            lines += ['_check_limit((("the number of programs", programs),))', "if programs:", f"    with _device({first}):",
                      f"        {_kernel_name(k)}[(programs,)]({', '.join(args)}, **blocks, **options)"]  # fmt: skip
        return lines

    def _return(self) -> list[str]:
        return [f"return {', '.join(o.name for o in self.outputs)}"]


def python(e: Expr) -> str:
    """An extent as a Python expression over sizes."""
    match e:
        case Const(value):
            return number(value)
        case Size(name):
            return name
        case Op("cast", (x,)):
            return python(x)
        case Op("max" | "min" as name, (x, y)):
            return f"{name}({python(x)}, {python(y)})"
        case Op(name, (x, y)):
            sign = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "floormod": "%"}[name]
            return f"({python(x)} {sign} {python(y)})"
        case _:
            raise TypeError(f"an extent cannot read {type(e).__name__}")


_PICK = '''
def _check_tensors(rows):
    device = rows[0][1].device if isinstance(rows[0][1], torch.Tensor) else None
    for name, x, rank, dtype in rows:
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name} must be a torch.Tensor, got {type(x).__name__}")
        if x.dim() != rank:
            raise ShapeError(f"{name} has {x.dim()} dimensions, the definition says {rank}")
        if x.dtype != dtype:
            raise ShapeError(f"{name} is {x.dtype}, the definition says {dtype}: convert it, or compile for that dtype")
        if x.device != device:
            raise ShapeError(f"{name} is on {x.device}, {rows[0][0]} on {device}: move it there")
        if x.requires_grad and torch.is_grad_enabled():
            raise RuntimeError(f"{name} requires a gradient, and this kernel has no backward: detach it or use no_grad")


def _check_length(where, have, name, want):
    if have != want:
        why = f"but {name} = {want}" if name != str(want) else f"the definition says {want}"
        raise ShapeError(f"{where} is {have}, {why}")


def _check_scalar(name, x, kinds, what):
    if isinstance(x, bool) or not isinstance(x, kinds):
        raise TypeError(f"{name} must be {what}, got {type(x).__name__}")


def _check_limit(rows):
    for name, n in rows:
        if not -2147475456 <= n <= 2147475456:
            raise ShapeError(f"{name} is {n}: indices are 32-bit numbers here, so it must lie within 2^31 - 8192")


def _results(specs, inputs, out):
    device = inputs[0].device
    if out is None:
        return tuple(torch.empty(shape, dtype=dtype, device=device) for shape, dtype in specs)
    out = (out,) if isinstance(out, torch.Tensor) else tuple(out)
    if len(out) != len(specs):
        raise ShapeError(f"out has {len(out)} tensors, the kernel has {len(specs)} results")
    for k, (x, (shape, dtype)) in enumerate(zip(out, specs)):
        if tuple(x.shape) != tuple(shape) or x.dtype != dtype or x.device != device:
            raise ShapeError(f"out[{k}] is {x.dtype}{list(x.shape)} on {x.device}, wanted {dtype}{list(shape)} on {device}")
        if any(n > 1 and s == 0 for n, s in zip(x.shape, x.stride())):
            raise ShapeError(f"out[{k}] is expanded, so several results share one element: give a tensor of its own")
        others = (*inputs, *(y for j, y in enumerate(out) if j != k))
        if x.numel() and any(y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for y in others):
            raise ShapeError(f"out[{k}] shares memory with another argument, which is read meanwhile: give its own tensor")
    return out


def _pick(table, rows, wanted):
    if wanted is not None:
        if wanted not in table:
            raise KeyError(f"no configuration {wanted!r}; there are {', '.join(table)}")
        return table[wanted][:2]
    return next(entry[:2] for entry in table.values() if rows >= entry[2])


class _device:
    """The tensor's device for the launch; nothing on a CPU."""

    def __init__(self, x):
        self.guard = torch.cuda.device(x.device) if x.is_cuda else None

    def __enter__(self):
        if self.guard:
            self.guard.__enter__()

    def __exit__(self, *exc):
        if self.guard:
            self.guard.__exit__(*exc)
'''.strip("\n").split("\n")

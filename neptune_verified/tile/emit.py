"""Not trusted: the stand-alone kernel file, i.e. Triton kernels, tile configurations and a Python launcher."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from neptune_verified.ir.loops import SPLIT_SIZE, SPLITS
from neptune_verified.ir.printing import stage_text
from neptune_verified.ir.program import Program
from neptune_verified.tile.config import TileConfig, configurations
from neptune_verified.tile.htile import TileKernel, TileProgram
from neptune_verified.tile.launcher import Launcher, check_names, kernel_name
from neptune_verified.tile.ops import HELPERS, NEEDS
from neptune_verified.tile.text import BodyPrinter

AOT_TYPES = {
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64", "int8": "i8", "int16": "i16",
    "int32": "i32", "int64": "i64", "uint8": "u8", "bool": "i1",
}  # fmt: skip
Tensors = dict[str, tuple[int, str]]
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


def emit(program: Program, tiles: TileProgram, target: str, definition: str, first_line: str, passes: int,
         splits: int | None = None, split_size: int | None = None) -> Emitted:  # fmt: skip
    """The text of kernel.py for ``target``; ``definition`` is the program's hash, ``first_line`` a comment; ``splits`` and
    ``split_size`` are the launcher's defaults. Raises UnsupportedProgram for a name that the text needs for itself."""
    itemsize = max((ITEMSIZE.get(t.dtype, 4) for t in program.inputs), default=4)
    printers = [[(k, BodyPrinter(k)) for k in nest.all] for nest in tiles.kernels]
    every = [pair for nest in printers for pair in nest]
    check_names(program, [kernel_name(k) for k, _ in every])
    kernels, helpers, configs = [], {}, {}
    tensors = {t.name: (len(t.shape), t.dtype) for t in program.inputs}
    for k, _ in every:
        tensors |= {o.name: (len(o.shape), o.dtype) for o in k.outputs}
    columns = 1  # elements of the longest tile of a stream in a kernel that owns a share of it
    for k, printer in every:
        lines = printer.lines()
        chosen = configurations(k, target, itemsize)
        if SPLIT_SIZE.name in k.sizes:
            columns = max([columns, *(c.blocks[a] for c in chosen for a in k.streamed if a in c.blocks)])
        configs[k.name] = tuple(c.name for c in chosen)
        for h in printer.helpers:
            for needed in (*NEEDS.get(h, ()), h):
                helpers[needed] = HELPERS[needed].strip("\n") + "\n"
        kernels.append(
            {
                "name": kernel_name(k),
                "params": _params(tensors, k, printer),
                "lines": lines,
                "table": f"{kernel_name(k).upper()}_CONFIGS",
                "configs": [_config(c, printer) for c in chosen],
                "signature": _signature(program, tensors, k, printer),
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
        launcher=Launcher(
            program, list(zip(tiles.kernels, printers, strict=True)), columns, (splits, split_size)
        ).text(),
    )
    return Emitted(source, configs)


def _params(tensors: Tensors, k: TileKernel, printer: BodyPrinter) -> list[str]:
    names = [*k.tensors, *(o.name for o in k.outputs)]
    lines = [", ".join(printer.tensors[n] for n in names)]
    lines += [", ".join(f"stride_{n}_{d}" for d in range(tensors[n][0])) for n in names if tensors[n][0]]
    lines += [", ".join(k.sizes)] if k.sizes else []
    lines += [f"{b}: tl.constexpr" for b in printer.blocks.values()]
    return lines


def _signature(program: Program, tensors: Tensors, k: TileKernel, printer: BodyPrinter) -> str:
    """Argument types for ahead-of-time compilation (lengths and strides as they are for contiguous tensors)."""
    sizes = {s.name: s.dtype for s in (*program.sizes, SPLITS, SPLIT_SIZE)}
    names = [*k.tensors, *(o.name for o in k.outputs)]
    entries = [f'"{printer.tensors[n]}": "*{AOT_TYPES[tensors[n][1]]}"' for n in names]
    for n in names:
        rank = tensors[n][0]
        entries += [f'"stride_{n}_{d}": "{"one" if d == rank - 1 else "i32"}"' for d in range(rank)]
    entries += [f'"{s}": "{AOT_TYPES[sizes[s]]}"' for s in k.sizes]
    return f"{{{', '.join(entries)}}}"


def _config(c: TileConfig, printer: BodyPrinter) -> dict[str, str]:
    blocks = ", ".join(f'"{printer.blocks[a]}": {n}' for a, n in c.blocks.items() if a in printer.blocks)
    # Contraction of a*b+c is off: s*scale - m contracted could give exp an argument above 0.
    options = f'{{"num_warps": {c.num_warps}, "num_stages": {c.num_stages}, "enable_fp_fusion": False}}'
    return {"name": c.name, "blocks": f"{{{blocks}}}", "options": options, "rows": str(c.rows)}

"""Planted faults: edits of emitted kernel files that are right in a quick look and wrong on some inputs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neptune_verified.cli import read_definition
from neptune_verified.pipeline import compile as compile_program

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Fault:
    """``edits``: old text, new text, and how often the old one is there. ``shown``: families of which some sample shows it;
    ``hidden``: families on which it is within its bound."""

    source: str
    parameters: dict[str, Any]
    edits: tuple[tuple[str, str, int], ...]
    shown: tuple[str, ...]
    hidden: tuple[str, ...] = ("normal",)


ATTENTION: dict[str, Any] = {"H": 1, "D": 16, "dtype": "float16"}
FAULTS = {
    "accumulators in float16": Fault(
        "attention.py:attention",
        ATTENTION,
        (("        o_f32 = o_f32_new\n", "        o_f32 = tl.cast(tl.cast(o_f32_new, tl.float16), tl.float32)\n", 2),),
        ("all equal",),
    ),
    "the variance in one pass": Fault(
        "norms.py:layernorm",
        {},
        (
            ("t_26 = (x_tile_22 - (total / t_23)[:, None])", "t_26 = x_tile_22", 1),
            ("((squares / t_23) +", "((squares / t_23) - (total / t_23) * (total / t_23) +", 1),
        ),
        ("large mean",),
    ),
    "no rescale at every 64th step": Fault(
        "attention.py:attention",
        ATTENTION,
        (
            (
                "(o_f32 * t_25[:, None])",
                "(o_f32 * tl.where((x0_start // BLOCK_X0) % 64 == 63, 1.0, t_25)[:, None])",
                1,
            ),
        ),
        ("ramp",),
        ("all equal",),
    ),
    "a finite number for -inf": Fault(
        "attention.py:attention",
        ATTENTION,
        (('m = tl.full([BLOCK_I], float("-inf"), tl.float32)', "m = tl.full([BLOCK_I], -10000.0, tl.float32)", 1),),
        ("very negative",),
    ),
    "a finite number for what is masked": Fault(
        "attention.py:causal",
        {"H": 1, "D": 16},
        (('float("-inf")', "-10000.0", 0),),
        ("very negative",),
        ("all equal",),
    ),
}

#: Seen where a maximum jumps by more than 9 and what came before still counts, which no family of inputs does.
JUMP = Fault(
    "attention.py:attention",
    ATTENTION,
    (("t_25 = tl.exp((m - t_23))", "t_25 = tl.where(m - t_23 < -9.0, 0.0, tl.exp((m - t_23)))", 1),),
    (),
)


def planted(fault: Fault, folder: Path) -> Path:
    """The folder of the program's kernel, with the fault in kernel.py."""
    program, _ = read_definition(f"{EXAMPLES}/{fault.source}", fault.parameters)
    compile_program(program, "interpret").save(folder)
    path = folder / "kernel.py"
    text = path.read_text()
    for old, new, many in fault.edits:
        assert text.count(old) == many if many else text.count(old), (old, text.count(old))
        text = text.replace(old, new)
    path.write_text(text)
    return folder

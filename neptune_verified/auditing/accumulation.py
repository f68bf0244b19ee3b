"""Not trusted: how a fused kernel accumulates each reduction, and what it rounds on the way, for the error bound.

Read from the loop program (which reductions are carried along, and what their repairs compute), from the kernel's tile
configurations (how long a tile is, hence how many steps a loop has), and from the roundings that the compiler listed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from neptune_verified.auditing.formats import FORMATS, ROUNDINGS
from neptune_verified.ir.expr import Expr, Op, Reduce, subterms
from neptune_verified.ir.loops import LoopProgram

#: Streamed axes are x0, x1, ... in an emitted kernel.
_STREAM = re.compile(r"BLOCK_X\d+")
#: Of Triton's interpreter (3.6 to 3.9); GPUs round to the nearest number.
TRUNCATED = frozenset({"bfloat16"})
_OPERAND = re.compile(r"(\w+): an operand of a dot is (?:rounded to|taken as the sum of (?P<two>two)) (\w+)")


@dataclass(frozen=True)
class Operand:
    """A factor that becomes a number of a 16-bit type, or (``twice``) the sum of two, in two products."""

    dtype: str
    twice: bool = False


class OperandError(NamedTuple):
    """Of a factor that is rounded; ``products``: how many are added for one."""

    relative: float
    absolute: float
    products: int


@dataclass(frozen=True)
class Accumulation:
    """``repairs``: for each carried reduction, the roundings of one repair. ``tiles``: the least and the greatest length
    of a tile. ``operands``: reduced extents -> what becomes of a factor of such a sum."""

    repairs: Mapping[str, float] = field(default_factory=dict)
    tiles: tuple[int, int] = (1, 1)
    operands: Mapping[tuple[Expr, ...], Operand] = field(default_factory=dict)
    #: Types to which the target cuts digits off instead of rounding.
    truncated: frozenset[str] = frozenset()

    def roundoff(self, dtype: str) -> float:
        """The largest relative error of a conversion to ``dtype``, or of an operation in it."""
        return FORMATS[dtype].roundoff * (2 if dtype in self.truncated else 1)

    def depth(self, stage: str, n: int) -> float:
        """The greatest number of roundings of an element of a reduction over ``n`` on its way into the result.

        Within a tile any order, then one step for each tile, with its repair; where the axis may be split, the parts are
        joined once more in as many steps, at most."""
        if stage not in self.repairs:
            return n
        low, high = self.tiles
        steps = -(-n // low) + 1
        return min(n, high) + 2 * steps * (1 + self.repairs[stage])

    def operand_error(self, e: Reduce) -> OperandError | None:
        """Of the factors of this sum; None if none is rounded. The second of two numbers has the error of the first for its
        size."""
        found = self.operands.get(tuple(a.extent for a in e.axes))
        if found is None:
            return None
        u, tiny = self.roundoff(found.dtype), FORMATS[found.dtype].tiny
        return OperandError(u * u, tiny, 2) if found.twice else OperandError(u, tiny, 1)


def accumulation_of(loops: LoopProgram, source: str, roundings: Iterable[str]) -> Accumulation:
    """From the loop program, the text of kernel.py, and the certificate's roundings."""
    every = [c for nest in loops.nests for c in nest.carried()]
    repairs = {
        c.name: sum(ROUNDINGS.get(x.name, 0.0) for x in subterms(c.repair.h) if isinstance(x, Op)) if c.repair else 0.0
        for c in every
    }
    carried = {c.name: c.value for c in every}
    bodies = {s.name: s.body for s in loops.program.stages if isinstance(s.body, Reduce)}
    operands: dict[tuple[Expr, ...], Operand] = {}
    for text in roundings:
        found = _OPERAND.match(text)
        e = found and (bodies.get(found[1]) or carried.get(found[1]))
        if found and isinstance(e, Reduce):
            key, new = tuple(a.extent for a in e.axes), Operand(found[3], found["two"] is not None)
            if key not in operands or operands[key].twice:  # the larger error, where kernels differ
                operands[key] = new
    truncated = TRUNCATED if re.search(r'^TARGET = "interpret"$', source, re.MULTILINE) else frozenset[str]()
    return Accumulation(repairs, tiles_of(source), operands, truncated)


def tiles_of(source: str) -> tuple[int, int]:
    """The least and the greatest block of an axis that is streamed, among the tile configurations of a kernel file; (1, 1)
    where it has none."""
    blocks: list[int] = []
    for node in ast.walk(ast.parse(source)) if "_KERNEL_CONFIGS" in source else ():
        if isinstance(node, ast.Assign) and any(
            isinstance(t, ast.Name) and t.id.endswith("_KERNEL_CONFIGS") for t in node.targets
        ):
            for configuration in ast.literal_eval(node.value).values():
                blocks += [n for name, n in configuration[0].items() if _STREAM.fullmatch(name)]
    return (min(blocks), max(blocks)) if blocks else (1, 1)

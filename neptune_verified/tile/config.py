"""Not trusted: tile sizes, warps and stages. Any choice is right; a bad one is slow."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from neptune_verified.ir.expr import Axis, Const
from neptune_verified.ir.loops import SPLIT_SIZE
from neptune_verified.tile.htile import TileKernel

#: Elements of the largest tile that a program holds, without and with a matrix product (registers of 4 to 8 warps).
ELEMENTS = {"plain": 8192, "dot": 16384}
#: Shared memory per program, in bytes, by target prefix (from the vendors' tables, less what the compiler keeps).
SHARED = {"cuda:80": 160_000, "cuda:86": 98_000, "cuda:89": 98_000, "cuda:90": 220_000, "cuda:100": 220_000,
          "hip:gfx950": 150_000, "interpret": 1 << 30}  # fmt: skip
SHARED_DEFAULT = 64_000  # gfx942 and unknown targets


@dataclass(frozen=True, slots=True)
class TileConfig:
    """``blocks`` per cut axis; the configuration is used when the first blocked axis has at least ``rows`` elements."""

    name: str
    blocks: dict[Axis, int]
    num_warps: int
    num_stages: int
    rows: int = 0


def configurations(kernel: TileKernel, target: str, itemsize: int) -> tuple[TileConfig, ...]:
    """Configurations of one kernel for a target, the most demanding first; the last one fits every length."""
    interpret = target == "interpret"
    shared = next((v for k, v in SHARED.items() if target == k), SHARED_DEFAULT)
    if kernel.dots:
        wishes = [("large", 128, 128, 8, 3, 1024), ("medium", 64, 64, 4, 2, 33), ("small", 16, 64, 4, 2, 0)]
        if SPLIT_SIZE.name in kernel.sizes:  # many rows fill a device without being split
            wishes = wishes[1:]
        if target.startswith(("cuda:9", "cuda:10")) and len(_padded(kernel)) > 1:
            # Seen with Triton 3.6 on an H200: two products whose inner and outer axes are both padded (72 and 17 lanes, say)
            # come out wrong where warp-group instructions multiply; 16 rows are multiplied by others, and come out right.
            wishes = wishes[-1:]
        if kernel.packing:
            wishes = [("small", 16, 128, 4, 3, 0)]
        if interpret:
            wishes = [("medium", 64, 64, 4, 2, 17), ("small", 16, 64, 4, 2, 0)]
            wishes = wishes[-1:] if kernel.packing else wishes
    elif kernel.streamed and not kernel.blocked and any(a in kernel.blocks for axes in kernel.widest for a in axes):
        # Products of a matrix and a vector: measured on an H200, one warp for a tile reads fastest.
        wishes = [("rows", 1, 64, 1, 2, 0)]
    else:
        wishes = [("rows", 4, 1024, 4, 2, 0)] if kernel.streamed else [("rows", 8, 1024, 4, 2, 0)]
    return tuple(_fit(kernel, wish, shared, itemsize) for wish in wishes)


def _padded(kernel: TileKernel) -> set[Axis]:
    """Whole axes of products whose extent is no power of two."""
    axes = {a for dot in kernel.dots for a in dot if a in kernel.blocks}
    return {a for a in axes if isinstance(a.extent, Const) and a.extent.value != kernel.blocks[a]}


def _fit(kernel: TileKernel, wish: tuple[str, int, int, int, int, int], shared: int, itemsize: int) -> TileConfig:
    name, rows, columns, warps, stages, threshold = wish
    in_dot = {a for dot in kernel.dots for a in dot}
    blocks: dict[Axis, int] = {}
    for a in (x for x in dict.fromkeys((*kernel.blocked, *kernel.streamed)) if x not in kernel.blocks):
        if a in kernel.streamed:
            blocks[a] = columns
        elif a in in_dot:
            blocks[a] = rows
        else:
            # The last blocked axis of an elementwise kernel runs along memory.
            blocks[a] = rows if kernel.streamed or a is not kernel.blocked[-1] else columns
    limit = ELEMENTS["dot" if kernel.dots else "plain"]

    def lanes(a: Axis) -> int:
        return blocks.get(a, kernel.blocks.get(a, 1))

    def too_big() -> bool:
        widest = max((prod(lanes(a) for a in axes) for axes in kernel.widest), default=1)
        operands = sum(
            lanes(m) * lanes(k) + lanes(k) * lanes(n) * (stages if k in kernel.streamed or n in kernel.streamed else 1)
            for m, k, n in kernel.dots
        )
        return widest > limit or operands * itemsize > shared

    while too_big():
        if stages > 2 and kernel.dots:
            stages -= 1
            continue
        floor = {a: 16 if a in in_dot else 1 for a in blocks}
        free = [a for a in blocks if blocks[a] > floor[a]]
        if not free:
            break
        # Axes outside of every product first, then the longest.
        widest_axis = max(free, key=lambda a: (a not in in_dot and a not in kernel.streamed, blocks[a]))
        blocks[widest_axis] //= 2
    if rows * columns < 64 * 128 and kernel.dots:
        warps = 4
    return TileConfig(name, blocks, warps, stages, threshold)

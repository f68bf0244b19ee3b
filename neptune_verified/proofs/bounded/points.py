"""Not trusted: lengths at which every loop runs, for each configuration: found by counting iterations at many lengths.

Nothing is believed because of the choice: ``needs`` says what the loops can do at the lengths that were counted, and the
coverage asks for it. A loop that runs for none of them, however long, is dead text for that configuration.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from neptune_verified.ir.expr import FLOATS
from neptune_verified.ir.program import Program
from neptune_verified.proofs.bounded.counts import Counted, counts
from neptune_verified.proofs.bounded.field import Array
from neptune_verified.proofs.bounded.source import KernelFile
from neptune_verified.proofs.bounded.views import cut

#: Lengths of which an evaluation is too much work: a measure of the product of all lengths.
AFFORDABLE = 3_000_000
#: Most choices of lengths whose iterations are counted.
_POINTS = 3000
_HUGE = (2**20 + 1, 2**30)
_LIMIT = 2**31 - 8192
#: (configuration, line of the loop): how many iterations have to be seen.
Needs = dict[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Point:
    """Lengths, and the programs that are wanted in them."""

    sizes: dict[str, int | float]
    follow: tuple[int, ...]


@dataclass(slots=True)
class Scan:
    """Counts of one configuration at legal lengths; ``cost``: what an evaluation would take."""

    sizes: dict[str, Array]
    floats: dict[str, float]
    cost: Array
    launches: list[Counted]

    def needs(self) -> Needs:
        return {(x.config, line): min(2, int(n.max(initial=0))) for x in self.launches for line, n in x.loops.items()}

    def points(self) -> list[Point]:
        """A few cheap choices in which every loop runs once and, where it can, twice; and pairs of loops in one program."""
        found: dict[tuple[int, ...], list[int]] = {}
        for x in self.launches:
            wanted = dict(_wanted(x, self.cost))
            while wanted:
                # What only long lengths show comes first: they show most of the rest too.
                least = {key: self.cost[at.any(axis=1)].min() for key, at in wanted.items()}
                hardest = wanted[max(wanted, key=lambda key: (least[key], str(key)))]
                cheap = hardest & (self.cost[:, None] <= self.cost[hardest.any(axis=1)].min())
                shown = sum(at.astype(np.int64) for at in wanted.values())
                row, column = np.unravel_index(int(np.argmax(np.where(cheap, shown, -1))), cheap.shape)
                wanted = {key: at for key, at in wanted.items() if not at[row, column]}
                found.setdefault((int(row),), []).append(int(x.pids[row, column]))
        return [
            Point(
                {k: int(v[row]) for k, v in self.sizes.items()} | self.floats,
                tuple(dict.fromkeys(pids)),
            )
            for (row,), pids in found.items()
        ]


def _wanted(x: Counted, cost: Array) -> Iterator[tuple[tuple[int, ...], Array]]:
    """Where, at affordable lengths, each loop runs once, twice, and together with another one."""
    affordable = (cost <= AFFORDABLE)[:, None]
    lines = list(x.loops)
    parts: list[tuple[tuple[int, ...], Array]] = [((line, k), x.loops[line] >= k) for line in lines for k in (1, 2)]
    parts += [((a, 0, b), (x.loops[a] > 0) & (x.loops[b] > 0)) for a, b in itertools.pairwise(lines)]
    for key, at in parts:
        if (at & affordable).any():
            yield key, at & affordable


def scan(file: KernelFile, program: Program, blocks: Mapping[str, int], choice: int) -> Scan:
    whole = [s.name for s in program.sizes if s.dtype not in FLOATS]
    # A length that no kernel reads (a batch) changes the grid alone, and needs no lengths about tiles.
    read = {n.id for k in file.kernels.values() for s in k.body for n in ast.walk(s) if isinstance(n, ast.Name)}
    # Where an axis is split, a loop that runs twice in a share takes twice as many tiles, or more.
    larger = {n * b for _, b in cut(file) for n in (2, 4)}
    cuts, constants = sorted({*blocks.values(), *larger}), _constants(file)
    values = [_candidates(program, n, *((cuts, constants) if n in read else ([], []))) for n in whole]
    shaped = program.shape_sizes()
    grid = list(itertools.product(*values)) or [()]
    if len(grid) > _POINTS:
        rng = np.random.default_rng(len(grid))
        grid = [grid[k] for k in sorted(rng.choice(len(grid), _POINTS, replace=False))]
    table = np.array(grid, dtype=np.int64).reshape(len(grid), len(whole))
    sizes = {name: table[:, k] for k, name in enumerate(whole)}
    lengths = [np.maximum(1, np.minimum(v, 2**21)).astype(np.float64) for k, v in sizes.items() if k in shaped]
    product = np.prod(lengths, axis=0) if lengths else np.ones(len(grid))
    cost = (product**2 if len(lengths) == 1 else product) + 100 * sum(lengths)
    floats = {s.name: 0.8125 for s in program.sizes if s.dtype in FLOATS}
    return Scan(sizes, floats, np.asarray(cost), counts(file, program, sizes, choice))


def _candidates(program: Program, name: str, blocks: list[int], constants: list[int]) -> list[int]:
    """Lengths about one, two and three tiles, the numbers that bounds speak of, and huge ones; as declared facts allow."""
    found = {0, 1, 5, *_HUGE}
    for b in blocks:
        found |= {b, b + 1, 2 * b + 3, 3 * b + 1} if b > 1 else set()
    for c in constants:
        # A window of c, moved by 3: it begins in one tile for some of five rows, and in the next for the others.
        found |= {c + 1, *(c + b + n for b in blocks[-1:] for n in (1, 3))}
    if name not in program.shape_sizes():
        found |= {-1, 2, sum(blocks)}
    facts = {a.kind: a.value for a in program.assumptions if a.subject == name}
    least = max(int(facts.get("at_least") or 0), 1 if "positive" in facts else 0) if "at_least" in facts or \
        "positive" in facts or name in program.shape_sizes() else -_LIMIT  # fmt: skip
    step = int(facts.get("multiple_of") or 1)
    most = min(_LIMIT, int(facts.get("bounded") or _LIMIT))
    return sorted({n for x in found if least <= (n := -(-x // step) * step) <= most and (n or "nonzero" not in facts)})


def _constants(file: KernelFile) -> list[int]:
    """The largest numbers in scalars and loop bounds."""
    found: set[int] = set()
    for kernel in file.kernels.values():
        for s in kernel.body:
            loads = [
                n for n in ast.walk(s) if isinstance(n, ast.Attribute) and n.attr in ("load", "arange", "dot", "full")
            ]
            part = s.iter if isinstance(s, ast.For) else s.value if isinstance(s, ast.Assign) and not loads else None
            if part is not None:
                found |= {n.value for n in ast.walk(part) if isinstance(n, ast.Constant) and type(n.value) is int}
    return sorted(n for n in found if n > 1)[-3:]

"""Not trusted: all wrong transformations of all programs, in a fixed order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import chain

from neptune_verified.fusion.fuse import fuse
from neptune_verified.mutants.judge import Base, base_of
from neptune_verified.mutants.model import Mutant
from neptune_verified.mutants.programs import PROGRAMS
from neptune_verified.mutants.repairs import repair_mutants
from neptune_verified.mutants.shapes import shape_mutants
from neptune_verified.mutants.special import special_mutants


@lru_cache(maxsize=64)
def base(program: str) -> Base:
    """What the compiler makes of a program, verified."""
    return base_of(fuse(PROGRAMS[program]()))


def mutants_of(program: str) -> Iterator[Mutant]:
    """Every wrong transformation of one program; those that would have one name are numbered."""
    b = base(program)
    taken: Counter[str] = Counter()
    sources = (
        repair_mutants(program, b.loops),
        shape_mutants(program, b.loops),
        special_mutants(program, b.loops, b.splits),
    )
    for m in chain.from_iterable(sources):
        taken[m.name] += 1
        number = taken[m.name]
        yield m if number == 1 else replace(m, what=f"{m.what} #{number}".strip())


def catalogue(programs: Iterable[str] = tuple(PROGRAMS)) -> list[Mutant]:
    """Every mutant of the named programs."""
    return [m for name in programs for m in mutants_of(name)]

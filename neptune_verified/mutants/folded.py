"""Not trusted: the join law of the split-K update, executed: partial states joined two by two, from left to right.

The emitted form (``ir.split``) joins all of them at once; that both give the same is what O15 says. The catalogue changes
the combine of two states and looks whether that is seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from neptune_verified.ir.interpret import Array, Evaluator, Frame, canonical, combine_array, size_env
from neptune_verified.ir.loops import (
    LoopProgram,
    Nest,
    Pass,
    T,
    finish,
    run_tile,
    store_pass,
    tiles,
)
from neptune_verified.ir.loops import step as repair_step

State = dict[str, Array]


@dataclass(frozen=True)
class Side:
    """What the combine does to one partial result: repair it from one producer state to another ("own", "other",
    "joined"), keep it as it is, or drop it."""

    source: str = "own"
    target: str = "joined"
    how: str = "repair"


@dataclass(frozen=True)
class Combine:
    """The combine of two partial states of a consumer."""

    a: Side = Side()
    b: Side = Side()


_REPAIRED = Combine()


def run_folded(
    loops: LoopProgram,
    inputs: Mapping[str, Array],
    splits: int,
    scalars: Mapping[str, float] | None = None,
    tile: int = 4,
) -> dict[str, Array]:
    """Execute with ``splits`` splits per pass in float64; those beyond the last element own nothing."""
    if splits < 1:
        raise ValueError(f"a pass has at least one split, got {splits}")
    env = size_env(loops.program, {k: np.shape(v) for k, v in inputs.items()}, scalars or {})
    results: dict[str, Array] = {}
    for nest in loops.nests:
        ev = Evaluator({**{k: canonical(v) for k, v in inputs.items()}, **results}, env)
        base = ev.whole(nest.grid + nest.inner)
        for p in nest.passes:
            state = initial(ev, p, base)
            elements = list(tiles(ev, p.stream, 1))
            for part in shares(elements, splits) if elements else []:
                state = join(ev, nest, p, base, state, _partial(ev, nest, p, base, part, tile))
            ev.vars.update(state)
            store_pass(ev, nest, p, base, tile, results)
        finish(ev, nest, base, results)
    return {name: results[name] for name in loops.program.outputs}


def shares(elements: list[tuple[Array, ...]], splits: int) -> list[list[tuple[Array, ...]]]:
    """``splits`` runs of consecutive elements, each of ceil(n / splits); the last ones may be short or empty."""
    size = -(-len(elements) // splits)
    return [elements[k * size : (k + 1) * size] for k in range(splits)]


def initial(ev: Evaluator, p: Pass, base: Frame) -> State:
    return {c.name: ev.eval(c.neutral, base).reshape((1,) * len(base.axes)) for c in p.carried}


def _partial(ev: Evaluator, nest: Nest, p: Pass, base: Frame, part: list[tuple[Array, ...]], tile: int) -> State:
    """The rolling update over one split."""
    ev.vars.update(initial(ev, p, base))
    for k in range(0, len(part), tile):
        for values in _merged(part[k : k + tile]):
            run_tile(ev, nest, p, base, values)
    return {c.name: ev.vars[c.name] for c in p.carried}


def _merged(part: list[tuple[Array, ...]]) -> list[tuple[Array, ...]]:
    """Elements that differ in the last axis alone, as one tile."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for element in part:
        groups.setdefault(tuple(int(x[0]) for x in element[:-1]), []).append(int(element[-1][0]))
    return [(*(np.array([k]) for k in outer), np.array(last)) for outer, last in groups.items()]


def join(ev: Evaluator, nest: Nest, p: Pass, base: Frame, a: State, b: State, combine: Combine = _REPAIRED) -> State:
    """The combine C of two partial states."""
    joined: State = {}
    for c in p.carried:
        if c.repair is None or not c.repair.producers:
            joined[c.name] = combine_array(c.value.reducer, a[c.name], b[c.name])
            continue
        h = repair_step(nest, p, c)
        sides = []
        for chosen, own, other in ((combine.a, a, b), (combine.b, b, a)):
            states = {"own": own, "other": other, "joined": joined}
            ev.vars.update(states[chosen.source])
            ev.vars.update({f"{name}_new": states[chosen.target][name] for name in joined})
            ev.vars[T] = own[c.name]
            value = own[c.name]
            if chosen.how != "keep":
                value = ev.eval(c.neutral if chosen.how == "drop" else h, Frame(base.axes, base.values))
            sides.append(value)
        with np.errstate(all="ignore"):
            joined[c.name] = combine_array(c.value.reducer, *sides)
    return joined

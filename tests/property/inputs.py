"""Inputs of random programs: lengths, values and memory layouts."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from neptune_verified.ir.expr import Const, Size
from neptune_verified.ir.interpret import Evaluator, size_env
from neptune_verified.ir.program import Program, Tensor

Array = NDArray[Any]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.asarray(rng.normal(size=shape))


def _alternating(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.asarray(np.where(np.arange(shape[-1] if shape else 1) % 2, -3.0, 3.0) + np.zeros(shape))


def _dominant(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    x = _normal(rng, shape)
    if x.size:
        x.flat[rng.integers(x.size, size=max(1, x.size // 64))] = rng.choice([1.0, -1.0]) * 1e4
    return x


def _sorted(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.sort(_normal(rng, shape) * 30, axis=-1) if shape else _normal(rng, shape)


def _zeros_first(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    x = _normal(rng, shape)
    if shape:
        x[..., : max(1, shape[-1] // 2)] = 0
    return x


VALUES: dict[str, Draw] = {
    "normal": _normal,
    "equal": lambda rng, shape: np.full(shape, rng.choice([1.5, -0.75, 3.0])),
    "large": lambda rng, shape: _normal(rng, shape) * 1e4,
    "negative": lambda rng, shape: -1e3 - np.abs(_normal(rng, shape)) * 100,
    "alternating": _alternating,
    "dominant": _dominant,
    "sorted": _sorted,
    "reversed": lambda rng, shape: _sorted(rng, shape)[..., ::-1].copy() if shape else _normal(rng, shape),
    "zeros": lambda rng, shape: np.zeros(shape),
    "zeros first": _zeros_first,
    "tiny": lambda rng, shape: _normal(rng, shape) * 1e-12,
    "denormal": lambda rng, shape: _normal(rng, shape) * 1e-42,
}
#: With -inf where it is declared: in half of the elements, in the first half of the rows, everywhere.
DEAD = ("scattered", "first half", "all")
LAYOUTS = ("plain", "plain", "transposed", "stepped", "offset", "expanded")


@dataclass(frozen=True)
class Run:
    """How to draw the inputs of one run. ``lengths`` gives each symbolic length; ``dead`` is "" or one of DEAD."""

    lengths: tuple[tuple[str, int], ...]
    values: str
    layout: str
    dead: str
    seed: int


def runs(program: Program, tile: int, count: int, seed: int) -> list[Run]:
    """``count`` runs; the first of them have every length of the list, and every value kind comes in turn."""
    rng = random.Random(seed)
    names = [s.name for s in program.sizes if s.name in program.shape_sizes()]
    may_be_dead = any(a.kind == "finite_or_minus_infinity" for a in program.assumptions)
    columns = [tile + 1, 5, 1, 0, tile, 2, 2 * tile + 7, tile - 1, 23, 64]
    rng.shuffle(columns)
    kinds = list(VALUES)
    rng.shuffle(kinds)
    found = []
    for k in range(count):
        n = columns[k % len(columns)]
        rows = [3, 1, 3, 17, 2, 3, 1, 0] if n <= 64 else [1, 3]
        lengths = {name: rng.choice(rows) for name in names}
        lengths["N"] = n
        dead = rng.choice(("", *DEAD)) if may_be_dead else ""
        drawn = tuple((name, lengths[name]) for name in names)
        found.append(Run(drawn, kinds[k % len(kinds)], rng.choice(LAYOUTS), dead, rng.randrange(2**31)))
    return found


def extents(program: Program, tensor: Tensor, lengths: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of an input of a spec, whose dimensions are names and numbers."""
    return tuple(
        lengths[d.name] if isinstance(d, Size) else int(d.value) for d in tensor.shape if isinstance(d, Size | Const)
    )


def arrays(program: Program, run: Run) -> dict[str, Array]:
    """Values as declared: bounds clip them, facts about signs are made true."""
    rng = np.random.default_rng(run.seed)
    found = {}
    for k, t in enumerate(program.inputs):
        kind = run.values if k == 0 or rng.random() < 0.5 else str(rng.choice(list(VALUES)))
        shape = extents(program, t, dict(run.lengths))
        if "int" in t.dtype:  # the lengths of rows
            found[t.name] = rng.integers(0, dict(run.lengths)["N"] + 3, shape)
            continue
        x = VALUES[kind](rng, shape)
        facts = {a.kind: a.value for a in program.assumptions if a.subject == t.name}
        if "positive" in facts:
            x = np.abs(x) + 2.0**-8
        if "nonnegative" in facts:
            x = np.abs(x)
        if "at_least" in facts:
            x = np.maximum(x, float(facts["at_least"] or 0))
        bound = float(facts.get("bounded") or np.inf)
        x = np.clip(x, -bound, bound)
        if "finite_or_minus_infinity" in facts and run.dead:
            x = _with_dead(rng, x, run.dead)
        found[t.name] = x
    return found


def _with_dead(rng: np.random.Generator, x: Array, dead: str) -> Array:
    if dead == "all" or not x.ndim:
        return np.where(rng.random(x.shape[:1] + (1,) * (x.ndim - 1)) < 0.7, -np.inf, x)
    if dead == "scattered":
        return np.where(rng.random(x.shape) < 0.5, -np.inf, x)
    x = x.copy()
    x[..., : x.shape[-1] // 2 + 1] = -np.inf
    return x


def _unread(x: torch.Tensor) -> float:
    """What stands between the elements."""
    return float("nan") if x.is_floating_point() else -1


def laid_out(x: torch.Tensor, layout: str) -> torch.Tensor:
    """The same values with other strides ("expanded" repeats the first row: other values, stride 0)."""
    if not x.ndim:
        return x
    if layout == "transposed" and x.ndim > 1:
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "stepped":
        wide = torch.full((*x.shape[:-1], 2 * x.shape[-1]), _unread(x), dtype=x.dtype)
        wide[..., ::2] = x
        return wide[..., ::2]
    if layout == "offset":
        long = torch.full((x.numel() + 5,), _unread(x), dtype=x.dtype)
        long[5:] = x.flatten()
        return long[5:].view(x.shape)
    if layout == "expanded" and x.shape[0]:
        return x[:1].expand(x.shape)
    return x


def tensors(program: Program, run: Run) -> list[torch.Tensor]:
    """The kernel's arguments; their values are those after rounding to their types."""
    values = arrays(program, run)
    made = [torch.tensor(values[t.name]).to(getattr(torch, t.dtype)) for t in program.inputs]
    return [laid_out(x, run.layout) for x in made]


def as_arrays(program: Program, arguments: list[torch.Tensor]) -> dict[str, Array]:
    """The arguments' values, by name, exactly."""
    return {t.name: x.double().numpy() for t, x in zip(program.inputs, arguments, strict=True)}


def extents_of(program: Program, arguments: list[torch.Tensor]) -> dict[str, tuple[int, ...]]:
    """The shape of every output."""
    sizes = size_env(program, {t.name: tuple(x.shape) for t, x in zip(program.inputs, arguments, strict=True)}, {})
    values = Evaluator({}, sizes)
    return {n: tuple(values.integer(a.extent) for a in program.stage(n).axes) for n in program.outputs}

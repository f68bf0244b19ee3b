"""Not trusted: inputs for any definition, drawn so that every assumption on them holds; the same on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import numpy as np

from neptune_verified.auditing.assumptions import respecting, size_violations, stated
from neptune_verified.auditing.families import FAMILIES, Array, Draw, integers, truths
from neptune_verified.auditing.inputs import Inputs
from neptune_verified.auditing.lengths import default_sizes, scalar_default
from neptune_verified.auditing.structure import Structure, structure
from neptune_verified.ir.expr import FLOATS, int_limit
from neptune_verified.ir.interpret import Evaluator
from neptune_verified.ir.program import Program, Tensor

if TYPE_CHECKING:
    from torch import Tensor as TorchTensor

__all__ = ["FAMILIES", "default_sizes", "generate"]

#: Integers that are compared with nothing but each other are drawn below this.
IDENTITIES = 4


def generate(
    program: Program,
    family: str,
    sizes: Mapping[str, int | float],
    seed: int = 0,
    device: str = "cpu",
    scale: float = 1.0,
    fixed: Collection[str] = (),
) -> Inputs:
    """One set of inputs. ``sizes``: of every symbolic length; scalars that are not there get a value of their own.

    ``scale`` multiplies every magnitude: where values that are large overflow the definition's own types, shrink it.
    The family "dead rows" exchanges the lengths of rows and columns of a mask where there are fewer rows, so that some
    rows see no column; ``fixed`` names lengths that stay. Equal arguments give equal inputs, on a GPU too.

    Raises ValueError for an unknown family, and for sizes that are missing or break an assumption."""
    if family not in FAMILIES:
        raise ValueError(f"there is no family {family!r}: choose among {', '.join(FAMILIES)}")
    seen = structure(program)
    env, notes = _sizes(program, seen, family, sizes, fixed)
    broken = size_violations(program, env)
    if broken:
        raise ValueError(f"{program.name} assumes {broken[0].replace(' at ', ', not so at ', 1)}: choose other sizes")
    evaluator = Evaluator({}, env)
    text = repr((program.name, family, sorted(env.items()), seed))
    floats = [t.name for t in program.inputs if t.dtype in FLOATS]
    tensors: dict[str, TorchTensor] = {}
    for t in program.inputs:
        # Each tensor has a stream of its own, which no change of another one shifts.
        rng = np.random.default_rng(int.from_bytes(hashlib.sha256(f"{text} {t.name}".encode()).digest()[:8], "big"))
        shape = tuple(evaluator.integer(d) for d in t.shape)
        if t.dtype in FLOATS:
            infinite = "finite_or_minus_infinity" in stated(program, t.name)
            position, contracted = floats.index(t.name), t.name in seen.contracted
            d = Draw(shape, seen.reduced[t.name], t.dtype, position, len(floats), contracted, infinite, scale, rng)
            tensors[t.name] = _typed(program, t, FAMILIES[family](d) if 0 not in shape else d.full(0.0))
        elif t.dtype == "bool":
            tensors[t.name] = _typed(program, t, truths(family, shape, seen.reduced[t.name] or (len(shape) - 1,), rng))
        else:
            low, high = _integer_range(program, t, seen, evaluator)
            tensors[t.name] = _typed(program, t, integers(family, shape, low, high, rng))
    shaped = program.shape_sizes()
    scalars = {s.name: env[s.name] for s in program.sizes if s.name not in shaped}
    lengths = " ".join(f"{s.name}={env[s.name]:g}" for s in program.sizes)
    moved = {name: x.to(device) for name, x in tensors.items()}
    name = " ".join(x for x in (family, lengths, f"seed={seed}" if seed else "") if x)
    return Inputs(name, "generated", family, moved, scalars, tuple(notes))


def _sizes(
    program: Program, seen: Structure, family: str, sizes: Mapping[str, int | float], fixed: Collection[str]
) -> tuple[dict[str, int | float], list[str]]:
    """A value for each size, and what was exchanged."""
    shaped = program.shape_sizes()
    missing = [s.name for s in program.sizes if s.name in shaped and s.name not in sizes]
    unknown = [name for name in sizes if name not in {s.name for s in program.sizes}]
    if missing or unknown:
        what = f"no value for {missing[0]}" if missing else f"{unknown[0]!r} is none of its sizes"
        raise ValueError(f"{program.name}: {what}: give {', '.join(s.name for s in program.sizes) or 'none'}")
    env = {s.name: sizes.get(s.name, scalar_default(s, program)) for s in program.sizes}
    notes = []
    for rows, columns in seen.masks if family == "dead rows" else ():
        other = {**env, rows: env[columns], columns: env[rows]}
        if env[rows] < env[columns] and not {rows, columns} & set(fixed) and not size_violations(program, other):
            env = other
            notes.append(f"{rows} and {columns} exchanged: {rows} = {env[rows]}, {columns} = {env[columns]}")
    return env, notes


def _integer_range(program: Program, t: Tensor, seen: Structure, evaluator: Evaluator) -> tuple[int, int]:
    """From the least to the greatest value of an integer input: what it indexes, the lengths that it is compared with,
    small ones where only equality counts, else the type's range as far as numbers of quantised tensors go."""
    least, most = (int(int_limit(t.dtype, k).value) for k in (0, 1))
    index, length = seen.index_range(t.name, evaluator), seen.length_range(t.name, evaluator)
    if index is not None:
        low, high = 0, max(0, index - 1)
    elif length is not None:
        low, high = 0, length
    elif t.name in seen.identities:
        low, high = 0, IDENTITIES - 1
    else:
        low, high = max(least, -127), min(most, 127)
    low, high = max(low, least), min(high, most)
    return low, max(low, high)


def _typed(program: Program, t: Tensor, x: Array) -> TorchTensor:
    """On the CPU, in the declared type, within the assumptions."""
    import torch

    return respecting(t, torch.from_numpy(np.asarray(x)).to(getattr(torch, t.dtype)), program)

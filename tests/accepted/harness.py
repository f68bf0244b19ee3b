"""From a te graph to all that the tests look at: loop program, proofs, kernels with several tile sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tvm import te

from neptune_verified.frontend.te import Fact, from_te
from neptune_verified.fusion.fuse import fuse
from neptune_verified.ir.expr import Const, Size
from neptune_verified.ir.interpret import Evaluator, Frame, run_program
from neptune_verified.ir.loops import LoopProgram, run_loops
from neptune_verified.ir.program import Program, Tensor
from neptune_verified.proofs.kernel import Prover, VerifiedProgram, verify
from neptune_verified.runtime import LoadedKernel
from neptune_verified.tile.emit import emit
from neptune_verified.tile.lower import lower

Array = NDArray[Any]
Arrays = dict[str, Array]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]
F32 = "float32"

#: Proofs are shared by all programs of a test run: many of them state the same things.
PROVER = Prover()


@dataclass
class Graph:
    """te tensors and facts, and a short way to write row reductions of matrices [M, N]."""

    M: Any = field(default_factory=lambda: te.var("M"))
    N: Any = field(default_factory=lambda: te.var("N"))
    inputs: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)

    def input(self, name: str, shape: tuple[Any, ...] | None = None, dtype: str = F32) -> Any:
        self.inputs.append(te.placeholder(shape or (self.M, self.N), dtype, name))
        return self.inputs[-1]

    def row(self, name: str, reducer: Any, term: Callable[[Any, Any], Any], **where: Any) -> Any:
        """``name[i] = reducer over j of term(i, j)``."""
        j = te.reduce_axis((0, self.N), f"j_{name}")
        condition = {"where": where["where"](j)} if where else {}
        return te.compute((self.M,), lambda i: reducer(term(i, j), axis=j, **condition), name)

    def each(self, name: str, term: Callable[[Any], Any]) -> Any:
        return te.compute((self.M,), term, name)

    def map(self, name: str, term: Callable[[Any, Any], Any]) -> Any:
        return te.compute((self.M, self.N), term, name)

    def returns(self, *outputs: Any) -> Graph:
        self.outputs = list(outputs)
        return self


@dataclass
class Built:
    """A program that went through the whole pipeline."""

    program: Program
    loops: LoopProgram
    verified: VerifiedProgram
    source: str
    kernels: dict[int, LoadedKernel] = field(default_factory=dict)

    def kernel(self, tile: int = 0) -> LoadedKernel:
        """The emitted kernel, or the same text with stream tiles of ``tile`` elements (any power of two is right)."""
        if tile not in self.kernels:
            text = re.sub(r'("BLOCK_X\d+(?:_\d+)?": )\d+', rf"\g<1>{tile}", self.source) if tile else self.source
            self.kernels[tile] = LoadedKernel(text, self.program.name, "interpret")
        return self.kernels[tile]

    def run(
        self, arrays: Arrays, tile: int = 0, change: Callable[[torch.Tensor], torch.Tensor] | None = None
    ) -> Arrays:
        """The kernel's results as float64; ``change`` may give the arguments other strides."""
        tensors = [torch.tensor(arrays[t.name]).to(getattr(torch, t.dtype)) for t in self.program.inputs]
        result = self.kernel(tile)(*map(change, tensors) if change else tensors)
        results = result if isinstance(result, tuple) else (result,)
        return {n: r.double().numpy() for n, r in zip(self.program.outputs, results, strict=True)}

    def run_config(self, arrays: Arrays, config: str | None, tile: int = 0, **scalars: int) -> Arrays:
        """``run`` in one tile configuration, with scalar arguments."""
        tensors = [torch.tensor(arrays[t.name]).to(getattr(torch, t.dtype)) for t in self.program.inputs]
        result = self.kernel(tile)(*tensors, config=config, **scalars)
        results = result if isinstance(result, tuple) else (result,)
        return {n: r.double().numpy() for n, r in zip(self.program.outputs, results, strict=True)}

    def define(self, arrays: Arrays) -> Arrays:
        return run_program(self.program, arrays)

    def loop(self, arrays: Arrays, tile: int) -> Arrays:
        return run_loops(self.loops, arrays, tile=tile)


def build(graph: Graph, name: str, fused: bool = True) -> Built:
    program = from_te(graph.inputs, graph.outputs, name=name, assume=graph.facts)
    loops = fuse(program, PROVER, enabled=fused)
    verified = verify(loops, PROVER)
    kernel = emit(program, lower(verified, "interpret"), "interpret", "0" * 64, "# test", loops.passes)
    return Built(program, loops, verified, kernel.source)


# ------------------------------------------------------------------------------------------------------- values


def shape_of(t: Tensor, sizes: Mapping[str, int]) -> tuple[int, ...]:
    values = Evaluator({}, sizes)

    def extent(d: Any) -> int:
        if isinstance(d, Size):
            return sizes[d.name]
        return int(d.value) if isinstance(d, Const) else int(values.eval(d, Frame((), ())))

    return tuple(map(extent, t.shape))


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.asarray(rng.normal(size=shape))


def equal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.full(shape, 1.5)


def zeros_first(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """The first tile is 0, and so is the whole first row."""
    x = normal(rng, shape)
    if x.ndim:
        x[..., :18] = 0
        x[:1] = 0
    return x


def spread(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """So far apart that almost every exponential is 0, and the largest element comes late."""
    return np.sort(normal(rng, shape) * 40, axis=-1) if shape else normal(rng, shape)


def negative(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.asarray(-1.0 - np.abs(normal(rng, shape)))


def tiny(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return normal(rng, shape) * 1e-12


def dead(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """-inf in the first tile, in half of the rest, and in the whole first row."""
    x = np.where(rng.random(shape) < 0.5, -np.inf, normal(rng, shape))
    x[..., :18] = -np.inf
    x[:1] = -np.inf
    return x


FINITE_DRAWS: dict[str, Draw] = {f.__name__: f for f in (normal, equal, zeros_first, spread, negative, tiny)}


def scenarios(
    program: Program, sizes: Mapping[str, int], own: Mapping[str, Draw], seed: int = 0
) -> Iterator[tuple[str, Arrays]]:
    """Named inputs. A draw of one's own is used for its tensor always; the others go through all of ``FINITE_DRAWS``."""
    rng = np.random.default_rng(seed)
    may_be_dead = {a.subject for a in program.assumptions if a.kind == "finite_or_minus_infinity"}
    rounds = [(name, dict.fromkeys((t.name for t in program.inputs), draw)) for name, draw in FINITE_DRAWS.items()]
    if may_be_dead:
        rounds.append(("dead", {t.name: dead if t.name in may_be_dead else normal for t in program.inputs}))
    for name, draws in rounds:
        yield (
            name,
            {t.name: _typed((draws | dict(own))[t.name](rng, shape_of(t, sizes)), t.dtype) for t in program.inputs},
        )


def _typed(x: Array, dtype: str) -> Array:
    """``x`` rounded to ``dtype`` (bfloat16 numbers are held in a float32 array)."""
    if dtype == "bfloat16":
        return np.asarray(
            torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32)).to(torch.bfloat16).float().numpy()
        )
    return x.astype(dtype)


def assert_refines(got: Array, want: Array, tolerance: float, what: str) -> None:
    """Where ``want`` is defined (no NaN), ``got`` is equal up to ``tolerance``, relative to the largest finite value."""
    assert got.shape == want.shape, f"{what}: shape {got.shape} instead of {want.shape}"
    finite = np.isfinite(want)
    infinite = np.isinf(want)
    assert np.array_equal(got[infinite], want[infinite]), f"{what}: {got[infinite]} instead of {want[infinite]}"
    scale = max(1.0, float(np.abs(want[finite]).max(initial=0.0)))
    error = np.abs(got[finite] - want[finite])
    worst = float(np.where(np.isnan(error), np.inf, error).max(initial=0.0)) / scale
    assert worst <= tolerance, f"{what}: off by {worst:.3g}"


def assert_same(got: Iterable[Array], want: Iterable[Array], what: str) -> None:
    """Equal up to rounding, undefined elements included."""
    for a, b in zip(got, want, strict=True):
        assert np.allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True), f"{what}: {a} and {b}"

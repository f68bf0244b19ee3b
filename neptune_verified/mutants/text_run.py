"""Not trusted: what an edited kernel file does, run in Triton's interpreter and compared with the definition in float64.

Calls with right arguments: several tiles, tails, dead rows, lengths of 0, gaps between rows. Calls with wrong ones, which
the launcher must refuse. What no small call shows (32-bit offsets, contraction) is left to the edit itself to say."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from neptune_verified.ir.expr import Const, Size
from neptune_verified.ir.interpret import run_program
from neptune_verified.ir.program import Program, Tensor
from neptune_verified.mutants.text_calls import Specs, WrongCall, wrong_calls
from neptune_verified.mutants.text_programs import TextBase, text_base
from neptune_verified.mutants.text_seen import CHANGES, CRASHES, SAME, Seen
from neptune_verified.mutants.text_watch import Fault, Watch, guarded, install
from neptune_verified.runtime import module_from_text

Array = NDArray[Any]
#: (rows, columns) in tiles of (4, 8) elements, or (16, 32) where there are products of tiles.
LENGTHS = ((9, 21), (6, 11), (13, 3), (5, 17), (1, 1), (3, 0), (0, 5), (4, 8), (7, 18), (6, 27), (9, 2))
LENGTHS_OF_PRODUCTS = ((37, 75), (20, 41), (40, 9), (5, 65), (1, 1), (3, 0), (0, 5), (16, 32), (33, 16), (18, 100))
DRAWS = ("normal", "rising", "negative", "far", *("normal",) * 4, "equal", "zeros", "normal")
#: How an axis is split, call by call, where the file has kernels for that: (splits, split_size).
SPLITS = ((2, None), (None, 1), (3, None), (None, 8), (7, None), (2, None), (3, None), (8, None), (None, 9), (41, None),
          (1, None))  # fmt: skip
LAYOUTS = ("wide", "turned", "wide", "plain", "turned", "wide", "plain", "turned", "wide", "plain", "wide")


@dataclass(frozen=True, slots=True)
class Call:
    """One call with right arguments; ``out`` says whether the results are given."""

    sizes: tuple[tuple[str, int], ...]
    draw: str
    layout: str
    config: str | None
    out: bool
    splits: tuple[int | None, int | None] | None = None

    def __str__(self) -> str:
        lengths = ", ".join(f"{k}={v}" for k, v in self.sizes)
        split = f", splits={self.splits[0]}, split_size={self.splits[1]}" if self.splits else ""
        return f"{lengths}, {self.draw} values, {self.layout}{f', {self.config} tiles' if self.config else ''}{split}"

    def keywords(self) -> dict[str, Any]:
        asked = {"splits": self.splits[0], "split_size": self.splits[1]} if self.splits else {}
        return {"config": self.config, **asked}


def calls(source: str, program: Program) -> Iterator[Call]:
    product, split = "tl.dot(" in source, "shares, share = _shares(" in source
    first = source[source.index("_CONFIGS = {") :]
    first = first[
        : first.index("\n}")
    ]  # kernels that join splits have configurations of their own, which are not asked for
    names = [c for c in ("medium", "small", "rows") if f'    "{c}": (' in first]
    for k, (m, n) in enumerate(LENGTHS_OF_PRODUCTS if product else LENGTHS):
        sizes = {"M": m, "N": n, "K": m // 2 + 3, "T": 7, "B": min(m, 1 + k % 3)}
        own = tuple((s.name, sizes[s.name]) for s in program.sizes if s.name in sizes)
        configs: tuple[str | None, ...] = (None,)
        if k < 2:
            configs = (None, *names) if len(names) > 1 else (None,)
        for config in configs:
            yield Call(own, DRAWS[k], LAYOUTS[k], config, k not in (3, 5), SPLITS[k] if split else None)
        if split and k < 2:  # several tiles in one loop, too
            yield Call(own, DRAWS[k], LAYOUTS[k], None, True, (1, None))


def shape_of(t: Tensor, sizes: dict[str, int]) -> tuple[int, ...]:
    return tuple(
        sizes[d.name] if isinstance(d, Size) else int(d.value) if isinstance(d, Const) else -1 for d in t.shape
    )


def values(t: Tensor, sizes: dict[str, int], draw: str, rng: np.random.Generator) -> Array:
    shape = shape_of(t, sizes)
    if t.dtype == "int32":
        return integers(t.name, shape, sizes, draw, rng).astype(np.int32)
    x = rng.normal(size=shape)
    if draw == "rising":
        x = np.sort(x * 3, axis=-1) if len(shape) == 2 else np.sort(x * 2, axis=-2) if len(shape) == 3 else x
    elif draw == "negative":
        x = -1 - np.abs(x)
    elif draw == "far":
        x = x * 30 if t.dtype == "float32" else x * 5
        if len(shape) == 2:  # rows far below 0 and far above it
            x = x + rng.choice([-150.0, 0.0, 150.0], (shape[0], 1))
    elif draw == "zeros":
        x[..., : shape[-1] // 2] = 0
        x[:1] = 0
    elif draw == "equal":
        x = np.full(shape, 0.75)
    return x.astype(t.dtype)


def with_dead_elements(x: Array, rng: np.random.Generator) -> Array:
    """-inf in the first half, in some of the rest, and in the whole first row."""
    x = np.where(rng.random(x.shape) < 0.2, -np.inf, x)
    x[..., : x.shape[-1] // 2] = -np.inf
    x[:1] = -np.inf
    return x.astype(np.float32)


def integers(name: str, shape: tuple[int, ...], sizes: dict[str, int], draw: str, rng: np.random.Generator) -> Array:
    """Row lengths, places in a table (beyond its ends, too), or numbers of which one decides its row."""
    if name == "len":
        return rng.integers(0, sizes["N"] + 3, shape)
    if name == "k":
        return rng.integers(-3, 12, shape) if draw == "far" else rng.integers(0, sizes["T"], shape)
    if draw == "negative":
        return rng.integers(-9, -1, shape) if len(shape) == 2 else np.full(shape, -2)
    if draw == "equal":
        return rng.integers(2, 9, shape) if len(shape) == 2 else np.full(shape, 6)
    if draw in ("rising", "far") and len(shape) == 2 and shape[1]:
        x = np.zeros(shape, np.int64)
        for column in (-1,) if draw == "rising" else (0, -1):
            x[:, column] = rng.choice([5, -5, 0], shape[0])
        return x
    return rng.integers(-3, 5, shape) if len(shape) == 2 else np.full(shape, 2)


@dataclass(frozen=True)
class Case:
    call: Call
    arrays: dict[str, Array]
    wanted: dict[str, Array]
    right: dict[str, Array]
    slack: dict[str, float]


class Runner:
    """Runs edits of one program's kernel file; ``WATCH`` is installed once for the process."""

    def __init__(self, base: TextBase) -> None:
        self.base, self.program = base, base.program
        self.scalars = {s.name: 1.5 for s in self.program.sizes if s.dtype.startswith("float")}
        watch()
        function = self.load(base.source)
        self.cases = [self._case(function, k, c) for k, c in enumerate(calls(base.source, self.program))]
        self.refusals = self._refusals(function)

    def load(self, source: str) -> Any:
        return getattr(module_from_text(source, self.program.name), self.program.name)

    def _case(self, function: Any, k: int, call: Call) -> Case:
        rng = np.random.default_rng(k)
        sizes = dict(call.sizes)
        arrays = {t.name: values(t, sizes, call.draw, rng) for t in self.program.inputs}
        dead = {a.subject for a in self.program.assumptions if a.kind == "finite_or_minus_infinity"}
        for name in dead if k in (1, 3, 9) else ():
            arrays[name] = with_dead_elements(arrays[name], rng)
        with np.errstate(all="ignore"):
            wanted = run_program(self.program, arrays, self.scalars)
        right = self.run(function, call, arrays)
        slack: dict[str, float] = {}
        for name, want in wanted.items():
            finite = np.isfinite(want)
            scale = float(np.abs(want[finite]).max(initial=0.0))
            error = float(np.abs(right[name].astype(np.float64)[finite] - want[finite]).max(initial=0.0))
            if not error <= 1e-2 * max(scale, 1e-6):
                raise AssertionError(f"{self.program.name}, {call}: {name} is off by {error:.3g} of {scale:.3g}")
            slack[name] = 4 * error + 1e-6 * scale
        return Case(call, arrays, wanted, right, slack)

    def run(self, function: Any, call: Call, arrays: dict[str, Array]) -> dict[str, Array]:
        """The results; raises Fault for an access that no right kernel makes."""
        inputs = []
        for number, array in enumerate(arrays.values()):
            x = guarded(array.shape, torch.from_numpy(array).dtype, call.layout, 2 * number)
            x.copy_(torch.from_numpy(array))
            inputs.append(x)
        out = None
        if call.out:
            out = tuple(
                guarded(shape, dtype, call.layout, 2 * k + 1) for k, (shape, dtype) in enumerate(self.results(call))
            )
        watch().start(inputs, list(out or ()), len(self.program.outputs))
        allocate, torch.empty = torch.empty, allocated
        try:
            given = function(*inputs, **self.scalars, **({"out": out} if out else {}), **call.keywords())
            watch().stop()
        finally:
            torch.empty = allocate
            watch().active = False
        results = given if isinstance(given, tuple) else (given,)
        for x, (array, t) in zip(inputs, zip(arrays.values(), self.program.inputs)):
            if not np.array_equal(x.numpy(), array):
                raise Fault(f"{t.name} is overwritten")
        for k, (x, (shape, dtype)) in enumerate(zip(results, self.results(call), strict=True)):
            if tuple(x.shape) != shape or x.dtype != dtype:
                raise Fault(f"result {k} is {x.dtype}{list(x.shape)} instead of {dtype}{list(shape)}")
        return {n: x.numpy().copy() for n, x in zip(self.program.outputs, results)}

    def results(self, call: Call) -> Specs:
        found = []
        for name in self.program.outputs:
            stage = self.program.stage(name)
            extents = tuple(a.extent for a in stage.axes)
            found.append((shape_of(Tensor(name, extents, stage.dtype), dict(call.sizes)), getattr(torch, stage.dtype)))
        return found

    # -- edits -----------------------------------------------------------------------------------------------

    def look(self, source: str) -> Seen:
        """What an edited file does."""
        try:
            function = self.load(source)
        except Exception as e:
            return Seen(CRASHES, f"import: {_short(e)}")
        for case in self.cases:
            try:
                got = self.run(function, case.call, case.arrays)
            except Fault as e:
                return Seen(CHANGES, f"{case.call}: {e}")
            except Exception as e:
                # The interpreter wraps what is raised inside of a kernel.
                fault = isinstance(e.__cause__, Fault)
                return Seen(CHANGES if fault else CRASHES, f"{case.call}: {e.__cause__ if fault else _short(e)}")
            if found := self._compare(case, got):
                return Seen(CHANGES, f"{case.call}: {found}")
        for wrong, wanted in self.refusals:
            error = self._error(function, wrong)
            if error != wanted:
                return Seen(CHANGES, f"{wrong.what}: {error or 'accepted'} instead of {wanted}")
        return Seen(SAME)

    def _compare(self, case: Case, got: dict[str, Array]) -> str:
        for name, want in case.wanted.items():
            if got[name].tobytes() == case.right[name].tobytes():
                continue
            have = got[name].astype(np.float64)
            with np.errstate(all="ignore"):
                wrong = ~np.isnan(want) & ~((have == want) | (np.abs(have - want) <= case.slack[name]))
            if wrong.any():
                index = tuple(np.argwhere(wrong)[0])
                return f"{name}[{', '.join(map(str, index))}] = {have[index]:.6g} instead of {want[index]:.6g}"
        return ""

    def _refusals(self, function: Any) -> list[tuple[WrongCall, str]]:
        """A call that the right launcher accepts proves nothing, and is left out."""
        found = [(c, self._error(function, c)) for c in wrong_calls(self.program, self.scalars, self.specs())]
        return [(c, error) for c, error in found if error]

    def specs(self) -> Specs:
        return self.results(self.cases[0].call)

    def _error(self, function: Any, wrong: WrongCall) -> str:
        args, kwargs = wrong.make(self.cases[0].arrays, self.specs(), self.scalars)
        try:
            function(*args, **kwargs)
        except Exception as e:
            return type(e).__name__
        return ""


def _short(e: Exception) -> str:
    return f"{type(e).__name__}: {' '.join(str(e).split())[:120]}"


def allocated(shape: Any, dtype: torch.dtype = torch.float32, device: Any = None) -> torch.Tensor:
    x = guarded(tuple(shape), dtype, "plain", 0)
    watch().allow(x)
    return x


@lru_cache(maxsize=1)
def watch() -> Watch:
    warnings.filterwarnings("ignore")
    np.seterr(all="ignore")
    w = Watch()
    install(w)
    return w


@lru_cache(maxsize=32)
def runner(program: str) -> Runner:
    return Runner(text_base(program))


__all__ = ["Runner", "runner"]

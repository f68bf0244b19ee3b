"""Is the reason of a refused fusion true? Its example is run again, on the definition and on the refused update.

The loop here shares nothing with the compiler but the definition's own meaning: a producer's value after n elements is the
definition over these n, and the update is read from the refusal's text, as people read it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from neptune_verified.ir.example import Example, Scalar
from neptune_verified.ir.expr import Axis, Expr, Reduce, Size, axis, substitute
from neptune_verified.ir.interpret import Array, Evaluator, Frame, combine_array, run_program, size_env
from neptune_verified.ir.loops import Refusal
from neptune_verified.ir.program import Program, Stage
from tests.refused import replay

FUNCTIONS = {
    **replay.FUNCTIONS,
    "pow": replay._wrap(lambda x, y: math.nan if x == 0 > y else math.pow(x, y)),
    "rsqrt": replay._wrap(lambda x: math.nan if x == 0 else 1 / math.sqrt(x)),
    "exp2": replay._wrap(lambda x: 2.0**x),
    "sigmoid": replay._wrap(lambda x: 1 / (1 + math.exp(-x))),
}
REPLAYED, DEFINITION, NOTHING = "replayed", "definition alone", "nothing to replay"


class Falsehood(Exception):
    """A refusal says something that is not so."""


def number(x: Scalar) -> float:
    return math.nan if x == "undefined" else float(x)


class Windowed(Evaluator):
    """Reductions over the length ``N`` see the elements of ``window`` alone; the length itself stays what it is."""

    window: tuple[int, int] = (0, 0)

    def whole(self, axes: tuple[Axis, ...], outer: Frame | None = None) -> Frame:
        frame = super().whole(axes, outer)
        if outer is None:
            return frame
        low, high = self.window
        cut = [v[low:high] if _long(a) else v for a, v in zip(frame.axes, frame.values, strict=True)]
        kept = len(outer.axes)
        return outer.extended(axes, tuple(cut[kept:]))

    def stage(self, stage: Stage, window: tuple[int, int]) -> Array:
        self.window = window
        frame = self.whole(stage.axes)
        value = self.eval(stage.body, frame)
        return np.array(np.broadcast_to(value, tuple(len(v) for v in frame.values)))


def _long(a: Axis) -> bool:
    return isinstance(a.extent, Size) and a.extent.name == "N"


def _arrays(program: Program, e: Example) -> dict[str, Array]:
    lengths = dict(e.lengths)
    found = {}
    for name, value in e.inputs:
        shape = tuple(lengths[d.name] if isinstance(d, Size) else int(d.value) for d in program.tensor(name).shape)  # type: ignore[attr-defined]
        found[name] = np.array(value, dtype=np.int64 if "int" in program.tensor(name).dtype else np.float64).reshape(
            shape
        )
    return found


def replayed(program: Program, refusal: Refusal) -> str:
    """What could be replayed. Raises Falsehood where something else comes out than the refusal says."""
    e = refusal.example
    if e is None:
        return NOTHING
    before, after = number(e.before), number(e.after)
    if math.isnan(before) or replay.same(before, after):
        raise Falsehood(f"{e.what}: the definition gives {before}, the refused update {after}")
    stage = next((s for s in program.stages if s.name == e.what), None)
    if stage is None:
        return NOTHING  # an accumulator that is no stage
    arrays = _arrays(program, e)
    with np.errstate(all="ignore"):
        value = float(run_program(replace(program, outputs=(e.what,)), arrays)[e.what][e.index])
        if not replay.same(value, before):
            raise Falsehood(f"{e.what}{list(e.index)} is {value}, the example says {before}")
        if e.tile != 1 or not _simple(program, stage, refusal):
            return DEFINITION
        try:
            got = list(_loops(program, stage, refusal, e, arrays))
        except (NameError, SyntaxError, AssertionError, TypeError, KeyError):
            return DEFINITION  # a repair that reads more than the text's names
    if any(replay.same(t, after) for t in got):
        return REPLAYED
    raise Falsehood(
        f"the refused update gives {sorted(set(got))} for {e.what}{list(e.index)}, the example says {after}"
    )


def _simple(program: Program, stage: Stage, refusal: Refusal) -> bool:
    names = (stage.name, *refusal.producers)
    stages = {s.name: s for s in program.stages}
    known = [_along(s) for n in refusal.producers for s in program.stages if s.name == n]
    if any(s.name not in names and _along(s) in known for s in program.stages):
        return False  # the compiler takes reductions that are alike for one
    if stage.name != refusal.consumer or not all(n in stages for n in names):
        return False
    bodies = [stages[n].body for n in names]
    return all(isinstance(b, Reduce) and len(b.axes) == 1 and _long(b.axes[0]) for b in bodies)


def _along(s: Stage) -> Expr:
    """The stage's body over axes that do not tell it from others of its shape."""
    return substitute(s.body, {a: axis(f"along{k}", a.extent) for k, a in enumerate(s.axes)})


def _loops(
    program: Program, stage: Stage, refusal: Refusal, e: Example, arrays: Mapping[str, Array]
) -> Iterator[float]:
    """The accumulator after the last element, for each reading of the text (it does not show every guard)."""
    assert isinstance(stage.body, Reduce)
    sizes = size_env(program, {k: v.shape for k, v in arrays.items()}, dict(e.scalars))  # type: ignore[arg-type]
    n, reducer = int(sizes["N"]), stage.body.reducer
    neutral = {"sum": 0.0, "max": -math.inf, "min": math.inf, "prod": 1.0, "logaddexp": -math.inf}[reducer]
    states = [_states(program, refusal.producers, arrays, sizes, k) for k in range(n + 1)]
    at = {p: e.index[: states[0][p].ndim] for p in refusal.producers}
    for (h, guard), keep in itertools.product(_readings(refusal), (False, True)):
        t = neutral
        for k in range(n):
            old = {p: float(states[k][p][at[p]]) for p in refusal.producers}
            new = {p: float(states[k + 1][p][at[p]]) for p in refusal.producers}
            values = {**old, **{f"{p}_new": v for p, v in new.items()}, "N": float(n), "t": t}
            stays = _held(e.held, old) or (keep and t == neutral)
            guarded = {p: _each(partial(guard, p), states[k + 1][p]) for p in old}
            local = float(_term(program, stage, guarded, arrays, sizes, k)[e.index])
            t = float(combine_array(reducer, np.float64(t if stays else h(values)), np.float64(local)))  # type: ignore[arg-type]
        yield t


def _each(f: Callable[[float], float], x: Array) -> Array:
    return np.array([f(float(v)) for v in x.flat]).reshape(x.shape)


def _readings(refusal: Refusal) -> Iterator[Any]:
    saved = dict(replay.FUNCTIONS)
    replay.FUNCTIONS.update(FUNCTIONS)
    try:
        yield from list(replay.candidates(refusal))
    finally:
        for name in set(replay.FUNCTIONS) - set(saved):
            del replay.FUNCTIONS[name]


def _states(
    program: Program, producers: tuple[str, ...], arrays: Mapping[str, Array], sizes: Mapping[str, Any], k: int
) -> dict[str, Array]:
    """The producers after k elements."""
    evaluator = Windowed(arrays, sizes)
    for s in program.stages:
        window = (0, k) if s.name in producers else (0, int(sizes["N"]))
        evaluator.tensors[s.name] = evaluator.stage(s, window)
    return {p: evaluator.tensors[p] for p in producers}


def _term(
    program: Program,
    stage: Stage,
    given: Mapping[str, Array],
    arrays: Mapping[str, Array],
    sizes: Mapping[str, Any],
    k: int,
) -> Array:
    """The reduced term at element k, with the producers' values as given."""
    evaluator = Windowed(arrays, sizes)
    for s in program.stages:
        if s.name == stage.name:
            return evaluator.stage(s, (k, k + 1))
        found = given.get(s.name)
        evaluator.tensors[s.name] = evaluator.stage(s, (0, int(sizes["N"]))) if found is None else found
    raise AssertionError(stage.name)


def _held(conditions: tuple[str, ...], state: dict[str, float]) -> bool:
    def holds(text: str) -> bool:
        name, _, points = text.partition(" is ")
        at = {"infinite": math.isinf(state[name]), "zero": state[name] == 0}
        return any(at[p] for p in points.split(" or "))

    return any(map(holds, conditions))

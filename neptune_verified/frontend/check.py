"""Trusted: runs the user's own te graph, built by TVM, against the interpreter on the program that was read from it.

A wrong reading is refused here. What is not compared: elements that the interpreter calls undefined or infinite (te
starts max at -3.4e38), reductions over nothing (TVM leaves their result unwritten), and graphs that TVM's LLVM target
cannot build or whose indices leave their tensors by more than a few elements; the returned sentence says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import te, tirx

from neptune_verified.errors import UnsupportedProgram
from neptune_verified.frontend.lines import Lines, key
from neptune_verified.frontend.reading import Reading
from neptune_verified.ir.expr import FLOATS, INTS, Expr, Read, Reduce, Size, subterms
from neptune_verified.ir.interpret import Evaluator, Frame
from neptune_verified.ir.program import Assumption, Program, Tensor

Array = NDArray[Any]

#: Relative to the largest value of the output; by the lowest precision anywhere in the program.
TOLERANCE = {"bfloat16": 8e-2, "float16": 2e-2, "float32": 1e-3, "float64": 1e-6}
LENGTHS = (5, 3, 2, 1)
ROUNDS = 3
TRIES = 3  # rounding may flip a comparison or a floor: only a disagreement at every try counts
MAX_ELEMENTS = 1_000_000
STRAY = 32  # elements by which an index may leave its tensor (masked neighbours); TVM reads such memory harmlessly


def check_reading(program: Program, outputs: Sequence[Any], inputs: Sequence[Any], rng_seed: int = 0) -> str:
    """Compare every stage of ``program`` with the te graph it was read from. Returns one sentence on what was compared.

    Raises UnsupportedProgram if they disagree on an element of some stage at each of three draws of the inputs.
    """
    reading, again = _read_again(program, outputs, inputs)
    operations = reading.operations(list(inputs), list(outputs))
    filters, compared, remark = _filters(operations), program, ""
    if filters:
        if _meaning(again) != _meaning(program):
            raise UnsupportedProgram("check_reading", program.name, None, _NOT_THESE)
        # TVM's create_prim_func ignores where=: compare without it, and the conditions by themselves.
        reading = Reading(program.name, Lines(), reading.mask_literals, drop_conditions=True)
        dropped = reading.program(list(inputs), [*outputs, *filters], [])
        compared = replace(dropped, assumptions=program.assumptions, notes=program.notes)
        operations = reading.operations(list(inputs), [*outputs, *filters])
        remark = "; where= was compared by itself, because TVM ignores it"
    kept = {s.name for s in compared.stages}
    named = [(reading.tensors[key(o), k][0], o.output(k)) for o in operations for k in range(len(o.body))]
    tensors = {name: tensor for name, tensor in named if name in kept}
    compared = replace(compared, outputs=tuple(tensors))
    shape_sizes = program.shape_sizes()
    scalars = [(s, v) for s, v in reading.sizes.found.values() if s.name not in shape_sizes]
    try:
        function = te.create_prim_func([*inputs, *(v for _, v in scalars), *tensors.values()])
        run = tvm.compile(tvm.IRModule({"main": function}), target="llvm")["main"]
    except Exception as error:
        return f"not compared with TVM: it could not build the definition for llvm ({_first_line(error)})"
    return Comparison(compared, [s for s, _ in scalars], run, np.random.default_rng(rng_seed)).all_rounds() + remark


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:120]


_NOT_THESE = "these are not the tensors that the program was read from"


def _meaning(program: Program) -> tuple[object, ...]:
    return (program.inputs, program.sizes, program.outputs, [(s.name, s.axes, s.body) for s in program.stages])


def _read_again(program: Program, outputs: Sequence[Any], inputs: Sequence[Any]) -> tuple[Reading, Program]:
    """The reading of these tensors, with the option min_value that gives this program (if one does)."""
    for mask_literals in (False, True):
        reading = Reading(program.name, Lines(), mask_literals)
        again = reading.program(list(inputs), list(outputs), [])
        if _meaning(again) == _meaning(program):
            break
    if (again.inputs, again.sizes, again.outputs) != (program.inputs, program.sizes, program.outputs):
        raise UnsupportedProgram("check_reading", program.name, None, _NOT_THESE)
    return reading, again


def _filters(operations: Sequence[Any]) -> list[Any]:
    """For each reduction with where=, its condition as a te tensor over the stage's and the reduction's axes."""
    out = []
    for o in operations:
        reduction = o.body[0]
        condition = reduction.condition if type(reduction).__name__ == "Reduce" else None
        if condition is None or (type(condition).__name__ == "IntImm" and int(condition.value)):
            continue
        axes = [*o.axis, *reduction.axis]
        shape = tuple(a.dom.extent for a in axes)
        out.append(te.compute(shape, _with_axes(axes, condition), name=f"{o.name}_where"))
    return out


def _with_axes(axes: list[Any], e: Any) -> Callable[..., Any]:
    """e as a function of its axes, each counted from 0."""

    def body(*indices: Any) -> Any:
        bound = e
        for a, i in zip(axes, indices):
            bound = tirx.Let(a.var, i + a.dom.min, bound)
        return bound

    return body


@dataclass(slots=True)
class Comparison:
    program: Program
    scalars: list[Size]
    run: Any
    rng: np.random.Generator
    compared: int = 0
    total: int = 0

    def all_rounds(self) -> str:
        skipped = ""
        for k in range(ROUNDS):
            env = draw_sizes(self.program, self.rng, k)
            if env is None:
                skipped = "its tensors are too large, or a range is empty"
                continue
            for attempt in range(TRIES):
                problem, stray = self.once(env, positive=(k + attempt) % 2 == 1)
                skipped = stray or skipped
                if not problem:
                    break
            else:
                raise UnsupportedProgram("reading of the definition", self.program.name, None, self.explain(problem))
        if not self.compared:
            return f"not compared with TVM: {skipped or 'every value of the definition was undefined or infinite'}"
        return f"agrees with TVM on {self.compared} of {self.total} elements of its stages, in {ROUNDS} sets of shapes"

    def explain(self, problem: str) -> str:
        masks = [n for n in self.program.notes if "is read as -inf" in n and n.startswith("literal")]
        why = f"; {masks[0]}: where that matters, write nv.neg_inf or pass min_value='finite'" if masks else ""
        return f"front end and TVM disagree, {problem}{why}"

    def once(self, env: dict[str, int | float], positive: bool) -> tuple[str, str]:
        """One run at these sizes: (disagreement, reason why nothing was compared)."""
        arrays = draw_inputs(self.program, env, self.rng, positive)
        values, stray = interpret(self.program, arrays, env)
        if stray:
            return "", stray
        precision = lowest_precision(self.program)
        results = [
            tvm.runtime.tensor(np.zeros(values[n].shape, numpy_type(self.program.stage(n).dtype)))
            for n in self.program.outputs
        ]
        given = [tvm.runtime.tensor(arrays[t.name].astype(numpy_type(t.dtype))) for t in self.program.inputs]
        try:
            self.run(*given, *(env[s.name] for s in self.scalars), *results)
        except Exception as error:
            return "", f"TVM could not run the definition ({_first_line(error)})"
        for name, result in zip(self.program.outputs, results, strict=True):
            problem = self.compare(name, values[name], result.numpy(), precision, env)
            if problem:
                return problem, ""
        return "", ""

    def compare(self, name: str, want: Array, have: Array, precision: str, env: Mapping[str, float]) -> str:
        want, have = want.astype(np.float64), have.astype(np.float64)
        defined = np.isfinite(want)
        if precision == "float16":
            defined &= np.isfinite(have)  # TVM computes in float16 and may overflow
        self.total += want.size
        self.compared += int(defined.sum())
        scale = max(1.0, float(np.max(np.abs(want[defined]), initial=0.0)))
        exact = self.program.stage(name).dtype not in FLOATS
        limit = 0.0 if exact else TOLERANCE[precision] * scale
        with np.errstate(all="ignore"):
            wrong = defined & ~(np.abs(want - have) <= limit)
        if not wrong.any():
            return ""
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        sizes = ", ".join(f"{k} = {v:g}" for k, v in env.items())
        place = f"{name}[{', '.join(map(str, at))}]"
        return f"{place} is {want[at]:.6g} as read and {have[at]:.6g} in TVM" + (f" at {sizes}" if sizes else "")


def numpy_type(dtype: str) -> Any:
    if dtype == "bfloat16":
        import ml_dtypes

        return ml_dtypes.bfloat16
    return np.dtype(dtype)


def lowest_precision(program: Program) -> str:
    used = {t.dtype for t in program.inputs}
    for s in program.stages:
        used |= {x.dtype for x in subterms(s.body)}
    return next((d for d in TOLERANCE if d in used), "float64")


# ---------------------------------------------------------------------------------------------- drawing


def draw_sizes(program: Program, rng: np.random.Generator, k: int) -> dict[str, int | float] | None:
    """Small lengths that respect the assumptions, different from each other where possible; None if nothing fits."""
    for attempt in range(20):
        order = [*LENGTHS[k:], *LENGTHS[:k]] if attempt == 0 else [int(n) for n in rng.permutation(LENGTHS)]
        env: dict[str, int | float] = {}
        for i, s in enumerate(program.sizes):
            base = order[i % len(order)] if attempt < 15 else LENGTHS[(i + k) % 2]
            env[s.name] = _respecting(base, s, program.assumptions)
        if fits(program, env):
            return env
    return None


def _respecting(n: int, s: Size, assumptions: Sequence[Assumption]) -> int | float:
    mine = {a.kind: a.value for a in assumptions if a.subject == s.name}
    least = math.ceil(mine.get("at_least") or 0)
    value = n if n >= least else least + n - 1
    step = int(mine.get("multiple_of") or 1)
    value = -(-value // step) * step
    if s.dtype == "bool":
        return value % 2
    return value if s.dtype in INTS else value / 4 + max(0, least)


def fits(program: Program, env: Mapping[str, int | float]) -> bool:
    """No range is empty, and everything together is small."""
    evaluator = Evaluator({}, env)
    total = 0
    for shape in _iteration_spaces(program):
        extents = [evaluator.integer(e) for e in shape]
        if any(n < 1 for n in extents):
            return False
        total += math.prod(extents)
    return total <= MAX_ELEMENTS


def _iteration_spaces(program: Program) -> Iterator[list[Expr]]:
    for t in program.inputs:
        yield list(t.shape)
    for s in program.stages:
        inner = [a.extent for a in s.body.axes] if isinstance(s.body, Reduce) else []
        yield [a.extent for a in s.axes] + inner


def draw_inputs(
    program: Program, env: Mapping[str, int | float], rng: np.random.Generator, positive: bool
) -> dict[str, Array]:
    """Floats are multiples of 1/8 up to 2 (exact in every type), integers small; integers used as indices in range."""
    evaluator = Evaluator({}, env)
    ranges = index_ranges(program, evaluator)
    out = {}
    for t in program.inputs:
        shape = tuple(evaluator.integer(d) for d in t.shape)
        if t.dtype in FLOATS:
            out[t.name] = _floats(t, rng.integers(-16, 17, shape) / 8.0, program.assumptions, positive)
        else:
            out[t.name] = rng.integers(0, 2 if t.dtype == "bool" else ranges.get(t.name, 5), shape)
    return out


def _floats(t: Tensor, x: Array, assumptions: Sequence[Assumption], positive: bool) -> Array:
    mine = {a.kind: a.value for a in assumptions if a.subject == t.name}
    if positive or "positive" in mine:
        x = np.abs(x) + 0.125
    if "nonnegative" in mine:
        x = np.abs(x)
    if "nonzero" in mine:
        x = np.where(x == 0, 0.125, x)
    if mine.get("at_least") is not None:
        x = np.abs(x) + float(mine["at_least"] or 0)
    bound = mine.get("bounded")
    return np.clip(x, -bound, bound) if bound is not None else x


def index_ranges(program: Program, evaluator: Evaluator) -> dict[str, int]:
    """For each input whose values reach an index: the shortest dimension that it indexes."""
    shapes = {t.name: t.shape for t in program.inputs}
    shapes |= {s.name: tuple(a.extent for a in s.axes) for s in program.stages}
    reached: dict[str, frozenset[str]] = {t.name: frozenset({t.name}) for t in program.inputs}
    ranges: dict[str, int] = {}
    for s in program.stages:
        nodes = subterms(s.body)
        reached[s.name] = frozenset().union(*(reached[x.tensor] for x in nodes if isinstance(x, Read)))
        for x in nodes:
            for i, dim in zip(x.indices, shapes[x.tensor]) if isinstance(x, Read) else ():
                for inner in subterms(i):
                    for name in reached[inner.tensor] if isinstance(inner, Read) else ():
                        ranges[name] = min(ranges.get(name, 5), evaluator.integer(dim))
    return ranges


# ---------------------------------------------------------------------------------------------- running


def interpret(
    program: Program, arrays: Mapping[str, Array], env: Mapping[str, int | float]
) -> tuple[dict[str, Array], str]:
    """Every stage's value, and "" or the read that leaves its tensor so far that TVM must not run it.

    This is ``run_program`` with a look at the indices.
    """
    evaluator = Evaluator(arrays, env)
    for s in program.stages:
        frame = evaluator.whole(s.axes)
        inner = evaluator.whole(s.body.axes, frame) if isinstance(s.body, Reduce) else frame
        for x in subterms(s.body):
            if isinstance(x, Read) and x.indices and _strays(evaluator, x, inner):
                return {}, f"stage {s.name} reads {x.tensor} far outside of it"
        value = evaluator.eval(s.body, frame)
        evaluator.tensors[s.name] = np.array(np.broadcast_to(value, tuple(len(v) for v in frame.values)))
    return {n: evaluator.tensors[n] for n in program.outputs}, ""


def _strays(evaluator: Evaluator, x: Read, frame: Frame) -> bool:
    tensor = evaluator.tensors[x.tensor]
    offset: Any = np.zeros((), dtype=np.int64)
    for i, n in zip(x.indices, tensor.shape, strict=True):
        offset = offset * n + evaluator.eval(i, frame)
    if offset.size == 0:
        return False
    return bool(offset.min() < -STRAY or offset.max() >= tensor.size + STRAY)

"""Not trusted: a loop program as TVM TensorIR, built with LLVM: the CPU target, and a second execution to compare with.

    kernel = build(loops)
    outputs = kernel({"q": q, "k": k, "v": v}, scalars=None)     # numpy arrays in, numpy arrays out, by name
    print(kernel.source)                                         # the TensorIR script

One function per nest; lengths are runtime arguments, so one build serves all of them. TVM's arithmetic simplifier is
left out of the build: it takes ``x - x`` for 0 and ``x * 0`` for 0, which is wrong where x is infinite, and it
reassociates float sums. What is undefined in the definition is NaN or an infinity here, whatever IEEE arithmetic gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import tirx

from neptune_verified.errors import ShapeError, UnsupportedProgram
from neptune_verified.ir.expr import FLOATS
from neptune_verified.ir.interpret import Evaluator, size_env
from neptune_verified.ir.loops import LoopProgram, Output
from neptune_verified.targets.tir_nest import Function, nest_function

Tensor = NDArray[Any]
PIPELINE = "neptune_verified_scalar"


def _pipeline() -> tuple[Any, Any, Any]:
    """TVM's default pipeline without the passes that rewrite arithmetic."""
    t = tirx.transform
    lower = [t.AnnotateEntryFunc(), t.SplitHostDevice(), t.MakePackedAPI()]

    def finish() -> Any:
        return tvm.ir.transform.Sequential([t.LowerTVMBuiltin(), t.LowerIntrin()])

    return tvm.ir.transform.Sequential(lower), finish, finish


tirx.register_tir_pipeline(PIPELINE, _pipeline)


def build(loops: LoopProgram, tile: int = 64) -> LlvmKernel:
    """Build with tiles of ``tile`` elements along the last stream axis.

    Raises UnsupportedProgram where an operation has no counterpart here, RuntimeError where TVM fails to build."""
    if tile < 1:
        raise ValueError(f"a tile has at least one element, got {tile}")
    try:
        functions = tuple(nest_function(loops, nest, tile) for nest in loops.nests)
        module = tvm.IRModule({f.name: f.prim for f in functions})
        return LlvmKernel(loops, functions, module.script(), tvm.compile(module, target="llvm", tir_pipeline=PIPELINE))
    except UnsupportedProgram:
        raise
    except RecursionError:
        raise UnsupportedProgram("an expression nested too deeply", loops.program.name) from None
    except Exception as error:  # TVM raises every built-in class
        raise RuntimeError(f"TVM could not build {loops.program.name}: {_line(error)}") from None


def _line(error: Exception) -> str:
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
    return f"{type(error).__name__}: {text}"


@dataclass(frozen=True)
class LlvmKernel:
    """A built loop program. ``source`` is its TensorIR script."""

    loops: LoopProgram
    functions: tuple[Function, ...]
    source: str
    library: Any = field(repr=False)

    def __call__(self, inputs: Mapping[str, Tensor], scalars: Mapping[str, float] | None = None) -> dict[str, Tensor]:
        """Every output by name, in its declared dtype (bfloat16: ``ml_dtypes.bfloat16``).

        Arrays have the declared dtypes; other memory layouts are copied. Raises TypeError for a missing or unknown
        argument or another dtype, ShapeError for shapes that disagree with the definition or with each other."""
        program = self.loops.program
        arrays = self._checked(inputs)
        env = self._sizes({name: a.shape for name, a in arrays.items()}, scalars or {})
        sizes = Evaluator({}, env)
        device = {name: _to_device(a) for name, a in arrays.items()}
        results: dict[str, Tensor] = {}
        for function in self.functions:
            shapes = {out.name: _shape(sizes, out) for out in function.writes}
            for name, shape in shapes.items():
                device[name] = _to_device(np.zeros(shape, _dtype(program.stage(name).dtype)))
            arguments = [device[name] for name in (*function.reads, *shapes)]
            numbers = [float(env[s.name]) if s.dtype in FLOATS else int(env[s.name]) for s in function.sizes]
            try:
                self.library[function.name](*arguments, *numbers)
            except Exception as error:
                raise RuntimeError(f"{function.name} failed: {_line(error)}") from None
            for name, shape in shapes.items():
                results[name] = _from_device(device[name], shape, program.stage(name).dtype)
        return {name: results[name] for name in program.outputs}

    def _checked(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        program = self.loops.program
        names = [t.name for t in program.inputs]
        if set(inputs) != set(names):
            raise TypeError(f"{program.name} takes the inputs {', '.join(names)}; got {', '.join(inputs) or 'none'}")
        arrays = {t.name: np.asarray(inputs[t.name]) for t in program.inputs}
        for t in program.inputs:
            if arrays[t.name].dtype != _dtype(t.dtype):
                raise TypeError(f"{t.name} is declared {t.dtype}, got {arrays[t.name].dtype}")
        return arrays

    def _sizes(self, shapes: dict[str, tuple[int, ...]], scalars: Mapping[str, float]) -> dict[str, int | float]:
        program = self.loops.program
        needed = {s.name for f in self.functions for s in f.sizes} - program.shape_sizes()
        known = needed | ({s.name for s in program.sizes} - program.shape_sizes())
        if not needed <= set(scalars) <= known:
            names = ", ".join(sorted(known)) or "no scalars"
            raise TypeError(f"{program.name} takes {names} by name; got {', '.join(sorted(scalars)) or 'none'}")
        try:
            return size_env(program, shapes, scalars)
        except ValueError as error:
            raise ShapeError(str(error)) from None


def _shape(sizes: Evaluator, out: Output) -> tuple[int, ...]:
    return tuple(max(0, sizes.integer(a.extent)) for a in out.axes)


def _dtype(dtype: str) -> np.dtype[Any]:
    if dtype == "bfloat16":
        import ml_dtypes

        dtype = ml_dtypes.bfloat16
    result: np.dtype[Any] = np.dtype(dtype)
    return result


def _to_device(a: Tensor) -> Any:
    """A flat TVM tensor of the bits, of one element at least (TVM refuses some empty ones)."""
    storage = {"bool": np.uint8, "bfloat16": np.uint16}.get(str(a.dtype), a.dtype)
    flat = np.ascontiguousarray(a).reshape(-1).view(storage)
    return tvm.runtime.tensor(flat if flat.size else np.zeros(1, flat.dtype))


def _from_device(tensor: Any, shape: tuple[int, ...], dtype: str) -> Tensor:
    flat: Tensor = tensor.numpy()
    return flat[: int(np.prod(shape, dtype=np.int64))].view(_dtype(dtype)).reshape(shape)

"""Whether a kernel's results are within the first-order error bounds that an audit states (docs/audit.md)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

import neptune_verified as nv
from neptune_verified.auditing.accumulation import Accumulation
from neptune_verified.auditing.evaluate import Evaluator
from neptune_verified.auditing.exact import Exact
from neptune_verified.auditing.measure import Errors
from neptune_verified.auditing.parts import outputs
from neptune_verified.auditing.result import OutputInfo
from neptune_verified.ir.interpret import size_env

CPU = torch.device("cpu")


def beyond_bound(
    program: nv.Program, accumulation: Accumulation, arguments: Sequence[torch.Tensor], got: Sequence[torch.Tensor]
) -> str:
    """The first output with an error above its bound, or of a wrong kind where one is stated; "" if there is none."""
    tensors = {t.name: x for t, x in zip(program.inputs, arguments, strict=True)}
    sizes = size_env(program, {k: tuple(x.shape) for k, x in tensors.items()}, {})
    exact = Exact(program, sizes, CPU, accumulation)
    want = outputs(Evaluator(program, tensors, sizes, exact), 1 << 22)
    for name, have in zip(program.outputs, got, strict=True):
        stage = program.stage(name)
        errors = Errors(OutputInfo(name, stage.dtype, tuple(a.name for a in stage.axes)), want[name], have)
        found, worst = errors.statistics(), errors.worst("")
        if (found.above or found.wrong) and worst is not None:
            return (
                f"{name}{list(worst.index)} is {worst.have:.9g} instead of {worst.want:.9g}, which is beyond the bound "
                f"{worst.bound} of its error"
            )
    return ""

"""Relations between runs of one kernel that hold by construction: elements in another order, rows alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

import neptune_verified as nv
from neptune_verified.ir.expr import Axis, Expr, Size
from tests.property.reference import Wanted, fault
from tests.property.specs import Spec, free_of

Tensors = list[torch.Tensor]
Results = Callable[[Tensors], Tensors]


def related(spec: Spec, program: nv.Program, arguments: Tensors, results: Results, want: dict[str, Wanted]) -> str:
    """How a relation fails; "" if none does, or none holds for this program."""
    return _permuted(spec, program, arguments, results, want) or _rows(spec, program, arguments, results)


def taken(arguments: Tensors, shapes: list[tuple[Expr, ...]], length: str, index: torch.Tensor) -> Tensors:
    """The elements ``index`` along every dimension that has this length."""
    found = []
    for x, shape in zip(arguments, shapes, strict=True):
        for d, extent in enumerate(shape):
            if isinstance(extent, Size) and extent.name == length:
                x = x.index_select(d, index)
        found.append(x)
    return found


def _shapes(program: nv.Program) -> tuple[list[tuple[Expr, ...]], list[tuple[Expr, ...]]]:
    """Of the inputs and of the outputs."""
    axes: list[tuple[Axis, ...]] = [program.stage(n).axes for n in program.outputs]
    return [t.shape for t in program.inputs], [tuple(a.extent for a in own) for own in axes]


def _length(program: nv.Program, arguments: Tensors, name: str) -> int:
    """0 where no input has it."""
    for x, t in zip(arguments, program.inputs, strict=True):
        for n, extent in zip(x.shape, t.shape, strict=True):
            if isinstance(extent, Size) and extent.name == name:
                return n
    return 0


def _permuted(spec: Spec, program: nv.Program, arguments: Tensors, results: Results, want: dict[str, Wanted]) -> str:
    """No term reads j but to read elements: in another order the definition's values are the same."""
    n = _length(program, arguments, "N")
    if n < 2 or not free_of(spec, "j"):
        return ""
    order = torch.randperm(n, generator=torch.Generator().manual_seed(n))
    inputs, outputs = _shapes(program)
    got = taken(results(taken(arguments, inputs, "N", order)), outputs, "N", torch.argsort(order))
    for name, x in zip(program.outputs, got, strict=True):
        text = fault(x.double().numpy(), want[name])
        if text:
            return f"{name}{text}, with the elements in the order {order.tolist()}"
    return ""


def _rows(spec: Spec, program: nv.Program, arguments: Tensors, results: Results) -> str:
    """No term reads i but to read elements: each row has the same bits when it is alone."""
    m = _length(program, arguments, "M")
    if m < 2 or not free_of(spec, "i") or not free_of(spec, "M"):
        return ""
    inputs, outputs = _shapes(program)
    row = torch.tensor([m - 1])
    alone = results(taken(arguments, inputs, "M", row))
    for name, a, b in zip(program.outputs, alone, taken(results(arguments), outputs, "M", row), strict=True):
        if not np.array_equal(a.double().numpy(), b.double().numpy(), equal_nan=True):
            return f"row {m - 1} of {name} has other bits when it is alone"
    return ""

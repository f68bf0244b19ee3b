"""Trusted: reads TVM te tensors into a Program. ``check_reading`` compares the result with TVM's own execution.

The meaning is that of the graph after te's own constant folding, with two exceptions, each listed in the program's
notes: the identity of a float max, min or logaddexp is an infinity, and the least number of a float type is -inf
where it is a whole branch of a select.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tvm import tirx

from neptune_verified.errors import UnsupportedProgram
from neptune_verified.frontend.check import check_reading
from neptune_verified.frontend.facts import (
    Fact,
    at_least,
    bounded,
    finite_or_minus_infinity,
    multiple_of,
    nonnegative,
    nonzero,
    positive,
)
from neptune_verified.frontend.lines import Lines, latest_lines, record_lines
from neptune_verified.frontend.reading import Reading
from neptune_verified.ir.expr import FLOATS
from neptune_verified.ir.program import Program

__all__ = [
    "Fact",
    "Lines",
    "at_least",
    "bounded",
    "check_reading",
    "finite_or_minus_infinity",
    "from_te",
    "multiple_of",
    "neg_inf",
    "nonnegative",
    "nonzero",
    "positive",
    "record_lines",
]


def neg_inf(dtype: str) -> Any:
    """The te constant -inf: the mask of a float32 score is ``te.if_then_else(live, s, nv.neg_inf("float32"))``."""
    if dtype not in FLOATS:
        raise ValueError(f"{dtype} has no infinity; the types that have are {', '.join(FLOATS)}")
    return tirx.const(float("-inf"), dtype)


def from_te(
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    name: str,
    assume: Iterable[Fact] = (),
    min_value: str = "mask",
    lines: Lines | None = None,
) -> Program:
    """The program that computes ``outputs`` from ``inputs``.

    ``inputs``: te placeholders, in the order of the kernel's arguments; ``outputs``: te.compute tensors. ``min_value``:
    "mask" reads the least number of a float type as -inf where it is a whole branch of a select, "finite" leaves it a
    number. ``lines``: a table of ``record_lines()``, the latest one by default.

    Raises UnsupportedProgram, with the construct, the tensor and the line, for whatever has no meaning here.
    """
    if min_value not in ("mask", "finite"):
        raise ValueError(f'min_value is "mask" or "finite", got {min_value!r}')
    try:
        reading = Reading(name, lines if lines is not None else latest_lines(), min_value == "mask")
        return reading.program(list(inputs), list(outputs), list(assume))
    except UnsupportedProgram:
        raise
    except RecursionError:
        raise UnsupportedProgram("expression nested too deeply", name, None, "split it into several stages") from None
    except Exception as error:  # TVM raises every built-in class; its tracebacks help nobody
        text = (str(error).strip().splitlines() or [""])[0]
        raise UnsupportedProgram(
            f"the te graph could not be read ({type(error).__name__}: {text})", name, None
        ) from None

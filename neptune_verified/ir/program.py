"""Trusted: programs, i.e. stages over symbolic shapes with no schedule, and the facts declared about their inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from neptune_verified.ir.expr import Axis, Expr, Reduce, Size


@dataclass(frozen=True, slots=True)
class Loc:
    """Where the user wrote a stage: file, line, and the text of a reader's choice (empty when unknown)."""

    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else "unknown line"


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input: name, symbolic shape, dtype."""

    name: str
    shape: tuple[Expr, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Stage:
    """``name[axes] = body``; a reduction stage when the body is a Reduce, otherwise a map stage."""

    name: str
    axes: tuple[Axis, ...]
    body: Expr
    loc: Loc = Loc()

    @property
    def dtype(self) -> str:
        return self.body.dtype

    @property
    def is_reduction(self) -> bool:
        return isinstance(self.body, Reduce)


def _exact(value: float | int) -> str:
    """The number itself, never a rounded one: a bound is part of what is signed. 2^40, 2^31 - 1, 65504, 0.1."""
    if not math.isfinite(value) or value != int(value) or (isinstance(value, float) and abs(value) > 2**53):
        return repr(value)
    n = int(value)
    for less in (0, 1):
        if n >= 2**20 and (n + less).bit_count() == 1:
            return f"2^{(n + less).bit_length() - 1}" + " - 1" * less
    return str(n)


@dataclass(frozen=True, slots=True)
class Assumption:
    """A declared fact. ``kind``: bounded (|x| <= value), at_least, positive, nonnegative, nonzero,
    finite_or_minus_infinity, multiple_of, or holds (``expr`` is a predicate over sizes). ``subject`` names a tensor or a
    size. ``origin``: "declared" by the user or "default"."""

    kind: str
    subject: str
    value: float | int | None = None
    expr: Expr | None = None
    origin: str = "declared"

    def __str__(self) -> str:
        texts = {
            "bounded": f"|{self.subject}| <= {_exact(self.value)}" if self.value is not None else "",
            "at_least": f"{self.subject} >= {self.value}",
            "positive": f"{self.subject} > 0",
            "nonnegative": f"{self.subject} >= 0",
            "nonzero": f"{self.subject} != 0",
            "finite_or_minus_infinity": f"{self.subject} is finite or -inf",
            "multiple_of": f"{self.subject} % {self.value} == 0",
        }
        return texts.get(self.kind, f"{self.kind} {self.subject}")


ASSUMPTION_KINDS = (
    "bounded",
    "at_least",
    "positive",
    "nonnegative",
    "nonzero",
    "finite_or_minus_infinity",
    "multiple_of",
)


@dataclass(frozen=True, slots=True)
class Program:
    """What is computed. ``stages`` are in topological order; ``outputs`` name stages; ``notes`` list what the front end
    replaced (identities of max and min, minimum literals that are masks). ``between``: for inputs that are tensors between
    two kernels of a split-K update, the kinds of their elements."""

    name: str
    inputs: tuple[Tensor, ...]
    sizes: tuple[Size, ...]
    stages: tuple[Stage, ...]
    outputs: tuple[str, ...]
    assumptions: tuple[Assumption, ...] = ()
    notes: tuple[str, ...] = field(default=())
    between: tuple[tuple[str, frozenset[str]], ...] = ()

    @staticmethod
    def from_te(
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        name: str,
        assume: Iterable[Any] = (),
        min_value: str = "mask",
    ) -> Program:
        """Read TVM te tensors: see ``frontend.te.from_te``. Raises UnsupportedProgram for what has no meaning here."""
        from neptune_verified.frontend.te import from_te

        return from_te(inputs, outputs, name, assume, min_value)

    def stage(self, name: str) -> Stage:
        return next(s for s in self.stages if s.name == name)

    def tensor(self, name: str) -> Tensor:
        return next(t for t in self.inputs if t.name == name)

    def shape_sizes(self) -> frozenset[str]:
        """Sizes that some input's shape gives directly; the others are scalar arguments of the kernel."""
        return frozenset(d.name for t in self.inputs for d in t.shape if isinstance(d, Size))

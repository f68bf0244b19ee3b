"""Random programs as plain data, and the te definition that is printed for people and run by the tests alike."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

import neptune_verified as nv

#: Reducers that te has no function for, as they are printed before a definition that uses them.
HELPERS = {
    "prod": "prod = te.comm_reducer(lambda a, b: a * b, lambda t: tirx.const(1, t))",
    "logaddexp": (
        "logaddexp = te.comm_reducer(\n"
        "    lambda a, b: te.max(a, b) + te.log(1.0 + te.exp(-te.abs(a - b))), lambda t: tirx.const(float('-inf'), t)\n"
        ")"
    ),
}
REDUCERS = {"sum": "te.sum", "max": "te.max", "min": "te.min", "prod": "prod", "logaddexp": "logaddexp"}


@dataclass(frozen=True)
class Input:
    """An input tensor. ``shape``: names of lengths (symbolic) or ints. ``facts``: (kind, value) pairs, as in
    ``nv.bounded(x, 8.0)``; value None for facts without one."""

    name: str
    shape: tuple[str | int, ...]
    dtype: str = "float32"
    facts: tuple[tuple[str, float | None], ...] = ()


@dataclass(frozen=True)
class Stage:
    """``name[axes] = term``, or with a reducer ``name[axes] = reducer over (one more axis) of term``.

    ``axes`` and ``over`` are (index, extent) pairs; ``term`` is te text over these indices."""

    name: str
    axes: tuple[tuple[str, str | int], ...]
    term: str
    reducer: str = ""
    over: tuple[str, str | int] = ("j", "N")


@dataclass(frozen=True)
class Spec:
    """A program. ``passes``: how many it must have, 0 where nobody claims to know."""

    inputs: tuple[Input, ...]
    stages: tuple[Stage, ...]
    outputs: tuple[str, ...]
    passes: int = 0


def at(name: str, axes: tuple[tuple[str, str | int], ...] | str) -> str:
    """``name[i, j]``; ``name()`` for a tensor without axes."""
    indices = axes if isinstance(axes, str) else ", ".join(a for a, _ in axes)
    return f"{name}[{indices}]" if indices else f"{name}()"


def lengths(spec: Spec) -> list[str]:
    """Names of the symbolic lengths, in order of appearance."""
    return list(dict.fromkeys(d for t in spec.inputs for d in t.shape if isinstance(d, str)))


def _shape(dims: tuple[str | int, ...]) -> str:
    return f"({dims[0]},)" if len(dims) == 1 else f"({', '.join(map(str, dims))})"


def used(spec: Spec) -> Spec:
    """Without the stages and inputs that no output reads."""
    keep, words = set(spec.outputs), set[str]()
    for s in reversed(spec.stages):
        if s.name in keep:
            words |= set(re.findall(r"\w+", s.term))
            keep |= words
    stages = tuple(s for s in spec.stages if s.name in keep)
    inputs = tuple(t for t in spec.inputs if t.name in words)
    return Spec(inputs, stages, spec.outputs, spec.passes)


def te_source(spec: Spec) -> str:
    """A Python text that defines ``program``."""
    names = lengths(spec)
    lines = ["import neptune_verified as nv", f"from tvm import te{', tirx' if _needs_tirx(spec) else ''}", ""]
    variables = ", ".join(f'te.var("{n}")' for n in names)
    lines.append(f"{', '.join(names)} = {variables}")
    lines += [HELPERS[r] for r in HELPERS if any(s.reducer == r for s in spec.stages)]
    for t in spec.inputs:
        lines.append(f'{t.name} = te.placeholder({_shape(t.shape)}, "{t.dtype}", "{t.name}")')
    axes = dict.fromkeys(s.over for s in spec.stages if s.reducer)
    lines += [f'{a} = te.reduce_axis((0, {extent}), "{a}")' for a, extent in axes]
    for s in spec.stages:
        body = f"{REDUCERS[s.reducer]}({s.term}, axis={s.over[0]})" if s.reducer else s.term
        shape = _shape(tuple(e for _, e in s.axes))
        parameters = ", ".join(a for a, _ in s.axes)
        head = f"lambda {parameters}" if parameters else "lambda"
        lines.append(f'{s.name} = te.compute({shape}, {head}: {body}, "{s.name}")')
    facts = [
        f"nv.{kind}({t.name}{'' if value is None else f', {value:g}'})" for t in spec.inputs for kind, value in t.facts
    ]
    inputs = ", ".join(t.name for t in spec.inputs)
    assume = f", assume=[{', '.join(facts)}]" if facts else ""
    lines.append(f'program = nv.Program.from_te([{inputs}], [{", ".join(spec.outputs)}], "p"{assume})')
    return "\n".join(lines) + "\n"


def _needs_tirx(spec: Spec) -> bool:
    return any("tirx." in s.term or s.reducer in HELPERS for s in spec.stages)


def build(spec: Spec) -> nv.Program:
    """The program that ``te_source`` defines. Raises nv.UnsupportedProgram as ``nv.Program.from_te`` does."""
    return program_of(te_source(spec))


def program_of(source: str) -> nv.Program:
    """What a printed definition defines."""
    names: dict[str, Any] = {}
    exec(compile(source, "<definition>", "exec"), names)
    program = names["program"]
    assert isinstance(program, nv.Program)
    return program


def digest(spec: Spec) -> str:
    """Of the definition, its name apart: equal for equal programs."""
    return hashlib.sha256(te_source(spec).encode()).hexdigest()[:16]


def free_of(spec: Spec, index: str) -> bool:
    """No term reads ``index`` but as an index of a tensor, nor the index's own length: elements along it may be permuted,
    and (a row's index) rows stand alone."""
    plain = [re.sub(r"\[[^\]]*\]", "", s.term) for s in spec.stages]
    # An index that is computed, as in x[i, j + 1], reads it too.
    read = [i for s in spec.stages for b in re.findall(r"\[([^\]]*)\]", s.term) for i in b.split(",")]
    computed = [i for i in read if not re.fullmatch(r"\w+", i.strip())]
    return not any(re.search(rf"\b{index}\b", p) for p in (*plain, *computed))

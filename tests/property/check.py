"""Judges one random program: it is compiled to a kernel that computes the definition, or refused with a true reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

import neptune_verified as nv
from neptune_verified.auditing.accumulation import accumulation_of
from neptune_verified.pipeline import Kernel
from neptune_verified.runtime import LoadedKernel
from tests.property.bounds import beyond_bound
from tests.property.inputs import Run, as_arrays, extents_of, runs, tensors
from tests.property.reference import Wanted, fault, judged, lost_to_underflow, wanted
from tests.property.relations import related
from tests.property.replaying import Falsehood, replayed
from tests.property.shrinking import paste, shrunk
from tests.property.specs import Spec, build, digest, te_source

#: Stream tiles of the second form in which every kernel is run (any power of two is right).
SMALL_TILE = 16
#: Every so many runs, relations between runs are looked at too.
RELATED = 3
Compile = Callable[..., Kernel]


class Fault(Exception):
    """Something is wrong; the message can be pasted into a test."""


@dataclass(frozen=True)
class How:
    """The form in which a kernel runs: its stream tiles (0: as written), its configuration, the number of splits, and what
    becomes of operands of products."""

    tile: int = 0
    config: str | None = None
    splits: int = 0
    operands: str = "auto"


@dataclass(frozen=True)
class Judged:
    """``outcome``: "kernel", "unsupported" or "refused"; ``refused``: the obligation of each fusion that was refused, ""
    where none could be stated; ``why`` of a program that is not compiled."""

    outcome: str
    passes: int = 0
    refused: tuple[str, ...] = ()
    replays: tuple[str, ...] = ()
    why: str = ""
    runs: int = 0
    compared: int = 0
    underflows: int = 0


def configurations(kernel: Kernel) -> list[str]:
    """The tile configurations that every kernel of the file has: a call names one for all."""
    tables = list(kernel.configs.values())
    return [name for name in tables[0] if all(name in t for t in tables)] if tables else []


def with_tile(kernel: Any, tile: int) -> LoadedKernel:
    """The same text with stream tiles of ``tile`` elements; ``tile`` 0: as it is."""
    text = re.sub(r'("BLOCK_X\d+(?:_\d+)?": )\d+', rf"\g<1>{tile}", kernel.source) if tile else kernel.source
    loaded = LoadedKernel(text, re.findall(r'^ENTRY = "([^"]+)"$', kernel.source, re.MULTILINE)[0], "interpret")
    loaded.roundings = kernel.roundings  # type: ignore[attr-defined]
    return loaded


def stream_tile(source: str) -> int:
    """The longest stream tile of a kernel file."""
    return max(map(int, re.findall(r'"BLOCK_X\d+(?:_\d+)?": (\d+)', source)), default=SMALL_TILE)


def outputs_of(program: nv.Program, arguments: list[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors for the results, NaN everywhere (so that an element that nobody writes is seen)."""
    shapes = extents_of(program, arguments)
    return [torch.full(shapes[n], float("nan"), dtype=getattr(torch, program.stage(n).dtype)) for n in program.outputs]


def results(program: nv.Program, kernel: Any, arguments: list[torch.Tensor], how: How = How()) -> list[torch.Tensor]:
    """What a kernel (a Kernel, or its text loaded) writes."""
    out = outputs_of(program, arguments)
    options: dict[str, Any] = {"splits": how.splits} if how.splits else {}
    if how.config is not None:
        options["config"] = how.config
    kernel(*arguments, out=out[0] if len(out) == 1 else tuple(out), **options)
    return out


def difference(program: nv.Program, kernel: Any, arguments: list[torch.Tensor], how: How = How()) -> str:
    """How a kernel's results differ from the definition's; "" if they do not."""
    return _difference(program, kernel, arguments, how).text


@dataclass(frozen=True)
class Difference:
    """``text``: the first one, "" if there is none. ``compared``: how many numbers. ``underflow``: the text is about a
    value that the definition loses to underflow."""

    text: str
    compared: int = 0
    underflow: bool = False


def _difference(program: nv.Program, kernel: Any, arguments: list[torch.Tensor], how: How) -> Difference:
    return _compared(program, kernel, arguments, how, _wanted(program, kernel, arguments))


def _wanted(program: nv.Program, kernel: Any, arguments: list[torch.Tensor]) -> dict[str, Wanted]:
    narrow = next((t.dtype for t in program.inputs if t.dtype in ("float16", "bfloat16")), "")
    return wanted(program, as_arrays(program, arguments), narrow=narrow if kernel.roundings else "")


def _compared(
    program: nv.Program,
    kernel: Any,
    arguments: list[torch.Tensor],
    how: How,
    want: dict[str, Wanted],
    got: list[torch.Tensor] | None = None,
) -> Difference:
    got = results(program, kernel, arguments, how) if got is None else got
    compared = 0
    for name, found in zip(program.outputs, got, strict=True):
        values = found.double().numpy()
        text = fault(values, want[name])
        if text:
            same_shape = values.shape == want[name].value.shape
            return Difference(f"{name}{text}", compared, same_shape and lost_to_underflow(values, want[name]))
        compared += judged(want[name])
    return Difference("", compared)


# ------------------------------------------------------------------------------------------------ one program


def compiled(program: nv.Program, compile: Compile | None = None, **how: Any) -> Kernel | Judged:
    """The kernel, or why there is none."""
    try:
        return (compile or nv.compile)(program, "interpret", **how)
    except nv.UnsupportedProgram as e:
        return Judged("unsupported", why=str(e))
    except nv.VerificationError as e:
        return Judged("refused", why=str(e))


def operands_of(spec: Spec) -> str:
    """Of every second program, what is no default."""
    return "x2" if int(digest(spec), 16) & 4 else "auto"


def judge(spec: Spec, count: int, seed: int = 0, compile: Compile | None = None) -> Judged:
    """Compile ``spec`` and run it on ``count`` inputs. Raises Fault; other exceptions are errors of the compiler.

    ``compile`` stands in for ``nv.compile`` (the harness is tested with kernels that are wrong)."""
    try:
        program = build(spec)
    except nv.UnsupportedProgram as e:
        return Judged("unsupported", why=str(e))
    kernel = compiled(program, compile, operands=operands_of(spec))
    if isinstance(kernel, Judged):
        return kernel
    refusals = kernel.loops.refusals
    try:
        replays = tuple(replayed(program, r) for r in refusals)
    except Falsehood as e:
        raise Fault(f"{te_source(spec)}\n# a refusal's example is false: {e}\n") from None
    found = Judged("kernel", kernel.passes, tuple(r.obligation for r in refusals), replays)
    ran = compared = underflows = 0
    last = configurations(kernel)[-1] if len(configurations(kernel)) > 1 else None
    for run, how, loaded in _plan(spec, program, kernel, count, seed, compile):
        arguments = tensors(program, run)
        want = _wanted(program, loaded, arguments)
        got = results(program, loaded, arguments, how)
        seen = _compared(program, loaded, arguments, how, want, got)
        if seen.text and not seen.underflow:
            raise Fault(_message(spec, program, loaded, arguments, how, seen.text, run))
        accumulation = accumulation_of(getattr(loaded, "loops", kernel.loops), loaded.source, kernel.roundings)
        beyond = "" if seen.text else beyond_bound(program, accumulation, arguments, got)
        if beyond:
            raise Fault(f"{te_source(spec)}\n# with {run} and {how}: {beyond}\n")
        if ran % RELATED == 0 and not seen.text:
            form = how if how.splits else replace(how, config=how.config or last)
            broken = related(spec, program, arguments, partial(_again, program, loaded, form), want)
            if broken:
                raise Fault(_message(spec, program, loaded, arguments, form, broken, run))
        ran, compared, underflows = ran + 1, compared + seen.compared, underflows + seen.underflow
    return replace(found, runs=ran, compared=compared, underflows=underflows)


def _again(program: nv.Program, kernel: Any, how: How, arguments: list[torch.Tensor]) -> list[torch.Tensor]:
    return results(program, kernel, arguments, how)


def _plan(
    spec: Spec, program: nv.Program, kernel: Kernel, count: int, seed: int, compile: Compile | None
) -> Iterator[tuple[Run, How, Any]]:
    """Half of the runs with the tiles as written, half with small ones; of every fourth program, some in splits."""
    small = with_tile(kernel, SMALL_TILE)
    whole = with_tile(kernel, 0)
    configs = configurations(kernel)
    split: Any = None
    how = How(operands=operands_of(spec))
    if int(digest(spec), 16) % 4 == 0:
        split = compiled(program, compile, schedule=nv.Schedule("split-k"), operands=how.operands)
    large = runs(program, stream_tile(kernel.source), count - count // 2, seed)
    few = runs(program, SMALL_TILE, count // 2, seed + 1)
    for k, run in enumerate(large):
        config = configs[k % len(configs)] if len(configs) > 1 and k % 3 == 0 else None
        yield run, replace(how, config=config), whole
    for k, run in enumerate(few):
        if isinstance(split, Kernel) and k % 2:
            yield run, replace(how, splits=(1, 2, 3, 5)[k // 2 % 4]), split
        else:
            yield run, replace(how, tile=SMALL_TILE), small


def _message(
    spec: Spec, program: nv.Program, kernel: Any, arguments: list[torch.Tensor], how: How, text: str, run: Run
) -> str:
    def wrong(candidate: list[torch.Tensor]) -> str:
        found = _difference(program, kernel, candidate, how)
        return "" if found.underflow else found.text

    small, shorter = with_tile(kernel, SMALL_TILE), replace(how, tile=SMALL_TILE)
    whole = how == How(operands=how.operands)
    fewer_elements = _difference(program, small, arguments, shorter) if whole else Difference("")
    if fewer_elements.text and not fewer_elements.underflow:
        kernel, how = small, shorter

    fewer = shrunk(program, arguments, wrong)
    return paste(te_source(spec), program, fewer, _form(how), wrong(fewer) or text) + f"# first seen with {run}\n"


def _form(how: How) -> tuple[str, str]:
    """How the kernel is made, and how it is called."""
    schedule = ', schedule=nv.Schedule("split-k")' if how.splits else ""
    operands = f", operands={how.operands!r}" if how.operands != "auto" else ""
    made = [f'kernel = nv.compile(program, "interpret"{schedule}{operands})']
    if how.tile:
        made.append(f"kernel = with_tile(kernel, {how.tile})")
    arguments = [f"{k}={v!r}" for k, v in (("config", how.config), ("splits", how.splits)) if v]
    return "\n".join(made), f"How({', '.join(arguments)})"


__all__ = ["Fault", "How", "Judged", "compiled", "difference", "judge", "results", "with_tile"]

"""Not trusted: an audit: a kernel and its peers on the same inputs, against float64, and a verdict.

Nothing here needs TVM or a prover, so that a saved kernel is audited wherever torch and triton are.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from neptune_verified.auditing.budget import check_budget, checks
from neptune_verified.auditing.evaluate import Evaluator, Value
from neptune_verified.auditing.exact import Exact
from neptune_verified.auditing.families import FAMILIES
from neptune_verified.auditing.generate import generate
from neptune_verified.auditing.inputs import Inputs, from_file, from_samples
from neptune_verified.auditing.lengths import default_sizes
from neptune_verified.auditing.measure import Errors
from neptune_verified.auditing.parts import outputs
from neptune_verified.auditing.result import KERNEL, UNFUSED, AuditResult, OutputInfo, Sample
from neptune_verified.auditing.subject import Subject, subject_of
from neptune_verified.auditing.typed import Typed
from neptune_verified.ir.interpret import size_env

if TYPE_CHECKING:
    from neptune_verified.auditing.recording import Recording
    from neptune_verified.pipeline import Kernel

Peer = Callable[..., Any]
Progress = Callable[[str, int, int], None]

#: Elements of the largest array of a reference: what fits, and keeps a CPU's cache or a GPU busy.
ELEMENTS = {"cpu": 1 << 21, "cuda": 1 << 25}
#: Factors by which large inputs are made smaller until the definition stays in the range of its types.
SCALES = (*(2.0**-k for k in range(13)), *(2.0**-k for k in (16, 24, 32, 48, 64, 96)))
#: The share of elements that must have a bound for generated inputs to be of use.
CLAIMED = 0.9


def audit(
    kernel: Kernel | str | Path,
    inputs: str | Path | Recording | Mapping[str, Any] | Sequence[Any] | None = None,
    *,
    against: Mapping[str, Peer] | Iterable[Peer] = (),
    budget: Mapping[str, float] | None = None,
    families: Iterable[str] | None = None,
    sizes: Mapping[str, int | float] | None = None,
    seeds: int = 1,
    search: int = 0,
    progress: Progress | None = None,
) -> AuditResult:
    """Measure a kernel's numerical errors against the definition in float64, unfused, beside the definition in its own
    types and beside peers, on the same inputs.

    ``kernel``: what nv.compile returns, or the folder that it was saved to. ``inputs``: a file (.pt, .npy, .npz,
    .safetensors), a recording (nv.record), or samples (a dict or a list of tensors, or a list of such); None generates
    ``families`` (all by default) at small or, on a GPU, at larger lengths, ``seeds`` times. ``sizes`` fixes lengths and
    scalars by name. ``against``: callables with the program's signature, by name. ``search``: how many inputs to try in
    looking for a bad one. ``budget``: limits by measure ("relative_rms", "max_ulps", ...: auditing.budget.MEASURES) and by
    contestant (the kernel's RMS error in units of the peer's). Always checked: no result of a wrong kind, and no error
    above the first-order bound that follows from the fused program (docs/audit.md).

    Raises ValueError for inputs, budgets and names that do not fit, and where the target's GPU is not there.
    """
    subject = subject_of(kernel)
    peers = dict(against) if isinstance(against, Mapping) else {getattr(p, "__name__", "peer"): p for p in against}
    if clash := sorted({KERNEL, UNFUSED} & peers.keys()):
        raise ValueError(f"a peer cannot be called {clash[0]!r}: the audit has a contestant of that name")
    budget = dict(budget or {})
    contestants = (KERNEL, UNFUSED, *peers)
    check_budget(budget, contestants)
    auditor = Auditor(subject, peers)
    result = AuditResult(
        subject.program.name,
        subject.target,
        subject.definition,
        subject.file,
        machine(subject.device),
        auditor.infos,
        contestants,
        missing=auditor.missing,
    )
    plans = list(auditor.plans(inputs, families, dict(sizes or {}), seeds))
    total = len(plans) + bool(search)
    for k, (name, make) in enumerate(plans):
        if progress:
            progress(name, k, total)
        _take(result, auditor, *make())
    if search:
        from neptune_verified.auditing.search import search as look

        found = look(
            auditor, dict(sizes or {}), search, lambda n: progress and progress(f"search {n}", total - 1, total)
        )
        result.searched = found.tried
        for given in found.worst:
            _take(result, auditor, *auditor.with_reference(given))
    if not result.samples:
        raise ValueError("there is nothing to audit: no inputs")
    result.checks = checks(result, budget)
    return result


def _take(result: AuditResult, auditor: Auditor, given: Inputs, reference: Reference) -> None:
    """Run one set of inputs; those with the kernel's worst element are kept."""
    before = max((c.of_bound for c in result.worst), default=-1.0)
    sample = auditor.sample(given, reference)
    result.samples.append(sample)
    if max((c.of_bound for c in sample.worst), default=0.0) > before:
        scalars = {k: torch.tensor(v) for k, v in given.scalars.items()}
        result.worst_inputs = {k: x.cpu() for k, x in given.tensors.items()} | scalars


def machine(device: torch.device) -> dict[str, str]:
    gpu = torch.cuda.get_device_name() if device.type == "cuda" else "none"
    tools = {"torch": torch.__version__, "triton": version("triton"), "python": platform.python_version()}
    return {"gpu": gpu, **tools}


@dataclass
class Reference:
    """The outputs in float64 with their bounds, and whether some value may leave the range of its type."""

    values: dict[str, Value]
    overflow: bool

    @property
    def claimed(self) -> float:
        """The least share, over the outputs, of defined elements that have a bound."""
        shares = [1.0]
        for v in self.values.values():
            defined = ~v.x.isnan()
            if v.d is not None and bool(defined.any()):
                shares.append(float(v.d[defined].isfinite().double().mean()))
        return min(shares)


@dataclass
class Auditor:
    subject: Subject
    peers: Mapping[str, Peer]
    missing: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        program = self.subject.program
        self.device = self.subject.device
        self.limit = ELEMENTS[self.device.type]
        stages = [program.stage(name) for name in program.outputs]
        self.infos = tuple(OutputInfo(s.name, s.dtype, tuple(a.name for a in s.axes)) for s in stages)

    # ------------------------------------------------------------------------------------------ inputs

    def plans(
        self, inputs: Any, families: Iterable[str] | None, sizes: dict[str, int | float], seeds: int
    ) -> Iterator[tuple[str, Callable[[], tuple[Inputs, Reference]]]]:
        """What is to be run: a name, and what makes the inputs and their reference when their turn comes."""
        program = self.subject.program
        if inputs is not None:
            if families is not None:
                raise ValueError("inputs and families exclude each other: families are generated")
            scalars = {k: v for k, v in sizes.items() if k not in program.shape_sizes()}
            read = from_file if isinstance(inputs, str | Path) else from_samples
            for given in read(program, inputs, str(self.device), scalars):
                yield given.name, partial(self.with_reference, given)
            return
        chosen = list(FAMILIES if families is None else families)
        if unknown := [f for f in chosen if f not in FAMILIES]:
            raise ValueError(f"no family {unknown[0]!r}; there are {', '.join(FAMILIES)}")
        for lengths in default_sizes(program, self.device.type == "cpu", sizes):
            empty = any(lengths[name] == 0 for name in program.shape_sizes())
            for family in chosen[:1] if empty else chosen:
                for seed in range(seeds):
                    yield family, partial(self.in_range, family, lengths, seed)

    def with_reference(self, given: Inputs) -> tuple[Inputs, Reference]:
        return given, self.reference(given)

    def in_range(self, family: str, sizes: dict[str, int | float], seed: int) -> tuple[Inputs, Reference]:
        """Inputs of a family, made smaller until the definition stays within the finite range of its types, and until a
        bound follows for most elements: of scores in the millions, exponentials have no digit that is certain."""
        for scale in SCALES:
            given = generate(self.subject.program, family, sizes, seed, str(self.device), scale)
            reference = self.reference(given)
            if not reference.overflow and reference.claimed >= CLAIMED:
                break
        return given, reference

    # ------------------------------------------------------------------------------------------ running

    def sizes(self, given: Inputs) -> dict[str, int | float]:
        return size_env(self.subject.program, {k: tuple(x.shape) for k, x in given.tensors.items()}, given.scalars)

    def reference(self, given: Inputs) -> Reference:
        sizes = self.sizes(given)
        exact = Exact(self.subject.program, sizes, self.device, self.subject.accumulation)
        values = outputs(Evaluator(self.subject.program, given.tensors, sizes, exact), self.limit)
        return Reference(values, bool(exact.overflow))

    def unfused(self, given: Inputs) -> list[Tensor]:
        evaluator = Evaluator(self.subject.program, given.tensors, self.sizes(given), Typed(self.device))
        return [v.x for v in outputs(evaluator, self.limit).values()]

    def kernel(self, given: Inputs, reference: Reference) -> list[Tensor]:
        shapes = [tuple(v.x.shape) for v in reference.values.values()]
        return self.subject.run(self.tensors(given), shapes, given.scalars)

    def tensors(self, given: Inputs) -> list[Tensor]:
        return [given.tensors[t.name] for t in self.subject.program.inputs]

    def peer(self, name: str, given: Inputs, reference: Reference) -> list[Tensor]:
        """Its outputs, in the order of the definition's; a peer may give the first ones alone.

        Raises NotImplementedError where it fails or gives other shapes, which says so."""
        try:
            found = self.peers[name](*self.tensors(given), **given.scalars)
        except Exception as e:
            raise NotImplementedError(f"{type(e).__name__}: {(str(e).splitlines() or [''])[0]}"[:200]) from e
        results = list(found) if isinstance(found, tuple | list) else [found]
        for have, (output, want) in zip(results, reference.values.items(), strict=False):
            if not isinstance(have, Tensor) or have.shape != want.x.shape:
                shape = list(have.shape) if isinstance(have, Tensor) else type(have).__name__
                raise NotImplementedError(f"it gives {output} as {shape}, the definition says {list(want.x.shape)}")
        return results[: len(reference.values)]

    def sample(self, given: Inputs, reference: Reference) -> Sample:
        """Everything about one set of inputs."""
        shapes = {k: tuple(x.shape) for k, x in given.tensors.items()}
        sample = Sample(given.name, given.origin, given.family, shapes, dict(given.scalars), notes=given.notes)
        results = {KERNEL: self.kernel(given, reference), UNFUSED: self.unfused(given)}
        for name in self.peers:
            try:
                results[name] = self.peer(name, given, reference)
            except NotImplementedError as e:
                self.missing.setdefault(name, str(e))
        for name, found in results.items():
            sample.statistics[name] = {}
            for info, have in zip(self.infos, found, strict=False):
                errors = Errors(info, reference.values[info.name], have)
                sample.statistics[name][info.name] = errors.statistics()
                if name == KERNEL:
                    worst = errors.worst(given.name)
                    sample.worst += () if worst is None else (worst,)
                    sample.rows += errors.worst_rows()
        return sample

    def badness(self, given: Inputs, reference: Reference) -> float:
        """What the search makes large: above 1 if an error of the kernel is above its bound."""
        found = self.kernel(given, reference)
        outputs = zip(self.infos, found, strict=True)
        return max((Errors(info, reference.values[info.name], have).excess() for info, have in outputs), default=0.0)


__all__ = ["Auditor", "Reference", "audit"]

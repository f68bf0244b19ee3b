"""Trusted: the verdict of the bounded evaluation: every tile configuration, at lengths that meet every path.

Statement (O13, bounded): for each trial, the values that the launched programs store are the definition's, in normal
form, wherever that is defined (as numbers alone, far from 0, where the float64 of the definition do not say which of
several elements is the greatest: the trials near 0 compare the expressions); and on the way every access is inside its
tensor, every output element is stored exactly once (O11), no integer leaves its width and no // or % sees a negative
operand (O12), and nothing undefined, which is what masked-out and unwritten memory holds, reaches an output (O9). It says
nothing about other lengths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace

from neptune_verified.ir.expr import FLOATS, Size
from neptune_verified.ir.inline import inline
from neptune_verified.ir.program import Program
from neptune_verified.proofs.bounded.compare import Closed
from neptune_verified.proofs.bounded.coverage import Coverage
from neptune_verified.proofs.bounded.inputs import extent
from neptune_verified.proofs.bounded.launcher import LIMIT, Launcher, Rejected
from neptune_verified.proofs.bounded.lengths import Trial, numbers, split_trials, trials
from neptune_verified.proofs.bounded.result import BoundedResult, Fault, Finding, OutOfRange, Run, Unknown, Unsupported
from neptune_verified.proofs.bounded.source import KernelFile, parse
from neptune_verified.proofs.bounded.trial import Evaluation, shapes_of
from neptune_verified.proofs.bounded.unseen import unseen
from neptune_verified.proofs.bounded.views import views

_NARROW = ("float16", "bfloat16")
#: Factors of inputs, one after the other, until no exponential of them leaves the range of float64.
_SMALLER = (1.0, 1 / 16, 1 / 256)


def bounded(program: Program, source: str, target: str = "") -> BoundedResult:
    """The verdict on the text ``source`` as an implementation of ``program``. Nothing of the text is executed."""
    runs: list[Run] = []
    coverage = Coverage()
    where: Trial | None = None
    compared: Counter[str] = Counter()
    again = 0
    try:
        file = parse(source)
        if target and file.target != target:
            return BoundedResult("refuted", findings=(Finding("O13", "kernel.py", f"it is for {file.target!r}"),))
        rolling, split = views(file)
        plan, needs = trials(rolling, program)
        _front(rolling, program, plan)
        closed = inline(program).outputs
        differs: dict[str, None] = {}
        more_trials, more_needs = split_trials(split, rolling, program, plan) if split is not None else ([], {})
        needs |= more_needs
        for k, where in enumerate([*plan, *more_trials]):
            view = rolling if where.splits == 1 or split is None else split
            evaluation, coverage, findings, doubts = _run(view, program, closed, where, k, coverage)
            where = evaluation.trial
            runs.append(evaluation.record())
            compared += evaluation.comparison.compared
            if doubts and not findings:  # equal as numbers, perhaps because the difference is small
                closer = replace(where, structured=False, scale=1 / 16)
                findings = Evaluation(view, program, closed, closer, seed=k).run(coverage)[0]
            if doubts and not findings:  # equal in another reading of logarithms, perhaps
                other = Evaluation(view, program, closed, where, seed=k, algebraic=True)
                findings, doubts = other.run(coverage)
                evaluation = evaluation if doubts else other
            if where.unseen and not findings and not doubts:
                findings, more = unseen(evaluation, program, closed)
                again += more
            if findings:
                return BoundedResult("refuted", str(findings[0]), tuple(findings), tuple(runs), coverage.paths())
            if doubts:
                return BoundedResult("unknown", doubts[0], (), tuple(runs), coverage.paths())
        where = None
        _limits(rolling, program, plan)
        for k, where in enumerate(plan):
            if _rounds(program, source) and where.structured and where.choice == 0:
                evaluation = Evaluation(rolling, program, closed, where, seed=k, opaque=True)
                differs |= dict.fromkeys(evaluation.roundings())
                break
    except Unsupported as e:
        return BoundedResult("unsupported", f"kernel.py:{e.line}: {e.what}", (), tuple(runs), coverage.paths())
    except Unknown as e:
        return BoundedResult("unknown", str(e), (), tuple(runs), coverage.paths())
    except Fault as e:
        finding = Finding(e.id, f"kernel.py:{e.line}", e.what, where.sizes if where else {})
        return BoundedResult("refuted", str(finding), (finding,), tuple(runs), coverage.paths())
    except Exception as e:  # a fault of this program is no verdict about the text
        return BoundedResult("unknown", f"{type(e).__name__}: {e}", (), tuple(runs), coverage.paths())
    if empty := [name for name in program.outputs if not compared[name]]:
        return BoundedResult("unknown", f"no element of {empty[0]} was compared", (), tuple(runs), coverage.paths())
    if missing := coverage.missing(file.kernels, numbers(program), needs):
        return BoundedResult("unknown", missing, (), tuple(runs), coverage.paths())
    rounding = "differs" if differs else "same"
    lines = sorted({line for _, line in needs})
    return BoundedResult(
        "proved", "", (), tuple(runs), coverage.paths(), rounding, tuple(differs),
        configs=max(len(t) for t in file.tables.values()),
        loops=len(lines),
        dead=tuple(x for x in lines if not any(n for (_, line), n in needs.items() if line == x)),
        again=again,
    )  # fmt: skip


def _run(
    view: KernelFile, program: Program, closed: Closed, trial: Trial, seed: int, coverage: Coverage
) -> tuple[Evaluation, Coverage, list[Finding], list[str]]:
    """The trial, with smaller inputs where it leaves the range of float64, and the coverage with what it met."""
    for factor in _SMALLER:
        tried = deepcopy(coverage)
        evaluation = Evaluation(view, program, closed, replace(trial, scale=trial.scale * factor), seed=seed)
        try:
            return evaluation, tried, *evaluation.run(tried)
        except OutOfRange:
            if factor == _SMALLER[-1]:
                raise
    raise AssertionError


def _rounds(program: Program, source: str) -> bool:
    types = {t.dtype for t in program.inputs} | {s.dtype for s in program.stages}
    return bool(types & set(_NARROW)) or any(f"tl.{t}" in source for t in _NARROW)


def _front(file: KernelFile, program: Program, plan: list[Trial]) -> None:
    """The launcher refuses shapes that disagree with the definition, and declared facts about lengths that fail."""
    first = plan[0]
    shapes = shapes_of(program, first.sizes)
    scalars = {k: v for k, v in first.sizes.items() if k not in program.shape_sizes()}
    for name, k in ((t.name, k) for t in program.inputs for k in range(len(t.shape))):
        longer = tuple(n + (d == k) for d, n in enumerate(shapes[name]))
        wrong = shapes | {name: longer}
        if not _fits(program, wrong, scalars) and not _rejects(file, program, wrong, scalars):
            assert file.launcher is not None
            raise Fault("O11", f"a wrong length of {name}.shape[{k}] is not refused", file.launcher.lineno)
    for subject, value in _violations(program):
        sizes = first.sizes | {subject: value}
        wrong = shapes_of(program, sizes)
        if not _rejects(file, program, wrong, {k: sizes[k] for k in scalars}):
            assert file.launcher is not None
            raise Fault("O13", f"{subject} = {value} is not refused", file.launcher.lineno)


def _limits(file: KernelFile, program: Program, plan: list[Trial]) -> None:
    """The launcher refuses lengths that do not leave room for a tile in an int32; up to them, the grid fits one (the
    launcher's reading says so)."""
    first = plan[0]
    scalars = [k for k in first.sizes if k not in program.shape_sizes()]
    for size in (s for s in program.sizes if s.dtype not in FLOATS):
        for longest, sizes in ((False, {size.name: LIMIT + 1}), (True, {s.name: LIMIT for s in program.sizes})):
            long = first.sizes | {
                k: v for k, v in sizes.items() if k in first.sizes and isinstance(first.sizes[k], int)
            }
            if not _rejects(file, program, shapes_of(program, long), {k: long[k] for k in scalars}) and not longest:
                assert file.launcher is not None
                raise Fault("O12", f"{size.name} = {LIMIT + 1} is not refused", file.launcher.lineno)


def _violations(program: Program) -> Iterator[tuple[str, int]]:
    sizes = {s.name for s in program.sizes}
    for a in program.assumptions:
        if a.subject in sizes and a.kind == "at_least" and a.value is not None and a.value >= 1:
            yield a.subject, int(a.value) - 1
        if a.subject in sizes and a.kind == "multiple_of" and a.value is not None and a.value > 1:
            yield a.subject, int(a.value) + 1


def _fits(program: Program, shapes: dict[str, tuple[int, ...]], scalars: dict[str, int | float]) -> bool:
    """Whether some lengths give exactly these shapes."""
    sizes = dict(scalars)
    for t in program.inputs:
        for n, d in zip(shapes[t.name], t.shape, strict=True):
            if isinstance(d, Size):
                sizes.setdefault(d.name, n)
    return all(
        n == extent(d, sizes) for t in program.inputs for n, d in zip(shapes[t.name], t.shape, strict=True)
    ) and not any(
        a.kind == "multiple_of" and a.subject in sizes and a.value and sizes[a.subject] % a.value
        for a in program.assumptions
    )


def _rejects(
    file: KernelFile, program: Program, shapes: dict[str, tuple[int, ...]], scalars: dict[str, int | float]
) -> bool:
    try:
        Launcher(file, program, shapes, scalars, 0).run()
    except Rejected:
        return True
    return False

"""Not trusted: what a kernel's errors may be, and whether they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from neptune_verified.auditing.result import KERNEL, AuditResult, Case, Check
from neptune_verified.auditing.statistics import Statistics

#: What a budget may limit: how it is measured, and its unit.
MEASURES: dict[str, tuple[Callable[[Statistics], float], str]] = {
    "rms": (lambda s: s.rms, "absolute"),
    "relative_rms": (lambda s: s.relative_rms, "relative"),
    "max_absolute": (lambda s: s.absolute.largest, "absolute"),
    "p90_absolute": (lambda s: s.absolute.percentile(90), "absolute"),
    "p99_absolute": (lambda s: s.absolute.percentile(99), "absolute"),
    "max_relative": (lambda s: s.relative.largest, "relative"),
    "p90_relative": (lambda s: s.relative.percentile(90), "relative"),
    "p99_relative": (lambda s: s.relative.percentile(99), "relative"),
    "max_ulps": (lambda s: s.ulps.largest, "ulps"),
    "p99_ulps": (lambda s: s.ulps.percentile(99), "ulps"),
    "of_bound": (lambda s: s.of_bound.largest, "x its bound"),
}


def check_budget(budget: Mapping[str, float], contestants: tuple[str, ...]) -> None:
    """Raises ValueError for a name that is neither a measure nor a contestant, or for a limit below 0."""
    others = [c for c in contestants if c != KERNEL]
    for name, limit in budget.items():
        if name not in MEASURES and name not in others:
            known = ", ".join([*MEASURES, *others])
            raise ValueError(f"a budget has no {name!r}; it may limit {known}")
        if isinstance(limit, bool) or not isinstance(limit, int | float) or math.isnan(limit) or limit < 0:
            raise ValueError(f"budget {name}: a number >= 0 is wanted, got {limit!r}")


def checks(result: AuditResult, budget: Mapping[str, float]) -> list[Check]:
    """Always: every result is of the right kind, and no error is above the bound of the structure. Then the budget:
    limits by measure, and by contestant (the kernel's RMS error in units of that contestant's)."""
    found: list[Check] = []
    for output in (o.name for o in result.outputs):
        total = result.total(KERNEL, output)
        cases = [c for s in result.samples for c in s.worst if c.output == output]
        if not total.compared + total.infinite:
            text = "an element at which the definition has a value"
            found.append(Check(text, output, 0, 1, "elements", False))
        found.append(_kinds(output, total, cases))
        found.append(_bounds(result, output, total))
        found += _limits(result, output, total, budget)
    return found


def _kinds(output: str, total: Statistics, cases: list[Case]) -> Check:
    shown = next((c.sample for c in cases if math.isinf(c.error)), "")
    text = "no NaN, no infinity and no number where another kind is due"
    return Check(text, output, total.wrong, 0, "elements", total.wrong == 0, shown)


def _bounds(result: AuditResult, output: str, total: Statistics) -> Check:
    largest = total.of_bound.largest
    measured = math.inf if total.above and largest <= 1 else largest  # an error where the bound is 0
    parts = [(s.statistics[KERNEL][output], s.name) for s in result.samples]
    bad = [(x.of_bound.largest, name) for x, name in parts if x.above]
    shown = max(bad)[1] if bad else ""
    return Check("no error above its bound", output, measured, 1.0, "x its bound", total.above == 0, shown)


def _limits(result: AuditResult, output: str, total: Statistics, budget: Mapping[str, float]) -> Iterator[Check]:
    for name, limit in budget.items():
        if name in MEASURES:
            measure, unit = MEASURES[name]
            measured = measure(total)
            ok = not measured > limit  # NaN: nothing was measured
            yield Check(name, output, measured, limit, unit, ok, "" if ok else _shows(result, output, measure))
        elif name in result.contestants:
            both = [s.name for s in result.samples if output in s.statistics.get(name, {})]
            if both:
                ours, theirs = (result.total(c, output, *both).rms for c in (KERNEL, name))
                ratio = ours / theirs if theirs else math.inf if ours else 1.0
                yield Check(f"RMS beside {name}", output, ratio, limit, f"x {name}", not ratio > limit)


def _shows(result: AuditResult, output: str, measure: Callable[[Statistics], float]) -> str:
    """The sample in which a measure is greatest."""
    found = {s.name: measure(s.statistics[KERNEL][output]) for s in result.samples}
    known = {name: x for name, x in found.items() if not math.isnan(x)}
    return max(known, key=lambda name: known[name], default="")

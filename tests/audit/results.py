"""Audits made by hand: errors are random numbers of known sizes, and the statistics are taken of them as an audit does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neptune_verified.auditing.result import AuditResult, Case, Check, OutputInfo, Sample
from neptune_verified.auditing.statistics import Histogram, Profile, Statistics

Array = NDArray[np.float64]
STRANGE = """<script>alert(1)</script> $x_1$ & "q" 'r' <img onerror=x> {{ 7 * 7 }} {% raw %} \x1b[2J -->"""
AXES = ("b", "i", "j")
OUTPUT = OutputInfo("o", "float16", AXES)
#: Contestant -> size of its errors.
SIZES = {"kernel": 1e-4, "unfused": 3e-4, "eager": 1e-3, "compiled": 3e-3, "reference float32": 1e-7}
FAMILIES = ("normal", "very large", "near zero")
SHAPE = (2, 24, 16)


def errors_of(seed: int, size: float, shape: tuple[int, ...] = SHAPE) -> tuple[Array, Array]:
    """Errors, which grow along the second axis, and the values that were due."""
    rng = np.random.default_rng(seed)
    growth = np.linspace(1, 3, shape[1])[None, :, None]
    return np.abs(rng.normal(0, size, shape)) * growth, rng.normal(0, 1, shape)


def statistics_of(error: Array, want: Array, bound: float | None = 0.02, **counts: int) -> Statistics:
    """Of one sample, all of whose elements were compared."""
    profiles = {}
    for axis, name in enumerate(AXES[: error.ndim]):
        others = tuple(k for k in range(error.ndim) if k != axis)
        length = error.shape[axis]
        profiles[name] = Profile.of((error**2).sum(axis=others).tolist(), [error.size // max(length, 1)] * length)
    square = Statistics().square_error.__class__
    return Statistics(
        compared=error.size,
        square_error=sum(map(square, (error**2).ravel().tolist()), square(0)),
        square_value=sum(map(square, (want**2).ravel().tolist()), square(0)),
        absolute=Histogram.of(error.ravel()),
        relative=Histogram.of((error / np.abs(want)).ravel()),
        ulps=Histogram.of(error.ravel() / 2.0**-11),
        of_bound=Histogram.of(error.ravel() / bound) if bound else Histogram(),
        above=int((error > bound).sum()) if bound else 0,
        rows=Histogram.of(np.sqrt((error**2).mean(axis=-1)).ravel()),
        positions=profiles,
        **counts,
    )


def sample(number: int, family: str, sizes: dict[str, float] = SIZES, output: OutputInfo = OUTPUT) -> Sample:
    scale = 1 + FAMILIES.index(family) if family in FAMILIES else 1.0
    statistics, worst, rows = {}, None, []
    for k, (name, size) in enumerate(sizes.items()):
        error, want = errors_of(100 * number + k, size * scale)
        statistics[name] = {output.name: statistics_of(error, want, 0.02 if k < 2 else None)}
        if k == 0:
            at = tuple(map(int, np.unravel_index(error.argmax(), error.shape)))
            e, w = float(error[at]), float(want[at])
            worst = Case(f"{family} {number}", output.name, at, w + e, w, e, e / 2.0**-11, 0.02)
            rms = np.sqrt((error**2).mean(axis=-1))
            row = tuple(map(int, np.unravel_index(rms.argmax(), rms.shape)))
            rows = [(output.name, row, float(rms[row]))]
    shapes = {"q": (2, 24, 8), "k": (2, 16, 8)}
    return Sample(
        f"{family} {number}",
        "file" if number == 3 else "generated",
        family,
        shapes,
        {"scale": 0.125},
        statistics,
        (worst,) if worst else (),
        tuple(rows),
        ("q: float32 to float16",) if number == 2 else (),
    )


def audit(sizes: dict[str, float] = SIZES, families: Iterable[str] = FAMILIES, failed: int = 0) -> AuditResult:
    """Each family has two samples; the last ``failed`` of seven checks are not ok."""
    checks = [
        Check("largest error over bound", "o", 0.0325, 1.0, "x its bound", True),
        Check("RMS against the unfused definition", "o", 0.334, 1.5, "x its RMS", True),
        Check("NaN where a number is due", "o", 0, 0, "elements", True),
        Check("infinite where a number is due", "o", 0, 0, "elements", True),
        Check("elements above their bound", "o", 0, 0, "elements", True),
        Check("p99 error", "o", 0.75, 4, "ulps", True),
        Check("largest error", "o", 2.00004, 2, "ulps", True, "very large 3"),
    ]
    return AuditResult(
        "attention",
        "cuda:90",
        "sha256:" + "ab" * 32,
        "the text that the certificate is bound to",
        {"device": "a GPU", "torch": "2.13.0"},
        (OUTPUT,),
        tuple(sizes),
        [sample(2 * k + n, f, sizes) for k, f in enumerate(families) for n in (0, 1)],
        {"flash_attn": "not installed"},
        [replace(c, ok=k < 7 - failed) for k, c in enumerate(checks)],
        640,
        {},
    )


def over_budget() -> AuditResult:
    """Two of seven checks failed, wrong kinds among the results."""
    r = audit(failed=2)
    s = r.samples[0].statistics["kernel"]["o"]
    s.nan, s.undefined, s.unclaimed = 3, 48, 7
    return r


def two_outputs() -> AuditResult:
    """The second output has one axis of one element, and only the kernel gives it; all its errors are 0."""
    r = audit()
    r.outputs = (OUTPUT, OutputInfo("lse", "float32", ("b", "one")))
    for s in r.samples:
        zero = statistics_of(np.zeros((4, 1)), np.ones((4, 1)))
        s.statistics["kernel"]["lse"] = replace(zero, positions=dict(zip(("b", "one"), zero.positions.values())))
    return r


def empty() -> AuditResult:
    """Nothing ran."""
    return replace(audit(), samples=[], checks=[], missing={}, searched=0)


def nothing_compared() -> AuditResult:
    r = audit()
    for s in r.samples:
        s.statistics = {c: {"o": Statistics(undefined=768)} for c in r.contestants}
        s.worst = s.rows = ()
    return r


def alone() -> AuditResult:
    return audit({"kernel": 1e-4}, ("normal",))


AUDITS: dict[str, Callable[[], AuditResult]] = {
    "five contestants": audit,
    "over budget": over_budget,
    "two outputs": two_outputs,
    "alone": alone,
    "nothing compared": nothing_compared,
    "empty": empty,
}


@cache
def page(name: str) -> str:
    """The page of one of them."""
    return AUDITS[name]().html()


def everywhere(value: Any, text: str) -> Any:
    """With ``text`` at the end of every text that it holds, names of contestants, outputs and axes included; not of
    ``origin``, which is one of three, nor of "kernel", which is how the kernel is found."""
    if isinstance(value, str):
        return value if value in ("kernel", "generated", "file", "searched") else value + text
    if isinstance(value, dict):
        return {everywhere(k, text): everywhere(v, text) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(everywhere(v, text) for v in value)
    if is_dataclass(value) and not isinstance(value, Histogram | Profile | type):
        return replace(value, **{f.name: everywhere(getattr(value, f.name), text) for f in fields(value)})
    return value


def raw(r: AuditResult, contestant: str, family: str = "") -> tuple[Array, Array]:
    """The errors and the values that ``audit`` took statistics of: of all samples one after the other along the first
    axis, or of those of one family."""
    k = r.contestants.index(contestant)
    found = []
    for number, s in enumerate(r.samples):
        if family in ("", s.family):
            found.append(errors_of(100 * number + k, SIZES[contestant] * (1 + FAMILIES.index(s.family))))
    return np.concatenate([e for e, _ in found]), np.concatenate([w for _, w in found])

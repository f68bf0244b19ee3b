"""Not trusted: plots of an audit's errors, as SVG elements inside a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from neptune_verified.auditing.result import OutputInfo
from neptune_verified.auditing.scale import Scale
from neptune_verified.auditing.statistics import PARTS, PER_OCTAVE, Histogram
from neptune_verified.auditing.svg import INK, Look, element, settings
from neptune_verified.auditing.tables import View, clean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Bins of a drawn histogram for each factor of two.
BINS = 2
#: Families that a plot has room for, and letters of a name.
FAMILIES, LETTERS = 24, 22
_WIDTH, _HEIGHT = 4.0, 2.6
UNIT, BOTH = "unit of the output", "; both logarithmic"


@dataclass(frozen=True)
class Plot:
    """``panels``: SVG elements beside each other. ``names``: the contestants in it, with their places among all."""

    name: str
    caption: str
    panels: tuple[str, ...]
    names: tuple[tuple[int, str], ...]


def plots(view: View, output: OutputInfo) -> list[Plot]:
    """Those for which there is data; none where no element was compared."""
    ran = [(k, c) for k, c, s in view.ran(output) if s.compared]
    if not ran:
        return []
    with settings():
        return list(_plots(view, output, ran, f"plot-{view.result.outputs.index(output)}"))


def swatch(k: int, prefix: str) -> str:
    """The line and the mark of a contestant, for a legend beside its name."""
    with settings():
        from matplotlib.figure import Figure

        figure = Figure((0.5, 0.16))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set(xlim=(0, 2), ylim=(-1, 1))
        look = Look.of(k)
        axes.plot([0, 1, 2], [0, 0, 0], color=look.color, linestyle=look.dash, linewidth=1.6)
        axes.plot([1], [0], color=look.color, marker=look.marker, markersize=5)
        return element(figure, prefix)


def _plots(view: View, output: OutputInfo, ran: Sequence[tuple[int, str]], prefix: str) -> Iterator[Plot]:
    names = tuple(ran)
    who = ", ".join(clean(c) for _, c in ran)
    stats = {k: view.total(c, output.name) for k, c in ran}
    o = clean(output.name)

    caption = f"Error histogram of {o}: share of its elements in each half octave (y) by absolute error (x){BOTH}"
    errors = {k: s.absolute for k, s in stats.items()}
    panel = _histogram(errors, "elements", f"absolute error ({UNIT})", f"{prefix}-errors", f"{caption}. {who}")
    yield Plot("errors", caption, (panel,), names)

    ulps = {k: s.ulps for k, s in stats.items() if s.ulps.count}
    if ulps:
        unit = f"ulps of {clean(output.dtype)}"
        caption = f"Error histogram of {o} in {unit}: share of its elements in each half octave (y) by error (x){BOTH}"
        panel = _histogram(ulps, "elements", "error (ulps)", f"{prefix}-ulps", f"{caption}. {who}")
        yield Plot("ulps", caption, (panel,), tuple((k, c) for k, c in ran if k in ulps))

    rows = {k: s.rows for k, s in stats.items() if s.rows.count}
    if rows:
        caption = f"RMS error of the rows of {o} along its last axis: share of the rows (y) by RMS (x){BOTH}"
        panel = _histogram(rows, "rows", f"RMS error of a row ({UNIT})", f"{prefix}-rows", f"{caption}. {who}")
        yield Plot("rows", caption, (panel,), tuple((k, c) for k, c in ran if k in rows))

    caption = f"RMS error of {o} by family of samples: each family (y), RMS (x, logarithmic)"
    by_family = {f: {k: view.family(f, c, output.name).rms for k, c in ran} for f in view.families}
    some = {f: r for f, r in by_family.items() if not all(map(math.isnan, r.values()))}
    if len(some) > FAMILIES:
        caption += f"; the {FAMILIES} of {len(some)} with the greatest RMS"
        greatest = sorted(some, key=lambda f: max(v for v in some[f].values() if not math.isnan(v)))[-FAMILIES:]
        some = {f: r for f, r in some.items() if f in greatest}
    yield Plot("families", caption, (_families(some, f"{prefix}-families", f"{caption}. {who}"),), names)

    profiles = {a: {k: s.positions[a].rms() for k, s in stats.items() if a in s.positions} for a in output.axes}
    shown = {a: p for a, p in profiles.items() if _places(p) > 1}
    if shown:
        caption = f"Error of {o} by position: RMS (y, logarithmic) along each axis (x, % of its length)"
        scale = Scale.of(v for p in shown.values() for rms in p.values() for v in rms)
        panels = (
            _profile(p, scale, axis, f"{prefix}-position{n}", f"{caption}: {clean(axis)}. {who}")
            for n, (axis, p) in enumerate(shown.items())
        )
        yield Plot("positions", caption, tuple(panels), names)


def _places(profile: dict[int, list[float]]) -> int:
    """Parts of an axis that have a number."""
    return sum(any(not math.isnan(rms[part]) for rms in profile.values()) for part in range(PARTS))


# ------------------------------------------------------------------------------------------- panels


def _panel(draw: Callable[[Axes], None], prefix: str, label: str, height: float = _HEIGHT) -> str:
    from matplotlib.figure import Figure

    figure = Figure((_WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    draw(axes)
    axes.grid(color=INK, alpha=0.18, linewidth=0.6)
    axes.set_axisbelow(True)
    return element(figure, prefix, label)


def _mark(axes: Axes, which: Literal["x", "y"], scale: Scale) -> None:
    """The marks of a logarithmic axis; a dotted line keeps the place of 0 apart."""
    ticks = scale.ticks()
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_ticks([at for at, _ in ticks], [text for _, text in ticks])
    (axes.set_xlim if which == "x" else axes.set_ylim)(*scale.limits)
    if scale.zero is not None and scale.positive:
        (axes.axvline if which == "x" else axes.axhline)(scale.low, color=INK, alpha=0.5, linewidth=0.8, linestyle=":")


def _histogram(histograms: dict[int, Histogram], of: str, xlabel: str, prefix: str, label: str) -> str:
    """Steps; the share of zeros is a mark at the place of 0."""
    bins = {k: _coarse(h) for k, h in histograms.items()}
    edges = [2.0 ** (e / BINS) for b in bins.values() for at in b for e in (at, at + 1) if e / BINS < 1024]
    zeros = [0.0] if any(h.zeros for h in histograms.values()) else []
    scale = Scale.of(edges + zeros)
    shares = [100 * n / histograms[k].count for k, b in bins.items() for n in (*b.values(), histograms[k].zeros) if n]
    height = Scale.of(shares)

    def draw(axes: Axes) -> None:
        for place, (k, h) in enumerate(histograms.items()):
            look = Look.of(k)
            x, y = _steps(bins[k], h.count, height)
            if x:
                axes.plot(x, y, color=look.color, linestyle=look.dash, linewidth=1.6, gid=f"data-line{k}")
            if h.zeros and scale.zero is not None:
                beside = scale.zero + 0.012 * (scale.high - scale.low) * (place - (len(histograms) - 1) / 2)
                at = height.at(100 * h.zeros / h.count)
                axes.plot([beside], [at], color=look.color, marker=look.marker, markersize=5, gid=f"data-zeros{k}")
        _mark(axes, "x", scale)
        _mark(axes, "y", height)
        axes.set(xlabel=xlabel, ylabel=f"share of {of} (%)")

    return _panel(draw, prefix, label)


def _coarse(h: Histogram) -> dict[int, int]:
    found: dict[int, int] = {}
    for k, n in sorted(h.bins.items()):
        at = k * BINS // PER_OCTAVE
        found[at] = found.get(at, 0) + n
    return found


def _steps(bins: dict[int, int], count: int, height: Scale) -> tuple[list[float], list[float]]:
    """From the floor to the floor, with a step at each edge of a bin."""
    x: list[float] = []
    y: list[float] = []
    for at in sorted(bins):
        for bin_ in (at, at + 1):
            if bin_ == at or bin_ not in bins:
                x += [bin_ / BINS] * 2
                before, here = bins.get(bin_ - 1, 0), bins.get(bin_, 0)
                y += [height.at(100 * n / count) if n else height.low for n in (before, here)]
    return x, y


def _profile(profile: dict[int, list[float]], scale: Scale, axis: str, prefix: str, label: str) -> str:
    def draw(axes: Axes) -> None:
        for k, rms in profile.items():
            look = Look.of(k)
            places = [part for part, v in enumerate(rms) if not math.isnan(v)]
            if not places:
                continue
            x, y = [100 * part / PARTS for part in places] + [100], [scale.at(rms[part]) for part in places]
            line: Any = {"color": look.color, "linestyle": look.dash, "linewidth": 1.6, "gid": f"data-line{k}"}
            axes.plot(x, [*y, *y[-1:]], drawstyle="steps-post", **line)
        _mark(axes, "y", scale)
        axes.set(xlim=(0, 100), xlabel=f"position along {_short(axis)} (% of its length)", ylabel=f"RMS ({UNIT})")

    return _panel(draw, prefix, label, 2.2)


def _families(families: dict[str, dict[int, float]], prefix: str, label: str) -> str:
    scale = Scale.of(v for rms in families.values() for v in rms.values())

    def draw(axes: Axes) -> None:
        keys = next(iter(families.values())).keys()
        for place, k in enumerate(keys):
            look = Look.of(k)
            beside = 0.6 * ((place + 0.5) / len(keys) - 0.5)
            points = [(scale.at(rms[k]), row + beside) for row, rms in enumerate(families.values())]
            points = [p for p in points if not math.isnan(p[0])]
            x, y = [p[0] for p in points], [p[1] for p in points]
            if points:
                axes.plot(x, y, color=look.color, linestyle="", marker=look.marker, markersize=5, gid=f"data-dots{k}")
        _mark(axes, "x", scale)
        axes.set_yticks(range(len(families)), [_short(f) for f in families])
        axes.set_ylim(len(families) - 0.4, -0.6)
        axes.set_xlabel(f"RMS error ({UNIT})")
        axes.set_ylabel("family of samples")

    return _panel(draw, prefix, label, max(_HEIGHT, 0.9 + 0.34 * len(families)))


def _short(name: str) -> str:
    text = clean(name)
    return text if len(text) <= LETTERS else text[: LETTERS - 1] + "…"

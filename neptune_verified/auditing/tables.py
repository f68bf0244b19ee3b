"""Not trusted: the tables and sentences that all renderings of an audit share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from neptune_verified.auditing.result import KERNEL, AuditResult, Case, OutputInfo, Sample
from neptune_verified.auditing.statistics import Statistics, joined
from neptune_verified.report.model import plural

#: What stands where there is no number.
NOTHING = "–"
#: Rows of the kernel that are listed for each output.
ROWS = 5
#: Counts of elements: field of Statistics, heading, meaning.
COUNTS = (
    ("compared", "compared", "reference and result are finite"),
    ("nan", "NaN", "NaN where the reference has a value"),
    ("inf", "inf", "infinite, and the reference is not that infinity"),
    ("finite", "finite", "a number where the reference is infinite"),
    ("undefined", "undefined", "the definition has no value there, and nothing is claimed"),
    ("infinite", "infinite", "infinite as the reference is"),
    ("unclaimed", "no bound", "no bound follows from the structure"),
    ("above", "above bound", "the error is greater than its bound"),
)


@dataclass(frozen=True)
class Table:
    """Texts in rows; the first of each row names it. ``numbers``: the columns that hold numbers. ``groups``: headings
    above the columns and how many columns each is above. ``failed``: rows to be seen."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: range
    groups: tuple[tuple[str, int], ...] = ()
    failed: frozenset[int] = frozenset()


class View:
    """An audit with its statistics joined by family of samples, and over all; each is computed once."""

    def __init__(self, result: AuditResult) -> None:
        self.result = result
        self.families = tuple(dict.fromkeys(s.family for s in result.samples))
        pairs = [(c, o.name) for c in result.contestants for o in result.outputs]
        self._family = {(f, c, o): joined(_given(result, f, c, o)) for f in self.families for c, o in pairs}
        self._total = {(c, o): joined(self._family[f, c, o] for f in self.families) for c, o in pairs}

    def family(self, family: str, contestant: str, output: str) -> Statistics:
        return self._family[family, contestant, output]

    def total(self, contestant: str, output: str) -> Statistics:
        return self._total[contestant, output]

    @property
    def compared(self) -> bool:
        """Whether the audit says anything of the kernel's errors."""
        return any(
            self.total(KERNEL, o.name).compared for o in self.result.outputs if KERNEL in self.result.contestants
        )

    @property
    def passed(self) -> bool:
        """Whether there were checks, something to check, and nothing failed."""
        return bool(self.result.checks) and self.result.ok and self.compared

    def ran(self, output: OutputInfo) -> Iterator[tuple[int, str, Statistics]]:
        """The contestants that gave this output, with their place in the list of all."""
        for k, c in enumerate(self.result.contestants):
            if self.total(c, output.name).elements:
                yield k, c, self.total(c, output.name)


def _given(result: AuditResult, family: str, contestant: str, output: str) -> Iterator[Statistics]:
    for s in result.samples:
        found = s.statistics.get(contestant, {}).get(output)
        if s.family == family and found is not None:
            yield found


# ------------------------------------------------------------------------------------------- sentences


def clean(text: str) -> str:
    """Without characters that command a terminal, or that XML cannot hold.

    >>> clean("a\\x1b[2Jb")
    'a\\ufffd[2Jb'
    """
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def number(x: float, digits: int = 3) -> str:
    """
    >>> [number(x) for x in (0.0, 1234.5, 12.34, 0.05, 1.5e-7, float("nan"))]
    ['0', '1234', '12.3', '0.05', '1.5e-7', '–']
    """
    if math.isnan(x):
        return NOTHING
    if math.isinf(x) or x == 0:
        return str(x) if x else "0"
    shown = f"{x:.{digits}g}"
    if 0.01 <= abs(x) < 1e5:
        return shown if "e" not in shown else f"{x:.0f}"
    mantissa, _, exponent = f"{x:.{digits - 1}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(exponent)}"


def apart(x: float, limit: float) -> tuple[str, str]:
    """Both with as many digits as it takes to see that they differ.

    >>> apart(8.00012, 8.0)
    ('8.0001', '8')
    """
    for digits in range(3, 18):
        found = number(x, digits), number(limit, digits)
        if found[0] != found[1]:
            break
    return found if x != limit else (number(x), number(limit))


def verdict(view: View) -> str:
    checks = view.result.checks
    failed = sum(not c.ok for c in checks)
    if failed:
        return f"OVER ITS ERROR BUDGET: {failed} of {plural(len(checks), 'check')} failed"
    if not checks:
        return "NO ERROR BUDGET: nothing was checked"
    return "within its error budget" + ("" if view.compared else ", but NO ELEMENT WAS COMPARED")


def subject(result: AuditResult) -> Iterator[tuple[str, str]]:
    """What was audited, and where."""
    yield "program", result.program
    yield "target", result.target
    yield "kernel file", result.file
    yield "definition", result.definition
    yield from result.machine.items()


def searched(result: AuditResult) -> str:
    """How many inputs there were."""
    origins = [s.origin for s in result.samples]
    counts = ", ".join(f"{origins.count(o)} {o}" for o in dict.fromkeys(origins))
    listed = plural(len(origins), "sample") + (f" ({counts})" if counts else "")
    search = (
        f"the search for bad inputs tried {result.searched}" if result.searched else "bad inputs were not searched for"
    )
    return f"{listed}; {search}"


def index_text(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]"


def worst_text(c: Case) -> str:
    bound = f"{of_bound(c)} of its bound {number(c.bound)}" if c.bound is not None else "no bound follows"
    what = f"{c.have:.9g} instead of {c.want:.9g}, error {number(c.error)}, {number(c.ulps)} ulps, {bound}"
    return f"{c.output}{index_text(c.index)} in {c.sample}: {what}"


def of_bound(c: Case) -> str:
    return NOTHING if c.bound is None else apart(c.of_bound, 1.0)[0]


def count_notes(view: View, output: OutputInfo) -> Iterator[str]:
    """What the counts mean, and which there are none of."""
    used = _used(view, output)
    yield from (f"{heading}: {meaning}" for name, heading, meaning in COUNTS[1:] if name in used)
    if none := [heading for name, heading, _ in COUNTS if name not in used]:
        yield f"0 for all: {', '.join(none)}"


# ------------------------------------------------------------------------------------------- tables


def errors(view: View, output: OutputInfo) -> Table:
    """One line for each contestant that gave this output."""
    parts = (("absolute", (50, 90, 99, 100)), ("relative", (90, 99, 100)), ("ulps", (99, 100)))
    heads = [f"p{q}" if q < 100 else "max" for _, qs in parts for q in qs]
    rows = []
    for _, c, s in view.ran(output):
        found = [s.rms, s.relative_rms, *(getattr(s, name).percentile(q) for name, qs in parts for q in qs)]
        largest = s.of_bound.largest if s.of_bound.count else math.nan
        rows.append((c, *map(number, found), apart(largest, 1.0)[0]))
    columns = ("", "RMS", "relative RMS", *heads, "max")
    groups = (("", 3), *((name, len(qs)) for name, qs in parts), ("of bound", 1))
    return Table(columns, tuple(rows), range(1, len(columns)), groups)


def counts(view: View, output: OutputInfo) -> Table:
    """Numbers of elements; a column is left out where it is 0 for all."""
    used = _used(view, output)
    heads = [(name, heading) for name, heading, _ in COUNTS if name in used]
    rows = tuple((c, *(str(getattr(s, name)) for name, _ in heads)) for _, c, s in view.ran(output))
    return Table(("elements", *(heading for _, heading in heads)), rows, range(1, len(heads) + 1))


def _used(view: View, output: OutputInfo) -> set[str]:
    return {name for name, _, _ in COUNTS if any(getattr(s, name) for _, _, s in view.ran(output))}


def checks(result: AuditResult) -> Table:
    rows = []
    for c in result.checks:
        rows.append((c.name, c.output, *apart(c.measured, c.limit), c.unit, "ok" if c.ok else "FAILED", c.sample))
    failed = frozenset(k for k, c in enumerate(result.checks) if not c.ok)
    columns = ("check", "output", "measured", "limit", "unit", "result", "sample")
    return Table(columns, tuple(rows), range(2, 4), failed=failed)


def worst(cases: Iterable[Case]) -> Table:
    rows = []
    for c in cases:
        values = f"{c.have:.9g}", f"{c.want:.9g}", number(c.error), number(c.ulps)
        bound = NOTHING if c.bound is None else number(c.bound)
        rows.append((c.output, c.sample, index_text(c.index), *values, bound, of_bound(c)))
    columns = ("output", "sample", "index", "have", "want", "error", "ulps", "bound", "of bound")
    return Table(columns, tuple(rows), range(3, len(columns)))


def rows_of(result: AuditResult, output: OutputInfo) -> Table:
    """The kernel's rows with the greatest RMS, of all samples."""
    found = [(rms, s.name, row) for s in result.samples for name, row, rms in s.rows if name == output.name]
    found.sort(key=lambda r: (-r[0], r[1], r[2]))
    rows = tuple((index_text(row), sample, number(rms)) for rms, sample, row in found[:ROWS])
    return Table(("row", "sample", "RMS"), rows, range(2, 3))


def families(view: View, output: OutputInfo) -> Table:
    """RMS by family of samples."""
    names = [c for _, c, _ in view.ran(output)]
    rows = tuple((f, *(number(view.family(f, c, output.name).rms) for c in names)) for f in view.families)
    return Table(("RMS", *names), rows, range(1, len(names) + 1))


def samples(view: View, output: OutputInfo) -> Table:
    """Each sample: what it is, RMS of each contestant, the kernel's largest error in ulps and over its bound."""
    names = [c for _, c, _ in view.ran(output)]
    rows = []
    for s in view.result.samples:
        found = {c: s.statistics.get(c, {}).get(output.name, Statistics()) for c in (*names, KERNEL)}
        kernel = found[KERNEL]
        largest = (h.largest if h.count else math.nan for h in (kernel.ulps, kernel.of_bound))
        rms = (number(found[c].rms) for c in names)
        rows.append((s.name, s.origin, s.family, inputs_text(s), *rms, *map(number, largest)))
    columns = ("sample", "origin", "family", "inputs", *names, "max", "max")
    groups = (("", 4), ("RMS", len(names)), ("kernel's ulps", 1), ("kernel's of bound", 1))
    return Table(columns, tuple(rows), range(4, len(columns)), tuple(g for g in groups if g[1]))


def inputs_text(s: Sample) -> str:
    """Shapes, scalars, and what was changed."""
    shapes = [f"{name} {'×'.join(map(str, shape)) or 'scalar'}" for name, shape in s.shapes.items()]
    scalars = [f"{name} = {value:g}" for name, value in s.scalars.items()]
    return "; ".join(filter(None, [", ".join(shapes + scalars), *s.notes]))

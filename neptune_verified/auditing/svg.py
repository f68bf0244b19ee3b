"""Not trusted: figures of matplotlib as SVG elements inside a page.

The same figure gives the same text. Its texts are escaped, are no mathematics, and take the colour of the page's text;
contestants have a colour for light and one for dark, which are variables of the page's style.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What is drawn in this colour takes the colour of the text around the figure.
INK = "#123457"
#: By contestant, on white paper; the page's style has the same ones and those for dark as --series-0 and so on. Okabe and
#: Ito, and Tol: people who do not see red or green tell them apart.
COLORS = ("#0072b2", "#d55e00", "#00855f", "#aa4499", "#6b6b6b")
_DASHES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
_MARKERS = ("o", "s", "^", "D", "v")
_SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "neptune_verified",
    "text.parse_math": False,
    "axes.unicode_minus": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "path.simplify": False,
}
_NAME = re.compile(r"\{[^}]*\}")
_REFERENCE = re.compile(r"(?:url\(#|^#)([^)]+)\)?")
_COLOR = re.compile(r"#[0-9a-f]{6}")


@dataclass(frozen=True)
class Look:
    """How a contestant is drawn. Another colour, another line and another mark for each of the first five; then the lines
    and marks are shifted against the colours."""

    color: str
    dash: str | tuple[int, tuple[float, ...]]
    marker: str

    @staticmethod
    def of(k: int) -> Look:
        n = len(COLORS)
        shifted = (k + k // n) % n
        return Look(COLORS[k % n], _DASHES[shifted], _MARKERS[shifted])


@contextmanager
def settings() -> Iterator[None]:
    """Settings of matplotlib that no file of the user changes, and that are gone afterwards."""
    import matplotlib

    with matplotlib.rc_context(), warnings.catch_warnings():
        # The page's font draws the text, and may have what matplotlib's own font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield


def element(figure: Figure, prefix: str, label: str = "") -> str:
    """The figure as an SVG element; one without a label is an ornament. What was given a gid "data-..." has that as its
    id, with ``prefix`` before it."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None}, transparent=True)
    root = ElementTree.fromstring(out.getvalue())
    used = {m[1] for e in root.iter() for v in e.attrib.values() if (m := _REFERENCE.search(v))}
    for parent in root.iter():
        for child in list(parent):
            if _NAME.sub("", child.tag) in ("metadata", "style"):
                parent.remove(child)
    for e in root.iter():
        e.tag = _NAME.sub("", e.tag)
        e.attrib = {_NAME.sub("", k): v for k, v in e.attrib.items()}
        own = e.attrib.pop("id", "")
        if own in used or own.startswith("data-"):
            e.attrib["id"] = f"{prefix}-{own}"
        for k, v in e.attrib.items():
            if k in ("href", "clip-path"):
                e.attrib[k] = v.replace("#", f"#{prefix}-", 1)
            elif k == "style":
                e.attrib[k] = _COLOR.sub(_variable, v)
    box = root.attrib["viewBox"]
    style = "stroke-linejoin: round; stroke-linecap: butt"
    said = (
        {"class": "plot", "role": "img", "aria-label": label} if label else {"class": "swatch", "aria-hidden": "true"}
    )
    root.attrib = {**said, "viewBox": box, "style": style}
    return ElementTree.tostring(root, encoding="unicode")


def _variable(color: re.Match[str]) -> str:
    if color[0] == INK:
        return "currentColor"
    if color[0] in COLORS:
        return f"var(--series-{COLORS.index(color[0])}, {color[0]})"
    return color[0]

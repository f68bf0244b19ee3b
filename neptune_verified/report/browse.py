"""Not trusted: a report's HTML as a file, and in a browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path

from neptune_verified.report.model import Report


class ReportError(ValueError):
    """A report cannot be shown; the message says the way out."""


def write_html(report: Report, path: Path) -> Path:
    """Write the report to ``path``. Raises OSError where it cannot be written."""
    path.write_text(report.html(), encoding="utf-8")
    return path


def saved_html(report: Report, folder: Path) -> Path:
    """report.html of the folder that ``report`` was read from.

    Raises ReportError if it is missing, or is not the report of what the folder's certificate says: a reviewer signs what
    was proved, not what somebody wrote into a page."""
    path = folder / "report.html"
    way_out = f"write it anew: neptune-verified report {folder} --html {path} --open"
    if not path.is_file():
        raise ReportError(f"{folder} holds no report.html; {way_out}")
    if path.read_bytes() != report.html().encode():
        raise ReportError(f"{path} is not the report of certificate.json; {way_out}")
    return path


def show(path: Path) -> None:
    """Open the file in the default browser. Raises ReportError where there is none."""
    if not webbrowser.open(path.resolve().as_uri()):
        raise ReportError(f"no browser was found; open {path} yourself")

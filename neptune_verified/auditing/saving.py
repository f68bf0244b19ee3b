"""Not trusted: an audit as a folder: audit.json, audit.html, and the inputs with the worst element."""

from __future__ import annotations

import io
import json
from pathlib import Path

from neptune_verified.auditing.result import AuditResult
from neptune_verified.folders import write_folder

#: What an audit's folder may hold; a folder with anything else is not overwritten.
OWN_FILES = {"audit.json", "audit.html", "worst.pt"}


def save(result: AuditResult, folder: Path) -> Path:
    """Write the folder, all or nothing. worst.pt is ``torch.save`` of a dict of tensors, left out where there are none.

    Raises FileExistsError for a folder that holds other files, OSError where it cannot be written."""
    files: dict[str, str | bytes] = {
        "audit.json": json.dumps(result.data(), indent=1, allow_nan=False) + "\n",
        "audit.html": result.html(),
    }
    if result.worst_inputs:
        import torch

        worst = io.BytesIO()
        torch.save(result.worst_inputs, worst)
        files["worst.pt"] = worst.getvalue()
    return write_folder(folder, files, OWN_FILES)

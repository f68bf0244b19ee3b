"""Trusted: JSON for programs and loop programs, and the hash of a program.

The text of a program depends on the program alone: not on the process, on addresses, or on the order in which its
expressions were built. ``X_from_json(X_to_json(x)) == x``, with the very same (interned) expressions; of a source
location the file's base name and the line are kept. A loop program holds its program's hash instead of the program.
Files have LF line ends, and what is hashed is their bytes.

Readers are strict: FormatError, which says where, for whatever is not well formed (``ir.spec``). ``version`` is that
of the semantics, which the hash covers (``SEMANTICS_VERSION``).
"""

from __future__ import annotations

from neptune_verified.ir.jsontext import FormatError
from neptune_verified.ir.loops_json import loops_from_json, loops_to_json
from neptune_verified.ir.program_json import (
    SEMANTICS_VERSION,
    program_from_json,
    program_hash,
    program_to_json,
    sha256,
)

__all__ = [
    "SEMANTICS_VERSION",
    "FormatError",
    "loops_from_json",
    "loops_to_json",
    "program_from_json",
    "program_hash",
    "program_to_json",
    "sha256",
]

"""Not trusted: ``neptune-verified audit``."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neptune_verified.user_files import UsageError

if TYPE_CHECKING:
    from neptune_verified.auditing.result import AuditResult
    from neptune_verified.auditing.run import Progress


@dataclass(frozen=True)
class Options:
    """As they were typed: pairs are NAME=VALUE."""

    subject: str
    inputs: Sequence[Path] = ()
    against: Sequence[str] = ()
    sizes: Sequence[str] = ()
    families: Sequence[str] = ()
    seeds: int = 1
    search: int = 0
    budget: Sequence[str] = ()
    parameters: dict[str, Any] | None = None
    target: str | None = None


def run_audit(options: Options, progress: Progress) -> AuditResult:
    """Compile the definition if one is named, and audit. Raises UsageError and what ``audit`` and ``compile`` raise."""
    from neptune_verified.auditing.run import audit
    from neptune_verified.auditing.subject import subject_of

    parameters = options.parameters or {}
    if options.seeds < 1 or options.search < 0:
        raise UsageError("--seeds is at least 1, --search at least 0")
    path, colon, function = options.subject.rpartition(":")
    if Path(options.subject).is_dir():
        if options.target:
            raise UsageError(f"--target is for FILE.py:FUNCTION; {options.subject} was compiled for one target")
        kernel: Any = Path(options.subject)
        program = subject_of(kernel).program
        definition = _definition_file([str(s.loc.file) for s in program.stages])
        name = program.name
    elif colon and function.isidentifier():
        from neptune_verified.cli import read_definition
        from neptune_verified.pipeline import compile as compile_program

        read, _ = read_definition(options.subject, parameters)
        progress(f"compiling {function}", 0, 0)
        kernel = compile_program(read, options.target)
        definition, name = Path(path), read.name
    else:
        raise UsageError(f"{options.subject} is neither a folder nor FILE.py:FUNCTION")
    peers = _peers(options.against, definition, name, parameters) if options.against else {}
    return audit(
        kernel,
        None if not options.inputs else options.inputs[0] if len(options.inputs) == 1 else list(options.inputs),
        against=peers,
        budget={k: _number("--budget", k, v) for k, v in _pairs("--budget", options.budget)},
        families=[f.strip() for text in options.families for f in text.split(",")] or None,
        sizes={k: _number("--sizes", k, v) for k, v in _pairs("--sizes", options.sizes)},
        seeds=options.seeds,
        search=options.search,
        progress=progress,
    )


def _peers(against: Sequence[str], definition: Path | None, program: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """The peers; where the definition's file needs a package that is not here (TVM, on a machine that only runs kernels),
    those of ``peers.py`` beside it."""
    from neptune_verified.auditing.peers import load_peers

    try:
        return load_peers(against, definition, program, parameters)
    except UsageError as e:
        beside = definition.with_name("peers.py") if definition else None
        if beside is None or not beside.is_file() or not isinstance(_first_cause(e), ModuleNotFoundError):
            raise
        return load_peers(against, beside, program, parameters)


def _first_cause(e: BaseException) -> BaseException:
    while e.__cause__ is not None:
        e = e.__cause__
    return e


def _definition_file(names: Sequence[str]) -> Path | None:
    """The file of this name that a definition was read from: here, or among the examples. A folder keeps no path."""
    known = [n for n in names if n]
    folders = (Path(), Path("examples"), Path(__file__).parents[2] / "examples")
    found = (folder / known[-1] for folder in folders) if known else ()
    return next((path for path in found if path.is_file()), None)


def _pairs(option: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    found = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"{option} takes NAME=VALUE, got {text!r}")
        found.append((name.strip(), value.strip()))
    return found


def _number(option: str, name: str, text: str) -> int | float:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"{option} {name}: a number is wanted, got {text!r}")
    return value

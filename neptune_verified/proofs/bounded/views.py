"""Trusted: a launcher that chooses between kernels, as several that do not: one view for each branch.

``shares, share = _shares(n, programs, waves, block, x, splits, split_size)`` gives any numbers with 1 <= shares and, where
there is more than one share, share a multiple of block and shares <= n <= shares * share. In the view of the rolling update
there is one share; in the others the trial says how many there are.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import replace

from neptune_verified.proofs.bounded.result import Unsupported
from neptune_verified.proofs.bounded.source import KernelFile


def views(file: KernelFile) -> tuple[KernelFile, KernelFile | None]:
    """The file with rolling updates alone, and with every split-K form taken (None if it has none)."""
    assert file.launcher is not None
    choices = [s for s in ast.walk(file.launcher) if isinstance(s, ast.If) and ast.unparse(s.test) == "shares == 1"]
    own = [s for s in file.launcher.body if s in choices]
    if len(own) != len(choices):
        raise Unsupported("a choice between kernels inside another", choices[0].lineno)
    if not own:
        return file, None
    return _view(file, True), _view(file, False)


def _view(file: KernelFile, rolling: bool) -> KernelFile:
    launcher = copy.copy(file.launcher)
    assert launcher is not None
    body: list[ast.stmt] = []
    for s in launcher.body:
        if isinstance(s, ast.If) and ast.unparse(s.test) == "shares == 1":
            body += s.body if rolling else s.orelse
        elif not (rolling and is_shares(s)):
            body.append(s)
    launcher.body = body
    names = {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name)}
    return replace(
        file,
        launcher=launcher,
        kernels={k: v for k, v in file.kernels.items() if k in names},
        tables={k: v for k, v in file.tables.items() if k in names},
    )


def is_shares(s: ast.stmt) -> bool:
    return (
        isinstance(s, ast.Assign)
        and isinstance(s.value, ast.Call)
        and ast.unparse(s.value.func) == "_shares"
        and [ast.unparse(t) for t in s.targets] == ["(shares, share)"]
    )


def cut(file: KernelFile) -> list[tuple[ast.expr, int]]:
    """Each length that is split, and the block that shares are multiples of."""
    assert file.launcher is not None
    found: list[tuple[ast.expr, int]] = []
    for s in file.launcher.body:
        if is_shares(s):
            found.append(shares_of(s))
    return found


def shares_of(s: ast.stmt) -> tuple[ast.expr, int]:
    """The length that ``_shares`` splits, and the block."""
    assert isinstance(s, ast.Assign) and isinstance(s.value, ast.Call)
    match s.value.args:
        case [
            n,
            ast.Name(id="programs"),
            ast.Constant(value=int()),
            ast.Constant(value=int() as block),
            ast.Name(),
            *asked,
        ]:
            if block >= 1 and not s.value.keywords and [ast.unparse(a) for a in asked] == ["splits", "split_size"]:
                return n, block
    raise Unsupported("an axis that is split in another way", s.lineno)

"""Trusted: which paths of the kernels were met, and which of them must have been for a verdict of *proved*.

A loop has to run twice in some program of each configuration, or as often as it can at the lengths that were counted
(``points``); one whose bounds are no scalars, twice in some program; every branch of an ``if`` has to be taken, and a
comparison of floats (which is decided at the sampled points) has to come out both ways. ``== 0`` and one with an infinity
need not: they ask for a dead row or a singular point, which a definition may not have (and the inputs meet, if it has).
Nor need one with a number that the definition itself compares with: inputs of that size are drawn, and may not do.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from neptune_verified.proofs.bounded.points import Needs
from neptune_verified.proofs.bounded.values import Bit

Place = tuple[int, int]


@dataclass(slots=True)
class Coverage:
    """``config``: the configuration that runs."""

    config: str = ""
    loops: dict[tuple[str, int], set[int]] = field(default_factory=dict)
    branches: dict[int, set[bool]] = field(default_factory=dict)
    comparisons: dict[Place, set[bool]] = field(default_factory=dict)

    def loop(self, line: int, iterations: int) -> None:
        self.loops.setdefault((self.config, line), set()).add(min(iterations, 3))

    def branch(self, line: int, taken: bool) -> None:
        self.branches.setdefault(line, set()).add(taken)

    def comparison(self, e: ast.expr, result: Bit) -> None:
        """``result`` of a comparison of floats, in the lanes where it is defined."""
        seen = self.comparisons.setdefault((e.lineno, e.col_offset), set())
        if len(seen) < 2:
            defined = result.a if result.bad is None else result.a[~result.bad]
            seen |= {bool(x) for x in np.unique(defined)}

    def paths(self) -> frozenset[str]:
        found = {f"line {k}: {n if n < 3 else '3 or more'} iterations" for (_, k), v in self.loops.items() for n in v}
        found |= {f"line {k}: {'then' if taken else 'else'}" for k, v in self.branches.items() for taken in v}
        found |= {f"line {k}, column {c}: {str(x).lower()}" for (k, c), v in self.comparisons.items() for x in v}
        return frozenset(found)

    def missing(self, kernels: Mapping[str, ast.FunctionDef], known: frozenset[float], needs: Needs) -> str:
        """A path that was not met, in words; empty if there is none. ``known``: what the definition compares with;
        ``needs``: the iterations that each loop has to run."""
        for (config, line), least in needs.items():
            if max(self.loops.get((config, line), {0})) < least:
                return f"kernel.py:{line}: no program of {config!r} ran the loop {least} times"
        counted = {line for _, line in needs}
        for kernel in kernels.values():
            for node in ast.walk(kernel):
                match node:
                    case ast.For() if node.lineno not in counted:
                        # Its bounds are read from an input, so how often it can run is not counted: a tail runs once.
                        if max(n for (_, at), v in self.loops.items() for n in v | {0} if at == node.lineno) < 1:
                            return f"kernel.py:{node.lineno}: no program ran the loop"
                    case ast.If() if self.branches.get(node.lineno, set()) != {True, False}:
                        return f"kernel.py:{node.lineno}: the condition was never both true and false"
                    case ast.Compare() if not _exempt(node, known):
                        seen = self.comparisons.get((node.lineno, node.col_offset))
                        if seen is not None and len(seen) < 2:
                            return f"kernel.py:{node.lineno}: {ast.unparse(node)} was never both true and false"
        return ""


def _exempt(e: ast.Compare, known: frozenset[float]) -> bool:
    for x in (e.left, *e.comparators):
        match x:
            case ast.Call(func=ast.Name(id="float")):
                return True
            case (
                ast.Constant(value=float() as n) | ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=float() as n))
            ) if n in known:
                return True
            case ast.Constant(value=float() as n) if n == 0 and isinstance(e.ops[0], ast.Eq | ast.NotEq):
                return True
    return False

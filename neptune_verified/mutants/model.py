"""Not trusted: what a wrong transformation is.

Most are another ``LoopProgram`` for the same definition. What a loop program does not spell out (its meaning derives it:
initial values, the operation that joins two tiles, the combine of two splits) is changed in a ``World``: for as long as it
is active, the interpreter runs the changed transformation and the obligation generators speak of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from neptune_verified.ir.expr import REDUCERS, Expr, Reducer
from neptune_verified.ir.interpret import Array, combine_array
from neptune_verified.ir.loops import Carried, LoopProgram, Nest, Pass, repair_of
from neptune_verified.mutants import folded
from neptune_verified.mutants.folded import Combine, Side
from neptune_verified.proofs import join as join_module
from neptune_verified.proofs.obligations import Edge

Operation = Callable[[Array, Array], Array]
_TRUSTED = ("neptune_verified.ir.", "neptune_verified.proofs.")


@dataclass(frozen=True)
class StartsAt(Carried):
    """An accumulator that starts at another value than its reducer's neutral element."""

    start: Expr | None = field(default=None, kw_only=True)

    @property
    def neutral(self) -> Expr:
        assert self.start is not None
        return self.start


@dataclass(frozen=True)
class World:
    """``reducer``: name, entry of REDUCERS and its operation on arrays. ``bare_repair``: this consumer's guards are in its
    term alone. ``combine``: how partial results are joined."""

    reducer: tuple[str, Reducer, Operation] | None = None
    bare_repair: str = ""
    combine: Combine | None = None

    @contextmanager
    def active(self) -> Iterator[None]:
        undo: list[tuple[Any, str, Any]] = []

        def put(original: Any, name: str, value: Any) -> None:
            """Replace ``original`` wherever a trusted module knows it by this name."""
            for module in [m for n, m in sys.modules.items() if n.startswith(_TRUSTED)]:
                if getattr(module, name, None) is original:
                    undo.append((module, name, original))
                    setattr(module, name, value)

        known = dict(REDUCERS)
        try:
            if self.reducer is not None:
                REDUCERS[self.reducer[0]] = self.reducer[1]
                put(combine_array, "combine_array", _combining(self.reducer))
            if self.bare_repair:
                put(repair_of, "repair_of", _bare(self.bare_repair))
            if self.combine is not None:
                undo.append((join_module, "Edge", Edge))
                vars(join_module)["Edge"] = _edge_of(self.combine)
                undo.append((folded, "join", folded.join))
                vars(folded)["join"] = partial(folded.join, combine=self.combine)
            yield
        finally:
            REDUCERS.update(known)
            for module, name, value in reversed(undo):
                setattr(module, name, value)


PLAIN = World()


@dataclass(frozen=True)
class Mutant:
    """``kind`` names the edit, ``what`` the place, ``group`` the part of a transformation that it changes."""

    program: str
    group: str
    kind: str
    what: str
    loops: LoopProgram
    world: World = PLAIN

    @property
    def name(self) -> str:
        return f"{self.program}: {self.kind} ({self.what})" if self.what else f"{self.program}: {self.kind}"


# ------------------------------------------------------------------------------------------------- editing


def edit_carried(loops: LoopProgram, name: str, edit: Callable[[Carried], Carried]) -> LoopProgram:
    """The loop program with one carried value changed."""

    def in_pass(p: Pass) -> Pass:
        return replace(p, carried=tuple(edit(c) if c.name == name else c for c in p.carried))

    return edit_nests(loops, lambda n: replace(n, passes=tuple(map(in_pass, n.passes))))


def put_carried(loops: LoopProgram, name: str, **fields: Any) -> LoopProgram:
    """The loop program with some fields of one carried value changed."""
    return edit_carried(loops, name, lambda c: replace(c, **fields))


def put_nest(loops: LoopProgram, old: Nest, new: Nest) -> LoopProgram:
    return edit_nests(loops, lambda n: new if n is old else n)


def edit_nests(loops: LoopProgram, edit: Callable[[Nest], Nest]) -> LoopProgram:
    return replace(loops, nests=tuple(map(edit, loops.nests)))


# ------------------------------------------------------------------------------------------------- worlds


def _combining(changed: tuple[str, Reducer, Operation]) -> Callable[[str, Array, Array], Array]:
    name, _, operation = changed
    return lambda reducer, a, b: operation(a, b) if reducer == name else combine_array(reducer, a, b)


def _bare(name: str) -> Callable[[Pass, Carried], Expr]:
    def changed(p: Pass, c: Carried) -> Expr:
        if c.name == name and c.repair is not None:
            c = replace(c, repair=replace(c.repair, guards=()))
        return repair_of(p, c)

    return changed


#: Suffixes of (source, target) with which the join law speaks of the partial states a and b, and of the other's suffix.
_SIDES = {
    ("_a", "_ab"): ("a", "_b"),
    ("_b", "_ab"): ("b", "_a"),
    ("", "_new"): ("a", "_new"),
    ("_new", "_new"): ("b", ""),
}


def _edge_of(combine: Combine) -> type[Edge]:
    class Joined(Edge):
        def repair(self, t: Expr, source: str = "", target: str = "_new") -> Expr:
            side, other = _SIDES.get((source, target), ("", ""))
            # Of the statements over ("", "_new") only the one about an empty split speaks of the combine.
            if not side or ((source, target) == ("", "_new") and t is not self.consumer.neutral):
                return super().repair(t, source, target)
            chosen = combine.a if side == "a" else combine.b
            if chosen.how == "keep":
                return t
            if chosen.how == "drop":
                return self.consumer.neutral
            names = {"own": source, "other": other, "joined": target}
            return super().repair(t, names[chosen.source], names[chosen.target])

    return Joined


__all__ = [
    "PLAIN",
    "Combine",
    "Mutant",
    "Side",
    "StartsAt",
    "World",
    "edit_carried",
    "edit_nests",
    "put_carried",
    "put_nest",
]

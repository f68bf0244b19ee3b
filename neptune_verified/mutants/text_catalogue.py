"""Not trusted: wrong edits of all kernel files in a fixed order, and a choice of a few hundred with every kind in it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from neptune_verified.mutants import text_launcher, text_loops, text_memory, text_split, text_state, text_values
from neptune_verified.mutants.text_edit import Edit, Text
from neptune_verified.mutants.text_programs import TEXT_PROGRAMS, text_base

Edits = Callable[[Text], Iterator[Edit]]
#: Where an edit is made -> the functions that make them.
GROUPS: dict[str, tuple[Edits, ...]] = {
    "loop": (text_loops.loop_edits,),
    "grid": (text_loops.grid_edits,),
    "mask": (text_loops.mask_edits,),
    "fill": (text_loops.fill_edits,),
    "start": (text_state.start_edits,),
    "state": (
        text_state.rebind_edits,
        text_state.repair_edits,
        text_state.order_edits,
        text_state.variable_edits,
        text_state.branch_edits,
    ),
    "memory": (text_memory.pointer_edits, text_memory.store_edits),
    "shape": (text_memory.broadcast_edits,),
    "value": (text_values.operator_edits, text_values.function_edits, text_values.constant_edits),
    "product": (text_values.dot_edits,),
    "conversion": (text_values.cast_edits,),
    "launch": (text_launcher.argument_edits, text_launcher.size_edits, text_launcher.result_edits),
    "check": (text_launcher.check_edits,),
    "split": (text_split.cut_edits, text_split.choice_edits, text_split.between_edits, text_split.share_edits),
    "packing": (text_split.packing_edits,),
    "table": (text_launcher.table_edits,),
    "header": (text_launcher.header_edits, text_launcher.module_edits),
}
#: Edits of one kind that the catalogue takes at most (one more of ``CORE``, twice as many of ``OFTEN_ALIKE``); each is of
#: another program where there are enough.
EACH = 2
CORE = frozenset({"loop", "mask", "fill", "start", "state"})
#: Kinds of which many edits are right or no tile program at all: more of them, so that wrong ones are among them.
OFTEN_ALIKE = frozenset({
    "value spread along the wrong dimension", "row index as column index",
    "guard dropped", "guard with another value", "lanes out of range loaded with anything",
    "lanes out of range loaded with another value", "reduction: lanes out of range not filled",
    "reduction: other fill of lanes out of range",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class TextMutant:
    """An edited kernel file. ``why``: wrong for this reason although no small run shows it."""

    name: str
    program: str
    group: str
    kind: str
    line: int
    source: str
    why: str = ""


@lru_cache(maxsize=32)
def text_mutants(program: str) -> tuple[TextMutant, ...]:
    """Every edit of one program's kernel file; those that would have one name are numbered."""
    base = text_base(program)
    text = Text(base.source)
    taken: Counter[str] = Counter()
    texts = {base.source}
    found = []
    for group, makers in GROUPS.items():
        for edit in (e for make in makers for e in make(text)):
            source = edit.apply(base.source)
            if source in texts:
                continue
            texts.add(source)
            name = f"{program}/{slug(edit.kind)}/line{edit.line}"
            taken[name] += 1
            name += f".{taken[name]}" if taken[name] > 1 else ""
            found.append(TextMutant(name, program, group, edit.kind, edit.line, source, edit.why))
    return tuple(found)


def text_catalogue(programs: Iterable[str] = tuple(TEXT_PROGRAMS), each: int | None = EACH) -> list[TextMutant]:
    """Of every kind ``each`` edits (None: all), spread over the programs and over the places in each."""
    every = {p: text_mutants(p) for p in programs}
    kinds: dict[str, dict[str, list[TextMutant]]] = {}
    for p, found in every.items():
        for m in found:
            kinds.setdefault(m.kind, {}).setdefault(p, []).append(m)
    if each is None:
        return [m for found in every.values() for m in found]
    chosen: set[str] = set()
    for number, (kind, by_program) in enumerate(sorted(kinds.items())):
        owners = sorted(by_program)
        owners = owners[number % len(owners) :] + owners[: number % len(owners)]
        picked: list[str] = []
        for turn in range(max(map(len, by_program.values()))):
            for p in owners:
                places = by_program[p]
                if turn < len(places):
                    picked.append(places[(turn + number) % len(places)].name)
        group = next(iter(by_program.values()))[0].group
        most = 2 * each if kind in OFTEN_ALIKE else each + (group in CORE)
        chosen |= set(picked[:most])
    return [m for found in every.values() for m in found if m.name in chosen]


def slug(kind: str) -> str:
    """A kind as part of a name."""
    for sign, word in (("//", "floordiv"), ("%", "mod"), (" + ", " plus "), (" - ", " minus ")):
        kind = kind.replace(sign, word)
    return re.sub(r"\W+", "_", kind).strip("_")

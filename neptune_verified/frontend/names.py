"""Trusted: names of inputs, sizes, stages and axes: the user's where possible, unique, and valid identifiers."""

from __future__ import annotations

import keyword
import re

#: Bound axes of reductions are called r<height>_<k>; a stage's own axis of that name would be captured.
_BOUND = re.compile(r"r\d+_\d+")
#: Names that an emitted kernel file uses itself.
EMITTED = frozenset(
    {"torch", "triton", "tl", "ShapeError", "ENTRY", "TARGET", "out", "config", "blocks", "options", "programs"}
    | {"float", "range", "tuple", "len", "zip", "next"}
)

_EMITTED = re.compile(r"_\w*|stride_\w+_\d+|BLOCK_\w+|\w+_ptr|programs|pid")


def identifier(name: str, fallback: str) -> str:
    """``name`` made into an identifier that is no keyword.

    >>> identifier("my.conv 1", "t"), identifier("lambda", "t"), identifier("2x", "t")
    ('my_conv_1', 'lambda_', '_2x')
    """
    text = re.sub(r"\W", "_", name, flags=re.ASCII) or fallback
    if text[0].isdigit():
        text = "_" + text
    return text + "_" if keyword.iskeyword(text) else text


class Names:
    """Names given so far. ``notes`` lists every renaming."""

    def __init__(self) -> None:
        self.taken: set[str] = set(EMITTED)
        self.axes: set[str] = set()
        self.notes: list[str] = []

    def give(self, wanted: str, what: str) -> str:
        """A fresh name for an input, a size or a stage (``what`` says which, for the note)."""
        text = identifier(wanted, what)
        text = text + "_" if _EMITTED.fullmatch(text) else text
        name = self._fresh(text, self.taken | self.axes if what == "size" else self.taken)
        self.taken.add(name)
        if name != wanted:
            self.notes.append(f"{what} {wanted!r} is called {name}")
        return name

    def give_axes(self, wanted: list[str], sizes: set[str]) -> list[str]:
        """Names of one stage's axes: unique in the stage, and different from every size."""
        used = set(sizes)
        out = []
        for k, name in enumerate(wanted):
            text = identifier(name, f"i{k}")
            out.append(self._fresh(text + "_" if _BOUND.fullmatch(text) else text, used))
            used.add(out[-1])
        self.axes.update(out)
        return out

    @staticmethod
    def _fresh(name: str, used: set[str]) -> str:
        candidate, k = name, 0
        while candidate in used:
            k += 1
            candidate = f"{name}_{k}"
        return candidate

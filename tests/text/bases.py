"""Small programs with their kernel files, and how a changed file is judged."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from tvm import te, tirx

from neptune_verified.ir.loops import LoopProgram
from neptune_verified.mutants.text_programs import TEXT_PROGRAMS, text_base
from neptune_verified.proofs.text import TextProof, TextRefused, read_back
from tests.accepted.harness import F32, Graph, build
from tests.accepted.test_accepted import CASES, built

TARGET = "interpret"


@dataclass(frozen=True)
class Base:
    loops: LoopProgram
    source: str

    def kernel(self) -> str:
        return self.source[self.source.index("@triton.jit") : self.source.index("#: Argument types")]


def doubled() -> Graph:
    """No reduction, no loop: p = 2 x."""
    g = Graph()
    x = g.input("x")
    return g.returns(g.map("p", lambda i, j: x[i, j] * 2.0))


def truncated() -> Graph:
    """Floats to integers."""
    g = Graph()
    x = g.input("x")
    return g.returns(g.map("k", lambda i, j: x[i, j].astype("int32")))


def halves() -> Graph:
    """16-bit sums of 16-bit products, and one that is rounded."""
    g = Graph()
    x, y = g.input("x", dtype="float16"), g.input("y", dtype="float16")
    s = g.row("s", te.sum, lambda i, j: x[i, j].astype(F32) * y[i, j].astype(F32))
    return g.returns(s, g.map("z", lambda i, j: x[i, j] + y[i, j]))


def tripled_rows() -> Graph:
    """A mask with 3 i: the product may leave 32 bits."""
    g = Graph()
    x = g.input("x")
    j = te.reduce_axis((0, g.N), "j")
    term = lambda i: tirx.if_then_else(j.var.astype("int64") < i.astype("int64") * 3, x[i, j], 0.0)  # noqa: E731
    return g.returns(te.compute((g.M,), lambda i: te.sum(term(i), axis=j), "s"))


def elements() -> Graph:
    """A length that is called as the reader's own number might be."""
    g = Graph(N=te.var("element"))
    x = g.input("x")
    return g.returns(g.map("p", lambda i, j: x[i, j] * 2.0))


def chosen() -> Graph:
    """What is compared is chosen by a comparison, which may be compared with the one around it, and so on."""
    g = Graph()
    x, y = g.input("x"), g.input("y")
    z = lambda i, j: tirx.if_then_else(y[i, j] > 0.0, x[i, j], x[i, j] * 0.25)  # noqa: E731
    t = lambda i, j, other: tirx.if_then_else(z(i, j) > z(i, j) * 0.5, z(i, j), other)  # noqa: E731
    return g.returns(g.map("p", lambda i, j: te.exp(t(i, j, 2.0) - t(i, j, 3.0))))


OWN: dict[str, Callable[[], Graph]] = {
    f.__name__: f for f in (doubled, truncated, halves, tripled_rows, elements, chosen)
}


@cache
def base(name: str) -> Base:
    """A program of this module, of the edited files (small tiles), or of the accepted programs."""
    b: Any
    if name in OWN:
        b = build(OWN[name](), name)
    else:
        b = text_base(name) if name in TEXT_PROGRAMS else built(name)
        assert name in TEXT_PROGRAMS or name in CASES
    return Base(b.loops, b.source)


@dataclass(frozen=True)
class Edit:
    """``old`` (a regular expression) becomes ``new`` at its occurrence number ``at``; refused for ``id`` and ``why``."""

    program: str
    old: str
    new: str
    id: str = ""
    why: str = ""
    at: int = 0

    def __str__(self) -> str:
        return f"{self.program}: {self.old} -> {self.new}"[:90].replace("\n", " ")

    def source(self) -> str:
        return change(base(self.program).source, self.old, self.new, self.at)


def change(source: str, old: str, new: str, at: int = 0) -> str:
    found = list(re.finditer(old, source))
    assert len(found) > at, f"nothing to edit: {old}"
    m = found[at]
    result = source[: m.start()] + m.expand(new) + source[m.end() :]
    assert result != source
    return result


def prove(name: str, source: str | None = None) -> TextProof:
    b = base(name)
    return read_back(b.loops, b.source if source is None else source, TARGET)


def refusal(name: str, source: str) -> tuple[str, str]:
    """Obligation and reason; ("", "") where it is accepted."""
    try:
        prove(name, source)
    except TextRefused as e:
        assert e.findings and str(e)
        return e.findings[0].id, e.findings[0].what
    return "", ""


def check(edit: Edit) -> None:
    id_, what = refusal(edit.program, edit.source())
    assert id_, "accepted"
    assert (id_, edit.why in what) == (edit.id, True), f"{id_}: {what}"

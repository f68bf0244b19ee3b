"""Long chains of reductions: what is known of the last one is found once per link, and their repairs are bounded."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tvm import te

import neptune_verified as nv
from neptune_verified.fusion import passes
from neptune_verified.fusion.fuse import fuse
from neptune_verified.ir.expr import Reduce
from neptune_verified.ir.inline import inline
from neptune_verified.ir.kinds import EXTENDED, FINITE, NINF, KindAnalysis
from neptune_verified.ir.program import Program
from neptune_verified.proofs import falsify
from neptune_verified.proofs.kernel import verify
from tests.proofs.claims import FALSE, TRUE


def _link(x: te.Tensor, before: te.Tensor | None, k: int) -> te.Tensor:
    j = te.reduce_axis((0, x.shape[1]), f"j{k}")

    def term(i: object) -> object:
        return te.max(x[i, j] if before is None else x[i, j] - before[i], axis=j)

    return te.compute((x.shape[0],), term, f"m{k}")


def chain(n: int) -> Program:
    """n maxima, each of terms less the one before."""
    rows, length = te.var("M"), te.var("N")
    xs = [te.placeholder((rows, length), "float32", f"x{k}") for k in range(n)]
    last = None
    for k, x in enumerate(xs):
        last = _link(x, last, k)
    return nv.Program.from_te(xs, [last], name="chain")


def test_kinds_of_a_long_chain() -> None:
    """The cases of a chain double with every link; at this length they could not be counted."""
    program = chain(40)
    (_, expr) = inline(program).outputs["m39"]
    assert isinstance(expr, Reduce)
    assert KindAnalysis(program).of(expr) - {"undefined"} <= EXTENDED
    whole = KindAnalysis(program).under({a.extent: frozenset({"pos"}) for a in expr.axes})
    assert whole.of(expr) == FINITE, "over elements that are finite, at least one of them, nothing else can come out"
    assert NINF in KindAnalysis(program).of(expr), "of an empty row it is -inf"


def test_a_chain_is_cut_where_a_repair_would_read_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fuse(chain(4)).passes == 1
    monkeypatch.setattr(passes, "MOST_PRODUCERS", 2)
    loops = fuse(chain(4))
    assert loops.passes == 2
    assert [(r.consumer, r.producers, r.reason) for r in loops.refusals] == [
        ("m3", ("m0", "m1", "m2"), "a repair over more than 2 running values is not tried")
    ]
    verify(loops)


def test_only_what_is_read_is_guarded() -> None:
    (nest,) = fuse(chain(4)).nests
    guarded = {c.name: [g.producer for g in c.repair.guards] for c in nest.carried() if c.repair}
    assert guarded == {"m1": ["m0"], "m2": ["m1"], "m3": ["m2"]}


def test_words_do_not_make_another_search() -> None:
    statement = TRUE["O1 guarded"]
    other = replace(statement, symbols=tuple(replace(s, meaning=f"not {s.meaning}") for s in statement.symbols))
    assert other != statement and falsify.survey(other) is falsify.survey(statement)
    assert all(falsify.survey(s) is falsify.survey(s.wordless()) for s in FALSE.values())

"""Faults that fused reduction kernels have shipped with, as far as the algebra of reductions can have them.

Each kind has its right values, in tiles and in every number of splits, and a wrong transformation of that kind that is
refused. The numbers are those of the project's list of cases; kinds of padding, tiles and addresses are tested with kernels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray

from neptune_verified.fusion.fuse import fuse
from neptune_verified.ir.expr import read, reduce_, var
from neptune_verified.ir.interpret import run_program
from neptune_verified.ir.loops import Carried, LoopProgram, run_loops
from neptune_verified.ir.program import Program
from neptune_verified.ir.split import run_split
from neptune_verified.mutants.catalogue import base, mutants_of
from neptune_verified.mutants.judge import KILLED, Judgement, judge
from neptune_verified.mutants.model import Mutant, edit_carried
from neptune_verified.mutants.programs import COLUMN, ROW, F, Rows, add, div, exp, mul, num, op, sub
from neptune_verified.mutants.repairs import starting
from neptune_verified.mutants.shapes import everywhere
from neptune_verified.proofs import ranges
from neptune_verified.proofs.kernel import Refused, verify

Array = NDArray[np.float64]
INF = math.inf


@lru_cache(maxsize=8)
def loops_of(program: Program) -> LoopProgram:
    loops = fuse(program)
    verify(loops)
    return loops


def every_way(loops: LoopProgram, inputs: Mapping[str, Array], wanted: Mapping[str, object]) -> None:
    """In tiles of every size and in every number of splits, up to more splits than there are elements."""
    length = max((a.shape[-1] for a in inputs.values() if a.ndim == 2), default=1)
    runs = {f"tiles of {k}": run_loops(loops, inputs, tile=k) for k in (1, 2, 3, 128)}
    runs |= {f"{k} splits": run_split(loops, inputs, k, tile=2) for k in range(1, length + 4)}
    for how, got in runs.items():
        for name, value in wanted.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-12, err_msg=f"{name}, {how}")


@lru_cache(maxsize=4)
def catalogue(program: str) -> dict[str, Mutant]:
    return {m.name: m for m in mutants_of(program)}


def refused(name: str) -> Judgement:
    """The judgement of a wrong transformation of the catalogue."""
    program = name.split(":")[0]
    found = judge(catalogue(program)[name], base(program))
    assert found.status == KILLED, (found.refused, found.unsure, found.difference)
    return found


def masked(logits: list[list[float]], live: list[int], v: list[float]) -> dict[str, Array]:
    """Rows of logits, how many of each are live, and what is averaged."""
    return {"x": np.array(logits, dtype=float), "len": np.array(live), "v": np.array(v, dtype=float)}


MASKED_MEAN = base("masked_mean").loops

# ------------------------------------------------------------------------------------------- 1: two empty partial results


def test_1_empty_partial_results_are_neutral() -> None:
    """A row without a live key, merged over and over: 0 and -inf; and one live key between empty splits."""
    x = [[3.0, 1.0, 2.0, 5.0]] * 3
    every_way(MASKED_MEAN, masked(x, [0, 1, 4], [7.0] * 4), {
        "o": [0.0, 7.0, 7.0],
        "lse": [-INF, 3.0, math.log(sum(map(math.exp, x[0])))],
    })  # fmt: skip


def test_1_a_merge_that_is_undefined_for_two_empty_results_is_refused() -> None:
    """Without the guard exp(-inf - (-inf)) is undefined. O6 sees it in h, O15 in the merge with an empty partial result."""
    found = refused("masked_mean: guard dropped (o over m, m)")
    assert {"O6", "O15"} <= found.refused.keys()


@pytest.mark.parametrize("kind", ["their mean", "one added each time", "the left one kept"])
def test_1_a_merge_that_is_no_monoid_is_refused(kind: str) -> None:
    assert "O5" in refused(f"logsumexp: two partial results: {kind} (sum)").refused


# ------------------------------------------------------------------------------------------- 2: a stand-in for -inf


@pytest.mark.parametrize("logit", [-524288.0, -1e5, -1e30, -3e38])
def test_2_very_negative_logits_have_weight_1(logit: float) -> None:
    every_way(MASKED_MEAN, masked([[logit]], [1], [1.0]), {"o": [1.0], "lse": [logit]})
    every_way(MASKED_MEAN, masked([[logit] * 4], [4], [1.0] * 4), {"o": [1.0], "lse": [logit + math.log(4)]})


def test_2_a_running_maximum_that_starts_at_a_finite_number_is_refused() -> None:
    """O5 catches it, because the initial value is not neutral for max; O4 and O6, which the list names, speak of the
    consumers, for which any state of the maximum is as good as another."""
    found = refused("masked_mean: accumulator starts at a finite stand-in (m)")
    assert "O5" in found.refused


def test_2_a_finite_mask_is_refused() -> None:
    """-65504 for -inf under the maximum alone: h and the term then speak of different maxima, O1."""
    assert "O1" in refused("masked_mean: producer with a finite mask (m)").refused


# ------------------------------------------------------------------------------------------- 3: splits that own nothing


def test_3_a_window_over_more_splits_than_it_has_keys() -> None:
    """5 keys in 4 splits of ceil(5 / 4) = 2: the fourth is empty. Every number of splits gives what one gives."""
    x, v = [0.5, -1.0, 2.0, 0.0, 1.5], [1.0, 2.0, 3.0, 4.0, 5.0]
    inputs = masked([x], [5], v)
    one = run_split(MASKED_MEAN, inputs, 1)
    weights = np.exp(np.array(x) - max(x))
    assert one["o"] == pytest.approx(weights @ v / weights.sum())
    every_way(MASKED_MEAN, inputs, one)


@pytest.mark.parametrize("side", ["left", "right"])
def test_3_a_merge_that_loses_a_side_is_refused(side: str) -> None:
    """O15: its statement about an empty partial result, and the join law. (The list names O5 and O8: O5 is about the
    reducer alone, and that each element enters once is what the join law says of a merge.)"""
    assert "O15" in refused(f"logsumexp: combine: {side} side dropped").refused


def test_3_scratch_memory_as_the_empty_split_is_refused() -> None:
    """A split that owns nothing and holds 1: O5, neutral. (Sums over a maximum that starts at -inf forget what they held,
    because their first repair multiplies it with exp(-inf) = 0; the maximum itself does not.)"""
    assert "O5" in refused("masked_mean: accumulator starts at 1 (m)").refused
    assert "O5" in refused("rms_amax: accumulator starts at 1 (ss)").refused


# ------------------------------------------------------------------------------------------- 8: soft-cap


def capped() -> Program:
    """50 tanh(x / 50), its softmax-weighted mean, and the capped maximum."""
    p = Rows("capped")
    x, v = p.input("x"), p.input("v", (COLUMN,))
    s = p.map("s", mul(num(50), op("tanh", div(x, num(50)))))
    m = p.row("m", "max", s)
    e = p.map("e", exp(sub(s, m)))
    p.row("l", "sum", e)
    p.row("a", "sum", mul(e, v))
    return p.build("s", "m", "l", "a")


LOGITS = [5000.0, 4400.0, -10000.0]


def test_8_soft_cap_of_large_logits() -> None:
    inputs = {"x": np.array([LOGITS]), "v": np.ones(3)}
    total = 2 + math.exp(-100)
    every_way(loops_of(capped()), inputs, {"s": [[50.0, 50.0, -50.0]], "m": [50.0], "l": [total], "a": [total]})


def test_8_tanh_as_a_ratio_of_exponentials_is_another_definition() -> None:
    """(e^2y - 1) / (e^2y + 1) overflows where tanh does not. As a loop program it is refused by the structure."""
    loops = loops_of(capped())
    p = ratio_of_exponentials()
    got = run_program(p, {"x": np.array([LOGITS]) * 10})["s"]
    assert np.isnan(got[0, 0]), "in float64 too, for logits ten times as large"
    with pytest.raises(Refused, match="is not its definition"):
        verify(replace(fuse(p), program=replace(loops.program, outputs=("s",))))


def ratio_of_exponentials() -> Program:
    p = Rows("capped")
    x = p.input("x")
    e = exp(mul(num(2), div(x, num(50))))
    p.map("s", mul(num(50), div(sub(e, num(1)), add(e, num(1)))))
    return p.build("s")


def test_8_o7_refuses_an_identity_that_overflows() -> None:
    """exp(m) / exp(m') is exp(m - m') over the reals: for logits of 100 it is inf / inf in float32, for -200 0 / 0."""
    loops = base("logsumexp").loops
    t, m, m_new = (var(n, F) for n in ("t", "m", "m_new"))

    def as_quotient(c: Carried) -> Carried:
        assert c.repair is not None
        return replace(c, repair=replace(c.repair, h=mul(t, div(exp(m), exp(m_new)))))

    wrong = edit_carried(loops, "l", as_quotient)
    x = np.array([[1.0, 100.0, 100.0]])
    assert run_loops(wrong, {"x": x}, tile=1)["lse"] == pytest.approx(100 + math.log(2), rel=1e-9)
    with pytest.raises(Refused) as refused:
        verify(wrong)
    assert {p.obligation.id for p in refused.value.failed} == {"O7.argument", "O7.divisor"}


# ------------------------------------------------------------------------------------------- 9: narrow accumulators


def sums(dtype: str) -> Program:
    """The sum in float32, and that of the squares, of elements of type ``dtype``."""
    p = Rows("sums")
    x = op("cast", p.input("x", (ROW, COLUMN), dtype), dtype=F)
    p.row("total", "sum", x)
    p.row("squares", "sum", mul(x, x))
    return p.build("total", "squares")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_9_many_elements_of_a_narrow_type(dtype: str) -> None:
    ones = np.ones((1, 4096))
    loops = loops_of(sums(dtype))
    for got in (run_loops(loops, {"x": ones}, tile=64), run_split(loops, {"x": ones}, 3, tile=64)):
        assert got["total"] == [4096.0]
    large = np.full((1, 20), 256.0)
    every_way(loops, {"x": large}, {"squares": [65536.0 * 20]})


def test_9_o7_bounds_what_an_accumulator_of_a_narrow_type_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """A repaired sum of up to 2^31 float16 weights <= 1 fits the float32 in which it is accumulated, not a float16."""
    p = Rows("narrow")
    x = p.input("x", (ROW, COLUMN), "float16")
    p.row("l", "sum", exp(sub(x, p.row("m", "max", x))))
    loops = fuse(p.build("l"))
    assert loops.passes == 1
    verify(loops)
    ranges._ranges.cache_clear()
    monkeypatch.setattr(ranges, "wide", lambda dtype: dtype)
    with pytest.raises(Refused) as refused:
        verify(loops)
    ranges._ranges.cache_clear()
    assert {p.obligation.id for p in refused.value.failed} == {"O7.accumulator"}


# ------------------------------------------------------------------------------------------- 15: empty domains


def test_15_no_rows_and_no_keys() -> None:
    every_way(MASKED_MEAN, {"x": np.zeros((0, 3)), "len": np.zeros(0, int), "v": np.ones(3)}, {"o": [], "lse": []})
    every_way(
        MASKED_MEAN,
        {"x": np.zeros((2, 0)), "len": np.zeros(2, int), "v": np.ones(0)},
        {"o": [0.0] * 2, "lse": [-INF] * 2},
    )
    q, none = np.ones((3, 2)), np.zeros((0, 2))
    every_way(base("attention").loops, {"q": q, "k": none, "v": none}, {"o": np.zeros((3, 2))})
    every_way(base("attention").loops, {"q": none, "k": q, "v": q}, {"o": np.zeros((0, 2))})


CHAINS = ["logsumexp", "rms_amax", "min_shift", "range_below", "log_add", "powers"]


@pytest.mark.parametrize("program", CHAINS)
def test_15_other_chains_over_nothing(program: str) -> None:
    loops = base(program).loops
    inputs = {t.name: np.ones((2, 0)) if len(t.shape) == 2 else np.ones(0) for t in loops.program.inputs}
    wanted = run_program(loops.program, inputs)
    assert not any(np.isnan(x).any() for x in wanted.values())
    every_way(loops, inputs, wanted)


def test_15_a_division_by_an_empty_sum_is_refused() -> None:
    """The sum over no keys is 0 and so is the left side; o / l without a guard is 0 / 0. O4 of the hoist: its template
    must be neutral for neutral sums. (The list names O6, which is about repairs.)"""
    found = refused("attention: guard dropped (o)")
    assert "O4" in found.refused
    assert "length 0" in found.difference


# ------------------------------------------------------------------------------------------- 17: a term that enters once


def test_17_a_sink_enters_exactly_once() -> None:
    inputs = {"x": np.zeros((1, 4)), "b": np.array([2.125]), "v": np.ones(4)}
    every_way(base("sink").loops, inputs, {"y": [4 / (4 + math.exp(2.125))]})
    assert 4 / (4 + math.exp(2.125)) == pytest.approx(0.323, abs=5e-4)


def test_17_a_sink_in_every_term_is_refused() -> None:
    """sum (exp(x - m) + exp(b - m)): it enters once for each element. That is another definition, by the structure. (O8,
    which the list names, is about elements; and a sum that starts at the sink is refused by O5.)"""
    b = base("sink")
    l = next(c.value for n in b.loops.nests for c in n.carried() if c.name == "l")  # noqa: E741
    m = next(c.value for n in b.loops.nests for c in n.carried() if c.name == "m")
    twice = reduce_("sum", l.axes, add(l.body, exp(sub(read("b", (ROW,), F), m))))
    found = judge(Mutant("sink", "term", "sink in every term", "l", everywhere(b.loops, {l: twice})), b)
    assert found.status == KILLED
    assert "structure" in found.refused


def test_17_a_sum_that_starts_at_the_sink_is_refused() -> None:
    b = base("sink")
    start = num(math.exp(2.125))
    found = judge(Mutant("sink", "start", "sink", "l", edit_carried(b.loops, "l", starting(start))), b)
    assert {"O4", "O5", "O15"} <= found.refused.keys()


def test_17_a_sink_that_is_left_out_is_refused() -> None:
    """o / (l + exp(b - m)) read as another quotient: the output is not the definition's."""
    assert "structure" in refused("sink: quotient turned over (y)").refused
    assert "structure" in refused("sink: another result read (y: o for l)").refused

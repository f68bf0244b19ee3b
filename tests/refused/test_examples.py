"""Every refused fusion comes with a small run in which it computes a wrong value: run again here, from the text that
people read, by a loop that shares nothing with the compiler."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from neptune_verified.fusion.fuse import fuse
from neptune_verified.ir.example import Example, Scalar, example_text
from neptune_verified.ir.loops import Refusal
from neptune_verified.report.lines import NO_EXAMPLE, OUT_OF_RANGE, example_line
from tests.accepted.harness import PROVER, Array, from_te
from tests.accepted.programs import top, total
from tests.refused import replay
from tests.refused.fusions import FUSIONS, sq

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

RIGHT = "right for a running max, which its own obligation O2 does not know: the last one decides the sign"
RANGE = "right over the reals: it would overflow"
NO_UPDATE = "no update could be stated, so there is none to run"
#: Refused fusions without an example, and why.
NONE = {
    "max_times_a_max": RIGHT,
    "max_over_a_max": RIGHT,
    "running_value_as_an_index": NO_UPDATE,
    "running_value_inside_a_nested_reduction": NO_UPDATE,
    **{name: RANGE for name, case in FUSIONS.items() if case.obligation.startswith("O7")},
}
#: The least length of a row with which it goes wrong, where that is not two.
LENGTHS = {
    "factor_that_may_be_zero": 1,
    **dict.fromkeys(
        (
            "softplus", "offset_needs_a_count", "logarithm", "reciprocal", "max_over_a_sum", "product_of_shifted",
            "temperature_by_a_producer",
        ),
        3,
    ),
}  # fmt: skip

State = Callable[[int], tuple[Any, ...]]
Term = Callable[..., Any]


@cache
def refusals(name: str) -> tuple[Refusal, ...]:
    g = FUSIONS[name].graph()
    return fuse(from_te(g.inputs, g.outputs, name, g.facts), PROVER).refusals


def example(name: str, which: int = -1) -> Example:
    found = refusals(name)[which].example
    assert found is not None
    return found


def number(x: Scalar) -> float:
    return math.nan if x == "undefined" else float(x)


# ------------------------------------------------------------------------------------------- the loop


def row(name: str, i: int, rows: tuple[Array, ...]) -> tuple[State, Term]:
    """The producers' values after n elements of row i, and the reduced term of the elements and of these."""
    x, N, case = rows[0], len(rows[0]), FUSIONS[name]
    m = top(x)
    softplus = np.log(1 + np.exp(x - m))
    special: dict[str, tuple[State, Term]] = {
        "max_over_other_elements": (
            lambda n: (top(np.where(np.arange(n) % 3 == i % 3, x[:n], -np.inf)),),
            lambda v, m: np.exp(v - m),
        ),
        "factor_that_may_be_zero": (lambda n: (total(np.abs(rows[1][:n])),), lambda v, _, m: v * m),
        "temperature_by_a_producer": (
            lambda n: (top(x[:n]), total(np.abs(x[:n]))),
            lambda v, m, n: np.exp((v - m) / (n + 1)),
        ),
        "variance": (lambda n: (total(x[:n]),), lambda v, a: sq(v - a / N)),
        "three_passes": (lambda n: (total(softplus[:n]),), lambda v, a: np.tanh(v - a)),
        "one_consumer_of_two": (lambda n: (top(x[:n]),), lambda v, m: np.abs(v - m)),
    }
    if name in special:
        return special[name]
    running, term = case.running, case.term
    assert running is not None and term is not None
    return lambda n: (running(x[:n]),), term


NEUTRAL: dict[Any, float] = {np.add: 0.0, np.maximum: -math.inf, np.minimum: math.inf, np.multiply: 1.0}


def held(conditions: tuple[str, ...], state: dict[str, float]) -> bool:
    def holds(text: str) -> bool:
        name, _, points = text.partition(" is ")
        at = {"infinite": math.isinf(state[name]), "zero": state[name] == 0}
        return any(at[p] for p in points.split(" or "))

    return any(map(holds, conditions))


def loop(name: str, i: int, rows: tuple[Array, ...], conditions: tuple[str, ...], refusal: Refusal) -> Iterator[float]:
    """The accumulator after the last element, for each reading of the text (it does not show every guard)."""
    case, (state, term), N = FUSIONS[name], row(name, i, rows), len(rows[0])
    combine, names = case.combine, refusal.producers
    for (h, guard), keep in itertools.product(replay.candidates(refusal), (False, True)):
        t = neutral = NEUTRAL[combine]
        for j in range(N):
            old = dict(zip(names, map(float, state(j)), strict=True))
            new = dict(zip(names, map(float, state(j + 1)), strict=True))
            values = {**old, **{f"{k}_new": v for k, v in new.items()}, "N": float(N), "t": t}
            stays = held(conditions, old) or (keep and t == neutral)
            local = float(term(*(r[j] for r in rows), *(guard(k, v) for k, v in new.items())))
            t = float(combine(t if stays else h(values), local))
        yield t


def definition(name: str, i: int, rows: tuple[Array, ...]) -> float:
    state, term = row(name, i, rows)
    t = NEUTRAL[FUSIONS[name].combine]
    for j in range(len(rows[0])):
        t = float(FUSIONS[name].combine(t, term(*(r[j] for r in rows), *state(len(rows[0])))))
    return t


# ------------------------------------------------------------------------------------------- tests


@pytest.mark.parametrize("name", [n for n in FUSIONS if n not in NONE])
def test_the_example_goes_wrong_as_it_says(name: str) -> None:
    e, r = example(name), refusals(name)[-1]
    assert (e.what, e.tile, r.consumer) == (FUSIONS[name].consumer, 1, FUSIONS[name].consumer)
    (i,) = e.index
    arrays = {k: np.array(v, dtype=np.float64) for k, v in e.inputs}
    rows = tuple(a[i] for a in arrays.values())
    assert replay.same(definition(name, i, rows), number(e.before))
    reference = FUSIONS[name].reference(**arrays)
    if name != "variance":  # its output is v / N
        assert replay.same(float(reference[-1][i]), number(e.before))
    got = list(loop(name, i, rows, e.held, r))
    assert any(replay.same(t, number(e.after)) for t in got), (got, e)
    assert not math.isnan(number(e.before)) and not replay.same(number(e.after), number(e.before))


@pytest.mark.parametrize("name", [n for n in FUSIONS if n not in NONE])
def test_the_example_is_small(name: str) -> None:
    e = example(name)
    lengths = dict(e.lengths)
    assert lengths["N"] == LENGTHS.get(name, 2)
    assert lengths["M"] == (2 if name == "max_over_other_elements" else 1)
    values = [abs(float(x)) for _, v in e.inputs for x in np.array(v).flat]
    assert max(values) <= 2 and sum(x != 0 for x in values) <= lengths["N"]
    assert math.isfinite(number(e.before))


def test_the_producer_of_a_later_pass_has_one_too() -> None:
    e = example("three_passes", 0)
    assert (e.what, e.inputs) == ("a", example("softplus").inputs)


@pytest.mark.parametrize("name", NONE)
def test_no_example_where_there_is_none(name: str) -> None:
    (r,) = refusals(name)
    assert r.example is None
    assert example_line(r) == {RIGHT: NO_EXAMPLE, RANGE: OUT_OF_RANGE, NO_UPDATE: ""}[NONE[name]]


@pytest.mark.parametrize("name", [n for n, why in NONE.items() if why is RIGHT])
def test_the_refused_update_without_an_example_is_right(name: str) -> None:
    for values in itertools.product((0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5), repeat=3):
        rows = (np.array(values),)
        want = definition(name, 0, rows)
        got = list(loop(name, 0, rows, (), refusals(name)[0]))
        assert math.isnan(want) or any(replay.same(t, want) for t in got), (values, got, want)


def test_the_sentence() -> None:
    assert example_text(example("distance")) == (
        "With x = [[0, 1]] (M = 1, N = 2), one element at a time, the refused update gives s[0] = 0 where the "
        "definition gives 1."
    )
    assert "the refused update (left out while m is infinite) gives" in example_text(example("cosine"))


def test_the_same_example_every_time() -> None:
    for name in ("max_over_other_elements", "temperature_by_a_producer"):
        assert refusals.__wrapped__(name) == refusals(name)

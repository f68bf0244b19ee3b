"""Every program that has to be accepted: its kernel passes the bounded evaluation, for all tile configurations."""

from __future__ import annotations

from functools import cache

import pytest

from neptune_verified.proofs.bounded import BoundedResult, bounded
from tests.accepted.harness import Built, build
from tests.accepted.programs import CASES
from tests.accepted.test_examples import TABLE
from tests.accepted.test_examples import built as example

EXAMPLES = [(stem, function, dtype) for stem, function in TABLE for dtype in ("float32", "float16", "bfloat16")]
#: The kernel rounds the operand of a product to the 16-bit type of the other one, which the definition does not.
ROUNDS = {"attention", "causal", "attention_lse"}


@cache
def accepted(name: str) -> Built:
    return build(CASES[name].graph(), name)


def verdict(b: Built) -> BoundedResult:
    result = bounded(b.program, b.source, "interpret")
    assert result.verdict == "proved", result.detail
    assert all(r.compared for r in result.runs if all(r.lengths.values()) and r.inputs in ("plain", "structured"))
    return result


@pytest.mark.parametrize("name", CASES)
def test_accepted_programs(name: str) -> None:
    result = verdict(accepted(name))
    assert result.rounding == "same"
    iterations = {p.split(": ")[1] for p in result.paths}
    assert {"1 iterations", "2 iterations"} & iterations
    assert "0 iterations" in iterations or len(accepted(name).program.sizes) == 1  # a square of size 0 has no programs


@pytest.mark.parametrize(("stem", "function", "dtype"), EXAMPLES)
def test_examples(stem: str, function: str, dtype: str) -> None:
    result = verdict(example(stem, function, dtype))
    assert result.rounding == ("differs" if function in ROUNDS and dtype != "float32" else "same")


def test_every_configuration_is_run() -> None:
    result = verdict(example("attention", "attention", "float32"))
    assert {r.config for r in result.runs} >= {"medium", "small"}


def test_another_target_is_refused() -> None:
    b = accepted("shift_by_max_under_sum")
    assert bounded(b.program, b.source, "cuda:90").verdict == "refuted"

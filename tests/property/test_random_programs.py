"""A few dozen random programs from fixed seeds: right kernels, or refused with true reasons. `campaign` runs many more."""

from __future__ import annotations

from functools import cache

import pytest

from tests.property.blocks import Block, run_block

#: (strategy, seed); the programs of each are the same in every run.
BLOCKS = [("repairable", 11), ("repairable", 12), ("arbitrary", 13)]
EXAMPLES, INPUTS = {"repairable": 8, "arbitrary": 6}, 5
#: Of the programs that are repairable by construction, the part that has to be fused: a campaign wants 95 % of many.
FUSED = 0.9
#: What a program that is not compiled may be told.
REASONS = ("is not verified", "unknown", "in ", "axis", "type")


@cache
def block(strategy: str, seed: int) -> Block:
    return run_block(strategy, seed, EXAMPLES[strategy], INPUTS, set(), shrinking=30)


@pytest.mark.parametrize(("strategy", "seed"), BLOCKS)
def test_kernels_compute_their_definitions(strategy: str, seed: int) -> None:
    found = block(strategy, seed)
    assert not found.failures, found.failures[0]
    kernels = [r for r in found.programs.values() if r.outcome == "kernel"]
    assert len(kernels) >= 3 and all(r.runs == INPUTS for r in kernels)
    assert sum(r.compared for r in kernels) > 100  # not everything is undefined or out of range


@pytest.mark.parametrize(("strategy", "seed"), BLOCKS)
def test_what_is_not_compiled_has_a_reason(strategy: str, seed: int) -> None:
    for r in block(strategy, seed).programs.values():
        assert r.outcome == "kernel" or (r.why and any(text in r.why for text in REASONS)), r
        assert len(r.refused) == len(r.replays)


def test_what_is_repairable_is_fused() -> None:
    records = [r for s, seed in BLOCKS if s == "repairable" for r in block(s, seed).programs.values()]
    missed = [r for r in records if not r.fused]
    assert len(records) >= 8
    assert 1 - len(missed) / len(records) >= FUSED, "\n".join(r.source for r in missed)

"""Loop bounds from a mask: the tiles that are visited are those that have a live element, by enumeration."""

from __future__ import annotations

import dataclasses
import time

import pytest

from neptune_verified.ir.expr import const, op
from neptune_verified.tile.regions import Phase
from tests.masks.families import BLOCK, FAMILIES, LAST, derive, environment, faults, live, value

LENGTHS = ((0, 0), (0, 5), (5, 0), (1, 1), (1, 40), (40, 1), (2, 3), (16, 16), (17, 16), (16, 17), (15, 33), (32, 32),
           (33, 64), (64, 33), (50, 20), (20, 50), (63, 65), (65, 63), (100, 7), (7, 100), (48, 80))  # fmt: skip
TILES = ((16, 16), (8, 32))  # rows, columns
ONE = const(1, "int32")


@pytest.mark.parametrize("name", FAMILIES)
def test_visited_tiles_are_the_live_ones(name: str) -> None:
    family = FAMILIES[name]
    found = derive(family)
    for m, n in LENGTHS:
        for scalars in family.scalars:
            mask = live(family, m, n, scalars)
            for rows, block in TILES:
                for first in range(0, m, rows):
                    env = environment(m, n, scalars, first, rows, block)
                    assert not faults(found, mask, env, family.tight), (m, n, scalars, first, rows, block)


@pytest.mark.parametrize("name", FAMILIES)
def test_rows_and_columns_of_one_length(name: str) -> None:
    family = FAMILIES[name]
    found = derive(family, square=True)
    for n in (0, 1, 2, 15, 16, 17, 32, 63, 64, 70):
        for scalars in family.scalars:
            mask = live(family, n, n, scalars)
            for rows, block in TILES:
                for first in range(0, n, rows):
                    env = environment(n, n, scalars, first, rows, block)
                    assert not faults(found, mask, env, family.tight), (n, scalars, first, rows, block)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_analysis_is_fast_and_the_loops_few(name: str) -> None:
    start = time.perf_counter()
    found = derive(FAMILIES[name])
    assert time.perf_counter() - start < 1
    assert len(found) <= 6


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("causal", [True, False]),
        ("causal bottom-right", [True, False]),
        ("window", [False, True, False]),
        ("prefix-LM", [True, False]),
        ("block causal", [True, False]),
        ("always", [True, False]),
        ("odd keys", [False]),
        ("never", []),
        ("(window or prefix) and causal", [True, False, False, True, False]),
    ],
)
def test_loops(name: str, full: list[bool]) -> None:
    assert [p.full for p in derive(FAMILIES[name])] == full


@pytest.mark.parametrize("name", ["causal", "causal bottom-right", "window", "prefix-LM", "block causal", "suffix"])
def test_every_full_tile_is_found(name: str) -> None:
    family = FAMILIES[name]
    found = derive(family)
    for m, n in LENGTHS:
        for scalars in family.scalars:
            mask = live(family, m, n, scalars)
            for first in range(0, m, 8):
                env = environment(m, n, scalars, first, 8, 4)
                got = sum(len(range(value(p.lo, env), value(p.hi, env), 4)) for p in found if p.full)
                rows = mask[first : env[LAST] + 1]
                assert got == sum(rows[:, s : s + 4].all() for s in range(0, n - 3, 4))


@pytest.mark.parametrize("name", ["causal", "causal bottom-right", "window bottom-right", "local and global"])
def test_the_longest_lengths_fit(name: str) -> None:
    """Every step is evaluated in the width that it is typed with; ``value`` refuses what leaves it."""
    found = derive(FAMILIES[name])
    most = 2**31 - 4097
    for m, n in ((most, most), (most, 1), (1, most), (most, 0), (1000, most)):
        for w in (-(2**31), -1, 0, 1, most, 2**31 - 1):
            for first in {0, (m // 2) // 128 * 128, (m - 1) // 128 * 128}:
                env = environment(m, n, {"W": w, "P": w}, first, 128, 128)
                ends = [(value(p.lo, env), value(p.hi, env)) for p in found]
                assert all(lo >= 0 and hi <= n + 127 for lo, hi in ends if lo < hi)


# ------------------------------------------------------------------------------ the checker refuses what is wrong


def _changed(found: tuple[Phase, ...], which: int, **change: int | bool) -> list[Phase]:
    """Phase ``which`` with its ends moved by tiles, or another flag."""
    p = found[which]
    moved = {
        k: op("add", getattr(p, k), op("mul", const(v, "int32"), BLOCK)) if k in ("lo", "hi") else v
        for k, v in change.items()
    }
    return [*found[:which], dataclasses.replace(p, **moved), *found[which + 1 :]]


def _refused(found: list[Phase], name: str, scalars: dict[str, int]) -> str:
    family, every = FAMILIES[name], []
    for m, n in LENGTHS:
        mask = live(family, m, n, scalars)
        for first in range(0, m, 16):
            every += faults(found, mask, environment(m, n, scalars, first, 16, 16))
    return "; ".join(dict.fromkeys(every))


def test_wrong_bounds_are_seen() -> None:
    window, causal = derive(FAMILIES["window"]), derive(FAMILIES["causal"])
    w = {"W": 20}
    assert not _refused(list(window), "window", w)
    assert "skipped" in _refused(_changed(window, 0, lo=1), "window", w)
    assert "skipped" in _refused(_changed(window, 2, hi=-1), "window", w)
    assert "dead tiles" in _refused(_changed(window, 2, hi=1), "window", w)
    assert "ascending" in _refused(_changed(window, 2, lo=-1), "window", w)
    assert "not full" in _refused(_changed(window, 0, full=True), "window", w)
    assert "not full" in _refused(_changed(causal, 0, hi=1), "causal", {})
    assert "no range of tiles" in _refused(
        [dataclasses.replace(causal[1], hi=op("add", causal[1].hi, ONE))], "causal", {}
    )


@pytest.mark.parametrize(("stated", "meant"), [(17, 18), (1, 2), (18, 17)])
def test_a_window_off_by_one_is_seen(stated: int, meant: int) -> None:
    family, found = FAMILIES["window"], derive(FAMILIES["window"])
    every: list[str] = []
    for m, n in ((64, 64), (33, 65)):
        mask = live(family, m, n, {"W": meant})
        for first in range(m):
            every += faults(found, mask, environment(m, n, {"W": stated}, first, 1, 16))
    assert every
    assert any("skipped" in x for x in every) == (stated < meant)


def test_a_predicate_of_the_whole_tile_is_needed_for_fullness() -> None:
    """Only the boundary tile masked, as a causal kernel with equal lengths may do: wrong bottom-right."""
    found = derive(FAMILIES["causal"])
    family = FAMILIES["causal bottom-right"]
    every = [
        x
        for m, n in ((40, 64), (64, 40))
        for first in range(0, m, 16)
        for x in faults(found, live(family, m, n, {}), environment(m, n, {}, first, 16, 16))
    ]
    assert any("not full" in x for x in every)
    assert any("skipped" in x for x in every)

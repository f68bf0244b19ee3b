"""Statistics of errors: joined in any order they are the same to the last bit, and they are what NumPy finds."""

from __future__ import annotations

import json
import math
import random
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
import pytest

from neptune_verified.auditing.statistics import PARTS, Histogram, Profile, Statistics, joined, plain
from tests.audit.results import Array, statistics_of

#: The width of a bin, and a little for the rounding of a logarithm.
BIN = 2 ** (1 / 64) * (1 + 1e-12)


def parts(seed: int, many: int = 9) -> list[Statistics]:
    """Of magnitudes so different that sums of floats depend on their order."""
    rng = np.random.default_rng(seed)
    found = []
    for k in range(many):
        shape = (int(rng.integers(1, 4)), int(rng.integers(1, 90)), int(rng.integers(1, 20)))
        error = np.abs(rng.normal(0, 10.0 ** rng.integers(-12, 4), shape)) * rng.integers(0, 2, shape)
        counts = {"undefined": k, "nan": k % 3, "inf": k % 2, "finite": 1, "infinite": 2, "unclaimed": k // 2}
        found.append(statistics_of(error, rng.normal(0, 10.0 ** rng.integers(-3, 3), shape), 0.5, **counts))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_joins_do_not_depend_on_their_order(seed: int) -> None:
    found = parts(seed)
    wanted = joined(found)
    shuffled = list(found)
    for again in range(5):
        random.Random(again).shuffle(shuffled)
        half = len(shuffled) // 2
        assert joined(shuffled) == wanted
        assert joined(shuffled[:half]).join(joined(shuffled[half:])) == wanted, "grouped in another way"
        assert reduce(lambda a, b: b.join(a), shuffled) == wanted
        assert json.dumps(joined(shuffled).data(), sort_keys=True) == json.dumps(wanted.data(), sort_keys=True)


def test_sums_of_floats_would_depend_on_it() -> None:
    """That is, the test above can fail."""
    found = [s.square_error for seed in range(3) for s in parts(seed)]
    orders = [random.Random(k).sample(found, len(found)) for k in range(20)]
    assert len({sum(map(float, o)) for o in orders}) > 1 and len({sum(o) for o in orders}) == 1


def test_a_join_is_the_statistics_of_everything() -> None:
    rng = np.random.default_rng(5)
    a, b = np.abs(rng.normal(0, 1e-3, (2, 30, 16))), np.abs(rng.normal(0, 1.0, (3, 30, 16)))
    want = rng.normal(0, 1, (5, 30, 16))
    both = statistics_of(a, want[:2]).join(statistics_of(b, want[2:]))
    whole = statistics_of(np.concatenate([a, b]), want)
    for name in (
        "compared",
        "above",
        "square_error",
        "square_value",
        "absolute",
        "relative",
        "ulps",
        "rows",
        "of_bound",
    ):
        assert getattr(both, name) == getattr(whole, name), name
    # Sums over an index are rounded before they are joined.
    assert both.positions["i"].counts == whole.positions["i"].counts
    assert np.allclose(both.positions["i"].rms(), whole.positions["i"].rms(), rtol=1e-14, equal_nan=True)


def test_nothing_changes_nothing() -> None:
    (one,) = parts(3, 1)
    assert one.join(Statistics()) == one == Statistics().join(one) == joined([one])


@pytest.mark.parametrize("spread", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("zeros", [0, 70])
def test_percentiles_are_within_a_bin(spread: float, zeros: int) -> None:
    rng = np.random.default_rng(int(10 * spread) + zeros)
    x = np.concatenate([np.exp(rng.normal(-5, spread, 931)), np.zeros(zeros)])
    h = Histogram.of(x)
    assert h.count == x.size and h.zeros == zeros and h.largest == x.max()
    for q in (0.5, 5, 10, 50, 90, 99, 99.9, 100):
        wanted = float(np.percentile(x, q, method="inverted_cdf"))
        assert wanted <= h.percentile(q) * (1 + 1e-12) and h.percentile(q) <= wanted * BIN, q
    assert h.percentile(100) == x.max()


def test_percentiles_of_zeros_and_of_nothing() -> None:
    assert Histogram.of(np.zeros(7)).percentile(99) == 0.0
    assert math.isnan(Histogram.of(np.zeros(0)).percentile(50))
    assert Histogram.of(np.array([5e-324, 1e300])).percentile(100) == 1e300


def test_bins_hold_what_belongs_to_them() -> None:
    x = np.exp2(np.random.default_rng(1).uniform(-40, 20, 5000))
    for k, n in Histogram.of(x).bins.items():
        low, high = 2.0 ** (k / 64), 2.0 ** ((k + 1) / 64)
        assert abs(n - int(((x >= low) & (x < high)).sum())) == 0, k


def test_rms() -> None:
    rng = np.random.default_rng(2)
    error, want = np.abs(rng.normal(0, 1e-3, (3, 40, 8))), rng.normal(2, 1, (3, 40, 8))
    s = statistics_of(error, want)
    assert s.rms == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-13)
    assert s.relative_rms == pytest.approx(np.sqrt(np.mean(error**2) / np.mean(want**2)), rel=1e-13)
    assert s.square_error == sum(Fraction(float(e)) for e in (error**2).ravel())
    assert math.isnan(Statistics().rms) and math.isnan(Statistics().relative_rms)
    assert math.isnan(statistics_of(np.ones((1, 2, 2)), np.full((1, 2, 2), 1e-200)).relative_rms), "its square is 0"


def test_kinds_add_up() -> None:
    s = Statistics(compared=10, undefined=2, infinite=3, nan=4, inf=5, finite=6)
    assert s.wrong == 15 and s.elements == 30
    assert s.join(s).elements == 60


@pytest.mark.parametrize("length", [1, 4, 63, 64, 100, 640])
def test_profiles(length: int) -> None:
    rng = np.random.default_rng(length)
    error: Array = np.abs(rng.normal(0, 1, (length, 6)))
    rms = Profile.of((error**2).sum(axis=1).tolist(), [6] * length).rms()
    owner = np.arange(length) * PARTS // length
    for part in range(PARTS):
        mine = error[owner == part]
        if mine.size:
            assert rms[part] == pytest.approx(np.sqrt(np.mean(mine**2)), rel=1e-12)
        else:
            assert math.isnan(rms[part])


def numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [x for v in value.values() for x in numbers(v)]
    if isinstance(value, list):
        return [x for v in value for x in numbers(v)]
    return [value] if isinstance(value, float) else []


@pytest.mark.parametrize("s", [Statistics(), Statistics(undefined=4), *parts(7, 3)])
def test_json_has_no_nan(s: Statistics) -> None:
    data = json.loads(json.dumps(s.data(), allow_nan=False))
    assert all(map(math.isfinite, numbers(data)))
    if not s.compared:
        assert data["rms"] == data["absolute"]["p99"] == "nan"
    for name in ("absolute", "relative", "ulps", "of_bound", "rows"):
        h = getattr(s, name)
        assert data[name]["zeros"] + sum(n for _, n in data[name]["bins"]) == h.count
        assert data[name]["max"] == h.largest
    assert [plain(x) for x in (math.nan, math.inf, -math.inf, 0.5)] == ["nan", "inf", "-inf", 0.5]


def test_coarse_bins_are_where_the_numbers_are() -> None:
    x = np.exp2(np.random.default_rng(4).uniform(-20, 5, 3000))
    data = Histogram.of(x).data(per_octave=4)
    edges = [low for low, _ in data["bins"]]
    assert edges == sorted(edges)
    for low, n in data["bins"]:
        assert n == int(((x >= low) & (x < low * 2**0.25)).sum())

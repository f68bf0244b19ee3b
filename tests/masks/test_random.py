"""Random predicates: no live tile is skipped, no tile is called full that is not, whatever the predicate is."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.masks.families import Family, Term, derive, environment, faults, live

small = st.integers(-4, 12)
divisors = st.integers(1, 9)


def side(draw: Any) -> Any:
    """An integer over i, j and sizes, as a function of them."""
    kind = draw(st.sampled_from(["i", "j", "i//", "j//", "i%", "j%", "size", "const", "2i", "2j", "scalar"]))
    c, d = draw(small), draw(divisors)
    return {
        "i": lambda i, j, s: i + c, "j": lambda i, j, s: j + c,
        "i//": lambda i, j, s: (i + c) // d, "j//": lambda i, j, s: (j + c) // d,
        "i%": lambda i, j, s: i % d, "j%": lambda i, j, s: (j + c) % d,
        "size": lambda i, j, s: s["N"] - s["M"] + c, "const": lambda i, j, s: Term(3 * c) if isinstance(i, Term) else 3 * c,
        "2i": lambda i, j, s: i * 2 - c, "2j": lambda i, j, s: c - j * 2, "scalar": lambda i, j, s: s["W"] + c,
    }[kind]  # fmt: skip


_COMPARE = {
    "<": lambda x, y: x < y, "<=": lambda x, y: x <= y, ">": lambda x, y: x > y, ">=": lambda x, y: x >= y,
    "==": lambda x, y: x == y, "!=": lambda x, y: x != y,
}  # fmt: skip


@st.composite
def predicates(draw: Any, depth: int = 3) -> Any:
    kind = draw(st.sampled_from(["atom", "and", "or", "not"])) if depth else "atom"
    if kind == "atom":
        a, b, e = side(draw), side(draw), side(draw)
        compare = _COMPARE[draw(st.sampled_from(sorted(_COMPARE)))]
        plus = draw(st.sampled_from([-1, 0, 0, 1]))
        return lambda i, j, s: compare(a(i, j, s) + e(i, j, s) * plus if plus else a(i, j, s), b(i, j, s))
    p = draw(predicates(depth - 1))
    if kind == "not":
        return lambda i, j, s: ~p(i, j, s) if isinstance(i, Term) else np.logical_not(p(i, j, s))
    q = draw(predicates(depth - 1))
    if kind == "and":
        return lambda i, j, s: p(i, j, s) & q(i, j, s)
    return lambda i, j, s: p(i, j, s) | q(i, j, s)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(predicates(), st.integers(0, 45), st.integers(0, 45), st.integers(-5, 30), st.sampled_from([1, 3, 8, 16]))
def test_bounds_of_random_predicates_are_safe(p: Any, m: int, n: int, w: int, block: int) -> None:
    family = Family(p)
    found = derive(family)
    mask = live(family, m, n, {"W": w})
    for rows in (1, 8, 16):
        for first in range(0, m, rows):
            env = environment(m, n, {"W": w}, first, rows, block)
            wrong = faults(found, mask, env, tight=False)
            assert not wrong

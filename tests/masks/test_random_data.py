"""Random predicates over indices and tensors: no live tile is left out, by the loops or by the test of a tile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neptune_verified.ir.expr import Expr, read, var
from neptune_verified.tile.htile import first_of
from neptune_verified.tile.live import Extreme, live_test
from neptune_verified.tile.regions import phases
from tests.masks.families import ROW, Family, J, N, Term, environment, faults, integers, value

LENS = var("lens", "int32")
LEAST, GREATEST = -(2**31), 2**31 - 1
small = st.integers(-4, 12)
_COMPARE = {
    "<": lambda x, y: x < y, "<=": lambda x, y: x <= y, ">": lambda x, y: x > y, ">=": lambda x, y: x >= y,
    "==": lambda x, y: x == y, "!=": lambda x, y: x != y,
}  # fmt: skip


@st.composite
def predicates(draw: Any, depth: int = 2) -> Any:
    """Of an environment: i, j, doc[i], doc[j], w[i], u[j], lens, N."""
    kind = draw(st.sampled_from(["atom", "and", "or", "not"])) if depth else "atom"
    if kind == "atom":
        names = [draw(st.sampled_from(["i", "j", "di", "dj", "w", "u", "lens", "N", "0"])) for _ in range(3)]
        c, sign = draw(small), draw(st.sampled_from([-1, 0, 0, 1]))
        compare = _COMPARE[draw(st.sampled_from(sorted(_COMPARE)))]
        return lambda e: compare(e[names[0]] + (e[names[1]] * sign if sign else 0), e[names[2]] + (c if sign else 0))
    p = draw(predicates(depth - 1))
    if kind == "not":
        return lambda e: ~p(e)
    q = draw(predicates(depth - 1))
    return (lambda e: p(e) & q(e)) if kind == "and" else (lambda e: p(e) | q(e))


@st.composite
def numbers(draw: Any, n: int) -> Any:
    """Of 32 bits, kept in 64: small ones, in order, or at the ends of the range."""
    kind = draw(st.sampled_from(["small", "in order", "ends"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    if kind == "ends":
        return rng.choice(np.array([LEAST, LEAST + 1, -1, 0, GREATEST - 1, GREATEST]), n)
    x = rng.integers(-3, 40, n)
    return np.sort(x) if kind == "in order" else x


def extreme(e: Extreme, tensors: Mapping[Expr, Any], first: int, end: int, start: int, stop: int) -> int:
    x, along = tensors[e.read]
    lanes = x[first:end] if along is ROW else x[start:stop]
    if not len(lanes):
        return LEAST if e.reducer == "max" else GREATEST
    return int(lanes.max() if e.reducer == "max" else lanes.min())


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(predicates(), st.data(), st.integers(0, 30), st.integers(0, 45), st.sampled_from([1, 3, 8, 16]))
def test_what_is_left_out_is_not_live(p: Any, data: Any, m: int, n: int, block: int) -> None:
    reads = {k: read(k, (a,), "int32") for k, a in (("di", ROW), ("dj", J), ("w", ROW), ("u", J))}
    terms: dict[str, Any] = {"i": Term(ROW), "j": Term(J), "lens": Term(LENS), "N": Term(N), "0": Term(0)}
    predicate = p(terms | {k: Term(x) for k, x in reads.items()}).e
    z = integers(Family(p))
    found, test = phases(predicate, J, ROW, z), live_test(predicate, J, ROW, z)

    doc = data.draw(numbers(max(m, n)))
    arrays = {"di": doc[:m], "dj": doc[:n], "w": data.draw(numbers(m)), "u": data.draw(numbers(n))}
    lens = data.draw(st.sampled_from([LEAST, -1, 0, 5, 17, 40, GREATEST]))
    tensors = {reads[k]: (x, ROW if k in ("di", "w") else J) for k, x in arrays.items()}
    columns = {k: x[:, None] if k in ("di", "w") else x[None, :] for k, x in arrays.items()}
    i, j = np.arange(m)[:, None], np.arange(n)[None, :]
    scalars = {"lens": np.int64(lens), "N": np.int64(n), "0": np.int64(0)}
    mask = np.broadcast_to(p({"i": i, "j": j} | scalars | columns), (m, n))
    assert mask.dtype == bool

    for rows in (1, 8, 16):
        for first in range(0, m, rows):
            env = environment(m, n, {}, first, rows, block) | {LENS: lens}
            assert not faults(found, mask, env, tight=False)
            for start in range(0, n, block):
                own = env | {first_of(J): start}
                for s, e in test.extremes.items():
                    own[s] = extreme(e, tensors, first, min(first + rows, m), start, min(start + block, n))
                if mask[first : first + rows, start : start + block].any() and test.extremes:
                    assert value(test.condition, own)

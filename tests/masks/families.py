"""Masks as expressions and as numpy predicates, and what a row tile should visit, by enumeration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neptune_verified.ir.expr import Axis, Const, Expr, Op, Size, Var, axis, const, op, size, var
from neptune_verified.tile.linear import LENGTH_LIMIT, Integers
from neptune_verified.tile.regions import Phase, phases

Bools = NDArray[np.bool_]
M, N, W, P, S = (size(n) for n in "MNWPS")
ROW, J = axis("i", M), axis("j", N)
FIRST, LAST, BLOCK = (var(n, "int32") for n in ("first", "last", "block"))


class Term:
    """An integer or truth-valued expression with Python's operators; comparisons give Terms."""

    def __init__(self, e: Expr | int | bool) -> None:
        self.e: Expr = e if isinstance(e, Expr) else const(e, "bool" if isinstance(e, bool) else "int32")

    @staticmethod
    def of(name: str, *args: Any) -> Term:
        return Term(op(name, *(a.e if isinstance(a, Term) else Term(a).e for a in args)))

    def __add__(self, o: Any) -> Term:
        return Term.of("add", self, o)

    def __radd__(self, o: Any) -> Term:
        return Term.of("add", o, self)

    def __sub__(self, o: Any) -> Term:
        return Term.of("sub", self, o)

    def __rsub__(self, o: Any) -> Term:
        return Term.of("sub", o, self)

    def __mul__(self, o: Any) -> Term:
        return Term.of("mul", self, o)

    def __rmul__(self, o: Any) -> Term:
        return Term.of("mul", o, self)

    def __floordiv__(self, o: Any) -> Term:
        return Term.of("floordiv", self, o)

    def __mod__(self, o: Any) -> Term:
        return Term.of("floormod", self, o)

    def __neg__(self) -> Term:
        return Term.of("neg", self)

    def __abs__(self) -> Term:
        return Term.of("abs", self)

    def __le__(self, o: Any) -> Term:
        return Term.of("le", self, o)

    def __lt__(self, o: Any) -> Term:
        return Term.of("lt", self, o)

    def __ge__(self, o: Any) -> Term:
        return Term.of("ge", self, o)

    def __gt__(self, o: Any) -> Term:
        return Term.of("gt", self, o)

    def __eq__(self, o: object) -> Term:  # type: ignore[override]
        return Term.of("eq", self, o)

    def __ne__(self, o: object) -> Term:  # type: ignore[override]
        return Term.of("ne", self, o)

    def __and__(self, o: Any) -> Term:
        return Term.of("and", self, o)

    def __or__(self, o: Any) -> Term:
        return Term.of("or", self, o)

    def __invert__(self) -> Term:
        return Term.of("not", self)


@dataclass(frozen=True)
class Family:
    """A mask over i, j and sizes. ``scalars``: values of the scalar arguments to try, besides M and N."""

    mask: Callable[[Any, Any, Mapping[str, Any]], Any]
    scalars: tuple[dict[str, int], ...] = ({},)
    tight: bool = True
    facts: dict[str, tuple[int, int]] = field(default_factory=dict)


def sizes_as_terms() -> dict[str, Term]:
    return {s.name: Term(s) for s in (M, N, W, P, S)}


_WINDOWS = tuple({"W": w} for w in (-3, 0, 1, 2, 5, 16, 40))
_POINTS = tuple({"P": p} for p in (-2, 0, 1, 7, 16, 17, 33, 1000))
_BOTH = tuple({"W": w, "P": p} for w in (0, 1, 6, 20) for p in (0, 5, 16, 30))
_POSITIVE = {"S": (1, 2**31 - 1)}
_SPANS = tuple({"S": s} for s in (1, 3, 8, 16, 50))


def _or(*terms: Any) -> Any:
    result = terms[0]
    for t in terms[1:]:
        result = result | t
    return result


FAMILIES: dict[str, Family] = {
    "causal": Family(lambda i, j, s: j <= i),
    "causal strict": Family(lambda i, j, s: j < i),
    "causal, i - j >= 0": Family(lambda i, j, s: i - j >= 0),
    "causal, -i <= -j": Family(lambda i, j, s: -i <= -j),
    "causal, not j > i": Family(lambda i, j, s: ~(j > i)),
    "causal, not not": Family(lambda i, j, s: ~~(2 * j <= i + j)),
    "causal bottom-right": Family(lambda i, j, s: j <= i + (s["N"] - s["M"])),
    "causal bottom-right, other side": Family(lambda i, j, s: i + s["N"] - s["M"] >= j),
    "causal bottom-right, all left": Family(lambda i, j, s: (s["M"] - i) - (s["N"] - j) <= 0),
    "anti-causal": Family(lambda i, j, s: j >= i),
    "anti-diagonal": Family(lambda i, j, s: i + j <= s["N"]),
    "window": Family(lambda i, j, s: (i - j >= 0) & (i - j < s["W"]), _WINDOWS),
    "window of 5": Family(lambda i, j, s: (i - j >= 0) & (i - j < 5)),
    "window, written with +": Family(lambda i, j, s: (j <= i) & (i < j + s["W"]), _WINDOWS),
    "window of both sides": Family(lambda i, j, s: abs(i - j) <= s["W"], _WINDOWS),
    "window of both sides, as a conjunction": Family(lambda i, j, s: (i - j <= 7) & (j - i < 3)),
    "window bottom-right": Family(
        lambda i, j, s: (j <= i + s["N"] - s["M"]) & (j > i + s["N"] - s["M"] - s["W"]), _WINDOWS
    ),
    "prefix": Family(lambda i, j, s: j < s["P"], _POINTS),
    "prefix of 7": Family(lambda i, j, s: j <= 6),
    "suffix": Family(lambda i, j, s: ~(j < s["P"]), _POINTS),
    "prefix-LM": Family(lambda i, j, s: (j < s["P"]) | (j <= i), _POINTS),
    "prefix-LM of 9": Family(lambda i, j, s: (j <= i) | (j < 9)),
    "local and global": Family(lambda i, j, s: (abs(i - j) <= s["W"]) | (j < s["P"]), _BOTH),
    "local and global, constants": Family(lambda i, j, s: (abs(i - j) <= 6) | (j < 4)),
    "local and global rows": Family(lambda i, j, s: _or(abs(i - j) <= 3, j < 4, i < 4)),
    "block diagonal": Family(lambda i, j, s: i // 8 == j // 8),
    "block diagonal of 3": Family(lambda i, j, s: i // 3 == j // 3),
    "block diagonal, scalar": Family(lambda i, j, s: i // s["S"] == j // s["S"], _SPANS, facts=_POSITIVE),
    "block diagonal, causal": Family(lambda i, j, s: (i // 8 == j // 8) & (j <= i)),
    "block diagonal, causal, scalar": Family(
        lambda i, j, s: (j <= i) & (j // s["S"] == i // s["S"]), _SPANS, facts=_POSITIVE
    ),
    "block causal": Family(lambda i, j, s: j // 8 <= i // 8),
    "block causal, strict, scalar": Family(lambda i, j, s: j // s["S"] < i // s["S"], _SPANS, facts=_POSITIVE),
    "block causal, bottom-right": Family(lambda i, j, s: j // 8 <= (i + s["N"] - s["M"]) // 8),
    "blocks of two sizes": Family(lambda i, j, s: j // 4 <= i // 2),
    "neighbouring blocks": Family(lambda i, j, s: abs(i // 8 - j // 8) <= 1),
    "causal and window and prefix": Family(
        lambda i, j, s: (j <= i) & (i - j < s["W"]) & (j < s["P"]), _BOTH
    ),
    "(window or prefix) and causal": Family(
        lambda i, j, s: ((i - j < s["W"]) | (j < s["P"])) & (j <= i), _BOTH
    ),
    "sinks and window": Family(lambda i, j, s: (j <= i) & ((j < 4) | (i - j < 20))),
    "not the diagonal": Family(lambda i, j, s: i != j),
    "the diagonal": Family(lambda i, j, s: i == j),
    "odd keys": Family(lambda i, j, s: j % 2 == 1),
    "even keys, causal": Family(lambda i, j, s: (j % 2 != 1) & (j <= i)),
    "every third key": Family(lambda i, j, s: j % 3 == 2),
    "dilated": Family(lambda i, j, s: (i - j) % 2 == 0, tight=False),
    "dilated window": Family(lambda i, j, s: ((i - j) % 2 == 0) & (i - j >= 0) & (i - j < 9), tight=False),
    "always": Family(lambda i, j, s: j >= 0),
    "constant true": Family(lambda i, j, s: Term(True) if isinstance(i, Term) else (j >= 0)),
    "never": Family(lambda i, j, s: j < 0),
    "constant false": Family(lambda i, j, s: Term(False) if isinstance(i, Term) else (j < 0)),
    "row mask": Family(lambda i, j, s: i < s["P"], _POINTS),
    "not (window or prefix)": Family(lambda i, j, s: ~((abs(i - j) <= s["W"]) | (j < s["P"])), _BOTH),
    "many alternatives": Family(
        lambda i, j, s: _or(*((j >= 11 * k) & (j < 11 * k + 2) for k in range(5))), tight=False
    ),
    "quadratic": Family(lambda i, j, s: j * j <= i, tight=False),
    "between two ramps": Family(lambda i, j, s: (j <= 2 * i) & (3 * j >= i), tight=False),
}  # fmt: skip


def integers(family: Family) -> Integers:
    def span(s: Size) -> tuple[int, int]:
        if s in (M, N):
            return 0, LENGTH_LIMIT - 1
        return family.facts.get(s.name, (-(2**31), 2**31 - 1))

    return Integers(span, FIRST, LAST, M, BLOCK)


def derive(family: Family, square: bool = False) -> tuple[Phase, ...]:
    """``square``: the columns have the rows' length M, the same symbol."""
    columns = axis("j", M) if square else J
    sizes = sizes_as_terms() | ({"N": Term(M)} if square else {})
    mask = family.mask(Term(ROW), Term(columns), sizes)
    return phases(mask.e, columns, ROW, integers(family))


def live(family: Family, m: int, n: int, scalars: Mapping[str, int]) -> Bools:
    """The mask as a matrix [m, n]."""
    i, j = np.arange(m)[:, None], np.arange(n)[None, :]
    return np.broadcast_to(family.mask(i, j, {"M": m, "N": n, **scalars}), (m, n)).astype(bool)


_MEANING: dict[str, Callable[..., int]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "neg": lambda x: -x,
    "ge": lambda x, y: x >= y, "gt": lambda x, y: x > y, "and": lambda x, y: x and y, "or": lambda x, y: x or y,
    "max": max, "min": min, "floordiv": lambda x, y: x // y, "cast": lambda x: x,
}  # fmt: skip


class Overflow(AssertionError):
    pass


def value(e: Expr, env: Mapping[Expr, int], memo: dict[Expr, int] | None = None) -> int:
    """What Triton computes: ``//`` truncates (an argument < 0 is refused), and 32 bits must hold what is typed so."""
    memo = {} if memo is None else memo
    if e not in memo:
        memo[e] = _value(e, env, memo)
    return memo[e]


def _value(e: Expr, env: Mapping[Expr, int], memo: dict[Expr, int]) -> int:
    match e:
        case Const(number):
            return int(number)
        case Size() | Var() | Axis():
            return env[e]
        case Op(name, args, dtype):
            a = [value(x, env, memo) for x in args]
            if name == "floordiv":
                assert a[0] >= 0, f"{a[0]} // {a[1]}"
                assert a[1] > 0, f"{a[0]} // {a[1]}"
            result = int(_MEANING[name](*a))
            if not -(2**31) <= result < 2**31 and dtype == "int32":
                raise Overflow(f"{e} is {result}")
            return result
        case _:
            raise TypeError(type(e).__name__)


def environment(m: int, n: int, scalars: Mapping[str, int], first: int, rows: int, block: int) -> dict[Expr, int]:
    env: dict[Expr, int] = {s: scalars[s.name] for s in (W, P, S) if s.name in scalars}
    return env | {M: m, N: n, FIRST: first, LAST: min(first + rows, m) - 1, BLOCK: block}


def faults(found: Iterable[Phase], mask: Bools, env: Mapping[Expr, int], tight: bool = True) -> list[str]:
    """What is wrong with the phases of one row tile, by enumeration; nothing where they are right."""
    n, block = mask.shape[1], env[BLOCK]
    rows = mask[env[FIRST] : env[LAST] + 1]
    visited: list[int] = []
    wrong: list[str] = []
    memo: dict[Expr, int] = {}
    for p in found:
        lo, hi = value(p.lo, env, memo), value(p.hi, env, memo)
        if lo % block or hi % block:
            wrong.append(f"[{lo}, {hi}) is no range of tiles of {block}")
        for s in range(lo, hi, block):
            if s < 0 or s >= n:
                wrong.append(f"the tile at {s} has no column below {n}")
            if p.full and (s + block > n or not rows[:, s : s + block].all()):
                wrong.append(f"the tile at {s} is not full")
            visited.append(s)
    if visited != sorted(set(visited)):
        wrong.append(f"tiles {visited} are not ascending and disjoint")
    want = [s for s in range(0, n, block) if rows[:, s : s + block].any()]
    if missing := set(want) - set(visited):
        wrong.append(f"live tiles {sorted(missing)} are skipped")
    if tight and (more := set(visited) - set(want)):
        wrong.append(f"dead tiles {sorted(more)} are visited")
    return wrong

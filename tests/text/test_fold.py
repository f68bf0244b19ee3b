"""Constants, rewritings that change no value, and which numbers a type has."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from neptune_verified.ir.expr import Const, Expr, Op, axis, const, op, read, reduce_, size
from neptune_verified.proofs.text.calls import exact
from neptune_verified.proofs.text.fold import arithmetic, plain, widens

INF = float("inf")
FLOATS = ("float16", "bfloat16", "float32", "float64")


def to(values: Any, dtype: str) -> torch.Tensor:
    return torch.as_tensor(values, dtype=torch.float64).to(getattr(torch, dtype)).double()


def all_of(dtype: torch.dtype) -> np.ndarray[Any, Any]:
    """Every finite number of a 16-bit type, in float64."""
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    x = bits.view(dtype).double().numpy()
    return x[np.isfinite(x)]


# -------------------------------------------------------------------------------------------------- exact


@pytest.mark.parametrize("dtype", FLOATS)
def test_exact_is_a_round_trip(dtype: str) -> None:
    info = torch.finfo(getattr(torch, dtype))
    points = [
        0.0,
        1.0,
        -1.0,
        0.1,
        1 / 3,
        2.0**-14,
        2.0**-15,
        2.0**-126,
        65504.0,
        65520.0,
        2.0**17,
        3.0e38,
        1e39,
        2049.0,
        257.0,
    ]
    points += [
        info.max,
        -info.max,
        info.smallest_normal,
        1 + info.eps,
        1 + info.eps / 2,
        np.pi,
        16777217.0,
        2.0**53 + 2,
    ]
    for v in points:
        same = float(to(v, dtype)) == v
        normal = v == 0 or abs(v) >= info.smallest_normal
        assert exact(v, dtype) == (same and normal), (v, dtype)
    assert exact(INF, dtype) and exact(-INF, dtype)
    assert not exact(2**1100, dtype) and not exact(2**53 + 1, dtype)


@pytest.mark.parametrize(("dtype", "kind"), [("float16", torch.float16), ("bfloat16", torch.bfloat16)])
def test_all_normal_numbers_are_exact(dtype: str, kind: torch.dtype) -> None:
    x = all_of(kind)
    normal = (x == 0) | (np.abs(x) >= torch.finfo(kind).smallest_normal)
    for v, n in zip(x[::7], normal[::7], strict=True):
        assert exact(float(v), dtype) == bool(n)
        assert abs(v) < 2.0**-20 or not exact(Fraction(float(v)) + Fraction(1, 2**40), dtype)


def test_widenings() -> None:
    for a, b in itertools.product(FLOATS, FLOATS):
        i, j = torch.finfo(getattr(torch, a)), torch.finfo(getattr(torch, b))
        every = i.eps >= j.eps and i.max <= j.max and i.smallest_normal * i.eps >= j.smallest_normal * j.eps
        assert widens(a, b) == (every and a != b), (a, b)
    assert not widens("int32", "float64") and not widens("float32", "int32")


# ---------------------------------------------------------------------- 16-bit operations through float32


def rounded_once(f: Callable[..., Any], dtype: str, *xs: np.ndarray[Any, Any]) -> tuple[torch.Tensor, torch.Tensor]:
    """The result through float32, and the exact one (float64 has 53 >= 2 * 24 + 2 digits here) rounded once."""
    with np.errstate(all="ignore"):
        wide = f(*(x.astype(np.float32) for x in xs))
        assert wide.dtype == np.float32
        best = f(*(x.astype(np.float64) for x in xs))
    kind = getattr(torch, dtype)
    return torch.from_numpy(wide).to(kind), torch.from_numpy(best).to(kind)


PAIRS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum,
}  # fmt: skip


@pytest.mark.parametrize(("dtype", "kind"), [("float16", torch.float16), ("bfloat16", torch.bfloat16)])
@pytest.mark.parametrize("name", PAIRS)
def test_a_16_bit_operation_is_the_float32_one_rounded_once(name: str, dtype: str, kind: torch.dtype) -> None:
    x = all_of(kind)
    if dtype == "bfloat16":
        x = x[(np.abs(x) < 2.0**60) & ((np.abs(x) > 2.0**-60) | (x == 0))]  # float32's own range aside
    rng = np.random.default_rng(0)
    a, b = rng.choice(x, 1_000_000), rng.choice(x, 1_000_000)
    got, want = rounded_once(PAIRS[name], dtype, a, b)
    assert torch.equal(torch.nan_to_num(got), torch.nan_to_num(want))


@pytest.mark.parametrize(("dtype", "kind"), [("float16", torch.float16), ("bfloat16", torch.bfloat16)])
@pytest.mark.parametrize("f", [np.sqrt, np.negative, np.abs, np.floor, np.ceil])
def test_of_all_16_bit_numbers(f: Callable[..., Any], dtype: str, kind: torch.dtype) -> None:
    x = all_of(kind)
    got, want = rounded_once(f, dtype, x[x >= 0] if f is np.sqrt else x)
    assert torch.equal(got, want)


# -------------------------------------------------------------------------------------------------- arithmetic

POINTS: list[Any] = [Fraction(n, 4) for n in (-9, -4, -1, 0, 1, 4, 9)] + [INF, -INF]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "max", "min", "lt", "le", "gt", "ge", "eq", "ne"])
def test_arithmetic_of_two(name: str) -> None:
    """Against float64, which has all of these numbers; what is undefined there, or no number, is undefined."""
    f = PAIRS.get(name) or getattr(np, {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
                                        "eq": "equal", "ne": "not_equal"}.get(name, ""))  # fmt: skip
    for a, b in itertools.product(POINTS, POINTS):
        got = arithmetic(name, [a, b])
        with np.errstate(all="ignore"):
            want = f(np.float64(a), np.float64(b))
        if got is None:
            assert name in ("mul", "div") or np.isnan(want)
            assert np.isnan(want) or INF in (abs(a), abs(b)) or b == 0
        elif name == "div":
            assert got == Fraction(a) / Fraction(b)
        else:
            assert float(got) == float(want), (name, a, b)


def test_arithmetic_of_one() -> None:
    for name, v, want in (
        ("neg", Fraction(3), -3), ("neg", INF, -INF), ("abs", Fraction(-3), 3), ("abs", -INF, INF), ("exp", -INF, 0),
        ("exp2", -INF, 0), ("exp", Fraction(0), 1), ("exp2", Fraction(0), 1), ("log", Fraction(1), 0), ("log", Fraction(0), -INF),  # noqa: E501
        ("exp", Fraction(1), None), ("exp", INF, None), ("log", Fraction(2), None), ("log", Fraction(-1), None),
        ("sqrt", Fraction(4), None), ("tanh", Fraction(0), None),
    ):  # fmt: skip
        assert arithmetic(name, [v]) == want


# ------------------------------------------------------------------------------------------------------ plain


def cast(e: Expr, *dtypes: str) -> Expr:
    for d in dtypes:
        e = op("cast", e, dtype=d)
    return e


X, Y = read("x", (size("i"),), "float16"), read("y", (size("i"),), "float16")
W = read("w", (size("i"),), "float32")


def test_a_16_bit_operation_is_widened() -> None:
    for name in ("add", "sub", "mul", "div", "max", "min"):
        assert plain(op(name, X, Y)) is cast(op(name, cast(X, "float32"), cast(Y, "float32")), "float16")
    assert plain(op("sqrt", X)) is cast(op("sqrt", cast(X, "float32")), "float16")
    assert plain(op("lt", X, Y)) is op("lt", cast(X, "float32"), cast(Y, "float32"))


@pytest.mark.parametrize("e", [op("add", W, W), W, X, const(1, "float32"), cast(W, "float16"), cast(W, "float16", "float32"),
                               cast(X, "int32"), op("lt", W, W), cast(cast(X, "int32"), "float16")])  # fmt: skip
def test_what_is_not_rewritten(e: Expr) -> None:
    assert plain(e) is e


def test_conversions() -> None:
    assert plain(cast(X, "float32", "float16")) is cast(X, "float16") or plain(cast(X, "float32", "float16")) is X
    assert plain(cast(X, "float32", "float64")) is cast(X, "float64")
    assert plain(cast(W, "float64", "float16")) is cast(W, "float64", "float16")  # w is no float16: rounding stays
    assert plain(cast(const(Fraction(1, 2), "float32"), "float16")) is const(Fraction(1, 2), "float16")
    tenth = const(Fraction(float(np.float32(0.1))), "float32")
    assert plain(cast(tenth, "float16")) is cast(tenth, "float16")
    assert plain(cast(const(5, "int32"), "int64")) is const(5, "int64")
    assert plain(cast(read("k", (), "int32"), "bool")) is op("ne", read("k", (), "int32"), const(0, "int32"))
    assert plain(op("neg", const(3, "int32"))) is const(-3, "int32")


def test_truth_values_as_integers() -> None:
    a = axis("a", 8)
    p = read("p", (a,), "bool")
    for f, g in (("max", "any"), ("min", "all")):
        e = op("ne", reduce_(f, (a,), cast(p, "int32")), const(0, "int32"))
        assert plain(e) is reduce_(g, (a,), p)
    other = op("ne", reduce_("max", (a,), cast(p, "int32")), const(1, "int32"))
    assert plain(other) is other
    assert isinstance(other, Op) and isinstance(const(1, "int32"), Const)

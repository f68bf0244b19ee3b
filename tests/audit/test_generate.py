"""Families of generated inputs: what their names promise, within the assumptions, the same at every call."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
import torch

from neptune_verified.auditing.assumptions import tensor_violations
from neptune_verified.auditing.families import NORMAL
from neptune_verified.auditing.generate import FAMILIES, generate
from neptune_verified.auditing.inputs import Inputs
from neptune_verified.auditing.structure import structure
from neptune_verified.ir.expr import INF, Expr, axis, const, op, read, reduce_, size
from neptune_verified.ir.program import Assumption, Program, Stage, Tensor
from tests.audit.test_inputs import weighted
from tests.definitions import attention, softmax

F = "float32"
M, N = 24, 40


def integer(value: int) -> Expr:
    return const(value, "int32")


def causal() -> Program:
    """Row i sees the columns j <= i + (N - M); no assumptions."""
    p = attention(masked=False)
    m, n, i, j = size("M"), size("N"), axis("i", size("M")), axis("j", size("N"))
    seen = op("le", j, op("add", i, op("sub", n, m)))
    s = p.stage("sm")
    masked = replace(s, body=op("select", seen, s.body, const(-INF, F)))
    return replace(p, name="causal", assumptions=(), stages=tuple(masked if x is s else x for x in p.stages))


def norm(dtype: str = F) -> Program:
    """sum_j x^2 w."""
    i, j = axis("i", size("M")), axis("j", size("N"))
    x = op("cast", read("x", (i, j), dtype), dtype=F)
    stages = (Stage("y", (i,), reduce_("sum", (j,), op("mul", x, x))),)
    return Program("norm", (Tensor("x", (size("M"), size("N")), dtype),), (size("M"), size("N")), stages, ("y",))


def lengths() -> Program:
    """The maximum of the first lens[i] elements of each row, plus a bias that may be -inf, where docs agree."""
    i, j = axis("i", size("M")), axis("j", size("N"))
    live = op("lt", j, read("lens", (i,), "int32"))
    live = op("and", live, op("eq", read("doc", (j,), "int32"), read("own", (i,), "int32")))
    live = op("and", live, read("mask", (i, j), "bool"))
    body = op("select", live, op("add", read("x", (i, j), F), read("bias", (i, j), F)), const(-INF, F))
    inputs = (
        Tensor("x", (size("M"), size("N")), F),
        Tensor("lens", (size("M"),), "int32"),
        Tensor("bias", (size("M"), size("N")), F),
        Tensor("doc", (size("N"),), "int32"),
        Tensor("own", (size("M"),), "int32"),
        Tensor("mask", (size("M"), size("N")), "bool"),
    )
    facts = (Assumption("finite_or_minus_infinity", "bias"), Assumption("bounded", "bias", 30.0))
    stages = (Stage("y", (i,), reduce_("max", (j,), body)),)
    return Program("lengths", inputs, (size("M"), size("N")), stages, ("y",), facts)


PROGRAMS: dict[str, Callable[[], Program]] = {
    "attention": attention,
    "bfloat16 attention": lambda: attention(dtype="bfloat16"),
    "causal": causal,
    "softmax": softmax,
    "norm": norm,
    "float16 norm": lambda: norm("float16"),
    "lengths": lengths,
    "weighted": weighted,
}


@cache
def drawn(name: str, family: str, rows: int = M, columns: int = 48) -> tuple[Program, Inputs]:
    p = PROGRAMS[name]()
    sizes = {"M": rows, "N": columns} | ({"T": 5} if name == "weighted" else {})
    return p, generate(p, family, sizes)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_assumptions_hold(name: str, family: str) -> None:
    p, found = drawn(name, family)
    assert tensor_violations(p, found.tensors) == []
    assert not found.outside and found.origin == "generated" and found.family == family
    for t in p.inputs:
        x = found.tensors[t.name]
        assert str(x.dtype) == f"torch.{t.dtype}"
        if x.is_floating_point():
            assert not x.isnan().any() and not (x == math.inf).any()
            assert family == "dead rows" or x.isfinite().all()
    again = generate(PROGRAMS[name](), family, {"M": M, "N": 48} | ({"T": 5} if name == "weighted" else {}))
    assert again.name == found.name and all(torch.equal(again.tensors[n], x) for n, x in found.tensors.items())


# ------------------------------------------------------------------------------------- what the names promise

FLOATS = [n for n in PROGRAMS if n not in ("lengths", "weighted")]
each = pytest.mark.parametrize("name", FLOATS)


def floats(name: str, family: str) -> list[tuple[torch.Tensor, tuple[int, ...]]]:
    """Each float input, and the dimensions along which it is reduced."""
    p, found = drawn(name, family)
    reduced = structure(p).reduced
    return [(x.double(), reduced[n]) for n, x in found.tensors.items() if x.is_floating_point()]


@each
def test_normal(name: str) -> None:
    for x, _ in floats(name, "normal"):
        assert abs(float(x.mean())) < 0.3 and 0.7 < float(x.std()) < 1.3


@each
def test_heavy_tailed(name: str) -> None:
    for x, _ in floats(name, "heavy-tailed"):
        assert float(x.abs().max()) > 6 * float(x.abs().median())


@each
def test_all_equal(name: str) -> None:
    for x, _ in floats(name, "all equal"):
        assert float(x.min()) == float(x.max()) != 0


@each
def test_very_negative_and_very_large(name: str) -> None:
    for x, _ in floats(name, "very large"):
        assert float(x.min()) > 30
    (first, _), *others = floats(name, "very negative")
    assert all(float(x.max()) < -40 for x, _ in others)
    if others:
        assert float((first @ others[0][0].T).max()) < -10_000
    else:
        assert float(first.max()) < -1000


@each
def test_alternating(name: str) -> None:
    for x, reduced in floats(name, "alternating"):
        for k in reduced:
            before, after = x.narrow(k, 0, x.shape[k] - 1), x.narrow(k, 1, x.shape[k] - 1)
            assert (before * after < 0).all()


@each
def test_one_dominant(name: str) -> None:
    for x, reduced in floats(name, "one dominant"):
        lines = x.movedim(reduced, tuple(range(-len(reduced), 0))).flatten(-len(reduced))
        first, second = lines.abs().reshape(-1, lines.shape[-1]).topk(2).values.unbind(-1)
        assert (first > 10 * second).all()


@each
def test_sorted(name: str) -> None:
    for x, reduced in floats(name, "sorted"):
        assert reduced
        for k in reduced:
            assert (x.diff(dim=k) >= 0).all()


@each
def test_ramp(name: str) -> None:
    """It rises by less than 1 % of its range, noise apart, at each step; the first tensor of a product is positive."""
    p = PROGRAMS[name]()
    for k, (x, reduced) in enumerate(floats(name, "ramp")):
        if k == 0 and len(p.inputs) > 1 and structure(p).contracted:
            assert (x > 0).all()
            continue
        others = [d for d in range(x.ndim) if d not in reduced[-1:]]
        line = x.double().mean(others) if others else x.double()
        steps = line.diff()
        assert (steps > 0).all() and float(steps.max()) < 3 * float(steps.mean()), steps


@each
def test_large_mean(name: str) -> None:
    for x, _ in floats(name, "large mean"):
        assert 0 < float(x.std()) < 1.5 and float(x.mean()) > 8 * float(x.std())
    if "norm" in name:
        assert float(x.mean()) > 300


@each
def test_denormal_zeros_and_outlier(name: str) -> None:
    dtype = next(t.dtype for t in PROGRAMS[name]().inputs)
    for x, _ in floats(name, "denormal"):
        assert (x != 0).all() and float(x.abs().max()) < NORMAL[dtype]
    for x, _ in floats(name, "zeros"):
        assert not x.any()
    for x, reduced in floats(name, "last outlier"):
        last = x
        for k in reduced:
            last = last.narrow(k, last.shape[k] - 1, 1)
        assert float(last.min()) >= 100 and int((x != 1).sum()) == last.numel()


def test_dead_rows_of_a_mask() -> None:
    p = causal()
    found = generate(p, "dead rows", {"M": 20, "N": 50})
    assert found.shapes["q"] == (50, 8) and found.shapes["k"] == (20, 8)
    assert found.notes == ("M and N exchanged: M = 50, N = 20",)
    assert generate(p, "dead rows", {"M": 50, "N": 20}).notes == ()
    assert generate(p, "dead rows", {"M": 20, "N": 50}, fixed=["M"]).shapes["q"] == (20, 8)
    assert generate(p, "normal", {"M": 20, "N": 50}).shapes["q"] == (20, 8)


def test_dead_rows_of_lengths_and_of_added_masks() -> None:
    found = drawn("lengths", "dead rows")[1]
    x = found.tensors
    n = x["mask"].shape[1]
    assert {0, n} <= set(x["lens"].tolist()) and x["lens"].min() == 0 and x["lens"].max() == n
    assert set(x["doc"].tolist()) <= {0, 1, 2, 3}
    dead = x["bias"] == -math.inf
    assert (
        dead.all(dim=1).any()
        and (~dead).all(dim=1).any()
        and dead[:, : n // 2].all(dim=1).sum() > dead.all(dim=1).sum()
    )
    assert (~x["mask"]).all(dim=1).any() and x["mask"].all(dim=1).any()
    assert x["x"].isfinite().all()
    assert drawn("lengths", "zeros")[1].tensors["lens"].tolist() == [0] * x["lens"].numel()
    random = drawn("lengths", "normal")[1].tensors["lens"]
    assert random.min() >= 0 and random.max() <= n and len(set(random.tolist())) > 4


def test_indices_stay_inside() -> None:
    for family in FAMILIES:
        found = drawn("weighted", family)[1]
        k = found.tensors["k"]
        assert k.min() >= 0 and k.max() < 5
    assert {0, 4} <= set(drawn("weighted", "dead rows")[1].tensors["k"].tolist())


# -------------------------------------------------------------------------------------------------- arguments


def test_what_is_drawn_depends_on_every_argument() -> None:
    p, sizes = softmax(), {"M": 3, "N": 5}
    x = generate(p, "normal", sizes).tensors["x"]
    assert not torch.equal(x, generate(p, "normal", sizes, seed=1).tensors["x"])
    assert not torch.equal(x, generate(replace(p, name="other"), "normal", sizes).tensors["x"])
    assert not torch.equal(x[:2], generate(p, "normal", {"M": 2, "N": 5}).tensors["x"])
    assert torch.equal(x / 2, generate(p, "normal", sizes, scale=0.5).tensors["x"])
    assert generate(p, "normal", sizes, seed=1).name == "normal M=3 N=5 seed=1"
    assert generate(p, "very large", sizes, scale=1e-3).tensors["x"].max() < 20


def test_numbers_do_not_change() -> None:
    """Audits of two versions compare the same inputs."""
    (row,) = generate(softmax(), "normal", {"M": 1, "N": 3}).tensors["x"].tolist()
    assert row == [0.7074387669563293, -1.135300636291504, -0.013490777462720871]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gets_the_same() -> None:
    for family in FAMILIES:
        here, there = (generate(attention(), family, {"M": 9, "N": 32}, device=d).tensors for d in ("cpu", "cuda"))
        assert all(x.is_cuda and torch.equal(x.cpu(), here[n]) for n, x in there.items())


@pytest.mark.parametrize("case", ["tight", "small and tight", "excluded zero", "impossible"])
def test_bounds_between_numbers_of_the_type(case: str) -> None:
    i, j = axis("i", size("M")), axis("j", size("N"))
    facts = {
        "tight": (Assumption("bounded", "x", 0.1),),
        "small and tight": (Assumption("bounded", "x", 1e-3), Assumption("nonzero", "x")),
        "excluded zero": (Assumption("at_least", "x", 1 / 3), Assumption("bounded", "x", 1.1)),
        "impossible": (Assumption("positive", "x"), Assumption("bounded", "x", 1e4)),
    }[case]
    for dtype in ("float16", "bfloat16", "float32"):
        body = op("cast", read("x", (i, j), dtype), dtype=F)
        p = norm(dtype)
        p = replace(p, assumptions=facts, stages=(Stage("y", (i,), reduce_("sum", (j,), body)),))
        for family in FAMILIES:
            found = generate(p, family, {"M": 3, "N": 7})
            assert tensor_violations(p, found.tensors) == [], (dtype, family)


def test_wrong_arguments() -> None:
    p = attention()
    for family, sizes, text in (
        ("strange", {"M": 1, "N": 16}, "there is no family 'strange': choose among normal, heavy-tailed"),
        ("normal", {"M": 1}, "attention: no value for N: give M, N"),
        ("normal", {"M": 1, "N": 16, "K": 3}, "'K' is none of its sizes"),
        ("normal", {"M": 1, "N": 17}, "attention assumes N % 16 == 0, not so at M = 1, N = 17"),
    ):
        with pytest.raises(ValueError, match=text):
            generate(p, family, sizes)


@pytest.mark.parametrize("family", FAMILIES)
def test_empty_tensors(family: str) -> None:
    for sizes in ({"M": 0, "N": 5}, {"M": 5, "N": 0}, {"M": 0, "N": 0}, {"M": 1, "N": 1}):
        for p in (softmax(), lengths(), causal()):
            generate(p, family, sizes, fixed=("M", "N"))

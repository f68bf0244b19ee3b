"""The llvm target against the interpreter: the fused program as built, against the definition in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tvm import te, tirx

from neptune_verified.errors import ShapeError, UnsupportedProgram
from neptune_verified.frontend import te as nv
from neptune_verified.frontend.facts import defaults
from neptune_verified.fusion.fuse import fuse
from neptune_verified.ir.expr import FLOATS, INF, OPS, Axis, Expr, Size, axis, const, op, read, reduce_, size
from neptune_verified.ir.interpret import run_program
from neptune_verified.ir.loops import LoopProgram, Nest, Output, run_loops
from neptune_verified.ir.program import Program, Stage, Tensor
from neptune_verified.targets.llvm import LlvmKernel, build

RNG = np.random.default_rng(20)
TILE = 8
LENGTHS = (0, 1, TILE - 1, TILE, TILE + 1, 3 * TILE + 5)
NUMPY = {"bfloat16": ml_dtypes.bfloat16}
#: Relative tolerance of each type against float64: a few units of its precision.
TOLERANCE = {"float64": 1e-12, "float32": 3e-5, "float16": 4e-3, "bfloat16": 3e-2}

F = "float32"
SIZE_N, SIZE_M = size("N"), size("M")
ROW, COL = axis("i", SIZE_M), axis("j", SIZE_N)
DEPTH = axis("d", 6)


def R(name: str, *indices: Expr, dtype: str = F) -> Expr:
    return read(name, indices, dtype)


def c(value: float, dtype: str = F) -> Expr:
    return const(value, dtype)


def program(name: str, inputs: list[tuple[str, tuple[Any, ...], str]], stages: list[Stage], *outputs: str) -> Program:
    tensors = [Tensor(n, tuple(const(d, "int32") if isinstance(d, int) else d for d in s), t) for n, s, t in inputs]
    sizes = dict.fromkeys(d for t in tensors for d in t.shape if isinstance(d, Size))
    floats = {t.name: t.dtype for t in tensors if t.dtype in FLOATS}
    facts = tuple(defaults([], floats, [s.name for s in sizes]))
    return Program(name, tuple(tensors), tuple(sizes), tuple(stages), outputs, facts)


def check(p: Program, arrays: dict[str, np.ndarray], kernel: LlvmKernel | None = None, **scalars: float) -> None:
    """Where the definition is defined, the built program agrees with it."""
    kernel = kernel or build(fuse(p), TILE)
    expected = run_program(p, {k: widened(v) for k, v in arrays.items()}, scalars)
    results = kernel(arrays, scalars)
    assert list(results) == list(p.outputs)
    for name, got in results.items():
        dtype = p.stage(name).dtype
        want = np.asarray(expected[name], dtype=np.float64)
        assert got.dtype == np.dtype(NUMPY.get(dtype, dtype)) and got.shape == want.shape
        defined = ~np.isnan(want)
        tolerance = max((TOLERANCE.get(t, 0.0) for t in (dtype, *(s.dtype for s in p.stages))), default=0.0)
        np.testing.assert_allclose(widened(got)[defined], want[defined], rtol=tolerance, atol=tolerance, err_msg=name)


def widened(x: np.ndarray) -> np.ndarray:
    return x.astype(np.int64) if x.dtype.kind in "iu" else x.astype(np.float64)


def normal(*shape: int, dtype: str = F) -> np.ndarray:
    return RNG.normal(size=shape).astype(NUMPY.get(dtype, dtype))


# ---------------------------------------------------------------------------------------------- attention


def attention(dtype: str = F, mask: Callable[[Expr, Axis], Expr] | None = None, safe: bool = False) -> Program:
    """softmax(q k^T / 2) v with the textbook formula, or with selects that give a dead row the value 0."""

    def load(name: str, *at: Expr) -> Expr:
        return op("cast", R(name, *at, dtype=dtype), dtype=F if dtype != "float64" else dtype)

    t = F if dtype != "float64" else dtype
    e = axis("e", 5)
    score = op("mul", R("s", ROW, COL, dtype=t), c(0.5, t))
    masked = score if mask is None else op("select", mask(ROW, COL), score, c(-INF, t))
    shifted = op("exp", op("sub", R("z", ROW, COL, dtype=t), R("m", ROW, dtype=t)))
    share = op("div", R("w", ROW, COL, dtype=t), R("l", ROW, dtype=t))
    if safe:
        shifted = op("select", op("eq", R("z", ROW, COL, dtype=t), c(-INF, t)), c(0, t), shifted)
        share = op("select", op("eq", R("l", ROW, dtype=t), c(0, t)), c(0, t), share)
    stages = [
        Stage("s", (ROW, COL), reduce_("sum", (DEPTH,), op("mul", load("q", ROW, DEPTH), load("k", COL, DEPTH)))),
        Stage("z", (ROW, COL), masked),
        Stage("m", (ROW,), reduce_("max", (COL,), R("z", ROW, COL, dtype=t))),
        Stage("w", (ROW, COL), shifted),
        Stage("l", (ROW,), reduce_("sum", (COL,), R("w", ROW, COL, dtype=t))),
        Stage("p", (ROW, COL), share),
        Stage("acc", (ROW, e), reduce_("sum", (COL,), op("mul", R("p", ROW, COL, dtype=t), load("v", COL, e)))),
        Stage("o", (ROW, e), op("cast", R("acc", ROW, e, dtype=t), dtype=dtype)),
        Stage("lse", (ROW,), op("add", R("m", ROW, dtype=t), op("log", R("l", ROW, dtype=t)))),
    ]
    inputs = [("q", (SIZE_M, 6), dtype), ("k", (SIZE_N, 6), dtype), ("v", (SIZE_N, 5), dtype)]
    return program("attention", inputs, stages, "o", *(("lse",) if safe else ()))


def qkv(m: int, n: int, dtype: str = F) -> dict[str, np.ndarray]:
    return {"q": normal(m, 6, dtype=dtype), "k": normal(n, 6, dtype=dtype), "v": normal(n, 5, dtype=dtype)}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_every_float_type_and_length(dtype: str, causal: bool) -> None:
    p = attention(dtype, (lambda i, j: op("ge", i, j)) if causal else None)
    loops = fuse(p)
    assert loops.passes == 1
    kernel = build(loops, TILE)
    for m in (0, 1, 5):
        for n in LENGTHS:
            check(p, qkv(m, n, dtype), kernel)


def test_dead_rows_and_two_outputs() -> None:
    """Rows 0 and 1 see nothing; both outputs come from one pass."""
    p = attention(mask=lambda i, j: op("and", op("ge", i, c(2, "int32")), op("ne", j, i)), safe=True)
    kernel = build(fuse(p), TILE)
    for n in LENGTHS:
        arrays = qkv(7, n)
        check(p, arrays, kernel)
        results = kernel(arrays)
        assert (results["o"][:2] == 0).all() and (results["lse"][:2] == -np.inf).all()


def test_a_row_whose_first_tiles_are_masked() -> None:
    p = attention(mask=lambda i, j: op("gt", j, c(2 * TILE, "int32")))
    check(p, qkv(3, 3 * TILE))


def test_an_undefined_row_is_not_a_number() -> None:
    """exp(-inf - -inf): the simplifier of TVM would take it for 1."""
    p = attention(mask=lambda i, j: op("gt", i, c(0, "int32")))
    loops = fuse(p, enabled=False)
    o = build(loops, TILE)(qkv(2, 5))["o"]
    assert np.isnan(o[0]).all() and np.isfinite(o[1]).all()


def test_unfused_programs_run_too() -> None:
    p = attention()
    loops = fuse(p, enabled=False)
    assert loops.passes > 1
    check(p, qkv(4, 19), build(loops, TILE))


# ---------------------------------------------------------------------------------------------- other chains


def rows(*stages: Stage, outputs: tuple[str, ...], dtype: str = F) -> Program:
    return program("rows", [("x", (SIZE_M, SIZE_N), dtype)], list(stages), *outputs)


X = R("x", ROW, COL)
ROW_MAX = Stage("m", (ROW,), reduce_("max", (COL,), X))
EXP = op("exp", op("sub", X, R("m", ROW)))
TOTAL = Stage("l", (ROW,), reduce_("sum", (COL,), EXP))

CHAINS: dict[str, Program] = {
    "softmax": rows(ROW_MAX, TOTAL, Stage("p", (ROW, COL), op("div", EXP, R("l", ROW))), outputs=("p",)),
    "softmax and statistics": rows(
        ROW_MAX, TOTAL, Stage("p", (ROW, COL), op("div", EXP, R("l", ROW))), outputs=("p", "m", "l")
    ),
    "logsumexp": rows(
        ROW_MAX, TOTAL, Stage("y", (ROW,), op("add", R("m", ROW), op("log", R("l", ROW)))), outputs=("y",)
    ),
    "scaled l2": rows(
        Stage("a", (ROW,), reduce_("max", (COL,), op("abs", X))),
        Stage(
            "q",
            (ROW,),
            reduce_("sum", (COL,), op("mul", op("div", X, R("a", ROW)), op("div", X, R("a", ROW)))),
        ),
        Stage("y", (ROW,), op("mul", R("a", ROW), op("sqrt", R("q", ROW)))),
        outputs=("y",),
    ),
    "min of differences": rows(
        Stage("m", (ROW,), reduce_("min", (COL,), X)),
        Stage("s", (ROW,), reduce_("sum", (COL,), op("sub", X, R("m", ROW)))),
        Stage("r", (ROW,), reduce_("min", (COL,), op("sub", X, R("s", ROW)))),
        outputs=("s", "r"),
    ),
    "variance": rows(
        Stage("s", (ROW,), reduce_("sum", (COL,), X)),
        Stage("mu", (ROW,), op("div", R("s", ROW), op("cast", SIZE_N, dtype=F))),
        Stage("d", (ROW, COL), op("sub", X, R("mu", ROW))),
        Stage("v", (ROW,), reduce_("sum", (COL,), op("mul", R("d", ROW, COL), R("d", ROW, COL)))),
        outputs=("v",),
    ),
    "product": rows(
        Stage("q", (ROW,), reduce_("prod", (COL,), op("add", c(1), op("mul", X, c(0.125))))),
        Stage("y", (ROW, COL), op("mul", X, R("q", ROW))),
        outputs=("y", "q"),
    ),
    "logaddexp": rows(Stage("y", (ROW,), reduce_("logaddexp", (COL,), op("mul", X, c(100)))), outputs=("y",)),
    "any and all": rows(
        Stage("some", (ROW,), reduce_("any", (COL,), op("gt", X, c(1.5)))),
        Stage(
            "every",
            (ROW,),
            reduce_("all", (COL,), op("or", op("lt", X, c(1)), op("not", R("some", ROW, dtype="bool")))),
        ),
        outputs=("some", "every"),
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_chain_at_every_length(name: str) -> None:
    p = CHAINS[name]
    kernel = build(fuse(p), TILE)
    for m in (0, 1, 6):
        for n in LENGTHS:
            check(p, {"x": normal(m, n)}, kernel)


def test_softmax_has_two_passes() -> None:
    assert fuse(CHAINS["softmax"]).passes == 2


def test_scaled_l2_of_a_tile_of_zeros() -> None:
    x = np.zeros((1, TILE + 2), np.float32)
    x[0, TILE:] = 3, 4
    assert build(fuse(CHAINS["scaled l2"]), TILE)({"x": x})["y"] == pytest.approx([5.0])


def test_very_negative_and_infinite_values() -> None:
    x = np.array([[-np.inf, -3e38, 1, 2], [-np.inf] * 4, [-1e30, -1e30, -1e30, -2e30], [88, 89, 90, 91]], np.float32)
    for name in ("softmax", "logsumexp", "logaddexp"):
        check(CHAINS[name], {"x": np.repeat(x, 5, axis=1) if name != "logaddexp" else x * np.float32(0.01)})


@pytest.mark.parametrize("tile", [1, 2, 7, 64, 1000])
def test_every_tile_size_gives_the_same(tile: int) -> None:
    p = CHAINS["softmax and statistics"]
    check(p, {"x": normal(3, 65)}, build(fuse(p), tile))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bit_arithmetic_is_rounded_once(dtype: str) -> None:
    """A sum of 3000 ones is exact in a float32 accumulator, and stops at 2048 or 256 in a 16-bit one."""
    s = reduce_("sum", (COL,), R("x", ROW, COL, dtype=dtype))
    p = rows(Stage("s", (ROW,), s), dtype=dtype, outputs=("s",))
    ones = np.ones((2, 3000), NUMPY.get(dtype, dtype))
    got = build(fuse(p), TILE)({"x": ones})["s"]
    assert (got == np.array(3000).astype(got.dtype)).all()


def test_two_reduction_axes() -> None:
    a, b, h = axis("a", size("A")), axis("b", SIZE_N), axis("h", 3)
    x = R("x", ROW, a, b, h)
    stages = [
        Stage("m", (ROW, h), reduce_("max", (a, b), x)),
        Stage("s", (ROW, h), reduce_("sum", (a, b), op("exp", op("sub", x, R("m", ROW, h))))),
    ]
    p = program("plane", [("x", (SIZE_M, size("A"), SIZE_N, 3), F)], stages, "s", "m")
    kernel = build(fuse(p), TILE)
    for shape in ((2, 0, 5, 3), (2, 4, 0, 3), (0, 2, 2, 3), (2, 3, TILE + 1, 3), (1, 1, 1, 3)):
        check(p, {"x": normal(*shape)}, kernel)


def test_integers_floor_division_and_predicates() -> None:
    """Integer reductions; floor division of negatives, of what is not a constant, and by 0."""
    z = read("x", (ROW, COL), "int32")
    low = op("sub", z, op("cast", ROW, dtype="int32"))
    key = op("add", op("floordiv", low, c(3, "int32")), op("floormod", z, op("sub", COL, c(2, "int32"))))
    inside = op("and", op("ge", key, c(-4, "int32")), op("le", op("floormod", low, c(4, "int32")), COL))
    stages = [
        Stage("a", (ROW,), reduce_("max", (COL,), key)),
        Stage("b", (ROW,), reduce_("sum", (COL,), op("select", inside, op("abs", key), op("neg", z)))),
        Stage("n", (ROW,), reduce_("min", (COL,), z)),
        Stage("k", (ROW,), reduce_("any", (COL,), op("eq", z, R("n", ROW, dtype="int32")))),
    ]
    p = program("whole", [("x", (SIZE_M, SIZE_N), "int32")], stages, "a", "b", "n", "k")
    kernel = build(fuse(p), TILE)
    for n in LENGTHS:
        check(p, {"x": RNG.integers(-50, 50, (5, n)).astype(np.int32)}, kernel)


def test_small_integer_inputs_and_outputs() -> None:
    z = read("x", (COL,), "uint8")
    wide = op("cast", z, dtype="int64")
    stages = [
        Stage("s", (), reduce_("sum", (COL,), wide)),
        Stage("c", (COL,), op("cast", op("floordiv", wide, c(2, "int64")), dtype="int8")),
        Stage("t", (COL,), op("cast", z, dtype="bool")),
    ]
    p = program("bytes", [("x", (SIZE_N,), "uint8")], stages, "s", "c", "t")
    for n in LENGTHS:
        check(p, {"x": RNG.integers(0, 256, n).astype(np.uint8)})


def test_reads_out_of_range_are_not_evaluated() -> None:
    before = op("select", op("gt", COL, c(0, "int32")), R("x", ROW, op("sub", COL, c(1, "int32"))), c(-INF))
    after = op(
        "select", op("lt", op("add", COL, c(1, "int32")), SIZE_N), R("x", ROW, op("add", COL, c(1, "int32"))), c(-INF)
    )
    p = rows(Stage("m", (ROW,), reduce_("max", (COL,), op("max", before, after))), outputs=("m",))
    for n in LENGTHS:
        check(p, {"x": normal(4, n)})


def test_boolean_and_gathered_inputs() -> None:
    """A mask as an input, and an index that is itself read from memory, partly out of range."""
    live = read("mask", (ROW, COL), "bool")
    at = read("index", (COL,), "int64")
    picked = R("x", ROW, op("cast", at, dtype="int32"))
    valid = op("and", live, op("and", op("ge", at, c(0, "int64")), op("lt", at, op("cast", SIZE_N, dtype="int64"))))
    term = op("select", valid, picked, c(0))
    inputs = [("x", (SIZE_M, SIZE_N), F), ("mask", (SIZE_M, SIZE_N), "bool"), ("index", (SIZE_N,), "int64")]
    p = program("gather", inputs, [Stage("s", (ROW,), reduce_("sum", (COL,), term))], "s")
    for n in LENGTHS:
        index = RNG.integers(-3, n + 3, n)
        check(p, {"x": normal(3, n), "mask": RNG.random((3, n)) < 0.5, "index": index})


# ---------------------------------------------------------------------------------------------- schedules made by hand


def against_loops(loops: LoopProgram, arrays: dict[str, np.ndarray]) -> None:
    expected = run_loops(loops, arrays, tile=3)
    for name, got in build(loops, TILE)(arrays).items():
        np.testing.assert_allclose(got, expected[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("m", [0, 1, 5])
def test_an_inner_axis_of_any_length(m: int) -> None:
    """No grid: buffers over an axis whose length is known at run time alone."""
    loops = fuse(attention(safe=True))
    nest = loops.nests[0]
    whole = replace(nest, grid=(), inner=nest.grid + nest.inner)
    against_loops(replace(loops, nests=(whole,)), qkv(m, 11))


def test_an_output_without_a_grid_axis_is_written_once() -> None:
    loops = fuse(CHAINS["softmax and statistics"])
    nest = loops.nests[0]
    for extra in (axis("g", 3), axis("g", SIZE_M)):
        against_loops(replace(loops, nests=(replace(nest, grid=(extra, *nest.grid)),)), {"x": normal(4, 9)})


def test_a_kernel_reads_what_an_earlier_one_wrote() -> None:
    p = CHAINS["softmax and statistics"]
    loops = fuse(rows(ROW_MAX, TOTAL, outputs=("m", "l")))
    half = Output("p", (ROW, COL), op("div", op("exp", op("sub", X, R("m", ROW))), R("l", ROW)))
    second = Nest("second", (ROW, COL), (), (), (half,))
    both = replace(loops, program=p, nests=(*loops.nests, second))
    x = normal(4, 21)
    got = build(both, TILE)({"x": x})
    np.testing.assert_allclose(got["p"], run_program(p, {"x": x})["p"], rtol=1e-5)
    assert list(got) == ["p", "m", "l"]


# ---------------------------------------------------------------------------------------------- single operations

UNARY = sorted(name for name, (arity, result) in OPS.items() if arity == 1 and result == "same")
POINTS = [-INF, -1e4, -2.5, -1.5, -1.0, -0.3, -1e-5, 0.0, 1e-5, 0.5, 1.0, 1.5, 2.5, 40.0, 1e4, INF]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", UNARY)
def test_unary_operations(name: str, dtype: str) -> None:
    """Relative error alone: tanh of a tiny number is that number."""
    x = np.array(POINTS).astype(NUMPY.get(dtype, dtype))
    p = program("point", [("x", (SIZE_N,), dtype)], [Stage("y", (COL,), op(name, R("x", COL, dtype=dtype)))], "y")
    want = run_program(p, {"x": widened(x)})["y"]
    got = build(fuse(p), TILE)({"x": x})["y"].astype(np.float64)
    biggest = float(ml_dtypes.finfo(NUMPY.get(dtype, dtype)).max)
    defined = ~np.isnan(want) & ((np.abs(want) <= biggest) | np.isin(widened(x), (-INF, INF)))
    precision = float(ml_dtypes.finfo(NUMPY.get(dtype, dtype)).eps)
    tiny = float(ml_dtypes.finfo(NUMPY.get(dtype, dtype)).tiny)
    np.testing.assert_allclose(got[defined], want[defined], rtol=2 * precision, atol=tiny)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "max", "min", "pow", "floordiv", "floormod"])
def test_binary_operations_are_ieee(name: str) -> None:
    """Infinities and zeros in every combination: what is undefined is NaN or infinite, the rest agrees."""
    points = np.array([-INF, -3.0, -0.5, 0.0, 0.5, 2.0, INF])
    x, y = (g.ravel() for g in np.meshgrid(points, points))
    a, b = R("x", COL, dtype="float64"), R("y", COL, dtype="float64")
    p = program(
        "pair", [("x", (SIZE_N,), "float64"), ("y", (SIZE_N,), "float64")], [Stage("z", (COL,), op(name, a, b))], "z"
    )
    want = run_program(p, {"x": x, "y": y})["z"]
    got = build(fuse(p), TILE)({"x": x, "y": y})["z"]
    defined = ~np.isnan(want)
    np.testing.assert_allclose(got[defined], want[defined], rtol=1e-15)
    if name in ("add", "sub", "mul", "div"):
        assert not np.isfinite(got[~defined]).any()


@pytest.mark.parametrize(
    "body",
    [
        op("sub", X, X),
        op("mul", X, c(0)),
        op("div", X, X),
        op("sub", op("add", X, c(1)), X),
        op("add", op("mul", X, c(2)), op("mul", X, c(-2))),
        op("div", c(1), op("mul", c(0), X)),
        op("div", X, c(0)),
        op("max", op("sub", X, X), c(1)),
        op("min", c(1), op("sub", X, X)),
    ],
)
def test_nothing_is_simplified_away(body: Expr) -> None:
    p = rows(Stage("y", (ROW, COL), body), outputs=("y",))
    got = build(fuse(p), TILE)({"x": np.array([[-np.inf, np.inf, np.nan]], np.float32)})["y"]
    assert not np.isfinite(got).any()


def test_a_float_that_breaks_the_integer_analysis_of_tvm() -> None:
    """Bound to a TensorIR variable, this quotient of a select makes TVM's lowering fail."""
    inner = op("select", op("eq", X, c(-INF)), X, R("y", COL))
    quotient = op("select", op("ge", X, R("y", COL)), op("div", inner, R("m", ROW)), R("m", ROW))
    stages = [ROW_MAX, Stage("z", (ROW,), reduce_("logaddexp", (COL,), quotient))]
    p = program("quotients", [("x", (SIZE_M, SIZE_N), F), ("y", (SIZE_N,), F)], stages, "z")
    check(p, {"x": 1 + np.abs(normal(4, 9)), "y": normal(9)}, build(fuse(p, enabled=False), TILE))


def test_every_float16_is_read_exactly_and_rounding_is_to_even() -> None:
    bits = np.arange(2**16, dtype=np.uint16)
    p = program(
        "copy",
        [("x", (SIZE_N,), "float16")],
        [Stage("y", (COL,), op("cast", R("x", COL, dtype="float16"), dtype=F))],
        "y",
    )
    got = build(fuse(p))({"x": bits.view(np.float16)})["y"]
    np.testing.assert_array_equal(got, bits.view(np.float16).astype(np.float32))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rounding_to_sixteen_bits_is_to_even(dtype: str) -> None:
    x = RNG.integers(0, 2**32, 20000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    x[:5] = 0, -0.0, np.inf, -np.inf, np.nan
    p = program("round", [("x", (SIZE_N,), F)], [Stage("y", (COL,), op("cast", R("x", COL), dtype=dtype))], "y")
    got = build(fuse(p))({"x": x})["y"]
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(got.astype(np.float32), x.astype(got.dtype).astype(np.float32))


def test_a_float_without_an_integer_becomes_zero() -> None:
    y = op("cast", X, dtype="int32")
    p = rows(Stage("y", (ROW, COL), y), outputs=("y",))
    x = np.array([[np.nan, np.inf, -np.inf, -2.9, 2.9, -0.5]], np.float32)
    assert build(fuse(p))({"x": x})["y"].tolist() == [[0, 0, 0, -2, 2, 0]]


# ---------------------------------------------------------------------------------------------- te, and the interface


def test_a_te_program_with_a_scalar_argument() -> None:
    n, scale = te.var("n"), te.var("scale", dtype="float32")
    x = te.placeholder((4, n), name="x")
    j, k = te.reduce_axis((0, n), name="j"), te.reduce_axis((0, n), name="k")
    m = te.compute((4,), lambda i: te.max(x[i, j] * scale, axis=j), name="m")
    s = te.compute((4,), lambda i: te.sum(te.exp(x[i, k] * scale - m[i]), axis=k), name="s")
    y = te.compute((4,), lambda i: tirx.log(s[i]) + m[i], name="y")
    p = nv.from_te([x], [y], "scaled")
    kernel = build(fuse(p), TILE)
    for length in LENGTHS:
        check(p, {"x": normal(4, length)}, kernel, scale=0.75)
    with pytest.raises(TypeError, match="scaled takes scale by name; got none"):
        kernel({"x": normal(4, 3)})


def test_arguments_are_checked() -> None:
    kernel = build(fuse(attention()), TILE)
    good = qkv(3, 4)
    with pytest.raises(ShapeError, match=r"v.shape\[0\] is 5, but N = 4"):
        kernel(good | {"v": normal(5, 5)})
    with pytest.raises(ShapeError, match=r"q.shape\[1\] is 7, the definition says 6"):
        kernel(good | {"q": normal(3, 7)})
    with pytest.raises(TypeError, match="q is declared float32, got float64"):
        kernel(good | {"q": normal(3, 6, dtype="float64")})
    with pytest.raises(TypeError, match="attention takes the inputs q, k, v; got q"):
        kernel({"q": good["q"]})
    with pytest.raises(TypeError, match="attention takes no scalars by name; got scale"):
        kernel(good, {"scale": 1.0})


def test_other_layouts_are_copied() -> None:
    p, arrays = attention(), qkv(5, 9)
    kernel = build(fuse(p), TILE)
    strided = {name: np.asfortranarray(np.repeat(a, 2, axis=0))[::2] for name, a in arrays.items()}
    assert not strided["q"].flags.c_contiguous
    np.testing.assert_array_equal(kernel(strided)["o"], kernel(arrays)["o"])


def test_the_source_is_the_script() -> None:
    source = build(fuse(attention()), TILE).source
    assert "def attention(q: T.Buffer" in source and "T.parallel" in source


def test_what_cannot_be_built_is_said_in_one_line() -> None:
    z = read("x", (COL,), "int32")
    p = program("odd", [("x", (SIZE_N,), "int32")], [Stage("y", (COL,), op("exp", z))], "y")
    with pytest.raises(UnsupportedProgram, match="exp of int32: the llvm target has no such operation"):
        build(fuse(p))
    with pytest.raises(ValueError, match="a tile has at least one element, got 0"):
        build(fuse(attention()), 0)


@pytest.mark.parametrize("name", ["exp", "main", "two words", "1st"])
def test_any_name_will_do(name: str) -> None:
    p = program(name, [("exp", (SIZE_N,), F)], [Stage("o", (COL,), op("exp", R("exp", COL)))], "o")
    check(p, {"exp": normal(3)})


def test_inputs_of_more_than_two_to_the_31_elements_are_addressed_in_64_bits() -> None:
    source = build(fuse(attention()), TILE).source
    assert "int32" not in source

"""Not trusted: programs whose emitted kernel files are edited. They are small, and together they have every construct
that the printer writes: products of tiles, masks, guards, helpers, integers, several loops, several kernels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from neptune_verified.fusion.fuse import fuse
from neptune_verified.ir.expr import FLOATS, INF, Expr, Size, axis, const, op, read, reduce_, size
from neptune_verified.ir.loops import LoopProgram
from neptune_verified.ir.program import Assumption, Program, Stage, Tensor
from neptune_verified.ir.program_json import program_hash
from neptune_verified.ir.serialize import SEMANTICS_VERSION
from neptune_verified.mutants.programs import (
    COLUMN,
    ROW,
    F,
    M,
    N,
    Rows,
    add,
    div,
    exp,
    if_zero,
    logsumexp,
    mul,
    num,
    scaled_norm,
    softmax,
    sub,
)  # fmt: skip
from neptune_verified.proofs.kernel import Prover, verify
from neptune_verified.schedule import Schedule, with_splits
from neptune_verified.tile.contract import Conversions
from neptune_verified.tile.emit import emit
from neptune_verified.tile.lower import lower

TARGET = "interpret"
NEGATIVE = num(-INF)


def declared(program: Program, sizes: Iterable[Size] = (M, N)) -> Program:
    """With the facts that the front end declares of every program."""
    bounds = {"float32": 2**40, "float16": 65504}
    facts = [
        Assumption("bounded", t.name, bounds[t.dtype], origin="default") for t in program.inputs if t.dtype in FLOATS
    ]
    for s in sizes:
        if s.dtype in FLOATS:
            facts.append(Assumption("bounded", s.name, 2**40, origin="default"))
        else:
            facts.append(Assumption("at_least", s.name, 0, origin="default"))
            facts.append(Assumption("bounded", s.name, 2**31 - 1, origin="default"))
    own = [a for a in program.assumptions if a.origin != "default"]
    return replace(program, sizes=tuple(sizes), assumptions=(*own, *facts))


def _product(dtype: str, name: str, masked: bool) -> Program:
    """q: [2, M, 16], k, v: [2, N, 16]: weights of rows of q on rows of k, their mean of v, and the log-sum-exp."""
    h, i, j, d, e = axis("h", 2), axis("i", M), axis("j", N), axis("r", 16), axis("d", 16)
    shapes = {"q": (h, i, d), "k": (h, j, d), "v": (h, j, e)}
    inputs = tuple(Tensor(n, tuple(a.extent for a in axes), dtype) for n, axes in shapes.items())

    def wide(n: str) -> Expr:
        x = read(n, shapes[n], dtype)
        return op("cast", x, dtype=F) if dtype != F else x

    s = op("mul", read("qk", (h, i, j), F), num(0.25))
    if masked:
        s = op("select", op("le", j, op("add", i, op("sub", N, M))), s, NEGATIVE)
    read_s, m, l = read("s", (h, i, j), F), read("m", (h, i), F), read("l", (h, i), F)  # noqa: E741
    term = exp(sub(read_s, m))
    ee = read("e", (h, i, j), F)
    share = div(ee, l)
    if masked:
        term = op("select", op("eq", read_s, NEGATIVE), num(0), term)
        share = op("select", op("eq", l, num(0)), num(0), share)
    stages = [
        Stage("qk", (h, i, j), reduce_("sum", (d,), mul(wide("q"), wide("k")))),
        Stage("s", (h, i, j), s),
        Stage("m", (h, i), reduce_("max", (j,), read_s)),
        Stage("e", (h, i, j), term),
        Stage("l", (h, i), reduce_("sum", (j,), ee)),
        Stage("p", (h, i, j), share),
        Stage("o32" if dtype != F else "o", (h, i, e), reduce_("sum", (j,), mul(read("p", (h, i, j), F), wide("v")))),
    ]
    if dtype != F:
        stages.append(Stage("o", (h, i, e), op("cast", read("o32", (h, i, e), F), dtype=dtype)))
    outputs: tuple[str, ...] = ("o",)
    if masked:
        stages.append(Stage("lse", (h, i), add(m, op("log", l))))
        outputs = ("o", "lse")
    return Program(name, inputs, (M, N), tuple(stages), outputs)


def causal() -> Program:
    return _product(F, "causal", True)


def half() -> Program:
    return _product("float16", "half", False)


def twice() -> Program:
    """Weights as the sum of two float16 numbers."""
    return _product("float16", "twice", True)


def masked_logsumexp() -> Program:
    """Elements may be -inf: the first tiles of a row may be dead, and whole rows."""
    program = declared(logsumexp())
    may_be_dead = Assumption("finite_or_minus_infinity", "x")
    return replace(program, name="masked_logsumexp", assumptions=(may_be_dead, *program.assumptions))


def normalised() -> Program:
    """(x - mean) / sqrt(var + eps) * w + b: three loops."""
    p = Rows("normalised")
    x, w, b = p.input("x"), p.input("w", (COLUMN,)), p.input("b", (COLUMN,))
    n = op("cast", N, dtype=F)
    mean = p.each("mean", div(p.row("total", "sum", x), n))
    var = p.each("var", div(p.row("squares", "sum", mul(sub(x, mean), sub(x, mean))), n))
    p.map("y", add(mul(mul(sub(x, mean), op("rsqrt", add(var, num(2.0**-16)))), w), b))
    return p.build("y")


def counts() -> Program:
    """Integers and predicates: any, all, a count, a largest element."""
    p = Rows("counts")
    x, t = p.input("x", dtype="int32"), p.input("t", (ROW,), "int32")
    above = op("gt", x, t)
    p.row("some", "any", above)
    p.row("every", "all", op("ge", x, op("sub", t, const(4, "int32"))))
    p.row("number", "sum", op("cast", above, dtype="int32"))
    p.facts += [Assumption("bounded", n, 2**20) for n in ("x", "t")]
    return p.build("some", "every", "number")


def blocks() -> Program:
    """Element j of row i is seen if it lies in the row's block of 4, counted from N // 2: both signs, floor division."""
    p = Rows("blocks")
    x, v = p.input("x"), p.input("v", (COLUMN,))
    four, two = const(4, "int32"), const(2, "int32")
    far = op("floordiv", op("sub", COLUMN, ROW), four)
    odd = op("floormod", op("sub", ROW, COLUMN), const(3, "int32"))
    seen = op("or", op("eq", far, op("floordiv", op("sub", COLUMN, op("floordiv", N, two)), four)), op("eq", odd, two))
    s = p.map("s", op("select", seen, x, NEGATIVE))
    m = p.row("m", "max", s)
    e = p.map("e", op("select", op("eq", s, NEGATIVE), num(0), exp(sub(s, m))))
    l = p.row("l", "sum", e)  # noqa: E741
    w = p.map("w", if_zero(l, div(e, l)))
    p.row("o", "sum", mul(w, v))
    return p.build("o")


def two_kernels() -> Program:
    """Sums of the rows of x, and the largest elements of w: two grids. alpha is a scalar argument."""
    p = Rows("two_kernels")
    k = size("K")
    row2, column2 = axis("a", k), axis("b", M)
    alpha = size("alpha", F)
    x, w = p.input("x"), p.input("w", (row2, column2))
    p.row("rows", "sum", mul(x, alpha))
    p.stage("tops", (row2,), reduce_("max", (column2,), op("abs", w)))
    return declared(p.build("rows", "tops"), (M, N, k, alpha))


def curves() -> Program:
    """Helper functions: tanh, logaddexp, sigmoid, a power, a product."""
    p = Rows("curves")
    x, y = p.input("x"), p.input("y")
    s = p.map("s", mul(num(3), op("tanh", mul(x, num(0.5)))))
    m = p.row("m", "max", s)
    p.row("a", "sum", mul(exp(sub(s, m)), op("sigmoid", y)))
    p.row("b", "logaddexp", y)
    p.row("c", "prod", op("cos", y))
    return p.build("a", "b", "c")


def lookup() -> Program:
    """table[k[i, j]] under row lengths, plus a bias of the row: an index that data give."""
    p = Rows("lookup")
    place = axis("t", size("T"))
    x, k, n = p.input("x"), p.input("k", dtype="int32"), p.input("len", (ROW,), "int32")
    p.input("table", (place,))
    s = p.map("s", op("select", op("lt", COLUMN, n), add(x, read("table", (k,), F)), num(0)))
    p.row("a", "min", s)
    p.row("b", "sum", mul(s, s))
    return declared(p.build("a", "b"), (M, N, size("T")))


def split_softmax() -> Program:
    """Two passes over shares, of which the second stores along them."""
    return replace(declared(softmax()), name="split_softmax")


def split_logsumexp() -> Program:
    """Whole shares may be dead."""
    return replace(masked_logsumexp(), name="split_logsumexp")


def split_passes() -> Program:
    """sum log(1 + exp(x - m)): a reduction in a pass of its own reads one that was joined before; and an integer."""
    p = Rows("split_passes")
    x = p.input("x")
    e = exp(sub(x, p.row("m", "max", x)))
    p.row("s", "sum", op("log", add(num(1), e)))
    p.row("n", "sum", op("cast", op("lt", num(0), x), dtype="int32"))
    return declared(p.build("s", "n"))


def packed_decode() -> Program:
    """q: [B, 5, 16], k, v: [B, 2, N, 16]: heads 0 to 2 read the first keys, 3 and 4 the second: rows of one tile."""
    b, h, j = axis("b", size("B")), axis("h", 5), axis("j", N)
    d, r, g = axis("d", 16), axis("r", 16), op("floordiv", axis("h", 5), const(3, "int32"))
    groups = const(2, "int32")
    inputs = (Tensor("q", (b.extent, h.extent, d.extent), F),
              *(Tensor(n, (b.extent, groups, N, d.extent), F) for n in ("k", "v")))  # fmt: skip
    s, m, l = read("s", (b, h, j), F), read("m", (b, h), F), read("l", (b, h), F)  # noqa: E741
    e = read("e", (b, h, j), F)
    stages = (
        Stage("qk", (b, h, j), reduce_("sum", (r,), mul(read("q", (b, h, r), F), read("k", (b, g, j, r), F)))),
        Stage("s", (b, h, j), mul(read("qk", (b, h, j), F), num(0.25))),
        Stage("m", (b, h), reduce_("max", (j,), s)),
        Stage("e", (b, h, j), exp(sub(s, m))),
        Stage("l", (b, h), reduce_("sum", (j,), e)),
        Stage("p", (b, h, j), div(e, l)),
        Stage("o", (b, h, d), reduce_("sum", (j,), mul(read("p", (b, h, j), F), read("v", (b, g, j, d), F)))),
    )
    sizes = (size("B"), N)
    return declared(Program("packed_decode", inputs, sizes, stages, ("o",)), sizes)


#: Programs with split-K kernels.
SPLIT_PROGRAMS = frozenset({"split_softmax", "split_logsumexp", "split_passes", "packed_decode"})
#: What becomes of float32 operands of products, where it is not the default.
OPERANDS = {"twice": "x2"}
TEXT_PROGRAMS: dict[str, Callable[[], Program]] = {
    f.__name__: f
    for f in (
        causal,
        half,
        twice,
        softmax,
        masked_logsumexp,
        scaled_norm,
        normalised,
        counts,
        blocks,
        two_kernels,
        curves,
        lookup,
        split_softmax,
        split_logsumexp,
        split_passes,
        packed_decode,
    )
}

# ------------------------------------------------------------------------------------------------- kernel files


@dataclass(frozen=True)
class TextBase:
    """A right kernel file, and the loop program that it was printed from."""

    name: str
    program: Program
    loops: LoopProgram
    source: str


_PROVER = Prover()
#: Programs whose tiles are square: there a wrong axis is no error of shape.
EVEN = frozenset(TEXT_PROGRAMS) - {"causal", "scaled_norm", "counts"}


@lru_cache(maxsize=32)
def text_base(name: str) -> TextBase:
    """The kernel file of a program, with tiles so small that few elements make several of them."""
    program = TEXT_PROGRAMS[name]()
    if not any(a.kind == "at_least" for a in program.assumptions):
        program = declared(program)
    loops = fuse(program, _PROVER)
    if name in SPLIT_PROGRAMS:
        loops, failed = with_splits(loops, Schedule("split-k"), _PROVER, gpu=False)
        assert not failed
    verified = verify(loops, _PROVER)
    definition = program_hash(program, SEMANTICS_VERSION)
    tiles = lower(verified, TARGET, Conversions(operands=OPERANDS.get(name, "auto")))
    emitted = emit(program, tiles, TARGET, definition, "# a kernel to edit", loops.passes)
    return TextBase(name, program, loops, small_tiles(emitted.source, name in EVEN))


def small_tiles(source: str, even: bool) -> str:
    """Other numbers in the tile tables. Any power of two is right, 16 at least in a product of tiles. Shares are multiples
    of the longest tile; a few of them make several tiles."""

    def entry(found: re.Match[str]) -> str:
        floor = 16 if "tl.dot(" in source else 4
        medium = found[0].startswith('    "medium"')
        number = iter((2 * floor,) if even else (2 * floor, floor) if medium else (floor, 2 * floor))
        return re.sub(r'("BLOCK_\w+": )\d+', lambda m: f"{m[1]}{next(number, 2 * floor)}", found[0])

    source = re.sub(
        r"(= _shares\(.*?, programs, \d+, )\d+", lambda m: f"{m[1]}{32 if 'tl.dot(' in source else 8}", source
    )
    source = re.sub(r'^    "\w+": \(\{.*\n', entry, source, flags=re.MULTILINE)
    return re.sub(r'("BLOCK_SPLIT": )\d+', r"\g<1>2", source)

"""Not trusted: programs that wrong transformations are made from, built by hand from expressions, without TVM.

``x: [M, N]`` is a matrix whose rows are reduced. Names of operators are for people; nothing depends on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from neptune_verified.ir.expr import INF, Axis, Expr, Size, axis, const, op, read, reduce_, size
from neptune_verified.ir.program import Assumption, Program, Stage, Tensor

F = "float32"
M, N = size("M"), size("N")
ROW, COLUMN, DEPTH = axis("i", M), axis("j", N), axis("d", 2)


def num(value: float) -> Expr:
    return const(value, F)


def exp(x: Expr) -> Expr:
    return op("exp", x)


def mul(x: Expr, y: Expr) -> Expr:
    return op("mul", x, y)


def sub(x: Expr, y: Expr) -> Expr:
    return op("sub", x, y)


def div(x: Expr, y: Expr) -> Expr:
    return op("div", x, y)


def add(x: Expr, y: Expr) -> Expr:
    return op("add", x, y)


def abs_(x: Expr) -> Expr:
    return op("abs", x)


def if_zero(x: Expr, value: Expr) -> Expr:
    """0 where ``x`` is 0, else ``value``."""
    return op("select", op("eq", x, num(0)), num(0), value)


def default_bounds(inputs: Iterable[Tensor], sizes: Iterable[Size]) -> tuple[Assumption, ...]:
    """What the front end assumes of every program: |x| <= 2^40, lengths below 2^31."""
    bounds = [(t.name, 2**40) for t in inputs if t.dtype == F] + [(s.name, 2**31 - 1) for s in sizes]
    return tuple(Assumption("bounded", name, bound, origin="default") for name, bound in bounds)


@dataclass
class Rows:
    """A program under construction; every method adds a stage and returns a read of it."""

    name: str
    inputs: list[Tensor] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    facts: list[Assumption] = field(default_factory=list)

    def input(self, name: str, axes: tuple[Axis, ...] = (ROW, COLUMN), dtype: str = F, fact: str = "") -> Expr:
        self.inputs.append(Tensor(name, tuple(a.extent for a in axes), dtype))
        if fact:
            self.facts.append(Assumption(fact, name))
        return read(name, axes, dtype)

    def stage(self, name: str, axes: tuple[Axis, ...], body: Expr) -> Expr:
        self.stages.append(Stage(name, axes, body))
        return read(name, axes, body.dtype)

    def row(self, name: str, reducer: str, term: Expr) -> Expr:
        return self.stage(name, (ROW,), reduce_(reducer, (COLUMN,), term))

    def map(self, name: str, body: Expr) -> Expr:
        return self.stage(name, (ROW, COLUMN), body)

    def each(self, name: str, body: Expr) -> Expr:
        return self.stage(name, (ROW,), body)

    def build(self, *outputs: str) -> Program:
        shapes = {d for t in self.inputs for d in t.shape}
        sizes = tuple(s for s in (M, N) if s in shapes)
        facts = (*self.facts, *default_bounds(self.inputs, sizes))
        return Program(self.name, tuple(self.inputs), sizes, tuple(self.stages), outputs, facts)


def logsumexp() -> Program:
    p = Rows("logsumexp")
    x = p.input("x")
    m = p.row("m", "max", x)
    l = p.row("l", "sum", exp(sub(x, m)))  # noqa: E741
    p.each("lse", add(m, op("log", l)))
    return p.build("lse")


def softmax() -> Program:
    """The map output takes a second pass."""
    p = Rows("softmax")
    x = p.input("x")
    m = p.row("m", "max", x)
    e = p.map("e", exp(sub(x, m)))
    p.map("p", div(e, p.row("l", "sum", e)))
    return p.build("p")


def masked_mean() -> Program:
    """Weights of a masked softmax with a value for dead rows, and the log-sum-exp: both outputs of one kernel."""
    p = Rows("masked_mean")
    x, n, v = p.input("x"), p.input("len", (ROW,), "int32"), p.input("v", (COLUMN,))
    s = p.map("s", op("select", op("lt", COLUMN, n), x, num(-INF)))
    m = p.row("m", "max", s)
    e = p.map("e", op("select", op("eq", s, num(-INF)), num(0), exp(sub(s, m))))
    l = p.row("l", "sum", e)  # noqa: E741
    w = p.map("w", op("select", op("eq", l, num(0)), num(0), div(e, l)))
    p.row("o", "sum", mul(w, v))
    p.each("lse", add(m, op("log", l)))
    return p.build("o", "lse")


def attention() -> Program:
    """q: [M, 2], k, v: [N, 2]; scores are a nested reduction; no selects, so a row without keys is 0."""
    p = Rows("attention")
    e_axis = axis("e", 2)
    q, k = p.input("q", (ROW, DEPTH)), p.input("k", (COLUMN, DEPTH))
    p.input("v", (COLUMN, DEPTH))
    s = p.map("s", reduce_("sum", (DEPTH,), mul(q, k)))
    m = p.row("m", "max", s)
    w = p.map("ee", exp(sub(s, m)))
    pr = p.map("p", div(w, p.row("l", "sum", w)))
    p.stage("o", (ROW, e_axis), reduce_("sum", (COLUMN,), mul(pr, read("v", (COLUMN, e_axis), F))))
    return p.build("o")


def sink() -> Program:
    """One logit beside those of the row enters the denominator exactly once."""
    p = Rows("sink")
    x, b, v = p.input("x"), p.input("b", (ROW,)), p.input("v", (COLUMN,))
    m = p.row("m", "max", x)
    e = p.map("e", exp(sub(x, m)))
    l = p.row("l", "sum", e)  # noqa: E741
    o = p.row("o", "sum", mul(e, v))
    p.each("y", div(o, add(l, exp(sub(b, m)))))
    return p.build("y")


def scaled_norm() -> Program:
    p = Rows("scaled_norm")
    x = p.input("x")
    r = p.row("r", "max", abs_(x))
    y = p.map("y", div(x, r))
    s = p.row("s", "sum", mul(y, y))
    p.each("norm", if_zero(r, mul(r, op("sqrt", s))))
    return p.build("norm")


def rms_amax() -> Program:
    p = Rows("rms_amax")
    x, w = p.input("x"), p.input("w", (COLUMN,))
    ss = p.row("ss", "sum", mul(x, x))
    n = op("cast", N, dtype=F)
    p.row("amax", "max", mul(abs_(mul(x, w)), op("rsqrt", add(div(ss, n), num(2.0**-20)))))
    return p.build("amax")


def min_shift() -> Program:
    p = Rows("min_shift")
    x = p.input("x")
    m = p.row("m", "min", x)
    p.row("a", "sum", mul(exp(sub(m, x)), x))
    return p.build("a")


def range_below() -> Program:
    """min (x - max x), masked elements included."""
    p = Rows("range_below")
    x = p.input("x")
    p.row("a", "min", sub(x, p.row("m", "max", x)))
    return p.build("a")


def centred_max() -> Program:
    p = Rows("centred_max")
    x = p.input("x")
    s = p.row("s", "sum", x)
    p.row("a", "max", sub(x, div(s, op("cast", N, dtype=F))))
    return p.build("a")


def squared_weights() -> Program:
    """The sum of squared probabilities: a consumer of a consumer, with two producers."""
    p = Rows("squared_weights")
    x = p.input("x")
    m = p.row("m", "max", x)
    e = p.map("e", exp(sub(x, m)))
    y = p.map("y", div(e, p.row("l", "sum", e)))
    p.row("q", "sum", mul(y, y))
    return p.build("q")


def log_add() -> Program:
    p = Rows("log_add")
    x = p.input("x")
    p.row("a", "logaddexp", sub(x, p.row("m", "max", x)))
    return p.build("a")


def powers() -> Program:
    p = Rows("powers")
    x = p.input("x", fact="positive")
    s = p.row("s", "sum", x)
    p.row("a", "prod", op("pow", exp(x), s))
    return p.build("a")


def decayed() -> Program:
    """Elements with two weights each and a constant factor: a sign error in the exponent is easily made here."""
    p = Rows("decayed")
    x, y, v = p.input("x"), p.input("y"), p.input("v", (COLUMN,))
    r = p.row("r", "max", sub(x, mul(num(0.5), y)))
    p.row("a", "sum", mul(mul(num(3), v), exp(sub(sub(x, r), mul(num(0.5), y)))))
    return p.build("a")


def scaled_max() -> Program:
    """max (x / s) for a positive s: right with a ratio, because its sign is known."""
    p = Rows("scaled_max")
    x, w = p.input("x"), p.input("w", fact="positive")
    p.row("a", "max", div(x, p.row("s", "sum", w)))
    return p.build("a")


def signed_max() -> Program:
    """max (x / s) with s of any sign: no repair is right."""
    p = Rows("signed_max")
    x, w = p.input("x"), p.input("w")
    p.row("a", "max", div(x, p.row("s", "sum", w)))
    return p.build("a")


def turn(s: Expr) -> Expr:
    """-1 where s is negative, else 1; a select would be hoisted."""
    return sub(num(1), mul(num(2), op("cast", op("lt", s, num(0)), dtype=F)))


def turned_max() -> Program:
    """The maximum of x, or of -x where a sum is negative: a turn of the accumulator fits each term and no maximum."""
    p = Rows("turned_max")
    x, w = p.input("x"), p.input("w")
    s = p.row("s", "sum", w)
    p.row("a", "max", mul(x, turn(s)))
    return p.build("a")


def waves() -> Program:
    """No scalar repair exists."""
    p = Rows("waves")
    x = p.input("x")
    p.row("a", "sum", op("cos", mul(x, p.row("s", "sum", x))))
    return p.build("a")


def softplus() -> Program:
    p = Rows("softplus")
    x = p.input("x")
    p.row("a", "sum", op("log", add(num(1), exp(sub(x, p.row("m", "max", x))))))
    return p.build("a")


def variance() -> Program:
    p = Rows("variance")
    x = p.input("x")
    n = op("cast", N, dtype=F)
    mean = p.each("mean", div(p.row("s", "sum", x), n))
    p.row("q", "sum", mul(sub(x, mean), sub(x, mean)))
    return p.build("q")


def distances() -> Program:
    """sum |x - mean|: the absolute value has no repair."""
    p = Rows("distances")
    x = p.input("x")
    p.row("a", "sum", abs_(sub(x, div(p.row("s", "sum", x), op("cast", N, dtype=F)))))
    return p.build("a")


def clipped() -> Program:
    """sum max(x - min x - 1, 0)."""
    p = Rows("clipped")
    x = p.input("x")
    p.row("a", "sum", op("max", sub(sub(x, p.row("m", "min", x)), num(1)), num(0)))
    return p.build("a")


PROGRAMS: dict[str, Callable[[], Program]] = {
    f.__name__: f
    for f in (
        logsumexp, softmax, masked_mean, attention, sink, scaled_norm, rms_amax, min_shift, range_below, centred_max,
        squared_weights, log_add, powers, decayed, scaled_max, signed_max, turned_max, waves, softplus,
        variance, distances, clipped,
    )
}  # fmt: skip

"""Programs built by hand from expressions, without TVM: for tests of what comes after the front end."""

from __future__ import annotations

from neptune_verified.ir.expr import INF, Expr, axis, const, op, read, reduce_, size
from neptune_verified.ir.program import Assumption, Loc, Program, Stage, Tensor

F = "float32"


def attention(masked: bool = True, dtype: str = "float16", width: int = 8) -> Program:
    """q: [M, D], k, v: [N, D]; causal if ``masked``; a row without a live element is undefined."""
    m_, n_ = size("M"), size("N")
    i, j, e, d = axis("i", m_), axis("j", n_), axis("e", width), axis("d", width)

    def load(tensor: str, row: Expr, column: Expr) -> Expr:
        return op("cast", read(tensor, (row, column), dtype), dtype=F)

    scaled = op("mul", read("s", (i, j), F), const(0.125, F))
    ee, p = read("ee", (i, j), F), read("p", (i, j), F)
    stages = (
        Stage("s", (i, j), reduce_("sum", (d,), op("mul", load("q", i, d), load("k", j, d))), Loc("attention.py", 7)),
        Stage("sm", (i, j), op("select", op("ge", i, j), scaled, const(-INF, F)) if masked else scaled),
        Stage("m", (i,), reduce_("max", (j,), read("sm", (i, j), F)), Loc("attention.py", 9)),
        Stage("ee", (i, j), op("exp", op("sub", read("sm", (i, j), F), read("m", (i,), F)))),
        Stage("l", (i,), reduce_("sum", (j,), ee)),
        Stage("p", (i, j), op("div", ee, read("l", (i,), F))),
        Stage("o", (i, e), reduce_("sum", (j,), op("mul", p, load("v", j, e)))),
    )
    shape = const(width, "int32")
    inputs = tuple(Tensor(name, (rows, shape), dtype) for name, rows in (("q", m_), ("k", n_), ("v", n_)))
    facts = (
        Assumption("bounded", "q", 100.0),
        Assumption("at_least", "N", 1),
        Assumption("holds", "", None, op("eq", op("floormod", n_, const(16, "int32")), const(0, "int32"))),
        Assumption("bounded", "k", 65504, origin="default"),
    )
    notes = ("m: the identity of max is -inf",)
    return Program("attention", inputs, (m_, n_), stages, ("o",), facts, notes)


def softmax() -> Program:
    """x: [M, N]; the output runs over the reduced axis, so that it takes a second pass."""
    m_, n_ = size("M"), size("N")
    i, j = axis("i", m_), axis("j", n_)
    x = read("x", (i, j), F)
    stages = (
        Stage("m", (i,), reduce_("max", (j,), x)),
        Stage("e", (i, j), op("exp", op("sub", x, read("m", (i,), F)))),
        Stage("l", (i,), reduce_("sum", (j,), read("e", (i, j), F))),
        Stage("p", (i, j), op("div", read("e", (i, j), F), read("l", (i,), F))),
    )
    return Program("softmax", (Tensor("x", (m_, n_), F),), (m_, n_), stages, ("p",))


def unfusable() -> Program:
    """sum_j cos(x_j * sum_k x_k): no repair of the cosines over a running sum exists, so it takes two passes."""
    n_ = size("N")
    j = axis("j", n_)
    x = read("x", (j,), F)
    stages = (
        Stage("total", (), reduce_("sum", (j,), x)),
        Stage("waves", (), reduce_("sum", (j,), op("cos", op("mul", x, read("total", (), F))))),
    )
    return Program("waves", (Tensor("x", (n_,), F),), (n_,), stages, ("waves",))


def kinds() -> Program:
    """Every dtype of a constant, every kind of node, a scalar argument, two outputs."""
    n_, alpha = size("N"), size("alpha", F)
    i, k = axis("i", op("add", n_, const(1, "int32"))), axis("k", 4)
    x, flag = read("x", (i,), "int8"), read("flag", (i, k), "bool")
    number = op("mul", op("cast", x, dtype=F), alpha)
    terms = op("select", flag, number, const(INF, F))
    stages = (
        Stage("low", (i,), reduce_("min", (k,), terms)),
        Stage("some", (i,), reduce_("any", (k,), op("and", flag, const(True, "bool")))),
        Stage("part", (i,), op("floordiv", x, const(-3, "int8"))),
        Stage("third", (i,), op("pow", read("low", (i,), F), const(0.1, F))),
    )
    inputs = (Tensor("x", (n_,), "int8"), Tensor("flag", (n_, const(4, "int32")), "bool"))
    return Program("kinds 1", inputs, (n_, alpha), stages, ("third", "part", "some"))


ALL = {
    "attention": attention(),
    "unmasked": attention(False),
    "softmax": softmax(),
    "unfusable": unfusable(),
    "kinds": kinds(),
}

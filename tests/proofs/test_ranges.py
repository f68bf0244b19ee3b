"""O7 and what it rests on: programs and repairs that overflow where the definition does not are refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from neptune_verified.fusion.fuse import fuse
from neptune_verified.ir import intervals as iv
from neptune_verified.ir.bounds import Intervals
from neptune_verified.ir.expr import INF, Expr, const, op, read, var
from neptune_verified.ir.interpret import run_program
from neptune_verified.ir.intervals import Interval
from neptune_verified.ir.kinds import KindAnalysis
from neptune_verified.ir.loops import Guard, LoopProgram, Repair, run_loops
from neptune_verified.ir.program import Assumption, Program
from neptune_verified.mutants.programs import ROW, F, Rows, div, exp, mul, num, sub
from neptune_verified.proofs.kernel import Prover, Refused, verify

PROVER = Prover()
T = var("t", F)


def value(name: str) -> Expr:
    return var(name, F)


def declared(p: Rows, *facts: tuple[str, str, float], outputs: tuple[str, ...]) -> Program:
    """The program with these facts in place of the default bounds of their subjects."""
    own = tuple(Assumption(kind, subject, bound) for kind, subject, bound in facts)
    program = p.build(*outputs)
    bounded = {a.subject for a in own if a.kind == "bounded"}
    kept = tuple(a for a in program.assumptions if a.subject not in bounded)
    return replace(program, assumptions=own + kept)


def in_one_pass(program: Program, **repairs: Repair) -> LoopProgram:
    """All reductions in one pass, with these repairs; nobody asked whether they are right."""
    loops = fuse(program, PROVER, enabled=False)
    (nest,) = loops.nests
    carried = tuple(replace(c, repair=repairs.get(c.name)) for c in nest.carried())
    return replace(loops, nests=(replace(nest, passes=(replace(nest.passes[0], carried=carried),)),))


def failed(loops: LoopProgram) -> set[str]:
    with pytest.raises(Refused) as refused:
        verify(loops, PROVER)
    return {p.obligation.id for p in refused.value.failed}


def select(condition: Expr, x: Expr, y: Expr) -> Expr:
    return op("select", condition, x, y)


# --------------------------------------------------------------------------------------------- intervals


def interval_of(e: Expr) -> Interval:
    found = Intervals(KindAnalysis(), fits=False).of(e)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("e", "lo", "hi"),
    [
        (op("log", num(0.25)), -1.3862943611, -1.3862943611),
        (op("log", num(1 + 2.0**-40)), 9.09494701772e-13, 9.09494701773e-13),
        (op("pow", num(0.25), num(0.5)), 0.5, 0.5),
        (op("pow", num(0.25), num(-0.5)), 2, 2),
        (op("pow", num(-INF), num(0)), 1, 1),
    ],
)  # fmt: skip
def test_intervals_of_irrational_values(e: Expr, lo: float, hi: float) -> None:
    found = interval_of(e)
    assert found.lo <= found.hi
    assert float(found.lo) == pytest.approx(lo, rel=1e-9)
    assert float(found.hi) == pytest.approx(hi, rel=1e-9)


def test_a_product_of_numbers_below_1_comes_close_to_0() -> None:
    assert iv.reduced("prod", Interval(Fraction(1, 2), Fraction(1)), Fraction(200), F) == Interval(0, 1)
    assert iv.reduced("prod", iv.point(1), Fraction(200), F) == iv.point(1)


def test_a_power_with_an_infinite_exponent_may_be_anything() -> None:
    assert {"pos", "zero", "+inf"} <= KindAnalysis().of(op("pow", num(2), num(INF)))
    assert interval_of(op("pow", num(2), num(10.0**9))) == Interval(Fraction(0), INF)
    assert interval_of(op("floordiv", num(2), num(INF))) == iv.ANY


def test_an_integer_made_of_an_infinity_may_be_anything() -> None:
    assert interval_of(op("cast", op("max", num(-INF), num(3)), dtype="int32")).within(Interval(2, 4))
    negative = select(op("lt", read("x", (ROW,), F), num(0)), num(-INF), num(3))
    assert interval_of(op("cast", negative, dtype="int32")) == iv.ANY


# --------------------------------------------------------------------------------------------- whole programs


def logarithms() -> tuple[Program, dict[str, np.ndarray]]:
    p = Rows("logarithms")
    x, c = p.input("x"), p.input("c")
    m = p.row("m", "max", op("log", x))
    p.row("s", "max", mul(c, exp(op("neg", m))))
    facts = [("at_least", "x", 2.0**-100), ("bounded", "x", 2.0**100), ("bounded", "c", 2.0**100)]
    return declared(p, *facts, outputs=("s",)), {
        "x": np.array([[2.0**-100, 2.0**100]]),
        "c": np.array([[2.0**100, 2.0**20]]),
    }


def roots() -> tuple[Program, dict[str, np.ndarray]]:
    p = Rows("roots")
    x, c = p.input("x"), p.input("c")
    p.row("s", "max", div(c, p.row("m", "max", op("pow", x, num(0.5)))))
    facts = [("at_least", "x", 2.0**-120), ("bounded", "x", 1.0), ("bounded", "c", 2.0**100)]
    return declared(p, *facts, outputs=("s",)), {
        "x": np.array([[2.0**-120, 1.0]]),
        "c": np.array([[2.0**100, 2.0**20]]),
    }


def products() -> tuple[Program, dict[str, np.ndarray]]:
    """q_new / q is 2^-140, and its inverse no float32."""
    p = Rows("products")
    x, c = p.input("x"), p.input("c")
    p.row("a", "max", div(c, p.row("q", "prod", x)))
    facts = [("at_least", "x", 0.5), ("bounded", "x", 1.0), ("bounded", "c", 2.0**-60)]
    x0 = np.array([[1.0] + [0.5] * 140])
    return declared(p, *facts, outputs=("a",)), {"x": x0, "c": np.full(x0.shape, 2.0**-100)}


@pytest.mark.parametrize("made", [logarithms, roots, products])
def test_not_fused_where_partial_values_overflow(made: object) -> None:
    assert callable(made)
    program, inputs = made()
    wanted = run_program(program, inputs)
    assert all(np.abs(v).max() < 2.0**127 for v in wanted.values())
    loops = fuse(program, PROVER)
    assert loops.passes == 2
    verify(loops, PROVER)
    got = run_loops(loops, inputs, tile=1)
    assert {k: v.tolist() for k, v in got.items()} == {k: v.tolist() for k, v in wanted.items()}


def test_a_hoisted_sum_of_float16_is_read_in_float16() -> None:
    """sum e v can be 4 * 60000, where sum e / l v is 60000: it is accumulated in float32 and read in float16."""
    p = Rows("half")
    x, v = p.input("x", dtype="float16"), p.input("v", dtype="float16")
    e = p.map("e", exp(sub(x, p.row("m", "max", x))))
    p.row("o", "sum", mul(div(e, p.row("l", "sum", e)), v))
    loops = fuse(p.build("o"), PROVER)
    assert not [h for n in loops.nests for h in n.hoists]
    verify(loops, PROVER)


# --------------------------------------------------------------------------------------------- repairs by hand


def test_a_value_that_only_the_running_condition_chooses() -> None:
    """m c overflows while k <= 5; at the end of the row k is 6, and the definition has no m c."""
    p = Rows("chosen")
    x, y, c = p.input("x"), p.input("y"), p.input("c")
    k, m = p.row("k", "max", y), p.row("m", "max", x)
    p.row("s", "max", select(op("gt", k, num(5)), num(0), mul(m, c)))
    facts = [(kind, n, b) for n in "xc" for kind, b in (("at_least", 1.0), ("bounded", 2.0**100))]
    above = op("gt", value("k_new"), num(5)), op("gt", value("k"), num(5))
    ratio = div(value("m_new"), value("m"))
    h = mul(T, select(above[0], select(above[1], num(1), num(0)), ratio))
    guards = (Guard("m", ("-inf",), Fraction(1)),)
    wrong = Repair(("k", "m"), h, guards, guard_old=True, keep_neutral=True)
    assert failed(in_one_pass(declared(p, *facts, outputs=("s",)), s=wrong)) == {"O7.relative"}


def test_a_maximum_whose_element_the_term_leaves_aside() -> None:
    """x k is in range for the x that are chosen, and m k is not, where m is attained at another."""
    p = Rows("aside")
    x, y, c = p.input("x"), p.input("y"), p.input("c")
    k, m = p.row("k", "max", y), p.row("m", "max", x)
    p.row("s", "max", select(op("gt", c, num(0)), div(mul(x, k), m), num(0)))
    facts = [(kind, n, b) for n in "xy" for kind, b in (("at_least", 1.0), ("bounded", 2.0**100))]
    h = mul(div(mul(value("m"), value("k_new")), value("k")), div(T, value("m_new")))
    guards = tuple(Guard(q, ("-inf",), Fraction(1)) for q in "km")
    wrong = Repair(("k", "m"), h, guards, hold=True, keep_neutral=True)
    assert "O7.range" in failed(in_one_pass(declared(p, *facts, outputs=("s",)), s=wrong))


def test_a_producer_that_runs_over_another() -> None:
    """r is a minimum of exp(x - k) over a running k; the consumer takes k at the end of the row, and r is no bound."""
    p = Rows("stranger")
    x = p.input("x")
    e = exp(sub(x, p.row("k", "max", x)))
    r = p.row("r", "min", e)
    p.row("s", "sum", div(r, e))
    guard = (Guard("k", ("-inf",), Fraction(0)),)
    own = Repair(("k",), mul(T, exp(sub(value("k"), value("k_new")))), guard, keep_neutral=True)
    h = div(mul(T, value("r_new")), value("r"))
    wrong = Repair(("r",), h, (Guard("r", ("+inf",), Fraction(1)),), guard_old=True)
    with pytest.raises(Refused, match="runs over other values"):
        verify(in_one_pass(p.build("s"), r=own, s=wrong), PROVER)


def test_a_sum_that_a_late_infinity_makes_0() -> None:
    """m may become +inf: then l, a sum of exp(c - m), returns to 0."""
    p = Rows("late")
    x, v = p.input("x", fact="nonnegative"), p.input("v")
    c = op("neg", op("log", x))
    m = p.row("m", "max", c)
    e = select(op("eq", c, num(INF)), num(0), exp(sub(c, m)))
    l = p.row("l", "sum", e)  # noqa: E741
    p.row("a", "sum", mul(mul(e, l), v))
    shift = mul(T, exp(sub(value("m"), value("m_new"))))
    guards = (Guard("m", ("-inf",), Fraction(0)),)

    def if_zero(name: str, x: Expr, y: Expr) -> Expr:
        return select(op("eq", value(name), num(0)), x, y)

    scale = div(mul(shift, value("l_new")), value("l"))
    h = if_zero("l", if_zero("l_new", T, num(0)), if_zero("l_new", T, scale))
    program = declared(p, ("bounded", "v", 1.0), outputs=("a",))
    loops = in_one_pass(program, l=Repair(("m",), shift, guards, hold=True), a=Repair(("m", "l"), h, guards, hold=True))
    inputs = {"x": np.array([[1.0, 2, 0, 3]]), "v": np.ones((1, 4))}
    assert run_program(program, inputs)["a"] == 0
    assert run_loops(loops, inputs, tile=1)["a"] != 0
    assert {"O1", "O14.step"} <= failed(loops)


def softmax_sum(factor: Expr | None = None, last: Expr | None = None) -> LoopProgram:
    p = Rows("softmax_sum")
    x, _ = p.input("x"), p.input("q", (ROW,))
    s = op("sigmoid", x)
    p.row("l", "sum", exp(sub(s, p.row("m", "max", s))))
    program = declared(p, ("bounded", "q", 2.0**100), ("at_least", "q", 1.0), outputs=("l",))
    h = mul(T, exp(sub(value("m"), value("m_new"))))
    for part in (factor, last):
        h = mul(h, part) if part is not None else h
    guards = (Guard("m", ("-inf",), Fraction(1)),)
    return in_one_pass(program, l=Repair(("m",), h, guards, guard_old=True))


def test_a_number_beyond_the_range_of_its_type() -> None:
    assert failed(softmax_sum(const(2.0**-200, F), const(2.0**200, F))) == {"O7.literal"}


def test_a_closed_term_of_a_repair_that_overflows() -> None:
    """q q m / (q q m) is 1 over the reals, and q q is no float32."""
    verify(softmax_sum(), PROVER)
    square = mul(read("q", (ROW,), F), read("q", (ROW,), F))
    with pytest.raises(Refused, match="may leave the range of float32"):
        verify(softmax_sum(div(mul(square, value("m")), mul(square, value("m")))), PROVER)


@pytest.mark.parametrize("square", [False, True])
def test_a_positive_maximum_that_underflows_at_first(square: bool) -> None:
    """exp(-120) and 1e-30 squared are 0 in float32: the first tile's maximum is 0, and no divisor."""
    p = Rows("underflow")
    x = p.input("x", fact="positive" if square else "")
    y = mul(x, x) if square else exp(x)
    p.row("q", "max", div(y, p.row("s", "max", y)))
    loops = fuse(declared(p, ("bounded", "x", 200.0), outputs=("q",)), PROVER)
    verify(loops, PROVER)
    assert loops.passes == 1
    guards = [g for n in loops.nests for c in n.carried() if c.repair for g in c.repair.guards]
    assert [(g.producer, "zero" in g.points) for g in guards] == [("s", True)]

"""Hypotheses, kinds, rules of evaluation, structure and join law, each made wrong: see ``test_checkers.py``."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from neptune_verified.ir import kinds
from neptune_verified.ir.expr import INF, Expr, Reduce, axis, const, op, read, reduce_, size, subterms, var
from neptune_verified.ir.inline import inline
from neptune_verified.ir.kinds import NINF, POS, ZERO
from neptune_verified.ir.loops import Carried, Guard, Hoist, LoopProgram, Nest, Output, Pass, Repair
from neptune_verified.ir.program import Program, Stage, Tensor
from neptune_verified.mutants.execute import difference
from neptune_verified.proofs import discharge, edge, grounds, join, kernel, obligations, ranges
from neptune_verified.proofs.edge import Edge
from neptune_verified.proofs.kernel import Refused
from neptune_verified.proofs.statement import Hypothesis, Statement
from neptune_verified.proofs.verdict import Verdict
from tests.mutants.checkers import (  # noqa: F401
    NOTHING_REPAIRED,
    accepts,
    accepts_split,
    differs,
    forget,
    forgetful,
    mutant,
    required_without,
    right,
)

Patch = pytest.MonkeyPatch
F = "float32"

# ------------------------------------------------------------------------------------------- hypotheses


@pytest.mark.parametrize(("fact", "program"), [("_seen", "scaled_norm"), ("live", "logsumexp")])
def test_a_hypothesis_is_dropped(fact: str, program: str, monkeypatch: Patch) -> None:
    """An element is at most the maximum; rescaling composes on live states."""
    loops = right(program)
    assert accepts(loops)
    monkeypatch.setattr(Edge, fact, lambda *_: [])
    assert not accepts(loops)


def test_that_a_maximum_rises_is_dropped(monkeypatch: Patch) -> None:
    """t * exp(min(m - m_new, 0)) is right because of it."""
    loops = mutant("logsumexp: relies on a producer that never falls (exponent) (l over m)").loops
    assert differs(loops) is None
    assert accepts(loops)
    monkeypatch.setattr(Edge, "later", lambda *_: [])
    assert not accepts(loops)


def test_a_hypothesis_that_nobody_derived(monkeypatch: Patch) -> None:
    """A running maximum that does not rise either: then nothing ever needs a repair."""
    wrong = mutant("logsumexp: relies on a producer that never rises (exponent) (l over m)").loops
    assert differs(wrong) is not None
    assert not accepts(wrong)
    true = Edge.later

    def later(self: Edge, source: str, target: str) -> list[Hypothesis]:
        falls = [
            Hypothesis(op("ge", var(c.name + source, F), var(c.name + target, F)), "derived: it does not rise")
            for c in self.producers
        ]
        return true(self, source, target) + falls

    monkeypatch.setattr(Edge, "later", later)
    assert accepts(wrong)


def invented(origin: str, monkeypatch: Patch) -> LoopProgram:
    """The same fact with another origin, and the wrong program that it makes provable."""
    true = Edge.later

    def later(self: Edge, source: str, target: str) -> list[Hypothesis]:
        falls = [Hypothesis(op("ge", var(c.name + source, F), var(c.name + target, F)), origin) for c in self.producers]
        return true(self, source, target) + falls

    monkeypatch.setattr(Edge, "later", later)
    return mutant("logsumexp: relies on a producer that never rises (exponent) (l over m)").loops


@pytest.mark.parametrize("origin", ["", "m does not rise", "derived:", "declared by me: m does not rise"])
def test_a_hypothesis_without_an_origin(origin: str, monkeypatch: Patch) -> None:
    """Both the statement and the program are refused for it, each on its own."""
    wrong = invented(origin, monkeypatch)
    with pytest.raises(Refused, match="O1 uses a fact that has no source"):
        kernel.required(wrong)
    monkeypatch.setattr(kernel, "baseless", lambda *_: "")
    o1 = next(o for o in kernel.required(wrong) if o.kind == "O1")
    answer = discharge.discharge(o1.statement)
    assert answer.verdict is Verdict.UNSUPPORTED and "without a legal origin" in answer.routes[0].detail
    assert not accepts(wrong)
    monkeypatch.setattr(Statement, "unfounded", lambda _: "")
    assert accepts(wrong)


@pytest.mark.parametrize("origin", ["declared: m does not rise", "default: m is 0", "proved: O99, m does not rise",
                                    "derived: it does not rise; declared: N <= 1"])  # fmt: skip
def test_a_fact_that_nobody_declared(origin: str, monkeypatch: Patch) -> None:
    wrong = invented(origin, monkeypatch)
    with pytest.raises(Refused, match="O1 uses a fact that"):
        kernel.required(wrong)
    monkeypatch.setattr(kernel, "baseless", lambda *_: "")
    assert accepts(wrong)


def test_a_range_without_a_reason(monkeypatch: Patch) -> None:
    """A running maximum that never holds -inf: then exp(m - m) needs no guard."""
    wrong = mutant("masked_mean: guard dropped (l over m, m)").loops
    true = Edge._state_kinds
    monkeypatch.setattr(Edge, "_state_kinds", lambda self, c, e: true(self, c, e) - {NINF})
    monkeypatch.setattr(grounds.Grounds, "origins", lambda *_: ())
    with pytest.raises(Refused, match="nothing says why m is restricted"):
        kernel.required(wrong)
    monkeypatch.setattr(kernel, "baseless", lambda *_: "")
    assert accepts(wrong)


def test_a_split_with_a_fact_that_nobody_declared(monkeypatch: Patch) -> None:
    loops = right("logsumexp")
    split = replace(loops, nests=tuple(replace(nest, split=True) for nest in loops.nests))
    assert kernel.verify(split)
    invented("declared: m does not rise", monkeypatch)
    with pytest.raises(Refused, match="uses a fact that nobody declared: 'declared: m does not rise'"):
        kernel.verify(split)


def test_a_repaired_sum_is_taken_to_rise(monkeypatch: Patch) -> None:
    """l = sum exp(x - m) falls when m rises."""
    wrong = mutant("squared_weights: relies on a producer that never falls (quotient) (q over m, l)").loops
    assert differs(wrong) is not None
    assert not accepts(wrong)
    true = Edge.later

    def later(self: Edge, source: str, target: str) -> list[Hypothesis]:
        rises = [
            Hypothesis(op("le", var(c.name + source, F), var(c.name + target, F)), "derived: a sum of terms >= 0")
            for c in self.producers
            if c.value.reducer == "sum"
        ]
        return true(self, source, target) + rises

    monkeypatch.setattr(Edge, "later", later)
    assert accepts(wrong)


def test_initial_values_are_left_out_of_reach(monkeypatch: Patch) -> None:
    wrong = mutant("masked_mean: guard dropped (l over m, m)").loops
    assert differs(wrong) is not None
    assert not accepts(wrong)
    true = Edge._state_kinds
    monkeypatch.setattr(Edge, "_state_kinds", lambda self, c, e: true(self, c, e) - {NINF})
    assert accepts(wrong)


# ------------------------------------------------------------------------------------------- kinds


def test_a_sum_over_nothing_is_taken_to_be_positive(monkeypatch: Patch) -> None:
    """Then the division by it needs no guard."""
    wrong = mutant("attention: guard dropped (o)").loops
    assert differs(wrong) is not None
    assert not accepts(wrong)
    true = kinds.reduce_kinds

    def changed(reducer: str, body: frozenset[str], dtype: str) -> frozenset[str]:
        found = true(reducer, body, dtype)
        return frozenset({POS}) if found == frozenset({"zero", POS}) else found

    for module in (kinds, edge):
        monkeypatch.setattr(module, "reduce_kinds", changed)
    assert accepts(wrong)


def test_the_absolute_value_of_0_is_taken_to_be_positive(monkeypatch: Patch) -> None:
    """Then max |x| is a divisor that needs no guard."""
    wrong = mutant("scaled_norm: guard point dropped (s over r, r, zero)").loops
    assert differs(wrong) is not None
    assert not accepts(wrong)
    monkeypatch.setitem(kinds._UNARY["abs"], ZERO, frozenset({POS}))
    assert accepts(wrong)


# ------------------------------------------------------------------------------------------- evaluation


def roots() -> Program:
    """x, a flag for each element, and m = max sqrt(x), which is undefined where some x is negative."""
    m_, n_ = size("M"), size("N")
    i, j = axis("i", m_), axis("j", n_)
    x, flag = read("x", (i, j), F), read("flag", (i, j), "bool")
    root, m = op("sqrt", x), read("m", (i,), F)
    term = op("select", flag, op("sub", const(0, F), m), const(-INF, F))
    stages = (Stage("m", (i,), reduce_("max", (j,), root)), Stage("a", (i,), reduce_("max", (j,), term)))
    inputs = (Tensor("x", (m_, n_), F), Tensor("flag", (m_, n_), "bool"))
    return Program("roots", inputs, (m_, n_), stages, ("a",))


def test_a_value_is_read_that_the_definition_leaves_alone(monkeypatch: Patch) -> None:
    """max (flag ? -m : -inf): where no flag is set, m may be undefined; the repair reads it all the same."""
    program = roots()
    axes, a = inline(program).outputs["a"]
    assert isinstance(a, Reduce)
    m = next(r for r in reductions(a) if r is not a)
    t, old, new = var("t", F), var("m", F), var("m_new", F)
    repair = Repair(("m",), op("add", t, op("sub", old, new)), (Guard("m", ("-inf",), Fraction(0)),), True, True)
    stream = (axis("x0", size("N")),)
    carried = (Carried("m", m, axes), Carried("a", a, axes, repair))
    nest = Nest("roots", axes, (), (Pass(stream, carried),), (Output("a", axes, a),))
    loops = LoopProgram(program, (nest,))
    assert not accepts(loops)
    monkeypatch.setattr(edge, "require_same_evaluation", lambda *_: None)
    assert accepts(loops)


def reductions(e: Expr) -> list[Reduce]:
    return [x for x in subterms(e) if isinstance(x, Reduce)]


def test_a_factor_is_hoisted_that_the_definition_may_not_evaluate(monkeypatch: Patch) -> None:
    """masked_mean divides by l only where it is not 0; the factor is evaluated for dead rows too if it leaves its select."""
    wrong = mutant("masked_mean: branches exchanged (o #6)").loops
    assert differs(wrong) is not None
    assert not accepts(wrong)
    hoist: Hoist = wrong.nests[0].hoists[0]
    with pytest.raises(obligations.UnsupportedTerm, match="hoisting would evaluate"):
        obligations.hoist_obligations(wrong.program, hoist)
    monkeypatch.setattr(obligations, "require_hoistable", lambda *_: None)
    monkeypatch.setattr(ranges, "require_range", lambda *_: None)
    assert obligations.hoist_obligations(wrong.program, hoist)


# ------------------------------------------------------------------------------------------- structure


@pytest.mark.parametrize("name", ["masked_mean: outputs exchanged (o, lse)", "logsumexp: output negated (lse)"])
def test_the_structure_is_not_checked(name: str, monkeypatch: Patch) -> None:
    wrong = mutant(name).loops
    assert differs(wrong) is not None
    assert not accepts(wrong)
    monkeypatch.setattr(kernel, "check_structure", lambda loops: None)
    assert accepts(wrong)


def test_names_are_not_checked(monkeypatch: Patch) -> None:
    wrong = mutant("logsumexp: two accumulators of one name (l)").loops
    assert not accepts(wrong)
    assert kernel.loop_faults(wrong)
    monkeypatch.setattr(kernel, "loop_faults", lambda loops: [])
    with pytest.raises(Refused, match="names are not unique"):
        kernel.check_structure(wrong)


# ------------------------------------------------------------------------------------------- splits


def test_the_join_law_is_not_stated(monkeypatch: Patch) -> None:
    wrong = mutant("logsumexp: combine: left side not repaired")
    assert accepts_split(right("logsumexp"))
    with wrong.world.active():
        assert difference(wrong.loops, wrong.loops.program, True) is not None
        assert not accepts_split(wrong.loops)
        true = join._Join.obligations
        monkeypatch.setattr(join._Join, "obligations", lambda self: [o for o in true(self) if o.kind != "O15"])
        assert accepts_split(wrong.loops)


def test_o14_without_the_others(monkeypatch: Patch) -> None:
    """A ratio of unknown sign under a max: O2 refuses it; without O2 it is O14 that does, in the split form."""
    wrong = mutant("signed_max: moved into its producer's pass: guarded ratio (a)").loops
    monkeypatch.setattr(kernel, "required", required_without("O2", "O7"))
    assert accepts(wrong)
    assert not accepts_split(wrong)
    true = join._Join.obligations
    monkeypatch.setattr(join._Join, "obligations", lambda self: [o for o in true(self) if o.kind != "O14"])
    assert accepts_split(wrong)

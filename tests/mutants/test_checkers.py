"""The checkers themselves, made wrong one at a time: each change lets a wrong program through, or refuses a right one.

Every test first asserts what the true checker does, and then that the changed one does the opposite. So each of these
changes turns an assertion of this file red if it is made in the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from neptune_verified.ir import kinds
from neptune_verified.ir.expr import FALSE, INF, Expr, Reduce, axis, const, op, read, reduce_, size, subterms, var
from neptune_verified.ir.inline import inline
from neptune_verified.ir.kinds import NINF, POS, ZERO
from neptune_verified.ir.loops import Carried, Guard, Hoist, LoopProgram, Nest, Output, Pass, Repair
from neptune_verified.ir.program import Program, Stage, Tensor
from neptune_verified.mutants.catalogue import base, mutants_of
from neptune_verified.mutants.execute import Difference, difference
from neptune_verified.mutants.matrix import LEMMAS
from neptune_verified.mutants.model import Mutant
from neptune_verified.proofs import discharge, edge, falsify, join, kernel, obligations, route_sympy, route_z3
from neptune_verified.proofs.edge import Edge
from neptune_verified.proofs.falsify import Survey
from neptune_verified.proofs.join import split_obligations
from neptune_verified.proofs.kernel import Prover, Refused, verify
from neptune_verified.proofs.obligations import Obligation
from neptune_verified.proofs.statement import Holds, Hypothesis, Refines, Statement, Symbol
from neptune_verified.proofs.verdict import RouteResult, Verdict

Patch = pytest.MonkeyPatch
F = "float32"


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    """Answers of a changed checker must not be remembered, nor those of the true one be given for it."""
    forget()
    yield
    forget()


SURVEY = falsify.survey


def forget() -> None:
    discharge._discharge.cache_clear()
    SURVEY.cache_clear()


def accepts(loops: LoopProgram) -> bool:
    forget()
    try:
        verify(loops, Prover())
    except Refused:
        return False
    return True


def accepts_split(loops: LoopProgram) -> bool:
    forget()
    stated = [o for n in loops.nests for p in n.passes for o in split_obligations(loops.program, n, p)]
    return all(Prover().prove(o).holds for o in stated)


MUTANTS: dict[str, dict[str, Mutant]] = {}


def mutant(name: str) -> Mutant:
    program = name.split(":")[0]
    if program not in MUTANTS:
        MUTANTS[program] = {m.name: m for m in mutants_of(program)}
    return MUTANTS[program][name]


def right(program: str) -> LoopProgram:
    return base(program).loops


NOTHING_REPAIRED = "logsumexp: nothing repaired (l over m)"


def always_proved(statement: Statement, *_: Any) -> RouteResult:
    return RouteResult("patched", Verdict.PROVED)


def no_points(statement: Statement, *_: Any) -> Survey:
    """A falsifier that looks at nothing and says that there was something to look at."""
    return Survey(points=1, relevant=1)


# ------------------------------------------------------------------------------------------- provers


@pytest.mark.parametrize("route", [route_z3, route_sympy])
def test_one_prover_says_proved(route: Any, monkeypatch: Patch) -> None:
    """The other one still refuses, with and without the falsifier."""
    wrong = mutant(NOTHING_REPAIRED).loops
    o1 = next(o for o in kernel.required(wrong) if o.kind == "O1")
    assert route.prove(o1.statement).verdict is not Verdict.PROVED
    monkeypatch.setattr(route, "prove", always_proved)
    assert not accepts(wrong)
    monkeypatch.setattr(falsify, "survey", no_points)
    assert not accepts(wrong)
    said = {r.verdict for r in discharge.discharge(o1.statement).routes}
    assert Verdict.PROVED in said and len(said) == 2


def test_both_provers_say_proved(monkeypatch: Patch) -> None:
    wrong = mutant(NOTHING_REPAIRED).loops
    for module in (route_z3, route_sympy):
        monkeypatch.setattr(module, "prove", always_proved)
    assert not accepts(wrong), "the falsifier refuses it without them"
    monkeypatch.setattr(falsify, "survey", no_points)
    assert accepts(wrong)


def test_the_falsifier_is_off(monkeypatch: Patch) -> None:
    """What the provers cannot decide is then refused without the point that shows why."""
    wrong = mutant("waves: moved into its producer's pass: nothing repaired (a)").loops
    o1 = next(o for o in kernel.required(wrong) if o.kind == "O1")
    assert discharge.discharge(o1.statement).verdict is Verdict.REFUTED
    monkeypatch.setattr(falsify, "survey", no_points)
    forget()
    assert discharge.discharge(o1.statement).verdict is not Verdict.REFUTED


def test_vacuity_is_not_looked_for(monkeypatch: Patch) -> None:
    """log(-x) is defined for no positive x, so that any term refines it."""
    x = var("x", F)
    statement = Statement((Symbol(x, frozenset({"pos"})),), (), Refines(x, op("log", op("neg", x))))
    assert discharge.discharge(statement).verdict is Verdict.VACUOUS
    monkeypatch.setattr(falsify, "survey", no_points)
    forget()
    assert discharge.discharge(statement).verdict is Verdict.PROVED


def test_one_route_is_enough(monkeypatch: Patch) -> None:
    """SymPy does not decide this one; it is right, but not proved twice."""
    undecided = mutant("masked_mean: keep_neutral flipped (o over m)").loops
    assert not accepts(undecided)

    def lenient(routes: Any) -> Verdict:
        seen = list(routes)
        return Verdict.PROVED if Verdict.PROVED in seen else seen[0]

    monkeypatch.setattr(discharge, "combine", lenient)
    assert accepts(undecided)


def test_an_answer_is_remembered_for_another_statement(monkeypatch: Patch) -> None:
    wrong = mutant(NOTHING_REPAIRED).loops

    def by_kind(prover: Prover, o: Obligation) -> kernel.Proved:
        memo: dict[Any, Any] = prover.memo  # type: ignore[assignment]
        if o.id not in memo:
            memo[o.id] = discharge.discharge(o.statement)
        return kernel.Proved(o, memo[o.id])

    prover = Prover()
    verify(right("logsumexp"), prover)
    with pytest.raises(Refused):
        verify(wrong, prover)
    monkeypatch.setattr(Prover, "prove", by_kind)
    prover = Prover()
    verify(right("logsumexp"), prover)
    verify(wrong, prover)


# ------------------------------------------------------------------------------------------- statements

#: obligation -> a wrong program that it alone refuses, of those that are asked of every program
ONLY_KILLER = {
    "O1": NOTHING_REPAIRED,
    "O2": "signed_max: moved into its producer's pass: guarded ratio (a)",
    "O5": "logsumexp: accumulator starts at 0 (m)",
    "O6": "logsumexp: guard at a live value, old values too (l over m, m at 0)",
}


def required_without(*dropped: str) -> Callable[[LoopProgram], tuple[Obligation, ...]]:
    true = kernel.required
    return lambda loops: tuple(o for o in true(loops) if o.kind not in dropped)


@pytest.mark.parametrize("kind", ONLY_KILLER)
def test_an_obligation_is_not_stated(kind: str, monkeypatch: Patch) -> None:
    wrong = mutant(ONLY_KILLER[kind]).loops
    assert differs(wrong) is not None
    assert not accepts(wrong)
    monkeypatch.setattr(kernel, "required", required_without(kind))
    assert accepts(wrong)


#: obligation that is implied by others -> a wrong program that it refuses without these
IMPLIED = {
    "O3": "logsumexp: result doubled (l over m)",
    "O4": "logsumexp: accumulator starts at -1 (l)",
}


@pytest.mark.parametrize("kind", IMPLIED)
def test_an_implied_obligation_is_not_stated_either(kind: str, monkeypatch: Patch) -> None:
    wrong = mutant(IMPLIED[kind]).loops
    assert differs(wrong) is not None
    monkeypatch.setattr(kernel, "required", required_without(*LEMMAS[kind].by))
    assert not accepts(wrong)
    monkeypatch.setattr(kernel, "required", required_without(kind))
    assert accepts(wrong)


def differs(loops: LoopProgram) -> Difference | None:
    return difference(loops, loops.program, False)


def each_goal(kind: str, edit: Callable[[Any], Any]) -> Callable[[LoopProgram], tuple[Obligation, ...]]:
    true = kernel.required

    def changed(loops: LoopProgram) -> tuple[Obligation, ...]:
        return tuple(
            replace(o, statement=replace(o.statement, goal=edit(o.statement.goal))) if o.kind == kind else o
            for o in true(loops)
        )

    return changed


@pytest.mark.parametrize("kind", ["O1", "O2", "O3", "O4"])
def test_a_goal_is_negated(kind: str, monkeypatch: Patch) -> None:
    assert accepts(right("logsumexp"))
    monkeypatch.setattr(kernel, "required", each_goal(kind, lambda g: Holds(op("ne", g.lhs, g.rhs))))
    assert not accepts(right("logsumexp"))


def test_a_goal_compares_a_side_with_itself(monkeypatch: Patch) -> None:
    wrong = mutant(NOTHING_REPAIRED).loops
    assert not accepts(wrong)
    monkeypatch.setattr(kernel, "required", each_goal("O1", lambda g: Refines(g.rhs, g.rhs)))
    assert accepts(wrong)


def test_a_goal_claims_nothing(monkeypatch: Patch) -> None:
    monkeypatch.setattr(kernel, "required", each_goal("O1", lambda g: Holds(FALSE)))
    assert not accepts(right("logsumexp"))


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
    monkeypatch.setattr(kernel, "required", required_without("O2"))
    assert accepts(wrong)
    assert not accepts_split(wrong)
    true = join._Join.obligations
    monkeypatch.setattr(join._Join, "obligations", lambda self: [o for o in true(self) if o.kind != "O14"])
    assert accepts_split(wrong)

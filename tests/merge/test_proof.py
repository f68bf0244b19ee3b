"""O15 merge: the definition is proved to be the combine of partial states; wrong merges and wrong chains are not."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import neptune_verified as nv
from neptune_verified import merging
from neptune_verified.fusion.fuse import fuse
from neptune_verified.ir.expr import INF, Expr, Op, const, op, reduce_, var
from neptune_verified.ir.program import Assumption, Program, Stage
from neptune_verified.proofs import merge as rules
from neptune_verified.proofs.abstract import UnsupportedTerm
from neptune_verified.proofs.facts import used
from neptune_verified.proofs.kernel import Proved, Prover, Refused, VerifiedProgram, verify
from neptune_verified.proofs.merge import merge_obligations, prove_merge
from neptune_verified.proofs.verdict import Verdict
from neptune_verified.user_files import load_file
from tests.merge.programs import ROW, UNSTATED, WRONG, F, J, average, edited, right, x

EXAMPLES = Path(__file__).parents[2] / "examples"
PROVER = Prover()


@cache
def verified(program: Program) -> VerifiedProgram:
    return verify(fuse(program, PROVER), PROVER)


def proved(merge: Program, program: Program | None = None) -> tuple[Proved, ...]:
    return prove_merge(verified(program or average()), merge, PROVER)[1]


def failed(merge: Program, program: Program | None = None) -> dict[str, Proved]:
    return {f"{p.obligation.id} {p.obligation.stage}": p for p in proved(merge, program) if not p.holds}


# ------------------------------------------------------------------------------------------------ what is proved


def test_the_merge_is_proved_by_both_routes() -> None:
    report = nv.merge_report()
    assert report.proved and str(report).startswith("proved: the merge of two results of average")
    assert {p.obligation.kind for p in report.fused} >= {"O1", "O2", "O4", "O6", "O7", "O14"}
    assert {p.obligation.id for p in report.split} == {"O14.dead", "O15.join", "O15.neutral", "O15.composition"}
    ids = [f"{p.obligation.id} {p.obligation.stage}" for p in report.merged]
    assert ids.count("O15.merge o") == ids.count("O15.merge lse") == ids.count("O15.merge.live l") == 1
    assert {i for i in ids if "domain" in i} == {f"O15.merge.domain {t}_{s}" for t in ("out", "lse") for s in "ab"}
    for p in report.merged:
        assert [(r.route, r.verdict) for r in p.result.routes] == [("z3", Verdict.PROVED), ("sympy", Verdict.PROVED)]


def test_the_statement_is_about_all_states_and_every_fact_has_a_source() -> None:
    own = {p.obligation.stage: p.obligation.statement for p in proved(right()) if p.obligation.id == "O15.merge"}
    for statement in own.values():
        kinds = {s.var.name: s.kinds for s in statement.symbols}
        finite = {"neg", "zero", "pos"}
        assert kinds["m_a"] == kinds["m_b"] == finite | {"-inf"}
        assert kinds["l_a"] == kinds["l_b"] == {"zero", "pos"}
        assert kinds["o_a"] == kinds["o_b"] == finite
        assert type(statement.goal).__name__ == "Equal"  # both sides are defined, on every pair of states
        assert {o.split(":")[0] for o in used(statement)} == {"declared", "default", "derived", "proved"}
        assert "proved: O15 merge.live of l" in used(statement)


@pytest.mark.parametrize("dtype", merging.DTYPES)
def test_every_type_is_proved(dtype: str) -> None:
    assert not failed(merging.definition(dtype, 64))


def test_other_ways_to_write_it_are_proved_too() -> None:
    """Weights that are not normalised and a quotient at the end; the left one as a sigmoid of the difference."""
    late = edited({f"part_{s}": lambda e: e.args[0] if isinstance(e, Op) and e.name == "div" else None for s in "ab"})
    out = late.stage("out_ab")
    dead = op("eq", x("total", out.axes[0]), const(0, F))
    body = op("select", dead, const(0, F), op("div", out.body, x("total", out.axes[0])))
    late = replace(late, stages=tuple(replace(s, body=body) if s is out else s for s in late.stages))
    assert not failed(late)

    def sigmoid(e: Expr) -> Expr | None:
        lse = [x(f"lse_{s}", right().stage("part_a").axes[0]) for s in "ab"]
        share = op("div", const(1, F), op("add", const(1, F), op("exp", op("sub", lse[1], lse[0]))))
        return share if isinstance(e, Op) and e.name == "div" else None

    assert not failed(edited({"part_a": sigmoid}))


def example(name: str) -> Program:
    module = load_file(EXAMPLES / "attention.py")
    inputs, outputs = getattr(module, name)(H=2, D=16)
    return Program.from_te(inputs, outputs, name)


def with_lse(program: Program) -> Program:
    axes = program.stage("m").axes
    lse = Stage("lse", axes, op("add", x("m", *axes), op("log", x("l", *axes))))
    return replace(program, stages=(*program.stages, lse), outputs=("o", "lse"))


def test_it_merges_attention_with_heads() -> None:
    assert nv.merge_report(example("attention_lse")).proved


def test_it_merges_causal_attention_with_dead_rows() -> None:
    report = nv.merge_report(with_lse(example("causal")))
    assert report.proved
    goals = {type(p.obligation.statement.goal).__name__ for p in report.merged if p.obligation.part == "merge"}
    assert goals == {"Equal"}


def test_without_guards_the_claim_is_about_rows_that_are_defined() -> None:
    program = average(guarded=False)
    assert not failed(right(), program)
    goals = {
        type(p.obligation.statement.goal).__name__ for p in proved(right(), program) if p.obligation.part == "merge"
    }
    assert goals == {"Refines"}


# ------------------------------------------------------------------------------------------------ wrong merges

#: Mistakes of the values alone, and of the log-sum-exp alone; the others show in both.
VALUES = {
    "weights swapped", "no guard of values", "weights not normalised", "normalised by one weight", "one side lost",
    "normalised by the number of sides", "difference of the sides", "one side twice",
}  # fmt: skip
LSE = {
    "lse by max alone", "lse without max", "lse without log", "lse of one side", "no guard of weights",
    "no guard of one weight",
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_merge_is_refuted(name: str) -> None:
    found = failed(WRONG[name]())
    wanted = (
        {"O15.merge o"} if name in VALUES else {"O15.merge lse"} if name in LSE else {"O15.merge o", "O15.merge lse"}
    )
    assert found.keys() == wanted
    for p in found.values():
        assert p.result.verdict is Verdict.REFUTED
        assert p.result.counterexample is not None


def test_refutations_are_points_that_say_what_is_wrong() -> None:
    def point(name: str, stage: str) -> str:
        return str(failed(WRONG[name]())[f"O15.merge {stage}"].result.counterexample)

    both_dead = "at m_a = -inf, l_a = 0, o_a = 0, m_b = -inf, l_b = 0, o_b = 0: undefined instead of"
    assert point("no guard at all", "o") == f"{both_dead} 0"
    assert point("no guard at all", "lse") == f"{both_dead} -inf"
    assert "0 instead of 0.69314718056" in point("lse by max alone", "lse")
    assert "1 instead of 1/2" in point("weights not normalised", "o")


@pytest.mark.parametrize("name", UNSTATED)
def test_what_is_no_merge_is_not_even_stated(name: str) -> None:
    build, why = UNSTATED[name]
    with pytest.raises(UnsupportedTerm, match=why):
        merge_obligations(verified(average()).loops, build())


@pytest.mark.parametrize("kind", ["positive", "nonnegative", "nonzero"])
def test_a_merge_for_fewer_inputs_than_there_are_results_is_refuted(kind: str) -> None:
    for name in ("lse_b", "out_a"):
        narrow = replace(right(), assumptions=(*right().assumptions, Assumption(kind, name)))
        found = failed(narrow)
        assert found.keys() == {f"O15.merge.domain {name}"}
        assert all(p.result.verdict is Verdict.REFUTED for p in found.values())


def test_a_merge_that_wants_a_finite_lse_is_refuted() -> None:
    finite = tuple(a for a in right().assumptions if a.kind != "finite_or_minus_infinity")
    assert failed(replace(right(), assumptions=finite)).keys() == {f"O15.merge.domain lse_{s}" for s in "ab"}


# ------------------------------------------------------------------------------------------------ wrong chains


@pytest.mark.parametrize(
    "name",
    [
        "one more term below",
        "lse by max alone",
        "lse in base 2",
        "no normalisation",
        "lse of -inf as a number",
    ],
)
def test_results_that_it_does_not_merge_are_refuted(name: str) -> None:
    m, total = x("m", ROW), x("l", ROW)
    lse = op("add", m, op("log", total))
    number = op("select", op("eq", total, const(0, F)), const(-1000, F), lse)
    program = {
        "one more term below": lambda: average(more=const(0.5, F)),
        "lse by max alone": lambda: average(lse=m),
        "lse in base 2": lambda: average(lse=op("mul", lse, const(1 / math.log(2), F))),
        "no normalisation": lambda: average(normalised=False),
        "lse of -inf as a number": lambda: average(lse=number),
    }[name]()
    found = failed(right(), program)
    assert found and all(p.result.verdict is Verdict.REFUTED for p in found.values())
    assert any(k.startswith("O15.merge ") for k in found)


def test_two_passes_have_no_state_to_join() -> None:
    program = average(lse=op("add", x("m", ROW), x("spread", ROW)))
    waves = Stage("spread", (ROW,), reduce_("sum", (J,), op("tanh", op("mul", x("s", ROW, J), x("l", ROW)))))
    program = replace(program, stages=(*program.stages[:-1], waves, program.stages[-1]))
    with pytest.raises(nv.UnsupportedProgram, match="not one pass"):
        nv.merge_report(program)


def test_a_result_over_the_keys_is_no_state() -> None:
    program = average()
    with pytest.raises(nv.UnsupportedProgram, match="not one pass"):
        nv.merge_report(replace(program, outputs=("p", "lse")))


def test_results_in_the_other_order_are_refused() -> None:
    with pytest.raises(nv.UnsupportedProgram, match="out_a has 2 dimensions, and lse 1"):
        nv.merge_report(replace(average(), outputs=("lse", "o")))


def test_rows_in_two_orders_are_refused() -> None:
    """Flattened, row r of one result would be another row of the other."""
    loops = verified(example("attention_lse")).loops
    nest = loops.nests[0]
    for k, out in enumerate(nest.outputs):
        turned = replace(out, axes=tuple(reversed(out.axes)))
        outputs = (*nest.outputs[:k], turned, *nest.outputs[k + 1 :])
        with pytest.raises(UnsupportedTerm, match="are not the rows that all results have, in one order"):
            merge_obligations(replace(loops, nests=(replace(nest, outputs=outputs),)), right())


def test_the_number_of_keys_may_differ_between_the_parts() -> None:
    n = op("cast", average().inputs[0].shape[1], dtype=F)
    mean = average(lse=op("sub", op("add", x("m", ROW), op("log", x("l", ROW))), op("log", n)))
    with pytest.raises(UnsupportedTerm, match="may differ between the partial results"):
        merge_obligations(verified(mean).loops, right())


def test_a_stale_repair_of_the_chain_is_refused_by_every_part_of_the_proof() -> None:
    """The combine comes from the loop program: without its repair, the merge of two sides is another."""
    made = verified(average())
    nest = made.loops.nests[0]
    p = nest.passes[0]
    stale = [
        replace(c, repair=replace(c.repair, h=var("t", F))) if c.repair and c.name == "l" else c for c in p.carried
    ]
    loops = replace(made.loops, nests=(replace(nest, passes=(replace(p, carried=tuple(stale)),)),))
    found = [q for q in map(PROVER.prove, merge_obligations(loops, right())) if not q.holds]
    assert {q.obligation.stage for q in found} == {"o", "lse"}
    assert all(q.result.verdict is Verdict.REFUTED for q in found)
    with pytest.raises(Refused, match="O1"):
        verify(loops, PROVER)


# ------------------------------------------------------------------------------------------------ the facts are needed


def test_without_the_proof_that_a_live_sum_is_positive_nothing_is_proved(monkeypatch: Any) -> None:
    monkeypatch.setattr(rules, "_witnesses", lambda edge: [])
    found = failed(right())
    assert "O15.merge o" in found and found["O15.merge o"].result.verdict is Verdict.REFUTED


def test_that_a_dead_state_is_neutral_is_assumed_but_not_needed_here(monkeypatch: Any) -> None:
    """This merge does not look at a dead side, and the repair takes it to 0 whatever it is."""
    monkeypatch.setattr(rules, "neutral_while_dead", lambda edge, t, suffix: [])
    assert not failed(right())
    assert failed(WRONG["no guard at all"]())


def test_a_kernel_whose_merge_is_not_proved_is_not_compiled(monkeypatch: Any) -> None:
    monkeypatch.setattr(merging, "definition", lambda dtype, width: WRONG["weights swapped"]())
    merging.compiled.cache_clear()
    with pytest.raises(nv.VerificationError, match="NOT proved") as error:
        merging.compiled("float32", 8, "interpret")
    assert "0 instead of 1" in str(error.value)
    assert error.value.report.failed[0].result.verdict is Verdict.REFUTED


def test_minus_infinity_is_a_value_of_both_sides() -> None:
    """The point at which both parts are dead satisfies the hypotheses: the statement speaks of it."""
    from neptune_verified.proofs.falsify import admissible

    statement = next(p.obligation.statement for p in proved(right()) if p.obligation.id == "O15.merge")
    dead = {s.var: -INF if s.var.name.startswith("m") else 0 for s in statement.symbols}
    assert admissible(statement, dead)
    half = {v: dead[v] if v.name.endswith("_a") else 1 for v in dead}
    assert admissible(statement, half)
    assert not admissible(statement, dict.fromkeys(dead, 0))  # a live state has a positive sum

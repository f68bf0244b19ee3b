"""The trusted part: whatever is proposed, only what follows is proved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

import neptune_verified as nv
from neptune_verified import repairs
from neptune_verified.expressions import parse
from neptune_verified.fusion.strategies.context import propose as in_context
from neptune_verified.fusion.strategies.jets import basis
from neptune_verified.fusion.strategies.linear import matrix
from neptune_verified.fusion.strategies.task import Proposal, Task
from neptune_verified.ir.expr import Expr, const, op, var
from neptune_verified.ir.loops import Guard
from neptune_verified.proofs import route_sympy, route_z3
from neptune_verified.proofs.discharge import _discharge
from neptune_verified.proofs.repair import IllFormed, Reach, Update
from neptune_verified.proofs.repair_context import Expansion, context_obligations, known_sums
from neptune_verified.proofs.repair_obligations import prefix_statements, update_obligations
from neptune_verified.proofs.repair_question import Question
from neptune_verified.proofs.statement_text import statement_text
from neptune_verified.proofs.verdict import RouteResult, Verdict

T, C, R, R_NEW, N = (var(name) for name in ("t", "c", "r", "r_new", "n"))


def ask(term: str, producers: dict[str, Any], reducer: str = "sum", **kwargs: Any) -> Question:
    given = {k: s and (s[0], parse(s[1])) for k, s in producers.items()}
    return Question(reducer, parse(term), given, **kwargs)


def judged(question: Question, proposal: Proposal) -> bool:
    return repairs._prove(question, proposal, stop=False).proved


MEAN = {"r": ("mean", "c")}


def variance() -> tuple[Question, Proposal]:
    question = ask("(c - r)**2", MEAN)
    task = Task(question.problem)
    terms = basis(task, 3)
    return question, next(in_context(task, terms, matrix(task, terms)))


def test_the_names_of_the_package() -> None:
    assert nv.prove_repair is repairs.prove_repair and nv.derive_repair is repairs.derive_repair


def test_every_obligation_is_stated() -> None:
    question = ask("exp(c - m)*v", {"m": ("max", "c")})
    update = question.update([parse("exp(c - m)*v")], [parse("t*exp(m - m_new)")])
    texts = {o.id: statement_text(o.statement) for o in update_obligations(question.problem, update)}
    assert list(texts) == [
        "O1", "O2", "O3.identity", "O3.composition", "O4", "O4.first", "O6.repair",
        "O5.associative", "O5.commutative", "O5.neutral",
    ]  # fmt: skip
    assert texts["O1"] == (
        "for all m, m_new, c, v finite with m <= m_new and c <= m: "
        "(v * exp(c - m)) * exp(m - m_new) = v * exp(c - m_new) wherever the right side is defined"
    )
    assert texts["O4.first"] == "for all m_new finite: 0 * exp(-inf - m_new) = 0"


def test_obligations_of_a_state_and_of_a_guard() -> None:
    question = ask("(c - m)*exp(c - m)", {"m": ("max", "c")})
    terms = [parse("(c - m)*exp(c - m)"), parse("exp(c - m)")]
    update = question.update(terms, [parse("(t0 + (m - m_new)*t1)*exp(m - m_new)"), parse("t1*exp(m - m_new)")])
    guarded = replace(update, guards=(Guard("m", ("-inf",), Fraction(0)),))
    plain = {o.id for o in update_obligations(question.problem, update)}
    more = {o.id for o in update_obligations(question.problem, guarded)}
    assert {"O1.t0", "O1.t1", "O4.first.t1"} <= plain and more - plain == {"O6.term.t0", "O6.term.t1"}
    assert not judged(question, Proposal(update)) and judged(question, Proposal(guarded))


def test_known_sums() -> None:
    question = ask("(c - r)*s", {"r": ("mean", "c"), "s": ("sum", "c**2"), "m": ("max", "c")})
    assert [(str(len(statement_text_of(e))), statement_text_of(v)) for e, v in known_sums(question.problem)] == [
        ("1", "n * r"), ("9", "s"), ("1", "n"),
    ]  # fmt: skip


def statement_text_of(e: Expr) -> str:
    from neptune_verified.proofs.statement_text import expr_text

    return expr_text(e)


# ------------------------------------------------------------------------------------------------ bad proposals


def test_a_wrong_expansion_proves_nothing() -> None:
    question, good = variance()
    assert judged(question, good) and good.expansion is not None
    one, zero = const(1, "float32"), const(0, "float32")
    e = good.expansion
    wrong: list[Proposal] = [
        Proposal(good.update),
        replace(good, update=replace(good.update, updates=(T,))),
        replace(good, update=replace(good.update, updates=(op("add", good.update.updates[0], one),))),
        replace(good, expansion=replace(e, relations=(e.relations[1], e.relations[0]))),
        replace(good, expansion=replace(e, relations=((zero, zero), e.relations[1]))),
        replace(good, expansion=replace(e, matrix=((one, zero, e.matrix[0][2]),))),
        replace(good, expansion=replace(e, matrix=((one, e.matrix[0][1], zero),))),
    ]
    for proposal in wrong:
        assert not judged(question, proposal)


def test_an_expansion_that_does_not_fit_is_refused() -> None:
    question, good = variance()
    assert good.expansion is not None
    e, u = good.expansion, good.update
    element = (op("sub", C, R), *e.matrix[0][1:])
    bad: list[tuple[Update, Expansion]] = [
        (u, replace(e, matrix=(element,))),
        (u, replace(e, relations=((C, C), e.relations[1]))),
        (u, replace(e, relations=((R_NEW, R), e.relations[1]))),
        (u, replace(e, matrix=(e.matrix[0][:2],))),
        (u, replace(e, matrix=())),
        (u, replace(e, relations=e.relations[:1])),
        (u, replace(e, extra=(var("z"), e.extra[1]))),
        (replace(u, reducers=("max",)), e),
        (replace(u, terms=(op("sub", C, R),)), e),
        (replace(u, value=op("neg", T)), e),
    ]
    for update, expansion in bad:
        with pytest.raises(IllFormed):
            context_obligations(question.problem, update, expansion)


def test_known_sums_do_not_serve_infinite_terms() -> None:
    _, good = variance()
    assert good.expansion is not None
    masked = ask("(c - r)**2", MEAN, domain={"c": "real or -inf"})
    with pytest.raises(IllFormed, match="finite"):
        context_obligations(masked.problem, good.update, good.expansion)


def test_a_wrong_strategy_gives_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = [
        op("mul", T, op("exp", op("sub", var("m_new"), var("m")))),
        op("neg", T),
        op("div", T, const(0, "float32")),
        const(0, "float32"),
        op("mul", T, var("c")),
    ]

    def lie(task: Task) -> Iterator[Proposal]:
        yield from (task.scalar(h, "liar") for h in wrong)

    monkeypatch.setattr(repairs, "STRATEGIES", (("liar", lie),))
    assert isinstance(repairs.derive_repair("sum", "exp(c - m)", {"m": ("max", "c")}), repairs.Refused)


@pytest.mark.parametrize("liar", [route_z3, route_sympy], ids=["z3", "sympy"])
def test_one_lying_route_proves_nothing(liar: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _discharge.cache_clear()
    monkeypatch.setattr(liar, "prove", lambda *_: RouteResult(liar.ROUTE, Verdict.PROVED))
    for repair in ("t", "t*exp(m_new - m)", "t*exp(m - m_new) + 1"):
        assert not repairs.prove_repair("sum", "exp(c - m)", {"m": ("max", "c")}, repair).proved
    _discharge.cache_clear()


def test_no_obligation_is_no_proof() -> None:
    assert not repairs.RepairReport((), ()).proved


# ------------------------------------------------------------------------------------------------ reach


@pytest.mark.parametrize(
    "spec, kinds",
    [
        (("max", "c"), {"neg", "zero", "pos"}),
        (("max", "abs(c)"), {"zero", "pos"}),
        (("sum", "exp(c)"), {"pos"}),
        (("sum", "c**2"), {"zero", "pos"}),
        (("mean", "exp(c)"), {"pos"}),
        (("mean", "c**2"), {"zero", "pos"}),
        (("prod", "exp(c)"), {"pos"}),
        (("logsumexp", "c"), {"neg", "zero", "pos"}),
        (("any", "c > 0"), {"true", "false"}),
    ],
)
def test_kinds_of_live_states(spec: tuple[str, str], kinds: set[str]) -> None:
    assert Reach(ask("c", {"r": spec}).problem).kinds["r"] == kinds


def test_infinite_elements_give_infinite_means() -> None:
    reach = Reach(ask("c", {"r": ("mean", "c")}, domain={"c": "real or -inf"}).problem)
    assert "-inf" in reach.kinds["r"]


def test_a_producer_that_can_be_undefined_must_be_read_for_every_element() -> None:
    """log c is undefined for negative c; where the term skips it, the definition has a value and the update has none."""
    logs = {"r": ("sum", "log(c)")}
    with pytest.raises(IllFormed, match="can be undefined"):
        repairs.prove_repair("sum", "select(c > 0, c*exp(-r), 0)", logs, "t*exp(r - r_new)")
    with pytest.raises(IllFormed, match="can be undefined"):
        repairs.prove_repair("sum", "c", logs, "t*exp(max(r_new, 0) - max(r_new, 0)) + abs(r) - abs(r_new)")
    assert repairs.prove_repair("sum", "v*exp(-r)", logs, "select(n == 0, t, t*exp(r - r_new))").verdict is not None


def test_a_repaired_sum_is_not_monotone() -> None:
    """The sum of exp(c - m) falls when m rises: that s <= s' must not be assumed."""
    question = ask("c/s", {"m": ("max", "c"), "s": ("sum", "exp(c - m)")})
    facts = [h.origin for h in Reach(question.problem).later()]
    assert any("m is a running max" in f for f in facts) and not any("s is a running" in f for f in facts)
    alone = ask("c/s", {"s": ("sum", "exp(c)")})
    assert any("s is a running sum" in h.origin for h in Reach(alone.problem).later())


def test_prefixes_are_the_loop_itself() -> None:
    question = ask("c/r", {"r": ("sum", "exp(c)")}, "max")
    update = question.update([parse("c/r")], [parse("t*r/r_new")])
    first = prefix_statements(question.problem, update)[0][1]
    assert {s.var.name for s in first.symbols} == {"c[1]", "c[2]"}
    assert "exp(c[1]) + exp(c[2])" in statement_text(first)


def test_symbols_of_a_person_do_not_collide_with_those_of_statements() -> None:
    """x, y, z, c1 and the like are ordinary names."""
    assert repairs.prove_repair("sum", "x*y*exp(z - m)", {"m": ("max", "z")}, "t*exp(m - m_new)").proved
    assert isinstance(repairs.derive_repair("sum", "abs(c1 - r_1)", ["r_1"]), repairs.Refused)

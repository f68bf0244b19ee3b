"""Where the range of a symbol comes from: the facts that are named suffice, and none of them is idle."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from neptune_verified.fusion.fuse import fuse
from neptune_verified.ir.bounds import Intervals
from neptune_verified.ir.expr import INF, Expr, axis, const, op, read, reduce_, size, var
from neptune_verified.ir.inline import inline
from neptune_verified.ir.kinds import FINITE, NINF, KindAnalysis
from neptune_verified.ir.loops import LoopProgram
from neptune_verified.ir.program import Assumption, Program, Stage, Tensor
from neptune_verified.ir.serialize import FormatError
from neptune_verified.mutants.catalogue import base
from neptune_verified.proofs import facts as facts_module
from neptune_verified.proofs import grounds
from neptune_verified.proofs.certificate import certificate_to_json, make_certificate
from neptune_verified.proofs.certificate_format import certificate_from_json
from neptune_verified.proofs.discharge import discharge
from neptune_verified.proofs.edge import Edge
from neptune_verified.proofs.facts import Provenance, baseless, input_facts, over_symbols, provenance, used
from neptune_verified.proofs.kernel import required, verify
from neptune_verified.proofs.statement import Defined, Hypothesis, Statement, Symbol, legal, origins_of
from neptune_verified.proofs.verdict import Verdict
from neptune_verified.report import Report
from tests.definitions import attention, softmax

F = "float32"
N = size("N")
J = axis("j", N)
X, Y = read("x", (J,), F), read("y", (J,), F)


def program(*facts: Assumption, stages: tuple[Stage, ...] = ()) -> Program:
    inputs = (Tensor("x", (N,), F), Tensor("y", (N,), F))
    whole = stages or (Stage("s", (), reduce_("sum", (J,), op("mul", X, Y))),)
    return Program("p", inputs, (N,), whole, (whole[-1].name,), facts)


def total(e: Expr) -> Expr:
    return reduce_("sum", (J,), e)


POSITIVE, NONNEGATIVE = Assumption("positive", "x"), Assumption("nonnegative", "x")
MASK = Assumption("finite_or_minus_infinity", "x")
BOTH = ("default: x is finite", "default: y is finite")

CASES: list[tuple[tuple[Assumption, ...], Expr, tuple[str, ...]]] = [
    ((), X, BOTH[:1]),
    ((POSITIVE,), X, ("declared: x > 0", *BOTH[:1])),
    ((MASK,), X, ("declared: x is finite or -inf",)),
    ((POSITIVE, Assumption("positive", "y")), op("mul", X, X),
     ("declared: x > 0", *BOTH[:1], "derived: a square is finite > 0")),
    ((), op("mul", X, X), (*BOTH[:1], "derived: a square is finite >= 0")),
    ((NONNEGATIVE,), total(op("mul", X, X)), (*BOTH[:1], "derived: a sum of squares is finite >= 0")),
    ((NONNEGATIVE,), total(X), ("declared: x >= 0", *BOTH[:1], "derived: a sum of such terms is finite >= 0")),
    ((POSITIVE,), op("exp", X), (*BOTH[:1], "derived: exp of such a value is finite > 0")),
    ((MASK,), op("exp", X), ("declared: x is finite or -inf", "derived: exp of such a value is finite >= 0")),
    # Signs do not matter to a maximum with 0; nor does the other input.
    ((), op("max", X, const(0, F)), (*BOTH[:1], "derived: a max of such values is finite >= 0")),
    # Two declarations of which each would do: one is named.
    ((POSITIVE, Assumption("at_least", "x", 1)), X, ("declared: x > 0", *BOTH[:1])),
    ((Assumption("at_least", "x", 1), POSITIVE), X, ("declared: x >= 1", *BOTH[:1])),
    # Of two of one kind the last is in force.
    ((Assumption("at_least", "x", 1), Assumption("at_least", "x", 2)), X, ("declared: x >= 2", *BOTH[:1])),
    ((Assumption("bounded", "x", 4), Assumption("multiple_of", "N", 16)), X, BOTH[:1]),
    ((), reduce_("max", (J,), X), (*BOTH[:1], "derived: a max of such terms is -inf or finite")),
    ((Assumption("at_least", "N", 1),), reduce_("max", (J,), X),
     ("declared: N >= 1", *BOTH[:1], "derived: a max of such terms, at least one of them, is finite")),
    ((), op("log", op("mul", const(-1, F), op("exp", X))), ("derived: log of such a value is never defined",)),
]  # fmt: skip


@pytest.mark.parametrize(("declared", "e", "wanted"), CASES, ids=[str(k) for k in range(len(CASES))])
def test_why_a_range_is_what_it_is(declared: tuple[Assumption, ...], e: Expr, wanted: tuple[str, ...]) -> None:
    found = provenance(program(*declared)).origins(e)
    if "never defined" in wanted[-1]:
        found = found[-1:]
    assert found == wanted and all(map(legal, found))


def test_a_loop_that_takes_a_step_is_not_empty() -> None:
    origins = provenance(program(), (N,)).origins(reduce_("max", (J,), X))
    assert origins[:2] == ("default: x is finite", "derived: a step of the loop has an element")


def test_a_default_on_a_length() -> None:
    p = program(Assumption("at_least", "N", 0, origin="default"))
    assert [f.origin for f in input_facts(p)] == ["default: N >= 0", *BOTH]
    assert provenance(p).origins(N) == ("derived: the length N is finite >= 0",)


def test_only_bounds_that_matter_are_named() -> None:
    p = program(Assumption("bounded", "x", 4), Assumption("bounded", "y", 2), Assumption("bounded", "N", 100))
    known = provenance(p)
    assert known.interval(X) == "derived: interval arithmetic; declared: |x| <= 4"
    assert known.interval(op("tanh", X)) == "derived: interval arithmetic", "tanh is in [-1, 1] whatever x is"
    assert known.interval(op("mul", const(0, F), X)) == "derived: interval arithmetic"
    assert known.interval(reduce_("max", (J,), X)) == "derived: interval arithmetic; declared: |x| <= 4"
    of_sum = origins_of(known.interval(total(op("mul", X, Y))))
    assert of_sum[1:] == ("declared: |x| <= 4", "declared: |y| <= 2", "declared: |N| <= 100")
    assert known.count((J,)).endswith("as its lengths allow; declared: |N| <= 100")


def test_the_range_of_a_type_is_no_declaration() -> None:
    known = provenance(program())
    assert known.interval(X) == "domain: the range of float32"
    assert origins_of(known.interval(total(X)))[1:] == (
        "assumed: O7, the definition's values are in the range of their types",
    )


# ------------------------------------------------------------------------------------------- of whole programs

PROGRAMS = ("logsumexp", "masked_mean", "scaled_norm", "squared_weights", "attention", "softmax")


def edges(loops: LoopProgram) -> Iterator[Edge]:
    for nest in loops.nests:
        for p in nest.passes:
            yield from (Edge(loops.program, nest, p, c) for c in p.carried if c.repair is not None)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_named_suffices_and_is_needed(name: str) -> None:
    loops = base(name).loops
    for e in edges(loops):
        for x in e.abstract.elements:
            kept = frozenset(e.provenance.kinds(x))
            assert e.provenance.analysis(kept).of(x) == e.analysis.of(x)
            for f in kept:
                assert not e.provenance.analysis(kept - {f}).of(x) <= e.analysis.of(x), f
            everything = [*e.provenance.relevant(x), facts_module.IN_RANGE]
            assert e.provenance.intervals(frozenset(everything)).of(x) == Intervals(e.analysis).of(x)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_restricted_symbol_says_why(name: str) -> None:
    loops = base(name).loops
    stated = required(loops)
    assert baseless(loops.program, stated) == ""
    assert any(s.restricted for o in stated for s in o.statement.symbols)
    for o in stated:
        assert all(s.origins or not s.restricted for s in o.statement.symbols)
        assert all(map(legal, used(o.statement)))


def weighted(*facts: Assumption) -> Program:
    """sum_j y_j exp(x_j - max x): of terms >= 0 where y >= 0."""
    s = Stage("s", (), reduce_("max", (J,), X))
    a = Stage("a", (), total(op("mul", Y, op("exp", op("sub", X, read("s", (), F))))))
    bounds = (Assumption("bounded", "x", 1000), Assumption("bounded", "y", 4), Assumption("bounded", "N", 1000))
    return program(*facts, *bounds, stages=(s, a))


def test_a_declared_sign_reaches_the_running_value() -> None:
    """y >= 0 makes the accumulator >= 0, and the statements say so."""
    loops = fuse(weighted(Assumption("nonnegative", "y"), Assumption("multiple_of", "N", 16)))
    (edge,) = edges(loops)
    assert edge.kinds == {"zero", "pos"}
    assert edge.grounds.origins(edge.consumer)[-1] == "derived: a running sum of terms >= 0"
    assert {"declared: y >= 0", *BOTH} == set(edge.grounds.origins(edge.consumer)[:-1])
    assert edge.grounds.origins(edge.producers[0])[:-1] == BOTH[:1], "y has no part in the maximum"
    report = Report.from_verified(verify(loops))
    lines = {f.text: f for f in report.facts}
    assert {u.stage for u in lines["y >= 0"].used_by} == {"a"}
    assert "O2" in lines["y >= 0"].used_by[0].ids
    assert lines["N % 16 == 0"].used_by == ()
    for text in (report.markdown(), report.html()):
        assert text.count("not used by any proof") == 1
    assert "not declared" not in report.markdown()


def test_where_there_are_many_symbols_all_candidates_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    loops = fuse(weighted(Assumption("positive", "y")))
    (few,) = edges(loops)
    monkeypatch.setattr(grounds, "MOST_CASES", 0)
    (all_,) = edges(loops)
    for c in (*few.producers, few.consumer):
        assert set(few.grounds.rests_on[c.name]) <= set(all_.grounds.rests_on[c.name])


def test_a_changed_assumption_is_another_reason() -> None:
    """Minus infinity comes with a declaration, and then the default that all is finite is not used."""
    loops = fuse(replace(softmax(), assumptions=(MASK,)))
    origins = {origin for o in required(loops) for origin in used(o.statement)}
    assert "declared: x is finite or -inf" in origins and "default: x is finite" not in origins


def test_terms_over_symbols() -> None:
    u, w = var("u", F), var("w", F)
    given: dict[Expr, frozenset[str]] = {u: frozenset({"pos"}), w: FINITE | {NINF}}
    why: dict[Expr, tuple[str, ...]] = {u: ("declared: u",), w: ("declared: w",)}
    kinds = KindAnalysis(None, given).of(op("max", u, w))
    assert over_symbols(op("max", u, w), kinds, given, why)[:2] == ("declared: u", "declared: w")
    nothing = over_symbols(op("mul", const(0, F), const(1, F)), frozenset({"zero"}), given, why)
    assert nothing == ("derived: a product of such values is 0",)


def test_inputs_are_named_through_closed_forms() -> None:
    """An element is a term over inputs alone, whatever stages the definition has."""
    closed = inline(attention()).outputs["o"][1]
    facts = Provenance(attention()).kinds(closed)
    assert {f.subject for f in facts} <= {"q", "k", "v", "M", "N"}


# ------------------------------------------------------------------------------------------- legal origins


@pytest.mark.parametrize("text", ["", "derived", "derived:", "derived: ", "Derived: x", "elsewhere", "declared by me: x",
                                  " derived: x", "derived: x\nderived: y"])  # fmt: skip
def test_what_is_no_origin(text: str) -> None:
    assert not legal(text)
    x = var("x", F)

    def said(origin: str) -> Verdict:
        fact = Hypothesis(op("ge", x, const(0, F)), origin)
        return discharge(Statement((Symbol(x, FINITE),), (fact,), Defined(op("sqrt", x)))).verdict

    assert said("domain: x >= 0") is Verdict.PROVED
    assert said(text) is Verdict.UNSUPPORTED
    symbol = Statement((Symbol(x, FINITE, "", (text,)),), (), Defined(x))
    assert discharge(symbol).verdict is Verdict.UNSUPPORTED


def test_parts_of_an_origin() -> None:
    parts = ("derived: a; b", "declared: |x| <= 4", "default: N >= 0")
    assert origins_of("; ".join(parts)) == parts
    x = var("x", F)
    assert Hypothesis(op("le", x, const(INF, F)), "domain: a").origins == ("domain: a",)


def test_a_certificate_of_an_older_form_is_refused() -> None:
    data = json.loads(certificate_to_json(make_certificate(verify(fuse(softmax())), "", {})))
    for o in data["obligations"]:
        for s in o["symbols"]:
            del s["origins"]
    with pytest.raises(
        FormatError, match=r"^certificate\.json: obligations\[0\]\.symbols\[0\]: the field 'origins' is missing"
    ):
        certificate_from_json(json.dumps(data))

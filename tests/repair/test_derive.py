"""Repairs that are derived: what comes out, under which guards, and what refusals say."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction
from typing import Any

import pytest
import sympy as sp

from neptune_verified.expressions import parse
from neptune_verified.fusion.strategies.registry import REWRITES, STRATEGIES
from neptune_verified.repairs import Refused, Repair, derive_repair, prove_repair

MAX = {"m": ("max", "c")}
SHIFTED = {"m": ("max", "c"), "s": ("sum", "exp(c - m)")}


def derive(*args: Any, **kwargs: Any) -> Repair:
    result = derive_repair(*args, **kwargs)
    assert isinstance(result, Repair), str(result)
    return result


def refuse(*args: Any, **kwargs: Any) -> Refused:
    result = derive_repair(*args, **kwargs)
    assert isinstance(result, Refused), str(result)
    return result


def same(x: Any, text: str) -> bool:
    return bool(sp.expand(x - parse(text)) == 0)


def test_the_variance_update_comes_from_the_mean() -> None:
    found = derive("sum", "(c - r)**2", {"r": ("mean", "c")})
    assert (found.strategy, found.accumulators, found.guards) == ("context", 1, ())
    assert same(found.updates[0], "t + n*(r - r_new)**2")
    assert "repaired by t + ((r - r_new) * (r - r_new)) * n" in found.text()


def test_covariance() -> None:
    found = derive("sum", "(x - r1)*(y - r2)", {"r1": ("mean", "x"), "r2": ("mean", "y")})
    assert found.accumulators == 1 and same(found.updates[0], "t + n*(r1 - r1_new)*(r2 - r2_new)")


@pytest.mark.parametrize("order, accumulators", [(3, 2), (4, 3)])
def test_central_moments(order: int, accumulators: int) -> None:
    found = derive("sum", f"(c - r)**{order}", {"r": ("mean", "c")})
    assert (found.strategy, found.accumulators) == ("context", accumulators)
    assert [sp.degree(x, sp.Symbol("c")) for x in found.terms] == list(range(order, 1, -1))


def test_without_the_mean_the_same_term_takes_more_accumulators() -> None:
    assert derive("sum", "(c - r)**2", ["r"]).accumulators == 3
    assert derive("sum", "(c - r)**2", {"r": ("max", "c")}).accumulators == 3


def test_entropy() -> None:
    free = derive("sum", "(c - m)*exp(c - m)", MAX)
    assert (free.strategy, free.accumulators) == ("separable", 2)
    assert free.guards == ("m read as 0 where it is -inf",)
    assert same(free.updates[1], "t1*exp(m - m_new)")
    told = derive("sum", "(c - m)*exp(c - m)", SHIFTED)
    assert (told.strategy, told.accumulators) == ("context", 1)


def test_two_producers_at_once() -> None:
    found = derive("sum", "exp(c - m)/s*v", SHIFTED)
    assert found.strategy == "ratio" and same(found.updates[0] / parse("t*s*exp(m - m_new)/s_new"), "1")


def test_guards_appear_only_where_they_are_needed() -> None:
    assert derive("sum", "exp(c - m)*v", MAX).guards == ()
    assert derive("sum", "exp(c - m)*v", MAX, domain={"c": "real or -inf"}).guards == ("m read as 0 where it is -inf",)
    assert derive("sum", "(c/m)**2", {"m": ("max", "abs(c)")}).guards == ("m read as 1 where it is -inf or zero",)
    assert derive("max", "abs(c)/r", {"r": ("sum", "abs(c)")}).guards == ("r read as 1 where it is zero",)


def test_products() -> None:
    count = derive("prod", "c*r", ["r"], facts=["r > 0"])
    assert same(count.updates[0] / parse("t*(r_new/r)**n"), "1") and "n is the number of elements seen" in count.text()
    power = derive("prod", "c**r", ["r"], domain={"c": "positive", "r": "positive"})
    assert same(sp.log(power.updates[0]) - sp.log(parse("t**(r_new/r)")), "0")


def test_truth_values() -> None:
    assert derive("any", "c and r", {"r": ("all", "d")}, domain={"c": "bool"}).strategy == "truth"
    assert derive("all", "c or r", {"r": ("any", "d")}, domain={"c": "bool"}).strategy == "truth"
    for reducer, term in (("any", "c and r"), ("all", "c or r")):
        refuse(reducer, term, ["r"], domain={"c": "bool", "r": "bool"})


def test_parameters_may_be_read() -> None:
    assert derive("sum", "exp(a*(c - m))", ["m"], parameters=["a"]).updates[0].has(sp.Symbol("a"))
    refuse("sum", "exp(a*(c - m))", ["m"])  # a is an element there


def test_functions_without_a_proof_rule_are_opaque_where_no_producer_occurs() -> None:
    found = derive("sum", "exp(tanh(c) - m)*erf(v)", ["m"])
    assert same(found.updates[0], "t*exp(m - m_new)")


def test_the_identity_needs_no_producer() -> None:
    assert derive("sum", "x*sigmoid(c)", []).strategy == "identity"
    assert derive("sum", "x", MAX).strategy == "identity"


# ------------------------------------------------------------------------------------------------ refusals


def test_a_refusal_shows_two_elements_that_cannot_be_told_apart() -> None:
    found = refuse("sum", "abs(c - r)", ["r"])
    assert found.witness is not None and found.witness.kind == "R1"
    assert (
        "none with one accumulator exists: at c[a] = 1, c[b] = -1, r = 0, r_new = 1 two elements leave the same accumulator"
        in found.text()
    )
    assert "both 0 and 2" in found.text()
    assert [w.kind for w in found.witnesses] == ["R1", "minor"]


def test_a_refusal_shows_an_order_that_turns_over() -> None:
    found = refuse("max", "c*r", ["r"])
    assert found.witness is not None and found.witness.kind == "order"
    assert "the larger of two accumulators has to become the smaller one" in found.text()


def test_a_refusal_shows_a_determinant() -> None:
    found = refuse("sum", "log(1 + exp(c - r))", ["r"])
    assert found.witness is not None and (found.witness.kind, found.witness.size) == ("minor", 7)
    assert "none that is linear in 6 or fewer accumulators exists" in found.text()
    values = {k: Fraction(v) for k, v in found.witness.point.values.items()}
    rows = [
        [sp.log(1 + sp.exp(_exact(values[f"c[{j}]"] - values[f"r[{i}]"]))).evalf(60) for j in range(1, 8)]
        for i in range(1, 8)
    ]
    assert abs(sp.Matrix(rows).det() - sp.Float(found.witness.point.left, 12)) < abs(sp.Float("1e-8"))


def _exact(x: Fraction) -> Any:
    return sp.Rational(x.numerator, x.denominator)


def test_witnesses_respect_what_the_producers_are() -> None:
    """With r the max of c no element lies above it, so |c - r| is r - c: two accumulators do."""
    found = derive_repair("sum", "r - c", {"r": ("max", "c")})
    assert isinstance(found, Repair) and found.accumulators == 2
    assert refuse("sum", "sqrt(1 + r - c)", {"r": ("max", "c")}).witness is not None


def test_where_the_definition_is_undefined_there_is_no_witness() -> None:
    for term in ("sqrt(c - r)", "c**r", "log(r*c)"):
        for w in refuse("sum", term, ["r"]).witnesses:
            assert "undefined" not in (w.point.left, w.point.right)
    assert derive("sum", "log(r*c)", ["r"], domain={"c": "positive", "r": "positive"}).accumulators == 2


def test_a_refusal_claims_no_more_than_it_shows() -> None:
    """sin(c - r) has a repair with sin and cos as accumulators, which no route proves: one accumulator is excluded."""
    found = refuse("sum", "sin(c - r)", ["r"])
    assert [(w.kind, w.size) for w in found.witnesses] in ([("minor", 2)], [("R1", 1), ("minor", 2)])
    assert "no repair of the sum of sin(c - r) over r is proved" in found.text()


def test_a_refusal_says_why_nothing_can_be_stated() -> None:
    found = refuse("sum", "select(c > 0, c*exp(-r), 0)", {"r": ("sum", "log(c)")})
    assert found.best is None and "r can be undefined, and the term does not read it for every element" in found.text()


def test_a_refusal_names_the_split_as_the_way_out() -> None:
    found = refuse("max", "abs(c - r)", ["r"])
    other = found.alternative
    assert other is not None and other.proved and other.accumulators == 2
    assert same(other.updates[0], "t0 + r - r_new") and same(other.updates[1], "t1 - r + r_new")
    assert "the result is max(t0, t1)" in found.text()


def test_every_strategy_proposes_something_that_is_proved() -> None:
    """No strategy of the registry is dead: each is the one that is taken for some question."""
    taken = {
        derive("sum", "x", MAX).strategy,
        derive("sum", "exp(c - m)", MAX).strategy,
        derive("prod", "c**r", ["r"], domain={"c": "positive", "r": "positive"}).strategy,
        derive("max", "c - r", ["r"]).strategy,
        derive("any", "c and r", {"r": ("all", "d")}, domain={"c": "bool"}).strategy,
        derive("sum", "(c - m)*exp(c - m)", MAX).strategy,
    }
    assert taken == {name for name, _ in STRATEGIES} - {"inverse"}
    assert [name for name, _ in REWRITES] == ["split of |.|"]


# ------------------------------------------------------------------------------------------------ oracles


@pytest.mark.parametrize(
    "term, producers",
    [
        ("(c - r)**2", {"r": ("mean", "c")}),
        ("(c - r)**4", {"r": ("mean", "c")}),
        ("(x - r1)*(y - r2)", {"r1": ("mean", "x"), "r2": ("mean", "y")}),
    ],
)
def test_loops_over_random_numbers_end_with_the_definition(term: str, producers: dict[str, Any]) -> None:
    """The derived update in a plain loop with steps of several elements, in exact arithmetic."""
    found = derive("sum", term, producers)
    random_ = random.Random(3)
    names = sorted({s.name for _, e in producers.values() for s in parse(e).free_symbols})
    blocks = [[{x: sp.Integer(random_.randint(-9, 9)) for x in names} for _ in range(k)] for k in (1, 3, 2)]
    state = {"n": sp.Integer(0), **{p: sp.Integer(7) for p in producers}}
    accumulators = ["t"] if found.accumulators == 1 else [f"t{k}" for k in range(found.accumulators)]
    t = dict.fromkeys(accumulators, sp.Integer(0))
    seen: list[dict[str, Any]] = []
    for block in blocks:
        seen += block
        means = {p: sum(parse(e).subs(c) for c in seen) / len(seen) for p, (_, e) in producers.items()}
        old = {**state, **t, **{f"{p}_new": m for p, m in means.items()}}
        new = [h.subs(old) for h in found.updates]
        t = {a: h + sum(g.subs({**c, **means}) for c in block) for a, h, g in zip(t, new, found.terms, strict=True)}
        state = {"n": sp.Integer(len(seen)), **means}
    assert t[accumulators[0]] == sum(parse(term).subs({**c, **state}) for c in seen)


def test_random_terms_are_never_accepted_wrongly() -> None:
    """Whatever is derived for terms of a small grammar agrees with the definition on concrete prefixes, and is proved again
    when it is given back as a person's update."""
    random_ = random.Random(5)
    atoms = ["c", "r", "1", "2", "(c - r)", "c*r", "exp(c - r)", "abs(c)"]
    accepted = 0
    for _ in range(25):
        x, y = random_.choice(atoms), random_.choice(atoms)
        term = f"{x} {random_.choice('+-*')} {y}"
        found = derive_repair(random_.choice(["sum", "max"]), term, ["r"])
        if isinstance(found, Refused):
            continue
        accepted += 1
        for c, r, r_new in itertools.product((-2, 1, 3), repeat=3):
            point = {"c": c, "r": r, "r_new": r_new, "n": 1}
            names = ["t"] if found.accumulators == 1 else [f"t{k}" for k in range(found.accumulators)]
            values = {name: g.subs(point) for name, g in zip(names, found.terms, strict=True)}
            moved = found.terms[0].subs({"c": c, "r": r_new})
            assert sp.simplify(found.updates[0].subs({**point, **values}) - moved) == 0, (term, point)
        if not any(s.name == "n" for h in found.updates for s in h.free_symbols) and found.accumulators > 1:
            assert prove_repair("sum", list(found.terms), ["r"], list(found.updates)).proved
    assert accepted >= 8

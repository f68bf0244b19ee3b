"""Updates that a person wrote: right ones are proved, wrong ones come back with a run or a point that shows it."""

from __future__ import annotations

from typing import Any

import pytest
import sympy as sp

from neptune_verified.proofs.verdict import Verdict
from neptune_verified.repairs import IllFormed, RepairReport, prove_repair

MAX, MEAN = {"m": ("max", "c")}, {"r": ("mean", "c")}
TWO_MEANS = {"r1": ("mean", "x"), "r2": ("mean", "y")}
SHIFTED = {"m": ("max", "c"), "s": ("sum", "exp(c - m)")}
D4 = "t0 + 4*(r - r_new)*t1 + 6*(r - r_new)**2*t2 + n*(r - r_new)**4"
D3 = "t1 + 3*(r - r_new)*t2 + n*(r - r_new)**3"
D2 = "t2 + n*(r - r_new)**2"
MOMENTS = ["(c - r)**4", "(c - r)**3", "(c - r)**2"]

#: name -> (reducer, term, producers, repair)
RIGHT: dict[str, tuple[str, Any, Any, Any]] = {
    "shifted sum": ("sum", "exp(c - m)*v", MAX, "t*exp(m - m_new)"),
    "shifted sum, base 2": ("sum", "exp2(c - m)*v", MAX, "t*exp2(m - m_new)"),
    "normalised": ("sum", "exp(c - m)/s*v", SHIFTED, "t*exp(m - m_new)*s/s_new"),
    "variance": ("sum", "(c - r)**2", MEAN, "t + n*(r - r_new)**2"),
    "variance, its own way": ("sum", "(c - r)**2", MEAN, "t + n*r**2 - 2*n*r*r_new + n*r_new**2"),
    "covariance": ("sum", "(x - r1)*(y - r2)", TWO_MEANS, "t + n*(r1 - r1_new)*(r2 - r2_new)"),
    "third moment": ("sum", ["(c - r)**3", "(c - r)**2"], MEAN,
                     ["t0 + 3*(r - r_new)*t1 + n*(r - r_new)**3", "t1 + n*(r - r_new)**2"]),
    "fourth moment": ("sum", MOMENTS, MEAN, [D4, D3, D2]),
    "entropy": ("sum", ["(c - m)*exp(c - m)", "exp(c - m)"], {"m": None},
                ["(t0 + (m - m_new)*t1)*exp(m - m_new)", "t1*exp(m - m_new)"]),
    "entropy with the sum at hand": ("sum", "(c - m)*exp(c - m)", SHIFTED,
                                     "select(m == -inf, 0, (t + (m - m_new)*s)*exp(m - m_new))"),
    "sum of deviations": ("sum", "x - r", {"r": ("mean", "x")}, "t + n*(r - r_new)"),
    "scaled max": ("max", "c/r", {"r": ("sum", "exp(c)")}, "select(t == -inf, t, t*r/r_new)"),
    "shifted min": ("min", "c - r", {"r": ("min", "c")}, "t + r - r_new"),
    "product with a count": ("prod", "c/r", {"r": ("sum", "exp(c)")}, "select(n == 0, t, t*(r/r_new)**n)"),
    "shifted logaddexp": ("logaddexp", "c - r", {"r": ("max", "c")}, "select(r == -inf, t, t + r - r_new)"),
    "any": ("any", "c > 0 and r", {"r": ("all", "c > -1")}, "t and r_new"),
    "nothing to repair": ("sum", "c", {"m": ("max", "c")}, "t"),
}  # fmt: skip

#: name -> (reducer, term, producers, repair, obligation that refuses it)
WRONG: dict[str, tuple[str, Any, Any, Any, str]] = {
    "sign swapped": ("sum", "exp(c - m)*v", MAX, "t*exp(m_new - m)", "O1"),
    "stale": ("sum", "exp(c - m)*v", MAX, "t", "O1"),
    "one of two producers": ("sum", "exp(c - m)/s*v", SHIFTED, "t*exp(m - m_new)", "O1"),
    "old and new swapped": ("max", "c/r", {"r": ("max", "exp(c)")}, "t*r_new/r", "O1"),
    "doubled": ("sum", "exp(c - m)*v", MAX, "t*exp(2*(m - m_new))", "O1"),
    "cross term dropped": ("sum", "(c - r)**2", MEAN, "t", "O1"),
    "count dropped": ("sum", "(c - r)**2", MEAN, "t + (r - r_new)**2", "O1"),
    "1/n": ("sum", "(c - r)**2", MEAN, "t + n*(r - r_new)**2/(n + 1)", "O1"),
    "n - 1": ("sum", "(c - r)**2", MEAN, "t + (n - 1)*(r - r_new)**2", "O1"),
    "minus": ("sum", "(c - r)**2", MEAN, "t - n*(r - r_new)**2", "O1"),
    "covariance of one": ("sum", "(x - r1)*(y - r2)", TWO_MEANS, "t + n*(r1 - r1_new)**2", "O1"),
    "third moment, sign": ("sum", ["(c - r)**3", "(c - r)**2"], MEAN,
                           ["t0 - 3*(r - r_new)*t1 + n*(r - r_new)**3", "t1 + n*(r - r_new)**2"], "O1"),
    "third moment, second left": ("sum", ["(c - r)**3", "(c - r)**2"], MEAN,
                                  ["t0 + 3*(r - r_new)*t1 + n*(r - r_new)**3", "t1"], "O1"),
    "entropy, first term only": ("sum", ["(c - m)*exp(c - m)", "exp(c - m)"], {"m": ("max", "c")},
                                 ["t0*exp(m - m_new)", "t1*exp(m - m_new)"], "O1"),
    "first step undefined": ("sum", ["(c - m)*exp(c - m)", "exp(c - m)"], {"m": ("max", "c")},
                             ["(t0 + (m - m_new)*t1)*exp(m - m_new)", "t1*exp(m - m_new)"], "O4"),
    "constant added": ("sum", "exp(c - m)*v", MAX, "t*exp(m - m_new) + 1", "O1"),
    "affine under sum": ("sum", "c - r", {"r": None}, "t + r - r_new", "O2"),
    "product without a count": ("prod", "c/r", {"r": ("sum", "exp(c)")}, "t*r/r_new", "O2"),
    "factor of unknown sign": ("max", "c*r", {"r": None}, "t*r_new/r", "O2"),
    "divisor zero": ("max", "abs(c)/r", {"r": ("sum", "abs(c)")}, "t*r/r_new", "O1"),
    "first step of a max": ("max", "c/r", {"r": ("sum", "exp(c)")}, "t*r/r_new", "O4"),
    "inverse": ("sum", "log(1 + exp(c - r))", {"r": None}, "log(1 + exp(log(exp(t) - 1) + r - r_new))", "O2"),
}  # fmt: skip


def prove(reducer: str, term: Any, producers: Any, repair: Any) -> RepairReport:
    return prove_repair(reducer, term, producers, repair)


@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str) -> None:
    report = prove(*RIGHT[name])
    assert report.proved and report.verdict is Verdict.PROVED, report.text()
    assert report.counterexample is None
    assert all(len(p.result.routes) == 2 for p in report.obligations)


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name: str) -> None:
    *claim, obligation = WRONG[name]
    report = prove(*claim)
    assert not report.proved and report.verdict is Verdict.REFUTED, report.text()
    found = report.counterexample
    assert found is not None and found.left != found.right
    assert obligation in {p.obligation.kind for p in report.failed}, report.text()


@pytest.mark.parametrize("name", RIGHT)
def test_small_edits_of_right_ones_are_refused(name: str) -> None:
    reducer, term, producers, repair = RIGHT[name]
    if reducer == "any":
        return
    from neptune_verified.expressions import parse

    updates = [parse(r) for r in (repair if isinstance(repair, list) else [repair])]
    tried = 0
    for k, h in enumerate(updates):
        for edit in edits(h, list(producers), "t" if len(updates) == 1 else f"t{k}"):
            wrong = [*updates[:k], edit, *updates[k + 1 :]]
            report = prove(reducer, term, producers, wrong)
            assert not report.proved, f"{h} changed to {edit}: {report.text()}"
            tried += 1
            if tried == 6:
                return


def edits(h: Any, producers: list[str], t: str) -> list[Any]:
    """Wrong by construction: old for new, new for old, both swapped, twice, one more."""
    result = [2 * h, h + 1, sp.Symbol(t) * 0]
    for p in producers:
        old, new = sp.Symbol(p), sp.Symbol(f"{p}_new")
        result += [h.subs(new, old), h.subs({old: new, new: old}, simultaneous=True)]
    return [e for e in dict.fromkeys(result) if sp.expand(sp.piecewise_fold(e - h)) != 0]


def test_a_wrong_run_is_told_in_the_users_names() -> None:
    report = prove(*WRONG["1/n"][:4])
    assert report.run is not None
    assert "wrong run: with c[1] = 0, c[2] = 1, the repaired t is 1/8 and the true one 1/4" in report.text()


def test_the_text_of_a_proof() -> None:
    text = prove(*RIGHT["variance"]).text()
    assert text.startswith("proved: t = sum of pow(c - r, 2), repaired by t + n * pow(r - r_new, 2)")
    assert "assumed: r: the running mean of c, finite once an element was seen" in text
    assert "note: right for whole prefixes only" in text


def test_assumptions_of_sympy_symbols_are_facts_and_listed() -> None:
    c, r, r_new, t = sp.Symbol("c"), sp.Symbol("r", positive=True), sp.Symbol("r_new"), sp.Symbol("t")
    report = prove_repair("max", c / r, [r], t * r / r_new)
    assert report.proved and "assumed: r: a running value, finite > 0" in report.text()
    free = prove_repair("max", c / sp.Symbol("r"), ["r"], t * r / r_new)
    assert free.verdict is Verdict.PROVED  # matched by name: r is positive in the repair


def test_declared_facts_are_used_and_listed() -> None:
    claim = ("max", "c*a", ["a"], "t*a_new/a")
    assert prove_repair(*claim).verdict is Verdict.REFUTED
    report = prove_repair(*claim, facts=["a > 0"])
    assert report.proved, report.text()
    assert "a: a running value, finite > 0" in report.text()
    bounded = prove_repair("sum", "exp(c - m)", ["m"], "t*exp(m - m_new)", facts=["c <= m"])
    assert bounded.proved and "declared: c <= m" in bounded.text()


def test_contradicting_facts_prove_nothing() -> None:
    with pytest.raises(IllFormed, match="contradict"):
        prove_repair("sum", "c*a", ["a"], "t", facts=["a > 0", "a < 0"])
    report = prove_repair("sum", "c*a", ["a"], "t", facts=["a > c", "c > a"])
    assert not report.proved and report.verdict is Verdict.VACUOUS


@pytest.mark.parametrize(
    "repair, words",
    [
        ("t*v", "reads v, which varies from element to element"),
        ("t*z", "reads z, which is no accumulator"),
        ("t0", "reads t0"),
        (["t", "t"], "same number of entries"),
        ([], "at least one entry"),
    ],
)
def test_what_is_no_update(repair: Any, words: str) -> None:
    with pytest.raises(IllFormed, match=words):
        prove_repair("sum", "exp(c - m)*v", MAX, repair)


def test_what_is_no_question() -> None:
    for kwargs, words in (
        ({"reducer": "median"}, "unknown reducer"),
        ({"producers": {"m": ("middle", "c")}}, "producers are"),
        ({"producers": {"m": ("max", "m + c")}}, "reads itself"),
        ({"term": "exp(c - t)"}, "stands for an accumulator"),
        ({"term": "exp(c - m_new)"}, "new value"),
        ({"term": "exp(c - n*m)"}, "number of elements"),
        ({"facts": ["z > 0"]}, "occurs nowhere else"),
        ({"facts": ["c"]}, "no fact"),
    ):
        question: dict[str, Any] = {"reducer": "sum", "term": "exp(c - m)", "producers": MAX, "repair": "t", **kwargs}
        with pytest.raises(IllFormed, match=words):
            prove_repair(**question)


def test_elements_that_can_be_masked() -> None:
    """With -inf among the elements the new maximum can be -inf, and the plain update is undefined there."""
    claim = ("sum", "exp(c - m)*v", MAX, "t*exp(m - m_new)")
    plain = prove_repair(*claim, domain={"c": "real or -inf"})
    assert plain.verdict is Verdict.REFUTED and "undefined" in plain.text()
    assert prove_repair(*claim, domain={"c": "real"}).proved

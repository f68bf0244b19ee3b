"""Programs that are repairable by construction: the repair is drawn first, then the term that it repairs.

Under a sum, ``h(t, r, r') = t * f(r') / f(r)`` repairs every term ``f(r) * b(c)``; under max and min, with f > 0,
``h(t, r, r') = (t - k(r)) * f(r') / f(r) + k(r')`` repairs ``f(r) * b(c) + k(r)``; under a product, ``t ^ (f(r') / f(r))``
repairs ``b(c) ^ f(r)``; under logaddexp, ``t + k(r') - k(r)`` repairs ``b(c) + k(r)``. So f and k are drawn, for one, two
or three producers r, and the element's part b after them. Each f here has quotients that stay in range (an exponential
of a difference to the running maximum; a power of a sum that an eps keeps away from 0), so the update is right in
floating point too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.property.elements import NEG_INF, D, Scope, element, mask, scope, weight
from tests.property.specs import Spec, at, used


@dataclass(frozen=True)
class Producer:
    """A running value. ``kind``: "max" or "min" of ``of``, "amax" (the max of its absolute value), "sum" (of positive terms,
    with ``above`` > 0 where it is kept above that by what reads it), "mean" (of any sign)."""

    name: str
    read: str
    kind: str
    of: str


@dataclass
class Rows:
    """The scores of a program, and the predicate under which they count ("" for all)."""

    s: Scope
    score: str
    live: str
    producers: list[Producer]

    def masked(self, term: str, neutral: str) -> str:
        """``term`` where the element counts."""
        return f"te.if_then_else({self.live}, {term}, {neutral})" if self.live else term


# ------------------------------------------------------------------------------------------------ producers


def _extremum(r: Rows, name: str, kind: str) -> Producer:
    neutral = NEG_INF if kind == "max" else f"-{NEG_INF}"
    read = r.s.reduce(name, kind, r.masked(r.score, neutral))
    return Producer(name, read, kind, r.score)


def _amax(r: Rows, name: str) -> Producer:
    read = r.s.reduce(name, "max", r.masked(f"te.abs({r.score})", NEG_INF))
    return Producer(name, read, "amax", r.score)


def _norm(r: Rows, name: str) -> Producer:
    z = r.score
    term = r.s.pick(
        f"te.abs({z})", f"{z} * {z}", f"(te.abs({z}) + 0.5)", f"te.sqrt(te.abs({z}))", f"te.power({z}, 2.0)"
    )
    return Producer(name, r.s.reduce(name, "sum", r.masked(term, "0.0")), "sum", z)


def _mean(r: Rows, name: str) -> Producer:
    read = r.s.reduce(name, "sum", r.masked(f'{r.score} / N.astype("float32")', "0.0"))
    return Producer(name, read, "mean", r.score)


def producer(r: Rows, name: str) -> Producer:
    kind = r.s.pick("max", "max", "min", "amax", "sum", "sum", "mean")
    makers: dict[str, Callable[[], Producer]] = {
        "max": lambda: _extremum(r, name, "max"), "min": lambda: _extremum(r, name, "min"),
        "amax": lambda: _amax(r, name), "sum": lambda: _norm(r, name), "mean": lambda: _mean(r, name),
    }  # fmt: skip
    return makers[kind]()


# ------------------------------------------------------------------------------------------------ factors f(r) b(c)


def _exponential(s: Scope, p: Producer, z: str) -> str:
    """At most 1: the difference to the extremum has one sign."""
    difference = f"({z} - {p.read})" if p.kind == "max" else f"({p.read} - {z})"
    k = s.pick("0.5", "2.0", "0.125", "0.3")
    return str(
        s.pick(
            f"te.exp({difference})",
            f"te.exp({difference} * {k})",
            f"tirx.exp2({difference})",
            f"te.power(te.exp({difference}), 2.0)",
        )
    )


def _scaled(s: Scope, p: Producer, b: str) -> str:
    """b / (r + eps)^k and its relatives, r >= 0."""
    r = p.read
    kind = s.pick("quotient", "square", "rsqrt", "mean", "root", "grows", "sqrt", "plus", "log")
    match kind:
        case "quotient":
            return f"({b} / ({r} + {s.pick('1.0', '0.125')}))"
        case "square":
            return f"te.power({b} / ({r} + 1.0), 2.0)"
        case "rsqrt":
            return f"{b} * te.rsqrt({r} + {s.pick('1.0', '1e-3')})"
        case "mean":
            return f'{b} / te.sqrt({r} / N.astype("float32") + 1e-3)'
        case "root":
            return f"te.sqrt({b if b == '1.0' else f'te.abs({b})'} / ({r} + 1.0))"
        case "grows":
            return f"{b} * ({r} + 1.0)"
        case "sqrt":
            return f"{b} * te.sqrt({r} + 1.0)"
        case "plus":
            return f"{b} / (1.0 + {r} * 0.5)"
        case _:
            return f"{b} / te.log({r} + 2.0)"


def _by_amax(s: Scope, p: Producer) -> str:
    """z / max |z|, undefined where all of z is 0."""
    q = f"({p.of} / {p.read})"
    return str(s.pick(q, f"te.power({q}, 2.0)", f"te.abs({q})", f"{q} * {q}", f"te.sqrt(te.abs({q}))"))


def factor(r: Rows, p: Producer, b: str) -> str:
    """f(r) * b(c) for one producer; ``b`` may be dropped."""
    if p.kind in ("max", "min"):
        e = _exponential(r.s, p, p.of)
        return e if b == "1.0" else f"{e} * {b}"
    if p.kind == "amax":
        return _by_amax(r.s, p) if r.s.chance(60) else _scaled(r.s, p, b)
    return _scaled(r.s, p, b)


# ------------------------------------------------------------------------------------------------ consumers


def sum_term(r: Rows, chosen: list[Producer]) -> str:
    factors = [factor(r, p, "1.0" if k else weight(r.s)) for k, p in enumerate(p for p in chosen if p.kind != "mean")]
    return " * ".join(f"({f})" for f in factors) if len(factors) > 1 else (factors or [r.score])[0]


def order_term(r: Rows, chosen: list[Producer]) -> str:
    """f(r) * b(c) + k(r): a positive factor of one producer, a shift by another."""
    scales = [p for p in chosen if p.kind in ("sum", "amax")]
    shifts = [p for p in chosen if p.kind in ("max", "min", "mean")]
    b = r.s.pick(r.score, r.score, f"te.abs({r.score})", weight(r.s))
    term = _scaled(r.s, scales[0], b) if scales else b
    if shifts:
        k = r.s.pick("", " * 0.5", " * 2.0")
        sign = r.s.pick("-", "-", "+")
        term = f"({term}) {sign} {shifts[0].read}{k}"
    return term


def product_term(r: Rows, p: Producer) -> str:
    """A factor of at most 1 to a power."""
    return f"te.power(te.exp(te.abs({r.score}) * -0.01), 1.0 / ({p.read} + 1.0))"


def consumer(r: Rows, name: str) -> Producer | None:
    """A reduction over one or two of the producers so far; itself a producer where its value is known to be >= 0."""
    s = r.s
    first = s.pick(*r.producers)
    chosen = [first]
    if len(r.producers) > 1 and s.chance(40):
        chosen.append(s.pick(*(p for p in r.producers if p is not first)))
    positive = [p for p in chosen if p.kind == "sum"]
    kinds = ["sum", "sum", "sum", "max", "min"]
    if all(p.kind == "mean" for p in chosen):
        kinds = ["max", "min"]
    reducer = s.pick(
        *kinds,
        *(["prod"] if positive and not r.live else []),
        *(["logaddexp"] if first.kind == "amax" and not r.live else []),
    )
    match reducer:
        case "sum":
            term = sum_term(r, chosen)
        case "prod":
            term = product_term(r, positive[0])
        case "logaddexp":
            term = f"{r.score} - {first.read}"
        case _:
            term = order_term(r, chosen)
    neutral = {"sum": "0.0", "max": NEG_INF, "min": f"-{NEG_INF}"}.get(reducer, "")
    read = s.reduce(name, reducer, r.masked(term, neutral))
    # The exponentials of a maximum are positive, and one of them is 1.
    alone = reducer == "sum" and len(chosen) == 1 and term.startswith("te.exp(") and term.endswith("))") is False
    if alone and first.kind in ("max", "min") and term.count("te.exp(") == 1 and "*" not in term:
        return Producer(name, read, "sum", r.score)
    return None


@st.composite
def repairable_programs(draw: Any) -> Spec:
    """A chain of two to four reductions over the rows of x (or over all of it), in one pass unless an output over [M, N]
    reads one of them."""
    s = scope(draw)
    score = element(s)
    if s.chance(40):
        score = s.add("z", s.columns, score)
    r = Rows(s, score, mask(s) if s.chance(25) else "", [])
    names = iter("abcefg")
    r.producers.append(producer(r, next(names)))
    if s.chance(40):
        r.producers.append(producer(r, next(names)))
    outputs = []
    for _ in range(s.pick(1, 1, 2)):
        name = next(names)
        made = consumer(r, name)
        if made is not None:
            r.producers.append(made)
        outputs.append(name)
    finished = finish(r, outputs)
    return used(Spec(tuple(s.inputs.values()), tuple(s.stages), *finished))


def finish(r: Rows, outputs: list[str]) -> tuple[tuple[str, ...], int]:
    """The outputs and the number of passes."""
    s, last = r.s, outputs[-1]
    read = at(last, s.rows)
    kind = s.pick("plain", "plain", "plain", "scalar", "all", "elements", "product")
    of_max = [p for p in r.producers if p.kind == "max"]
    match kind:
        case "scalar":
            forms = [
                f"{read} * 0.5 + 1.0",
                f"te.abs({read})",
                f"te.sqrt(te.abs({read}))",
                f"te.log(1.0 + te.abs({read}))",
            ]
            if of_max:
                forms.append(f"{of_max[0].read} + {read}")
            s.add("o", s.rows, s.pick(*forms))
            return ("o",), 1
        case "all":
            return tuple(dict.fromkeys((*outputs, r.producers[0].name))), 1
        case "elements":
            s.add(
                "o",
                s.columns,
                s.pick(f"{r.score} * 0.5 + {read}", f"{r.score} * {read}", f"{r.score} / (te.abs({read}) + 1.0)"),
            )
            return ((last, "o") if s.chance(50) else ("o",)), 2
        case "product" if of_max or any(p.kind == "sum" for p in r.producers):
            p = of_max[0] if of_max else next(p for p in r.producers if p.kind == "sum")
            v = s.read("v", (("j", "N"), ("d", D)))
            beside = p.read in s.stages[-1].term  # outputs that share no reduction become two kernels
            s.add("o", (*s.rows, ("d", D)), r.masked(f"{factor(r, p, '1.0')} * {v}", "0.0"), "sum")
            return ((last, "o") if beside else ("o",)), 1
        case _:
            return (last,), 1

"""Programs that nobody thought of: chains of one to four reductions whose terms are random expressions of elements and of
earlier reductions."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.property.elements import NEG_INF, D, Scope, element, mask, scope
from tests.property.specs import Spec, used

BINARY = (
    "({a} + {b})", "({a} - {b})", "{a} * {b}", "{a} / ({b} + 1.0)", "{a} / (te.abs({b}) + 0.5)", "te.max({a}, {b})",
    "te.min({a}, {b})", "te.exp({a} - {b})", "te.exp(te.min({a}, {b}) - te.max({a}, {b}))", "{a} / {b}",
    "te.if_then_else({a} > {b}, {a}, {c})", "({a} - {b}) * ({a} - {b})",
)  # fmt: skip
UNARY = (
    "te.exp(-te.abs({a}))", "te.abs({a})", "te.tanh({a})", "te.sqrt(te.abs({a}))", "te.log(1.0 + te.abs({a}))",
    "({a} + {c})", "{a} * {c}", "te.rsqrt({a} * {a} + 1e-3)", "te.power({a}, 2.0)", "-({a})", "te.sigmoid({a})",
    "te.exp({a} * 0.0625)", "te.floor({a})", "te.sin({a})",
)  # fmt: skip
#: Applied at the end, to a whole row.
SCALAR = (
    "{a}", "{a} * 0.5 + 1.0", "te.sqrt(te.abs({a}))", "te.log(te.abs({a}))", '{a} / N.astype("float32")', "{a} / {b}",
    "{a} + te.log({b})", "te.if_then_else({b} == 0.0, 0.0, {a} / {b})", "te.max({a}, {b})",
)  # fmt: skip


def _expression(s: Scope, leaves: list[str], depth: int) -> str:
    """Over the leaves, each of which is an element, a running value or a number."""
    if not depth or s.chance(25):
        return str(s.pick(*leaves))
    form = s.pick(*UNARY) if s.chance(40) else s.pick(*BINARY)
    a, b = _expression(s, leaves, depth - 1), ""
    if "{b}" in form:
        b = _expression(s, leaves, depth - 1)
        if a == b:  # a comparison with itself, or a difference of 0
            b = f"{_wrapped(b)} * {s.pick('0.5', '2.0')}"
    return str(form.format(a=_wrapped(a), b=_wrapped(b), c=s.constant()))


def _wrapped(term: str) -> str:
    """In parentheses unless it is one operand already."""
    depth = 0
    for k, c in enumerate(term):
        depth += (c in "([") - (c in ")]")
        if depth == 0 and c == " ":
            return f"({term})"
        if term[0] == "-" and k == 0:
            return f"({term})"
    return term


def _masked(s: Scope, term: str, reducer: str) -> str:
    live = mask(s) if s.chance(75) else f"{s.x()} > {s.pick('0.0', '-1.0', '0.5')}"
    neutral = {"sum": "0.0", "max": NEG_INF, "min": f"-{NEG_INF}", "prod": "1.0"}[reducer]
    return f"te.if_then_else({live}, {term}, {neutral if s.chance(80) else '0.0'})"


@st.composite
def arbitrary_programs(draw: Any) -> Spec:
    """Anything of the language over rows of x [.., M, N] and y, w [N], v [N, 16], whatever comes of it."""
    s = scope(draw, (None, 8.0, 64.0, 1024.0))
    s.dead = s.chance(20)
    elements = [_wrapped(element(s))]
    if s.chance(50):
        elements.append(s.pick(s.w, s.y)())
    if s.chance(30):
        elements[0] = s.add("z", s.columns, elements[0])
    rows: list[str] = []
    for name in "abce"[: s.pick(2, 2, 1, 3, 3, 4)]:
        reducer = s.pick("sum", "sum", "max", "max", "min", "prod")
        leaves = [*elements, *rows[-2:], *rows[:1]]
        term = _expression(s, leaves, s.pick(1, 2, 2, 3))
        if rows and not any(r in term for r in rows):
            form = s.pick(*(f for f in BINARY if f.count("{b}") and "{c}" not in f))
            term = form.format(a=_wrapped(term), b=s.pick(*rows))
        if elements[0] not in term:
            term = f"{_wrapped(term)} * {elements[0]}"
        if reducer == "prod":
            term = f"te.exp(-te.abs({term}) * 0.01)" if s.chance(70) else f"te.tanh({term})"
        if s.chance(25):
            term = _masked(s, term, reducer)
        rows.append(s.reduce(name, reducer, term))
    outputs = _outputs(s, elements, rows)
    return used(Spec(tuple(s.inputs.values()), tuple(s.stages), outputs))


def _outputs(s: Scope, elements: list[str], rows: list[str]) -> tuple[str, ...]:
    last = rows[-1]
    match s.pick("plain", "plain", "scalar", "scalar", "all", "elements", "product"):
        case "scalar":
            s.add("o", s.rows, s.pick(*SCALAR).format(a=last, b=rows[0]))
            return ("o",)
        case "all":
            return tuple(t.name for t in s.stages if t.reducer and t.axes == s.rows)
        case "elements":
            s.add("o", s.columns, _expression(s, [*elements, last, last], 2))
            return (last.partition("[")[0].removesuffix("()"), "o")
        case "product":
            v = s.read("v", (("j", "N"), ("d", D)))
            s.add("o", (*s.rows, ("d", D)), f"{_wrapped(_expression(s, [elements[0], *rows], 2))} * {v}", "sum")
            return ("o",)
        case _:
            return (last.partition("[")[0].removesuffix("()"),)

"""Not trusted: is an operation on tuples a reducer? What is proved, ``proofs.tuple_reducer`` states.

>>> tie = "select(v_a > v_b or v_a == v_b and i_a <= i_b, i_a, i_b)"
>>> values = {"v": "real or -inf", "i": "real or +inf"}
>>> prove_reducer(values, ["max(v_a, v_b)", tie], ["-inf", "+inf"]).proved
True
>>> print(prove_reducer(values, ["max(v_a, v_b)", "select(v_a >= v_b, i_a, i_b)"], ["-inf", "+inf"]).counterexample)
at v_a = 0, i_a = 0, v_b = 0, i_b = 1: 0 instead of 1
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from neptune_verified.expressions import parse
from neptune_verified.ir.expr import INF, Expr, const, var
from neptune_verified.ir.kinds import Kinds
from neptune_verified.proofs.limits import Limits
from neptune_verified.proofs.repair_symbols import DOMAINS, symbol_name
from neptune_verified.proofs.statement_text import expr_text, kinds_text
from neptune_verified.proofs.sympy_reading import Unreadable, read_sympy
from neptune_verified.proofs.tuple_reducer import DTYPE, NoReducer, TupleReducer, reducer_obligations
from neptune_verified.repair_results import RepairReport, discharge_all

LIMITS = Limits(points=100, attempts=800, sympy_cases=2_000)
_INFINITE = {"-inf": -INF, "-oo": -INF, "inf": INF, "+inf": INF, "oo": INF, "+oo": INF}


def prove_reducer(
    values: Mapping[Any, str] | Sequence[Any],
    combine: Sequence[Any],
    neutral: Sequence[Any],
    facts: Iterable[Any] = (),
) -> RepairReport:
    """Is ``combine`` with ``neutral`` associative, commutative, and closed: does the order of elements not matter?

    ``values``: the components with their domains ("real", "nonnegative", "real or -inf", "real or +inf", "extended", ...;
    a sequence of names: all real). ``combine``: one formula for each component, over NAME_a and NAME_b, as text or as SymPy
    expressions. ``neutral``: one number for each, "-inf" and "+inf" too. ``facts``: what holds of every partial result,
    over NAME, such as "n > 0 or mean == 0". Raises NoReducer (a ValueError) for what cannot be stated."""
    domains = values if isinstance(values, Mapping) else dict.fromkeys(values, "real")
    names = tuple(symbol_name(v) for v in domains)
    kinds = tuple(_kinds(n, d) for n, d in zip(names, domains.values(), strict=True))
    operands: dict[str, Expr] = {f"{n}_{x}": var(f"{n}_{x}", DTYPE) for n in names for x in ("a", "b")}
    own: dict[str, Expr] = {n: var(n, DTYPE) for n in names}
    r = TupleReducer(
        names,
        kinds,
        tuple(_read(e, operands, "NAME_a and NAME_b") for e in combine),
        tuple(_number(e) for e in neutral),
        tuple(_read(f, own, "NAME") for f in facts),
    )
    done = discharge_all(reducer_obligations(r), LIMITS, stop=False)
    update = tuple(
        f"{n} = {expr_text(e)}, neutral {expr_text(x)}" for n, e, x in zip(names, r.combine, r.neutral, strict=True)
    )
    assumed = [f"{n} is {kinds_text(k)}" for n, k in zip(names, kinds, strict=True)]
    assumed += [f"of every partial result: {expr_text(f)}" for f in r.facts]
    return RepairReport(done, tuple(assumed), (), update)


def _kinds(name: str, domain: str) -> Kinds:
    if domain not in DOMAINS or domain == "bool":
        raise NoReducer(f"{name} is {domain!r}; domains are {', '.join(d for d in DOMAINS if d != 'bool')}")
    return DOMAINS[domain]


def _read(e: Any, symbols: Mapping[str, Expr], over: str) -> Expr:
    try:
        return read_sympy(parse(e) if isinstance(e, str) else e, symbols, DTYPE)
    except Unreadable as error:
        raise NoReducer(f"{e}: {error}; formulas here are over {over}") from None


def _number(e: Any) -> Expr:
    if isinstance(e, str) and e.strip() in _INFINITE:
        return const(_INFINITE[e.strip()], DTYPE)
    return _read(e, {}, "no symbol: a neutral value is a number")

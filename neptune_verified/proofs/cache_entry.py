"""Trusted by ``compile`` alone: what an answer looks like on disk, and which answers are kept.

A reader believes no more than it must: an entry that is not well formed, or whose verdict does not follow from its
routes, is none; a counterexample counts if the statement is false there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from fractions import Fraction

from neptune_verified.ir import jsontext as j
from neptune_verified.ir.expr import Var
from neptune_verified.proofs import falsify
from neptune_verified.proofs.discharge import Discharged
from neptune_verified.proofs.evaluate import INF, OutOfReach, Unsupported, Value
from neptune_verified.proofs.limits import LIMITS, Limits
from neptune_verified.proofs.statement import Statement
from neptune_verified.proofs.verdict import Counterexample, RouteResult, Verdict, combine

#: What a certificate says of a route whose answer was not found in this run.
CACHED = "from the proof cache"
KEPT = (Verdict.PROVED, Verdict.REFUTED, Verdict.UNSUPPORTED, Verdict.VACUOUS)


def lasting(result: Discharged, limits: Limits = LIMITS) -> bool:
    """Would another run say the same? Not where a clock may have decided, which a busy machine reaches sooner."""
    if result.verdict in (Verdict.PROVED, Verdict.REFUTED):
        return True
    own = {"falsifier": limits.falsify_ms, "z3": limits.z3_ms, "sympy": limits.sympy_ms}
    in_time = all(r.ms < own.get(r.route, 0) / 2 for r in result.routes)
    return in_time and result.verdict in KEPT


def entry(result: Discharged, name: str) -> bytes:
    """The bytes of an entry: the hash of what follows, and the answer."""
    found = result.counterexample
    data = {
        "key": name,
        "verdict": result.verdict.value,
        "routes": [
            {"route": r.route, "verdict": r.verdict.value, "ms": r.ms, "detail": r.detail, "script": r.script}
            for r in result.routes
        ],
        "counterexample": found and {"values": dict(found.values), "left": found.left, "right": found.right},
    }
    body = json.dumps(data).encode()
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def read_entry(content: bytes, name: str) -> Discharged:
    """The answer of an entry. ValueError unless it is whole, belongs to this key, and its verdict is that of its routes."""
    digest, _, body = content.partition(b"\n")
    if digest.decode() != hashlib.sha256(body).hexdigest():
        raise ValueError("the entry is damaged")
    data = j.record(j.parse(body.decode(), "entry"), "entry", ("key", "verdict", "routes", "counterexample"))
    if data["key"] != name:
        raise ValueError("the entry is that of another statement")
    verdict = Verdict(data["verdict"])
    found = _counterexample(data["counterexample"])
    routes = tuple(_route(r, where, found) for r, where in j.each(data["routes"], "routes"))
    said = [r.verdict for r in routes]
    decided = said[0] if [r.route for r in routes] == ["falsifier"] else combine(said)
    if decided is not verdict or (verdict is Verdict.REFUTED) != (found is not None):
        raise ValueError("the entry contradicts itself")
    if verdict is Verdict.PROVED and [r.route for r in routes] != ["z3", "sympy"]:
        raise ValueError("only what both routes prove is proved")
    if verdict not in KEPT:
        raise ValueError(f"an entry never says {verdict.value}")
    return Discharged(verdict, routes, found)


def _route(value: j.Json, where: str, found: Counterexample | None) -> RouteResult:
    data = j.record(value, where, ("route", "verdict", "ms", "detail", "script"))
    verdict = Verdict(data["verdict"])
    detail = CACHED if verdict is Verdict.PROVED else j.string(data["detail"], where)
    script = j.string(data["script"], where)
    point = found if verdict is Verdict.REFUTED else None
    return RouteResult(j.string(data["route"], where), verdict, j.real(data["ms"], where), detail, script, point)


def _counterexample(value: j.Json) -> Counterexample | None:
    if value is None:
        return None
    data = j.record(value, "counterexample", ("values", "left", "right"))
    values = data["values"]
    if not isinstance(values, dict):
        raise ValueError("a counterexample is a table of values")
    point = {name: j.string(v, name) for name, v in values.items()}
    return Counterexample(point, j.string(data["left"], "left"), j.string(data["right"], "right"))


def replays(statement: Statement, found: Counterexample, limits: Limits = LIMITS) -> bool:
    """Is the statement false at the point that the text names, with the sides that it names?"""
    try:
        search = falsify.Search(statement, limits)
        point = _point(search.vars, found.values)
        return (
            search.in_domain(point)
            and search.is_counterexample(point)
            and str(search.counterexample(point)) == str(found)
        )
    except (Unsupported, OutOfReach, ValueError, KeyError, ZeroDivisionError):
        return False


def _point(symbols: tuple[Var, ...], values: Mapping[str, str]) -> dict[Var, Value]:
    special: dict[str, Value] = {"true": True, "false": False, "+inf": INF, "-inf": -INF}
    return {v: special[x] if (x := values[v.name]) in special else Fraction(x) for v in symbols}

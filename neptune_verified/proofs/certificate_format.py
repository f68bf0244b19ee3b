"""Trusted: the fields of certificate.json, and reading it. Imports no prover, so that reports can be shown without one.

The schema is written out in docs/certificate.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neptune_verified.ir import jsontext as j
from neptune_verified.ir.example import read_example

FIELDS = (
    "coverage",
    "program",
    "semantics_version",
    "hashes",
    "tools",
    "limits",
    "passes",
    "assumptions",
    "notes",
    "obligations",
    "text",
    "refused",
    "roundings",
    "kernel",
)
HASHES = ("definition", "loops", "kernel")
OBLIGATION = ("id", "kind", "stage", "step", "statement", "symbols", "assumptions", "script", "verdict", "routes")
SYMBOL = ("name", "dtype", "kinds", "meaning", "origins")
TEXT = ("id", "kernel", "configuration", "covers", "bounded", "verdict", "routes")
ASSUMPTION = ("text", "origin")
ROUTE = ("route", "verdict", "ms", "detail")
COUNTEREXAMPLE = ("values", "left", "right")
REFUSAL = ("consumer", "producers", "reason", "obligation", "counterexample", "example")


def certificate_to_json(certificate: Mapping[str, Any]) -> str:
    """The text of certificate.json, its fields in the order of FIELDS."""
    return j.dump(dict(certificate), sort=False)


def certificate_from_json(text: str, where: str = "certificate.json") -> dict[str, Any]:
    """The certificate of a text. Raises FormatError for anything that docs/certificate.md does not describe."""
    data = j.record(j.parse(text, where), where, FIELDS)
    for name in ("coverage", "program", "semantics_version"):
        j.string(data[name], f"{where}: {name}")
    j.integer(data["passes"], f"{where}: passes")
    for name, digest in j.record(data["hashes"], f"{where}: hashes", HASHES).items():
        j.string(digest, f"{where}: hashes.{name}")
    for name in ("notes", "roundings"):
        j.strings(data[name], f"{where}: {name}")
    for name in ("tools", "limits", "kernel"):
        if not isinstance(data[name], dict):
            j.fail(f"{where}: {name}", "an object is wanted")
    for fact, place in j.each(data["assumptions"], f"{where}: assumptions"):
        _texts(fact, place, ASSUMPTION)
    for refusal, place in j.each(data["refused"], f"{where}: refused"):
        record = j.record(refusal, place, REFUSAL)
        j.strings(record["producers"], f"{place}.producers")
        _strings_of(record, place, ("consumer", "reason", "obligation", "counterexample"))
        read_example(record["example"], f"{place}.example")
    for entry, place in j.each(data["text"], f"{where}: text"):
        record = j.record(entry, place, TEXT)
        _strings_of(record, place, TEXT[:-1])
        j.strings(record["routes"], f"{place}.routes")
    for obligation, place in j.each(data["obligations"], f"{where}: obligations"):
        _obligation(obligation, place)
    return dict(data)


def _texts(value: j.Json, where: str, fields: tuple[str, ...]) -> None:
    _strings_of(j.record(value, where, fields), where, fields)


def _strings_of(record: dict[str, j.Json], where: str, fields: tuple[str, ...]) -> None:
    for name in fields:
        j.string(record[name], f"{where}.{name}")


def _obligation(value: j.Json, where: str) -> None:
    record = j.record(value, where, OBLIGATION, optional=("counterexample",))
    _strings_of(record, where, ("id", "kind", "stage", "step", "statement", "verdict"))
    j.strings(record["script"], f"{where}.script")
    for symbol, place in j.each(record["symbols"], f"{where}.symbols"):
        s = j.record(symbol, place, SYMBOL)
        _strings_of(s, place, ("name", "dtype", "meaning"))
        j.strings(s["kinds"], f"{place}.kinds")
        j.strings(s["origins"], f"{place}.origins")
    for fact, place in j.each(record["assumptions"], f"{where}.assumptions"):
        _texts(fact, place, ASSUMPTION)
    for route, place in j.each(record["routes"], f"{where}.routes"):
        r = j.record(route, place, ROUTE)
        _strings_of(r, place, ("route", "verdict", "detail"))
        j.real(r["ms"], f"{place}.ms")
    if "counterexample" in record:
        point = j.record(record["counterexample"], f"{where}.counterexample", COUNTEREXAMPLE)
        _strings_of(point, f"{where}.counterexample", ("left", "right"))
        if not isinstance(point["values"], dict):
            j.fail(f"{where}.counterexample.values", "an object is wanted")
        for name, text in point["values"].items():
            j.string(text, f"{where}.counterexample.values.{name}")

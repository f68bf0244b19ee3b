"""Trusted: JSON for programs, and their hash (see ``ir.serialize``)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from neptune_verified.ir import jsontext as j
from neptune_verified.ir.expr import Size
from neptune_verified.ir.nodes import Table, Writer, dtype
from neptune_verified.ir.program import Assumption, Loc, Program, Stage, Tensor
from neptune_verified.ir.spec import program_faults

PROGRAM_FORMAT = "neptune_verified program 1"


#: The meaning that certificates speak about; any change of the semantics must change it.
SEMANTICS_VERSION = "1"


def sha256(text: str) -> str:
    """The hexadecimal digest of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


def program_hash(program: Program, version: str) -> str:
    """The hexadecimal digest of what the program means, under this version of the semantics.

    Locations and notes do not enter it; names do, as they are the names of the kernel's arguments and outputs."""
    data = _program(program)
    del data["notes"], data["format"]
    for stage in data["stages"]:
        del stage["loc"]
    for fact in data["assumptions"]:
        fact["value"] = None if fact["value"] is None else str(Fraction(fact["value"]))
    payload = {"semantics": version, "program": data}
    return sha256(json.dumps(payload, sort_keys=True, separators=(",", ":")))


# ---------------------------------------------------------------------------------------- writing


def program_to_json(program: Program) -> str:
    return j.dump(_program(program))


def _program(program: Program) -> dict[str, Any]:
    w = Writer()
    data: dict[str, Any] = {"format": PROGRAM_FORMAT, "name": program.name}
    data["inputs"] = [{"name": t.name, "shape": w.refs(t.shape), "dtype": t.dtype} for t in program.inputs]
    data["sizes"] = [w.ref(s) for s in program.sizes]
    data["stages"] = [
        {"name": s.name, "axes": w.refs(s.axes), "body": w.ref(s.body), "loc": _loc(s.loc)} for s in program.stages
    ]
    data["outputs"] = list(program.outputs)
    data["assumptions"] = [
        {
            "kind": a.kind,
            "subject": a.subject,
            "value": a.value,
            "expr": None if a.expr is None else w.ref(a.expr),
            "origin": a.origin,
        }
        for a in program.assumptions
    ]
    data["notes"] = list(program.notes)
    data["nodes"] = w.nodes
    return data


def _loc(loc: Loc) -> dict[str, object]:
    return {"file": base_name(loc.file), "line": loc.line}


def base_name(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]


# ---------------------------------------------------------------------------------------- reading


def program_from_json(text: str, where: str = "program.json") -> Program:
    """The program of a text. Raises FormatError."""
    fields = ("format", "name", "inputs", "sizes", "stages", "outputs", "assumptions", "notes", "nodes")
    data = j.record(j.parse(text, where), where, fields)
    check_format(data["format"], PROGRAM_FORMAT, where)
    table = Table(data["nodes"], f"{where}: nodes")
    program = Program(
        j.string(data["name"], f"{where}: name"),
        tuple(_tensor(v, table, w) for v, w in j.each(data["inputs"], f"{where}: inputs")),
        tuple(_size(v, table, w) for v, w in j.each(data["sizes"], f"{where}: sizes")),
        tuple(_stage(v, table, w) for v, w in j.each(data["stages"], f"{where}: stages")),
        j.strings(data["outputs"], f"{where}: outputs"),
        tuple(_assumption(v, table, w) for v, w in j.each(data["assumptions"], f"{where}: assumptions")),
        j.strings(data["notes"], f"{where}: notes"),
    )
    refuse_faults(lambda: program_faults(program), where)
    return program


def check_format(value: j.Json, wanted: str, where: str) -> None:
    if value != wanted:
        j.fail(f"{where}: format", f"{wanted!r} is wanted, got {value!r}")


def refuse_faults(faults: Callable[[], list[str]], where: str) -> None:
    try:
        found = faults()
    except RecursionError:
        j.fail(where, "nested too deeply")
    if found:
        j.fail(where, "; ".join(found[:5]) + ("; ..." if len(found) > 5 else ""))


def _tensor(value: j.Json, table: Table, where: str) -> Tensor:
    data = j.record(value, where, ("name", "shape", "dtype"))
    return Tensor(
        j.string(data["name"], where), table.refs(data["shape"], f"{where}.shape"), dtype(data["dtype"], where)
    )


def _size(value: j.Json, table: Table, where: str) -> Size:
    e = table.ref(value, where)
    if not isinstance(e, Size):
        j.fail(where, f"a size is wanted, node {value} is a {type(e).__name__}")
    return e


def _stage(value: j.Json, table: Table, where: str) -> Stage:
    data = j.record(value, where, ("name", "axes", "body", "loc"))
    loc = j.record(data["loc"], f"{where}.loc", ("file", "line"))
    file = j.string(loc["file"], f"{where}.loc.file")
    return Stage(
        j.string(data["name"], f"{where}.name"),
        table.axes(data["axes"], f"{where}.axes"),
        table.ref(data["body"], f"{where}.body"),
        Loc(base_name(file), j.integer(loc["line"], f"{where}.loc.line")),
    )


def _assumption(value: j.Json, table: Table, where: str) -> Assumption:
    data = j.record(value, where, ("kind", "subject", "value", "expr", "origin"))
    return Assumption(
        j.string(data["kind"], f"{where}.kind"),
        j.string(data["subject"], f"{where}.subject"),
        None if data["value"] is None else j.real(data["value"], f"{where}.value"),
        None if data["expr"] is None else table.ref(data["expr"], f"{where}.expr"),
        j.string(data["origin"], f"{where}.origin"),
    )

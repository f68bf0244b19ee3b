"""Trusted: JSON for loop programs (see ``ir.serialize``)."""

from __future__ import annotations

from typing import Any

from neptune_verified.ir import jsontext as j
from neptune_verified.ir.example import example_data, read_example
from neptune_verified.ir.loops import Carried, Guard, Hoist, LoopProgram, Nest, Output, Pass, Refusal, Repair
from neptune_verified.ir.nodes import Table, Writer, rational
from neptune_verified.ir.program import Program
from neptune_verified.ir.program_json import check_format, program_hash, refuse_faults
from neptune_verified.ir.spec import loop_faults

LOOPS_FORMAT = "neptune_verified loops 2"


# ---------------------------------------------------------------------------------------- writing


def loops_to_json(loops: LoopProgram, version: str) -> str:
    """``version``: that of the semantics, which the program's hash covers."""
    w = Writer()
    data: dict[str, Any] = {"format": LOOPS_FORMAT, "program": f"sha256:{program_hash(loops.program, version)}"}
    data["fused"] = loops.fused
    data["nests"] = [_nest(n, w) for n in loops.nests]
    data["refusals"] = [refusal_data(r) for r in loops.refusals]
    data["nodes"] = w.nodes
    return j.dump(data)


def _nest(n: Nest, w: Writer) -> dict[str, object]:
    return {
        "name": n.name,
        "grid": w.refs(n.grid),
        "inner": w.refs(n.inner),
        "hoists": [
            {"name": h.name, "old": w.ref(h.old), "template": w.ref(h.template), "inner": w.refs(h.inner)}
            for h in n.hoists
        ],
        "passes": [
            {
                "stream": w.refs(p.stream),
                "carried": [_carried(c, w) for c in p.carried],
                "stores": [_output(out, w) for out in p.stores],
            }
            for p in n.passes
        ],
        "outputs": [_output(out, w) for out in n.outputs],
        "split": n.split,
    }


def _output(out: Output, w: Writer) -> dict[str, object]:
    return {"name": out.name, "axes": w.refs(out.axes), "expr": w.ref(out.expr)}


def _carried(c: Carried, w: Writer) -> dict[str, object]:
    r = c.repair
    repair = r and {
        "producers": list(r.producers),
        "h": w.ref(r.h),
        "guards": [{"producer": g.producer, "points": list(g.points), "value": str(g.value)} for g in r.guards],
        "guard_old": r.guard_old,
        "keep_neutral": r.keep_neutral,
        "hold": r.hold,
        "strategy": r.strategy,
    }
    return {"name": c.name, "value": w.ref(c.value), "axes": w.refs(c.axes), "repair": repair}


def refusal_data(r: Refusal) -> dict[str, object]:
    return {
        "consumer": r.consumer,
        "producers": list(r.producers),
        "reason": r.reason,
        "obligation": r.obligation,
        "counterexample": r.counterexample,
        "example": example_data(r.example),
    }


# ---------------------------------------------------------------------------------------- reading


def loops_from_json(text: str, program: Program, version: str, where: str = "loop.json") -> LoopProgram:
    """The loop program of ``program`` in a text. Raises FormatError, also when the text is about another program."""
    data = j.record(j.parse(text, where), where, ("format", "program", "fused", "nests", "refusals", "nodes"))
    check_format(data["format"], LOOPS_FORMAT, where)
    own = f"sha256:{program_hash(program, version)}"
    if data["program"] != own:
        j.fail(f"{where}: program", f"it belongs to another definition: {data['program']} instead of {own}")
    table = Table(data["nodes"], f"{where}: nodes")
    loops = LoopProgram(
        program,
        tuple(_read_nest(v, table, w) for v, w in j.each(data["nests"], f"{where}: nests")),
        tuple(read_refusal(v, w) for v, w in j.each(data["refusals"], f"{where}: refusals")),
        j.boolean(data["fused"], f"{where}: fused"),
    )
    refuse_faults(lambda: loop_faults(loops), where)
    return loops


def _read_nest(value: j.Json, t: Table, where: str) -> Nest:
    data = j.record(value, where, ("name", "grid", "inner", "hoists", "passes", "outputs", "split"))
    return Nest(
        j.string(data["name"], f"{where}.name"),
        t.axes(data["grid"], f"{where}.grid"),
        t.axes(data["inner"], f"{where}.inner"),
        tuple(_read_pass(v, t, w) for v, w in j.each(data["passes"], f"{where}.passes")),
        tuple(_read_output(v, t, w) for v, w in j.each(data["outputs"], f"{where}.outputs")),
        tuple(_read_hoist(v, t, w) for v, w in j.each(data["hoists"], f"{where}.hoists")),
        j.boolean(data["split"], f"{where}.split"),
    )


def _read_hoist(value: j.Json, t: Table, where: str) -> Hoist:
    data = j.record(value, where, ("name", "old", "template", "inner"))
    return Hoist(
        j.string(data["name"], f"{where}.name"),
        t.reduction(data["old"], f"{where}.old"),
        t.ref(data["template"], f"{where}.template"),
        tuple(t.reduction(v, w) for v, w in j.each(data["inner"], f"{where}.inner")),
    )


def _read_pass(value: j.Json, t: Table, where: str) -> Pass:
    data = j.record(value, where, ("stream", "carried", "stores"))
    return Pass(
        t.axes(data["stream"], f"{where}.stream"),
        tuple(_read_carried(v, t, w) for v, w in j.each(data["carried"], f"{where}.carried")),
        tuple(_read_output(v, t, w) for v, w in j.each(data["stores"], f"{where}.stores")),
    )


def _read_output(value: j.Json, t: Table, where: str) -> Output:
    data = j.record(value, where, ("name", "axes", "expr"))
    return Output(
        j.string(data["name"], where), t.axes(data["axes"], f"{where}.axes"), t.ref(data["expr"], f"{where}.expr")
    )


def _read_carried(value: j.Json, t: Table, where: str) -> Carried:
    data = j.record(value, where, ("name", "value", "axes", "repair"))
    return Carried(
        j.string(data["name"], f"{where}.name"),
        t.reduction(data["value"], f"{where}.value"),
        t.axes(data["axes"], f"{where}.axes"),
        None if data["repair"] is None else _read_repair(data["repair"], t, f"{where}.repair"),
    )


def _read_repair(value: j.Json, t: Table, where: str) -> Repair:
    data = j.record(value, where, ("producers", "h", "guards", "guard_old", "keep_neutral", "hold", "strategy"))
    return Repair(
        j.strings(data["producers"], f"{where}.producers"),
        t.ref(data["h"], f"{where}.h"),
        tuple(_read_guard(v, w) for v, w in j.each(data["guards"], f"{where}.guards")),
        j.boolean(data["guard_old"], f"{where}.guard_old"),
        j.boolean(data["keep_neutral"], f"{where}.keep_neutral"),
        j.boolean(data["hold"], f"{where}.hold"),
        j.string(data["strategy"], f"{where}.strategy"),
    )


def _read_guard(value: j.Json, where: str) -> Guard:
    data = j.record(value, where, ("producer", "points", "value"))
    points = j.strings(data["points"], f"{where}.points")
    return Guard(j.string(data["producer"], where), points, rational(data["value"], f"{where}.value"))


def read_refusal(value: j.Json, where: str) -> Refusal:
    data = j.record(value, where, ("consumer", "producers", "reason", "obligation", "counterexample", "example"))
    reason, obligation, counterexample = (
        j.string(data[k], f"{where}.{k}") for k in ("reason", "obligation", "counterexample")
    )
    consumer, producers = j.string(data["consumer"], where), j.strings(data["producers"], f"{where}.producers")
    example = read_example(data["example"], f"{where}.example")
    return Refusal(consumer, producers, reason, obligation, counterexample, example)

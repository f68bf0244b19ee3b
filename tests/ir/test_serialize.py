"""JSON of programs and loop programs: round trips, determinism, and every way in which a file can be wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from neptune_verified.fusion.fuse import fuse
from neptune_verified.ir.expr import axis, const, op, read, reduce_
from neptune_verified.ir.loops import LoopProgram
from neptune_verified.ir.program import Assumption, Loc, Program, Stage
from neptune_verified.ir.serialize import (
    FormatError,
    loops_from_json,
    loops_to_json,
    program_from_json,
    program_hash,
    program_to_json,
)
from tests.definitions import ALL, attention, softmax

Edit = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def loops() -> LoopProgram:
    return fuse(attention())


# ------------------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("name", ALL)
def test_a_program_comes_back_as_the_same_objects(name: str) -> None:
    program = ALL[name]
    text = program_to_json(program)
    again = program_from_json(text)
    assert again == program
    assert all(a.body is b.body for a, b in zip(again.stages, program.stages, strict=True))
    assert program_to_json(again) == text
    assert text.isascii() and text.endswith("}\n") and max(map(len, text.splitlines())) < 140


@pytest.mark.parametrize("name", ["attention", "softmax", "unfusable"])
def test_a_loop_program_comes_back_as_the_same_objects(name: str) -> None:
    fused = fuse(ALL[name])
    text = loops_to_json(fused, "1")
    again = loops_from_json(text, ALL[name], "1")
    assert again == fused
    for a, b in zip(again.nests, fused.nests, strict=True):
        assert all(c.value is d.value for c, d in zip(a.carried(), b.carried(), strict=True))
    assert loops_to_json(again, "1") == text


def test_texts_and_hashes_do_not_depend_on_the_process() -> None:
    code = (
        "from neptune_verified.fusion.fuse import fuse\n"
        "from neptune_verified.ir.serialize import *\n"
        "from tests.definitions import ALL, attention\n"
        "print(*(program_hash(p, '1') for p in ALL.values()))\n"
        "print(sha256(loops_to_json(fuse(attention()), '1')))\n"
    )
    outs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert outs[0] == outs[1]
    assert outs[0].split()[:-1] == [program_hash(p, "1") for p in ALL.values()]


def test_locations_lose_their_folder_and_do_not_enter_the_hash() -> None:
    program = softmax()
    moved = replace(program, stages=tuple(replace(s, loc=Loc("/some/where/f.py", 3)) for s in program.stages))
    again = program_from_json(program_to_json(moved))
    assert [s.loc for s in again.stages] == [Loc("f.py", 3)] * 4
    assert program_hash(moved, "1") == program_hash(program, "1")
    assert program_hash(replace(program, notes=("a note",)), "1") == program_hash(program, "1")


def test_the_hash_is_that_of_the_meaning() -> None:
    program = attention()
    hashes = {
        program_hash(p, version)
        for p, version in (
            (program, "1"),
            (program, "2"),
            (attention(False), "1"),
            (attention(dtype="bfloat16"), "1"),
            (replace(program, name="other"), "1"),
            (replace(program, assumptions=program.assumptions[1:]), "1"),
        )
    }
    assert len(hashes) == 6
    same = replace(program, assumptions=(Assumption("bounded", "q", 100), *program.assumptions[1:]))
    assert program_hash(same, "1") == program_hash(program, "1")


# ------------------------------------------------------------------------------------------- refusals


def _node(data: dict[str, Any], kind: str, *fields: object) -> int:
    """Position of the first node of this kind whose first fields are these."""
    return next(k for k, n in enumerate(data["nodes"]) if n[: 1 + len(fields)] == [kind, *fields])


def _set(path: str, value: object) -> Edit:
    """An edit at a path such as "stages/0/name"."""

    def edit(data: dict[str, Any]) -> None:
        *parents, last = path.split("/")
        target: Any = data
        for part in parents:
            target = target[int(part) if isinstance(target, list) else part]
        target[int(last) if isinstance(target, list) else last] = value

    return edit


def _node_edit(kind: str, fields: tuple[object, ...], at: int, value: object) -> Edit:
    return lambda data: data["nodes"][_node(data, kind, *fields)].__setitem__(at, value)


PROGRAM_EDITS: dict[str, tuple[Edit, str]] = {
    "unknown field": (_set("extra", 1), "program.json: unknown field 'extra'"),
    "missing field": (lambda d: d.pop("notes"), "program.json: the field 'notes' is missing"),
    "other format": (_set("format", "x"), "format: 'neptune_verified program 1' is wanted, got 'x'"),
    "unknown operation": (_node_edit("op", ("exp",), 1, "expp"), "unknown operation 'expp'"),
    "wrong arity": (_node_edit("op", ("exp",), 2, [0, 0]), "exp takes 1 arguments, got 2"),
    "unknown reducer": (_node_edit("reduce", ("max",), 1, "median"), "unknown reducer 'median'"),
    "unknown dtype": (_set("inputs/0/dtype", "float31"), "inputs[0]: unknown dtype 'float31'"),
    "unknown node": (_set("nodes/0", ["lambda", "x"]), "nodes[0]: unknown node 'lambda' with 1 fields"),
    "forward reference": (_node_edit("op", ("exp",), 2, [10_000]), "there is no node 10000 before it"),
    "negative reference": (_node_edit("op", ("exp",), 2, [-1]), "there is no node -1 before it"),
    "reference that is a truth value": (_node_edit("op", ("exp",), 2, [True]), "an integer is wanted, got True"),
    "body that is no node": (_set("stages/0/body", "s"), "stages[0].body: an integer is wanted, got the text 's'"),
    "axis that is none": (_set("stages/0/axes/0", 0), "stages[0].axes[0]: an axis is wanted, node 0 is a Size"),
    "inexact number": (_node_edit("const", ("float32", "1/8"), 2, "0.125"), "'0.125' is no exact number"),
    "division by zero": (_node_edit("const", ("float32", "1/8"), 2, "1/0"), "'1/0' is no exact number"),
    "integer out of range": (_node_edit("const", ("int32", "8"), 2, str(2**31)), "2147483648 is no int32"),
    "infinite integer": (_node_edit("const", ("int32", "8"), 2, "inf"), "int32 has no infinity"),
    "not canonical axes": (_node_edit("axis", ("r1_0",), 1, "r7_0"), "the axes of this reduction are called r1_0, not r7_0"),
    "duplicate stage": (_set("stages/1/name", "s"), "name s: the name is given twice"),
    "stage like an input": (_set("stages/0/name", "q"), "name q: the name is given twice"),
    "keyword": (_set("stages/0/name", "lambda"), "name 'lambda': not an identifier"),
    "code in a name": (_set("inputs/0/name", "q, *_"), "name 'q, *_': not an identifier"),
    "no such output": (_set("outputs", ["z"]), "output z: there is no such stage"),
    "no outputs": (_set("outputs", []), "a program needs an output"),
    "wrong order": (lambda d: d["stages"].reverse(), "which is no input and no earlier stage"),
    "undeclared size": (lambda d: d["sizes"].pop(), "N (int32) is no declared size"),
    "wrong rank": (_node_edit("read", ("q",), 2, [0]), "q is float16 with 2 axes, read as float16 with 1 indices"),
    "read as another type": (_node_edit("read", ("q",), 3, "int8"), "q is float16 with 2 axes, read as int8"),
    "cast to itself": (_node_edit("op", ("cast",), 3, "float16"), "a cast from float16 to itself"),
    "unknown assumption": (_set("assumptions/0/kind", "nice"), "assumption 0: unknown kind 'nice'"),
    "assumption about nobody": (_set("assumptions/0/subject", "z"), "assumption 0: 'z' is no input and no size"),
    "assumption without value": (_set("assumptions/0/value", None), "assumption 0: bounded needs a value"),
    "unknown origin": (_set("assumptions/0/origin", "hearsay"), "its origin is declared or default, not 'hearsay'"),
    "free axis": (lambda d: d["stages"][2].update(axes=[]), "stage m: axis i is not bound"),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAM_EDITS)
def test_a_wrong_program_is_refused(name: str) -> None:
    edit, message = PROGRAM_EDITS[name]
    data = json.loads(program_to_json(attention()))
    edit(data)
    with pytest.raises(FormatError) as caught:
        program_from_json(json.dumps(data))
    assert message in str(caught.value)
    assert str(caught.value).startswith("program.json") and "\n" not in str(caught.value)


def _step(data: dict[str, Any]) -> Any:
    return data["nests"][0]["passes"][0]["carried"]


def _repair(data: dict[str, Any]) -> Any:
    return _step(data)[1]["repair"]


LOOP_EDITS: dict[str, tuple[Edit, str]] = {
    "unknown field": (lambda d: d["nests"][0].update(x=1), "nests[0]: unknown field 'x'"),
    "another definition": (_set("program", "sha256:0"), "it belongs to another definition"),
    "value that is no reduction": (lambda d: _step(d)[0].update(value=0), "carried[0].value: a reduction is wanted"),
    "carried twice": (lambda d: _step(d).append(_step(d)[0]), "carried value m: the name is given twice"),
    "carried like an input": (lambda d: _step(d)[0].update(name="q"), "carried value q: the name is taken"),
    "carried like a symbol": (lambda d: _step(d)[0].update(name="c0"), "carried value c0: the name is taken"),
    "carried like the accumulator": (lambda d: _step(d)[0].update(name="x"), "carried value x: the name is taken"),
    "carried like a new value": (lambda d: _step(d)[0].update(name="l_new"), "carried value l_new: the name is taken"),
    "unknown guard": (lambda d: _repair(d)["guards"][0].update(points=["nan"]), "guard of m: points are some of"),
    "guard twice": (lambda d: _repair(d).update(guards=_repair(d)["guards"] * 2), "m: the name is given twice"),
    "guard value": (lambda d: _repair(d)["guards"][0].update(value="inf"), "'inf' is no exact number"),
    "repair that is no text": (lambda d: _repair(d).update(strategy=3), "repair.strategy: a text is wanted, got 3"),
    "repair over a stranger": (_node_edit("var", ("m_new",), 1, "n"), "the variable n (float32) has no meaning"),
    "repair of another type": (_node_edit("var", ("m_new",), 2, "float64"), "the variable m_new (float64) has no meaning"),
    "stream twice": (lambda d: d["nests"][0]["passes"][0].update(stream=d["nests"][0]["grid"]), "the name is given twice"),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOP_EDITS)
def test_a_wrong_loop_program_is_refused(name: str, loops: LoopProgram) -> None:
    edit, message = LOOP_EDITS[name]
    data = json.loads(loops_to_json(loops, "1"))
    edit(data)
    with pytest.raises(FormatError) as caught:
        loops_from_json(json.dumps(data), loops.program, "1")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON: Expecting value in line 1, column 1"),
        ("[]", "an object is wanted, got a list"),
        ('{"name": "a", "name": "b"}', "the field 'name' is given twice"),
        ('{"name": NaN}', "NaN is not a JSON number"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_such_file_at_all(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=r"^program\.json: ") as caught:
        program_from_json(text)
    assert message in str(caught.value)


def test_a_chain_of_nodes_too_deep_to_walk_is_an_error_of_the_file() -> None:
    data = json.loads(program_to_json(softmax()))
    at = data["stages"][1]["body"]
    for _ in range(100_000):
        data["nodes"].append(["op", "exp", [at]])
        at = len(data["nodes"]) - 1
    data["stages"][1]["body"] = at
    with pytest.raises(FormatError, match="nested too deeply"):
        program_from_json(json.dumps(data))


@pytest.mark.parametrize("case", ["types", "logic", "index", "bound axis", "sum of truth values"])
def test_types_and_scopes_are_checked(case: str) -> None:
    """Terms that the constructors let through and that mean nothing."""
    program = softmax()
    i, j = program.stages[1].axes
    x = read("x", (i, j), "float32")
    inner = axis("r1_0", j.extent)
    stage = {
        "types": Stage("z", (i, j), op("add", x, const(1, "float64"))),
        "logic": Stage("z", (i, j), op("and", x, x)),
        "index": Stage("z", (i, j), read("x", (i, x), "float32")),
        "bound axis": Stage("z", (i, inner), op("exp", read("x", (i, inner), "float32"))),
        "sum of truth values": Stage("z", (i,), reduce_("sum", (j,), op("lt", x, x))),
    }[case]
    wrong = Program(program.name, program.inputs, program.sizes, (*program.stages, stage), ("z",))
    message = {
        "types": "add(float32, float64): operands of two types",
        "logic": "and(float32, float32): operands that are no truth values",
        "index": "x is read at an index that is no integer",
        "bound axis": "axis r1_0: names of bound axes are reserved",
        "sum of truth values": "sum of bool",
    }[case]
    with pytest.raises(FormatError) as caught:
        program_from_json(program_to_json(wrong))
    assert message in str(caught.value)

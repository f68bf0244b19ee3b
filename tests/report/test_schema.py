"""Reports as JSON: each keeps to schema.json, and the schema refuses what is no report."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import neptune_verified.report
from neptune_verified.proofs.verdict import Verdict
from neptune_verified.report import Report
from tests.report.examples import REPORTS, fused

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((Path(neptune_verified.report.__file__).parent / "schema.json").read_text())
VALID = Draft202012Validator(SCHEMA)


def faults(data: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in VALID.iter_errors(data)]


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", REPORTS)
def test_reports_keep_to_it(name: str) -> None:
    assert faults(json.loads(json.dumps(REPORTS[name]().to_json()))) == []


def test_it_describes_every_field_in_order() -> None:
    names = [f.name for f in fields(Report)]
    assert list(SCHEMA["properties"]) == SCHEMA["required"] == names


def test_it_knows_every_verdict() -> None:
    assert set(SCHEMA["$defs"]["verdict"]["enum"]) == {v.value for v in Verdict}


@pytest.mark.parametrize("name", [f.name for f in fields(Report)])
def test_every_field_is_documented(name: str) -> None:
    assert f"| `{name}` |" in (ROOT / "docs" / "report.md").read_text()


WRONG: dict[str, Callable[[dict[str, Any]], object]] = {
    "no coverage": lambda d: d.pop("coverage"),
    "empty coverage": lambda d: d.update(coverage=""),
    "a stranger": lambda d: d.update(signed=True),
    "a verdict that does not exist": lambda d: d["obligations"][0].update(verdict="probably"),
    "an obligation that does not exist": lambda d: d["obligations"][0].update(id="O17"),
    "an assumption without origin": lambda d: d["assumptions"][0].pop("origin"),
    "a time that is text": lambda d: d["obligations"][0]["routes"][0].update(ms="1"),
    "a hash that is none": lambda d: d["hashes"].update(kernel="sha256:00"),
    "a place without a line": lambda d: d["locations"].update(m="attention.py"),
    "passes that are no number": lambda d: d.update(passes="1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_it_refuses(name: str) -> None:
    data = copy.deepcopy(json.loads(json.dumps(fused().to_json())))
    WRONG[name](data)
    assert faults(data)

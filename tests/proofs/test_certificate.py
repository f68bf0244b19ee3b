"""What a certificate holds, and what its text must look like."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from neptune_verified.fusion.fuse import fuse
from neptune_verified.ir.serialize import SEMANTICS_VERSION, FormatError, loops_to_json, program_hash, sha256
from neptune_verified.proofs import route_z3
from neptune_verified.proofs.certificate import certificate_to_json, make_certificate
from neptune_verified.proofs.certificate_format import FIELDS, certificate_from_json
from neptune_verified.proofs.kernel import LOOPS_COVERAGE, VerifiedProgram, verify
from neptune_verified.proofs.verdict import Verdict
from tests.definitions import attention, softmax, unfusable
from tests.proofs.folders import EXTRA, TARGET


@pytest.fixture(scope="module")
def verified() -> VerifiedProgram:
    return verify(fuse(attention()))


@pytest.fixture(scope="module")
def certificate(verified: VerifiedProgram) -> dict[str, Any]:
    return make_certificate(verified, "the kernel\n", EXTRA)


def test_coverage_is_the_first_thing_that_it_says(certificate: dict[str, Any]) -> None:
    assert LOOPS_COVERAGE == "proved O1-O7, O14; not checked, for want of a Triton text: O8-O13, O16"
    assert certificate_to_json(certificate).splitlines()[1].strip() == f'"coverage": "{LOOPS_COVERAGE}",'
    assert tuple(certificate) == FIELDS


def test_its_text_gives_it_back(certificate: dict[str, Any]) -> None:
    assert certificate_from_json(certificate_to_json(certificate)) == certificate
    assert certificate_from_json(json.dumps(certificate, ensure_ascii=False)) == certificate


def test_hashes_bind_definition_loop_program_and_kernel(certificate: dict[str, Any], verified: VerifiedProgram) -> None:
    assert certificate["hashes"] == {
        "definition": f"sha256:{program_hash(verified.loops.program, SEMANTICS_VERSION)}",
        "loops": f"sha256:{sha256(loops_to_json(verified.loops, SEMANTICS_VERSION))}",
        "kernel": f"sha256:{sha256('the kernel' + chr(10))}",
    }


def test_every_obligation_is_there_with_a_script_that_proves_it(
    certificate: dict[str, Any], verified: VerifiedProgram
) -> None:
    entries = certificate["obligations"]
    assert [(e["id"], e["stage"]) for e in entries] == [(p.obligation.id, p.obligation.stage) for p in verified.proved]
    assert {e["kind"] for e in entries} == {"O1", "O2", "O3", "O4", "O5", "O6", "O7", "O14"}
    for e in entries:
        assert e["verdict"] == "proved"
        assert [(r["route"], r["verdict"]) for r in e["routes"]] == [("z3", "proved"), ("sympy", "proved")]
        assert all(r["ms"] >= 0 for r in e["routes"])
        assert e["script"][-1] == "(check-sat)"
        assert route_z3.run_script("\n".join([*e["script"], ""])) is Verdict.PROVED


def test_a_statement_is_readable_and_its_assumptions_have_origins(certificate: dict[str, Any]) -> None:
    entry = next(e for e in certificate["obligations"] if (e["id"], e["stage"]) == ("O1", "l"))
    assert entry["statement"] == (
        "for all m, m_new, c0 in {-inf, finite} with m <= m_new and c0 <= m: "
        "exp(c0 - select(m == -inf, 0, m)) * exp(m - select(m_new == -inf, 0, m_new)) = "
        "exp(c0 - select(m_new == -inf, 0, m_new)) wherever the right side is defined"
    )
    assert entry["assumptions"] == [
        {"text": "m <= m_new", "origin": "derived: m is a running max"},
        {"text": "c0 <= m", "origin": "derived: m is the max of the elements seen"},
    ]
    names = {s["name"]: (s["kinds"], s["meaning"]) for s in entry["symbols"]}
    assert next(s["origins"] for s in entry["symbols"] if s["name"] == "c0") == [
        "default: q is finite",
        "default: k is finite",
        "derived: a choice of such values is -inf or finite",
    ]
    assert names["c0"][0] == ["-inf", "neg", "zero", "pos"] and names["c0"][1].startswith("sm[i, ")


def test_associativity_shows_its_parentheses(certificate: dict[str, Any]) -> None:
    entry = next(e for e in certificate["obligations"] if (e["id"], e["stage"]) == ("O5.associative", "l"))
    assert entry["statement"] == "for all x, y, z finite >= 0: (x + y) + z = x + (y + z)"


def test_what_was_assumed_replaced_and_inserted_is_listed(certificate: dict[str, Any]) -> None:
    assert certificate["assumptions"] == [
        {"text": "|q| <= 100", "origin": "declared"},
        {"text": "N >= 1", "origin": "declared"},
        {"text": "N % 16 == 0", "origin": "declared"},
        {"text": "|k| <= 65504", "origin": "default"},
        *({"text": f"{name} is finite", "origin": "default"} for name in "qkv"),
    ]
    assert certificate["notes"] == ["m: the identity of max is -inf"]
    assert certificate["roundings"] == EXTRA["roundings"]
    assert certificate["kernel"] == {"target": TARGET, "configurations": {"k": ["a", "b"]}}
    assert certificate["passes"] == 1
    assert {"z3", "sympy", "neptune_verified", "python"} == set(certificate["tools"])
    assert certificate["limits"]["z3_ms"] > 0


def test_a_refused_fusion_is_listed_with_its_reason() -> None:
    certificate = make_certificate(verify(fuse(unfusable())), "", {})
    assert certificate["passes"] == 2
    (refusal,) = certificate["refused"]
    assert (refusal["consumer"], refusal["producers"]) == ("waves", ["total"])
    assert refusal["reason"]


def test_there_is_no_place_for_other_extras(verified: VerifiedProgram) -> None:
    with pytest.raises(ValueError, match="no place for speed"):
        make_certificate(verified, "", {"speed": 1})


EDITS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "unknown field": (lambda c: c.update(more=1), "unknown field 'more'"),
    "missing field": (lambda c: c.pop("hashes"), "the field 'hashes' is missing"),
    "hash": (lambda c: c["hashes"].pop("kernel"), "hashes: the field 'kernel' is missing"),
    "script": (lambda c: c["obligations"][0].update(script="(check-sat)"), "obligations[0].script: a list is wanted"),
    "route": (
        lambda c: c["obligations"][0]["routes"][0].update(ms="1"),
        "routes[0].ms: a number is wanted, got the text '1'",
    ),
    "rounding": (lambda c: c.update(roundings=[1]), "roundings[0]: a text is wanted, got 1"),
    "refusal": (lambda c: c.update(refused=["x"]), "refused[0]: an object is wanted"),
    "kinds": (lambda c: c["obligations"][0]["symbols"][0].update(kinds="pos"), "symbols[0].kinds: a list is wanted"),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_text_that_is_no_certificate_is_refused(name: str, certificate: dict[str, Any]) -> None:
    edit, message = EDITS[name]
    data = json.loads(certificate_to_json(certificate))
    edit(data)
    with pytest.raises(FormatError, match=r"^certificate\.json") as caught:
        certificate_from_json(json.dumps(data))
    assert message in str(caught.value)


def test_the_documented_fields_are_the_fields() -> None:
    text = (Path(__file__).parents[2] / "docs" / "certificate.md").read_text()
    documented = re.findall(r"^\| `(\w+)` \|", text.split("## Obligations")[0], re.MULTILINE)
    assert tuple(documented) == FIELDS


def test_the_same_program_gives_the_same_certificate_up_to_times() -> None:
    def stripped() -> str:
        certificate = make_certificate(verify(fuse(softmax())), "", {})
        for entry in certificate["obligations"]:
            for route in entry["routes"]:
                del route["ms"]
        return json.dumps(certificate)

    assert stripped() == stripped()

"""Every way of tampering with a compiled folder is found, for the right reason."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from neptune_verified.fusion.fuse import fuse
from neptune_verified.ir.expr import Var, op, substitute, subterms, var
from neptune_verified.ir.loops import Carried, LoopProgram, Repair
from neptune_verified.ir.serialize import SEMANTICS_VERSION, FormatError, loops_to_json, sha256
from neptune_verified.proofs import route_z3, solver_cvc5
from neptune_verified.proofs.check import CheckReport, check
from neptune_verified.proofs.discharge import Discharged
from neptune_verified.proofs.kernel import Proved, VerifiedProgram, required, verify
from neptune_verified.proofs.solver_cvc5 import SolverUnavailable
from neptune_verified.proofs.verdict import RouteResult, Verdict
from tests.conftest import absent
from tests.definitions import attention, softmax, unfusable
from tests.proofs.folders import edit_json, edit_text, read_once, write

Folder = Path


@pytest.fixture(scope="module")
def verified() -> VerifiedProgram:
    return verify(fuse(attention()))


@pytest.fixture(scope="module")
def saved(verified: VerifiedProgram, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return write(tmp_path_factory.mktemp("saved"), verified)


@pytest.fixture
def folder(saved: Folder, tmp_path: Path) -> Folder:
    return Path(shutil.copytree(saved, tmp_path / "attention"))


@pytest.fixture(autouse=True)
def each_text_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read_once(monkeypatch)


def problems(folder: Folder) -> list[str]:
    report = check(folder)
    assert report.ok == (not report.problems)
    return [str(p) for p in report.problems]


# ------------------------------------------------------------------------------------------- untouched folders


def test_an_untouched_folder_is_fine_and_its_definition_is_shown(folder: Folder, verified: VerifiedProgram) -> None:
    report = check(folder)
    assert report.problems == ()
    assert [c.id for c in report.checked] == [p.obligation.id for p in verified.proved]
    assert all(c.verdict is Verdict.PROVED and c.script is Verdict.PROVED for c in report.checked)
    lines = report.text().splitlines()
    assert lines[0] == "proved O1-O14, O16"
    assert "  p[i, j] = ee[i, j] / l[i]" in lines
    assert lines[-3:] == [
        f"{len(report.checked)} of {len(report.checked)} statements proved again, scripts run by z3",
        "kernel.py read back and proved, at 1 tile configuration",
        "attention: ok",
    ]


@pytest.mark.parametrize("program", [softmax(), unfusable()], ids=["softmax", "waves"])
def test_other_programs(program: Any, tmp_path: Path) -> None:
    assert problems(write(tmp_path / "f", verify(fuse(program)))) == []


def test_check_imports_no_compiler() -> None:
    code = (
        "import sys\n"
        "import neptune_verified.proofs.check\n"
        "heavy = ('tvm', 'torch', 'triton', 'neptune_verified.fusion', 'neptune_verified.tile',\n"
        "         'neptune_verified.frontend', 'neptune_verified.pipeline')\n"
        "print([m for m in sys.modules if m in heavy or m.startswith(tuple(h + '.' for h in heavy))])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_progress_is_told_of_every_statement(folder: Folder) -> None:
    seen: list[str] = []
    report = check(folder, progress=lambda c: seen.append(c.id))
    assert seen == [c.id for c in report.checked]


# ------------------------------------------------------------------------------------------- tampering with one file


def test_one_character_of_the_kernel(folder: Folder) -> None:
    edit_text(folder, "kernel.py", lambda s: s.replace(" in range(0, ", " in range(1, "))
    hashed, read = problems(folder)
    assert hashed.startswith("kernel.py: not the file that was certified: it hashes to sha256:")
    assert read.startswith("kernel.py: O10: ")


def test_the_hash_in_the_docstring(folder: Folder) -> None:
    """Also where the certificate's hash of the kernel is made to fit."""
    edit_text(folder, "kernel.py", lambda s: s.replace("definition: sha256:", "definition: sha256:0"))
    digest = sha256((folder / "kernel.py").read_text())
    edit_json(folder, "certificate.json", lambda c: c["hashes"].update(kernel=f"sha256:{digest}"))
    (problem,) = problems(folder)
    assert problem.startswith("kernel.py: its docstring names sha256:0")


def entry(certificate: dict[str, Any], id_: str, stage: str) -> dict[str, Any]:
    return next(e for e in certificate["obligations"] if (e["id"], e["stage"]) == (id_, stage))


def weaken(certificate: dict[str, Any]) -> None:
    """Without the negated claim, what is left says nothing."""
    script = entry(certificate, "O1", "l")["script"]
    del script[max(k for k, line in enumerate(script) if line.startswith("(assert"))]


def contradict(certificate: dict[str, Any]) -> None:
    """An added contradiction makes anything unsatisfiable."""
    entry(certificate, "O1", "l")["script"].insert(-1, "(assert false)")


O1 = "certificate.json: O1, rolling update of l over m"
SCRIPT = f"{O1}: its script is not that of its statement"
CERTIFICATE_EDITS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "assert removed": (weaken, SCRIPT),
    "assert added": (contradict, SCRIPT),
    "no script": (lambda c: entry(c, "O1", "l").update(script=[]), SCRIPT),
    "obligation deleted": (lambda c: c["obligations"].remove(entry(c, "O1", "l")), f"{O1}: it is missing"),
    "obligation twice": (
        lambda c: c["obligations"].append(entry(c, "O1", "l")),
        f"{O1}, is no obligation of this loop program",
    ),
    "statement": (
        lambda c: entry(c, "O1", "l").update(statement="1 = 1"),
        f"{O1}: its statement differs from the one stated anew",
    ),
    "assumption added": (
        lambda c: entry(c, "O1", "l")["assumptions"].append({"text": "m == 0", "origin": "derived: easy"}),
        f"{O1}: its assumptions differs from the one stated anew",
    ),
    "symbol narrowed": (
        lambda c: entry(c, "O1", "l")["symbols"][0].update(kinds=["pos"]),
        f"{O1}: its symbols differs from the one stated anew",
    ),
    "verdict": (lambda c: entry(c, "O1", "l").update(verdict="unknown"), f"{O1}: it is not recorded as proved"),
    "one route": (lambda c: entry(c, "O1", "l")["routes"].pop(), f"{O1}: it is not recorded as proved"),
    "coverage": (
        lambda c: c.update(coverage="proved O1-O16"),
        "certificate.json: coverage: it says 'proved O1-O16', should be 'proved O1-O14, O16'",
    ),
    "semantics": (lambda c: c.update(semantics_version="0"), "certificate.json: semantics_version: it says '0', should be"),
    "passes": (lambda c: c.update(passes=0), "certificate.json: passes: it says 0, should be 1"),
    "notes": (lambda c: c.update(notes=[]), "certificate.json: notes: it says [], should be ['m: the identity"),
    "input assumption": (lambda c: c["assumptions"].pop(), "certificate.json: assumptions: it says"),
    "refused": (lambda c: c["refused"].append(REFUSAL), "certificate.json: refused: it says"),
    "field": (lambda c: c.update(signature="me"), "certificate.json: unknown field 'signature'"),
}  # fmt: skip
REFUSAL = {
    "consumer": "l", "producers": ["m"], "reason": "none", "obligation": "", "counterexample": "", "example": None
}  # fmt: skip


@pytest.mark.parametrize("name", CERTIFICATE_EDITS)
def test_an_edited_certificate(name: str, folder: Folder) -> None:
    edit, message = CERTIFICATE_EDITS[name]
    edit_json(folder, "certificate.json", edit)
    (problem,) = problems(folder)
    assert problem.startswith(message)


def test_the_certificate_of_another_program(folder: Folder, tmp_path: Path) -> None:
    other = write(tmp_path / "other", verify(fuse(softmax())))
    shutil.copy(other / "certificate.json", folder)
    found = problems(folder)
    for name in ("program.json", "loop.json", "kernel.py"):
        assert any(p.startswith(f"{name}: not the file that was certified") for p in found)
    assert f"{O1}: its statement differs from the one stated anew" in found
    assert "certificate.json: O1, rolling update of o over m: it is missing" in found


def test_an_edited_definition(folder: Folder) -> None:
    """A quarter instead of an eighth: nothing else in the folder belongs to it any more."""
    edit_text(folder, "program.json", lambda s: s.replace('"1/8"', '"1/4"'))
    found = problems(folder)
    assert any(p.startswith("loop.json: program: it belongs to another definition") for p in found)
    assert any(p.startswith("kernel.py: its docstring names") for p in found)
    assert any(p.startswith("program.json: not the file that was certified") for p in found)


@pytest.mark.parametrize("name", ["loop.json", "kernel.py", "certificate.json"])
def test_a_missing_file(name: str, folder: Folder) -> None:
    (folder / name).unlink()
    assert problems(folder) == [f"{name}: the file is missing"]


@pytest.mark.parametrize("name", ["loop.json", "certificate.json"])
def test_a_file_that_is_no_json(name: str, folder: Folder) -> None:
    edit_text(folder, name, lambda s: s[:-3])
    assert problems(folder)[0].startswith(f"{name}: not JSON: ")


# ------------------------------------------------------------------------------------------- consistent forgeries


def forged(folder: Folder, verified: VerifiedProgram, edit: Callable[[Carried], Carried]) -> CheckReport:
    """A folder for another loop program with every statement, script and hash as they should be, all said to be proved."""

    def changed(loops: LoopProgram) -> LoopProgram:
        nests = tuple(
            replace(n, passes=tuple(replace(p, carried=tuple(map(edit, p.carried))) for p in n.passes))
            for n in loops.nests
        )
        return replace(loops, nests=nests)

    loops = changed(verified.loops)
    assert loops != verified.loops
    proved = []
    for o in required(loops):
        routes = tuple(
            RouteResult(r, Verdict.PROVED, 1.0, script=route_z3.script(o.statement)) for r in ("z3", "sympy")
        )
        proved.append(Proved(o, Discharged(Verdict.PROVED, routes)))
    write(folder, replace(verified, loops=loops, proved=tuple(proved)), kernel_of=verified)
    return check(folder)


def edit_repair(name: str, edit: Callable[[Repair], Repair]) -> Callable[[Carried], Carried]:
    return lambda c: replace(c, repair=edit(c.repair)) if c.name == name and c.repair else c


def swapped(repair: Repair) -> Repair:
    """Old and new value of the producer change places: the sign of the exponent is wrong."""
    old, new = var("m"), var("m_new")
    assert {v for v in subterms(repair.h) if isinstance(v, Var)} >= {old, new}
    return replace(repair, h=substitute(repair.h, {old: new, new: old}))


FORGERIES: dict[str, tuple[Callable[[Repair], Repair], str]] = {
    "sign of the exponent": (swapped, "O1, rolling update of l over m: refuted at "),
    "nothing repaired": (lambda r: replace(r, h=var("t")), "O1, rolling update of l over m: refuted at "),
    "a constant added": (
        lambda r: replace(r, h=op("add", r.h, var("t"))),
        "O1, rolling update of l over m: refuted at ",
    ),
    "no guard": (lambda r: replace(r, guards=()), "O6.repair, rolling update of l over m: refuted at "),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_wrong_repair_with_all_hashes_made_to_fit(name: str, verified: VerifiedProgram, folder: Folder) -> None:
    edit, message = FORGERIES[name]
    report = forged(folder, verified, edit_repair("l", edit))
    found = [str(p) for p in report.problems]
    assert any(p.startswith(f"loop.json: {message}") for p in found), found
    assert all(p.startswith(("loop.json: O", "kernel.py: O")) for p in found), "hashes and statements were made to fit"
    assert "NOT ok" in report.text()


def test_an_output_that_is_not_the_definition(folder: Folder, verified: VerifiedProgram) -> None:
    nest = verified.loops.nests[0]
    out = nest.outputs[0]
    double = replace(out, expr=op("add", out.expr, out.expr))
    loops = replace(verified.loops, nests=(replace(nest, outputs=(double,)),))
    write(folder, replace(verified, loops=loops), kernel_of=verified)
    assert problems(folder)[0] == (
        "loop.json: the loop program does not come from its definition: o is not its definition after the hoists"
    )


def test_a_loop_program_that_is_ill_formed(folder: Folder) -> None:
    def rename(data: dict[str, Any]) -> None:
        data["nests"][0]["passes"][0]["carried"][0]["name"] = "x"

    edit_json(folder, "loop.json", rename)
    digest = sha256((folder / "loop.json").read_text())
    edit_json(folder, "certificate.json", lambda c: c["hashes"].update(loops=f"sha256:{digest}"))
    (problem,) = problems(folder)
    assert problem.startswith("loop.json: carried value x: the name is taken")


def test_every_byte_of_the_loop_program_counts(folder: Folder, verified: VerifiedProgram) -> None:
    (folder / "loop.json").write_text(loops_to_json(verified.loops, SEMANTICS_VERSION) + "\n")
    (problem,) = problems(folder)
    assert problem.startswith("loop.json: not the file that was certified")


# ------------------------------------------------------------------------------------------- folders that are none


def test_without_a_definition_there_is_nothing_to_check(tmp_path: Path, folder: Folder) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere holds no program\.json"):
        check(tmp_path / "nowhere")
    (folder / "program.json").write_text("{}")
    with pytest.raises(FormatError, match=r"program\.json: the field 'assumptions' is missing"):
        check(folder)


def test_an_unknown_solver(folder: Folder) -> None:
    with pytest.raises(ValueError, match="unknown solver 'yices': choose one of z3, cvc5"):
        check(folder, solver="yices")


def test_a_missing_cvc5_is_said_to_be_missing(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cvc5", None)
    with pytest.raises(SolverUnavailable, match="cvc5 is not installed"):
        check(folder, solver="cvc5")


def test_cvc5_proves_the_scripts_as_well(folder: Folder) -> None:
    try:
        solver_cvc5.load()
    except SolverUnavailable as e:
        absent(str(e))
    report = check(folder, solver="cvc5")
    assert report.ok and report.solver == "cvc5"
    assert (
        solver_cvc5.run_script("(set-logic QF_NRA)\n(declare-const x Real)\n(assert (< x 0))\n(check-sat)\n")
        is Verdict.UNKNOWN
    )
    assert solver_cvc5.run_script("nonsense") is Verdict.UNKNOWN

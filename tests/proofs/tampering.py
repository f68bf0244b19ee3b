"""Edits of compiled folders, and the recomputation of every hash that a forger can recompute."""

# One tamper to a line; a long one is a long one.

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from neptune_verified.ir.loops_json import loops_from_json, refusal_data
from neptune_verified.ir.program_json import program_from_json
from neptune_verified.ir.serialize import SEMANTICS_VERSION, FormatError, sha256
from neptune_verified.proofs.certificate import assumptions_data, definition_hash
from tests.proofs.folders import edit_json, edit_text

Data = dict[str, Any]


@dataclass(frozen=True)
class Tamper:
    """``edit`` changes a folder; ``problem`` is how one line of ``check`` begins then; ``sealed``: with all hashes made to
    fit. ``programs``: those to which the edit applies (all when empty)."""

    name: str
    edit: Callable[[Path], None]
    problem: str
    sealed: bool = False
    programs: tuple[str, ...] = ()

    def apply(self, folder: Path) -> None:
        self.edit(folder)
        if self.sealed:
            seal(folder)


def seal(folder: Path) -> None:
    """Make every hash fit: the definition's in loop.json and in the kernel's docstring, all of them in the certificate; and
    what the certificate repeats of the definition and of the loop program."""
    program = program_from_json((folder / "program.json").read_text())
    definition = definition_hash(program)
    set_json(folder, "loop.json", lambda d: d.update(program=definition))
    kernel = (folder / "kernel.py").read_text()
    if kernel.count("definition: sha256:") == 1 and not kernel.startswith("# forged"):
        (folder / "kernel.py").write_text(re.sub(r"(?m)^definition: \S*", f"definition: {definition}", kernel))
    digests = {
        "definition": definition,
        "loops": f"sha256:{sha256((folder / 'loop.json').read_text())}",
        "kernel": f"sha256:{sha256((folder / 'kernel.py').read_text())}",
    }
    try:
        loops = loops_from_json((folder / "loop.json").read_text(), program, SEMANTICS_VERSION)
        own = {"passes": loops.passes, "refused": [refusal_data(r) for r in loops.refusals]}
    except (FormatError, ValueError):
        own = {}
    own |= {"program": program.name, "assumptions": assumptions_data(program)}
    set_json(folder, "certificate.json", lambda c: c.update(hashes=digests, notes=list(program.notes), **own))


def set_json(folder: Path, name: str, edit: Callable[[Data], object]) -> None:
    """As ``edit_json``, also where nothing changes."""
    path = folder / name
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data, indent=1) + "\n")


# ------------------------------------------------------------------------------------------------- kernel.py


def kernel(edit: Callable[[str], str]) -> Callable[[Path], None]:
    return lambda folder: edit_text(folder, "kernel.py", edit)


KERNEL_CHANGED = "kernel.py: not the file that was certified"
KERNEL = [
    Tamper("a byte of the kernel", kernel(lambda s: s.replace(" in range(0, ", " in range(1, ")), KERNEL_CHANGED),
    Tamper("a line more in the kernel", kernel(lambda s: s + "X = 0\n"), KERNEL_CHANGED),
    Tamper("a blank more in the kernel", kernel(lambda s: s + " "), KERNEL_CHANGED),
    Tamper("a kernel rewritten, and its hash", kernel(lambda s: s.replace(" in range(0, ", " in range(1, ")), "kernel.py: O1", sealed=True),
    Tamper("a mask widened, and its hash", kernel(lambda s: s.replace(" < N)", " <= N)")), "kernel.py: O11: ", sealed=True),
    Tamper("a kernel's code removed, and its hash", kernel(lambda s: s[: s.index("@triton.jit")]), "kernel.py: O13: ", sealed=True),
    Tamper("code added, and its hash", kernel(lambda s: s + "X = 1\n"), "kernel.py: O13: ", sealed=True),
    Tamper("Triton left out, and its hash", kernel(lambda s: s.replace("import triton\n", "")), "kernel.py: O13: ", sealed=True),
    Tamper("an empty kernel", kernel(lambda s: ""), "kernel.py: "),
    Tamper("another definition in the docstring", kernel(lambda s: s.replace("\ndefinition: sha256:", "\ndefinition: sha256:0")), "kernel.py: its docstring names sha256:0"),
    Tamper("no definition in the docstring", kernel(lambda s: s.replace("\ndefinition: ", "\nabout: ")), "kernel.py: its docstring names no definition at all", sealed=True),
    Tamper("two definitions in the docstring", kernel(lambda s: "# forged\n" + s + "definition: sha256:1\n"), "kernel.py: its docstring names ", sealed=True),
]  # fmt: skip

# ------------------------------------------------------------------------------------------------- certificate.json


def certificate(edit: Callable[[Data], object]) -> Callable[[Path], None]:
    return lambda folder: edit_json(folder, "certificate.json", edit)


def entry(c: Data, id_: str) -> Data:
    return next(e for e in c["obligations"] if e["id"] == id_)


def script(id_: str, edit: Callable[[list[str]], object]) -> Callable[[Path], None]:
    return certificate(lambda c: edit(entry(c, id_)["script"]))


def last(lines: list[str], start: str) -> int:
    return max(k for k, line in enumerate(lines) if line.startswith(start))


def first(lines: list[str], start: str) -> int:
    return min(k for k, line in enumerate(lines) if line.startswith(start))


def put(lines: list[str], k: int, text: str) -> None:
    lines[k] = text


def exchange(c: Data, a: str, b: str, field: str) -> None:
    x, y = entry(c, a), entry(c, b)
    x[field], y[field] = y[field], x[field]


def drop(c: Data, id_: str) -> None:
    c["obligations"].remove(entry(c, id_))


SCRIPT = "its script is not that of its statement"
CERTIFICATE = [
    Tamper("the kernel's target", certificate(lambda c: c["kernel"].clear()), "certificate.json: kernel: its target is None"),
    Tamper("what was proved of the text", certificate(lambda c: c["text"].clear()), "certificate.json: text: it says something else"),
    Tamper("a proof of the text left out", certificate(lambda c: c["text"].pop()), "certificate.json: text: it says something else"),
    Tamper("what a proof of the text covers", certificate(lambda c: c["text"][0].update(covers="all")), "certificate.json: text: it says something else"),
    Tamper("an assertion weakened", script("O1", lambda s: put(s, last(s, "(assert"), "(assert true)")), "certificate.json: O1, "),
    Tamper("an assertion removed", script("O6.term", lambda s: s.pop(last(s, "(assert"))), "certificate.json: O6.term, "),
    Tamper("a contradiction added", script("O2", lambda s: s.insert(len(s) - 1, "(assert false)")), "certificate.json: O2, "),
    Tamper("no check-sat", script("O4", lambda s: s.pop(last(s, "(check-sat)"))), "certificate.json: O4, "),
    Tamper("another expected answer", script("O3.identity", lambda s: put(s, first(s, "(set-info :status"), "(set-info :status sat)")), "certificate.json: O3.identity, "),
    Tamper("another logic", script("O1", lambda s: put(s, first(s, "(set-logic"), "(set-logic ALL)")), "certificate.json: O1, "),
    Tamper("a script of another statement", certificate(lambda c: exchange(c, "O1", "O2", "script")), "certificate.json: O1, "),
    Tamper("no script", certificate(lambda c: entry(c, "O6.repair").update(script=[])), "certificate.json: O6.repair, "),
    Tamper("an obligation removed", certificate(lambda c: drop(c, "O1")), "certificate.json: O1, "),
    Tamper("all obligations removed", certificate(lambda c: c["obligations"].clear()), "certificate.json: O1, "),
    Tamper("an obligation twice", certificate(lambda c: c["obligations"].append(entry(c, "O4"))), "certificate.json: O4, "),
    Tamper("an obligation renamed", certificate(lambda c: entry(c, "O2").update(id="O3.identity")), "certificate.json: O2, "),
    Tamper("two obligations' names exchanged", certificate(lambda c: exchange(c, "O1", "O2", "id")), "certificate.json: O1, "),
    Tamper("another stage", certificate(lambda c: entry(c, "O4").update(stage="m")), "certificate.json: O4, "),
    Tamper("another step", certificate(lambda c: entry(c, "O1").update(step="nothing")), "certificate.json: O1, "),
    Tamper("a statement's text", certificate(lambda c: entry(c, "O1").update(statement="0 = 0")), "certificate.json: O1, "),
    Tamper("a symbol narrowed", certificate(lambda c: entry(c, "O1")["symbols"][0].update(kinds=["pos"])), "certificate.json: O1, "),
    Tamper("a range's reason invented", certificate(lambda c: entry(c, "O1")["symbols"][0].update(origins=["declared: m is 0"])), "certificate.json: O1, "),
    Tamper("a range's reason removed", certificate(lambda c: entry(c, "O1")["symbols"][0]["origins"].pop()), "certificate.json: O1, "),
    Tamper("an assumption added", certificate(lambda c: entry(c, "O1")["assumptions"].append({"text": "m = 0", "origin": "derived: so"})), "certificate.json: O1, "),
    Tamper("an assumption's origin", certificate(lambda c: entry(c, "O1")["assumptions"][0].update(origin="declared: by me")), "certificate.json: O1, "),
    Tamper("a verdict", certificate(lambda c: entry(c, "O2").update(verdict="unknown")), "certificate.json: O2, "),
    Tamper("a route's verdict", certificate(lambda c: entry(c, "O2")["routes"][0].update(verdict="timeout")), "certificate.json: O2, "),
    Tamper("a route of another name", certificate(lambda c: entry(c, "O2")["routes"][0].update(route="hand")), "certificate.json: O2, "),
    Tamper("one route twice", certificate(lambda c: entry(c, "O2")["routes"].__setitem__(0, entry(c, "O2")["routes"][1])), "certificate.json: O2, "),
    Tamper("obligations in another order", certificate(lambda c: c["obligations"].reverse()), "certificate.json: its obligations stand in another order"),
    Tamper("a range claim dropped", certificate(lambda c: c["obligations"].remove(entry(c, "O7.argument"))), "certificate.json: O7.argument, "),
    Tamper("one route alone", certificate(lambda c: entry(c, "O2")["routes"].pop()), "certificate.json: O2, "),
    Tamper("coverage", certificate(lambda c: c.update(coverage="proved O1-O16")), "certificate.json: coverage: "),
    Tamper("the semantics' version", certificate(lambda c: c.update(semantics_version="99")), "certificate.json: semantics_version: "),
    Tamper("the number of passes", certificate(lambda c: c.update(passes=0)), "certificate.json: passes: "),
    Tamper("an input's assumption invented", certificate(lambda c: c["assumptions"].append({"text": "x > 0", "origin": "declared"})), "certificate.json: assumptions: "),
    Tamper("the program's name", certificate(lambda c: c.update(program="other")), "certificate.json: program: "),
    Tamper("the definition's hash", certificate(lambda c: c["hashes"].update(definition="sha256:0")), "program.json: not the file that was certified"),
    Tamper("the loop program's hash", certificate(lambda c: c["hashes"].update(loops="sha256:0")), "loop.json: not the file that was certified"),
    Tamper("the kernel's hash", certificate(lambda c: c["hashes"].update(kernel="sha256:0")), "kernel.py: not the file that was certified"),
    Tamper("a field more", certificate(lambda c: c.update(signature="me")), "certificate.json: unknown field 'signature'"),
]  # fmt: skip

# No hash covers what the certificate says of statements: these edits leave all of them right.
CERTIFICATE = [replace(t, sealed=t.problem.startswith("certificate.json: O")) for t in CERTIFICATE]

# ------------------------------------------------------------------------------------------------- loop.json


def loop(edit: Callable[[Data], object]) -> Callable[[Path], None]:
    return lambda folder: edit_json(folder, "loop.json", edit)


def carried(d: Data, name: str) -> Data:
    return next(c for n in d["nests"] for p in n["passes"] for c in p["carried"] if c["name"] == name)


def repair(d: Data) -> Data:
    return dict.__getitem__(carried(d, "l"), "repair")  # every program here repairs l over m


def node(d: Data, *start: Any) -> int:
    return next(k for k, n in enumerate(d["nodes"]) if n[: len(start)] == list(start))


def swap_symbols(d: Data) -> None:
    """Old and new value of m in every repair."""
    a, b = node(d, "var", "m", "float32", []), node(d, "var", "m_new", "float32", [])
    d["nodes"][a], d["nodes"][b] = d["nodes"][b], d["nodes"][a]


def rename_op(d: Data, old: str, new: str) -> None:
    d["nodes"][node(d, "op", old)][1] = new


def new_pass(d: Data) -> None:
    """l in a pass of its own, still repaired over m."""
    (first_pass, *rest) = d["nests"][0]["passes"]
    moved = [c for c in first_pass["carried"] if c["name"] == "l"]
    first_pass["carried"] = [c for c in first_pass["carried"] if c["name"] != "l"]
    d["nests"][0]["passes"] = [first_pass, {**first_pass, "carried": moved, "stores": []}, *rest]


def exchange_outputs(d: Data) -> None:
    a, b = d["nests"][0]["outputs"]
    a["name"], b["name"] = b["name"], a["name"]


NOT_DEFINED = "loop.json: the loop program does not come from its definition: "
CERTIFIED = "loop.json: not the file that was certified"
LOOP = [
    Tamper("one repair's symbols exchanged", loop(swap_symbols), "loop.json: O1, rolling update of l over m: refuted at "),
    Tamper("nothing repaired", loop(lambda d: repair(d).update(h=node(d, "var", "t"))), "loop.json: O1, rolling update of l over m: refuted at ", sealed=True),
    Tamper("repair's symbols exchanged", loop(swap_symbols), "loop.json: O1, rolling update of l over m: refuted at ", sealed=True),
    Tamper("no guard", loop(lambda d: repair(d).update(guards=[])), "loop.json: O6.repair, rolling update of l over m: refuted at ", sealed=True),
    Tamper("guard at another point", loop(lambda d: repair(d)["guards"][0].update(points=["+inf"])), "loop.json: O6.repair, rolling update of l over m: refuted at ", sealed=True),
    Tamper("guard at a live value", loop(lambda d: repair(d)["guards"][0].update(points=["-inf", "zero"], value="1")), "loop.json: O6.term, rolling update of l over m: refuted at ", sealed=True),
    Tamper("guard's value, file alone", loop(lambda d: repair(d)["guards"][0].update(value="7")), CERTIFIED),
    Tamper("old values guarded, file alone", loop(lambda d: repair(d).update(guard_old=True)), CERTIFIED),
    Tamper("neutral element kept, file alone", loop(lambda d: repair(d).update(keep_neutral=True)), CERTIFIED),
    Tamper("no producer", loop(lambda d: repair(d).update(producers=[])), "loop.json: ", sealed=True),
    Tamper("no repair", loop(lambda d: carried(d, "l").update(repair=None)), "certificate.json: O1, rolling update of l over m, is no obligation", sealed=True),
    Tamper("consumer before its producer", loop(lambda d: d["nests"][0]["passes"][0]["carried"].reverse()), f"{NOT_DEFINED}", sealed=True),
    Tamper("producer not carried", loop(lambda d: d["nests"][0]["passes"][0]["carried"].pop(0)), "loop.json: carried value l, repair: the variable m", sealed=True),
    Tamper("consumer in a later pass", loop(new_pass), "loop.json: carried value l, repair: the variable m", sealed=True),
    Tamper("another name", loop(lambda d: carried(d, "l").update(name="t")), "loop.json: carried value t: the name is taken", sealed=True),
    Tamper("another function", loop(lambda d: rename_op(d, "exp", "exp2")), "loop.json: ", sealed=True),
    Tamper("another comparison or difference", loop(lambda d: rename_op(d, "sub", "add")), "loop.json: ", sealed=True),
    Tamper("max becomes min", loop(lambda d: d["nodes"][node(d, "reduce", "max")].__setitem__(1, "min")), "loop.json: ", sealed=True),
    Tamper("outputs exchanged", loop(exchange_outputs), f"{NOT_DEFINED}lse is not its definition after the hoists", sealed=True, programs=("masked_mean",)),
    Tamper("no hoist", loop(lambda d: d["nests"][0]["hoists"].clear()), f"{NOT_DEFINED}o is not its definition after the hoists", sealed=True, programs=("masked_mean", "attention")),
    Tamper("an output missing", loop(lambda d: d["nests"][0]["outputs"].pop()), f"{NOT_DEFINED}outputs written", sealed=True, programs=("masked_mean", "attention")),
    Tamper("a store missing", loop(lambda d: d["nests"][0]["passes"][-1]["stores"].clear()), f"{NOT_DEFINED}outputs written", sealed=True, programs=("softmax",)),
    Tamper("another axis order", loop(lambda d: d["nests"][0]["passes"][-1]["stores"][0]["axes"].reverse()), f"{NOT_DEFINED}p is written over axes of other extents", sealed=True, programs=("softmax",)),
    Tamper("another definition named", loop(lambda d: d.update(program="sha256:0")), "loop.json: program: it belongs to another definition"),
    Tamper("format of the loop program", loop(lambda d: d.update(format="loops 99")), "loop.json: format: ", sealed=True),
]  # fmt: skip

# ------------------------------------------------------------------------------------------------- program.json


def program(edit: Callable[[Data], object]) -> Callable[[Path], None]:
    return lambda folder: edit_json(folder, "program.json", edit)


def retype(d: Data, dtype: str) -> None:
    """The first input has another type, wherever it is read."""
    name = d["inputs"][0]["name"]
    d["inputs"][0]["dtype"] = dtype
    for n in d["nodes"]:
        if n[0] == "read" and n[1] == name:
            n[3] = dtype


def assume(kind: str, subject: int = 0) -> Callable[[Data], object]:
    def edit(d: Data) -> None:
        fact = {
            "kind": kind,
            "subject": d["inputs"][subject]["name"],
            "value": None,
            "expr": None,
            "origin": "declared",
        }
        d["assumptions"].append(fact)

    return edit


OTHER = "loop.json: program: it belongs to another definition"
PROGRAM = [
    Tamper("another function defined", program(lambda d: rename_op(d, "exp", "exp2")), OTHER),
    Tamper("another function defined, hashes too", program(lambda d: rename_op(d, "exp", "exp2")), f"{NOT_DEFINED}", sealed=True),
    Tamper("another reducer defined", program(lambda d: d["nodes"][node(d, "reduce", "max")].__setitem__(1, "min")), f"{NOT_DEFINED}", sealed=True),
    Tamper("another difference defined", program(lambda d: rename_op(d, "sub", "add")), f"{NOT_DEFINED}", sealed=True),
    Tamper("another quotient defined", program(lambda d: rename_op(d, "div", "mul")), f"{NOT_DEFINED}", sealed=True),
    Tamper("another constant defined", program(lambda d: d["nodes"][node(d, "const", "float32", "1/8")].__setitem__(2, "1/4")), f"{NOT_DEFINED}", sealed=True, programs=("attention",)),
    Tamper("another mask defined", program(lambda d: d["nodes"][node(d, "const", "float32", "-inf")].__setitem__(2, "-65504")), f"{NOT_DEFINED}", sealed=True, programs=("attention", "masked_mean")),
    Tamper("another type defined", program(lambda d: retype(d, "bfloat16")), "loop.json: ", sealed=True, programs=("attention",)),
    Tamper("another shape defined", program(lambda d: d["inputs"][0].update(shape=d["inputs"][0]["shape"][::-1])), OTHER, programs=("softmax",)),
    Tamper("an assumption declared", program(assume("positive")), OTHER),
    Tamper("an assumption declared, hashes too", program(assume("positive")), "certificate.json: O", sealed=True, programs=("softmax", "masked_mean")),
    Tamper("an input that may be -inf", program(assume("finite_or_minus_infinity")), "certificate.json: O", sealed=True, programs=("softmax",)),
    Tamper("another program's name", program(lambda d: d.update(name="other")), OTHER),
    Tamper("an output less", program(lambda d: d["outputs"].pop()), f"{NOT_DEFINED}outputs written", sealed=True, programs=("masked_mean",)),
    Tamper("another output", program(lambda d: d.update(outputs=["l"])), f"{NOT_DEFINED}outputs written", sealed=True),
]  # fmt: skip

NO_STREAM = Tamper(
    "no stream axis", loop(lambda d: d["nests"][0]["passes"][0]["stream"].clear()), "loop.json: ", sealed=True
)
TAMPERS = [*KERNEL, *CERTIFICATE, *LOOP, *PROGRAM]
#: What is not seen: the kernel text is bound by its hash alone until O13 (docs/certificate.md, "What check reports").
#: What the certificate records of the run and of the kernel; ``check`` states none of it anew.
RECORDS = [
    Tamper("tools", certificate(lambda c: c["tools"].update(z3="0")), ""),
    Tamper("limits", certificate(lambda c: c["limits"].update(z3_ms=1)), ""),
    Tamper("roundings", certificate(lambda c: c["roundings"].clear()), ""),
    Tamper("times", certificate(lambda c: entry(c, "O1")["routes"][0].update(ms=0.0)), ""),
]

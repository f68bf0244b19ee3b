"""Not trusted, except that it hands to code generation nothing but what ``proofs.kernel.verify`` made.

The pipeline, which reads as its table of contents: fuse -> verify -> lower to tiles -> print -> report.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neptune_verified.errors import VerificationError
from neptune_verified.folders import write_folder
from neptune_verified.fusion.fuse import fuse
from neptune_verified.ir.example import example_text
from neptune_verified.ir.loops import LoopProgram
from neptune_verified.ir.program import Program
from neptune_verified.ir.serialize import SEMANTICS_VERSION, loops_to_json, program_hash, program_to_json
from neptune_verified.proofs.cache import Cache
from neptune_verified.proofs.certificate import certificate_to_json, make_certificate
from neptune_verified.proofs.kernel import (
    Proved,
    Prover,
    Refused,
    VerifiedProgram,
    coverage_of,
)
from neptune_verified.proofs.kernel import verify as prove_all
from neptune_verified.proofs.text import TextProof, TextRefused, prove_text
from neptune_verified.report import Report
from neptune_verified.runtime import INTERPRET, LoadedKernel, check_target, gpu_target
from neptune_verified.schedule import Schedule, Template, schedule_of, with_splits
from neptune_verified.tile.contract import OPERANDS, Conversions
from neptune_verified.tile.emit import emit
from neptune_verified.tile.lower import lower

#: What a compiled folder may hold; a folder with anything else is not overwritten.
OWN_FILES = {"program.json", "loop.json", "kernel.py", "certificate.json", "report.md", "report.html", "__pycache__"}

Progress = Callable[[Proved], None]


@dataclass
class Kernel:
    """A compiled program. Call it with torch tensors in the order of the definition's inputs (numpy arrays for "llvm").

    ``source``: the stand-alone kernel file. ``certificate``: dict, None when not verified. ``report``: for people.
    ``passes``: sequential traversals of a fused axis over all kernels.
    """

    program: Program
    loops: LoopProgram
    target: str
    source: str
    certificate: dict[str, Any] | None
    report: Report
    roundings: tuple[str, ...] = ()
    configs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _runner: Any = None

    def __repr__(self) -> str:
        state = "verified" if self.certificate else "NOT VERIFIED"
        return f"<Kernel {self.program.name} for {self.target}: {self.passes} pass(es), {state}>"

    @property
    def passes(self) -> int:
        return self.loops.passes

    def __call__(self, *tensors: Any, out: Any = None, **scalars: Any) -> Any:
        if self._runner is None:
            self._runner = LoadedKernel(self.source, self.program.name, self.target)
        if self.target == "llvm":
            return _call_llvm(self._runner, self.program, tensors, out, scalars)
        return self._runner(*tensors, out=out, **scalars)

    def save(self, folder: str | Path) -> Path:
        """Write program.json, loop.json, kernel.py, certificate.json (when verified), report.md and report.html; all or
        nothing.

        Raises FileExistsError for a folder that holds other files, OSError where it cannot be written."""
        version = SEMANTICS_VERSION
        files: dict[str, str | bytes] = {
            "program.json": program_to_json(self.program),
            "loop.json": loops_to_json(self.loops, version),
            "kernel.py": self.source,
            "report.md": self.report.markdown(),
            "report.html": self.report.html(),
        }
        if self.certificate is not None:
            files["certificate.json"] = certificate_to_json(self.certificate)
        return write_folder(Path(folder), files, OWN_FILES)


def compile(
    program: Program,
    target: str | None = None,
    schedule: Template | None = None,
    *,
    verify: bool = True,
    strict_rounding: bool = False,
    operands: str = "auto",
    max_passes: int | None = None,
    progress: Progress | None = None,
) -> Kernel:
    """Fuse, prove, and write one Triton kernel file (or an LLVM function for target "llvm").

    ``target``: "cuda:90" and the like, "hip:gfx942", "interpret", "llvm"; None is the GPU that is there, else
    "interpret". ``schedule``: an nv.Schedule or a function from the program to one; None chooses. ``verify=False`` fuses
    nothing and makes no certificate. ``max_passes`` demands a number of passes.

    ``operands`` says what a float32 operand of a matrix product becomes beside a 16-bit one: "x1" is rounded to its type;
    "x2" is taken as the sum of two such numbers, in two products, after which a 16-bit result is about a quarter closer to
    float64; "auto" is "x2" where a product has at most 16 rows, so that reading memory takes the time (decoding), else "x1".
    ``strict_rounding=True`` inserts and moves no conversion at all: such products are computed in float32.

    Raises UnsupportedProgram for what cannot be compiled, VerificationError (with ``.report``) where a proof fails that
    the request depends on. A fusion that is not proved costs a pass, and is no error.
    """
    if not isinstance(program, Program):
        raise TypeError(f"compile takes an nv.Program, got {type(program).__name__}: use nv.Program.from_te(...)")
    if operands not in OPERANDS:
        raise ValueError(f"operands is {operands!r}: one of {', '.join(OPERANDS)}")
    wanted = schedule_of(schedule, program)
    target = check_target(target) if target else gpu_target() or INTERPRET
    prover = Prover(Cache.open())
    loops = fuse(program, prover, enabled=verify)
    if verify and target != "llvm":
        loops = _splits(loops, wanted, prover, target != INTERPRET)
    verified = _verified(loops, prover, progress)
    if max_passes is not None and loops.passes > max_passes:
        report = Report.from_verified(verified)
        raise VerificationError(_too_many(loops, max_passes), report)
    definition = program_hash(program, SEMANTICS_VERSION)
    coverage = coverage_of(loops, target != "llvm")
    first_line = f"# {coverage}" if verify else "# NOT VERIFIED"
    text: TextProof | None = None
    if target == "llvm":
        from neptune_verified.targets.llvm import build

        runner = build(loops)
        head = f'"""{program.name} as TensorIR for LLVM: a text to read; it is built anew from loop.json to run."""'
        head = head[:-3] + f'\n\ndefinition: sha256:{definition}\n"""'
        source = f"{first_line}\n{head}\n{runner.source}"
        roundings: tuple[str, ...] = ()
        configs: dict[str, tuple[str, ...]] = {}
    else:
        runner = None
        tiles = lower(verified, target, Conversions(strict_rounding, operands))
        emitted = emit(program, tiles, target, definition, first_line, loops.passes, wanted.splits, wanted.split_size)
        source, roundings, configs = emitted.source, tiles.roundings, emitted.configs
        if verify:
            text = _read_back(verified, source, target, definition)
    extra = {
        "kernel": {"name": program.name, "target": target, "configurations": configs},
        "roundings": list(roundings),
    }
    certificate = make_certificate(verified, source, extra, text) if verify else None
    report = Report.from_verified(verified, source, extra, coverage if verify else "NOT VERIFIED", text)
    return Kernel(program, loops, target, source, certificate, report, roundings, configs, runner)


def verify(program: Program, schedule: Template | None = None) -> Report:
    """Fuse and prove without writing a kernel; the report of what was fused, and of every obligation."""
    wanted = schedule_of(schedule, program)
    prover = Prover(Cache.open())
    loops = _splits(fuse(program, prover), wanted, prover, False)
    return Report.from_verified(_verified(loops, prover, None))


def _splits(loops: LoopProgram, schedule: Schedule, prover: Prover, gpu: bool) -> LoopProgram:
    """With split-K forms where they are proved. Raises VerificationError for one that is demanded and refused."""
    found, failed = with_splits(loops, schedule, prover, gpu)
    if failed:
        o = failed[0].obligation
        what = f"the split-K update is refused: {o.id} of {o.step}: {failed[0].result.verdict.value}"
        raise VerificationError(f"{loops.program.name}: {what}", Report.from_proved(loops, failed, f"REFUSED: {what}"))
    return found


def _verified(loops: LoopProgram, prover: Prover, progress: Progress | None) -> VerifiedProgram:
    try:
        return prove_all(loops, prover, progress)
    except Refused as e:
        report = Report.from_proved(loops, e.failed, f"REFUSED: {e}")
        raise VerificationError(f"{loops.program.name} is not verified: {e}", report) from None


def _read_back(verified: VerifiedProgram, source: str, target: str, definition: str) -> TextProof:
    """The proof of the emitted text, or VerificationError: what cannot be read back is not emitted."""
    try:
        return prove_text(verified.loops, source, target, definition)
    except TextRefused as e:
        name = verified.loops.program.name
        report = Report.from_verified(verified, source, coverage=f"REFUSED: {e}")
        raise VerificationError(f"{name}: the emitted kernel is not verified: {e}", report) from None


def _too_many(loops: LoopProgram, wanted: int) -> str:
    reasons = "; ".join(
        f"{r.consumer} over {', '.join(r.producers)}: {r.obligation} {r.reason}"
        + (f". {example_text(r.example).rstrip('.')}" if r.example else "")
        for r in loops.refusals
    )
    why = reasons or "no fusion was refused: outputs over the reduced axis read values that are final only after a pass"
    return f"{loops.program.name} needs {loops.passes} passes, {wanted} were demanded ({why})"


def _call_llvm(runner: Any, program: Program, arrays: tuple[Any, ...], out: Any, scalars: dict[str, Any]) -> Any:
    if len(arrays) != len(program.inputs):
        raise TypeError(f"{program.name} takes {len(program.inputs)} arrays, got {len(arrays)}")
    if out is not None:
        raise TypeError("the target 'llvm' returns new arrays; out= is for Triton targets")
    results = runner({t.name: a for t, a in zip(program.inputs, arrays, strict=True)}, scalars)
    values = tuple(results[name] for name in program.outputs)
    return values[0] if len(values) == 1 else values

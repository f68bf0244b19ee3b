"""Not trusted: what is audited: a compiled kernel, or a folder that one was saved to, and how it is run."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from neptune_verified.auditing.accumulation import Accumulation, accumulation_of
from neptune_verified.auditing.typed import torch_type
from neptune_verified.ir.loops import LoopProgram
from neptune_verified.ir.program import Program
from neptune_verified.ir.serialize import SEMANTICS_VERSION, loops_from_json, program_from_json, program_hash
from neptune_verified.runtime import INTERPRET, LoadedKernel, load

if TYPE_CHECKING:
    from neptune_verified.pipeline import Kernel

LLVM = "llvm"


@dataclass(frozen=True)
class Subject:
    """A kernel with its definition. ``file`` says whether ``source`` is the text that the certificate is bound to."""

    program: Program
    loops: LoopProgram
    target: str
    source: str
    file: str
    accumulation: Accumulation
    launch: Callable[..., Any]

    @property
    def definition(self) -> str:
        return f"sha256:{program_hash(self.program, SEMANTICS_VERSION)}"

    @property
    def device(self) -> torch.device:
        """Where its tensors live. Raises ValueError where the target's GPU is not there."""
        if self.target in (INTERPRET, LLVM):
            return torch.device("cpu")
        if not torch.cuda.is_available():
            raise ValueError(
                f"this kernel was compiled for {self.target}, and there is no such GPU here: "
                f"compile it with --target interpret to audit it on a CPU"
            )
        return torch.device("cuda")

    def run(
        self, tensors: Sequence[Tensor], shapes: Sequence[tuple[int, ...]], scalars: Mapping[str, float]
    ) -> list[Tensor]:
        """Its outputs, in memory that held NaN before (the greatest integer, for integers), so that nothing is left out
        unseen."""
        if self.target == LLVM:
            found = self.launch(*(x.numpy() for x in tensors), **scalars)
            return [torch.as_tensor(x) for x in (found if isinstance(found, tuple) else (found,))]
        stages = [self.program.stage(name) for name in self.program.outputs]
        out = tuple(
            poisoned(shape, torch_type(s.dtype), tensors[0].device) for s, shape in zip(stages, shapes, strict=True)
        )
        with warnings.catch_warnings():  # numpy's, about infinities that the interpreter meets and a select discards
            warnings.simplefilter("ignore", RuntimeWarning)
            self.launch(*tensors, out=out, **scalars)
        return list(out)


def poisoned(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    if dtype.is_floating_point:
        return torch.full(shape, float("nan"), dtype=dtype, device=device)
    if dtype is torch.bool:
        return torch.ones(shape, dtype=dtype, device=device)
    return torch.full(shape, torch.iinfo(dtype).max, dtype=dtype, device=device)


def subject_of(kernel: Kernel | str | Path) -> Subject:
    """From a kernel that ``nv.compile`` made, or from the folder that it was saved to (no TVM and no prover is needed).

    Raises FileNotFoundError or ValueError, each in one line, for a folder that holds no such kernel."""
    if isinstance(kernel, str | Path):
        return _saved(Path(kernel))
    certificate, loops = kernel.certificate, kernel.loops
    file = "proved, as the compiler wrote it" if certificate else "NOT VERIFIED"
    accumulation = accumulation_of(loops, kernel.source, kernel.roundings)
    return Subject(kernel.program, loops, kernel.target, kernel.source, file, accumulation, kernel)


def _saved(folder: Path) -> Subject:
    kernel: LoadedKernel = load(folder)
    texts = {}
    for name in ("program.json", "loop.json"):
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"{folder} holds no {name}: it is not a folder written by `neptune-verified compile`"
            )
        texts[name] = (folder / name).read_text(encoding="utf-8")
    program = program_from_json(texts["program.json"], str(folder / "program.json"))
    loops = loops_from_json(texts["loop.json"], program, SEMANTICS_VERSION, str(folder / "loop.json"))
    file, roundings = _certificate(folder, kernel.source)
    return Subject(
        program, loops, kernel.target, kernel.source, file, accumulation_of(loops, kernel.source, roundings), kernel
    )


def _certificate(folder: Path, source: str) -> tuple[str, list[str]]:
    """What the certificate says of the kernel file, and the roundings that it lists."""
    path = folder / "certificate.json"
    if not path.is_file():
        return "NOT VERIFIED: there is no certificate", []
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        bound, roundings = data["hashes"]["kernel"], [str(r) for r in data["roundings"]]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is no certificate: compile the program again") from None
    digest = f"sha256:{hashlib.sha256(source.encode()).hexdigest()}"
    if bound != digest:
        return "NOT the file that was proved: kernel.py was changed after it was compiled", roundings
    return "the file that the certificate is bound to (`neptune-verified check` proves it again)", roundings

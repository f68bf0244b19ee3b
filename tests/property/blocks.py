"""One block of a campaign: a Hypothesis run with a fixed seed, whose failure is shrunk."""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed

import neptune_verified as nv
from neptune_verified.ir.serialize import SEMANTICS_VERSION, program_hash
from tests.property.arbitrary import arbitrary_programs
from tests.property.check import Compile, Fault, Judged, judge
from tests.property.repairable import repairable_programs
from tests.property.specs import Spec, build, digest, te_source

STRATEGIES: dict[str, Callable[[], Any]] = {"repairable": repairable_programs, "arbitrary": arbitrary_programs}
#: Seconds after which a failure is not shrunk any further.
SHRINKING = 120.0


@dataclass
class Record:
    """What became of one program; ``expected`` passes are 0 where nobody claims to know them."""

    strategy: str
    source: str
    expected: int
    seconds: float
    outcome: str
    passes: int
    refused: tuple[str, ...]
    replays: tuple[str, ...]
    why: str
    runs: int
    compared: int
    underflows: int

    @property
    def fused(self) -> bool:
        return self.outcome == "kernel" and self.passes == self.expected


@dataclass
class Block:
    """Programs by hash, and failures as texts to paste."""

    programs: dict[str, Record] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def data(self) -> dict[str, Any]:
        return asdict(self)


def identity(spec: Spec) -> str:
    """The hash of the program, not of its text; of the text where it is no program."""
    try:
        return program_hash(build(spec), SEMANTICS_VERSION)[:20]
    except nv.UnsupportedProgram:
        return digest(spec)


@dataclass
class Trial:
    """The test of one block. What failed once fails again, and when the time for shrinking is over nothing else does: so
    Hypothesis ends with the smallest failure that was found until then."""

    strategy: str
    inputs: int
    known: set[str]
    block: Block
    compile: Compile | None = None
    shrinking: float = SHRINKING
    failing: dict[str, str] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)
    until: float = 0.0

    def __call__(self, spec: Spec) -> None:
        text = digest(spec)
        if text in self.failing:
            raise Fault(self.failing[text])
        if text in self.passed or (self.failing and time.monotonic() > self.until):
            return
        name = identity(spec)
        if name in self.known and not self.failing:
            return
        start = time.monotonic()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = judge(spec, self.inputs, seed=int(text[:8], 16), compile=self.compile)
        except Exception as e:
            if not self.failing:
                self.until = time.monotonic() + self.shrinking
            self.failing[text] = str(e) if isinstance(e, Fault) else f"{te_source(spec)}\n{traceback.format_exc()}"
            raise Fault(self.failing[text]) from None
        self.passed.add(text)
        self.known.add(name)
        self.block.programs[name] = record(self.strategy, spec, found, time.monotonic() - start)


def record(strategy: str, spec: Spec, found: Judged, seconds: float) -> Record:
    return Record(strategy, te_source(spec), spec.passes, round(seconds, 2), **asdict(found))


def run_block(
    strategy: str, seed: int, examples: int, inputs: int, known: set[str],
    compile: Compile | None = None, shrinking: float = SHRINKING,
) -> Block:  # fmt: skip
    """Up to ``examples`` programs that are not ``known`` yet, on ``inputs`` inputs each."""
    torch.set_num_threads(1)
    block = Block()
    trial = Trial(strategy, inputs, set(known), block, compile, shrinking)

    @with_seed(seed)
    @settings(
        max_examples=examples, database=None, deadline=None, report_multiple_bugs=False, print_blob=False,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink],
    )  # fmt: skip
    @given(STRATEGIES[strategy]())
    def search(spec: Spec) -> None:
        trial(spec)

    try:
        search()
    except Fault as e:
        block.failures.append(str(e))
    except Exception:
        # Hypothesis calls a failure that went away flaky; what was seen is reported all the same.
        smallest = min(trial.failing.values(), key=len, default="")
        block.failures.append(smallest or traceback.format_exc())
    return block

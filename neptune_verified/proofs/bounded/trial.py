"""Trusted: one evaluation of the launcher and its programs at given lengths, and the comparison with the definition."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from neptune_verified.ir.program import Program
from neptune_verified.proofs.bounded.access import Access
from neptune_verified.proofs.bounded.calls import Calls
from neptune_verified.proofs.bounded.compare import Closed, Comparison, Where
from neptune_verified.proofs.bounded.coverage import Coverage
from neptune_verified.proofs.bounded.domain import Domain
from neptune_verified.proofs.bounded.field import PRIMES, Field
from neptune_verified.proofs.bounded.inputs import extent, tensors
from neptune_verified.proofs.bounded.kernel import RESERVED, Interpreter
from neptune_verified.proofs.bounded.launcher import Launch, Launcher, Outcome, Rejected
from neptune_verified.proofs.bounded.lengths import Trial
from neptune_verified.proofs.bounded.memory import Memory
from neptune_verified.proofs.bounded.result import Fault, Finding, Run, Unknown, Unsupported
from neptune_verified.proofs.bounded.scalars import Item, NeedsValues
from neptune_verified.proofs.bounded.source import KernelFile
from neptune_verified.proofs.bounded.values import Int, Ptr, Val

#: Up to so many programs of a launch are all evaluated with their values (without and with matrix products).
_FOLLOWED = (16, 3)
#: Up to so many programs are run for their addresses in every trial; more in those that ask for the whole grid.
_GRID = 16
#: More programs than this are not tried at all.
_MOST = 20_000


def shapes_of(program: Program, sizes: Mapping[str, int | float]) -> dict[str, tuple[int, ...]]:
    return {t.name: tuple(max(0, extent(d, sizes)) for d in t.shape) for t in program.inputs}


@dataclass(frozen=True, slots=True)
class Done:
    """A program whose values were followed."""

    kernel: ast.FunctionDef
    arguments: dict[str, Item]
    pid: int
    access: Access


class Evaluation:
    def __init__(
        self,
        file: KernelFile,
        program: Program,
        closed: Closed,
        trial: Trial,
        seed: int,
        opaque: bool = False,
        algebraic: bool = False,
    ) -> None:
        self.file, self.program, self.trial, self.seed = file, program, trial, seed
        self.domain = Domain(Field(PRIMES[seed % len(PRIMES)]), opaque, trial.shift > 0, algebraic)
        self.followed, self.partial = 0, False
        self.config = ""
        self.programs: list[Done] = []
        self.memory: dict[str, Memory] = {}
        self.comparison = Comparison(self.domain, closed, trial)

    def record(self) -> Run:
        t = self.trial
        drawn = (
            "cliff"
            if t.cliff
            else "far from 0"
            if t.shift
            else "poisoned"
            if t.poison
            else "structured"
            if t.structured
            else "plain"
        )
        return Run(t.sizes, self.config, drawn, self.followed, sum(self.comparison.compared.values()))

    def run(self, coverage: Coverage) -> tuple[list[Finding], list[str]]:
        """Findings, and doubts: differences in normal form between values that are equal as numbers."""
        try:
            memory, known, poison = self.launch_all(coverage, scramble=False)
        except Fault as e:
            if self.trial.poison and e.id == "O9":  # an undefined condition, perhaps the definition's own
                return [], []
            raise
        findings, doubts = [], []
        for name in self.program.outputs:
            for id_, what in self.comparison.output(name, memory, known[name], poison):
                if id_ == "doubt":
                    doubts.append(f"{name}: {what}")
                    continue
                if id_ == "O13" and self._padding_matters(memory, known):
                    id_, what = "O9", f"{what}; it depends on what lanes outside of the lengths hold"
                findings.append(Finding(id_, f"kernel.py:{memory[name].line}", f"{name}{what}", self.trial.sizes))
        return findings, doubts

    def roundings(self) -> list[str]:
        """Outputs that differ when a conversion to a 16-bit type is a function that is seen."""
        try:
            memory, known, poison = self.launch_all(Coverage(), scramble=False)
        except Unknown:
            return list(self.program.outputs)
        return [
            name for name in self.program.outputs if list(self.comparison.output(name, memory, known[name], poison))
        ]

    # -- the launcher and its programs -------------------------------------------------------------------------

    def launch_all(self, coverage: Coverage, scramble: bool) -> tuple[dict[str, Memory], dict[str, list[Where]], bool]:
        program, sizes = self.program, self.trial.sizes
        shapes = shapes_of(program, sizes)
        scalars = {k: v for k, v in sizes.items() if k not in program.shape_sizes()}
        assert self.file.launcher is not None
        try:
            outcome = Launcher(self.file, program, shapes, scalars, self.trial.choice, self.trial.splits).run()
        except Rejected as e:
            raise Fault("O13", f"the launcher refuses legal lengths: {e}", self.file.launcher.lineno) from e
        self._outputs(outcome)
        memory = tensors(program, self.domain, shapes, self.trial, self.seed)
        written_to = outcome.outputs | outcome.between
        memory |= {name: Memory(name, shape, dtype) for name, (shape, dtype) in written_to.items()}
        self.memory = memory
        known: dict[str, list[Where]] = {name: [] for name in written_to}
        poison, self.followed, self.partial, self.programs = False, 0, False, []
        self.config = ", ".join(dict.fromkeys(x.config.name for x in outcome.launches))
        plan = self._ahead(outcome, memory) if outcome.between else {}
        for k, launch in enumerate(outcome.launches):
            later = {a for x in outcome.launches[k + 1 :] for a in x.arguments if isinstance(a, str)}
            poison |= self._launch(launch, memory, known, later, coverage, scramble, plan.get(k))
        for name in written_to:
            written = memory[name].written
            wrong = (written > 1) | ((written == 0) & (not self.partial))
            if np.any(wrong):
                at = tuple(int(i) for i in np.argwhere(wrong)[0])
                times = "never" if written[at] == 0 else f"{int(written[at])} times"
                raise Fault(
                    "O11", f"{name}{list(at)} is stored {times}", memory[name].line or self.file.launcher.lineno
                )
        return memory, known, poison

    def _outputs(self, outcome: Outcome) -> None:
        """What the launcher allocates and returns is what the definition says."""
        assert self.file.launcher is not None
        line = self.file.launcher.lineno
        if outcome.returned != tuple(self.program.outputs):
            raise Fault("O13", f"the launcher returns {', '.join(outcome.returned)}", line)
        for name in self.program.outputs:
            stage = self.program.stage(name)
            want = (tuple(max(0, extent(a.extent, self.trial.sizes)) for a in stage.axes), stage.dtype)
            if name not in outcome.outputs or outcome.outputs[name] != want:
                raise Fault("O13", f"{name} is allocated as {outcome.outputs.get(name)}, not {want}", line)

    def _launch(
        self, launch: Launch, memory: dict[str, Memory], known: dict[str, list[Where]], later: set[str], coverage: Coverage,
        scramble: bool, plan: dict[int, tuple[bool, Access]] | None = None,
    ) -> bool:  # fmt: skip
        if not launch.programs:
            self._empty(launch, memory)
            return False
        kernel, arguments = self.file.kernels[launch.kernel], self.bind(launch)
        writes: dict[str, None] = {}
        n, poison = launch.programs, False
        if n > _MOST:
            raise Unknown(f"a grid of {n} programs at these lengths")
        all_of_them = any(a in memory and not memory[a].is_input for a in later)
        chosen = set(range(n)) if all_of_them else self._chosen(kernel, n)
        all_of_them = all_of_them or len(chosen) == n
        if plan is not None:
            chosen, all_of_them = {pid for pid, (wanted, _) in plan.items() if wanted}, len(plan) == n
            chosen |= {pid for pid in self.trial.follow or () if pid in plan}
        elif self.trial.follow is not None and not all_of_them:
            chosen = {pid for pid in self.trial.follow if pid < n} or {0}
        coverage.config = launch.config.name
        everyone = all_of_them or n <= _GRID or self.trial.whole
        self.partial |= not everyone
        for pid in range(n) if everyone else sorted(chosen):
            if plan is not None and pid in plan and pid not in chosen:
                access = plan[pid][1]  # its addresses are known
            else:
                access = self._program(kernel, arguments, memory, pid, pid in chosen, coverage, scramble)
            if access.values:
                self.programs.append(Done(kernel, arguments, pid, access))
            poison |= access.poison
            self.followed += access.values
            for name, where, value in access.stores:
                writes[name] = None
                memory[name].put(where, value)
                memory[name].line = access.lines[name]
                if value is not None:
                    known[name].append(where)
        for name in writes:
            memory[name].complete = everyone
        return poison

    @staticmethod
    def _chosen(kernel: ast.FunctionDef, n: int) -> set[int]:
        """Programs whose values are followed, where no other kernel reads them."""
        limit = _FOLLOWED["tl.dot" in ast.unparse(kernel)]
        return set(range(n)) if n <= limit else {0, 1, n - 1} if limit == 3 else {0, 1, n // 2, n - 2, n - 1}

    def _ahead(self, outcome: Outcome, memory: dict[str, Memory]) -> dict[int, dict[int, tuple[bool, Access]]]:
        """For each launch, its programs, and whether their values are wanted: a few of those that store results, and what
        they read of the tensors between the kernels. Nothing where addresses depend on values."""
        wanted = {name: np.zeros(shape, dtype=bool) for name, (shape, _) in outcome.between.items()}
        plan: dict[int, dict[int, tuple[bool, Access]]] = {}
        for k, launch in reversed(list(enumerate(outcome.launches))):
            kernel, arguments, n = self.file.kernels[launch.kernel], self.bind(launch), launch.programs
            if n > _MOST:
                raise Unknown(f"a grid of {n} programs at these lengths")
            few = self._chosen(kernel, n)
            plan[k] = {}
            stored: set[str] = set()
            for pid in range(n):
                if pid and not stored & set(wanted) and pid not in few:
                    continue  # nothing that it stores is read
                access = Access(self.domain, memory, False, ahead=True)
                try:
                    Interpreter(Calls(self.domain, access, pid, self.file.helpers), arguments, Coverage()).run(
                        kernel.body
                    )
                except NeedsValues:
                    return {}
                stored |= {name for name, _, _ in access.stores}
                results = any(name not in wanted for name, _, _ in access.stores)
                read_later = any(name in wanted and wanted[name][where].any() for name, where, _ in access.stores)
                plan[k][pid] = read_later or (results and pid in few), access
                if plan[k][pid][0]:
                    for name, where in access.reads:
                        wanted[name][where] = True
        return plan

    def _empty(self, launch: Launch, memory: dict[str, Memory]) -> None:
        """A launch of no program writes nothing: its outputs are empty, or ``written`` says so."""
        for a in launch.arguments:
            if isinstance(a, str) and not memory[a].is_input and not memory[a].written.size:
                memory[a].complete = True

    def program_again(self, done: Done, memory: dict[str, Memory]) -> Access:
        """The same program on other contents of the inputs."""
        return self._program(done.kernel, done.arguments, memory, done.pid, True, Coverage(), False)

    def _program(
        self, kernel: ast.FunctionDef, arguments: dict[str, Item], memory: dict[str, Memory], pid: int, values: bool,
        coverage: Coverage, scramble: bool,
    ) -> Access:  # fmt: skip
        access = Access(self.domain, memory, values, scramble)
        calls = Calls(self.domain, access, pid, self.file.helpers)
        try:
            Interpreter(calls, arguments, coverage if values else Coverage()).run(kernel.body)
        except NeedsValues:
            return self._program(kernel, arguments, memory, pid, True, coverage, scramble)
        return access

    def bind(self, launch: Launch) -> dict[str, Item]:
        """The kernel's parameters: tensors, strides, numbers in order, then the blocks by name."""
        a = self.file.kernels[launch.kernel].args
        if a.posonlyargs or a.kwonlyargs or a.vararg or a.kwarg or a.defaults:
            raise Fault("O13", "a kernel with other parameters", launch.line)
        if RESERVED & {x.arg for x in a.args}:
            raise Unsupported("a parameter that hides a name of the text", launch.line)
        constants = [x.arg for x in a.args if x.annotation is not None]
        plain = [x.arg for x in a.args if x.annotation is None]
        if any(ast.unparse(x.annotation) != "tl.constexpr" for x in a.args if x.annotation is not None):
            raise Fault("O13", "a kernel with other annotations", launch.line)
        if len(plain) != len(launch.arguments):
            raise Fault(
                "O13", f"{launch.kernel} takes {len(plain)} arguments, not {len(launch.arguments)}", launch.line
            )
        if set(constants) != set(launch.config.blocks):
            raise Fault("O13", f"{launch.kernel} takes the blocks {constants}", launch.line)
        bound: dict[str, Item] = {
            name: Int(np.asarray(launch.config.blocks[name], dtype=np.int64), 0) for name in constants
        }
        none = np.zeros((), dtype=np.int64)
        for name, x in zip(plain, launch.arguments, strict=True):
            if isinstance(x, str):
                bound[name] = Ptr(x, Int(none, 0))
            elif isinstance(x, tuple):
                bound[name] = Int(none, 32, {x: np.ones((), dtype=np.int64)})
            elif isinstance(x, float):
                bound[name] = self.domain.constant(Fraction(x), "float32")
            else:
                bound[name] = Int(np.asarray(int(x), dtype=np.int64), 32 if -(2**31) <= x < 2**31 else 64)
        return bound

    def _padding_matters(self, memory: dict[str, Memory], known: dict[str, list[Where]]) -> bool:
        """Whether the stored values change with what masked-out lanes of loads hold (to name the finding)."""
        try:
            again, _, _ = self.launch_all(Coverage(), scramble=True)
        except Unknown:  # what stands there is too large to tell
            return False
        for name in known:
            seen = np.zeros(memory[name].shape, dtype=bool)
            for where in known[name]:
                seen[where] = True
            a, b = memory[name].value, again[name].value
            if isinstance(a, Val) and isinstance(b, Val):
                a.f, b.f = np.where(seen, a.f, 0.0), np.where(seen, b.f, 0.0)
                if np.any(seen & (np.isnan(a.f) != np.isnan(b.f))):
                    return True
                both = np.isfinite(a.f) & np.isfinite(b.f)
                if np.any(np.abs(a.f[both] - b.f[both]) > 1e-9):
                    return True
        return False

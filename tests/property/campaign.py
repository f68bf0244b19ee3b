"""Many random programs, in blocks, with a state that a later call goes on from.

    python -m tests.property.campaign --programs 500 --inputs 20 --state FILE [--seed 0] [--jobs 2]

Prints what became of them, and every failure as a text that can be pasted into a test. Exit code 1 if anything failed, or if
less than 95 % of the programs that are repairable by construction were fused into the expected number of passes.
"""

from __future__ import annotations

import os

os.environ.setdefault("TRITON_INTERPRET", "1")
os.environ.setdefault("NEPTUNE_VERIFIED_CACHE", "off")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import multiprocessing
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from tests.property.blocks import Block, Record, run_block

EXAMPLES = 12
WANTED_RATE = 0.95
#: A worker is replaced after this many blocks, and what it remembers of proofs with it.
BLOCKS_PER_WORKER = 12


@dataclass
class State:
    """What was done so far. ``blocks``: the numbers of those that are finished."""

    seed: int = 0
    inputs: int = 20
    blocks: list[int] = field(default_factory=list)
    programs: dict[str, Record] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @classmethod
    def load(cls, path: Path, seed: int, inputs: int) -> State:
        """The state in ``path``, or a new one. Raises ValueError for one of another seed or number of inputs."""
        if not path.exists():
            return cls(seed, inputs)
        data = json.loads(path.read_text())
        if (data["seed"], data["inputs"]) != (seed, inputs):
            raise ValueError(f"{path} was begun with --seed {data['seed']} --inputs {data['inputs']}")
        return cls(**{**data, "programs": {k: Record(**v) for k, v in data["programs"].items()}})

    def save(self, path: Path) -> None:
        """All or nothing."""
        data = {**self.__dict__, "programs": {k: v.__dict__ for k, v in self.programs.items()}}
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False) as f:
            json.dump(data, f, indent=1)
        os.replace(f.name, path)

    def add(self, number: int, block: Block, seconds: float) -> None:
        self.blocks.append(number)
        for name, record in block.programs.items():
            self.programs.setdefault(name, record)
        self.failures += block.failures
        self.seconds += seconds


def strategy_of(number: int) -> str:
    return "repairable" if number % 2 == 0 else "arbitrary"


def run(state: State, path: Path, programs: int, jobs: int, examples: int = EXAMPLES) -> None:
    """Blocks until there are ``programs`` programs. An interruption loses the blocks that were running."""
    numbers = (n for n in count() if n not in set(state.blocks))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, max_tasks_per_child=BLOCKS_PER_WORKER) as pool:
        running: dict[Future[Block], int] = {}
        last = time.monotonic()
        while len(state.programs) < programs or running:
            while len(running) < jobs and len(state.programs) < programs:
                n = next(numbers)
                arguments = (strategy_of(n), state.seed * 1_000_003 + n, examples, state.inputs, set(state.programs))
                running[pool.submit(run_block, *arguments)] = n
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                now = time.monotonic()
                state.add(running.pop(done), done.result(), now - last)
                last = now
                state.save(path)
                print(
                    f"{len(state.programs)} programs, {state.seconds:.0f} s, {len(state.failures)} failures", flush=True
                )


# ------------------------------------------------------------------------------------------------ the summary


def rate(records: list[Record]) -> float:
    repairable = [r for r in records if r.expected]
    return sum(r.fused for r in repairable) / len(repairable) if repairable else 1.0


def summary(state: State) -> Iterator[str]:
    records = list(state.programs.values())
    runs, numbers = sum(r.runs for r in records), sum(r.compared for r in records)
    yield f"{len(records)} distinct programs, {runs} inputs run, {numbers} numbers compared"
    yield f"{state.seconds:.0f} s, of which the slowest program took {max((r.seconds for r in records), default=0):.0f} s"
    for strategy in ("repairable", "arbitrary"):
        own = [r for r in records if r.strategy == strategy]
        passes = Counter(r.passes for r in own if r.outcome == "kernel")
        yield f"{strategy}: {len(own)} programs; kernels by passes: {dict(sorted(passes.items()))}"
        for text, n in Counter(f"{r.outcome}: {reason(r.why)}" for r in own if r.outcome != "kernel").most_common():
            yield f"  {n} {text}"
        refused = Counter(o or "no update could be stated" for r in own for o in r.refused)
        yield f"  fusions refused, by obligation: {dict(refused.most_common())}"
        lost = sum(r.underflows for r in own)
        yield f"  runs with a value lost to underflow (docs/limitations.md): {lost}"
        yield f"  examples of these: {dict(Counter(k for r in own for k in r.replays))}"
    missed = [r for r in records if r.expected and not r.fused]
    yield f"repairable by construction and fused in the expected passes: {rate(records):.1%}"
    for r in missed[:20]:
        why = f"{', '.join(r.refused)} {r.why}"
        yield f"# not fused: {r.outcome}, {r.passes} passes instead of {r.expected}; {why}\n{r.source}"
    for text in state.failures:
        yield f"# FAILURE\n{text}"


def reason(text: str) -> str:
    """A refusal's text without what is particular to the program."""
    return re.sub(r"\[[^\]]*\]", "[..]", re.sub(r"\b(kernel.py:)\d+", r"\1", text))[:160]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Random programs against their definitions")
    parser.add_argument("--programs", type=int, default=500)
    parser.add_argument("--inputs", type=int, default=20)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    a: Any = parser.parse_args(arguments)
    try:
        state = State.load(a.state, a.seed, a.inputs)
    except (ValueError, KeyError, TypeError) as e:
        parser.error(str(e))
    run(state, a.state, a.programs, a.jobs)
    for line in summary(state):
        print(line)
    return 0 if not state.failures and rate(list(state.programs.values())) >= WANTED_RATE else 1


if __name__ == "__main__":
    sys.exit(main())

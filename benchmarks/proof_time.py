"""Proof time against the length of a chain, of attention (cold and cached), and of all examples.

CPU seconds of fusing and proving in this process, imports and the reading of te apart. "Cold" knows nothing: every table
of earlier answers is emptied before. Each figure is the smaller of two runs.

    python benchmarks/proof_time.py [--most 32]
"""

from __future__ import annotations

import argparse
import inspect
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from sympy.core.cache import clear_cache
from tvm import te

import neptune_verified as nv
from neptune_verified.fusion.fuse import fuse
from neptune_verified.proofs.cache import Cache
from neptune_verified.proofs.kernel import Prover, VerifiedProgram, forget, verify
from neptune_verified.user_files import load_file

EXAMPLES = Path(__file__).parents[1] / "examples"
Graph = tuple[list[te.Tensor], list[te.Tensor]]


# ------------------------------------------------------------------------------------------------- chains


def _inputs(n: int) -> list[te.Tensor]:
    rows, length = te.var("M"), te.var("N")
    return [te.placeholder((rows, length), "float32", f"x{k}") for k in range(n)]


def _row(x: te.Tensor, reducer: Callable[..., Any], name: str, term: Callable[..., Any]) -> te.Tensor:
    j = te.reduce_axis((0, x.shape[1]), f"j_{name}")
    return te.compute((x.shape[0],), lambda i: reducer(term(i, j), axis=j), name)


def wide(n: int) -> Graph:
    """One maximum and n - 1 sums over it."""
    xs = _inputs(n)
    m = _row(xs[0], te.max, "m", lambda i, j: xs[0][i, j])
    sums = [
        _row(x, te.sum, f"l{k}", lambda i, j, x=x: te.exp(xs[0][i, j] - m[i]) * x[i, j]) for k, x in enumerate(xs[1:])
    ]
    return xs, [m, *sums]


def pairs(n: int) -> Graph:
    """n / 2 maxima, each with a sum over it: independent edges."""
    xs, rows = _inputs(n // 2), []
    for k, x in enumerate(xs):
        m = _row(x, te.max, f"m{k}", lambda i, j, x=x: x[i, j])
        rows.append(_row(x, te.sum, f"l{k}", lambda i, j, x=x, m=m: te.exp(x[i, j] - m[i])))
    return xs, rows


def deep(n: int) -> Graph:
    """n maxima, each of terms less the one before, so that the last depends on all."""
    xs = _inputs(n)
    rows = [_row(xs[0], te.max, "m0", lambda i, j: xs[0][i, j])]
    for k in range(1, n):
        rows.append(_row(xs[k], te.max, f"m{k}", lambda i, j, k=k: xs[k][i, j] - rows[k - 1][i]))
    return xs, rows[-1:]


# ------------------------------------------------------------------------------------------------- measuring


def prove(program: nv.Program, cache: Cache | None = None) -> VerifiedProgram:
    prover = Prover(cache)
    return verify(fuse(program, prover), prover)


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds, the smaller of two runs."""
    seconds = []
    for _ in range(2):
        forget()
        clear_cache()  # SymPy's own
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def chains(most: int) -> Iterator[str]:
    yield f"{'chain':8}{'length':>8}{'statements':>12}{'passes':>8}{'CPU s':>8}{'s/length':>10}{'to linear':>11}"
    for build in (wide, pairs, deep):
        first: float | None = None
        for n in (n for n in (2, 4, 8, 16, 32) if n <= most):
            program = nv.Program.from_te(*build(n), name="chain")
            verified = prove(program)
            each = cpu(lambda program=program: prove(program)) / n
            first = first if first is not None or n < 4 else each
            ratio = f"{each / first:11.2f}" if first is not None else f"{'':11}"
            counts = f"{n:8}{len(verified.proved):12}{verified.loops.passes:8}"
            yield f"{build.__name__:8}{counts}{each * n:8.2f}{each:10.3f}{ratio}"


def examples() -> Iterator[tuple[str, nv.Program]]:
    for path in sorted(EXAMPLES.glob("*.py")):
        module = load(path)
        for name, function in inspect.getmembers(module, inspect.isfunction):
            peer = "program" in inspect.signature(function).parameters
            if function.__module__ == module.__name__ and not name.startswith("_") and not peer:
                yield f"{path.stem}.{name}", nv.Program.from_te(*function(), name=name)


def load(path: Path) -> ModuleType:
    """A module by its file: benchmarks has files of the same names."""
    return load_file(path, f"example_{path.stem}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--most", type=int, default=32, help="longest chain")
    most = parser.parse_args().most
    prove(nv.Program.from_te(*wide(3), name="warm"))  # SymPy imports some of its parts at their first use
    programs = dict(examples())
    attention = programs["attention.attention"]
    with tempfile.TemporaryDirectory() as folder:
        cache = Cache(Path(folder) / "cache")
        prove(attention, cache)
        print(f"attention, cold   {1000 * cpu(lambda: prove(attention)):6.0f} ms")
        print(f"attention, cached {1000 * cpu(lambda: prove(attention, Cache(cache.folder))):6.0f} ms")
        loops = fuse(attention)
        again = cpu(lambda: verify(loops, Prover(Cache(cache.folder))))
        print(f"  its proofs alone (stated and looked up) {1000 * again:6.0f} ms\n")
        total = cpu(lambda: [prove(p) for p in programs.values()])
        print(f"all {len(programs)} examples, cold   {total:6.2f} s")
        for p in programs.values():
            prove(p, cache)
        total = cpu(lambda: [prove(p, Cache(cache.folder)) for p in programs.values()])
        print(f"all {len(programs)} examples, cached {total:6.2f} s\n")
    for line in chains(most):
        print(line, flush=True)


if __name__ == "__main__":
    main()

"""How proof time grows with the number of fused reductions."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from tvm import te

import neptune_verified as nv
from neptune_verified.fusion.fuse import fuse
from neptune_verified.proofs.kernel import Prover, verify

Graph = tuple[list[te.Tensor], list[te.Tensor]]
ROWS, LENGTH = te.var("M"), te.var("N")


def _row(reducer: Callable, name: str, term: Callable) -> te.Tensor:
    j = te.reduce_axis((0, LENGTH), f"j_{name}")
    return te.compute((ROWS,), lambda i: reducer(term(i, j), axis=j), name)


def _inputs(n: int) -> list[te.Tensor]:
    return [te.placeholder((ROWS, LENGTH), "float32", f"x{k}") for k in range(n)]


def wide(n: int) -> Graph:
    """One maximum and n - 1 sums over it."""
    xs = _inputs(n)
    m = _row(te.max, "m", lambda i, j: xs[0][i, j])
    sums = [_row(te.sum, f"l{k}", lambda i, j, k=k: te.exp(xs[0][i, j] - m[i]) * xs[k][i, j]) for k in range(1, n)]
    return xs, [m, *sums]


def deep(n: int) -> Graph:
    """n maxima, each of terms less the one before: the last depends on all."""
    xs = _inputs(n)
    rows = [_row(te.max, "m0", lambda i, j: xs[0][i, j])]
    for k in range(1, n):
        rows.append(_row(te.max, f"m{k}", lambda i, j, k=k: xs[k][i, j] - rows[k - 1][i]))
    return xs, rows[-1:]


def pairs(n: int) -> Graph:
    """n / 2 softmax sums, each with a maximum of its own that reads the sum before."""
    xs = _inputs(n // 2)
    rows: list = []
    for k in range(n // 2):
        m = _row(te.max, f"m{k}", lambda i, j, k=k: xs[k][i, j])
        rows.append(_row(te.sum, f"l{k}", lambda i, j, k=k, m=m: te.exp(xs[k][i, j] - m[i])))
    return xs, rows


if __name__ == "__main__":
    from collections import Counter

    fam = {"wide": wide, "deep": deep, "pairs": pairs}[sys.argv[1]]
    for n in map(int, sys.argv[2:]):
        t = time.process_time()
        p = nv.Program.from_te(*fam(n), name="c")
        read = time.process_time() - t
        t = time.process_time()
        pr = Prover()
        l = fuse(p, pr)
        f = time.process_time() - t
        v = verify(l, pr)
        print(
            n,
            "read",
            round(read, 2),
            "fuse",
            round(f, 2),
            "all",
            round(time.process_time() - t, 2),
            "passes",
            l.passes,
            len(v.proved),
            Counter(r.verdict.value for r in pr.memo.values()),
            [str(r)[:200] for r in l.refusals][:2],
            flush=True,
        )

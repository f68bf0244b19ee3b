"""A sum of products of float32 numbers and 16-bit ones, which a kernel converts."""

from __future__ import annotations

from tvm import te

import neptune_verified as nv
from tests.accepted.harness import F32, Graph


def products(dtype: str) -> nv.Program:
    """o[i, c] = sum_j exp(x[i, j]) v[j, c]: products of float32 numbers of any size and 16-bit ones."""
    g = Graph()
    x = g.input("x")
    v = te.placeholder((g.N, 16), dtype, "v")
    j = te.reduce_axis((0, g.N), "j")
    p = te.compute((g.M, g.N), lambda a, b: te.exp(x[a, b]), "p")
    o = te.compute((g.M, 16), lambda a, c: te.sum(p[a, j] * v[j, c].astype(F32), axis=j), "o")
    return nv.Program.from_te([x, v], [o], name="products", assume=[nv.bounded(x, 80), nv.bounded(v, 4)])

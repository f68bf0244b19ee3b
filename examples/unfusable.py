"""A chain that no scalar repair fuses: it takes two passes, and the report says which obligation refuses it, and where.

Compile it: `neptune-verified compile examples/unfusable.py:softplus_sum --verify`
"""

from __future__ import annotations

from tvm import te


def softplus_sum(dtype: str = "float32") -> tuple[list[te.Tensor], list[te.Tensor]]:
    """sum log(1 + exp(x - m)) with m = max x, for each row of x: [M, N]; float32 for every ``dtype``."""
    M, N = te.var("M"), te.var("N")
    x = te.placeholder((M, N), dtype, "x")
    j, k = te.reduce_axis((0, N), "j"), te.reduce_axis((0, N), "k")
    m = te.compute((M,), lambda i: te.max(x[i, j].astype("float32"), axis=j), "m")
    s = te.compute((M,), lambda i: te.sum(te.log(1.0 + te.exp(x[i, k].astype("float32") - m[i])), axis=k), "s")
    return [x], [s]

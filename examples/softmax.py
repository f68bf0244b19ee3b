"""Softmax and log-sum-exp of the rows of a matrix x: [M, N], shifted by the row's maximum so that nothing overflows.

Compile it: `neptune-verified compile examples/softmax.py:softmax --verify`
"""

from __future__ import annotations

from tvm import te

Graph = tuple[list[te.Tensor], list[te.Tensor]]


def _shifted(dtype: str) -> tuple[te.Tensor, te.Tensor, te.Tensor, te.Tensor]:
    """x, its row maxima m, exp(x - m), and the row sums l of that."""
    M, N = te.var("M"), te.var("N")
    x = te.placeholder((M, N), dtype, "x")
    j, k = te.reduce_axis((0, N), "j"), te.reduce_axis((0, N), "k")
    m = te.compute((M,), lambda i: te.max(x[i, j].astype("float32"), axis=j), "m")
    e = te.compute((M, N), lambda i, j: te.exp(x[i, j].astype("float32") - m[i]), "e")
    total = te.compute((M,), lambda i: te.sum(e[i, k], axis=k), "l")
    return x, m, e, total


def softmax(dtype: str = "float32") -> Graph:
    """exp(x - m) / sum exp(x - m): one pass for m and the sum, one for the output."""
    x, _, e, total = _shifted(dtype)
    p = te.compute(x.shape, lambda i, j: (e[i, j] / total[i]).astype(dtype), "p")
    return [x], [p]


def logsumexp(dtype: str = "float32") -> Graph:
    """m + log sum exp(x - m), float32 for every ``dtype``."""
    x, m, _, total = _shifted(dtype)
    return [x], [te.compute(total.shape, lambda i: m[i] + te.log(total[i]), "lse")]

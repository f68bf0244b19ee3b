"""Norms and normalisations of the rows of a matrix x: [M, N].

Compile it: `neptune-verified compile examples/norms.py:l2norm --verify`
"""

from __future__ import annotations

from tvm import te, tirx

F32 = "float32"
Graph = tuple[list[te.Tensor], list[te.Tensor]]


def _matrix(dtype: str) -> tuple[te.Tensor, te.Tensor]:
    """x, and its elements as float32."""
    M, N = te.var("M"), te.var("N")
    x = te.placeholder((M, N), dtype, "x")
    return x, te.compute((M, N), lambda i, j: x[i, j].astype(F32), "x32")


def _row(reducer, name: str, x: te.Tensor, term) -> te.Tensor:
    """``name[i] = reducer over j of term(i, j)``."""
    M, N = x.shape
    j = te.reduce_axis((0, N), f"j_{name}")
    return te.compute((M,), lambda i: reducer(term(i, j), axis=j), name)


def l2norm(dtype: str = "float32") -> Graph:
    """r * sqrt(sum (x / r)^2) with r = max |x|: no square overflows, and none that matters is lost."""
    x, x32 = _matrix(dtype)
    r = _row(te.max, "r", x, lambda i, j: te.abs(x32[i, j]))
    y = te.compute(x.shape, lambda i, j: x32[i, j] / r[i], "y")
    s = _row(te.sum, "s", x, lambda i, j: y[i, j] * y[i, j])
    # A row of zeros has no x / r; its norm is 0.
    return [x], [te.compute(r.shape, lambda i: tirx.if_then_else(r[i] == 0.0, 0.0, r[i] * te.sqrt(s[i])), "norm")]


def rmsnorm_amax(dtype: str = "float32", eps: float = 1e-6) -> Graph:
    """max |x w| / rms(x), the scale that a quantisation of RMSNorm's output needs; w: [N]."""
    x, x32 = _matrix(dtype)
    N = x.shape[1]
    w = te.placeholder((N,), dtype, "w")
    ss = _row(te.sum, "ss", x, lambda i, j: x32[i, j] * x32[i, j])
    rms = te.compute(ss.shape, lambda i: te.sqrt(ss[i] / N.astype(F32) + eps), "rms")
    amax = _row(te.max, "amax", x, lambda i, j: te.abs(x32[i, j] * w[j].astype(F32)) / rms[i])
    return [x, w], [amax]


def layernorm(dtype: str = "float32", eps: float = 1e-5) -> Graph:
    """(x - mean) / sqrt(var + eps) * w + b; w, b: [N]. Two passes to reduce, one for the output: a running variance
    cannot be repaired from itself alone when the mean moves."""
    x, x32 = _matrix(dtype)
    N = x.shape[1]
    w, b = te.placeholder((N,), dtype, "w"), te.placeholder((N,), dtype, "b")
    total = _row(te.sum, "total", x, lambda i, j: x32[i, j])
    mean = te.compute(total.shape, lambda i: total[i] / N.astype(F32), "mean")
    squares = _row(te.sum, "squares", x, lambda i, j: (x32[i, j] - mean[i]) * (x32[i, j] - mean[i]))
    var = te.compute(squares.shape, lambda i: squares[i] / N.astype(F32), "var")
    z = te.compute(x.shape, lambda i, j: (x32[i, j] - mean[i]) * te.rsqrt(var[i] + eps), "z")
    y = te.compute(x.shape, lambda i, j: (z[i, j] * w[j].astype(F32) + b[j].astype(F32)).astype(dtype), "y")
    return [x, w, b], [y]

"""Edits of emitted kernels, each of which makes the text wrong, by kind, with the obligations that may be named.

An edit is a regular expression and its replacement, done once, at the given occurrence (from 0).
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    kind: str
    kernel: str
    old: str
    new: str
    ids: str
    at: int = 0

    def apply(self, source: str) -> str:
        found = list(re.finditer(self.old, source))
        assert len(found) > self.at, f"nothing to edit: {self.old}"
        m = found[self.at]
        text = source[: m.start()] + m.expand(self.new) + source[m.end() :]
        assert text != source
        return text


A, C, S, L = "attention_lse", "causal", "softmax", "layernorm"
T, P, R, N = "table_lookup", "power_under_product", "reduction_of_reductions", "neighbours"
W, M, X = "lengths_of_rows", "shift_by_min_under_max", "two_reduction_axes"
Q = "scale_of_squares_by_max_under_sum"
VALUE = "O9 O13"  # a wrong number: O9 if it changes with what dead lanes hold

EDITS = [
    # loops and their bounds
    Edit("bound", A, r"range\(x0_full_hi, x0_hi, BLOCK_X0\)", "range(x0_full_hi, x0_hi - BLOCK_X0, BLOCK_X0)", "O13 O9"),
    Edit("bound", A, r"\(\(N // BLOCK_X0\) \* BLOCK_X0\)", "(((N - 1) // BLOCK_X0) * BLOCK_X0)", "O12"),
    Edit("bound", A, r"\(\(N // BLOCK_X0\) \* BLOCK_X0\)", "(((N + 1) // BLOCK_X0) * BLOCK_X0)", "O11 O13"),
    Edit("bound", C, r"range\(0, x0_full_hi, BLOCK_X0\)", "range(BLOCK_X0, x0_full_hi, BLOCK_X0)", "O13 O9"),
    Edit("bound", S, r"range\(0, N, BLOCK_X0\)", "range(0, N - N % BLOCK_X0, BLOCK_X0)", "O13 O9"),
    Edit("bound", S, r"range\(0, N, BLOCK_X0\)", "range(0, N - 1, BLOCK_X0)", "O11", at=1),
    Edit("bound", S, r"range\(0, N, BLOCK_X0\)", "range(0, N, BLOCK_X0 // 2)", "O13 O9"),
    Edit("bound", X, r"range\(0, P\)", "range(1, P)", "O13"),
    Edit("bound", R, r"range\(0, N, BLOCK_R1_0\)", "range(0, N - 1, BLOCK_R1_0)", "O13 O9"),
    Edit("bound", R, r"range\(0, P, BLOCK_X0\)", "range(0, N, BLOCK_X0)", "O13 O9"),
    # masks of lanes
    Edit("mask", A, r"\(x0 < N\)", "(x0 <= N)", "O11"),
    Edit("mask", A, r"\(i < M\)", "(i <= M)", "O11"),
    Edit("mask", A, r"\(i < M\)", "(i < N)", "O11"),
    Edit("mask", A, r", mask=\w+\[:, None\], other=0\.0\)", ")", "O11"),
    Edit("mask", S, r", mask=\(\(i < M\)\[:, None\] & \(x0 < N\)\[None, :\]\), other=0\.0", "", "O11"),
    Edit("mask", S, r", other=0\.0", "", "SAME"),  # every dead lane is selected away
    Edit("mask", A, r"(v_tile.*), other=0\.0", r"\1", "O9"),
    # Equal over the reals (both are invariant under a shift), but not where the shift leaves float64.
    Edit("mask", S, r"tl\.where\(\(x0 < N\)\[None, :\], (\w+), float\(\"-inf\"\)\)", r"\1", VALUE),
    Edit("mask", A, r"tl\.where\(\w+\[None, :\], (t_\d+), float\(\"-inf\"\)\)", r"\1", VALUE),
    Edit("mask", L, r"tl\.where\(\(x0 < N\)\[None, :\], \((t_\d+ \* t_\d+)\), 0\.0\)", r"\1", "O9"),
    Edit("mask", N, r" & \(t_\d+ < N\)\[None, :\]", "", "O11"),
    Edit("mask", N, r"tl\.where\(\((t_\d+) < N\)\[None, :\], ", r"tl.where((\1 < N - 1)[None, :], ", "O13 O9"),
    Edit("mask", T, r" & \(k_tile_\d+ < K\)", "", "O11"),
    Edit("mask", T, r" & \(k_tile_\d+ >= 0\)", "", "O11"),
    Edit("mask", T, r"(k_tile_\d+) < K", r"\1 <= K", "O11"),
    Edit("mask", C, r"x0\[None, :\] <= ", "x0[None, :] < ", "O13"),
    Edit("mask", C, r"\(i \+ \(N - M\)\)", "i", "O13"),
    Edit("mask", C, r"\(i \+ \(N - M\)\)", "(i + (M - N))", "O13"),
    Edit("mask", W, r"x0\[None, :\] < lens", "x0[None, :] <= lens", "O13"),
    # values of masked elements
    Edit("fill", S, r"\[None, :\], (\w+), float\(\"-inf\"\)\)", r"[None, :], \1, 0.0)", "O13 O9"),
    Edit("fill", A, r"\[None, :\], (\w+), float\(\"-inf\"\)\)", r"[None, :], \1, 0.0)", "O13 O9"),
    Edit("fill", C, r"float\(\"-inf\"\)\)\n", "0.0)\n", "O13 O9"),
    Edit("fill", M, r"float\(\"-inf\"\)\), axis", "0.0), axis", "SAME"),  # x - min x >= 0
    Edit("fill", P, r", 1\.0\), 1, _mul", ", 0.0), 1, _mul", "O13 O9"),
    # matrix products, axes, operands
    Edit("operand", A, r"tl\.dot\((\w+), tl\.trans\((\w+)\)", r"tl.dot(\2, tl.trans(\1)", "O9 O13"),
    Edit("operand", A, r"tl\.trans\((\w+)\)", r"\1", "O13"),
    Edit("operand", C, r" \* 0\.25\)", " * 0.5)", "O13"),
    Edit("operand", L, r"\((x_tile_\d+) - \(total / (t_\d+)\)", r"((total / \2) - \1", "O13", at=0),
    Edit("operand", S, r"axis=1", "axis=0", "O13"),
    Edit("operand", S, r"tl\.maximum\(", "tl.minimum(", "O13"),
    Edit("operand", L, r"tl\.rsqrt\(", "tl.sqrt(", "O13"),
    Edit("operand", P, r"tl\.reduce\((.*), 1, _mul\)", r"tl.sum(\1, axis=1)", "O13"),
    # offsets
    Edit("stride", A, r"stride_k_1\)", "stride_k_2)", "O11"),
    Edit("stride", A, r"stride_v_1\)", "stride_k_1)", "O11"),
    Edit("stride", S, r"stride_p_0", "stride_p_1", "O11", at=1),
    Edit("stride", X, r"stride_y_0\) \+", "stride_y_1) +", "O11 O13"),
    Edit("stride", S, r"tl\.cast\(i\[:, None\], tl\.int64\) \* stride_x_0", "i[:, None] * stride_x_0", "O12"),
    Edit("stride", A, r"tl\.cast\(h, tl\.int64\) \* stride_v_0", "h * stride_v_0", "O12"),
    Edit("stride", A, r"tl\.cast\(i, tl\.int64\) \* stride_lse_1", "i * stride_lse_1", "O12"),
    Edit("stride", S, r"p_ptr \+ ", "p_ptr + 1 + ", "O11"),
    Edit("stride", S, r"tl\.cast\(i\[:, None\]", "tl.cast((i + 1)[:, None]", "O11", at=1),
    # the carried state
    Edit("state", S, r"\(l \* tl\.exp\(\(m - (t_\d+)\)\)\)", "l", "O13"),
    Edit("state", A, r"\(l \* t_\d+\)", "l", "O13"),
    Edit("state", A, r"\(o_f32 \* t_\d+\[:, None\]\)", "o_f32", "O13"),
    Edit("state", S, r"tl\.exp\(\(m - t_\d+\)\)", "tl.exp((m - m))", "O13"),
    Edit("state", S, r"tl\.exp\(\(m - (t_\d+)\)\)", r"tl.exp((\1 - m))", "O13"),
    Edit("state", A, r"(t_\d+) - (t_\d+)\[:, None\]\)", r"\1 - m[:, None])", "O13"),
    Edit("state", C, r"        m = m_new\n", "", "O13"),
    Edit("state", S, r"tl\.maximum\(m, (tl\.max\(.*?, axis=1\))\)", r"\1", "O13"),  # overflows where a later tile is low
    Edit("state", A, r"tl\.maximum\(m, (tl\.max\(.*?, axis=1\))\)", r"\1", "O13"),
    Edit("state", Q, r"\(m_new == float\(.-inf.\)\) \| \(m_new == 0\.0\)", '(m_new == float("-inf"))', "O13"),
    Edit("state", S, r"        m = m_new\n        l = l_new", "        l = l_new\n        m = m_new", "SAME"),
    Edit("state", A, r"m = tl\.full\(\[BLOCK_I\], float\(\"-inf\"\)", "m = tl.full([BLOCK_I], 0.0", "O13"),
    Edit("state", R, r"s_1 = tl\.full\(\[BLOCK_I\], 0\.0", "s_1 = tl.full([BLOCK_I], 1.0", "O13"),
    Edit("state", C, r"tl\.where\(\((m_new) == float\(\"-inf\"\)\), 0\.0, m_new\)", r"\1", "O13", at=1),
    Edit("state", W, r"tl\.where\(\(n == 0\.0\), 0\.0, \(o_1 / n\)\)", "(o_1 / n)", "O13"),
    # what is stored
    Edit("result", A, r"\(o_f32 / l\[:, None\]\)", "o_f32", "O13"),
    Edit("result", A, r"\(m \+ tl\.log\(l\)\)", "tl.log(l)", "O13"),
    Edit("result", A, r"\(m \+ tl\.log\(l\)\)", "(m - tl.log(l))", "O13"),
    Edit("result", S, r" / l\[:, None\]\)", " * l[:, None])", "O13"),
    Edit("result", X, r"stride_m_0\), m_1", "stride_m_0), s_1", "O13"),
    Edit("result", A, r"    tl\.store\(lse_ptr[^\n]*\n", "", "O11"),
    Edit("result", A, r"(    tl\.store\(lse_ptr[^\n]*\n)", r"\1\1", "O11"),
    # the launcher
    Edit("launcher", A, r"\(q, k, v, o, lse, \*q", "(q, v, k, o, lse, *q", "O11 O13"),
    Edit("launcher", A, r"\*q\.stride\(\), \*k\.stride\(\)", "*k.stride(), *q.stride()", "O11"),
    Edit("launcher", A, r"\), M, N, \*\*blocks", "), N, M, **blocks", "O11 O13"),
    Edit("launcher", A, r"return o, lse", "return lse, o", "O13"),
    Edit("launcher", A, r"-\(-\(M\) // blocks\[\"BLOCK_I\"\]\)", 'M // blocks["BLOCK_I"]', "O11"),
    Edit("launcher", A, r"programs = \(2\) \*", "programs = (1) *", "O11"),
    Edit("launcher", S, r"-\(-\(M\) //", "-(-(M + 64) //", "SAME"),
    Edit("launcher", A, r"-\(-\(M\) //", "-(-(M + 64) //", "O11"),
    Edit("launcher", A, r"    _check_length\(\"v\.shape\[1\]\"[^\n]*\n", "", "O11"),
    Edit("launcher", A, r"M = q\.shape\[1\]", "M = k.shape[1]", "O11 O13"),
    Edit("launcher", S, r"\(\(\(M, N,\), torch", "(((N, M,), torch", "O13"),
    Edit("launcher", S, r"\"enable_fp_fusion\": False", '"enable_fp_fusion": True', "O16"),
    Edit("launcher", S, r"torch\.float32\),\), \(x,\), out", "torch.float32),), (), out", "O11"),
    # the grid in the kernel
    Edit("grid", A, r"pid % tl\.cdiv\(M, BLOCK_I\)", "pid % tl.cdiv(N, BLOCK_I)", "O11 O13"),
    Edit("grid", A, r"pid = pid // tl\.cdiv\(M, BLOCK_I\)", "pid = pid // (M // BLOCK_I + 1)", "O11 O13"),
    Edit("grid", S, r"pid \* BLOCK_I \+ tl", "pid * (BLOCK_I + 1) + tl", "O11"),
    Edit("grid", A, r"    h = pid\n", "    h = pid - pid + 1\n", "O11"),
    Edit("grid", A, r"    h = pid\n", "    h = (pid - 1) % 2\n", "O12"),
]  # fmt: skip

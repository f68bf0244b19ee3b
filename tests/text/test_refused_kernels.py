"""Wrong kernels: addresses, masks, loops, carried values, reductions, stores."""

from __future__ import annotations

import pytest

from tests.text.bases import Edit, base, change, check, refusal

L, S, C, D, P = "masked_logsumexp", "softmax", "causal", "doubled", "power_under_product"
PRODUCT, NESTED, NEIGHBOURS, LOOKUP, TWO = (
    "two_reduction_axes",
    "reduction_of_reductions",
    "neighbours",
    "lookup",
    "two_kernels",
)

ADDRESSES = [
    Edit(L, r"\* stride_x_0", "* stride_x_1", "O11", "two indices of x's dimension 1"),
    Edit(L, r"stride_x_0(\).*)stride_x_1", r"stride_x_1\1stride_x_0", "O11", "beyond its dimension 0"),
    Edit(L, r" \* stride_lse_0\)", " * stride_x_0)", "O11", "an address in lse"),
    Edit(L, r"tl\.cast\(i\[:, None\], tl\.int64\)", "i[:, None]", "O12", "fewer than 64 bits"),
    Edit(L, r"tl\.cast\(i, tl\.int64\)", "i", "O12", "fewer than 64 bits"),
    Edit(L, r"tl\.cast\(i, tl\.int64\)", "tl.cast(i + 1, tl.int64)", "O11", "beyond its dimension 0"),
    Edit(L, r"tl\.cast\(i, tl\.int64\)", "tl.cast(i // 2 * 2, tl.int64)", "O11", "index of another form"),
    Edit(
        L,
        r"tl\.cast\(x0\[None, :\], tl\.int64\)",
        "tl.cast(x0[None, :] + 1, tl.int64)",
        "O11",
        "beyond its dimension 1",
    ),
    Edit(
        L,
        r"tl\.cast\(x0\[None, :\], tl\.int64\)",
        "tl.cast(x0[None, :] // 2, tl.int64)",
        "O13",
        "floordiv (int32) where the definition has add (int32)",
    ),
    Edit(
        L,
        r"tl\.cast\(x0\[None, :\], tl\.int64\)",
        "tl.cast(N - 1 - x0[None, :], tl.int64)",
        "O13",
        "sub (int32) where the definition has add (int32)",
    ),
    Edit(L, r"tl\.load\(x_ptr \+ ", "tl.load(lse_ptr + ", "O11", "an address in lse"),
    Edit(
        L,
        r"\(tl\.cast\(i\[:, None\], tl\.int64\) \* stride_x_0\) \+ ",
        "",
        "O13",
        "a tile of shape [8, 8] where [1, 8] is wanted",
    ),
    Edit(C, r"stride_k_1\)", "stride_k_2)", "O11", "two indices"),
    Edit(C, r"stride_v_0\)", "stride_k_0)", "O11", "an address in v"),
    Edit(
        C,
        r"tl\.cast\(h, tl\.int64\) \* stride_q_0",
        "tl.cast(1 - h, tl.int64) * stride_q_0",
        "O13",
        "sub (int32) where the definition has pid?.rest",
    ),
    Edit(
        "softmax_of_the_transpose",
        r"stride_x_0(\).*)stride_x_1",
        r"stride_x_1\1stride_x_0",
        "O13",
        "mul (int32) where the definition has x0_start#0",
    ),
]
MASKS = [
    Edit(L, r"\(x0 < N\)", "(x0 <= N)", "O11", "beyond its dimension 1"),
    Edit(L, r"\(i < M\)", "(i <= M)", "O11", "beyond its dimension 0"),
    Edit(L, r"\(i < M\)", "(i < N)", "O11", "beyond its dimension 0"),
    Edit(L, r"\(i < M\)", "(i < M - 1)", "O11", "may be left unwritten"),
    Edit(L, r"\(t_4\[:, None\] & \(x0 < N\)\[None, :\]\)", "t_4[:, None]", "O11", "beyond its dimension 1"),
    Edit(L, r"\(t_4\[:, None\] & \(x0 < N\)\[None, :\]\)", "(t_4[:, None] | (x0 < N)[None, :])", "O11", "beyond"),
    Edit(L, r", mask=\(t_4.*?\), other=0\.0", "", "O11", "beyond its dimension"),
    Edit(L, r", other=0\.0", "", "O9", "no value for the other lanes"),
    Edit(L, r", mask=t_4\)", ")", "O11", "beyond its dimension 0"),
    Edit(L, r", mask=t_4\)", ", mask=t_4 & (m > 0.0))", "O11", "may be left unwritten"),
    Edit(L, r", mask=t_4\)", ", mask=t_4 & (i > 0))", "O11", "may be left unwritten"),
    Edit(
        L,
        r"tl\.where\(\(x0 < N\)\[None, :\], x_tile_12, float\(\"-inf\"\)\)",
        "x_tile_12",
        "O13",
        "0.0 where the definition has -inf",
    ),
    Edit(
        L,
        r"tl\.where\(\(x0 < N\)\[None, :\], x_tile_12",
        "tl.where((x0 < N - 1)[None, :], x_tile_12",
        "O13",
        "-inf where",
    ),
    Edit(
        L,
        r"tl\.where\(\(x0 < N\)\[None, :\], (tl\.exp\(.*?\)\)), 0\.0\)",
        r"\1",
        "O13",
        "exp (float32) where the definition has 0.0",
    ),
    Edit(L, r"x_tile_12, float\(\"-inf\"\)", "x_tile_12, 0.0", "O13", "0.0 where the definition has -inf"),
    Edit(L, r"\)\), 0\.0\), axis", ")), 1.0), axis", "O13", "1.0 where the definition has 0.0"),
    Edit(P, r", 1\.0\), 1, _mul", ", 0.0), 1, _mul", "O13", "0.0 where the definition has 1.0"),
    Edit(C, r"x0\[None, :\] <= ", "x0[None, :] < ", "O13", "-inf where the definition has mul (float32)"),
    Edit(LOOKUP, r" & \(k_tile_\d+ < T\)", "", "O11", "table may be accessed beyond its dimension 0"),
    Edit(LOOKUP, r" & \(k_tile_\d+ >= 0\)", "", "O11", "table may be accessed beyond its dimension 0"),
    Edit(LOOKUP, r"x0\[None, :\] < len", "x0[None, :] <= len", "O13", ""),
    Edit(LOOKUP, r"float\(\"inf\"\)\), axis", "0.0), axis", "O13", "0.0 where the definition has inf"),
]
RANGE = r"range\(0, N, BLOCK_X0\)"
LOOPS = [
    Edit(L, RANGE, "range(0, N - 1, BLOCK_X0)", "O10", "not neutral"),
    Edit(L, RANGE, "range(1, N, BLOCK_X0)", "O10", "not neutral"),
    Edit(L, RANGE, "range(BLOCK_X0, N, BLOCK_X0)", "O10", "not neutral"),
    Edit(L, RANGE, "range(0, M, BLOCK_X0)", "O10", "not neutral"),
    Edit(L, RANGE, "range(0, N // BLOCK_X0, BLOCK_X0)", "O10", "not neutral"),
    Edit(L, RANGE, "range(0, N // BLOCK_X0 * BLOCK_X0, BLOCK_X0)", "O10", "not neutral"),
    Edit(L, RANGE, "range(0, N)", "O9", ""),
    Edit(L, RANGE, "range(0, N, 4)", "O9", ""),
    Edit(L, RANGE, "range(0, N, 16)", "O13", ""),
    Edit(L, RANGE, "range(0, N, -8)", "O13", "step is no positive number"),
    Edit(L, RANGE, "range(0, N, 0)", "O13", "step is no positive number"),
    Edit(L, RANGE, "range(0, N, M)", "O13", "step is no positive number"),
    Edit(L, RANGE, "range(N)", "O9", ""),
    Edit(L, RANGE, "range(0.0, N, BLOCK_X0)", "O13", "no integer of the device"),
    Edit(L, RANGE, "range(0, i, BLOCK_X0)", "O13", "no integer of the device"),
    Edit(L, RANGE, "range(0, N, BLOCK_X0, num_stages=2)", "O13", "a range of another form"),
    Edit(L, RANGE, "range(0, N, BLOCK_X0, 1)", "O13", "a range of another form"),
    Edit(L, r"(x0 = x0_start) \+", r"\1 + 1 +", "O13", ""),
    Edit(L, r"x0_start \+ tl", "x0_start * 2 + tl", "O12", "(x0_start#0 * 2)"),
    Edit(L, r"(x0 = x0_start.*\n)", r"\1        x0_start = x0_start + 1\n", "O13", "variable x0_start is changed"),
    Edit(L, r"(    tl\.store)", r"    a = x0_start\n\1", "O13", "has no value here"),
    Edit(L, r"(    tl\.store)", r"    a = m_new\n\1", "O13", "has no value here"),
    Edit(PRODUCT, r"range\(0, P\)", "range(1, P)", "O8", "whole axis"),
    Edit(PRODUCT, r"range\(0, P\)", "range(0, P - 1)", "O8", "whole axis"),
    Edit(PRODUCT, r"range\(0, P\)", "range(0, P, 2)", "O8", "whole axis"),
    Edit(NESTED, r"range\(0, P, BLOCK_X0\)", "range(0, N, BLOCK_X0)", "O10", "not neutral"),
    Edit(C, r"range\(x0_full_hi, x0_hi", "range(0, x0_hi", "O8", "tiles of two loops"),
    Edit(C, r"range\(x0_full_hi, x0_hi", "range(x0_full_hi + BLOCK_X0, x0_hi", "O10", "not neutral"),
    Edit(C, r"range\(x0_full_hi, x0_hi", "range(x0_full_hi - BLOCK_X0, x0_hi", "O11", ""),
    Edit(C, r"range\(x0_full_hi, x0_hi", "range(x0_full_hi, x0_hi - BLOCK_X0", "O10", "not neutral"),
    Edit(C, r"range\(0, x0_full_hi", "range(0, x0_full_hi + BLOCK_X0", "O11", ""),
]
STATE = [
    Edit(L, r"m = tl\.full\(\[BLOCK_I\], float\(\"-inf\"\)", "m = tl.full([BLOCK_I], 0.0", "O8", "before the loop"),
    Edit(L, r"l = tl\.full\(\[BLOCK_I\], 0\.0", "l = tl.full([BLOCK_I], 1.0", "O8", "before the loop"),
    Edit(PRODUCT, r"s_1 = tl\.full\(\[BLOCK_I\], 0\.0", "s_1 = tl.full([BLOCK_I], 1.0", "O8", "before the loop"),
    Edit(L, r"        m = m_new\n", "", "O10", "-inf where the definition has x"),
    Edit(L, r"        l = l_new\n", "", "O10", "-inf where the definition has x"),
    Edit(L, r"m = m_new\n        l = l_new", "m = l_new\n        l = m_new", "O13", "max (float32) where the definition has add (float32)"),  # noqa: E501
    Edit(L, r"m_new = tl\.maximum\(m, ", "m_new = tl.maximum(l, ", "O8", "l where the loop program has m"),
    Edit(L, r"\(m - t_19\)", "(m_new - t_19)", "O8", "something else than m of the loop program (max)"),
    Edit(L, r"t_19 = tl\.where\(\(m_new == float\(\"-inf\"\)\), 0\.0, m_new\)",
         't_19 = tl.where((m == float("-inf")), 0.0, m)', "O8", "something else than m of the loop program (max)"),
    Edit(L, r"t_19 = tl\.where\(\(m_new == float\(\"-inf\"\)\), 0\.0, m_new\)", "t_19 = m_new", "O13", ""),
    Edit(L, r"\(l \* tl\.exp\(\(m - t_19\)\)\)", "l", "O8", "l, a value that a loop carries, where the definition has ano"),
    Edit(L, r"\(l \* tl\.exp", "(l + tl.exp", "O13", "add (float32) where the definition has mul"),
    Edit(L, r"tl\.maximum\(m, (tl\.max\(.*?, axis=1\))\)", r"\1", "O13", "a max over 1 axes where the definition has max"),
    Edit(L, r"\(m - t_19\)", "(t_19 - m)", "O8", "something else than m of the loop program (max)"),
    Edit(L, r"(    tl\.store)", r"    m = m + 1.0\n\1", "O8", "something else than m"),
    Edit(L, r"\(m \+ tl\.log\(l\)\)", "(l + tl.log(m))", "O8", "l where the loop program has m"),
    Edit(L, r"\(m \+ tl\.log\(l\)\)", "tl.log(l)", "O13", "log (float32) where the definition has add"),
    Edit(L, r"\(m \+ tl\.log\(l\)\)", "(m - tl.log(l))", "O13", "sub (float32) where the definition has add"),
    Edit(L, r"(        l = l_new\n)", r"\1        l = l * 1.0\n", "O13", "mul (float32) where the definition has add (float32)"),  # noqa: E501
    Edit(C, r"        o_1 = o_new\n    for", "        o_1 = o_new\n    o_1 = o_1 * 2.0\n    for", "O8", "o before the loop"),
    Edit(C, r"        o_1 = o_new\n    for", '        o_1 = o_new\n    l = tl.full([BLOCK_I], 0.0, tl.float32)\n    for', "O10", ""),  # noqa: E501
]  # fmt: skip
REDUCTIONS = [
    Edit(L, r"axis=1", "axis=0", "O13", ""),
    Edit(L, r"tl\.max\(", "tl.min(", "O13", "a min where the definition has a max"),
    Edit(L, r"tl\.sum\(", "tl.max(", "O13", "a max where the definition has a sum"),
    Edit(P, r"tl\.reduce\((.*), 1, _mul\)", r"tl.sum(\1, axis=1)", "O13", "a sum where the definition has a prod"),
    Edit(L, r"tl\.maximum\(m, ", "tl.minimum(m, ", "O13", "min (float32) where the definition has max"),
    Edit(C, r"tl\.trans\((\w+)\)", r"\1", "O13", "any#2 where the definition has any#1"),
    Edit(C, r"tl\.dot\((\w+), tl\.trans\((\w+)\)", r"tl.dot(\2, tl.trans(\1)", "O13", "[[32], [16]]"),
    Edit(C, r'input_precision="ieee"', 'input_precision="tf32"', "O16", "rounded to tf32"),
    Edit(C, r', input_precision="ieee"', "", "O13", "does not know this call"),
    Edit(C, r" \* 0\.25\)", " * 0.5)", "O13", ""),
    Edit(C, r"tl\.dot\(t_31, v_tile_39, \(o_1 \* t_25\[:, None\]\)", "tl.dot(t_31, v_tile_39, o_1", "O8", ""),
]
MAPPED = r"(    tl\.store\(lse_ptr[^\n]*\n)"
STORES = [
    Edit(L, MAPPED, r"\1\1", "O11", "stored twice"),
    Edit(L, MAPPED, "", "O11", "not written: lse"),
    Edit(C, MAPPED, "", "O11", "not written: lse"),
    Edit(
        L,
        r"tl\.store\(lse_ptr \+ \(tl\.cast\(i,",
        "tl.store(lse_ptr + (tl.cast(tl.arange(0, BLOCK_I),",
        "O11",
        "pid? is not used",
    ),
    Edit(L, r"(mask=)t_4\)", r"\1t_4 & (i < N))", "O11", "may be left unwritten"),
    Edit(L, r"    tl\.store\(lse", "        tl.store(lse", "O11", "x0_start#0 is not used"),
    Edit(
        S,
        r"\(tl\.cast\(x0, tl\.int64\) \* stride_p_1\)\[None, :\]",
        "(tl.cast(x0_start, tl.int64) * stride_p_1)",
        "O13",
        "a tile of shape [8, 8] where [8, 1] is wanted",
    ),
    Edit(
        S,
        r"tl\.cast\(x0, tl\.int64\) \* stride_p_1",
        "tl.cast(N - 1 - x0, tl.int64) * stride_p_1",
        "O11",
        "another form",
    ),
    Edit(S, RANGE, "range(0, N - 1, BLOCK_X0)", "O11", "are not written: dimension 1", at=1),
    Edit(S, RANGE, "range(8, N, BLOCK_X0)", "O11", "are not written: dimension 1", at=1),
    Edit(S, RANGE, "range(0, N, 4)", "O11", "another form", at=1),
    Edit(S, r"(        tl\.store[^\n]*\n)", r"\1\1", "O11", "may be written twice"),
    Edit(
        S,
        r"(    for x0_start(?:.|\n)*?)(    for x0_start(?:.|\n)*?tl\.store[^\n]*\n)",
        r"\1\2\2",
        "O11",
        "written twice",
    ),
    Edit(S, r" / l\[:, None\]\)", " * l[:, None])", "O13", "mul (float32) where the definition has div"),
    Edit(TWO, r"stride_tops_0\), tops_1", "stride_tops_0), tops_1 * 1.0", "O8", "something else than tops"),
    Edit(PRODUCT, r"stride_m_0\), m_1", "stride_m_0), s_1", "O8", "s_1 where the loop program has m"),
]


@pytest.mark.parametrize("edit", [*ADDRESSES, *MASKS, *LOOPS, *STATE, *REDUCTIONS, *STORES], ids=str)
def test_refused(edit: Edit) -> None:
    check(edit)


@pytest.mark.parametrize(("program", "old", "new"), [
    (NEIGHBOURS, r"tl\.where\(\((t_\d+) < N\)\[None, :\], ", r"tl.where((\1 <= N)[None, :], "),  # the load gives 0 there
    (L, r"m = m_new\n        l = l_new", "l = l_new\n        m = m_new"),
    (L, RANGE, "range(0, N + 100, BLOCK_X0)"),
    (L, r"tl\.maximum\(m, (tl\.max\(.*?, axis=1\))\)", r"tl.maximum(\1, m)"),
    (S, r"stride_x_0\) \+ (\(tl\.cast\(x0\[None, :\], tl\.int64\) \* stride_x_1\))", r"stride_x_0) + \1 "),
    (L, r"\(i < M\)", "(M > i)"),
    (L, r"t_4 = \(i < M\)", "t_4 = (i + 1 <= M)"),
    (L, r"(    tl\.store)", r"    a = tl.exp(m) * 3.0\n\1"),
    (L, r", other=0\.0", ", other=1.0"),
    (D, r"\(x_tile_5 \* 2\.0\)", "(2.0 * x_tile_5)"),
])  # fmt: skip
def test_other_texts_of_the_same_value(program: str, old: str, new: str) -> None:
    assert refusal(program, change(base(program).source, old, new)) == ("", "")

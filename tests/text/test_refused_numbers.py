"""Wrong widths, roundings and conversions; inputs that are used where nobody sees them; tiles that are skipped."""

from __future__ import annotations

import pytest

from tests.text.bases import Edit, base, change, check, refusal

L, C, H, T, K = "masked_logsumexp", "causal", "halves", "tripled_rows", "truncated"
GUARD = r"mask=\(t_48 & \(tl\.max\(tl\.cast\(\(t_47 & t_5\[:, None\]\), tl\.int32\), axis=0\) != 0\)\)\[:, None\]"

CASTS = [
    Edit(H, r"tl\.cast\(x_tile_12, tl\.float32\) \* tl\.cast\(y_tile_14, tl\.float32\)",
         "tl.cast(x_tile_12 * y_tile_14, tl.float32)", "O16", "mul (float32)"),
    Edit(H, r"tl\.cast\(y_tile_14, tl\.float32\)", "y_tile_14", "O16", "float32 and float16"),
    Edit(H, r"tl\.cast\(y_tile_14, tl\.float32\)", "tl.cast(y_tile_14, tl.float64)", "O16", "float32 and float64"),
    Edit(H, r"\(s_1 \+ t_19\)", "(s_1 + tl.cast(tl.cast(t_19, tl.float16), tl.float32))", "O16", ""),
    Edit(H, r"\(s_1 \+ t_19\)", "tl.cast(tl.cast(s_1, tl.float64) + tl.cast(t_19, tl.float64), tl.float32)", "O16", ""),
    Edit(H, r"s_1, mask", "tl.cast(s_1, tl.float16), mask", "O16", "another type than s's"),
    Edit(H, r"s_1 = tl\.full\(\[BLOCK_I\], 0\.0, tl\.float32", "s_1 = tl.full([BLOCK_I], 0.0, tl.float16", "O16", ""),
    Edit(H, r"\((\w+) \+ (\w+)\), mask", r"tl.cast(tl.cast(\1, tl.float32) + tl.cast(\2, tl.float32), tl.bfloat16), mask", "O16", ""),  # noqa: E501
    Edit(H, r"\((\w+) \+ (\w+)\), mask", r"(\1 / \2), mask", "O16", "division of 16-bit numbers"),
    Edit(H, r"\((\w+) \+ (\w+)\), mask", r"tl.exp(\1), mask", "O16", "exp of float16"),
    Edit(L, r"x_tile_12 - t_19\[:, None\]", "tl.cast(tl.cast(x_tile_12, tl.float16), tl.float32) - t_19[:, None]", "O16", ""),  # noqa: E501
    Edit(L, r"\(m \+ tl\.log\(l\)\)", "tl.cast(tl.cast((m + tl.log(l)), tl.bfloat16), tl.float32)", "O16", ""),
    Edit(C, r" \* 0\.25\)", " * 0.1)", "O16", "is no float32"),
    Edit(C, r"tl\.dot\(t_31, v_tile_39", "tl.dot(tl.cast(t_31, tl.float16), tl.cast(v_tile_39, tl.float16)", "O16", ""),
    Edit(C, r"tl\.dot\(t_31, v_tile_39", "tl.dot(tl.cast(t_31, tl.float16), v_tile_39", "O13", "a dot of float16"),
    Edit(C, r"\(o_1 \* t_25\[:, None\]\)", "tl.cast(o_1 * t_25[:, None], tl.float16)", "O16", "a dot adds to float16"),
    Edit(K, r"tl\.cast\(x_tile_5, tl\.int32\)", "tl.cast(tl.cast(x_tile_5, tl.int8), tl.int32)", "O16", "cast to int8"),
    Edit(K, r"tl\.cast\(x_tile_5, tl\.int32\)", "tl.cast(tl.cast(x_tile_5, tl.uint8), tl.int32)", "O16", "cast to uint8"),
    Edit(K, r"tl\.cast\(x_tile_5, tl\.int32\)", "tl.cast(tl.cast(x_tile_5, tl.int64), tl.int32)", "O12", "may overflow"),
    Edit(K, r"tl\.cast\(x_tile_5, tl\.int32\)", "tl.cast(tl.floor(x_tile_5), tl.int32)", "O13", ""),
    Edit(K, r"tl\.cast\(x_tile_5, tl\.int32\)", "tl.cast(x_tile_5, tl.int1)", "O13", "cast to a truth value"),
    Edit(K, r"tl\.cast\(x_tile_5, tl\.int32\)", "tl.cast(x_tile_5, tl.int16)", "O16", "another type than k's"),
]  # fmt: skip
CHOICES = [
    Edit("chosen", r"tl\.where\(t_14, t_11, 2\.0\)", "tl.where(t_14, t_11, 3.0)", "O13", ""),
    Edit("chosen", r"tl\.where\(t_14, t_11, 2\.0\)", "tl.where((y_tile_5 > 0.0), t_11, 2.0)", "O13", ""),
    Edit("chosen", r"\(y_tile_5 > 0\.0\)", "(y_tile_5 >= 0.0)", "O13", ""),
    Edit("chosen", r"\(y_tile_5 > 0\.0\)", "(x_tile_8 > 0.0)", "O13", ""),
    Edit("chosen", r"\(t_11 > \(t_11 \* 0\.5\)\)", "(t_11 > (x_tile_8 * 0.5))", "O13", ""),
    Edit("chosen", r"\(t_11 > \(t_11 \* 0\.5\)\)", "(t_11 * 0.5 > t_11)", "O13", ""),
]  # fmt: skip
INTEGERS = [
    Edit(T, r"\(tl\.cast\(i, tl\.int64\) \* 3\)", "(i * 3)", "O12", "an int32 may overflow"),
    Edit(T, r"\(tl\.cast\(i, tl\.int64\) \* 3\)", "tl.cast(i * 3, tl.int64)", "O12", "an int32 may overflow"),
    Edit(T, r"range\(0, N,", "range(0, N * 2 - N,", "O12", "an int32 may overflow: (N * 2)"),
    Edit(L, r"\(i < M\)", "(i + M < M + M)", "O12", "an int32 may overflow"),
    Edit(L, r"\(i < M\)", "(i * i < M * i)", "O12", "an int32 may overflow"),
    Edit(L, r"\(i < M\)", "((i - M) // 2 < 0)", "O12", "which may be negative"),
    Edit(L, r"\(i < M\)", "((i - M) % 2 < 0)", "O12", "which may be negative"),
    Edit(L, r"\(i < M\)", "(i // (M - 1) < 2)", "O12", "which may be 0"),
    Edit(L, r"\(i < M\)", "(tl.cdiv(i, M - 1) < 2)", "O12", "an int32 may overflow"),
    Edit(
        L, r"range\(0, N, BLOCK_X0\)", "range(0, tl.cdiv(N - 5, BLOCK_X0) * BLOCK_X0, BLOCK_X0)", "O10", "not neutral"
    ),
    Edit(
        "blocks",
        r"_floordiv\(\(x0\[None, :\] - i\[:, None\]\), 4\)",
        "((x0[None, :] - i[:, None]) // 4)",
        "O12",
        "negative",
    ),
    Edit(
        "blocks",
        r"_floormod\(\(i\[:, None\] - x0\[None, :\]\), 3\)",
        "((i[:, None] - x0[None, :]) % 3)",
        "O12",
        "negative",
    ),
    Edit(
        "blocks",
        r"_floordiv\(\(x0\[None, :\] - i\[:, None\]\), 4\)",
        "_floordiv((x0[None, :] - i[:, None]), 5)",
        "O13",
        "",
    ),
    Edit("blocks", r"_floordiv\(\(x0 - t_10\), 4\)", "_floormod((x0 - t_10), 4)", "O13", ""),
]
UNSEEN = [
    Edit(C, GUARD, "mask=t_48[:, None]", "O9", "inputs are used at positions that are masked for every row"),
    Edit(C, r" & t_5\[:, None\]\), tl\.int32", "), tl.int32", "O9", "masked for every row"),
    Edit(C, r"tl\.max\(tl\.cast\(\(t_47", "tl.min(tl.cast((t_47", "O13", ""),
    Edit(C, r"axis=0\) != 0\)\)\[:, None\]", "axis=0) == 0))[:, None]", "O13", ""),
    Edit(C, GUARD + r", other=0\.0", "mask=t_48[:, None], other=1.0", "O9", ""),
    Edit(
        "blocks",
        r"tl\.where\(t_19, \(t_42 \* v_tile_47\[None, :\]\), 0\.0\)",
        "(t_42 * v_tile_47[None, :])",
        "O9",
        "masked for every",
    ),
]
SKIPPED = [
    Edit(C, r"\(\(\(i_last - M\) \+ N\) \+ 1\)", "((i_last - M) + N)", "O10", "not neutral"),
    Edit(C, r"\(\(\(i_last - M\) \+ N\) \+ 1\)", "(((i_first - M) + N) + 1)", "O10", "not neutral"),
    Edit(C, r"\(\(\(i_first - M\) \+ N\) \+ 1\)", "(((i_last - M) + N) + 1)", "O13", ""),
]


@pytest.mark.parametrize("edit", [*CASTS, *CHOICES, *INTEGERS, *UNSEEN, *SKIPPED], ids=str)
def test_refused(edit: Edit) -> None:
    check(edit)


@pytest.mark.parametrize(("program", "old", "new"), [
    (T, r"range\(0, N,", "range(0, N + 2 - 2,"),
    (T, r"\(tl\.cast\(i, tl\.int64\) \* 3\)", "(3 * tl.cast(i, tl.int64))"),
    (L, r"\(i < M\)", "(i // M < 1)"),  # in a program M is not 0
    (L, r"\(x0 < N\)", "(x0 // N < 1)"),
    (H, r"tl\.cast\(x_tile_12, tl\.float32\)", "tl.cast(tl.cast(tl.cast(x_tile_12, tl.float64), tl.float16), tl.float32)"),
])  # fmt: skip
def test_accepted(program: str, old: str, new: str) -> None:
    assert refusal(program, change(base(program).source, old, new)) == ("", "")

"""Wrong texts that an earlier version of the checker accepted."""

from __future__ import annotations

import re

from tests.text.bases import Edit, base, change, check, refusal

L, S, D = "masked_logsumexp", "softmax", "doubled"
PROGRAMS = r'programs = -\(-\(M\) // blocks\["BLOCK_I"\]\)'


def test_programs_that_write_the_same_elements() -> None:
    source = change(base(L).source, PROGRAMS, 'programs = (2) * -(-(M) // blocks["BLOCK_I"])')
    source = change(source, r"i = pid \*", "i = (pid % tl.cdiv(M, BLOCK_I)) *")
    id_, why = refusal(L, source)
    assert (id_, "several programs" in why) == ("O11", True), why


def test_no_program_at_all_for_some_lengths() -> None:
    source = change(base(L).source, PROGRAMS, 'programs = min(N, 1) * -(-(M) // blocks["BLOCK_I"])')
    source = change(source, r"(    i = pid)", r"    pid = pid // tl.minimum(N, 1)\n\1")
    id_, why = refusal(L, source)
    assert (id_, "no program may be launched" in why) == ("O11", True), why


def test_one_element_of_each_tile_is_written() -> None:
    source = change(
        base(S).source,
        r"x0\[None, :\], tl\.int64\) \* stride_x_1\), mask=t_32",
        "x0_start, tl.int64) * stride_x_1), mask=t_32",
    )
    source = change(source, r"t_32 = .*", "t_32 = (i < M)[:, None]")
    source = change(
        source, r"\(tl\.cast\(x0, tl\.int64\) \* stride_p_1\)\[None, :\]", "(tl.cast(x0_start, tl.int64) * stride_p_1)"
    )
    id_, why = refusal(S, source)
    assert (id_, "another form" in why) == ("O11", True), why


#: Columns below 7 of the rows of all programs, and the other columns of the first rows alone.
TWO_STORES = """    pid = tl.program_id(0)
    i = pid * BLOCK_J + tl.arange(0, BLOCK_J)
    for x0 in range(0, tl.minimum(N, 7)):
        t_4 = (i < M)
        v = tl.load(x_ptr + (tl.cast(i, tl.int64) * stride_x_0) + (tl.cast(x0, tl.int64) * stride_x_1), mask=t_4, other=0.0)
        tl.store(p_ptr + (tl.cast(i, tl.int64) * stride_p_0) + (tl.cast(x0, tl.int64) * stride_p_1), v * 2.0, mask=t_4)
    k = pid * ROWS + tl.arange(0, ROWS)
    for x1 in range(tl.minimum(N, 7), N):
        t_5 = (k < M)
        w = tl.load(x_ptr + (tl.cast(k, tl.int64) * stride_x_0) + (tl.cast(x1, tl.int64) * stride_x_1), mask=t_5, other=0.0)
        tl.store(p_ptr + (tl.cast(k, tl.int64) * stride_p_0) + (tl.cast(x1, tl.int64) * stride_p_1), w * 2.0, mask=t_5)

"""


def test_two_stores_that_share_rows_and_columns() -> None:
    source = base(D).source
    a, e = source.index("    pid = tl"), source.index("#: Argument types")
    source = source[:a] + TWO_STORES + source[e:]
    source = re.sub(r"programs = .*", 'programs = -(-(M) // blocks["BLOCK_J"])', source)
    assert refusal(D, source.replace("ROWS", "1024")) == ("", "")
    assert refusal(D, source.replace("ROWS", "16"))[0] == "O11"


def test_a_length_that_is_called_as_the_checker_calls_an_index() -> None:
    source = change(base("elements").source, r"-\(-\(element\)", "-(-(element - 5)")
    id_, why = refusal("elements", source.replace("tl.cdiv(element,", "tl.cdiv(element - 5,"))
    assert (id_, "no program may be launched" in why) == ("O11", True), why


def test_a_number_through_a_narrower_integer() -> None:
    check(
        Edit(
            "truncated",
            r"tl\.cast\(x_tile_5, tl\.int32\)",
            "tl.cast(tl.cast(x_tile_5, tl.int8), tl.int32)",
            "O16",
            "int8",
        )
    )


def test_an_encoding_in_which_comments_are_statements() -> None:
    source = "# coding: utf-7\n" + base(L).source + "# +AAo-print(1)\n"
    assert refusal(L, source)[0] == "O13"


def test_a_scalar_argument_in_place_of_a_length() -> None:
    checks = '    _check_scalar("M", M, int, "an int")\n    _check_length("x.shape[0]", x.shape[0], "M", M)\n'
    check(Edit(L, r"    M = x\.shape\[0\]\n", checks, "O13", "M is checked to be something else"))


def test_an_index_that_is_another_one_where_a_mask_drops_it() -> None:
    """Where the mask holds the index is that of a tile, and where the index is in range the mask holds: and yet rows above
    65536 have no lane."""
    edit = r"\1    i = tl.where(i < 65536, i, M)\n"
    check(Edit(L, r"(    i = pid \* BLOCK_I \+ tl\.arange\(0, BLOCK_I\)\n)", edit, "O11", "left unwritten"))

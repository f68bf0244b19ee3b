"""Texts that compute something else, or do something else, and must be refused. Each was once accepted."""

from __future__ import annotations

import re
from functools import lru_cache

import pytest
from tvm import te, tirx

from neptune_verified.frontend.te import finite_or_minus_infinity, neg_inf
from neptune_verified.proofs.text import TextRefused, read_back
from tests.accepted.harness import Built, Graph, build
from tests.accepted.programs import CASES

SOFTMAX = "output_over_the_stream_and_one_beside_it"


@lru_cache
def built(name: str = SOFTMAX) -> Built:
    return build(CASES[name].graph(), name)


def edited(b: Built, *edits: tuple[str, str]) -> str:
    text = b.source
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


def refused(b: Built, text: str, *ids: str) -> None:
    with pytest.raises(TextRefused) as e:
        read_back(b.loops, text, "interpret")
    assert e.value.findings[0].id in ids, e.value


def test_the_texts_that_are_edited_are_right() -> None:
    for name in (SOFTMAX, "two_reduction_axes"):
        read_back(built(name).loops, built(name).source, "interpret")


def test_a_value_of_the_outer_loop_where_the_inner_loop_has_updated_it() -> None:
    """All tiles of the inner loop but the last are lost."""
    b = built("two_reduction_axes")
    head = "    for x0 in range(0, P):\n"
    text = edited(
        b,
        (head, f"{head}        kept = s_1\n        top = m_1\n"),
        ("((s_1 * tl.exp((m_1 - t_20)))", "((kept * tl.exp((top - t_20)))"),
        ("tl.maximum(m_1,", "tl.maximum(top,"),
    )
    refused(b, text, "O8")


def test_a_store_that_leaves_out_the_elements_between_two_iterations() -> None:
    b = built()
    second = b.source.index("    for x0_start", b.source.index("    for x0_start") + 1)
    loop = """    for x0_start in range(0, N, BLOCK_X0):
        ps = p_ptr + tl.cast(i, tl.int64) * stride_p_0 + tl.cast(x0_start, tl.int64) * stride_p_1
        at = x_ptr + tl.cast(i, tl.int64) * stride_x_0 + tl.cast(x0_start, tl.int64) * stride_x_1
        tl.store(ps, tl.exp(tl.load(at, mask=t_4, other=0.0) - m) / s, mask=t_4)
"""
    refused(b, b.source[:second] + loop + b.source[b.source.index("    tl.store(lse_ptr") :], "O11")


def test_two_unknown_integers_are_not_one() -> None:
    """An unknown quotient and the unknown that it divides; rows from N on are left out."""
    term = "tl.exp((x_tile_12 - t_19[:, None]))"
    text = edited(
        built(),
        ("        x_tile_12 = ", "        w = ((i[:, None] // N) // M + (i[:, None] // N)) <= 0\n        x_tile_12 = "),
        (f"tl.where((x0 < N)[None, :], {term}, 0.0)", f"tl.where((x0 < N)[None, :], tl.where(w, {term}, 0.0), 0.0)"),
    )
    refused(built(), text, "O13")


@pytest.mark.parametrize(
    "edit",
    [
        (f"def {SOFTMAX}(x,", f"def {SOFTMAX}(x: print('this runs when the file is imported'),"),
        ("out=None, config=None):", "out=None, config: exec('') = None):"),
        ("out=None, config=None):", "out=None, config=None) -> print('so does this'):"),
    ],
)
def test_annotations_run(edit: tuple[str, str]) -> None:
    refused(built(), edited(built(), edit), "O13")


def test_a_comment_that_is_a_statement_in_the_encoding_that_the_file_names() -> None:
    for line in (r"# coding: unicode_escape \nprint('this runs')", "# vim: set fileencoding=utf-7 : +AAo-print(1)"):
        refused(built(), edited(built(), ("# test\n", f"{line}\n")), "O13")
        refused(built(), edited(built(), ("# test\n", f"# test\n{line}\n")), "O13")


def test_what_python_refuses_after_parsing() -> None:
    refused(built(), edited(built(), ("other=0.0)", "other=0.0, other=1.0)")), "O13")


@pytest.mark.parametrize("rows", ["M - 5", "-M", "M // N", "M % N"])
def test_lengths_for_which_no_configuration_is_picked(rows: str) -> None:
    refused(built(), edited(built(), ("_CONFIGS, M, config)", f"_CONFIGS, {rows}, config)")), "O13")


def test_no_program_is_launched_though_there_are_results() -> None:
    text = edited(
        built(),
        ('programs = -(-(M) // blocks["BLOCK_I"])', 'programs = -(-(M) // blocks["BLOCK_I"]) * min(N, 1)'),
        ("    i = pid * BLOCK_I", "    d = pid % tl.minimum(N, 1)\n    i = (pid // tl.minimum(N, 1)) * BLOCK_I"),
    )
    refused(built(), text, "O11")


def test_programs_are_launched_though_two_factors_are_negative() -> None:
    """For M = 0 there is a program, of which the facts say that it does not exist."""
    count = 'programs = -(-(M{}) // blocks["BLOCK_I"])'
    digits = "".join(f"    {n} = tl.minimum({k} * M - 1, 1)\n" for n, k in (("a", 2), ("b", 3)))
    text = edited(
        built(),
        (count.format(""), f"{count.format(' + 1')} * min(2 * M - 1, 1) * min(3 * M - 1, 1)"),
        (
            "    i = pid * BLOCK_I",
            f"{digits}    d = pid % a\n    e = (pid // a) % b\n    i = ((pid // a) // b) * BLOCK_I",
        ),
    )
    refused(built(), text, "O11", "O12")


def test_two_stores_that_write_two_quarters_of_the_results() -> None:
    x = te.placeholder((2, 64), "float32", "x")
    y = te.compute((2, 64), lambda h, j: x[h, j] * 2.0, "y")
    b = build(Graph(inputs=[x], outputs=[y]), "twice")
    loop = """    for a in range({low}, {high}, BLOCK_J):
        j = a + tl.arange(0, BLOCK_J)
        v = tl.load(x_ptr + tl.cast(j, tl.int64) * stride_x_1 + tl.cast({row}, tl.int64) * stride_x_0)
        tl.store(y_ptr + tl.cast(j, tl.int64) * stride_y_1 + tl.cast({row}, tl.int64) * stride_y_0, v * 2.0)
"""
    body = b.source[b.source.index("    pid = ") : b.source.index("#: Argument types")]
    first, second = loop.format(low=0, high=32, row=0), loop.format(low=32, high=64, row=1)
    wrong = b.source.replace(body, f"{first}{second}\n").replace('"BLOCK_J": 1024', '"BLOCK_J": 16')
    count = re.search("programs = .*", wrong)
    assert count
    refused(b, wrong.replace(count.group(), "programs = 1"), "O11")
    both = "".join(loop.format(low=low, high=low + 32, row=row) for row in (0, 1) for low in (0, 32))
    refused(b, wrong.replace(f"{first}{second}", both).replace(count.group(), "programs = 1"), "O11")


@pytest.mark.parametrize("name", ["pid", "element"])
def test_lengths_with_the_names_of_the_proof(name: str) -> None:
    """Half of the rows are written; or the program's index is taken for the number of rows."""
    m, n = te.var(name), te.var("N")
    x = te.placeholder((m, n), "float32", "x")
    j = te.reduce_axis((0, n), "j")
    b = build(Graph(inputs=[x], outputs=[te.compute((m,), lambda i: te.sum(x[i, j], axis=j), "s")]), "total")
    read_back(b.loops, b.source, "interpret")
    rows = re.search(r"programs = -\(-\((\w+)\)", b.source)
    index = re.search(r"(\w+) = tl.program_id\(0\)", b.source)
    assert rows and index
    refused(b, b.source.replace(rows.group(), f"programs = -(-(({rows.group(1)} + 1) // 2)"), "O11")
    start = f"{index.group(1)} * BLOCK_I"
    refused(b, edited(b, (start, start.replace(index.group(1), rows.group(1)))), "O11", "O12", "O13")


PADDING = ("tl.exp((x_tile_12 - t_19[:, None])), 0.0)", "tl.exp((x_tile_12 - t_19[:, None])), {})")


@pytest.mark.parametrize(
    "zero",
    [
        "0.0 * tl.exp(t_19[:, None] * 1024.0)",  # 0 * inf
        "0.0 / tl.exp(t_19[:, None] * -1024.0)",  # 0 / 0
        "0.0 * (t_19[:, None] * 1267650600228229401496703205376.0)",
    ],
)
def test_numbers_that_are_finite_in_mathematics_alone(zero: str) -> None:
    refused(built(), edited(built(), (PADDING[0], PADDING[1].format(zero))), "O9", "O13")


def test_kinds_of_a_value_that_has_no_more_than_the_name_of_a_carried_one() -> None:
    """After its loop ``s`` is given another value, an infinity, which the second loop carries."""
    g = Graph()
    x = g.input("x")
    g.facts = [finite_or_minus_infinity(x)]
    m = g.row("m", te.max, lambda i, j: x[i, j])
    dead = neg_inf("float32")
    e = g.map("e", lambda i, j: tirx.if_then_else(x[i, j] == dead, 0.0, te.exp(x[i, j] - m[i])))
    s = g.row("s", te.sum, lambda i, j: e[i, j])
    b = build(g.returns(g.map("p", lambda i, j: tirx.if_then_else(s[i] == 0.0, 0.0, e[i, j] / s[i]))), "weights")
    read_back(b.loops, b.source, "interpret")
    second, end = b.source.rindex("    for x0_start"), b.source.index("#: Argument types")
    assert second > b.source.index("    for x0_start")
    loop = b.source[second:end].replace("    for x0_start in range(0, N, BLOCK_X0):\n", "")
    name = re.search(r"    (s(?:_\d+)?) = tl.full", b.source)
    assert name
    own = name.group(1)
    loop = re.sub(rf"\b{own}\b(?=\[|\s|\))", "kept", loop).replace(", 0.0, (", f", 0.0 * {own}[:, None], (")
    assert f"0.0 * {own}" in loop, loop
    head = f"    kept = {own}\n    {own} = tl.full([BLOCK_I], float('inf'), tl.float32)\n"
    again = f"    for x0_start in range(0, N, BLOCK_X0):\n        {own} = {own} * 1.0\n"
    refused(b, b.source[:second] + head + again + loop + b.source[end:], "O13")


def test_constants_that_are_rounded_or_overflow_on_the_way() -> None:
    for zero in (
        "tl.full([1, 1], 1267650600228229401496703205376.0, tl.float32) * 1267650600228229401496703205376.0 * 0.0",
        "tl.full([1, 1], 16777216.0, tl.float32) + 1.0 - 16777217.0 + 0.0",
    ):
        text = edited(built(), (PADDING[0], PADDING[1].format(f"({zero})")))
        refused(built(), text, "O13", "O9", "O16")
    one = "(tl.full([1], 16777216.0, tl.float32) + 1.0) - 16777216.0"
    g = Graph()
    x = g.input("x", (g.M,))
    b = build(g.returns(g.each("y", lambda i: tirx.if_then_else(x[i] < 0.0, 1.0, x[i]))), "ones")
    read_back(b.loops, b.source, "interpret")
    refused(b, edited(b, (", 1.0, ", f", {one}, ")), "O13", "O16")


def test_a_number_that_is_not_equal_to_itself() -> None:
    """The difference of two infinities; and an input at a masked position, which may be NaN."""
    odd = "w = tl.full([1, 1], float('inf'), tl.float32) - float('inf')"
    text = edited(
        built(),
        ("        x_tile_12 = ", f"        {odd}\n        x_tile_12 = "),
        (PADDING[0], "tl.where(w == w, tl.exp((x_tile_12 - t_19[:, None])), 0.0), 0.0)"),
    )
    refused(built(), text, "O13")
    g = Graph()
    x = g.input("x")
    s = g.row("s", te.sum, lambda i, j: tirx.if_then_else(j < 5, x[i, j], 0.0))
    b = build(g.returns(s), "first")
    read_back(b.loops, b.source, "interpret")
    found = re.search(r"tl.where\(\(x0 < 5\)\[None, :\], (\w+), 0.0\)", b.source)
    assert found
    tile = found.group(1)
    loaded = re.sub(r"mask=.*, other", "mask=(i < M)[:, None] & (x0 < N)[None, :], other", b.source)
    leak = f"tl.where((x0 < 5)[None, :], {tile}, tl.where({tile} == {tile}, 0.0, {tile}))"
    refused(b, loaded.replace(found.group(), leak), "O9", "O13")


def test_numbers_that_become_tiles_of_32_bits_when_they_are_given_a_name() -> None:
    seen = "        c = 65536\n        e = c * c\n        g = tl.cast(x0, tl.int64) < e\n        x_tile_12 = "
    text = edited(
        built(),
        ("        x_tile_12 = ", seen),
        ("tl.where((x0 < N)[None, :], tl.exp((x_tile_12", "tl.where(((x0 < N) & g)[None, :], tl.exp((x_tile_12"),
    )
    refused(built(), text, "O12")
    refused(built(), text.replace("c = 65536", "c = 0.5"), "O16", "O12", "O13")


RANGE = [
    ("    M, N,\n", "    M, range,\n"),
    ("N, BLOCK_X0", "range, BLOCK_X0"),
    ("< N", "< range"),
    ('"N": "', '"range": "'),
]
LOOP = [("for x0_start in", "for tl in"), ("x0_start +", "tl +")]
FIRST = [("    x_ptr, lse", "    BLOCK_Q: tl.constexpr, x_ptr, lse"), ('"BLOCK_I": 4', '"BLOCK_Q": 1, "BLOCK_I": 4')]
OPTION = [
    ("    BLOCK_I: tl", "    num_warps: tl.constexpr, BLOCK_I: tl"),
    ('"BLOCK_I": 4', '"num_warps": 4, "BLOCK_I": 4'),
]


@pytest.mark.parametrize("edits", [RANGE, LOOP, FIRST, OPTION])
def test_kernels_that_cannot_run(edits: list[tuple[str, str]]) -> None:
    refused(built(), edited(built(), *edits), "O13")


def test_what_the_reader_cannot_handle_is_refused() -> None:
    huge = f"0.0 * (1{'0' * 400} / 3), m_new)"
    refused(built(), edited(built(), ('== float("-inf")), 0.0, m_new)', f'== float("-inf")), {huge}')), "O13")
    loop = "    for x0_start in range(0, N, BLOCK_X0):\n"
    again = f"{loop}        for t_4 in range(0, 3):\n            zz = t_4 + 1\n"
    refused(built(), edited(built(), (loop, again)), "O13")


def test_a_launcher_that_is_a_generator() -> None:
    message = 'but the kernel assumes M >= 0"'
    assert message in built().source
    refused(built(), edited(built(), (message, 'but the kernel assumes M >= 0 {(yield)}"')), "O13")


def test_constants_that_go_through_float32() -> None:
    g = Graph()
    x = g.input("x", (g.M,), "float64")
    tenth = tirx.const(0.1, "float64")
    b = build(g.returns(g.each("y", lambda i: tirx.if_then_else(i < 5, x[i], tenth))), "tenths")
    read_back(b.loops, b.source, "interpret")
    where = re.search(r"tl.where\(\((\w+) < 5\), (\w+), 0.1\)", b.source)
    load = re.search(r"mask=.*, other=0.0\)", b.source)
    assert where and load
    other = load.group().replace("mask=", f"mask=({where.group(1)} < 5) & ").replace("other=0.0", "other=0.1")
    refused(b, edited(b, (where.group(), where.group(2)), (load.group(), other)), "O16")


def test_right_texts_with_lengths_that_are_numbers() -> None:
    x = te.placeholder((2, 64), "float32", "x")
    b = build(Graph(inputs=[x], outputs=[te.compute((2, 64), lambda h, j: x[h, j] * 2.0, "y")]), "twice")
    for block in (16, 1024):
        read_back(b.loops, b.source.replace('"BLOCK_J": 1024', f'"BLOCK_J": {block}'), "interpret")


def test_a_comparison_with_a_number_that_is_an_infinity_in_mathematics_alone() -> None:
    guard = ('(m_new == float("-inf"))', '(m_new == (float("-inf") + tl.exp(t_17 * 1024.0)))')
    finite = ("        m_new = ", "        t_17 = tl.max(x_tile_12, axis=1)\n        m_new = ")
    refused(built(), edited(built(), finite, guard), "O8", "O13")

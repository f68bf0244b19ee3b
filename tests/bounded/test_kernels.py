"""Kernels written by hand: control flow that the printer may use, what has to be covered, and the front of the file."""

from __future__ import annotations

import ast

import pytest

from neptune_verified.mutants.text_programs import text_base
from neptune_verified.proofs.bounded import BoundedResult, bounded
from neptune_verified.proofs.bounded.source import DEVICE, HOST, digest
from neptune_verified.tile.ops import HELPERS
from tests.accepted.harness import Built
from tests.accepted.test_examples import built as example
from tests.bounded.edits import Edit
from tests.bounded.test_accepted import accepted

#: The loop over the tiles that the diagonal cuts; it may go on to the last tile that some row sees, or further.
CAUSAL_LOOP = "for x0_start in range(x0_full_hi, x0_hi, BLOCK_X0):"
#: One past the last column that some row of this tile may see.
LAST = "i_first + BLOCK_I + N - M"


def causal() -> Built:
    return example("attention", "causal", "float32")


def with_bound(bound: str) -> str:
    """The masked example, with a loop that ends where the mask ends for the tile of rows."""
    source = causal().source
    assert source.count(CAUSAL_LOOP) == 1
    return source.replace(CAUSAL_LOOP, f"for x0_start in range(x0_full_hi, {bound}, BLOCK_X0):")


def check(b: Built, source: str) -> BoundedResult:
    return bounded(b.program, source)


def test_a_loop_may_end_where_the_mask_does() -> None:
    result = check(causal(), with_bound(f"tl.minimum(N, {LAST})"))
    assert result.verdict == "proved", result.detail


@pytest.mark.parametrize(
    "bound", [f"tl.minimum(N, {LAST} - 1)", f"tl.minimum(N - 1, {LAST})", f"tl.maximum(0, {LAST} - BLOCK_X0)"]
)
def test_a_loop_may_not_end_earlier(bound: str) -> None:
    result = check(causal(), with_bound(bound))
    assert result.verdict == "refuted" and result.findings[0].id in ("O13", "O9"), result


def test_a_loop_may_be_cut_in_two() -> None:
    """Whole tiles first, then the tail: the body twice, carried values in between."""
    b = accepted("shift_by_max_under_sum")
    head, rest = b.source.split("    for x0_start in range(0, N, BLOCK_X0):\n")
    end = rest.index("    tl.store(")
    body = rest[:end]
    cut = f"    whole = N // BLOCK_X0 * BLOCK_X0\n    for x0_start in range(0, whole, BLOCK_X0):\n{body}"
    two = (
        f"{head}{cut}    for x1_start in range(whole, N, BLOCK_X0):\n{body.replace('x0_start', 'x1_start')}{rest[end:]}"
    )
    result = check(b, two)
    assert result.verdict == "proved", result.detail  # the second loop can run only once
    wrong = two.replace("range(whole, N, BLOCK_X0)", "range(whole + 1, N, BLOCK_X0)")
    assert check(b, wrong).verdict == "refuted"


def test_a_loop_that_runs_for_long_rows_only() -> None:
    """No evaluation gets there, but counting the iterations shows that it can run."""
    b = accepted("shift_by_max_under_sum")
    late = b.source.replace(
        "    tl.store(", "    for k in range(0, N // 500000):\n        s_1 = s_1 + 1.0\n    tl.store(", 1
    )
    result = check(b, late)
    assert result.verdict == "unknown" and "loop" in result.detail, result


def test_a_loop_that_never_runs_is_dead_text() -> None:
    b = accepted("shift_by_max_under_sum")
    never = b.source.replace(
        "    tl.store(", "    for k in range(N, tl.minimum(N, 7)):\n        s_1 = s_1 + 1.0\n    tl.store(", 1
    )
    assert check(b, never).verdict == "proved"


def test_a_branch_on_a_length() -> None:
    b = accepted("shift_by_max_under_sum")
    store = next(line for line in b.source.splitlines() if line.startswith("    tl.store("))
    branch = f"    if N > BLOCK_X0:\n    {store}\n    else:\n    {store}"
    assert check(b, b.source.replace(store, branch)).verdict == "proved"
    wrong = branch.replace("    else", "    else", 1).replace("s_1, mask", "m, mask", 1)
    assert wrong != branch and check(b, b.source.replace(store, wrong)).verdict == "refuted"
    hidden = branch.replace("N > BLOCK_X0", "N < 1000000")
    result = check(b, b.source.replace(store, hidden))
    assert result.verdict == "unknown" and "condition" in result.detail


def test_a_comparison_that_never_comes_out_both_ways() -> None:
    b = accepted("shift_by_max_under_sum")
    hidden = Edit(
        "", "", r"(x_tile_\d+) = (tl\.load\(.*\))\n", r"\1 = \2\n        \1 = tl.where(\1 > 1234.5, 0.0, \1)\n", ""
    )
    result = check(b, hidden.apply(b.source))
    assert result.verdict == "unknown" and "1234.5" in result.detail


def test_what_a_loop_defines_is_gone_after_it() -> None:
    b = accepted("shift_by_max_under_sum")
    late = Edit("", "", r"(stride_s_0\)), s_1", r"\1, s_new", "")
    result = check(b, late.apply(b.source))
    assert result.verdict == "refuted" and "s_new is not defined" in result.findings[0].what


def test_the_table_of_helpers_is_that_of_the_printer() -> None:
    for name, text in HELPERS.items():
        assert digest(ast.parse(text).body[0]) == DEVICE[name], name
    tree = ast.parse(text_base("split_softmax").source)
    mine = {s.name: digest(s) for s in tree.body if isinstance(s, ast.FunctionDef | ast.ClassDef) and s.name in HOST}
    assert mine == HOST


def test_a_digest_sees_everything_but_positions() -> None:
    text = "def f(x):\n    return x + 1\n"
    same = digest(ast.parse(text).body[0])
    assert digest(ast.parse("\n\n" + text.replace("x + 1", "x  +  1  # one")).body[0]) == same
    for other in ("x + 2", "x + 1.0", "x - 1", "y + 1", "x + True", "1 + x"):
        assert digest(ast.parse(text.replace("x + 1", other)).body[0]) != same


def test_findings_say_where_and_at_which_lengths() -> None:
    b = example("softmax", "softmax", "float32")
    wrong = b.source.replace("range(0, N, BLOCK_X0)", "range(0, N - 1, BLOCK_X0)", 1)
    finding = check(b, wrong).findings[0]
    line = int(finding.place.removeprefix("kernel.py:"))
    assert "tl.store(p_ptr" in b.source.splitlines()[line - 1]
    assert set(finding.lengths) == {"M", "N"} and str(finding).startswith(f"{finding.id} kernel.py:{line}: p[")


def test_another_program_is_not_what_the_kernel_computes() -> None:
    a, b = accepted("shift_by_max_under_sum"), accepted("shift_by_min_under_sum")
    renamed = a.source.replace("shift_by_max_under_sum", "shift_by_min_under_sum")
    assert bounded(b.program, renamed).verdict == "refuted"
    assert bounded(b.program, a.source).verdict == "refuted"

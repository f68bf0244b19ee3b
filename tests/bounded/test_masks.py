"""Kernels whose loops come from a mask: all of them pass, and edits of their bounds, guards and phases do not."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import pytest

from neptune_verified.proofs.bounded import OBLIGATIONS, bounded
from tests.accepted.harness import Built, Graph, build
from tests.bounded.edits import Edit
from tests.masks import test_kernels
from tests.masks.programs import MASKS, compiled


class _Captured(Exception):
    pass


@cache
def masked(name: str) -> Built:
    return compiled(name)


@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str) -> None:
    b = masked(name)
    result = bounded(b.program, b.source, "interpret")
    assert result.verdict == "proved", result.detail
    assert all(result.covers(x) for x in OBLIGATIONS)


def _compiled_in(test: Any, arguments: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> tuple[Graph, str]:
    """What a test of the kernels compiles first."""
    found: list[tuple[Graph, str]] = []

    def capture(graph: Graph, name: str) -> Built:
        found.append((graph, name))
        raise _Captured

    monkeypatch.setattr(test_kernels, "build", capture)
    with pytest.raises(_Captured):
        test(*arguments)
    return found[0]


_OWN = ("test_a_scalar_argument", "test_a_window_of_each_head", "test_documents", "test_a_product_of_masked_terms_is_1",
        "test_masks_that_read_a_tensor_guard_the_values", "test_no_mask_at_all",
        "test_every_reduction_of_the_pass_must_ignore_the_masked_elements", "test_a_mask_in_several_selects",
        "test_a_pass_that_stores_visits_every_tile", "test_a_weight_that_is_masked_is_not_multiplied",
        "test_a_store_of_the_same_load_is_not_masked")  # fmt: skip
_TILES = test_kernels.test_tiles_are_skipped_only_where_the_masked_value_is_neutral
PROGRAMS = [(getattr(test_kernels, name), ()) for name in _OWN]
PROGRAMS += [(_TILES, x) for m in _TILES.pytestmark if m.name == "parametrize" for x in m.args[1]]


@pytest.mark.parametrize(("test", "arguments"), PROGRAMS)
def test_other_programs(test: Any, arguments: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    b = build(*_compiled_in(test, arguments, monkeypatch))
    result = bounded(b.program, b.source, "interpret")
    assert result.verdict == "proved", result.detail


def test_no_program_is_left_out() -> None:
    with_build = {
        n for n, f in vars(test_kernels).items() if n.startswith("test_") and "build(" in inspect.getsource(f)
    }
    assert with_build == {f.__name__ for f, _ in PROGRAMS}


C, B, W, P = "causal", "causal bottom-right", "window bottom-right", "prefix-LM"
EDITS = [
    # a loop bound one tile short
    Edit("short", C, r"range\(x0_full_hi, x0_hi,", "range(x0_full_hi, x0_hi - BLOCK_X0,", "O13 O9"),
    Edit("short", B, r"range\(x0_full_hi, x0_hi,", "range(x0_full_hi, x0_hi - BLOCK_X0,", "O13 O9"),
    Edit("short", B, r"range\(0, x0_full_hi,", "range(0, x0_full_hi - BLOCK_X0,", "O13 O9"),
    Edit("short", W, r"range\(x0_full_hi, x0_hi,", "range(x0_full_hi, x0_hi - BLOCK_X0,", "O13 O9"),
    # the full loop extended by one tile (which has lanes that are masked, or are not there)
    Edit("long", C, r"range\(0, x0_full_hi,", "range(0, x0_full_hi + BLOCK_X0,", "O11 O13 O9"),
    Edit("long", B, r"range\(0, x0_full_hi,", "range(0, x0_full_hi + BLOCK_X0,", "O11 O13 O9"),
    Edit("long", C, r"x0_full_hi = (.*)\n", r"x0_full_hi = \1 + BLOCK_X0\n", "O11 O13 O9"),
    # the second loop starts one tile late, or early, so that phases overlap
    Edit("late", C, r"range\(x0_full_hi, x0_hi,", "range(x0_full_hi + BLOCK_X0, x0_hi,", "O13 O9"),
    Edit("late", W, r"range\(x0_lo, ", "range(x0_lo + BLOCK_X0, ", "O13 O9"),
    Edit("overlap", C, r"range\(x0_full_hi, x0_hi,", "range(tl.maximum(x0_full_hi - BLOCK_X0, 0), x0_hi,", "O13"),
    Edit("overlap", B, r"range\(x0_full_hi, x0_hi,", "range(0, x0_hi,", "O13"),
    Edit("overlap", W, r"range\(x0_full_hi, x0_hi,", "range(x0_lo, x0_hi,", "O13"),
    # the first row of the tile where the last one counts, and the other way round
    Edit("ends", B, r"x0_hi = (.*)i_last", r"x0_hi = \1i_first", "O13 O9"),
    Edit("ends", B, r"x0_full_hi = (.*)i_first", r"x0_full_hi = \1i_last", "O11 O13 O9"),
    Edit("ends", C, r"i_last = tl\.minimum\(i_first \+ BLOCK_I, M\) - 1", "i_last = i_first", "SAME"),  # aligned tiles
    Edit("ends", W, r"i_last = tl\.minimum\(i_first \+ BLOCK_I, M\) - 1", "i_last = i_first", "O13 O9"),
    # the guard by which values that no row counts are not read
    Edit("guard", C, r"mask=\((t_\d+) & \(tl\.max\(.*?\) != 0\)\)\[:, None\]", r"mask=\1[:, None]", "O9"),
    Edit("guard", B, r"mask=\((t_\d+) & \(tl\.max\(.*?\) != 0\)\)\[:, None\]", r"mask=\1[:, None]", "O9"),
    Edit("guard", W, r"mask=\((t_\d+) & \(tl\.max\(.*?\) != 0\)\)\[:, None\]", r"mask=\1[:, None]", "O9"),
    # limits of lengths
    Edit("limit", C, r"    _check_limit\(\(\(\"M\", M\), \(\"N\", N\),\)\)\n", "", "O12"),
    Edit("limit", C, r"\(\(\"M\", M\), \(\"N\", N\),\)", '(("M", M),)', "O12"),
]  # fmt: skip


@pytest.mark.parametrize("edit", EDITS, ids=lambda e: f"{e.kind}-{e.kernel}-{e.new[:24]}")
def test_edits(edit: Edit) -> None:
    b = masked(edit.kernel)
    result = bounded(b.program, edit.apply(b.source))
    if edit.ids == "SAME":
        assert result.verdict == "proved", result.detail
        return
    assert result.verdict == "refuted", result.detail
    assert result.findings[0].id in edit.ids.split(), result.findings[0]


def test_what_was_covered_is_the_same_each_time() -> None:
    b = masked("window")
    first, second = (bounded(b.program, b.source) for _ in range(2))
    assert first == second and len({first.covers(x) for x in OBLIGATIONS}) == len(OBLIGATIONS)
    assert "all 2 configurations" in first.covers("O13")
    assert first.dead and all(f"line {x}" in str(first.paths) for x in first.dead)


def test_every_loop_runs_in_every_configuration() -> None:
    b = masked("causal bottom-right")
    result = bounded(b.program, b.source)
    assert not result.dead and result.loops == 2

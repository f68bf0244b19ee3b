"""Indices that read the same keys and values are the rows of one tile."""

from __future__ import annotations

import re

import pytest

from neptune_verified.fusion.fuse import fuse
from neptune_verified.ir.expr import Expr, axis, const, op, read, reduce_, size
from neptune_verified.ir.program import Program, Stage, Tensor
from neptune_verified.tile.blocks import pack
from tests.split import kernels as k

F = "float32"


@pytest.mark.parametrize(("name", "group"), [("decode", 2), ("decode_three", 3), ("decode_uneven", 3)])
def test_a_group_is_one_tile(name: str, group: int) -> None:
    kernel = k.kernel(name)
    for part in ("", "_part0"):
        text = re.search(rf"def _decode{part}_kernel\(.*?\n\n", kernel.source, re.DOTALL)
        assert text is not None
        assert f"h = tl.where(h_lane < {group}, h_group * {group} + h_lane," in text.group()
        loads = re.findall(r"(?:k|v)_tile_\d+ = tl\.load\(.*", text.group())
        # The keys and values of a group are loaded once: by its number, not by its rows.
        assert loads and all("tl.cast(h_group, tl.int64) * stride_" in x and "h[:, None]" not in x for x in loads)
        assert "tl.dot(" in text.group()


def test_one_head_for_each_query_head_is_not_packed() -> None:
    assert "h_group" not in k.kernel("decode_heads").source


def product(index: Expr, h: int = 8, rows: bool = False) -> Program:
    """z[h(, i)] = sum_j q[h(, i), j] k[index, j] over the heads h."""
    n, m = size("N"), size("M")
    head, j, i = axis("h", h), axis("j", n), axis("i", m)
    row = (head, i) if rows else (head,)
    q = Tensor("q", (const(h, "int32"), *((m,) if rows else ()), n), F)
    keys = Tensor("k", (const(h, "int32"), n), F)
    body = reduce_("sum", (j,), op("mul", read("q", (*row, j), F), read("k", (index, j), F)))
    return Program("z", (q, keys), (m, n) if rows else (n,), (Stage("z", row, body),), ("z",))


HEAD = axis("h", 8)


@pytest.mark.parametrize(("index", "rows", "group"), [
    (op("floordiv", HEAD, const(4, "int32")), False, 4),
    (op("floordiv", HEAD, const(3, "int32")), False, 3),
    (op("floordiv", HEAD, const(4, "int32")), True, 0),  # there are rows already
    (op("floormod", HEAD, const(4, "int32")), False, 0),  # neighbours read different keys
    (op("floordiv", HEAD, const(1, "int32")), False, 0),
    (HEAD, False, 0),
    (op("floordiv", op("add", HEAD, const(1, "int32")), const(4, "int32")), False, 0),
    (op("floordiv", HEAD, const(128, "int32")), False, 0),  # more than a tile holds
])  # fmt: skip
def test_what_is_packed(index: Expr, rows: bool, group: int) -> None:
    (nest,) = fuse(product(index, rows=rows)).nests
    packed, packing = pack(nest)
    assert (packing.size if packing else 0) == group
    assert (packed is nest) == (not group)


def test_both_a_quotient_and_the_index_itself_are_read_by_one_operand() -> None:
    """Then its elements are different ones for each index, and there is nothing to share."""
    head, j = HEAD, axis("j", size("N"))
    keys = op("add", read("k", (op("floordiv", head, const(4, "int32")), j), F), read("k", (head, j), F))
    body = reduce_("sum", (j,), op("mul", read("q", (head, j), F), keys))
    tensors = tuple(Tensor(x, (const(8, "int32"), size("N")), F) for x in "qk")
    (nest,) = fuse(Program("z", tensors, (size("N"),), (Stage("z", (head,), body),), ("z",))).nests
    assert pack(nest)[1] is None

"""The loops of emitted texts visit the tiles that have an element to see, each once, and no other: their bounds are read
from the text and evaluated here, apart from the reader of texts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.masks.programs import MASKS, live
from tests.masks.test_kernels import built

LENGTHS = ((1, 1), (1, 100), (100, 1), (16, 16), (17, 16), (16, 17), (15, 33), (33, 15), (12, 24), (24, 12),
           (40, 40), (64, 64), (65, 63), (63, 65), (5, 200), (200, 5), (150, 150), (0, 7), (7, 0), (96, 128))  # fmt: skip
BLOCKS = ((16, 16), (16, 64), (64, 16), (1, 2))


class Device:
    """Integers of the device: // and % truncate. Anything else is ``None``."""

    def __init__(self, env: dict[str, int]) -> None:
        self.env: dict[str, int | None] = dict(env)

    def value(self, e: ast.expr) -> int | None:
        match e:
            case ast.Constant(value=int() as n):
                return n
            case ast.Name(name):
                return self.env.get(name)
            case ast.BinOp(left, operation, right):
                return self.binary(operation, self.value(left), self.value(right))
            case ast.UnaryOp(ast.USub(), operand):
                x = self.value(operand)
                return None if x is None else -x
            case ast.Call(ast.Attribute(ast.Name("tl"), name), args):
                return self.call(name, [self.value(a) for a in args[: 1 if name == "cast" else None]])
        return None

    @staticmethod
    def binary(operation: ast.operator, a: int | None, b: int | None) -> int | None:
        if a is None or b is None:
            return None
        match operation:
            case ast.Add():
                return a + b
            case ast.Sub():
                return a - b
            case ast.Mult():
                return a * b
            case ast.FloorDiv() | ast.Mod():
                quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
                return quotient if isinstance(operation, ast.FloorDiv) else a - quotient * b
        return None

    @staticmethod
    def call(name: str, args: list[int | None]) -> int | None:
        known = [a for a in args if a is not None]
        if len(known) < len(args) or name not in ("minimum", "maximum", "cast", "cdiv"):
            return None
        if name == "cdiv":
            return -(-known[0] // known[1])
        return min(known) if name == "minimum" else max(known)

    def loops(self, body: list[ast.stmt]) -> Iterator[list[int]]:
        """The starts that each loop of a kernel visits."""
        for s in body:
            if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name):
                pid = isinstance(s.value, ast.Call) and "program_id" in ast.unparse(s.value)
                self.env[s.targets[0].id] = self.env["pid"] if pid else self.value(s.value)
            elif isinstance(s, ast.For):
                assert isinstance(s.iter, ast.Call)
                bounds = [self.value(a) for a in s.iter.args]
                assert None not in bounds, ast.unparse(s.iter)
                yield list(range(*(x for x in bounds if x is not None)))


def kernel_of(name: str) -> list[ast.stmt]:
    functions = [f for f in ast.parse(built(name).source).body if isinstance(f, ast.FunctionDef)]
    return next(f for f in functions if f.name.endswith("_kernel")).body


@pytest.mark.parametrize("name", MASKS)
def test_tiles_that_are_visited(name: str) -> None:
    body = kernel_of(name)
    for m, n in LENGTHS:
        mask: Any = live(name, m, n)
        for rows, columns in BLOCKS:
            for tile in range(-(-m // rows)):
                env = {"pid": tile, "M": m, "N": n, "BLOCK_I": rows, "BLOCK_X0": columns}
                visited = [x for loop in Device(env).loops(body) for x in loop]
                seen = mask[tile * rows : (tile + 1) * rows].any(axis=0)
                wanted = [x for x in range(0, n, columns) if seen[x : x + columns].any()]
                what = f"M = {m}, N = {n}, tiles of {rows} x {columns}, row tile {tile}"
                assert sorted(visited) == wanted, what


def test_division_truncates() -> None:
    device = Device({"a": -7, "b": 2})
    for text, want in (("a // b", -3), ("a % b", -1), ("(7 // b) * b", 6), ("tl.cdiv(7, b)", 4), ("x + 1", None)):
        expression = ast.parse(text, mode="eval").body
        assert device.value(expression) == want, text
    assert np.array_equal(live("causal", 2, 2), [[True, False], [True, True]])

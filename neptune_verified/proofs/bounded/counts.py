"""Trusted: how often the loops of the kernels run, at many lengths at once, from the scalars of the text alone.

An array has one row per choice of lengths and one column per program. What is no integer scalar is left out, and so are
the loops whose bounds read such a value. ``//`` is that of Python: where Triton's differs, the evaluation finds a fault.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from neptune_verified.ir.expr import Size
from neptune_verified.ir.program import Program
from neptune_verified.proofs.bounded.field import Array
from neptune_verified.proofs.bounded.source import KernelFile
from neptune_verified.proofs.bounded.views import is_shares, shares_of

#: Into how many shares an axis is split here.
SPLITS = 2
#: Programs of a grid that are looked at: the first ones, two in the middle, the last ones.
_FIRST, _LAST = 6, 6


@dataclass(slots=True)
class Counted:
    """One launch: the programs [points, programs], and the iterations of each loop by its line."""

    kernel: str
    config: str
    pids: Array
    loops: dict[int, Array] = field(default_factory=dict)


class Scalars:
    def __init__(self, names: Mapping[str, Array]) -> None:
        self.names: dict[str, Array] = dict(names)

    def eval(self, e: ast.expr) -> Array | None:
        match e:
            case ast.Constant(value=bool()):
                return None
            case ast.Constant(value=int() as n):
                return np.asarray(n, dtype=np.int64)
            case ast.Name(id=name):
                return self.names.get(name)
            case ast.Subscript():
                return self.names.get(ast.unparse(e))
            case ast.UnaryOp(op=ast.USub(), operand=x):
                a = self.eval(x)
                return None if a is None else -a
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(type(op), self.eval(left), self.eval(right))
            case ast.Call(func=ast.Name(id=name), args=[x, y], keywords=[]):
                return self._call(name, self.eval(x), self.eval(y))
            case ast.Call(func=ast.Attribute(value=ast.Name(id="tl"), attr="cast"), args=[x, _], keywords=[]):
                return self.eval(x)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="tl"), attr="program_id")):
                return self.names.get("tl.program_id")
            case ast.Call(func=ast.Attribute(value=ast.Name(id="tl"), attr=name), args=[x, y], keywords=[]):
                return self._call(name, self.eval(x), self.eval(y))
            case _:
                return None

    @staticmethod
    def _binary(op: type[ast.operator], a: Array | None, b: Array | None) -> Array | None:
        if a is None or b is None:
            return None
        if op in (ast.FloorDiv, ast.Mod):
            safe = np.where(b == 0, 1, b)
            return np.asarray(a // safe if op is ast.FloorDiv else a % safe)
        table = {ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply}
        return np.asarray(table[op](a, b)) if op in table else None

    @staticmethod
    def _call(name: str, a: Array | None, b: Array | None) -> Array | None:
        if a is None or b is None:
            return None
        match name:
            case "minimum" | "min":
                return np.minimum(a, b)
            case "maximum" | "max":
                return np.maximum(a, b)
            case "cdiv":
                return np.asarray(-(-a // np.where(b == 0, 1, b)))
            case _:
                return None


def counts(file: KernelFile, program: Program, sizes: Mapping[str, Array], choice: int) -> list[Counted]:
    """Every launch at the lengths ``sizes`` (legal ones, arrays of one dimension), in configuration ``choice``."""
    assert file.launcher is not None
    column = {k: v.reshape(-1, 1) for k, v in sizes.items()}
    points = max((len(v) for v in sizes.values()), default=1)
    shaped = program.shape_sizes()
    host = Scalars({k: v for k, v in column.items() if k not in shaped})
    for t in program.inputs:
        for k, d in enumerate(t.shape):
            if isinstance(d, Size):
                host.names[f"{t.name}.shape[{k}]"] = column[d.name]
    tensors = {t.name for t in program.inputs} | set(program.outputs)
    blocks: dict[str, Array] = {}
    result: list[Counted] = []
    config = ""
    enough: Array = np.ones((1, 1), dtype=bool)  # elements for so many shares, in every axis that is split
    for s in file.launcher.body:
        match s:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if (a := host.eval(value)) is not None:
                    host.names[name] = a
            case ast.Assign() if is_shares(s):
                length, block = shares_of(s)
                if (a := host.eval(length)) is not None:
                    half = (a + SPLITS - 1) // SPLITS
                    host.names |= {"shares": np.full_like(a, SPLITS), "share": -(-half // block) * block}
                    enough = enough & (a >= SPLITS)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call(func=ast.Name(id="_between"))):
                tensors |= {n.id for n in names if isinstance(n, ast.Name)}
            case ast.Assign(value=ast.Call(func=ast.Name(id="_pick"), args=[ast.Name(id=table), *_])):
                if table in file.tables:
                    picked = file.tables[table][min(choice, len(file.tables[table]) - 1)]
                    blocks = {k: np.asarray(n, dtype=np.int64) for k, n in picked.blocks.items()}
                    host.names |= {f"blocks['{k}']": n for k, n in blocks.items()}
                    config = picked.name
            case ast.If(
                test=ast.Name(id=grid),
                body=[
                    ast.With(body=[ast.Expr(value=ast.Call(func=ast.Subscript(value=ast.Name(id=kernel)), args=args))])
                ],
            ) if kernel in file.kernels and grid in host.names:
                numbers = [
                    host.eval(a)
                    for a in args
                    if not isinstance(a, ast.Starred) and not (isinstance(a, ast.Name) and a.id in tensors)
                ]
                n = np.broadcast_to(host.names[grid], (points, 1))
                result.append(_launch(file.kernels[kernel], config, n, blocks, numbers))
    for launch in result:
        launch.loops = {line: np.where(enough, times, 0) for line, times in launch.loops.items()}
    return result


def _launch(
    kernel: ast.FunctionDef, config: str, n: Array, blocks: Mapping[str, Array], numbers: list[Array | None]
) -> Counted:
    middle = n // 2
    pids = np.concatenate(
        [np.arange(_FIRST)[None, :] + 0 * n, middle - 1, middle, n - 1 - np.arange(_LAST)[::-1][None, :]], axis=1
    )
    found = Counted(kernel.name, config, np.clip(pids, 0, np.maximum(n - 1, 0)))
    plain = [a.arg for a in kernel.args.args if a.annotation is None]
    names = dict(blocks) | {"tl.program_id": found.pids}
    for name, x in zip(plain[len(plain) - len(numbers) :], numbers, strict=True):
        if x is not None:
            names[name] = x
    _block(kernel.body, Scalars(names), np.broadcast_to(n > 0, found.pids.shape), found)
    return found


def _block(body: list[ast.stmt], scalars: Scalars, reached: Array, found: Counted) -> None:
    for s in body:
        match s:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                _set(scalars, name, scalars.eval(value))
            case ast.For(target=ast.Name(id=name), iter=ast.Call(args=args), body=inner):
                bounds = [scalars.eval(a) for a in args]
                for changed in (name, *_assigned(inner)):
                    _set(scalars, changed, None)
                times = _times(bounds)
                if times is not None:
                    times = np.where(reached, times, 0)
                    found.loops[s.lineno] = np.broadcast_to(times, found.pids.shape)
                _block(inner, Scalars(scalars.names), reached if times is None else times > 0, found)
            case ast.If(body=body, orelse=other):
                for part in (body, other):
                    _block(part, Scalars(scalars.names), reached, found)
                for changed in (*_assigned(body), *_assigned(other)):
                    _set(scalars, changed, None)


def _set(scalars: Scalars, name: str, value: Array | None) -> None:
    if value is None:
        scalars.names.pop(name, None)
    else:
        scalars.names[name] = value


def _assigned(body: list[ast.stmt]) -> list[str]:
    return [n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def _times(bounds: list[Array | None]) -> Array | None:
    known = [b for b in bounds if b is not None]
    if len(known) != len(bounds) or not 1 <= len(known) <= 3:
        return None
    lo, hi = (known[0], known[1]) if len(known) > 1 else (np.zeros((), dtype=np.int64), known[0])
    step = known[2] if len(known) == 3 else np.ones((), dtype=np.int64)
    return np.asarray(np.maximum(0, -((lo - hi) // np.maximum(step, 1))))

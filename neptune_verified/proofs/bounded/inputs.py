"""Trusted: random inputs of the declared domain: atoms in normal form, and patterns that meet the special cases."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from neptune_verified.ir.expr import FLOATS, Const, Expr, Op, Read, Size, subterms
from neptune_verified.ir.program import Program, Tensor
from neptune_verified.proofs.bounded.domain import Domain
from neptune_verified.proofs.bounded.field import Array, U
from neptune_verified.proofs.bounded.lengths import Trial
from neptune_verified.proofs.bounded.memory import WIDTHS, Memory
from neptune_verified.proofs.bounded.values import Bit, Int, Val

_LEAST, _GREATEST = 0.25, 1.5


@dataclass(frozen=True, slots=True)
class Facts:
    """What is declared about the elements of a tensor."""

    least: float | None
    greatest: float
    zero: bool
    minus_infinity: bool

    @staticmethod
    def of(program: Program, name: str) -> Facts:
        kinds = {a.kind: a.value for a in program.assumptions if a.subject == name}
        least = kinds.get("at_least")
        if least is None and ("positive" in kinds or "nonnegative" in kinds):
            least = 0.0
        zero = not ("positive" in kinds or "nonzero" in kinds or (least is not None and least > 0))
        greatest = kinds.get("bounded")
        return Facts(least, np.inf if greatest is None else float(greatest), zero, "finite_or_minus_infinity" in kinds)


def tensors(
    program: Program, domain: Domain, shapes: Mapping[str, tuple[int, ...]], trial: Trial, seed: int
) -> dict[str, Memory]:
    """Contents of every input."""
    result: dict[str, Memory] = {}
    past = False  # the input that has the cliff
    for t in program.inputs:
        rng = np.random.default_rng([seed, zlib.crc32(t.name.encode())])
        shape = shapes[t.name]
        value: Val | Int | Bit
        if t.dtype in FLOATS:
            value = _floats(domain, t, Facts.of(program, t.name), shape, trial, rng)
            if trial.cliff and not past:
                high = _cliff(t, shape, trial)
                value.f += high * min(trial.shift, _room(program, t))
                past = high.ndim > 0
            elif (
                trial.shift > 1 and not trial.cliff
            ):  # the first tensor below 0, the others above: so are their products
                value.f += np.clip(trial.shift if result else -trial.shift, -_room(program, t), _room(program, t))
            assert value.Q is not None
            value.P, value.Q = (
                domain.field.signed(x, value.f < 0, m) for x, m in ((value.P, domain.p), (value.Q, domain.q))
            )
        elif t.dtype == "bool":
            value = Bit(rng.random(shape) < 0.5)
        else:
            value = Int(_whole(program, t, shapes, trial.structured, rng), WIDTHS[t.dtype])
        result[t.name] = Memory(t.name, shape, t.dtype, value)
    return result


def _floats(
    domain: Domain, t: Tensor, facts: Facts, shape: tuple[int, ...], trial: Trial, rng: np.random.Generator
) -> Val:
    # One 64-bit number gives a sign, and residues that are not 0 (the last one is as good as uniform).
    r = rng.integers(0, 2**64, shape, dtype=np.uint64)
    p, q = (r >> U(34)) + U(1), (r & U(0x1FFFFFFF)) + U(1)
    f = rng.random(shape)
    f = (f * (_GREATEST - _LEAST) + _LEAST) * min(trial.scale, facts.greatest / _GREATEST)
    if facts.least is None:
        f = np.where((r >> U(33)) & U(1), f, -f)
    elif facts.least > 0:
        f = facts.least + f
    v = Val(f, p, q, None, t.dtype, t.dtype)
    if trial.poison and shape:
        lines = [rng.random([n if d == k else 1 for d, n in enumerate(shape)]) < 0.1 for k in range(len(shape))]
        v.f[np.broadcast_to(lines[int(rng.integers(len(lines)))], shape)] = np.nan
    if trial.structured and shape:
        _structure(v, facts, trial.tile, rng)
    return v


def _cliff(t: Tensor, shape: tuple[int, ...], trial: Trial) -> Array:
    """1 for every other element of the first tile and -1 for the rest, along a length of ``trial.cliff``; 1 without one."""
    for k, d in enumerate(t.shape):
        if isinstance(d, Size) and d.name in trial.cliff:
            at = np.arange(shape[k])
            signs = np.where((at < trial.tile) & (at % 2 == 0), 1.0, -1.0)
            return np.asarray(signs.reshape([-1 if j == k else 1 for j in range(len(shape))]))
    return np.ones(())


def _room(program: Program, t: Tensor) -> float:
    """How far the elements may be moved."""
    facts = Facts.of(program, t.name)
    return 0.0 if facts.least is not None else max(0.0, facts.greatest - _GREATEST)


def _structure(v: Val, facts: Facts, tile: int, rng: np.random.Generator) -> None:
    """Each row (last dimension) gets a pattern of its own."""
    n = v.f.shape[-1]
    rows = [a.reshape(-1, n) for a in (v.f, v.P, v.Q) if a is not None]
    if not n:
        return
    patterns = ["plain", "up", "down", "equal", "one sign"]
    patterns += ["zeros first", "zeros", "some zeros"] if facts.zero else []
    patterns += ["dead first", "dead", "some dead", "dead last"] if facts.minus_infinity else []
    prefix = tile if n > tile else n // 2
    first = int(rng.integers(len(patterns)))
    for k, pattern in enumerate(patterns):
        own = slice((first + k) % len(patterns), None, len(patterns))
        _pattern(pattern, [a[own] for a in rows], prefix, facts, rng)


def _pattern(pattern: str, planes: list[Array], prefix: int, facts: Facts, rng: np.random.Generator) -> None:
    """Puts a pattern into some rows, in place."""
    f, p, q = planes
    match pattern:
        case "up" | "down":
            f[:] = np.sort(f, axis=1) if pattern == "up" else np.sort(f, axis=1)[:, ::-1]
        case "equal":
            f[:], p[:], q[:] = f[:, :1], p[:, :1], q[:, :1]
        case "one sign":
            f[:] = np.abs(f) if facts.least is not None else -np.abs(f)
        case "zeros first" | "zeros" | "some zeros":
            _fill(planes, _chosen(pattern, f.shape, prefix, rng), 0.0)
        case "dead first" | "dead" | "some dead" | "dead last":
            _fill(planes, _chosen(pattern, f.shape, prefix, rng), -np.inf)


def _chosen(pattern: str, shape: tuple[int, ...], prefix: int, rng: np.random.Generator) -> Array:
    column = np.broadcast_to(np.arange(shape[1]), shape)
    match pattern.split():
        case [_, "first"]:
            return column < prefix
        case [_, "last"]:
            return column >= prefix
        case ["some", _]:
            return rng.random(shape) < 0.5
        case _:
            return np.ones(shape, dtype=bool)


def _fill(planes: list[Array], chosen: Array, value: float) -> None:
    f, p, q = planes
    f[chosen] = value
    p[chosen] = q[chosen] = U(0)


def _whole(
    program: Program, t: Tensor, shapes: Mapping[str, tuple[int, ...]], structured: bool, rng: np.random.Generator
) -> Array:
    """Integers: indices into what they index, otherwise small numbers and numbers about the lengths."""
    shape = shapes[t.name]
    limits = indexed(program, t.name)
    lengths = [n for s in shapes.values() for n in s]
    if limits:
        known = [shapes[name][k] for name, k in limits if name in shapes]
        least = max(1, min(known, default=1))
        x = rng.integers(0, least, shape)
        if structured and x.size:  # nothing says that an index is inside: the definition is undefined there
            x.flat[0], x.flat[-1] = -1, least
        return x
    # A number that becomes a float stays small, so that exp of it does not leave float64.
    far = 9 if becomes_float(program, t.name) else max(lengths, default=0) + 2
    x = np.where(rng.random(shape) < 0.5, rng.integers(-3, 9, shape), rng.integers(-1, far, shape))
    if x.size and x.size <= 8:  # one for each program, say, that ends its loop there: all of it, and half
        x.flat[0] = far - 2
        x.flat[-1] = far - 2 if x.size == 1 else far // 2
    elif x.size and rng.random() < 0.5:  # in order, so that tiles differ in their least and greatest
        x = np.sort(x, axis=-1)
    facts = Facts.of(program, t.name)
    if facts.least is not None or t.dtype == "uint8":
        x = np.maximum(x, int(facts.least or 0))
    if not facts.zero:
        x = np.where(x == 0, 1, x)
    if np.isfinite(facts.greatest):
        x = np.clip(x, -int(facts.greatest), int(facts.greatest))
    info = np.iinfo(t.dtype)
    return np.clip(x, info.min, info.max).astype(np.int64)


def indexed(program: Program, name: str) -> list[tuple[str, int]]:
    """The (tensor, dimension) pairs that elements of ``name`` are used as an index of."""
    found: dict[tuple[str, int], None] = {}
    for stage in program.stages:
        for e in subterms(stage.body):
            if isinstance(e, Read):
                for k, index in enumerate(e.indices):
                    if any(isinstance(x, Read) and x.tensor == name for x in subterms(index)):
                        found[e.tensor, k] = None
    return list(found)


def becomes_float(program: Program, name: str) -> bool:
    casts = (
        e
        for s in program.stages
        for e in subterms(s.body)
        if isinstance(e, Op) and e.name == "cast" and e.dtype in FLOATS
    )
    return any(isinstance(x, Read) and x.tensor == name for e in casts for x in subterms(e.args[0]))


def extent(e: Expr, sizes: Mapping[str, int | float]) -> int:
    """The value of an extent."""
    match e:
        case Const(value):
            return int(value)
        case Size(name):
            return int(sizes[name])
        case Op("cast", (x,)):
            return extent(x, sizes)
        case Op(name, (x, y)):
            a, b = extent(x, sizes), extent(y, sizes)
            table = {"add": a + b, "sub": a - b, "mul": a * b, "max": max(a, b), "min": min(a, b)}
            if name in table:
                return table[name]
            return {"floordiv": a // b, "floormod": a % b}[name]
        case _:
            raise TypeError(f"an extent cannot read {type(e).__name__}")

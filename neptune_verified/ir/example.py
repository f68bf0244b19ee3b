"""Not trusted: one small run with which a refused fusion computes a wrong value. It explains; nothing is decided from it.

Kept to plain numbers, so that it can be saved, compared and shown. Infinities and undefined values are texts in JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

from neptune_verified.ir import jsontext as j

#: A number, a truth value, or one of TEXTS.
Scalar = int | float | bool | str
Nested = Scalar | tuple["Nested", ...]

TEXTS = ("-inf", "inf", "undefined")
FIELDS = ("inputs", "scalars", "lengths", "tile", "held", "what", "index", "before", "after")
#: Larger inputs are written as their usual value and the elements that have another one.
LISTED = 32
#: More elements than this are no small example, and nothing that a file should make a reader hold.
LARGEST = 1 << 16


@dataclass(frozen=True, slots=True)
class Example:
    """The fused loop with the refused update gives ``after`` for ``what[index]``, the definition ``before``.

    ``inputs`` (nested rows), ``scalars`` and ``lengths`` are sorted by name; ``tile`` elements are taken in at a time.
    The update is left out while one of ``held`` is true of a producer's old value ("m is infinite").
    ``what`` is a stage, or "accumulator NAME" for a reduction that no stage holds as it is."""

    inputs: tuple[tuple[str, Nested], ...]
    scalars: tuple[tuple[str, Scalar], ...]
    lengths: tuple[tuple[str, int], ...]
    tile: int
    held: tuple[str, ...]
    what: str
    index: tuple[int, ...]
    before: Scalar
    after: Scalar


# ---------------------------------------------------------------------------------------- text


def example_text(e: Example) -> str:
    """``With x = [[0, 1]] (M = 1, N = 2), one element at a time, the refused update gives y[0] = 2 where ...``"""
    given = [_input_text(name, value) for name, value in e.inputs]
    given += [f"{name} = {_number(value)}" for name, value in e.scalars]
    lengths = f" ({', '.join(f'{name} = {n}' for name, n in e.lengths)})" if e.lengths else ""
    tile = "one element" if e.tile == 1 else f"{e.tile} elements"
    digits = next((d for d in (6, 9, 12) if _number(e.before, d) != _number(e.after, d)), 17)
    what = e.what + _index(e.index)
    wrong, right = _number(e.after, digits), _number(e.before, digits)
    held = f" (left out while {' or '.join(e.held)})" if e.held else ""
    return (
        f"With {', '.join(given) or 'these lengths'}{lengths}, {tile} at a time, the refused update{held} gives "
        f"{what} = {wrong} where the definition gives {right}."
    )


def _number(x: Scalar, digits: int = 6) -> str:
    return str(x).lower() if isinstance(x, bool) else x if isinstance(x, str) else f"{x:.{digits}g}"


def _index(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]" if index else ""


def _input_text(name: str, value: Nested) -> str:
    shape = shape_of(value)
    if prod(shape) <= LISTED // 2:
        return f"{name} = {_listed(value)}"
    fill, others = _sparse(value, shape)
    shown = [f"{name}{_index(k)} = {_number(x)}" for k, x in others]
    but = f" except {', '.join(shown[:8])}{', ...' if len(shown) > 8 else ''}" if shown else ""
    return f"{name} = {_number(fill)} everywhere{but}"


def _listed(value: Nested) -> str:
    return f"[{', '.join(map(_listed, value))}]" if isinstance(value, tuple) else _number(value)


# ---------------------------------------------------------------------------------------- nested rows


def shape_of(value: Nested) -> tuple[int, ...]:
    shape = []
    while isinstance(value, tuple):
        shape.append(len(value))
        if not value:
            break
        value = value[0]
    return tuple(shape)


def _elements(value: Nested, at: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Scalar]]:
    if isinstance(value, tuple):
        for k, row in enumerate(value):
            yield from _elements(row, (*at, k))
    else:
        yield at, value


def _sparse(value: Nested, shape: tuple[int, ...]) -> tuple[Scalar, list[tuple[tuple[int, ...], Scalar]]]:
    """The most frequent value (the first of those), and the elements that have another one."""
    counts: dict[Scalar, int] = {}
    for _, x in _elements(value):
        counts[x] = counts.get(x, 0) + 1
    fill = max(counts, key=lambda x: counts[x]) if counts else 0
    return fill, [(k, x) for k, x in _elements(value) if x != fill]


def _rows(shape: tuple[int, ...], values: Iterator[Scalar]) -> Nested:
    return tuple(_rows(shape[1:], values) for _ in range(shape[0])) if shape else next(values)


# ---------------------------------------------------------------------------------------- JSON


def example_data(e: Example | None) -> dict[str, object] | None:
    """For JSON; an input is a nested list, or ``shape``, ``fill`` and ``others`` where that would be long."""
    if e is None:
        return None
    return {
        "inputs": {name: _input_data(value) for name, value in e.inputs},
        "scalars": dict(e.scalars),
        "lengths": dict(e.lengths),
        "tile": e.tile,
        "held": list(e.held),
        "what": e.what,
        "index": list(e.index),
        "before": e.before,
        "after": e.after,
    }


def _input_data(value: Nested) -> object:
    shape = shape_of(value)
    if prod(shape) <= LISTED:
        return _lists(value)
    fill, others = _sparse(value, shape)
    return {"shape": list(shape), "fill": fill, "others": [{"index": list(k), "value": x} for k, x in others]}


def _lists(value: Nested) -> object:
    return [_lists(v) for v in value] if isinstance(value, tuple) else value


def read_example(value: j.Json, where: str) -> Example | None:
    if value is None:
        return None
    data = j.record(value, where, FIELDS)
    return Example(
        tuple((name, _read_input(v, f"{where}.inputs.{name}")) for name, v in _fields(data["inputs"], where)),
        tuple((name, _scalar(v, f"{where}.scalars.{name}")) for name, v in _fields(data["scalars"], where)),
        tuple((name, j.integer(v, f"{where}.lengths.{name}")) for name, v in _fields(data["lengths"], where)),
        j.integer(data["tile"], f"{where}.tile"),
        j.strings(data["held"], f"{where}.held"),
        j.string(data["what"], f"{where}.what"),
        _integers(data["index"], f"{where}.index"),
        _scalar(data["before"], f"{where}.before"),
        _scalar(data["after"], f"{where}.after"),
    )


def _fields(value: j.Json, where: str) -> list[tuple[str, j.Json]]:
    if not isinstance(value, dict):
        j.fail(where, f"an object is wanted, got {j.kind_of(value)}")
    return sorted(value.items())


def _integers(value: j.Json, where: str) -> tuple[int, ...]:
    return tuple(j.integer(v, w) for v, w in j.each(value, where))


def _scalar(value: j.Json, where: str) -> Scalar:
    if isinstance(value, str) and value not in TEXTS:
        j.fail(where, f"a number or one of {', '.join(TEXTS)} is wanted, got {j.kind_of(value)}")
    return value if isinstance(value, str | bool) else j.real(value, where)


def _read_input(value: j.Json, where: str) -> Nested:
    if isinstance(value, dict):
        return _read_sparse(value, where)
    nested = _read_rows(value, where)
    if any(len(at) != len(shape_of(nested)) for at, _ in _elements(nested)) or not _regular(nested):
        j.fail(where, "its rows are of different lengths")
    return nested


def _read_rows(value: j.Json, where: str) -> Nested:
    return (
        tuple(_read_rows(v, w) for v, w in j.each(value, where)) if isinstance(value, list) else _scalar(value, where)
    )


def _regular(value: Nested) -> bool:
    return not isinstance(value, tuple) or (
        len({shape_of(row) for row in value}) <= 1 and all(_regular(row) for row in value)
    )


def _read_sparse(value: j.Json, where: str) -> Nested:
    data = j.record(value, where, ("shape", "fill", "others"))
    shape = _integers(data["shape"], f"{where}.shape")
    if any(n < 0 for n in shape) or prod(shape) > LARGEST:
        j.fail(f"{where}.shape", f"at most {LARGEST} elements are wanted")
    elements = dict.fromkeys(product(*map(range, shape)), _scalar(data["fill"], f"{where}.fill"))
    for other, place in j.each(data["others"], f"{where}.others"):
        record = j.record(other, place, ("index", "value"))
        index = _integers(record["index"], f"{place}.index")
        if index not in elements:
            j.fail(f"{place}.index", "there is no such element")
        elements[index] = _scalar(record["value"], f"{place}.value")
    return _rows(shape, iter(elements.values()))


__all__ = ["Example", "Nested", "Scalar", "example_data", "example_text", "read_example"]

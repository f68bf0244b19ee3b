"""Trusted: JSON text that depends on its content alone, and readers that say where a file is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

#: A line of a file is broken into one item per line when it would be longer.
WIDTH = 116

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


class FormatError(ValueError):
    """A file is not what its name says. The message is one line: where, and what is wrong there."""


def fail(where: str, what: str) -> NoReturn:
    raise FormatError(f"{where}: {what}")


# ------------------------------------------------------------------------------------------------ writing


def dump(value: object, sort: bool = True) -> str:
    """Text of a JSON value: pure ASCII, one item per line where a line would be too long, fields sorted."""
    return _render(value, 0, sort) + "\n"


def _render(value: object, indent: int, sort: bool) -> str:
    line = json.dumps(value, sort_keys=sort, allow_nan=False)
    if not isinstance(value, dict | list) or not value or (indent and len(line) + indent <= WIDTH):
        return line
    pad = " " * (indent + 1)
    if isinstance(value, dict):
        keys = sorted(value) if sort else list(value)
        items = [f"{json.dumps(k)}: {_render(value[k], indent + 1, sort)}" for k in keys]
        open_, close = "{}"
    else:
        items = [_render(v, indent + 1, sort) for v in value]
        open_, close = "[]"
    return open_ + "\n" + ",\n".join(pad + item for item in items) + "\n" + " " * indent + close


# ------------------------------------------------------------------------------------------------ reading


def read_text(folder: Path, name: str) -> str:
    """A file of a compiled folder. FileNotFoundError or FormatError in one line, which names the folder, not its path."""
    try:
        return (folder / name).read_bytes().decode()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise FileNotFoundError(f"{folder.name} holds no {name}: it is no compiled folder, or not verified") from None
    except UnicodeDecodeError:
        raise FormatError(f"{name}: not UTF-8 text") from None


def parse(text: str, where: str) -> Json:
    """The JSON value of a text in which no field is given twice and no number is NaN or infinite."""

    def unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        result: dict[str, Json] = {}
        for key, value in pairs:
            if key in result:
                fail(where, f"the field {key!r} is given twice")
            result[key] = value
        return result

    def constant(name: str) -> NoReturn:
        fail(where, f"{name} is not a JSON number")

    try:
        result: Json = json.loads(text, object_pairs_hook=unique, parse_constant=constant)
    except json.JSONDecodeError as e:
        fail(where, f"not JSON: {e.msg} in line {e.lineno}, column {e.colno}")
    except (RecursionError, ValueError) as e:
        if isinstance(e, FormatError):
            raise
        fail(where, "nested too deeply" if isinstance(e, RecursionError) else str(e))
    return result


def record(value: Json, where: str, fields: Iterable[str], optional: Iterable[str] = ()) -> dict[str, Json]:
    """An object with exactly these fields."""
    if not isinstance(value, dict):
        fail(where, f"an object is wanted, got {kind_of(value)}")
    wanted, allowed = set(fields), set(fields) | set(optional)
    for name in sorted(value.keys() - allowed):
        fail(where, f"unknown field {name!r}")
    for name in sorted(wanted - value.keys()):
        fail(where, f"the field {name!r} is missing")
    return value


def items(value: Json, where: str) -> list[Json]:
    if not isinstance(value, list):
        fail(where, f"a list is wanted, got {kind_of(value)}")
    return value


def each(value: Json, where: str) -> Iterator[tuple[Json, str]]:
    """The items of a list, each with its place."""
    for k, item in enumerate(items(value, where)):
        yield item, f"{where}[{k}]"


def string(value: Json, where: str) -> str:
    if not isinstance(value, str):
        fail(where, f"a text is wanted, got {kind_of(value)}")
    return value


def strings(value: Json, where: str) -> tuple[str, ...]:
    return tuple(string(v, place) for v, place in each(value, where))


def integer(value: Json, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        fail(where, f"an integer is wanted, got {kind_of(value)}")
    return value


def real(value: Json, where: str) -> int | float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        fail(where, f"a number is wanted, got {kind_of(value)}")
    return value


def boolean(value: Json, where: str) -> bool:
    if not isinstance(value, bool):
        fail(where, f"true or false is wanted, got {kind_of(value)}")
    return value


def kind_of(value: object) -> str:
    names = {dict: "an object", list: "a list", str: f"the text {value!r}", type(None): "null"}
    return names.get(type(value), f"{value!r}")

"""Trusted: the parts of an emitted file, from its Python syntax tree. Shares nothing with the printer; runs nothing.

A file is: comments and a docstring; the three imports; ENTRY and TARGET; helper functions that are known by their exact
text (``library``); Triton kernels; a table of argument types and a table of tile configurations for each; one launcher.
Anything else is refused, and so is a name that is bound twice.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from neptune_verified.proofs.text.findings import Unproved
from neptune_verified.proofs.text.library import DEVICE, HOST, known_text

_IMPORTS = ("import torch", "import triton", "import triton.language as tl")
_CODING = re.compile(r"#.*coding[:=]")
_KEYWORD_TYPES = {"num_warps": int, "num_stages": int, "enable_fp_fusion": bool}


@dataclass(frozen=True, slots=True)
class Config:
    """A tile configuration: block sizes by parameter name, and the options of the launch."""

    name: str
    blocks: dict[str, int]
    options: dict[str, int | bool]
    rows: int


@dataclass(slots=True)
class KernelText:
    """A Triton kernel: run-time parameters in order, constexpr parameters, and the body."""

    name: str
    params: list[str]
    blocks: list[str]
    body: list[ast.stmt]
    line: int


@dataclass(slots=True)
class FileText:
    docstring: str
    entry: str = ""
    target: str = ""
    device: set[str] = field(default_factory=set)
    host: set[str] = field(default_factory=set)
    kernels: dict[str, KernelText] = field(default_factory=dict)
    tables: dict[str, dict[str, Config]] = field(default_factory=dict)
    signatures: dict[str, dict[str, str]] = field(default_factory=dict)
    launcher: ast.FunctionDef | None = None


def parse(source: str) -> FileText:
    """Raises Unproved (O13) for anything that is no part of an emitted file."""
    if any(_CODING.search(line) for line in "\n".join(source.split("\n")[:2]).splitlines()):
        # Another encoding turns a comment of this text into statements of the file that Python imports.
        raise Unproved("O13", "it names an encoding", 1)
    try:
        tree = ast.parse(source)
        compile(tree, "kernel.py", "exec", dont_inherit=True)  # what the syntax tree does not show, as names bound twice
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        raise Unproved("O13", f"it is no Python text: {e}", getattr(e, "lineno", None)) from None
    body = list(tree.body)
    docstring = ast.get_docstring(tree, clean=False)
    if docstring is None:
        raise Unproved("O13", "it has no docstring", 1)
    found = FileText(docstring)
    bound: set[str] = set()
    imports = [ast.unparse(s) for s in body if isinstance(s, ast.Import | ast.ImportFrom)]
    if imports != list(_IMPORTS):
        raise Unproved("O13", f"its imports are {imports}, should be {list(_IMPORTS)}", 1)
    for statement in body[1:]:
        if isinstance(statement, ast.Import):
            continue
        name = _statement(found, statement, source)
        if name in bound or name in ("torch", "triton", "tl", "float", "range", "int"):
            raise Unproved("O13", f"the name {name} is bound twice", statement.lineno)
        bound.add(name)
    if found.launcher is None or found.launcher.name != found.entry:
        raise Unproved("O13", f"there is no launcher named {found.entry!r}", 1)
    return found


def _statement(found: FileText, s: ast.stmt, source: str) -> str:
    match s:
        case ast.Assign(targets=[ast.Name(id="ENTRY" | "TARGET" as name)], value=ast.Constant(value=str(text))):
            setattr(found, name.lower(), text)
            return name
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as table) if name.endswith("_CONFIGS"):
            found.tables[name] = _configs(table)
            return name
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as table) if name.endswith("_SIGNATURE"):
            found.signatures[name] = _strings(table)
            return name
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            text = known_text(s, source)
            if text is not None and text == DEVICE.get(name):
                found.device.add(name)
            elif text is not None and text == HOST.get(name):
                found.host.add(name)
            elif name in DEVICE or name in HOST or isinstance(s, ast.ClassDef):
                raise Unproved("O13", f"the helper {name} is not the one whose meaning is known", s.lineno)
            elif s.decorator_list:
                found.kernels[name] = _kernel(s)
            elif found.launcher is None:
                found.launcher = s
            else:
                raise Unproved("O13", f"the function {name} is not known", s.lineno)
            return name
        case _:
            raise Unproved("O13", f"no emitted file has this statement: {ast.unparse(s)[:80]}", s.lineno)


def _kernel(s: ast.FunctionDef) -> KernelText:
    a = s.args
    if [ast.unparse(d) for d in s.decorator_list] != ["triton.jit"] or s.returns is not None:
        raise Unproved("O13", f"{s.name} is no plain Triton kernel", s.lineno)
    if a.vararg or a.kwarg or a.kwonlyargs or a.posonlyargs or a.defaults or getattr(s, "type_params", None):
        raise Unproved("O13", f"{s.name} has parameters of an unknown kind", s.lineno)
    blocks = [x.arg for x in a.args if x.annotation is not None]
    if any(ast.unparse(x.annotation) != "tl.constexpr" for x in a.args if x.annotation is not None):
        raise Unproved("O13", f"{s.name} has a parameter of an unknown kind", s.lineno)
    names = [x.arg for x in a.args]
    if names[len(names) - len(blocks) :] != blocks or set(blocks) & set(_KEYWORD_TYPES):
        raise Unproved("O13", f"{s.name} takes its blocks, which are given by name, before other parameters", s.lineno)
    return KernelText(s.name, [n for n in names if n not in blocks], blocks, s.body, s.lineno)


def _configs(table: ast.Dict) -> dict[str, Config]:
    result: dict[str, Config] = {}
    for key, value in zip(table.keys, table.values, strict=True):
        try:
            name = ast.literal_eval(key) if key is not None else None
            blocks, options, rows = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError):
            raise Unproved("O13", "a tile configuration is no literal", table.lineno) from None
        good = isinstance(name, str) and isinstance(blocks, dict) and isinstance(options, dict) and type(rows) is int
        good = good and all(isinstance(b, str) and _is_block(n) for b, n in blocks.items())
        good = good and {k: type(v) for k, v in options.items()} == _KEYWORD_TYPES
        if not good or name in result:
            raise Unproved("O13", f"the tile configuration {name!r} is not one that is emitted", value.lineno)
        if options["enable_fp_fusion"]:
            # a*b - c contracted can give exp an argument above 0 (O7), and rounds once where the text rounds twice.
            raise Unproved("O16", f"{name}: products and sums may be contracted", value.lineno)
        if options["num_warps"] not in (1, 2, 4, 8, 16) or not 1 <= options["num_stages"] <= 8:
            raise Unproved("O13", f"{name}: no launch has {options}", value.lineno)
        result[name] = Config(name, blocks, options, rows)
    if not result or list(result.values())[-1].rows != 0:
        raise Unproved("O13", "there are lengths for which the table has no tile configuration", table.lineno)
    return result


def _is_block(n: object) -> bool:
    return type(n) is int and 1 <= n <= 4096 and n & (n - 1) == 0


def _strings(table: ast.Dict) -> dict[str, str]:
    """Argument types by parameter, for ahead-of-time compilation."""
    result: dict[str, str] = {}
    for key, value in zip(table.keys, table.values, strict=True):
        match key, value:
            case ast.Constant(value=str(k)), ast.Constant(value=str(v)) if k not in result:
                result[k] = v
            case _:
                raise Unproved("O13", "the table of argument types holds other things than text", table.lineno)
    return result

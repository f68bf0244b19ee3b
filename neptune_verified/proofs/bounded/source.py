"""Trusted: takes a kernel file apart: kernels, tables of tile configurations, known helper functions, the launcher.

A helper function is known by the digest of its syntax tree (positions and comments left out); its meaning is then the one
that is written here, in ``calls`` and in ``launcher``. Whatever else stands in the file makes it unsupported.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
from dataclasses import dataclass, field

from neptune_verified.proofs.bounded.result import Unsupported

#: Functions of the device, and functions and classes of the launcher.
DEVICE = {
    "_tanh": "614988e2ab672e7d8996a35e5d5e7d6f23dde092be424d0060918ac2911b0010",
    "_sigmoid": "de61c6ae708d847c47f1b4733c2b23688c163e893c6b3f1d3e9468ad44f2c017",
    "_floordiv": "a18d88ffda490e4e5776a1fea1d7ee51b37bb12de52ec5dc9e97ba293b6f4fe5",
    "_floormod": "a63a0d3646ac2c41e9b012a5f452d0fd87a2020a3a694a6203ae6344271c7bea",
    "_pow": "88ce081dc34407afdeeefdb9d2f84a0d669f08d40a2e1f6aeb4d0d768b790790",
    "_mul": "ad7e7081e2d4b1aecebf41caade503e00a977bac17ba1686be88060120e161e7",
    "_logaddexp": "81b64fa471dada86bce775a8dcfadacf597cc367f5a4da3d45162e36f0fa2ca0",
}
HOST = {
    "_shares": "88a2d4185f22775c2e595ca4c79896cd9d7cfa2cbac44b7c3437d538fee8734e",
    "_between": "cf9ec0651bfc364b3a4a380ccc0a23056dc4fc6ffa52e350218eea56bb5cf701",
    "ShapeError": "c4bb3dd33c1f26db14ad9bfceb62c176a030c7d1470afbfbdfb6994461a2e353",
    "_check_tensors": "a0326fcf68f715f145b08c6e0e8f88200cdf7ac5be213e90060b0079d2f50bcf",
    "_check_length": "8f81a7e662bfc9a0ab876bffbb9c4f389fabce3b7137cb70f2ded08d634b869b",
    "_check_scalar": "40aa30f35be73249aeed11e3911f1a243559fbd2dfabfc7f2fe341909c20ad8f",
    "_check_limit": "6eae6bb2d212ac945baee6e8c45edf327a5d30f50d2d30daac6ddf34c27119c7",
    "_results": "32c81d4965b58486ffd648a80624620fe294e20d81a45fb588eb80c47e019bdc",
    "_pick": "74d3dbeb7746935f6f14f90f74c47af1335e76a74b04d371782dc8fd646a91a7",
    "_device": "7d88573ab662d4e7ae55ede1a78d633f2face95f79bcbbbdc24f2f41c0fd04c4",
}
#: What a device helper calls.
NEEDS = {"_floormod": "_floordiv"}
_IMPORTS = ("import torch", "import triton", "import triton.language as tl")


@dataclass(frozen=True, slots=True)
class Config:
    name: str
    blocks: dict[str, int]
    options: dict[str, int | bool]
    rows: int


@dataclass(slots=True)
class KernelFile:
    entry: str = ""
    target: str = ""
    kernels: dict[str, ast.FunctionDef] = field(default_factory=dict)
    tables: dict[str, tuple[Config, ...]] = field(default_factory=dict)
    helpers: dict[str, str] = field(default_factory=dict)
    launcher: ast.FunctionDef | None = None


def canonical(node: object) -> str:
    """The tree as text; what the versions of Python do not agree on is left out."""
    if isinstance(node, ast.AST):
        parts = [f"{f}={canonical(getattr(node, f, None))}" for f in node._fields if f not in ("kind", "type_params")]
        return f"{type(node).__name__}({', '.join(parts)})"
    if isinstance(node, list):
        return f"[{', '.join(map(canonical, node))}]"
    return f"{type(node).__name__} {node!r}"


def digest(node: ast.AST) -> str:
    return hashlib.sha256(canonical(node).encode()).hexdigest()


def parse(source: str) -> KernelFile:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as e:
        raise Unsupported(f"not Python: {e}", getattr(e, "lineno", 0) or 0) from e
    found, seen, imports = KernelFile(), set[str](), []
    for k, s in enumerate(tree.body):
        match s:
            case ast.Expr(value=ast.Constant(value=str())) if k == 0:
                continue
            case ast.Import():
                imports.append(ast.unparse(s))
                continue
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                _definition(found, s, name)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                _assignment(found, name, value, s.lineno)
            case _:
                raise Unsupported(f"a top-level statement of the kind {type(s).__name__}", s.lineno)
        if name in seen or name in ("torch", "triton", "tl"):
            raise Unsupported(f"{name} is defined twice", s.lineno)
        seen.add(name)
    if tuple(imports) != _IMPORTS:
        raise Unsupported(f"imports: {'; '.join(imports)}")
    if found.launcher is None or found.launcher.name != found.entry:
        raise Unsupported(f"no launcher named {found.entry!r}")
    for name, needed in NEEDS.items():
        if name in found.helpers and needed not in found.helpers:
            raise Unsupported(f"{name} without {needed}")
    return found


def _definition(found: KernelFile, s: ast.FunctionDef | ast.ClassDef, name: str) -> None:
    if name in DEVICE or name in HOST:
        if digest(s) != (DEVICE | HOST)[name]:
            raise Unsupported(f"{name} is not the helper of that name", s.lineno)
        if name in DEVICE:
            found.helpers[name] = name
    elif isinstance(s, ast.FunctionDef) and (s.returns is not None or hasattr(builtins, name)):
        raise Unsupported(f"{name} is annotated, or hides a function of Python", s.lineno)
    elif isinstance(s, ast.ClassDef):
        raise Unsupported(f"an unknown class {name}", s.lineno)
    elif [ast.unparse(d) for d in s.decorator_list] == ["triton.jit"]:
        found.kernels[name] = s
    elif s.decorator_list or found.launcher is not None:
        raise Unsupported(f"an unknown function {name}", s.lineno)
    else:
        found.launcher = s


def _assignment(found: KernelFile, name: str, value: ast.expr, line: int) -> None:
    try:
        literal = ast.literal_eval(value)
    except ValueError as e:
        raise Unsupported(f"{name} is no literal", line) from e
    if name == "ENTRY" and isinstance(literal, str):
        found.entry = literal
    elif name == "TARGET" and isinstance(literal, str):
        found.target = literal
    elif name.endswith("_CONFIGS") and isinstance(literal, dict) and literal:
        found.tables[name] = tuple(_config(n, x, line) for n, x in literal.items())
    elif not name.endswith("_SIGNATURE"):
        raise Unsupported(f"an unknown constant {name}", line)


def _config(name: object, x: object, line: int) -> Config:
    match x:
        case (dict() as blocks, dict() as options, int() as rows) if isinstance(name, str):
            whole = all(isinstance(n, int) and n > 0 and n & (n - 1) == 0 for n in blocks.values())
            if whole and all(isinstance(n, int) for n in options.values()):
                return Config(name, blocks, options, rows)
    raise Unsupported(f"a tile configuration of another form: {name!r}", line)

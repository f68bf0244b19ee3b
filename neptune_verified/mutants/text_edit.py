"""Not trusted: the engine of wrong edits of a kernel file. An edit replaces pieces of the text by position, so that all
the rest stays as it is, byte for byte. What is edited is found in the syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

Part = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Edit:
    """``parts``: (start, end, new text). ``why``: the edit is wrong for this reason although no small run shows it."""

    kind: str
    line: int
    parts: tuple[Part, ...]
    why: str = ""

    def apply(self, source: str) -> str:
        for start, end, text in sorted(self.parts, reverse=True):
            source = source[:start] + text + source[end:]
        return source


class Text:
    """A kernel file: source, syntax tree, and the places where nodes stand."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.tree = ast.parse(source)
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.parent: dict[ast.AST, ast.AST] = {}
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self.parent.setdefault(child, node)

    # -- places ----------------------------------------------------------------------------------------------

    def span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt | ast.keyword | ast.arg)
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self.starts[node.lineno - 1] + node.col_offset
        return start, self.starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.AST) -> str:
        """The node's text, such that it may stand in any expression: nodes have no parentheses of their own."""
        text = self.raw(node)
        return f"({text})" if isinstance(node, ast.BinOp | ast.Compare | ast.UnaryOp) else text

    def raw(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.source[start:end]

    def put(self, node: ast.AST, text: str) -> Part:
        start, end = self.span(node)
        return start, end, text

    def replace(self, kind: str, node: ast.AST, text: str, why: str = "") -> Edit:
        return Edit(kind, _line(node), (self.put(node, text),), why)

    def exchange(self, kind: str, a: ast.AST, b: ast.AST) -> Edit:
        return Edit(kind, _line(a), (self.put(a, self.text(b)), self.put(b, self.text(a))))

    def drop(self, kind: str, statement: ast.stmt, why: str = "") -> Edit:
        """Without the statement, line and all; the only one of a block leaves ``pass``."""
        blocks = (b for n in ast.walk(self.tree) for b in (getattr(n, "body", None), getattr(n, "orelse", None)))
        alone = [statement] in (b for b in blocks if isinstance(b, list))
        text = f"{' ' * statement.col_offset}pass\n" if alone else ""
        return Edit(kind, statement.lineno, (self.lines(statement, text),), why)

    def lines(self, statement: ast.stmt, text: str) -> Part:
        """Whole lines of a statement replaced."""
        assert statement.end_lineno is not None
        return self.starts[statement.lineno - 1], self.starts[statement.end_lineno], text

    def whole(self, statement: ast.stmt) -> str:
        start, end, _ = self.lines(statement, "")
        return self.source[start:end]

    def before(self, statement: ast.stmt, text: str) -> Part:
        start = self.starts[statement.lineno - 1]
        return start, start, text

    def after(self, statement: ast.stmt, text: str) -> Part:
        assert statement.end_lineno is not None
        end = self.starts[statement.end_lineno]
        return end, end, text

    def without(self, call: ast.Call, argument: ast.AST) -> Part:
        """An argument of a call dropped, with the comma before it."""
        start, end = self.span(argument)
        while self.source[start - 1] == "(" and self.source[end] == ")":
            start, end = start - 1, end + 1
        comma = self.source.rfind(",", self.span(call)[0], start)
        return comma, end, ""

    # -- parts of the file -----------------------------------------------------------------------------------

    @cached_property
    def functions(self) -> list[ast.FunctionDef]:
        return [n for n in self.tree.body if isinstance(n, ast.FunctionDef)]

    @cached_property
    def compiled(self) -> list[ast.FunctionDef]:
        return [f for f in self.functions if f.decorator_list]

    @cached_property
    def kernels(self) -> list[ast.FunctionDef]:
        return [f for f in self.compiled if f.name.endswith("_kernel")]

    @cached_property
    def helpers(self) -> list[ast.FunctionDef]:
        return [f for f in self.compiled if not f.name.endswith("_kernel")]

    @cached_property
    def launcher(self) -> ast.FunctionDef:
        return self.functions[-1]

    @cached_property
    def host(self) -> list[ast.FunctionDef]:
        """Functions that the launcher calls on the host."""
        return [f for f in self.functions[:-1] if not f.decorator_list]

    @cached_property
    def assignments(self) -> dict[str, ast.expr]:
        """Top-level names of the file, and what is assigned to them."""
        return {n.targets[0].id: n.value for n in self.tree.body
                if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)}  # fmt: skip

    def each(self, roots: list[ast.FunctionDef]) -> Iterator[tuple[ast.FunctionDef, ast.AST]]:
        """Nodes of function bodies in the order of the text."""
        for f in roots:
            nodes = [n for s in f.body for n in ast.walk(s) if isinstance(n, ast.expr | ast.stmt | ast.keyword)]
            yield from ((f, n) for n in sorted(nodes, key=lambda n: self.span(n)))

    def statements(self, f: ast.FunctionDef) -> Iterator[ast.stmt]:
        """A function's statements, those of its branches included."""
        for _, n in self.each([f]):
            if isinstance(n, ast.stmt):
                yield n

    def calls(self, roots: list[ast.FunctionDef], *names: str) -> Iterator[ast.Call]:
        """Calls of the named functions ("tl.load")."""
        for _, n in self.each(roots):
            if isinstance(n, ast.Call) and (not names or name_of(n) in names):
                yield n

    def loops(self) -> Iterator[tuple[ast.FunctionDef, ast.For]]:
        for f, n in self.each(self.kernels):
            if isinstance(n, ast.For):
                yield f, n

    def statement(self, node: ast.AST) -> ast.stmt:
        while not isinstance(node, ast.stmt):
            node = self.parent[node]
        return node

    def inside(self, node: ast.AST, test: Callable[[ast.AST], bool]) -> bool:
        """Whether the node stands below one that fits."""
        while node in self.parent:
            node = self.parent[node]
            if test(node):
                return True
        return False


def _line(node: ast.AST) -> int:
    return int(getattr(node, "lineno", 0))


def name_of(call: ast.AST) -> str:
    """``tl.load`` of a call, or ""."""
    if not isinstance(call, ast.Call):
        return ""
    f = call.func
    if isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name):
        return f"{f.value.id}.{f.attr}"
    return f.id if isinstance(f, ast.Name) else ""


def keyword(call: ast.Call, name: str) -> ast.keyword | None:
    return next((k for k in call.keywords if k.arg == name), None)


def parameters(f: ast.FunctionDef) -> list[str]:
    return [a.arg for a in f.args.args]


def blocks_of(f: ast.FunctionDef) -> list[str]:
    return [p for p in parameters(f) if p.startswith("BLOCK_")]


def sizes_of(f: ast.FunctionDef) -> list[str]:
    return [p for p in parameters(f) if not p.startswith(("BLOCK_", "stride_")) and not p.endswith("_ptr")]


def carried(loop: ast.For) -> dict[str, str]:
    """Carried values of a loop and their new ones: its last statements ``m = m_new``."""
    return {s.targets[0].id: s.value.id for s in loop.body if is_rebind(s)}  # type: ignore[attr-defined]


def is_rebind(s: ast.stmt) -> bool:
    return (
        isinstance(s, ast.Assign)
        and isinstance(s.targets[0], ast.Name)
        and isinstance(s.value, ast.Name)
        and s.value.id.startswith(s.targets[0].id.rstrip("0123456789_"))
        and not s.targets[0].id.startswith(s.value.id)
    )


def others(names: list[str], name: str) -> list[str]:
    """The other names, from the one after it on."""
    at = names.index(name)
    return names[at + 1 :] + names[:at]


def is_infinity(node: ast.AST) -> bool:
    return name_of(node) == "float"


def number(node: ast.AST) -> float | None:
    """The value of a literal: a number, perhaps negated, or float("-inf")."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = number(node.operand)
        return None if inner is None else -inner
    if is_infinity(node) and isinstance(node, ast.Call) and isinstance(node.args[0], ast.Constant):
        return float(str(node.args[0].value))
    return None

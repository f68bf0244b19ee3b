"""Not trusted: wrong edits of pointers and of what is stored where."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from neptune_verified.mutants.text_edit import Edit, Text, name_of, others, parameters

WIDTH = "the offset leaves 32 bits for large strides"


def pointer_edits(t: Text) -> Iterator[Edit]:
    for f, n in t.each(t.kernels):
        if not (isinstance(n, ast.Call) and name_of(n) in ("tl.load", "tl.store")):
            continue
        what = name_of(n)[3:]
        terms = _terms(n.args[0])
        base = terms[0]
        pointers = [p for p in parameters(f) if p.endswith("_ptr")]
        if isinstance(base, ast.Name):
            for other in others(pointers, base.id)[:2]:
                yield t.replace(f"{what} of another tensor", base, other)
        if len(terms) > 1:
            yield t.replace(f"{what} one element further", n.args[0], f"{t.text(n.args[0])} + 1")
        for term in terms[1:]:
            yield from _offset(t, f, what, term)


def _terms(pointer: ast.expr) -> list[ast.expr]:
    """``base + a + b`` as a list."""
    if isinstance(pointer, ast.BinOp) and isinstance(pointer.op, ast.Add):
        return [*_terms(pointer.left), pointer.right]
    return [pointer]


def _offset(t: Text, f: ast.FunctionDef, what: str, term: ast.expr) -> Iterator[Edit]:
    start, end = t.span(term)
    plus = t.source.rfind("+", 0, t.source.rfind("(", 0, start + 1) + 1)
    spread = isinstance(term, ast.Subscript)
    product = term.value if isinstance(term, ast.Subscript) else term
    if not (isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult)):
        return
    cast, stride = product.left, product.right
    if isinstance(stride, ast.Name):
        strides = [p for p in parameters(f) if p.startswith("stride_")]
        own = stride.id.rsplit("_", 1)[0]
        same = [p for p in strides if p.rsplit("_", 1)[0] == own]
        for other in others(same, stride.id):
            yield t.replace(f"{what} with the stride of another dimension", stride, other)
        foreign = [p for p in strides if p not in same]
        for other in foreign[:1]:
            yield t.replace(f"{what} with the stride of another tensor", stride, other)
        yield t.replace(f"{what} with stride 1", stride, "1")
    if name_of(cast) == "tl.cast" and isinstance(cast, ast.Call):
        index = cast.args[0]
        yield t.replace("offset in 32 bits", cast, t.text(index), WIDTH)
        yield t.replace("offset in 32 bits", cast.args[1], "tl.int32", WIDTH)
        yield t.replace("offset in 16 bits", cast.args[1], "tl.int16", "lengths above 32767")
        yield t.replace(f"{what} at the next index", index, f"({t.text(index)} + 1)")
        for name in _indices(f, t):
            if name not in t.text(index):
                inner = index.value if isinstance(index, ast.Subscript) else index
                yield t.replace(f"{what} at another axis's index", inner, name)
    for n in ast.walk(term):
        if isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Tuple):
            yield _turned(t, "row index as column index", n)
    if plus > 0 and not spread:
        yield Edit(f"{what} with an offset left out", term.lineno, ((plus - 1, end + 1, ""),))


def _indices(f: ast.FunctionDef, t: Text) -> list[str]:
    """Variables that hold indices: made of program indices and aranges."""
    found: dict[str, None] = {}
    for n in ast.walk(f):
        if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name) and n.targets[0].id != "pid":
            text = t.text(n.value)
            if "tl.arange" in text or text == "pid":
                found[n.targets[0].id] = None
    return list(found)


def _turned(t: Text, kind: str, n: ast.Subscript) -> Edit:
    assert isinstance(n.slice, ast.Tuple)
    start = t.span(n.value)[1]
    text = t.text(n)[start - t.span(n)[0] :]
    turned = {"[:, None]": "[None, :]", "[None, :]": "[:, None]"}.get(text, "[None, :]")
    return t.replace(kind, n, t.text(n.value) + turned)


def broadcast_edits(t: Text) -> Iterator[Edit]:
    """A row's value spread along the wrong dimension, outside of pointers."""
    for _, n in t.each(t.kernels):
        if isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Tuple) and not t.inside(n, _is_offset):
            yield _turned(t, "value spread along the wrong dimension", n)


def _is_offset(n: ast.AST) -> bool:
    return isinstance(n, ast.BinOp) and isinstance(n.right, ast.Name) and n.right.id.startswith("stride_")


def store_edits(t: Text) -> Iterator[Edit]:
    for f in t.kernels:
        stores = list(t.calls([f], "tl.store"))
        values = _values(f, t)
        for c in stores:
            value = c.args[1]
            for other in values:
                if other != t.text(value):
                    yield t.replace("store of another value", value, other)
            yield t.replace("store of a changed value", value, f"{t.text(value)} + 1")
        for a, b in pairwise(stores):
            yield t.exchange("values of two outputs exchanged", a.args[1], b.args[1])
            first, second = _terms(a.args[0])[0], _terms(b.args[0])[0]
            yield t.exchange("outputs of two stores exchanged", first, second)


def _values(f: ast.FunctionDef, t: Text) -> list[str]:
    """Carried values: they start as full tiles."""
    made = [n for n in f.body if isinstance(n, ast.Assign) and name_of(n.value) == "tl.full"]
    return [n.targets[0].id for n in made if isinstance(n.targets[0], ast.Name)]

"""Not trusted: wrong edits of loops, of the grid, of masks and of what lanes outside of them hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from neptune_verified.mutants.text_edit import Edit, Text, blocks_of, keyword, name_of, number, others, sizes_of

FAR = "differs only at lengths above 65536"
COMPARED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
REDUCTIONS = ("tl.sum", "tl.max", "tl.min", "tl.reduce")


def loop_edits(t: Text) -> Iterator[Edit]:
    for f, loop in t.loops():
        call = loop.iter
        assert isinstance(call, ast.Call)
        start, bound, *step = call.args
        size = t.text(bound)
        yield t.replace("loop ends early", bound, f"{size} - 1")
        yield t.replace("loop ends late", bound, f"{size} + 1")
        yield t.replace("loop of great lengths cut", bound, f"tl.minimum({size}, 65536)", FAR)
        yield t.replace("tiles skipped", bound, f"tl.minimum({size}, 16 * (tl.program_id(0) + 1))")
        for other in others(sizes_of(f), size) if size in sizes_of(f) else ():
            yield t.replace("loop over another length", bound, other)
        if not step:
            continue
        block = t.text(step[0])
        yield t.replace("loop of full tiles only", bound, f"{size} // {block} * {block}")
        yield t.replace("loop starts at the second tile", start, block)
        yield t.replace("loop step doubled", step[0], f"2 * {block}")
        yield t.replace("loop step halved", step[0], f"{block} // 2")
        for other in others(blocks_of(f), block)[:1] if block in blocks_of(f) else ():
            yield t.replace("loop step of another axis", step[0], other)
        first = loop.body[0]
        if isinstance(first, ast.Assign) and isinstance(first.value, ast.BinOp):
            yield t.replace("tile start dropped", first.value, t.text(first.value.right))
            yield t.replace("tile shifted by one", first.value, f"{t.text(first.value)} + 1")
            for other in others(blocks_of(f), block)[:1] if block in blocks_of(f) else ():
                yield t.replace("tile lanes of another axis", first.value.right, f"tl.arange(0, {other})")


def grid_edits(t: Text) -> Iterator[Edit]:
    for f in t.kernels:
        blocks = blocks_of(f)
        head = [s for s in f.body[:6] if isinstance(s, ast.Assign) and "pid" in t.text(s.value)]
        for s in head:
            e = s.value
            places = [n for n in ast.walk(e) if isinstance(n, ast.BinOp)]
            for n in places:
                if isinstance(n.op, ast.Mod):
                    yield t.replace("program index: other digit", n, f"{t.text(n.left)} // {t.text(n.right)}")
                if isinstance(n.op, ast.FloorDiv):
                    yield t.replace("program index: other digit", n, f"{t.text(n.left)} % {t.text(n.right)}")
                    yield t.replace("program index not divided", n, t.text(n.left))
                if isinstance(n.op, ast.Mult) and t.text(n.right) in blocks:
                    yield t.replace("program index: tile not scaled", n, t.text(n.left))
                    for other in others(blocks, t.text(n.right))[:1]:
                        yield t.replace("program index: block of another axis", n.right, other)
            for c in [n for n in ast.walk(e) if name_of(n) == "tl.cdiv"]:
                assert isinstance(c, ast.Call)
                a, b = map(t.text, c.args)
                yield t.replace("program index: floor count", c, f"({a} // {b})")
                for other in others(blocks, b)[:1]:
                    yield t.replace("program index: block of another axis", c.args[1], other)
            if name_of(e) == "tl.program_id":
                yield t.replace("program index shifted", e, f"{t.text(e)} + 1")
                early = f"{t.whole(s)}    if pid == 0:\n        return\n"
                yield Edit("first program returns early", s.lineno, (t.lines(s, early),))


def mask_edits(t: Text) -> Iterator[Edit]:
    accesses = list(t.calls(t.kernels, "tl.load", "tl.store"))
    masks = {k: keyword(c, "mask") for c in accesses for k in (c,)}
    names = {t.text(m.value) for m in masks.values() if m is not None}
    for c, m in masks.items():
        what = name_of(c)[3:]
        if m is None:
            continue
        dropped = [t.without(c, m), *([t.without(c, o)] if (o := keyword(c, "other")) else [])]
        yield Edit(f"{what} without its mask", c.lineno, tuple(dropped))
        yield from _mask_values(t, c, m, sorted(names))
        if o := keyword(c, "other"):
            value = number(o.value)
            fills = {"0.0": ('float("-inf")', 'float("nan")', "1.0"), "0": ("1", "(-7)")}.get(t.text(o.value), ())
            for text in fills:
                yield t.replace("lanes out of range loaded with another value", o.value, text)
            if value is not None:
                yield Edit("lanes out of range loaded with anything", c.lineno, (t.without(c, o),))
    for f, n in t.each(t.kernels):
        if not (isinstance(n, ast.Compare) and len(n.ops) == 1):
            continue
        yield from _comparisons(t, f, n)


def _mask_values(t: Text, c: ast.Call, m: ast.keyword, names: list[str]) -> Iterator[Edit]:
    what = name_of(c)[3:]
    for other in names:
        if other != t.text(m.value) and other.count("[") == t.text(m.value).count("["):
            yield t.replace(f"{what} under another mask", m.value, other)
    if isinstance(m.value, ast.BinOp):
        yield t.replace(f"{what} under half of its mask", m.value, t.text(m.value.left))
        yield t.replace(f"{what} under half of its mask", m.value, t.text(m.value.right))
        yield t.replace(f"{what} mask: or for and", m.value, f"{t.text(m.value.left)} | {t.text(m.value.right)}")
    yield t.replace(f"{what} mask negated", m.value, f"({t.text(m.value)} == 0)")


def _comparisons(t: Text, f: ast.FunctionDef, n: ast.Compare) -> Iterator[Edit]:
    left, right = t.text(n.left), t.text(n.comparators[0])
    lane = right in sizes_of(f)
    what = "range test" if lane else "test"
    if type(n.ops[0]) in COMPARED:
        yield t.replace(f"{what}: other comparison", n, f"{left} {COMPARED[type(n.ops[0])]} {right}")
    if lane:
        yield t.replace("range test: bound + 1", n.comparators[0], f"{right} + 1")
        yield t.replace("range test: bound - 1", n.comparators[0], f"{right} - 1")
        yield t.replace("range test: also below 65536", n, f"({left} < {right}) & ({left} < 65536)", FAR)
        for other in others(sizes_of(f), right):
            yield t.replace("range test: another length", n.comparators[0], other)
    elif not isinstance(n.ops[0], ast.Eq | ast.NotEq):
        yield t.replace("test: off by one", n.comparators[0], f"({right} + 1)")


def fill_edits(t: Text) -> Iterator[Edit]:
    """The value of lanes out of range in a reduction or a product, and the selects around it."""
    changes = {"-inf": ("0.0", "-3.4028234663852886e+38"), "inf": ("0.0", "3.4028234663852886e+38"), "0.0": ("1.0",),
               "1.0": ("0.0",), "0": ("1",), "1": ("0",)}  # fmt: skip
    for c in t.calls(t.kernels, "tl.where"):
        if len(c.args) != 3:
            continue
        test, yes, no = c.args
        lane = t.inside(c, lambda n: name_of(n) in (*REDUCTIONS, "tl.dot")) or _feeds(t, c)
        value = number(no)
        if value is not None and lane:
            key = str(value)
            for text in changes.get(key, ()):
                yield t.replace("reduction: other fill of lanes out of range", no, text)
            yield t.replace("reduction: lanes out of range not filled", c, t.text(yes))
        elif number(yes) is not None:
            yield t.replace("guard dropped", c, t.text(no))
            for text in changes.get(str(number(yes)), ()):
                yield t.replace("guard with another value", yes, text)
        elif value is not None:
            yield t.replace("mask of scores dropped", c, t.text(yes))
            for text in changes.get(str(value), ()):
                yield t.replace("masked scores with another value", no, text)
        yield t.exchange("select: branches exchanged", yes, no)
        yield t.replace("select: test negated", test, f"({t.text(test)} == 0)")


def _feeds(t: Text, c: ast.Call) -> bool:
    """Whether the value is a variable that a reduction or a product reads."""
    s = t.statement(c)
    if not (isinstance(s, ast.Assign) and s.value is c and isinstance(s.targets[0], ast.Name)):
        return False
    name = s.targets[0].id
    return any(
        isinstance(a, ast.Name) and a.id == name for r in t.calls(t.kernels, *REDUCTIONS, "tl.dot") for a in r.args
    )

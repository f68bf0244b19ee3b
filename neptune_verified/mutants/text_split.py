"""Not trusted: wrong edits of what a split-K update adds to a file: how an axis is cut, which branch a launcher takes, the
tensors between the kernels, their launches, the shares of programs; and of the rows of packed tiles."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import combinations, pairwise

from neptune_verified.mutants.text_edit import Edit, Text, name_of

REFUSES = "each call without splits or split_size is refused"
FAR = "differs only in programs beyond the 65536th"


def _choices(t: Text) -> Iterator[ast.If]:
    for s in t.launcher.body:
        if isinstance(s, ast.If) and s.orelse and t.raw(s.test) == "shares == 1":
            yield s


def cut_edits(t: Text) -> Iterator[Edit]:
    """The length that is cut, the size of a share, and who is asked for them."""
    for c in t.calls([t.launcher], "_shares"):
        n, _, _, block, tensor, splits, size = c.args
        yield t.replace("split: one element more", n, f"{t.text(n)} + 1")
        yield t.replace("split: one element less", n, f"{t.text(n)} - 1")
        yield t.replace("split: half of the length", n, f"{t.text(n)} // 2")
        for other in dict.fromkeys(re.findall(r"^    (\w+) = \w+\.shape", t.source, re.MULTILINE)):
            if other != t.text(n):
                yield t.replace("split: another length", n, other)
        yield t.replace("split: shares of any size", block, "1")
        yield t.replace("split: shares of half a tile", block, f"{int(t.text(block)) // 2}")
        yield t.replace("split: shares of one tile and an element", block, f"{int(t.text(block)) + 1}")
        yield t.replace("split: shares of two tiles", block, f"{2 * int(t.text(block))}")
        yield t.replace("split: shares of no size", block, "0")
        yield t.replace("split: device of a number", tensor, t.text(n))
        yield t.exchange("split: number and size exchanged", splits, size)
        yield t.replace("split: number not asked", splits, "None")
        yield t.replace("split: number of its own", splits, "2")
        s = t.statement(c)
        assert isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Tuple)
        yield t.exchange("split: results exchanged", *s.targets[0].elts)
        for name in ("shares", "share"):
            more = f"    {name} = {name} + 1\n"
            yield Edit(f"split: {name} changed after the cut", s.lineno, (t.after(s, more),))
    a = t.launcher.args
    for x, default in zip(a.kwonlyargs, a.kw_defaults, strict=True):
        if x.arg == "splits" and default is not None:
            yield t.replace("split: default of 0", default, "0", REFUSES)
            yield t.replace("split: default that is no int", default, '"2"', REFUSES)
        if x.arg == "split_size" and default is not None and a.kw_defaults[-2] is not None:
            parts = (t.put(a.kw_defaults[-2], "2"), t.put(default, "16"))
            yield Edit("split: two defaults", x.lineno, parts, REFUSES)


def choice_edits(t: Text) -> Iterator[Edit]:
    """Which kernels run."""
    for s in _choices(t):
        for test in ("shares >= 1", "shares != 1", "shares == 2", "share == 1", "shares > 1"):
            yield t.replace("choice: another condition", s.test, test)
        own, other = "".join(map(t.whole, s.body)), "".join(map(t.whole, s.orelse))
        start, end = t.lines(s.body[0], "")[0], t.lines(s.body[-1], "")[1]
        first, last = t.lines(s.orelse[0], "")[0], t.lines(s.orelse[-1], "")[1]
        yield Edit("choice: branches exchanged", s.lineno, ((start, end, other), (first, last, own)))
        yield Edit("choice: the loop in both branches", s.lineno, ((first, last, own),))
        before = t.starts[s.lineno - 1]
        loose = "".join(line[4:] for line in own.splitlines(keepends=True))
        yield Edit("choice: none, the loop alone", s.lineno, ((before, last, loose),))
        loose = "".join(line[4:] for line in other.splitlines(keepends=True))
        yield Edit("choice: none, splits alone", s.lineno, ((before, last, loose),))
        yield Edit("choice: the loop and then splits", s.lineno, ((end, first, ""),))
        yield from _order(t, s)
    for c in t.calls([t.launcher], "_results"):
        line = t.statement(c)
        for s in _choices(t):
            parts = (t.lines(line, ""), t.before(s.body[0], f"    {t.whole(line)}"))
            yield Edit("choice: results of one branch alone", line.lineno, parts)


def _order(t: Text, s: ast.If) -> Iterator[Edit]:
    """Launches of a branch: left out, twice, in another order."""
    blocks: list[tuple[int, int, int]] = []  # tiles, number of programs, limit, launch
    body = s.orelse
    for k, x in enumerate(body):
        if isinstance(x, ast.If):
            start = next(j for j in range(k, -1, -1) if name_of(getattr(body[j], "value", x)) == "_pick")
            blocks.append((t.lines(body[start], "")[0], t.lines(x, "")[1], x.lineno))
    for start, end, line in blocks:
        yield Edit("splits: launch left out", line, ((start, end, ""),))
        yield Edit("splits: launched twice", line, ((end, end, t.source[start:end]),))
    for (a, b, line), (c, d, _) in pairwise(blocks):
        parts = ((a, b, t.source[c:d]), (c, d, t.source[a:b]))
        yield Edit("splits: launches in another order", line, parts)
    last = blocks[-1]
    if len(blocks) > 1:
        start, end = t.lines(s.body[-1], "")[0], t.lines(s.body[-1], "")[1]
        parts = ((end, end, t.source[last[0] : last[1]]), (last[0], last[1], ""))
        yield Edit("splits: last launch in the other branch", start, parts)


def between_edits(t: Text) -> Iterator[Edit]:
    """The tensors between the kernels, and their launches."""
    for c in t.calls([t.launcher], "_between"):
        s = t.statement(c)
        assert isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Tuple) and isinstance(c.args[0], ast.Tuple)
        yield t.drop("between: not allocated", s)
        names = [n.id for n in s.targets[0].elts if isinstance(n, ast.Name)]
        for name, spec in zip(names, c.args[0].elts, strict=True):
            assert isinstance(spec, ast.Tuple) and isinstance(spec.elts[0], ast.Tuple)
            for d in spec.elts[0].elts:
                yield t.replace("between: another shape", d, f"{t.text(d)} + 1")
                yield t.replace("between: another shape", d, f"{t.text(d)} - 1")
            first = spec.elts[0].elts[0]
            if t.text(first) == "shares":
                yield t.replace("between: sizes of shares for their number", first, "share")
                yield t.replace("between: one share", first, "1")
            other = "torch.float16" if "float32" in t.text(spec.elts[1]) else "torch.int8"
            yield t.replace("between: another type", spec.elts[1], other)
            for k, launch in enumerate(_launches(t, s)):
                args = {t.raw(a): a for a in launch.args}
                foreign = [x for x in names if x != name and x in args]
                for x in foreign[:1] if name in args else ():
                    kind = "between: tensors exchanged where they are " + ("written" if k == 0 else "read")
                    yield t.exchange(kind, args[name], args[x])
        for a, b in combinations(s.targets[0].elts, 2):
            yield t.exchange("between: names exchanged", a, b)
        for launch in _launches(t, s):
            for a in launch.args:
                if t.raw(a) == "shares":
                    for text in ("shares - 1", "shares + 1", "share", "2"):
                        yield t.replace("splits: number of splits changed", a, text)
                if t.raw(a) == "share":
                    for text in ("share - 1", "share + 1", "shares", f"share // {2}"):
                        yield t.replace("splits: size of a share changed", a, text)
            plain = {t.raw(a): a for a in launch.args}
            if {"shares", "share"} <= set(plain):
                yield t.exchange("splits: number and size exchanged", plain["shares"], plain["share"])


def _launches(t: Text, allocation: ast.stmt) -> list[ast.Call]:
    """Those of the branch in which the tensors are allocated."""
    choice = t.parent[allocation]
    assert isinstance(choice, ast.If)
    found = [n for s in choice.orelse for n in ast.walk(s)]
    return [n for n in found if isinstance(n, ast.Call) and isinstance(n.func, ast.Subscript)]


def share_edits(t: Text) -> Iterator[Edit]:
    """In the kernels of splits: which elements a program owns, and where it stores what they give."""
    for f in t.kernels:
        own = [a.arg for a in f.args.args]
        if "split_size" in own:
            yield from _first_and_end(t, f)
        elif "splits" in own:
            yield from _joins(t, f)


def _first_and_end(t: Text, f: ast.FunctionDef) -> Iterator[Edit]:
    for _, n in t.each([f]):
        if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult) and t.raw(n.right) == "split_size":
            index = t.raw(n.left)
            for text in (f"({index} + 1) * split_size", f"{index} * split_size + 1", index, "0", f"{index} * splits",
                         f"(splits - 1 - {index}) * split_size"):  # fmt: skip
                yield t.replace("share: begins elsewhere", n, text)
            yield t.replace("share: great splits begin elsewhere", n,
                            f"tl.where({index} < 65536, {index} * split_size, 0)", FAR)  # fmt: skip
        if name_of(n) == "tl.minimum" and isinstance(n, ast.Call) and "split_size" in t.raw(n.args[0]):
            end, extent = map(t.raw, n.args)
            for text in (end, extent, f"tl.minimum({end} - 1, {extent})", f"tl.minimum({end} + 1, {extent})",
                         f"tl.minimum({end}, {extent} - 1)", f"tl.maximum({end}, {extent})",
                         f"tl.minimum({end} + split_size, {extent})"):  # fmt: skip
                yield t.replace("share: ends elsewhere", n, text)
        if isinstance(n, ast.Assign) and t.raw(n.targets[0]) == "split" and t.raw(n.value) == "pid":
            for text in ("pid + 1", "splits - 1 - pid", "pid % 2", "tl.minimum(pid, splits - 2)"):
                yield t.replace("share: another split", n.value, text)
    for c in t.calls([f], "tl.store"):
        for n in ast.walk(c.args[0]):
            if isinstance(n, ast.Name) and n.id == "split":
                for text in ("(split + 1)", "(splits - 1 - split)", "0", "(split // 2)"):
                    yield t.replace("share: stored for another split", n, text)


def _joins(t: Text, f: ast.FunctionDef) -> Iterator[Edit]:
    loaded: dict[str, list[str]] = {}
    for c in t.calls([f], "tl.load"):
        s = t.statement(c)
        if isinstance(s, ast.Assign) and s.value is c and isinstance(s.targets[0], ast.Name):
            tensor = t.raw(c).split("(", 1)[1].split("_part_ptr")[0]
            loaded.setdefault(tensor, []).append(s.targets[0].id)
        for n in ast.walk(c.args[0]):
            if isinstance(n, ast.Subscript) and t.raw(n.value) == "split":
                for text in ("(split + 1)", "(splits - 1 - split)", "(split // 2)"):
                    yield t.replace("join: reads another split", n.value, text)
    for tensor, names in loaded.items():
        # What was joined, for what one split has: the repair to its own producer is none.
        for _, n in t.each([f]):
            if isinstance(n, ast.Name) and n.id == tensor and isinstance(n.ctx, ast.Load):
                inner = t.parent[n]
                if (
                    isinstance(inner, ast.Call)
                    and name_of(inner) == "tl.where"
                    and isinstance(t.parent[inner], ast.Subscript)
                ):
                    spread = t.parent[inner]
                    for name in names[-1:]:
                        yield t.replace("join: repaired to a split's own producer", spread, name)
        for name in names[-1:]:
            for _, n in t.each([f]):
                if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load):
                    start = t.parent[n]
                    if isinstance(start, ast.BinOp) and isinstance(start.op, ast.Sub):
                        yield t.replace("join: repaired from nothing", n, "0.0")
    for _, n in t.each([f]):
        if isinstance(n, ast.Compare) and t.raw(n) == "split < splits":
            for text in ("split <= splits", "split < splits - 1", "split < 2", "split >= 0", "split > 0"):
                yield t.replace("join: another mask of the last splits", n, text)
        if isinstance(n, ast.For) and "splits" in t.raw(n.iter):
            yield t.replace("join: one step alone", n.iter.args[1], "1")  # type: ignore[attr-defined]
            yield t.replace("join: great numbers of splits cut", n.iter.args[1],  # type: ignore[attr-defined]
                            "tl.minimum(splits, 65536)", "differs only above 65536 splits")  # fmt: skip


def packing_edits(t: Text) -> Iterator[Edit]:
    """The rows of a packed tile: ``h = tl.where(h_lane < G, h_group * G + h_lane, H)``."""
    pattern = r"tl\.where\((\w+_lane) < (\d+), (\w+_group) \* \2 \+ \1, (\w+)\)"
    for f in t.kernels:
        for c in t.calls([f], "tl.where"):
            found = re.fullmatch(pattern, t.raw(c))
            if found is None:
                continue
            lane, size, group, end = found[1], int(found[2]), found[3], found[4]
            whole = f"{group} * {size} + {lane}"
            for text in (
                f"tl.where({lane} < {size - 1}, {whole}, {end})",
                f"tl.where({lane} < {size + 1}, {whole}, {end})",
                f"tl.where({lane} <= {size}, {group} * {size + 1} + {lane}, {end})",
                f"tl.where({lane} < {size}, {group} * {size + 1} + {lane}, {end})",
                f"tl.where({lane} < {size}, {group} * {size - 1} + {lane}, {end})",
                f"tl.where({lane} < {size}, {whole} + 1, {end})",
                f"tl.where({lane} < {size}, {lane} * {size} + {group}, {end})",
                f"tl.where(({lane} < {size}) & ({lane} != 1), {whole}, {end})",
                f"tl.where({lane} < {size}, {whole}, 0)",
                f"tl.where({lane} < {size}, {whole}, {end} - 1)",
                f"tl.where({lane} > 0, {whole} - 1, {end})",
                whole,
            ):
                yield t.replace("packing: other rows", c, text)
            if not isinstance(t.parent[c], ast.Assign):
                continue
            for read in t.calls([f], "tl.load"):
                for n in ast.walk(read.args[0]):
                    if isinstance(n, ast.Name) and n.id == group:
                        for text in (f"(1 - {group})", "0", f"({group} // 2)", f"({group} * {size} // {size + 1})"):
                            yield t.replace("packing: another group is read", n, text)

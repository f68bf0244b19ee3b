"""Not trusted: wrong edits of the launcher, of the tile tables and of the header."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from neptune_verified.mutants.text_edit import Edit, Text, name_of, others

CONTRACTED = "a * b + c may be contracted"
BOUND = "the file no longer says what it was made of"


def argument_edits(t: Text) -> Iterator[Edit]:
    for _, c in t.each([t.launcher]):
        if not (isinstance(c, ast.Call) and isinstance(c.func, ast.Subscript)):
            continue
        for a, b in pairwise(c.args):
            yield t.exchange("launch: arguments exchanged", a, b)
        programs = c.func.slice
        yield t.replace("launch: grid + 1", programs, "(programs + 1,)")
        yield t.replace("launch: grid - 1", programs, "(programs - 1,)")
        yield t.replace("launch: grid of one program", programs, "(1,)")
        for a, b in pairwise(c.args):
            if isinstance(a, ast.Starred) and isinstance(b, ast.Starred):
                yield t.replace("launch: strides of another tensor", a, t.text(b))
        ranks = {m[1]: int(m[2]) for m in re.finditer(r'\("(\w+)", \1, (\d+), torch', t.source)}
        stars = [a for a in c.args if isinstance(a, ast.Starred)]
        for star in [a for a in stars if ranks.get(t.text(a.value).split(".")[0], 1) > 1][:2]:
            yield t.replace("launch: strides turned", star.value, f"{t.text(star.value)}[::-1]")
    for f in t.kernels:
        for x, y in pairwise(f.args.args):
            if x.arg.startswith("BLOCK_") == y.arg.startswith("BLOCK_"):
                yield t.exchange("kernel: parameters exchanged", x, y)


def size_edits(t: Text) -> Iterator[Edit]:
    ranks = {m[1]: int(m[2]) for m in re.finditer(r'\("(\w+)", \1, (\d+), torch', t.source)}
    for s in t.statements(t.launcher):
        if not isinstance(s, ast.Assign) or not isinstance(s.targets[0], ast.Name):
            continue
        found = re.fullmatch(r"(\w+)\.shape\[(\d+)\]", t.text(s.value))
        if found:
            tensor, k = found[1], int(found[2])
            for other in range(ranks[tensor]):
                if other != k:
                    yield t.replace("length read from another dimension", s.value, f"{tensor}.shape[{other}]")
            for name in others(list(ranks), tensor)[:1]:
                yield t.replace("length read from another tensor", s.value, f"{name}.shape[{min(k, ranks[name] - 1)}]")
            yield t.replace("length - 1", s.value, f"{t.text(s.value)} - 1")
            yield t.replace("length rounded down to 16", s.value, f"{t.text(s.value)} // 16 * 16")
        elif s.targets[0].id == "programs":
            yield from _programs(t, s)


def _programs(t: Text, s: ast.Assign) -> Iterator[Edit]:
    text = t.raw(s.value)
    for n in ast.walk(s.value):
        if isinstance(n, ast.UnaryOp) and isinstance(n.operand, ast.BinOp):
            inner = n.operand
            yield t.replace("grid from a floor division", n, f"{t.raw(inner.left)[1:]} // {t.text(inner.right)}")
            for other in [b for b in re.findall(r'"(BLOCK_\w+)": \d', t.source) if f'"{b}"' not in text][:1]:
                yield t.replace("grid from the block of another axis", inner.right, f'blocks["{other}"]')
        if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult):
            yield t.replace("grid: a factor left out", n, t.text(n.right))
    yield t.replace("grid + 1", s.value, f"{text} + 1")
    yield t.replace("grid - 1", s.value, f"{text} - 1")


def check_edits(t: Text) -> Iterator[Edit]:
    for s in t.statements(t.launcher):
        if isinstance(s, ast.Expr) and name_of(s.value).startswith("_check"):
            yield t.drop("check left out", s)
            call = s.value
            assert isinstance(call, ast.Call)
            if name_of(call) == "_check_length":
                yield t.replace("check of another length", call.args[3], t.text(call.args[1]))
            if name_of(call) == "_check_tensors" and isinstance(call.args[0], ast.Tuple):
                yield from _tensor_rows(t, call.args[0])
        if isinstance(s, ast.If) and isinstance(s.body[0], ast.Raise):
            yield t.drop("check left out", s)
        if isinstance(s, ast.If) and t.text(s.test) == "programs":
            yield t.drop("launch left out", s)
            inner = s.body[0]
            assert isinstance(inner, ast.With)
            yield t.replace("launch on the current device", inner.items[0].context_expr, "_device(torch.zeros(0))",
                            "the tensors may be on another device")  # fmt: skip
            yield t.replace("launch under another condition", s.test, "programs > 1")
            yield t.replace("launch under another condition", s.test, "not programs")
    for _, n in t.each(t.host):
        if isinstance(n, ast.Raise):
            yield t.replace("host helper: check left out", n, "pass")
        if isinstance(n, ast.Compare) and len(n.ops) == 1:
            swap = {ast.NotEq: "==", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.Is: "is not"}.get(type(n.ops[0]))
            if swap:
                yield t.replace("host helper: other comparison", n,
                                f"{t.text(n.left)} {swap} {t.text(n.comparators[0])}")  # fmt: skip
        if name_of(n) == "torch.empty":
            assert isinstance(n, ast.Call)
            yield t.replace("host helper: results share memory", n, "inputs[0]")
            yield t.replace("host helper: result of the input's type", n.keywords[0].value, "inputs[0].dtype")


def _tensor_rows(t: Text, rows: ast.Tuple) -> Iterator[Edit]:
    for row in rows.elts:
        assert isinstance(row, ast.Tuple)
        rank, dtype = row.elts[2], row.elts[3]
        yield t.replace("checked rank + 1", rank, str(int(t.text(rank)) + 1))
        other = "torch.float16" if t.text(dtype) != "torch.float16" else "torch.bfloat16"
        yield t.replace("checked type changed", dtype, other)
        if row is not rows.elts[0]:
            start, end = t.span(row)
            yield Edit("tensor not checked", row.lineno, ((t.source.rfind(",", 0, start), end, ""),))


def result_edits(t: Text) -> Iterator[Edit]:
    for _, n in t.each([t.launcher]):
        if name_of(n) == "_results" and isinstance(n, ast.Call):
            specs = n.args[0]
            assert isinstance(specs, ast.Tuple)
            for spec in specs.elts:
                assert isinstance(spec, ast.Tuple) and isinstance(spec.elts[0], ast.Tuple)
                dtype = t.text(spec.elts[1])
                other = "torch.float64" if dtype != "torch.float64" else "torch.float32"
                yield t.replace("result of another type", spec.elts[1], other)
                for d in spec.elts[0].elts:
                    yield t.replace("result of another shape", d, f"{t.text(d)} + 1")
            if len(specs.elts) > 1:
                yield t.exchange("results of exchanged types or shapes", specs.elts[0], specs.elts[1])
            yield t.replace("out not used", n.args[2], "None")
            if isinstance(n.args[1], ast.Tuple) and len(n.args[1].elts) > 1:
                yield t.replace("results may share memory with inputs", n.args[1], f"({t.text(n.args[1].elts[-1])},)")
        if name_of(n) == "_pick" and isinstance(n, ast.Call):
            tables = [k for k in t.assignments if k.endswith("_CONFIGS")]
            for table in tables:
                if table != t.text(n.args[0]):
                    yield t.replace("blocks of another kernel's table", n.args[0], table)
        if isinstance(n, ast.Return) and isinstance(n.value, ast.Tuple):
            yield t.exchange("results returned in another order", n.value.elts[0], n.value.elts[1])
    first = t.launcher.args.args[0].arg
    check = next(s for s in t.launcher.body if isinstance(s, ast.Expr) and name_of(s.value) == "_check_tensors")
    for kind, text in (("input changed on its way", f"{first} = {first}.flip(0)"),
                       ("input overwritten", f"{first}.zero_()")):  # fmt: skip
        yield Edit(kind, check.lineno, (t.after(check, f"    {text}\n"),))


def table_edits(t: Text) -> Iterator[Edit]:
    for name, value in t.assignments.items():
        if name.endswith("_CONFIGS") and isinstance(value, ast.Dict):
            for entry in value.values:
                assert isinstance(entry, ast.Tuple) and isinstance(entry.elts[0], ast.Dict)
                blocks, options = entry.elts[0], entry.elts[1]
                assert isinstance(options, ast.Dict)
                key, size = blocks.keys[0], blocks.values[0]
                assert key is not None
                yield t.replace("table: block of 6 lanes", size, "6")
                yield t.replace("table: block of no lanes", size, "0")
                for other in blocks.keys[1:]:
                    if other is not None:
                        yield t.replace("table: one block twice", key, t.text(other))
                for k, v in zip(options.keys, options.values):
                    if k is not None and t.text(k) == '"enable_fp_fusion"':
                        yield t.replace("table: contraction allowed", v, "True", CONTRACTED)
                        yield Edit("table: contraction left to the default", entry.lineno,
                                   ((t.source.rfind(",", 0, t.span(k)[0]), t.span(v)[1], ""),), CONTRACTED)  # fmt: skip
                yield t.replace("table: used for no row", entry.elts[2], "1")
        if name.endswith("_SIGNATURE") and isinstance(value, ast.Dict):
            why = "code compiled ahead of time would take another type"
            yield t.replace("signature: other type", value.values[0], '"*fp64"', why)
            strides = [v for v in value.values if t.text(v) == '"i32"']
            yield t.replace("signature: stride taken to be 1", strides[0], '"one"', why)


def module_edits(t: Text) -> Iterator[Edit]:
    """Statements of the file that change what others mean."""
    first, last, end = t.compiled[0], t.launcher, len(t.source)
    at = t.starts[first.lineno - 2]
    builtins = {"float": "lambda text: 0.0", "range": "lambda a, b, c=1: [0]"}
    for name, value in builtins.items():
        if f"{name}(" in "".join(map(t.raw, [*t.compiled, last])):
            yield Edit("module: a builtin redefined", first.lineno, ((at, at, f"{name} = {value}\n\n\n"),))
    for table in [k for k in t.assignments if k.endswith("_CONFIGS")]:
        later = f"\n\nfor entry in {table}.values():\n    entry[1].clear()\n"
        yield Edit("module: table changed later", last.lineno, ((end, end, later),), CONTRACTED)
    yield Edit("module: entry defined a second time", last.lineno, ((end, end, f"\n\n{last.name} = _results\n"),))


def header_edits(t: Text) -> Iterator[Edit]:
    found = re.search(r"^definition: sha256:([0-9a-f]{64})$", t.source, re.MULTILINE)
    if found:
        line = t.source.count("\n", 0, found.start()) + 1
        digit = "0" if t.source[found.start(1)] != "0" else "1"
        yield Edit("header: hash of another definition", line, ((found.start(1), found.start(1) + 1, digit),), BOUND)
        yield Edit("header: no hash", line, ((found.start(), found.end(), ""),), BOUND)
    for name, other in (("ENTRY", '"_results"'), ("TARGET", '"cuda:80"')):
        yield t.replace(f"header: other {name}", t.assignments[name], other, BOUND)
    for f in t.kernels[:1]:
        start = t.starts[f.lineno - 2]
        line = f.lineno - 1
        yield Edit("kernel not compiled", line, ((start, t.starts[f.lineno - 1], ""),))
        last = t.launcher
        twin = f"\n\n@triton.jit\n{t.text(f).replace('tl.exp(', 'tl.exp2(').replace('tl.abs(', '(')}\n"
        if twin.count("tl.exp2("):
            end = len(t.source)
            yield Edit("kernel defined a second time", last.lineno, ((end, end, twin),))
        body = "return {k: 2 * v for k, v in next(iter(table.values()))[0].items()}, {}"
        shadow = f"\n\ndef _pick(table, rows, wanted):\n    {body}\n"
        yield Edit(
            "host helper defined a second time", last.lineno, ((len(t.source), len(t.source), shadow),), CONTRACTED
        )

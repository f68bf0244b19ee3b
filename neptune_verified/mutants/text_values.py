"""Not trusted: wrong edits of values: operations, constants, reductions, products, conversions, helper functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from neptune_verified.mutants.text_edit import Edit, Text, is_infinity, keyword, name_of, number

OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.BitAnd: "|", ast.BitOr: "&"}
SYMBOLS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%"}
FUNCTIONS = {
    "tl.maximum": ("tl.minimum",), "tl.minimum": ("tl.maximum",), "tl.exp": ("tl.exp2",), "tl.exp2": ("tl.exp",),
    "tl.log": ("tl.log2",), "tl.sqrt": ("tl.rsqrt",), "tl.rsqrt": ("tl.sqrt",), "tl.cos": ("tl.sin",),
    "tl.max": ("tl.min", "tl.sum"), "tl.min": ("tl.max", "tl.sum"), "tl.sum": ("tl.max",), "tl.abs": ("",),
    "_tanh": ("", "_sigmoid"), "_sigmoid": ("", "_tanh"), "_floordiv": ("_floormod",), "_floormod": ("_floordiv",),
    "_logaddexp": ("tl.maximum",),
}  # fmt: skip
RARE = "differs at one value of an element"
UNLISTED = "a rounding that is not listed"
TF32 = "products of tf32 are not those of float32"


def operator_edits(t: Text) -> Iterator[Edit]:
    for prefix, roots in (("", t.kernels), ("helper: ", t.helpers)):
        for _, n in t.each(roots):
            if isinstance(n, ast.BinOp) and not t.inside(n, _is_pointer) and not _is_pointer(n):
                yield from _operator(t, prefix, n)
            elif isinstance(n, ast.UnaryOp) and isinstance(n.op, ast.USub) and number(n) is None:
                yield t.replace(f"{prefix}sign dropped", n, t.text(n.operand))


def _is_pointer(n: ast.AST) -> bool:
    """Inside an address, or in the arithmetic of program indices, which have edits of their own."""
    if isinstance(n, ast.BinOp) and isinstance(n.right, ast.Name) and n.right.id.startswith("stride_"):
        return True
    if isinstance(n, ast.BinOp) and isinstance(n.left, ast.Name) and n.left.id.endswith(("_ptr", "_start", "pid")):
        return True
    if isinstance(n, ast.BinOp) and isinstance(n.left, ast.BinOp):
        return _is_pointer(n.left)
    return False


def _operator(t: Text, prefix: str, n: ast.BinOp) -> Iterator[Edit]:
    left, right = t.text(n.left), t.text(n.right)
    if type(n.op) in OPERATORS:
        yield t.replace(f"{prefix}other operator", n, f"({left} {OPERATORS[type(n.op)]} {right})")
    if isinstance(n.op, ast.Sub | ast.Div):
        yield t.replace(f"{prefix}operands exchanged", n, f"({right} {SYMBOLS[type(n.op)]} {left})")
    if isinstance(n.op, ast.FloorDiv | ast.Mod):
        other = "%" if isinstance(n.op, ast.FloorDiv) else "//"
        yield t.replace(f"{prefix}// and % exchanged", n, f"({left} {other} {right})")
    if isinstance(n.op, ast.Div):
        yield t.replace(f"{prefix}division left out", n, left)
        if isinstance(n.right, ast.Subscript) and isinstance(n.right.value, ast.Name):
            yield t.replace("division by another row's value", n.right, f"tl.max({n.right.value.id}, axis=0)")
        elif isinstance(n.right, ast.Name) and not prefix:
            yield t.replace("division by another row's value", n.right, f"tl.max({right}, axis=0)")


def function_edits(t: Text) -> Iterator[Edit]:
    for prefix, roots in (("", t.kernels), ("helper: ", t.helpers)):
        for c in t.calls(roots):
            name = name_of(c)
            for other in FUNCTIONS.get(name, ()):
                text = f"{other}({', '.join(map(t.text, [*c.args, *c.keywords]))})"
                kind = f"{prefix}reduction by another" if keyword(c, "axis") else f"{prefix}other function"
                yield t.replace(
                    kind if other else f"{prefix}function left out", c, text if other else t.text(c.args[0])
                )
            if name in ("_floordiv", "_floormod"):
                a, b = map(t.text, c.args)
                sign = "//" if name == "_floordiv" else "%"
                yield t.replace("truncating division for floor", c, f"({a} {sign} {b})")
            if name in ("tl.exp", "tl.log", "tl.exp2") and not prefix:
                yield t.replace("value negated", c.args[0], f"(-{t.text(c.args[0])})")
                yield t.replace("element of one value changed", c.args[0],
                                f"tl.where({t.text(c.args[0])} == -1.375, 0.0, {t.text(c.args[0])})", RARE)  # fmt: skip
            axis = keyword(c, "axis")
            if axis is not None and name in ("tl.max", "tl.min", "tl.sum"):
                yield t.replace("reduction over the other axis", axis.value, "1" if t.text(axis.value) == "0" else "0")
            if name == "tl.reduce" and isinstance(c.args[2], ast.Name):
                yield t.replace("reduction over the other axis", c.args[1], "0")
                other = {"_mul": "_logaddexp", "_logaddexp": "_mul"}[c.args[2].id]
                if any(h.name == other for h in t.helpers):
                    yield t.replace("reduction by another", c.args[2], other)


def constant_edits(t: Text) -> Iterator[Edit]:
    for prefix, roots in (("", t.kernels), ("helper: ", t.helpers)):
        for _, n in t.each(roots):
            value = number(n)
            if value is None or t.inside(n, lambda p: number(p) is not None) or t.inside(n, _elsewhere):
                continue
            if is_infinity(n):
                yield t.replace(f"{prefix}infinity: finite stand-in", n, f"({value!r})".replace("inf", "1e38"))
                yield t.replace(f"{prefix}infinity: other sign", n, f'float("{-value}")')
                continue
            why = "the helper's error is more than its rounding" if prefix and value not in (0.0, 1.0) else ""
            if isinstance(value, float):
                if value:
                    yield t.replace(f"{prefix}constant: last digits", n, repr(value * (1 + 2**-22)), "another number")
                yield t.replace(f"{prefix}constant doubled", n, repr(2 * value) if value else "0.5", why)
                yield t.replace(f"{prefix}constant negated", n, f"({-value!r})" if value else "(-0.5)", why)
            else:
                yield t.replace(f"{prefix}integer constant + 1", n, str(int(value) + 1))


def _elsewhere(n: ast.AST) -> bool:
    if isinstance(n, ast.keyword):
        return n.arg in ("other", "axis")
    return name_of(n) in ("tl.program_id", "tl.full", "tl.arange", "range")


def dot_edits(t: Text) -> Iterator[Edit]:
    for c in t.calls(t.kernels, "tl.dot"):
        a, b = c.args[:2]
        yield t.exchange("product: operands exchanged", a, b)
        for x in (a, b):
            if name_of(x) == "tl.trans" and isinstance(x, ast.Call):
                yield t.replace("product: operand not turned", x, t.text(x.args[0]))
            else:
                yield t.replace("product: operand turned", x, f"tl.trans({t.text(x)})")
            rounded = f"tl.cast(tl.cast({t.text(x)}, tl.bfloat16), {_type(t)})"
            yield t.replace("product: operand rounded to bfloat16", x, rounded, UNLISTED)
        yield t.replace(
            "product of another type", c, f"{t.raw(c)[:-1]}, out_dtype=tl.float16)", "it is rounded to float16"
        )
        if len(c.args) == 3:
            yield Edit("product: accumulator left out", c.lineno, (t.without(c, c.args[2]),))
            yield t.replace("product: accumulator doubled", c.args[2], f"2.0 * {t.text(c.args[2])}")
        if (p := keyword(c, "input_precision")) is not None:
            yield t.replace("product in tf32", p.value, '"tf32"', TF32)
            yield t.replace("product in tf32", p.value, '"tf32x3"', TF32)
            yield Edit("product in the default precision", c.lineno, (t.without(c, p),), TF32)


def _type(t: Text) -> str:
    return "tl.float16" if "tl.float16" in t.source else "tl.float32"


def cast_edits(t: Text) -> Iterator[Edit]:
    for c in t.calls(t.kernels, "tl.cast"):
        if t.text(c.args[1]) == "tl.int64" or len(c.args) != 2:
            continue
        wanted = t.text(c.args[1])
        if wanted == "tl.float16":
            towards = f'{t.raw(c)[:-1]}, fp_downcast_rounding="rtz")'
            yield t.replace("rounding towards zero", c, towards, "the definition rounds to nearest")
            yield t.replace("rounding left out", c, t.text(c.args[0]), "a rounding of the definition is missing")
        elif wanted == "tl.float32":
            why = "the sum is taken in float16" if "tl.float16" in t.source else ""
            yield t.replace("conversion left out", c, t.text(c.args[0]), why)
        for other in {"tl.float16": ("tl.bfloat16",), "tl.float32": ("tl.float16",), "tl.int32": ("tl.int8",)}.get(
            wanted, ()
        ):
            yield t.replace("conversion to another type", c.args[1], other, "values leave the type or are rounded")
    for c in t.calls(t.kernels, "tl.sum"):
        yield t.replace("sum of another type", c, f"{t.raw(c)[:-1]}, dtype=tl.float16)", "it is taken in float16")
    for c in t.calls(t.kernels, "tl.exp", "tl.sum", "tl.max", "tl.log"):
        if "tl.int32" not in t.text(c):
            rounded = f"tl.cast(tl.cast({t.text(c.args[0])}, tl.float16), tl.float32)"
            yield t.replace("rounding inserted", c.args[0], rounded, UNLISTED)
            yield t.replace("conversion to integer and back", c.args[0],
                            f"tl.cast(tl.cast({t.text(c.args[0])}, tl.int32), tl.float32)")  # fmt: skip

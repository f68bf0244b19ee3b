"""Not trusted: wrong edits of carried values: where they start, how they are repaired, when they take their new value."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from neptune_verified.mutants.text_edit import Edit, Text, carried, is_rebind, name_of, number, others, sizes_of

FAR = "differs only at lengths above 65536"
STARTS = {"-inf": ("0.0", "-3.4028234663852886e+38"), "inf": ("0.0",), "0.0": ("1.0", 'float("-inf")'), "1.0": ("0.0",),
          "0": ("1",), "1": ("0",)}  # fmt: skip


def start_edits(t: Text) -> Iterator[Edit]:
    for c in t.calls(t.kernels, "tl.full"):
        if not isinstance(t.statement(c), ast.Assign) or len(c.args) != 3:
            continue
        for text in STARTS.get(str(number(c.args[1])), ()):
            yield t.replace("accumulator starts elsewhere", c.args[1], text)
        if t.text(c.args[2]) == "tl.float32":
            yield t.replace("accumulator of float16", c.args[2], "tl.float16", "the sum is rounded at each step")


def rebind_edits(t: Text) -> Iterator[Edit]:
    for _, loop in t.loops():
        state = carried(loop)
        for s in [s for s in loop.body if is_rebind(s)]:
            assert isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) and isinstance(s.value, ast.Name)
            name, new = s.targets[0].id, s.value.id
            yield t.drop("carried value keeps its old value", s)
            for other in others(list(state.values()), new)[:1]:
                yield t.replace("carried value takes another's", s.value, other)
            made = next((k for k, x in enumerate(loop.body) if _assigns(x, new)), None)
            used = [k for k, x in enumerate(loop.body) if made is not None and k > made and _reads(x, name)]
            if made is not None and used and loop.body[used[0]] is not s:
                parts = (t.lines(s, ""), t.after(loop.body[made], t.whole(s)))
                yield Edit("carried value updated before its last use", s.lineno, parts)
            yield Edit("carried value updated after the loop", s.lineno,
                       (t.lines(s, ""), t.after(loop.body[-1], t.whole(s)[4:])))  # fmt: skip


def _assigns(s: ast.stmt, name: str) -> bool:
    return isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) and s.targets[0].id == name


def _reads(s: ast.stmt, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in ast.walk(s))


def repair_edits(t: Text) -> Iterator[Edit]:
    for _, loop in t.loops():
        state = carried(loop)
        new = {v: k for k, v in state.items()}
        for s in loop.body:
            if is_rebind(s):
                continue
            for n in sorted((n for n in ast.walk(s) if isinstance(n, ast.expr)), key=t.span):
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load):
                    if new.get(n.id):
                        yield t.replace("old value where the new one belongs", n, new[n.id])
                    if n.id in state:
                        ready = [x for x in loop.body[: loop.body.index(s)] if _assigns(x, state[n.id])]
                        if ready:
                            yield t.replace("new value where the old one belongs", n, state[n.id])
                        for other in others(list(state), n.id)[:1]:
                            yield t.replace("another carried value", n, other)
                yield from _factors(t, n, state)


def _factors(t: Text, n: ast.expr, state: dict[str, str]) -> Iterator[Edit]:
    if not isinstance(n, ast.BinOp):
        return
    left, right = t.text(n.left), t.text(n.right)
    if isinstance(n.op, ast.Mult) and left.split("[")[0] in state:
        yield t.replace("accumulator not rescaled", n, left)
        yield t.replace("accumulator rescaled twice", n, f"{left} * {right} * {right}")
        yield t.replace("accumulator divided by its factor", n, f"{left} / {right}")
    if isinstance(n.op, ast.Add) and any(isinstance(x, ast.Name) and x.id in state for x in ast.walk(n.left)):
        yield t.replace("tile's share dropped", n, left)
        yield t.replace("accumulator dropped", n, right)
        yield t.replace("tile's share counted twice", n, f"{left} + 2 * {right}")


def variable_edits(t: Text) -> Iterator[Edit]:
    """A variable in the place of another: the one that was assigned last before it."""
    for _, loop in t.loops():
        for k, s in enumerate(loop.body):
            before = [x.targets[0] for x in loop.body[1:k] if isinstance(x, ast.Assign)]
            made = [x.id for x in before if isinstance(x, ast.Name)]
            for n in ast.walk(s):
                if isinstance(n, ast.Name) and n.id in made and len(made) > 1 and not is_rebind(s):
                    earlier = [x for x in made if x != n.id and ("tile" in x) == ("tile" in n.id)]
                    for other in earlier[-1:]:
                        yield t.replace("another variable", n, other)


def branch_edits(t: Text) -> Iterator[Edit]:
    """Statements that run in few calls or programs only."""
    for f, loop in t.loops():
        # A change of a value that nothing reads afterwards is none.
        later = {n.id for s in f.body if s.lineno > loop.lineno for n in ast.walk(s) if isinstance(n, ast.Name)}
        for name in (c for c in carried(loop) if c in later):
            sizes = sizes_of(f)
            if sizes:
                text = f"    if {sizes[0]} > 65536:\n        {name} = {name} + 1\n"
                yield Edit("value changed at great lengths", loop.lineno, (t.after(loop, text),), FAR)
            text = f"    if tl.program_id(0) == 65536:\n        {name} = {name} + 1\n"
            yield Edit("value changed in a late program", loop.lineno, (t.after(loop, text),), FAR)


def order_edits(t: Text) -> Iterator[Edit]:
    """Stores in the loop, statements that stand a step too late."""
    for f, loop in t.loops():
        if loop is not [s for s in f.body if isinstance(s, ast.For)][-1]:
            continue
        for s in f.body[f.body.index(loop) + 1 :]:
            if isinstance(s, ast.Expr) and name_of(s.value) == "tl.store":
                parts = (t.lines(s, ""), t.after(loop.body[-1], "    " + t.whole(s)))
                yield Edit("result stored at every step", s.lineno, parts)
                yield t.drop("result not stored", s)
                yield Edit("result stored twice", s.lineno, (t.after(s, t.whole(s)),))
        for a, b in zip(loop.body[1:], loop.body[2:]):
            if isinstance(a, ast.Assign) and isinstance(a.targets[0], ast.Name) and _reads(b, a.targets[0].id):
                yield Edit("statement after its use", a.lineno, (t.lines(a, t.whole(b)), t.lines(b, t.whole(a))))

"""Not trusted: a loop program as loop nests for people. Nothing is decided from this text."""

from __future__ import annotations

from collections.abc import Iterator

from neptune_verified.ir.expr import REDUCERS, Axis, Expr, substitute, var
from neptune_verified.ir.loops import Carried, Guard, LoopProgram, Nest, Output, Pass, T, output_expr, span, step, term
from neptune_verified.ir.printing import Printer
from neptune_verified.ir.split import split_form

_POINTS = {"-inf": "-inf", "zero": "0", "+inf": "+inf"}


def loops_text(loops: LoopProgram) -> str:
    """Every kernel with its passes, what each carries, repairs and stores::

    kernel rows: for each i < M in parallel
      pass 1 of 2 over x0 < N, tile by tile
        m[i] starts at -inf
          m_new = max(m, max over the tile of (x[i, x0]))
        l[i] starts at 0
          l_new = l * exp(m - m') + sum over the tile of (exp(x[i, x0] - m'))
          where m' = m_new, or 0 where that is -inf

    The kernels of a split-K form stand below those that they are an alternative to."""
    lines: list[str] = []
    for nest in loops.nests:
        lines += nest_lines(nest, Printer(loops.program))
        if nest.split:
            form = split_form(loops.program, nest)
            lines.append(f"or, where {Printer(loops.program)(form.extent)} is split:")
            lines += [line for part in form.nests for line in nest_lines(part, Printer(form.program))]
    return "\n".join(lines)


def nest_lines(nest: Nest, show: Printer) -> Iterator[str]:
    yield f"kernel {nest.name}: {_axes_text(nest.grid, show, 'in parallel')}"
    if nest.inner:
        yield f"  each with all of {_ranges(nest.inner, show)}"
    for k, p in enumerate(nest.passes):
        over = f"over {_ranges(p.stream, show)}, tile by tile" if p.stream else "over nothing"
        if nest.share is not None:
            low, high = (show(e) for e in span(nest, p.stream[-1]))
            over += f", from {low} to {high}"
        yield f"  pass {k + 1} of {len(nest.passes)} {over}"
        for c in p.carried:
            yield from ("    " + line for line in carried_lines(nest, p, c, show))
        for out in p.stores:
            yield f"    store {_left(out)} = {show(output_expr(nest, out, p))}"
    for out in nest.outputs:
        yield f"  store {_left(out)} = {show(output_expr(nest, out))}"


def carried_lines(nest: Nest, p: Pass, c: Carried, show: Printer) -> Iterator[str]:
    """The update of one accumulator, and the guards under which it reads its producers."""
    guards = c.repair.guards if c.repair else ()
    short: dict[Expr, Expr] = {}
    for guard in guards:
        for q in (q for q in p.carried if q.name == guard.producer):
            short[guard.apply(q.new)] = var(f"{q.name}'", q.value.dtype)
            short[guard.apply(q.var)] = var(f'{q.name}"', q.value.dtype)
    g = show(substitute(term(nest, p, c), short))
    h = substitute(step(nest, p, c), {**short, var(T, c.value.dtype): c.var})
    indices = f"[{', '.join(a.name for a in c.axes)}]" if c.axes else ""
    yield f"{c.name}{indices} starts at {show(c.neutral)}"
    yield f"  {c.name}_new = {_combined(c, h, f'{c.value.reducer} over the tile of ({g})', show)}"
    for guard in guards:
        yield f"  where {guard_text(guard, bool(c.repair and c.repair.guard_old))}"


def _combined(c: Carried, h: Expr, tile: str, show: Printer) -> str:
    if c.value.reducer == "logaddexp":
        return f"logaddexp({show(h)}, {tile})"
    return show(REDUCERS[c.value.reducer].combine(h, var(tile, c.value.dtype)))


def guard_text(g: Guard, old: bool = False) -> str:
    """``m' = m_new, or 0 where that is -inf``"""
    points = " or ".join(_POINTS.get(p, p) for p in g.points)
    text = f"{g.producer}' = {g.producer}_new, or {g.value} where that is {points}"
    return text + (f', and {g.producer}" = {g.producer} likewise' if old else "")


def _left(out: Output) -> str:
    return f"{out.name}[{', '.join(a.name for a in out.axes)}]" if out.axes else out.name


def _ranges(axes: tuple[Axis, ...], show: Printer) -> str:
    return ", ".join(f"{a.name} < {show(a.extent)}" for a in axes)


def _axes_text(axes: tuple[Axis, ...], show: Printer, how: str) -> str:
    return f"for each {_ranges(axes, show)} {how}" if axes else "one program"

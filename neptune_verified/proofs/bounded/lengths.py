"""Not trusted: which lengths are tried. A poor choice covers less; nothing is believed for lengths that were not tried."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from neptune_verified.ir.expr import FLOATS, INTS, Const, Op, subterms
from neptune_verified.ir.program import Program
from neptune_verified.proofs.bounded.counts import SPLITS
from neptune_verified.proofs.bounded.points import Needs, scan
from neptune_verified.proofs.bounded.source import KernelFile
from neptune_verified.proofs.bounded.views import cut

#: Elements of the largest product of lengths that is tried with two tiles and a tail.
_LARGE = 1_500_000
#: The same for the trials whose inputs are special.
_MEDIUM = 300_000
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
#: Numbers above are stand-ins for infinity.
_HUGE = 2.0**64


@dataclass(slots=True)
class Role:
    """The blocks by which a length is cut, in loops and in the grid."""

    stream: set[str] = field(default_factory=set)
    rows: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Trial:
    """Lengths, which configuration of each table, how inputs are drawn, and the stream tile that they are drawn for.

    ``whole``: every program of a grid runs, however large it is. ``shift``: the size of inputs that lie far from 0, where
    an exponential that is not shifted as the definition shifts it leaves the range of float64. ``scale``: a factor, below
    1 to bring small terms to light. ``poison``: some elements are undefined, and so is what the definition makes of them,
    but nothing else. ``cliff``: lengths along which every other element of the first tile of the first input that has one
    lies ``shift`` above 0, and the rest as far below; the inputs before it lie above 0. ``follow``: programs whose values
    are wanted, if not all or the usual ones. ``unseen``: programs run again on inputs that are undefined where nothing of
    their output depends on them."""

    sizes: dict[str, int | float]
    choice: int
    structured: bool
    tile: int
    whole: bool = False
    shift: float = 0.0
    scale: float = 1.0
    poison: bool = False
    cliff: tuple[str, ...] = ()
    follow: tuple[int, ...] | None = None
    unseen: bool = False
    splits: int = 1


def split_trials(
    file: KernelFile, rolling: KernelFile, program: Program, plan: list[Trial]
) -> tuple[list[Trial], Needs]:
    """Trials with axes that are split: into two shares and three, at lengths that fill two and a tail, or one alone; and
    those in which each loop runs that can."""
    result: dict[tuple[object, ...], Trial] = {}

    def add(t: Trial, sizes: dict[str, int | float], splits: int) -> None:
        whole = {k: int(v) for k, v in sizes.items() if isinstance(v, int)}
        legal = sizes | {k: v for k, v in _legal(program, whole).items() if k in whole} if whole else sizes
        shares = [length(n, legal) for n, _ in cut(file)]
        if all(n >= splits for n in shares) and _product(program, whole) <= 2 * _LARGE:
            new = replace(t, sizes=legal, splits=splits, follow=None, whole=False, unseen=False)
            new = new if t.shift else replace(new, scale=_scale(program, new))
            result.setdefault(
                (new.choice, new.structured, new.poison, new.shift, new.cliff, splits, *legal.values()), new
            )

    role = roles(rolling, program)
    idle = {s for s in role if s in program.shape_sizes() and not role[s].stream and not role[s].rows}
    names = {x.id for n, _ in cut(file) for x in ast.walk(n) if isinstance(x, ast.Name)}
    most = max(block for _, block in cut(file))
    plain: Counter[int] = Counter()
    for t in plan:
        if t.follow is not None or (t.shift and t.scale != 1.0) or 0 in t.sizes.values():
            continue
        longer = {k: 2 * most + 3 for k in names if isinstance(t.sizes.get(k), int)}
        # What is neither streamed nor cut over the grid multiplies programs, all of which run.
        few = {k: min(v, 1) for k, v in t.sizes.items() if k in idle and isinstance(v, int)}
        if t.shift or t.poison:
            add(t, t.sizes | few, 2)
            continue
        plain[t.choice] += 1
        if t.choice == 0 and t.structured:
            add(t, t.sizes | few, 2)
        if plain[t.choice] <= (6 if t.choice == 0 else 2):
            add(t, t.sizes | longer | few, 3)
    needs: Needs = {}
    more: list[Trial] = []
    tables = [t for name, t in file.tables.items() if name.removesuffix("_CONFIGS").lower() in file.kernels]
    for choice in range(max(map(len, tables))):
        blocks = {k: v for t in tables for k, v in t[min(choice, len(t) - 1)].blocks.items()}
        scanned = scan(file, program, blocks, choice)
        needs |= scanned.needs()
        for x in scanned.points():
            if all(length(n, x.sizes) >= SPLITS for n, _ in cut(file)):
                more.append(Trial(x.sizes, choice, False, 1, follow=x.follow, splits=SPLITS))
    return [*result.values(), *more], needs


def length(e: ast.expr, sizes: Mapping[str, int | float]) -> int:
    """A length of the launcher, in names of sizes; 0 for one of another form."""
    match e:
        case ast.Constant(value=int() as n):
            return n
        case ast.Name(id=name):
            return int(sizes.get(name, 0))
        case ast.BinOp(left=a, op=ast.Add() | ast.Sub() | ast.Mult() as o, right=b):
            x, y = length(a, sizes), length(b, sizes)
            return x + y if isinstance(o, ast.Add) else x - y if isinstance(o, ast.Sub) else x * y
        case _:
            return 0


def roles(file: KernelFile, program: Program) -> dict[str, Role]:
    found = {s.name: Role() for s in program.sizes}

    def names(e: ast.AST) -> Iterator[str]:
        yield from (n.id for n in ast.walk(e) if isinstance(n, ast.Name) and n.id in found)

    for kernel in file.kernels.values():
        blocks = {a.arg for a in kernel.args.args if a.annotation is not None}
        for node in ast.walk(kernel):
            match node:
                case ast.For(target=ast.Name(id=start), iter=ast.Call(args=[_, high, ast.Name(id=step)])) if (
                    step in blocks
                ):
                    for n in [*names(high), *(n for e in _limits(node, start) for n in names(e))]:
                        found[n].stream.add(step)
    assert file.launcher is not None
    for node in ast.walk(file.launcher):
        match node:
            case ast.BinOp(left=left, op=ast.FloorDiv(), right=ast.Subscript(slice=ast.Constant(value=str() as block))):
                for n in names(left):
                    found[n].rows.add(block)
    return found


def _limits(loop: ast.For, start: str) -> Iterator[ast.expr]:
    """What the lanes of a tile that begins at ``start`` have to lie below."""
    lanes = {
        s.targets[0].id
        for s in loop.body
        if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) and isinstance(s.value, ast.BinOp)
        and isinstance(s.value.left, ast.Name) and s.value.left.id == start
    }  # fmt: skip
    for node in ast.walk(loop):
        match node:
            case ast.Compare(left=ast.Name(id=lane), ops=[ast.Lt()], comparators=[length]) if lane in lanes:
                yield length


def trials(file: KernelFile, program: Program) -> tuple[list[Trial], Needs]:
    """For each configuration a few combinations that together meet every tail, empty and single tile of every axis, and
    every loop; and how often each loop can run."""
    role = roles(file, program)
    result: list[Trial] = []
    needs: Needs = {}
    seen: set[tuple[object, ...]] = set()
    for choice in range(max(len(t) for t in file.tables.values())):
        blocks: dict[str, int] = {}
        for table in file.tables.values():
            blocks |= table[min(choice, len(table) - 1)].blocks
        tile = max((blocks.get(b, 1) for r in role.values() for b in r.stream), default=1)
        plans = _PLANS if choice == 0 else _PLANS[:3]
        streams = [s for s in role if role[s].stream]
        if choice == 0 and len(streams) > 1:
            plans = (*plans, ("ascending", False), ("descending", False))
        for plan, structured in (*plans, *(_BANDS if choice == 0 and has_bands(program) else ())):
            sizes = {s: _length(plan, role[s], blocks, tile) for s in role}
            if plan in ("ascending", "descending"):  # each streamed length below and above each other one
                ranked = streams if plan == "ascending" else streams[::-1]
                sizes |= {s: k * tile + 3 for k, s in enumerate(ranked)}
            if plan in ("main", "long") and _product(program, sizes) > _LARGE * (2 if plan == "long" else 1):
                sizes = {s: _length("tail", role[s], blocks, tile) for s in role}
            legal = _legal(program, sizes)
            key = (choice if plan in ("main", "tail", "grid") else 0, structured, *legal.values())
            if key not in seen:
                seen.add(key)
                result.append(
                    Trial(legal, choice, structured, tile, plan in ("grid", "no rows"), unseen=plan in ("main", "tail"))
                )
        scanned = scan(file, program, blocks, choice)
        needs |= scanned.needs()
        result += [Trial(x.sizes, choice, False, tile, follow=x.follow, unseen=True) for x in scanned.points()]
        if choice == 0:
            sizes = {s: _length("tail", role[s], blocks, tile) for s in role}
            small = _product(program, sizes) <= _MEDIUM
            few = _legal(program, sizes if small else {s: _length("grid", role[s], blocks, tile) for s in role})
            stream = tuple(s for s in role if role[s].stream)
            result += [Trial(few, choice, False, tile, shift=x) for x in (1000.0, 16.0)]
            result += [Trial(few, choice, False, tile, shift=1.0, scale=2 * x) for x in thresholds(program)]
            # Two whole tiles and a tail: loops may be apart for whole tiles.
            after = {s: 2 * tile + 3 if role[s].stream else n for s, n in sizes.items()}
            after = after if _product(program, after) <= _MEDIUM else sizes
            result += [
                Trial(_legal(program, after), choice, False, tile, shift=x, cliff=stream) for x in _CLIFFS[: 1 + small]
            ]
            result.append(Trial(few, choice, False, tile, poison=True))
    return [t if t.shift else replace(t, scale=_scale(program, t)) for t in result], needs


def numbers(program: Program) -> frozenset[float]:
    """The sizes of the numbers that the definition compares floats with."""
    return frozenset(
        abs(float(x.value))
        for stage in program.stages
        for e in subterms(stage.body)
        if isinstance(e, Op) and e.name in _COMPARISONS and e.args[0].dtype in FLOATS
        for x in e.args
        if isinstance(x, Const)
    )


def thresholds(program: Program) -> list[float]:
    """The largest of them that inputs can have: inputs have to lie on both sides."""
    return sorted((x for x in numbers(program) if 0 < x < _HUGE), reverse=True)[:3]


def _scale(program: Program, trial: Trial) -> float:
    """Where an index becomes a number (ALiBi), it grows with the lengths and a tile beyond them, and inputs that it
    multiplies have to be small for exponentials to stay in the range of float64, which ends at e^-745."""
    grows = any(
        isinstance(e, Op) and e.name == "cast" and e.dtype in FLOATS and e.args[0].dtype in INTS and e.free
        for stage in program.stages
        for e in subterms(stage.body)
    )
    return 256 / max([256, *(n + trial.tile for n in trial.sizes.values())]) if grows else 1.0


def has_bands(program: Program) -> bool:
    """Whether some condition compares two axes, so that rows far down see tiles that are masked as a whole."""
    return any(
        isinstance(e, Op)
        and e.name in ("lt", "le", "gt", "ge", "eq", "ne")
        and e.args[0].dtype in INTS
        and len(e.free) > 1
        for stage in program.stages
        for e in subterms(stage.body)
    )


#: Heights of cliffs: for an input that is exponentiated itself, and for products over 16 to 128 elements of two.
_CLIFFS = (150.0, 4.5)
#: Name of a plan, and whether the inputs have structure. The first three are for every configuration.
_PLANS = (
    ("main", False), ("tail", True), ("grid", False), ("exact", True), ("empty", False), ("one", False),
    ("short", True), ("no rows", False), ("nothing", False),
)  # fmt: skip
_BANDS = (("low", True), ("long", False))


def _length(plan: str, role: Role, blocks: dict[str, int], tile: int) -> int:
    """The length that a size has in a plan: one that is streamed and blocked, streamed, blocked, neither."""
    s = max((blocks.get(b, 1) for b in role.stream), default=0)
    r = max((blocks.get(b, 1) for b in role.rows), default=0)
    few = 13  # more than there are patterns of rows
    table = {
        "main": (max(s, r) + 1, 2 * s + 3, 2 * r + 3, 2),
        "tail": (max(few, s + 1), s + 1, few, 2),
        "grid": (r + 1, 2, r + 1, 3),
        "exact": (s, s, r, 1),
        "empty": (0, 0, 2, 2),
        "one": (1, 1, 1, 1),
        "short": (r + 1, max(s - 1, 1), few, 3),
        "no rows": (0, 1, 0, 1),
        "nothing": (0, 0, 0, 0),
        "low": (3, 3, few, 2),
        "ascending": (3, 3, few, 2),
        "descending": (3, 3, few, 2),
        "long": (s + r, 2 * s + 3, tile + 2, 2),
    }
    return table[plan][0 if s and r else 1 if s else 2 if r else 3]


def _product(program: Program, sizes: dict[str, int]) -> int:
    n = 1
    for v in sizes.values():
        n *= max(1, v)
    return n


def _legal(program: Program, sizes: dict[str, int]) -> dict[str, int | float]:
    """Lengths that fit the declared facts; scalar arguments that are floats get a number."""
    result: dict[str, int | float] = {}
    for s in program.sizes:
        if s.dtype in FLOATS:
            result[s.name] = 0.8125
            continue
        n = sizes[s.name]
        facts = {a.kind: a.value for a in program.assumptions if a.subject == s.name}
        step = int(facts.get("multiple_of") or 1)
        n = max(n, int(facts.get("at_least") or 0), 1 if "positive" in facts or "nonzero" in facts else 0)
        n = -(-n // step) * step
        bound = facts.get("bounded")
        if bound is not None and n > bound:
            n = int(bound) // step * step
        result[s.name] = n
    return result

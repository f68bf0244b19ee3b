"""Trusted: the launch grid: a program's index as digits, one for each factor of the number of programs.

If the number of programs is C1 * ... * Cn, then p % C1, p // C1 % C2, ..., p // C1 // ... // C(n-1) are n numbers with
0 <= digit k < Ck, and each tuple of them belongs to exactly one program. The text takes the digits off one by one, in an
order of its own; a division by anything that is no factor left over is refused.
"""

from __future__ import annotations

import math

import z3

from neptune_verified.ir.expr import FLOATS, INTS, Const, Expr, Size, const, op, size, substitute, subterms
from neptune_verified.ir.loops import SPLIT_SIZE, SPLITS
from neptune_verified.ir.program import Assumption, Program
from neptune_verified.proofs.text.calls import representable_ints
from neptune_verified.proofs.text.findings import Unproved
from neptune_verified.proofs.text.integers import Facts, within, zero
from neptune_verified.proofs.text.library import LIMIT


def with_blocks(e: Expr, blocks: dict[str, int]) -> Expr:
    """A factor of the grid with the configuration's blocks; ``(x + (b - 1)) // b`` as Triton's cdiv has it."""
    values = {size(f"blocks.{name}"): const(n, "int32") for name, n in blocks.items()}
    less = {op("sub", b, const(1, "int32")): const(n.value - 1, "int32") for b, n in values.items()}
    e = substitute(substitute(e, less), dict(values.items()))
    if unknown := [x.name for x in subterms(e) if isinstance(x, Size) and x.name.startswith("blocks.")]:
        raise Unproved("O13", f"the grid reads a block that the configuration does not have: {unknown[0]}")
    return known(e)


def known(e: Expr) -> Expr:
    """A factor without lengths as the number that it is, which the text may compute when it is compiled."""
    if any(isinstance(x, Size) for x in subterms(e)):
        return e
    solver = Facts({})
    value = z3.simplify(solver.int(e))
    return const(value.as_long(), "int32") if isinstance(value, z3.IntNumRef) else e


class Grid:
    """Digits of the program index; ``taken`` are those that the text has split off."""

    def __init__(self, factors: list[Expr]) -> None:
        self.factors = [f for f in factors if not (isinstance(f, Const) and f.value == 1)]
        self.states: dict[str, list[Expr]] = {}
        self.extents: dict[str, Expr] = {}
        self.start = self.state("pid?", self.factors)

    def state(self, name: str, left: list[Expr]) -> Expr:
        """The program index divided by what was taken off: a number below the product of the factors left."""
        if len(left) <= 1:
            self.extents[name] = left[0] if left else const(1, "int32")
        else:
            self.states[name] = left
        return size(name)

    def divided(self, name: str, a: Expr, b: Expr) -> Expr | None:
        """``a // b`` or ``a % b`` where a is (what is left of) the program index; None where it is something else."""
        if isinstance(a, Size) and isinstance(b, Const) and b.value == 1 and a.name in {*self.states, *self.extents}:
            return a if name == "floordiv" else const(0, a.dtype)
        if isinstance(a, Size) and self.extents.get(a.name) is b:
            return a if name == "floormod" else const(0, a.dtype)  # the last digit is below its factor
        if not (isinstance(a, Size) and a.name in self.states):
            return None
        left = self.states[a.name]
        if b not in left:
            raise Unproved(
                "O11", "the program index is divided by something else than a factor of the number of programs"
            )
        if name == "floormod":
            digit = f"{a.name}.digit"
            if self.extents.setdefault(digit, b) is not b:
                raise Unproved("O11", "two different digits are taken off the program index")
            return size(digit)
        if self.extents.get(f"{a.name}.digit") not in (None, b):
            raise Unproved("O11", "another digit is taken off the program index than it is divided by")
        self.extents.setdefault(f"{a.name}.digit", b)
        rest = list(left)
        rest.remove(b)
        return self.state(f"{a.name}.rest", rest)

    def left(self) -> list[str]:
        """What is left of the program index, and was not divided further."""
        return [n for n in self.states if not {f"{n}.rest"} & {*self.states, *self.extents}]

    def settled(self, e: Expr) -> bool:
        """No undivided program index is left in an expression."""
        return not any(isinstance(x, Size) and x.name in self.states for x in subterms(e))


def share_facts(s: Expr, block: int) -> tuple[Expr, Expr, Expr]:
    """What holds of the share of a split s: 0 <= s * size, and (s + 1) * size <= splits * size <= LIMIT, by s < splits;
    its beginning is a multiple of ``block``, as its size is."""
    low = op("mul", s, SPLIT_SIZE)
    return (
        op("le", zero(), low),
        op("le", op("add", low, SPLIT_SIZE), const(LIMIT, "int32")),
        op("eq", op("floormod", low, const(block, "int32")), zero()),
    )


class Ground:
    """Facts of every program of a launch: lengths and arguments as the launcher has checked them, and digits."""

    def __init__(
        self, program: Program, checked: list[Assumption], grid: Grid, extent: Expr | None = None, block: int = 1
    ) -> None:
        """``extent``: the length of an axis that is split, into shares whose size is a multiple of ``block``."""
        self.program, self.checked, self.grid = program, checked, grid
        self.extent, self.block = extent, block

    def is_uniform(self, x: Size) -> bool:
        return x.name in self.grid.extents or any(x is size(s.name, s.dtype) for s in self.program.sizes)

    def elements(self) -> dict[str, tuple[int, int]]:
        """Least and greatest element of the integer inputs for which that is declared."""
        found: dict[str, tuple[int, int]] = {}
        for t in self.program.inputs:
            if t.dtype not in INTS:
                continue
            values = representable_ints(t.dtype)
            low, high = values.start, values.stop - 1
            for a in self.program.assumptions:
                if a.subject != t.name:
                    continue
                if a.kind == "bounded" and a.value is not None:
                    low, high = max(low, -int(a.value)), min(high, int(a.value))
                low = max(low, {"nonnegative": 0, "positive": 1}.get(a.kind, low))
                if a.kind == "at_least" and a.value is not None:
                    low = max(low, math.ceil(a.value))
            found[t.name] = (low, high)
        return found

    def facts(self) -> Facts:
        facts = self.lengths()
        for name, extent in self.grid.extents.items():
            for c in within(size(name), zero(), extent):
                facts.add(c)
            if extent is SPLITS and self.extent is not None:
                for c in share_facts(size(name), self.block):
                    facts.add(c)
        return facts

    def lengths(self) -> Facts:
        """What holds of lengths and arguments alone, whether or not there is a program."""
        facts = Facts(self.elements())
        shape = self.program.shape_sizes()
        for s in self.program.sizes:
            if s.dtype in FLOATS:
                continue
            x = size(s.name, s.dtype)
            low = 0 if s.name in shape else -LIMIT
            facts.add(op("le", const(low, x.dtype), x))
            facts.add(op("le", x, const(LIMIT, x.dtype)))
        if self.extent is not None:  # what _shares promises, where there is more than one split
            facts.add(op("le", const(2, "int32"), SPLITS))
            facts.add(op("le", SPLITS, self.extent))
            facts.add(op("le", const(self.block, "int32"), SPLIT_SIZE))
            facts.add(op("eq", op("floormod", SPLIT_SIZE, const(self.block, "int32")), zero()))
        for a in self.checked:
            if isinstance(a.value, int):
                x = next(s for s in self.program.sizes if s.name == a.subject)
                if a.kind == "at_least" and x.dtype not in FLOATS:
                    facts.add(op("le", const(a.value, x.dtype), x))
                elif a.kind == "multiple_of":
                    facts.add(op("eq", op("floormod", x, const(a.value, x.dtype)), zero(x.dtype)))
        for t in self.program.inputs:
            for d in t.shape:
                if not isinstance(d, Const | Size):
                    facts.add(op("le", zero(d.dtype), d))
        return facts

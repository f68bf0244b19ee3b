"""Trusted: integers fit their types (O12), accesses stay in their tensors, every output element is written once (O11)."""

from __future__ import annotations

from collections.abc import Iterable

from neptune_verified.ir.expr import Axis, Expr, Op, Read, Size, const, op, size, substitute, subterms
from neptune_verified.proofs.text.calls import representable_ints
from neptune_verified.proofs.text.claims import both, claim_lanes, covers, loop_facts
from neptune_verified.proofs.text.findings import Unproved
from neptune_verified.proofs.text.integers import Facts, within, zero
from neptune_verified.proofs.text.launch import Grid
from neptune_verified.proofs.text.reader import Reading
from neptune_verified.proofs.text.values import Access, opened


class Memory:
    def __init__(
        self, reading: Reading, facts: Facts, lengths: Facts, grid: Grid, shapes: dict[str, tuple[Expr, ...]]
    ) -> None:
        """``facts`` hold in every program; ``lengths`` hold even where there is none."""
        self.reading, self.facts, self.lengths, self.grid, self.shapes = reading, facts, lengths, grid, shapes

    # -- integers ------------------------------------------------------------------------------------------

    def integers(self) -> int:
        """Every integer result lies in its type, and operands of truncating divisions are not negative."""
        seen: set[tuple[Expr, tuple[int, ...]]] = set()
        for e, loops, line in self.reading.integers:
            if (e, loops) in seen:
                continue
            seen.add((e, loops))
            free = self.free(e)
            values = representable_ints(e.dtype)
            with self.facts.assuming(*self.around(loops), *free[1]):
                low, high = const(values.start, e.dtype), const(values.stop - 1, e.dtype)
                if not (self.facts.holds(op("le", low, free[0])) and self.facts.holds(op("le", free[0], high))):
                    raise Unproved("O12", f"an {e.dtype} may overflow: {_text(e)}", line)
        for a, b, loops, line in self.reading.divisions:
            (x, more), (y, most) = self.free(a), self.free(b)
            with self.facts.assuming(*self.around(loops), *more, *most):
                if not self.facts.holds(op("le", zero(x.dtype), x)):
                    raise Unproved("O12", f"// or % of {_text(a)}, which may be negative: Triton truncates", line)
                if not self.facts.holds(op("lt", zero(y.dtype), y)):
                    raise Unproved("O12", f"// or % by {_text(b)}, which may be 0", line)
        return len(seen) + len(self.reading.divisions)

    @staticmethod
    def free(e: Expr) -> tuple[Expr, tuple[Expr, ...]]:
        """Lanes as symbols, with their ranges."""
        found = {a: size(f"{a.name}.{a.extent.value}") for a in e.free}  # type: ignore[attr-defined]
        facts = tuple(c for a, x in found.items() for c in within(x, zero(), a.extent))
        return substitute(e, dict(found)), facts

    def around(self, loops: Iterable[int]) -> tuple[Expr, ...]:
        return tuple(c for n in loops for c in loop_facts(self.reading.loops[n]))

    # -- accesses ------------------------------------------------------------------------------------------

    def lanes(self, a: Access) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        symbols = claim_lanes(a.shape)
        facts = [c for x, n in zip(symbols, a.shape, strict=True) if n > 1 for c in within(x, zero(), const(n, "int32"))]
        return symbols, tuple(facts)

    def inside(self, a: Access) -> None:
        """Where the mask holds, every index is one of the tensor's."""
        symbols, facts = self.lanes(a)
        mask = opened(a.mask, a.shape, symbols)
        with self.facts.assuming(*self.around(a.loops), *facts, mask):
            for k, (index, extent) in enumerate(zip(a.indices, self.shapes[a.tensor], strict=True)):
                i = opened(index, a.shape, symbols)
                if not (self.facts.holds(op("le", zero(i.dtype), i)) and self.facts.holds(op("lt", i, extent))):
                    raise Unproved("O11", f"{a.tensor} may be accessed beyond its dimension {k}", a.line)

    # -- outputs -------------------------------------------------------------------------------------------

    def written_once(self, stores: list[Access]) -> None:
        """Each element of one output, in exactly one lane of one program, iteration and store."""
        first = stores[0]
        for a in stores:
            self.inside(a)
            self.injective(a)
        tails = [self.stream(a) for a in stores]
        if len(stores) > 1:
            if any(t is None for t in tails) or len({a.loops[:-1] for a in stores}) != 1:
                raise Unproved("O11", f"{first.tensor} is stored twice", stores[1].line)
        self.surjective(stores)

    def stream(self, a: Access) -> int | None:
        return a.loops[-1] if a.loops else None

    def parts(self, a: Access) -> list[tuple[Expr, list[str]]]:
        """Each dimension's index at the lanes, and the symbols that it is made of; no symbol is in two dimensions."""
        symbols, _ = self.lanes(a)
        loops = {x.name for n in a.loops if isinstance(x := self.reading.loops[n].symbol, Size)}
        own = {x.name for x in symbols if isinstance(x, Size)}
        varying = own | loops | set(self.grid.extents)
        result: list[tuple[Expr, list[str]]] = []
        used: set[str] = set()
        for index in a.indices:
            i = opened(index, a.shape, symbols)
            names = {x.name for x in subterms(i) if isinstance(x, Size)} & varying
            if not self.grid.settled(i) or any(isinstance(x, Read) for x in subterms(i)):
                raise Unproved("O11", f"{a.tensor} is stored at an index of another form", a.line)
            if names & used:
                raise Unproved("O11", f"two indices of {a.tensor} are made of the same number", a.line)
            used |= names
            result.append((i, sorted(names)))
        for name in sorted((own | loops | set(self.grid.extents) | set(self.grid.left())) - used):
            extent = self.grid.extents.get(name)
            if extent is None or not self.lengths.equal(extent, const(1, "int32")):
                what = f"{a.tensor} is stored by several programs or lanes, or by none: {name} is not used"
                raise Unproved("O11", what, a.line)
        return result

    def injective(self, a: Access) -> None:
        """An index says which digit, iteration and lane it is made of: it is one of them, or block * count + lane."""
        for i, names in self.parts(a):
            if not self.form(a, i, names):
                raise Unproved("O11", f"{a.tensor} is stored at an index of another form: {_text(i)}", a.line)

    def form(self, a: Access, i: Expr, names: list[str]) -> bool:
        _, facts = self.lanes(a)
        with self.facts.assuming(*self.around(a.loops), *facts):
            if len(names) <= 1:
                if names and "#" in names[0] and self.loop(a, names[0]).step != 1:
                    return False
                return not names or self.facts.equal(i, self.symbol(a, names[0]))
            lanes_ = [n for n in names if n.startswith("lane?")]
            others = [n for n in names if not n.startswith("lane?")]
            if len(lanes_) != 1 or len(others) != 1:
                return False
            count = a.shape[int(lanes_[0].removeprefix("lane?"))]
            other = self.symbol(a, others[0])
            if others[0] in self.grid.extents:
                other = op("mul", other, const(count, "int32"))
            elif self.loop(a, others[0]).step != count:
                return False
            return self.facts.equal(i, op("add", other, size(lanes_[0])))

    def symbol(self, a: Access, name: str) -> Expr:
        return size(name)

    def loop(self, a: Access, name: str):  # type: ignore[no-untyped-def]
        return next(loop for n in a.loops if (loop := self.reading.loops[n]).symbol is size(name))

    def surjective(self, stores: list[Access]) -> None:
        """Every element has a digit, an iteration and a lane, and there the mask holds."""
        first = stores[0]
        for a in stores:
            symbols, facts = self.lanes(a)
            mask = opened(a.mask, a.shape, symbols)
            inside = [c for index, extent in zip(a.indices, self.shapes[a.tensor], strict=True)
                      for c in within(opened(index, a.shape, symbols), zero(), extent)]  # fmt: skip
            with self.facts.assuming(*self.around(a.loops), *facts, *inside):
                if not self.facts.holds(mask):
                    raise Unproved("O11", f"an element of {a.tensor} may be left unwritten: its lane is masked", a.line)
        shared = 0
        for k, extent in enumerate(self.shapes[first.tensor]):
            element = size("element?")
            with self.lengths.assuming(*within(element, zero(), extent)):
                reached = [self.reached(a, *self.parts(a)[k], element) for a in stores]
                union = reached[0]
                for r in reached[1:]:
                    union = op("or", union, r)
                # Of several stores each holds all of every dimension but one, in which they share the elements.
                shared += not all(self.lengths.holds(r) for r in reached)
                if shared > 1 or not self.lengths.holds(union):
                    raise Unproved("O11", f"elements of {first.tensor} are not written: dimension {k}", first.line)
                if len(stores) > 1 and self.stream_dimension(stores, k):
                    for n, r in enumerate(reached):
                        for other in reached[n + 1 :]:
                            if not self.lengths.fails(op("and", r, other)):
                                raise Unproved("O11", f"elements of {first.tensor} may be written twice", first.line)

    def stream_dimension(self, stores: list[Access], k: int) -> bool:
        a = stores[0]
        return any(n.startswith("lane?") or "#" in n for n in self.parts(a)[k][1]) and any(
            "#" in n for n in self.parts(a)[k][1]
        )

    def reached(self, a: Access, i: Expr, names: list[str], element: Expr) -> Expr:
        """Some values of the symbols give the element."""
        if not names:
            return op("eq", i, element)
        conditions: list[Expr] = []
        counts = [a.shape[int(n.removeprefix("lane?"))] for n in names if n.startswith("lane?")]
        for n in names:
            if n.startswith("lane?") and len(names) == 1:
                conditions.append(op("lt", element, const(counts[0], "int32")))
            elif n in self.grid.extents:
                digit = op("floordiv", element, const(counts[0], "int32")) if counts else element
                conditions.append(op("lt", digit, self.grid.extents[n]))
            elif not n.startswith("lane?"):
                conditions.append(covers(self.loop(a, n), element))
        return both(*conditions)


def _text(e: Expr) -> str:
    """A short reading of an integer expression."""
    signs = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "floormod": "%"}
    match e:
        case Size(name):
            return name
        case Axis(name):
            return name
        case Op(name, (a, b)) if name in signs:
            return f"({_text(a)} {signs[name]} {_text(b)})"
        case Op(name, args):
            return f"{name}({', '.join(map(_text, args))})"
        case _:
            return str(getattr(e, "value", type(e).__name__))

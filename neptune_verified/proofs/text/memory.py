"""Trusted: integers fit their types (O12), accesses stay in their tensors, every output element is written once (O11)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from neptune_verified.ir.expr import Axis, Const, Expr, Op, Read, Size, const, op, size, substitute, subterms
from neptune_verified.ir.loops import SPLIT_SIZE, SPLITS
from neptune_verified.proofs.text.calls import representable_ints
from neptune_verified.proofs.text.claims import claim_lanes, covers, lane_facts, loop_facts
from neptune_verified.proofs.text.findings import Unproved
from neptune_verified.proofs.text.integers import Facts, both, mentions, within, zero
from neptune_verified.proofs.text.launch import Grid, share_facts
from neptune_verified.proofs.text.reader import Reading
from neptune_verified.proofs.text.values import Access, Loop, opened


class Memory:
    def __init__(
        self, reading: Reading, facts: Facts, lengths: Facts, grid: Grid, shapes: dict[str, tuple[Expr, ...]],
        extent: Expr | None = None, block: int = 1,
    ) -> None:  # fmt: skip
        """``facts`` of every program; ``lengths``: those that hold where there is no program too; ``extent``, ``block``:
        the length that is split, and what the size of a share is a multiple of."""
        self.reading, self.facts, self.lengths, self.grid, self.shapes = reading, facts, lengths, grid, shapes
        self.extent, self.block = extent, block

    # -- programs ------------------------------------------------------------------------------------------

    def programs(self, outputs: Iterable[str], line: int) -> None:
        """The factors of the grid are lengths: two negative ones would launch programs of which nothing is proved. And
        there are programs if an output has elements."""
        one = const(1, "int32")
        for f in self.grid.factors:
            if not self.lengths.holds(op("le", zero(), f)):
                raise Unproved("O11", f"a factor of the number of programs may be negative: {_text(f)}", line)
            for name in outputs:
                with self.lengths.assuming(*(op("le", one, n) for n in self.shapes[name])):
                    if not self.lengths.holds(op("le", one, f)):
                        raise Unproved(
                            "O11", f"no program may be launched, and {name} left unwritten: {_text(f)}", line
                        )

    # -- integers ------------------------------------------------------------------------------------------

    def integers(self, sums: Collection[Expr] = ()) -> int:
        """Every integer result lies in its type, and operands of truncating divisions are not negative. ``sums``: new values
        of loops' integers, which are the definition's own values (by the claims), and in range if those are (O7)."""
        seen: set[tuple[Expr, tuple[int, ...]]] = set()
        for e, loops, line in self.reading.integers:
            if (e, loops) in seen or e in sums:
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
        return substitute(e, dict[Expr, Expr](found.items())), facts

    def around(self, loops: Iterable[int]) -> tuple[Expr, ...]:
        return tuple(c for n in loops for c in loop_facts(self.reading.loops[n]))

    # -- accesses ------------------------------------------------------------------------------------------

    def lanes(self, a: Access) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
        return claim_lanes(a.shape), lane_facts(a.shape)

    def inside(self, a: Access) -> None:
        """Where the mask holds, every index is one of the tensor's."""
        symbols, facts = self.lanes(a)
        mask = opened(a.mask, a.shape, symbols)
        with self.facts.assuming(*self.around(a.loops), *facts, mask):
            for k, (index, extent) in enumerate(zip(a.indices, self.shapes[a.tensor], strict=True)):
                i = opened(index, a.shape, symbols)
                if not self.facts.between(i, zero(i.dtype), extent):
                    raise Unproved("O11", f"{a.tensor} may be accessed beyond its dimension {k}", a.line)

    # -- outputs -------------------------------------------------------------------------------------------

    def written_once(self, stores: list[Access]) -> None:
        """Each element of one output, in exactly one lane of one program, iteration and store."""
        first = stores[0]
        for a in stores:
            self.inside(a)
            self.injective(a)
        tails = [self.stream(a) for a in stores]
        if len(stores) > 1 and (None in tails or len({a.loops[:-1] for a in stores}) != 1):
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
            names = mentions(i, varying)
            if not self.grid.settled(i) or any(isinstance(x, Read) for x in subterms(i)):
                raise Unproved("O11", f"{a.tensor} is stored at an index of another form", a.line)
            names |= self.shares(a, names)
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

    # Shares of an axis. Of s = 0, 1, ..., splits - 1 exactly one has s * size <= x < s * size + size, for each
    # 0 <= x < splits * size: what is stored along a loop over a share says which one.

    def shares(self, a: Access, names: set[str]) -> set[str]:
        """The digits of splits over whose shares the loops run that an index is made of."""
        loops = [loop for n in a.loops if getattr((loop := self.reading.loops[n]).symbol, "name", "") in names]
        digits = {name for name, extent in self.grid.extents.items() if extent is SPLITS}
        return digits & {x.name for loop in loops for x in subterms(loop.low) if isinstance(x, Size)}

    @staticmethod
    def owned(i: Expr, s: Expr) -> tuple[Expr, Expr]:
        """The index lies in the share of split s."""
        low = op("mul", s, SPLIT_SIZE)
        return within(i, low, op("add", low, SPLIT_SIZE))

    def injective(self, a: Access) -> None:
        """An index says which digit, iteration and lane it is made of: it is one of them, or block * count + lane."""
        for i, names in self.parts(a):
            own = self.shares(a, set(names))
            symbols, facts = self.lanes(a)
            with self.facts.assuming(*self.around(a.loops), *facts, opened(a.mask, a.shape, symbols)):
                if not all(self.facts.holds(c) for s in own for c in self.owned(i, size(s))):
                    raise Unproved("O11", f"{a.tensor} may be stored beyond the share of a split", a.line)
            if self.form(a, i, [n for n in names if n not in own]) is None:
                raise Unproved("O11", f"{a.tensor} is stored at an index of another form: {_text(i)}", a.line)

    def form(self, a: Access, i: Expr, names: list[str]) -> tuple[int, Expr] | None:
        """What the number of the block, or of the iteration, is multiplied by (1 if there are no lanes), and what the index
        is where the mask holds; None where it has another form. Of the lanes below that number those that the mask lets
        pass are stored, and no others."""
        symbols, facts = self.lanes(a)
        with self.facts.assuming(*self.around(a.loops), *facts, opened(a.mask, a.shape, symbols)):
            if not names:
                return 1, i
            if len(names) == 1:
                place: Expr = size(names[0])
                if "#" in names[0] and self.loop(a, names[0]).step != 1:
                    return None
                return (1, place) if self.facts.equal(i, place) else None
            lanes_ = [n for n in names if n.startswith("lane?")]
            others = [n for n in names if not n.startswith("lane?")]
            if len(lanes_) != 1 or len(others) != 1:
                return None
            count, lane_ = a.shape[int(lanes_[0].removeprefix("lane?"))], size(lanes_[0])
            if others[0] not in self.grid.extents:
                place = op("add", size(others[0]), lane_)
                whole = self.loop(a, others[0]).step == count
                return (count, place) if whole and self.facts.equal(i, place) else None
            for n in (count, *sorted(multipliers(i) - {count})):
                place = op("add", op("mul", size(others[0]), const(n, "int32")), lane_)
                if 0 < n <= count and self.facts.equal(i, place):
                    below = n == count or self.facts.holds(op("lt", lane_, const(n, "int32")))
                    return (n, place) if below else None
            return None

    def places(self, a: Access) -> list[Expr]:
        """What must hold where an element has its lane: the indices that the form gives are in range, the lanes are those
        below the multiplier, the share is that of the split. (What the text computes as an index there, be it out of range,
        plays no role: the mask must hold.)"""
        found: list[Expr] = []
        for (i, names), extent in zip(self.parts(a), self.shapes[a.tensor], strict=True):
            own = self.shares(a, set(names))
            form = self.form(a, i, [n for n in names if n not in own])
            assert form is not None  # by ``injective``
            block, place = form
            found += within(place, zero(), extent)
            if len(names) - len(own) > 1:
                found += [op("lt", size(n), const(block, "int32")) for n in names if n.startswith("lane?")]
            found += [c for s in sorted(own) for c in self.owned(place, size(s))]
        return found

    def loop(self, a: Access, name: str) -> Loop:
        return next(loop for n in a.loops if (loop := self.reading.loops[n]).symbol is size(name))

    def surjective(self, stores: list[Access]) -> None:
        """Every element has a digit, an iteration and a lane, and there the mask holds."""
        first = stores[0]
        for a in stores:
            symbols, facts = self.lanes(a)
            mask = opened(a.mask, a.shape, symbols)
            with self.facts.assuming(*self.around(a.loops), *facts, *self.places(a)):
                if not self.facts.holds(mask):
                    raise Unproved("O11", f"an element of {a.tensor} may be left unwritten: its lane is masked", a.line)
        stream = {self.stream_dimension(a) for a in stores} if len(stores) > 1 else set()
        if len(stream) > 1:
            raise Unproved("O11", f"{first.tensor} is stored in loops over different dimensions", stores[1].line)
        for k, extent in enumerate(self.shapes[first.tensor]):
            element = size("element?")  # no length has such a name
            with self.facts.assuming(*within(element, zero(), extent)):
                reached = [self.reached(a, *self.parts(a)[k], element) for a in stores]
                split = stream == {k}  # what one store leaves out the others write: in this dimension alone
                union = reached[0]
                for r in reached[1:]:
                    union = op("or" if split else "and", union, r)
                if not self.facts.holds(union):
                    raise Unproved("O11", f"elements of {first.tensor} are not written: dimension {k}", first.line)
                if split:
                    for n, r in enumerate(reached):
                        for other in reached[n + 1 :]:
                            if not self.lengths.fails(op("and", r, other)):
                                raise Unproved("O11", f"elements of {first.tensor} may be written twice", first.line)

    def stream_dimension(self, a: Access) -> int:
        """The dimension whose index is made of the innermost loop's variable."""
        innermost = self.reading.loops[a.loops[-1]].symbol
        return next(k for k, (_, names) in enumerate(self.parts(a)) if getattr(innermost, "name", "") in names)

    def reached(self, a: Access, i: Expr, names: list[str], element: Expr) -> Expr:
        """Some values of the symbols give the element."""
        if not names:
            return op("eq", i, element)
        own = self.shares(a, set(names))
        names = [n for n in names if n not in own]
        conditions: list[Expr] = []
        # The digit of the share that has the element, if it lies in the axis that is cut.
        there: dict[Expr, Expr] = {size(s): size(f"share?{k}") for k, s in enumerate(sorted(own))}
        for s in there.values():
            if self.extent is None or not self.facts.holds(op("lt", element, self.extent)):
                raise Unproved("O11", f"elements of {a.tensor} may lie in no split's share", a.line)
            for c in (*within(s, zero(), SPLITS), *self.owned(element, s), *share_facts(s, self.block)):
                self.facts.add(c)
        counts = [a.shape[int(n.removeprefix("lane?"))] for n in names if n.startswith("lane?")]
        block, *_ = self.form(a, i, names) or counts or (1,)  # it has a form, by ``injective``
        for n in names:
            if n.startswith("lane?") and len(names) == 1:
                conditions.append(op("lt", element, const(counts[0], "int32")))
            elif n in self.grid.extents:
                digit = op("floordiv", element, const(block, "int32")) if counts else element
                conditions.append(op("lt", digit, self.grid.extents[n]))
            elif not n.startswith("lane?"):
                loop = self.loop(a, n)
                conditions.append(substitute(covers(loop, element), there))
                if not counts and loop.step > 1:  # no lane reaches the elements between two iterations
                    past = op("floormod", op("sub", element, loop.low), const(loop.step, "int32"))
                    conditions.append(substitute(op("eq", past, zero()), there))
        return both(*conditions)


def multipliers(e: Expr) -> set[int]:
    """The constants by which something is multiplied."""
    products = [x for x in subterms(e) if isinstance(x, Op) and x.name == "mul"]
    return {int(n.value) for x in products for n in x.args if isinstance(n, Const)}


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

"""Not trusted: the fewest passes over each stream domain, with a repair for every producer in the same pass.

A reduction goes into the pass of its latest producer over the same domain if a repair is found and proved, otherwise
into the next one. Reductions are taken inner ones first, so that each gets the earliest pass that it can have; starting
a producer later can only turn a finished value into a running one, hence the result is the fewest passes that scalar
repairs over at most ``MOST_PRODUCERS`` running values allow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count, product

from neptune_verified.fusion.derive import CannotDerive, Problem, candidates
from neptune_verified.fusion.outputs import Domain, domain_of
from neptune_verified.fusion.witness import find_example
from neptune_verified.ir.expr import FLOATS, Axis, Expr, Op, Reduce, axis, substitute, subterms, var
from neptune_verified.ir.kinds import NINF, PINF, ZERO
from neptune_verified.ir.loops import Carried, Guard, Nest, Pass, Refusal, Repair
from neptune_verified.ir.printing import Printer
from neptune_verified.ir.program import Program
from neptune_verified.proofs.abstract import UnsupportedTerm
from neptune_verified.proofs.evaluate import Value
from neptune_verified.proofs.falsify import false_at
from neptune_verified.proofs.kernel import Proved, Prover
from neptune_verified.proofs.obligations import Edge, Obligation, each_edge_obligation

#: A repair is over all running values that its reduction depends on, and the cases of a proof multiply with each: with
#: six the slowest proof takes seconds. A longer chain is cut here, which keeps the time linear in its length.
MOST_PRODUCERS = 6

Slot = tuple[Domain, int]
#: Obligation -> counterexamples of candidates: symbol -> value.
Points = dict[str, list[Mapping[str, Value]]]


@dataclass
class Schedule:
    """Passes under construction: (domain, time) -> what is carried there, in order."""

    program: Program
    nest: Nest
    prover: Prover
    fuse: bool = True
    slots: dict[Slot, list[Carried]] = field(default_factory=dict)
    time: dict[Reduce, int] = field(default_factory=dict)
    streams: dict[Domain, tuple[Axis, ...]] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)

    def stream(self, domain: Domain) -> tuple[Axis, ...]:
        if domain not in self.streams:
            taken = {a.name for a in (*self.nest.grid, *self.nest.inner)}
            taken |= {a.name for axes in self.streams.values() for a in axes}
            names = (f"x{n}" for n in count() if f"x{n}" not in taken)
            self.streams[domain] = tuple(axis(name, e) for name, e in zip(names, domain, strict=False))
        return self.streams[domain]

    def place(self, r: Reduce, name: str) -> None:
        """Give reduction ``r`` its pass."""
        spatial = self.nest.grid + self.nest.inner
        carried = Carried(name, r, tuple(a for a in spatial if a in r.free))
        inside = [x for x in subterms(r.body) if isinstance(x, Reduce) and x in self.time]
        same = [x for x in inside if domain_of(x) == domain_of(r)]
        time = max([self.time[x] + 1 for x in inside if x not in same] + [self.time[x] for x in same], default=0)
        while True:
            running = [c for c in self.slots.get((domain_of(r), time), []) if c.value in same]
            if not running:
                break
            repaired = self._repair(carried, running, time)
            if repaired is not None:
                carried = repaired
                break
            time += 1
        self.time[r] = time
        self.stream(domain_of(r))
        self.slots.setdefault((domain_of(r), time), []).append(carried)

    # -- repairs -------------------------------------------------------------------------------------------

    def _repair(self, consumer: Carried, running: list[Carried], time: int) -> Carried | None:
        names = tuple(c.name for c in running)
        refusal = Refusal(consumer.name, names, "fusion is switched off")
        if self.fuse and len(running) > MOST_PRODUCERS:
            refusal = Refusal(
                consumer.name, names, f"a repair over more than {MOST_PRODUCERS} running values is not tried"
            )
        elif self.fuse:
            try:
                result = self._search(consumer, running, time)
                if isinstance(result, Carried):
                    return result
                refusal = result
            except (CannotDerive, UnsupportedTerm) as e:
                refusal = Refusal(consumer.name, names, str(e))
        self.refusals.append(refusal)
        return None

    def _search(self, consumer: Carried, running: list[Carried], time: int) -> Carried | Refusal:
        names = tuple(c.name for c in running)
        placed = self.slots[domain_of(consumer.value), time]
        trial = replace(consumer, repair=Repair(names, var("t", consumer.value.dtype)))
        edge = self._edge(trial, placed)
        dtype = consumer.value.dtype
        old = tuple(edge.symbols[n][0] for n in names)
        new = tuple(edge.symbols[n][1] for n in names)
        # Subterms that do not depend on the element are parameters, and a repair may read them.
        bound = set(consumer.value.axes)
        invariant = {x: v for x, v in edge.abstract.elements.items() if not (x.free & bound)}
        parameters = tuple((v, edge.abstract.kinds_of(x)) for x, v in invariant.items() if v.dtype != "bool")
        kinds = tuple(edge.state[n] for n in names)
        problem = Problem(consumer.value.reducer, edge.g, old, new, kinds, dtype, parameters)
        terms: dict[Expr, Expr] = {v: x for x, v in invariant.items()}
        failure: tuple[Proved, Repair] | None = None
        points: Points = {}
        for strategy, found in candidates(problem):
            h = substitute(found, terms)
            for repair in self._guards(edge, names, h, strategy):
                carried = replace(consumer, repair=repair)
                obligations = self._obligations(carried, placed, points)
                if obligations is None:
                    continue
                failed = self._quick(obligations, points) or self.prover.first_failure(obligations)
                if failed is None:
                    return carried
                if failure is None or _tells_more(failed, failure[0]):
                    failure = failed, repair
        assert failure is not None
        failed, repair = failure
        carried = replace(consumer, repair=repair)
        refusal = self._refusal(consumer, names, failed, repair)
        if failed.obligation.kind == "O7":
            return refusal  # right over the reals
        point = failed.result.counterexample
        example = find_example(self.program, self.nest, self._pass(carried, placed), carried, point)
        return replace(refusal, example=example)

    def _pass(self, carried: Carried, placed: list[Carried]) -> Pass:
        return Pass(self.stream(domain_of(carried.value)), (*placed, carried))

    def _edge(self, carried: Carried, placed: list[Carried]) -> Edge:
        return Edge(self.program, self.nest, self._pass(carried, placed), carried)

    def _obligations(self, carried: Carried, placed: list[Carried], points: Points) -> list[Obligation] | None:
        """None where a point that refuted an earlier candidate refutes this one too: most of a wrong repair's guards are not
        in effect there."""
        result = []
        for o in each_edge_obligation(self.program, self.nest, self._pass(carried, placed), carried):
            if any(false_at(o.statement, point) for point in points.get(o.id, ())):
                return None
            result.append(o)
        return result

    def _quick(self, obligations: list[Obligation], points: Points) -> Proved | None:
        """A cheap look for a counterexample before any prover runs; the provers still decide. ``points`` gets its point."""
        for o in obligations:
            point = self.prover.refuting_point(o) if o.kind != "O5" else None
            if point is not None:
                points.setdefault(o.id, []).append(point)
                return self.prover.prove(o)
        return None

    @staticmethod
    def _guards(edge: Edge, names: tuple[str, ...], h: Expr, strategy: str) -> Iterator[Repair]:
        """Guards from none to all: points at which a producer is replaced, then what else is protected."""
        options = []
        read = {x for e in (edge.g, h) for x in subterms(e)}
        for c in edge.producers:
            kinds = edge.state[c.name]
            infinite = tuple(k for k in (NINF, PINF) if k in kinds)
            zero = (ZERO,) if ZERO in kinds else ()
            # A producer that the term and the repair do not read needs no guard: only its own consumers read it.
            own = not read.isdisjoint(edge.symbols[c.name])
            choices = dict.fromkeys([(), infinite, zero, infinite + zero] if own else [()])
            options.append([Guard(c.name, points, Fraction(1 if ZERO in points else 0)) for points in choices])
        combos = sorted(product(*options), key=lambda gs: sum(len(g.points) for g in gs))
        # A factor that underflows to 0 must not meet an infinite neutral element (0 * inf is NaN in floating point).
        always = edge.consumer.value.reducer in ("max", "min", "logaddexp") and strategy != "shift"
        # Nor a factor that overflows meet the 0 of a sum: an integer max starts at the least integer, not at -inf.
        always |= any(c.value.reducer in ("max", "min") and c.value.dtype not in FLOATS for c in edge.producers)
        # A guard's value in place of an old value may overflow an exponential: exp(0 - m') for a first m' far below 0.
        in_exponent = any(isinstance(x, Op) and x.name in ("exp", "exp2", "pow") for x in subterms(h))
        sums = {c.name for c in edge.producers if c.value.reducer == "sum"}
        guarded = [tuple(g for g in gs if g.points) for gs in combos]
        olds = (False,) if in_exponent else (False, True)
        keeps = (True,) if always else (False, True)
        usual = list(product(olds, (False, True), keeps))
        # A sum of positive terms may underflow to 0: then the terms so far were made with the guard's value, and only a
        # repair that reads the old value in the same way is right in floating point.
        underflow = list(product(olds[::-1], (False, True), keeps[::-1]))
        for k in range(len(usual)):
            for gs in guarded:
                below = any(ZERO in g.points and g.producer in sums for g in gs)
                guard_old, hold, keep = (underflow if below else usual)[k]
                yield Repair(names, h, gs, guard_old, keep, hold, strategy)

    def _refusal(self, consumer: Carried, names: tuple[str, ...], failed: Proved, repair: Repair) -> Refusal:
        show = Printer(self.program)
        guards = "".join(
            f", with {g.producer} read as {g.value} where it is {' or '.join(g.points)}" for g in repair.guards
        )
        reason = (
            f"no scalar repair of {consumer.name} over {', '.join(names)} is proved; "
            f"the best candidate ({repair.strategy}) is h(t) = {show(repair.h)}{guards}"
        )
        return Refusal(consumer.name, names, reason, failed.obligation.id, _point(failed))


def _tells_more(a: Proved, b: Proved) -> bool:
    """Of two refused candidates the better one got further; a counterexample tells more than none."""
    return _rank(a) > _rank(b)


def _rank(p: Proved) -> tuple[bool, int]:
    return p.result.counterexample is not None, int(p.obligation.kind.removeprefix("O"))


def _point(failed: Proved) -> str:
    """The counterexample in the user's names: elements by what they are in the definition."""
    found = failed.result.counterexample
    if found is None:
        return ""
    meaning = {s.var.name: s.meaning for s in failed.obligation.statement.symbols}
    shown = [
        f"{meaning[k] if k.startswith(('c', 'b')) and '[' in meaning.get(k, '') else k} = {v}"
        for k, v in found.values.items()
    ]
    return f"at {', '.join(shown)}: {found.left} instead of {found.right}"

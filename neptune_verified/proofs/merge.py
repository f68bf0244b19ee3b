"""Trusted: what must hold for a program to be the join of partial results (O15 merge).

A loop program of one pass carries a state X and stores Y(X) at the end. ``proofs.join`` proves that the states over two
disjoint sets of elements are joined by C: F(a ++ b) = C(F(a), F(b)). Who holds two *results* Y(F(a)), Y(F(b)) and not the
states wants a program M over results. It is right if

    O15 merge.live     the term of the element that a running max or min picks out is positive: a sum of terms >= 0 is
                       positive in every live state
    O15 merge.domain   Y(X) is in the domain that M declares for its inputs, for every state X
    O15 merge          M(Y(a), Y(b)) = Y(C(a, b)), for all states a and b, dead ones included

Then M(Y(F(a)), Y(F(b))) = Y(C(F(a), F(b))) = Y(F(a ++ b)) by O15 of the join: M gives what the loop program gives over
both sets at once. With C, M is associative and commutative on such results, and a result over nothing is neutral for it.

Nothing is written down a second time: Y, the combine of each accumulator and its repair come from the loop program, M from
its own definition, inlined, with Y(a) and Y(b) for what it reads. C is built as ``ir.split.join`` runs it: the producers by
their reducers, each consumer by repairing both partial values to the joined producers.

What is assumed of a state: the kinds of its values (``proofs.edge``); that an accumulator is neutral while a producer is
dead (O14 of the join); that a sum of terms >= 0 is positive while none is, by O15 merge.live. Of max and min that uses
that a reduction over at least one element is the value of one of them; where no producer is dead, at least one element was
seen. Both sides read the same inputs where these do not depend on the reduced axis; what may differ between the sides
(its length, a reduction of another pass) is refused.

Values are extended reals: casts are the identity, and ranges (O7) are not part of this. Facts that a merge declares of its
inputs are kinds (finite, -inf, signs), which merge.domain proves of results; declared bounds are refused, default ones,
the range of a type, are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from neptune_verified.ir.expr import (
    REDUCERS,
    Axis,
    Expr,
    Read,
    Reduce,
    Size,
    Var,
    const,
    op,
    substitute,
    subterms,
    transform,
    var,
)
from neptune_verified.ir.inline import inline
from neptune_verified.ir.kinds import FINITE, NONNEGATIVE, POS, UNDEF, KindAnalysis, Kinds
from neptune_verified.ir.loops import Carried, LoopProgram, Nest, Pass, T, output_expr, repair_of, symbols
from neptune_verified.ir.printing import Printer
from neptune_verified.ir.program import Program
from neptune_verified.proofs.abstract import Abstraction, UnsupportedTerm
from neptune_verified.proofs.edge import Edge, used_variables, variables
from neptune_verified.proofs.facts import provenance
from neptune_verified.proofs.join import neutral_while_dead, split_obligations
from neptune_verified.proofs.kernel import Proved, Prover, VerifiedProgram, require_grounded
from neptune_verified.proofs.obligations import Obligation
from neptune_verified.proofs.statement import Equal, Goal, Holds, Hypothesis, NeverFalse, Refines, Statement, Symbol
from neptune_verified.proofs.tuple_reducer import within

SIDES = ("_a", "_b")
STEP = "merging partial results"


def merge_obligations(loops: LoopProgram, merge: Program) -> tuple[Obligation, ...]:
    """O15 merge of ``merge``: its inputs are the results of ``loops`` over one set of elements, then those over the other.

    Raises UnsupportedTerm where they cannot be stated."""
    return _Merge(loops, merge).obligations()


@dataclass(frozen=True, slots=True)
class _Result:
    """One result of the loop program: its value over a state, and the axes that the other results do not have."""

    name: str
    expr: Expr
    own: tuple[Axis, ...]


class _Merge:
    def __init__(self, loops: LoopProgram, merge: Program) -> None:
        self.program, self.merge = loops.program, merge
        self.nest, self.pass_ = _single(loops)
        self.edges = {
            c.name: Edge(loops.program, self.nest, self.pass_, c)
            for c in self.pass_.carried
            if c.repair is not None and c.repair.producers
        }
        self.analysis = KindAnalysis(loops.program)
        self.provenance = provenance(loops.program)
        self.symbols = {side: {c.name: var(c.name + side, c.value.dtype) for c in self.pass_.carried} for side in SIDES}
        self.abstract = Abstraction(self.analysis, [v for s in self.symbols.values() for v in s.values()])
        self.results = tuple(self._results(loops))
        self._check_shapes()
        #: Is every result of the definition defined on all inputs? Otherwise the claims are about those on which it is.
        self.total = all(UNDEF not in self.analysis.of(e) for _, e in inline(loops.program).outputs.values())

    # -- the two programs ------------------------------------------------------------------------------------

    def _results(self, loops: LoopProgram) -> Iterator[_Result]:
        found = {o.name: o for o in self.nest.outputs}
        missing = [n for n in loops.program.outputs if n not in found]
        if missing:
            raise UnsupportedTerm(f"{missing[0]} is no function of the state at the end of the pass")
        common = set(self.nest.grid + self.nest.inner).intersection(*(o.axes for o in found.values()))
        rows = tuple(a for a in found[loops.program.outputs[0]].axes if a in common)
        for name in loops.program.outputs:
            out = found[name]
            if out.axes[: len(rows)] != rows:
                raise UnsupportedTerm(f"the first axes of {name} are not the rows that all results have, in one order")
            yield _Result(name, output_expr(self.nest, out), out.axes[len(rows) :])

    def _check_shapes(self) -> None:
        """The inputs of the merge are the results, twice, with their common axes as one."""
        m, k = self.merge, len(self.results)
        if len(m.inputs) != 2 * k or len(m.outputs) != k:
            raise UnsupportedTerm(
                f"{m.name} has {len(m.inputs)} inputs and {len(m.outputs)} outputs; to merge {k} results it takes {2 * k} "
                f"and gives {k}"
            )
        for t, r in zip(m.inputs, self.results * 2, strict=True):
            if len(t.shape) != 1 + len(r.own):
                raise UnsupportedTerm(
                    f"{t.name} has {len(t.shape)} dimensions, and {r.name} {1 + len(r.own)} with its rows flattened"
                )
        for a in self.merge.assumptions:
            if a.origin == "declared" and a.kind in ("bounded", "at_least") and a.subject in {t.name for t in m.inputs}:
                raise UnsupportedTerm(f"{m.name} declares {a}, which no result of {self.program.name} has to satisfy")

    def merged(self, k: int, sides: tuple[list[Expr], list[Expr]]) -> Expr:
        """Output k of the merge where its inputs are the given results, at one element."""
        axes, expr = inline(self.merge).outputs[self.merge.outputs[k]]
        own = len(self.results[k].own)
        if len(axes) != 1 + own:
            raise UnsupportedTerm(f"{self.merge.outputs[k]} has other dimensions than {self.results[k].name}")
        values = dict(zip((t.name for t in self.merge.inputs), [*sides[0], *sides[1]], strict=True))
        shapes = {t.name: t.shape for t in self.merge.inputs}

        def fn(x: Expr) -> Expr | None:
            if isinstance(x, Read):
                own_axes = axes[: len(x.indices)]
                same = x.indices == own_axes and shapes[x.tensor] == tuple(a.extent for a in own_axes)
                if not same or len(x.indices) not in (1, 1 + own):
                    raise UnsupportedTerm(f"{self.merge.outputs[k]} reads {x.tensor} at another element than its own")
                return op("cast", values[x.tensor], dtype=x.dtype)
            if isinstance(x, Reduce | Axis | Size):
                raise UnsupportedTerm(f"{self.merge.outputs[k]} is no function of the results at its own element alone")
            return None

        return transform(expr, fn)

    # -- states ----------------------------------------------------------------------------------------------

    def outputs(self, state: dict[str, Expr]) -> list[Expr]:
        """Y(state)."""
        values: dict[Expr, Expr] = {c.var: state[c.name] for c in self.pass_.carried}
        return [self.closed(substitute(r.expr, values)) for r in self.results]

    def closed(self, e: Expr) -> Expr:
        """``e`` over the symbols of states, and of values that both sides share."""
        lengths = {x for a in self.pass_.stream for x in subterms(a.extent) if isinstance(x, Size)}
        result = self.abstract(e)
        for x in self.abstract.elements:
            inside = subterms(x)
            if any(isinstance(y, Reduce) or y in lengths for y in inside) or x.free & set(self.pass_.stream):
                raise UnsupportedTerm(f"{Printer(self.program)(x)} may differ between the partial results")
            if UNDEF in self.analysis.of(x):
                raise UnsupportedTerm(f"{Printer(self.program)(x)} can be undefined")
        return result

    def joined(self, a: dict[str, Expr], b: dict[str, Expr]) -> dict[str, Expr]:
        """C(a, b): the symbolic form of ``ir.split.join``."""
        result: dict[str, Expr] = {}
        for c in self.pass_.carried:
            sides: list[Expr] = [a[c.name], b[c.name]]
            if c.repair is not None and c.repair.producers:
                sides = [self._repaired(c, side, result) for side in (a, b)]
            result[c.name] = REDUCERS[c.value.reducer].combine(*sides)
        return result

    def _repaired(self, c: Carried, side: dict[str, Expr], joined: dict[str, Expr]) -> Expr:
        assert c.repair is not None
        mapping: dict[Expr, Expr] = {var(T, c.value.dtype): side[c.name]}
        for p in self.pass_.carried:
            if p.name in c.repair.producers:
                old, new = symbols(p)
                mapping |= {old: side[p.name], new: joined[p.name]}
        return self.closed(substitute(repair_of(self.pass_, c), mapping))

    # -- what is known of a state ----------------------------------------------------------------------------

    def symbol(self, c: Carried, side: str) -> Symbol:
        v = self.symbols[side][c.name]
        meaning = f"{c.name} of {'one' if side == '_a' else 'the other'} part"
        edge = self.edges.get(c.name) or next((e for e in self.edges.values() if c in e.producers), None)
        if edge is not None:
            return edge.grounds.symbol(c, v, meaning)
        kinds = (self.analysis.of(c.value) | KindAnalysis().of(c.neutral)) - {UNDEF}
        return Symbol(v, kinds, meaning, self.provenance.origins(c.value))

    def known(self) -> list[Hypothesis]:
        """Facts about both states."""
        facts: list[Hypothesis] = []
        for side in SIDES:
            for c in self.pass_.carried:
                edge = self.edges.get(c.name)
                if edge is None:
                    continue
                v = self.symbols[side][c.name]
                facts += neutral_while_dead(edge, v, side)
                dead = edge.dead(c, side)
                if dead is not None and _witnesses(edge):
                    fact = op("or", dead, op("gt", v, const(0, v.dtype)))
                    facts.append(Hypothesis(fact, f"proved: O15 merge.live of {c.name}"))
        return facts

    # -- obligations -----------------------------------------------------------------------------------------

    def obligations(self) -> tuple[Obligation, ...]:
        result = [o for edge in self.edges.values() for o in _live_obligations(edge)]
        a, b = (dict[str, Expr](self.symbols[side]) for side in SIDES)
        of_a, of_b = self.outputs(a), self.outputs(b)
        declared = KindAnalysis(self.merge)
        for tensor, value in zip(self.merge.inputs, (*of_a, *of_b), strict=True):
            for fact in within(value, declared.declared(tensor.name)):
                result.append(self.make("merge.domain", tensor.name, Holds(fact) if self.total else NeverFalse(fact)))
        joined = self.outputs(self.joined(a, b))
        for k, r in enumerate(self.results):
            merged = self.merged(k, (of_a, of_b))
            wanted = op("cast", joined[k], dtype=merged.dtype)
            result.append(self.make("merge", r.name, Equal(merged, wanted) if self.total else Refines(merged, wanted)))
        return tuple(dict.fromkeys(result))

    def make(self, part: str, stage: str, goal: Goal) -> Obligation:
        used = used_variables(goal)
        facts: list[Hypothesis] = []
        for _ in self.pass_.carried:
            facts = [h for h in self.known() if variables(h.expr) & used]
            used |= {v for h in facts for v in variables(h.expr)}
        candidates = [self.symbol(c, side) for side in SIDES for c in self.pass_.carried]
        candidates += self.abstract.symbols(Printer(self.program), self.provenance.origins)
        statement = Statement(tuple(s for s in candidates if s.var in used), tuple(facts), goal)
        return Obligation("O15", part, stage, STEP, statement)


def _single(loops: LoopProgram) -> tuple[Nest, Pass]:
    if len(loops.nests) != 1 or len(loops.nests[0].passes) != 1:
        raise UnsupportedTerm(f"{loops.program.name} is not one pass of one kernel: its results are no one state's")
    return loops.nests[0], loops.nests[0].passes[0]


def _witnesses(edge: Edge) -> list[Carried]:
    """Running maxima and minima at whose element the term of a sum of terms >= 0 is positive, as far as kinds tell."""
    c = edge.consumer
    if c.value.reducer != "sum" or not edge.kinds <= NONNEGATIVE:
        return []
    found = []
    for p in edge.producers:
        element, (r, _) = edge.elements[p.name], edge.symbols[p.name]
        if p.value.reducer in ("max", "min") and p.repair is None and isinstance(element, Var):
            term = substitute(edge.guarded(edge.g, c), {element: r})
            live: dict[Expr, Kinds] = {s: edge.state[s.name] & FINITE for s, _ in edge.symbols.values()}
            if KindAnalysis(None, live).of(term) <= {POS}:
                found.append(p)
    return found[:1]


def _live_obligations(edge: Edge) -> Iterator[Obligation]:
    """O15 merge.live."""
    c = edge.consumer
    for p in _witnesses(edge):
        r = edge.symbols[p.name][0]
        which = f"derived: {p.name} is the {p.value.reducer} of the elements seen, so one of them has it"
        facts = [Hypothesis(op("eq", edge.elements[p.name], r), which), *edge.live(""), *edge.seen("")]
        term = edge.guarded(edge.g, c)
        goal = Holds(op("gt", term, const(0, term.dtype)))
        yield Obligation("O15", "merge.live", c.name, STEP, edge.statement(goal, facts))


def prove_merge(
    verified: VerifiedProgram, merge: Program, prover: Prover
) -> tuple[tuple[Proved, ...], tuple[Proved, ...]]:
    """What the provers say of the joining of the states of ``verified`` (``proofs.join``), and of ``merge``.

    Raises UnsupportedTerm where something cannot be stated, Refused where a statement uses a fact without a source."""
    loops = verified.loops
    nest, p = _single(loops)
    split = split_obligations(loops.program, nest, p)
    own = merge_obligations(loops, merge)
    require_grounded(loops.program, (*split, *own))
    return tuple(map(prover.prove, split)), tuple(map(prover.prove, own))


__all__ = ["merge_obligations", "prove_merge"]

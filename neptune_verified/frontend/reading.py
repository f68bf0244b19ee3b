"""Trusted: the walk over a te graph that makes a Program: inputs, sizes, stages in topological order, assumptions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvm import te, tirx

from neptune_verified.errors import UnsupportedProgram
from neptune_verified.frontend.facts import Fact, defaults, mistyped
from neptune_verified.frontend.lines import Lines, key
from neptune_verified.frontend.names import Names
from neptune_verified.frontend.outside import refuse_outside
from neptune_verified.frontend.reducers import check_length, read_reduction
from neptune_verified.frontend.scalars import Reader, Sizes
from neptune_verified.ir.expr import DTYPES, FLOATS, INTS, Const, Expr, Op, Read, Reduce, Size, axis, subterms
from neptune_verified.ir.program import Assumption, Loc, Program, Stage, Tensor


@dataclass(slots=True)
class Reading:
    """The state of one ``from_te``. After ``program``, ``sizes`` knows the te variable of every size."""

    name: str
    lines: Lines
    mask_literals: bool
    drop_conditions: bool = False
    names: Names = field(default_factory=Names)
    sizes: Sizes = field(init=False)
    tensors: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sizes = Sizes(self.names)

    def program(self, inputs: list[Any], outputs: list[Any], assume: list[Fact]) -> Program:
        self._check_arguments(inputs, outputs)
        found = self.operations(inputs, outputs)
        axes = [a for o in found for a in (*o.axis, *o.reduce_axis)]
        self.sizes.iteration = self.lines.axis_keys() | {key(a.var) for a in axes}
        wanted = [self.names.give(t.op.name, "input") for t in inputs]
        tensors = tuple(self._input(t, n) for t, n in zip(inputs, wanted, strict=True))
        self._check_dims(inputs, tensors)
        for o in found:
            self._shape_sizes(o)
        stages = tuple(s for o in found for s in self._stages(o))
        out_names = tuple(self.tensors[key(t.op), int(t.value_index)][0] for t in outputs)
        needed = _needed(stages, out_names)
        refuse_outside(tensors, needed)
        facts = self._assumptions(assume, inputs, tensors, needed)
        program_name = Names().give(self.name, "program")
        notes = (*self.names.notes, *self.notes)
        return Program(program_name, tensors, self.sizes.all(), needed, out_names, facts, notes)

    # ------------------------------------------------------------------------------------------ graph

    def _loc(self, operation: Any) -> Loc:
        return self.lines.of(operation)

    def _check_arguments(self, inputs: list[Any], outputs: list[Any]) -> None:
        for what, tensors in (("inputs", inputs), ("outputs", outputs)):
            seen: set[tuple[int, int]] = set()
            for k, t in enumerate(tensors):
                if not isinstance(t, te.Tensor):
                    why = "it must be a te tensor; scalars and lengths are found by themselves"
                    raise UnsupportedProgram(f"{type(t).__name__} as {what}[{k}]", self.name, None, why)
                loc, identity = self._loc(t.op), (key(t.op), int(t.value_index))
                if identity in seen:
                    raise UnsupportedProgram(f"{what}[{k}] given twice", t.op.name, loc, "list each tensor once")
                seen.add(identity)
                if what == "inputs" and not isinstance(t.op, te.PlaceholderOp):
                    why = "an input must be a te.placeholder; a computed tensor is found by itself"
                    raise UnsupportedProgram(f"inputs[{k}] is computed", t.op.name, loc, why)
                if what == "outputs" and isinstance(t.op, te.PlaceholderOp):
                    why = "an output must be computed; copy it with te.compute"
                    raise UnsupportedProgram(f"outputs[{k}] is a placeholder", t.op.name, loc, why)
        if not outputs:
            raise UnsupportedProgram("no outputs", self.name, None, "list the tensors that the kernel returns")

    def operations(self, inputs: list[Any], outputs: list[Any]) -> list[Any]:
        """The compute operations that the outputs need, producers first."""
        listed = {key(t.op) for t in inputs}
        done: dict[int, Any] = {}
        stack = [(t.op, False) for t in reversed(outputs)]
        while stack:
            o, expanded = stack.pop()
            if key(o) in done or key(o) in listed:
                continue
            if isinstance(o, te.PlaceholderOp):
                why = "the outputs read this placeholder; list it in inputs"
                raise UnsupportedProgram("placeholder that is not an input", o.name, self._loc(o), why)
            if not isinstance(o, te.ComputeOp):
                construct = "te." + type(o).__name__.removesuffix("Op").lower()
                raise UnsupportedProgram(construct, o.name, self._loc(o), "only te.compute has a meaning here")
            if expanded:
                done[key(o)] = o
            else:
                stack.append((o, True))
                stack.extend((t.op, False) for t in reversed(o.input_tensors))
        return list(done.values())

    # ------------------------------------------------------------------------------------------ inputs

    def _input(self, t: Any, name: str) -> Tensor:
        reader = Reader(name, self._loc(t.op), self.sizes)
        dtype = str(t.dtype)
        if dtype not in DTYPES:
            reader.refuse(f"type {dtype}", f"the types of inputs are {', '.join(DTYPES)}")
        self.tensors[key(t.op), int(t.value_index)] = (name, dtype)
        return Tensor(name, tuple(self._length(reader, d, f"shape[{k}]") for k, d in enumerate(t.shape)), dtype)

    def _length(self, reader: Reader, dim: Any, what: str) -> Expr:
        length = reader.index(dim)
        check_length(reader, length, what)
        if isinstance(length, Const) and length.value < 0:
            reader.refuse(what, f"a length is at least 0, got {length.value}")
        return length

    def _check_dims(self, inputs: list[Any], tensors: tuple[Tensor, ...]) -> None:
        """Lengths are read from shapes: each must stand alone in one."""
        alone = {d.name for t in tensors for d in t.shape if isinstance(d, Size)}
        for te_tensor, t in zip(inputs, tensors, strict=True):
            for k, d in enumerate(t.shape):
                hidden = sorted({s.name for s in subterms(d) if isinstance(s, Size)} - alone)
                if isinstance(d, Op) and hidden:
                    why = f"{', '.join(hidden)} must stand alone in the shape of some input, to be read from it"
                    raise UnsupportedProgram(f"arithmetic in shape[{k}]", t.name, self._loc(te_tensor.op), why)

    # ------------------------------------------------------------------------------------------ stages

    def _reader(self, stage: str, operation: Any) -> Reader:
        return Reader(
            stage,
            self._loc(operation),
            self.sizes,
            self.tensors,
            mask_literals=self.mask_literals,
            drop_conditions=self.drop_conditions,
            notes=self.notes,
        )

    def _shape_sizes(self, operation: Any) -> None:
        """Sizes in shapes and ranges come before the scalars in bodies."""
        reader = Reader(operation.name, self._loc(operation), self.sizes)
        for k, a in enumerate(operation.axis):
            self._length(reader, a.dom.extent, f"shape[{k}]")
        reader.bound.update({key(a.var): axis(a.var.name, 1) for a in operation.axis})  # for check_length to refuse
        for a in operation.reduce_axis:
            for e in (a.dom.min, a.dom.extent):
                check_length(reader, reader.index(e), f"range of axis {a.var.name}")

    def _stages(self, operation: Any) -> list[Stage]:
        several = len(operation.body) > 1
        wanted = [f"{operation.name}_{k}" if several else operation.name for k in range(len(operation.body))]
        if several and any(type(b).__name__ == "Reduce" for b in operation.body):
            read_reduction(self._reader(operation.name, operation), operation.body[0])
        out = []
        for k, body in enumerate(operation.body):
            name = self.names.give(wanted[k], "stage")
            stage = self._stage(operation, body, name)
            self.tensors[key(operation), k] = (name, stage.dtype)
            out.append(stage)
        return out

    def _stage(self, operation: Any, body: Any, name: str) -> Stage:
        reader = self._reader(name, operation)
        names = self.names.give_axes([a.var.name for a in operation.axis], {s.name for s in self.sizes.all()})
        axes = []
        for k, (a, axis_name) in enumerate(zip(operation.axis, names, strict=True)):
            if not (type(a.dom.min).__name__ == "IntImm" and int(a.dom.min.value) == 0):
                reader.refuse(f"axis {a.var.name} that does not start at 0", "shift it by its start")
            axes.append(axis(axis_name, self._length(reader, a.dom.extent, f"shape[{k}]")))
            reader.bound[key(a.var)] = axes[-1]
        is_reduction = type(body).__name__ == "Reduce"
        value = read_reduction(reader, body) if is_reduction else reader.read(body)
        return Stage(name, tuple(axes), value, self._loc(operation))

    # ------------------------------------------------------------------------------------------ assumptions

    def _assumptions(
        self, assume: list[Fact], inputs: list[Any], tensors: tuple[Tensor, ...], stages: tuple[Stage, ...]
    ) -> tuple[Assumption, ...]:
        declared = [self._assumption(f, inputs, tensors) for f in assume]
        scalars = {s.name: s.dtype for s in self.sizes.all() if s.dtype in FLOATS}
        floats = {t.name: t.dtype for t in tensors if t.dtype in FLOATS} | scalars
        extents = [d for t in tensors for d in t.shape]
        for s in stages:
            extents += [a.extent for a in s.axes]
            extents += [a.extent for a in s.body.axes] if isinstance(s.body, Reduce) else []
        in_extents = {x.name for e in extents for x in subterms(e) if isinstance(x, Size)}
        lengths = [s.name for s in self.sizes.all() if s.name in in_extents and s.dtype in INTS]
        return (*declared, *defaults(declared, floats, lengths))

    def _assumption(self, fact: Fact, inputs: list[Any], tensors: tuple[Tensor, ...]) -> Assumption:
        if not isinstance(fact, Fact):
            why = "facts are made by nv.bounded, nv.at_least, nv.positive and their like"
            raise UnsupportedProgram(f"{type(fact).__name__} in assume", self.name, None, why)
        construct = f"assumption {fact.kind}"
        if isinstance(fact.subject, te.Tensor):
            names = {key(t.op): i for t, i in zip(inputs, tensors, strict=True)}
            tensor = names.get(key(fact.subject.op))
            shown, loc = fact.subject.op.name, self._loc(fact.subject.op)
            subject: Tensor | Size | None = tensor
        else:
            variables = {key(v): s for s, v in self.sizes.found.values()}
            is_var = isinstance(fact.subject, tirx.Var)
            subject = variables.get(key(fact.subject)) if is_var else None
            shown, loc = fact.subject.name if is_var else type(fact.subject).__name__, Loc()
        if subject is None:
            why = "facts can be declared about the inputs and about the lengths and scalars that the program uses"
            raise UnsupportedProgram(construct, shown, loc, why)
        reason = mistyped(fact.kind, subject.dtype, isinstance(subject, Tensor))
        if reason:
            raise UnsupportedProgram(construct, shown, loc, reason)
        return Assumption(fact.kind, subject.name, fact.value)


def _needed(stages: tuple[Stage, ...], outputs: tuple[str, ...]) -> tuple[Stage, ...]:
    """Without the components of multiple-output computations that nothing reads."""
    needed = set(outputs)
    for s in reversed(stages):
        if s.name in needed:
            needed |= {x.tensor for x in subterms(s.body) if isinstance(x, Read)}
    return tuple(s for s in stages if s.name in needed)

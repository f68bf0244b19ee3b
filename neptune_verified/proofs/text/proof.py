"""Trusted: an emitted file is proved to compute its definition: O8 to O13 and O16, for all lengths, at every configuration.

For each kernel and each of its tile configurations: the text is read (``reader``); its integers fit and its accesses stay
inside (``memory``); each stored value is the loop program's output at the indices at which it is stored (``match``), with
the values that loops carry by induction (``claims``); each output element is written exactly once. What the loop program
computes is the matter of O1 to O7, O14, which are proved before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from neptune_verified.ir.expr import FLOATS, INTS, Axis, Expr, size
from neptune_verified.ir.kinds import KindAnalysis
from neptune_verified.ir.loops import LoopProgram, Nest, Output, Pass
from neptune_verified.ir.program import Program
from neptune_verified.proofs.text.claims import Claims, claim_lanes, lane_facts, loop_facts, partners
from neptune_verified.proofs.text.findings import Finding, TextRefused, Unproved
from neptune_verified.proofs.text.integers import within, zero
from neptune_verified.proofs.text.launch import Grid, Ground, with_blocks
from neptune_verified.proofs.text.launcher import Launch, Launcher, LauncherReader
from neptune_verified.proofs.text.match import Matcher
from neptune_verified.proofs.text.memory import Memory
from neptune_verified.proofs.text.reader import Reader, Reading
from neptune_verified.proofs.text.roundings import check_hoists
from neptune_verified.proofs.text.states import States, roundable
from neptune_verified.proofs.text.syntax import Config, FileText, KernelText, parse
from neptune_verified.proofs.text.values import Access, Pointer, Stride, Tile, Value, opened

_ABI = {
    "float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float64": "fp64", "int8": "i8", "int16": "i16",
    "int32": "i32", "int64": "i64", "uint8": "u8", "bool": "i1",
}  # fmt: skip
#: The obligations of the text, in order.
TEXT_OBLIGATIONS = ("O8", "O9", "O10", "O11", "O12", "O13", "O16")
#: Reducers whose results depend on the order, through rounding.
_ROUNDED = ("sum", "prod", "logaddexp")


@dataclass(frozen=True, slots=True)
class KernelProof:
    """What was established of one kernel at one configuration, for the report. ``carried``: values of loops that were
    shown to be the loop program's; ``skipping``: those for which elements are skipped; ``unseen``: those that have a mask;
    ``rounded``: types to which operands of products are rounded; ``doubled``: values, with the types of which an operand is
    taken as two numbers; ``reordered``: float reductions by tiles and trees."""

    kernel: str
    config: str
    outputs: tuple[str, ...]
    integers: int
    accesses: int
    carried: tuple[str, ...]
    skipping: tuple[str, ...]
    unseen: tuple[str, ...]
    rounded: tuple[str, ...]
    doubled: tuple[tuple[str, str], ...]
    reordered: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextProof:
    """Every kernel at every configuration, and the routes by which it was proved; ``second``: what the bounded evaluation
    looked at for each obligation."""

    kernels: tuple[KernelProof, ...]
    second: Mapping[str, str] = field(default_factory=dict)
    routes: tuple[str, ...] = ("lanes",)


def read_back(loops: LoopProgram, source: str, target: str, definition: str | None = None) -> TextProof:
    """Raises TextRefused. ``definition``: the hash that the docstring must name, if it is to be compared."""
    try:
        file = parse(source)
        _header(file, loops, target, definition)
        launcher = LauncherReader(file, loops).read()
        check_hoists(loops)
    except Unproved as e:
        raise TextRefused(_finding(e)) from None
    except Exception as e:
        raise TextRefused(_unreadable(e, "kernel.py")) from None
    parts = list(_parts(loops, launcher))
    expected = sum(1 + (len(form.nests) if (form := x.form) else 0) for x in launcher.nests)
    if len(launcher.nests) != len(loops.nests) or len(parts) != expected:
        what = f"{len(parts)} launches, where the loop program has other kernels"
        raise TextRefused(Finding("O13", "kernel.py", what))
    names = [x.launch.kernel for x in parts]
    if sorted(names) != sorted(file.kernels) or sorted(x.launch.table for x in parts) != sorted(file.tables):
        raise TextRefused(Finding("O13", "kernel.py", "a kernel or a table is not used, or used twice"))
    if sorted(f"{k.upper()}_SIGNATURE" for k in names) != sorted(file.signatures):
        raise TextRefused(Finding("O13", "kernel.py", "a table of argument types is missing, or is no kernel's"))
    proofs = []
    for part in parts:
        launch = part.launch
        for config in file.tables[launch.table].values():
            try:
                proofs.append(_KernelProof(file, part, launcher, config).prove())
            except Unproved as e:
                raise TextRefused(_finding(e, f", {launch.kernel}, {config.name}")) from None
            except Exception as e:
                raise TextRefused(_unreadable(e, f"kernel.py:1, {launch.kernel}, {config.name}")) from None
    return TextProof(tuple(proofs))


def _header(file: FileText, loops: LoopProgram, target: str, definition: str | None) -> None:
    if file.entry != loops.program.name or file.target != target:
        raise Unproved("O13", f"it is {file.entry} for {file.target}, not {loops.program.name} for {target}", 1)
    lines = [x for x in file.docstring.splitlines() if x.startswith("definition: ")]
    if definition is not None and lines != [f"definition: sha256:{definition}"]:
        raise Unproved("O13", "its docstring names another definition", 1)


def _finding(e: Unproved, more: str = "") -> Finding:
    return Finding(e.id, f"kernel.py:{e.line or 1}{more}", e.what)


def _unreadable(e: Exception, where: str) -> Finding:
    """What the reader cannot handle proves nothing, whatever it fails with."""
    return Finding("O13", where, f"it cannot be read: {type(e).__name__}: {str(e)[:200]}")


@dataclass(frozen=True, slots=True)
class _Part:
    """One launch, the nest that it computes, the program whose tensors it may be given, and what was written before."""

    launch: Launch
    nest: Nest
    program: Program
    before: tuple[Nest, ...]
    extent: Expr | None = None
    block: int = 1


def _parts(loops: LoopProgram, launcher: Launcher) -> Iterator[_Part]:
    for k, (launches, nest) in enumerate(zip(launcher.nests, loops.nests, strict=False)):
        before = loops.nests[:k]
        for launch in launches.rolling:
            yield _Part(launch, nest, loops.program, before)
        form = launches.form
        for n, (launch, part) in enumerate(zip(launches.split, form.nests if form else (), strict=False)):
            assert form is not None
            yield _Part(launch, part, form.program, before + form.nests[:n], form.extent, launches.block)


class _KernelProof:
    def __init__(self, file: FileText, part: _Part, launcher: Launcher, config: Config) -> None:
        self.file, self.launch = file, part.launch
        self.nest, self.config, self.program = part.nest, config, part.program
        self.text: KernelText = file.kernels[part.launch.kernel]
        self.outputs = {o.name: (p, o) for p, o in _outputs(part.nest)}
        self.grid = Grid([with_blocks(f, config.blocks) for f in part.launch.factors])
        self.ground = Ground(self.program, launcher.checked, self.grid, part.extent, part.block)
        between = {name for name, _ in part.program.between}
        self.shapes = {t.name: t.shape for t in self.program.inputs if t.name not in between}
        self.dtypes = {t.name: t.dtype for t in self.program.inputs if t.name not in between}
        for nest in (*part.before, part.nest):
            for _, o in _outputs(nest):
                self.shapes[o.name] = tuple(a.extent for a in o.axes)
                self.dtypes[o.name] = o.expr.dtype

    def prove(self) -> KernelProof:
        reading = self.read()
        lengths = self.ground.lengths()
        share = self.ground.extent, self.ground.block
        memory = Memory(reading, self.ground.facts(), lengths, self.grid, self.shapes, *share)
        memory.programs(self.outputs, self.launch.line)
        if not memory.facts.satisfiable():
            raise Unproved("O13", "the facts about lengths contradict each other, so nothing would be proved")
        named = partners(reading, [c.name for c in self.nest.carried()])
        sums = {c.end: c for loop in reading.loops for c in loop.carried.values() if c.name in named}
        integers = memory.integers(sums)
        for a in reading.loads:
            if a.tensor in self.outputs:
                raise Unproved("O11", f"{a.tensor}, which this kernel writes, is read", a.line)
            memory.inside(a)
        stores = self.stores(reading)
        for group in stores.values():
            memory.written_once(group)
        claims, rounded = self.values(reading, stores)
        for end, carry in sums.items():
            if end.dtype in INTS and claims.outermost(carry).start not in claims.by_carry:
                raise Unproved("O12", f"{carry.name} may overflow", reading.loops[carry.loop].line)
        return KernelProof(
            self.launch.kernel,
            self.config.name,
            tuple(self.outputs),
            integers,
            len(reading.loads) + len(reading.stores),
            tuple(dict.fromkeys(claim.name for claim in claims.by_carry.values())),
            tuple(dict.fromkeys(claims.skipping)),
            tuple(dict.fromkeys(claims.unseen)),
            rounded,
            tuple(sorted(claims.doubled.items())),
            tuple(c.name for c in self.nest.carried() if c.value.reducer in _ROUNDED and c.value.dtype in FLOATS),
        )

    def read(self) -> Reading:
        if sorted(self.text.blocks) != sorted(self.config.blocks):
            raise Unproved("O13", f"the configuration's blocks are not {', '.join(self.text.blocks)}", self.text.line)
        if len(self.launch.args) != len(self.text.params):
            raise Unproved(
                "O13", f"{len(self.launch.args)} arguments for {len(self.text.params)} parameters", self.launch.line
            )
        self.signature()
        env: dict[str, Value] = dict(self.config.blocks)
        sizes = {s.name: s for s in self.program.sizes}
        for name, (kind, what, k) in zip(self.text.params, self.launch.args, strict=True):
            if kind == "tensor":
                if what not in self.shapes:
                    raise Unproved("O11", f"{what} is given to a kernel before it is written", self.launch.line)
                env[name] = Pointer(what)
            elif kind == "stride":
                env[name] = Stride(what, k)
            else:
                dtype = "float32" if sizes[what].dtype in FLOATS else "int32"
                env[name] = Tile((), size(what, dtype))
        ranks = {name: len(shape) for name, shape in self.shapes.items()}
        reader = Reader(env, self.dtypes, ranks, self.file.device, self.grid)
        for name in env:
            reader.named(name)
        reader.block(self.text.body)
        return reader.found

    def signature(self) -> None:
        """The table of argument types, from which the kernel may be compiled ahead of time, has those of the launch."""
        sizes = {s.name: s for s in self.program.sizes}
        types = self.file.signatures[f"{self.text.name.upper()}_SIGNATURE"]
        for name, (kind, what, k) in zip(self.text.params, self.launch.args, strict=True):
            if kind == "tensor":
                wanted = [f"*{_ABI[self.dtypes.get(what, '')]}"] if what in self.dtypes else []
            elif kind == "stride":
                last = k == len(self.shapes.get(what, ())) - 1
                wanted = ["i32", "i64", *(["one"] if last else [])]  # of contiguous tensors the last stride is 1
            else:
                wanted = [_ABI["float32" if sizes[what].dtype in FLOATS else "int32"]]
            if types.get(name) not in wanted:
                raise Unproved("O13", f"the table of argument types says {types.get(name)} of {name}", self.text.line)
        if list(types) != self.text.params:
            raise Unproved("O13", "the table of argument types is not that of the parameters", self.text.line)

    def stores(self, reading: Reading) -> dict[str, list[Access]]:
        groups: dict[str, list[Access]] = {}
        for a in reading.stores:
            if a.tensor not in self.outputs:
                raise Unproved("O11", f"{a.tensor}, which is no output of this kernel, is written", a.line)
            groups.setdefault(a.tensor, []).append(a)
        if missing := set(self.outputs) - set(groups):
            raise Unproved("O11", f"not written: {', '.join(sorted(missing))}", self.text.line)
        return groups

    def values(self, reading: Reading, stores: dict[str, list[Access]]) -> tuple[Claims, tuple[str, ...]]:
        """The values that are stored, with the fewest roundings of operands that the text needs."""
        candidates = roundable(self.nest)
        tries = [{}, candidates] if candidates else [{}]
        if 1 < len(candidates) <= 4:
            tries += [dict(p for p, on in zip(candidates.items(), bits, strict=True) if on)
                      for bits in product((True, False), repeat=len(candidates))]  # fmt: skip
        failed: list[Unproved] = []
        for rounded in tries:
            claims = Claims(reading, States(self.nest, rounded), KindAnalysis(self.program), self.ground)
            try:
                for name, group in stores.items():
                    for a in group:
                        self.value(claims, a, *self.outputs[name])
                claims.prove_all()
                return claims, tuple(dict.fromkeys(rounded.values()))
            except Unproved as e:
                failed.append(e)
        # A try with too few or too many roundings fails for that reason; the others say more.
        raise next((e for e in failed if e.id != "O16"), failed[0])

    def value(self, claims: Claims, a: Access, p: Pass | None, out: Output) -> None:
        facts = self.ground.facts()
        symbols = claim_lanes(a.shape)
        for c in lane_facts(a.shape):
            facts.add(c)
        for n in a.loops:
            for c in loop_facts(claims.reading.loops[n]):
                facts.add(c)
        facts.add(opened(a.mask, a.shape, symbols))
        m = Matcher(claims.reading, facts, claims.analysis, claims)
        m.inside = a.loops
        at: dict[Axis, Expr] = {}
        for axis_, index in zip(out.axes, a.indices, strict=True):
            at[axis_] = opened(index, a.shape, symbols)
            for c in within(at[axis_], zero(), axis_.extent):
                if not facts.holds(c):
                    raise Unproved("O11", f"{a.tensor} may be stored beyond its axis {axis_.name}", a.line)
        assert a.value is not None
        wanted = claims.states.output(out, p, at)
        value = opened(a.value.expr, a.value.shape, symbols) if a.value.shape else a.value.expr
        m.require(value, wanted, out.name, a.line)


def _outputs(nest: Nest) -> Iterator[tuple[Pass | None, Output]]:
    for o in nest.outputs:
        yield None, o
    for p in nest.passes:
        for o in p.stores:
            yield p, o

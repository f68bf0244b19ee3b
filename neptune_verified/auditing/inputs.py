"""Not trusted: sets of inputs, and those that a user has in files, checked against the definition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neptune_verified.auditing.assumptions import place, size_violations, tensor_violations
from neptune_verified.auditing.files import Raw, is_value, raw_samples
from neptune_verified.ir.expr import FLOATS, Size
from neptune_verified.ir.interpret import Evaluator
from neptune_verified.ir.printing import Printer
from neptune_verified.ir.program import Program, Tensor

if TYPE_CHECKING:
    from torch import Tensor as TorchTensor

    from neptune_verified.auditing.recording import Recording


@dataclass(frozen=True)
class Inputs:
    """One set of inputs. ``origin``: "generated", "file" or "searched"; ``family`` of generated ones, or the file's name.
    ``tensors`` by the names of the program's inputs, of the declared types; ``scalars`` by name. ``notes``: what was
    changed ("q: float32 to float16"), and what the definition does not assume. ``outside``: there is such."""

    name: str
    origin: str
    family: str
    tensors: dict[str, TorchTensor]
    scalars: dict[str, float | int]
    notes: tuple[str, ...] = ()
    outside: bool = False

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(x.shape) for name, x in self.tensors.items()}


def from_file(
    program: Program,
    path: str | Path,
    device: str = "cpu",
    scalars: Mapping[str, float | int] | None = None,
) -> Iterator[Inputs]:
    """The inputs in a file: .pt (a dict by name, a list in the order of the inputs, a list of such, a recording), .npz,
    .npy and, for one input, a single tensor, .safetensors.

    Where every tensor has one dimension more than the definition says, the first is a batch, and each of its indices a
    sample. Scalars that no shape gives come from ``scalars``, or from 0-d entries of the file.

    Raises ValueError, in one line, for whatever does not fit the definition."""
    path = Path(path)
    samples = raw_samples(path, single=len(program.inputs) == 1)
    return _each(program, samples, str(path), path.name, device, scalars or {})


def from_samples(
    program: Program,
    given: Recording | Mapping[str, Any] | Sequence[Any],
    device: str = "cpu",
    scalars: Mapping[str, float | int] | None = None,
) -> Iterator[Inputs]:
    """What ``from_file`` takes, in memory: a recording, tensors by name or in the order of the inputs, or a list of such,
    in which files are named by their paths. Raises ValueError for whatever does not fit the definition."""
    from neptune_verified.auditing.recording import Recording

    if isinstance(given, Recording):
        if not given.samples:
            raise ValueError(f"nothing was recorded in {given.calls} calls: run the model inside `with nv.record()`")
        samples = list(zip(given.samples, given.notes, strict=True))
        return _each(program, samples, "recording", "recorded", device, scalars or {})
    if isinstance(given, Mapping) or all(is_value(x) for x in given):
        one = dict(given) if isinstance(given, Mapping) else list(given)
        return _each(program, [(one, ())], "inputs", "given", device, scalars or {})
    return _listed(program, given, device, scalars or {})


def _listed(
    program: Program, given: Sequence[Any], device: str, scalars: Mapping[str, float | int]
) -> Iterator[Inputs]:
    for k, x in enumerate(given):
        if isinstance(x, str | Path):
            yield from from_file(program, x, device, scalars)
        elif isinstance(x, Mapping | list | tuple):
            one = dict(x) if isinstance(x, Mapping) else list(x)
            yield from _each(program, [(one, ())], f"inputs[{k}]", "given", device, scalars)
        else:
            raise ValueError(f"inputs[{k}] is {type(x).__name__}: give tensors by name, a list of tensors, or a file")


def _each(
    program: Program,
    samples: Sequence[tuple[Raw, tuple[str, ...]]],
    where: str,
    family: str,
    device: str,
    scalars: Mapping[str, float | int],
) -> Iterator[Inputs]:
    """Each sample, and each element of a batch. ``where`` names their source in messages."""
    shaped = program.shape_sizes()
    free = [s.name for s in program.sizes if s.name not in shaped]
    for name in scalars:
        if name not in free:
            raise ValueError(
                f"{name!r} is no scalar of {program.name}: leave it out; those are {', '.join(free) or 'none'}"
            )

    def each() -> Iterator[Inputs]:
        short = Path(where).name
        for k, (raw, notes) in enumerate(samples):
            reader = _Reader(program, f"{where}[{k}]" if len(samples) > 1 else where, scalars, [*notes])
            tensors, values = reader.read(raw)
            size = reader.batch(tensors)
            for b in (None,) if size is None else range(size):
                at = ", ".join(str(x) for x in ([k] if len(samples) > 1 else []) + ([] if b is None else [b]))
                chosen = tensors if b is None else {name: x[b] for name, x in tensors.items()}
                yield reader.inputs(f"{short}[{at}]" if at else short, family, chosen, values, device)

    return each()


@dataclass
class _Reader:
    """One sample of a file. ``file`` names it in messages."""

    program: Program
    file: str
    given: Mapping[str, float | int]
    notes: list[str] = field(default_factory=list)

    def read(self, raw: Raw) -> tuple[dict[str, TorchTensor], dict[str, float | int]]:
        """The tensors in the declared types, and the scalars."""
        import torch

        by_name = raw if isinstance(raw, dict) else self.in_order(raw)
        sizes = {s.name: s for s in self.scalar_sizes()}
        known = [t.name for t in self.program.inputs]
        for name in by_name:
            if name not in known and name not in sizes:
                raise ValueError(
                    f"{self.file}: {name!r} is no input of {self.program.name}: "
                    f"rename or remove it; the inputs are {', '.join([*known, *sizes])}"
                )
        tensors = {}
        for t in self.program.inputs:
            if t.name not in by_name:
                there = ", ".join(by_name) or "nothing"
                raise ValueError(f"{self.file}: {t.name} is missing: add it under this name; the file has {there}")
            tensors[t.name] = self.converted(t, torch.as_tensor(by_name[t.name]))
        return tensors, {name: self.scalar(s, by_name) for name, s in sizes.items()}

    def scalar_sizes(self) -> list[Size]:
        shapes = self.program.shape_sizes()
        return [s for s in self.program.sizes if s.name not in shapes]

    def in_order(self, raw: Sequence[Any]) -> dict[str, Any]:
        names = [*(t.name for t in self.program.inputs), *(s.name for s in self.scalar_sizes())]
        least = len(self.program.inputs)
        if not least <= len(raw) <= len(names):
            raise ValueError(
                f"{self.file}: {len(raw)} tensors, wanted {least} in the order {', '.join(names)}: "
                "save them in this order, or by name in a dict"
            )
        return dict(zip(names, raw, strict=False))

    def scalar(self, s: Size, by_name: Mapping[str, Any]) -> float | int:
        import torch

        if s.name in self.given:
            value, where = self.given[s.name], f"{s.name} = {self.given[s.name]!r}, given apart"
        elif s.name in by_name:
            x = torch.as_tensor(by_name[s.name])
            if x.numel() != 1 or x.dim() > 1:
                shape = list(x.shape)
                raise ValueError(f"{self.file}: {s.name} has shape {shape}, wanted a scalar: save it as a 0-d tensor")
            value = x.item()
            where = f"{s.name} = {value!r}"
        else:
            raise ValueError(
                f"{self.file}: the scalar {s.name} is missing, and no shape gives it: "
                f"add a 0-d entry of this name, or give it as {s.name}=VALUE"
            )
        if s.dtype not in FLOATS and value != int(value):
            raise ValueError(f"{self.file}: {where} is no {s.dtype}: give a whole number")
        return float(value) if s.dtype in FLOATS else int(value)

    def converted(self, t: Tensor, x: TorchTensor) -> TorchTensor:
        """x in the declared type."""
        import torch

        have, dtype = str(x.dtype).removeprefix("torch."), getattr(torch, t.dtype)
        if x.layout != torch.strided or x.is_quantized:
            raise ValueError(f"{self.file}: {t.name} is sparse or quantized: save its dense values, as x.to_dense()")
        if x.is_floating_point() != (t.dtype in FLOATS) or x.is_complex():
            raise ValueError(f"{self.file}: {t.name} is {have}, wanted {t.dtype}: convert it before it is saved")
        if x.is_floating_point() and bool(x.isnan().any()):
            raise ValueError(
                f"{self.file}: {place(t.name, x.isnan())} is NaN, for which nothing is claimed: replace it by a number"
            )
        if x.dtype == dtype:
            return x
        y = x.to(dtype)
        lost = y.isinf() & ~x.isinf() if x.is_floating_point() else y.long() != x.long()
        if bool(lost.any()):
            at = lost.nonzero()[0].tolist()
            way_out = "scale it, or take a definition of a wider type" if t.dtype in FLOATS else "give values that fit"
            what = "inf" if t.dtype in FLOATS else "another number"
            raise ValueError(
                f"{self.file}: {place(t.name, lost)} is {x[tuple(at)].item():g}, which is {what} in {t.dtype}: {way_out}"
            )
        self.notes.append(f"{t.name}: {have} to {t.dtype}")
        return y

    def batch(self, tensors: Mapping[str, TorchTensor]) -> int | None:
        """The number of samples in a batch, None for a sample by itself."""
        more = {t.name: tensors[t.name].dim() - len(t.shape) for t in self.program.inputs}
        odd = next((t for t in self.program.inputs if more[t.name] not in (0, 1)), None)
        if odd is None and len(set(more.values())) > 1:
            odd = next(t for t in self.program.inputs if more[t.name])
        if odd is not None:
            shape = list(tensors[odd.name].shape)
            raise ValueError(
                f"{self.file}: {odd.name} has shape {shape}, wanted {self.wanted(odd)}: "
                "remove dimensions, or give every input one more in front, a batch"
            )
        if not tensors or not any(more.values()):
            return None
        first = self.program.inputs[0].name
        for name, x in tensors.items():
            if len(x) != len(tensors[first]):
                raise ValueError(
                    f"{self.file}: {name} has shape {list(x.shape)}, a batch of {len(x)}, and {first} one of "
                    f"{len(tensors[first])}: give all inputs the same"
                )
        if not len(tensors[first]):
            raise ValueError(f"{self.file}: a batch of 0: give at least one sample")
        return len(tensors[first])

    def wanted(self, t: Tensor) -> str:
        return f"[{', '.join(Printer()(d) for d in t.shape)}]"

    def sizes(self, tensors: Mapping[str, TorchTensor], scalars: Mapping[str, float | int]) -> dict[str, int | float]:
        """Every size by its name, from the shapes."""
        env: dict[str, int | float] = dict(scalars)
        source: dict[str, str] = {}
        for fixed in (False, True):  # lengths by themselves, then what is computed from them
            for t in self.program.inputs:
                shape = list(tensors[t.name].shape)
                for position, (have, d) in enumerate(zip(shape, t.shape, strict=True)):
                    if isinstance(d, Size) and not fixed:
                        source.setdefault(d.name, f"{t.name}.shape[{position}]")
                        want, why = int(env.setdefault(d.name, have)), f" with {d.name} = {env[d.name]:g}"
                        why += f" from {source[d.name]}"
                    elif fixed and not isinstance(d, Size):
                        want, why = Evaluator({}, env).integer(d), f" with dimension {position} = "
                        why += f"{Evaluator({}, env).integer(d)}"
                    else:
                        continue
                    if have != want:
                        raise ValueError(
                            f"{self.file}: {t.name} has shape {shape}, wanted {self.wanted(t)}{why}: "
                            "save it in that shape, or compile the definition for this one"
                        )
        return env

    def inputs(
        self,
        name: str,
        family: str,
        tensors: dict[str, TorchTensor],
        scalars: dict[str, float | int],
        device: str,
    ) -> Inputs:
        env = self.sizes(tensors, scalars)
        outside = [*size_violations(self.program, env), *tensor_violations(self.program, tensors)]
        notes = (*self.notes, *(f"outside the assumptions: {x}" for x in outside))
        moved = {k: x.to(device) for k, x in tensors.items()}
        return Inputs(name, "file", family, moved, scalars, notes, bool(outside))

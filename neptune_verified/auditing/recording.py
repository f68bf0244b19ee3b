"""Not trusted: records the tensors that a model computes with, in the format that ``from_file`` reads."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

from neptune_verified.auditing.files import RECORDING

if TYPE_CHECKING:
    from torch.nn import Module


@dataclass
class Recording:
    """``samples``: the tensors of each call that was kept, a list in the order of the arguments, or a dict by name where
    some were given by name; on the CPU, detached, in their own types. ``notes``: what else is known of each call.
    ``calls``: how many there were, kept or not."""

    limit: int | None = None
    every: int = 1
    samples: list[list[Any] | dict[str, Any]] = field(default_factory=list)
    notes: list[tuple[str, ...]] = field(default_factory=list)
    calls: int = 0

    def save(self, path: str | Path, names: Mapping[str, str | int] | None = None) -> Path:
        """Write a .pt file that ``from_file`` reads. ``names`` chooses and renames: input of the definition -> name or
        position in each sample. Raises ValueError where nothing was recorded, or a name is not there."""
        import torch

        path = Path(path)
        if path.suffix != ".pt":
            raise ValueError(f"{path}: a recording is saved as FILE.pt")
        if not self.samples:
            raise ValueError(
                f"{path}: nothing was recorded in {self.calls} calls: run the model inside `with nv.record()`"
            )
        samples = [s if names is None else {to: _chosen(s, name) for to, name in names.items()} for s in self.samples]
        torch.save({"format": RECORDING, "samples": samples, "notes": [list(n) for n in self.notes]}, path)
        return path

    def _wanted(self) -> bool:
        """Whether the next call is kept; counts it."""
        self.calls += 1
        return (self.calls - 1) % self.every == 0 and (self.limit is None or len(self.samples) < self.limit)

    def _keep(self, sample: list[Any] | dict[str, Any], notes: tuple[str, ...]) -> None:
        self.samples.append(sample)
        self.notes.append(notes)


def _chosen(sample: list[Any] | dict[str, Any], name: str | int) -> Any:
    try:
        return sample[name]  # type: ignore[index]
    except (KeyError, IndexError, TypeError):
        there = list(sample) if isinstance(sample, dict) else f"positions 0 to {len(sample) - 1}"
        raise ValueError(f"no {name!r} was recorded: choose among {there}") from None


@contextmanager
def record(module: Module | None = None, *, limit: int | None = None, every: int = 1) -> Iterator[Recording]:
    """Record the inputs of computations inside the block.

    ``module``: the tensors that each of its calls is given; those by position become a list, and where some are given by
    name, all become a dict by the names of ``forward``. Without a module: query, key and value of each call of
    ``torch.nn.functional.scaled_dot_product_attention`` in this thread, however it was imported, with its scale,
    is_causal, masks and the like as notes. ``limit``: the number of calls kept; ``every``: one in so many.

    Results stay as they are. ``nn.MultiheadAttention`` and ``nn.TransformerEncoder`` have a fast path for inference that
    calls no such function; it is off inside the block, so that their results there may differ by rounding, and at
    padded positions. Not seen: ``nn.MultiheadAttention`` with ``need_weights=True`` (its default: it multiplies by
    itself), what ``torch.jit`` scripted or traced, other threads, FlexAttention, and kernels of other packages; record
    the module that calls them instead.

    >>> with nv.record(limit=8) as recording:    # doctest: +SKIP
    ...     model(batch)
    >>> recording.save("attention.pt")           # doctest: +SKIP
    """
    if every < 1 or (limit is not None and limit < 1):
        raise ValueError(f"limit and every are at least 1, got limit={limit}, every={every}")
    recording = Recording(limit, every)
    with ExitStack() as stack:
        if module is not None:
            stack.callback(_hook(module, recording).remove)
        else:
            _slow_path(stack)
            stack.enter_context(_attention_mode(recording))
        yield recording


def _copy(x: Any) -> Any:
    """On the CPU, by itself: what happens to x later changes nothing."""
    import torch

    with torch.inference_mode(False), torch.no_grad():
        return x.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)


# ----------------------------------------------------------------------------------------------------- of a module


def _hook(module: Module, recording: Recording) -> Any:
    import torch

    def before(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not recording._wanted():
            return
        named = {k: _copy(x) for k, x in kwargs.items() if isinstance(x, torch.Tensor)}
        if named:
            positions = _parameters(module, len(args))
            given = {k: _copy(x) for k, x in zip(positions, args, strict=True) if isinstance(x, torch.Tensor)}
            recording._keep({**given, **named}, ())
        else:
            recording._keep([_copy(x) for x in args if isinstance(x, torch.Tensor)], ())

    return module.register_forward_pre_hook(before, with_kwargs=True)


def _parameters(module: Module, count: int) -> list[str]:
    """The names of the first ``count`` arguments of ``forward``; "argument 2" and so on where it has no names for them."""
    try:
        declared = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):
        declared = {}.values()
    names = [p.name for p in declared if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [names[k] if k < len(names) else f"argument {k}" for k in range(count)]


# ------------------------------------------------------------------------------------------------- of attention


def _slow_path(stack: ExitStack) -> None:
    import torch

    stack.callback(torch.backends.mha.set_fastpath_enabled, torch.backends.mha.get_fastpath_enabled())
    torch.backends.mha.set_fastpath_enabled(False)


#: Arguments after query, key and value, in their order, and what they are when nothing is said.
_MORE = {"attn_mask": None, "dropout_p": 0.0, "is_causal": False}
_KEYWORDS = {"scale": None, "enable_gqa": False}


def _attention_mode(recording: Recording) -> Any:
    import torch
    from torch.nn import functional
    from torch.overrides import TorchFunctionMode

    whole = functional.multi_head_attention_forward
    # A function that asks whether there is a mode is handed to the mode as a whole, and runs without it. This one is the
    # same code, and does not ask.
    unasked = FunctionType(whole.__code__, {**whole.__globals__, "has_torch_function": lambda _: False})
    unasked.__defaults__, unasked.__kwdefaults__ = whole.__defaults__, whole.__kwdefaults__

    class Mode(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func is whole and not set(types) - {torch.Tensor, torch.nn.Parameter}:
                with self:
                    return unasked(*args, **kwargs)
            if func is functional.scaled_dot_product_attention and recording._wanted():
                given = dict(zip(("query", "key", "value", *_MORE), args, strict=False)) | kwargs
                recording._keep([_copy(given[n]) for n in ("query", "key", "value")], _notes(given))
            return func(*args, **kwargs)

    return Mode()


def _notes(given: Mapping[str, Any]) -> tuple[str, ...]:
    """One note on what the call was given beside the three tensors."""
    said = []
    for name, default in {**_MORE, **_KEYWORDS}.items():
        x = given.get(name, default)
        if hasattr(x, "shape"):
            said.append(f"{name} {list(x.shape)}")
        elif x != default:
            said.append(f"{name}={x}")
    return (f"recorded with {', '.join(said)}",) if said else ()

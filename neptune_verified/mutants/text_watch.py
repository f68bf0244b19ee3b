"""Not trusted: tensors inside larger buffers, and a watch on every address that a kernel touches in Triton's interpreter.

Around each tensor, and between its rows, lie elements of no tensor: reading one is a fault, whatever becomes of the value,
and so is writing one, writing an element twice, or reading a result that was not written. A fault is raised before memory
is touched, so that no edit can harm the process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[Any]
GUARD = 3


class Fault(Exception):
    """An access that no right kernel makes."""


def guarded(shape: tuple[int, ...], dtype: torch.dtype, layout: str, number: int) -> torch.Tensor:
    """A tensor inside a buffer of NaN (integers: a large number); tensors of other ``number`` have other strides.

    ``layout``: "plain" (contiguous), "wide" (gaps between rows), "turned" (columns first, every other element)."""
    if layout == "plain":
        size = int(np.prod(shape, dtype=np.int64))
        return filled((size + 2 * GUARD,), dtype)[GUARD : GUARD + size].view(shape)
    gap = GUARD + number
    if layout == "wide":
        return filled(tuple(n + 2 * gap for n in shape), dtype)[tuple(slice(gap, gap + n) for n in shape)]
    outer = filled(tuple(2 * n + 2 * gap for n in reversed(shape)), dtype)
    inner = outer[tuple(slice(gap, gap + 2 * n, 2) for n in reversed(shape))]
    return inner.permute(tuple(reversed(range(len(shape)))))


def filled(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.ones(shape, dtype=dtype)
    return torch.full(shape, float("nan") if dtype.is_floating_point else 1_000_003, dtype=dtype)


def addresses(x: torch.Tensor) -> Array:
    """The address of every element, ascending."""
    offsets = np.zeros((1,) * x.dim() if x.dim() else (1,), np.int64)
    for d, (n, stride) in enumerate(zip(x.shape, x.stride())):
        offsets = offsets + (np.arange(n) * stride).reshape([-1 if k == d else 1 for k in range(x.dim())])
    return np.unique((x.data_ptr() + offsets * x.element_size()).astype(np.uint64))


class Watch:
    """What a call may read and write, and what it did."""

    def __init__(self) -> None:
        self.readable = np.empty(0, np.uint64)
        self.between = np.empty(0, np.uint64)
        self.results = 0
        self.writable = np.empty(0, np.uint64)
        self.writes = np.empty(0, np.int64)
        self.active = False
        self.kept: list[torch.Tensor] = []

    def start(self, inputs: list[torch.Tensor], outputs: list[torch.Tensor], results: int) -> None:
        """``results``: how many results there are; tensors that are made beyond them lie between two kernels."""
        self.results, self.between = results, np.empty(0, np.uint64)
        self.readable = np.unique(np.concatenate([addresses(x) for x in inputs] or [np.empty(0, np.uint64)]))
        self.writable, self.writes, self.kept = np.empty(0, np.uint64), np.empty(0, np.int64), []
        for x in outputs:
            self.allow(x)
        self.active = True

    def allow(self, x: torch.Tensor) -> None:
        """A tensor that the call may write: a result, or one between two kernels, which is read as well."""
        self.kept.append(x)
        own = addresses(x)
        if len(self.kept) > self.results:
            self.between = np.unique(np.concatenate([self.between, own]))
        before, writes = self.writable, self.writes
        self.writable = np.unique(np.concatenate([before, own]))
        self.writes = np.zeros(len(self.writable), np.int64)
        self.writes[np.searchsorted(self.writable, before)] = writes

    def stop(self) -> None:
        """Raises Fault if some element was not written."""
        self.active = False
        if not self.writes.all():
            raise Fault(f"{np.sum(self.writes == 0)} of {len(self.writes)} result elements are not written")

    def read(self, touched: Array) -> None:
        touched = touched[~found(self.readable, touched)]
        between = touched[found(self.between, touched)]
        if between.size and not self.writes[np.searchsorted(self.writable, between)].all():
            raise Fault("an element between two kernels is read before it is written")
        touched = touched[~found(self.between, touched)]
        if touched.size:
            raise Fault(f"{touched.size} elements are read that belong to no input")

    def write(self, touched: Array) -> None:
        at = np.searchsorted(self.writable, touched)
        if not found(self.writable, touched).all():
            raise Fault("an element is written that belongs to no result")
        np.add.at(self.writes, at, 1)
        if (self.writes > 1).any():
            raise Fault("an element is written twice")


def found(known: Array, touched: Array) -> Array:
    if not known.size:
        return np.zeros(touched.shape, bool)
    at = np.minimum(np.searchsorted(known, touched), known.size - 1)
    return np.asarray(known[at] == touched)


def install(watch: Watch) -> None:
    """From now on in this process, the interpreter asks ``watch``. Lanes that are not read, and that no value is given
    for, hold NaN."""
    from triton.runtime import interpreter

    builder: Any = interpreter.interpreter_builder
    load: Callable[..., Any] = builder.create_masked_load
    store: Callable[..., Any] = builder.create_masked_store

    def masked_load(ptrs: Any, mask: Any, other: Any, *options: Any) -> Any:
        if watch.active:
            watch.read(np.asarray(ptrs.data)[np.broadcast_to(mask.data, ptrs.data.shape).astype(bool)])
        result = load(ptrs, mask, other, *options)
        if other is None:
            unread = ~np.broadcast_to(mask.data, result.data.shape).astype(bool)
            if unread.any():
                result.data = result.data.copy()
                result.data[unread] = np.nan if result.data.dtype.kind == "f" else 77
        return result

    def masked_store(ptrs: Any, value: Any, mask: Any, *options: Any) -> Any:
        if watch.active:
            watch.write(np.asarray(ptrs.data)[np.broadcast_to(mask.data, ptrs.data.shape).astype(bool)])
        return store(ptrs, value, mask, *options)

    builder.create_masked_load, builder.create_masked_store = masked_load, masked_store

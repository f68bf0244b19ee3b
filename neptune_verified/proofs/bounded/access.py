"""Trusted: loads and stores: every active lane is inside its tensor, outputs are stored once, temporaries before use."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from neptune_verified.ir.expr import FLOATS
from neptune_verified.proofs.bounded import scalars
from neptune_verified.proofs.bounded.domain import Domain
from neptune_verified.proofs.bounded.field import Array
from neptune_verified.proofs.bounded.memory import Memory
from neptune_verified.proofs.bounded.result import Fault, Unsupported
from neptune_verified.proofs.bounded.scalars import Item, NeedsValues
from neptune_verified.proofs.bounded.values import Bit, Ghost, Int, Lit, Ptr, Val, zero


class Access:
    """The memory of one launch. ``values``: float values are followed (otherwise their shapes alone). ``scramble``:
    masked-out lanes of loads hold numbers of their own, instead of what ``other`` says. ``ahead``: only addresses are asked
    for, before the kernels that run earlier have run."""

    def __init__(
        self, domain: Domain, tensors: Mapping[str, Memory], values: bool, scramble: bool = False, ahead: bool = False
    ) -> None:
        self.domain, self.tensors, self.values, self.scramble, self.ahead = domain, tensors, values, scramble, ahead
        #: Elements of tensors between kernels that were read.
        self.reads: list[tuple[str, tuple[Array, ...]]] = []
        self.line = 0
        self.lines: dict[str, int] = {}
        self.stores: list[tuple[str, tuple[Array, ...], Val | Int | Bit | None]] = []
        self.poison = False

    def load(self, p: Item, mask: Item | None, other: Item | None) -> Item:
        tensor, indices, active, shape = self._lanes(p, mask, "load")
        if not tensor.complete and not self.ahead:
            raise Fault("O11", f"{tensor.name} is read before it is written")
        if not tensor.is_input:
            chosen = np.ones(shape, dtype=bool) if active is None else np.broadcast_to(active, shape)
            self.reads.append((tensor.name, tuple(np.broadcast_to(i, shape)[chosen] for i in indices)))
        masked = active is not None and not bool(active.all())
        if tensor.dtype in FLOATS and not self.values:
            return Ghost(shape, tensor.dtype)
        value = tensor.gather(indices).each(lambda a: np.broadcast_to(a, shape))
        if not masked:
            return value
        assert active is not None
        keep = Bit(active)
        if other is None:
            if not isinstance(value, Val):
                raise Unsupported(f"a masked load of {tensor.name} (no float) without other=")
            self.poison = True
            hole = zero((), value.dtype)
            hole.f = np.asarray(np.nan)
            return self.domain.where(keep, value, hole)
        if isinstance(value, Val):
            if self.scramble:
                other = Lit(Fraction(17, 16))
            return self.domain.where(keep, value, scalars.to_float(self.domain, other, tensor.dtype))
        if not isinstance(other, Int):
            raise Unsupported("other= of another kind than the tensor")
        if isinstance(value, Int):
            return Int(np.where(active, value.a, other.a), value.width)
        return Bit(np.where(active, value.a, other.a != 0))

    def store(self, p: Item, value: Item, mask: Item | None) -> None:
        tensor, indices, active, shape = self._lanes(p, mask, "store")
        if tensor.is_input:
            raise Fault("O11", f"the input {tensor.name} is written")
        shape = np.broadcast_shapes(shape, scalars.shape_of(value))
        chosen = np.ones(shape, dtype=bool) if active is None else np.broadcast_to(active, shape)
        where = tuple(np.broadcast_to(i, shape)[chosen] for i in indices)
        self.lines[tensor.name] = self.line
        self.stores.append((tensor.name, where, self._stored(tensor, value, shape, chosen)))

    def _stored(self, tensor: Memory, value: Item, shape: tuple[int, ...], chosen: Array) -> Val | Int | Bit | None:
        if isinstance(value, Ghost):
            return None
        if tensor.dtype in FLOATS:
            if not self.values:
                return None
            value = scalars.to_float(self.domain, value, tensor.dtype)
        elif isinstance(value, Int) and tensor.dtype == "bool":
            value = Bit(value.a != 0)
        if not isinstance(value, Val | Int | Bit) or (isinstance(value, Val) and tensor.dtype not in FLOATS):
            raise Unsupported(f"a store to {tensor.name} of another kind of value")
        flat = value.each(lambda a: np.broadcast_to(a, shape)[chosen])
        if isinstance(flat, Int) and flat.a.size:
            info = np.iinfo(tensor.dtype)
            if flat.terms or flat.a.max() > info.max or flat.a.min() < info.min:
                raise Fault("O12", f"a number that is stored does not fit {tensor.name}")
        return flat

    def _lanes(
        self, p: Item, mask: Item | None, what: str
    ) -> tuple[Memory, list[Array], Array | None, tuple[int, ...]]:
        """The tensor, an index array per dimension (not yet broadcast), the active lanes, and the shape."""
        if not isinstance(p, Ptr):
            raise Unsupported(f"{what} from something that is no pointer")
        tensor = self.tensors[p.tensor]
        shape, active = p.shape, None
        if mask is not None:
            if isinstance(mask, Ghost):
                raise NeedsValues
            if isinstance(mask, Int) and not mask.terms:
                mask = Bit(mask.a != 0)
            if not isinstance(mask, Bit):
                raise Unsupported("a mask that is no truth value")
            if mask.bad is not None and mask.bad.any():
                raise Fault("O9", f"the mask of the {what} of {tensor.name} is undefined in some lane")
            shape = scalars.joint(p, mask)
            active = mask.a
        indices = self._indices(tensor, p.offset, active, what)
        for k, (i, n) in enumerate(zip(indices, tensor.shape, strict=True)):
            outside = (i < 0) | (i >= n)
            if outside.any():
                hit = outside if active is None else outside & active
                if hit.any():
                    at = int(np.broadcast_to(i, hit.shape)[hit][0])
                    raise Fault(
                        "O11", f"{what} of {tensor.name} at index {at} of dimension {k}, which has {n} elements"
                    )
        return tensor, indices, active, shape

    @staticmethod
    def _indices(tensor: Memory, offset: Int, active: Array | None, what: str) -> list[Array]:
        terms = offset.terms or {}
        off = (offset.a != 0) if active is None else (offset.a != 0) & active
        if off.any():
            raise Fault("O11", f"{what} of {tensor.name}: an offset that is no multiple of its strides")
        for name, k in terms:
            if name != tensor.name and np.any(terms[name, k]):
                raise Fault("O11", f"{what} of {tensor.name} with a stride of {name} (dimension {k})")
        none = np.zeros((), dtype=np.int64)
        return [terms.get((tensor.name, k), none) for k in range(len(tensor.shape))]

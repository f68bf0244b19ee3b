"""Trusted: the functions of triton.language that a kernel may call, and the helper functions by their meaning."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from neptune_verified.proofs.bounded import integers, scalars
from neptune_verified.proofs.bounded.access import Access
from neptune_verified.proofs.bounded.domain import Domain
from neptune_verified.proofs.bounded.field import Array
from neptune_verified.proofs.bounded.memory import WIDTHS
from neptune_verified.proofs.bounded.result import Fault, Unsupported
from neptune_verified.proofs.bounded.scalars import Item, NeedsValues
from neptune_verified.proofs.bounded.values import Bit, Ghost, Int, Lit, Ptr, Val

#: Names of tl types as they are written -> ours.
TYPES = {
    "float16": "float16", "bfloat16": "bfloat16", "float32": "float32", "float64": "float64", "int8": "int8",
    "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8", "int1": "bool",
}  # fmt: skip
#: Elements of the largest tile that is evaluated (Triton's own limit is 2^20).
_LARGEST = 1 << 20
_MATHS = ("exp", "exp2", "log", "log2", "sqrt", "abs")


class Calls:
    """``pid`` is the program's number; ``helpers`` names of the file's functions -> their meaning."""

    def __init__(self, domain: Domain, access: Access, pid: int, helpers: dict[str, str]) -> None:
        self.domain, self.access, self.pid, self.helpers = domain, access, pid, helpers
        own: dict[str, Callable[..., Item | None]] = {
            "program_id": self.program_id, "arange": self.arange, "load": self.load, "store": self.store,
            "full": self.full, "zeros": self.zeros, "where": self.where, "dot": self.dot, "trans": self.trans,
            "permute": self.permute, "broadcast_to": self.broadcast_to, "cast": self.cast, "reduce": self.reduce,
            "cdiv": self.cdiv,
        }  # fmt: skip
        for name, meaning in (("maximum", "max"), ("minimum", "min")):
            own[name] = self._pairwise(meaning)
        for name in ("sum", "max", "min"):
            own[name] = self._folding(name)
        for name in (*_MATHS, "rsqrt", "erf", "sin", "cos", "floor", "ceil"):
            own[name] = self._elementwise(name)
        self.table = own

    # -- indices and shapes ------------------------------------------------------------------------------------

    def program_id(self, axis: Any) -> Item:
        if int(_number(axis)) != 0:
            raise Unsupported("a grid of more than one dimension")
        return Int(np.asarray(self.pid, dtype=np.int64), 32)

    def arange(self, start: Any, end: Any) -> Item:
        lo, hi = int(_number(start)), int(_number(end))
        if hi > _LARGEST:
            raise Unsupported(f"a tile of {hi} lanes")
        if lo != 0 or hi < 1 or hi & (hi - 1):
            raise Fault("O13", f"tl.arange({lo}, {hi}): Triton wants a power of two")
        return Int(np.arange(hi, dtype=np.int64), 32)

    def cdiv(self, a: Any, b: Any) -> Item:
        if not isinstance(a, Int) or not isinstance(b, Int) or a.terms or b.terms:
            raise Unsupported("tl.cdiv of what is no integer")
        if np.any(b.a <= 0) or np.any(a.a < 0):
            raise Fault("O12", "tl.cdiv of a negative number")
        return scalars.sized((a.a + b.a - 1) // b.a, max(a.width, b.width), "tl.cdiv")

    def full(self, shape: Any, value: Any, dtype: Any) -> Item:
        return _spread(self.cast(value, dtype), _shape(shape))

    def zeros(self, shape: Any, dtype: Any) -> Item:
        return self.full(shape, Int(np.zeros((), dtype=np.int64)), dtype)

    def broadcast_to(self, x: Any, shape: Any) -> Item:
        return _spread(x, _shape(shape))

    def trans(self, x: Any) -> Item:
        if len(x.shape) != 2:
            raise Unsupported("tl.trans of what is no matrix")
        return self.permute(x, (Int(np.asarray(1)), Int(np.asarray(0))))

    def permute(self, x: Any, order: Any) -> Item:
        axes = [int(_number(k)) for k in order]
        if sorted(axes) != list(range(len(x.shape))):
            raise Fault("O13", f"tl.permute of {len(x.shape)} dimensions by {axes}")
        return x.each(lambda a: a.transpose(axes))  # type: ignore[no-any-return]

    # -- memory ------------------------------------------------------------------------------------------------

    def load(self, p: Any, mask: Any = None, other: Any = None) -> Item:
        return self.access.load(p, mask, other)

    def store(self, p: Any, value: Any, mask: Any = None) -> None:
        self.access.store(p, value, mask)

    # -- values ------------------------------------------------------------------------------------------------

    def where(self, c: Any, a: Any, b: Any) -> Item:
        return scalars.select(self.domain, c, a, b)

    def cast(self, x: Any, dtype: Any) -> Item:
        if not isinstance(dtype, str):
            raise Unsupported("a cast to something that is no type")
        if dtype == "bool":
            return scalars.binary(self.domain, "ne", x, Int(np.zeros((), dtype=np.int64)))
        if dtype in WIDTHS:
            return self._to_integer(x, dtype)
        if isinstance(x, Ghost):
            return Ghost(x.shape, dtype)
        return scalars.to_float(self.domain, x, dtype)

    def _to_integer(self, x: Any, dtype: str) -> Item:
        if isinstance(x, Ghost):
            if x.dtype == "bool":
                return Ghost(x.shape, "bool")
            raise NeedsValues
        if isinstance(x, Int):
            if x.terms:
                raise Unsupported("a cast of a stride")
            return self._wrapped(x.a, dtype)
        if isinstance(x, Bit):
            if x.bad is not None and x.bad.any():
                raise Fault("O9", "an undefined truth value becomes an integer")
            return Int(x.a.astype(np.int64), WIDTHS[dtype])
        if isinstance(x, Val):
            finite = np.isfinite(x.f)
            return self._wrapped(np.trunc(np.where(finite, x.f, 0)).astype(np.int64), dtype)
        raise Unsupported(f"a cast of this to {dtype}")

    @staticmethod
    def _wrapped(a: Array, dtype: str) -> Int:
        info = np.iinfo(dtype)
        if a.size and (a.max() > info.max or a.min() < info.min):
            raise Fault("O12", f"a number does not fit {dtype}")
        return Int(a, WIDTHS[dtype])

    def _pairwise(self, name: str) -> Callable[..., Item]:
        return lambda a, b: scalars.binary(self.domain, name, a, b)

    def _elementwise(self, name: str) -> Callable[..., Item]:
        def call(x: Any) -> Item:
            if isinstance(x, Ghost):
                return x
            if name == "abs" and isinstance(x, Int):
                return scalars.sized(np.abs(x.a), x.width, "tl.abs")
            v = scalars.to_float(self.domain, x, scalars.common(x, x))
            d = self.domain
            if name in _MATHS:
                return getattr(d, name)(v)  # type: ignore[no-any-return]
            if name == "rsqrt":
                return d.cast(d.reciprocal(d.sqrt(v.typed("float64"))), v.dtype)
            return d.whole(name, v) if name in ("floor", "ceil") else d.opaque_function(name, v)

        return call

    def dot(self, a: Any, b: Any, acc: Any = None, input_precision: Any = "ieee", out_dtype: Any = "float32") -> Item:
        if input_precision != "ieee":
            raise Fault("O16", f"tl.dot with input_precision={input_precision!r}")
        if not all(isinstance(x, Val | Ghost) and len(x.shape) == 2 for x in (a, b)):
            raise Unsupported("tl.dot of what are no float matrices")
        (m, k), (k2, n) = a.shape, b.shape
        if k != k2 or a.dtype != b.dtype or (acc is not None and tuple(acc.shape) != (m, n)):
            raise Fault("O13", f"tl.dot of {a.dtype}{[m, k]} and {b.dtype}{[k2, n]}")
        if min(m, k, n) < 16:
            raise Fault("O13", f"tl.dot of {[m, k]} and {[k, n]}: Triton wants at least 16")
        if any(isinstance(x, Ghost) for x in (a, b, acc)):
            return Ghost((m, n), out_dtype)
        product = self.domain.dot(a, b).typed(out_dtype)
        product.fits = ""
        return product if acc is None else scalars.binary(self.domain, "add", acc, product)

    def _folding(self, name: str) -> Callable[..., Item]:
        return lambda x, axis: self._fold(name, x, int(_number(axis)))

    def reduce(self, x: Any, axis: Any, helper: Any) -> Item:
        meaning = {"_mul": "prod", "_logaddexp": "logaddexp"}.get(self.helpers.get(helper, ""))
        if meaning is None:
            raise Unsupported(f"tl.reduce with {helper}")
        return self._fold(meaning, x, int(_number(axis)))

    def _fold(self, name: str, x: Any, axis: int) -> Item:
        if not 0 <= axis < len(x.shape):
            raise Fault("O13", f"a reduction over dimension {axis} of {len(x.shape)}")
        if isinstance(x, Ghost):
            return Ghost((*x.shape[:axis], *x.shape[axis + 1 :]), x.dtype)
        d = self.domain
        if isinstance(x, Val):
            if x.dtype == "bfloat16":  # Triton's reductions widen it
                x = x.typed("float32")
            if name in ("max", "min"):
                return d.arg(name, x, axis)
            if name == "sum":
                return d.sum(x, axis)
            neutral = Fraction(1) if name == "prod" else -math.inf
            return d.fold(d.mul if name == "prod" else d.logaddexp, x, axis, neutral)
        if isinstance(x, Int) and not x.terms:
            least = {"max": np.iinfo(np.int64).min, "min": np.iinfo(np.int64).max}.get(name, 0)
            width = max(x.width, 32)
            return scalars.sized(integers.FOLDS[name](x.a, axis, int(least)), width, f"tl.{name}")
        raise Unsupported(f"tl.{name} of truth values")

    # -- helper functions --------------------------------------------------------------------------------------

    def helper(self, meaning: str, args: list[Item]) -> Item:
        d = self.domain
        if any(isinstance(a, Ghost) for a in args):
            return Ghost(scalars.joint(*args), scalars.common(args[0], args[-1]))
        if meaning in ("_floordiv", "_floormod"):
            a, b = args
            if not isinstance(a, Int) or not isinstance(b, Int) or a.terms or b.terms:
                raise Unsupported(f"{meaning} of what are no integers")
            if np.any(b.a == 0):
                raise Fault("O12", "a division by zero")
            found = integers.exact(meaning[1:], [a.a, b.a])
            assert isinstance(found, Int)
            return scalars.sized(found.a, max(a.width, b.width), meaning)
        if meaning == "_mul":
            return scalars.binary(d, "mul", *args)
        dtype = scalars.common(args[0], args[-1])
        values = [scalars.to_float(d, a, dtype) for a in args]
        match meaning, len(values):
            case "_tanh", 1:
                return d.opaque_function("tanh", values[0])
            case "_sigmoid", 1:
                return d.sigmoid(values[0])
            case "_pow", 2:
                return d.pow(*values)
            case "_logaddexp", 2:
                return d.logaddexp(*values)
            case _:
                raise Unsupported(f"{meaning} of {len(values)} arguments")


def _number(x: Any) -> int:
    if isinstance(x, Int) and x.a.ndim == 0 and not x.terms and x.width == 0:
        return int(x.a)
    raise Unsupported("an argument that has to be a constant integer")


def _shape(x: Any) -> tuple[int, ...]:
    if not isinstance(x, tuple):
        raise Unsupported("a shape that is no list")
    shape = tuple(_number(n) for n in x)
    if math.prod(shape) > _LARGEST:
        raise Unsupported(f"a tile of shape {list(shape)}")
    return shape


def _spread(x: Item, shape: tuple[int, ...]) -> Item:
    if isinstance(x, Lit | Ptr) or len(scalars.shape_of(x)) > len(shape):
        raise Unsupported("a broadcast of this")
    own = x.shape
    if own and len(own) != len(shape):
        raise Fault("O13", f"a broadcast of {list(own)} to {list(shape)}")
    if any(a not in (1, b) for a, b in zip(own, shape)):
        raise Fault("O13", f"a broadcast of {list(own)} to {list(shape)}")
    return x.each(lambda a: np.broadcast_to(a, shape))

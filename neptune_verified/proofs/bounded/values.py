"""Trusted: arrays of values in normal form, and what is not a float: integers, truth values, literals.

A float value has three readings of the same expression over the random input elements: ``f``, a float64 at a random real
point; ``P``, its residue modulo p; ``Q``, its residue modulo q, by which it may stand in an exponent. NaN in ``f`` is
*undefined* (poison included) and +-inf are the infinities; the residues say nothing there. Orders, signs and floors are
decided by ``f``, equality by ``P``. Which element is the largest is thus decided at one point; the expression that is
compared then holds for all inputs with the same order.

Forms. *plain*: P and Q are known. *tainted* (an exp was met): P alone; as an exponent it is a fresh atom, a hash of P.
*logarithm* (a log was met): E = exp(value) modulo p is known, so that log and exp undo each other; P is a hash of E, or
the product of one and a number.

Roots. The residue of sqrt(v) is the root of v or of -v, whichever is a square, so that the root of a product or a quotient
is that of the roots; v < 0 has no root, by ``f``, so that v and -v are never both meant. An input element has a square as
its residue where it is not negative, and the negative of a square elsewhere: sqrt(x * x) is abs(x). Of a sum the residue
is no square at half of the points, and there sqrt(v) * sqrt(v) is not seen to be v (it reads -v, which ``f`` is not).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from neptune_verified.proofs.bounded.field import Array, U


@dataclass(slots=True)
class Val:
    """``dtype``: the type by which arithmetic is rounded. ``fits``: a 16-bit type that holds each element exactly."""

    f: Array
    P: Array
    Q: Array | None
    E: Array | None
    dtype: str
    fits: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.f.shape

    def view(self, index: object) -> Val:
        """numpy's ``[index]`` on every reading."""
        q = None if self.Q is None else self.Q[index]  # type: ignore[call-overload]
        e = None if self.E is None else self.E[index]  # type: ignore[call-overload]
        return Val(self.f[index], self.P[index], q, e, self.dtype, self.fits)  # type: ignore[call-overload]

    def each(self, fn: object) -> Val:
        """A rearrangement of the elements, done to every reading."""
        assert callable(fn)
        q = None if self.Q is None else fn(self.Q)
        e = None if self.E is None else fn(self.E)
        return Val(fn(self.f), fn(self.P), q, e, self.dtype, self.fits)

    def typed(self, dtype: str) -> Val:
        return Val(self.f, self.P, self.Q, self.E, dtype, self.fits)


@dataclass(slots=True)
class Int:
    """``width`` 32 or 64 (8, 16 as loaded), 0 for a literal. ``terms``: multiples of strides, (tensor, dim) -> factor."""

    a: Array
    width: int = 0
    terms: dict[tuple[str, int], Array] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        if not self.terms:
            return self.a.shape
        return np.broadcast_shapes(self.a.shape, *(t.shape for t in self.terms.values()))

    def each(self, fn: object) -> Int:
        assert callable(fn)
        return Int(fn(self.a), self.width, {k: fn(t) for k, t in self.terms.items()} if self.terms else None)


@dataclass(slots=True)
class Bit:
    """``bad``: where the condition is undefined."""

    a: Array
    bad: Array | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.a.shape

    def each(self, fn: object) -> Bit:
        assert callable(fn)
        return Bit(fn(self.a), None if self.bad is None else fn(self.bad))


@dataclass(slots=True)
class Lit:
    """A float literal, which takes the type of what it meets. +-inf and NaN are floats."""

    value: Fraction | float


@dataclass(slots=True)
class Ghost:
    """A float, or a truth value made of floats, of which only the shape is followed."""

    shape: tuple[int, ...]
    dtype: str = "float32"

    def each(self, fn: object) -> Ghost:
        assert callable(fn)
        return Ghost(fn(np.broadcast_to(np.zeros((), dtype=bool), self.shape)).shape, self.dtype)


@dataclass(slots=True)
class Ptr:
    tensor: str
    offset: Int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.offset.shape

    def each(self, fn: object) -> Ptr:
        return Ptr(self.tensor, self.offset.each(fn))


def zero(shape: tuple[int, ...], dtype: str) -> Val:
    none = np.zeros(shape, dtype=U)
    return Val(np.zeros(shape), none, none, None, dtype, dtype)


def rounded(value: float, dtype: str) -> Fraction | float:
    """A literal as its type holds it."""
    if not np.isfinite(value):
        return value
    if dtype == "float16":
        x = float(np.float16(value))
    elif dtype == "float32":
        x = float(np.float32(value))
    elif dtype == "bfloat16":
        bits = int(np.float32(value).view(np.uint32))
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        x = float(np.array(bits, dtype=np.uint32).view(np.float32))
    else:
        x = value
    return Fraction(x) if np.isfinite(x) else x

"""Trusted: the meaning of every operation on float values in normal form (``values.Val``), over the extended reals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from neptune_verified.proofs.bounded.field import Array, Field, U, digest, product
from neptune_verified.proofs.bounded.opaque import OPAQUE, WHOLE
from neptune_verified.proofs.bounded.result import OutOfRange
from neptune_verified.proofs.bounded.values import Bit, Lit, Val, rounded

#: Relative error up to which two float64 evaluations count as the same number; below ``_NOTHING`` may be a zero.
_CLOSE, _NOTHING = 1e-9, 1e-6
#: Numbers below may be nothing but rounding errors.
_TINY = 1e-12
#: Relative difference up to which the order of two numbers may be that of their rounding errors.
_TIED = 1e-13
#: exp of more is infinite in float32.
_EXP_MAX = 88.72283
_NARROW = ("float16", "bfloat16")


class Domain:
    """``opaque``: conversions to a 16-bit type are functions that are seen; otherwise the identity. ``lenient``: exp may
    leave the range of float64 (``left`` says that it did); otherwise Unknown is raised then. ``tied``: a ``lenient``
    domain met different expressions of which the float64 do not say which is the greatest (tanh 60 is tanh 61).

    ``algebraic``: a logarithm, and in an exponent an exponential too, is a function that is not looked into, so that sums,
    products and quotients of them are those of numbers; otherwise a multiple of a logarithm is the logarithm of a power,
    which exp undoes, and an exponent that holds an exponential is one fresh atom. What is equal in one of these readings
    is equal."""

    def __init__(self, field: Field, opaque: bool = False, lenient: bool = False, algebraic: bool = False) -> None:
        self.field, self.opaque, self.lenient, self.left, self.tied = field, opaque, lenient, False, False
        self.algebraic = algebraic
        self.p, self.q = field.p, field.q

    # -- making and reading ------------------------------------------------------------------------------------

    def constant(self, value: Fraction | float, dtype: str) -> Val:
        if isinstance(value, float):
            none = np.zeros((), dtype=U)
            return Val(np.asarray(value), none, none, None, dtype, dtype)
        p, q = (np.asarray(self.field.constant(value, m), dtype=U) for m in (self.p, self.q))
        return Val(np.asarray(float(value)), p, q, None, dtype, dtype)

    def literal(self, x: Lit, dtype: str) -> Val:
        return self.constant(rounded(float(x.value), dtype), dtype)

    def integers(self, a: Array, dtype: str) -> Val:
        p, q = (np.mod(a, int(m)).astype(U) for m in (self.p, self.q))
        return Val(a.astype(np.float64), p, q, None, dtype)

    def exponent(self, x: Val) -> Array:
        """The residue modulo q."""
        return self._hash(x.P, 7, self.q) if x.Q is None else x.Q

    def exponential(self, x: Val) -> Array:
        """exp(x) modulo p."""
        return self.field.exp(self.exponent(x)) if x.E is None else x.E

    def _hash(self, x: Array, salt: int, m: np.uint64) -> Array:
        """An atom for each number; 0 for 0."""
        return np.where(x == 0, x, self.field.reduce(digest(x, salt), m))

    def _logarithm(self, f: Array, e: Array, dtype: str) -> Val:
        if self.algebraic:
            p, q = self._hash(e - U(1), 11, self.p), self._hash(e - U(1), 13, self.q)
            return Val(f, p, q, None, dtype)
        return Val(f, self._hash(e - U(1), 11, self.p), None, e, dtype)  # log 1 = 0

    def _atom(self, f: Array, key: Array, salt: int, dtype: str) -> Val:
        """An opaque function of the value whose residue is ``key``."""
        p, q = self.field.reduce(digest(key, salt), self.p), self.field.reduce(digest(key, salt + 1), self.q)
        none = f == 0
        return Val(f, np.where(none, U(0), p), np.where(none, U(0), q), None, dtype)

    def alike(self, *values: Val) -> list[Val]:
        """The values in one form, so that an element of one may stand beside an element of another."""
        if any(v.E is not None for v in values):
            return [v if v.E is not None else self._logarithm(v.f, self.exponential(v), v.dtype) for v in values]
        if any(v.Q is None for v in values):
            return [Val(v.f, v.P, None, None, v.dtype, v.fits) for v in values]
        return list(values)

    def same(self, a: Val, b: Val) -> tuple[Array, Array]:
        """Element by element: equal in normal form (by P or by E, each of which identifies the expression); equal as
        numbers, up to rounding."""
        normal = a.P == b.P
        if a.E is not None or b.E is not None:
            normal = normal | (self.exponential(a) == self.exponential(b))
        with np.errstate(invalid="ignore"):
            finite = np.isfinite(a.f) & np.isfinite(b.f)
            close = np.where(finite, np.abs(a.f - b.f) <= _CLOSE * (1 + np.abs(b.f)), a.f == b.f)
            # Residues of roots do not always know their sign: small numbers, too, are not their opposites.
            opposite = (np.abs(a.f + b.f) <= _CLOSE * np.abs(b.f)) & (np.abs(b.f) > _TINY) & (b.P != 0)
            close = np.where(finite & opposite & (not self.lenient), False, close)
        return normal | ~finite, close

    # -- rounding ----------------------------------------------------------------------------------------------

    def cast(self, x: Val, dtype: str) -> Val:
        if not self.opaque or dtype not in _NARROW or x.fits == dtype:
            return x.typed(dtype)
        r = self._atom(x.f, x.P, 101 if dtype == "float16" else 103, dtype)
        special = (x.P == 0) | (x.P == 1) | ~np.isfinite(x.f)
        r.P = np.where(special, x.P, r.P)
        r.Q = np.where(special, self.exponent(x), r.Q if r.Q is not None else U(0))
        r.fits = dtype
        return r

    def _result(self, f: Array, p: Array, q: Array | None, dtype: str) -> Val:
        if q is None and self.algebraic:
            q = np.where(p <= 1, p, self._hash(p, 7, self.q))
        v = Val(f, p, q, None, dtype)
        return self.cast(v, dtype) if self.opaque and dtype in _NARROW else v

    # -- arithmetic --------------------------------------------------------------------------------------------

    def add(self, a: Val, b: Val) -> Val:
        f = a.f + b.f
        if a.E is not None or b.E is not None:
            return self._logarithm(f, self.field.mul(self.exponential(a), self.exponential(b), self.p), a.dtype)
        q = None if a.Q is None or b.Q is None else self.field.add(a.Q, b.Q, self.q)
        return self._result(f, self.field.add(a.P, b.P, self.p), q, a.dtype)

    def neg(self, a: Val) -> Val:
        if a.E is not None:
            return self._logarithm(-a.f, self.field.inverse(a.E, self.p), a.dtype)
        q = None if a.Q is None else self.field.neg(a.Q, self.q)
        return Val(-a.f, self.field.neg(a.P, self.p), q, None, a.dtype, a.fits)

    def sub(self, a: Val, b: Val) -> Val:
        if a.E is not None or b.E is not None:
            return self.add(a, self.neg(b))
        q = None if a.Q is None or b.Q is None else self.field.sub(a.Q, b.Q, self.q)
        return self._result(a.f - b.f, self.field.sub(a.P, b.P, self.p), q, a.dtype)

    def mul(self, a: Val, b: Val) -> Val:
        f = a.f * b.f
        if (a.E is None) != (b.E is None):
            a, b = (a, b) if a.E is not None else (b, a)
            assert a.E is not None
            # The product of the residues says more than the atom of E, and E^b nothing, if b as an exponent is an atom.
            p = self.field.mul(a.P, b.P, self.p)
            e = None if b.Q is None else self.field.raise_to(a.E, b.Q)
            return self._rounded(Val(f, p, None, e, a.dtype))
        q = None if a.Q is None or b.Q is None else self.field.mul(a.Q, b.Q, self.q)
        return self._result(f, self.field.mul(a.P, b.P, self.p), q, a.dtype)

    def reciprocal(self, a: Val) -> Val:
        nothing = (a.P == 0) & (np.abs(a.f) < _NOTHING)
        f = np.where(nothing, np.nan, 1 / np.where(nothing, 1.0, a.f))
        p = np.where(np.isinf(a.f), U(0), self.field.inverse(a.P, self.p))
        q = None if a.Q is None else np.where(np.isinf(a.f), U(0), self.field.inverse(a.Q, self.q))
        return Val(f, p, q, None, a.dtype)

    def div(self, a: Val, b: Val) -> Val:
        r = self.mul(a.typed("float64"), self.reciprocal(b).typed("float64"))
        return self.cast(r, a.dtype)

    def abs(self, a: Val) -> Val:
        return self.where(Bit(a.f < 0), self.neg(a), a)

    def exp(self, a: Val) -> Val:
        f = np.exp(a.f)
        if self.lenient and a.dtype != "float64":
            f = np.where(a.f > _EXP_MAX, np.inf, f)
        if np.any(np.isfinite(a.f) & ((f == 0) | np.isinf(f))):
            self.left = True
            if not self.lenient:
                raise OutOfRange("a sample leaves the range of float64 in exp")
        p = np.where(a.f == -np.inf, U(0), self.exponential(a))
        return self._result(f, p, None, a.dtype)

    def log(self, a: Val) -> Val:
        f = np.where(a.f < 0, np.nan, np.log(np.abs(np.where((a.P == 0) & (np.abs(a.f) < _NOTHING), 0.0, a.f))))
        return self._rounded(self._logarithm(f, a.P, a.dtype))

    def _rounded(self, v: Val) -> Val:
        return self.cast(v, v.dtype) if self.opaque and v.dtype in _NARROW else v

    def _log2_of_e(self, dtype: str, up: bool) -> Val:
        q = self.field.ln2 if up else U(pow(int(self.field.ln2), -1, int(self.q)))
        value = math.log(2.0) if up else 1 / math.log(2.0)
        return Val(np.asarray(value), np.asarray(q % self.p), np.asarray(q), None, dtype)

    def exp2(self, a: Val) -> Val:
        return self.exp(self.mul(a.typed("float64"), self._log2_of_e("float64", True)).typed(a.dtype))

    def log2(self, a: Val) -> Val:
        return self.mul(self.log(a.typed("float64")), self._log2_of_e("float64", False)).typed(a.dtype)

    def logaddexp(self, a: Val, b: Val) -> Val:
        x, y = (np.where(v.f == -np.inf, U(0), self.exponential(v)) for v in (a, b))
        return self._rounded(self._logarithm(np.logaddexp(a.f, b.f), self.field.add(x, y, self.p), a.dtype))

    def sigmoid(self, a: Val) -> Val:
        e = np.where(a.f == np.inf, U(0), self.field.inverse(self.exponential(a), self.p))
        f = np.where(a.f >= 0, 1 / (1 + np.exp(-np.abs(a.f))), np.exp(-np.abs(a.f)) / (1 + np.exp(-np.abs(a.f))))
        f = np.where(np.isnan(a.f), np.nan, f)
        p = self.field.inverse(self.field.add(e, np.ones_like(e), self.p), self.p)
        p = np.where(a.f == -np.inf, U(0), p)
        q = np.where(a.f == np.inf, U(1), self._hash(p, 7, self.q))
        return self._result(f, p, q, a.dtype)

    def opaque_function(self, name: str, a: Val) -> Val:
        fn, salt = OPAQUE[name]
        v = self._atom(np.asarray(fn(a.f)), a.P, salt, a.dtype)
        q = v.Q = self._hash(v.P, 7, self.q)
        if name == "tanh":  # +-1 at the infinities
            for sign in (1, -1):
                for residues, m in ((v.P, self.p), (q, self.q)):
                    residues[a.f == sign * np.inf] = U(sign % int(m))
        return self._rounded(v)

    def whole(self, name: str, a: Val) -> Val:
        """floor, ceil and round are decided at the point: their results are whole numbers."""
        f = np.asarray(WHOLE[name](a.f))
        w = self.integers(np.where(np.isfinite(f), f, 0).astype(np.int64), a.dtype)
        return Val(f, w.P, w.Q, None, a.dtype)

    def sqrt(self, a: Val) -> Val:
        """The root of a product is the product of the roots."""
        nothing = (a.P == 0) & (np.abs(a.f) < _NOTHING)
        f = np.where(a.f < 0, np.nan, np.sqrt(np.abs(a.f)))
        q = None if a.Q is None else self.field.root(a.Q, self.q)
        return self._result(np.where(nothing, 0.0, f), self.field.root(a.P, self.p), q, a.dtype)

    def pow(self, a: Val, b: Val) -> Val:
        """exp(b log a); a whole exponent of one number by multiplication, a half by sqrt."""
        exponent = b.f.flat[0] if b.f.size and b.Q is not None and np.all(b.f == b.f.flat[0]) else np.nan
        if np.isfinite(exponent) and b.Q is not None:
            number = U(self.field.constant(Fraction(exponent), self.q))
            exponent = exponent if np.all(number == b.Q) else np.nan  # not that number at this point alone
        if exponent == 0.5:
            return self.sqrt(a)
        if np.isfinite(exponent) and exponent == int(exponent) and abs(exponent) <= 64:
            base = self.reciprocal(a) if exponent < 0 else a
            n = abs(int(exponent))
            q = None if base.Q is None else self.field.power(base.Q, n, self.q)
            return self._result(np.asarray(base.f**n), self.field.power(base.P, n, self.p), q, a.dtype)
        undefined = np.isnan(a.f) | np.isnan(b.f) | ((a.f == 0) & (b.f < 0)) | ((a.f < 0) & (b.f != np.floor(b.f)))
        f = np.where(undefined, np.nan, np.power(np.abs(a.f), b.f) * np.where((a.f < 0) & (b.f % 2 == 1), -1, 1))
        p = self.field.raise_to(a.P, self.exponent(b))
        p = np.where(f < 0, self.field.neg(p, self.p), p)
        p = np.where(b.f == 0, U(1), np.where(f == 0, U(0), p))
        return self._result(f, p, None, a.dtype)

    # -- choice ------------------------------------------------------------------------------------------------

    def where(self, c: Bit, a: Val, b: Val) -> Val:
        fits = a.fits if a.fits == b.fits else ""
        a, b = self.alike(a, b)
        f = np.where(c.a, a.f, b.f)
        if c.bad is not None:
            f = np.where(c.bad, np.nan, f)
        q = np.where(c.a, a.Q, b.Q) if a.Q is not None and b.Q is not None else None
        e = np.where(c.a, a.E, b.E) if a.E is not None and b.E is not None else None
        return Val(f, np.where(c.a, a.P, b.P), q, e, a.dtype, fits)

    def extremum(self, name: str, a: Val, b: Val) -> Val:
        chosen = (a.f >= b.f) if name == "max" else (a.f <= b.f)
        v = self.where(Bit(chosen), a, b)
        self._tie(a, b)
        v.f = np.where(np.isnan(a.f) | np.isnan(b.f), np.nan, v.f)
        return v

    def _tie(self, a: Val, b: Val) -> None:
        if self.lenient and not self.tied:
            with np.errstate(invalid="ignore"):
                near = np.isfinite(a.f) & np.isfinite(b.f) & (np.abs(a.f - b.f) <= _TIED * np.abs(b.f))
            self.tied = bool(np.any(near & ~self.same(a, b)[0]))

    def compare(self, name: str, a: Val, b: Val) -> Bit:
        bad = np.isnan(a.f) | np.isnan(b.f)
        normal, close = self.same(a, b)
        equal = normal & close
        below, above = (a.f < b.f) & ~equal, (a.f > b.f) & ~equal
        table = {
            "eq": equal, "ne": ~equal, "lt": below, "le": below | equal, "gt": above, "ge": above | equal,
        }  # fmt: skip
        return Bit(table[name] & ~bad, bad if bad.any() else None)

    # -- reductions --------------------------------------------------------------------------------------------

    def sum(self, x: Val, axis: int) -> Val:
        if x.E is not None:
            x = Val(x.f, x.P, None, None, x.dtype)
        q = None if x.Q is None else self.field.reduce(x.Q.sum(axis=axis, dtype=U), self.q)
        return self._result(x.f.sum(axis=axis), self.field.reduce(x.P.sum(axis=axis, dtype=U), self.p), q, x.dtype)

    def arg(self, name: str, x: Val, axis: int) -> Val:
        """The greatest or least element; NaN if there is one."""
        if not x.f.shape[axis]:
            shape = x.f.shape[:axis] + x.f.shape[axis + 1 :]
            none = np.zeros(shape, dtype=U)
            return Val(np.full(shape, -np.inf if name == "max" else np.inf), none, none, None, x.dtype, x.dtype)
        at = np.expand_dims((np.argmax if name == "max" else np.argmin)(x.f, axis=axis), axis)
        best = x.each(lambda a: np.take_along_axis(a, at, axis))
        self._tie(best, x)
        return best.each(lambda a: a.squeeze(axis))

    def fold(self, combine: Callable[[Val, Val], Val], x: Val, axis: int, neutral: Fraction | float) -> Val:
        """An associative and commutative ``combine`` over an axis, by halving."""
        n = x.f.shape[axis]
        if n == 0:
            shape = x.f.shape[:axis] + x.f.shape[axis + 1 :]
            return self.constant(neutral, x.dtype).each(lambda a: np.broadcast_to(a, shape))

        def part(v: Val, lo: int, hi: int) -> Val:
            return v.view((slice(None),) * axis + (slice(lo, hi),))

        while (n := x.f.shape[axis]) > 1:
            half = n // 2
            joined = combine(part(x, 0, half), part(x, half, 2 * half))
            x = self.concatenate([joined, part(x, 2 * half, n)], axis) if n % 2 else joined
        return x.each(lambda a: a.squeeze(axis))

    def concatenate(self, values: Sequence[Val], axis: int) -> Val:
        same = self.alike(*values)
        q = [v.Q for v in same if v.Q is not None]
        e = [v.E for v in same if v.E is not None]
        f, p = np.concatenate([v.f for v in same], axis), np.concatenate([v.P for v in same], axis)
        join = [np.concatenate(x, axis) if len(x) == len(same) else None for x in (q, e)]
        return Val(f, p, join[0], join[1], same[0].dtype)

    def dot(self, a: Val, b: Val) -> Val:
        q = None if a.Q is None or b.Q is None else self.field.matmul(a.Q, b.Q, self.q)
        return Val(product(a.f, b.f), self.field.matmul(a.P, b.P, self.p), q, None, a.dtype)

"""Trusted: arithmetic on arrays modulo a safe prime p = 2 q + 1, in which ``exp`` is a homomorphism.

The squares of F_p form a group of the prime order q. With a generator g of it, ``x -> g^(x mod q) mod p`` turns sums of
exponents into products, as exp does: two expressions over +, *, / and exp that are equal have equal residues, and two
that differ have different ones but for a chance of about (degree / q) at a random point. (The test is that of Mirage,
"Multi-Level Superoptimizer", section 5.)
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
U = np.uint64
#: Safe primes below 2^31 (p and (p - 1) / 2 are prime), of the form 8 k + 7, by which 2 is a square; and so is every prime
#: to 31, and modulo (p - 1) / 2 to 13: roots of small constants are true ones.
PRIMES = (2144751839, 2092728959, 2087574719, 2084339039)
#: g = 2^ROOT, a number that no formula holds; so exp(1) is no small number, and exp(log 2) is 2.
ROOT = 0x1B873593
_HALF = U(0x7FFF)
_LIMB = U(0xFFFF)
#: So many products of a 16-bit and a 31-bit number are exact in the 53 bits of a float64.
_EXACT = 64
#: Multiplications of one call of the library.
_SMALL = 1 << 18


class Field:
    """Residues modulo ``p`` (values) and modulo ``q`` (exponents), as uint64 arrays of reduced numbers."""

    def __init__(self, p: int) -> None:
        self.p, self.q = U(p), U((p - 1) // 2)
        self.ln2 = U(pow(ROOT, -1, int(self.q)))
        self.low, self.high = _powers(p)

    # numpy divides by a scalar much faster than it takes a remainder.
    def reduce(self, x: Array, m: np.uint64) -> Array:
        return np.asarray(x - (x // m) * m)

    def add(self, a: Array, b: Array, m: np.uint64) -> Array:
        s = a + b
        return np.asarray(np.minimum(s, s - m))  # the difference wraps around where s < m, and is then the larger

    def sub(self, a: Array, b: Array, m: np.uint64) -> Array:
        s = a - b
        return np.asarray(np.minimum(s, s + m))

    def neg(self, a: Array, m: np.uint64) -> Array:
        return np.asarray(np.where(a == 0, a, m - a))

    def mul(self, a: Array, b: Array, m: np.uint64) -> Array:
        return self.reduce(a * b, m)

    def power(self, a: Array, exponent: int, m: np.uint64) -> Array:
        result = np.ones_like(a)
        while exponent:
            if exponent & 1:
                result = self.mul(result, a, m)
            a = self.mul(a, a, m)
            exponent >>= 1
        return result

    def inverse(self, a: Array, m: np.uint64) -> Array:
        """1 / a, and 0 for 0 (which the caller has to look at)."""
        return self.power(a, int(m) - 2, m)

    def root(self, x: Array, m: np.uint64) -> Array:
        """The square root of x or of -x, whichever is a square, that is a square itself: root(x y) = root(x) root(y).
        (Both moduli are 3 modulo 4, so one of x and -x is a square, and the squares are a group of odd order.)"""
        return self.power(self.mul(x, x, m), pow(4, -1, (int(m) - 1) // 2), m)

    def signed(self, x: Array, negative: Array, m: np.uint64) -> Array:
        """A number for each x that is a square where it is not ``negative``, and the negative of a square there."""
        square = self.mul(x, x, m)
        return np.asarray(np.where(negative, self.neg(square, m), square))

    def exp(self, x: Array) -> Array:
        """g^x for exponents modulo q."""
        return self.mul(self.low[x & _HALF], self.high[x >> U(15)], self.p)

    def raise_to(self, base: Array, exponent: Array) -> Array:
        """base^exponent in the group of the squares; an exponent of 1 or -1 keeps the sign of the base, others drop it."""
        base, exponent = np.broadcast_arrays(base, exponent)
        square = self.power(base, int(self.q), self.p)  # 1 for a square, p - 1 otherwise
        b = np.where(square == self.p - U(1), self.p - base, base)
        result, left = np.ones_like(b), exponent.copy()
        while left.any():
            result = np.where(left & U(1), self.mul(result, b, self.p), result)
            b = self.mul(b, b, self.p)
            left = left >> U(1)
        result = np.where(exponent == 1, base, result)
        return np.where(exponent == self.q - U(1), self.inverse(base, self.p), result)

    def matmul(self, a: Array, b: Array, m: np.uint64) -> Array:
        """Exact matrix product by float64 products of 16-bit limbs."""
        k = a.shape[-1]
        total = np.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), dtype=U)
        for at in range(0, k, _EXACT):
            right = b[..., at : at + _EXACT, :].astype(np.float64)
            left = a[..., at : at + _EXACT]
            low = product((left & _LIMB).astype(np.float64), right).astype(U)
            high = self.reduce(product((left >> U(16)).astype(np.float64), right).astype(U), m)
            total = total + self.reduce(low, m) + self.reduce(high << U(16), m)
        return self.reduce(total, m)

    def constant(self, value: Fraction, m: np.uint64) -> int:
        return value.numerator * pow(value.denominator, -1, int(m)) % int(m)


def product(a: Array, b: Array) -> Array:
    """``a @ b`` in pieces so small that the library takes no second thread for them: on a busy machine waiting for one
    costs many times what it saves."""
    m, k = a.shape[-2:]
    n = b.shape[-1]
    rows = max(1, _SMALL // max(1, k * n))
    whole = m // rows * rows
    if m <= rows or not whole:
        return np.asarray(a @ b)
    parts = a[..., :whole, :].reshape(*a.shape[:-2], whole // rows, rows, k) @ b[..., None, :, :]
    done = parts.reshape(*parts.shape[:-3], whole, n)
    return done if whole == m else np.concatenate([done, a[..., whole:, :] @ b], axis=-2)


@cache
def _powers(p: int) -> tuple[Array, Array]:
    """Tables of g^k and g^(k * 2^15) for k < 2^15 (any square but 1 generates all squares)."""
    g = pow(2, ROOT, p)
    low = np.ones(1 << 15, dtype=U)
    for k in range(15):
        low[1 << k : 2 << k] = low[: 1 << k] * U(pow(g, 1 << k, p)) % U(p)
    high = np.ones(1 << 15, dtype=U)
    for k in range(15):
        high[1 << k : 2 << k] = high[: 1 << k] * U(pow(g, 1 << (15 + k), p)) % U(p)
    return low, high


def digest(x: Array, salt: int) -> Array:
    """A hash of each number (splitmix64)."""
    z = x ^ U((salt * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) & 0xFFFFFFFFFFFFFFFF)
    z = (z ^ (z >> U(30))) * U(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> U(27))) * U(0x94D049BB133111EB)
    return z ^ (z >> U(31))

"""Trusted: sums of products as matrix products, so that the definition of a contraction costs what it should."""

from __future__ import annotations

import math

import numpy as np

from neptune_verified.proofs.bounded.domain import Domain
from neptune_verified.proofs.bounded.field import Array
from neptune_verified.proofs.bounded.values import Val


def contract(domain: Domain, a: Val, b: Val, n: int, reduced: tuple[int, ...]) -> Val:
    """``sum a * b`` over the last dimensions, which are ``reduced`` long; the first ``n`` stay.

    Kept dimensions are of four sorts: in both operands (a batch), in one of them, in none."""

    def whole(v: Val) -> Val:
        own = v.shape[:n] if v.shape else (1,) * n
        return v.each(lambda x: np.broadcast_to(x, own + reduced).reshape(*own, math.prod(reduced)))

    a, b = whole(a), whole(b)
    both = [k for k in range(n) if a.shape[k] != 1 and b.shape[k] != 1]
    left = [k for k in range(n) if k not in both and a.shape[k] != 1]
    right = [k for k in range(n) if k not in both and k not in left]

    def matrix(own: list[int], turned: bool) -> object:
        def arrange(x: Array) -> Array:
            kept = [*both, *own, n]
            x = x.transpose([*kept, *(k for k in range(n) if k not in kept)])
            shape = [x.shape[k] for k in range(len(kept))]
            batch, middle = shape[: len(both)], math.prod(shape[len(both) : -1])
            x = x.reshape(*batch, middle, shape[-1])
            return np.swapaxes(x, -1, -2) if turned else x

        return arrange

    product = domain.dot(a.each(matrix(left, False)), b.each(matrix(right, True)))
    sizes = {k: a.shape[k] for k in (*both, *left)} | {k: b.shape[k] for k in right}
    order = [*both, *left, *right]

    def restore(x: Array) -> Array:
        x = x.reshape([sizes[k] for k in order])
        return x.transpose([order.index(k) for k in range(n)])

    result = product.each(restore)
    result.dtype = a.dtype
    return result

"""Trusted: functions that the normal form does not look into, on float64, and the salts of their atoms."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from neptune_verified.proofs.bounded.field import Array

_ERF = np.vectorize(math.erf, otypes=[np.float64])


WHOLE: dict[str, Callable[[Array], Array]] = {"floor": np.floor, "ceil": np.ceil, "round": np.round}
OPAQUE: dict[str, tuple[Callable[[Array], Array], int]] = {
    "tanh": (np.tanh, 23), "erf": (lambda x: np.asarray(_ERF(x)), 25),
    "sin": (np.sin, 27), "cos": (np.cos, 29),
}  # fmt: skip

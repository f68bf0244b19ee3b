"""Not trusted: the errors of one result against its reference, as statistics."""

from __future__ import annotations

import math
from fractions import Fraction

import torch
from torch import Tensor

from neptune_verified.auditing.evaluate import Value
from neptune_verified.auditing.formats import FORMATS
from neptune_verified.auditing.result import Case, OutputInfo
from neptune_verified.auditing.statistics import PER_OCTAVE, Histogram, Profile, Statistics
from neptune_verified.ir.expr import FLOATS

#: Rows of a sample that are listed.
LISTED = 3


def ulp(x: Tensor, dtype: str) -> Tensor:
    """The distance of neighbours of ``dtype`` at |x|, in float64; denormal ones included."""
    f = FORMATS[dtype]
    exponent = torch.frexp(x.abs()).exponent - 1
    return torch.ldexp(torch.ones_like(x), exponent.clamp(min=f.least_exponent) - (f.digits - 1))


class Errors:
    """Errors, element by element, of ``have`` against ``want``; both have the shape of the output."""

    def __init__(self, info: OutputInfo, want: Value, have: Tensor) -> None:
        self.info = info
        w, h = want.x.double(), have.detach().to(want.x.device).double()
        self.want, self.have = w, h
        self.bound = torch.zeros_like(w) if want.d is None else want.d.expand(w.shape)
        self.claimed = self.bound.isfinite()
        self.undefined = w.isnan()
        largest = FORMATS[info.dtype].largest if info.dtype in FLOATS else math.inf
        # What exceeds the output's type by more than half of an ulp is that infinity.
        top = largest * (1 + FORMATS[info.dtype].roundoff / 2) if info.dtype in FLOATS else math.inf
        due = torch.where(w.abs() > top, w.sign() * math.inf, w)
        self.same_infinity = due.isinf() & (h == due)
        self.compared = due.isfinite() & h.isfinite()
        # A wrong kind is wrong where the structure claims something.
        rest = ~(self.undefined | self.same_infinity | self.compared)
        self.unclaimed_kind = rest & ~self.claimed
        self.nan = rest & self.claimed & h.isnan()
        self.inf = rest & self.claimed & h.isinf()
        self.finite = rest & self.claimed & h.isfinite()
        self.error = torch.where(self.compared, (h - w).abs(), 0.0)

    def statistics(self) -> Statistics:
        on = self.compared
        error, want, bound = self.error[on], self.want[on].abs(), self.bound[on]
        claimed = self.claimed[on]
        exact = (error == 0) | (bound > 0)
        ratio = torch.where(error == 0, 0.0, error / bound)
        nonzero = want > 0
        counts = {n: int(getattr(self, n).sum()) for n in ("compared", "undefined", "nan", "inf", "finite")}
        return Statistics(
            **counts,
            infinite=int(self.same_infinity.sum()),
            unclaimed=int((~claimed).sum()) + int(self.unclaimed_kind.sum()),
            above=int((claimed & (error > bound)).sum()),
            square_error=_squares(error),
            square_value=_squares(want),
            absolute=histogram(error),
            relative=histogram(error[nonzero] / want[nonzero]),
            ulps=histogram(error / ulp(want, self.info.dtype)) if self.info.dtype in FLOATS else histogram(error),
            of_bound=histogram(ratio[claimed & exact & ratio.isfinite()]),
            rows=histogram(self.rows()[0]),
            positions=self.positions(),
        )

    def rows(self) -> tuple[Tensor, Tensor]:
        """RMS error of each row (the elements along the last axis) with a compared element, and the rows' numbers."""
        if self.error.ndim < 2:
            return self.error.new_zeros(0), self.error.new_zeros(0, dtype=torch.int64)
        many = self.compared.sum(-1).flatten()
        rms = (self.error.square().sum(-1).flatten() / many.clamp(min=1)).sqrt()
        kept = many > 0
        return rms[kept], torch.arange(many.numel(), device=many.device)[kept]

    def worst_rows(self) -> tuple[tuple[str, tuple[int, ...], float], ...]:
        rms, number = self.rows()
        best = torch.topk(rms, min(LISTED, rms.numel()))
        found = []
        for x, k in zip(best.values.tolist(), number[best.indices].tolist(), strict=True):
            found.append((self.info.name, unravel(k, tuple(self.error.shape[:-1])), x))
        return tuple(found)

    def positions(self) -> dict[str, Profile]:
        found = {}
        for k, axis in enumerate(self.info.axes):
            if self.error.shape[k] > 1:
                others = [d for d in range(self.error.ndim) if d != k]
                squares = self.error.square().sum(others) if others else self.error.square()
                counts = self.compared.sum(others) if others else self.compared.long()
                found[axis] = Profile.of(squares.tolist(), counts.tolist())
        return found

    def excess(self) -> float:
        """The largest error over its bound, both beyond half an ulp, which rounding the result may cost anyway: above 1 if
        an error is above its bound. Infinite for a result of a wrong kind."""
        if bool((self.nan | self.inf | self.finite).any()):
            return math.inf
        if self.info.dtype not in FLOATS or not self.error.numel():
            return float(((self.error > self.bound) & self.claimed).any())
        half = ulp(torch.where(self.compared, self.want, 1.0), self.info.dtype) / 2
        over = (self.error - half).clamp(min=0.0)
        ratio = torch.where(self.claimed & (over > 0), over / (self.bound - half).clamp(min=1e-300), 0.0)
        return float(ratio.max())

    def worst(self, sample: str) -> Case | None:
        """The element of a wrong kind, if any; else that with the largest error over its bound, or in ulps."""
        if not self.error.numel():
            return None
        ulps = self.error / ulp(torch.where(self.compared, self.want, 1.0), self.info.dtype) \
            if self.info.dtype in FLOATS else self.error  # fmt: skip
        ratio = torch.where(self.claimed & (self.error > 0), self.error / self.bound, 0.0)
        wrong = self.nan | self.inf | self.finite
        order = torch.where(wrong, math.inf, ratio) if bool((wrong | (ratio > 0)).any()) else ulps
        k = int(order.flatten().argmax())
        at = unravel(k, tuple(self.error.shape))
        bound = float(self.bound[at])
        error = math.inf if bool(wrong[at]) else float(self.error[at])
        many = math.inf if bool(wrong[at]) else float(ulps[at])
        have, want = float(self.have[at]), float(self.want[at])
        return Case(sample, self.info.name, at, have, want, error, many, bound if math.isfinite(bound) else None)


def unravel(k: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index = []
    for n in reversed(shape):
        k, i = divmod(k, n)
        index.append(i)
    return tuple(reversed(index))


def histogram(x: Tensor) -> Histogram:
    """Of finite numbers >= 0, on their own device."""
    if not x.numel():
        return Histogram()
    positive = x[x > 0]
    keys, counts = torch.unique((positive.log2() * PER_OCTAVE).floor().long(), return_counts=True)
    bins = dict(zip(keys.tolist(), counts.tolist(), strict=True))
    return Histogram(int(x.numel() - positive.numel()), bins, float(x.max()))


def _squares(x: Tensor) -> Fraction:
    return Fraction(float(x.square().sum()))

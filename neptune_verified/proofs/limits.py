"""Trusted: every bound on the work of the proof engines, in one record."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """One line of reason each; the values used are printed in certificates."""

    #: Points that satisfy the hypotheses, at most: what finds a wrong sign or guard does so in the first dozens.
    points: int = 300
    #: Points tried to find those: hypotheses that hold by chance one time in ten still get their share.
    attempts: int = 2_000
    #: Combinations of kinds above this number are sampled: three symbols of five kinds are 125.
    kind_combinations: int = 300
    #: The falsifier stops here; true statements take a tenth of it.
    falsify_ms: int = 400
    #: Wall clock of one query to Z3: 25 times the slowest of the known true statements, for machines under load.
    z3_ms: int = 5_000
    #: Z3's own count of steps, the bound that does not depend on the machine; about 2 s here.
    z3_rlimit: int = 20_000_000
    #: Guarded cases of one term in the Z3 route: known statements have under 200.
    z3_cases: int = 3_000
    #: Wall clock of the SymPy route: 30 times the slowest of the known true statements, for machines under load.
    sympy_ms: int = 12_000
    #: Cases of one statement in the SymPy route: five symbols of two kinds, each sign split once.
    sympy_cases: int = 600
    #: Weak orders of one statement that only compares: twice three symbols with an infinity each have 2,000.
    orders: int = 20_000


LIMITS = Limits()

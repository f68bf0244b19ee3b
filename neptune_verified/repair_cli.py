"""Not trusted: ``neptune-verified repair``: is this online update right, or what is one? Formulas are read, never run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

#: What the command line's exit codes mean here.
OK, REFUSED, DISAGREEMENT = 0, 3, 4


def repair_command(
    reducer: str,
    term: Sequence[str],
    producer: Iterable[str] = (),
    repair: Sequence[str] = (),
    fact: Iterable[str] = (),
    parameter: Iterable[str] = (),
    domain: Iterable[str] = (),
    whole: bool = False,
    show: Callable[[str], None] = print,
) -> int:
    """Run the command, show its text, and give the exit code: 0 proved, 3 refused, 4 the provers disagree.

    ``term`` and ``repair`` have one entry for each accumulator; without ``repair`` one is derived. Raises ValueError, with a
    message of one line, for what cannot be read or stated."""
    from neptune_verified.expressions import parse
    from neptune_verified.proofs.verdict import Verdict
    from neptune_verified.repairs import Repair, derive_repair, prove_repair

    if not term:
        raise ValueError("--term is missing: the formula that is reduced, such as 'exp(c - m)*v'")
    given = list(map(_producer, producer))
    producers = dict(given)
    if len(producers) < len(given):
        raise ValueError("--producer names one symbol twice")
    domains = dict(map(_domain, domain))
    facts = [parse(f) for f in fact]
    names = [name.strip() for text in parameter for name in text.split(",") if name.strip()]
    if repair:
        report = prove_repair(reducer, list(term), producers, list(repair), facts, parameters=names, domain=domains)
        show(report.text(whole))
        disagree = report.verdict is Verdict.DISAGREEMENT
        return OK if report.proved else DISAGREEMENT if disagree else REFUSED
    if len(term) > 1:
        raise ValueError(
            "one --term is repaired at a time; give --repair as often as --term to prove an update with state"
        )
    result = derive_repair(reducer, term[0], producers, facts, parameters=names, domain=domains)
    if isinstance(result, Repair):
        show(f"strategy {result.strategy}, {result.accumulators} accumulator(s)")
        show(result.report.text(whole))
        return OK
    show(result.text())
    return REFUSED


def _producer(text: str) -> tuple[str, tuple[str, Any] | None]:
    """``m=max:c``, or ``r`` for a running value of which nothing else is known."""
    from neptune_verified.expressions import parse

    name, equals, rest = text.partition("=")
    reducer, colon, formula = rest.partition(":")
    if not name.strip().isidentifier() or (equals and not colon):
        raise ValueError(f"--producer takes NAME=REDUCER:FORMULA, such as m=max:c, or NAME alone; got {text!r}")
    return name.strip(), (reducer.strip(), parse(formula)) if equals else None


def _domain(text: str) -> tuple[str, str]:
    """``lam=positive`` or ``lam=0 < x <= 1``."""
    name, equals, said = text.partition("=")
    if not name.strip().isidentifier() or not equals or not said.strip():
        raise ValueError(f"--domain takes NAME=DOMAIN, such as r=positive or lam=0 < x <= 1; got {text!r}")
    return name.strip(), said.strip()

"""Reports to show: of a fused program, of a fusion that is refused, of a proof that fails; any of them with strange text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache
from typing import Any

from neptune_verified.fusion.fuse import fuse
from neptune_verified.ir.expr import var
from neptune_verified.proofs.kernel import Prover, required, verify
from neptune_verified.report import Report
from tests.definitions import attention, unfusable
from tests.proofs.folders import whole

STRANGE = """<script>alert(1)</script> & "quoted" 'too' <img onerror=x> {{ 7 * 7 }} {% raw %} -->"""


@cache
def fused() -> Report:
    return whole(verify(fuse(attention())))


@cache
def not_fused() -> Report:
    return Report.from_verified(verify(fuse(unfusable())))


@cache
def refuted() -> Report:
    """The repair of l forgotten."""
    loops = fuse(attention())
    nest = loops.nests[0]
    (p,) = nest.passes
    carried = tuple(
        replace(c, repair=replace(c.repair, h=var("t"))) if c.name == "l" and c.repair else c for c in p.carried
    )
    wrong = replace(loops, nests=(replace(nest, passes=(replace(p, carried=carried),)),))
    prover = Prover()
    return Report.from_proved(wrong, [prover.prove(o) for o in required(wrong)], "REFUSED: O1 of l")


@cache
def not_verified() -> Report:
    """What ``--no-verify`` reports: nothing is fused, nothing is proved."""
    return Report.from_verified(verify(fuse(attention(), enabled=False)), coverage="NOT VERIFIED")


REPORTS: dict[str, Callable[[], Report]] = {
    "fused": fused,
    "not fused": not_fused,
    "refuted": refuted,
    "not verified": not_verified,
}


def everywhere(report: Report, text: str) -> Report:
    """The report with ``text`` at the end of every text that it holds."""
    return replace(report, **{f.name: _mixed(getattr(report, f.name), text) for f in fields(report)})


def _mixed(value: Any, text: str) -> Any:
    if isinstance(value, str):
        return value + text
    if isinstance(value, dict):
        return {k: _mixed(v, text) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_mixed(v, text) for v in value)
    if hasattr(value, "__dataclass_fields__"):
        return replace(value, **{f.name: _mixed(getattr(value, f.name), text) for f in fields(value)})
    return value

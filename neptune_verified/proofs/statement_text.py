"""Not trusted: statements as mathematics for people. Nothing is decided from this text."""

from __future__ import annotations

from collections.abc import Iterable

from neptune_verified.ir.expr import Expr, Op
from neptune_verified.ir.printing import Printer
from neptune_verified.proofs.statement import Defined, Equal, Goal, Holds, NeverFalse, Refines, Statement

_FINITE = {
    "neg zero pos": "finite",
    "zero pos": "finite >= 0",
    "pos": "finite > 0",
    "neg zero": "finite <= 0",
    "neg": "finite < 0",
    "neg pos": "finite != 0",
    "zero": "0",
    "false true": "truth values",
    "true": "true",
    "false": "false",
}
_ORDER = ("neg", "zero", "pos", "false", "true")


def kinds_text(kinds: Iterable[str]) -> str:
    """The set that a symbol ranges over.

    >>> kinds_text({"-inf", "neg", "zero", "pos"}), kinds_text({"zero", "pos"})
    ('{-inf, finite}', 'finite >= 0')
    """
    have = set(kinds)
    finite = _FINITE.get(" ".join(k for k in _ORDER if k in have), "")
    parts = [part for part in ("-inf" * ("-inf" in have), finite, "+inf" * ("+inf" in have)) if part]
    return parts[0] if len(parts) == 1 else "{" + ", ".join(parts) + "}"


_ASSOCIATIVE = {"add": ("+", 4), "mul": ("*", 5), "and": ("and", 2), "or": ("or", 1)}


class _Exact(Printer):
    """Shows in which order sums and products are taken: (x + y) + z = x + (y + z) is a claim, x + y + z is not."""

    def _op(self, name: str, args: tuple[Expr, ...], dtype: str, level: int) -> str:
        if name not in _ASSOCIATIVE:
            return super()._op(name, args, dtype, level)
        sign, own = _ASSOCIATIVE[name]
        left = own + 1 if isinstance(args[0], Op) and args[0].name == name else own
        text = f"{self(args[0], left)} {sign} {self(args[1], own + 1)}"
        return f"({text})" if own < level else text


def expr_text(e: Expr, level: int = 0) -> str:
    return _Exact()(e, level)


def goal_text(goal: Goal) -> str:
    match goal:
        case Equal(lhs, rhs):
            return f"{expr_text(lhs, 4)} = {expr_text(rhs, 4)}"
        case Refines(lhs, rhs):
            return f"{expr_text(lhs, 4)} = {expr_text(rhs, 4)} wherever the right side is defined"
        case Defined(term):
            return f"{expr_text(term)} is defined"
        case Holds(predicate):
            return expr_text(predicate)
        case NeverFalse(predicate):
            return f"{expr_text(predicate)} wherever it is defined"


def statement_text(statement: Statement) -> str:
    """One line: "for all m, m_new in {-inf, finite}, c0 finite with m <= m_new and c0 <= m: ... = ..."."""
    groups: dict[str, list[str]] = {}
    for s in statement.symbols:
        groups.setdefault(kinds_text(s.kinds), []).append(s.var.name)
    ranges = ", ".join(f"{', '.join(names)} {'in ' * (kinds[0] == '{')}{kinds}" for kinds, names in groups.items())
    given = " and ".join(expr_text(h.expr, 2) for h in statement.hypotheses)
    quantifier = (f"for all {ranges}" if ranges else "") + (f" with {given}" if given else "")
    return f"{quantifier}: {goal_text(statement.goal)}" if quantifier else goal_text(statement.goal)

"""Not trusted: what the judgements say together: how many of the wrong ones are refused, and by what alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from neptune_verified.mutants.judge import COLUMNS, EQUIVALENT, KILLED, SAME, SURVIVED, UNDECIDED, Row

STATUSES = (KILLED, SAME, EQUIVALENT, UNDECIDED, SURVIVED)
#: What is asked of a split alone does not decide whether a program may be fused.
SPLIT = frozenset({"O14", "O15"})


@dataclass(frozen=True, slots=True)
class Lemma:
    """Why an obligation that kills no mutant alone is implied by others; ``off`` speak of the same and are switched off
    together with these to see what it kills."""

    by: tuple[str, ...]
    off: tuple[str, ...]
    why: str


LEMMAS = {
    "O3": Lemma(
        ("O1", "O2", "O4"),
        ("O5", "O6", "O14", "O15"),
        "the induction of docs/trust.md: every accumulator is e_f or a fold of terms G(r, c); by O1, O2 and O4 h maps it to "
        "the same fold at r', so h(t, r, r) = t and h composes on every accumulator that occurs",
    ),
    "O14": Lemma(
        ("O1", "O2", "O4", "O6", "O15"),
        ("O3", "O5", "O7"),
        "O14.step is O1 followed by O6.term, said of the definition's own term. O15.join speaks of dead partial results: "
        "with one element on both sides it says that h(t, r, r) = t for a dead r, by O2 for folds; and an empty side adds "
        "h(e_f) = e_f (O4). O14.dead is what O15.neutral and O15.composition assume",
    ),
}


@dataclass(frozen=True)
class Summary:
    rows: tuple[Row, ...]

    def count(self, status: str) -> int:
        return sum(r.status == status for r in self.rows)

    @property
    def wrong(self) -> list[Row]:
        """Mutants that change the meaning over the extended reals."""
        return [r for r in self.rows if r.difference and r.status in (KILLED, SURVIVED, UNDECIDED)]

    @property
    def missed(self) -> list[Row]:
        """Wrong mutants that no check refuses for good: none must be left."""
        return [r for r in self.wrong if r.status != KILLED]

    @property
    def kill_rate(self) -> float:
        return 1 - len(self.missed) / len(self.wrong) if self.wrong else 1.0

    def matrix(self) -> dict[str, Counter[str]]:
        """kind of mutant -> how many there are, and how many of them each check refuses."""
        table: dict[str, Counter[str]] = {}
        for r in sorted(self.rows, key=lambda r: r.group):
            cells = table.setdefault(f"{r.group}: {r.kind}", Counter())
            cells["mutants"] += 1
            cells[r.status] += 1
            cells.update(c for c in COLUMNS if c in r.refused)
        return table

    def alone(self, column: str) -> list[Row]:
        """Wrong mutants that this check alone refuses; what concerns splits is left out for the others."""
        own = frozenset({column})
        ignored = SPLIT - own if column not in SPLIT else frozenset()
        return [r for r in self.rows if r.status == KILLED and set(r.refused) - ignored == own]

    def implied(self, column: str) -> list[Row]:
        """Wrong mutants that it alone refuses once the checks that imply it are switched off."""
        off = {*LEMMAS[column].by, *LEMMAS[column].off}
        return [r for r in self.rows if r.status == KILLED and set(r.refused) - off == {column}]

    def needed(self, column: str) -> str:
        """Why the check is there: a mutant that it alone kills, or the lemma that replaces it and a mutant without it."""
        found = self.alone(column)
        if found:
            return f"only killer of {len(found)}, e.g. {found[0].name}"
        if column not in LEMMAS:
            return "" if any(column in r.refused for r in self.rows) else "kills none: not built"
        lemma, kills = LEMMAS[column], self.implied(column)
        example = f"; without these it alone kills {len(kills)}, e.g. {kills[0].name}" if kills else ""
        return f"implied by {', '.join(lemma.by)}: {lemma.why}{example}"

    def to_json(self) -> dict[str, Any]:
        return {
            "mutants": len(self.rows),
            "programs": sorted({r.program for r in self.rows}),
            "counts": {s: self.count(s) for s in STATUSES},
            "meaning_changing": len(self.wrong),
            "kill_rate": self.kill_rate,
            "survivors": [_data(r) for r in self.missed],
            "matrix": {kind: dict(cells) for kind, cells in self.matrix().items()},
            "columns": {c: self._column(c) for c in COLUMNS},
            "all": [_data(r) for r in self.rows],
        }

    def _column(self, column: str) -> dict[str, Any]:
        data: dict[str, Any] = {
            "kills": sum(column in r.refused for r in self.rows),
            "only_killer_of": [r.name for r in self.alone(column)],
        }
        if column in LEMMAS and not data["only_killer_of"]:
            lemma = LEMMAS[column]
            data["implied_by"] = list(lemma.by)
            data["lemma"] = lemma.why
            data["kills_without_these"] = [r.name for r in self.implied(column)]
        return data


def _data(r: Row) -> dict[str, Any]:
    return {
        "name": r.name,
        "program": r.program,
        "group": r.group,
        "kind": r.kind,
        "status": r.status,
        "refused": r.refused,
        "undecided": r.unsure,
        "difference": r.difference,
    }


def summary(rows: Iterable[Row]) -> Summary:
    return Summary(tuple(rows))


__all__ = ["LEMMAS", "STATUSES", "Summary", "summary"]

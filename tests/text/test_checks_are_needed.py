"""Each check of the checker is needed: without it, a wrong text is accepted that is refused with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from neptune_verified.proofs.text import claims, launcher, proof, syntax
from neptune_verified.proofs.text.claims import Claims
from neptune_verified.proofs.text.launcher import LauncherReader
from neptune_verified.proofs.text.match import Matcher
from neptune_verified.proofs.text.memory import Memory
from neptune_verified.proofs.text.reader import Reader
from tests.text.bases import Edit, refusal

L, S, C, D, P = "masked_logsumexp", "softmax", "causal", "doubled", "two_reduction_axes"
Patch = Callable[[pytest.MonkeyPatch], None]


def without(owner: Any, name: str, result: Any = None) -> Patch:
    """A function that finds nothing wrong."""
    return lambda p: p.setattr(owner, name, lambda *a, **k: result)


def same_elements(self: Matcher, t: Any, s: Any) -> bool:
    return bool(t.tensor == s.tensor)


def any_cast() -> Patch:
    """Without the comparison of types in a cast."""
    true = Matcher.operations

    def operations(self: Matcher, t: Any, s: Any) -> bool:
        if t.name == "cast":
            return self.equal(t.args[0], s.args[0])
        return true(self, t, s)

    return lambda p: p.setattr(Matcher, "operations", operations)


def no_dead_lanes(p: pytest.MonkeyPatch) -> None:
    """Masked lanes of a reduction are not looked at."""
    true = claims.tile_reduction
    p.setattr(claims, "tile_reduction", lambda r, inside, g, neutral, index: true(r, claims.TRUE, g, neutral, index))


def any_form(p: pytest.MonkeyPatch) -> None:
    """An index of a form that is not known is what it is."""
    form = Memory.form
    p.setattr(Memory, "form", lambda self, a, i, names: form(self, a, i, names) or (max(a.shape), i))


CHECKS: list[tuple[str, Patch, Edit]] = [
    ("Claims.complete", without(Claims, "complete"), Edit(L, r"range\(0, N, ", "range(0, N - 1, ")),
    ("Claims.partition", without(Claims, "partition"), Edit(C, r"range\(x0_full_hi, x0_hi", "range(0, x0_hi")),
    ("Claims.partition, outer loops", without(Claims, "partition"), Edit(P, r"range\(0, P\)", "range(1, P)")),
    ("Claims.start", without(Claims, "start"), Edit(L, r"(    l = tl\.full\(\[BLOCK_I\], )0\.0", r"\g<1>1.0")),
    ("check_unseen", without(claims, "check_unseen", True), Edit(C, r" & t_5\[:, None\]\), tl\.int32", "), tl.int32")),
    ("the masked lanes of a tile", no_dead_lanes, Edit(L, r"tl\.where\(\(x0 < N\)\[None, :\], (tl\.exp.*?\)\)), 0\.0\)", r"\1")),  # noqa: E501
    ("Memory.inside", without(Memory, "inside"), Edit(L, r"\(x0 < N\)(\[None, :\]\), other)", r"(x0 <= N)\1")),
    ("Memory.integers", without(Memory, "integers", 1),
     Edit("tripled_rows", r"\(tl\.cast\(i, tl\.int64\) \* 3\)", "tl.cast(i * 3, tl.int64)")),
    ("Memory.form", any_form, Edit(S, r"range\(0, N, BLOCK_X0\)", "range(0, N, 4)", at=1)),
    ("Memory.surjective", without(Memory, "surjective"), Edit(S, r"(tl\.store.*mask=t_32)\)", r"\1 & (x0 > 0)[None, :])")),
    ("Memory.written_once", without(Memory, "written_once"), Edit(L, r"(    tl\.store\(lse.*\n)", r"\1\1")),
    ("Matcher.reads", lambda p: p.setattr(Matcher, "reads", same_elements),
     Edit("softmax_of_the_transpose", r"(.*tl\.load\(x_ptr.*)stride_x_0(\).*)stride_x_1", r"\1stride_x_1\2stride_x_0")),
    ("the types of casts", any_cast(),
     Edit("truncated", r"tl\.cast\(x_tile_5, tl\.int32\)", "tl.cast(tl.cast(x_tile_5, tl.int8), tl.int32)")),
    ("_KernelProof.signature", without(proof._KernelProof, "signature"), Edit(L, r'"M": "i32"', '"M": "i16"')),
    ("the header", without(proof, "_header"), Edit(L, r'TARGET = "interpret"', 'TARGET = "hip:gfx942"')),
    ("LauncherReader.complete_checks", without(LauncherReader, "complete_checks"),
     Edit("four_inputs", r"    _check_length\(\"v\.shape\[1\]\".*\n", "")),
    ("the order of what is returned", lambda p: p.setattr(LauncherReader, "result", lambda self, v: setattr(self, "returned", True)),  # noqa: E501
     Edit("two_kernels", "return rows, tops", "return tops, rows")),
    ("equal lengths in the launcher", without(launcher, "_same", True),
     Edit("two_kernels", r"\(\(M,\), torch", "((N,), torch")),
    ("blocks are powers of two", without(syntax, "_is_block", True), Edit(D, r'"BLOCK_J": 1024', '"BLOCK_J": 8192')),
    ("names of the reader", without(Reader, "named"), Edit(L, r"(    pid = tl\.program_id\(0\)\n)", r"\1    tl = 1\n")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "patch", "edit"), CHECKS, ids=[n for n, _, _ in CHECKS])
def test_a_check_is_needed(name: str, patch: Patch, edit: Edit, monkeypatch: pytest.MonkeyPatch) -> None:
    source = edit.source()
    assert refusal(edit.program, source)[0]
    patch(monkeypatch)
    assert refusal(edit.program, source) == ("", "")

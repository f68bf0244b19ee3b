"""The split-K update: proved (O14, O15), and run with every split count against the definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from neptune_verified.fusion.fuse import fuse
from neptune_verified.ir.expr import INF, Expr, axis, const, op, read, reduce_, size, var
from neptune_verified.ir.interpret import run_program
from neptune_verified.ir.loops import LoopProgram
from neptune_verified.ir.program import Program, Stage, Tensor
from neptune_verified.ir.split import run_split
from neptune_verified.mutants.programs import default_bounds
from neptune_verified.proofs.join import split_obligations
from neptune_verified.proofs.kernel import Prover, Refused, VerifiedProgram, verify

F = "float32"
M, N = size("M"), size("N")
ROW, J = axis("i", M), axis("j", N)


def x(name: str, *indices: Expr) -> Expr:
    return read(name, indices, F)


def masked_average(sink: float | None = None) -> Program:
    """Average of v with weights exp(s), masked by -inf scores, 0 on a dead row; ``sink`` is one more term below."""
    e = op(
        "select",
        op("eq", x("s", ROW, J), const(-INF, F)),
        const(0, F),
        op("exp", op("sub", x("s", ROW, J), x("m", ROW))),
    )
    below: Expr = x("l", ROW)
    if sink is not None:
        below = op("add", below, op("exp", op("sub", const(sink, F), x("m", ROW))))
    stages = (
        Stage("s", (ROW, J), op("select", op("lt", J, read("n", (ROW,), "int32")), x("q", ROW, J), const(-INF, F))),
        Stage("m", (ROW,), reduce_("max", (J,), x("s", ROW, J))),
        Stage("e", (ROW, J), e),
        Stage("l", (ROW,), reduce_("sum", (J,), x("e", ROW, J))),
        Stage(
            "p",
            (ROW, J),
            op("select", op("eq", x("l", ROW), const(0, F)), const(0, F), op("div", x("e", ROW, J), below)),
        ),
        Stage("o", (ROW,), reduce_("sum", (J,), op("mul", x("p", ROW, J), x("v", J)))),
    )
    inputs = (Tensor("q", (M, N), F), Tensor("v", (N,), F), Tensor("n", (M,), "int32"))
    return Program("average", inputs, (M, N), stages, ("o",), default_bounds(inputs, (M, N)))


def scaled_norm() -> Program:
    y = op("div", x("q", ROW, J), x("m", ROW))
    stages = (
        Stage("m", (ROW,), reduce_("max", (J,), op("abs", x("q", ROW, J)))),
        Stage("l", (ROW,), reduce_("sum", (J,), op("mul", y, y))),
    )
    inputs = (Tensor("q", (M, N), F),)
    return Program("norm", inputs, (M, N), stages, ("l",), default_bounds(inputs, (M, N)))


def verified(program: Program) -> tuple[VerifiedProgram, Prover]:
    prover = Prover()
    return verify(fuse(program, prover), prover), prover


@pytest.mark.parametrize("program", [masked_average(), masked_average(2.125), scaled_norm()], ids=lambda p: p.name)
def test_every_split_count_gives_the_definition(program: Program) -> None:
    made, prover = verified(program)
    nests = tuple(replace(nest, split=True) for nest in made.loops.nests)
    proved = set(verify(replace(made.loops, nests=nests), prover).proved) - set(made.proved)
    assert {p.obligation.kind for p in proved} == {"O14", "O15"}
    rng = np.random.default_rng(0)
    for n in (0, 1, 2, 5):
        arrays = {"q": rng.normal(size=(4, n)), "v": rng.normal(size=n), "n": np.array([0, 1, n, n // 2])}
        arrays = {t.name: arrays[t.name] for t in program.inputs}
        want = run_program(program, arrays)
        for splits in range(1, n + 3):
            for tile in (1, 2, 8):
                got = run_split(made.loops, arrays, splits, tile=tile)
                for name in program.outputs:
                    defined = ~np.isnan(want[name])
                    np.testing.assert_allclose(got[name][defined], want[name][defined], rtol=1e-12, atol=1e-12)


def test_the_window_of_five_over_four_splits() -> None:
    """Ranges 0-2, 2-4, 4-5 and an empty fourth: the empty one adds nothing (cases.md, 3)."""
    made, _ = verified(masked_average())
    arrays = {"q": np.array([[0.5, -1.0, 2.0, 0.0, 1.0]]), "v": np.array([1.0, 2.0, 3.0, 4.0, 5.0]), "n": np.array([5])}
    w = np.exp(arrays["q"][0])
    want = (w * arrays["v"]).sum() / w.sum()
    assert run_split(made.loops, arrays, 4)["o"][0] == pytest.approx(want, rel=1e-12)


def test_a_joined_value_that_is_repaired_to_the_local_producer_is_refused() -> None:
    """Without its repair, a partial result stays relative to its own split's maximum."""
    made, _ = verified(masked_average())
    nest = made.loops.nests[0]
    p = nest.passes[0]
    stale = [
        replace(c, repair=replace(c.repair, h=var("t", F))) if c.repair and c.name == "l" else c for c in p.carried
    ]
    wrong = replace(p, carried=tuple(stale))
    loops = replace(made.loops, nests=(replace(nest, passes=(wrong,)),))
    prover = Prover()
    failed = {
        prover.prove(o).obligation.id
        for o in split_obligations(loops.program, loops.nests[0], wrong)
        if o.stage == "l" and not prover.prove(o).holds
    }
    assert "O15.join" in failed
    with pytest.raises(Refused, match="O1"):
        verify(loops, prover)


def test_a_split_count_is_positive() -> None:
    made, _ = verified(scaled_norm())
    loops: LoopProgram = made.loops
    with pytest.raises(ValueError, match="at least one split"):
        run_split(loops, {"q": np.zeros((1, 2))}, 0)

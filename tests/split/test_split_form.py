"""The split-K form of a loop program, executed by the interpreter: shares of any size, in every place."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from neptune_verified.fusion.fuse import fuse
from neptune_verified.ir.expr import Expr, axis, const, op, read, reduce_, size
from neptune_verified.ir.interpret import run_program
from neptune_verified.ir.kinds import FINITE, NINF
from neptune_verified.ir.loops import LoopProgram
from neptune_verified.ir.program import Program, Stage, Tensor
from neptune_verified.ir.split import Unsplittable, run_split, split_form
from neptune_verified.proofs.kernel import Refused, check_structure, required
from tests.definitions import softmax

F = "float32"
M, N = size("M"), size("N")
ROW, J = axis("i", M), axis("j", N)


def chain(dtype: str = F) -> Program:
    """m = max x, l = sum exp(x - m), z = l * m + sum of the exponentials' product with w over another traversal."""
    x = read("x", (ROW, J), dtype)
    e = op("exp", op("sub", x, read("m", (ROW,), dtype)))
    stages = (
        Stage("m", (ROW,), reduce_("max", (J,), x)),
        Stage("l", (ROW,), reduce_("sum", (J,), e)),
        Stage("z", (ROW,), reduce_("sum", (J,), op("mul", e, op("cos", read("l", (ROW,), dtype))))),
    )
    return Program("chain", (Tensor("x", (M, N), dtype),), (M, N), stages, ("l", "z"))


@cache
def loops(program: Program) -> LoopProgram:
    return fuse(program)


@pytest.mark.parametrize("program", [softmax(), chain(), chain("float16")], ids=["softmax", "chain", "chain in fp16"])
@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_shares_of_every_size(program: Program, n: int) -> None:
    arrays = {"x": np.random.default_rng(n).normal(size=(3, n))}
    want = run_program(program, arrays)
    for splits in range(1, n + 3):
        for own in {None, *range(-(-n // splits), n + 2)} - {0}:
            got = run_split(loops(program), arrays, splits, tile=2, size=own)
            for name in program.outputs:
                defined = ~np.isnan(want[name])
                np.testing.assert_allclose(got[name][defined], want[name][defined], rtol=1e-12, atol=1e-12)


def test_too_few_shares_are_an_error() -> None:
    with pytest.raises(ValueError, match="2 splits of 3 elements do not hold 7"):
        run_split(loops(softmax()), {"x": np.zeros((1, 7))}, 2, size=3)


def test_the_kernels_of_a_softmax() -> None:
    """Parts, a join, and the map along the axis, which reads what the join stored."""
    (nest,) = loops(softmax()).nests
    form = split_form(softmax(), nest)
    assert [x.name for x in form.nests] == ["softmax_part0", "softmax_join0", "softmax_part1"]
    assert [t.name for t in form.temporaries] == ["m_part", "l_part", "m_all", "l_all"]
    assert [len(x.passes) for x in form.nests] == [1, 2, 1]
    assert [x.share is not None for x in form.nests] == [True, False, True]
    assert form.extent is N
    kinds = dict(form.program.between)
    assert kinds["m_part"] == FINITE | {NINF} and NINF not in kinds["l_part"]


def test_sixteen_bits_are_kept_in_float32_between_the_kernels() -> None:
    (nest,) = loops(chain("float16")).nests
    form = split_form(chain("float16"), nest)
    assert {t.dtype for t in form.temporaries} == {"float32"}
    assert {o.expr.dtype for o in form.nests[-1].outputs} == {"float16"}


def test_names_that_are_taken() -> None:
    program = softmax()
    x = replace(program.inputs[0], name="m_part")
    renamed = replace(program, inputs=(x,), stages=tuple(_with(s, "x", "m_part") for s in program.stages))
    form = split_form(renamed, loops(renamed).nests[0])
    assert [t.name for t in form.temporaries] == ["m_part_1", "l_part", "m_all", "l_all"]


def _with(stage: Stage, old: str, new: str) -> Stage:
    from neptune_verified.ir.expr import Read, transform

    def fn(e: Expr) -> Expr | None:
        return read(new, e.indices, e.dtype) if isinstance(e, Read) and e.tensor == old else None

    return replace(stage, body=transform(stage.body, fn))


def test_what_has_no_split_form() -> None:
    (nest,) = loops(softmax()).nests
    with pytest.raises(Unsplittable, match="the name splits is the program's own"):
        split_form(replace(softmax(), sizes=(M, N, size("splits"))), nest)
    with pytest.raises(Unsplittable, match="nothing is reduced"):
        split_form(softmax(), replace(nest, passes=nest.passes[1:]))
    k = axis("k", size("K"))
    other = replace(nest, passes=(nest.passes[0], replace(nest.passes[1], stream=(k,))))
    with pytest.raises(Unsplittable, match="axes of different lengths"):
        split_form(softmax(), other)
    with pytest.raises(Unsplittable, match="m is the same along q"):
        split_form(softmax(), replace(nest, grid=(axis("q", M), *nest.grid)))


def test_a_part_of_a_split_form_is_no_loop_program_of_its_own() -> None:
    made = loops(softmax())
    (nest,) = made.nests
    form = split_form(softmax(), nest)
    with pytest.raises(Refused, match="part of a split-K form, which is derived"):
        check_structure(replace(made, nests=(replace(nest, share=form.nests[0].share),)))


def test_a_split_nest_asks_for_the_join_law() -> None:
    made = loops(softmax())
    split = replace(made, nests=(replace(made.nests[0], split=True),))
    more = {o.id for o in required(split)} - {o.id for o in required(made)}
    assert more == {"O15.join", "O15.neutral", "O15.composition"}
    assert {o.stage for o in required(split) if o.kind == "O15"} == {"l"}


def test_a_length_of_one() -> None:
    """A constant axis may be split too."""
    j = axis("j", const(1, "int32"))
    body = reduce_("sum", (j,), read("x", (ROW, j), F))
    program = Program("one", (Tensor("x", (M, const(1, "int32")), F),), (M,), (Stage("y", (ROW,), body),), ("y",))
    arrays = {"x": np.array([[2.0], [3.0]])}
    assert run_split(loops(program), arrays, 3)["y"].tolist() == [2, 3]

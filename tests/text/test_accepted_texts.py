"""Every emitted text of the accepted programs, masks and examples is proved, at every configuration."""

from __future__ import annotations

import re

import pytest
from tvm import te

from neptune_verified.frontend.te import neg_inf
from neptune_verified.proofs.text import read_back
from neptune_verified.proofs.text.evidence import TEXT_OBLIGATIONS, covers, text_data
from neptune_verified.proofs.text.proof import TextProof
from tests.accepted import test_examples
from tests.accepted.harness import F32, Built, Graph, build
from tests.accepted.programs import CASES
from tests.accepted.test_accepted import built
from tests.masks.programs import compiled
from tests.masks.test_kernels import built as masked
from tests.text.bases import OWN, TARGET, base, prove

#: Masks whose proofs take little time; the others have more loops of the same kinds.
QUICK_MASKS = ("causal", "causal bottom-right", "prefix", "block causal", "odd keys", "never")
UNFUSED = (
    "shift_by_max_under_sum", "chain_of_four", "two_reduction_axes", "normalisation_inside_the_product", "neighbours",
    "logaddexp_as_producer", "reduction_of_reductions", "four_inputs", "table_lookup", "softmax_of_the_transpose",
)  # fmt: skip
EDITED = ("softmax", "masked_logsumexp", "blocks", "two_kernels", "curves", "lookup")


def proof(b: Built) -> TextProof:
    found = read_back(b.loops, b.source, TARGET, "0" * 64)
    kernels = re.findall(r"^def _(\w+)_kernel\(", b.source, re.MULTILINE)
    configs = re.findall(r'^    "(\w+)": \(\{', b.source, re.MULTILINE)
    assert len(found.kernels) == len(configs) >= len(kernels) == len(b.loops.nests)
    assert [k.config for k in found.kernels] == configs
    assert {o for k in found.kernels for o in k.outputs} == set(b.program.outputs)
    for k in found.kernels:
        assert k.integers > 0 and k.accesses >= len(k.outputs)
        assert all(covers(k, id_) for id_ in TEXT_OBLIGATIONS)
    assert len(text_data(found)) == len(configs) * len(TEXT_OBLIGATIONS)
    return found


@pytest.mark.parametrize("name", CASES)
def test_accepted_program(name: str) -> None:
    for k in proof(built(name)).kernels:
        assert set(k.carried) == {c.name for n in built(name).loops.nests for c in n.carried()}
        assert k.rounded == ()


@pytest.mark.parametrize("name", UNFUSED)
def test_unfused(name: str) -> None:
    proof(build(CASES[name].graph(), name, fused=False))


@pytest.mark.xfail(strict=True, reason="p w is 0 where the row is dead: the case is not looked at in a pass of its own")
def test_unfused_lengths_of_rows() -> None:
    proof(build(CASES["lengths_of_rows"].graph(), "lengths_of_rows", fused=False))


@pytest.mark.parametrize("name", QUICK_MASKS)
def test_mask(name: str) -> None:
    assert {bool(k.skipping) for k in proof(masked(name)).kernels} == {True}


@pytest.mark.parametrize("name", [*EDITED, *OWN])
def test_small_programs(name: str) -> None:
    assert prove(name).kernels


def test_a_count() -> None:
    assert prove("counts").kernels


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(
    ("stem", "function"),
    [
        ("attention", "attention"),
        ("softmax", "softmax"),
        ("softmax", "logsumexp"),
        ("norms", "layernorm"),
    ],
)
def test_example(stem: str, function: str, dtype: str) -> None:
    found = proof(test_examples.built(stem, function, dtype))
    narrow = dtype != "float32" and function == "attention"
    assert {k.rounded for k in found.kernels} == {(dtype,) if narrow else ()}


# ------------------------------------------------------------------------------------------- what a proof says


def test_what_is_carried_and_summed() -> None:
    (k,) = prove("masked_logsumexp").kernels
    assert (k.kernel, k.config, k.outputs) == ("_masked_logsumexp_kernel", "rows", ("lse",))
    assert set(k.carried) == {"m", "l"} and k.skipping == () == k.rounded
    assert k.reordered == ("l",)  # a largest element is the same in any order
    assert k.accesses == 2
    assert "m, l are the loop program's" in covers(k, "O8") and covers(k, "O10") == "no element is skipped"
    assert "summed by tiles and trees: l" in covers(k, "O16")


def test_what_is_skipped() -> None:
    for k in proof(masked("causal")).kernels:
        assert set(k.skipping) == {"m", "l", "o"}
        assert "for l, o, m" in covers(k, "O10")


def test_what_is_rounded() -> None:
    assert {k.rounded for k in prove("half").kernels} == {("float16",)}
    assert {k.rounded for k in prove("halves").kernels} == {()}
    assert "rounded to float16" in covers(prove("half").kernels[0], "O16")


def test_a_file_of_two_kernels() -> None:
    a, b = prove("two_kernels").kernels
    assert (a.kernel, a.outputs, b.kernel, b.outputs) == (
        "_two_kernels_0_kernel", ("rows",), "_two_kernels_1_kernel", ("tops",),
    )  # fmt: skip
    assert (a.reordered, b.reordered) == (("rows",), ())


@pytest.mark.parametrize("tile", [1, 2, 16, 64, 4096])
def test_every_power_of_two_is_a_right_tile(tile: int) -> None:
    source = re.sub(r'("BLOCK_X0": )\d+', rf"\g<1>{tile}", base("softmax").source)
    assert prove("softmax", source).kernels


def test_one_head_of_constant_number() -> None:
    """A grid axis of length 1 takes no digit of the program index."""
    proof(compiled("causal", 1, 16))


def test_a_mask_without_a_choice_after_it() -> None:
    """exp(-inf - m) is 0, because the carried maximum is finite where it is not -inf; so V is unseen there."""
    g = Graph()
    q, k, v = (g.input(name, (2, n, 16)) for name, n in (("q", g.M), ("k", g.N), ("v", g.N)))
    d, j1, j2, j3 = te.reduce_axis((0, 16), "d"), *(te.reduce_axis((0, g.N), f"j{x}") for x in (1, 2, 3))
    scores = te.compute((2, g.M, g.N), lambda h, i, j: te.sum(q[h, i, d] * k[h, j, d], axis=d), "scores")
    s = te.compute(scores.shape, lambda h, i, j: te.if_then_else(j <= i, scores[h, i, j], neg_inf(F32)), "s")
    m = te.compute((2, g.M), lambda h, i: te.max(s[h, i, j1], axis=j1), "m")
    e = te.compute(s.shape, lambda h, i, j: te.exp(s[h, i, j] - m[h, i]), "e")
    total = te.compute((2, g.M), lambda h, i: te.sum(e[h, i, j2], axis=j2), "total")
    o = te.compute(q.shape, lambda h, i, c: te.sum(e[h, i, j3] / total[h, i] * v[h, j3, c], axis=j3), "o")
    (found,) = proof(build(g.returns(o), "textbook")).kernels[:1]
    assert {"o", "total", "m"} == set(found.unseen) == set(found.skipping)

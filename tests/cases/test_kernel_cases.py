"""Faults that fused reduction kernels have shipped with, as kernels: padding, masks, tiles, heads, addresses, lengths.

Each kind has its right values, computed apart from the definition, in tiles of several sizes; and a wrong edit of the
emitted text of that kind, which is refused. The numbers are those of the project's list of cases.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tvm import te, tirx

import neptune_verified as nv
from neptune_verified.proofs.text import TextRefused, read_back
from neptune_verified.runtime import LoadedKernel
from tests.accepted.harness import Graph, assert_refines
from tests.cases import programs as p
from tests.cases.programs import N, attention, family

Array = NDArray[Any]
INF = float("inf")
#: A text with one edit more.
Edit = Callable[[str], str]
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def with_lengths(score: p.Score | None = None, extra: tuple[Any, ...] = ()) -> Graph:
    mask, lens = p.lengths()
    return attention(mask, score, extra=(*extra, *lens))


def with_key_bias() -> Graph:
    score, extra, facts = p.key_bias()
    return attention(None, score, extra=extra, facts=facts)


def scored(score: str, mask: str) -> Graph:
    function, extra = {"bias": p.bias, "slopes": p.slopes}[score]()
    if mask == "lengths":
        return with_lengths(function, extra)
    return attention(family(mask), function, extra=extra)


GRAPHS: dict[str, Callable[[], Graph]] = {
    "plain": attention,
    "lengths": with_lengths,
    "bottom-right": lambda: attention(family("causal bottom-right")),
    "cap before mask": lambda: attention(lambda b, h, i, j: j < 1, p.capped),
    "cap after mask": lambda: attention(lambda b, h, i, j: j < 1, late=p.soft_cap),
    "twelve heads": lambda: attention(H=12, KV=2),
    "three heads": lambda: attention(H=3, KV=2, head=lambda h: te.floordiv(h * 2, 3)),
    "odd keys": lambda: attention(family("odd keys")),
    "key bias": with_key_bias,
    "window": lambda: attention(lambda b, h, i, j: tirx.all(i - j >= 0, i - j < 5)),
    "last keys": lambda: attention(lambda b, h, i, j: j >= N - 5),
    "alibi": lambda: attention(None, p.alibi),
}
TRIPLES = [(score, mask) for score in ("bias", "slopes") for mask in ("causal", "odd keys", "lengths")]
GRAPHS |= {f"{s}, {m}": (lambda s=s, m=m: scored(s, m)) for s, m in TRIPLES}
DIMENSIONS = ((17, 31), (31, 94), (72, 17), (94, 72), (96, 40))
GRAPHS |= {f"{d} and {dv}": (lambda d=d, dv=dv: attention(D=d, Dv=dv)) for d, dv in DIMENSIONS}


@cache
def kernel(name: str) -> nv.Kernel:
    """Compiled, with every obligation proved and the text read back."""
    g = GRAPHS[name]()
    return nv.compile(nv.Program.from_te(g.inputs, g.outputs, "case", g.facts), target="interpret")


def in_tiles(source: str, tile: int) -> str:
    """The text with tiles of other sizes along the keys."""
    return re.sub(r'("BLOCK_X\d+(?:_\d+)?": )\d+', rf"\g<1>{tile}", source) if tile else source


@cache
def runner(name: str, tile: int) -> LoadedKernel:
    return LoadedKernel(in_tiles(kernel(name).source, tile), "case", "interpret")


def run(name: str, *inputs: Array | torch.Tensor, tile: int = 0, config: str | None = None) -> tuple[Array, Array]:
    tensors = [x if isinstance(x, torch.Tensor) else torch.tensor(x) for x in inputs]
    o, lse = runner(name, tile)(*tensors, config=config)
    return o.double().numpy(), lse.double().numpy()


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def qkv(m: int, n: int, b: int = 1, h: int = 2, kv: int = 2, d: int = 16, dv: int = 16) -> tuple[Array, Array, Array]:
    return draw(b, h, m, d, seed=m), draw(b, kv, n, d, seed=n + 1), draw(b, kv, n, dv, seed=n + 2)


def scores(q: Array, k: Array) -> Array:
    return np.asarray(np.einsum("bhid,bhjd->bhij", q.astype(float), k.astype(float)) / np.sqrt(q.shape[-1]))


def averages(s: Array, v: Array, live: Array | bool = True) -> tuple[Array, Array]:
    """o and lse of scores, float64; what is not live is not looked at."""
    live = np.broadcast_to(live, s.shape) & (s != -INF)
    s = np.where(live, s, -INF)
    top = s.max(axis=-1, keepdims=True, initial=-INF)
    e = np.where(live, np.exp(s - np.where(np.isfinite(top), top, 0)), 0)
    total = e.sum(axis=-1)
    weights = e / np.where(total == 0, 1, total)[..., None]
    seen = np.where(live.any(axis=(1, 2))[:, None, :, None], v.astype(float), 0)
    return np.asarray(weights @ seen), np.where(total == 0, -INF, top[..., 0] + np.log(np.where(total == 0, 1, total)))


def check(got: tuple[Array, Array], want: tuple[Array, Array], what: str) -> None:
    for name, a, b in zip(("o", "lse"), got, want, strict=True):
        assert_refines(a, b, 1e-5, f"{name}, {what}")


def everywhere(
    name: str, inputs: tuple[Array, ...], want: tuple[Array, Array], tiles: tuple[int, ...] = (16, 0, 128)
) -> None:
    for tile in tiles:
        check(run(name, *inputs, tile=tile), want, f"{name}, tiles of {tile}")


# ------------------------------------------------------------------------------------------- wrong edits


def edit(pattern: str, new: str, every: bool = False) -> Edit:
    """Exchange the first place (or all) in the code; the docstring says the definition and stays."""

    def apply(source: str) -> str:
        at = source.index("import torch")
        code, n = re.subn(pattern, new, source[at:], count=0 if every else 1)
        assert n, pattern
        return source[:at] + code

    return apply


def refused(name: str, *edits: Edit) -> str:
    """The obligation that refuses an edited text; the text before the edits is accepted."""
    k = kernel(name)
    source = k.source
    for change in edits:
        source = change(source)
    with pytest.raises(TextRefused) as caught:
        read_back(k.loops, source, "interpret")
    return caught.value.findings[0].id


DEAD = r'float\("-inf"\)'
MASKED_MAX = rf"tl\.max\(tl\.where\((t_\d+)\[None, :\], (t_\d+), {DEAD}\)"
MASKED_LOGITS = rf"tl\.where\((t_\d+)\[None, :\], (\(tl\.dot\(.*\) \* 0\.25\)), {DEAD}\)"
GUARDED_SHIFT = rf"tl\.where\(\(m_new == {DEAD}\), 0\.0, m_new\)"


@pytest.mark.parametrize(("name", "tile"), [("bottom-right", 16), ("plain", 128)])
def test_the_text_is_proved_in_other_tiles_too(name: str, tile: int) -> None:
    read_back(kernel(name).loops, in_tiles(kernel(name).source, tile), "interpret")


# ------------------------------------------------------------------------------------------- 3: a window of 5 keys


@pytest.mark.parametrize(("m", "n"), [(5, 5), (40, 40), (3, 70), (70, 3)])
def test_3_a_window_of_5_keys(m: int, n: int) -> None:
    assert kernel("window").passes == 1
    inputs = qkv(m, n)
    age = np.arange(m)[:, None] - np.arange(n)[None, :]
    want = averages(scores(*inputs[:2]), inputs[2], (age >= 0) & (age < 5))
    everywhere("window", inputs, want, (2, 4, 16, 0, 128))


def test_3_a_loop_that_starts_or_ends_elsewhere_is_refused() -> None:
    """O10: an element that no tile holds is not neutral. A loop that starts early is right, only slow."""
    assert refused("window", edit(r"i_first\b(.*- 4|.* \+ -4)", r"(i_first + 1)\1")) == "O10"


# ------------------------------------------------------------------------------------------- 4: padding


def test_4_64_keys_in_a_tile_of_128() -> None:
    """All logits negative: a padded key with logit 0 would have the largest weight of all."""
    q, k = np.full((1, 2, 5, 16), 2, np.float32), np.full((1, 2, 64, 16), -2, np.float32)
    v = draw(1, 2, 64, 16)
    mean = np.broadcast_to(v.astype(float).mean(axis=2, keepdims=True), (1, 2, 5, 16))
    everywhere("plain", (q, k, v), (mean, np.full((1, 2, 5), -16 + np.log(64))))
    inputs = qkv(5, 64)
    everywhere("plain", inputs, averages(scores(*inputs[:2]), inputs[2]))


@pytest.mark.parametrize(("change", "id_"), [
    (edit(MASKED_MAX, r"tl.max(tl.where(\1[None, :], \2, 0.0)"), "O13"),
    (edit(MASKED_MAX, r"tl.max(\2"), "O13"),
    (edit(rf"tl\.where\(t_\d+\[None, :\], (tl\.where\(\(t_\d+ == {DEAD}\).*), 0\.0\)\n", r"\1\n"), "O13"),
    (edit(r"x0_full_hi = .*\n", "x0_full_hi = ((((N - 1) + BLOCK_X0) // BLOCK_X0) * BLOCK_X0)\n"), "O11"),
    (edit(r"x0_hi = .*\n", "x0_hi = ((N // BLOCK_X0) * BLOCK_X0)\n"), "O10"),
])  # fmt: skip
def test_4_padding_that_is_counted_is_refused(change: Edit, id_: str) -> None:
    """Zero filled, not masked, counted in the sum; the last tile taken for a whole one, or left out. (The list names O9;
    a lane that is no element is told from the definition's terms by O13 already.)"""
    assert refused("plain", change) == id_


# ------------------------------------------------------------------------------------------- 5: rows of several lengths


@pytest.mark.parametrize("poison", [np.nan, INF, -INF])
@pytest.mark.parametrize(("n", "have"), [(3, (1, 3)), (3, (0, 3)), (40, (1, 33)), (70, (16, 0)), (70, (17, 70))])
def test_5_what_stands_beyond_the_length_is_not_seen(n: int, have: tuple[int, int], poison: float) -> None:
    q, k, v = qkv(3, n, b=2)
    live = np.arange(n)[None, None, None, :] < np.array(have)[:, None, None, None]
    want = averages(scores(q, k), v, live)
    for b, length in enumerate(have):
        k[b, :, length:], v[b, :, length:] = poison, poison
    everywhere("lengths", (q, k, v, np.array(have, np.int32)), want, (2, 16, 0, 128))


@pytest.mark.parametrize(("changes", "id_"), [
    ((edit(r"mask=\((t_\d+) & t_\d+\)\[:, None\]", r"mask=\1[:, None]"),), "O9"),
    ((edit(MASKED_LOGITS, r"\2"),), "O13"),
    ((edit(MASKED_LOGITS, r'(\2 + tl.where(\1[None, :], 0.0, float("-inf")))'),), "O13"),
])  # fmt: skip
def test_5_a_weight_of_0_is_no_mask(changes: tuple[Edit, ...], id_: str) -> None:
    """O9: V is loaded where its weight is 0. The mask of the logits left out, or added to NaN, is another term, O13."""
    assert refused("lengths", *changes) == id_


# ------------------------------------------------------------------------------------------- 6: causal, bottom-right


def test_6_rows_see_4_and_5_keys() -> None:
    inputs = qkv(2, 5)
    s = scores(*inputs[:2])
    rows = [averages(s[:, :, r : r + 1, :seen], inputs[2][:, :, :seen]) for r, seen in ((0, 4), (1, 5))]
    want = (np.concatenate([o for o, _ in rows], 2), np.concatenate([lse for _, lse in rows], 2))
    everywhere("bottom-right", inputs, want, (2, 4, 16, 0))


def test_6_three_dead_rows() -> None:
    q, k, v = qkv(5, 2)
    s = scores(q, k)
    fourth, fifth = averages(s[:, :, 3:4, :1], v[:, :, :1]), averages(s[:, :, 4:5], v)
    want = (
        np.concatenate([np.zeros((1, 2, 3, 16)), fourth[0], fifth[0]], 2),
        np.concatenate([np.full((1, 2, 3), -INF), fourth[1], fifth[1]], 2),
    )
    everywhere("bottom-right", (q, k, v), want, (2, 4, 16, 0))


@pytest.mark.parametrize(("change", "id_"), [
    (edit(r"\(i \+ \(N - M\)\)\[:, None\]", "i[:, None]"), "O13"),
    (edit(r"\(\(i_last - M\) \+ N\)", "i_last"), "O10"),
    (edit(r"\(\(i_first - M\) \+ N\)", "i_first"), "O11"),
    (edit(r"(x0_full_hi = .*)i_first", r"\1i_last"), "O13"),
    (edit(r"(tl\.store\(o_ptr.*mask=)(t_\d+)", r"\1(\2 & (l > 0.0))"), "O11"),
    (edit(r"tl\.where\(\(l == 0\.0\)\[:, None\], 0\.0, (\(o_f32 / l\[:, None\]\))\)", r"\1"), "O13"),
    (edit(r"mask=\((t_\d+) & \(tl\.max.*!= 0\)\)\[:, None\]", r"mask=\1[:, None]"), "O9"),
])  # fmt: skip
def test_6_another_alignment_or_no_word_on_dead_rows_is_refused(change: Edit, id_: str) -> None:
    """Top-left in the mask, in the last bound, in that of whole tiles; whole tiles counted by the last row; dead rows not
    written, or 0 / 0; V loaded where no row sees it."""
    assert refused("bottom-right", change) == id_


# ------------------------------------------------------------------------------------------- 7: soft-cap and mask


@pytest.mark.parametrize(
    ("name", "weights"), [("cap after mask", (0.731059, 0.268941)), ("cap before mask", (1.0, 0.0))]
)
def test_7_the_order_is_the_definitions(name: str, weights: tuple[float, float]) -> None:
    """Logits 0 and -inf; V picks out the weights."""
    q, k, v = np.zeros((1, 2, 1, 16)), draw(1, 2, 2, 16), np.zeros((1, 2, 2, 16))
    v[..., 0, 0], v[..., 1, 1] = 1, 1
    for tile in (2, 16, 0):
        o, _ = run(name, *(x.astype(np.float32) for x in (q, k, v)), tile=tile)
        np.testing.assert_allclose(o[0, :, 0, :2], [weights] * 2, atol=1e-6)


def test_7_the_other_order_is_refused() -> None:
    """O13: another function of the logits. (The list names O9.)"""
    after = edit(rf"tl\.where\((t_\d+\[None, :\]), _tanh\((.*)\), {DEAD}\)", r'_tanh(tl.where(\1, \2, float("-inf")))')
    assert refused("cap before mask", after) == "O13"
    before = rf"(t_\d+) = tl\.where\((.*), \((tl\.dot.*) \* 0\.25\), {DEAD}\)\n        (t_\d+) = _tanh\(\1\)"
    first = edit(before, r'\4 = tl.where(\2, _tanh((\3 * 0.25)), float("-inf"))', every=True)
    assert refused("cap after mask", first) == "O13"


# ------------------------------------------------------------------------------------------- 10: far addresses


def far(elements: int) -> torch.Tensor:
    """Zeros in memory that is not there before it is written."""
    try:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
        return torch.frombuffer(mmap.mmap(-1, 4 * elements, flags=flags), dtype=torch.float32)
    except (OSError, AttributeError, ValueError) as e:
        pytest.skip(f"no {4 * elements} bytes of addresses: {e}")


@pytest.mark.parametrize(
    ("name", "rows", "stride"), [("last keys", 262146, 8192), ("plain", 3, 2**30), ("plain", 2, 2**31 + 8)]
)
def test_10_rows_that_are_2_31_elements_apart(name: str, rows: int, stride: int) -> None:
    storage = far((rows - 1) * stride + 32)
    k = storage.as_strided((1, 2, rows, 16), (0, 16, stride, 1))
    k[:, :, -5:] = torch.tensor(draw(1, 2, min(5, rows), 16))
    q, v = torch.tensor(draw(1, 2, 3, 16, seed=1)), torch.tensor(draw(1, 2, rows, 16, seed=2))
    want = averages(scores(q.numpy(), k[:, :, -5:].numpy()), v[:, :, -5:].numpy())
    check(run(name, q, k, v), want, "k")
    check(run(name, q, k[:, :, -5:].contiguous(), v[:, :, -5:].contiguous()), want, "the same keys alone")


def test_10_strides_of_0_and_turned_tensors() -> None:
    """Every key is the same; heads and rows exchanged."""
    q, v = draw(1, 2, 5, 16), draw(1, 2, 40, 16)
    k = torch.tensor(draw(1, 2, 1, 16)).expand(1, 2, 40, 16)
    want = averages(scores(q, k.numpy()), v)
    check(run("plain", q, k, v, tile=16), want, "stride 0")
    turned = [torch.tensor(x).permute(2, 3, 0, 1).contiguous().permute(2, 3, 0, 1) for x in (q, k.numpy(), v)]
    check(run("plain", *turned, tile=16), want, "turned")


@pytest.mark.parametrize(("tensor", "change"), [
    ("q", edit(r"tl\.cast\(i\[:, None\], tl\.int64\) \* stride_q_2", "i[:, None] * stride_q_2")),
    ("k", edit(r"tl\.cast\(x0\[:, None\], tl\.int64\) \* stride_k_2", "tl.cast(x0[:, None] * stride_k_2, tl.int64)")),
    ("o", edit(r"tl\.cast\(i, tl\.int64\) \* stride_o_2", "i * stride_o_2")),
])  # fmt: skip
def test_10_an_offset_in_32_bits_is_refused(tensor: str, change: Edit) -> None:
    assert refused("plain", change) == "O12", tensor


# ------------------------------------------------------------------------------------------- 11: grouped heads


@pytest.mark.parametrize(("name", "of"), [("twelve heads", [0] * 6 + [1] * 6), ("three heads", [0, 0, 1])])
def test_11_heads_of_any_ratio(name: str, of: list[int]) -> None:
    q, k, v = qkv(5, 37, b=2, h=len(of))
    everywhere(name, (q, k, v), averages(scores(q, k[:, of]), v[:, of]), (16, 0))


@pytest.mark.parametrize("other", ["h // 4", "h // 8", "h % 2", "h >> 2", "h"])
def test_11_another_head_is_refused(other: str) -> None:
    assert refused("twelve heads", edit(r"h // 6", other)) in ("O11", "O13")


def test_11_a_ratio_rounded_down_is_refused() -> None:
    """3 heads over 2: h // (3 // 2) is a head that is not there."""
    assert refused("three heads", edit(r"\(h \* 2\) // 3", "h // 1")) == "O11"
    k = kernel("three heads")
    read_back(k.loops, edit(r"\(h \* 2\) // 3", "h // 2")(k.source), "interpret")  # the same head, of three


def test_11_a_head_that_is_not_there_is_named() -> None:
    """3 heads over 2, as h // (3 // 2): the third head has no keys."""
    g = attention(H=3, KV=2)
    with pytest.raises(nv.UnsupportedProgram, match=r"read of k at index 2 in qk .*: its dimension 1 has length 2"):
        nv.Program.from_te(g.inputs, g.outputs, "heads", g.facts)


# ------------------------------------------------------------------------------------------- 12: tail, score and mask

BLOCK = 16


@pytest.mark.parametrize("mask", ["causal", "odd keys", "lengths"])
@pytest.mark.parametrize("score", ["bias", "slopes"])
def test_12_tails_scores_and_masks(score: str, mask: str) -> None:
    name = f"{score}, {mask}"
    for n in (1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 1):
        for m in (n, 3):
            q, k, v = qkv(m, n, b=2)
            i, j = np.arange(m)[:, None], np.arange(n)[None, :]
            have = np.array([n - n // 2, n])
            live = {"causal": j <= i, "odd keys": j % 2 == 1, "lengths": j < have[:, None, None, None]}[mask]
            extra = draw(2, m, n, seed=7) if score == "bias" else np.array([0.25, 0.5], np.float32)
            added = extra if score == "bias" else extra[:, None, None].astype(float) * (j - (n - 1))
            inputs = (q, k, v, extra, *([have.astype(np.int32)] if mask == "lengths" else []))
            want = averages(scores(q, k) + added, v, live)
            everywhere(name, inputs, want, (BLOCK, 0) if m == n else (BLOCK,))


def test_12_a_score_of_padding_that_is_counted_is_refused() -> None:
    """What stands beyond the keys has a score too: that of the bias, or of the distance."""
    assert refused("bias, causal", edit(MASKED_MAX, r"tl.max(\2")) == "O13"
    assert refused("slopes, odd keys", edit(MASKED_MAX, r"tl.max(\2")) == "O13"


def test_12_alibi() -> None:
    inputs = qkv(33, 33)
    distance = np.arange(33)[None, :] - np.arange(33)[:, None]
    want = averages(scores(*inputs[:2]) + np.array([0.25, 0.5])[:, None, None] * distance, inputs[2])
    everywhere("alibi", inputs, want)


# ------------------------------------------------------------------------------------------- 13: odd keys


def full_tiles(source: str) -> str:
    """Whole tiles in a loop of their own, without the mask."""
    at, end = source.index("    for x0_start in range(x0_lo"), source.index("    tl.store(")
    loop, whole = source[at:end], "(N // BLOCK_X0) * BLOCK_X0"
    assert "((x0 % 2) == 1)" in loop
    first = loop.replace("range(x0_lo, x0_hi,", f"range(0, {whole},").replace("((x0 % 2) == 1)", "(x0 < N)")
    return source[:at] + first + loop.replace("range(x0_lo, x0_hi,", f"range({whole}, x0_hi,") + source[end:]


@pytest.mark.parametrize("n", [1, 2, 16, 17, 33, 100, 129])
def test_13_odd_keys_alone(n: int) -> None:
    q, k, v = qkv(5, n)
    s = scores(q, k)[..., 1::2]
    everywhere("odd keys", (q, k, v), averages(s, v[:, :, 1::2]) if n > 1 else averages(s, v[:, :, :0]))


def test_13_a_whole_tile_is_no_full_tile() -> None:
    """O13: a term where the definition has none. (The list names O10, which a bound that is off by one meets.)"""
    assert refused("odd keys", full_tiles) == "O13"
    assert refused("odd keys", edit(r"% 2\) == 1", "% 2) == 0")) == "O13"
    assert refused("odd keys", edit(r"\(N // 2\) \* 2\) - 1", "(N // 2) * 2) - 2")) == "O10"


# ------------------------------------------------------------------------------------------- 14: head dimensions


@pytest.mark.parametrize(("d", "dv"), DIMENSIONS)
def test_14_head_dimensions(d: int, dv: int) -> None:
    inputs = qkv(18, 37, d=d, dv=dv)
    everywhere(f"{d} and {dv}", inputs, averages(scores(*inputs[:2]), inputs[2]), (16, 0))


def test_14_a_rounded_dimension_is_refused() -> None:
    assert refused("72 and 17", edit(r"r1_0 < 72", "r1_0 < 128", every=True)) == "O11"
    assert refused("72 and 17", edit(r"c < 17", "c < 32", every=True)) == "O11"


# ------------------------------------------------------------------------------------------- 15: nothing at all


@pytest.mark.parametrize("name", ["plain", "bottom-right", "lengths", "odd keys", "window"])
@pytest.mark.parametrize(("b", "m", "n"), [(0, 3, 5), (2, 0, 5), (2, 3, 0), (0, 0, 0), (2, 0, 0)])
def test_15_empty_lengths(name: str, b: int, m: int, n: int) -> None:
    more = (np.zeros(b, np.int32),) if name == "lengths" else ()
    for tile in (16, 0):
        o, lse = run(name, *qkv(m, n, b=b), *more, tile=tile)
        assert o.shape == (b, 2, m, 16)
        assert lse.shape == (b, 2, m)
        assert (o == 0).all()
        assert (lse == -INF).all()


def test_15_a_result_that_is_missing_is_refused() -> None:
    assert refused("plain", edit(r"    tl\.store\(lse_ptr.*\n", "")) == "O11"
    assert refused("plain", edit(r"    if programs:\n", "    if programs and N:\n")) == "O13"


# ------------------------------------------------------------------------------------------- probes


def test_the_order_of_the_keys_does_not_matter() -> None:
    q, k, v = qkv(20, 96)
    want = averages(scores(q, k), v)
    for seed in range(3):
        blocks = np.random.default_rng(seed).permutation(6)
        order = np.concatenate([np.arange(16) + 16 * x for x in blocks])
        everywhere("plain", (q, k[:, :, order], v[:, :, order]), want, (16, 0))


@pytest.mark.parametrize("logit", [0.0, 30.0, -200.0, 1e5, -1e5, -1e30])
def test_a_constant_added_to_all_logits(logit: float) -> None:
    """-1e30 and the like are no stand-ins for -inf: as the only logits they have all the weight."""
    q, k, v = qkv(5, 37)
    small = abs(logit) < 1000
    s = scores(q, k) if small else np.zeros((1, 2, 5, 37))
    inputs = (q if small else q * 0, k, v, np.full(37, logit, np.float32))
    everywhere("key bias", inputs, averages(s + np.float32(logit).astype(float), v), (2, 16, 0))


@pytest.mark.parametrize("name", ["plain", "bottom-right", "odd keys", "window"])
def test_v_of_ones_gives_the_mass(name: str) -> None:
    for m, n in ((5, 37), (37, 5)):
        q, k, v = qkv(m, n)
        for tile in (16, 0):
            o, lse = run(name, q * 10, k, np.ones_like(v), tile=tile)
            np.testing.assert_allclose(o, np.broadcast_to((lse > -INF)[..., None], o.shape), atol=1e-6)


@pytest.mark.parametrize("dead", [(0, 16), (0, 40), (16, 32), (90, 96), (0, 96), (0, 95)])
def test_dead_blocks(dead: tuple[int, int]) -> None:
    q, k, v = qkv(5, 96)
    bias = draw(96)
    bias[slice(*dead)] = -INF
    everywhere("key bias", (q, k, v, bias), averages(scores(q, k) + bias, v), (16, 0, 128))


@pytest.mark.parametrize("change", [
    edit(GUARDED_SHIFT, "m_new", every=True),
    edit(r'm = tl\.full\(\[BLOCK_I\], float\("-inf"\)', "m = tl.full([BLOCK_I], -50000.0"),
])  # fmt: skip
def test_a_dead_first_block_without_a_guard_is_refused(change: Edit) -> None:
    """exp(-inf - (-inf)); a running maximum that starts at a finite number."""
    assert refused("key bias", change) in ("O8", "O13")


@pytest.mark.parametrize("name", ["bottom-right", "window", "odd keys"])
def test_what_no_row_of_the_tile_sees_may_be_anything(name: str) -> None:
    m, n = 37, 90
    q, k, v = qkv(m, n)
    i, j = np.arange(m)[:, None], np.arange(n)[None, :]
    live = {"bottom-right": j <= i + n - m, "window": (i >= j) & (i - j < 5), "odd keys": (j % 2 == 1) & (i >= 0)}[name]
    want = averages(scores(q, k), v, live)
    for first in range(0, m, 16):  # the "small" configuration has tiles of 16 rows
        unseen = ~live[first : first + 16].any(axis=0)
        assert unseen.any() or name == "bottom-right"
        bad_k, bad_v = k.copy(), v.copy()
        bad_k[:, :, unseen], bad_v[:, :, unseen] = np.nan, INF
        bad_k[:, :, unseen, ::3], bad_v[:, :, unseen, ::2] = INF, np.nan
        for tile in (16, 0):
            o, lse = run(name, q, bad_k, bad_v, tile=tile, config="small")
            rows = slice(first, first + 16)
            check((o[:, :, rows], lse[:, :, rows]), (want[0][:, :, rows], want[1][:, :, rows]), f"{name}, from {first}")


def test_lengths_are_those_of_the_shapes() -> None:
    with pytest.raises(nv.ShapeError, match="N ="):
        run("plain", draw(1, 2, 3, 16), draw(1, 2, 5, 16), draw(1, 2, 4, 16))

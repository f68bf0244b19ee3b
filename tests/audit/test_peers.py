"""Peers by name, and those of examples/peers.py against attention in float64, written anew here."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from neptune_verified.auditing.peers import load_peers
from neptune_verified.user_files import UsageError, load_file

EXAMPLES = Path(__file__).parents[2] / "examples"
D, WINDOW = 16, 5
#: Query heads, key heads, whether there is a mask, slopes, a soft cap.
OPERATORS: dict[str, tuple[int, int, bool, bool, float]] = {
    "attention": (2, 2, False, False, 0),
    "causal": (2, 2, True, False, 0),
    "attention_lse": (2, 2, False, False, 0),
    "pf_global": (2, 2, False, False, 0),
    "pf_causal": (2, 2, True, False, 0),
    "pf_alibi": (2, 2, True, True, 0),
    "pf_gqa": (4, 1, True, False, 0),
    "pf_softcap": (4, 2, True, False, 2.0),
    "pf_window": (3, 1, True, False, 2.0),
    "dc_causal": (2, 2, False, False, 0),
    "dc_alibi": (2, 2, False, True, 0),
    "dc_gqa": (6, 2, False, False, 0),
    "dc_softcap": (4, 2, False, False, 2.0),
}
LENGTHS = ((9, 20), (20, 9), (7, 7), (1, 1), (3, 0), (0, 3))


def definition(name: str) -> Path:
    return EXAMPLES / ("operators.py" if name[:3] in ("pf_", "dc_") else "attention.py")


def given(name: str, M: int, N: int, dtype: torch.dtype) -> list[torch.Tensor]:
    H, Hk, _, slopes, _ = OPERATORS[name]
    g = torch.Generator().manual_seed(M * 100 + N)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=g).to(dtype)

    if definition(name).stem == "attention":
        return [draw(H, n, D) for n in (M, N, N)]
    q = draw(2, H, D) if name.startswith("dc_") else draw(2, H, M, D)
    found = [q, draw(2, Hk, N, D), draw(2, Hk, N, D)]
    return [*found, torch.tensor([2.0 ** -(h + 1) for h in range(H)])] if slopes else found


def reference(name: str, x: list[torch.Tensor], window: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """The output and the log-sum-exp, in float64."""
    _, _, causal, alibi, cap = OPERATORS[name]
    q, k, v = (t.double() for t in x[:3])
    decode = name.startswith("dc_")
    q = q[:, :, None] if decode else q
    H, M, N = q.shape[-3], q.shape[-2], k.shape[-2]
    k, v = (t.repeat_interleave(H // t.shape[-3], dim=-3) for t in (k, v))
    s = q @ k.transpose(-1, -2) / math.sqrt(D)
    i, j = torch.arange(N - M, N)[:, None], torch.arange(N)[None, :]
    s = s + x[3].double()[:, None, None] * (j - i) if alibi else s
    s = cap * torch.tanh(s / cap) if cap else s
    if causal:
        s = s.masked_fill((j > i) | ((i - j >= window) if window else False), -math.inf)
    lse = s.logsumexp(-1) if N else s.new_full(s.shape[:-1], -math.inf)
    o = torch.exp(s - lse[..., None]).nan_to_num(nan=0.0) @ v
    return (o[..., 0, :], lse[..., 0]) if decode else (o, lse)


def options(name: str) -> dict[str, Any]:
    cap, window = OPERATORS[name][4], WINDOW if name == "pf_window" else 0
    return ({"cap": cap} if cap else {}) | ({"window": window} if window else {})


@pytest.mark.parametrize(
    ("name", "dtype"), [*((n, torch.float32) for n in OPERATORS), ("causal", torch.float16), ("pf_gqa", torch.bfloat16)]
)
def test_flex(name: str, dtype: torch.dtype) -> None:
    peer = load_peers("flex", definition(name), name, options(name) | {"lse": True, "H": 2})["flex"]
    for M, N in LENGTHS if dtype is torch.float32 else LENGTHS[:2]:
        x = given(name, M, N, dtype)
        o, lse = peer(*x)
        want, want_lse = reference(name, x, WINDOW if name == "pf_window" else 0)
        assert o.dtype == dtype and o.shape == want.shape and lse.shape == want_lse.shape
        limit = 1e-5 if dtype is torch.float32 else 2e-2
        torch.testing.assert_close(o.double(), want, atol=limit, rtol=limit)
        torch.testing.assert_close(lse.double(), want_lse, atol=limit, rtol=limit)


@pytest.mark.parametrize("name", [n for n in OPERATORS if not OPERATORS[n][4]])
def test_sdpa(name: str) -> None:
    peer = load_peers("sdpa", definition(name), name)["sdpa"]
    for M, N in LENGTHS:
        x = given(name, M, N, torch.float32)
        o = peer(*x)
        o = o[0] if isinstance(o, tuple) else o
        torch.testing.assert_close(o.double(), reference(name, x)[0], atol=1e-5, rtol=1e-5)


def test_a_window_without_a_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPERATORS, "pf_window", (3, 1, True, False, 0))
    peers = load_peers("flex,sdpa", definition("pf_window"), "pf_window", {"cap": 0, "window": WINDOW})
    for M, N in LENGTHS:
        x = given("pf_window", M, N, torch.float32)
        want = reference("pf_window", x, WINDOW)[0]
        for peer in peers.values():
            torch.testing.assert_close(peer(*x).double(), want, atol=1e-5, rtol=1e-5)


def test_dead_rows_are_zero() -> None:
    for name in ("causal", "pf_causal", "pf_alibi", "pf_gqa"):
        for peer in load_peers("flex,sdpa", definition(name), name).values():
            o = peer(*given(name, 20, 9, torch.float16))
            assert not o[..., :11, :].any() and o[..., 11:, :].abs().sum() > 0


def test_what_peers_cannot_do() -> None:
    x = given("pf_softcap", 3, 3, torch.float32)
    for peer, program, parameters, text in (
        ("sdpa", "pf_softcap", {}, "SDPA has no soft cap: compare with cap=0, or against flex"),
        ("flex", "pf_softcap", {"sink": True}, "FlexAttention knows no sink"),
        ("flex", "two_consumers", {}, "FlexAttention knows no 'two_consumers'; it knows attention, causal"),
        ("cudnn", "pf_causal", {}, "cuDNN runs on a GPU alone"),
        ("flash", "pf_causal", {}, "flash runs on a GPU alone"),
    ):
        with pytest.raises(NotImplementedError, match=text):
            load_peers(peer, EXAMPLES / "peers.py", program, parameters)[peer](*x)


@pytest.mark.gpu
@pytest.mark.skipif(
    not torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1",
    reason="needs a GPU and TRITON_INTERPRET=0",
)
@pytest.mark.parametrize("name", OPERATORS)
def test_peers_on_a_gpu(name: str) -> None:
    for M, N in ((200, 200), (100, 300), (300, 100)):
        x = [t.cuda() for t in given(name, M, N, torch.float16)]
        want, want_lse = reference(name, [t.cpu() for t in x], WINDOW if name == "pf_window" else 0)
        more = options(name) | {"lse": True, "row_max": True}
        for who, peer in load_peers("flex,sdpa,cudnn,flash", EXAMPLES / "peers.py", name, more).items():
            try:
                found = peer(*x)
            except (NotImplementedError, RuntimeError):
                assert who != "flex" and (who != "sdpa" or OPERATORS[name][4])
                continue
            o, *rows = found if isinstance(found, tuple) else (found,)
            torch.testing.assert_close(o.double().cpu(), want, atol=4e-3, rtol=4e-3)
            if who == "flex":
                torch.testing.assert_close(rows[0].double().cpu(), want_lse, atol=4e-3, rtol=4e-3)
                assert rows[1].shape == rows[0].shape and (rows[1] <= rows[0] + 1e-3).all()


def test_peers_need_no_tvm() -> None:
    code = f"""
import sys
sys.modules["tvm"] = None
from neptune_verified.auditing.peers import load_peers
assert set(load_peers("{EXAMPLES}/peers.py:flex,sdpa,cudnn,flash")) == {{"flex", "sdpa", "cudnn", "flash"}}
assert "torch" not in sys.modules
try:
    load_peers("flex", "{EXAMPLES}/attention.py")
except Exception as e:
    print(e)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "ModuleNotFoundError" in done.stdout and "keep the peers in a file that does without it" in done.stdout


# ---------------------------------------------------------------------------------------------------- by name

OURS = """
import math
LIMIT = 3
def double(x, *, program, scale=1.0, other="unset"):
    return x * 2 * scale, program, other
def plain(x, scale=5):
    return scale
def kernel(x): pass
absolute = math.fabs
"""


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    (tmp_path / "ours.py").write_text(OURS)
    return tmp_path / "ours.py"


def test_arguments_by_keyword(ours: Path) -> None:
    peers = load_peers("double,plain,absolute", ours, "p", {"scale": 3, "H": 4})
    assert list(peers) == ["double", "plain", "absolute"]
    assert peers["double"](1) == (6, "p", "unset") and peers["plain"](1) == 5 and peers["absolute"](-2) == 2


def test_files_and_names(ours: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text("from ours import plain\ndef third(x): return 3\ndef double(x): return 0\n")
    assert list(load_peers(f"{other}:third,plain")) == ["third", "plain"]
    assert list(load_peers(f"double,{other}:third", ours)) == ["double", "third"]
    assert list(load_peers([f"{other}:third", "double"], ours)) == ["third", "double"]
    assert load_peers([f"{other}:double"], ours)["double"](1) == 0


def test_errors(ours: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("x = 1 / 0\n")
    (tmp_path / "other.py").write_text("def double(x): return 0\n")
    for names, text in (
        (
            "nothing",
            "it has no 'nothing'; its functions are double, plain, kernel; for another file write FILE.py:nothing",
        ),
        ("LIMIT", "LIMIT is of type int, no function"),
        ("a b", "'a b' is neither a NAME nor FILE.py:NAME"),
        ("double,", "'' is neither a NAME nor FILE.py:NAME"),
        (":double", "':double' is neither a NAME nor FILE.py:NAME"),
        (f"{tmp_path}/none.py:double", "none.py: no such file"),
        (f"{tmp_path}/bad.py:double", "bad.py:1: ZeroDivisionError"),
        (f"double,{tmp_path}/other.py:double", "two peers are called 'double'"),
        ("kernel", "a peer cannot be called 'kernel'"),
    ):
        with pytest.raises(UsageError) as e:
            load_peers(names, ours)
        assert text in str(e.value), e.value
    with pytest.raises(UsageError, match=r"the definition's file is not known here: write FILE\.py:flex"):
        load_peers("flex")


def test_files_of_one_name_in_two_folders(tmp_path: Path) -> None:
    for k in (1, 2):
        folder = tmp_path / str(k)
        folder.mkdir()
        (folder / "helpers_of_two.py").write_text(f"value = {k}\n")
        (folder / "main.py").write_text("from helpers_of_two import value\n")
    assert [load_file(tmp_path / str(k) / "main.py").value for k in (1, 2, 1)] == [1, 2, 1]
    assert not any(str(tmp_path) in p for p in sys.path)

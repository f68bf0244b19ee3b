"""Emitted kernels against float64 on a GPU: ``python benchmarks/correctness.py --kernels build/bench``.

Every output is poisoned first, inputs are fresh for every case, and NaN never passes. Exit code 1 if a case fails.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from pathlib import Path
from types import ModuleType

import torch

LENGTHS = (1, 127, 128, 1000, 8192)
#: Relative RMS error against float64 that a kernel of this dtype must stay under. (In fp32 it grows with the square root
#: of the number of keys: 6.5e-7 at 1000, 1.7e-6 at 8192.)
LIMITS = {torch.float32: 2.5e-6, torch.float16: 5e-4, torch.bfloat16: 4e-3}
#: The sum below a 16-bit product sees the rounded weights (so that V = 1 gives 1), and the log-sum-exp is taken of it.
LSE_LIMIT = 1e-5


def load(folder: Path) -> tuple[ModuleType, str]:
    """The kernel module and the name of its launcher."""
    name = json.loads((folder / "certificate.json").read_text())["kernel"]["name"]
    spec = importlib.util.spec_from_file_location(folder.name, folder / "kernel.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, name


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Unfused float64 attention, head by head (a whole score tensor would not fit), and its log-sum-exp."""
    outputs, sums = [], []
    for qh, kh, vh in zip(q.double(), k.double(), v.double(), strict=True):
        rows = []
        for part, first in ((qh[i : i + 2048], i) for i in range(0, max(1, qh.shape[0]), 2048)):
            s = part @ kh.T / qh.shape[1] ** 0.5
            if causal:
                i = torch.arange(first, first + part.shape[0], device=q.device)[:, None] + (kh.shape[0] - qh.shape[0])
                s = s.masked_fill(torch.arange(kh.shape[0], device=q.device)[None, :] > i, float("-inf"))
            rows.append((torch.nan_to_num(torch.softmax(s, -1), nan=0.0) @ vh, torch.logsumexp(s, -1)))
        outputs.append(torch.cat([r[0] for r in rows]))
        sums.append(torch.cat([r[1] for r in rows]))
    return torch.stack(outputs), torch.stack(sums)


def error(have: torch.Tensor, want: torch.Tensor) -> float:
    """Relative RMS; infinite where anything is not finite."""
    have = have.double()
    if not torch.isfinite(have).all():
        return float("inf")
    return float((have - want).norm() / want.norm().clamp_min(1e-30))


def attention_cases(folder: Path) -> list[tuple[str, float, float]]:
    module, name = load(folder)
    launch = getattr(module, name)
    _, dtype_name, heads, dim = folder.name.split("_")
    dtype, heads, dim = getattr(torch, dtype_name), int(heads[1:]), int(dim[1:])
    results = []
    for m, n in [(n, n) for n in LENGTHS] + [(1, 8192), (130, 77), (77, 130), (0, 5), (5, 0)]:
        torch.manual_seed(m * 10007 + n)
        q, k, v = (torch.randn(heads, x, dim, device="cuda", dtype=dtype) for x in (m, n, n))
        out = torch.full((heads, m, dim), float("nan"), device="cuda", dtype=dtype)
        launch(q, k, v, out=out)
        want, _ = attention(q, k, v, causal=name == "causal")
        results.append((f"{m}x{n}", error(out, want), LIMITS[dtype]))
    q, k, v = (torch.randn(300, heads, dim, device="cuda", dtype=dtype).transpose(0, 1) for _ in range(3))
    results.append(("300 strided", error(launch(q, k, v), attention(q, k, v, name == "causal")[0]), LIMITS[dtype]))
    return results


def other_attention_cases(folder: Path) -> list[tuple[str, float, float]]:
    """fp32 attention, and attention with its log-sum-exp as a second output (4 heads of 64)."""
    module, name = load(folder)
    dtype = torch.float16 if name == "attention_lse" else torch.float32
    results = []
    for n in LENGTHS:
        torch.manual_seed(n)
        q, k, v = (torch.randn(4, n, 64, device="cuda", dtype=dtype) for _ in range(3))
        have = getattr(module, name)(q, k, v)
        want, lse = attention(q, k, v, causal=False)
        if name == "attention_lse":
            results.append((f"{n}x{n} lse", error(have[1], lse), LSE_LIMIT))
            have = have[0]
        results.append((f"{n}x{n}", error(have, want), LIMITS[dtype]))
    return results


def row_cases(folder: Path) -> list[tuple[str, float, float]]:
    module, name = load(folder)
    launch = getattr(module, name)
    results = []
    for rows, columns in [(3, n) for n in LENGTHS] + [(4096, 4096), (1, 131072)]:
        torch.manual_seed(columns)
        x = torch.randn(rows, columns, device="cuda")
        y = x.double()
        m = y.amax(1, keepdim=True)
        want = {
            "softmax": torch.softmax(y, 1),
            "logsumexp": torch.logsumexp(y, 1),
            "l2norm": torch.linalg.vector_norm(y, dim=1),
            "softplus_sum": torch.nn.functional.softplus(y - m).sum(1),
        }[name]
        results.append((f"{rows}x{columns}", error(launch(x), want), 2e-6))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    failed = 0
    for folder in sorted(options.kernels.iterdir()):
        if folder.name.count("_h"):
            results = attention_cases(folder)
        elif folder.name.startswith("attention"):
            results = other_attention_cases(folder)
        else:
            results = row_cases(folder)
        for case, have, limit in results:
            failed += not have <= limit
            print(f"{folder.name:32} {case:14} {have:.2e} {'ok' if have <= limit else f'FAILED, limit {limit:.0e}'}")
    print(f"{failed} failed")
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()

"""Attention beside FlexAttention and cuDNN in one run: ``python benchmarks/attention.py --kernels build/bench``.

Times are medians of CUDA-event timings over rounds in which all contestants run in random order (a fixed order favours
whatever runs on a cooler card); ratios are to cuDNN in the same run. Inputs are standard normal, never zeros.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections.abc import Callable
from pathlib import Path

import torch
import triton
from correctness import load
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def contestants(kernels: Path, name: str, dtype: torch.dtype, length: int) -> dict[str, Callable[[], torch.Tensor]]:
    heads, dim = 32, 128
    q, k, v = (torch.randn(1, heads, length, dim, device="cuda", dtype=dtype) for _ in range(3))
    causal = name == "causal"
    module, launcher = load(kernels / f"{name}_{str(dtype).removeprefix('torch.')}_h{heads}_d{dim}")
    ours = getattr(module, launcher)
    table = getattr(module, f"_{launcher.upper()}_KERNEL_CONFIGS")
    found: dict[str, Callable[[], torch.Tensor]] = {
        f"neptune_verified/{config}": (lambda config=config: ours(q[0], k[0], v[0], config=config)[None])
        for config in table
        if config != "small"
    }
    mask = None
    if causal:
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, length, length, device="cuda")
    flex = torch.compile(flex_attention, dynamic=False)
    found["flex"] = lambda: flex(q, k, v, block_mask=mask)

    def cudnn() -> torch.Tensor:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    found["cudnn"] = cudnn
    return found


def measure(found: dict[str, Callable[[], torch.Tensor]], rounds: int) -> dict[str, float]:
    """Median milliseconds of each contestant; all must agree with cuDNN first."""
    want = found["cudnn"]().float()
    for name, run in list(found.items()):
        difference = (run().float() - want).norm() / want.norm()
        if not difference < 5e-3:
            raise SystemExit(f"{name} disagrees with cuDNN: {difference:.1e}")
    times: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(rounds):
        for name in random.sample(list(found), len(found)):
            times[name].append(triton.testing.do_bench(found[name], warmup=10, rep=60, return_mode="median"))
    return {name: statistics.median(t) for name, t in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=Path, default=Path("build/bench"))
    parser.add_argument("--lengths", type=int, nargs="+", default=[2048, 8192])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}")
    for name in ("attention", "causal"):
        for dtype in (torch.float16, torch.bfloat16):
            for length in options.lengths:
                times = measure(contestants(options.kernels, name, dtype, length), options.rounds)
                flops = 4 * 32 * length * length * 129 / (2 if name == "causal" else 1)
                for who, ms in times.items():
                    row = {"program": name, "dtype": str(dtype), "length": length, "who": who, "ms": ms}
                    row |= {"tflops": flops / ms / 1e9, "of_cudnn": times["cudnn"] / ms, "of_flex": times["flex"] / ms}
                    rows.append(row)
                    print(f"{name:10} {dtype!s:15} {length:6} {who:26} {ms:8.3f} ms {row['tflops']:6.0f} TFLOP/s "
                          f"{row['of_cudnn']:5.2f} of cuDNN {row['of_flex']:5.2f} of flex", flush=True)  # fmt: skip
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

"""Compile the benchmark programs to stand-alone kernel folders: ``python benchmarks/build.py --out build/bench``.

Runs on a machine with no GPU; carry the folder to one with a GPU and run ``correctness.py`` and ``attention.py`` there,
which need torch and triton alone.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

#: name -> (definition, parameters)
PROGRAMS = {
    f"{name}_{dtype}_h{heads}_d{dim}": (f"examples/attention.py:{name}", {"H": heads, "D": dim, "dtype": dtype})
    for name in ("attention", "causal")
    for dtype in ("float16", "bfloat16")
    for heads, dim in ((4, 64), (32, 128))
} | {
    "softmax": ("examples/softmax.py:softmax", {}),
    "logsumexp": ("examples/softmax.py:logsumexp", {}),
    "l2norm": ("examples/norms.py:l2norm", {}),
    "softplus_sum": ("examples/unfusable.py:softplus_sum", {}),
    "attention_lse": ("examples/attention.py:attention_lse", {"dtype": "float16"}),
    "attention_float32": ("examples/attention.py:attention", {"dtype": "float32"}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--target", default="cuda:90")
    options = parser.parse_args()
    from neptune_verified.cli import read_definition
    from neptune_verified.pipeline import compile

    for name, (definition, parameters) in PROGRAMS.items():
        program, _ = read_definition(definition, parameters)
        kernel = compile(program, options.target)
        print(f"{name}: {kernel.passes} pass(es), {kernel.save(options.out / name)}")


if __name__ == "__main__":
    main()

"""Numerical errors of the ten operators of examples/operators.py, as in table 5 of Neptune's paper, with peers.

    python benchmarks/table5.py build  --out build/table5       # here: kernels, and activations of the pretrained model
    python benchmarks/table5.py run    --build build/table5 --out table5.json      # on a GPU: torch and triton alone

RMS error against float64, unfused; in fp16. Two kinds of inputs: activations of the BERT that the tests use (its heads of
64; layers and pairs of sequences are stacked to reach the operator's heads), and standard normal numbers at the operator's
own heads of 128 and --length. "x2" is the same kernel with `operands="x2"`, where that is not the default. Neptune's column
is from its paper: activations of other models, for orientation.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

#: Query heads, key heads, and RMS of Neptune, FlexAttention and FlashAttention in its table 5 (NaN: not given).
OPERATORS: dict[str, tuple[int, int, tuple[float, float, float]]] = {
    "pf_global": (32, 32, (4.2e-5, 4.4e-5, 4.2e-5)),
    "pf_causal": (32, 32, (4.1e-5, 4.2e-5, 4.2e-5)),
    "pf_alibi": (32, 32, (4.3e-5, 4.3e-5, 5.4e-5)),
    "pf_gqa": (64, 8, (4.3e-5, 4.4e-5, 4.5e-5)),
    "pf_softcap": (32, 16, (2.4e-5, 2.4e-5, math.nan)),
    "pf_window": (32, 8, (2.4e-5, 2.4e-5, 2.5e-5)),
    "dc_causal": (32, 32, (3.9e-5, 3.0e-5, math.nan)),
    "dc_alibi": (32, 32, (4.3e-5, 4.1e-5, math.nan)),
    "dc_gqa": (64, 8, (3.4e-5, 2.6e-5, math.nan)),
    "dc_softcap": (32, 16, (1.4e-5, 1.3e-5, math.nan)),
}
PEERS = ("flex", "cudnn", "flash")
ACTIVATIONS = "activations.pt"
TWICE = "x2"


# ----------------------------------------------------------------------------------------------------------- build


def build(options: argparse.Namespace) -> int:
    import torch

    import neptune_verified as nv
    from neptune_verified.cli import read_definition

    options.out.mkdir(parents=True, exist_ok=True)
    torch.save(stacked_activations(), options.out / ACTIVATIONS)
    for name, (H, Hk, _) in OPERATORS.items():
        for D in (64, 128):
            program, _ = read_definition(f"{ROOT}/examples/operators.py:{name}", {"H": H, "Hk": Hk, "D": D})
            kernel = nv.compile(program, options.target)
            print(kernel.save(options.out / f"{name}-{D}"), flush=True)
            twice = nv.compile(program, options.target, operands=TWICE)
            if twice.source != kernel.source:
                print(twice.save(options.out / f"{name}-{D}-{TWICE}"), flush=True)
    return 0


def stacked_activations() -> list[dict[str, Any]]:
    """q, k and v of each pair of sequences next to each other in length: [96, length of the shorter, 64], float16."""
    import torch

    from tests.assets.bert import REACTIONS, activations

    found = []
    smiles = list(REACTIONS.values())
    per_sequence = {s: activations([s]) for s in smiles}
    ordered = sorted(smiles, key=lambda s: per_sequence[s][0].q.shape[1])
    for pair in zip(ordered[::2], ordered[1::2], strict=True):
        n = min(per_sequence[s][0].q.shape[1] for s in pair)
        both = [a for s in pair for a in per_sequence[s]]
        found.append({x: torch.cat([getattr(a, x)[:, :n] for a in both]).half() for x in "qkv"})
    return found


# ----------------------------------------------------------------------------------------------------------- run


def samples(name: str, H: int, Hk: int, stacks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Inputs of one operator. Key head g is that of the first query head of its group, of the same layer."""
    import torch

    slopes = {"slopes": 2.0 ** (-8.0 * torch.arange(1, H + 1, dtype=torch.float32) / H)} if "alibi" in name else {}
    for stack in stacks:
        q, k, v = (stack[x] for x in "qkv")
        of_group = torch.arange(Hk) * (H // Hk)
        k, v = k[of_group][None], v[of_group][None]
        if name.startswith("pf_"):
            yield {"q": q[None, :H], "k": k, "v": v, **slopes}
        else:  # each token in its turn is the one query: a batch over the same keys
            n = q.shape[1]
            q = q[:H].transpose(0, 1).contiguous()
            yield {"q": q, **{x: y.expand(n, -1, -1, -1).contiguous() for x, y in (("k", k), ("v", v))}, **slopes}


def run(options: argparse.Namespace) -> int:
    import torch

    import neptune_verified as nv
    from neptune_verified.auditing.peers import load_peers
    from neptune_verified.auditing.run import audit

    stacks = torch.load(options.build / ACTIVATIONS, weights_only=True)
    rows = []
    for name, (H, Hk, _) in OPERATORS.items():
        for kind, D in (("activations", 64), ("normal", 128)):
            folder = options.build / f"{name}-{D}"
            if not folder.is_dir():
                continue
            peers = load_peers(list(options.peers), ROOT / "examples" / "peers.py", name, {})
            if (twice := folder.with_name(f"{folder.name}-{TWICE}")).is_dir():
                peers[TWICE] = nv.load(twice)
            sizes = {"B": 1, "N": options.length} | ({"M": options.length} if name.startswith("pf_") else {})
            given = (
                {"inputs": list(samples(name, H, Hk, stacks))}
                if kind == "activations"
                else {"families": ["normal"], "sizes": sizes, "seeds": 1 if name.startswith("pf_") else options.steps}
            )
            result = audit(folder, against=peers, **given)
            rows.append(row(name, kind, result))
            print(shown(rows[-1]), flush=True)
            if options.out:
                about = {"gpu": result.machine["gpu"], "torch": result.machine["torch"], "length": options.length}
                options.out.parent.mkdir(parents=True, exist_ok=True)
                options.out.write_text(json.dumps(about | {"rows": rows}, indent=1))
    return int(not all(r["ok"] for r in rows))


def row(name: str, kind: str, result: Any) -> dict[str, Any]:
    """``beside``: the kernel's RMS error over each peer's, over the samples that the peer ran."""
    from neptune_verified.auditing.result import KERNEL, UNFUSED

    totals = {c: result.total(c, "o") for c in result.contestants}
    known = {c: t for c, t in totals.items() if t.compared}
    beside = {}
    for c in known.keys() - {KERNEL, UNFUSED, TWICE}:
        both = [s.name for s in result.samples if c in s.statistics]
        beside[c] = result.total(KERNEL, "o", *both).rms / known[c].rms
    return {
        "operator": name,
        "inputs": kind,
        "samples": {c: sum(c in s.statistics for s in result.samples) for c in known},
        "rms": {c: t.rms for c, t in known.items()},
        "relative_rms": {c: t.relative_rms for c, t in known.items()},
        "beside": beside,
        "of_bound": totals[KERNEL].of_bound.largest,
        "missing": result.missing,
        "ok": result.ok,
    }


def shown(r: dict[str, Any]) -> str:
    """RMS of each, and the kernel's over each peer's."""
    cells = " ".join(f"{c} {x:.2e}" for c, x in r["rms"].items())
    beside = " ".join(f"{c} {x:.3f}" for c, x in sorted(r["beside"].items())) or "-"
    paper = OPERATORS[r["operator"]][2][0]
    verdict = "" if r["ok"] else "  OVER ITS BOUND"
    return f"{r['operator']:11} {r['inputs']:12} {cells}  kernel over {beside}  (Neptune {paper:.1e}){verdict}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    builder, runner = commands.add_parser("build"), commands.add_parser("run")
    builder.add_argument("--out", type=Path, default=Path("build/table5"))
    builder.add_argument("--target", default="cuda:90")
    builder.set_defaults(function=build)
    runner.add_argument("--build", type=Path, default=Path("build/table5"))
    runner.add_argument("--out", type=Path, help="a JSON file")
    runner.add_argument("--length", type=int, default=2048, help="of the normal inputs")
    runner.add_argument("--steps", type=int, default=16, help="draws of normal inputs, in decode")
    runner.add_argument("--peers", nargs="*", default=PEERS)
    runner.set_defaults(function=run)
    options = parser.parse_args()
    raise SystemExit(options.function(options))


if __name__ == "__main__":
    main()

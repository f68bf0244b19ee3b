"""The ten operators of examples/operators.py on a GPU: right, and how fast beside FlexAttention and SDPA in one run.

    python benchmarks/operators.py build --out build/operators              # here: compiles and proves; no GPU needed
    python benchmarks/operators.py correct --build build/operators --out correct.json    # on a GPU: torch and triton alone
    python benchmarks/operators.py time --build build/operators --out time.json          # likewise

``build`` makes each operator with its own heads of 128, and a small one with sinks, log-sum-exp and row maximum; in fp16
and bf16. ``correct`` compares with unfused float64, outputs poisoned first; exit code 1 if one fails. ``time`` prints
medians and "-" for what a peer cannot do; ratios are best peer / ours. Kernels for "interpret" run on a CPU, at small
lengths, to try this file out.
"""

from __future__ import annotations

import argparse
import inspect
import json
import math
import multiprocessing
import random
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_file import load

DTYPES = ("float16", "bfloat16")
#: Greatest relative RMS error of the output; greatest error of the log-sum-exp, relative to its value or 1 (the sum sees
#: the weights that are rounded for the product beside it); of the maximum.
LIMITS = {"float16": (5e-4, 1.5e-3, 1e-5), "bfloat16": (4e-3, 1.2e-2, 1e-5)}
#: Beside equal lengths of queries and keys: more keys, more queries (the first see no key), no keys.
UNEQUAL = ((1, 1000), (130, 1000), (1000, 130), (17, 0))


@dataclass(frozen=True)
class Operator:
    H: int
    Hk: int
    causal: bool = True
    alibi: bool = False
    cap: float = 0.0
    window: int = 0

    def flops(self, B: int, n: int, D: int) -> float:
        """Of prefill: both products and the softmax, over what the mask lets through."""
        seen = min(n, self.window) if self.window else n
        return (2 if self.causal else 4) * B * self.H * n * seen * (D + 1)


OPERATORS = {
    "pf_global": Operator(32, 32, causal=False),
    "pf_causal": Operator(32, 32),
    "pf_alibi": Operator(32, 32, alibi=True),
    "pf_gqa": Operator(64, 8),
    "pf_softcap": Operator(32, 16, cap=50.0),
    "pf_window": Operator(32, 8, cap=50.0, window=4096),
    "dc_causal": Operator(32, 32),
    "dc_alibi": Operator(32, 32, alibi=True),
    "dc_gqa": Operator(64, 8),
    "dc_softcap": Operator(32, 16, cap=50.0),
}


# ----------------------------------------------------------------------------------------------------------- build


def build(options: argparse.Namespace) -> int:
    sys.path.insert(0, str(Path(__file__).parent.parent))
    import neptune_verified as nv
    from neptune_verified.cli import read_definition

    for name, op in OPERATORS.items():
        for dtype in options.dtypes:
            for small in (False, True):
                folder = options.out / f"{name}-{dtype}{'-small' if small else ''}"
                if not re.search(options.only, folder.name):
                    continue
                more = {"lse": True, "row_max": True, "sink": True} if small else {}
                more |= {"cap": op.cap} if op.cap else {}
                more |= {"window": 100 if small else op.window} if op.window else {}
                sizes = {"H": 4, "Hk": 4 * op.Hk // op.H or 1, "D": 64} if small else {"H": op.H, "Hk": op.Hk, "D": 128}
                file = Path(__file__).parent.parent / "examples" / "operators.py"
                program, _ = read_definition(f"{file}:{name}", {"dtype": dtype} | sizes | more)
                kernel = nv.compile(program, options.target)
                print(f"{kernel.save(folder)}: {kernel.passes} pass(es)", flush=True)
    return 0


# ----------------------------------------------------------------------------------------------------------- kernels


class Kernel:
    """One folder; what it computes is in its name, and its sizes in the docstring of its launcher."""

    def __init__(self, folder: Path) -> None:
        module, self.interpret = load(folder)
        import torch

        self.torch: Any = torch
        self.folder, self.device = folder.name, "cpu" if self.interpret else "cuda"
        self.name, self.dtype_name, *kind = folder.name.split("-")
        self.small, self.dtype, self.op = bool(kind), getattr(torch, self.dtype_name), OPERATORS[self.name]
        self.launch: Callable[..., Any] = getattr(module, self.name)
        self.configs = list(getattr(module, f"_{self.name.upper()}_KERNEL_CONFIGS", {}))
        described = inspect.getdoc(self.launch) or ""
        self.H, self.Hk, self.D = (
            int(x) for x in re.findall(r"^q: \[B, (\d+).*\n^k: \[B, (\d+), N, (\d+)\]", described, re.MULTILINE)[0]
        )
        self.window = (100 if self.small else self.op.window) if self.op.window else 0
        self.decode, self.grouped = self.name.startswith("dc_"), self.Hk < self.H

    def inputs(self, B: int, M: int, N: int) -> list[Any]:
        """q, k, v, then slopes and sink where the operator has them. Standard normal, never zeros."""
        t = self.torch
        g = t.Generator(device=self.device).manual_seed(M * 100003 + N)

        def normal(*shape: int) -> Any:
            return t.randn(*shape, generator=g, device=self.device, dtype=t.float32).to(self.dtype)

        q = normal(B, self.H, self.D) if self.decode else normal(B, self.H, M, self.D)
        given = [q, normal(B, self.Hk, N, self.D), normal(B, self.Hk, N, self.D)]
        if self.op.alibi:
            given.append(2.0 ** (-8.0 * t.arange(1, self.H + 1, device=self.device, dtype=t.float32) / self.H))
        if self.small:
            given.append(t.tensor([80.0, -80.0, 1.5, 0.0], device=self.device))
        return given

    def takes(self, splits: dict[str, int]) -> bool:
        return all(name in inspect.signature(self.launch).parameters for name in splits)


def kernels(options: argparse.Namespace, small: bool) -> list[Path]:
    folders = sorted(p.parent for p in options.build.glob("*/kernel.py") if re.search(options.only, p.parent.name))
    order = list(OPERATORS)
    chosen = [f for f in folders if f.name.split("-")[1] in options.dtypes and (small or not f.name.endswith("-small"))]
    return sorted(chosen, key=lambda f: order.index(f.name.split("-")[0]))


def split_options(options: argparse.Namespace) -> list[dict[str, int]]:
    """Keyword arguments of decode launchers: none, then each that was asked for."""
    return [{}, *({"splits": n} for n in options.splits), *({"split_size": n} for n in options.split_size)]


# ----------------------------------------------------------------------------------------------------------- correct


def reference(kernel: Kernel, given: list[Any]) -> tuple[Any, Any, Any]:
    """Output, log-sum-exp and maximum in float64, unfused: head by head and 1024 queries at a time, to fit."""
    t, op = kernel.torch, kernel.op
    q, k, v = (x.double() for x in given[:3])
    q = q[:, :, None] if kernel.decode else q
    (B, H, M, D), N = q.shape, k.shape[2]
    o = t.empty(B, H, M, v.shape[3], dtype=t.float64, device=q.device)
    lse, top = (t.empty(B, H, M, dtype=t.float64, device=q.device) for _ in range(2))
    key = t.arange(N, device=q.device)[None, :]
    for b, h, first in ((b, h, i) for b in range(B) for h in range(H) for i in range(0, M, 1024)):
        rows = slice(first, first + 1024)
        kv = h * kernel.Hk // H
        query = t.arange(M, device=q.device)[rows, None] + (N - M)
        s = q[b, h, rows] @ k[b, kv].T / math.sqrt(D)
        if op.alibi:
            s = s + given[3][h].double() * (key - query)
        if op.cap:
            s = op.cap * t.tanh(s / op.cap)
        if op.causal:
            s = s.masked_fill(key > query, -math.inf)
        if kernel.window:
            s = s.masked_fill(query - key >= kernel.window, -math.inf)
        if kernel.small:  # the sink, a logit whose value is 0
            s = t.cat([s, given[-1][h].double().expand(s.shape[0], 1)], dim=1)
        lse[b, h, rows] = t.logsumexp(s, 1) if s.shape[1] else -math.inf
        top[b, h, rows] = s.amax(1) if s.shape[1] else -math.inf
        o[b, h, rows] = t.nan_to_num(t.exp(s - lse[b, h, rows, None]), nan=0.0)[:, :N] @ v[b, kv]
    return (o[:, :, 0], lse[:, :, 0], top[:, :, 0]) if kernel.decode else (o, lse, top)


def errors(have: Any, want: Any) -> tuple[float, float]:
    """Relative RMS, and the largest, each relative to its value or 1; infinite where NaN or infinities differ."""
    have, finite = have.double(), want.isfinite()
    if not bool((have[~finite] == want[~finite]).all()) or not bool(have[finite].isfinite().all()):
        return math.inf, math.inf
    have, want = have[finite], want[finite]
    if not want.numel():
        return 0.0, 0.0
    rms = float((have - want).norm() / want.norm().clamp_min(1e-30))
    return rms, float(((have - want).abs() / want.abs().clamp_min(1.0)).max())


def correct_folder(folder: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Every comparison of one kernel; one that cannot run is one failure, and the others run."""
    try:
        kernel = Kernel(folder)
        return list(correct_kernel(kernel, options))
    except Exception as e:
        text = f"{type(e).__name__}: {(str(e).splitlines() or [''])[0]}"[:160]
        return [{"kernel": folder.name, "case": text, "rms": math.inf, "max": math.inf, "ok": False}]


def correct_kernel(kernel: Kernel, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    t = kernel.torch
    lengths = [(1, n) for n in (*options.lengths, 0)] if kernel.decode else [(n, n) for n in options.lengths]
    for M, N in lengths if kernel.decode else [*lengths, *UNEQUAL]:
        given = kernel.inputs(2 if kernel.small else 1, M, N)
        want = reference(kernel, given)[: 3 if kernel.small else 1]
        dtypes = (kernel.dtype, t.float32, t.float32)
        for more in split_options(options) if kernel.decode else [{}]:
            if not kernel.takes(more):
                continue
            for config in kernel.configs if options.configs else [None]:
                out = tuple(
                    t.full(w.shape, math.nan, dtype=d, device=w.device) for w, d in zip(want, dtypes, strict=False)
                )
                kernel.launch(*given, out=out, **({"config": config} if config else {}), **more)
                found = [errors(have, value) for have, value in zip(out, want, strict=True)]
                measures = [found[0][0], *(greatest for _, greatest in found[1:])]
                ok = all(x <= limit for x, limit in zip(measures, LIMITS[kernel.dtype_name], strict=False))
                case = " ".join([f"{M}x{N}", *filter(None, [config]), *(f"{k}={v}" for k, v in more.items())])
                row = {"kernel": kernel.folder, "case": case, "rms": found[0][0], "max": found[0][1], "ok": ok}
                yield row | ({"lse": found[1][1], "row_max": found[2][1]} if kernel.small else {})


def correct(options: argparse.Namespace) -> int:
    folders = kernels(options, small=True)
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for found in pool.map(correct_folder, folders, [options] * len(folders)):
            for row in found:
                rest = "".join(f" {k} {row[k]:.1e}" for k in ("rms", "max", "lse", "row_max") if k in row)
                print(f"{row['kernel']:28} {row['case']:24}{rest} {'ok' if row['ok'] else 'FAILED'}", flush=True)
            rows += found
    failed = sum(not r["ok"] for r in rows)
    print(f"{len(rows) - failed} ok, {failed} failed")
    if options.out:
        write(options.out, {"ok": len(rows) - failed, "failed": failed, "rows": rows})
    return int(failed > 0 or not rows)


def write(path: Path, content: dict[str, Any]) -> None:
    import torch
    import triton

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"gpu": gpu, "torch": torch.__version__, "triton": triton.__version__}
    path.write_text(json.dumps(about | content, indent=1))


# ----------------------------------------------------------------------------------------------------------- time

Contestants = dict[str, Callable[[], Any]]
PEERS = ("flex", "cudnn", "flash")


def ours(kernel: Kernel, given: list[Any], options: argparse.Namespace) -> Contestants:
    """The launcher's own choice; its configurations, and splits, where they were asked for."""
    found: Contestants = {"ours": lambda: kernel.launch(*given)}
    if options.configs:
        found |= {f"ours/{c}": lambda c=c: kernel.launch(*given, config=c) for c in kernel.configs}
    for more in split_options(options)[1:] if kernel.decode else []:
        if kernel.takes(more):
            name = "ours/" + ",".join(f"{k}={v}" for k, v in more.items())
            found[name] = lambda more=more: kernel.launch(*given, **more)
    return found


def flex(kernel: Kernel, q: Any, k: Any, v: Any, rest: list[Any]) -> Callable[[], Any]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    t, op, (M, N) = kernel.torch, kernel.op, (q.shape[2], k.shape[2])
    # The functions below are traced: they see tensors and numbers alone.
    ahead, cap, window, tanh = N - M, op.cap, kernel.window, t.tanh
    slopes = rest[0] if op.alibi else None
    scores = {
        "alibi": lambda s, b, h, i, j: s + slopes[h] * (j - i - ahead),
        "cap": lambda s, b, h, i, j: cap * tanh(s / cap),
    }
    masks = {
        "causal": lambda b, h, i, j: i >= j,
        "window": lambda b, h, i, j: (i >= j) & (i - j < window),
    }
    mask = masks["window" if window else "causal"] if op.causal and not kernel.decode else None
    t._dynamo.reset()  # each length is compiled anew, and there is a limit to how often one function is
    run = flex_attention if kernel.interpret else t.compile(flex_attention, dynamic=False)
    more = {
        "score_mod": scores["alibi"] if op.alibi else scores["cap"] if cap else None,
        "block_mask": create_block_mask(mask, None, None, M, N, device=kernel.device) if mask else None,
        "enable_gqa": kernel.grouped,
    }
    return lambda: run(q, k, v, **more)


def sdpa(kernel: Kernel, q: Any, k: Any, v: Any, backend: str) -> Callable[[], Any]:
    t, op = kernel.torch, kernel.op
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if op.alibi or op.cap or op.window:
        raise NotImplementedError("SDPA has neither biases without a tensor, nor soft caps, nor windows")
    chosen = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}[backend]
    more = {"is_causal": op.causal and not kernel.decode, "enable_gqa": kernel.grouped}

    def run() -> Any:
        with sdpa_kernel(chosen):
            return t.nn.functional.scaled_dot_product_attention(q, k, v, **more)

    return run


def peers(kernel: Kernel, given: list[Any], options: argparse.Namespace) -> Contestants:
    q, k, v, *rest = given
    q = q[:, :, None] if kernel.decode else q
    found: Contestants = {}
    for peer in options.peers:
        try:
            run = flex(kernel, q, k, v, rest) if peer == "flex" else sdpa(kernel, q, k, v, peer)
            run()
            found[peer] = run
        except Exception as e:  # what a peer cannot do is a "-" in the table
            if options.why:
                print(f"  {peer}: {type(e).__name__}: {(str(e).splitlines() or [''])[0]}"[:160], flush=True)
    return found


def median_ms(run: Callable[[], Any], on_gpu: bool, graphs: bool = False) -> float:
    """``graphs``: of the GPU's work alone, without the launches; NaN for what cannot be captured."""
    if on_gpu:
        import triton

        if graphs:
            try:
                return float(triton.testing.do_bench_cudagraph(run, rep=50, return_mode="median"))
            except Exception:  # a capture that fails leaves the stream usable
                return math.nan
        return float(triton.testing.do_bench(run, warmup=25, rep=100, return_mode="median"))
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


def measure(kernel: Kernel, n: int, options: argparse.Namespace) -> dict[str, Any]:
    """One row of the table. All contestants run in random order in each round; peers have to agree with ours first."""
    given = kernel.inputs(1, n, n)
    found = ours(kernel, given, options)
    want = found["ours"]().float()
    others = peers(kernel, given, options)
    differ = {p: float((run().float().view_as(want) - want).norm() / want.norm()) for p, run in others.items()}
    found |= others
    times: dict[str, list[float]] = {who: [] for who in found}
    for _ in range(options.rounds):
        for who in random.sample(list(found), len(found)):
            times[who].append(median_ms(found[who], not kernel.interpret, options.graphs))
    ms = {who: x for who, all_ in times.items() if not math.isnan(x := statistics.median(all_))}
    work = sum(x.numel() * x.element_size() for x in (*given[:3], want.to(kernel.dtype)))
    work = work / 1e6 if kernel.decode else kernel.op.flops(1, n, kernel.D) / 1e9
    row = {"operator": kernel.name, "dtype": kernel.dtype_name, "length": n, "ms": ms, "difference": differ}
    row |= {"unit": "GB/s" if kernel.decode else "TFLOP/s", "rate": {who: work / x for who, x in ms.items()}}
    best = min((x for who, x in ms.items() if who in PEERS), default=math.nan)
    return row | {"best_peer_over_ours": best / min(x for who, x in ms.items() if who not in PEERS)}


def shown(row: dict[str, Any]) -> str:
    def cell(who: str) -> str:
        if who not in row["ms"]:
            return f"{'-':>22}"
        wrong = "!" if row["difference"].get(who, 0.0) > 2e-2 else ""
        return f"{row['ms'][who] * 1e3:9.0f} us ({row['rate'][who]:5.0f}){wrong:2}"

    extra = "".join(f"  {who.removeprefix('ours/')} {ms * 1e3:.0f} us" for who, ms in row["ms"].items() if "/" in who)
    cells = " ".join(cell(who) for who in ("ours", *PEERS))
    name = f"{row['operator']:10} {row['dtype']:8} {row['length']:6}"
    return f"{name} {cells} {row['best_peer_over_ours']:6.2f} {row['unit']}{extra}"


def time_all(options: argparse.Namespace) -> int:
    rows: list[dict[str, Any]] = []
    print(f"{'':26} " + " ".join(f"{who:>22}" for who in ("ours", *PEERS)) + "  ratio; ! differs from ours")
    for folder in kernels(options, small=False):
        kernel = Kernel(folder)
        for n in options.lengths:
            rows.append(measure(kernel, n, options))
            print(shown(rows[-1]), flush=True)
            if options.out:  # after each row: a run that is cut short leaves what it has
                write(options.out, {"rows": rows})
    ratios = [r["best_peer_over_ours"] for r in rows if not math.isnan(r["best_peer_over_ours"])]
    if ratios:
        print(
            f"geometric mean of best peer / ours over {len(ratios)} settings: {statistics.geometric_mean(ratios):.2f}"
        )
    return int(not rows)


# ----------------------------------------------------------------------------------------------------------- main


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    builder, checker, timer = (commands.add_parser(name) for name in ("build", "correct", "time"))
    builder.add_argument("--out", type=Path, default=Path("build/operators"))
    builder.add_argument("--target", default="cuda:90")
    checker.add_argument("--lengths", type=int, nargs="+", default=[1, 17, 128, 1000, 4096])
    checker.add_argument("--jobs", type=int, default=1, help="kernels at a time")
    timer.add_argument("--lengths", type=int, nargs="+", default=[512, 2048, 8192, 32768])
    timer.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS)
    timer.add_argument("--rounds", type=int, default=3)
    timer.add_argument("--why", action="store_true", help="say why a peer cannot run")
    timer.add_argument("--graphs", action="store_true", help="the work on the GPU alone, as CUDA graphs")
    for p in (checker, timer):
        p.add_argument("--build", type=Path, default=Path("build/operators"))
        p.add_argument("--out", type=Path, help="a JSON file")
        p.add_argument(
            "--configs", action="store_true", help="every tile configuration, not the launcher's choice alone"
        )
        p.add_argument("--splits", type=int, nargs="*", default=[], help="numbers of splits to try too, in decode")
        p.add_argument("--split-size", type=int, nargs="*", default=[], help="sizes of splits to try too, in decode")
    for p, function in ((builder, build), (checker, correct), (timer, time_all)):
        p.add_argument("--only", default="", help="a pattern of folder names")
        p.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES)
        p.set_defaults(function=function)
    options = parser.parse_args()
    raise SystemExit(options.function(options))


if __name__ == "__main__":
    main()

"""Inputs on which fused reduction kernels have gone wrong, as kernels for a GPU, against float64.

    python benchmarks/cases.py build --out build/cases               # here: compiles and proves; no GPU needed
    python benchmarks/cases.py run --kernels build/cases --jobs 12   # on a GPU: torch and triton alone

Padding, row lengths, alignments of causal masks, masks and scores together, soft-caps, far addresses, grouped heads, head
dimensions, empty lengths, mask families at long lengths; and probes: keys in another order, a constant added to all logits,
V = 1, dead blocks, NaN and inf where no row of a tile sees. Every tile configuration runs, outputs are poisoned first, and
NaN never passes. One line per case; exit code 1 if one fails. Folders for "interpret" run on a CPU, at small lengths.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from kernel_file import load

DTYPES = ("float32", "float16", "bfloat16")
FAMILIES = ("causal", "causal bottom-right", "window", "prefix", "local and global", "block diagonal", "odd keys")
DIMENSIONS = ((17, 31), (31, 94), (72, 17), (94, 72), (96, 40))
TRIPLES = tuple((score, mask) for score in ("bias", "slopes") for mask in ("causal", "odd keys", "lengths"))
NAMES = (
    "plain", "lengths", "key bias", "window of 5", "last keys", "cap before mask", "cap after mask", "12 heads on 2",
    "3 heads on 2", *(f"{s}, {m}" for s, m in TRIPLES), *(f"D {d}, {dv}" for d, dv in DIMENSIONS),
    *(f"mask {f}" for f in FAMILIES),
)  # fmt: skip


def folder_of(name: str, dtype: str) -> str:
    return f"{re.sub('[^a-z0-9]+', '_', name.lower())}-{dtype}"


# ----------------------------------------------------------------------------------------------------------- build


def graph(name: str, dtype: str) -> Any:
    """The te definition of a case."""
    from tvm import te, tirx

    from tests.cases import programs as p

    def one(mask: Any = None, score: Any = None, **more: Any) -> Any:
        return p.attention(mask, score, **({"D": 64, "dtype": dtype} | more))

    if name.startswith("mask "):
        return one(p.family(name.removeprefix("mask ")))
    if name.startswith("D "):
        d, dv = map(int, re.findall(r"\d+", name))
        return one(D=d, Dv=dv)
    if ", " in name:
        score, mask = name.split(", ")
        function, extra = {"bias": p.bias, "slopes": p.slopes}[score]()
        condition, lens = p.lengths() if mask == "lengths" else (p.family(mask), ())
        return one(condition, function, extra=(*extra, *lens))
    if name == "lengths":
        condition, lens = p.lengths()
        return one(condition, extra=lens)
    if name == "key bias":
        function, extra, facts = p.key_bias()
        return one(None, function, extra=extra, facts=facts)
    return {
        "plain": one,
        "window of 5": lambda: one(lambda b, h, i, j: tirx.all(i - j >= 0, i - j < 5)),
        "last keys": lambda: one(lambda b, h, i, j: j >= p.N - 5),
        "cap before mask": lambda: one(lambda b, h, i, j: j < 1, p.capped),
        "cap after mask": lambda: p.attention(lambda b, h, i, j: j < 1, late=p.soft_cap, D=64, dtype=dtype),
        "12 heads on 2": lambda: one(H=12, KV=2),
        "3 heads on 2": lambda: one(H=3, KV=2, head=lambda h: te.floordiv(h * 2, 3)),
    }[name]()


def build(options: argparse.Namespace) -> int:
    sys.path.insert(0, str(Path(__file__).parent.parent))
    import neptune_verified as nv

    for name in NAMES:
        for dtype in options.dtypes:
            folder = options.out / folder_of(name, dtype)
            if re.search(options.only, folder.name):
                g = graph(name, dtype)
                kernel = nv.compile(nv.Program.from_te(g.inputs, g.outputs, "case", g.facts), options.target)
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "kernel.py").write_text(kernel.source)
                print(f"{folder}: {kernel.passes} pass(es)", flush=True)
    return 0


# ----------------------------------------------------------------------------------------------------------- run

Line = tuple[str, float, bool]


class Case:
    """One kernel folder, and the references in float64."""

    def __init__(self, folder: Path) -> None:
        module, self.interpret = load(folder)
        import torch

        self.torch: Any = torch
        self.launch = module.case
        self.configs: dict[str, Any] = module._CASE_KERNEL_CONFIGS
        self.device = "cpu" if self.interpret else "cuda"
        self.name = next(n for n in NAMES for d in DTYPES if folder_of(n, d) == folder.name)
        self.dtype = getattr(torch, folder.name.split("-")[1])
        #: Largest error of o, relative to the largest value (or 1), and of lse. The sum below a 16-bit product sees the
        #: rounded weights, and the log-sum-exp is taken of it.
        self.limits = {"float32": (2e-5, 2e-5), "float16": (2e-3, 1.5e-3), "bfloat16": (1.6e-2, 1.2e-2)}[
            folder.name.split("-")[1]
        ]
        #: Of V = 1. (Triton's interpreter truncates where it should round to bfloat16, so that the number below 1 stays.)
        self.least_mass = self.limits[0] if self.interpret and self.dtype is torch.bfloat16 else 1e-5
        self.seed = 0

    def mass(self, n: int) -> float:
        """How far from 1 the mass of a row of n keys may be: numerator and denominator are summed in other orders."""
        return max(self.least_mass, n * 2**-24 / 8)

    # -- inputs

    def draw(self, *shape: int, dtype: Any = None) -> Any:
        self.seed += 1
        g = self.torch.Generator(device="cpu").manual_seed(self.seed)
        return self.torch.randn(*shape, generator=g).to(dtype or self.dtype).to(self.device)

    def qkv(self, m: int, n: int, b: int = 1, h: int = 2, kv: int = 2, d: int = 64, dv: int = 64) -> tuple[Any, ...]:
        return self.draw(b, h, m, d), self.draw(b, kv, n, d), self.draw(b, kv, n, dv)

    def indices(self, m: int, n: int) -> tuple[Any, Any]:
        t = self.torch
        return t.arange(m, device=self.device)[:, None], t.arange(n, device=self.device)[None, :]

    # -- references

    def scores(self, q: Any, k: Any) -> Any:
        return q.double() @ k.double().transpose(-1, -2) / q.shape[-1] ** 0.5

    def averages(self, s: Any, v: Any, live: Any = None) -> tuple[Any, Any]:
        """o and lse; what is not live is not looked at, and a row without a key is 0 and -inf."""
        t = self.torch
        if live is not None:
            s = t.where(live.expand(s.shape), s, float("-inf"))
        if not s.shape[-1]:
            return t.zeros(*s.shape[:-1], v.shape[-1], **self.wide), t.full(s.shape[:-1], float("-inf"), **self.wide)
        top = s.amax(-1, keepdim=True)
        e = t.exp(s - t.where(top.isfinite(), top, 0.0))
        total = e.sum(-1, keepdim=True)
        seen = (e > 0).any(-2, keepdim=True).transpose(-1, -2)
        o = (e / t.where(total == 0, 1.0, total)) @ t.where(seen, v.double(), 0.0)
        return o, (t.where(top.isfinite(), top, 0.0) + t.log(total)).squeeze(-1)

    @property
    def wide(self) -> dict[str, Any]:
        return {"dtype": self.torch.float64, "device": self.device}

    # -- comparisons

    def compare(self, what: str, inputs: tuple[Any, ...], want: tuple[Any, Any], rows: slice = slice(None),
                config: str = "", limits: tuple[float, float] | None = None) -> Iterator[Line]:  # fmt: skip
        t = self.torch
        for name in [config] if config else self.configs:
            o = t.full(want[0].shape, float("nan"), dtype=self.dtype, device=self.device)
            lse = t.full(want[1].shape, float("nan"), dtype=t.float32, device=self.device)
            self.launch(*inputs, out=(o, lse), config=name)
            errors = [self.error(x[:, :, rows], y[:, :, rows]) for x, y in zip((o, lse), want, strict=True)]
            ok = all(e <= limit for e, limit in zip(errors, limits or self.limits, strict=True))
            yield f"{what}, {name}", max(errors), ok

    def error(self, have: Any, want: Any) -> float:
        """Relative to the largest finite value, or to 1; infinite where anything is not finite that should be."""
        have, finite = have.double(), want.isfinite()
        if not self.torch.equal(have[~finite], want[~finite]):
            return float("inf")
        have, want = have[finite], want[finite]
        if not want.numel():
            return 0.0
        off = (have - want).abs().max() / want.abs().max().clamp_min(1.0)
        return float(off) if off.isfinite() else float("inf")

    def lines(self) -> Iterator[Line]:
        if self.name.startswith("mask "):
            return self.family(MASKS[self.name.removeprefix("mask ")])
        if self.name.startswith("D "):
            return self.dimensions(*map(int, re.findall(r"\d+", self.name)))
        if ", " in self.name:
            return self.triple(*self.name.split(", "))
        return getattr(self, re.sub(r"\W", "_", f"case_{self.name}"))()  # type: ignore[no-any-return]

    # -- cases

    def family(self, mask: Callable[..., Any]) -> Iterator[Line]:
        # Triton compiles anew for lengths of 1 and for multiples of 16: few sorts of lengths on a GPU.
        small = ((33, 50), (50, 33), (1, 129), (129, 1))
        long = ((1000, 1000), (4096, 4096), (1000, 4096), (4096, 1000))
        for m, n in ((2, 5), (5, 2), *(small if self.interpret else long)):
            q, k, v = self.qkv(m, n)
            live = mask(*self.indices(m, n), m, n) & (self.indices(m, n)[0] >= 0)
            want = self.averages(self.scores(q, k), v, live)
            yield from self.compare(f"{m} x {n}", (q, k, v), want)
            ones = want[1].isfinite().double()[..., None].expand(*want[1].shape, 64)
            yield from self.compare(f"{m} x {n}, V = 1", (q * 4, k, v * 0 + 1), (ones, self.averages(
                self.scores(q * 4, k), v, live)[1]), limits=(self.mass(n), self.limits[1] * 4))  # fmt: skip
            for config, entry in self.configs.items():
                yield from self.unseen(f"{m} x {n}", (q, k, v), live, want, config, entry[0]["BLOCK_I"])
        for m, n in ((0, 5), (5, 0), (0, 0)):
            q, k, v = self.qkv(m, n)
            yield from self.compare(f"{m} x {n}", (q, k, v), self.averages(self.scores(q, k), v))

    def unseen(
        self, what: str, inputs: tuple[Any, ...], live: Any, want: Any, config: str, rows: int
    ) -> Iterator[Line]:
        """NaN and inf in the K and V slots that no row of a tile of rows sees."""
        q, m = inputs[0], live.shape[0]
        for first in sorted({0, m // 2 // rows * rows, (m - 1) // rows * rows}):
            k, v = inputs[1].clone(), inputs[2].clone()
            bad = ~live[first : first + rows].any(0)
            k[:, :, bad], v[:, :, bad] = float("nan"), float("inf")
            k[:, :, bad, ::3], v[:, :, bad, ::2] = float("inf"), float("nan")
            tile = slice(first, first + rows)
            yield from self.compare(f"{what}, unseen NaN, rows from {first}", (q, k, v), want, tile, config)

    def dimensions(self, d: int, dv: int) -> Iterator[Line]:
        for m, n in ((18, 37), (1, 1)) if self.interpret else ((18, 37), (130, 1000), (1, 1)):
            q, k, v = self.qkv(m, n, d=d, dv=dv)
            yield from self.compare(f"{m} x {n}", (q, k, v), self.averages(self.scores(q, k), v))

    def triple(self, score: str, mask: str) -> Iterator[Line]:
        t = self.torch
        tile = sorted({e[0][b] for e in self.configs.values() for b in e[0] if b.startswith("BLOCK_X")})
        for n in sorted({x for b in tile for x in (1, b - 1, b, b + 1, 2 * b + 1)}):
            for m in sorted({n, 3}):
                q, k, v = self.qkv(m, n, b=2)
                i, j = self.indices(m, n)
                have = t.tensor([n - n // 2, n], dtype=t.int32, device=self.device)
                live = {"causal": j <= i, "odd keys": j % 2 == 1, "lengths": j < have[:, None, None, None]}[mask]
                extra = self.draw(2, m, n, dtype=t.float32) if score == "bias" else t.tensor(
                    [0.25, 0.5], device=self.device)  # fmt: skip
                added = extra if score == "bias" else extra[:, None, None] * (j - (n - 1))
                want = self.averages(self.scores(q, k) + added.double(), v, live)
                if mask == "lengths":
                    k[0, :, int(have[0]) :], v[0, :, int(have[0]) :] = float("nan"), float("inf")
                yield from self.compare(f"{m} x {n}", (q, k, v, extra, *([have] if mask == "lengths" else [])), want)

    def case_plain(self) -> Iterator[Line]:
        q, k = self.draw(1, 2, 5, 64) * 0 + 1, self.draw(1, 2, 64, 64) * 0 - 2
        v = self.draw(1, 2, 64, 64)
        yield from self.compare("64 keys of logit -16", (q, k, v), self.averages(self.scores(q, k), v))
        for m, n in ((5, 64), (40, 65)) if self.interpret else ((5, 64), (1000, 1000), (4096, 4096), (1, 4097)):
            q, k, v = self.qkv(m, n)
            want = self.averages(self.scores(q, k), v)
            yield from self.compare(f"{m} x {n}", (q, k, v), want)
            order = self.torch.randperm(n, generator=self.torch.Generator().manual_seed(n)).to(self.device)
            yield from self.compare(f"{m} x {n}, keys in another order", (q, k[:, :, order], v[:, :, order]), want)
            blocks = self.torch.cat(list(reversed(self.torch.arange(n, device=self.device).split(32))))
            yield from self.compare(f"{m} x {n}, blocks reversed", (q, k[:, :, blocks], v[:, :, blocks]), want)
            ones = self.torch.ones_like(want[0])
            yield from self.compare(
                f"{m} x {n}, V = 1", (q, k, v * 0 + 1), (ones, want[1]), limits=(self.mass(n), self.limits[1])
            )
            turned = tuple(x.permute(2, 3, 0, 1).contiguous().permute(2, 3, 0, 1) for x in (q, k, v))
            yield from self.compare(f"{m} x {n}, turned", turned, want)
            same = k[:, :, :1].expand(k.shape)
            yield from self.compare(f"{m} x {n}, stride 0", (q, same, v), self.averages(self.scores(q, same), v))
        for b, m, n in ((0, 3, 5), (2, 0, 5), (2, 3, 0), (0, 0, 0)):
            q, k, v = self.qkv(m, n, b=b)
            yield from self.compare(f"batch {b}, {m} x {n}", (q, k, v), self.averages(self.scores(q, k), v))
        yield from self.far(3, 2**30 if not self.interpret else 2**16)

    def case_last_keys(self) -> Iterator[Line]:
        return self.far(262146 if not self.interpret else 300, 8192)

    def far(self, rows: int, stride: int) -> Iterator[Line]:
        """Rows of k that are more than 2^31 elements apart."""
        k = self.torch.zeros((rows - 1) * stride + 128, dtype=self.dtype, device=self.device).as_strided(
            (1, 2, rows, 64), (0, 64, stride, 1)
        )
        q, v, last = self.draw(1, 2, 3, 64), self.draw(1, 2, rows, 64), self.draw(1, 2, min(5, rows), 64)
        k[:, :, -5:] = last
        want = self.averages(self.scores(q, last), v[:, :, -5:])
        yield from self.compare(f"row {rows} of stride {stride}", (q, k, v), want)

    def case_lengths(self) -> Iterator[Line]:
        t, many = self.torch, () if self.interpret else ((1000, (0, 999)), (4096, (1, 4095)))
        for n, have in ((3, (1, 3)), (3, (0, 3)), (70, (16, 0)), (130, (65, 130)), *many):
            for poison in (float("nan"), float("inf")):
                q, k, v = self.qkv(17, n, b=2)
                lens = t.tensor(have, dtype=t.int32, device=self.device)
                want = self.averages(self.scores(q, k), v, self.indices(1, n)[1] < lens[:, None, None, None])
                for b, x in enumerate(have):
                    k[b, :, x:], v[b, :, x:] = poison, poison
                yield from self.compare(f"{have} of {n}, {poison} beyond", (q, k, v, lens), want)

    def case_key_bias(self) -> Iterator[Line]:
        t = self.torch
        n = 100 if self.interpret else 1000
        q, k, v = self.qkv(5, n)
        for logit in (30.0, -200.0, -1e5, -1e30, 1e5):
            bias = t.full((n,), logit, device=self.device)
            flat = q if abs(logit) < 1000 else q * 0
            want = self.averages(self.scores(flat, k) + bias.double(), v)
            yield from self.compare(f"all logits + {logit:g}", (flat, k, v, bias), want)
        for first, last in ((0, 64), (0, n - 1), (64, 100), (n - 10, n), (0, n)):
            bias = self.draw(n, dtype=t.float32)
            bias[first:last] = float("-inf")
            want = self.averages(self.scores(q, k) + bias.double(), v)
            yield from self.compare(f"keys {first} to {last} dead", (q, k, v, bias), want)

    def case_window_of_5(self) -> Iterator[Line]:
        return self.family(lambda i, j, m, n: (i - j >= 0) & (i - j < 5))

    def cap(self, weights: tuple[float, float]) -> Iterator[Line]:
        t = self.torch
        q, k, v = self.draw(1, 2, 1, 64) * 0, self.draw(1, 2, 2, 64), self.draw(1, 2, 2, 64) * 0
        v[..., 0, 0], v[..., 1, 1] = 1, 1
        w = t.tensor(weights, **self.wide)
        o = t.zeros(1, 2, 1, 64, **self.wide)
        o[..., :2] = w
        lse = t.full((1, 2, 1), 0.0 if weights[1] == 0 else 0.31326168751822286, **self.wide)
        yield from self.compare("logits 0 and -inf", (q, k, v), (o, lse))

    def case_cap_before_mask(self) -> Iterator[Line]:
        return self.cap((1.0, 0.0))

    def case_cap_after_mask(self) -> Iterator[Line]:
        return self.cap((0.7310585786300049, 0.2689414213699951))

    def heads(self, of: list[int]) -> Iterator[Line]:
        for m, n in ((5, 37),) if self.interpret else ((5, 37), (130, 1000)):
            q, k, v = self.qkv(m, n, b=2, h=len(of))
            want = self.averages(self.scores(q, k[:, of]), v[:, of])
            yield from self.compare(f"{m} x {n}", (q, k, v), want)

    def case_12_heads_on_2(self) -> Iterator[Line]:
        return self.heads([0] * 6 + [1] * 6)

    def case_3_heads_on_2(self) -> Iterator[Line]:
        return self.heads([0, 0, 1])


MASKS: dict[str, Callable[..., Any]] = {
    "causal": lambda i, j, m, n: j <= i,
    "causal bottom-right": lambda i, j, m, n: j <= i + (n - m),
    "window": lambda i, j, m, n: (i - j >= 0) & (i - j < 20),
    "prefix": lambda i, j, m, n: j < 21,
    "local and global": lambda i, j, m, n: (j < 4) | ((i - j <= 5) & (j - i <= 5)),
    "block diagonal": lambda i, j, m, n: i // 12 == j // 12,
    "odd keys": lambda i, j, m, n: j % 2 == 1,
}


def run_folder(folder: Path) -> list[Line]:
    lines: list[Line] = []
    try:
        lines.extend(Case(folder).lines())
    except Exception as e:  # one kernel that cannot run is one failure, and the others run
        lines.append((f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"[:160], float("inf"), False))
    return lines


def run(options: argparse.Namespace) -> int:
    folders = [f for f in sorted(options.kernels.iterdir()) if re.search(options.only, f.name)]
    folders.sort(key=lambda f: not f.name.startswith("plain"))  # what takes longest starts first
    good = bad = 0
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        for folder, lines in zip(folders, pool.map(run_folder, folders), strict=True):
            for what, error, ok in lines:
                good, bad = good + ok, bad + (not ok)
                if not ok or not options.failures:
                    print(f"{folder.name:36} {what:58} {error:.2e} {'ok' if ok else 'FAILED'}", flush=True)
    print(f"{good} ok, {bad} failed")
    return int(bad > 0 or good == 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    builder = commands.add_parser("build")
    builder.add_argument("--out", type=Path, default=Path("build/cases"))
    builder.add_argument("--target", default="cuda:90")
    builder.add_argument("--dtypes", nargs="+", default=DTYPES)
    builder.set_defaults(function=build)
    runner = commands.add_parser("run")
    runner.add_argument("--kernels", type=Path, default=Path("build/cases"))
    runner.add_argument("--jobs", type=int, default=1, help="folders at a time")
    runner.add_argument("--failures", action="store_true", help="print cases that fail, and the count, alone")
    runner.set_defaults(function=run)
    for p in (builder, runner):
        p.add_argument("--only", default="", help="a pattern of folder names")
    options = parser.parse_args()
    raise SystemExit(options.function(options))


if __name__ == "__main__":
    main()

"""Not trusted: ``nv.merge``, which joins two results of attention over disjoint sets of keys, and what is proved of it.

The merge is a program like any other (``definition``), compiled with all its proofs to one Triton kernel. That it is the
right program is a claim of its own, stated and proved by ``proofs.merge``: on the results that a fused chain of
reductions stores (``chain``), it is the combine of the chain's partial states.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from neptune_verified.errors import ShapeError, UnsupportedProgram, VerificationError
from neptune_verified.runtime import INTERPRET, gpu_target

if TYPE_CHECKING:
    from neptune_verified.ir.program import Program
    from neptune_verified.pipeline import Kernel
    from neptune_verified.proofs.kernel import Proved

F32 = "float32"
DTYPES = ("float16", "bfloat16", "float32")


# ------------------------------------------------------------------------------------------------ the programs


def definition(dtype: str = F32, width: int = 64) -> Program:
    """The merge of out_a, out_b: [R, width] of type ``dtype`` with lse_a, lse_b: [R], float32.

    A side whose lse is -inf is not looked at. The weights are normalised before they meet the values, so that nothing
    leaves the range of the values."""
    from tvm import te, tirx

    from neptune_verified.frontend.te import finite_or_minus_infinity, neg_inf
    from neptune_verified.ir.program import Program

    R = te.var("R")
    out = [te.placeholder((R, width), dtype, f"out_{side}") for side in "ab"]
    lse = [te.placeholder((R,), F32, f"lse_{side}") for side in "ab"]

    def live(side: int, r: Any, value: Any) -> Any:
        return tirx.if_then_else(lse[side][r] == neg_inf(F32), tirx.const(0.0, F32), value)

    def weight(side: int) -> Any:
        return te.compute((R,), lambda r: live(side, r, te.exp(lse[side][r] - m[r])), f"w_{'ab'[side]}")

    def part(side: int) -> Any:
        def share(r: Any, d: Any) -> Any:
            return live(side, r, out[side][r, d].astype(F32) * (w[side][r] / total[r]))

        return te.compute((R, width), share, f"part_{'ab'[side]}")

    m = te.compute((R,), lambda r: tirx.max(lse[0][r], lse[1][r]), "m")
    w = weight(0), weight(1)
    total = te.compute((R,), lambda r: w[0][r] + w[1][r], "total")
    parts = part(0), part(1)
    joined = te.compute((R, width), lambda r, d: (parts[0][r, d] + parts[1][r, d]).astype(dtype), "out_ab")
    joined_lse = te.compute((R,), lambda r: m[r] + te.log(total[r]), "lse_ab")
    inputs = [out[0], lse[0], out[1], lse[1]]
    return Program.from_te(inputs, [joined, joined_lse], "merge", [finite_or_minus_infinity(x) for x in lse])


def chain() -> Program:
    """Whose results are merged: the average of v weighted by exp(s), and the log-sum-exp of s, for any scores s.

    0 and -inf on a row all of whose scores are -inf. How the scores come about does not matter for what is proved."""
    from tvm import te, tirx

    from neptune_verified.frontend.te import finite_or_minus_infinity, neg_inf
    from neptune_verified.ir.program import Program

    M, N, D = te.var("M"), te.var("N"), 16
    s, v = te.placeholder((M, N), F32, "s"), te.placeholder((N, D), F32, "v")
    j1, j2, j3 = (te.reduce_axis((0, N), f"j{k}") for k in (1, 2, 3))
    zero = tirx.const(0.0, F32)
    m = te.compute((M,), lambda i: te.max(s[i, j1], axis=j1), "m")
    e = te.compute((M, N), lambda i, j: tirx.if_then_else(s[i, j] == neg_inf(F32), zero, te.exp(s[i, j] - m[i])), "e")
    total = te.compute((M,), lambda i: te.sum(e[i, j2], axis=j2), "l")
    p = te.compute((M, N), lambda i, j: tirx.if_then_else(total[i] == zero, zero, e[i, j] / total[i]), "p")
    o = te.compute((M, D), lambda i, d: te.sum(p[i, j3] * v[j3, d], axis=j3), "o")
    lse = te.compute((M,), lambda i: m[i] + te.log(total[i]), "lse")
    return Program.from_te([s, v], [o, lse], "average", [finite_or_minus_infinity(s)])


# ------------------------------------------------------------------------------------------------ the proof


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What was proved of a merge: ``fused`` of the chain whose results it joins (O1 to O7, O14), ``split`` of the joining of
    its states (O14, O15), ``merged`` of the merge itself (O15 merge)."""

    chain: str
    fused: tuple[Proved, ...]
    split: tuple[Proved, ...]
    merged: tuple[Proved, ...]

    @property
    def obligations(self) -> tuple[Proved, ...]:
        return (*self.fused, *self.split, *self.merged)

    @property
    def failed(self) -> tuple[Proved, ...]:
        return tuple(p for p in self.obligations if not p.holds)

    @property
    def proved(self) -> bool:
        """Every obligation is proved by both routes."""
        return bool(self.merged) and not self.failed

    def lines(self) -> list[str]:
        from neptune_verified.proofs.statement_text import statement_text

        head = "proved: the merge of two results" if self.proved else "NOT proved: the merge of two results"
        result = [
            f"{head} of {self.chain} is its result over both sets of elements ({len(self.obligations)} obligations)"
        ]
        for p in self.failed or self.merged:
            routes = ", ".join(f"{r.route} {r.verdict.value}" for r in p.result.routes)
            result.append(f"{p.obligation.id} of {p.obligation.stage} {p.result.verdict.value} ({routes})")
            result.append(f"  {statement_text(p.obligation.statement)}")
            if p.result.counterexample:
                result.append(f"  false {p.result.counterexample}")
        return result

    def __str__(self) -> str:
        return "\n".join(self.lines())


def merge_report(program: Program | None = None) -> MergeReport:
    """Is ``nv.merge`` right for the partial results of ``program``, whose outputs are a result and its log-sum-exp?

    Without a program: of attention over any scores (``chain``). What is proved: merging the results of the fused program
    over two disjoint sets of elements of the reduced axis gives its result over both. The report says what failed.

    Raises UnsupportedProgram where that cannot be stated: a program that takes several passes, or has other outputs."""
    return prove(program if program is not None else chain(), definition())


def prove(program: Program, merge: Program) -> MergeReport:
    """Everything that must hold for ``merge`` to join partial results of ``program``, with what the provers say."""
    from neptune_verified.fusion.fuse import fuse
    from neptune_verified.proofs.abstract import UnsupportedTerm
    from neptune_verified.proofs.cache import Cache
    from neptune_verified.proofs.kernel import Prover, Refused, verify
    from neptune_verified.proofs.merge import prove_merge

    prover = Prover(Cache.open())
    try:
        verified = verify(fuse(program, prover), prover)
        split, merged = prove_merge(verified, merge, prover)
    except UnsupportedTerm as e:
        raise UnsupportedProgram(f"a merge of partial results of {program.name}", why=str(e)) from None
    except Refused as e:
        raise VerificationError(f"{program.name} is not verified: {e}") from None
    return MergeReport(program.name, verified.proved, split, merged)


@cache
def compiled(dtype: str, width: int, target: str) -> Kernel:
    """The kernel for one type, one width and one target, whatever the number of rows; proved to be the right merge."""
    from neptune_verified.pipeline import compile

    program = definition(dtype, width)
    report = prove(chain(), program)
    if not report.proved:
        raise VerificationError(f"merge is not verified: {report}", report)
    return compile(program, target)


# ------------------------------------------------------------------------------------------------ the function


def merge(out_a: Any, lse_a: Any, out_b: Any, lse_b: Any) -> tuple[Any, Any]:
    """The result of attention over two disjoint sets of keys, from the results over each: (out, lse).

    out_a, out_b: [..., Dv], float16, bfloat16 or float32, both the same. lse_a, lse_b: [...], float32: the natural logarithm
    of the sum of exponentials of the scores, -inf where a set has no live key (that side's out is not looked at then).
    Where both are -inf, out is 0 and lse -inf. Arithmetic is float32, and out has the type of the inputs. Any strides;
    leading dimensions that cannot be viewed as one are copied.

    Compiled and proved at the first call for each type, Dv and target, for any number of rows: one fused kernel up to
    Dv = 256, beyond that two. On a CPU it runs in Triton's interpreter.

    Raises TypeError where a type does not fit, ShapeError where a shape or a device does not, RuntimeError for a tensor
    that requires a gradient.

    >>> out, lse = merge(out_a, lse_a, out_b, lse_b)   # doctest: +SKIP
    """
    tensors = {"out_a": out_a, "lse_a": lse_a, "out_b": out_b, "lse_b": lse_b}
    _check_types(tensors)
    _check_shapes(tensors)
    target = INTERPRET if out_a.device.type == "cpu" else gpu_target()
    if target is None or (target != INTERPRET and out_a.device.type != "cuda"):
        raise RuntimeError(f"merge runs on a CPU or a GPU, and the tensors are on {out_a.device}: move them there")
    width = out_a.shape[-1]
    kernel = compiled(str(out_a.dtype).removeprefix("torch."), width, target)
    rows = (out_a.reshape(-1, width), lse_a.reshape(-1), out_b.reshape(-1, width), lse_b.reshape(-1))
    out, lse = kernel(*rows)
    return out.reshape(out_a.shape), lse.reshape(lse_a.shape)


def _check_types(tensors: dict[str, Any]) -> None:
    import torch

    for name, x in tensors.items():
        if not isinstance(x, torch.Tensor):
            raise TypeError(f"{name} is a {type(x).__name__}, and merge takes torch tensors: torch.as_tensor makes one")
        dtype = str(x.dtype).removeprefix("torch.")
        if name.startswith("lse") and dtype != F32:
            raise TypeError(f"{name} is {dtype}, and a log-sum-exp is float32: {name}.float() converts it")
        if name.startswith("out") and dtype not in DTYPES:
            raise TypeError(f"{name} is {dtype}, and merge takes {', '.join(DTYPES)}: convert it with .to(...)")
        if x.requires_grad and torch.is_grad_enabled():
            raise RuntimeError(
                f"{name} requires a gradient, and merge has no backward: detach it or use torch.no_grad()"
            )
    a, b = tensors["out_a"].dtype, tensors["out_b"].dtype
    if a != b:
        raise TypeError(f"out_b is {b}, out_a is {a}: convert one of them, so that both are the same")


def _check_shapes(tensors: dict[str, Any]) -> None:
    out_a = tensors["out_a"]
    shape = tuple(out_a.shape)
    if not shape or shape[-1] < 1:
        raise ShapeError(f"out_a has shape {list(shape)}, and merge takes [..., Dv] with Dv >= 1")
    for name, x in tensors.items():
        wanted, what = (
            (shape, "out_a has") if name.startswith("out") else (shape[:-1], "out_a without its last dimension")
        )
        if tuple(x.shape) != wanted:
            raise ShapeError(
                f"{name} has shape {list(x.shape)}, {what} {list(wanted)}: give both sides the same rows, in the same order"
            )
        if x.device != out_a.device:
            raise ShapeError(f"{name} is on {x.device}, out_a on {out_a.device}: move it there")

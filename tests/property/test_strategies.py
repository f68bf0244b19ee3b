"""The harness can fail: faults that are planted in kernels are found, and shrunk to a text that shows them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

import neptune_verified as nv
from neptune_verified.ir.loops import Refusal
from neptune_verified.pipeline import Kernel
from tests.property.blocks import run_block
from tests.property.check import Fault, judge
from tests.property.replaying import Falsehood, replayed
from tests.property.specs import Input, Spec, Stage, build, free_of, program_of, te_source

#: name -> (what is found in a kernel file, what stands there instead)
FAULTS = {
    "rescale dropped": (
        r"\((\w+) \* (tl\.exp|libdevice\.exp2|tl\.exp2)\([^()]*\([^()]*\)\)\) \+ tl\.sum",
        r"(\1) + tl.sum",
    ),
    "maximum begins with a number": (r'tl\.full\((\[[^\]]*\]), float\("-inf"\)', r"tl.full(\1, -1.0"),
    "a lane too many": (r"tl\.where\(\(x0 < N\)", "tl.where((x0 < N + 1)"),
    "the last tile dropped": (r"range\(0, N, (BLOCK_X0\w*)\)", r"range(0, N - 1, \1)"),
    "result scaled": (r"(tl\.store\([^\n]*, )(\w+)(, mask=)", r"\1\2 * 1.001\3"),
}


def planted(name: str) -> Callable[..., Kernel]:
    """``nv.compile`` with a fault."""
    pattern, wrong = FAULTS[name]

    def compile(*arguments: Any, **options: Any) -> Kernel:
        kernel = real(*arguments, **options)
        return replace(kernel, source=re.sub(pattern, wrong, kernel.source), _runner=None)

    return compile


real = nv.compile
ROWS, COLUMNS = (("i", "M"),), (("i", "M"), ("j", "N"))
SOFTMAX_SUM = Spec(
    (Input("x", ("M", "N"), facts=(("bounded", 64.0),)),),
    (
        Stage("m", ROWS, "x[i, j]", "max"),
        Stage("s", ROWS, "te.exp(x[i, j] - m[i])", "sum"),
    ),
    ("s",),
    passes=1,
)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_and_its_text_shows_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Fault) as found:
        judge(SOFTMAX_SUM, 20, compile=planted(name))
    text = str(found.value)
    assert text.startswith(te_source(SOFTMAX_SUM))
    tensor = next(line for line in text.splitlines() if line.startswith("x = torch.tensor"))
    small = 1 if name not in ("the last tile dropped", "rescale dropped") else 18
    assert tensor.count(",") <= small + 2, tensor
    exec(text, {})  # right without the fault
    monkeypatch.setattr(nv, "compile", planted(name))
    with pytest.raises(AssertionError, match=r"s\[0\] is"):
        exec(text, {})


def test_a_planted_fault_is_found_among_random_programs_and_shrunk() -> None:
    found = run_block("repairable", 5, 12, 8, set(), planted("result scaled"), shrinking=15)
    (text,) = found.failures
    definition = text.partition("import torch")[0]
    assert len(definition.splitlines()) <= 12 and "is not" not in definition
    assert "instead of" in text and max(map(len, text.splitlines())) < 400


def test_an_error_of_the_compiler_is_a_failure() -> None:
    def broken(*_: Any, **__: Any) -> Kernel:
        raise KeyError("lost")

    found = run_block("repairable", 6, 3, 2, set(), broken, shrinking=3)
    assert len(found.failures) == 1 and "KeyError" in found.failures[0] and "te.placeholder" in found.failures[0]


def test_a_right_kernel_passes() -> None:
    found = judge(SOFTMAX_SUM, 20)
    assert (found.outcome, found.passes, found.runs, found.refused) == ("kernel", 1, 20, ())
    assert found.compared >= 40


# ------------------------------------------------------------------------------------------------ reasons

DISTANCE = replace(SOFTMAX_SUM, stages=(SOFTMAX_SUM.stages[0], Stage("s", ROWS, "te.abs(x[i, j] - m[i])", "sum")))


def refusal() -> tuple[nv.Program, Refusal]:
    kernel = real(build(DISTANCE), "interpret")
    (found,) = kernel.loops.refusals
    return kernel.program, found


def test_a_true_reason_is_replayed() -> None:
    program, found = refusal()
    assert replayed(program, found) == "replayed"
    assert replayed(program, replace(found, example=None)) == "nothing to replay"


@pytest.mark.parametrize("changed", ["before", "after", "inputs", "both"])
def test_a_false_reason_is_seen(changed: str) -> None:
    program, found = refusal()
    e = found.example
    assert e is not None
    wrong = {
        "before": replace(e, before=e.before + 1),  # type: ignore[operator]
        "after": replace(e, after=e.after + 1),  # type: ignore[operator]
        "inputs": replace(e, inputs=(("x", ((0, 3),)),)),
        "both": replace(e, after=e.before),
    }[changed]
    with pytest.raises(Falsehood):
        replayed(program, replace(found, example=wrong))


# ------------------------------------------------------------------------------------------------ specs


def test_what_is_printed_is_what_runs() -> None:
    assert program_of(te_source(SOFTMAX_SUM)) == build(SOFTMAX_SUM)


@pytest.mark.parametrize(
    ("term", "free"),
    [
        ("x[i, j]", True),
        ("te.if_then_else(j < 3, x[i, j], 0.0)", False),
        ("x[i, N - 1 - j]", False),
        ("x[i, j] * w[j]", True),
    ],
)
def test_terms_that_read_the_index_are_known(term: str, free: bool) -> None:
    spec = replace(SOFTMAX_SUM, stages=(Stage("m", ROWS, term, "max"),))
    assert free_of(spec, "j") is free and free_of(spec, "i") is True


def test_a_tensor_shrinks_to_few_numbers() -> None:
    from tests.property.shrinking import shrunk

    program = build(SOFTMAX_SUM)
    (x,) = shrunk(
        program, [torch.randn(5, 40)], lambda t: "wrong" if t[0].shape[1] > 2 and bool((t[0] != 0).any()) else ""
    )
    assert tuple(x.shape) == (1, 3) and sorted(x.flatten().tolist()) == [0.0, 0.0, 1.0]

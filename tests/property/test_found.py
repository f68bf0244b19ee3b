"""Definitions that random programs found, and that took a pass too many, or were not compiled, before: the smallest ones."""

from __future__ import annotations

import pytest
import torch

import neptune_verified as nv
from tests.property.check import difference
from tests.property.inputs import runs, tensors
from tests.property.specs import program_of

HEAD = """
import neptune_verified as nv
from tvm import te, tirx

M, N = te.var("M"), te.var("N")
x = te.placeholder((M, N), "float32", "x")
y = te.placeholder((M, N), "float32", "y")
j = te.reduce_axis((0, N), "j")
prod = te.comm_reducer(lambda a, b: a * b, lambda t: tirx.const(1, t))
row = lambda reducer, name, term: te.compute((M,), lambda i: reducer(term(i), axis=j), name)
"""
TAIL = '\nprogram = nv.Program.from_te([x, y], [b], "p", assume=[nv.bounded(x, 64), nv.bounded(y, 64)])\n'

#: Each is one pass: name -> the stages a and b.
FOUND = {
    "a divisor with a fraction": """
a = row(te.sum, "a", lambda i: te.abs(x[i, j]) + 0.5)
b = row(te.max, "b", lambda i: x[i, j] / (1.0 + a[i] * 0.5) + 0.0 * y[i, j])
""",
    "a bound that was stated more loosely than it was used": """
a = row(te.sum, "a", lambda i: te.abs(x[i, j]))
b = row(te.max, "b", lambda i: y[i, j] / te.sqrt(a[i] / N.astype("float32") + 1e-3))
""",
    "an exponential whose bound has thousands of digits": """
a = row(te.max, "a", lambda i: x[i, j] * y[i, j])
b = row(te.sum, "b", lambda i: te.exp((x[i, j] * y[i, j] - a[i]) * 2.0))
""",
    "a sum of what does not depend on the element": """
a = row(te.sum, "a", lambda i: te.abs(x[i, j] * y[i, j]) + 0.5)
b = row(te.sum, "b", lambda i: 1.0 / (a[i] + 1.0))
""",
    "a maximum of what does not depend on the element": """
a = row(te.max, "a", lambda i: x[i, j] * y[i, j])
b = row(te.max, "b", lambda i: 1.0 - a[i] * 2.0)
""",
    "a weight that is no function of SymPy": """
a = row(te.max, "a", lambda i: x[i, j] * y[i, j])
b = row(te.sum, "b", lambda i: te.exp(x[i, j] * y[i, j] - a[i]) * (j % 3).astype("float32"))
""",
    "a masked weight that is no function of the provers": """
a = row(te.sum, "a", lambda i: tirx.if_then_else(j < 3, te.sqrt(te.abs(x[i, j])), 0.0))
b = row(te.sum, "b", lambda i: tirx.if_then_else(j < 3, (j % 3).astype("float32") * y[i, j] / te.sqrt(a[i] + 1e-3), 0.0))
""",
    "a masked element that is no function of the provers": """
a = row(te.max, "a", lambda i: tirx.if_then_else(j >= 2, te.tanh(x[i, j]) * 4.0, nv.neg_inf("float32")))
b = row(te.sum, "b", lambda i: tirx.if_then_else(j >= 2, te.exp(te.tanh(x[i, j]) * 4.0 - a[i]) * y[i, j], 0.0))
""",
    "two rates whose sum has more digits than the type": """
a = row(te.max, "a", lambda i: x[i, j])
b = row(te.sum, "b", lambda i: te.exp((x[i, j] - a[i]) * 2.0) * te.exp((x[i, j] - a[i]) * 0.3) * y[i, j])
""",
    "a minimum of quotients by a logarithm": """
a = row(te.sum, "a", lambda i: x[i, j] * x[i, j] + 0.0 * y[i, j])
b = row(te.min, "b", lambda i: te.abs(x[i, j]) / te.log(a[i] + 2.0))
""",
    "the same of another sum": """
a = row(te.sum, "a", lambda i: te.sqrt(te.abs(y[i, j])))
b = row(te.min, "b", lambda i: te.abs(x[i, j]) / te.log(a[i] + 2.0))
""",
    "a masked sum of quotients by a logarithm": """
a = row(te.sum, "a", lambda i: (x[i, j] + y[i, j] / 2.0) * (x[i, j] + y[i, j] / 2.0))
term = lambda i: (1.0 + y[i, j] * y[i, j]) / te.log(a[i] + 2.0)
b = row(te.sum, "b", lambda i: tirx.Select(j >= 2, term(i), tirx.const(0.0, "float32")))
""",
    "a quotient by a logarithm beside another producer": """
m = row(te.max, "m", lambda i: x[i, j] * y[i, j])
a = row(te.sum, "a", lambda i: te.abs(x[i, j] * y[i, j]))
b = row(te.min, "b", lambda i: y[i, j] / te.log(a[i] + 2.0) + m[i])
""",
    "a product of powers": """
a = row(te.sum, "a", lambda i: te.abs(x[i, j]))
b = row(prod, "b", lambda i: te.power(te.exp(-0.01 * te.abs(y[i, j])), 1.0 / (a[i] + 1.0)))
""",
    "a product of powers whose exponents hold exponentials": """
a = row(te.sum, "a", lambda i: te.abs(te.sigmoid(x[i, j]) / 2.0))
b = row(prod, "b", lambda i: te.power(te.exp(-0.01 * te.abs(te.sigmoid(x[i, j]) / 2.0)), 1.0 / (a[i] + 1.0)) + 0.0 * y[i, j])
""",
    "a minimum of roots over a maximum": """
a = row(te.max, "a", lambda i: te.abs(x[i, j] * y[i, j]))
b = row(te.min, "b", lambda i: te.sqrt(te.abs(x[i, j] * y[i, j]) / (a[i] + 1.0)))
""",
    "a root of a maximum of roots over a sum": """
a = row(te.sum, "a", lambda i: x[i, j] * y[i, j] * (x[i, j] * y[i, j]))
c = row(te.max, "c", lambda i: te.sqrt(te.abs(x[i, j] * y[i, j]) / (a[i] + 1.0)))
b = te.compute((M,), lambda i: te.sqrt(te.abs(c[i])), "b")
""",
    "a sum of roots over a sum": """
a = row(te.sum, "a", lambda i: te.abs(x[i, j] * y[i, j]))
b = row(te.sum, "b", lambda i: te.sqrt(te.abs(y[i, j]) / (a[i] + 1.0)))
""",
    "a minimum of squares of scaled logarithms": """
a = row(te.sum, "a", lambda i: te.abs(te.log(te.abs(x[i, j]) + 1.0)) + 0.5)
b = row(te.min, "b", lambda i: te.power(te.log(te.abs(x[i, j]) + 1.0) / (a[i] + 1.0), 2.0) + 0.0 * y[i, j])
""",
    "a minimum of masked squares of scaled logarithms": """
ok = lambda i: tirx.all(j <= i, j >= i - 7)
log = lambda i: te.log(te.abs(x[i, j]) + 1.0)
a = row(te.sum, "a", lambda i: tirx.Select(ok(i), te.abs(log(i)) + 0.5, 0.0))
b = row(te.min, "b", lambda i: tirx.Select(ok(i), te.power(log(i) / (a[i] + 1.0), 2.0) + 0.0 * y[i, j], float("inf")))
""",
    "a minimum of values that saturate": """
a = row(te.sum, "a", lambda i: te.abs(x[i, j] * y[i, j]) + 0.5)
b = row(te.min, "b", lambda i: te.tanh(y[i, j]) * (a[i] + 1.0))
""",
    "a sum of shifted sigmoids": """
a = row(te.min, "a", lambda i: te.sigmoid(x[i, j] + 0.0 * y[i, j]))
b = row(te.sum, "b", lambda i: te.exp(a[i] - te.sigmoid(x[i, j] + 0.0 * y[i, j])))
""",
    "powers of 2 and of e with one exponent": """
a = row(te.max, "a", lambda i: x[i, j])
b = row(te.sum, "b", lambda i: te.exp(x[i, j] - a[i]) * tirx.exp2(x[i, j] - a[i]) * y[i, j])
""",
    "a sum of scaled logarithms": """
a = row(te.sum, "a", lambda i: te.abs(te.log(te.abs(x[i, j] * y[i, j]) + 1.0)))
b = row(te.sum, "b", lambda i: te.abs(te.log(te.abs(x[i, j] * y[i, j]) + 1.0) / (a[i] + 1.0)))
""",
}

#: A weight that is 0 for some elements, over a sum that only the weighted terms read.
WEIGHTED = """
lens = te.placeholder((M,), "int32", "lens")
a = row(te.sum, "a", lambda i: tirx.Select(j < lens[i], x[i, j] * y[i, j] * (x[i, j] * y[i, j]), 0.0))
b = row(te.sum, "b", lambda i: tirx.Select(j < lens[i], (j % 3).astype("float32") * te.sqrt(a[i] + 1.0), 0.0))
facts = [nv.bounded(x, 64), nv.bounded(y, 64), nv.nonnegative(lens)]
program = nv.Program.from_te([x, y, lens], [b], "p", assume=facts)
"""


@pytest.mark.parametrize("text", [*(body + TAIL for body in FOUND.values()), WEIGHTED], ids=[*FOUND, "weighted"])
def test_it_is_one_pass_and_right(text: str) -> None:
    program = program_of(HEAD + text)
    kernel = nv.compile(program, "interpret")
    assert kernel.passes == 1, kernel.loops.refusals
    for run in runs(program, 1024, 8, seed=1):
        wrong = difference(program, kernel, tensors(program, run))
        assert not wrong, (run, wrong)


#: SymPy's algebra of the term grew beyond all bounds, or failed at a sample point.
CRASHED = {
    "a repair with hundreds of operations": """
z = lambda i: te.sigmoid(x[i, j] + 0.0 * y[i, j]) * 0.25
low, high = (lambda i, f=f: f(z(i), z(i) * 0.5) for f in (te.min, te.max))
a = row(te.min, "a", lambda i: te.if_then_else(j < 3, te.exp(low(i) - high(i)), 0.0))
b = row(te.max, "b", lambda i: te.power(z(i) / (te.abs(a[i]) + 0.5) - a[i], 2.0))
""",
    "a sample at which SymPy compares with infinity": """
a = row(prod, "a", lambda i: te.exp(te.sqrt(te.abs(x[i, j])) * -0.01))
q = lambda i: a[i] / (te.abs(x[i, j]) + 0.5)
b = row(te.max, "b", lambda i: te.exp(te.min(te.tanh(y[i, j]), q(i)) - te.max(te.tanh(y[i, j]), q(i))))
""",
}


@pytest.mark.parametrize("body", CRASHED.values(), ids=CRASHED)
def test_what_no_repair_is_found_for_takes_another_pass(body: str) -> None:
    program = program_of(HEAD + body + TAIL)
    kernel = nv.compile(program, "interpret")
    assert kernel.passes == 2 and len(kernel.loops.refusals) == 1
    for run in runs(program, 1024, 4, seed=1):
        wrong = difference(program, kernel, tensors(program, run))
        assert not wrong, (run, wrong)


def test_a_divisor_that_underflows_is_no_repair() -> None:
    """t * exp(-sqrt(a')) / exp(-sqrt(a)) was NaN where both exponentials are 0 in float32, and the definition is 0."""
    stages = """
a = row(te.max, "a", lambda i: x[i, j] * x[i, j])
b = row(te.sum, "b", lambda i: te.if_then_else(j >= 2, te.exp(-te.sqrt(te.abs(a[i]))) * y[i, j], 0.0))
"""
    kernel = nv.compile(program_of(HEAD + stages + TAIL.replace("64", "1e4")), "interpret")
    given = torch.zeros(1, 1025)
    given[0, [0, 3, 1024]] = torch.tensor([200.0, 1.0, 1.0])
    assert kernel(given, torch.ones(1, 1025)).tolist() == [0.0]
    (refusal,) = kernel.loops.refusals
    assert refusal.obligation.startswith("O7"), refusal


@pytest.mark.parametrize(
    ("term", "passes"),
    [
        ("x[i, j] / (a[i] + 1.0)", 1),  # at least 1
        ("x[i, j] * (a[i] + 1.0)", 1),
        ("x[i, j] * te.sqrt(a[i] + 1e-6)", 1),
        ("x[i, j] / te.sqrt(a[i])", 1),  # the definition's own divisor
        ("x[i, j] * ((a[i] + 1.0) * (a[i] + 1.0))", 1),
        ("x[i, j] * (a[i] * a[i])", 2),  # 1e-30 squared is 0
    ],
)
def test_what_a_repair_may_divide_by(term: str, passes: int) -> None:
    """``a`` is a sum of values >= 0."""
    stages = f"""
a = row(te.sum, "a", lambda i: te.abs(y[i, j]))
b = row(te.sum, "b", lambda i: {term})
"""
    kernel = nv.compile(program_of(HEAD + stages + TAIL), "interpret")
    assert kernel.passes == passes, (kernel.loops.refusals, kernel.source)


@pytest.mark.parametrize(
    "body",
    [
        """
a = row(te.sum, "a", lambda i: te.sigmoid(y[i, j]))
b = row(te.min, "b", lambda i: te.abs(y[i, j]) * a[i] + 0.0 * x[i, j])
""",
        """
a = row(te.sum, "a", lambda i: te.if_then_else(x[i, j] > 0.0, te.sigmoid(y[i, j]), 0.0))
b = row(te.min, "b", lambda i: te.if_then_else(x[i, j] > 0.0, te.abs(y[i, j]) * a[i], float("inf")))
""",
        """
a = row(te.sum, "a", lambda i: te.exp(y[i, j]))
b = row(te.max, "b", lambda i: te.abs(y[i, j]) * a[i] + 0.0 * x[i, j])
""",
    ],
    ids=["sigmoid", "masked sigmoid", "exp"],
)
def test_a_sum_of_what_underflows_may_be_0(body: str) -> None:
    """It is positive over the reals, so a guard at 0 was taken for one of empty rows: the kernel gave 1060 instead of 0."""
    kernel = nv.compile(program_of(HEAD + body + TAIL.replace("64", "1e4")), "interpret")
    assert kernel(torch.tensor([[1.0, 2.0]]), torch.full((1, 2), -1060.0)).tolist() == [0.0]
    (refusal,) = kernel.loops.refusals
    assert kernel.passes == 2 and refusal.obligation.startswith(("O6", "O7")), refusal


def test_a_sum_of_exponentials_below_their_maximum_is_never_0() -> None:
    """At the maximum itself the term is 1, however far the others are below."""
    body = """
m = row(te.max, "m", lambda i: x[i, j])
a = row(te.sum, "a", lambda i: te.exp(x[i, j] - m[i]))
b = row(te.max, "b", lambda i: te.abs(y[i, j]) * a[i])
"""
    kernel = nv.compile(program_of(HEAD + body + TAIL.replace("64", "1e4")), "interpret")
    given = torch.tensor([[-9000.0, 9000.0, -9000.0]]), torch.tensor([[3.0, -2.0, 1.0]])
    assert kernel(*given).tolist() == [3.0]
    assert kernel.passes == 1, kernel.loops.refusals

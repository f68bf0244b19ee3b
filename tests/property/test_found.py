"""Definitions that random programs found, and that took a pass too many, or were not compiled, before: the smallest ones."""

from __future__ import annotations

import pytest

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

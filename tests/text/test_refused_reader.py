"""Texts that the reader of kernels refuses: statements, calls, types, addresses, masks, stores, the grid."""

from __future__ import annotations

import pytest

from tests.text.bases import Edit, base, check, refusal

L, S, C, D = "masked_logsumexp", "softmax", "causal", "doubled"
FIRST = r"(    pid = tl\.program_id\(0\)\n)"


def before(program: str, statement: str, id_: str, why: str) -> Edit:
    """A statement after the first of the kernel."""
    return Edit(program, FIRST, rf"\1    {statement}\n", id_, why)


STATEMENTS = [
    before(L, "return", "O13", "does not know this statement"),
    before(L, "pass", "O13", "does not know this statement"),
    before(L, "assert M > 0", "O13", "does not know this statement"),
    before(L, "pid += 0", "O13", "does not know this statement"),
    before(L, "pid: int = pid", "O13", "does not know this statement"),
    before(L, "a, b = 1, 2", "O13", "does not know this statement"),
    before(L, "a = b = 1", "O13", "does not know this statement"),
    before(L, "a = (b := 1)", "O13", "does not know this expression"),
    before(L, "del M", "O13", "does not know this statement"),
    before(L, "import os", "O13", "does not know this statement"),
    before(L, "print(M)", "O13", "does not know this statement"),
    before(L, "tl.device_print('x', M)", "O13", "does not know this statement"),
    before(L, "tl.debug_barrier()", "O13", "does not know this statement"),
    before(L, "tl.atomic_add(lse_ptr, 1.0)", "O13", "does not know this statement"),
    before(L, "while M > 0:\n        M = M - 1", "O13", "does not know this statement"),
    before(L, "if M > 0:\n        M = M - 1", "O11", "may be left unwritten"),
    before(L, "with M:\n        M = M - 1", "O13", "does not know this statement"),
    before(L, "def f():\n        return 1", "O13", "does not know this statement"),
    before(L, "global M", "O13", "no Python text"),
    before(L, "x_ptr.y = 1", "O13", "does not know this statement"),
    before(L, "for k in (0, 1):\n        a = k", "O13", "does not know this statement"),
    before(L, "for k in tl.range(0, N):\n        a = k", "O13", "does not know this statement"),
    before(L, "for k in range(0, N):\n        a = k\n    else:\n        a = 1", "O13", "does not know this statement"),
    before(L, "tl = 1", "O13", "another meaning"),
    before(L, "float = 1", "O13", "another meaning"),
    before(L, "range = 1", "O13", "another meaning"),
    before(L, "for tl in range(0, N):\n        a = 1", "O13", "another meaning"),
    before(L, "for float in range(0, N):\n        a = 1", "O13", "another meaning"),
    before("blocks", "_floordiv = 1", "O13", "another meaning"),
    before("blocks", "for _floormod in range(0, N):\n        a = 1", "O13", "another meaning"),
]
EXPRESSIONS = [
    before(L, "a = nothing", "O13", "has no value here"),
    before(L, "a = x0", "O13", "has no value here"),
    before(L, "a = 'text'", "O13", "does not know this expression"),
    before(L, "a = None", "O13", "does not know this expression"),
    before(L, "a = 1j", "O13", "does not know this expression"),
    before(L, "a = (1, 2)", "O13", "does not know this expression"),
    before(L, "a = [M for M in (1, 2)]", "O13", "does not know this expression"),
    before(L, "a = lambda: 1", "O13", "does not know this expression"),
    before(L, "a = M if N else 1", "O13", "does not know this expression"),
    before(L, "a = not M", "O13", "does not know this expression"),
    before(L, "a = ~M", "O13", "does not know this expression"),
    before(L, "a = (M > 0) and (N > 0)", "O13", "does not know this expression"),
    before(L, "a = 0 < M < N", "O13", "does not know this expression"),
    before(L, "a = M is N", "O13", "does not know this expression"),
    before(L, "a = M.real", "O13", "does not know this expression"),
    before(L, "a = M ** 2", "O11", "Pow"),
    before(L, "a = M << 1", "O11", "LShift"),
    before(L, "a = M >> 1", "O11", "RShift"),
    before(L, "a = M ^ N", "O11", "BitXor"),
    before(L, "a = M @ N", "O11", "MatMult"),
    before(L, "a = M & N", "O13", "and of int32"),
    before(L, "a = M / N", "O13", "div of int32"),
    before(L, "a = (M > 0) + (N > 0)", "O13", "add of bool"),
    before(L, "a = tl.arange(0, BLOCK_I)[0]", "O13", "does not know this expression"),
    before(L, "a = tl.arange(0, BLOCK_I)[:, 0]", "O13", "an index of another form"),
    before(L, "a = tl.arange(0, BLOCK_I)[1:, None]", "O13", "an index of another form"),
    before(L, "a = tl.arange(0, BLOCK_I)[:, :]", "O13", "an index of another form"),
    before(L, "a = tl.arange(0, BLOCK_I)[:, None] + tl.arange(0, BLOCK_I)", "O13", "different ranks"),
    before(L, "a = tl.arange(0, 8) + tl.arange(0, 16)", "O13", "different shapes"),
    before(L, "a = 3 < 4", "O13", "a comparison of two constants"),
    before(L, "a = 5 & 3", "O13", "and of two constants"),
    before(L, "a = True + 1", "O13", "add of two constants"),
    before(L, "a = M + 0.5", "O12", "the constant 0.5 in int32"),
    before(L, "a = M + 3000000000", "O12", "the constant 3000000000 in int32"),
    before(L, "a = tl.full([BLOCK_I], 0.1, tl.float32)", "O16", "rounded unseen"),
    before(L, "a = tl.full([BLOCK_I], float('nan'), tl.float32)", "O13", "a NaN"),
    before(L, "a = tl.full([BLOCK_I], 1e39, tl.float32)", "O16", "rounded unseen"),
    before(L, "a = tl.full([BLOCK_I], 2, tl.int1)", "O13", "as a truth value"),
    before(L, "a = tl.full([BLOCK_I], 300, tl.int8)", "O12", "the constant 300 in int8"),
    before(L, "a = tl.full([BLOCK_I], -1, tl.uint8)", "O12", "the constant -1 in uint8"),
    before(L, "a = tl.full((BLOCK_I,), 0.0, tl.float32)", "O13", "a shape"),
    before(L, "a = tl.full([M], 0.0, tl.float32)", "O13", "a shape"),
    before(L, "a = tl.full([BLOCK_I], M, tl.int64)", "O13", "one number of its type"),
    before(L, "a = tl.full([BLOCK_I], 0.0, tl.float8e4nv)", "O13", "no type that is known"),
    before(L, "a = tl.full([BLOCK_I], 0.0, 'float32')", "O13", "no type that is known"),
    before(L, "a = tl.cast(M, tl.pi32_t)", "O13", "no type that is known"),
    before(L, "a = tl.cast(M, torch.int64)", "O13", "no type that is known"),
]
CALLS = [
    before(L, "a = tl.program_id(1)", "O13", "does not know this call"),
    before(L, "a = tl.program_id(axis=0)", "O13", "does not know this call"),
    before(L, "a = tl.num_programs(0)", "O13", "does not know this call"),
    before(L, "a = tl.arange(1, 9)", "O13", "does not know this call"),
    before(L, "a = tl.arange(0, 12)", "O13", "no power of two"),
    before(L, "a = tl.arange(0, M)", "O13", "no power of two"),
    before(L, "a = tl.zeros([BLOCK_I], tl.float32)", "O13", "does not know this call"),
    before(L, "a = tl.math.exp(M)", "O13", "does not know this call"),
    before(L, "a = tl.randint(0, M)", "O13", "does not know this call"),
    before(L, "a = tl.sigmoid(M)", "O13", "does not know this call"),
    before(L, "a = _tanh(M)", "O13", "does not know this call"),
    before(L, "a = open('x')", "O13", "does not know this call"),
    before(L, "a = (lambda: M)()", "O13", "does not know this call"),
    before(L, "a = M.to(tl.int64)", "O13", "does not know this call"),
    before(L, "a = tl.where(M, 1.0, 0.0)", "O13", "by something else than a truth value"),
    before(L, "a = tl.where(M > 0, 1, 0)", "O13", "two constants that are no floats"),
    before(L, "a = tl.where(M > 0, M, 0.5)", "O12", "the constant 0.5 in int32"),
    before(L, "a = tl.exp(M)", "O16", "exp of int32"),
    before(L, "a = tl.exp(1.0)", "O13", "is no tile"),
    before(L, "a = tl.maximum(M, tl.cast(N, tl.float32))", "O16", "an operation on int32 and float32"),
    before(L, "a = tl.maximum(M, N, M)", "O13", "does not know this call"),
    before(L, "a = tl.broadcast_to(tl.arange(0, 8), [16])", "O13", "different shapes"),
    before(L, "a = tl.broadcast_to(tl.arange(0, 8)[:, None], [1, 8])", "O13", "does not stretch"),
    before(L, "a = tl.permute(tl.arange(0, 8), (1,))", "O13", "an order"),
    before(L, "a = tl.sum(tl.arange(0, 8), axis=1)", "O13", "no dimension 1"),
    before(L, "a = tl.sum(tl.arange(0, 8), 0)", "O13", "does not know this call"),
    before(L, "a = tl.sum(tl.arange(0, 8), axis=-1)", "O13", "is no number"),
    before(L, "a = tl.sum(tl.arange(0, 8) > 3, axis=0)", "O16", "a sum of bool"),
    before(L, "a = tl.max(tl.cast(tl.arange(0, 8), tl.int8), axis=0)", "O16", "a max of int8"),
    before(L, "a = tl.argmax(tl.arange(0, 8), axis=0)", "O13", "does not know this call"),
    before(L, "a = tl.cumsum(tl.arange(0, 8), 0)", "O13", "does not know this call"),
    before(L, "a = tl.reduce(tl.arange(0, 8), 0, _mul)", "O13", "does not know this call"),
    before(L, "a = x_ptr * 2", "O11", "addresses"),
    before(L, "a = x_ptr - M", "O11", "addresses"),
    before(L, "a = x_ptr + M", "O11", "not its index times its stride"),
    before(L, "a = stride_x_0 + 1", "O11", "addresses"),
    before(L, "a = stride_x_0 * stride_x_1", "O12", "in fewer than 64 bits"),
    before(L, "a = tl.load(M)", "O11", "not from a tensor"),
    before(L, "a = tl.load(x_ptr, volatile=True)", "O9", "a load of another form"),
    before(L, "a = tl.load(x_ptr, mask=M > 0)", "O9", "no value for the other lanes"),
    before(L, "a = tl.load(x_ptr, mask=M > 0, other=M)", "O9", "no constant"),
    before(L, "a = tl.load(x_ptr, mask=M, other=0.0)", "O13", "no truth value"),
    before(L, "a = tl.load(x_ptr)", "O11", "beyond its dimension"),
    before(L, "a = tl.load(lse_ptr, mask=M > 0, other=0.0)", "O11", "which this kernel writes, is read"),
    before(L, "tl.store(x_ptr, 0.0, mask=M > 0)", "O11", "no output of this kernel"),
    before(L, "tl.store(M, 0.0)", "O11", "not to a tensor"),
    before(L, "tl.store(lse_ptr, 0.0, mask=M > 0, cache_modifier='.wb')", "O13", "a store of another form"),
    before(L, "tl.store(lse_ptr, tl.cast(M, tl.float64))", "O16", "another type than lse's"),
    before(L, "tl.store(lse_ptr, tl.full([8], 0.0, tl.float32))", "O13", "a tile of shape [8] where [] is wanted"),
]


@pytest.mark.parametrize("edit", STATEMENTS, ids=str)
def test_statements(edit: Edit) -> None:
    check(edit)


@pytest.mark.parametrize("edit", EXPRESSIONS, ids=str)
def test_expressions(edit: Edit) -> None:
    check(edit)


@pytest.mark.parametrize("edit", CALLS, ids=str)
def test_calls(edit: Edit) -> None:
    check(edit)


@pytest.mark.parametrize("statement", [
    "a = M", "a = M + 1 - N", "a = 3 * 4", "a = tl.full([BLOCK_I], 0.125, tl.float32)", "a = -M", "a = tl.cdiv(M, 3)",
    "a = M // 3 + M % 3", "a = tl.where(M > 0, M, N)", "a = tl.where(M > 0, 1.0, 0.0)", "a = tl.cast(M, tl.int64) * N",
    "a = tl.exp(tl.cast(M, tl.float32))", "a = tl.sum(tl.arange(0, 8), axis=0)", "a = (M > 0) & (N > 0) | (M == N)",
    "a = tl.arange(0, 8)[:, None] + tl.arange(0, 16)[None, :]", "for k in range(0, N):\n        a = k",
    "a = tl.load(x_ptr, mask=(M > 0) & (N > 0), other=0.0)",
])  # fmt: skip
def test_what_is_known_and_changes_nothing(statement: str) -> None:
    assert refusal(L, before(L, statement, "", "").source()) == ("", "")


def test_a_name_may_not_be_a_parameter() -> None:
    for name in ("tl", "float", "range"):
        source = base(L).source
        head, tail = source.split("def _masked_logsumexp_kernel", 1)
        assert refusal(L, head + "def _masked_logsumexp_kernel" + tail.replace("x_ptr", name))[0] == "O13"

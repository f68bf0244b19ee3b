"""Wrong files around a right kernel: launchers, grids, tables, headers, helpers."""

from __future__ import annotations

import re

import pytest

from neptune_verified.proofs.text import TextRefused, read_back
from tests.text.bases import TARGET, Edit, base, change, check, refusal

L, S, D, T, W = "masked_logsumexp", "softmax", "doubled", "two_kernels", "four_inputs"
CALL = r"(        _masked_logsumexp_kernel\[.*\n)"
PROGRAMS = r'programs = -\(-\(M\) // blocks\["BLOCK_I"\]\)'

CHECKS = [
    Edit(L, r"    _check_tensors\(\(.*\n", "", "O11", "no dimension of a tensor that was checked"),
    Edit(L, r'\("x", x, 2, torch', '("x", x, 3, torch', "O11", "ranks and types"),
    Edit(L, r"2, torch\.float32", "2, torch.float16", "O11", "ranks and types"),
    Edit(W, r'\("w", w, 1, torch\.float32\), ', "", "O11", "ranks and types"),
    Edit(L, r"    M = x\.shape\[0\]\n", "", "O12", "a limit on something else"),
    Edit(L, r"M = x\.shape\[0\]", "M = x.shape[1]", "O11", "another length"),
    Edit(L, r"M = x\.shape\[0\]", "M = x.shape[2]", "O11", "no dimension of a tensor"),
    Edit(L, r"M = x\.shape\[0\]", "M = x.shape[-2]", "O11", "no dimension of a tensor"),
    Edit(L, r"M = x\.shape\[0\]", "M = 5", "O13", "no launcher has this statement"),
    Edit(L, r"(    N = x\.shape\[1\]\n)", r"\1    N = x.shape[1]\n", "O11", "another length"),
    Edit(L, r"(    N = x\.shape\[1\]\n)", r"\1    x = x.shape[1]\n", "O11", "another length"),
    Edit(L, r"(    N = x\.shape\[1\]\n)", r"\1    N = N + 1\n", "O13", "no launcher has this statement"),
    Edit(L, r"    M = x\.shape\[0\]\n", '    _check_scalar("M", M, int, "an int")\n', "O13", "something else than"),
    Edit(W, r"    _check_length\(\"v\.shape\[1\]\"[^\n]*\n", "", "O11", "not checked: v.shape[1]"),
    Edit(W, r"v\.shape\[1\], \"N\", N\)", 'v.shape[1], "N", M)', "O11", "another length"),
    Edit(W, r"v\.shape\[1\], \"N\", N\)", 'v.shape[0], "N", N)', "O11", "another length"),
    Edit(L, r"    _check_limit\(\(\(\"M\".*\n", "", "O12", "no limit is checked for"),
    Edit(L, r'\("M", M\), ', "", "O12", "no limit is checked for ['M']"),
    Edit(L, r'\("M", M\), ', '("M", 5), ', "O12", "something else than a length"),
    Edit(L, r'\("M", M\), ', '("M", M + 1), ', "O12", "something else than a length"),
    Edit(T, r'\("K", K\),', '("K", K), ("alpha", alpha),', "O12", "something else than a length"),
    Edit(T, r"\(int, float\), \"a number\"", 'int, "an int"', "O13", "something else than the definition has"),
    Edit(T, r"    _check_scalar.*\n", "", "O13", "no value: ['alpha']"),
    Edit(L, r"    if not M >= 0:\n.*\n", "", "O13", "is not checked"),
    Edit(L, r"if not M >= 0", "if not M >= 1", "O13", "refuses lengths that the definition allows"),
    Edit(L, r"if not M >= 0", "if not M % 8 == 0", "O13", "refuses lengths that the definition allows"),
    Edit(L, r"if not M >= 0", "if M >= 0", "O13", "no launcher has this statement"),
    Edit(L, r"if not M >= 0", "if not M > 0", "O13", "an unknown condition"),
    Edit(L, r"if not M >= 0", "if not K >= 0", "O13", "has no value here"),
    Edit(L, r"(    blocks, options)", r'    _check_limit((("M", M),))\n\1', "O13", "a check after the results"),
]
RESULTS = [
    Edit(L, r"    lse, = _results.*\n", "", "O13", "a launch before its results"),
    Edit(L, r"\(\(\(M,\), torch", "(((N,), torch", "O11", "another shape or type"),
    Edit(L, r"\(\(\(M,\), torch", "(((M, N), torch", "O11", "another shape or type"),
    Edit(L, r"\(\(\(M,\), torch\.float32", "(((M,), torch.float16", "O11", "another shape or type"),
    Edit(L, r"\(x,\), out\)", "(), out)", "O11", "may share memory"),
    Edit(W, r"\(x, w, b, v,?\), out\)", "(x, w, b), out)", "O11", "may share memory"),
    Edit(L, r"\(x,\), out\)", "(x,), None)", "O11", "may share memory"),
    Edit(L, r"(    lse, = _results.*\n)", r"\1\1", "O11", "the results are not lse"),
    Edit(T, r"rows, tops = ", "tops, rows = ", "O11", "the results are not rows, tops"),
    Edit(T, r"return rows, tops", "return tops, rows", "O13", "it returns tops, rows"),
    Edit(T, r"return rows, tops", "return rows", "O13", "it returns rows"),
    Edit(L, r"    return lse\n", "", "O13", "returns nothing"),
    Edit(L, r"    return lse\n", "    return\n", "O13", "no launcher has this statement"),
    Edit(L, r"    return lse\n", "    return x\n", "O13", "it returns x"),
    Edit(L, r"    return lse\n", "    return lse + 1\n", "O13", "it returns lse + 1"),
    Edit(L, r"    return lse\n", "    return lse\n    return lse\n", "O13", "a statement after the return"),
    Edit(L, r"    return lse\n", "    lse.zero_()\n    return lse\n", "O13", "no launcher has this statement"),
]
LAUNCHES = [
    Edit(L, CALL, r"\1\1", "O13", "no launcher has this statement"),
    Edit(L, r"    if programs:\n.*\n.*\n", "", "O13", "0 launches"),
    Edit(L, r"if programs:", "if M:", "O13", "no launcher has this statement"),
    Edit(L, r"    if programs:\n        with _device\(x\):\n    ", "    with _device(x):\n", "O13", "no launcher has"),
    Edit(L, r"_device\(x\)", "_device(lse)", "O13", "a launch of another form"),
    Edit(L, r"_device\(x\):", "_device(x) as y:", "O13", "a launch of another form"),
    Edit(L, r"\[\(programs,\)\]", "[(programs + 1,)]", "O13", "a launch of another form"),
    Edit(L, r"\[\(programs,\)\]", "[(programs, 2)]", "O13", "a launch of another form"),
    Edit(L, r", \*\*blocks", "", "O13", "other options"),
    Edit(L, r"\*\*options\)", "**options, num_warps=1)", "O13", "other options"),
    Edit(L, r"\*\*blocks, \*\*options", "**options, **blocks", "O13", "other options"),
    Edit(L, r"\(x, lse, \*x", "(lse, x, *x", "O11", "an address in lse that is not its index times its stride"),
    Edit(L, r"\*x\.stride\(\), \*lse\.stride\(\)", "*lse.stride(), *x.stride()", "O13", "the table of argument types says one of stride_x_1"),  # noqa: E501
    Edit(L, r"\*x\.stride\(\)", "*x.stride()[::-1]", "O13", "no tensor, stride or length"),
    Edit(L, r"\*lse\.stride\(\)", "1", "O13", "no tensor, stride or length"),
    Edit(L, r", M, N, \*\*", ", N, M, **", "O11", "beyond"),
    Edit(L, r", M, N, \*\*", ", M, **", "O13", "6 arguments for 7 parameters"),
    Edit(L, r", M, N, \*\*", ", M, N - 1, **", "O13", "no tensor, stride or length"),
    Edit(T, r"float\(alpha\)", "alpha", "O13", "no tensor, stride or length"),
    Edit(T, r"_two_kernels_1_kernel\[", "_two_kernels_0_kernel[", "O13", ""),
    Edit(T, r"_pick\(_TWO_KERNELS_1_KERNEL_CONFIGS", "_pick(_TWO_KERNELS_0_KERNEL_CONFIGS", "O13", "used twice"),
    Edit(L, r"    blocks, options = .*\n", "", "O13", "a launch before"),
    Edit(L, r"blocks, options = ", "options, blocks = ", "O13", "picked in another way"),
    Edit(L, r"CONFIGS, M, config", "CONFIGS, M, None", "O13", "no table of tile configurations"),
    Edit(L, r"CONFIGS, M, config", "CONFIGS, -1, config", "O13", "no configuration is picked"),
    Edit(L, r"CONFIGS, M, config", "CONFIGS, M - 100, config", "O13", "no configuration is picked"),
    Edit(L, r"    _check_limit\(\(\(\"the.*\n", "", "O12", "no limit is checked for the number of programs"),
    Edit(L, rf"(    {PROGRAMS}\n)(    _check.*\n)", r"\2\1", "O13", "a check after the results were allocated"),
]  # fmt: skip
GRID = [
    Edit(L, PROGRAMS, 'programs = M // blocks["BLOCK_I"]', "O13", "is no length"),
    Edit(L, PROGRAMS, "programs = M // 8", "O11", "no program may be launched"),
    Edit(L, PROGRAMS, "programs = M", "O12", "(pid? * 8)"),
    Edit(L, PROGRAMS, 'programs = -(-(N) // blocks["BLOCK_I"])', "O11", "no program may be launched"),
    Edit(L, PROGRAMS, 'programs = -(-(M - 1) // blocks["BLOCK_I"])', "O11", "no program may be launched"),
    Edit(L, PROGRAMS, 'programs = -(-(M) // blocks["BLOCK"])', "O13", "does not have: blocks.BLOCK"),
    Edit(L, PROGRAMS, 'programs = (2) * -(-(M) // blocks["BLOCK_I"])', "O12", "(pid? * 8)"),
    Edit(L, r"i = pid \* BLOCK_I \+", "i = pid * 4 +", "O11", "index of another form"),
    Edit(L, r"i = pid \* BLOCK_I \+", "i = pid * 16 +", "O12", "(pid? * 16)"),
    Edit(L, r"i = pid \* BLOCK_I \+", "i = BLOCK_I +", "O11", "pid? is not used"),
    Edit(L, r"i = pid \* BLOCK_I \+", "i = (pid + 1) * BLOCK_I +", "O11", "index of another form"),
    Edit(D, r"pid % tl\.cdiv\(N, BLOCK_J\)", "pid % tl.cdiv(M, BLOCK_J)", "O11", "something else than a factor"),
    Edit(D, r"pid % tl\.cdiv\(N, BLOCK_J\)", "pid % (N // BLOCK_J + 1)", "O11", "something else than a factor"),
    Edit(D, r"pid // tl\.cdiv\(N, BLOCK_J\)", "pid // (N // BLOCK_J)", "O11", "something else than a factor"),
    Edit(D, r"pid // tl\.cdiv\(N, BLOCK_J\)", "pid // M", "O11", "another digit is taken off"),
    Edit(D, r"    pid = pid // tl\.cdiv\(N, BLOCK_J\)\n", "", "O12", "cast(pid?)"),
    Edit(D, r"    i = pid\n", "    i = M - 1 - pid\n", "O11", "index of another form"),
    Edit(D, r"    i = pid\n", "    i = 0\n", "O11", "pid?.rest is not used"),
    Edit(D, r"programs = \(M\)", "programs = (M - 1)", "O11", ""),
    Edit(D, r"programs = \(M\) \* ", "programs = ", "O11", ""),
]
TABLES = [
    Edit(L, r'"enable_fp_fusion": False', '"enable_fp_fusion": True', "O16", "may be contracted"),
    Edit(L, r', "enable_fp_fusion": False', "", "O13", "not one that is emitted"),
    Edit(L, r'"num_warps": 4', '"num_warps": 3', "O13", "no launch has"),
    Edit(L, r'"num_warps": 4', '"num_warps": True', "O13", "not one that is emitted"),
    Edit(L, r'"num_stages": 2', '"num_stages": 0', "O13", "no launch has"),
    Edit(L, r'"num_stages": 2', '"num_stages": 2, "num_ctas": 2', "O13", "not one that is emitted"),
    Edit(L, r'"BLOCK_I": 8', '"BLOCK_I": 6', "O13", "not one that is emitted"),
    Edit(L, r'"BLOCK_I": 8', '"BLOCK_I": 0', "O13", "not one that is emitted"),
    Edit(L, r'"BLOCK_I": 8', '"BLOCK_I": 8192', "O13", "not one that is emitted"),
    Edit(L, r'"BLOCK_I": 8', '"BLOCK_I": 8.0', "O13", "not one that is emitted"),
    Edit(L, r'"BLOCK_I": 8', '"BLOCK_I": M', "O13", "no literal"),
    Edit(L, r'"BLOCK_I": 8, ', "", "O13", "blocks.BLOCK_I"),
    Edit(L, r'"BLOCK_I": 8, ', '"BLOCK_I": 8, "BLOCK_Z": 8, ', "O13", "blocks are not"),
    Edit(L, r"False\}, 0\)", "False}, 1)", "O13", "no tile configuration"),
    Edit(L, r"False\}, 0\)", 'False}, "0")', "O13", "not one that is emitted"),
    Edit(L, r'    "rows": .*\n', "", "O13", "no tile configuration"),
    Edit(L, r'(    "rows": .*\n)', r"\1\1", "O13", "not one that is emitted"),
    Edit("causal", r'    "small": .*\n', "", "O13", "no tile configuration"),
    Edit(L, r'"M": "i32", "N"', '"M": "i64", "N"', "O13", "argument types says i64 of M"),
    Edit(L, r'"x_ptr": "\*fp32"', '"x_ptr": "*fp16"', "O13", "argument types says *fp16 of x_ptr"),
    Edit(L, r'"stride_x_0": "i32"', '"stride_x_0": "one"', "O13", "argument types says one of stride_x_0"),
    Edit(L, r', "N": "i32"', "", "O13", "says None of N"),
    Edit(L, r', "N": "i32"', ', "N": "i32", "K": "i32"', "O13", "not that of the parameters"),
    Edit(L, r', "N": "i32"', ', "N": 32', "O13", "other things than text"),
    Edit(L, r"_MASKED_LOGSUMEXP_KERNEL_SIGNATURE = ", "_OTHER_SIGNATURE = ", "O13", "argument types is missing"),
]
HEADER = [
    Edit(L, r'ENTRY = "masked_logsumexp"', 'ENTRY = "other"', "O13", "no launcher named 'other'"),
    Edit(L, r'TARGET = "interpret"', 'TARGET = "cuda:90"', "O13", "for cuda:90"),
    Edit(L, r'TARGET = "interpret"\n', 'TARGET = "interpret"\nTARGET = "interpret"\n', "O13", "bound twice"),
    Edit(
        L, r'TARGET = "interpret"\n', 'TARGET = "interpret"\nOTHER = 1\n', "O13", "no emitted file has this statement"
    ),
    Edit(
        L,
        r'TARGET = "interpret"\n',
        'TARGET = "interpret"\ntriton.jit = None\n',
        "O13",
        "no emitted file has this statement",
    ),
    Edit(L, r'TARGET = "interpret"\n', 'TARGET = "interpret"\nprint(1)\n', "O13", "no emitted file has this statement"),
    Edit(L, r"import torch\n", "import torch\nimport os\n", "O13", "its imports are"),
    Edit(L, r"import torch\n", "import numpy as torch\n", "O13", "its imports are"),
    Edit(L, r"import torch\n", "from os import path as torch\n", "O13", "its imports are"),
    Edit(L, r"import triton\.language as tl\n", "", "O13", "its imports are"),
    Edit(L, r'"""masked(.|\n)*?"""\n', "", "O13", "no docstring"),
    Edit(L, r"# a kernel to edit", "# -*- coding: utf-7 -*-", "O13", "names an encoding"),
    Edit(L, r"# a kernel to edit\n", "#\n# vim: set fileencoding=unicode_escape :\n", "O13", "names an encoding"),
    Edit(L, r"@triton\.jit\ndef _masked", "@triton.jit(noinline=True)\ndef _masked", "O13", "no plain Triton kernel"),
    Edit(L, r"@triton\.jit\ndef _masked", "@torch.compile\n@triton.jit\ndef _masked", "O13", "no plain Triton kernel"),
    Edit(L, r"@triton\.jit\ndef _masked", "def _masked", "O13", ""),
    Edit(L, r"BLOCK_I: tl\.constexpr", "BLOCK_I", "O13", "the configuration's blocks are not BLOCK_X0"),
    Edit(L, r"BLOCK_I: tl\.constexpr", "BLOCK_I: int", "O13", "a parameter of an unknown kind"),
    Edit(
        L,
        r"BLOCK_I: tl\.constexpr",
        "BLOCK_I: tl.constexpr = 8",
        "O13",
        "non-default argument follows default argument (<unknown>, li",
    ),
    Edit(L, r"    M, N,\n", "    M, *N,\n", "O13", "parameters of an unknown kind"),
    Edit(L, r"def masked_logsumexp\(x, \*", "def masked_logsumexp(x: print(1), *", "O13", "the launcher's parameters"),
    Edit(L, r"config=None\):", "config=None) -> print(1):", "O13", "the launcher's parameters"),
    Edit(L, r"config=None\):", "config=5):", "O13", "a value of its own"),
    Edit(L, r"out=None, config=None\):", "config=None, out=None):", "O13", "parameters are"),
    Edit(L, r"\(x, \*, out", "(x, y=1, *, out", "O13", "parameters are"),
    Edit(L, r"def masked_logsumexp\(x", "@print\ndef masked_logsumexp(x", "O13", ""),
    Edit(L, r"raise TypeError", "print", "O13", "helper _check_tensors is not the one"),
    Edit(L, r"2147475456 <= n", "2147483647 <= n", "O13", "helper _check_limit is not the one"),
    Edit("blocks", r"q - 1, q\)", "q + 1, q)", "O13", "helper _floordiv is not the one"),
    Edit(L, r"class _device:", "class _other:", "O13", "helper _other is not the one"),
    Edit(L, r"def _check_length\(", "def check_length(", "O13", "the function masked_logsumexp is not known"),
]


@pytest.mark.parametrize("edit", [*CHECKS, *RESULTS, *LAUNCHES, *GRID, *TABLES, *HEADER], ids=str)
def test_refused(edit: Edit) -> None:
    check(edit)


@pytest.mark.parametrize("helper", ["_check_tensors", "_check_limit", "_results", "_pick", "_device", "ShapeError"])
def test_a_helper_is_missing(helper: str) -> None:
    source = re.sub(rf"(?m)^(def|class) {helper}\b.*\n(( .*)?\n)*", "", base(L).source)
    assert f"def {helper}" not in source and f"class {helper}" not in source
    id_, why = refusal(L, source)
    assert (id_, helper in why) == ("O13", True), why


def test_what_is_no_python() -> None:
    for source in ("", "def", '"""x"""\nx = (\n', "\0", '"""x"""', "(" * 5000):
        assert refusal(L, source)[0] == "O13"


def test_the_definition_that_the_docstring_names() -> None:
    b = base("doubled")
    read_back(b.loops, b.source, TARGET, "0" * 64)
    for source, wanted in (
        (b.source, "1" * 64),
        (b.source.replace("definition: sha256", "definition sha256"), "0" * 64),
        (change(b.source, "(definition: sha.*\n)", r"\1\1"), "0" * 64),
    ):
        with pytest.raises(TextRefused, match=r"O13.*another definition"):
            read_back(b.loops, source, TARGET, wanted)


def test_another_target_and_another_program() -> None:
    b = base("doubled")
    with pytest.raises(TextRefused, match="not doubled for cuda:90"):
        read_back(b.loops, b.source, "cuda:90")
    assert refusal("doubled", base(L).source)[0] == "O13"

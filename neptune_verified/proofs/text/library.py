"""Trusted: the helper functions that an emitted file may carry, known by their exact text, and what each one means.

A reader of this file has to check the texts against the meanings once (tests do so too, with Z3, SymPy and interval
arithmetic: tests/text/test_library.py); after that a single changed character makes a function unknown, and the file
refused.

Device functions, elementwise on tiles and scalars:

    _tanh(x)           tanh x; a series where |x| < 1/8, of relative error below 2^-29 over the reals
    _sigmoid(x)        1 / (1 + exp(-x))
    _floordiv(a, b)    floor(a / b), for integers, b != 0
    _floormod(a, b)    a - floor(a / b) b
    _pow(x, y)         x ** y, for finite x != 0 or y >= 0
    _logaddexp(a, b)   log(exp a + exp b), -inf included
    _mul(a, b)         a b, for tl.reduce

Host functions:

    _check_tensors(rows)    returns only if each is a torch tensor of this rank and dtype, all on one device, none wanting
                            a gradient
    _check_length(.., have, .., want)   returns only if have == want
    _check_scalar(name, x, kinds, ..)   returns only if x is a number of these kinds, and no bool
    _check_limit(rows)      returns only if every number is at most 2^31 - 8192 in magnitude
    _results(specs, inputs, out)   new tensors of these shapes and dtypes on the inputs' device; or those of ``out``, which
                            then have these shapes and dtypes and share no memory with an input or each other
    _pick(table, rows, wanted)     blocks and options of one entry of the table
    _device(x)              a context in which x's device is the current one
    _shares(n, programs, waves, block, x, splits, split_size)   (count, size), of ints: count >= 1; and if count > 1, then
                            size is a positive multiple of block, and count <= n <= count * size <= 2^31 - 8192. Raises
                            ShapeError for a splits or split_size that is no positive int or None. x is a tensor, programs
                            and waves are ints, n is an int >= 0 and block one >= 1
    _between(specs, x)      new tensors of these shapes and dtypes on x's device
"""

from __future__ import annotations

import ast
import hashlib

#: The bound that _check_limit enforces on lengths, integer arguments and the number of programs.
LIMIT = 2**31 - 8192

DEVICE = {
    "_tanh": "e91b154eb0b2746ee0f79823e476247cbd568a04a19f92ef93a758154878a025",
    "_sigmoid": "dcb143d273a64eb417d346fece95a3ed791b6323d6611211b5b799062304b852",
    "_floordiv": "10ef32ab3d0c94183f9f5b1f25577b72f2db6409ec6409b1c2c13bb63289ad0d",
    "_floormod": "98c8a764b072836dbe4475c1f958a8d5d03b96384ae117aaf0858ba3d480d2fd",
    "_pow": "70a367a20baf14ab17e43d978338b24683c6fe038878b8896adbfa2e8cf306dd",
    "_mul": "58b88e7e9438cf0483bc9e10c1c73c4a6837575c53c51d93aa7d307ed472521b",
    "_logaddexp": "f3a40b0119a4e17a80a05bc98f7d506bef1a255615b14df0ef0310ae4479a2b9",
}
HOST = {
    "_check_tensors": "b98d3de78ba2148d9800c7d7fde8939379d2dde83cc843a4c77a251de23629ac",
    "_check_length": "570b53989ab6307616b97dca3d46ec2255c0f1b13e29ef4728cc44792bf677c8",
    "_check_scalar": "90e540fd35516ffc2f5c4557dcd2d9973f44a1f3faecb8f7a20866876ddd21fd",
    "_check_limit": "984aef3c6a4d37d8adf93f814d175a5d7053eaeaea795f9bec145cd1697c4300",
    "_results": "eee437ca0ef27d7ec0eb7698e8d45020e04a5469cdb8909370fd46835123b4da",
    "_pick": "4ca3f28270d28803364efdfa7cd25ee7442d99af711bd3752944b34bd870ea55",
    "_device": "d8febba2e28d55438d2ca682b4dc215d77baa3eda2b212c645432930d5f25758",
    "_shares": "7168b6a592610236169cc3bba8b2dd62187ae39eb34394b0fa6306922777e122",
    "_between": "58a7d0576f2c1f01c9829fb558b6217dbe10b7085c1af2071926bc7380831c53",
    "ShapeError": "1a2161761aa121aabbefbe4108295bd28c09069bf16a2c2addf776fc2d3c9145",
}


def known_text(s: ast.FunctionDef | ast.ClassDef, source: str) -> str | None:
    """SHA-256 of the definition's own lines, decorators included; None if other statements share them."""
    first = min([s.lineno, *(d.lineno for d in s.decorator_list)])
    if s.end_lineno is None or s.col_offset != 0:
        return None
    # ast counts the line ends \n, \r\n and \r, and no others.
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")[first - 1 : s.end_lineno]
    if ";" in lines[-1].split("#")[0]:
        return None
    return hashlib.sha256("\n".join(line.rstrip() for line in lines).encode()).hexdigest()

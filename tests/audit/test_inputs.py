"""Inputs from files: every format, batches, conversions, and each kind of wrong file with its message."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from neptune_verified.auditing.inputs import Inputs, from_file
from neptune_verified.ir.expr import axis, const, op, read, reduce_, size
from neptune_verified.ir.program import Assumption, Program, Stage, Tensor
from tests.definitions import attention, softmax

F = "float32"
M, N, D = 3, 16, 8


def weighted() -> Program:
    """sum_j x[i, j] table[k[j]] + shift, with an added mask, a scalar that no shape gives, and facts on contents."""
    m, n, t, w = size("M"), size("N"), size("T"), size("shift", F)
    i, j = axis("i", m), axis("j", n)
    table = read("table", (read("k", (j,), "int32"),), F)
    body = op("mul", op("add", read("x", (i, j), F), read("bias", (j,), F)), table)
    stages = (Stage("s", (i,), reduce_("sum", (j,), body)), Stage("y", (i,), op("add", read("s", (i,), F), w)))
    inputs = (
        Tensor("x", (m, n), F),
        Tensor("bias", (n,), F),
        Tensor("k", (n,), "int32"),
        Tensor("table", (t,), F),
    )
    facts = (
        Assumption("positive", "x"),
        Assumption("bounded", "x", 100.0),
        Assumption("finite_or_minus_infinity", "bias"),
        Assumption("bounded", "bias", 2**40, origin="default"),
        Assumption("nonzero", "table"),
        Assumption("at_least", "k", 0),
        Assumption("multiple_of", "N", 2),
    )
    return Program("weighted", inputs, (m, n, t, w), stages, ("y",), facts)


def qkv(*batch: int, dtype: torch.dtype = torch.float16) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    return {n: torch.randn(*batch, r, D, generator=g).to(dtype) for n, r in (("q", M), ("k", N), ("v", N))}


def given() -> dict[str, Any]:
    return {
        "x": torch.rand(3, 4) + 0.5,
        "bias": torch.zeros(4),
        "k": torch.tensor([0, 1, 1, 0], dtype=torch.int32),
        "table": torch.tensor([1.0, 2.0]),
        "shift": torch.tensor(0.5),
    }


def saved(path: Path, content: Any) -> Path:
    torch.save(content, path)
    return path


def one(program: Program, path: Path, **more: Any) -> Inputs:
    (found,) = from_file(program, path, **more)
    return found


def same(have: Inputs, want: dict[str, torch.Tensor]) -> bool:
    return list(have.tensors) == list(want) and all(torch.equal(have.tensors[n], want[n]) for n in want)


# ------------------------------------------------------------------------------------------------- right files


def test_a_dict_and_a_list(tmp_path: Path) -> None:
    x = qkv()
    for content in (x, [*x.values()], tuple(x.values()), [x], [[*x.values()]], dict(reversed(x.items()))):
        found = one(attention(), saved(tmp_path / "x.pt", content))
        assert same(found, x)
        assert (found.name, found.origin, found.family, found.notes) == ("x.pt", "file", "x.pt", ())
        assert not found.outside and found.scalars == {} and found.shapes["q"] == (M, D)


def test_several_samples_and_batches(tmp_path: Path) -> None:
    x = qkv(5)
    found = list(from_file(attention(), saved(tmp_path / "x.pt", [x, qkv()])))
    assert [f.name for f in found] == ["x.pt[0, 0]", "x.pt[0, 1]", "x.pt[0, 2]", "x.pt[0, 3]", "x.pt[0, 4]", "x.pt[1]"]
    assert same(found[3], {n: t[3] for n, t in x.items()}) and same(found[5], qkv())
    assert [f.name for f in from_file(attention(), saved(tmp_path / "y.pt", qkv(2)))] == ["y.pt[0]", "y.pt[1]"]


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
def test_one_tensor_for_one_input(tmp_path: Path, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    np.save(tmp_path / "x.npy", x.numpy())
    for path in (saved(tmp_path / "x.pt", x), tmp_path / "x.npy", saved(tmp_path / "l.pt", [x])):
        found = list(from_file(softmax(), path))
        assert torch.equal(torch.stack([f.tensors["x"] for f in found]), x.view(-1, 3, 4))
    assert len(list(from_file(softmax(), saved(tmp_path / "two.pt", [torch.ones(2, 3), torch.ones(5, 1)])))) == 2


def test_arrays_by_name_and_in_order(tmp_path: Path) -> None:
    x = {n: t.numpy() for n, t in qkv().items()}
    np.savez(tmp_path / "named.npz", **x)
    np.savez(tmp_path / "ordered.npz", *x.values())
    for name in ("named.npz", "ordered.npz"):
        assert same(one(attention(), tmp_path / name), qkv())


def test_safetensors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.torch import save_file

    x = qkv(dtype=torch.bfloat16)
    save_file(x, tmp_path / "x.safetensors")
    found = one(attention(dtype="bfloat16"), tmp_path / "x.safetensors")
    assert same(found, x) and not found.notes
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(ValueError, match="pip install safetensors"):
        from_file(attention(), tmp_path / "x.safetensors")


def test_other_float_types_are_converted_with_a_note(tmp_path: Path) -> None:
    x = qkv(dtype=torch.float32) | {"v": qkv()["v"]}
    found = one(attention(), saved(tmp_path / "x.pt", x))
    assert found.notes == ("q: float32 to float16", "k: float32 to float16") and not found.outside
    assert torch.equal(found.tensors["q"], x["q"].half()) and found.tensors["q"].dtype == torch.float16


def test_integers_are_converted_where_they_fit(tmp_path: Path) -> None:
    x = given() | {"k": torch.tensor([0, 1, 0, 1])}
    found = one(weighted(), saved(tmp_path / "x.pt", x))
    assert found.tensors["k"].dtype == torch.int32 and found.notes == ("k: int64 to int32",)


def test_scalars(tmp_path: Path) -> None:
    x = given()
    path = saved(tmp_path / "x.pt", x)
    assert one(weighted(), path).scalars == {"shift": 0.5}
    assert one(weighted(), path, scalars={"shift": 2}).scalars == {"shift": 2.0}
    assert one(weighted(), saved(tmp_path / "y.pt", [*x.values()])).scalars == {"shift": 0.5}
    del x["shift"]
    assert one(weighted(), saved(tmp_path / "z.pt", x), scalars={"shift": 2}).scalars == {"shift": 2.0}
    assert one(weighted(), saved(tmp_path / "n.pt", x | {"shift": 3})).scalars == {"shift": 3.0}


OUTSIDE: dict[str, tuple[dict[str, Any], str]] = {
    "positive": ({"x": torch.tensor([[1.0, 2, 3, 4], [1, 2, 3, 0]])}, "x > 0 at x[1, 3]"),
    "bounded": ({"x": torch.tensor([[1.0, 2, 3, 101]])}, "|x| <= 100 at x[0, 3]"),
    "infinite": ({"x": torch.tensor([[1.0, math.inf, 3, 4]])}, "|x| <= 100 at x[0, 1]"),
    "plus infinity": ({"bias": torch.tensor([0, 0, math.inf, 0])}, "bias is finite or -inf at bias[2]"),
    "default bound": ({"bias": torch.tensor([2.0**41, 0, 0, 0])}, "|bias| <= 2^40 at bias[0]"),
    "nonzero": ({"table": torch.tensor([1.0, 0.0])}, "table != 0 at table[1]"),
    "at least": ({"k": torch.tensor([0, 1, -1, 0], dtype=torch.int32)}, "k >= 0 at k[2]"),
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_what_is_outside_the_assumptions_is_noted(tmp_path: Path, case: str) -> None:
    changed, text = OUTSIDE[case]
    found = one(weighted(), saved(tmp_path / "x.pt", given() | changed))
    assert found.outside and f"outside the assumptions: {text}" in found.notes


def test_minus_infinity_is_inside_where_it_is_declared(tmp_path: Path) -> None:
    found = one(weighted(), saved(tmp_path / "x.pt", given() | {"bias": torch.full((4,), -math.inf)}))
    assert not found.outside


def test_lengths_outside_the_assumptions(tmp_path: Path) -> None:
    x = qkv()
    x |= {n: x[n][:15] for n in "kv"}
    found = one(attention(), saved(tmp_path / "x.pt", x))
    assert found.notes == ("outside the assumptions: N % 16 == 0 at M = 3, N = 15",)
    long = given() | {"x": torch.ones(3, 3), "bias": torch.zeros(3), "k": torch.zeros(3, dtype=torch.int32)}
    assert one(weighted(), saved(tmp_path / "y.pt", long)).notes == ("outside the assumptions: N % 2 == 0 at N = 3",)


def test_a_length_that_is_computed(tmp_path: Path) -> None:
    p = softmax()
    p = replace(p, inputs=(*p.inputs, Tensor("w", (op("mul", size("N"), const(2, "int32")),), F)))
    assert one(p, saved(tmp_path / "x.pt", [torch.ones(2, 3), torch.ones(6)])).shapes == {"x": (2, 3), "w": (6,)}
    with pytest.raises(ValueError, match=r"w has shape \[5\], wanted \[N \* 2\] with dimension 0 = 6"):
        one(p, saved(tmp_path / "x.pt", [torch.ones(2, 3), torch.ones(5)]))


# ------------------------------------------------------------------------------------------------- wrong files


def broken(name: str, content: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return write


def pt(content: Any) -> Callable[[Path], Path]:
    return lambda folder: saved(folder / "x.pt", content)


def with_(**changed: Any) -> Callable[[Path], Path]:
    return pt({k: v for k, v in (qkv() | changed).items() if v is not None})


def also(**changed: Any) -> Callable[[Path], Path]:
    return pt({k: v for k, v in (given() | changed).items() if v is not None})


def npz(**arrays: Any) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        np.savez(folder / "x.npz", **arrays)
        return folder / "x.npz"

    return write


class Custom:
    pass


H = torch.float16
#: name -> (definition, what writes the file, parts of the message)
WRONG: dict[str, tuple[Callable[[], Program], Callable[[Path], Path], tuple[str, ...]]] = {
    "no file": (attention, lambda folder: folder / "none.pt", ("none.pt: no such file",)),
    "ending": (attention, broken("x.csv", b"1,2"), ("x.csv", ".pt, .npy, .npz, .safetensors")),
    "damaged pt": (attention, broken("x.pt", b"nothing"), ("x.pt: torch.load", "torch.save({'x': x}, FILE)")),
    "empty pt": (attention, broken("x.pt", b""), ("x.pt: torch.load", "torch.save")),
    "code in pt": (attention, pt({"q": Custom()}), ("weights_only=True", "write tensors alone")),
    "damaged npy": (softmax, broken("x.npy", b"nothing"), ("x.npy: it cannot be read", "numpy.save")),
    "damaged npz": (attention, broken("x.npz", b"nothing"), ("x.npz: it cannot be read", "numpy.savez")),
    "damaged safetensors": (attention, broken("x.safetensors", b"no"), ("x.safetensors: it cannot", "save_file")),
    "objects in npz": (attention, npz(q=np.array([{}])), ("x.npz: it cannot be read", "numpy.savez")),
    "complex": (attention, npz(q=np.ones(2, complex)), ("q is complex128", "floats, integers")),
    "text at the top": (attention, pt("text"), ("x.pt: str at the top", "wanted are tensors by name")),
    "no sample": (attention, pt([]), ("holds no sample", "save a dict")),
    "a dict of lists": (attention, pt({"q": [1.0]}), ("'q' is a list", "wanted are tensors by name")),
    "a text in a sample": (attention, pt([["a"]]), ("item 0 of a sample is a str", "wanted are")),
    "a sample of None": (attention, pt([None, {}]), ("a sample is a NoneType", "wanted are")),
    "one tensor for three": (attention, pt(torch.ones(3)), ("1 tensors, wanted 3 in the order q, k, v", "by name")),
    "too many": (attention, pt([torch.ones(1)] * 4), ("4 tensors, wanted 3", "q, k, v")),
    "npy for three": (attention, lambda f: np.save(f / "x.npy", np.ones(2)) or f / "x.npy", ("1 tensors, wanted 3",)),
    "missing": (attention, with_(v=None), ("v is missing: add it", "the file has q, k")),
    "unknown": (attention, with_(w=torch.ones(2)), ("'w' is no input of attention", "rename", "q, k, v")),
    "rank": (attention, with_(k=torch.ones(8, dtype=H)), ("k has shape [8], wanted [N, 8]", "a batch")),
    "a batch of one input": (attention, with_(q=torch.ones(2, 3, 8, dtype=H)), ("q has shape [2, 3, 8]", "[M, 8]")),
    "two dimensions more": (attention, pt(qkv(2, 2)), ("q has shape [2, 2, 3, 8]", "wanted [M, 8]", "remove")),
    "batches": (attention, pt(qkv(2) | {"v": qkv(4)["v"]}), ("v has shape [4, 16, 8], a batch of 4", "one of 2")),
    "an empty batch": (attention, pt(qkv(0)), ("a batch of 0", "at least one")),
    "lengths": (attention, with_(v=torch.ones(15, 8, dtype=H)), ("v has shape [15, 8]", "N = 16 from k.shape[0]")),
    "width": (attention, with_(q=torch.ones(3, 9, dtype=H)), ("q has shape [3, 9], wanted [M, 8]", "dimension 1 = 8")),
    "integers": (attention, with_(q=torch.ones(3, 8, dtype=torch.int32)), ("q is int32, wanted float16", "convert")),
    "floats": (weighted, also(k=torch.zeros(4)), ("k is float32, wanted int32", "convert")),
    "complex tensor": (attention, with_(q=torch.ones(3, 8, dtype=torch.cfloat)), ("q is complex64", "float16")),
    "sparse": (attention, with_(q=torch.ones(3, 8).to_sparse()), ("q is sparse", "x.to_dense()")),
    "NaN": (attention, with_(q=torch.full((3, 8), math.nan)), ("q[0, 0] is NaN", "replace it")),
    "overflow": (attention, with_(q=torch.full((3, 8), 1e6)), ("q[0, 0] is 1e+06, which is inf in float16", "scale")),
    "integer overflow": (weighted, also(k=torch.tensor([0, 0, 0, 2**40])), ("k[3] is", "in int32", "that fit")),
    "no scalar": (weighted, also(shift=None), ("the scalar shift is missing", "0-d entry", "shift=VALUE")),
    "a scalar with a shape": (weighted, also(shift=torch.ones(2)), ("shift has shape [2]", "0-d tensor")),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_files(tmp_path: Path, case: str) -> None:
    program, write, parts = WRONG[case]
    path = write(tmp_path)
    with pytest.raises(ValueError) as e:
        list(from_file(program(), path))
    text = str(e.value)
    assert "\n" not in text and path.name in text, text
    for part in parts:
        assert part in text, text


def test_the_sample_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"x\.pt\[1\]: k is missing"):
        list(from_file(attention(), saved(tmp_path / "x.pt", [qkv(), {"q": qkv()["q"]}])))


def test_a_scalar_of_another_type(tmp_path: Path) -> None:
    p = weighted()
    p = replace(p, sizes=(*p.sizes[:3], size("shift", "int32")))
    with pytest.raises(ValueError, match=r"shift = 0\.5 is no int32: give a whole number"):
        one(p, saved(tmp_path / "x.pt", given()))
    with pytest.raises(ValueError, match="'M' is no scalar of weighted"):
        from_file(weighted(), tmp_path / "x.pt", scalars={"M": 3})

"""The helper functions of launchers, executed: what they let pass, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from neptune_verified.proofs.text.library import LIMIT
from neptune_verified.tile.host import HOST as HOST_TEXT
from neptune_verified.tile.host import HOST_SPLIT


class ShapeError(ValueError):
    pass


HOST: dict[str, Any] = {"torch": torch, "ShapeError": ShapeError}
exec("\n".join([*HOST_TEXT, *HOST_SPLIT]), HOST)
F32, F64, I32 = torch.float32, torch.float64, torch.int32


def x(*shape: int, dtype: torch.dtype = F32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


# -------------------------------------------------------------------------------------------------- checks


@pytest.mark.parametrize("n", [0, 1, -1, LIMIT, -LIMIT])
def test_numbers_within_the_limit(n: int) -> None:
    HOST["_check_limit"]((("a", 0), ("n", n)))


@pytest.mark.parametrize("n", [LIMIT + 1, -LIMIT - 1, 2**31 - 1, 2**63, -(2**100), float("nan"), float("inf")])
def test_numbers_beyond_the_limit(n: float) -> None:
    with pytest.raises(ShapeError, match="n is"):
        HOST["_check_limit"]((("a", 0), ("n", n)))


def test_equal_lengths() -> None:
    HOST["_check_length"]("x.shape[0]", 3, "M", 3)
    for have, want in ((3, 4), (0, 1), (-3, 3)):
        with pytest.raises(ShapeError, match=r"x.shape\[0\]"):
            HOST["_check_length"]("x.shape[0]", have, "M", want)
    with pytest.raises(ShapeError, match="the definition says 16"):
        HOST["_check_length"]("x.shape[0]", 8, "16", 16)


@pytest.mark.parametrize(("value", "kinds"), [(3, int), (-3, int), (3, (int, float)), (0.5, (int, float))])
def test_scalars(value: float, kinds: Any) -> None:
    HOST["_check_scalar"]("w", value, kinds, "a number")


@pytest.mark.parametrize(
    ("value", "kinds"),
    [(True, int), (False, (int, float)), (0.5, int), ("3", int), (None, (int, float)), (1j, (int, float))],
)
def test_no_scalars(value: Any, kinds: Any) -> None:
    with pytest.raises(TypeError, match="w must be"):
        HOST["_check_scalar"]("w", value, kinds, "a number")


def test_a_tensor_is_no_scalar() -> None:
    with pytest.raises(TypeError):
        HOST["_check_scalar"]("w", torch.tensor(3), int, "an int")


def test_tensors() -> None:
    rows = (("x", x(2, 3), 2, F32), ("y", x(dtype=I32), 0, I32), ("z", x(0, 0, 0), 3, F32))
    HOST["_check_tensors"](rows)
    HOST["_check_tensors"]((("x", x(4, 4).t()[::2], 2, F32),))
    HOST["_check_tensors"]((("x", x(1, 1).expand(9, 9), 2, F32),))


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (x(2), ShapeError),
        (x(2, 3, 1), ShapeError),
        (x(2, 3, dtype=F64), ShapeError),
        (x(2, 3, dtype=I32), ShapeError),
        (torch.zeros(2, 3, device="meta"), ShapeError),
        ([[0.0]], TypeError),
        (None, TypeError),
        (x(2, 3).numpy(), TypeError),
        (x(2, 3).requires_grad_(), RuntimeError),
    ],
)
@pytest.mark.parametrize("place", [0, 1])
def test_wrong_tensors(bad: Any, error: type[Exception], place: int) -> None:
    rows = [("a", x(2, 3), 2, F32), ("b", x(2, 3), 2, F32)]
    rows[place] = ("bad", bad, 2, F32)
    with pytest.raises(error):
        HOST["_check_tensors"](tuple(rows))


def test_a_gradient_that_is_not_recorded_is_no_reason() -> None:
    with torch.no_grad():
        HOST["_check_tensors"]((("x", x(2, 3).requires_grad_(), 2, F32),))


# ------------------------------------------------------------------------------------------------- results

SPECS = (((2, 3), F32), ((4,), I32))


def test_new_results() -> None:
    a, b = HOST["_results"](SPECS, (x(2, 3),), None)
    assert (tuple(a.shape), a.dtype, tuple(b.shape), b.dtype) == ((2, 3), F32, (4,), I32)
    assert a.device == x(1).device
    (e,) = HOST["_results"]((((0, 3), F32),), (x(2, 3),), None)
    assert tuple(e.shape) == (0, 3)
    (m,) = HOST["_results"]((((2,), F32),), (torch.zeros(2, device="meta"),), None)
    assert m.device.type == "meta"


def test_given_results() -> None:
    a, b = x(2, 3), x(4, dtype=I32)
    assert HOST["_results"](SPECS, (x(2, 3),), (a, b)) == (a, b)
    assert HOST["_results"](SPECS, (x(2, 3),), [a, b]) == (a, b)
    t = x(3, 2).t()
    assert HOST["_results"](SPECS[:1], (x(2, 3),), t)[0] is t
    assert HOST["_results"](SPECS[:1], (x(2, 3),), x(5, 6)[::3, ::2])[0].stride() == (18, 2)


def shared() -> tuple[torch.Tensor, torch.Tensor]:
    whole = x(12)
    return whole[:6].view(2, 3), whole[6:10].view(4)


@pytest.mark.parametrize(
    "out",
    [
        (x(2, 3),),
        (x(2, 3), x(4, dtype=I32), x(1)),
        (x(3, 2), x(4, dtype=I32)),
        (x(2, 3), x(4)),
        (x(2, 3, dtype=F64), x(4, dtype=I32)),
        (x(1, 3).expand(2, 3), x(4, dtype=I32)),
        (torch.zeros(2, 3, device="meta"), x(4, dtype=I32)),
        (x(2, 3), x(5, dtype=I32)),
    ],
)
def test_results_that_do_not_fit(out: Any) -> None:
    with pytest.raises(ShapeError):
        HOST["_results"](SPECS, (x(2, 3),), out)


def test_results_that_share_memory() -> None:
    a = x(2, 3)
    for inputs in ((a,), (a.t(),), (x(1), a[:1])):
        with pytest.raises(ShapeError, match="shares memory"):
            HOST["_results"](SPECS[:1], inputs, (a,))
    specs = (((2, 3), F32), ((4,), F32))
    with pytest.raises(ShapeError, match="shares memory"):
        HOST["_results"](specs, (x(1),), shared())
    b = x(2, 3)
    with pytest.raises(ShapeError, match="shares memory"):
        HOST["_results"]((((2, 3), F32), ((2, 3), F32)), (x(1),), (b, b))


# --------------------------------------------------------------------------------------------------- tables

TABLE = {"large": ({"B": 64}, {"w": 8}, 64), "medium": ({"B": 32}, {"w": 4}, 32), "small": ({"B": 16}, {"w": 2}, 0)}


@pytest.mark.parametrize(("rows", "wanted", "block"), [
    (0, None, 16), (31, None, 16), (32, None, 32), (63, None, 32), (64, None, 64), (2**40, None, 64),
    (0, "large", 64), (999, "small", 16),
])  # fmt: skip
def test_pick(rows: int, wanted: str | None, block: int) -> None:
    blocks, options = HOST["_pick"](TABLE, rows, wanted)
    assert any((blocks, options) == entry[:2] for entry in TABLE.values())
    assert blocks == {"B": block}


def test_nothing_to_pick() -> None:
    with pytest.raises(KeyError, match="huge"):
        HOST["_pick"](TABLE, 5, "huge")
    with pytest.raises(StopIteration):  # which is why the reader asks for a number of rows that is not negative
        HOST["_pick"](TABLE, -1, None)


def test_device_of_a_cpu_tensor_does_nothing() -> None:
    with HOST["_device"](x(1)) as entered:
        assert entered is None

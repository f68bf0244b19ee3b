"""Facts about integers: what holds under them, and that a case leaves no trace."""

from __future__ import annotations

import itertools

import pytest

from neptune_verified.ir.expr import Expr, axis, const, op, read, reduce_, size
from neptune_verified.proofs.text.integers import Facts, is_integer, is_integer_atom, mentions, within, zero

A, B, C = size("a"), size("b"), size("c")
X = read("x", (A,), "int32")


def n(value: int, dtype: str = "int32") -> Expr:
    return const(value, dtype)


def given(*facts: Expr, elements: dict[str, tuple[int, int]] | None = None) -> Facts:
    result = Facts(elements or {})
    for f in facts:
        result.add(f)
    return result


def values(**of: int) -> Facts:
    return given(*(op("eq", size(name), n(v)) for name, v in of.items()))


@pytest.mark.parametrize(("name", "python"), [
    ("add", lambda a, b: a + b), ("sub", lambda a, b: a - b), ("mul", lambda a, b: a * b), ("max", max), ("min", min),
])  # fmt: skip
def test_arithmetic(name: str, python: object) -> None:
    for a, b in itertools.product((-3, 0, 2), repeat=2):
        want = python(a, b)  # type: ignore[operator]
        facts = values(a=a, b=b)
        assert facts.holds(op("eq", op(name, A, B), n(want)))
        assert not facts.holds(op("eq", op(name, A, B), n(want + 1)))


@pytest.mark.parametrize("symbolic", [True, False])
def test_division_rounds_down(symbolic: bool) -> None:
    for a, b in itertools.product((-7, -4, -1, 0, 1, 4, 7), (1, 2, 4)):
        facts = values(a=a, b=b)
        divisor = B if symbolic else n(b)
        assert facts.holds(op("eq", op("floordiv", A, divisor), n(a // b))), (a, b)
        assert facts.holds(op("eq", op("floormod", A, divisor), n(a % b))), (a, b)
        assert not facts.holds(op("eq", op("floordiv", A, divisor), n(a // b + 1)))


def test_nothing_is_known_of_a_division_by_what_may_be_negative_or_zero() -> None:
    for b in (0, -2):
        facts = values(a=7, b=b)
        assert not any(facts.holds(op("eq", op("floordiv", A, B), n(k))) for k in (-4, -3, 0, 3, 7))


@pytest.mark.parametrize(("outer", "inner"), itertools.product(("floordiv", "floormod"), repeat=2))
def test_divisions_of_divisions_by_symbols(outer: str, inner: str) -> None:
    python = {"floordiv": lambda a, b: a // b, "floormod": lambda a, b: a % b}
    for a, b, c in ((100, 2, 2), (17, 5, 2), (1000, 300, 7)):
        facts = values(a=a, b=b, c=c)
        e, want = op(outer, op(inner, A, B), C), python[outer](python[inner](a, b), c)
        assert facts.satisfiable()
        assert facts.holds(op("eq", e, n(want)))
        assert not facts.holds(op("eq", e, n(want + 1))) and not facts.holds(op("lt", e, n(want)))


def test_division_of_an_opaque_value() -> None:
    opaque = op("cast", read("f", (A,), "float32"), dtype="int32")
    facts = given(op("eq", B, n(2)), op("eq", opaque, n(100)))
    assert facts.satisfiable() and facts.holds(op("eq", op("floordiv", opaque, B), n(50)))
    fresh = given(op("le", n(2), B))
    assert not fresh.holds(op("le", op("floordiv", opaque, B), n(0)))


def test_equal_indices_give_equal_elements() -> None:
    a, b = read("x", (A,), "int32"), read("x", (B,), "int32")
    assert not given().equal(a, b)
    assert given(op("eq", A, B)).equal(a, b)
    assert given(op("eq", A, op("add", B, n(0)))).equal(a, b)
    assert not given(op("eq", A, B)).equal(a, read("y", (B,), "int32"))
    assert not given(op("ne", A, B)).fails(op("eq", a, b))
    p, q = read("p", (A,), "bool"), read("p", (B,), "bool")
    assert given(op("eq", A, B), p).holds(q) and not given(p).holds(q)
    assert given(op("eq", X, A)).equal(read("x", (X,), "int32"), X)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_opaque_values_lie_in_their_types(dtype: str) -> None:
    bits = int(dtype.lstrip("uint"))
    low, high = (0, 2**bits - 1) if dtype[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    facts, x = given(), read("x", (A,), dtype)
    assert facts.holds(op("le", n(low, dtype), x)) and facts.holds(op("le", x, n(high, dtype)))
    assert not facts.holds(op("lt", n(low, dtype), x)) and not facts.holds(op("lt", x, n(high, dtype)))
    e = op("cast", read("f", (A,), "float32"), dtype=dtype)
    assert facts.holds(op("le", n(low, dtype), e)) and not facts.holds(op("lt", e, n(high, dtype)))


def test_declared_elements() -> None:
    facts = given(elements={"x": (-3, 5)})
    assert facts.holds(op("le", n(-3), X)) and facts.holds(op("le", X, n(5))) and not facts.holds(op("lt", X, n(5)))
    assert not facts.holds(op("le", read("y", (A,), "int32"), n(5)))


def test_a_case_leaves_no_trace() -> None:
    facts = given(op("le", zero(), A))
    comparison = op("lt", read("f", (A,), "float32"), const(0, "float32"))
    before = facts.trail, list(facts.floats), list(facts.indices)
    with facts.case((op("lt", A, n(5)), True), (comparison, False)):
        assert facts.holds(op("le", A, n(4))) and facts.floats == [(comparison, False)] and A in facts.indices
        with facts.assuming(op("lt", A, n(0))):
            assert facts.impossible() and not facts.satisfiable()
        assert not facts.impossible()
    assert (facts.trail, facts.floats, facts.indices) == before
    assert not facts.holds(op("le", A, n(4)))
    with pytest.raises(ZeroDivisionError), facts.case((op("lt", A, n(5)), True)):
        raise ZeroDivisionError
    assert (facts.trail, facts.floats, facts.indices) == before and not facts.holds(op("le", A, n(4)))


def test_an_answer_is_remembered_for_its_case_alone() -> None:
    facts, c = given(), op("lt", A, n(5))
    assert not facts.holds(c)
    with facts.assuming(op("lt", A, n(3))):
        assert facts.holds(c) and facts.decided(c) is True
    with facts.case((c, False)):
        assert facts.fails(c) and facts.decided(c) is False
    assert facts.decided(c) is None and not facts.holds(c) and not facts.fails(c)


def test_what_is_not_settled_is_open() -> None:
    facts = given(op("le", n(3), A), op("le", n(3), B), op("le", n(3), C))
    cubes = op("eq", op("add", *(op("mul", x, op("mul", x, x)) for x in (A, B))), op("mul", C, op("mul", C, C)))
    assert facts.decided(cubes) in (None, False)
    assert not facts.holds(cubes)


def test_conditions() -> None:
    comparison = op("lt", read("f", (A,), "float32"), const(0, "float32"))
    some = reduce_("any", (axis("k", 4),), op("lt", axis("k", 4), A))
    assert is_integer_atom(op("lt", A, B)) and is_integer(op("and", op("lt", A, B), op("not", read("p", (A,), "bool"))))
    assert not is_integer(comparison) and not is_integer(some) and not is_integer(op("or", op("lt", A, B), comparison))
    facts = given(comparison)
    assert facts.holds(comparison) and not facts.holds(op("lt", const(0, "float32"), read("f", (A,), "float32")))
    chosen = op("select", op("lt", A, B), A, B)
    assert given().holds(op("le", chosen, A)) and given().equal(chosen, op("min", A, B))
    assert given().equal(op("cast", op("lt", A, B), dtype="int32"), op("select", op("lt", A, B), n(1), n(0)))


def test_ranges_and_names() -> None:
    assert within(A, zero(), B) == (op("le", zero(), A), op("lt", A, B))
    assert mentions(op("add", X, B), ("a", "x", "c")) == {"a", "x"}
    assert given(*within(A, zero(), B)).holds(op("lt", zero(), B))

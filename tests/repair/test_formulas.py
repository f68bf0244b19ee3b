"""Formulas and options as a person types them: what is read, and that nothing in them runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import sympy as sp

from neptune_verified.expressions import FormulaError, parse
from neptune_verified.ir.expr import var
from neptune_verified.proofs.sympy_reading import Unreadable, read_sympy
from neptune_verified.repair_cli import repair_command

c, m, x = sp.symbols("c m x")


@pytest.mark.parametrize(
    "text, value",
    [
        ("exp(c - m)*x", sp.exp(c - m) * x),
        ("0.1*c", c / 10),
        ("c**2/3", c**2 / 3),
        ("-c + +m", m - c),
        ("max(c - m, 0)", sp.Max(c - m, 0)),
        ("select(c > 0, c, m)", sp.Piecewise((c, c > 0), (m, True))),
        ("0 < x <= 1", sp.And(sp.Lt(0, x), x <= 1)),
        ("Rational(3, 8)", sp.Rational(3, 8)),
        ("c == -inf", sp.Eq(c, -sp.oo)),
        ("not (c > 0 or m > 0)", sp.Not(sp.Or(c > 0, m > 0))),
        ("lambda_", sp.Symbol("lambda_")),
    ],
)
def test_formulas(text: str, value: Any) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('touch ran')",
        "open('ran', 'w')",
        "c.__class__",
        "(lambda: 1)()",
        "[c for c in (1,)]",
        "c[0]",
        "f'{c}'",
        "'c'",
        "exec('1')",
        "eval('1')",
        "sp.exp(c)",
        "exp.__globals__",
        "(c := 1)",
        "c if m else x",
        "exp(*c)",
        "exp(c, evaluate=False)",
        "exp(c, m)",
        "exp",
        "exp()",
        "__c",
        "c @ m",
        "c // 2",
        "c % 2",
        "c & m",
        "~c",
        "c in m",
        "1j",
        "None",
        "...",
        "c; m",
        "c = m",
        "import os",
        "",
        "c +",
        "\x00",
        "9**9**9",
        "2**100000",
        "((2**64)**64)**64",
        "c**(10**5)",
        "1e999999",
        "1/0",
        "c/0",
        "log(0)",
        "c + (c > 0)",
        "not c + m",
        "(" * 300 + "c" + ")" * 300,
        "c" * 3000,
        "+".join(["c"] * 900),
    ],
)
def test_no_formulas(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FormulaError) as refused:
        parse(text)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 2_600
    assert not os.listdir(tmp_path)


def test_what_has_no_meaning_is_refused_by_name() -> None:
    symbols = {"c": var("c")}
    for e, words in (
        (sp.gamma(c), "gamma"),
        (sp.pi * c, "Pi"),
        (sp.I * c, "I"),
        (c**1000, "too large"),
        (m, "m is not"),
    ):
        with pytest.raises(Unreadable, match=words):
            read_sympy(e, symbols)


def run(*args: Any, **kwargs: Any) -> tuple[int, str]:
    lines: list[str] = []
    code = repair_command(*args, **kwargs, show=lines.append)
    return code, "\n".join(lines)


def test_the_command_derives() -> None:
    code, text = run("sum", ["exp(c - m)*v"], ["m=max:c"])
    assert code == 0
    assert text.splitlines()[:2] == [
        "strategy ratio, 1 accumulator(s)",
        "proved: t = sum of v * exp(c - m), repaired by t * exp(m - m_new)",
    ]


def test_the_command_proves() -> None:
    code, text = run("sum", ["exp(c - m)*v"], ["m=max:c"], ["t*exp(m - m_new)"], whole=True)
    assert code == 0 and "O4.first proved" in text
    code, text = run("sum", ["exp(c - m)*v"], ["m=max:c"], ["t*exp(m_new - m)"])
    assert code == 3 and "wrong run: with" in text
    state = ["(c - m)*exp(c - m)", "exp(c - m)"], ["m"], ["(t0 + (m - m_new)*t1)*exp(m - m_new)", "t1*exp(m - m_new)"]
    assert run("sum", *state)[0] == 0


def test_the_command_refuses() -> None:
    code, text = run("sum", ["abs(c - r)"], ["r"])
    assert code == 3 and text.startswith("refused: no repair of the sum of abs(c - r) over r is proved\nnone with")


def test_the_command_takes_facts_domains_and_parameters() -> None:
    assert run("max", ["c*r"], ["r"], fact=["r > 0"])[0] == 0
    assert run("max", ["c*r"], ["r"], domain=["r=positive"])[0] == 0
    assert run("sum", ["lam**(n - j)*c"], ["n"], domain=["lam=0 < x <= 1"], parameter=["lam"])[0] == 0
    assert run("sum", ["exp(a*(c - m)) + b"], ["m"], parameter=["a, b"])[0] == 0


@pytest.mark.parametrize(
    "args, kwargs, words",
    [
        (("sum", []), {}, "--term is missing"),
        (("sum", ["c"], ["m=max"]), {}, "NAME=REDUCER:FORMULA"),
        (("sum", ["c"], ["m=max:"]), {}, "is no formula"),
        (("sum", ["c"], ["m=most:c"]), {}, "producers are"),
        (("sum", ["c"], ["m=max:c", "m"]), {}, "one symbol twice"),
        (("summ", ["c"]), {}, "unknown reducer"),
        (("sum", ["c"], ["m"]), {"domain": ["m"]}, "NAME=DOMAIN"),
        (("sum", ["c"], ["m"]), {"domain": ["m=large"]}, "the domain of m"),
        (("sum", ["c", "c"], ["m"]), {}, "as often as"),
        (("sum", ["c"], ["m"], ["__import__('os')"]), {}, "no function here"),
        (("sum", ["c"], ["m"], ["t"]), {"fact": ["m"]}, "no fact"),
    ],
)
def test_errors_of_the_command_are_one_line(args: Any, kwargs: Any, words: str) -> None:
    with pytest.raises(ValueError) as refused:
        run(*args, **kwargs)
    assert words in str(refused.value) and "\n" not in str(refused.value)

"""The command line: what it prints, its exit codes, and that bad input loses nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.command import SHOWN, run, run_alone


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("cli") / "softmax"
    done = run_alone(
        "compile", "examples/softmax.py:softmax", "--verify", "--target", "interpret", "--out", str(folder)
    )
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_compile_prints_every_obligation_with_both_verdicts(built: tuple[Path, str]) -> None:
    folder, text = built
    certificate = json.loads((folder / "certificate.json").read_text())
    assert text.startswith("proved O1-O14, O16")
    for o in certificate["obligations"]:
        assert o["id"] in text
        assert [r["route"] for r in o["routes"]] == ["z3", "sympy"]
        assert all(r["verdict"] == "proved" for r in o["routes"])
    assert {o["kind"] for o in certificate["obligations"]} == {"O1", "O2", "O3", "O4", "O5", "O6", "O7", "O14"}
    assert "2 pass(es)" in text


def test_the_folder_is_complete_and_checks(built: tuple[Path, str]) -> None:
    folder, _ = built
    assert {p.name for p in folder.iterdir()} == {
        "program.json", "loop.json", "kernel.py", "certificate.json", "report.md", "report.html",
    }  # fmt: skip
    assert (folder / "kernel.py").read_text().startswith("# proved O1-O14, O16\n")
    assert (folder / "report.md").read_text().splitlines()[0].count("O1-O14")
    done = run("check", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ok" in done.stdout.splitlines()[-1]


def test_check_fails_on_a_changed_kernel(built: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = built
    for p in folder.iterdir():
        (tmp_path / p.name).write_bytes(p.read_bytes())
    text = (tmp_path / "kernel.py").read_text()
    (tmp_path / "kernel.py").write_text(text.replace("tl.max", "tl.min", 1))
    done = run("check", str(tmp_path))
    assert done.returncode == 3
    assert "kernel.py" in done.stdout


def test_report_of_a_folder(built: tuple[Path, str]) -> None:
    folder, _ = built
    assert "O2" in run("report", str(folder)).stdout
    data = json.loads(run("report", str(folder), "--json").stdout)
    assert data["passes"] == 2


def test_the_report_as_html(built: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = built
    path = tmp_path / "page.html"
    done = run("report", str(folder), "--html", str(path))
    assert done.returncode == 0 and done.stdout.split() == ["wrote", str(path)]
    assert path.read_text() == (folder / "report.html").read_text()
    assert run("report", str(folder), "--html", str(tmp_path / "no" / "page.html")).returncode == 1
    assert run("report", str(folder), "--json", "--html", str(path)).returncode == 1


def test_the_report_in_a_browser(built: tuple[Path, str], tmp_path: Path) -> None:
    """The browser is one that writes down what it was asked for."""
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {seen}\n')
    browser.chmod(0o755)
    env = {**SHOWN, "BROWSER": f"{browser} %s"}
    folder = tmp_path / "folder"
    shutil.copytree(built[0], folder)
    done = run("report", str(folder), "--open", env=env)
    assert done.returncode == 0, done.stderr
    assert seen.read_text() == (folder / "report.html").as_uri()
    (folder / "report.html").write_text((folder / "report.html").read_text().replace("proved O1-O14", "proved O1-O16"))
    done = run("report", str(folder), "--open", env=env)
    assert done.returncode == 1
    assert "report.html is not the report of certificate.json; write it anew" in done.stderr
    (folder / "report.html").unlink()
    assert "holds no report.html; write it anew" in run("report", str(folder), "--open", env=env).stderr
    page = tmp_path / "page.html"
    assert run("report", str(folder), "--html", str(page), "--open", env=env).returncode == 0
    assert seen.read_text() == page.as_uri()


def test_examples_are_listed() -> None:
    done = run("examples")
    assert done.returncode == 0
    for name in ("attention.py:attention", "softmax.py:softmax", "unfusable.py:softplus_sum"):
        assert name in done.stdout


def test_a_demanded_fusion_that_is_refused_is_exit_3(tmp_path: Path) -> None:
    done = run("compile", "examples/unfusable.py:softplus_sum", "--max-passes", "1", "--out", str(tmp_path / "x"))
    assert done.returncode == 3
    assert "O2" in done.stderr
    assert "the refused update gives s[0] = 1.43682 where the definition gives 1.31967" in " ".join(done.stderr.split())
    assert not (tmp_path / "x").exists()


def test_a_refused_fusion_costs_a_pass_and_is_no_error() -> None:
    done = run("compile", "examples/unfusable.py:softplus_sum")
    assert done.returncode == 0
    assert "not fused" in done.stdout
    assert "instead of" in done.stdout
    assert "With x = [[0, 0, 1]] (M = 1, N = 3), one element at a time" in " ".join(done.stdout.split())


def test_no_verify_says_so(tmp_path: Path) -> None:
    done = run("compile", "examples/softmax.py:logsumexp", "--no-verify", "--out", str(tmp_path / "k"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "k" / "kernel.py").read_text().startswith("# NOT VERIFIED\n")
    assert not (tmp_path / "k" / "certificate.json").exists()
    assert "NOT VERIFIED" in done.stdout


BAD = {
    "no such file": (["compile", "nowhere.py:f"], 1, "nowhere.py: no such file"),
    "no function named": (["compile", "examples/softmax.py"], 1, "is not FILE.py:FUNCTION"),
    "no such function": (["compile", "examples/softmax.py:nothing"], 1, "has no function 'nothing'; it defines"),
    "unknown parameter": (["compile", "examples/attention.py:attention", "--set", "X=3"], 1, "X"),
    "malformed parameter": (["compile", "examples/attention.py:attention", "--set", "X"], 1, "NAME=VALUE"),
    "unknown target": (["compile", "examples/softmax.py:softmax", "--target", "tpu"], 2, "tpu"),
    "unknown option": (["compile", "examples/softmax.py:softmax", "--speed"], 1, "--speed"),
    "report without a folder": (["report", "nowhere"], 1, "nowhere"),
    "check without a folder": (["check", "nowhere"], 1, "nowhere"),
    "contradiction": (["compile", "examples/softmax.py:softmax", "--verify", "--no-verify"], 1, "exclude"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_line(name: str) -> None:
    args, code, text = BAD[name]
    done = run(*args)
    assert done.returncode == code, done.stderr
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def write(tmp_path: Path, text: str) -> str:
    (tmp_path / "user.py").write_text(text)
    return f"{tmp_path}/user.py:f"


DEFINITIONS = {
    "user's own error": ("def f():\n    return 1 / 0\n", 1, "user.py:2: ZeroDivisionError"),
    "syntax error": ("def f(:\n", 1, "SyntaxError"),
    "wrong result": ("def f():\n    return 3\n", 1, "returned int"),
    "unsupported construct": (
        "from tvm import te\n"
        "def f():\n"
        "    x = te.placeholder((te.var('N'),), 'float32', 'x')\n"
        "    y = te.compute(x.shape, lambda i: te.atan(x[i]), 'y')\n"
        "    return [x], [y]\n",
        2,
        "y (user.py:4)",
    ),
    "tuple reducer": (
        "from tvm import te, tirx\n"
        "def f():\n"
        "    n = te.var('N'); x = te.placeholder((n,), 'float32', 'x'); k = te.reduce_axis((0, n), 'k')\n"
        "    r = te.comm_reducer(lambda a, b: (a[0] + b[0], a[1] + b[1]), lambda s, t: (tirx.const(0, s),"
        " tirx.const(0, t)))\n"
        "    a, b = te.compute((1,), lambda i: r((x[k], x[k]), axis=k), 'both')\n"
        "    return [x], [a, b]\n",
        2,
        "both",
    ),
    "unlisted input": (
        "from tvm import te\n"
        "def f():\n"
        "    x = te.placeholder((4,), 'float32', 'x')\n"
        "    return [], [te.compute((4,), lambda i: x[i], 'y')]\n",
        2,
        "x",
    ),
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_bad_definitions_are_one_clear_line(name: str, tmp_path: Path) -> None:
    text, code, wanted = DEFINITIONS[name]
    done = run("compile", write(tmp_path, text), "--out", str(tmp_path / "out"))
    assert done.returncode == code, done.stderr
    assert wanted in done.stderr.replace(str(tmp_path) + "/", ""), done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    done = run("compile", "examples/softmax.py:logsumexp", "--target", "interpret", "--out", str(tmp_path))
    assert done.returncode == 1
    assert "other files" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_output_that_is_below_a_file_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("compile", "examples/softmax.py:logsumexp", "--out", str(tmp_path / "file" / "k"))
    assert done.returncode == 1
    assert "not a folder" in done.stderr


def test_repair_proves_finds_and_refuses() -> None:
    def repair(*args: str) -> subprocess.CompletedProcess[str]:
        return run("repair", "--reducer", "sum", "--producer", "m=max:c", *args)

    proved = repair("--term", "exp(c - m)*v", "--repair", "t*exp(m - m_new)")
    assert proved.returncode == 0
    assert proved.stdout.startswith("proved")
    found = repair("--term", "exp(c - m)*v")
    assert found.returncode == 0
    assert "exp(m - m_new)" in found.stdout
    wrong = repair("--term", "exp(c - m)*v", "--repair", "t*exp(m_new - m)")
    assert wrong.returncode == 3
    assert "O1 refuted" in wrong.stdout
    code = repair("--term", "__import__('os')")
    assert code.returncode == 1
    assert "no function here" in code.stderr

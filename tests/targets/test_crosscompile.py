"""Emitted kernels compile for GPUs that are not there."""

from __future__ import annotations

from pathlib import Path

import pytest

import neptune_verified as nv
from neptune_verified.cli import read_definition
from neptune_verified.targets.crosscompile import crosscompile

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("definition", "parameters", "target"),
    [
        ("softmax.py:softmax", {}, "cuda:80"),
        ("attention.py:causal", {"dtype": "float16"}, "cuda:90"),
        ("softmax.py:logsumexp", {}, "cuda:100"),
        ("attention.py:attention", {"dtype": "bfloat16"}, "hip:gfx942"),
    ],
)
def test_text_compiles(definition: str, parameters: dict[str, str], target: str, tmp_path: Path) -> None:
    program, _ = read_definition(f"{EXAMPLES}/{definition}", dict(parameters))
    kernel = nv.compile(program, target=target)
    built = crosscompile(kernel.source, program.name, target, tmp_path)
    assert {(c.kernel.removeprefix("_").removesuffix("_kernel"), c.config) for c in built} == {
        (name, config) for name, configs in kernel.configs.items() for config in configs
    }
    assert all(c.binary > 1000 for c in built)


def test_a_text_that_does_not_compile_is_one_line(tmp_path: Path) -> None:
    program, _ = read_definition(f"{EXAMPLES}/softmax.py:logsumexp", {})
    source = nv.compile(program, target="cuda:90").source.replace("tl.exp(", "tl.no_such_function(", 1)
    with pytest.raises(nv.UnsupportedProgram, match="Triton does not compile the kernel") as caught:
        crosscompile(source, program.name, "cuda:90", tmp_path)
    assert "\n" not in str(caught.value)

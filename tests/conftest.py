"""Fixtures that need something from outside the repository. Without it their tests are skipped and say what to run;
with STRICT=1 in the environment they fail instead."""

from __future__ import annotations

import os

# Triton decides when it is imported whether kernels are interpreted, and other test modules import it early.
os.environ.setdefault("TRITON_INTERPRET", "1")
# No test reads or writes the user's own cache, and none is answered from one that it did not fill itself.
os.environ["NEPTUNE_VERIFIED_CACHE"] = "off"

from typing import NoReturn

import pytest

from tests import browser as browsers
from tests.assets.bert import REACTIONS, Activation, AssetMissing, Bert, activations, load


def absent(reason: str) -> NoReturn:
    """Skip the test that asked for something absent, or fail it where nothing may be absent."""
    if os.environ.get("STRICT") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser() -> str:
    """A browser that runs without a window."""
    found = browsers.find()
    if found is None:
        absent(f"no browser on PATH (one of {', '.join(browsers.NAMES)}): apt-get install chromium")
    return found


@pytest.fixture(scope="session")
def rxnfp() -> Bert:
    """The pretrained BERT of chemical reactions."""
    try:
        return load()
    except AssetMissing as missing:
        absent(str(missing))


@pytest.fixture(scope="session")
def rxnfp_activations(rxnfp: Bert) -> list[Activation]:
    """The attention inputs of each of its layers on each of the reactions, in that order."""
    return activations(list(REACTIONS.values()))

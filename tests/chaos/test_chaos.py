"""The short edition of `make chaos`: a few tries of each kind."""

import random

import pytest

from chaos.__main__ import Result, attempt
from chaos.disturbances import KINDS
from chaos.lab import Lab

SLOW = ("SIGKILL to torchrun", "SIGSTOP until the timeout", "network between two hosts cut")
SHORT = [name for name in KINDS if name not in SLOW]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("chaos"))


@pytest.mark.parametrize("name", SHORT)
def test_disturbed_run_ends_as_an_undisturbed_one(
    name: str, lab: Lab, chance: random.Random
) -> None:
    result = Result()
    while result.tries < (2 if name.startswith("SIGKILL") else 1):
        attempt(lab, KINDS[name], chance, result)
    assert result.damaged == 0
    assert result.identical == result.tries, result.failures

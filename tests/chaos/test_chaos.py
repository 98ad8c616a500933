"""The short edition of `make chaos`: a few tries of each kind."""

import functools
import random
from collections.abc import Callable

import pytest

from chaos.__main__ import Kind, Result, attempt, kinds
from chaos.lab import Lab

SLOW = ("SIGKILL to torchrun", "SIGSTOP until the timeout", "network between two hosts cut")
SHORT = [kind for kind in kinds() if kind.name not in SLOW]


@pytest.fixture(scope="module")
def labs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Lab]:
    """The lab of each kind of saves."""
    return functools.cache(lambda saves: Lab(tmp_path_factory.mktemp("chaos"), saves))


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, id=f"{kind.name}, {kind.saves}") for kind in SHORT],
)
def test_disturbed_run_ends_as_an_undisturbed_one(
    kind: Kind, labs: Callable[[str], Lab], chance: random.Random
) -> None:
    result = Result()
    while result.tries < (2 if kind.name.startswith("SIGKILL") and kind.saves == "files" else 1):
        attempt(labs(kind.saves), kind.disturb, chance, result)
    assert result.damaged == 0
    assert result.identical == result.tries, result.failures

"""Many ranks compute what one process computes: every model family, with and without each option.

Generated projects test whole batches in float64 themselves.
"""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from ddpgen.asking.question import Answers
from product import template
from product.combinations import combinations, identifier, singles
from product.preloaded import run_tests
from product.programs import STEP_OPTIONS, plain

HERE = Path(__file__).parent


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    asked = metafunc.config.getoption("--programs")
    seed = str(metafunc.config.getoption("--seed")) if asked == "all" else ""
    every = projects(seed)
    chosen = every[:1] if asked == "few" else every
    metafunc.parametrize("answers", chosen, ids=[identifier(row) for row in chosen])


def projects(seed: str) -> list[Answers]:
    """A few of each family.

    Always the same ones: of the first family as many as have every value, of each other family two
    with as much switched on as can be, with DDP and with FSDP, where HSDP has the same code. Or,
    with a seed, others, in which every value occurs with each family.
    """
    # Precision is the test's own: autocast leaves float64 alone.
    rows = [row for row in combinations(STEP_OPTIONS) if row["amp"] == "off"]
    first, *others = template.QUESTIONS["model"].values
    found = singles([row for row in rows if row["model"] == first], seed)
    for family in others:
        of_family = [row for row in rows if row["model"] == family]
        found += singles(of_family, seed) if seed else list(fullest(of_family))
    return found


def fullest(rows: Sequence[Answers]) -> Iterator[Answers]:
    """Of those with DDP, and of those with FSDP, the one with least left out."""
    for kind in (("off", "zero1"), ("fsdp",)):
        alike = [row for row in rows if row["sharding"] in kind]
        yield max(alike, key=lambda row: sum(not plain(row, name) for name in row))


def test_ranks_equal_one_process(answers: Answers, tmp_path: Path) -> None:
    project = tmp_path / "project"
    template.write(answers, project)
    test = shutil.copy(HERE / "joined_batch.py", project / "tests" / "test_joined.py")
    outcome = run_tests(project, ["-q", "-p", "no:cacheprovider", str(test)])
    assert outcome.code == 0, outcome.output[-6000:]
    shutil.rmtree(project)

"""Many ranks compute what one process computes: every model family, with and without each option.

Generated projects test whole batches in float64 themselves.
"""

import shutil
from pathlib import Path

import pytest

from ddpgen.asking.question import Answers
from product import template
from product.combinations import combinations, identifier, singles
from product.preloaded import run_tests
from product.programs import STEP_OPTIONS, cores

HERE = Path(__file__).parent


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    asked = metafunc.config.getoption("--programs")
    seed = str(metafunc.config.getoption("--seed")) if asked == "all" else ""
    every = projects(seed)
    chosen = every[:1] if asked == "few" else every
    metafunc.parametrize("answers", chosen, ids=identifier)


def projects(seed: str) -> list[Answers]:
    """A few of each family, in which every value of every option occurs.

    Always the same ones, in which a value that changes nothing but the config, as HSDP does, occurs
    with the first family alone; or, with a seed, others, in which that occurs with each.
    """
    # Precision is the test's own: autocast leaves float64 alone.
    rows = [row for row in combinations(STEP_OPTIONS) if row["amp"] == "off"]
    programs = [_of_step(row) for row in cores()]
    first, *others = template.QUESTIONS["model"].values
    found = singles([row for row in rows if row["model"] == first], seed)
    for family in others:
        of_family = [row for row in rows if row["model"] == family]
        found += singles([row for row in of_family if seed or _of_step(row) in programs], seed)
    return found


def _of_step(row: Answers) -> Answers:
    return {name: row[name] for name in STEP_OPTIONS if name in row}


def test_ranks_equal_one_process(answers: Answers, tmp_path: Path) -> None:
    project = tmp_path / "project"
    template.write(answers, project)
    test = shutil.copy(HERE / "joined_batch.py", project / "tests" / "test_joined.py")
    outcome = run_tests(project, ["-q", "-p", "no:cacheprovider", str(test)])
    assert outcome.code == 0, outcome.output[-6000:]
    shutil.rmtree(project)

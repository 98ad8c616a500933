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
from product.programs import STEP_OPTIONS

HERE = Path(__file__).parent


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    every = projects()
    chosen = every[:1] if metafunc.config.getoption("--programs") == "few" else every
    metafunc.parametrize("answers", chosen, ids=identifier)


def projects() -> list[Answers]:
    """A few of each family, in which every value of every option occurs."""
    # Precision is the test's own: autocast leaves float64 alone.
    rows = [row for row in combinations(STEP_OPTIONS) if row["amp"] == "off"]
    families = template.QUESTIONS["model"].values
    return [row for f in families for row in singles([r for r in rows if r["model"] == f])]


def test_ranks_equal_one_process(answers: Answers, tmp_path: Path) -> None:
    project = tmp_path / "project"
    template.write(answers, project)
    test = shutil.copy(HERE / "joined_batch.py", project / "tests" / "test_joined.py")
    outcome = run_tests(project, ["-q", "-p", "no:cacheprovider", str(test)])
    assert outcome.code == 0, outcome.output[-6000:]
    shutil.rmtree(project)

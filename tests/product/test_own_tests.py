"""Generated projects pass their own tests, as users run them: `python -m pytest` in the project."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ddpgen.asking.question import Answers
from ddpgen.rendering.render import render
from product import programs
from product.combinations import combinations, identifier, pairs, singles
from product.forkserver import ONE_THREAD


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "answers" in metafunc.fixturenames:
        chosen = selected(metafunc.config.getoption("--own-tests"))
        metafunc.parametrize("answers", chosen, ids=[identifier(answers) for answers in chosen])


def selected(how_many: str) -> list[Answers]:
    """Enough projects for every value of every option, or for every pair of values."""
    rows = combinations(programs.options())
    return pairs(rows) if how_many == "pairs" else singles(rows)


def test_project_passes_its_own_tests(answers: Answers, tmp_path: Path) -> None:
    """It says which tests failed, and where the project is."""
    project = tmp_path / "project"
    render(answers, project)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=5"],
        cwd=project,
        env={**os.environ, **ONE_THREAD, "WANDB_MODE": "offline"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, (
        f"cd {project} && python -m pytest\n{done.stdout[-6000:]}{done.stderr[-2000:]}"
    )
    shutil.rmtree(project)

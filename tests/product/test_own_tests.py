"""Generated projects pass their own tests."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ddpgen.asking.question import Answers
from ddpgen.rendering.render import render
from product import programs
from product.combinations import identifier
from product.forkserver import ONE_THREAD
from product.preloaded import run_tests


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "answers" in metafunc.fixturenames:
        chosen = selected(metafunc.config.getoption("--own-tests"))
        metafunc.parametrize("answers", chosen, ids=[identifier(answers) for answers in chosen])


def selected(how_many: str) -> list[Answers]:
    """Enough projects for every value of every option, or for every pair of values."""
    return programs.every_pair() if how_many == "pairs" else programs.every_value()


def test_project_passes_its_own_tests(answers: Answers, tmp_path: Path, forked: Path) -> None:
    """The output says which tests failed, and where the project is."""
    project = tmp_path / "project"
    render(answers, project)
    arguments = ["-q", "-p", "no:cacheprovider", "--durations=5"]
    variables, python = {"WANDB_MODE": "offline"}, forked / "python"
    outcome = run_tests(project, arguments, variables, seconds=900, python=python)
    assert outcome.code == 0, f"cd {project} && python -m pytest\n{outcome.output[-6000:]}"
    shutil.rmtree(project)


def test_default_project_passes_in_a_new_python(tmp_path: Path) -> None:
    """As users start the tests; the others are forked from a process that has imported torch."""
    project = tmp_path / "project"
    render({}, project)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q"],
        cwd=project,
        env={**os.environ, **ONE_THREAD},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]

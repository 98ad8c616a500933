"""Generated projects pass their own tests."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ddpgen.asking.question import Answers, Value
from ddpgen.rendering.render import render
from product import programs, template
from product.combinations import identifier
from product.forkserver import ONE_THREAD
from product.preloaded import run_tests

LEFT_BY_OTHERS = ("pytest-of-", "torchelastic_", "torchinductor_")
MACHINERY = ("tests/engine/", "tests/tools/")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "answers" in metafunc.fixturenames:
        chosen = selected(metafunc.config.getoption("--own-tests"))
        metafunc.parametrize("answers", chosen, ids=[identifier(answers) for answers in chosen])


def selected(how_many: str) -> list[Answers]:
    """Enough projects for every file of tests about the machinery, or for every pair of values."""
    if how_many == "pairs":
        return programs.every_pair()
    paths = [path for path in template.files() if path.startswith(MACHINERY)]
    return programs.few_with_all(programs.every_value(), paths, _whether_there)


def _whether_there(path: str, text: str | None) -> list[str]:
    return [path] if text else []


def test_project_passes_its_own_tests(answers: Answers, tmp_path: Path, forked: Path) -> None:
    """The output says which tests failed, and where the project is."""
    run(answers, tmp_path / "project", forked)


@pytest.mark.parametrize("model", template.QUESTIONS["model"].values)
def test_model_and_data_pass_their_own_tests(model: Value, tmp_path: Path, forked: Path) -> None:
    """The tests of what is the user's, with every model."""
    run({"model": model}, tmp_path / "project", forked, "tests/test_*.py")


def run(answers: Answers, project: Path, forked: Path, pattern: str = "tests") -> None:
    """Run a project's own tests, or some of them; all have to pass."""
    render(answers, project)
    tests = map(str, sorted(project.glob(pattern)))
    arguments = ["-q", "-p", "no:cacheprovider", "--durations=5", *tests]
    variables, python = {"WANDB_MODE": "offline"}, forked / "python"
    outcome = run_tests(project, arguments, variables, seconds=900, python=python)
    assert outcome.code == 0, f"cd {project} && python -m pytest\n{outcome.output[-6000:]}"
    shutil.rmtree(project)


def test_step_is_replayed_where_data_have_names(tmp_path: Path, forked: Path) -> None:
    """The state that `tools.replay` makes for itself takes the checkpoint of the run."""
    answers: Answers = {"model": "table", "watch": ["replicas"]}
    run(answers, tmp_path / "project", forked, "tests/tools/test_replay.py")


# The tests of a larger project are shared out over two processes, as its README says.
AS_TOLD: dict[str, tuple[Answers, list[str]]] = {
    "pytest": ({}, []),
    "pytest -n 2": ({"tools": ["memory"]}, ["-n", "2"]),
}


@pytest.mark.parametrize("told", AS_TOLD)
def test_project_passes_in_a_new_python(told: str, tmp_path: Path) -> None:
    """As users start the tests; the others are forked from a process that has imported torch.

    Nothing stays in the folder for temporary files but what pytest and torchrun leave there.
    """
    project = tmp_path / "project"
    answers, options = AS_TOLD[told]
    render(answers, project)
    assert f"$ {told} " in (project / "README.md").read_text()
    with tempfile.TemporaryDirectory() as temporary:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *options],
            cwd=project,
            env={**os.environ, **ONE_THREAD, "TMPDIR": temporary},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        names = [path.name for path in Path(temporary).iterdir()]
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    left = [name for name in names if not name.startswith(LEFT_BY_OTHERS)]
    assert not left, "the project's tests leave files behind"

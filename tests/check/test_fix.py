"""Names that an update left behind are found in a user's files, tests too, and rewritten."""

import subprocess
import sys
from pathlib import Path

import pytest
from generator.program import ddpgen

from ddpgen.checking import driver
from ddpgen.rendering.render import render

MINE = """\
import sys
sys.path.insert(0, '.')
import data as d, hangs
import loading  # mine
from train import Job
import config

# the names of 0.3.0
print(loading.Window.__name__, d.valid.__name__, hangs.__name__, Job.__name__)
print(config.dump.__module__)
"""
FIXED = """\
import sys
sys.path.insert(0, '.')
import data as d
import config
from engine import failures as hangs
from engine import loading  # mine
from train import Run as Job

# the names of 0.3.0
print(loading.StepBatch.__name__, d.counts.__name__, hangs.__name__, Job.__name__)
print(config.settings.dump.__module__)
"""
SAID = "StepBatch counts engine.failures Run\nengine.settings\n"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated")
    render({}, folder)
    return folder


@pytest.fixture
def project(generated: Path, tmp_path: Path) -> Path:
    """A project of the working version, with a script and a test that use names of 0.3.0."""
    subprocess.run(["cp", "-r", f"{generated}/.", tmp_path], check=True)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/mine.py").write_text(MINE)
    (tmp_path / "tests/test_mine.py").write_text("import ranks\n")
    return tmp_path


def test_old_names_are_found_and_rewritten(project: Path) -> None:
    found = ddpgen("check", ".", cwd=project)
    assert found.returncode == 1
    for line in (
        "scripts/mine.py:3:1: U1 error: hangs is engine.failures since 0.4.0: ",
        "scripts/mine.py:4:1: U1 error: loading is engine.loading since 0.4.0: ",
        "scripts/mine.py:5:1: U1 error: train.Job is train.Run since 0.5.0: ",
        "scripts/mine.py:9:7: U1 error: loading.Window is engine.loading.StepBatch since 0.5.0: ",
        "scripts/mine.py:9:32: U1 error: data.valid is data.counts since 0.5.0: ",
        "scripts/mine.py:10:7: U1 error: config.dump is config.settings.dump since 0.5.0: ",
        "tests/test_mine.py:1:1: U1 error: ranks is support.processes since 0.4.0: ",
    ):
        assert f"\n{line}" in f"\n{found.stdout}"
    shown = ddpgen("check", ".", "--fix", "--dry-run", cwd=project)
    assert shown.returncode == 1
    assert "would change scripts/mine.py:4: import loading  # mine -> " in shown.stdout
    assert (project / "scripts/mine.py").read_text() == MINE
    fixed = ddpgen("check", ".", "--fix", cwd=project)
    assert fixed.returncode == 0, fixed.stdout
    assert "changed tests/test_mine.py:1: import ranks -> from support import " in fixed.stdout
    assert (project / "scripts/mine.py").read_text() == FIXED
    command = [sys.executable, "scripts/mine.py"]
    assert subprocess.check_output(command, cwd=project, text=True) == SAID
    again = ddpgen("check", ".", "--fix", cwd=project)
    assert (again.returncode, "changed" in again.stdout) == (0, False)


def test_only_what_is_named_is_looked_at(project: Path) -> None:
    for path in (project / "scripts", project / "scripts/mine.py"):
        paths = {finding.path for finding in driver.check([path]).findings}
        assert paths == {project / "scripts/mine.py"}
    assert not driver.check([project / "engine"]).findings


def test_a_comment_keeps_an_old_name(project: Path) -> None:
    path = project / "scripts/mine.py"
    kept = "import hangs  # ddpgen: ignore[U1] a module of mine, on another path\n"
    path.write_text(f"{kept}import loading\n")
    assert ddpgen("check", ".", "--fix", cwd=project).returncode == 0
    assert path.read_text() == f"{kept}from engine import loading\n"


LOADING = "import loading\nloading.Window\n"
ANSWERS = ".copier-answers.yml"


@pytest.mark.parametrize(
    ("file", "content", "text"),
    [
        ("loading.py", "Window = 1\n", LOADING),
        ("scripts/loading.py", "Window = 1\n", LOADING),
        ("scripts/data.py", "valid = 1\n", "import data\ndata.valid\n"),
        (ANSWERS, "_commit: v0.3.0\n_src_path: git+ddpgen://template\n", LOADING),
        (ANSWERS, "_commit: v0.5.0\n_src_path: gh:some/other\n", LOADING),
        (ANSWERS, "_src_path: git+ddpgen://template\n", LOADING),
        (ANSWERS, "- a list\n", LOADING),
    ],
)
def test_names_that_may_be_right_stay(project: Path, file: str, content: str, text: str) -> None:
    """A module of that name is there, or the project's answers speak of another version."""
    (project / "scripts/mine.py").write_text(text)
    (project / "tests/test_mine.py").unlink()
    (project / file).write_text(content)
    assert [f for f in driver.check([project]).findings if f.id == "U1"] == []


def test_a_name_that_its_module_still_has_stays(project: Path) -> None:
    (project / "scripts/mine.py").write_text("import data\ndata.valid\n")
    (project / "tests/test_mine.py").unlink()
    with (project / "data.py").open("a") as file:
        file.write("\n\ndef valid(targets):\n    return counts(targets)\n")
    assert not driver.check([project]).findings


def test_nothing_to_rewrite_loads_no_library_of_rewriting(project: Path) -> None:
    (project / "scripts/mine.py").unlink()
    (project / "tests/test_mine.py").unlink()
    code = (
        "import sys; from ddpgen.cli import main; main(['check', '.', '--fix']);"
        "sys.exit('libcst' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=project, check=True, capture_output=True)

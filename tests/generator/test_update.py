"""Plain git and plain copier reach the installed ddpgen's template by git-remote-ddpgen."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ddpgen import origin
from ddpgen.fetching import template_source
from generator.program import ddpgen, everything


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh home, with the console scripts of this environment on PATH; returns a work folder."""
    scripts = Path(sys.executable).parent
    if not (scripts / "git-remote-ddpgen").is_file():
        pytest.skip("ddpgen is not installed here: no git-remote-ddpgen beside python")
    monkeypatch.setenv("PATH", f"{scripts}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "someone")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "someone")
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def commit(project: Path) -> None:
    run("git", "init", "--quiet", cwd=project)
    run("git", "add", "--all", cwd=project)
    run("git", "commit", "--quiet", "--message=Start", cwd=project)


def test_clone_is_the_template(shell: Path) -> None:
    run("git", "clone", "--quiet", "ddpgen://template", "clone", cwd=shell)
    clone = shell / "clone"
    assert run("git", "describe", "--tags", cwd=clone).strip() == template_source.TAG
    tracked = run("git", "ls-files", "-z", cwd=clone).split("\0")[:-1]
    root = template_source.template_root()
    files = [name for name in everything(root) if (root / name).is_file()]
    assert sorted(tracked) == [name for name in files if "cache" not in name]
    assert all((clone / name).read_bytes() == (root / name).read_bytes() for name in tracked)


def test_bundle_is_the_same_every_time(shell: Path) -> None:
    hashes = set()
    for name in ("a", "b"):
        (shell / name).mkdir()
        earlier = list(template_source.released().values())
        bundle = template_source.make_bundle(shell / name, "v9.9.9", "Notes", earlier)
        hashes.add(run("git", "bundle", "list-heads", str(bundle), cwd=shell))
    assert len(hashes) == 1


def test_copier_renders_what_ddpgen_renders(shell: Path) -> None:
    ddpgen("new", "ours", "--defaults", "--data", "project_name=same", cwd=shell)
    data = ("--defaults", "--data", "project_name=same")
    run("copier", "copy", "--quiet", *data, origin.SOURCE_URL, "theirs", cwd=shell)
    ours, theirs = shell / "ours", shell / "theirs"
    assert everything(ours) == everything(theirs)
    for name in everything(ours):
        if (ours / name).is_file():
            assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name


def test_plain_copier_update_keeps_edits_and_changes_an_answer(shell: Path) -> None:
    assert ddpgen("new", "p", "--defaults", cwd=shell).returncode == 0
    project = shell / "p"
    (project / "mine.txt").write_text("my own file\n")
    commit(project)
    run("copier", "update", "--quiet", "--defaults", cwd=project)
    assert run("git", "status", "--porcelain", cwd=project) == ""
    run("copier", "update", "--quiet", "--defaults", "--data", "amp=fp16", cwd=project)
    ddpgen(
        "new",
        "q",
        "--defaults",
        "--data",
        "amp=fp16",
        "--data",
        "project_name=my-project",
        cwd=shell,
    )
    assert "amp: fp16" in (project / ".copier-answers.yml").read_text()
    for name in everything(shell / "q"):
        if (shell / "q" / name).is_file() and name != ".copier-answers.yml":
            assert (project / name).read_bytes() == (shell / "q" / name).read_bytes(), name
    assert (project / "mine.txt").read_text() == "my own file\n"


def test_project_of_a_fork_follows_the_fork(shell: Path) -> None:
    """`copier update` went over to the template of ddpgen without a word."""
    fork, project = shell / "fork", shell / "p"
    shutil.copytree(template_source.template_root(), fork)
    commit(fork)
    run("git", "tag", "v90.0.0", cwd=fork)
    run("copier", "copy", "--quiet", "--defaults", str(fork), str(project), cwd=shell)
    commit(project)
    with (fork / "project/optim.py.jinja").open("a") as file:
        file.write("\n# of the fork\n")
    commit(fork)
    run("git", "tag", "v90.1.0", cwd=fork)
    run("copier", "update", "--quiet", "--defaults", cwd=project)
    assert (project / "optim.py").read_text().endswith("\n# of the fork\n")
    done = ddpgen("set", "amp=fp16", cwd=project)
    assert done.returncode == 2
    assert "was not made by ddpgen" in done.stderr

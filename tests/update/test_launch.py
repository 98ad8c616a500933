"""`ddpgen launch`: more sets of launch files, which touch nothing else and are carried along."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from generator.program import everything

from ddpgen.asking.question import Value
from ddpgen.errors import DdpgenError
from ddpgen.launching import launch
from ddpgen.updating import update
from update.lab import NEW, OLD, Lab
from update.test_equality import assert_same

# Tools and watch follow the number of nodes by default; a set of launch files follows the project.
FIRST: dict[str, Value] = {"model": "resnet", "gpus_per_node": 2, "tools": [], "watch": []}
SLURM: dict[str, Value] = {"clusters": ["slurm"], "nodes": 8, "network": "infiniband"}


def add(project: Path, cluster: str, *data: str, name: str = "") -> int:
    return launch.add(project, launch.Request(cluster, "", name, list(data)), dry_run=False)


def with_set(lab: Lab, dest: Path, answers: Mapping[str, Value], tag: str, folder: str) -> Path:
    """A project, and in it the set of these answers, as each would be rendered alone."""
    lab.project(dest, tag, FIRST | {k: v for k, v in answers.items() if k == "checkpoint"})
    return lab.project(dest, tag, {**FIRST, **answers, "launch_folder": folder})


@pytest.fixture
def project(lab: Lab, tmp_path: Path) -> Path:
    made = lab.project(tmp_path / "p", OLD, FIRST)
    lab.commit(made)
    return made


def test_set_is_added_beside_everything_else(lab: Lab, project: Path, tmp_path: Path) -> None:
    assert add(project, "slurm", "nodes=8", "network=infiniband") == 0
    assert_same(project, with_set(lab, tmp_path / "fresh", SLURM, OLD, "launch_slurm"))
    status = lab.git("status", "--porcelain", cwd=project).split("\n")
    assert status == ["?? .copier-answers.launch_slurm.yml", "?? launch_slurm/"]


def test_new_set_needs_no_commit_and_no_repository(lab: Lab, project: Path) -> None:
    """A copy without its repository, or edits that are not finished: all stays as it was."""
    (project / "train.py").write_text("# unfinished\n")
    (project / "mine.txt").touch()
    before = everything(project)
    assert add(project, "slurm", "nodes=8") == 0
    shutil.rmtree(project / ".git")
    done = lab.ddpgen("launch", "ssh", "--nodes", "2", cwd=project)
    assert done.returncode == 0, done.stderr
    assert (project / "train.py").read_text() == "# unfinished\n"
    new = {name.partition("/")[0] for name in set(everything(project)) - set(before)}
    sets = {"launch_slurm", "launch_ssh"}
    assert new == sets | {f".copier-answers.{name}.yml" for name in sets}
    undo = done.stderr.strip().removeprefix("To undo: ")
    subprocess.run(undo, shell=True, check=True)
    assert not (project / "launch_ssh").exists()
    assert (project / "launch_slurm/slurm.sbatch").stat().st_mode & 0o111 == 0
    assert (project / "launch_slurm/node.sh").is_file()
    another = lab.ddpgen("launch", "slurm", "--nodes", "4", cwd=project)
    assert another.returncode == 2, "what is there may have been edited: that is a merge"
    assert "is not in a git repository" in another.stderr


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("launch_slurm", "launch_slurm: is there, but not of a set"),
        (".copier-answers.launch_slurm.yml", "--answers"),
    ],
)
@pytest.mark.parametrize("linked", [True, False])
def test_new_set_takes_no_place(
    lab: Lab, project: Path, name: str, words: str, linked: bool
) -> None:
    """The user's folder or file has the name of the set, or a link that leads nowhere has."""
    if linked:
        (project / name).symlink_to("elsewhere")
    else:
        (project / name).mkdir()
    before = everything(project)
    done = lab.ddpgen("launch", "slurm", cwd=project)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert everything(project) == before


def test_new_set_follows_no_answers_that_the_project_does_not(lab: Lab, project: Path) -> None:
    """Someone edited them by hand: the set would follow them, the other files do not."""
    file = project / ".copier-answers.yml"
    file.write_text(file.read_text().replace("amp: bf16", "amp: fp16"))
    done = lab.ddpgen("launch", "slurm", cwd=project)
    assert done.returncode == 2
    assert "was edited by hand" in done.stderr
    assert not (project / "launch_slurm").exists()


def test_set_is_what_launch_would_be(lab: Lab, project: Path, tmp_path: Path) -> None:
    """But for the name of the folder."""
    assert add(project, "slurm", "nodes=8", "network=infiniband", name="big") == 0
    fresh = lab.project(tmp_path / "fresh", OLD, FIRST | SLURM)
    names = everything(fresh / "launch")
    assert everything(project / "launch_big") == names
    for name in names:
        text = (project / "launch_big" / name).read_text().replace("launch_big/", "launch/")
        assert text == (fresh / "launch" / name).read_text(), name


def test_another_size_keeps_what_the_user_changed(lab: Lab, project: Path) -> None:
    add(project, "slurm", "nodes=8", "network=infiniband")
    script = project / "launch_slurm/slurm.sbatch"
    script.write_text(script.read_text() + "echo mine\n")
    lab.commit(project)
    assert add(project, "slurm", "nodes=16") == 0
    text = script.read_text()
    assert "#SBATCH --nodes=16\n" in text
    assert text.endswith("echo mine\n")
    answers = yaml.safe_load((project / ".copier-answers.launch_slurm.yml").read_text())
    assert (answers["nodes"], answers["network"]) == (16, "infiniband")


def test_sets_follow_the_project(lab: Lab, project: Path, tmp_path: Path) -> None:
    """In other answers about the training, and to a newer version."""
    add(project, "slurm", "nodes=8", "network=infiniband")
    lab.commit(project)
    assert update.change(project, ["checkpoint=false"], dry_run=False) == 0
    answers = {**SLURM, "checkpoint": False}
    assert_same(project, with_set(lab, tmp_path / "fresh", answers, OLD, "launch_slurm"))
    lab.commit(project)
    assert update.update(project, None, [], dry_run=False) == 0
    assert_same(project, with_set(lab, tmp_path / "newer", answers, NEW, "launch_slurm"))


def test_plain_copier_update_of_project_and_set(lab: Lab, project: Path, tmp_path: Path) -> None:
    add(project, "slurm", "nodes=8", "network=infiniband")
    lab.commit(project)
    for file in (".copier-answers.yml", ".copier-answers.launch_slurm.yml"):
        command = ("copier", "update", "--quiet", "--defaults", "--answers-file", file)
        done = lab.run(*command, cwd=project)
        assert done.returncode == 0, done.stderr
        lab.commit(project)
    assert_same(project, with_set(lab, tmp_path / "newer", SLURM, NEW, "launch_slurm"))


def test_clusters_side_by_side(lab: Lab, project: Path) -> None:
    for cluster, network in (("slurm", "infiniband"), ("kubernetes", "efa")):
        assert add(project, cluster, "nodes=2", f"network={network}") == 0
        lab.commit(project)
    done = lab.ddpgen("launch", "--list", cwd=project)
    assert done.returncode == 0, done.stderr
    for line in (
        "launch/  local: nodes=1 gpus_per_node=2",
        "launch_slurm/  slurm: nodes=2 gpus_per_node=2",
        "launch_kubernetes/  kubernetes: nodes=2 gpus_per_node=2",
    ):
        assert line in done.stdout
    assert "FI_" in (project / "launch_kubernetes/nccl.env").read_text()
    assert "FI_" not in (project / "launch_slurm/nccl.env").read_text()


def test_site_is_told_once_what_it_needs(lab: Lab, project: Path) -> None:
    first = ("launch", "--site", "lumi", "--nodes", "2")
    assert lab.ddpgen(*first, cwd=project).returncode == 2
    done = lab.ddpgen(*first, "--account", "project_1", cwd=project)
    assert done.returncode == 0, done.stderr
    assert "Start it: sbatch launch_lumi/slurm.sbatch" in done.stdout
    lab.commit(project)
    done = lab.ddpgen("launch", "--site", "lumi", "--nodes", "3", cwd=project)
    assert done.returncode == 0, done.stderr
    text = (project / "launch_lumi/slurm.sbatch").read_text()
    assert "#SBATCH --nodes=3\n" in text
    assert "#SBATCH --account=project_1\n" in text


def test_stdout_writes_nothing(lab: Lab, project: Path) -> None:
    done = lab.ddpgen("launch", "kubernetes", "--nodes", "3", "--stdout", cwd=project)
    assert done.returncode == 0, done.stderr
    (manifest,) = [m for m in yaml.safe_load_all(done.stdout) if m["kind"] == "TrainJob"]
    assert manifest["spec"]["trainer"]["numNodes"] == 3
    assert "launch_kubernetes/, which is not there" in done.stderr
    assert lab.git("status", "--porcelain", cwd=project) == ""


def test_dry_run_writes_nothing(lab: Lab, project: Path) -> None:
    done = lab.ddpgen("launch", "slurm", "--nodes", "3", "--dry-run", cwd=project)
    assert done.returncode == 0, done.stderr
    assert "+#SBATCH --nodes=3" in done.stdout
    assert lab.git("status", "--porcelain", cwd=project) == ""


def test_set_runs(lab: Lab, project: Path) -> None:
    """It trains from its own folder, on as many processes as it says."""
    assert add(project, "local", "gpus_per_node=2", name="here") == 0
    (project / "launch").rename(project / "gone")
    command = ["launch_here/local.sh", "train.max_steps=1", "train.epochs=1", "run.name=run"]
    done = subprocess.run(
        command, cwd=project, env=lab.environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (manifest,) = (project / "runs/run/checkpoints").glob("*.json")
    assert json.loads(manifest.read_text())["world_size"] == 2


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "say for which cluster"),
        (["slrum"], "CLUSTER=slrum: is not a choice (allowed: local, ssh, slurm"),
        (["slurm", "--nodes", "0"], "nodes=0: at least 1"),
        (["slurm", "--name", "../x"], "launch_folder=launch_../x: launch, or launch_NAME"),
        (["slurm", "--data", "clusters=ssh"], "clusters: follows from CLUSTER"),
        (["slurm", "--data", "nodse=2"], "did you mean nodes"),
    ],
)
def test_mistakes(lab: Lab, project: Path, arguments: list[str], reason: str) -> None:
    done = lab.ddpgen("launch", *arguments, cwd=project)
    assert done.returncode == 2
    assert reason in " ".join(done.stderr.split())
    assert lab.git("status", "--porcelain", cwd=project) == ""


def test_older_template_says_what_to_do(lab: Lab, tmp_path: Path) -> None:
    project = lab.project(tmp_path / "old", "v0.2.0", {})
    lab.commit(project)
    with pytest.raises(DdpgenError, match="ddpgen update"):
        add(project, "slurm")


@pytest.mark.parametrize("command", ["set", "new"])
def test_project_stays_whole(lab: Lab, project: Path, command: str) -> None:
    """Nobody turns a project into a set of launch files by an answer."""
    answer = "launch_folder=launch_x"
    arguments = [answer] if command == "set" else ["other", "--defaults", "--data", answer]
    done = lab.ddpgen(command, *arguments, cwd=project)
    assert done.returncode == 2
    assert "ddpgen launch" in done.stderr
    assert lab.git("status", "--porcelain", cwd=project) == ""

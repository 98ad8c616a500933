"""An update without edits equals a fresh generation, byte for byte."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
import yaml
from generator.program import everything

from ddpgen import origin
from ddpgen.asking import answers, questions
from ddpgen.asking.question import Answers, Value
from ddpgen.renaming import migrations
from ddpgen.updating import carry, update
from update.lab import NEW, OLD, Lab

SAMPLE: dict[str, dict[str, Value]] = {
    "defaults": {},
    "clusters": {
        "clusters": ["slurm", "kubernetes"],
        "nodes": 2,
        "gpu_type": "h100",
        "interface": "eth0",
    },
    "everything": {
        "model": "gpt",
        "accumulation": True,
        "checkpoint": False,
        "tracker": "mlflow",
        "clusters": ["ssh", "pbs", "lsf"],
    },
    "sharded": {"model": "resnet", "sharding": "zero1", "amp": "fp16"},
}


def renamed(answers: Mapping[str, Value], tag: str) -> dict[str, Value]:
    """The same answers, under the names that they have in a version."""
    names = {"gpu_type": "accelerator"} if tag == NEW else {}
    names |= {"interface": "network_interface"} if tag == "v0.1.0" else {}
    names |= {"sharding": "optimizer_sharding"} if origin.order(tag) < (0, 6, 0) else {}
    return {names.get(key, key): value for key, value in answers.items()}


def after_update(answers: Mapping[str, Value], since: str, to: str) -> dict[str, Value]:
    """The answers after an update: a project of before 0.5.0 keeps all tools that it had.

    What is watched over came with 0.6.0: nobody gets that by an update.
    """
    tools = ["preflight", "memory", "scaling", "profile"]
    tools += ["checkpoints"] * bool(answers.get("checkpoint", True))
    had = {"compression": True, "tools": tools}
    crosses = origin.order(since) < (0, 5, 0) <= origin.order(to)
    older = origin.order(since) < (0, 6, 0) <= origin.order(to)
    watch = {"watch": list[str]()} if older else {}
    return renamed(answers, to) | (had if crosses else {}) | watch


def assert_same(one: Path, other: Path, more: Iterable[str] = ()) -> None:
    """Two projects have the same files; the first has `more` of them."""
    names = [name for name in everything(one) if not name.startswith(".git/") and name != ".git"]
    assert names == sorted([*everything(other), *more])
    for name in everything(other):
        if (one / name).is_file():
            assert (one / name).read_bytes() == (other / name).read_bytes(), name
            assert os.access(one / name, os.X_OK) == os.access(other / name, os.X_OK), name


def test_ddpgen_update(lab: Lab, tmp_path: Path, since: str, to: str, sample: str) -> None:
    project = lab.project(tmp_path / "p", since, renamed(SAMPLE[sample], since))
    lab.commit(project)
    assert update.update(project, to[1:], [], dry_run=False) == 0
    fresh = lab.project(tmp_path / "fresh", to, after_update(SAMPLE[sample], since, to))
    assert_same(project, fresh, programs_moved(project, since, to))


def programs_moved(project: Path, since: str, to: str) -> set[str]:
    """The old names of programs, which go on working until the next update."""
    moved = {old for step in migrations.between(since, to) for old in step.programs}
    return {old for old in moved if (project / old).exists()}


def test_plain_copier_update(lab: Lab, tmp_path: Path, since: str, to: str) -> None:
    answers = SAMPLE["clusters"]
    project = lab.project(tmp_path / "p", since, renamed(answers, since))
    lab.commit(project)
    command = ("copier", "update", "--quiet", "--defaults", "--vcs-ref", to)
    done = lab.run(*command, cwd=project)
    assert done.returncode == 0, done.stderr
    fresh = lab.project(tmp_path / "fresh", to, after_update(answers, since, to))
    assert_same(project, fresh)


@pytest.mark.parametrize("plain", [False, True], ids=["ddpgen", "copier"])
def test_renamed_choice_is_taken_over(plain: bool, lab: Lab, tmp_path: Path) -> None:
    """`distilbert` is `text-classifier` since 0.6.0, and its layers are not skipped any more."""
    old: dict[str, Value] = {"model": "distilbert", "dynamic_graph": True}
    project = lab.project(tmp_path / "p", "v0.5.0", old)
    lab.commit(project)
    if plain:
        command = ("copier", "update", "--quiet", "--defaults", "--vcs-ref", OLD)
        done = lab.run(*command, cwd=project)
        assert done.returncode == 0, done.stderr
    else:
        assert update.update(project, OLD[1:], [], dry_run=False) == 0
    new = after_update({"model": "text-classifier"}, "v0.5.0", OLD)
    assert_same(project, lab.project(tmp_path / "fresh", OLD, new))
    lab.commit(project)
    if not plain:
        assert update.change(project, ["model=distilbert"], dry_run=False) == 0
        assert lab.git("status", "--porcelain", cwd=project) == ""


def test_renamed_question_keeps_its_answer(lab: Lab, tmp_path: Path) -> None:
    project = lab.project(tmp_path / "p", OLD, SAMPLE["clusters"])
    lab.commit(project)
    assert update.update(project, None, [], dry_run=False) == 0
    saved = yaml.safe_load((project / ".copier-answers.yml").read_text())
    assert saved["accelerator"] == "h100"
    assert "gpu_type" not in saved
    assert saved["new_option"] == "mlp"
    assert "h100" in (project / "launch/slurm.sbatch").read_text()


@pytest.mark.parametrize("sample", SAMPLE)
def test_set_and_back(lab: Lab, tmp_path: Path, sample: str) -> None:
    project = lab.project(tmp_path / "p", OLD, SAMPLE[sample])
    lab.commit(project)
    assert update.change(project, ["dynamic_graph=true"], dry_run=False) == 0
    fresh = {**SAMPLE[sample], "dynamic_graph": True}
    assert_same(project, lab.project(tmp_path / "fresh", OLD, fresh))
    lab.commit(project)
    assert update.change(project, ["dynamic_graph=false"], dry_run=False) == 0
    assert_same(project, lab.project(tmp_path / "before", OLD, SAMPLE[sample]))


@pytest.mark.parametrize(
    "change", [{"checkpoint": False}, {"sharding": "zero1"}, {"sharding": "fsdp"}], ids=str
)
def test_default_that_is_refused_becomes_that_of_a_new_project(change: dict[str, Value]) -> None:
    """The watch went off as a whole, the lock of the run's folder with it."""
    given: dict[str, Value] = {"nodes": 2, "clusters": ["slurm"], "gpus_per_node": 4}
    asked = questions.load()
    changed = carry.carry_over(asked, asked, answers.resolve(asked, given), change)
    assert changed == answers.resolve(asked, given | change)


@pytest.mark.parametrize("earlier", [{}, {"launch_folder": "launch"}], ids=["new", "older"])
@pytest.mark.parametrize(
    ("given", "change"),
    [
        ({}, {"clusters": ["local", "kubernetes"]}),
        ({}, {"nodes": 2, "clusters": ["slurm"]}),
        ({"nodes": 2, "clusters": ["slurm"], "network": "efa"}, {"clusters": ["kubernetes"]}),
        ({"clusters": ["slurm"], "container": "apptainer"}, {"nodes": 2}),
        ({"nodes": 2, "clusters": ["slurm"]}, {"sharding": "zero1"}),
    ],
    ids=str,
)
def test_answers_that_a_change_brought_go_with_it(
    given: Answers, change: Answers, earlier: Answers
) -> None:
    """Without Kubernetes the container stayed, on one node the network of two.

    With whole replicas on every rank again, nothing at all was watched.
    """
    asked = questions.load()
    before = answers.resolve(asked, given, earlier)
    changed = carry.carry_over(asked, asked, before, change)
    back = {name: before[name] for name in change}
    assert carry.carry_over(asked, asked, changed, back) == before


def test_colleague_with_another_home_in_a_monorepo(lab: Lab, tmp_path: Path) -> None:
    """The project is a folder of a bigger repository, cloned by somebody else."""
    project = lab.project(tmp_path / "mono/apps/p", OLD, {})
    (tmp_path / "mono/other.txt").write_text("other\n")
    lab.commit(tmp_path / "mono")
    lab.git("clone", "--quiet", "mono", "colleague", cwd=tmp_path)
    clone = tmp_path / "colleague"
    (clone / "other.txt").write_text("changed, and not committed\n")
    (tmp_path / "home").mkdir()
    done = lab.run("ddpgen", "update", "apps/p/launch", cwd=clone, HOME=str(tmp_path / "home"))
    assert done.returncode == 0, done.stderr
    assert_same(clone / "apps/p", lab.project(tmp_path / "fresh", NEW, {}))
    assert (clone / "other.txt").read_text() == "changed, and not committed\n"

    command = ("copier", "update", "--quiet", "--defaults")
    done = lab.run(*command, cwd=project, HOME=str(tmp_path / "home"))
    assert done.returncode == 0, done.stderr
    assert_same(project, tmp_path / "fresh")

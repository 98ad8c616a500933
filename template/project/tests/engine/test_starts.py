"""A start says who begins, and a run's folder is held by one start at a time."""

import contextlib
import io
import itertools
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
import torch

import train
from engine import checkpoint, failures, loading
from engine.state import TrainState
from engine.watch import lease, starts
from support import common, processes

SETTINGS = [*common.SMALL, "run.name=run", "train.max_steps=4", "checkpoint.every_steps=2"]
# By the project's own times, which tests shorten: a holder touches its file while others look.
OFTEN = 4 * lease.BEAT <= lease.LOOKS * lease.PAUSE


def train_and_say(argv: list[str], job: Path) -> str:
    """Train on hosts with two ranks each. Returns what is said."""
    os.environ[failures.JOB_FOLDER] = str(job)
    host = f"node{int(os.environ['RANK']) // 2}"
    common.replace(socket, "gethostname", lambda: host)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        train.main(argv)
    return said.getvalue()


def test_first_lines(tmp_path: Path) -> None:
    """Rank 0 says once, before the run, which ranks and programs begin, and what has changed."""
    argv = [f"run.folder={tmp_path}", *SETTINGS]
    for start, name in ((1, "first"), (2, "second")):
        with (tmp_path / "BEGUN").open("a") as begun:
            print(name, file=begun)
        again = ["train.max_steps=6"] * (start == 2)
        said, *rest = processes.run(3, train_and_say, [*argv, *again], tmp_path)
        assert rest == ["", ""], "rank 0 alone speaks"
        first = f"start {start} of the job: 3 ranks on 2 hosts: node0 x 2, node1 x 1"
        lines = said.splitlines()  # a model may have told something while it was built
        _, second, third = lines[lines.index(first) :][:3]
        assert second.startswith("python 3.")
        assert "commit" in second
        assert third.startswith("run " if start == 1 else "continuing from step_00000004.pt")
        assert ("train.max_steps was 4, is 6 from here on" in said) == (start == 2)
    assert not (tmp_path / "run" / checkpoint.OWNER).exists(), "the next start waits for nobody"


def start_apart(argv: list[str], own: list[str], old: str, sizes: dict[str, int]) -> None:
    """Train; rank 1 has words of its own, an old program or PyTorch, or data of other sizes."""
    if os.environ["RANK"] == "1":
        argv, build = [*argv, *own], loading.build
        if old == "torch":
            common.replace(torch, "__version__", "2.5.1")
        elif old:
            starts.__file__ = old
        common.replace(loading, "build", lambda *a: _resized(build(*a), sizes))
    train.main(argv)


def _resized(loaders: loading.Loaders, sizes: dict[str, int]) -> loading.Loaders:
    return loaders._replace(sizes=loaders.sizes | sizes)


APART: dict[str, tuple[list[str], str, dict[str, int]]] = {
    "optim.warmup_steps is 1 here, but 2 on rank 0": (["optim.warmup_steps=1"], "", {}),
    "optim.py is ": ([], "{folder}/engine/watch/starts.py", {}),
    "torch is 2.5.1 here, but ": ([], "torch", {}),
    "training samples is 3 here, but ": ([], "", {"training samples": 3}),
    "": (["data.workers=1", "data.folder={folder}/own"], "", {}),
}


@pytest.mark.parametrize("words", APART)
def test_ranks_that_differ_do_not_train(words: str, tmp_path: Path) -> None:
    """A node with other values, an old copy or other data; a folder of its own does no harm."""
    own, old, sizes = APART[words]
    (tmp_path / "engine" / "watch").mkdir(parents=True)
    (tmp_path / "optim.py").write_text("old")
    (tmp_path / ".#optim.py").symlink_to("me@host1:1")  # by an editor, which has changes to save
    own, old = [word.format(folder=tmp_path) for word in own], old.format(folder=tmp_path)
    world = processes.World(2, start_apart, [f"run.folder={tmp_path}", *SETTINGS], own, old, sizes)
    codes = world.end(first_failure=True)
    if words:
        assert f"RankError: {words}" in world.answer(1)["error"], "ranks learn different things"
    else:
        assert codes == [0, 0], world.answer(1)["error"]


def test_commit_is_that_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without git, a repository or a commit of this folder, none is known, and nothing fails."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (project := tmp_path / "project").mkdir()
    (project / "train.py").touch()
    assert starts.commit(project) == "no commit known"
    if shutil.which("git"):
        who = ["-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "commit.gpgsign=false"]
        for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "one"]):
            subprocess.run(["git", "-C", str(tmp_path), *who, *words], check=True)
        assert starts.commit(project) == "no commit known", "of a repository around the project"
        for words in (["add", "."], ["commit", "-q", "-m", "two"]):
            subprocess.run(["git", "-C", str(tmp_path), *who, *words], check=True)
        commit = starts.commit(project)
        assert commit.removeprefix("commit ").isalnum()
        (project / "new.py").touch()
        assert starts.commit(project) == f"{commit} and changes that are not committed"
    with monkeypatch.context() as inside:
        inside.setenv("PROJECT_COMMIT", "0f3a9c4d21b7-dirty")
        expected = "commit 0f3a9c4d21b7 and changes that are not committed"
        assert starts.commit(project) == expected, "in an image, which has no git"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert starts.commit(project) == "no commit known"


def hold(argv: list[str], machine: str, offset: float | None, job: str) -> None:
    """Train, as a start of a host whose clock differs; stop before a step, while touches go on.

    With None for the clock nothing is touched.
    """
    folder = Path(argv[0].partition("=")[2])
    utime = os.utime
    stamps = (time.time() + (offset or 0) + n / 100 for n in itertools.count())
    checkpoint.ME = "process 5 on node7 since noon"
    if machine:
        common.replace(lease, "machine", lambda: machine)

    def touch(number: int) -> None:
        if offset is not None:
            utime(number, times=(now := next(stamps), now))

    def stop(state: TrainState) -> None:
        if state.step == 3:
            (folder / "holds").write_text("")
            time.sleep(100)

    common.replace(os, "utime", touch)
    common.before_step(stop)
    train_quickly(argv, job)


def train_quickly(argv: list[str], job: str = "", looks: int = 60) -> None:
    """Train, as a start of a job; a second of the lease passes in a hundredth."""
    os.environ[failures.JOB_FOLDER] = job
    lease.BEAT, lease.PAUSE, lease.LOOKS = 0.02, 0.01, looks
    train.main(argv)


def begin(
    folder: Path, machine: str = "", offset: float | None = None, job: str = ""
) -> processes.World:
    """A start that holds the run's folder, and has saved."""
    argv = [f"run.folder={folder}", *SETTINGS]
    world = processes.World(1, hold, argv, machine, offset, job)
    saved = checkpoint.path_of(folder / "run", 2).with_suffix(".json")
    while not ((folder / "holds").exists() and saved.exists()):
        assert world.processes[0].is_alive(), world.answer(0)
        time.sleep(0.02)
    return world


def assert_refused(folder: Path, job: str = "") -> None:
    before = sorted(path.name for path in (folder / "run").rglob("*"))
    world = processes.World(2, train_quickly, [f"run.folder={folder}", *SETTINGS], job)
    assert world.end() == [1, 1], "two starts train in one folder"
    words = f"{folder / 'run'} is held by process 5 on node7 since noon, which goes on: end"
    assert all(words in world.answer(rank)["error"] for rank in range(2))
    assert sorted(path.name for path in (folder / "run").rglob("*")) == before


def assert_taken_over(folder: Path, job: str = "", looks: int = 60) -> None:
    argv = [f"run.folder={folder}", *SETTINGS]
    assert processes.World(2, train_quickly, argv, job, looks).end(20) == [0, 0]
    assert checkpoint.problem(checkpoint.path_of(folder / "run", 4)) == ""


def test_second_start_is_refused_until_the_first_has_died(tmp_path: Path) -> None:
    """On one machine: a process that is there holds the folder, one that was killed does not."""
    world = begin(tmp_path)  # that nothing is touched says nothing here
    assert_refused(tmp_path)
    os.kill(world.processes[0].pid or 0, signal.SIGKILL)
    assert_taken_over(tmp_path, looks=10**6)  # nobody waits
    world.kill()


def test_process_that_has_ended_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though its parent has not heard of that yet; but nothing is known of hidden processes."""
    with subprocess.Popen(["sleep", "60"]) as child:
        assert lease.born(child.pid) not in ("", lease.born(os.getpid()))
        child.kill()
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert lease.born(child.pid) == ""
    for name in ("self", "sys", str(os.getpid())):  # what is left of others' processes
        (tmp_path / name).symlink_to(lease.PROCESSES / name)
    assert lease.machine() != ""
    here = lease.machine()
    container = tmp_path / "container"
    container.mkdir()
    for name in ("1", "sys"):
        (container / name).symlink_to(lease.PROCESSES / name)
    (container / "self" / "ns").mkdir(parents=True)
    (container / "self" / "ns" / "pid").symlink_to("pid:[1]")
    monkeypatch.setattr(lease, "PROCESSES", container)
    assert lease.machine() not in ("", here), "looks for a process among those of another container"
    monkeypatch.setattr(lease, "PROCESSES", tmp_path)
    assert lease.machine() == ""


@pytest.mark.parametrize("offset", [-3600.0, 0.0, 3600.0])
def test_holder_on_another_host(offset: float, tmp_path: Path) -> None:
    """Its touches show that it goes on, whatever its clock says; without them it has died."""
    world = begin(tmp_path, "another kernel", offset)
    assert_refused(tmp_path)
    world.kill()
    assert_taken_over(tmp_path)
    assert OFTEN, "a holder that goes on counts as gone"


def test_one_of_two_starts_at_a_moment_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks first and writes then: the file server decides."""
    for look in ("exists", "is_file", "stat"):
        monkeypatch.setattr(Path, look, lambda _: False)
    path, one, other = tmp_path / "OWNER", lease.Lease(), lease.Lease()
    one.take(path, "one")
    other.path, other.text = path, "other"
    assert not other._create(), "both hold the folder"
    one.give_back()


def test_later_start_of_a_job_takes_over(tmp_path: Path) -> None:
    """Its launcher has given up the start before, which may go on and saves no more."""
    (begun := tmp_path / "BEGUN").write_text("first\n")
    world = begin(tmp_path, "another kernel", 0.0, str(tmp_path))
    assert_refused(tmp_path, str(tmp_path))  # the same start
    begun.write_text("first\nsecond\n")
    assert_taken_over(tmp_path, str(tmp_path), looks=10**6)  # nobody waits
    world.kill()


def jobs() -> list[tuple[str, int]]:
    """What launchers say of a job, by their variables."""
    found = []
    for variables in (
        {},
        {"TORCHELASTIC_RUN_ID": "none"},
        {"TORCHELASTIC_RUN_ID": "here", "TORCHELASTIC_RESTART_COUNT": "2"},
        {"SLURM_JOB_ID": "17", "SLURM_CLUSTER_NAME": "alpha", "SLURM_RESTART_COUNT": "1"},
        {"SLURM_JOB_ID": "17", "SLURM_CLUSTER_NAME": "beta"},
    ):
        os.environ |= variables
        found.append(lease.job())
        for name in variables:
            del os.environ[name]
    return found


def test_jobs_of_two_clusters_differ() -> None:
    """The number of a job is not enough."""
    names = ["", "", "here", "alpha 17", "beta 17"]
    assert processes.run(1, jobs) == [[*zip(names, [1, 1, 3, 2, 1], strict=True)]]


def train_apart(argv: list[str]) -> None:
    """Train; rank 1 is on a node that does not see the checkpoints of rank 0."""
    exists = Path.exists

    def seen(path: Path) -> bool:
        return exists(path) and checkpoint.FOLDER not in path.parts

    if os.environ["RANK"] == "1":
        common.replace(Path, "exists", seen)
    train.main(argv)


def test_nodes_must_share_the_folder(tmp_path: Path) -> None:
    """A node that would go on with other weights than those of the first says so."""
    argv = [f"run.folder={tmp_path}", *SETTINGS]
    processes.run(2, train_and_say, argv, tmp_path)
    world = processes.World(2, train_apart, [*argv, "train.max_steps=6"])
    assert world.end(first_failure=True)[1] == 1
    assert "all nodes must share run.folder" in world.answer(1)["error"]

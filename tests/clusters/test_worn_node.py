"""A node that has failed twice: the job goes on without it, if SLURM has another one for it."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.clusters import slurm_lab
from tests.clusters.checkpoints import last_checkpoint
from tests.clusters.slurm_jobs import Job, submit
from tests.clusters.slurm_lab import Lab
from tests.clusters.test_disturbed import LONG
from tests.clusters.test_slurm import ANSWERS, DIRECT, ON_CPU, TORCHRUN

SHORT = ("train.max_steps=5", ON_CPU)
# A disk of the second node fails in every run's start.
DISK = """
import os


def peak_lr(*_):
    if os.environ["SLURMD_NODENAME"] == "node2":
        raise OSError(5, "Input/output error")
    return 0.1
"""


def with_bad_disk(project: Callable[..., Path], nodes: int) -> Path:
    """A project that fails on node2."""
    folder = project(**ANSWERS | {"gpus_per_node": 1, "nodes": nodes})
    with (folder / "optim.py").open("a") as file:
        file.write(DISK)
    return folder


def left_out(job: Job) -> str:
    """The nodes that the job is not given any more."""
    shown = job.lab.command("scontrol", "show", "job", job.number)
    return shown.partition("ExcNodeList=")[2].split()[0]


@pytest.mark.thorough
@pytest.mark.parametrize("script", [TORCHRUN, DIRECT])
@pytest.mark.disturbed("The disk of its second node fails in each start")
def test_job_goes_on_without_a_node_that_has_failed_twice(
    script: str, lab: Lab, project: Callable[..., Path], environment: dict[str, str]
) -> None:
    """Its user leaves out another one from the beginning."""
    folder = with_bad_disk(project, 2)
    own = ("--exclude=node3",)
    job = submit(lab, folder, environment, *SHORT, script=script, options=own)
    log = job.finish(seconds=400)
    assert job.restarts() == 2, log
    assert "node2 has failed twice: left out of the next start" in log
    assert left_out(job) == "node3,node2"
    assert last_checkpoint(job.run)["step"] == 5
    assert not [*folder.glob(".job-*")]


@pytest.mark.thorough
@pytest.mark.disturbed("The disk of a node fails in each start, and no other node is there")
def test_job_does_not_wait_for_a_node_that_is_not_there(
    lab: Lab, project: Callable[..., Path], environment: dict[str, str]
) -> None:
    job = submit(lab, with_bad_disk(project, 4), environment, *SHORT)
    log = job.finish("FAILED", seconds=400)
    assert job.restarts() == 2, log
    assert "node2 has failed twice, but no other node like it is free" in log
    assert "not again, since three starts have saved nothing" in log


@pytest.fixture
def three() -> Iterator[Lab]:
    """Nodes for a job, and one more."""
    slurm_lab.skip_if_impossible()
    with slurm_lab.cluster(3, gpus=1) as cluster:
        yield cluster


def lose_second_node(lab: Lab, job: Job) -> None:
    """Until SLURM has noticed; then the node is back, and could be given to the job again."""
    restarts = job.restarts()
    assert job.nodes == ["node1", "node2"], job.log
    lab.fail_node("node2")
    lab.wait("the requeue", lambda: job.restarts() > restarts, 120)
    lab.command("scontrol", "hold", job.number)
    lab.start_node("node2")
    with suppress(RuntimeError):  # refused for a node that is not down
        lab.command("scontrol", "update", "nodename=node2", "state=resume")
    state = ("sinfo", "--noheader", "--nodes=node2", "--partition=batch", "--format=%T")
    lab.wait("the node", lambda: lab.command(*state) == "idle")
    lab.command("scontrol", "release", job.number)


@pytest.mark.thorough
@pytest.mark.disturbed("Its second node loses its power twice, and is back each time")
def test_job_goes_on_without_a_node_that_was_lost_twice(
    three: Lab, project: Callable[..., Path], environment: dict[str, str]
) -> None:
    folder = project(**ANSWERS | {"gpus_per_node": 1})
    options = ["--nodelist=node3", "--exclusive", "--output=/dev/null", "--wrap=sleep 600"]
    other = three.command("sbatch", "--parsable", *options)
    job = submit(three, folder, environment, *LONG, "train.max_steps=2000")
    job.wait_for_checkpoint()
    lose_second_node(three, job)
    three.wait("the second start", lambda: "continuing from step_" in job.log)
    three.command("scancel", other)
    lose_second_node(three, job)
    three.wait("the third start", lambda: job.log.count("continuing from step_") == 2)
    assert job.nodes == ["node1", "node3"], job.log
    assert "node2 has failed twice: left out of the next start" in job.log
    assert left_out(job) == "node2"
    three.command("scancel", job.number)

"""SLURM jobs that something happens to: they come back, and end as if nothing had happened."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import page
from tests.clusters.checkpoints import assert_same, last_checkpoint
from tests.clusters.slurm_jobs import Job, submit
from tests.clusters.slurm_lab import Lab
from tests.clusters.test_slurm import ANSWERS, ON_CPU
from tests.clusters.times import Log

Disturbance = Callable[[Lab, Job], None]
LONG = (
    "train.global_batch_size=64",  # epochs of 23 steps
    "train.epochs=1000",
    "log.every_steps=50",
    "checkpoint.every_steps=50",
    "ddp.timeout_seconds=30",
    ON_CPU,
)


def preempted(lab: Lab, _: Job) -> None:
    """A job of higher priority needs all nodes."""
    options = ["--partition=urgent", "--nodes=4", "--exclusive", "--output=/dev/null"]
    lab.command("sbatch", *options, "--wrap=sleep 3")


def requeued(lab: Lab, job: Job) -> None:
    """Somebody gives the command."""
    lab.command("scontrol", "requeue", job.number)


def rank_is_killed(lab: Lab, job: Job) -> None:
    """A rank of the second node is killed, and all nodes answer."""
    lab.hosts.signal_rank(job.nodes[-1], signal.SIGKILL)


def rank_hangs(lab: Lab, job: Job) -> None:
    """A rank of the second node does nothing any more, and all nodes answer."""
    lab.hosts.signal_rank(job.nodes[-1], signal.SIGSTOP)


def node_dies(lab: Lab, job: Job) -> None:
    """The second node loses its power."""
    lab.fail_node(job.nodes[-1])


def first_node_dies(lab: Lab, job: Job) -> None:
    """The node with the script and the rendezvous loses its power."""
    lab.fail_node(job.nodes[0])


def node_is_cut_off(lab: Lab, job: Job) -> None:
    """The second node runs on, but nobody reaches it."""
    lab.hosts.cut(job.nodes[-1])


def first_node_is_cut_off(lab: Lab, job: Job) -> None:
    """The node with the script and the rendezvous runs on, but nobody reaches it."""
    lab.hosts.cut(job.nodes[0])


def drained(lab: Lab, job: Job) -> None:
    """An administrator takes the second node away."""
    options = [f"nodename={job.nodes[-1]}", "state=down", "reason=test"]
    lab.command("scontrol", "update", *options)


def time_runs_out(lab: Lab, job: Job) -> None:
    """Less than the 3 minutes are left of which the job wants to know; SLURM looks every 30 s."""
    lab.command("scontrol", "update", f"jobid={job.number}", "timelimit=2")
    lab.wait("the requeue", lambda: job.restarts() == 1, 120)
    lab.command("scontrol", "update", f"jobid={job.number}", "timelimit=30")


@pytest.fixture(scope="module")
def folder(project: Callable[..., Path]) -> Path:
    return project(**ANSWERS)


@pytest.fixture(scope="module")
def arguments(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """A minute on two cores, as SLURM looks at times every 30 s; a preemption comes at once."""
    steps = 1500 if request.config.getoption("--thorough") else 250
    return (*LONG, f"train.max_steps={steps}")


@pytest.fixture(scope="module")
def undisturbed(
    lab: Lab, folder: Path, environment: dict[str, str], arguments: tuple[str, ...]
) -> dict[str, Any]:
    """The last checkpoint of a job that nothing happened to."""
    job = submit(lab, folder, environment, *arguments)
    job.finish()
    return last_checkpoint(job.run)


@pytest.mark.thorough
def test_job_without_time_to_train_ends_with_a_reason(
    lab: Lab, folder: Path, environment: dict[str, str]
) -> None:
    """Less time than is kept for the save: each start would be told to stop at once."""
    job = submit(lab, folder, environment, *LONG, "train.max_steps=100000", options=("--time=2",))
    log = job.finish("FAILED")
    assert "the time limit leaves no time for the training" in log
    assert job.restarts() == 0


@pytest.fixture
def repaired(lab: Lab) -> Iterator[None]:
    """Afterwards every node is back."""
    yield
    for node, daemon in list(lab.daemons.items()):
        if node.startswith("node"):
            lab.hosts.mend(node)
            if daemon.poll() is not None:
                lab.start_node(node)
            with suppress(RuntimeError):  # refused for a node that is not down
                lab.command("scontrol", "update", f"nodename={node}", "state=resume")
    lab.wait("all nodes", lambda: lab.idle_nodes() == 4)


@pytest.mark.parametrize(
    "disturb",
    [
        preempted,
        *(
            pytest.param(disturb, marks=pytest.mark.thorough)
            for disturb in (
                time_runs_out,
                requeued,
                rank_is_killed,
                rank_hangs,
                node_dies,
                first_node_dies,
                node_is_cut_off,
                first_node_is_cut_off,
                drained,
            )
        ),
    ],
)
@pytest.mark.usefixtures("repaired")
def test_job_comes_back_and_ends_with_the_same_weights(
    disturb: Disturbance,
    lab: Lab,
    folder: Path,
    environment: dict[str, str],
    arguments: tuple[str, ...],
    undisturbed: dict[str, Any],
    record_property: Callable[[str, object], None],
) -> None:
    job = submit(lab, folder, environment, *arguments)
    job.wait_for_checkpoint()
    said = Log(lambda: job.log)
    mishap = time.monotonic()
    disturb(lab, job)
    lab.wait("the requeue", lambda: job.restarts() == 1, 120)
    log = job.finish(seconds=300)
    assert "continuing from step_" in log, log
    assert job.restarts() == 1, log
    assert_same(last_checkpoint(job.run), undisturbed)
    record_property(page.TIMES, said.times(mishap))

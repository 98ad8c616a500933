"""SLURM's default timeouts: a job does not fail before SLURM notices that a node is lost."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import slurm_lab
from tests.clusters.checkpoints import assert_same, last_checkpoint
from tests.clusters.slurm_jobs import Job, submit
from tests.clusters.slurm_lab import Lab
from tests.clusters.test_disturbed import (
    LONG,
    Disturbance,
    first_node_dies,
    first_node_is_cut_off,
    node_dies,
    node_is_cut_off,
)
from tests.clusters.test_slurm import ANSWERS, ON_CPU

SCRIPTS = ("launch/slurm.sbatch", "launch/slurm_direct.sbatch")
DISTURBANCES = (node_dies, node_is_cut_off, first_node_dies, first_node_is_cut_off)
ONE_RANK_PER_NODE = {"gpus_per_node": 1}
SETTINGS = (*LONG, "train.max_steps=300", "ddp.timeout_seconds=20")  # how soon ranks notice a cut
NOTICED = 600  # seconds


@pytest.fixture(scope="module")
def slow_lab() -> Iterator[Lab]:
    """Nodes for all jobs at once, and one more for each; with SLURM's default timeouts."""
    slurm_lab.skip_if_impossible()
    nodes = 3 * len(SCRIPTS) * len(DISTURBANCES)
    with slurm_lab.cluster(nodes, gpus=1, slurmd_timeout=300, kill_wait=30) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def folder(project: Callable[..., Path]) -> Path:
    return project(**ANSWERS | ONE_RANK_PER_NODE)


@pytest.fixture(scope="module")
def undisturbed(slow_lab: Lab, folder: Path, environment: dict[str, str]) -> dict[str, Any]:
    """The last checkpoint of a job that nothing happened to."""
    job = submit(slow_lab, folder, environment, *SETTINGS)
    job.finish()
    return last_checkpoint(job.run)


# In every run's start.
BUG = """

def peak_lr(*_):
    raise ValueError("bad row")
"""
Jobs = dict[tuple[str, Disturbance], Job]


@pytest.fixture(scope="module")
def disturbed(slow_lab: Lab, folder: Path, environment: dict[str, str]) -> Jobs:
    """All jobs, which lose their nodes at about the same time: the wait is for all of them."""
    lab, jobs = slow_lab, {}
    for case in itertools.product(SCRIPTS, DISTURBANCES):
        jobs[case] = submit(lab, folder, environment, *SETTINGS, script=case[0])
    for (_, disturb), job in jobs.items():
        job.wait_for_checkpoint()
        disturb(lab, job)
    return jobs


@pytest.mark.thorough
@pytest.mark.parametrize("disturb", DISTURBANCES)
@pytest.mark.parametrize("script", SCRIPTS)
def test_job_comes_back_when_a_node_is_lost(
    script: str, disturb: Disturbance, slow_lab: Lab, disturbed: Jobs, undisturbed: dict[str, Any]
) -> None:
    job = disturbed[script, disturb]
    slow_lab.wait("the requeue", lambda: job.restarts() == 1, NOTICED)
    log = job.finish(seconds=300)
    assert "continuing from step_" in log, log
    assert job.restarts() == 1, log
    # Without torchrun srun itself waits for the lost node's ranks, until SLURM notices the loss.
    if disturb in (node_dies, node_is_cut_off) and script == SCRIPTS[0]:
        assert "waiting until SLURM notices" in log
    assert_same(last_checkpoint(job.run), undisturbed)


@pytest.mark.thorough
@pytest.mark.disturbed("Its own error ends it")
def test_error_of_the_program_ends_the_job(
    slow_lab: Lab, folder: Path, environment: dict[str, str]
) -> None:
    job = submit(slow_lab, folder, environment, "train.epochs=0.5")
    job.finish("FAILED")
    assert job.restarts() == 0
    assert not [*folder.glob(".job-*")]


@pytest.mark.thorough
@pytest.mark.disturbed("Its data make it fail, each time at the same step")
def test_error_that_comes_again_ends_the_job(
    lab: Lab, project: Callable[..., Path], environment: dict[str, str]
) -> None:
    folder = project(**ANSWERS | ONE_RANK_PER_NODE)
    with (folder / "optim.py").open("a") as file:
        file.write(BUG)
    job = submit(lab, folder, environment, "train.max_steps=20", ON_CPU)
    log = job.finish("FAILED")
    assert job.restarts() == 1
    assert "ValueError: bad row in peak_lr" in log
    assert "not again, since the same error has come twice, without a save between" in log
    assert "go on with this run: RUN=" not in log
    assert not [*folder.glob(".job-*")]


# Its preparation, of which there is one task per node, takes long.
SLOW = """\
import sys
import time

if "--prepare-only" in sys.argv:
    print("preparing", flush=True)
    time.sleep(100)
"""


@pytest.mark.parametrize("script", ["launch/slurm.sbatch", "launch/slurm_direct.sbatch"])
@pytest.mark.disturbed("It is told to end while it prepares the data")
def test_job_told_to_stop_while_it_prepares_comes_back_but_not_for_ever(
    script: str, lab: Lab, folder: Path, environment: dict[str, str]
) -> None:
    (folder / "slow.py").write_text(SLOW)
    job = submit(lab, folder, environment | {"PROGRAM": "slow.py"}, script=script)
    for start in range(1, 4):
        lab.wait("the preparation", lambda n=start: job.log.count("preparing") == 2 * n)
        lab.command("scancel", "--batch", "--signal=USR1", job.number)
        if start < 3:
            lab.wait("the requeue", lambda n=start: job.restarts() == n)
    log = job.finish("FAILED")
    assert log.count("it was told to stop before it could save: requeued") == 2
    assert "not again, since three starts have saved nothing" in log

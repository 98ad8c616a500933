"""Timeouts like SLURM's defaults: a job does not fail before SLURM notices that a node is lost."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import slurm_lab
from tests.clusters.checkpoints import assert_same, last_checkpoint
from tests.clusters.slurm_jobs import Job, submit
from tests.clusters.slurm_lab import Lab
from tests.clusters.test_disturbed import LONG, node_dies, node_is_cut_off
from tests.clusters.test_slurm import ANSWERS

NOTICED = 300  # seconds
SETTINGS = (*LONG, "ddp.timeout_seconds=20")  # how soon the ranks notice a link that is cut


@pytest.fixture(scope="module")
def slow_lab() -> Iterator[Lab]:
    """Three nodes, and a controller that notices a loss after srun has given up, as by default.

    By default it takes 300 s, and srun 100 s.
    """
    slurm_lab.skip_if_impossible()
    with slurm_lab.cluster(nodes=3, slurmd_timeout=160, kill_wait=30) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def folder(project: Callable[..., Path]) -> Path:
    return project(**ANSWERS)


@pytest.fixture(scope="module")
def undisturbed(slow_lab: Lab, folder: Path, environment: dict[str, str]) -> dict[str, Any]:
    """The last checkpoint of a job that nothing happened to."""
    job = submit(slow_lab, folder, environment, *SETTINGS)
    job.finish()
    return last_checkpoint(job.run)


@pytest.mark.thorough
@pytest.mark.parametrize("disturb", [node_dies, node_is_cut_off])
@pytest.mark.parametrize("script", ["launch/slurm.sbatch", "launch/slurm_direct.sbatch"])
def test_job_comes_back_when_a_node_is_lost(
    script: str,
    disturb: Callable[[Lab, Job], None],
    slow_lab: Lab,
    folder: Path,
    environment: dict[str, str],
    undisturbed: dict[str, Any],
) -> None:
    lab = slow_lab
    job = submit(lab, folder, environment, *SETTINGS, script=script)
    job.wait_for_checkpoint()
    lost = job.nodes[-1]
    disturb(lab, job)
    lab.wait("the requeue", lambda: job.restarts() == 1, NOTICED)
    assert f"no answer from {lost}: waiting until SLURM notices" in job.log
    log = job.finish(seconds=300)
    assert "continuing from step_" in log, log
    assert_same(last_checkpoint(job.run), undisturbed)
    lab.hosts.kill(lost)
    lab.daemons[lost].wait()
    lab.hosts.mend(lost)
    lab.start_node(lost)
    lab.command("scontrol", "update", f"nodename={lost}", "state=resume")
    lab.wait("all nodes", lambda: lab.idle_nodes() == 3)


@pytest.mark.thorough
@pytest.mark.disturbed("Its own error ends it")
def test_error_of_the_program_ends_the_job(
    slow_lab: Lab, folder: Path, environment: dict[str, str]
) -> None:
    job = submit(slow_lab, folder, environment, "train.epochs=0.5")
    job.finish("FAILED")
    assert job.restarts() == 0


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
    assert "three starts have saved nothing: not again" in log

"""The rendered SLURM files, submitted to a real controller as a user would."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.clusters.checkpoints import assert_same, last_checkpoint
from tests.clusters.slurm_jobs import submit
from tests.clusters.slurm_lab import Lab

ANSWERS = {
    "clusters": ["slurm"],
    "nodes": 2,
    "gpus_per_node": 2,
    "gpu_type": "fake",
    "cpus_per_gpu": 1,
    "partition": "batch",
    "time_limit": "00:30:00",
}
TRAINED = ("train.max_steps=60", "train.epochs=20", "checkpoint.every_steps=0")


@pytest.fixture(scope="module")
def folder(project: Callable[..., Path]) -> Path:
    return project(**ANSWERS)


@pytest.fixture(scope="module")
def undisturbed(lab: Lab, folder: Path, environment: dict[str, str]) -> dict[str, Any]:
    """The last checkpoint of a job that nobody disturbed: two nodes with two ranks each."""
    job = submit(lab, folder, environment, *TRAINED)
    job.finish()
    return last_checkpoint(job.run)


def test_two_nodes_form_one_world(undisturbed: dict[str, Any]) -> None:
    assert (undisturbed["step"], undisturbed["world_size"]) == (60, 4)


@pytest.mark.parametrize("script", ["launch/slurm.sbatch", "launch/slurm_direct.sbatch"])
def test_gpus_as_generic_resources(
    script: str, lab: Lab, project: Callable[..., Path], environment: dict[str, str]
) -> None:
    """Where a site has no --gpus-per-node, and another way to tell how many there are."""
    folder = project(**ANSWERS, gpu_request="gres")
    job = submit(lab, folder, environment, *TRAINED, "train.max_steps=1", script=script)
    job.finish()
    assert last_checkpoint(job.run)["world_size"] == 4


@pytest.mark.parametrize(
    ("script", "signal"),
    [
        # What B:USR1@... sends at the time limit, and what USR1@... sends.
        ("launch/slurm.sbatch", ["--batch", "--signal=USR1"]),
        ("launch/slurm_direct.sbatch", ["--signal=USR1"]),
    ],
)
def test_job_told_to_stop_saves_requeues_itself_and_ends_with_the_same_weights(
    script: str,
    signal: list[str],
    lab: Lab,
    folder: Path,
    environment: dict[str, str],
    undisturbed: dict[str, Any],
) -> None:
    job = submit(lab, folder, environment, *TRAINED, script=script)
    job.wait_for_steps()
    lab.command("scancel", *signal, job.number)
    lab.wait("the requeue", lambda: job.restarts() == 1)
    log = job.finish()
    saved = re.search(r"asked to stop: saved step (\d+)", log)
    assert saved, log
    assert f"continuing from step_{int(saved[1]):08d}.pt" in log
    assert job.restarts() == 1
    assert_same(last_checkpoint(job.run), undisturbed)


def test_cancelled_job_does_not_come_back(
    lab: Lab, folder: Path, environment: dict[str, str]
) -> None:
    job = submit(lab, folder, environment, "train.epochs=100000")
    job.wait_for_steps()
    lab.command("scancel", job.number)
    job.finish("CANCELLED")
    assert job.restarts() == 0

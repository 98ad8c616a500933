"""The rendered SLURM files, submitted to a real controller as a user would."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

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


def log_of(folder: Path, job: str) -> str:
    path = folder / f"slurm-{job}.log"
    return path.read_text() if path.exists() else ""


def finish(lab: Lab, folder: Path, job: str, state: str = "COMPLETED") -> str:
    """Wait for the job's end and return its log, which is also the message when it went wrong."""
    ends = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED")
    lab.wait(f"the end of job {job}", lambda: lab.state(job) in ends, 180)
    log = log_of(folder, job)
    assert lab.state(job) == state, log
    return log


def restarts(lab: Lab, job: str) -> int:
    found = re.search(r"Restarts=(\d+)", lab.command("scontrol", "show", "job", job))
    assert found
    return int(found[1])


def last_checkpoint(folder: Path, job: str) -> dict[str, Any]:
    """What training changed, in the newest checkpoint, and the size of the world that wrote it."""
    *_, newest = sorted((folder / "runs" / f"slurm-{job}" / "checkpoints").glob("*.json"))
    content = torch.load(newest.with_suffix(".pt"), weights_only=True)
    del content["config"]  # it has the run's name, and with it the job's number
    return {"world_size": json.loads(newest.read_text())["world_size"], **content}


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Every number and tensor is the same, bit for bit: four ranks resume exactly."""
    torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


@pytest.fixture(scope="module")
def folder(project: Callable[..., Path]) -> Path:
    return project(**ANSWERS)


@pytest.fixture(scope="module")
def undisturbed(lab: Lab, folder: Path, environment: dict[str, str]) -> dict[str, Any]:
    """The last checkpoint of a job that nobody disturbed: two nodes with two ranks each."""
    job = lab.submit("launch/slurm.sbatch", *TRAINED, cwd=folder, env=environment)
    finish(lab, folder, job)
    return last_checkpoint(folder, job)


def test_two_nodes_form_one_world(undisturbed: dict[str, Any]) -> None:
    assert (undisturbed["step"], undisturbed["world_size"]) == (60, 4)


@pytest.mark.parametrize("script", ["slurm.sbatch", "slurm_direct.sbatch"])
def test_gpus_as_generic_resources(
    script: str, lab: Lab, project: Callable[..., Path], environment: dict[str, str]
) -> None:
    """Where a site has no --gpus-per-node, and another way to tell how many there are."""
    folder = project(**ANSWERS, gpu_request="gres")
    job = lab.submit(f"launch/{script}", *TRAINED, "train.max_steps=1", cwd=folder, env=environment)
    finish(lab, folder, job)
    assert last_checkpoint(folder, job)["world_size"] == 4


@pytest.mark.parametrize(
    ("script", "signal"),
    [
        ("slurm.sbatch", ["--batch", "--signal=USR1"]),  # what B:USR1@... sends at the time limit
        ("slurm_direct.sbatch", ["--signal=USR1"]),  # what USR1@... sends
        ("slurm.sbatch", ["--signal=TERM"]),  # what the tasks get from a preemption
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
    job = lab.submit(f"launch/{script}", *TRAINED, cwd=folder, env=environment)
    lab.wait("a first step", lambda: "\nstep " in log_of(folder, job))
    lab.command("scancel", *signal, job)
    lab.wait("the requeue", lambda: restarts(lab, job) == 1)
    log = finish(lab, folder, job)
    saved = re.search(r"asked to stop: saved step (\d+)", log)
    assert saved, log
    assert f"continuing from step_{int(saved[1]):08d}.pt" in log
    assert restarts(lab, job) == 1
    assert_same(last_checkpoint(folder, job), undisturbed)


def test_cancelled_job_does_not_come_back(
    lab: Lab, folder: Path, environment: dict[str, str]
) -> None:
    job = lab.submit("launch/slurm.sbatch", "train.epochs=100000", cwd=folder, env=environment)
    lab.wait("a first step", lambda: "\nstep " in log_of(folder, job))
    lab.command("scancel", job)
    finish(lab, folder, job, "CANCELLED")
    assert restarts(lab, job) == 0

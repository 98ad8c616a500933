"""The rendered SLURM files, submitted to a real controller as a user would."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

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
SHORT = ("train.max_steps=20", "checkpoint.every_steps=1")
LONG = ("train.epochs=100000", "train.max_steps=0", "checkpoint.every_steps=0")


def log_of(folder: Path, job: str) -> str:
    path = folder / f"slurm-{job}.log"
    return path.read_text() if path.exists() else ""


def finish(lab: Lab, folder: Path, job: str, state: str = "COMPLETED") -> str:
    """Wait for the job's end and return its log; the log is the message when it ended otherwise."""
    ends = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED")
    lab.wait(f"the end of job {job}", lambda: lab.state(job) in ends, 180)
    log = log_of(folder, job)
    assert lab.state(job) == state, log
    return log


@pytest.mark.parametrize("script", ["slurm.sbatch", "slurm_direct.sbatch"])
def test_two_nodes_train_together(
    script: str, lab: Lab, project: Callable[..., Path], environment: dict[str, str]
) -> None:
    folder = project(**ANSWERS)
    job = lab.submit(f"launch/{script}", *SHORT, cwd=folder, env=environment)
    log = finish(lab, folder, job)
    assert (folder / "runs" / f"slurm-{job}").is_dir(), log

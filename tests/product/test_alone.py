"""Nobody trains alone by mistake: launchers that tell half, and tasks that know of no ranks."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from product import template
from product.programs import completed

WORLD = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}
WORLD |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
SHORT = ["run.name=run", "train.max_steps=1", "log.curve=false"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone") / "project"
    template.write(completed({"model": "mlp", "checkpoint": True}), folder)
    return folder


def start(project: Path, variables: Mapping[str, str], *overrides: str) -> subprocess.Popen[str]:
    """`python train.py`, as in a task that has these variables."""
    return subprocess.Popen(
        [sys.executable, "train.py", *SHORT, *overrides],
        cwd=project,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_tasks_of_srun_do_not_train_each_for_itself(project: Path, tmp_path: Path) -> None:
    """`srun --ntasks=4 python train.py`: SLURM's variables in four processes."""
    tasks = [
        start(
            project,
            {"SLURM_NTASKS": "4", "SLURM_NNODES": "1", "SLURM_PROCID": str(number)},
            f"run.folder={tmp_path}",
        )
        for number in range(4)
    ]
    for task in tasks:
        said = task.communicate(timeout=300)[0]
        assert task.returncode == 2, said
        assert "SLURM_NTASKS tells of 4 tasks or hosts" in said
        assert "torchrun --nproc-per-node=gpu" in said
    assert not [*tmp_path.iterdir()], "before anything else"


def test_one_rank_alone_may_be_meant(project: Path, tmp_path: Path) -> None:
    meant = ["ddp.expected_world_size=1", f"run.folder={tmp_path}"]
    task = start(project, {"SLURM_NTASKS": "4", "MASTER_PORT": "0"}, *meant)
    said = task.communicate(timeout=300)[0]
    assert task.returncode == 0, said
    assert "global batch 64 = 1 rank x 64 samples" in said


def test_data_are_prepared_in_a_task_per_node(project: Path) -> None:
    """As launch files do it, before there are ranks."""
    task = start(project, {"SLURM_NTASKS": "2"}, "--prepare-only")
    assert task.wait(300) == 0


NODES = {
    "SLURM_NNODES": "2",
    "OMPI_COMM_WORLD_SIZE": "2",
    "PMI_SIZE": "2",
    "PET_NNODES": "2",
    "SKYPILOT_NUM_NODES": "2",
    "JOB_COMPLETION_INDEX": "1",
    "PBS_NODEFILE": "nodes",
    "LSB_MCPU_HOSTS": "one 8 two 8",
    "SM_HOSTS": json.dumps(["algo-1", "algo-2"]),
}
ONE = {
    "SLURM_NTASKS": "1",
    "PET_NNODES": "1:4",  # from one to four: not known yet
    "JOB_COMPLETION_INDEX": "0",
    "PBS_NODEFILE": "absent",
    "LSB_MCPU_HOSTS": "one 8",
    "SM_HOSTS": json.dumps(["algo-1"]),
}
# Variables, and what is said of them.
CASES = [({name: value}, f"{name} tells of 2 ") for name, value in NODES.items()]
CASES += [
    ({k: v for k, v in WORLD.items() if k != name}, f"a launcher's variables {name} are not set")
    for name in WORLD
]
CASES += [
    (WORLD | {"RANK": "2"}, "RANK=2 must be below WORLD_SIZE=2"),
    (WORLD | {"RANK": "first"}, "RANK=first is no number"),
    (WORLD | {"WORLD_SIZE": "-1"}, "WORLD_SIZE=-1 is no number"),
    (WORLD | {"MASTER_PORT": "http"}, "MASTER_PORT=http is no port"),
    (WORLD | {"MASTER_PORT": "70000"}, "MASTER_PORT=70000 is no port"),
    (WORLD | {"MASTER_ADDR": "two..dots"}, "MASTER_ADDR=two..dots: "),
    (ONE | {"DEVICE": "cpu"}, "trained"),
    ({}, "of 4 visible GPUs"),
    ({"LOCAL_WORLD_SIZE": "2"}, "use 2 of 4 visible GPUs"),
    ({"LOCAL_WORLD_SIZE": "4"}, "trained"),
    ({"DEVICE": "cpu"}, "trained"),
    # Ray Train sets all five. Of Ray's plain tasks no variable tells the number.
    (
        WORLD | {"WORLD_SIZE": "1", "MASTER_PORT": "0", "DEVICE": "cpu", "RAY_JOB_ID": "1"},
        "trained",
    ),
]
# In place of train.py: each case in turn, and what came of it.
PROGRAM = """
import contextlib, io, json, os, sys
import torch
import config
import train

torch.cuda.device_count = lambda: 4
train.train = lambda *_: print("trained")
before = dict(os.environ)
for variables in json.loads(sys.argv[1]):
    os.environ.update(variables)
    device = os.environ.get("DEVICE", "auto")
    with contextlib.redirect_stdout(io.StringIO()) as said:
        try:
            train.main(["ddp.timeout_seconds=1", f"ddp.device={device}"])
        except config.ConfigError as error:
            print(error)
    print(json.dumps(said.getvalue()))
    os.environ.clear()
    os.environ.update(before)
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="pretends GPUs, and trains on the CPU")
def test_what_is_said_of_variables(project: Path) -> None:
    """Each scheduler is known, missing variables and senseless values are named, idle GPUs told."""
    (project / "nodes").write_text("one\none\ntwo\n")
    (project / "cases.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, "cases.py", json.dumps([variables for variables, _ in CASES])],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for (variables, words), said in zip(CASES, found, strict=True):
        assert words in said, f"{variables}: {said}"
        assert words != "trained" or said == "trained\n", f"{variables}: {said}"

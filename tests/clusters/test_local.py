"""launch/local.sh, run as a user would."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clusters import network
from tests.clusters.checkpoints import assert_same, last_checkpoint

ONE_STEP = ("train.max_steps=1", "train.epochs=1")


def start(folder: Path, environment: dict[str, str], *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["launch/local.sh", *ONE_STEP, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def world_of(folder: Path, run: str) -> int:
    """The number of ranks that wrote the run's checkpoint."""
    (manifest,) = (folder / "runs" / run / "checkpoints").glob("*.json")
    return int(json.loads(manifest.read_text())["world_size"])


@pytest.fixture(scope="module")
def rendered(project: Callable[..., Path]) -> Path:
    return project(gpus_per_node=2)


@pytest.fixture
def folder(rendered: Path) -> Path:
    """The project, without a run that a first try has left."""
    shutil.rmtree(rendered / "runs", ignore_errors=True)
    return rendered


def test_two_launches_at_once_both_finish(folder: Path, environment: dict[str, str]) -> None:
    launches = [start(folder, environment, f"run.name={name}") for name in ("one", "two")]
    for name, launch in zip(("one", "two"), launches, strict=True):
        output, _ = launch.communicate(timeout=300)
        assert launch.returncode == 0, output
        assert world_of(folder, name) == 2


def test_chosen_gpus_decide_the_number_of_processes(
    folder: Path, environment: dict[str, str]
) -> None:
    launch = start(folder, {**environment, "CUDA_VISIBLE_DEVICES": "1"}, "run.name=chosen")
    output, _ = launch.communicate(timeout=300)
    assert launch.returncode == 0, output
    assert world_of(folder, "chosen") == 1


def test_a_number_of_processes_wins(folder: Path, environment: dict[str, str]) -> None:
    chosen = {**environment, "CUDA_VISIBLE_DEVICES": "1", "NPROC": "4"}
    launch = start(folder, chosen, "run.name=four")
    output, _ = launch.communicate(timeout=300)
    assert launch.returncode == 0, output
    assert world_of(folder, "four") == 4


# What nvidia-smi prints of four GPUs: one computes, and one is full.
NVIDIA_SMI = """\
#!/usr/bin/env bash
case "$*" in
*--list-gpus*) printf 'GPU %s: NVIDIA H100 80GB HBM3 (UUID: GPU-%s)\\n' 0 a 1 b 2 c 3 d ;;
*--id=2,0*) printf '2, 20480, 0\\n0, 4, 0\\n' ;;
*) printf '0, 4, 0\\n1, 612, 97\\n2, 20480, 0\\n3, 4, 0\\n' ;;
esac
"""


@pytest.mark.parametrize(
    ("variables", "ranks", "busy"),
    [({}, 4, "12"), ({"NPROC": "2"}, 2, "1"), ({"CUDA_VISIBLE_DEVICES": "2,0"}, 2, "2")],
)
def test_busy_gpus_are_noted(
    variables: dict[str, str],
    ranks: int,
    busy: str,
    folder: Path,
    environment: dict[str, str],
    tmp_path: Path,
) -> None:
    """Those that ranks would use, of the visible ones. torchrun only says what it was asked for."""
    for name, text in (("nvidia-smi", NVIDIA_SMI), ("torchrun", "#!/bin/sh\necho torchrun $*\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{environment['PATH']}"
    launch = start(folder, {**environment, **variables, "PATH": path}, "run.name=busy")
    output, _ = launch.communicate(timeout=300)
    assert launch.returncode == 0, output
    assert f"--nproc-per-node={ranks} " in output
    assert re.findall(r"note: GPU (\d) is busy", output) == [*busy]


# What starts two ranks of this machine; the first in a pod of a job of two, too.
STARTS = (
    ["env", "PET_NNODES=2", "launch/local.sh"],
    [sys.executable, "train.py", "--processes=2"],
)


@pytest.mark.parametrize("command", STARTS, ids=["launch file", "Python"])
def test_ranks_meet_where_the_machine_does_not_know_its_name(
    command: list[str], folder: Path, environment: dict[str, str]
) -> None:
    """As on laptops, and in containers: torchrun would tell ranks to look for that name."""
    network.skip_without(["unshare"])
    nameless = 'hostname nowhere.example && exec "$@"'
    launch = subprocess.run(
        ["unshare", "--uts", "bash", "-c", nameless, "-", *command, *ONE_STEP, "run.name=nameless"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert launch.returncode == 0, launch.stderr
    assert world_of(folder, "nameless") == 2


def test_a_world_of_another_size_is_refused(folder: Path, environment: dict[str, str]) -> None:
    launch = start(folder, environment, "ddp.expected_world_size=4", "run.name=refused")
    output, _ = launch.communicate(timeout=300)
    assert launch.returncode != 0
    assert "expects 4 ranks, but 2 came together" in output


def test_preflight_runs_under_it(folder: Path, environment: dict[str, str]) -> None:
    program = {**environment, "PROGRAM": "-m tools.preflight"}
    launch = start(folder, program, "--json=found.json")
    output, _ = launch.communicate(timeout=300)
    assert launch.returncode == 0, output
    found = json.loads((folder / "found.json").read_text())
    assert [rank["rank"] for rank in found["ranks"]] == [0, 1]
    # A busy machine may well have a slow rank, which is noted.
    assert "FAILED" not in {check["verdict"] for check in found["checks"]}


LONG = (
    "train.global_batch_size=64",
    "train.max_steps=250",
    "train.epochs=1000",
    "checkpoint.every_steps=50",
)


def newest_rank(folder: Path) -> int:
    """The process id of a rank: the last process that was started in a project."""
    return max(
        pid
        for pid in network.processes_of(folder)
        if b"train.py\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )


@pytest.mark.disturbed("A rank is killed")
def test_crash_is_followed_by_a_start_that_ends_with_the_same_weights(
    project: Callable[..., Path], environment: dict[str, str]
) -> None:
    """In the folder of the run that crashed, which nobody has named."""
    folder = project(gpus_per_node=2)
    launch = start(folder, environment, *LONG, "run.name=undisturbed")
    assert launch.wait(300) == 0
    runs = folder / "runs"
    launch = start(folder, environment, *LONG)
    network.wait_for("a save", lambda: any(runs.glob("001/checkpoints/*.json")), 120)
    os.kill(newest_rank(folder), signal.SIGKILL)
    output, _ = launch.communicate(timeout=300)
    assert launch.returncode == 0, output
    assert ": starts again" in output
    assert "continuing from step_" in output
    assert sorted(run.name for run in runs.iterdir()) == ["001", "undisturbed"]
    assert_same(last_checkpoint(runs / "001"), last_checkpoint(runs / "undisturbed"))


@pytest.mark.disturbed("Somebody ends it")
def test_launch_that_is_ended_saves_and_says_how_to_go_on(
    project: Callable[..., Path], environment: dict[str, str]
) -> None:
    folder = project(gpus_per_node=2)
    launch = start(folder, environment, *LONG, "train.max_steps=0")
    network.wait_for("a save", lambda: any(folder.glob("runs/001/checkpoints/*.json")), 120)
    launch.send_signal(signal.SIGTERM)
    output, _ = launch.communicate(timeout=300)
    assert launch.returncode != 0
    assert "asked to stop: saved step" in output
    assert output.endswith("go on with this run: launch/local.sh run.name=001 ...\n")
    assert not network.processes_of(folder)


def test_mistake_is_not_repeated(folder: Path, environment: dict[str, str]) -> None:
    launch = start(folder, environment, "train.global_batch_size=7", "run.name=mistake")
    output, _ = launch.communicate(timeout=300)
    assert launch.returncode != 0
    prepared, said = output.split("\n", 1)
    assert prepared.startswith("the data are prepared, in ")
    assert said.startswith("error: train.global_batch_size = 7 cannot be divided evenly among 2")
    assert "starts again" not in output

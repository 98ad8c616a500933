"""launch/local.sh, run as a user would."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

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
def folder(project: Callable[..., Path]) -> Path:
    return project(gpus_per_node=2)


def test_two_launches_at_once_both_finish(folder: Path, environment: dict[str, str]) -> None:
    launches = [start(folder, environment, f"run.name={name}") for name in ("one", "two")]
    for name, launch in zip(("one", "two"), launches, strict=True):
        output, _ = launch.communicate(timeout=180)
        assert launch.returncode == 0, output
        assert world_of(folder, name) == 2


def test_chosen_gpus_decide_the_number_of_processes(
    folder: Path, environment: dict[str, str]
) -> None:
    launch = start(folder, {**environment, "CUDA_VISIBLE_DEVICES": "1"}, "run.name=chosen")
    output, _ = launch.communicate(timeout=120)
    assert launch.returncode == 0, output
    assert world_of(folder, "chosen") == 1


def test_a_number_of_processes_wins(folder: Path, environment: dict[str, str]) -> None:
    chosen = {**environment, "CUDA_VISIBLE_DEVICES": "1", "NPROC": "4"}
    launch = start(folder, chosen, "run.name=four")
    output, _ = launch.communicate(timeout=180)
    assert launch.returncode == 0, output
    assert world_of(folder, "four") == 4


def test_a_world_of_another_size_is_refused(folder: Path, environment: dict[str, str]) -> None:
    launch = start(folder, environment, "ddp.expected_world_size=4", "run.name=refused")
    output, _ = launch.communicate(timeout=120)
    assert launch.returncode != 0
    assert "expects 4 ranks, but 2 came together" in output


def test_preflight_runs_under_it(folder: Path, environment: dict[str, str]) -> None:
    program = {**environment, "PROGRAM": "-m tools.preflight"}
    launch = start(folder, program, "--json=found.json")
    output, _ = launch.communicate(timeout=120)
    assert launch.returncode == 0, output
    found = json.loads((folder / "found.json").read_text())
    assert [rank["rank"] for rank in found["ranks"]] == [0, 1]
    # A busy machine may well have a slow rank, which is noted.
    assert "FAILED" not in {check["verdict"] for check in found["checks"]}

"""Elastic launches by torchrun: what is lost is replaced or left out, and the training goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import torch
from chaos.lab import ANSWERS
from product import template
from product.combinations import combinations

STEPS = 90
SETTINGS = [
    "run.name=run",
    "model.dropout=0",  # each rank draws its own
    "train.epochs=1000",
    f"train.max_steps={STEPS}",
    "checkpoint.every_steps=5",
    "log.every_steps=1",
    "ddp.timeout_seconds=60",
]
END = 240  # seconds; a busy machine


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elastic") / "project"
    options = [*ANSWERS, "optimizer_sharding", "dynamic_graph", "activation_checkpointing"]
    answers = next(a for a in combinations(options) if ANSWERS.items() <= a.items())
    template.write(answers, folder)
    subprocess.run(
        [sys.executable, "train.py", *SETTINGS, "run.folder=whole"], cwd=folder, check=True
    )
    return folder


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def launchers(project: Path, folder: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two, as on two hosts, with a rank each; the second may be lost."""
    found = []
    elastic = ["--nnodes=1:2", "--nproc-per-node=1", "--max-restarts=3", "--rdzv-backend=c10d"]
    for is_host in ("true", "false"):
        # By default the launcher that is left waits half a minute for others to come.
        meeting = ["--rdzv-endpoint=localhost:29561", f"--rdzv-id={folder}"]
        meeting.append(f"--rdzv-conf=is_host={is_host},last_call_timeout=3")
        command = [sys.executable, "-m", "torch.distributed.run", *elastic, *meeting, "train.py"]
        with (project / f"{folder}-{is_host}.txt").open("w") as output:
            found.append(
                subprocess.Popen(
                    [*command, *SETTINGS, f"run.folder={folder}"],
                    cwd=project,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            )
    try:
        yield found
    finally:
        for launcher in found:
            with suppress(OSError):  # it has ended
                kill(launcher.pid)


def kill(launcher: int) -> None:
    """End a launcher and its ranks at once, as when a host dies."""
    ranks = children(launcher)
    for pid in (launcher, *ranks):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.thorough
@pytest.mark.parametrize("lost", ["rank", "host"])
def test_training_goes_on_without_what_is_lost(lost: str, project: Path) -> None:
    with launchers(project, lost) as (first, second):
        deadline = time.monotonic() + END
        while not list((project / lost / "run" / "checkpoints").glob("*.json")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        if lost == "rank":
            os.kill(children(second.pid)[0], signal.SIGKILL)
        else:
            kill(second.pid)
        assert first.wait(END) == 0, (project / f"{lost}-true.txt").read_text()[-3000:]
        assert second.wait(END) == (0 if lost == "rank" else -signal.SIGKILL)
    said = "".join((project / f"{lost}-{name}.txt").read_text() for name in ("true", "false"))
    assert "continuing from" in said
    check_end(project / lost / "run", project / "whole" / "run")


def check_end(run: Path, whole: Path) -> None:
    """Every step is in the history once, and the weights are those of one undisturbed process."""
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    assert [row["step"] for row in rows if "train_loss" in row] == list(range(1, STEPS + 1))
    weights, expected = (
        torch.load(path / "checkpoints" / f"step_{STEPS:08d}.pt", weights_only=True)["model"]
        for path in (run, whole)
    )
    for name, tensor in weights.items():
        # Sums in another order differ in their last bits, and Adam's division spreads them.
        torch.testing.assert_close(tensor, expected[name], rtol=1e-2, atol=1e-3)

"""While ranks wait, the run says for whom, on which host and where."""

import contextlib
import io
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch.distributed as dist

import train
from engine.state import TrainState
from engine.watch import waiting
from support import common, processes

HOST = socket.gethostname()
SETTINGS = [*common.SMALL, "run.name=run", "train.max_steps=4", "watch.patience_seconds=3"]


def train_and_hang(argv: list[str], rank: int, hang: Callable[[], None]) -> tuple[str, int]:
    """Train; one rank hangs before the third step. Returns what was said, and the threads left."""

    def disturb(state: TrainState) -> None:
        if state.step == 2 and dist.get_rank() == rank:
            hang()

    common.before_step(disturb)
    with contextlib.redirect_stderr(io.StringIO()) as said:
        train.main(argv)
    return said.getvalue(), len([t for t in threading.enumerate() if "keep_on" in t.name])


def sleep() -> None:
    """Stands for a slow disk, a lock, a debugger."""
    time.sleep(7)


def stop() -> None:
    """The process is stopped; a child lets it go on."""
    if not (child := os.fork()):
        time.sleep(7)
        os.kill(os.getppid(), signal.SIGCONT)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGSTOP)
    os.waitpid(child, 0)


@pytest.mark.parametrize("rank", [0, 2])
def test_hanging_rank_is_named_while_the_others_wait(rank: int, tmp_path: Path) -> None:
    """Long before any timeout, once, with the line; and the run goes on when the rank does."""
    argv = [f"run.folder={tmp_path}", *SETTINGS]
    answers = processes.run(3, train_and_hang, argv, rank, sleep)
    told = [[line for line in said.splitlines() if "waiting for" in line] for said, _ in answers]
    assert told[1:] == [[], []], "rank 0 alone tells"
    late, _, others = told[0][0].partition("others wait in ")  # on a busy machine more are late
    assert late.startswith("step 3  waiting for rank ")
    assert f"rank {rank} on {HOST}" in late
    assert "test_waiting" not in others
    assert not any(threads for _, threads in answers), "the thread outlives the run"


@pytest.mark.parametrize("rank", [0, 2])
def test_stopped_rank_is_named_by_its_silence(rank: int, tmp_path: Path) -> None:
    """A process that cannot tell anything is named, rank 0 by rank 1."""
    argv = [f"run.folder={tmp_path}", *SETTINGS]
    said = "".join(said for said, _ in processes.run(3, train_and_hang, argv, rank, stop))
    assert f"step 3  no sign of rank {rank} on {HOST}: stopped, killed or cut off" in said


def test_nothing_is_said_while_steps_go_on(tmp_path: Path) -> None:
    argv = [f"run.folder={tmp_path}", *SETTINGS, "watch.patience_seconds=60"]
    for said, threads in processes.run(2, train_and_hang, argv, 0, int):
        assert ("waiting for" in said, threads) == (False, 0)


Reports = dict[int, waiting.Report]
WAITS, BUSY = "update, steps.py:90: norm.item()", "read, data.py:9: file.read()"


def test_who_is_waited_for() -> None:
    """The rank that does not wait, else the rank behind, else the rank elsewhere; or none."""
    hosts = {rank: f"node{rank // 2}" for rank in range(4)}

    def named(*reports: tuple[int, str]) -> str:
        return waiting.words(dict(enumerate(waiting.Report(*r) for r in reports)), hosts)

    assert "waiting for rank 3 on node1 in read" in named(*[(5, WAITS)] * 3, (5, BUSY))
    assert "waiting for rank 0 on node0 in update" in named((4, WAITS), *[(5, WAITS)] * 3)
    elsewhere = (5, "save, x.py:1: work.wait()")
    assert "waiting for rank 1 on node0 in save" in named((5, WAITS), elsewhere, *[(5, WAITS)] * 2)
    assert "no step is done: all ranks are in update" in named(*[(5, WAITS)] * 4)
    assert "no sign of rank 2 on node1, rank 3 on node1" in named((5, WAITS), (5, BUSY))

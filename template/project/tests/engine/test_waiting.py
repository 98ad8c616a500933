"""While ranks wait, the run says for whom, on which host and where."""

import contextlib
import itertools
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch.distributed as dist

import train
from engine.state import TrainState
from engine.watch import waiting
from support import common, processes

Hung = dict[str, tuple[Path, processes.World]]
HOST = socket.gethostname()
SETTINGS = [*common.SMALL, "run.name=run", "train.max_steps=4", "watch.patience_seconds=3"]


def train_and_hang(argv: list[str], rank: int, hang: Callable[[Path], None], said: Path) -> int:
    """Train; one rank hangs before the third step until that is said. Returns the threads left.

    Each rank writes its stderr into a file of `said`.
    """

    def disturb(state: TrainState) -> None:
        if state.step == 2 and dist.get_rank() == rank:
            hang(said)

    common.before_step(disturb)
    with (said / os.environ["RANK"]).open("w") as file, contextlib.redirect_stderr(file):
        train.main(argv)
    return len([t for t in threading.enumerate() if "keep_on" in t.name])


def sleep(said: Path) -> None:
    """Stands for a slow disk, a lock, a debugger."""
    while "step 3" not in "".join(told(said)):
        time.sleep(0.1)


def stop(said: Path) -> None:
    """The process is stopped; a child lets it go on."""
    if not (child := os.fork()):
        sleep(said)
        os.kill(os.getppid(), signal.SIGCONT)
        os._exit(0)
    os.kill(os.getpid(), signal.SIGSTOP)
    os.waitpid(child, 0)


def told(said: Path) -> list[str]:
    """What each rank has said so far, those with a file."""
    return [path.read_text() for path in sorted(said.iterdir())]


@pytest.fixture(scope="module")
def hung(tmp_path_factory: pytest.TempPathFactory) -> Hung:
    """For each way to hang, and each rank: what the ranks say, and their world.

    All of them at once: most of the time they wait.
    """
    found = {}
    for rank, hang in itertools.product([0, 2], [sleep, stop]):
        said, run = tmp_path_factory.mktemp("said"), tmp_path_factory.mktemp("run")
        call = ([f"run.folder={run}", *SETTINGS], rank, hang, said)
        found[f"{hang.__name__} {rank}"] = (said, processes.World(3, train_and_hang, *call))
    return found


@pytest.mark.parametrize("rank", [0, 2])
def test_hanging_rank_is_named_while_the_others_wait(rank: int, hung: Hung) -> None:
    """Long before any timeout, once, with the line; and the run goes on when the rank does."""
    said, world = hung[f"sleep {rank}"]
    assert world.end() == [0, 0, 0], "the run does not go on: " + "\n".join(told(said))
    lines = [[line for line in words.splitlines() if "waiting for" in line] for words in told(said)]
    assert lines[1:] == [[], []], "rank 0 alone tells"
    (line,) = [line for line in lines[0] if line.startswith("step 3  ")]
    late, _, others = line.partition("others wait in ")  # on a busy machine more are late
    assert late.startswith("step 3  waiting for rank ")
    assert f"rank {rank} on {HOST}" in late
    assert "test_waiting" not in others
    threads = [world.answer(rank)["value"] for rank in range(3)]
    assert threads == [0, 0, 0], "the thread outlives the run"


@pytest.mark.parametrize("rank", [0, 2])
def test_stopped_rank_is_named_by_its_silence(rank: int, hung: Hung) -> None:
    """A process that cannot tell anything is named, rank 0 by rank 1."""
    said, world = hung[f"stop {rank}"]
    assert world.end() == [0, 0, 0], "the run does not go on: " + "\n".join(told(said))
    words = f"step 3  no sign of rank {rank} on {HOST}: stopped, killed or cut off"
    assert words in "".join(told(said))


def test_nothing_is_said_while_steps_go_on(tmp_path: Path) -> None:
    argv = [f"run.folder={tmp_path}", *SETTINGS, "watch.patience_seconds=60"]
    assert processes.run(2, train_and_hang, argv, 0, str, tmp_path) == [0, 0]
    assert [*map(Path.read_text, (tmp_path / "0", tmp_path / "1"))] == ["", ""]


def test_nobody_is_asked_while_steps_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is on one host, which all ranks would ask again and again."""
    monkeypatch.setattr(waiting.Look, "store", store := Mock())
    mark, over = waiting.Mark(4, time.monotonic()), threading.Event()
    threading.Timer(0.5, over.set).start()
    waiting.Look(mark, 1, 2, 3.0).keep_on(over)
    assert not store.called, "each rank asks, though no rank is waited for"


WAITS, BUSY = "update, steps.py:90: norm.item()", "read, data.py:9: file.read()"


def test_who_is_waited_for() -> None:
    """The rank behind, else the rank that does not wait, else the rank elsewhere; or none."""
    hosts = {rank: f"node{rank // 2}" for rank in range(4)}

    def named(*reports: tuple[int, str]) -> str:
        return waiting.words(dict(enumerate(waiting.Report(*r) for r in reports)), hosts)

    assert "waiting for rank 3 on node1 in read" in named(*[(5, WAITS)] * 3, (5, BUSY))
    assert "waiting for rank 0 on node0 in update" in named((4, WAITS), *[(5, WAITS)] * 3)
    # A GPU that was given too much to do, in any line, holds its host up.
    assert "waiting for rank 0 on node0 in update" in named((4, WAITS), *[(5, BUSY)] * 3)
    for waits in ("compare, speed.py:9: event.synchronize()", "_ask, x.py:1: wait([asked], 600)"):
        said = named(*[(5, BUSY)] * 2, *[(5, waits)] * 2)
        assert said.startswith("waiting for rank 0 on node0, rank 1 on node0 in read"), said
    elsewhere = (5, "save, x.py:1: work.wait()")
    assert "waiting for rank 1 on node0 in save" in named((5, WAITS), elsewhere, *[(5, WAITS)] * 2)
    assert "no step is done: all ranks are in update" in named(*[(5, WAITS)] * 4)
    assert "no sign of rank 2 on node1, rank 3 on node1" in named((5, WAITS), (5, BUSY))


def look_at_an_old_report() -> tuple[bool, str]:
    """Rank 0 told of a slow step, four steps ago, and was stopped before it took that back."""
    looks = [waiting.Look(waiting.Mark(4, 0.0), rank, 2, 3.0) for rank in range(2)]
    reports = [waiting.Report(0, BUSY), waiting.Report(4, WAITS)]
    for look, report in zip(looks, reports, strict=True):
        look.store().set(look.key(look.rank, "host"), "node1")
        look.store().set(look.key(look.rank), json.dumps(report))
    found = looks[1].may_tell(4.0), looks[1].tell(4.0)
    looks[1].mark.step = 3
    assert looks[1].report(looks[1].store(), 0), "a GPU's host is three steps ahead of its rank"
    os.environ["TORCHELASTIC_RESTART_COUNT"] = "1"
    assert not looks[1].report(looks[1].store(), 0), "the launcher has ended that start"
    return found


def test_old_report_is_no_sign_of_life() -> None:
    ((tells, said),) = processes.run(1, look_at_an_old_report)
    assert tells, "rank 1 leaves the telling to rank 0, which is stopped"
    assert said.startswith("step 5  no sign of rank 0 on node1: stopped, killed or cut off")

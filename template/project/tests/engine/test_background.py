"""A file has the state of its step, and no end comes before the file."""

import contextlib
import io
import os
import signal
import threading
from collections.abc import Callable
from concurrent import futures
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch.testing import assert_close

import config
from engine import background, checkpoint, distributed, report
from engine.state import TrainState
from support import common, processes, reference

STEPS = 7  # saves after steps 2, 3, 4, 6 and 7
SETTINGS = [*common.SMALL, "run.name=run", f"train.max_steps={STEPS}", "checkpoint.every_steps=2"]


def content(run: Path, step: int) -> dict[str, Any]:
    """What a good checkpoint holds, but for the config, which names the folder."""
    path = checkpoint.path_of(run, step)
    assert checkpoint.problem(path) == ""
    found: dict[str, Any] = torch.load(path, weights_only=True)
    return {name: value for name, value in found.items() if name != "config"}


def hold_writes(go: threading.Event) -> None:
    """Have each write of this process begin when it may; after 20 seconds without a sign, too."""
    replace_save(lambda _: go.wait(20))


def replace_save(before: Callable[[Any], object]) -> None:
    """Have a function called before each file is written, with the file."""
    save = torch.save

    def save_after(content: Any, file: Any) -> None:
        if not isinstance(file, io.BytesIO):  # ZeRO-1 packs its messages with it
            before(file)
        save(content, file)

    common.replace(torch, "save", save_after)


def save_and_train_on(folder: Path) -> None:
    """On each rank: a step, a save, and again a save, of which nothing is written for now."""
    (run := folder / "run").mkdir(exist_ok=True)
    cfg = common.settings(folder)
    with reference.training(cfg) as training:
        state, process = training.state, training.process
        batches = training.step_batches(3)
        training.step(next(batches))
        if process.is_main:
            (run / checkpoint.OWNER).write_text(checkpoint.ME)
        checkpoint.save(run, state, cfg, process)
        background.writer.finish(process)
        if process.is_main:
            expected = content(run, 1)
            checkpoint.path_of(run, 1).unlink()
        hold_writes(go := threading.Event())
        checkpoint.save(run, state, cfg, process)  # of the same step: nobody waits for the file
        training.step(next(batches))
        background.writer.check(process)
        assert not checkpoint.path_of(run, 1).exists()
        threading.Timer(0.2, go.set).start()
        checkpoint.save(run, state, cfg, process)  # waits for the one before
        saved = state.step
        if process.is_main:
            assert_close(content(run, 1), expected, rtol=0, atol=0)
        training.step(next(batches))
        background.writer.finish(process)
        if process.is_main:
            assert content(run, saved)["step"] == saved


def test_file_has_the_state_of_its_step(tmp_path: Path) -> None:
    """Training changes weights and moments while the file is written; one file at a time."""
    processes.run(2, save_and_train_on, tmp_path)


def test_copy_is_in_its_own_memory() -> None:
    """Tensors that share memory share it in the copy, and all copies are in the same memory."""
    table, memory = torch.arange(6.0), background.Memory()
    state = {"a": table, "groups": [{"b": table[2:4], "step": torch.tensor(1)}], "name": "first"}
    state["turned"] = table.view(2, 3).t()
    first = memory.copied(state)
    table.zero_()
    assert first["turned"].tolist() == [[0, 3], [1, 4], [2, 5]], "other strides than the original"
    assert first["name"] == "first"
    assert first["a"].tolist() == [0, 1, 2, 3, 4, 5]
    first["groups"][0]["b"].fill_(9)
    assert first["a"].tolist() == [0, 1, 9, 9, 4, 5]
    second = memory.copied(state)
    assert second["a"].data_ptr() == first["a"].data_ptr()
    assert first["a"].tolist() == [0] * 6


def test_copy_from_a_gpu_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such copies arrive later: the host waits behind the last one."""
    memory, copied = background.Memory(), list[int]()
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    wait = Mock(side_effect=lambda *_: copied.append(len(memory.buffers)))
    monkeypatch.setattr(torch.cuda, "synchronize", wait)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: Mock(synchronize=wait))
    memory.copied({"a": torch.ones(2), "b": [torch.ones(3)]})
    assert copied[-1:] == [2], "written before the copies have arrived from the GPU"


def test_copy_is_waited_for_on_the_rank_s_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread begins with the first GPU; a world of one may be on any other."""
    chosen = list[torch.device]()
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    process = distributed.Process(0, 3, 1, torch.device("cuda", 3))
    (writer := background.Writer()).start(process, {}, lambda _: None)
    writer.settle()
    assert chosen == [process.device]


def train_with_late_writes(argv: list[str], stop_at: int = 0) -> None:
    """Train; each file is begun when somebody waits for it. Rank 1 is told to stop at a step."""

    def stop(state: TrainState) -> None:
        if state.step == stop_at and os.environ["RANK"] == "1":
            signal.raise_signal(signal.SIGTERM)

    def settle_late(writer: background.Writer) -> None:
        go.set()
        settle(writer)
        go.clear()

    settle = background.Writer.settle
    hold_writes(go := threading.Event())
    common.replace(background.Writer, "settle", settle_late)
    if stop_at:
        common.before_step(stop)
    common.train_short_epochs(argv)


def train_and_wait(argv: list[str]) -> None:
    """Train with saves that are waited for."""
    save = checkpoint.save

    def save_and_wait(*rest: Any) -> None:
        save(*rest)
        background.writer.wait(rest[-1])

    common.replace(checkpoint, "save", save_and_wait)
    common.train_short_epochs(argv)


def train_and_die(argv: list[str]) -> None:
    """Train; the process of rank 0 is killed when half of its third file is written."""
    left = [1, 2, 3]

    def die(file: Any) -> None:
        if left.pop() == 1:
            file.write(b"half")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    replace_save(die)
    common.train_short_epochs(argv)


@pytest.fixture(scope="module")
def blocking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that waited for each of its files."""
    folder = tmp_path_factory.mktemp("blocking")
    processes.run(2, train_and_wait, [f"run.folder={folder}", *SETTINGS])
    return folder


def assert_same(folder: Path, blocking: Path) -> None:
    found, expected = content(folder / "run", STEPS), content(blocking / "run", STEPS)
    assert_close(found, expected, rtol=0, atol=0)
    assert common.history(folder / "run") == common.history(blocking / "run")


def test_run_ends_after_its_last_write(tmp_path: Path, blocking: Path) -> None:
    """A run that is told to stop, and one at its end; both end as one that waited for each file."""
    argv = [f"run.folder={tmp_path}", *SETTINGS]
    assert processes.World(2, train_with_late_writes, argv, 2).end() == [75, 75]
    newest = checkpoint.found(tmp_path / "run" / checkpoint.FOLDER)[-1]
    stopped = f"stopped after step {int(newest.stem[5:])}\n"
    assert (tmp_path / "run" / "REQUEUE").read_text() == stopped
    assert checkpoint.problem(newest) == ""
    assert processes.World(2, train_with_late_writes, argv).end() == [0, 0]
    assert_same(tmp_path, blocking)


def test_kill_in_a_write_leaves_the_file_before(tmp_path: Path, blocking: Path) -> None:
    """The half-written file does not count, and the run goes on from the one before."""
    argv = [f"run.folder={tmp_path}", *SETTINGS]
    codes = processes.World(2, train_and_die, argv).end(first_failure=True)
    assert codes[0] == -signal.SIGKILL
    assert Path(checkpoint.newest_good(tmp_path / "run")).stem == "step_00000003"
    assert processes.World(2, common.train_short_epochs, argv).end() == [0, 0]
    assert_same(tmp_path, blocking)


def train_on_a_full_disk(argv: list[str]) -> None:
    """Train; after steps 2, 4 and 6 nothing can be written. Steps wait for the write before."""

    def fill(state: TrainState) -> None:
        if background.writer.helper:
            futures.wait([background.writer.work])
        if state.step in (1, 3, 5) and os.environ["RANK"] == "0":
            begun = checkpoint.path_of(folder / "run", state.step + 1).with_suffix(".pt.partial")
            begun.parent.mkdir(exist_ok=True)
            begun.symlink_to("/dev/full")

    folder = Path(argv[0].partition("=")[2])
    common.before_step(fill)
    with (folder / os.environ["RANK"]).open("w") as said, contextlib.redirect_stdout(said):
        common.train_short_epochs(argv)


def test_failed_write_is_told_and_a_second_ends_the_run(tmp_path: Path) -> None:
    """All ranks end at the next log point; a good file between two that failed is enough."""
    world = processes.World(2, train_on_a_full_disk, [f"run.folder={tmp_path}", *SETTINGS])
    assert world.end() == [1, 1], "after step 7 nothing failed"
    assert all("No space left" in world.answer(rank)["error"] for rank in range(2))
    words = [line.split("/")[0] for line in (tmp_path / "0").read_text().splitlines()]
    steps = [word for word in words if word in ("step 2", "step 3", "step 4", "step 5", "step 6")]
    assert steps == ["step 2", "step 3", "step 4", "step 5", "step 6"]
    told = [words[n + 1] for n, word in enumerate(words) if word.startswith("warning: no checkp")]
    assert told == ["step 3", "step 5"]
    assert Path(checkpoint.newest_good(tmp_path / "run")).stem == "step_00000003"


def fail(error: Exception, _: object) -> None:
    raise error


def fail_to_write(folder: Path) -> list[str]:
    """What is raised after writes that failed: for the disk, for another reason, and the last."""
    raised = []
    reasons = [(OSError("disk"), False), (config.ConfigError("owner"), False), (OSError(), True)]
    with reference.training(common.settings(folder)) as training:
        for error, last in reasons:
            writer = background.Writer()
            writer.start(training.process, {}, partial(fail, error))
            try:
                (writer.finish if last else writer.wait)(training.process)
                raised.append("nothing")
            except (config.ConfigError, RuntimeError) as found:
                raised.append(str(found))
    return raised


def test_failure_that_no_later_save_makes_up_for_ends_the_run(tmp_path: Path) -> None:
    """Of the disk one is told; of the last file none, and none that is not of the disk."""
    disk, run, last = processes.run(1, fail_to_write, tmp_path)[0]
    assert disk == "nothing", "the next save would have been in time"
    assert run != "nothing", "a run that another start has taken over would go on"
    assert last != "nothing", "the run ends as if its last checkpoint were there"


def test_history_gets_its_rows_when_the_disk_is_full_no_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each row once and whole, in its order; the run is told, and goes on."""
    main = distributed.Process(0, 0, 1, torch.device("cpu"))
    reporter = report.Reporter(common.settings(tmp_path), main, tmp_path, total_steps=9)
    history = tmp_path / report.HISTORY
    reporter.write(1, {"a": 1})
    history.rename(tmp_path / "before")
    history.symlink_to("/dev/full")
    reporter.write(2, {"a": 2})
    reporter.write(3, {"a": 3})
    assert "No space left" in capsys.readouterr().out, "nobody was told of the rows"
    (tmp_path / "before").replace(history)
    reporter.write(4, {"a": 4})
    assert [row["step"] for row in common.history(tmp_path)] == [1, 2, 3, 4]


def test_best_before_stays_where_the_best_was_not_written(tmp_path: Path) -> None:
    """The second step was the best, and the disk was full; the numbers get a digit more."""
    first = 10**8 - 1
    for step, best in ((first, first), *((first + n, first + 1) for n in (2, 3, 4))):
        values = {"model": {}, "step": step, "best_step": best, "config": {}}
        checkpoint.write(path := checkpoint.path_of(tmp_path, step), values, world_size=2)
        checkpoint.rotate(path, keep=1, best_step=best)
    assert [int(path.stem[5:]) for path in checkpoint.found(path.parent)] == [first, first + 4]
    assert checkpoint.best_of(path.parent, first + 1) == checkpoint.path_of(tmp_path, first)

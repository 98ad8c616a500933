"""A file in the run's folder saves or ends the run, on all ranks alike."""

import contextlib
import io
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

import train
from engine import checkpoint, distributed, report
from engine.state import TrainState
from engine.watch import files
from support import common, processes

SETTINGS = [*common.SMALL, "run.name=run", "train.max_steps=6", "log.every_steps=2"]
SETTINGS += ["checkpoint.every_steps=0"]


def train_and_wish(argv: list[str], run: Path, names: list[str]) -> tuple[int, str]:
    """Train; after two steps somebody makes files. Returns the steps done, and what is said.

    A name that begins with SIG is a signal to this rank, which all know of after the same steps.
    Each file of a checkpoint is begun late, and the files of wishes must be there until then.
    """
    save = torch.save

    def save_late(content: Any, file: Any) -> None:
        if isinstance(content, dict) and content.get("step") == 4:
            time.sleep(0.3)
            there = all((run / name).exists() for name in {*names} & {"SAVE", "STOP"})
            print("a wish waits for its save" if there else "a wish has gone before its save")
        save(content, file)

    common.replace(torch, "save", save_late)
    if rank := int(os.environ["RANK"]):
        words = f"a file system may show a file to rank {rank} later"
        common.replace(files.Files, "look", lambda _: pytest.fail(words))
    signals = [signal.Signals[name] for name in names if name.startswith("SIG")]

    def wish(state: TrainState) -> None:
        if state.step == 1 and dist.get_rank() == 1:
            for number in signals:
                os.kill(os.getpid(), number)
        if state.step == 2 and dist.get_rank() == 1:
            for name in {*names} - {number.name for number in signals}:
                (run / name).touch()

    common.before_step(wish)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        train.main(argv)
    path = checkpoint.found(run / checkpoint.FOLDER)[-1]
    return int(path.stem.removeprefix("step_")), said.getvalue()


@pytest.mark.parametrize("names", [["STOP"], ["SAVE", "STOP"], ["SAVE"]])
def test_file_saves_or_ends_the_run(names: list[str], tmp_path: Path) -> None:
    """At the next log point all ranks save, or save and end well; the file is gone."""
    run, argv = tmp_path / "run", [f"run.folder={tmp_path}", *SETTINGS]
    answers = processes.run(3, train_and_wish, argv, run, names)
    end = 4 if "STOP" in names else 6
    assert [steps for steps, _ in answers] == [end] * 3
    saved = [path.name for path in checkpoint.found(run / checkpoint.FOLDER)]
    assert saved == [f"step_{step:08d}.pt" for step in sorted({4, end})]
    told = "STOP: the run saves and ends" if end == 4 else "SAVE: the run saves"
    assert f"step 4  found {told}\n" in answers[0][1]
    assert [said for _, said in answers[1:]] == ["", ""], "rank 0 alone speaks"
    assert "a wish waits for its save" in answers[0][1], "its end is the answer"
    assert not any((run / name).exists() for name in names)
    (run / "SAVE").touch()  # as from before the start
    steps, said = processes.run(1, train_and_wish, [*argv, "log.every_steps=4"], run, [])[0]
    assert (steps, "found" in said) == (6, end == 4), "the last step hears it, too"


def test_wish_that_is_made_anew_is_another_one(tmp_path: Path) -> None:
    """While the save for the first wish is written somebody makes the file again."""
    process = distributed.Process(0, 0, 1, torch.device("cpu"))
    wishes = files.Files(report.Reporter(common.settings(tmp_path), process, tmp_path, 9))
    (tmp_path / "SAVE").touch()
    assert wishes.look() == 1
    heard = dict(wishes.heard)
    os.utime(tmp_path / "SAVE", (1, 1))
    wishes.answer(heard)
    assert wishes.look() == 1, "the second wish has gone with the first one"


@pytest.mark.parametrize("names", [["STOP"], ["STOP", "SIGUSR1"]])
def test_stopped_run_is_not_started_again(names: list[str], tmp_path: Path) -> None:
    """No marker and no error, though a scheduler asks, too: launch files take the end well."""
    argv = [f"run.folder={tmp_path}", *SETTINGS]
    world = processes.World(2, train_and_wish, argv, tmp_path / "run", names)
    assert world.end() == [0, 0]
    assert world.answer(0)["value"][0] == 4
    assert not (tmp_path / "run" / checkpoint.REQUEUE).exists()

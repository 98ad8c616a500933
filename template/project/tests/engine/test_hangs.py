"""Ranks that wait in vain say for whom, and where (catalogue: D8, S7)."""

import os
import signal
from pathlib import Path
from typing import Any

import torch.distributed as dist

import steps
import train
from engine import hangs, state
from support import common, ranks


def train_and_stop(argv: list[str]) -> str:
    """Train; rank 1 is stopped before the third step. Returns the others' explanation."""
    train_step = steps.train_step

    def stopping(now: state.TrainState, *rest: Any) -> None:
        if now.step == 2 and dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        train_step(now, *rest)

    common.replace(steps, "train_step", stopping)
    try:
        train.main(argv)
    except RuntimeError as error:
        return hangs.explain(error, seconds=3)
    return "nothing happened"


def test_stopped_rank_is_named(tmp_path: Path) -> None:
    """D8 S7: the collective times out, and one rank says who is missing and what it waited for."""
    argv = [f"run.folder={tmp_path}", "run.name=run", *common.SMALL, "ddp.timeout_seconds=3"]
    world = ranks.World(3, train_and_stop, argv)
    for rank in (0, 2):
        world.processes[rank].join(100)
    world.kill()
    told = [world.answer(rank)["value"] for rank in (0, 2)]
    (explanation,) = filter(None, told)
    assert explanation.startswith("no sign of rank 1: ")
    assert "steps.py" in explanation or "loading.py" in explanation

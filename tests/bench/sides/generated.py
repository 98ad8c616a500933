"""(a) The generated project: its own main(), with a clock around a few of its functions.

As variant "fixed" it trains on one batch all the time, so that nothing has to be loaded.
"""

from typing import Any

import checkpoint
import config
import data
import distributed
import report
import steps
import train

from bench.cases import received
from bench.clock import Clock
from bench.sides.project import sized

task = received()
clock = Clock(task)
one_step, fit, evaluate, save = steps.train_step, train.fit, steps.evaluate, checkpoint.save
open_splits = data.open_splits


def timed_step(*arguments: Any) -> None:
    one_step(*arguments)
    clock.step()


def timed_fit(*arguments: Any) -> None:
    clock.ready()
    fit(*arguments)


def timed_evaluate(*arguments: Any) -> Any:
    return clock.repeat("evaluation", lambda: evaluate(*arguments))


def timed_save(folder: Any, now: Any, cfg: config.Config, ranks: distributed.Ranks) -> None:
    clock.repeat("save", lambda: save(folder, now, cfg, ranks))
    clock.repeat("load", lambda: checkpoint.resume(folder, now, cfg, ranks))


def main() -> None:
    """Train as one rank, as under torchrun."""
    steps.train_step, train.fit = timed_step, timed_fit
    steps.evaluate, checkpoint.save = timed_evaluate, timed_save
    data.open_splits = lambda cfg: sized(open_splits(cfg), task)
    report.draw = lambda _: None  # after the training, and not part of it
    train.main([*task.overrides, f"run.folder={task.folder}", "run.name=bench"])
    clock.close()


if __name__ == "__main__":
    distributed.run(main)

"""(a) The generated project: its own main(), with a clock around a few of its functions.

Its variants train on one batch all the time, so that nothing has to be loaded ("fixed"), or without
what the plain loop does not do: targets counted over all ranks, averages over all ranks at log
points, seeds that follow from the step.
"""

from types import SimpleNamespace
from typing import Any

import config
import data
import steps
import train
from engine import checkpoint, distributed, loading, report
from engine.state import TrainState
from torch import Tensor

from bench.cases import received
from bench.clock import Clock
from bench.sides.project import RANKS, sized

task = received()
clock = Clock(task)
one_step, fit, evaluate, save = steps.train_step, train.fit, steps.evaluate, checkpoint.save
open_splits = data.open_splits
PARTS = {"uncounted", "unlogged", "unseeded"}
called: set[str] = set()


def timed_step(*arguments: Any) -> None:
    one_step(*arguments)
    clock.step()


def timed_fit(*arguments: Any) -> None:
    clock.ready()
    fit(*arguments)


def timed_evaluate(*arguments: Any) -> Any:
    return clock.repeat("evaluation", lambda: evaluate(*arguments))


def timed_save(folder: Any, state: Any, cfg: config.Config, process: distributed.Process) -> None:
    clock.repeat("save", lambda: save(folder, state, cfg, process))
    clock.repeat("load", lambda: checkpoint.resume(folder, state, cfg, process))


class Done:
    """Work that there was none of."""

    def wait(self) -> None:
        """Nothing to wait for."""


def times_ranks(sums: Tensor, **_: bool) -> Done:
    """As if all ranks had the same."""
    called.add("uncounted")
    sums *= RANKS
    return Done()


def forget(_: report.Reporter, state: TrainState) -> None:
    """The valid targets since the last log point, as a report does."""
    called.add("unlogged")
    state.target_count.zero_()


def seed_nothing(*_: int | str) -> None:
    """Generators go on from where they are."""
    called.add("unseeded")


def leave_out(parts: set[str]) -> None:
    """Replace parts of the project by as little as still trains."""
    if "uncounted" in parts:
        loading.dist = SimpleNamespace(all_reduce=times_ranks, Work=Done)
    if "unlogged" in parts:
        report.Reporter.train = forget
    if "unseeded" in parts:
        loading.seed_all = seed_nothing


def main() -> None:
    """Train as one rank, as under torchrun."""
    parts = PARTS if task.variant == "bare" else PARTS & {task.variant}
    leave_out(parts)
    steps.train_step, train.fit = timed_step, timed_fit
    steps.evaluate, checkpoint.save = timed_evaluate, timed_save
    data.open_splits = lambda cfg: sized(open_splits(cfg), task)
    report.draw = lambda _: None  # after the training, and not part of it
    report.Reporter.evaluating = lambda _, __, batches: batches  # a generator, which is read once
    train.main([*task.overrides, f"run.folder={task.folder}", "run.name=bench"])
    assert called == parts, f"the project no longer calls what {parts - called} replaces"
    clock.close()


if __name__ == "__main__":
    distributed.run(main)

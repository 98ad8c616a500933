"""One rank of the pool (product/pool.py): a process that runs one program after the other.

A program finds what torchrun would have given it, but for one thing. The process group is set up
once, and lent: in place of `init_process_group` and `destroy_process_group` there are functions
that check what they are asked for, hand the resident group out, and take it back. So a program's
own calls are made and checked, but no group is set up and torn down, and no process ends: what goes
wrong there is seen only where ranks are forked (product/forkserver.py) or started by torchrun.

Neither are pictures drawn here, which takes longer than the training: `Figure.savefig` leaves an
empty file. They are drawn where ranks are forked.
"""

import dataclasses
import faulthandler
import gc
import importlib
import inspect
import os
import sys
import time
import traceback
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from product import sources
from product.forkserver import emulate_precisions
from product.surroundings import Surroundings

LOST = timedelta(seconds=20)  # a rank that does not come after a program is lost


ENGINES: weakref.WeakSet[Any] = weakref.WeakSet()  # of SQLAlchemy


class Job(NamedTuple):
    """A run of a project's train.py."""

    number: int
    project: Path
    overrides: Sequence[str]
    variables: Mapping[str, str]


class Answer(NamedTuple):
    """How it went: '' where all is well, and the processor's seconds."""

    problem: str
    seconds: float


class LentGroup:
    """The process group of this rank, which programs have one after the other."""

    def __init__(self) -> None:
        self.signature = inspect.signature(dist.init_process_group)
        dist.init_process_group("gloo")
        self.group = dist.group.WORLD
        self.store = dist.group.WORLD.get_group_store()
        self.place = {name: os.environ[name] for name in ("RANK", "WORLD_SIZE", "MASTER_PORT")}
        for module in (dist, distributed_c10d):
            module.init_process_group = self.lend
            module.destroy_process_group = self.take_back
        distributed_c10d._update_default_pg(None)

    def lend(self, *arguments: Any, **options: Any) -> None:
        """In place of `init_process_group`: what this group is not, nobody can have here."""
        given = self.signature.bind(*arguments, **options).arguments
        timeout = given.pop("timeout", None) or distributed_c10d.default_pg_timeout
        self.store = given.pop("store", self.store)
        fitting = {
            "backend": ("gloo", None),
            "init_method": ("env://", None),
            "device_id": (None,),
            "rank": (-1, int(self.place["RANK"])),
            "world_size": (-1, int(self.place["WORLD_SIZE"])),
        }
        other = {k: v for k, v in given.items() if v not in fitting.get(k, (None,))}
        assert not other, f"this group cannot be had in the pool: {other}"
        assert isinstance(timeout, timedelta), f"not a timedelta: {timeout!r}"
        found = {name: os.environ.get(name) for name in self.place}
        assert found == self.place, f"the variables were {self.place}, and now are {found}"
        assert not dist.is_initialized(), "the process group is set up a second time"
        distributed_c10d._update_default_pg(self.group)
        distributed_c10d._set_pg_timeout(timeout, self.group)

    def take_back(self, group: dist.ProcessGroup | None = None) -> None:
        """In place of `destroy_process_group`."""
        assert dist.is_initialized(), "there is no process group"
        assert group in (None, self.group), "only the whole world's group is lent"
        distributed_c10d._update_default_pg(None)

    def left(self) -> list[str]:
        """What a program forgot to give back."""
        known = set(distributed_c10d._world.pg_map)
        found = ["a group of its own"] * (known != {self.group})
        return found + ["the process group, still set up"] * dist.is_initialized()

    @property
    def tasks(self) -> int:
        """Tasks of rank 0 whose results this rank has asked for, in all programs."""
        return int(self.store.add(f"tasks of rank {self.place['RANK']}", 0))

    def meet(self, number: int) -> None:
        """Do something together: raises where ranks have not ended the same program."""
        tasks = self.tasks
        self.lend("gloo", timeout=LOST)
        numbers = torch.tensor([number, -number, tasks, -tasks])
        dist.all_reduce(numbers, dist.ReduceOp.MAX)
        self.take_back()
        most, least, more, fewer = numbers.tolist()
        assert most == -least == number, "a rank left a collective half done"
        assert more == -fewer, "a rank left a task of rank 0 half done"


def serve(variables: Mapping[str, str], jobs: Connection) -> None:
    """Run what comes, until nothing comes any more."""
    os.environ.update(variables)
    faulthandler.enable()  # SIGABRT prints where a rank hangs
    emulate_precisions()
    importlib.import_module("matplotlib.figure").Figure.savefig = _leave_empty
    vars(dataclasses)["exec"] = sources.execute
    group = LentGroup()
    gc.collect()
    gc.freeze()  # what was imported here is no garbage: later collections pass over it
    around = Surroundings()
    jobs.send(Answer("", 0.0))  # it is there
    while True:
        try:
            job: Job = jobs.recv()
        except EOFError:
            os._exit(0)  # the tests are over
        begin = time.process_time()
        problem = _run(job, group, around)
        jobs.send(Answer(problem, time.process_time() - begin))


def _leave_empty(_figure: object, file: Path, **_options: object) -> None:
    Path(file).touch()


def _run(job: Job, group: LentGroup, around: Surroundings) -> str:
    """Run a program; returns '' or what went wrong."""
    with _output_in(job.project / "output.txt"):
        try:
            os.environ.update(job.variables)
            os.chdir(job.project)
            sys.argv = ["train.py", *job.overrides]
            with sources.modules_of(job.project):
                importlib.import_module("train").main(list(job.overrides))
            gc.collect()
            _close_libraries()
            gc.freeze()  # what libraries keep from now on
            around.restore()
            left = [*around.left(), *group.left()]
            assert not left, f"the program left behind: {', '.join(left)}"
            group.meet(job.number)
        except BaseException:
            return traceback.format_exc()
        return ""


def _close_libraries() -> None:
    """End what trackers keep until their process ends: W&B its service, MLflow its database."""
    if wandb := sys.modules.get("wandb"):
        wandb.teardown()
    if sqlalchemy := sys.modules.get("sqlalchemy"):
        found = gc.get_objects()  # what came after gc.freeze()
        ENGINES.update(e for e in found if issubclass(type(e), sqlalchemy.engine.Engine))
        for engine in ENGINES:  # a run that is resumed has the engine of the run before
            engine.dispose()


@contextmanager
def _output_in(log: Path) -> Iterator[None]:
    """What this process says goes there."""
    usual = [os.dup(1), os.dup(2)]
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, before in enumerate(usual, 1):
            os.dup2(before, number)
            os.close(before)

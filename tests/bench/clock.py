"""The part of a rank in the measurement: it reports times, and waits before each until told to go.

All sides of a case are alive at once, and all but one of them wait: so the blocks of steps that
are compared lie side by side in time, and whatever else the machine does hits all sides alike.
"""

import json
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from bench.cases import Task

# How Python code learns a tensor's value. On a GPU each waits until all work before it is done.
READS = {"item", "tolist", "cpu", "numpy", "nonzero"} | {
    f"__{kind}__" for kind in ("bool", "float", "int", "index", "repr", "format", "array")
}
# What these files read never was on the GPU: tokens are checked and targets counted before.
COMPUTING = {Path.cwd() / f"{name}.py" for name in ("train", "steps", "model", "optim")}
OF_THE_HOST = {str(path) for path in {*Path.cwd().glob("*.py")} - COMPUTING} | {
    str(Path.cwd() / "engine" / "loading.py")
}


class Reads(TorchFunctionMode):
    """Counts the reads of tensors while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(
        self, function: Any, _: object, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if getattr(function, "__name__", "") in READS:
            self.count += sys._getframe(1).f_code.co_filename not in OF_THE_HOST
        return function(*args, **(kwargs or {}))


class Waits:
    """Counts what CUDA itself calls a synchronisation, those inside operators included."""

    def __enter__(self) -> None:
        self.caught = warnings.catch_warnings(record=True)
        self.log = self.caught.__enter__()
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")

    def __exit__(self, *_: object) -> None:
        torch.cuda.set_sync_debug_mode("default")
        self.caught.__exit__(None, None, None)

    @property
    def count(self) -> int:
        """Since the beginning."""
        return sum("synchronizing CUDA" in str(entry.message) for entry in self.log)


class Clock:
    """Times of one rank."""

    def __init__(self, task: Task) -> None:
        self.task, self.steps, self.began, self.used = task, 0, 0.0, 0.0
        self.cuda = torch.cuda.is_available()
        self.counter: Reads | Waits = Waits() if self.cuda else Reads()
        self.counted: list[int] = []
        self.last_timed = task.warmup + task.block * task.blocks

    def tell(self, name: str, value: float = 0) -> None:
        """One line for the driver."""
        os.write(self.task.report, (json.dumps([name, value]) + "\n").encode())

    def ready(self) -> None:
        """Everything is set up: the next thing is the first step."""
        self.tell("start-up", time.monotonic() - self.task.began)

    def step(self) -> None:
        """An optimizer step was done; what is logged about it comes after this call."""
        self.steps += 1
        done = self.steps - self.task.warmup
        if self.steps == 1:
            self._settle()
            self.tell("first step", time.monotonic() - self.task.began)
        if 0 <= done <= self.task.block * self.task.blocks and done % self.task.block == 0:
            if done:
                self.end("block")
            if self.steps < self.last_timed:
                self.begin()
            else:
                self.counter.__enter__()
        elif self.steps > self.last_timed:
            self._count()

    def _count(self) -> None:
        """Between two steps; the last ends it. Of a log interval, all but the log point count."""
        self.counted.append(self.counter.count)
        if self.steps == self.task.steps:
            self.counter.__exit__(None, None, None)
            each = [b - a for a, b in zip([0, *self.counted], self.counted, strict=False)]
            self.tell("reads", (sum(each) - max(each)) / (len(each) - 1))

    def begin(self) -> None:
        """Wait for the driver's word, then start the clock."""
        self._settle()
        self.tell("waiting")
        if not os.read(0, 1):
            os._exit(1)  # the driver has gone
        self.began, self.used = time.perf_counter(), time.process_time()

    def end(self, name: str) -> None:
        """Report the time since `begin`."""
        self._settle()
        self.tell(name, time.perf_counter() - self.began)
        if name == "block":  # of this process alone: what else the machine does hardly shows
            self.tell("processor", time.process_time() - self.used)

    def repeat(self, name: str, action: Callable[[], Any]) -> Any:
        """Time something as often as the task says; returns its last result."""
        result = None
        for _ in range(self.task.repeats):
            self.begin()
            result = action()
            self.end(name)
        return result

    def close(self) -> None:
        """Report the memory, as the last thing."""
        gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        if self.cuda:
            gib = torch.cuda.max_memory_allocated() / 2**30
        self.tell("memory", gib)
        self.tell("end")

    def _settle(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

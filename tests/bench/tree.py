"""Runs the sides of a case, each as a process tree of its own, one block of steps at a time."""

import dataclasses
import json
import os
import random
import select
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from bench.cases import VARIANTS, Case, Task

TESTS = Path(__file__).resolve().parents[1]
SECONDS = 600  # the longest wait for one report: a large model is compiled in it
Times = dict[str, list[float]]


class SideError(Exception):
    """A side ended early."""


class Tree:
    """The ranks of one side."""

    def __init__(self, side: str, case: Case, project: Path, ranks: int, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folder, self.times = folder, defaultdict[str, list[float]](list)
        self.processes: list[subprocess.Popen[bytes]] = []
        self.reports: list[int] = []
        self.rest = b""
        module = VARIANTS.get(side, side)
        task = task_of(side, case, ranks, folder)
        common = self.environment(ranks)
        for rank in range(ranks):
            reading, writing = os.pipe()
            told = dataclasses.replace(task, report=writing)
            with (folder / f"rank{rank}.txt").open("wb") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", f"bench.sides.{module}"],
                    cwd=project,
                    env={
                        **common,
                        **told.environment(),
                        "RANK": str(rank),
                        "LOCAL_RANK": str(rank),
                    },
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=[writing],
                )
            os.close(writing)
            self.processes.append(process)
            self.reports.append(reading)

    def environment(self, ranks: int) -> dict[str, str]:
        """What torchrun would set."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        threads = max(1, (os.cpu_count() or 1) // ranks)
        path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH", "")]))
        return {
            **os.environ,
            "PYTHONPATH": path,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks),
            "OMP_NUM_THREADS": str(threads),
            "TORCHELASTIC_RUN_ID": "bench",
            "HF_HUB_OFFLINE": "1",
        }

    def advance(self) -> bool:
        """Note what the first rank reports until it waits; False at its end."""
        while True:
            name, value = self._report()
            if name in ("waiting", "end"):
                return name == "waiting"
            self.times[name].append(value)

    def go(self) -> None:
        """Let all ranks do what they wait for."""
        for process in self.processes:
            assert process.stdin
            process.stdin.write(b".")
            process.stdin.flush()

    def _report(self) -> tuple[str, float]:
        deadline = time.monotonic() + SECONDS
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.reports[0]], [], [], 1.0)
            part = os.read(self.reports[0], 65536) if ready else b""
            self.rest += part
            failed = [process for process in self.processes if process.poll()]
            if (ready and not part) or failed or time.monotonic() > deadline:
                raise SideError(self._last_words())
        line, self.rest = self.rest.split(b"\n", 1)
        name, value = json.loads(line)
        return name, value

    def _last_words(self) -> str:
        texts = [path.read_text(errors="replace") for path in sorted(self.folder.glob("rank*.txt"))]
        return "\n".join(text[-1500:] for text in texts)

    def close(self) -> None:
        """End what is left of it; a side that has reported its end has nothing left to say."""
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
            assert process.stdin
            process.stdin.close()
        for report in self.reports:
            os.close(report)
        self.reports = []


def task_of(side: str, case: Case, ranks: int, folder: Path) -> Task:
    """What the ranks of a side are told."""
    accumulated = case.accumulate if VARIANTS.get(side, side) == "generated" else 1
    task = Task(
        overrides=[],
        micro_batch=case.micro_batch,
        amp=case.amp != "off",
        sharded=case.sharded,
        block=case.block,
        blocks=case.blocks,
        evaluated=case.evaluated,
        repeats=case.repeats,
        began=time.monotonic(),
        report=-1,
        folder=str(folder),
        variant=side if side in VARIANTS else "",
    )
    samples = case.micro_batch * ranks * accumulated
    overrides = [
        *(text.format(stdlib=sysconfig.get_path("stdlib")) for text in case.overrides),
        f"train.global_batch_size={samples}",
        "train.epochs=1",
        "checkpoint.every_steps=0",
    ]
    if case.accumulate > 1:
        overrides.append(f"train.micro_batch_size={case.micro_batch}")
    if case.model == "gpt":
        overrides.append(f"data.windows_per_epoch={samples * task.steps}")
    return dataclasses.replace(task, overrides=overrides)


def measure(
    case: Case, sides: Iterable[str], project: Path, ranks: int, build: Path
) -> tuple[Mapping[str, Times], Mapping[str, str]]:
    """Times of every side, and why those that are missing failed.

    They start one after the other, each until its first timed block: so a start competes with
    nothing. From there on they take turns, in another order each round: caches and clock rate are
    those that the one before has left.
    """
    alive: dict[str, Tree] = {}
    ended: dict[str, Tree] = {}
    failures: dict[str, str] = {}

    def advance(side: str) -> None:
        try:
            if not alive[side].advance():
                ended[side] = alive.pop(side)
        except SideError as error:
            failures[side] = str(error)
            alive.pop(side).close()

    try:
        for side in sides:
            alive[side] = Tree(side, case, project, ranks, build / f"{case.name}-{side}")
            advance(side)
            print(f"  {case.name}: {side} started", flush=True)
        chance = random.Random(0)
        while alive:
            for side in chance.sample([*alive], len(alive)):
                alive[side].go()
                advance(side)
    finally:
        for tree in [*alive.values(), *ended.values()]:
            tree.close()
    return {side: dict(tree.times) for side, tree in ended.items()}, failures

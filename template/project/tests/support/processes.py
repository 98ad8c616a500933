"""Starts ranks for tests: real processes with a real process group, in a fraction of a second."""

import multiprocessing
import os
import pickle
import sys
import tempfile
import time
import traceback
from multiprocessing import connection
from pathlib import Path
from typing import Any

import torch
from torch.distributed.elastic.utils.distributed import create_c10d_store

# Ranks are forked from a server that has torch and this project imported, and never touches CUDA.
os.environ["OMP_NUM_THREADS"] = "1"  # others would be missing in the ranks
os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # the server is not told where to import from
CONTEXT = multiprocessing.get_context("forkserver")
KILLED = "a rank was killed, or waits for the others and does not end"


class World:
    """Ranks that run a function, each in a process of its own."""

    def __init__(self, size: int, act: Any, *args: Any, per_node: int = 0, beside: int = 0) -> None:
        """Start the ranks, as if on nodes with `per_node` ranks each. All must be picklable."""
        # They use GPUs if each has a GPU, also in a world of `beside` ranks that a test compares.
        on_gpus = not per_node and max(size, beside) <= torch.cuda.device_count()
        per_node = per_node or (size if on_gpus else max(1, size // 2))  # CPUs: two nodes at least
        self.answers = tempfile.TemporaryDirectory(prefix="ranks-")  # gone with the world
        self.store = create_c10d_store(True, "127.0.0.1", 0, wait_for_workers=False)
        shared = {"WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(per_node)}
        shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.store.port)}
        shared["TORCHELASTIC_USE_AGENT_STORE"] = "True"
        shared |= {} if on_gpus else {"CUDA_VISIBLE_DEVICES": ""}
        self.processes = []
        for rank in range(size):
            variables = shared | {"RANK": str(rank), "LOCAL_RANK": str(rank % per_node)}
            call = (variables, Path(self.answers.name, str(rank)), act, args)
            self.processes.append(CONTEXT.Process(target=_rank, args=call))
            self.processes[-1].start()

    def end(self, seconds: float = 60, first_failure: bool = False) -> list[int | None]:
        """Wait until all have ended, or one has failed; returns the exit codes, None for no end."""
        deadline, running = time.monotonic() + seconds, list(self.processes)
        while running and time.monotonic() < deadline:
            connection.wait([process.sentinel for process in running], timeout=1)
            running = [process for process in running if process.exitcode is None]
            if first_failure and any(process.exitcode for process in self.processes):
                deadline = min(deadline, time.monotonic() + 2)  # with a GPU, a rank ends late
        codes = [process.exitcode for process in self.processes]
        self.kill()
        return codes

    def kill(self) -> None:
        """End what still runs."""
        for process in self.processes:
            process.kill()
            process.join()

    def answer(self, rank: int) -> dict[str, Any]:
        """A rank's answer: its "value", or its "error"."""
        path = Path(self.answers.name, str(rank))
        return pickle.loads(path.read_bytes()) if path.exists() else {"error": KILLED}


def run(size: int, act: Any, *args: Any, seconds: int = 120, beside: int = 0) -> list[Any]:
    """The results of a function on each rank; fails with the traceback of the first failed rank."""
    (world := World(size, act, *args, beside=beside)).end(seconds, first_failure=True)
    answers = [world.answer(rank) for rank in range(size)]
    errors = sorted((str(a["error"]) for a in answers if "error" in a), key=lambda e: e == KILLED)
    assert not errors, f"{errors[0].splitlines()[-1]}\n{errors[0]}"
    return [answer["value"] for answer in answers]


def _rank(variables: dict[str, str], result: Path, act: Any, args: Any) -> None:
    os.environ.update(variables)
    multiprocessing.set_start_method(None, force=True)  # workers start as in a program of its own
    try:
        status, answer = 0, {"value": act(*args)}
    except SystemExit as request:
        answer = {"value": (status := int(request.code or 0))}
    except BaseException:
        status, answer = 1, {"error": traceback.format_exc()}
    (partial := result.with_suffix(".partial")).write_bytes(pickle.dumps(answer))
    partial.replace(result)
    sys.stdout.flush()
    os._exit(status)  # see distributed.run: the interpreter's teardown may hang

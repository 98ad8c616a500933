"""Runs generated training programs in a fraction of a second each.

A server process imports torch and the other libraries once, and ranks are forked from it. Each
rank then does what `torchrun train.py` would: the same variables, the real file, its real ending.
"""

import multiprocessing
import os
import runpy
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import NamedTuple

import torch
from torch.distributed import Store
from torch.distributed.elastic.utils.distributed import create_c10d_store

# One thread: those of the server would be missing in the ranks, which would wait for them forever.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
PRELOADED = [
    "torch",
    "torch._dynamo",  # or the first optimizer step imports it, over a second
    "torch.distributed.algorithms.ddp_comm_hooks.default_hooks",
    "torch.distributed.optim",
    "torch.distributed.launcher.api",
    "torch.utils.data",
    "torch.utils.checkpoint",
    "filelock",
    "matplotlib.figure",
    "matplotlib.backends.backend_agg",
    "sklearn.datasets",
    "pyarrow.csv",
    "pyarrow.parquet",
    "pyarrow.compute",
    "transformers.models.distilbert.modeling_distilbert",
    "transformers.models.gpt_neox.modeling_gpt_neox",
    "transformers.models.vit.modeling_vit",
    "PIL.ImageOps",
    "peft",
    "torch.utils.tensorboard",
    "mlflow",
    "mlflow.store.tracking.sqlalchemy_workspace_store",
    "sqlalchemy.dialects.sqlite",
    "wandb",
    "wandb.sdk.launch",  # a run's beginning imports it, over a second
    "pytest",
    "product.frozen",  # the last
]


class Run(NamedTuple):
    """How a run ended: exit codes by rank, -9 for a killed one, and all that was said."""

    codes: list[int]
    output: str
    seconds: float


def context() -> multiprocessing.context.ForkServerContext:
    """The server; it starts with the first rank and ends with this process."""
    os.environ.update(ONE_THREAD)
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(PRELOADED)
    return server


class World(NamedTuple):
    """Ranks that run."""

    processes: list[ForkServerProcess]
    store: Store  # gone with the last reference

    def wait(self, seconds: float) -> list[int]:
        """Until all have ended well, one has not, or the time is over; who is left is killed."""
        try:
            _wait(self.processes, time.monotonic() + seconds)
        finally:
            for process in self.processes:
                process.kill()
                process.join()
        return [process.exitcode or 0 for process in self.processes]


def train(
    project: Path,
    ranks: int,
    overrides: Sequence[str],
    variables: Mapping[str, str] | None = None,
    seconds: float = 180,  # a busy machine; an idle one takes under 2
) -> Run:
    """Run a project's train.py on so many ranks of this machine, at most so many seconds."""
    begin = time.monotonic()
    codes = start(project, ranks, overrides, variables).wait(seconds)
    return Run(codes, (project / "output.txt").read_text(), time.monotonic() - begin)


def start(
    project: Path,
    ranks: int,
    overrides: Sequence[str],
    variables: Mapping[str, str] | None = None,
) -> World:
    """Start a project's train.py on so many ranks; what they say goes to output.txt."""
    # As torchrun does it: the launcher serves the store, so a free port needs no luck.
    store = create_c10d_store(
        is_server=True, server_addr="127.0.0.1", server_port=0, wait_for_workers=False
    )
    log = project / "output.txt"
    log.write_text("")
    processes = []
    for rank in range(ranks):
        each = {**(variables or {}), **variables_of(rank, ranks, store.port)}
        processes.append(context().Process(target=_rank, args=(project, each, overrides, log)))
        processes[-1].start()
    return World(processes, store)


def variables_of(rank: int, ranks: int, port: int) -> dict[str, str]:
    """What torchrun tells a rank of one machine, whose launcher serves the store."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }


def emulate_precisions() -> None:
    """Have bfloat16 and float16 computed on any CPU, or autocast is left out on many.

    Beside GPUs it is left: torch.compile, which looks through all operations, finds no function.
    """
    if torch.cuda.is_available():
        return
    for name in ("_is_mkldnn_bf16_supported", "_is_mkldnn_fp16_supported"):
        setattr(torch.ops.mkldnn, name, lambda: True)


def _wait(processes: Sequence[ForkServerProcess], deadline: float) -> None:
    """Until all have ended well, one has not, or the time is over."""
    running = list(processes)
    while running and time.monotonic() < deadline:
        multiprocessing.connection.wait([process.sentinel for process in running], timeout=1)
        if any(process.exitcode for process in running):
            return
        running = [process for process in running if process.exitcode is None]


def _rank(project: Path, variables: Mapping[str, str], overrides: Sequence[str], log: Path) -> None:
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(variables)
    emulate_precisions()
    multiprocessing.set_start_method(None, force=True)  # workers start as in a program of its own
    os.chdir(project)
    sys.path.insert(0, str(project))
    sys.argv = ["train.py", *overrides]
    try:
        runpy.run_path("train.py", run_name="__main__")  # it leaves by os._exit
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(1)

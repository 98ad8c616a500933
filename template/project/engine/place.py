"""The place of this process among all ranks, as its launcher states it, or why it is in doubt."""

import json
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch

import config
from engine.settings import RankError

# The variables that torchrun sets, for a start without a launcher. Port 0 is any free port.
WORLD_OF_ONE = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
WORLD_OF_ONE |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}

# In which variables SLURM, MPI and others say how many tasks or hosts there are.
SEVERAL: dict[str, Callable[[str], int]] = {
    **dict.fromkeys(("SLURM_NTASKS", "SLURM_NNODES", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"), int),
    **dict.fromkeys(("PET_NNODES", "SKYPILOT_NUM_NODES"), int),  # Kubeflow's and SkyPilot's
    "JOB_COMPLETION_INDEX": lambda index: int(index) + 1,  # of Kubernetes
    "PBS_NODEFILE": lambda path: len({*Path(path).read_text().split()}),
    "LSB_MCPU_HOSTS": lambda hosts: len(hosts.split()) // 2,  # a number follows each name
    "SM_HOSTS": lambda hosts: len(json.loads(hosts)),  # of SageMaker
}
HOW = "use a file of launch/, or torchrun --nproc-per-node=gpu train.py on each node"


def check(cfg: config.DDP, processes: int) -> None:
    """Refuse a start by which ranks train alone by mistake: a RankError names the variable.

    `ddp.expected_world_size` says that the world is meant as it is.
    """
    missing = [name for name in WORLD_OF_ONE if name not in os.environ]
    if cfg.expected_world_size:
        return
    if 0 < len(missing) < len(WORLD_OF_ONE):
        raise RankError(f"of a launcher's variables {', '.join(missing)} are not set: {HOW}")
    for name, count in SEVERAL.items() if missing else ():
        with suppress(KeyError, OSError, ValueError):  # not set, or unreadable
            if (number := count(os.environ[name])) > 1:
                raise RankError(
                    f"{name} tells of {number} tasks or hosts, and without RANK each trains alone: "
                    f"{HOW}; ddp.expected_world_size=1 says that one rank alone is meant"
                )
    gpus = 0 if cfg.device == "cpu" else torch.cuda.device_count()
    own = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    if processes == 1 and own < gpus and os.environ.get("RANK", "0") == "0":
        print(f"note: ranks use {own} of {gpus} visible GPUs. For all {HOW}", flush=True)


def find() -> tuple[int, int, int]:
    """Rank, local rank and world size; a RankError names a variable whose value has no sense."""
    for name, value in WORLD_OF_ONE.items():
        text = os.environ.setdefault(name, value)
        port = name == "MASTER_PORT"
        if name != "MASTER_ADDR" and (not text.isdecimal() or (port and int(text) > 65535)):
            raise RankError(f"{name}={text} is no {'port' if port else 'number'}")
    rank, local_rank, size = (int(os.environ[n]) for n in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
    if rank >= size:
        raise RankError(f"RANK={rank} must be below WORLD_SIZE={size}")
    return rank, local_rank, size


def resolve(seconds: float) -> None:
    """Wait until the host at which all meet has an address: a new name takes a while."""
    end = time.monotonic() + min(seconds, 60)
    while True:
        try:
            socket.getaddrinfo(os.environ["MASTER_ADDR"], None)
            return
        except (OSError, UnicodeError) as error:
            if time.monotonic() > end:
                raise RankError(f"MASTER_ADDR={os.environ['MASTER_ADDR']}: {error}") from error
            time.sleep(1)

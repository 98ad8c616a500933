"""Process group, device and the wrap: everything that knows there is more than one rank."""

import os
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import NoReturn

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, record
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.nn.parallel import DistributedDataParallel

import config

# What torchrun sets, where there is no launcher; port 0 is any free one.
WORLD_OF_ONE = {
    "RANK": "0",
    "LOCAL_RANK": "0",
    "WORLD_SIZE": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "0",
}


@dataclass(frozen=True)
class Ranks:
    """This process's place in the world."""

    rank: int
    local_rank: int
    world_size: int
    device: torch.device

    @property
    def is_main(self) -> bool:
        """True on the one rank of the whole job that prints and writes."""
        return self.rank == 0


@contextmanager
def session(cfg: config.DDP) -> Iterator[Ranks]:
    """Set the process group up, and take it down after a normal end.

    There is no `finally` on purpose: after an exception the other ranks are in the middle of a
    collective, and a teardown that waits for them would hang.
    """
    yield _setup(cfg)
    dist.destroy_process_group()


def _setup(cfg: config.DDP) -> Ranks:
    for name, value in WORLD_OF_ONE.items():
        os.environ.setdefault(name, value)
    rank, local_rank, world_size = (
        int(os.environ[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")
    )
    if cfg.expected_world_size not in (0, world_size):
        raise config.ConfigError(
            f"the launcher expects {cfg.expected_world_size} ranks, but {world_size} came together: "
            "check that every node was started and reached the same rendezvous"
        )
    device = _pick_device(cfg, local_rank)
    with_nccl = device.type == "cuda" and cfg.backend == "auto"
    if device.type == "cuda":
        torch.cuda.set_device(device)  # before anything else opens a context on GPU 0
    dist.init_process_group(
        # Tensors on the CPU always have Gloo: counts and flags travel without touching the GPU.
        "cpu:gloo,cuda:nccl" if with_nccl else "gloo",
        timeout=timedelta(seconds=cfg.timeout_seconds),
        device_id=device if with_nccl else None,
    )
    return Ranks(rank, local_rank, world_size, device)


def _pick_device(cfg: config.DDP, local_rank: int) -> torch.device:
    """The local rank's own GPU; the CPU where there is none."""
    if cfg.device == "cpu" or (cfg.device == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    visible = torch.cuda.device_count()
    if cfg.backend == "gloo" and visible:
        return torch.device("cuda", local_rank % visible)
    if local_rank >= visible:
        raise config.ConfigError(
            f"local rank {local_rank} needs GPU {local_rank}, but this process sees {visible} "
            f"(CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES', 'unset')}): start as many "
            "processes per node as there are GPUs, and do not hide them from each other "
            "(SLURM: --gpus-per-node instead of --gpus-per-task)"
        )
    return torch.device("cuda", local_rank)


def wrap(model: nn.Module, ranks: Ranks, cfg: config.Config) -> DistributedDataParallel:
    """Prepare the model for this rank, in the only order that works.

    Conversion comes before the move, so that new modules move too; the move before the wrap,
    because DDP keeps references to the parameters it sees; compilation in place, so that
    names in checkpoints stay as they are.
    """
    model = model.to(ranks.device)
    if cfg.run.compile:
        model.compile()
    return DistributedDataParallel(
        model,
        device_ids=[ranks.device] if ranks.device.type == "cuda" else None,
        bucket_cap_mb=cfg.ddp.bucket_mb,
        gradient_as_bucket_view=cfg.ddp.gradient_as_bucket_view,
    )


def share_buffers(model: DistributedDataParallel) -> None:
    """Give every rank rank 0's running statistics.

    DDP does this at the start of each training forward, so afterwards they differ: call it before
    evaluating and saving. It changes no training, because the next forward would do the same.
    """
    for buffer in model.module.buffers():
        dist.broadcast(buffer, src=0)


def sum_over_ranks(values: Tensor) -> Tensor:
    """The elementwise sum of all ranks' values, in place, on every rank."""
    dist.all_reduce(values)
    return values


def max_over_ranks(value: float) -> float:
    """The largest of all ranks' values, over the CPU's own backend."""
    box = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(box, dist.ReduceOp.MAX)
    return box.item()


def on_main(ranks: Ranks, task: Callable[[], str]) -> str:
    """Do something on rank 0 alone, and give every rank its result.

    Every rank must call it. What goes wrong on rank 0 is raised on all of them as ConfigError:
    a rank that raised alone would leave the others waiting.
    """
    answer = ("", "")
    if ranks.is_main:
        try:
            answer = (task(), "")
        except OSError as error:
            answer = ("", f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except config.ConfigError as error:
            answer = ("", str(error))
    box = [answer]
    dist.broadcast_object_list(box, src=0, device=torch.device("cpu"))
    result, failure = box[0]
    if failure:
        raise config.ConfigError(failure)
    return result


def run_locally(processes: int, main: Callable[[Sequence[str]], None], argv: Sequence[str]) -> None:
    """Start the ranks of one machine from Python: for notebooks, debuggers and quick tries.

    It is what torchrun does, with a free port. Raises SystemExit when a rank fails.
    """
    threads = max(1, (os.cpu_count() or 1) // processes)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    launch = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        rdzv_configs={"is_host": True},
        max_restarts=0,
        monitor_interval=0.1,
        start_method="spawn",
    )
    try:
        elastic_launch(launch, main)(argv)
    except ChildFailedError as error:
        raise SystemExit(str(error)) from error


def run(main: Callable[[], None]) -> NoReturn:
    """Run a program's main function and leave with its exit code: 2 for a mistake of the user's.

    Leaving skips the interpreter's own teardown: Gloo's threads and the destructors of process
    group and model sometimes abort or hang there (torch 2.13), after all work is done.
    """
    status = 0
    try:
        record(main)()
    except config.ConfigError as error:
        status = 2
        if int(os.environ.get("RANK", 0)) == 0:
            print(f"error: {error}", file=sys.stderr)
    except SystemExit as request:
        status = request.code if isinstance(request.code, int) else int(request.code is not None)
        if isinstance(request.code, str):
            print(request.code, file=sys.stderr)
    except BaseException:
        status = 1
        sys.excepthook(*sys.exc_info())
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)

"""What a rank's device is, and what the ranks compute and exchange in a process group."""

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from engine import distributed
from tools.preflight import probes

SIDE = {"cpu": 256, "cuda": 4096}  # of the matrices by whose product devices are compared


@dataclass(frozen=True)
class Device:
    """One rank's device."""

    rank: int
    local_rank: int
    host: str
    device: str
    model: str
    device_id: str  # unique on its host; empty for a CPU
    memory_gib: float  # 0 for a CPU
    reduces: bool
    averages: bool
    seconds: float  # of a fixed computation


def look(host: probes.Host, ranks: distributed.Ranks) -> Device:
    """This rank's device at work; all ranks must call it, for the collectives in it."""
    name, device_id, memory = platform.machine(), "", 0.0
    if ranks.device.type == "cuda":
        gpu = torch.cuda.get_device_properties(ranks.device)
        name, device_id, memory = gpu.name, str(gpu.uuid), gpu.total_memory / 2**30
    return Device(
        rank=ranks.rank,
        local_rank=ranks.local_rank,
        host=host.host,
        device=str(ranks.device),
        model=name,
        device_id=device_id,
        memory_gib=round(memory, 1),
        reduces=reduces(ranks),
        averages=averages(ranks),
        seconds=time_product(ranks.device),
    )


def reduces(ranks: distributed.Ranks) -> bool:
    """Whether an all-reduce over the ranks' device gives the sum, for every element."""
    values = torch.arange(2**16, dtype=torch.float64, device=ranks.device) + ranks.rank
    distributed.sum_over_ranks(values)
    n = ranks.world_size
    expected = torch.arange(2**16, dtype=torch.float64, device=ranks.device) * n + n * (n - 1) / 2
    return torch.equal(values, expected)


def averages(ranks: distributed.Ranks) -> bool:
    """Whether DDP leaves the mean of the ranks' gradients on this rank.

    The gradient of the sum of w*x with respect to w is x, and x is the rank's number plus one.
    """
    network = DistributedDataParallel(nn.Linear(8, 1, bias=False).to(ranks.device))
    network(torch.full((1, 8), ranks.rank + 1.0, device=ranks.device)).sum().backward()
    (weight,) = network.parameters()
    if weight.grad is None:
        return False
    return torch.equal(weight.grad, torch.full_like(weight.grad, (ranks.world_size + 1) / 2))


def time_product(device: torch.device, repetitions: int = 20) -> float:
    """Seconds that a product of two matrices takes at best: what disturbs once does not count."""
    side = SIDE[device.type]
    matrix = torch.ones(side, side, device=device)
    return min(time_of(lambda: matrix @ matrix, device) for _ in range(repetitions))


def time_all_reduce(size: int, device: torch.device, repetitions: int = 5) -> float:
    """Seconds that one all-reduce of `size` bytes takes on this rank, after two to warm up."""
    values = torch.zeros(size // 4, device=device)

    def repeat(times: int) -> None:
        for _ in range(times):
            dist.all_reduce(values)

    time_of(lambda: repeat(2), device)
    return time_of(lambda: repeat(repetitions), device) / repetitions


def time_of(work: Callable[[], object], device: torch.device) -> float:
    """Seconds until the device has done the work."""
    start = time.perf_counter()
    work()
    wait_for(device)
    return time.perf_counter() - start


def wait_for(device: torch.device) -> None:
    """Wait until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)

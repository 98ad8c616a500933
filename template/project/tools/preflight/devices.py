"""What a rank's device is, and what the ranks compute and exchange in a process group."""

import platform
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from engine import distributed
from tools import timing
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


def look(host: probes.Host, process: distributed.Process) -> Device:
    """This rank's device at work; all ranks must call it, for the collectives in it."""
    name, device_id, memory = platform.machine(), "", 0.0
    if process.device.type == "cuda":
        gpu = torch.cuda.get_device_properties(process.device)
        name, device_id, memory = gpu.name, str(gpu.uuid), gpu.total_memory / 2**30
    return Device(
        rank=process.rank,
        local_rank=process.local_rank,
        host=host.host,
        device=str(process.device),
        model=name,
        device_id=device_id,
        memory_gib=round(memory, 1),
        reduces=reduces(process),
        averages=averages(process),
        seconds=time_product(process.device),
    )


def reduces(process: distributed.Process) -> bool:
    """Whether an all-reduce over the ranks' device gives the sum, for every element."""
    values = torch.arange(2**16, dtype=torch.float64, device=process.device) + process.rank
    distributed.sum_over_ranks(values)
    n = process.world_size
    expected = torch.arange(2**16, dtype=torch.float64, device=process.device) * n + n * (n - 1) / 2
    return torch.equal(values, expected)


def averages(process: distributed.Process) -> bool:
    """Whether DDP leaves the mean of the ranks' gradients on this rank.

    The gradient of the sum of w*x with respect to w is x, and x is the rank's number plus one.
    """
    network = DistributedDataParallel(nn.Linear(8, 1, bias=False).to(process.device))
    network(torch.full((1, 8), process.rank + 1.0, device=process.device)).sum().backward()
    (weight,) = network.parameters()
    if weight.grad is None:
        return False
    return torch.equal(weight.grad, torch.full_like(weight.grad, (process.world_size + 1) / 2))


def time_product(device: torch.device, repetitions: int = 20) -> float:
    """Seconds that a product of two matrices takes at best: what disturbs once does not count."""
    side = SIDE[device.type]
    matrix = torch.ones(side, side, device=device)
    return min(timing.time_of(lambda: matrix @ matrix, device) for _ in range(repetitions))

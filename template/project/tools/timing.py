"""Measures the time that a device takes for its work."""

import time
from collections.abc import Callable

import torch
import torch.distributed as dist


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

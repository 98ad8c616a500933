"""Compares the replicas: all ranks must hold the same weights and moments.

Nothing else notices a rank whose memory or device changed a value: its gradients go into the mean
of all, and losses fall on, towards a worse model.
"""

import socket
from collections import Counter
from collections.abc import Iterator
from typing import NoReturn

import torch
import torch.distributed as dist
from torch import Tensor

import config
from engine import distributed
from engine.state import TrainState
from engine.watch.part import Part

# As integers all bits of a number count, those of NaN too. By the bytes of an element.
INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
MIXING = 0x1E3779B97F4A7C15  # the golden ratio's digits, whose multiples have no pattern


class ReplicaError(Exception):
    """Ranks hold other values than the rest: a device or its memory failed, or an edit of a step.

    A launch file starts such a run again, from a checkpoint that was written while all were equal.
    """


class Replicas(Part):
    """Compares every `watch.compare_every_steps` steps, and what a checkpoint would hold."""

    def __init__(self, cfg: config.Watch, process: distributed.Process, state: TrainState) -> None:
        self.every = cfg.compare_every_steps
        self.process = process
        self.equal_after = state.step  # the newest step after which all were equal
        self.compare(state)  # all have loaded, or drawn, the same

    def step(self, state: TrainState) -> None:
        """Compare where an interval ends: the host waits for the device only there."""
        if self.every and state.step % self.every == 0:
            self.compare(state)

    def save(self, state: TrainState) -> None:
        """Compare before a save, so that each checkpoint is of equal replicas."""
        if self.equal_after < state.step:
            self.compare(state)

    def compare(self, state: TrainState) -> None:
        """One small collective; raises ReplicaError on all ranks where one of them differs."""
        held = dict(replicated(state))
        prints = fingerprints(list(held.values()))
        extremes = torch.stack([prints, ~prints])
        dist.all_reduce(extremes, dist.ReduceOp.MAX)
        differs = extremes[0] != ~extremes[1]  # the largest is not the smallest
        if differs.any().item():
            names = [name for name, bad in zip(held, differs.tolist(), strict=True) if bad]
            self._name(state.step, names, prints[differs])
        self.equal_after = state.step

    def _name(self, step: int, names: list[str], prints: Tensor) -> NoReturn:
        """Raise the error that names ranks, hosts and tensors: from all ranks' fingerprints."""
        world_size = self.process.world_size
        each = [torch.empty_like(prints) for _ in range(world_size)]
        dist.all_gather(each, prints)
        hosts = [""] * world_size
        dist.all_gather_object(hosts, socket.gethostname())
        rows = [tuple(found.tolist()) for found in each]
        usual, count = Counter(rows).most_common(1)[0]
        odd = [rank for rank, row in enumerate(rows) if row != usual or 2 * count <= world_size]
        who = ", ".join(f"rank {rank} on {hosts[rank]}" for rank in odd)
        what = names[0] + (f" and of {len(names) - 1} more" if len(names) > 1 else "")
        finding = f"other values of {what} than most: {who}"
        if len(odd) == world_size:
            finding = f"no majority has the same values of {what}: {who}"
        raise ReplicaError(
            f"after step {step} replicas are not equal; {finding}. "
            f"All were equal after step {self.equal_after}, and nothing was saved since"
        )


def replicated(state: TrainState) -> Iterator[tuple[str, Tensor]]:
    """The tensors that every rank must hold alike, by name."""
    yield "the number of updates", state.updates
    for name, parameter in state.model.module.named_parameters():
        yield name, parameter.detach()
        for moment, value in state.optimizer.state.get(parameter, {}).items():
            yield f"{moment} of {name}", value


def fingerprints(tensors: list[Tensor]) -> Tensor:
    """A number for each tensor, 1-dim int64 on their device; a flipped bit always changes its own.

    Sums of whole numbers wrap around, and do not depend on their order. A bit changes the sum of
    its row, whose weight is odd, and the sum of its column, whose weight is even: together by an
    odd multiple of a power of two below 2**64.
    """
    tables = [_table(tensor) for tensor in tensors]
    most = max(size for table in tables for size in table.shape)
    places = torch.arange(1, most + 1, device=tensors[0].device) * MIXING
    mixed = (places ^ (places >> 29)) * MIXING
    odd, even = mixed | 1, mixed << 1
    found = []
    for table in tables:
        rows, columns = table.sum(1), table.sum(0)
        found.append((rows * odd[: len(rows)]).sum() + (columns * even[: len(columns)]).sum())
    return torch.stack(found)


def _table(tensor: Tensor) -> Tensor:
    """The bits of a tensor, as whole numbers in rows and columns."""
    bits = tensor.view(INTEGERS[tensor.element_size()])
    return bits.flatten(1) if bits.ndim > 1 else bits.reshape(1, -1)

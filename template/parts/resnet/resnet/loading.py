"""From data sets to optimizer steps: sharding, padding, seeding and counting."""

import hashlib
import random
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import filelock
import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Sampler

import config
import data
import distributed


@dataclass(frozen=True)
class Plan:
    """How a global batch is shared out, in samples."""

    global_batch: int
    micro_batch: int  # of one rank


def plan(cfg: config.Train, world_size: int) -> Plan:
    """Share the global batch of the config out over the ranks there are.

    Raises ConfigError where that is not possible in equal parts.
    """
    share, rest = divmod(cfg.global_batch_size, world_size)
    if rest or not share:
        raise config.ConfigError(
            f"train.global_batch_size = {cfg.global_batch_size} cannot be shared out evenly over "
            f"{world_size} ranks: choose a multiple of {world_size}"
        )
    return Plan(cfg.global_batch_size, share)


def prepare(cfg: config.Data) -> None:
    """Prepare the data once per node, before a process group exists.

    Inside one, the ranks that wait would run into the timeout of its collectives.
    """
    folder = Path(cfg.folder)
    folder.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(folder / ".lock"):
        data.prepare(cfg)


def seed_all(*parts: int | str) -> None:
    """Seed every generator with a value that follows from `parts`, such as (seed, step, rank)."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    value = int.from_bytes(digest, "little", signed=False)
    random.seed(value)
    torch.manual_seed(value >> 1)  # torch takes 63 bits without wrapping
    if numpy := sys.modules.get("numpy"):  # only where something uses it
        numpy.random.seed(value % 2**32)


class Draw(NamedTuple):
    """What the sampler asks of a data set."""

    epoch: int
    sample: int
    counts: bool  # False: it fills up a batch, its target must not count


class Draws(Dataset[data.Batch]):
    """A split that is asked for draws, a batch at a time."""

    def __init__(self, split: data.Split, seed: int) -> None:
        self.split = split
        self.seed = seed

    def __len__(self) -> int:
        return len(self.split)

    def __getitems__(self, draws: list[Draw]) -> data.Batch:
        # Whatever a sample draws at random, in this process or in a worker, follows from its place.
        seed_all("data", self.seed, draws[0].epoch, draws[0].sample)
        batch = self.split.__getitems__([draw.sample for draw in draws])
        if not draws[-1].counts:
            batch.targets[[not draw.counts for draw in draws]] = data.IGNORE
        return batch


class Shard(Sampler[Draw]):
    """This rank's share of each epoch, padded to whole micro-batches, from any place in the epoch.

    torch's DistributedSampler gives the order. Dealt out place by place, the n-th global batch
    covers the same samples whatever the world size.
    """

    def __init__(
        self, draws: Draws, ranks: distributed.Ranks, micro_batch: int, shuffle: bool
    ) -> None:
        self.size = len(draws)
        self.order: DistributedSampler[int] = DistributedSampler(
            draws, ranks.world_size, ranks.rank, shuffle=shuffle, seed=draws.seed
        )
        joint = micro_batch * ranks.world_size
        # It pads to these numbers, by repeating samples from the start of the epoch's order.
        self.order.total_size = -(-self.size // joint) * joint
        self.order.num_samples = self.order.total_size // ranks.world_size
        self.first = 0

    def start(self, epoch: int, seen: int) -> None:
        """Choose the epoch's order, and begin after what all ranks together have seen of it."""
        self.order.set_epoch(epoch)
        self.first = seen // self.order.num_replicas

    def __iter__(self) -> Iterator[Draw]:
        for place, sample in enumerate(self.order):
            if place >= self.first:
                joint_place = place * self.order.num_replicas + self.order.rank
                yield Draw(self.order.epoch, sample, joint_place < self.size)

    def __len__(self) -> int:
        return self.order.num_samples - self.first


@dataclass(frozen=True)
class Loaders:
    """The data of both splits, and where the training split's next epoch begins."""

    train: DataLoader[data.Batch]
    val: DataLoader[data.Batch]
    shard: Shard
    steps_per_epoch: int

    def start(self, epoch: int, seen: int) -> None:
        """Begin an epoch after `seen` samples, counted over all ranks."""
        self.shard.start(epoch, seen)


def build(
    splits: data.Splits, cfg: config.Config, ranks: distributed.Ranks, batches: Plan
) -> Loaders:
    """Loaders of this rank's shards."""
    pinned = ranks.device.type == "cuda"  # page-locked memory: copies overlap with computation
    loaders = []
    shards = []
    for split, shuffle in ((splits.train, True), (splits.val, False)):
        draws = Draws(split, cfg.run.seed)
        shards.append(Shard(draws, ranks, batches.micro_batch, shuffle))
        loaders.append(
            DataLoader(
                draws,
                batches.micro_batch,
                sampler=shards[-1],
                num_workers=cfg.data.workers,
                collate_fn=_as_is,
                pin_memory=pinned,
                persistent_workers=cfg.data.workers > 0,  # safe: the epoch travels with each draw
                worker_init_fn=_shield,
            )
        )
    steps_per_epoch = -(-len(splits.train) // batches.global_batch)
    return Loaders(loaders[0], loaders[1], shards[0], steps_per_epoch)


def _as_is(batch: Any) -> Any:
    return batch  # Draws has collated it


def _shield(worker: int) -> None:
    """Let a worker outlive the signals that schedulers send to all processes of a job.

    It ends with its rank, which still needs it to finish the step and save.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)


class Window(NamedTuple):
    """What one optimizer step of this rank consumes."""

    batch: data.Batch
    valid: int  # targets that count, over all ranks
    stop: bool  # some rank was asked to stop: all of them do after this step


@dataclass(frozen=True)
class _Pending:
    """A window whose sums over all ranks are under way."""

    batch: data.Batch
    sums: Tensor
    work: dist.Work

    def window(self) -> Window:
        self.work.wait()
        valid, stops = self.sums.tolist()
        return Window(self.batch, valid, stops > 0)


def windows(
    loader: DataLoader[data.Batch],
    steps: int,
    stop: Callable[[], bool],
) -> Iterator[Window]:
    """Gather what each of the next optimizer steps needs, and agree on it over all ranks.

    Losses are divided by the number of valid targets of all ranks, since averages of
    unequal parts are not the average. The host knows its part of that number, so it travels over the
    CPU's own backend, one step ahead: neither host nor device waits for it.
    """
    ahead = None
    for group in islice(loader, steps):
        valid = int(data.valid(group.targets).sum())
        sums = torch.tensor([valid, int(stop())])
        pending = _Pending(group, sums, dist.all_reduce(sums, async_op=True))
        if ahead:
            yield (window := ahead.window())
            if window.stop:
                pending.window()  # nobody leaves while the others' sum is under way
                return
        ahead = pending
    if ahead:
        yield ahead.window()

"""Which samples each rank sees (catalogue: S1-S7, K10)."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

import common
import config
import data
import loading
from distributed import Ranks

CPU = torch.device("cpu")


class Numbers:
    """A split of which only the length matters."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitems__(self, indices: list[int]) -> data.Batch:
        raise NotImplementedError


def shards(size: int, world: int, micro_batch: int, *, shuffle: bool = True) -> list[loading.Shard]:
    draws = loading.Draws(Numbers(size), seed=7)
    return [
        loading.Shard(draws, Ranks(rank, rank, world, CPU), micro_batch, shuffle)
        for rank in range(world)
    ]


def real(draws: Sequence[loading.Draw]) -> list[int]:
    return [draw.sample for draw in draws if draw.counts]


@pytest.mark.parametrize("size", [1, 7, 12, 23])
@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_each_sample_once_per_epoch(size: int, world: int) -> None:
    """S1 S3 S7: ranks are disjoint, together complete, and all run equally many batches."""
    for epoch in (0, 1):
        parts = []
        for shard in shards(size, world, 2):
            shard.start(epoch, 0)
            parts.append(list(shard))
        assert {len(part) for part in parts} == {len(parts[0])}
        assert len(parts[0]) % 2 == 0, "only whole micro-batches have equal shapes"
        assert sorted(real([draw for part in parts for draw in part])) == list(range(size))


def test_order_changes_by_epoch_and_repeats() -> None:
    """S2: a new order in each epoch, the same for the same seed and epoch."""
    (shard,) = shards(50, 1, 5)
    orders = []
    for epoch in (0, 1, 0):
        shard.start(epoch, 0)
        orders.append(real(list(shard)))
    assert orders[0] != orders[1]
    assert orders[0] == orders[2]


@pytest.mark.parametrize(("before", "after"), [(2, 1), (2, 4), (4, 3), (3, 2)])
def test_continuing_on_another_world(before: int, after: int) -> None:
    """K10: after a resume on another number of ranks each sample still comes exactly once."""
    size, batch = 101, 12
    seen = []
    for shard in shards(size, before, batch // before):
        shard.start(3, 0)
        seen += real(list(shard)[: 2 * batch // before])  # two global batches
    for shard in shards(size, after, batch // after):
        shard.start(3, 2 * batch)
        seen += real(list(shard))
    assert sorted(seen) == list(range(size))


def test_evaluation_order_is_fixed() -> None:
    """S8: validation is not shuffled, and only padding is left out."""
    first, second = shards(5, 2, 2, shuffle=False)
    assert real(list(first)) == [0, 2, 4]
    assert real(list(second)) == [1, 3]


def draws_of(rank: int, epoch: int) -> tuple[float, float]:
    loading.seed_all("data", 7, epoch, rank)
    return random.random(), torch.rand(()).item()


def test_random_streams_differ_and_repeat() -> None:
    """S6: each place has its own random numbers, and always the same ones."""
    places = [(rank, epoch) for rank in range(3) for epoch in range(3)]
    streams = [draws_of(*place) for place in places]
    assert len(set(streams)) == len(places)
    assert streams == [draws_of(*place) for place in places]


def test_plan_refuses_unequal_shares(tmp_path: Path) -> None:
    """G13: the global batch is what the config says, or an error names it and the ranks."""
    cfg = common.settings(tmp_path)
    assert loading.plan(cfg.train, 4).global_batch == 12
    with pytest.raises(config.ConfigError, match=r"global_batch_size = 12 .* 5 ranks"):
        loading.plan(cfg.train, 5)

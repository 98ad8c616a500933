"""Scaling, measured and predicted: the arithmetic by hand, and one real world."""

import dataclasses
from pathlib import Path

import pytest
import torch

import config
from engine import distributed
from support import common, processes
from tools.scaling import measure, prediction, report
from tools.scaling.prediction import Link, Network, Step

LINK = Link(latency=0.25, bandwidth=8.0)
PLAIN = Network(LINK, LINK, ranks_per_node=1, algorithm="ring", bucket=16, wire=1.0)
# Two buckets: 16 bytes after 5 seconds and after 7; the step takes 10.
STEP = Step(compute=8.0, host=1.0, data=1.0, gradients=((7.0, 8), (5.0, 16), (6.0, 8)))


def test_ring_and_tree_take_what_they_send() -> None:
    # 2 * 3 messages of 16 / 4 bytes: 0.25 + 4 / 8 seconds each.
    assert prediction.all_reduce(16, 4, PLAIN) == 6 * 0.75
    tree = dataclasses.replace(PLAIN, algorithm="tree")
    # Twice two levels, and twice the whole size.
    assert prediction.all_reduce(16, 4, tree) == 4 * 0.25 + 2 * 16 / 8
    within = Link(latency=0.125, bandwidth=64.0)
    nodes = dataclasses.replace(PLAIN, within=within, ranks_per_node=2)
    # Of the 6 messages in sequence 2 cross nodes; the slower link bounds them all.
    assert prediction.all_reduce(16, 4, nodes) == 2 * 0.25 + 4 * 0.125 + 6 * 4 / 8
    assert prediction.all_reduce(16, 2, nodes) == 2 * (0.125 + 8 / 64)


def test_gradients_travel_while_backward_goes_on() -> None:
    assert prediction.buckets(STEP.gradients, 16) == [(5.0, 16), (7.0, 16)]
    # Two ranks: 2.5 seconds for 16 bytes. The first is there at 7.5, the second at 10, 3 after the
    # backward pass.
    assert prediction.all_reduce(16, 2, PLAIN) == 2.5
    assert prediction.exposed(STEP, 2, PLAIN) == 3.0
    assert prediction.seconds(STEP, 2, PLAIN) == 13.0
    assert prediction.exposed(STEP, 1, PLAIN) == 0.0
    one = dataclasses.replace(PLAIN, bucket=32)  # all of it after the pass
    assert prediction.exposed(STEP, 2, one) == 4.5


def test_fits_return_what_was_measured() -> None:
    times = {size: prediction.all_reduce(size, 3, PLAIN) for size in (1, 16, 256)}
    link = prediction.fit_link(3, times)
    assert link.latency == pytest.approx(LINK.latency)
    assert link.bandwidth == pytest.approx(LINK.bandwidth)
    waited = prediction.exposed(STEP, 2, dataclasses.replace(PLAIN, slowdown=1.5))
    assert prediction.fit_slowdown(STEP, 2, PLAIN, waited) == pytest.approx(1.5)


def test_ranks_that_bring_little_are_told() -> None:
    """Ten times more computing than communication by itself, and 30 % of a step that waits."""
    # On 2 ranks: 2 * 2.5 seconds by themselves, 3 of 13 are waited for.
    two, four = (report.worth(STEP, ranks, PLAIN) for ranks in (2, 4))
    assert two == [
        "2 ranks: a step computes 1.6 times as long as it would communicate by itself; "
        "from 10 times on, communication is hidden"
    ]
    # On 4: 2 * 4.5 seconds, 7 of 17 are waited for; 2 ranks do (2 / 13) / (4 / 17) of the work.
    assert four[1] == (
        "4 ranks: 41% of a step waits for gradients, over 30%: "
        "2 would give 65% of their samples per second"
    )
    fast = dataclasses.replace(PLAIN, between=Link(0.001, 1e3), within=Link(0.001, 1e3))
    assert report.worth(STEP, 4, fast) == []


def test_waiting_for_data_is_told() -> None:
    world = measure.Measurement(2, 2, "cpu", 64, 13.0, 3.0, STEP, {})
    waits = "data: 1000.0 ms of a step wait for them; try data.workers"
    assert waits in report.advice(world, [], 2, PLAIN)
    fed = dataclasses.replace(world, alone=dataclasses.replace(STEP, data=0.0))
    assert waits not in report.advice(fed, [], 2, PLAIN)


def measured(cfg: config.Config) -> tuple[measure.Measurement, bool]:
    """One rank's measurement, and whether it left the weights as they were."""
    measure.BLOCK, measure.ROUNDS, measure.HELD = 0.02, 2, 2  # rough figures will do
    with distributed.session(cfg.ddp) as place:
        trainer = measure.Trainer(cfg, place)
        before = [parameter.clone() for parameter in trainer.state.model.parameters()]
        world = measure.take_apart(trainer)
        after = list(trainer.state.model.parameters())
        return world, all(map(torch.equal, before, after))


def test_two_ranks_are_measured(tmp_path: Path) -> None:
    cfg = common.settings(tmp_path / "runs")
    (world, unchanged), _ = processes.run(2, measured, cfg)
    assert unchanged
    assert not list(tmp_path.iterdir()), "a measurement leaves no files"
    alone = world.alone
    assert world.ranks == 2
    assert min(alone.compute, alone.host, alone.data, world.waited) >= 0
    assert alone.total + world.waited == pytest.approx(world.step)
    assert alone.compute > 0
    assert all(0 <= ready <= world.step for ready, _ in alone.gradients)
    assert max(ready for ready, _ in alone.gradients) > 0
    assert min(world.all_reduces.values()) > 0

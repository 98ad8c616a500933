"""Properties of the model that predicts how training scales."""

import dataclasses
import importlib.util
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddpgen.asking.question import Answers
from product import template
from product.programs import completed
from product.test_levers import PLAIN, TOOLS
from product.test_programs import settings

SHARDED: Answers = {"model": "mlp", "amp": "off", "sharding": "fsdp", "tools": TOOLS}


def load(answers: Answers) -> ModuleType:
    """The model of such a project, as a module."""
    text = template.text("tools/scaling/prediction.py", completed(answers))
    assert text
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "prediction.py"
        place.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(place.stem, place)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[place.stem] = module  # dataclasses look it up
        spec.loader.exec_module(module)
        del sys.modules[place.stem]
    return module


MODEL: Any = load(PLAIN)
SHARES: Any = load(SHARDED)

positive = st.floats(1e-6, 1e3)
links = st.builds(MODEL.Link, st.floats(0, 1e-2), st.floats(1e5, 1e12))
gradients = st.lists(st.tuples(positive, st.integers(1, 10**9)), min_size=1, max_size=30)
networks = st.builds(
    MODEL.Network,
    within=links,
    between=links,
    ranks_per_node=st.integers(1, 16),
    algorithm=st.sampled_from(MODEL.ALGORITHMS),
    bucket=st.integers(0, 10**9),
    wire=st.sampled_from([0.5, 1.0]),
    slowdown=st.floats(1, 100),
)
steps = st.builds(MODEL.Step, positive, positive, positive, gradients.map(tuple))
worlds = st.integers(2, 16384)
TINY = 1e-9


@st.composite
def shared_steps(draw: st.DrawFn) -> Any:
    """Steps of a sharded project, whose units take all of the time."""
    units = draw(
        st.lists(
            st.builds(
                SHARES.Unit,
                positive,
                positive,
                st.integers(1, 10**9),
                st.integers(0, 10**9),
                st.booleans(),
            ),
            min_size=1,
            max_size=10,
        )
    )
    units[0] = dataclasses.replace(units[0], again=False)
    passes, each, ahead = draw(st.integers(1, 4)), draw(st.booleans()), draw(st.booleans())
    work = passes * sum(unit.forward + unit.backward for unit in units)
    return SHARES.Step(work / 2, work / 2, draw(positive), tuple(units), passes, each, ahead)


shared_networks = st.builds(
    SHARES.Network,
    within=links,
    between=links,
    ranks_per_node=st.integers(1, 16),
    shard_over=st.sampled_from(["world", "node"]),
    slowdown=st.floats(1, 100),
)


@given(shared_steps(), shared_networks)
def test_one_sharded_rank_waits_for_nobody(step: Any, network: Any) -> None:
    assert abs(SHARES.exposed(step, 1, network)) <= TINY * step.total


@given(shared_steps(), shared_networks, worlds, st.floats(1, 1000))
def test_shares_over_a_better_network_are_never_slower(
    step: Any, network: Any, ranks: int, factor: float
) -> None:
    before = SHARES.seconds(step, ranks, network)
    for better in (
        {"within": faster(network.within, factor), "between": faster(network.between, factor)},
        {"slowdown": 1.0},
    ):
        after = SHARES.seconds(step, ranks, dataclasses.replace(network, **better))
        assert after <= before + TINY * before
    keeping = tuple(dataclasses.replace(unit, again=False) for unit in step.units)
    kept = SHARES.seconds(dataclasses.replace(step, units=keeping), ranks, network)
    assert kept <= before + TINY * before
    ahead = SHARES.seconds(dataclasses.replace(step, ahead=True), ranks, network)
    assert ahead <= before + TINY * before


@given(shared_steps(), shared_networks, worlds)
def test_sharded_ranks_wait_no_longer_than_for_all(step: Any, network: Any, ranks: int) -> None:
    """Not longer than all collectives take by themselves; the last sum at least is waited for."""
    most = network.slowdown * SHARES.communication(step, ranks, network)
    least = network.slowdown * SHARES.reduce(step.units[0].gradients, ranks, network)
    waited = SHARES.exposed(step, ranks, network)
    rounding = TINY * (most + step.total)
    assert least - rounding <= waited <= most + rounding


@given(steps, networks)
def test_one_rank_waits_for_nobody(step: Any, network: Any) -> None:
    assert MODEL.exposed(step, 1, network) == 0
    assert MODEL.seconds(step, 1, network) == step.total


@given(steps, networks, worlds, st.floats(1, 1000))
def test_a_better_network_is_never_slower(
    step: Any, network: Any, ranks: int, factor: float
) -> None:
    before = MODEL.seconds(step, ranks, network)
    for better in (
        {"within": faster(network.within, factor), "between": faster(network.between, factor)},
        {"wire": network.wire / 2},
        {"slowdown": 1.0},
        {"algorithm": "auto"},
    ):
        after = MODEL.seconds(step, ranks, dataclasses.replace(network, **better))
        assert after <= before + TINY * step.total


def faster(link: Any, factor: float) -> Any:
    return dataclasses.replace(
        link, latency=link.latency / factor, bandwidth=link.bandwidth * factor
    )


@given(steps, networks, worlds)
def test_more_nodes_wait_longer(step: Any, network: Any, ranks: int) -> None:
    """Within the ring over equal links: ranks beyond those of one node change the kind of links."""
    ring = dataclasses.replace(network, algorithm="ring", within=network.between)
    more, fewer = (MODEL.exposed(step, count, ring) for count in (ranks + 1, ranks))
    assert more >= fewer - TINY * MODEL.seconds(step, ranks, ring)


@given(steps, networks, worlds)
def test_the_wait_lies_between_the_last_bucket_and_all(step: Any, network: Any, ranks: int) -> None:
    filled = MODEL.buckets(step.gradients, network.bucket)
    assert sum(size for _, size in filled) == sum(size for _, size in step.gradients)
    times = [
        network.slowdown * MODEL.all_reduce(network.wire * size, ranks, network)
        for _, size in filled
    ]
    waited = MODEL.exposed(step, ranks, network)
    rounding = TINY * (sum(times) + max(ready for ready, _ in filled))
    assert times[-1] - rounding <= waited <= sum(times) + rounding


@pytest.mark.parametrize("mib", [0, 1, 2, 25])
@pytest.mark.usefixtures("lone_rank")
def test_buckets_are_those_of_ddp(mib: int) -> None:
    """After the first pass, which shows it the order in which gradients are ready."""
    kib = (300, 800, 100, 900, 40000, 700, 600)
    layers = nn.ModuleList(nn.Linear(256, count, bias=False) for count in kib)  # 1 KiB a row
    network = DistributedDataParallel(Sum(layers), bucket_cap_mb=mib or None)
    sizes: list[int] = []

    def look(_: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        sizes.append(bucket.buffer().nbytes)
        done = torch.futures.Future[torch.Tensor]()
        done.set_result(bucket.buffer())
        return done

    network.register_comm_hook(None, look)
    for _ in range(2):
        sizes.clear()
        network(torch.ones(1, 256)).backward()
    ready = [(place, 1024 * count) for place, count in enumerate(reversed(kib))]
    assert sizes == [size for _, size in MODEL.buckets(ready, mib * MODEL.MIB)]


class Sum(nn.Module):
    """Layers side by side, whose gradients are ready from the last to the first."""

    def __init__(self, layers: nn.ModuleList) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(())
        for layer in self.layers:
            total = total + layer(x).sum()
        return total


@pytest.fixture
def lone_rank() -> Iterator[None]:
    """A process group of one."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@given(st.integers(2, 64), links, st.integers(1, 10**6), st.integers(2, 1000))
def test_two_sizes_are_met(ranks: int, link: Any, size: int, factor: int) -> None:
    """A link that was fitted gives the times that it was fitted to."""
    ring = MODEL.Network(link, link, ranks, "ring", 1, 1.0)
    times = {s: MODEL.all_reduce(s, ranks, ring) for s in (size, size * factor)}
    found = MODEL.fit_link(ranks, times)
    again = dataclasses.replace(ring, within=found, between=found)
    for s, seconds in times.items():
        assert math.isclose(MODEL.all_reduce(s, ranks, again), seconds, rel_tol=1e-4)


@given(steps, networks, worlds, st.floats(1, 1000))
def test_the_wait_that_was_measured_is_met(
    step: Any, network: Any, ranks: int, slowdown: float
) -> None:
    waited = MODEL.exposed(step, ranks, dataclasses.replace(network, slowdown=slowdown))
    found = MODEL.fit_slowdown(step, ranks, network, waited)
    again = MODEL.exposed(step, ranks, dataclasses.replace(network, slowdown=found))
    assert math.isclose(again, waited, rel_tol=1e-6, abs_tol=TINY * MODEL.seconds(step, 1, network))


@pytest.mark.parametrize(
    ("chosen", "remedy"),
    [(PLAIN, "ddp.compress=bf16"), (SHARDED, "fsdp.reshard_after_forward=false")],
    ids=["ddp", "fsdp"],
)
def test_the_command_measures_predicts_and_draws(
    chosen: Answers, remedy: str, tmp_path: Path, forked: Path
) -> None:
    """Two worlds of this machine; over a network that is given, and one that is worse."""
    answers = completed(chosen)
    template.write(answers, tmp_path)
    (tmp_path / "data").mkdir()
    overrides = settings(answers, tmp_path / "data")
    before = set(tmp_path.iterdir())
    names = ["scaling.json", "scaling.png"]
    options = ["--processes=2", "--ranks=64", "--ranks-per-node=8", "--bandwidth=0.001"]
    command = [forked / "python", "-m", "tools.scaling", f"--json={names[0]}", *options, *overrides]
    run = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    new = {path.name for path in set(tmp_path.iterdir()) - before}
    assert new - {"__pycache__"} == set(names), "no run was begun"
    found = json.loads((tmp_path / names[0]).read_text())
    rows = found["rows"]
    assert [row["ranks"] for row in rows] == [2**n for n in range(15)]
    assert [row["measured"] for row in rows] == [True] * 2 + [False] * 13
    for row in rows:
        parts = [row[name] for name in ("compute", "host", "data", "waited")]
        assert math.isclose(sum(parts), row["step"], rel_tol=1e-6)
        assert min(parts) >= 0
    assert rows[0]["waited"] == 0
    assert rows[2]["waited"] < rows[4]["waited"] < rows[-1]["waited"]
    assert found["beyond"]["between"]["bandwidth"] == 1e6
    assert remedy in run.stdout, "on such a network bytes are what counts"

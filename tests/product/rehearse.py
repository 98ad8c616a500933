"""In place of a program's train.py: its steps on the pretended device, as one rank of several.

A window, an evaluation, a save, a restore, and another window; with a watch, two, of which the last
ends at a log point. Ends with what was wrong, else writes the collectives of this rank to a file.
"""

import inspect
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import config
import data
import optim
import steps
import torch
import torch.distributed as dist
import train_as_written as train
from engine import distributed, loading, report
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils import _pytree as pytree

from product import pretended


def main() -> None:
    """Rehearse."""
    kept = pretended.install()
    rank, size = int(os.environ["PRETENDED_RANK"]), int(os.environ["PRETENDED_WORLD"])
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=size)
    cfg = config.load(config.DEFAULTS, sys.argv[1:])
    process = distributed.Process(rank, rank % 2, size, torch.device(pretended.NAME, 0))
    loading.prepare(cfg.data)
    splits, batches = data.open_splits(cfg.data), loading.plan(cfg.train, size)
    loaders = loading.build(splits, cfg, process, batches)
    with pretended.Machine() as machine:
        state = train.start_state(cfg, splits.shape, process)
        state.model.register_comm_hook(machine, reduce)
        schedule = optim.schedule(cfg.optim, 1e-3, 10, process.device)
        machine.waits.clear()  # those before the first step
        window(state, loaders, cfg, process, schedule)
        assert not machine.waits, f"the host waits in a step: {machine.waits}"
        steps.evaluate(state.model, loaders.val, process.device)
        assert len(machine.waits) < 3, f"the host waits in an evaluation: {machine.waits}"
        if hasattr(loaders, "sample"):
            steps.fix_buckets(state.model, loaders.sample, process.device)
        else:  # in its second forward DDP orders its buckets anew, once, and waits
            window(state, loaders, cfg, process, schedule)
        if hasattr(state, "snapshot"):
            restore(state, process)
        watch = watched(state, cfg, process)
        machine.waits.clear()
        window(state, loaders, cfg, process, schedule, watch)
        assert not machine.waits, f"the host waits in a step: {machine.waits}"
        if watch:
            log_point(machine, lambda: window(state, loaders, cfg, process, schedule, watch))
    parameters = list(state.model.parameters())
    assert all(torch.isfinite(p.held).all() for p in parameters)
    Path(f"collectives-{rank}.json").write_text(json.dumps(machine.collectives))
    assert kept


def reduce(
    machine: pretended.Machine, bucket: dist.GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """In place of an all-reduce, whose result DDP would take from the CPU."""
    values = bucket.buffer()
    machine.collectives.append(f"gradients {values.dtype}{list(values.shape)}")
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(values)
    return done


def watched(state, cfg, process) -> Any:
    """What watches over the run, if there is something: made as in train.fit."""
    if not hasattr(train, "Watch"):
        return None
    if waiting := sys.modules.get("engine.watch.waiting"):
        waiting.Look.store = lambda _: dist.HashStore()
    reporter = report.Reporter(cfg, process, Path(), 10)
    given = {"reporter": reporter, "per_epoch": 10, "state": state}
    names = inspect.signature(train.Watch).parameters
    return train.Watch(**{name: given[name] for name in names})


def log_point(machine: pretended.Machine, step: Callable[[], None]) -> None:
    """A step that ends at a log point: the watch knows each line in which a rank waits there."""
    step()
    assert machine.waits, "this is no log point"
    waiting = sys.modules.get("engine.watch.waiting")
    unknown = [text for text in machine.waits if waiting and not waiting.WAITS.search(text)]
    assert not unknown, f"waits that the watch takes for work: {unknown}"


def window(state, loaders, cfg, process, schedule, watch=None) -> None:
    """One optimizer step, as train.fit does it."""
    first = {"stop": lambda: False} if hasattr(loading.StepBatch, "stop") else {}
    loaders.shard.start(0, *([0] if first else []))
    source = loading.step_batches(loaders, 1, **first)
    for step_batch in watch.batches(source) if hasattr(watch, "batches") else source:
        steps.train_step(state, step_batch, cfg, process, schedule)
        if watch:
            watch.step(state)


def restore(state, process) -> None:
    """Save and load, as a file would: on the CPU."""
    sharded = "is_main" in state.snapshot.__annotations__
    content = state.snapshot(*([True] if sharded else []))
    on_cpu = pytree.tree_map(
        lambda x: x.held.clone() if isinstance(x, pretended.Pretended) else x, content
    )
    state.restore(on_cpu, process.is_main)


main()
os._exit(0)

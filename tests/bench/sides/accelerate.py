"""(c) Hugging Face Accelerate, written as its guide does."""

import os
from pathlib import Path
from typing import Any

import model
import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from torch.utils.data import DataLoader

from bench.cases import LOG_EVERY, received
from bench.clock import Clock
from bench.sides.project import Parts, as_is, mean_loss

task = received()
clock = Clock(task)


def evaluate(accelerator: Accelerator, network: Any, batches: Any) -> list[float]:
    """The mean of every metric over all ranks."""
    network.eval()
    gathered: list[torch.Tensor] = []
    count = 0
    for inputs, targets in batches:
        with torch.no_grad():
            outputs = network(inputs)
        values = torch.stack(list(model.metric_sums(outputs, targets).values()))
        gathered.append(accelerator.gather_for_metrics(values[None]))
        count += targets.numel() * accelerator.num_processes
    network.train()
    return list((torch.cat(gathered).sum(0) / count).tolist())


def sharding() -> FullyShardedDataParallelPlugin:
    """FSDP2, block by block."""
    return FullyShardedDataParallelPlugin(
        fsdp_version=2,
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=[model.BLOCK.__name__],
        state_dict_type="SHARDED_STATE_DICT",
    )


def main() -> None:
    """Train."""
    accelerator = Accelerator(
        cpu=not torch.cuda.is_available(),
        mixed_precision="bf16" if task.amp else "no",
        fsdp_plugin=sharding() if task.sharded else None,
    )
    if task.sharded and not accelerator.is_fsdp2:
        raise SystemExit("on CPUs Accelerate takes DDP, and says nothing")
    parts = Parts(task)
    optimizer = parts.optimizer()
    # Not prepared: it would be stepped once for every rank.
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, parts.schedule(task.steps))
    train = DataLoader(parts.train, task.micro_batch, shuffle=True, collate_fn=as_is)
    val = DataLoader(parts.val, task.micro_batch, collate_fn=as_is)
    network, optimizer, train, val = accelerator.prepare(parts.model, optimizer, train, val)
    accelerator.register_for_checkpointing(scheduler)
    clock.ready()
    for step, batch in enumerate(train, start=1):
        loss = mean_loss(network, batch)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(network.parameters(), parts.cfg.train.clip_norm)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        clock.step()
        if step % LOG_EVERY == 0:
            accelerator.print(f"step {step} loss {loss.item():.4f}", flush=True)
    clock.repeat("evaluation", lambda: evaluate(accelerator, network, val))
    folder = str(Path(task.folder) / "checkpoint")
    clock.repeat("save", lambda: accelerator.save_state(folder))
    clock.repeat("load", lambda: accelerator.load_state(folder))
    clock.close()
    accelerator.end_training()


if __name__ == "__main__":
    os.environ.setdefault("ACCELERATE_USE_CPU", str(not torch.cuda.is_available()).lower())
    main()

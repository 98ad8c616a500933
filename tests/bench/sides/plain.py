"""(b) The plainest loop that trains the same: what one writes by hand after the tutorial.

As variant "micro" it only goes forward and backward, without reduction and update; as "searched"
DDP looks for parameters without a gradient in each step. In a case that is sharded FSDP2 is in
DDP's place.
"""

import os
from pathlib import Path

import data
import model
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from bench.cases import LOG_EVERY, received
from bench.clock import Clock
from bench.sides import shared_out
from bench.sides.project import Parts, as_is

task = received()
clock = Clock(task)
cuda = torch.cuda.is_available()
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")


def loader(dataset: torch.utils.data.Dataset[data.Batch], shuffle: bool) -> DataLoader[data.Batch]:
    """This rank's share."""
    sampler: DistributedSampler[data.Batch] = DistributedSampler(dataset, shuffle=shuffle)
    return DataLoader(dataset, task.micro_batch, sampler=sampler, collate_fn=as_is, pin_memory=cuda)


def loss_of(network: nn.Module, batch: data.Batch) -> torch.Tensor:
    """The mean over this rank's micro-batch."""
    targets = batch.targets.to(device, non_blocking=True)
    with torch.autocast(device.type, torch.bfloat16, enabled=task.amp):
        outputs = network(batch.inputs.to(device, non_blocking=True))
    return model.loss_sum(outputs.float(), targets) / targets.numel()


@torch.no_grad()
def evaluate(network: nn.Module, batches: DataLoader[data.Batch]) -> list[float]:
    """The mean of every metric over all ranks."""
    network.eval()
    sums: dict[str, torch.Tensor] = {}
    count = torch.zeros((), device=device)
    for batch in batches:
        inputs, targets = (part.to(device, non_blocking=True) for part in batch)
        with torch.autocast(device.type, torch.bfloat16, enabled=task.amp):
            outputs = network(inputs)
        for name, value in model.metric_sums(outputs.float(), targets).items():
            sums[name] = sums.get(name, 0) + value
        count += targets.numel()
    network.train()
    totals = torch.stack([*sums.values(), count])
    dist.all_reduce(totals)
    return list((totals[:-1] / totals[-1]).tolist())


def wrapped(network: nn.Module) -> nn.Module:
    """By DDP or FSDP2."""
    if task.sharded:
        return shared_out.share_out(network)
    return DistributedDataParallel(
        network,
        device_ids=[device] if cuda else None,
        gradient_as_bucket_view=True,
        find_unused_parameters=task.variant == "searched",
    )


def main() -> None:
    """Train."""
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo", device_id=device if cuda else None)
    parts = Parts(task)
    train, val = loader(parts.train, shuffle=True), loader(parts.val, shuffle=False)
    network = wrapped(parts.model.to(device))
    bare = network.module if isinstance(network, DistributedDataParallel) else network
    optimizer = parts.optimizer()
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, parts.schedule(task.steps))
    clock.ready()
    for step, batch in enumerate(train, start=1):
        if task.variant == "micro":
            assert isinstance(network, DistributedDataParallel)
            with network.no_sync():
                loss_of(network, batch).backward()
            clock.step()
            continue
        loss = loss_of(network, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), parts.cfg.train.clip_norm)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad(set_to_none=True)
        clock.step()
        if step % LOG_EVERY == 0 and dist.get_rank() == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    clock.repeat("evaluation", lambda: evaluate(bare, val))
    path = Path(task.folder) / "checkpoint.pt"

    def save() -> None:
        if task.sharded:
            shared_out.save(bare, optimizer, path)
            return
        if dist.get_rank() == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
            states = (bare.state_dict(), optimizer.state_dict(), scheduler.state_dict())
            torch.save(dict(zip(("model", "optimizer", "scheduler"), states, strict=True)), path)
        dist.barrier()

    def load() -> None:
        if task.sharded:
            shared_out.load(bare, optimizer, path)
            return
        content = torch.load(path, map_location="cpu", weights_only=True)
        bare.load_state_dict(content["model"])
        optimizer.load_state_dict(content["optimizer"])
        scheduler.load_state_dict(content["scheduler"])

    clock.repeat("save", save)
    clock.repeat("load", load)
    clock.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

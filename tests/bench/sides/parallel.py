"""(e) DataParallel: one process with a thread for each GPU, as it was done before DDP.

The process of the first rank trains with the micro-batches of all ranks together; the others wait.
Without GPUs it is a plain model in one process, which only shows that this file works.
"""

import os
import sys

import model
import torch
from torch import nn
from torch.utils.data import DataLoader

from bench.cases import LOG_EVERY, received
from bench.clock import Clock
from bench.sides.project import RANKS, Parts, as_is

task = received()
cuda = torch.cuda.is_available()
device = torch.device("cuda:0" if cuda else "cpu")


def main() -> None:
    """Train."""
    if os.environ["RANK"] != "0":
        sys.stdin.read()  # until the driver ends it
        return
    clock = Clock(task)
    parts = Parts(task)
    batch = task.micro_batch * RANKS
    loader: DataLoader[tuple[torch.Tensor, torch.Tensor]] = DataLoader(
        parts.train, batch, shuffle=True, collate_fn=as_is, pin_memory=cuda
    )
    network = nn.DataParallel(parts.model.to(device))
    optimizer = parts.optimizer()
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, parts.schedule(task.steps))
    clock.ready()
    for step, (inputs, targets) in enumerate(loader, start=1):
        with torch.autocast(device.type, torch.bfloat16, enabled=task.amp):
            outputs = network(inputs.to(device, non_blocking=True))
        wanted = targets.to(device, non_blocking=True)
        loss = model.loss_sum(outputs.float(), wanted) / wanted.numel()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), parts.cfg.train.clip_norm)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad(set_to_none=True)
        clock.step()
        if step % LOG_EVERY == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    clock.close()


if __name__ == "__main__":
    main()

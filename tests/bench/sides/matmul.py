"""What the device can do: the rate of large matrix products on all ranks at once.

It also counts the model's own operations, so that the utilisation follows from both.
"""

import os

import torch
from torch.utils.flop_counter import FlopCounterMode

from bench.cases import received
from bench.clock import Clock
from bench.sides.project import Parts, mean_loss

task = received()
clock = Clock(task)


def main() -> None:
    """Count, then multiply."""
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    parts = Parts(task)
    sample = parts.train.__getitems__([0])
    with FlopCounterMode(display=False) as counter, torch.compiler.set_stance("force_eager"):
        mean_loss(parts.model, sample).backward()
    clock.tell("parameters", sum(p.numel() for p in parts.model.parameters()))
    clock.tell("units of a sample", sample.targets.numel())
    clock.tell("flops", counter.get_total_flops() * task.micro_batch)
    size = 8192 if cuda else 1024
    dtype = torch.bfloat16 if task.amp else torch.float32
    left, right = (torch.randn(size, size, dtype=dtype, device=device) for _ in range(2))
    times = 50 if cuda else 5
    clock.ready()

    def multiply() -> None:
        for _ in range(times):
            left @ right

    multiply()
    for _ in range(task.blocks):
        clock.begin()
        multiply()
        clock.end("products")
    clock.tell("flops of a burst", 2 * size**3 * times)
    clock.close()


if __name__ == "__main__":
    main()

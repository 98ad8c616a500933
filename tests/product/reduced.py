"""In place of a project's train.py: what becomes of the ranks' gradients with `ddp.compress`.

The loss is a sum of weight * x, so that x is the gradient, and what DDP leaves can be compared.
"""

import sys
from pathlib import Path

import config
import torch
import torch.distributed as dist
from engine import compression, distributed
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

SHAPES = [(512, 640), (640, 768)]  # above 1 MB: a bucket each
ROUNDING = {"none": 2.0**-24, "bf16": 2.0**-8, "fp16": 2.0**-11}
SMALLEST = {"none": 0.0, "bf16": 0.0, "fp16": 2.0**-25}  # half of the smallest float16
AFTER = 2


class Weights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.matrices = nn.ParameterList(torch.zeros(shape) for shape in SHAPES)

    def forward(self, inputs: list[Tensor]) -> Tensor:
        return sum((w * x).sum() for w, x in zip(self.matrices, inputs, strict=True))


def gradients(rank: int, step: int) -> list[Tensor]:
    """Of that rank in that step: magnitudes from 1e-3 to 1e3, both signs."""
    generator = torch.Generator().manual_seed(100 * step + rank)

    def one(shape: tuple[int, int]) -> Tensor:
        exponent = 6 * torch.rand(shape, generator=generator) - 3
        return torch.randn(shape, generator=generator) * 10**exponent

    return [one(shape) for shape in SHAPES]


def reduced(network: DistributedDataParallel, inputs: list[Tensor]) -> list[Tensor]:
    """What DDP makes of one step's gradients."""
    network.zero_grad()
    network(inputs).backward()
    return [weight.grad.double() for weight in network.module.matrices]


def rounded(network: DistributedDataParallel, process: distributed.Process, kind: str) -> None:
    """At most world + 1 roundings; what a type cannot hold becomes infinite on all ranks."""
    n, unit = process.world_size, ROUNDING[kind]
    for step in range(3):
        every = [gradients(rank, step) for rank in range(n)]
        found = reduced(network, every[process.rank])
        for at in range(len(SHAPES)):
            parts = torch.stack([of_rank[at] for of_rank in every]).double()
            error = (found[at] - parts.mean(0)).abs()
            bound = (n + 1) * (unit * parts.abs().mean(0) + SMALLEST[kind])
            assert (error <= bound).all(), (error - bound).max()
            assert (error > bound / 10).any(), "nothing was rounded"
    large = [torch.full(shape, 1e6 if process.rank else 1.0) for shape in SHAPES]
    assert bool(reduced(network, large)[0].isinf().all()) == (kind == "fp16")


def low_rank(
    network: DistributedDataParallel,
    process: distributed.Process,
    memory: compression.PowerSGDState,
) -> None:
    """What was left out is still to come: sent + kept = all gradients, since the last bad step."""
    n, bad = process.world_size, AFTER + 3
    sent = [torch.zeros(shape, dtype=torch.float64) for shape in SHAPES]
    exact = [torch.zeros(shape, dtype=torch.float64) for shape in SHAPES]
    for step in range(bad + 6):
        every = [gradients(rank, step) for rank in range(n)]
        if step == bad:
            every[-1] = [x * torch.inf for x in every[-1]]
        found = reduced(network, every[process.rank])
        kept = {error.numel(): error.double() for error in memory.error_dict.values()}
        for at, shape in enumerate(SHAPES):
            if step == bad:
                assert not found[at].isfinite().any(), "all ranks must see it"
                sent[at].zero_()
                exact[at].zero_()
                continue
            sent[at] += found[at]
            exact[at] += torch.stack([of_rank[at] for of_rank in every]).double().mean(0)
            left = kept.get(sent[at].numel(), torch.zeros(sent[at].numel(), dtype=torch.float64))
            dist.all_reduce(left)
            lost = (sent[at] + left.view(shape) / n - exact[at]).abs().max()
            assert lost < 1e-5 * exact[at].abs().max(), f"step {step}: {lost} got lost"
            small = step >= AFTER
            assert (torch.linalg.matrix_rank(found[at].float(), rtol=1e-4) <= 4) == small


def main() -> None:
    """Compare every step with the mean of the ranks' gradients."""
    cfg = config.load(Path("config.toml"), sys.argv[1:])
    with distributed.session(cfg.ddp) as process:
        network = DistributedDataParallel(Weights(), bucket_cap_mb=1)
        memory = compression.register(network, cfg.ddp)
        if memory is None:
            rounded(network, process, cfg.ddp.compress)
        else:
            low_rank(network, process, memory)


if __name__ == "__main__":
    distributed.run(main)

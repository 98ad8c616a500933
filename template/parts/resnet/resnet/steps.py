"""One optimizer step, and one evaluation."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import config
import data
import distributed
import loading
import model
import optim
import state


def forward(network: nn.Module, batch: data.Batch, device: torch.device) -> tuple[Tensor, Tensor]:
    """The network's outputs and the targets, both on the device."""
    inputs = batch.inputs.to(device, non_blocking=True)
    targets = batch.targets.to(device, non_blocking=True)
    with torch.autocast(device.type, torch.bfloat16):
        outputs = network(inputs)
    return outputs.float(), targets  # losses add up many small numbers: in float32


def train_step(
    now: state.TrainState,
    window: loading.Window,
    cfg: config.Config,
    ranks: distributed.Ranks,
    schedule: Callable[[Tensor], Tensor],
) -> None:
    """Forward, backward and update over one window; the host waits for nothing."""
    # All that is drawn at random in a step follows from its place, so a resume needs no stored RNG.
    loading.seed_all("step", cfg.run.seed, now.step, ranks.rank)
    # DDP divides the sum of the ranks' gradients by the world size: undo that, and divide once by
    # the number of targets.
    weight = ranks.world_size / max(1, window.valid)
    backward(now, window.batch, weight, ranks.device)
    update(now, cfg.train.clip_norm, schedule)
    now.valid += window.valid
    now.step += 1


def backward(now: state.TrainState, batch: data.Batch, weight: float, device: torch.device) -> None:
    """Add one micro-batch's share to the gradients, and its loss to the sum that is logged."""
    loss = model.loss_sum(*forward(now.model, batch, device))
    (loss * weight).backward()
    now.loss += loss.detach()


def update(now: state.TrainState, clip_norm: float, schedule: Callable[[Tensor], Tensor]) -> None:
    """Clip the reduced gradients and apply them; all ranks skip them if they are not finite."""
    now.norm = nn.utils.clip_grad_norm_(now.model.parameters(), clip_norm)
    now.done += optim.step(now.optimizer, now.norm, schedule(now.done))
    now.optimizer.zero_grad(set_to_none=True)


@torch.no_grad()
def evaluate(
    network: DistributedDataParallel, loader: DataLoader[data.Batch], device: torch.device
) -> dict[str, float]:
    """The validation metrics over all ranks' samples, each counted once.

    It goes around DDP, whose forward may communicate, so that it can be called anywhere.
    """
    distributed.share_buffers(network)
    network.eval()
    sums: dict[str, Tensor] = {}
    valid = torch.zeros((), dtype=torch.float64, device=device)
    for batch in loader:
        outputs, targets = forward(network.module, batch, device)
        for name, value in model.metric_sums(outputs, targets).items():
            sums[name] = sums.get(name, torch.zeros_like(valid)) + value
        valid += data.valid(targets).sum()
    network.train()
    totals = distributed.sum_over_ranks(torch.stack([*sums.values(), valid]))
    return dict(zip(sums, (totals[:-1] / totals[-1]).tolist(), strict=True))

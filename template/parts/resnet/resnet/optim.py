"""Optimizer, learning-rate rule and schedule."""

import math

import torch
from torch import Tensor, nn

import config


class AdamW(torch.optim.AdamW):
    """Fused AdamW that leaves weights and moments alone when `found_inf` is 1.

    The kernel decides on the device: skipping a step costs no wait of the host.
    """

    found_inf: Tensor  # 0-dim float32, read by torch's fused kernels


Optimizer = AdamW


def build(model: nn.Module, cfg: config.Optim) -> Optimizer:
    """AdamW over the model's parameters, weight decay on matrices only.

    Norms, biases and other vectors are not pulled towards zero (as in GPT-2 and its successors).
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": cfg.weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    betas = (cfg.beta1, cfg.beta2)
    return AdamW(groups, lr=cfg.lr, betas=betas, fused=True)


def peak_lr(cfg: config.Optim, global_batch_size: int) -> float:
    """The learning rate after warm-up.

    Linear scaling: Goyal et al. 2017, arXiv:1706.02677; the square root for adaptive methods:
    Malladi et al. 2022, arXiv:2205.10287.
    """
    exponent = {"linear": 1.0, "sqrt": 0.5, "none": 0.0}[cfg.lr_scaling]
    return cfg.lr * float((global_batch_size / cfg.lr_batch_size) ** exponent)


def learning_rate(done: Tensor, cfg: config.Optim, peak: float, total_steps: int) -> Tensor:
    """Linear warm-up, then a cosine from `peak` to `final_lr` times it.

    `done` counts the completed optimizer steps, a 0-dim float32 tensor on the device: a skipped step
    does not advance the schedule, and the host need not know.
    """
    warm = (done + 1) / max(1, cfg.warmup_steps)
    progress = (done - cfg.warmup_steps) / max(1, total_steps - cfg.warmup_steps)
    cosine = (1 + torch.cos(math.pi * progress.clamp(0, 1))) / 2
    return peak * torch.minimum(warm, cfg.final_lr + (1 - cfg.final_lr) * cosine)


def step(optimizer: Optimizer, norm: Tensor, lr: Tensor) -> Tensor:
    """One optimizer step, or none where the gradient's norm is not finite.

    The norm is of reduced gradients, so it is the same on all ranks and they decide alike.
    Returns 1 on the device if the step was done, else 0.
    """
    for group in optimizer.param_groups:
        group["lr"] = lr
    finite = norm.isfinite()
    optimizer.found_inf = (~finite).float()
    optimizer.step()
    return finite.float()

"""What all sides share: the project's model, data and config, in the sizes of the task."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import config
import data
import model
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from bench.cases import Task

RANKS = int(os.environ["WORLD_SIZE"])


def first_only(function: Callable[..., Any]) -> Callable[..., Any]:
    """What the function gave the first time, whatever it is asked for."""
    results: list[Any] = []

    def answer(*arguments: Any) -> Any:
        if not results:
            results.append(function(*arguments))
        return results[0]

    return answer


class Sized(Dataset[Any]):
    """As many samples as a task needs, the split's own again and again; a batch at a time."""

    def __init__(self, split: Any, count: int, fixed: bool = False) -> None:
        self.count, self.size = count, len(split)
        self.read = first_only(split.__getitems__) if fixed else split.__getitems__

    def __len__(self) -> int:
        return self.count

    def __getitems__(self, indices: list[int]) -> Any:
        return self.read([index % self.size for index in indices])


class Windows(Dataset[Any]):
    """What the generated GPT reads as a stream: windows at random places, by their number."""

    def __init__(self, split: Any) -> None:
        self.split = split
        self.tokens = split.tokens
        places = len(self.tokens) - split.window
        generator = torch.Generator().manual_seed(0)
        self.starts = torch.randint(places, (len(split),), generator=generator)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitems__(self, indices: list[int]) -> Any:
        starts = self.starts[torch.tensor(indices)]
        return data.cut(self.tokens, starts, self.split.window)


def sized(splits: Any, task: Task) -> Any:
    """Splits of one long epoch, and of as many validation batches as the task says."""
    splits = splits._replace(val=Sized(splits.val, task.evaluated * task.micro_batch * RANKS))
    fixed = task.variant == "fixed"
    if hasattr(splits.train, "windows"):  # tokens are drawn, so any number is there
        data.cut = first_only(data.cut) if fixed else data.cut
        return splits
    samples = task.steps * config.load(Path("config.toml"), task.overrides).train.global_batch_size
    return splits._replace(train=Sized(splits.train, samples, fixed))


class Parts:
    """What a loop is made of, before any library or loop has touched it."""

    def __init__(self, task: Task) -> None:
        self.cfg = config.load(Path("config.toml"), task.overrides)
        torch.set_float32_matmul_precision(self.cfg.run.matmul_precision)
        torch.manual_seed(self.cfg.run.seed)
        splits = sized(data.open_splits(self.cfg.data), task)
        self.train: Dataset[Any] = splits.train
        if hasattr(splits.train, "windows"):
            self.train = Windows(splits.train)
        self.val: Dataset[Any] = splits.val
        self.model = model.build(self.cfg.model, splits.shape)
        if self.cfg.run.compile:
            self.model.compile()

    def optimizer(self) -> torch.optim.Optimizer:
        """Fused AdamW, weight decay on matrices only."""
        optim, parameters = self.cfg.optim, list(self.model.parameters())
        groups = [
            {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": optim.weight_decay},
            {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=optim.lr, betas=(optim.beta1, optim.beta2), fused=True)

    def schedule(self, steps: int) -> Callable[[int], float]:
        """Warm-up and cosine, as a factor."""
        warmup, final = self.cfg.optim.warmup_steps, self.cfg.optim.final_lr

        def factor(step: int) -> float:
            progress = min(1.0, max(0.0, (step - warmup) / max(1, steps - warmup)))
            cosine = final + (1 - final) * (1 + math.cos(math.pi * progress)) / 2
            return min((step + 1) / max(1, warmup), cosine)

        return factor


def as_is(batch: Any) -> Any:
    """Collate nothing: the data sets give whole batches."""
    return batch


def mean_loss(network: nn.Module, batch: Any) -> Tensor:
    """The loss per target, as most loops take it."""
    inputs, targets = batch
    return model.loss_sum(network(inputs), targets) / targets.numel()

"""The one object that survives a restart."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

import distributed
import optim


@dataclass
class TrainState:
    """Everything that training changes. Its place in the data follows from `step` alone."""

    model: DistributedDataParallel
    optimizer: optim.Optimizer
    done: Tensor  # completed optimizer steps, 0-dim float32 on the device
    loss: Tensor  # this rank's sum since the last log point, 0-dim float64 on the device
    norm: Tensor  # gradient norm of the last step, 0-dim on the device
    valid: int = 0  # targets of all ranks in `loss`
    step: int = 0  # optimizer steps, skipped ones included
    best: float = math.inf  # lowest validation loss
    best_step: int = 0

    def snapshot(self) -> dict[str, Any]:
        """Tensors and plain values only, so that loading needs no unpickling of code.

        Every rank must call it: parts are summed or gathered. Rank 0 gets the whole.
        """
        return {
            # The bare model's names: the file loads without DDP too.
            "model": self.model.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "done": self.done,
            "loss": distributed.sum_over_ranks(self.loss.clone()),
            "valid": self.valid,
            "step": self.step,
            "best": self.best,
            "best_step": self.best_step,
        }

    def restore(self, snapshot: dict[str, Any], is_main: bool) -> None:
        """Continue from a snapshot, on any number of ranks."""
        self.model.module.load_state_dict(snapshot["model"])
        self.optimizer.load_state_dict(snapshot["optimizer"])
        self.done.copy_(snapshot["done"])
        # The sum over all ranks goes on as one rank's part.
        self.loss.copy_(snapshot["loss"] if is_main else torch.zeros(()))
        self.valid = snapshot["valid"]
        self.step = snapshot["step"]
        self.best = snapshot["best"]
        self.best_step = snapshot["best_step"]

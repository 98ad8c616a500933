"""A residual network for tables that predicts a quantity or a class, and its loss."""

import math
# {% if dynamic_graph %}
import random
# {% endif %}

import torch
import torch.nn.functional as F
from torch import Tensor, nn
# {% if activation_checkpointing %}
from torch.utils.checkpoint import checkpoint
# {% endif %}

import config
import data

NO_CLASS = -100  # what F.cross_entropy leaves out


class Block(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 2 * width)
        self.narrow = nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = self.dropout(self.narrow(F.gelu(self.widen(self.norm(x)))))
        return x + added


# {% if sharded %}
BLOCK = Block  # a module whose weights are gathered, used and freed together


# {% endif %}
class TableNet(nn.Module):
    """Numbers and categories of rows to one quantity each [B], or to logits [B, classes]."""

    def __init__(self, cfg: config.Model, shape: data.Shape) -> None:
        super().__init__()
        self.unit = shape.unit
        self.stem = nn.Linear(shape.numbers, cfg.width)
        # The same as one column of zeros and ones per value, and a linear layer. 0 is an unknown
        # value: its weights are zeros, and stay so.
        self.values = nn.Embedding(shape.values, cfg.width, padding_idx=0)
        self.blocks = nn.ModuleList(Block(cfg.width, cfg.dropout) for _ in range(cfg.depth))
        self.norm = nn.LayerNorm(cfg.width)
        self.head = nn.Linear(cfg.width, shape.outputs)
        # {% if dynamic_graph %}
        self.layer_drop = cfg.layer_drop
        # {% endif %}

    def forward(self, numbers: Tensor, categories: Tensor) -> Tensor:
        x = self.stem(numbers) + self.values(categories).sum(1)
        for block in self.blocks:
            # {% if dynamic_graph %}
            # The host draws, so that no device is waited for, and before any recomputation.
            if self.training and random.random() < self.layer_drop:
                continue
            # {% endif %}
            # {% if activation_checkpointing %}
            x = checkpoint(block, x, use_reentrant=False)
            # {% else %}
            x = block(x)
            # {% endif %}
        outputs: Tensor = self.head(self.norm(x))
        return outputs.squeeze(-1){{ ".clone()  # FSDP hooks into outputs: no view" if sharded else "" }}


def build(cfg: config.Model, shape: data.Shape) -> TableNet:
    """The model on the CPU, weights drawn from torch's global generator."""
    return TableNet(cfg, shape)


def loss_sum(outputs: Tensor, targets: Tensor) -> Tensor:
    """Squared errors of quantities, cross-entropy of classes; summed over targets that count."""
    if outputs.ndim == 1:
        return _errors(outputs, targets).square().sum()
    classes = torch.where(data.counts(targets), targets, NO_CLASS).long()
    return F.cross_entropy(outputs, classes, ignore_index=NO_CLASS, reduction="sum")


def metric_sums(outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """Sums over the targets that count; `steps.py` divides them by the targets of all ranks."""
    loss = loss_sum(outputs, targets)
    if outputs.ndim == 1:
        return {"loss": loss, "mae": _errors(outputs, targets).abs().sum()}
    return {"loss": loss, "accuracy": (outputs.argmax(-1) == targets).sum()}


def in_units(means: dict[str, float], network: {{ 'nn.Module' if sharded else 'TableNet' }}) -> dict[str, float]:
    """The averages of an evaluation, with the errors of a quantity in its own unit."""
    if "mae" not in means:
        return means
    # {% if sharded %}
    assert isinstance(network, TableNet)  # FSDP's class of the wrapped model is one
    # {% endif %}
    rmse = math.sqrt(means["loss"])
    return {**means, "mae": network.unit * means["mae"], "rmse": network.unit * rmse}


def _errors(outputs: Tensor, targets: Tensor) -> Tensor:
    """Predicted minus true, 0 where the target does not count."""
    # Targets that do not count are replaced before the loss is computed: masked afterwards, the
    # gradient of most formulas would still be NaN.
    return outputs - torch.where(data.counts(targets), targets, outputs.detach())

"""A residual multi-layer perceptron for tables, and its loss."""

# {% if dynamic_graph %}
import random

# {% endif %}
import torch.nn.functional as F
from torch import Tensor, nn
# {% if activation_checkpointing %}
from torch.utils.checkpoint import checkpoint
# {% endif %}

import config
import data


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
class MLP(nn.Module):
    """Rows [B, features] float32 to logits [B, classes]."""

    def __init__(self, cfg: config.Model, shape: data.Shape) -> None:
        super().__init__()
        self.stem = nn.Linear(shape.features, cfg.width)
        self.blocks = nn.ModuleList(Block(cfg.width, cfg.dropout) for _ in range(cfg.depth))
        self.norm = nn.LayerNorm(cfg.width)
        self.head = nn.Linear(cfg.width, shape.classes)
        # {% if dynamic_graph %}
        self.layer_drop = cfg.layer_drop
        # {% endif %}

    def forward(self, inputs: Tensor) -> Tensor:
        x = self.stem(inputs)
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
        logits: Tensor = self.head(self.norm(x))
        return logits


def build(cfg: config.Model, shape: data.Shape) -> nn.Module:
    """The model on the CPU, weights drawn from torch's global generator."""
    return MLP(cfg, shape)


def loss_sum(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy, summed over the targets that count: ranks may have different numbers."""
    return F.cross_entropy(outputs, targets, ignore_index=data.IGNORE, reduction="sum")


def metric_sums(outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """Sums over the targets that count; `steps.py` divides them by the targets of all ranks."""
    hits = (outputs.argmax(-1) == targets) & data.counts(targets)
    return {"loss": loss_sum(outputs, targets), "accuracy": hits.sum()}

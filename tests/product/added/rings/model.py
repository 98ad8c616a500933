"""Some layers, and their loss."""

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


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + F.gelu(self.linear(x))


# {% if sharded %}
BLOCK = Layer  # a module whose weights are gathered, used and freed together


# {% endif %}
class Classifier(nn.Module):
    """Points [B, 2] float32 to logits [B, classes]."""

    def __init__(self, cfg: config.Model, shape: data.Shape) -> None:
        super().__init__()
        self.stem = nn.Linear(2, cfg.width)
        self.layers = nn.ModuleList(Layer(cfg.width) for _ in range(2))
        self.head = nn.Linear(cfg.width, shape.classes)
        # {% if dynamic_graph %}
        self.layer_drop = cfg.layer_drop
        # {% endif %}

    def forward(self, inputs: Tensor) -> Tensor:
        x = F.gelu(self.stem(inputs))
        # {% if dynamic_graph %}
        # The host draws, so that no device is waited for, and before any recomputation.
        if not self.training or random.random() >= self.layer_drop:
            x = self.deepened(x)
        # {% else %}
        x = self.deepened(x)
        # {% endif %}
        logits: Tensor = self.head(x)
        return logits

    def deepened(self, x: Tensor) -> Tensor:
        """The layers' output."""
        for layer in self.layers:
            # {% if activation_checkpointing %}
            x = checkpoint(layer, x, use_reentrant=False)
            # {% else %}
            x = layer(x)
            # {% endif %}
        return x


def build(cfg: config.Model, shape: data.Shape) -> nn.Module:
    """The model on the CPU, weights drawn from torch's global generator."""
    return Classifier(cfg, shape)


def loss_sum(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy, summed over the targets that count: ranks may have different numbers."""
    return F.cross_entropy(outputs, targets, ignore_index=data.IGNORE, reduction="sum")


def metric_sums(outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """Sums over the targets that count; the caller divides by the number of all ranks."""
    hits = (outputs.argmax(-1) == targets) & data.counts(targets)
    return {"loss": loss_sum(outputs, targets), "accuracy": hits.sum()}

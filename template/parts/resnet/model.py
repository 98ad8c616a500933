"""A residual convolutional network (He et al., 2016) of any width and depth, and its loss."""

# {% if dynamic_graph %}
import random
# {% endif %}
# {% if activation_checkpointing and batch_norm != 'group' %}
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
# {% endif %}
# {% if dynamic_graph or (activation_checkpointing and batch_norm != 'group') %}

# {% endif %}
import torch
import torch.nn.functional as F
from torch import Tensor, nn
# {% if activation_checkpointing %}
from torch.utils.checkpoint import checkpoint
# {% endif %}

import config
import data


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    """A convolution that only its stride makes smaller; the norm behind it brings the bias."""
    # {# ZeroRedundancyOptimizer lays weights side by side, in the strides that they have here. #}
    # {% if sharding == 'zero1' %}
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    # {% else %}
    layer = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    if 1 in (inputs, kernel):  # the same order in memory, and the strides that its gradient has
        strides = (inputs * kernel**2, 1, inputs * kernel, inputs)
        layer.weight.data = layer.weight.data.as_strided(layer.weight.shape, strides)
    return layer
    # {% endif %}


# {% if batch_norm == 'group' %}
def norm(channels: int) -> nn.GroupNorm:
    """Normalises each sample by itself, 16 channels at a time (Wu and He, 2018)."""
    return nn.GroupNorm(channels // 16, channels)
# {% else %}
def norm(channels: int) -> nn.BatchNorm2d:
    """Normalises each channel over the batch{{ '; the wrap makes it one of all ranks' if batch_norm == 'sync' else ' of this rank' }}."""
    return nn.BatchNorm2d(channels)
# {% endif %}


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = conv(inputs, outputs, 3, stride)
        self.norm1 = norm(outputs)
        self.conv2 = conv(outputs, outputs, 3)
        self.norm2 = norm(outputs)
        # Each block begins as its shortcut, so that depth does no harm (Goyal et al., 2017).
        nn.init.zeros_(self.norm2.weight)
        self.keeps_shape = inputs == outputs and stride == 1
        self.shortcut = (
            nn.Identity()
            if self.keeps_shape
            else nn.Sequential(conv(inputs, outputs, 1, stride), norm(outputs))
        )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.shortcut(x) + self.norm2(self.conv2(y)))


# {% if sharded %}
BLOCK = Block  # a module whose weights are gathered, used and freed together


# {% endif %}
class ResNet(nn.Module):
    """Images [B, channels, height, width] uint8 to logits [B, classes]."""

    def __init__(self, cfg: config.Model, shape: data.Shape) -> None:
        super().__init__()
        kernel = max(3, 2 * cfg.stem_stride - 1)
        self.stem = conv(shape.channels, cfg.width, kernel, cfg.stem_stride)
        self.norm = norm(cfg.width)
        self.blocks = nn.ModuleList()
        channels = cfg.width
        for stage, depth in enumerate(cfg.stages):
            for place in range(depth):
                outputs = cfg.width * 2**stage
                self.blocks.append(Block(channels, outputs, 2 if stage and not place else 1))
                channels = outputs
        self.head = nn.Linear(channels, shape.classes)
        # {% if dynamic_graph %}
        self.layer_drop = cfg.layer_drop
        # {% endif %}

    def forward(self, inputs: Tensor) -> Tensor:
        # Bytes travel to the device, and become numbers from -1 to 1 there, channel beside channel
        # for each pixel: convolutions in half precision are fastest so.
        pixels = inputs.contiguous(memory_format=torch.channels_last).type_as(self.stem.weight)
        x = F.relu(self.norm(self.stem(pixels / 127.5 - 1)))
        for block in self.blocks:
            # {% if dynamic_graph %}
            # The host draws, so that no device is waited for, and before any recomputation.
            if self.training and block.keeps_shape and random.random() < self.layer_drop:
                continue
            # {% endif %}
            # {% if activation_checkpointing %}
            x = run_and_forget(block, x)
            # {% else %}
            x = block(x)
            # {% endif %}
        logits: Tensor = self.head(x.mean((2, 3)))
        return logits


# {% if activation_checkpointing and batch_norm == 'group' %}
def run_and_forget(block: nn.Module, x: Tensor) -> Tensor:
    """The block's output; what is inside it is computed once more in the backward pass."""
    output: Tensor = checkpoint(block, x, use_reentrant=False)
    return output


# {% endif %}
# {% if activation_checkpointing and batch_norm != 'group' %}
def run_and_forget(block: nn.Module, x: Tensor) -> Tensor:
    """The block's output; what is inside it is computed once more in the backward pass."""
    options: dict[str, Any] = {}
    if not torch.compiler.is_compiling():  # torch.compile takes care of statistics itself
        options["context_fn"] = lambda: (nullcontext(), same_statistics(block))
    output: Tensor = checkpoint(block, x, use_reentrant=False, **options)
    return output


@contextmanager
def same_statistics(block: nn.Module) -> Iterator[None]:
    """Without this the recomputation would count each batch twice in the running statistics."""
    norms = [m for m in block.modules() if isinstance(m, nn.BatchNorm2d | nn.SyncBatchNorm)]
    before = [(module.momentum, module.num_batches_tracked) for module in norms]
    for module in norms:
        module.momentum, module.num_batches_tracked = 0.0, torch.tensor(0)
    try:
        yield
    finally:  # the recomputation ends with an exception, once it has what it needs
        for module, (momentum, number) in zip(norms, before, strict=True):
            module.momentum, module.num_batches_tracked = momentum, number


# {% endif %}
def build(cfg: config.Model, shape: data.Shape) -> nn.Module:
    """The model on the CPU, weights drawn from torch's global generator."""
    # {% if batch_norm == 'group' %}
    if cfg.width % 16:
        raise config.ConfigError(f"model.width = {cfg.width} must be a multiple of 16")
    # {% endif %}
    return ResNet(cfg, shape)


def loss_sum(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy, summed over the targets that count: ranks may have different numbers."""
    return F.cross_entropy(outputs, targets, ignore_index=data.IGNORE, reduction="sum")


def metric_sums(outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """Sums over the targets that count; `steps.py` divides them by the targets of all ranks."""
    hits = (outputs.argmax(-1) == targets) & data.counts(targets)
    return {"loss": loss_sum(outputs, targets), "accuracy": hits.sum()}

"""Your model and its loss. The example is a small residual network that predicts one number.

{{ wrapper | upper }} demands the following, and tests/test_contract.py checks them:
- Every rank builds the same modules in the same order, and `forward` does the same work on each:
  no condition on the rank, and none on the values of a batch.
# {% if dynamic_graph %}
- A parameter may miss its gradient in some steps, if the decision is made on the host, as below.
# {% elif sharded %}
- Every parameter takes part in every forward, on all ranks alike: they gather the weights of each
  block together, and a rank that left a block out would leave the others waiting.
- `BLOCK` is the class of the modules that repeat, and most weights are in them. A parameter belongs
  to one block only, and has a dimension.
# {% else %}
- Every parameter takes part in every forward. Without a gradient for one of them, DDP would wait
  for it; if that is what you want, generate the project with dynamic_graph.
# {% endif %}
- Weights are real numbers of known shapes, with dense gradients: no lazy modules, no sparse=True.
- `forward` returns one tensor, the sample first: several outputs are laid side by side, and
  `loss_sum` takes them apart.
# {% if sharded %}
- `forward` changes no buffer: ranks would not share them.
# {% elif batch_norm == 'group' %}
- `forward` changes no buffer: ranks share buffers with batch_norm=sync and batch_norm=local alone.
# {% endif %}
- `loss_sum` and `metric_sums` are sums over the targets that count, never means: ranks may have
  different numbers of targets, and the caller divides once by the number of all ranks.
- Mask with `torch.where`, not by boolean indexing: a shape that depends on values makes the host
  wait for the GPU in every step.
- A shared parameter is one tensor used twice, never a copy; new tensors in `forward` are made on
  the device of its input.
"""

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


# {% if batch_norm == 'group' %}
def norm(width: int) -> nn.GroupNorm:
    """Normalises each sample by itself, 8 features at a time."""
    return nn.GroupNorm(width // 8, width)
# {% else %}
def norm(width: int) -> nn.BatchNorm1d:
    """Normalises each feature over the batch{{ '; the wrap makes it one of all ranks' if batch_norm == 'sync' else ' of this rank' }}."""
    return nn.BatchNorm1d(width)
# {% endif %}


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.norm = norm(width)

    def forward(self, x: Tensor) -> Tensor:
        return x + F.relu(self.norm(self.linear(x)))


# {% if sharded %}
BLOCK = Block  # a module whose weights are gathered, used and freed together


# {% endif %}
class Regressor(nn.Module):
    """Rows [B, features] float32 to one number each [B]."""

    def __init__(self, cfg: config.Model, shape: data.Shape) -> None:
        super().__init__()
        self.stem = nn.Linear(shape.features, cfg.width)
        self.blocks = nn.ModuleList(Block(cfg.width) for _ in range(cfg.depth))
        self.head = nn.Linear(cfg.width, 1)
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
            x = run_and_forget(block, x)
            # {% else %}
            x = block(x)
            # {% endif %}
        # {% if sharded %}
        predicted: Tensor = self.head(x).squeeze(-1).clone()  # FSDP hooks into outputs: no view
        # {% else %}
        predicted: Tensor = self.head(x).squeeze(-1)
        # {% endif %}
        return predicted


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
    norms = [m for m in block.modules() if isinstance(m, nn.BatchNorm1d | nn.SyncBatchNorm)]
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
    if cfg.width % 8:
        raise config.ConfigError(f"model.width = {cfg.width} must be a multiple of 8")
    # {% endif %}
    return Regressor(cfg, shape)


def loss_sum(outputs: Tensor, targets: Tensor) -> Tensor:
    """Squared errors, summed over the targets that count."""
    return _errors(outputs, targets).square().sum()


def metric_sums(outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """Sums over the targets that count; `steps.py` divides them by the targets of all ranks."""
    absolute = _errors(outputs, targets).abs().sum()
    return {"loss": loss_sum(outputs, targets), "absolute_error": absolute}


def _errors(outputs: Tensor, targets: Tensor) -> Tensor:
    """Predicted minus true, 0 where the target does not count."""
    # Targets that do not count are replaced before the loss is computed: masked afterwards, the
    # gradient of most formulas would still be NaN.
    return outputs - torch.where(data.counts(targets), targets, outputs.detach())

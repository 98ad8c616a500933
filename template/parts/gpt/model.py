"""A GPT: pre-norm blocks, rotary positions, and one tensor for embedding and output."""

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

ROWS = 128  # the output matrix has a multiple of these


def turns(length: int, features: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Cosine and sine of the angles of rotary positions [length, features / 2] (Su et al., 2021).

    Pairs of features turn by position * frequency. Computed once in each forward, for all layers,
    and not kept in a buffer{{ '' if sharded else ', which DDP would send to all ranks at each forward' }}.
    """
    steps = torch.arange(features // 2, device=device, dtype=torch.float32)
    position = torch.arange(length, device=device, dtype=torch.float32)
    angle = torch.outer(position, 10_000.0 ** (-2 * steps / features))
    return angle.cos(), angle.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn x [batch, heads, length, features]; the result has the same shape and dtype."""
    first, second = x.chunk(2, dim=-1)  # times float32: at least that precise
    return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1).type_as(x)


class Attention(nn.Module):
    def __init__(self, cfg: config.Model) -> None:
        super().__init__()
        self.heads, self.dropout = cfg.heads, cfg.dropout
        self.qkv = nn.Linear(cfg.width, 3 * cfg.width, bias=False)
        self.out = nn.Linear(cfg.width, cfg.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4).unbind(0)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(
            rotate(q, cos, sin), rotate(k, cos, sin), v, dropout_p=dropout, is_causal=True
        )
        joined: Tensor = self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return joined


class Block(nn.Module):
    def __init__(self, cfg: config.Model) -> None:
        super().__init__()
        self.norm_attention = nn.LayerNorm(cfg.width)
        self.attention = Attention(cfg)
        self.norm_mlp = nn.LayerNorm(cfg.width)
        self.expand = nn.Linear(cfg.width, 4 * cfg.width)
        self.out = nn.Linear(4 * cfg.width, cfg.width)
        self.dropout = nn.Dropout(cfg.dropout)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm_attention(x), cos, sin))
        added: Tensor = self.dropout(self.out(F.gelu(self.expand(self.norm_mlp(x)))))
        return x + added


# {% if sharded %}
BLOCK = Block  # a module whose weights are gathered, used and freed together


# {% endif %}
class GPT(nn.Module):
    def __init__(self, cfg: config.Model, shape: data.Shape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocabulary, cfg.width)
        self.features = cfg.width // cfg.heads  # of each head
        self.dropout = nn.Dropout(cfg.dropout)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.layers))
        self.norm = nn.LayerNorm(cfg.width)
        # {% if dynamic_graph %}
        self.layer_drop = cfg.layer_drop
        # {% endif %}
        self.apply(initialise)
        for name, weight in self.named_parameters():
            if name.endswith("out.weight"):
                # Each block adds twice to the residual stream: its variance shall not grow with
                # the depth (Radford et al., 2019).
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * cfg.layers))

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens [batch, length] int64 -> logits [batch, length, vocabulary]."""
        x = self.dropout(self.embedding(tokens))
        cos, sin = turns(tokens.size(1), self.features, tokens.device)
        if torch.compiler.is_compiling():  # in one graph, each layer would compute the angles anew
            torch._dynamo.graph_break()
        for block in self.blocks:
            # {% if dynamic_graph %}
            # The host draws, so that no device is waited for, and before any recomputation.
            if self.training and random.random() < self.layer_drop:
                continue
            # {% endif %}
            # {% if activation_checkpointing %}
            x = checkpoint(block, x, cos, sin, use_reentrant=False)
            # {% else %}
            x = block(x, cos, sin)
            # {% endif %}
        # The embedding is also the output matrix: one tensor, which {{ wrapper | upper }} reduces once.
        weight = self.embedding.weight
        # Zeros fill the matrix up: GPUs take long for a product with an odd number of rows.
        filled = F.pad(weight, (0, 0, 0, missing)) if (missing := -len(weight) % ROWS) else weight
        # {% if sharded %}
        logits = F.linear(self.norm(x), filled)
        # A copy where columns are left out: FSDP hooks into outputs, which must be no views.
        return logits[..., : len(weight)].contiguous() if missing else logits
        # {% else %}
        return F.linear(self.norm(x), filled)[..., : len(weight)]
        # {% endif %}


def initialise(module: nn.Module) -> None:
    """Normal(0, 0.02) for matrices (Radford et al., 2019); biases start at zero."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def build(cfg: config.Model, shape: data.Shape) -> nn.Module:
    """The model on the CPU, weights drawn from torch's global generator."""
    if cfg.width % (2 * cfg.heads):
        raise config.ConfigError(f"model.width = {cfg.width} must be a multiple of 2 * model.heads")
    return GPT(cfg, shape)


def loss_sum(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy in nats, summed: ranks may have different numbers of targets."""
    return F.cross_entropy(
        outputs.flatten(0, 1), targets.flatten(), ignore_index=data.IGNORE, reduction="sum"
    )


def metric_sums(outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """Sums over the targets that count; `steps.py` divides them by the targets of all ranks."""
    loss = loss_sum(outputs, targets)
    unit = "byte" if outputs.size(-1) == 256 else "token"
    return {"loss": loss, f"bits_per_{unit}": loss / math.log(2)}

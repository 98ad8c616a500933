"""DistilBERT (Sanh et al., 2019) from Hugging Face transformers, with a head for classes."""

# {% if dynamic_graph %}
import random

# {% endif %}
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
# {% if activation_checkpointing %}
from torch.utils.checkpoint import checkpoint
# {% endif %}

import config
import data


class Layer(nn.Module):
    """One of DistilBERT's layers, which return a tuple in transformers 4 and a tensor in 5."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        output = self.inner(x, mask)
        first: Tensor = output[0] if isinstance(output, tuple) else output
        return first


# {% if sharded %}
BLOCK = Layer  # a module whose weights are gathered, used and freed together


# {% endif %}
class Classifier(nn.Module):
    """Token ids [B, length] int64 to logits [B, classes]."""

    def __init__(
        self, encoder: transformers.DistilBertModel, cfg: config.Model, shape: data.Shape
    ) -> None:
        super().__init__()
        self.embeddings = encoder.embeddings
        self.layers = nn.ModuleList(Layer(layer) for layer in encoder.transformer.layer)
        self.dropout = nn.Dropout(cfg.dropout)
        self.head = nn.Linear(encoder.config.dim, shape.classes)
        self.padding = shape.padding
        # {% if dynamic_graph %}
        self.layer_drop = cfg.layer_drop
        # {% endif %}

    def forward(self, ids: Tensor) -> Tensor:
        """The layers are run one by one: the encoder's own forward asks the device for paddings.

        That would make the host wait in every step.
        """
        mask = (ids != self.padding)[:, None, None, :]  # over all heads and queries
        x = self.embeddings(ids)
        for layer in self.layers:
            # {% if dynamic_graph %}
            # The host draws, so that no device is waited for, and before any recomputation.
            if self.training and random.random() < self.layer_drop:
                continue
            # {% endif %}
            # {% if activation_checkpointing %}
            x = checkpoint(layer, x, mask, use_reentrant=False)
            # {% else %}
            x = layer(x, mask)
            # {% endif %}
        logits: Tensor = self.head(self.dropout(x[:, 0]))  # the first token stands for the text
        return logits


def build(cfg: config.Model, shape: data.Shape) -> nn.Module:
    """The model on the CPU: pretrained, or with weights from torch's global generator."""
    transformers.logging.set_verbosity_error()  # every rank would say the same
    transformers.logging.disable_progress_bar()
    if shape.weights:
        encoder = transformers.DistilBertModel.from_pretrained(shape.weights)
        return Classifier(encoder, cfg, shape).train()  # it comes as for evaluation
    if cfg.width % cfg.heads:
        raise config.ConfigError(f"model.width = {cfg.width} must be a multiple of model.heads")
    return Classifier(transformers.DistilBertModel(encoder_config(cfg, shape)), cfg, shape)


def encoder_config(cfg: config.Model, shape: data.Shape) -> transformers.DistilBertConfig:
    """The size of the encoder: of the pretrained one, or as the config has it."""
    if shape.weights:
        return transformers.DistilBertConfig.from_pretrained(shape.weights)
    return transformers.DistilBertConfig(
        vocab_size=shape.vocabulary,
        max_position_embeddings=shape.length,
        dim=cfg.width,
        hidden_dim=4 * cfg.width,
        n_layers=cfg.layers,
        n_heads=cfg.heads,
        dropout=cfg.dropout,
        attention_dropout=cfg.dropout,
        pad_token_id=shape.padding,
    )


def loss_sum(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy, summed over the targets that count: ranks may have different numbers."""
    return F.cross_entropy(outputs, targets, ignore_index=data.IGNORE, reduction="sum")


def metric_sums(outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """Sums over the targets that count; the caller divides by the number of all ranks."""
    hits = (outputs.argmax(-1) == targets) & data.counts(targets)
    return {"loss": loss_sum(outputs, targets), "accuracy": hits.sum()}

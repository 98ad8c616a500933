"""An encoder of Hugging Face transformers with a head for classes."""

# {% if activation_checkpointing %}
import functools
# {% endif %}
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
# {% if activation_checkpointing %}
from torch.utils.checkpoint import checkpoint
# {% endif %}
from transformers import masking_utils
# {% if activation_checkpointing or sharded %}
from transformers.modeling_layers import GradientCheckpointingLayer
# {% endif %}

import config
import data
from engine import hub

# {% if sharded %}
BLOCK = GradientCheckpointingLayer  # modules whose weights are gathered, used and freed together

# {% endif %}

class Classifier(nn.Module):
    """Token ids [B, length] int64 to logits [B, classes]."""

    def __init__(self, inner: nn.Module, padding: int) -> None:
        super().__init__()
        self.inner, self.padding = inner, padding

    def forward(self, ids: Tensor) -> Tensor:
        """No text is compared with another: all tokens are of the first type, where types are."""
        logits: Tensor = self.inner(ids, attention_mask=(ids != self.padding).long()).logits
        return logits


def build(cfg: config.Model, shape: data.Shape) -> nn.Module:
    """The model on the CPU: pretrained, or with weights from torch's global generator."""
    transformers.logging.set_verbosity_error()  # every rank would say the same
    transformers.logging.disable_progress_bar()
    transformers.AttentionMaskInterface.register("sdpa", mask)
    inner = _open(shape) if shape.weights else _begin(cfg, shape)
    # {% if activation_checkpointing %}
    recompute(inner)
    # {% endif %}
    return Classifier(inner, shape.padding).train()  # pretrained networks come as for evaluation


def mask(*arguments: Any, **options: Any) -> Tensor | None:
    """The mask of transformers, which would ask the device whether anything is masked, and wait."""
    return masking_utils.sdpa_mask(*arguments, **{**options, "allow_is_bidirectional_skip": False})


def _open(shape: data.Shape) -> Any:
    """The pretrained network, with weights in float32 whatever they were saved in.

    # {% if sharded %}
    Its head stays where it tells the same classes apart. It skips no layers: ranks gather the
    weights of each block together, and a rank that skipped one would leave the others waiting.
    # {% else %}
    Its head stays where it tells the same classes apart. It skips no layers: DDP would wait for
    their gradients.
    # {% endif %}
    """
    size = transformers.AutoConfig.from_pretrained(shape.weights, **about(shape))
    size.update({name: 0.0 for name in size.to_dict() if name.endswith("layerdrop")})
    size.use_cache = False  # for generating: a block that is computed again would store keys twice
    network, notes = transformers.AutoModelForSequenceClassification.from_pretrained(
        shape.weights,
        config=size,
        dtype="float32",
        ignore_mismatched_sizes=True,  # they are refused below, by name
        output_loading_info=True,
        local_files_only=True,
    )
    check_weights(network, notes, shape)
    if not shape.keeps_head:
        renew_head(network, shape.classes)
    network.config.pad_token_id = shape.padding  # decoders look for the last token before padding
    freeze_unused(network, shape.tokenizer)
    return network


def check_weights(network: Any, notes: dict[str, Any], shape: data.Shape) -> None:
    """Refuse weights that were drawn because the folder has none that fit, and superfluous layers.

    A new head is drawn, and a pooler: networks that filled in words before have none.
    """
    inside = "" if shape.keeps_head else f"{network.base_model_prefix}."
    mismatched = (name for name, *_ in notes["mismatched_keys"])
    for name in sorted({*notes["missing_keys"], *mismatched}):
        if name.startswith(inside) and "pooler" not in name:
            others = "".join(f", but for {other}" for other in sorted(notes["unexpected_keys"])[:1])
            raise config.ConfigError(
                f"{shape.weights} has no weights that fit for {name}{others}: write the folder "
                "anew with save_pretrained of the bare network"
            )
    hub.check_layers(shape.weights, network, notes["unexpected_keys"])


def _begin(cfg: config.Model, shape: data.Shape) -> Any:
    """A network to train from scratch: DistilBERT (Sanh et al., 2019)."""
    if cfg.width % cfg.heads:
        raise config.ConfigError(f"model.width = {cfg.width} must be a multiple of model.heads")
    size = transformers.DistilBertConfig(
        vocab_size=shape.vocabulary,
        max_position_embeddings=shape.length,
        dim=cfg.width,
        hidden_dim=4 * cfg.width,
        n_layers=cfg.layers,
        n_heads=cfg.heads,
        dropout=cfg.dropout,
        attention_dropout=cfg.dropout,
        seq_classif_dropout=cfg.dropout,
        pad_token_id=shape.padding,
        **about(shape),
    )
    return transformers.DistilBertForSequenceClassification(size)


def about(shape: data.Shape) -> dict[str, Any]:
    """What a network's config says of its classes."""
    return {
        "id2label": dict(enumerate(shape.labels)),
        "label2id": {label: number for number, label in enumerate(shape.labels)},
        "problem_type": "single_label_classification",
    }


def renew_head(network: Any, classes: int) -> None:
    """Draw the layer anew that gives the logits: it may come from as many other classes."""
    for name, part in network.named_modules():
        inside = name.startswith(f"{network.base_model_prefix}.")
        if isinstance(part, nn.Linear) and part.out_features == classes and not inside:
            part.reset_parameters()


def freeze_unused(network: nn.Module, tokenizer: str) -> None:
    """Let nobody wait for gradients that never come: of poolers, or of parts for other tasks."""
    weights = list(network.parameters())
    ids = torch.tensor([transformers.AutoTokenizer.from_pretrained(tokenizer)("a")["input_ids"]])
    logits = network(ids, attention_mask=torch.ones_like(ids)).logits
    found = torch.autograd.grad(logits.sum(), weights, allow_unused=True)
    for weight, gradient in zip(weights, found, strict=True):
        weight.requires_grad_(gradient is not None)


# {% if activation_checkpointing %}
def recompute(inner: nn.Module) -> None:
    """Let the backward pass compute again what is inside the layers that transformers marks."""
    layers = [part for part in inner.modules() if isinstance(part, GradientCheckpointingLayer)]
    if not layers:
        raise config.ConfigError(f"{type(inner).__name__} has no layers to compute again")
    for layer in layers:
        layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False)


# {% endif %}
def loss_sum(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy, summed over the targets that count: ranks may have different numbers."""
    return F.cross_entropy(outputs, targets, ignore_index=data.IGNORE, reduction="sum")


def metric_sums(outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """Sums over the targets that count; `steps.py` divides them by the targets of all ranks."""
    hits = (outputs.argmax(-1) == targets) & data.counts(targets)
    return {"loss": loss_sum(outputs, targets), "accuracy": hits.sum()}

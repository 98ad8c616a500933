"""Any image classifier of Hugging Face transformers, and its loss."""

# {% if activation_checkpointing %}
import functools
# {% endif %}
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
# {% if activation_checkpointing %}
from torch.utils.checkpoint import checkpoint
# {% endif %}
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
    """Images [B, 3, size, size] uint8 to logits [B, classes]."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, inner: nn.Module, shape: data.Shape) -> None:
        super().__init__()
        self.inner = inner
        for name, values in (("mean", shape.mean), ("deviation", shape.deviation)):
            self.register_buffer(name, torch.tensor(values).view(3, 1, 1), persistent=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """Bytes travel to the device, and become numbers around 0 there."""
        logits: Tensor = self.inner(pixel_values=(inputs - self.mean) / self.deviation).logits
        return logits

    def train(self, mode: bool = True) -> "Classifier":
        """Training mode, but for BatchNorm, which keeps the statistics of its pretraining.

        New statistics would be of few samples, and each rank would have its own.
        """
        super().train(mode)
        for part in self.modules():
            if isinstance(part, _BatchNorm):
                part.eval()
        return self


def build(cfg: config.Model, shape: data.Shape) -> nn.Module:
    """The model on the CPU: pretrained, or with weights from torch's global generator."""
    transformers.logging.set_verbosity_error()  # every rank would say the same
    transformers.logging.disable_progress_bar()
    if cfg.freeze and not shape.weights:
        raise config.ConfigError("model.freeze = true needs a network in data.pretrained")
    inner = _open(shape) if shape.weights else _begin(cfg, shape)
    # {% if activation_checkpointing %}
    recompute(inner)
    # {% endif %}
    if cfg.freeze:  # before the wrap, which would wait for gradients
        backbone(inner).requires_grad_(False)
        if not any(parameter.requires_grad for parameter in inner.parameters()):
            raise config.ConfigError(f"model.freeze: {type(inner).__name__} has no head of its own")
    # {% if not sharded %}
    for parameter in inner.parameters():
        if parameter.requires_grad and 1 in parameter.shape:
            parameter.register_hook(densely)
    # {% endif %}
    return Classifier(inner, shape).train()  # pretrained networks come as for evaluation


# {% if not sharded %}
def densely(gradient: Tensor) -> Tensor:
    """A copy of the gradient with the strides of its parameter: others would make DDP copy.

    Only dimensions of 1 have others, as in a token that stands for the whole image. A view will not
    do: of one sample, that token's gradient is a part of another's, and both would be added up.
    """
    return gradient.clone(memory_format=torch.contiguous_format)


# {% endif %}
def backbone(inner: nn.Module) -> nn.Module:
    """All but the head: what transformers calls the base model, else the largest part."""
    base: nn.Module = getattr(inner, "base_model", inner)
    if base is not inner:
        return base
    return max(inner.children(), key=lambda part: sum(p.numel() for p in part.parameters()))


def _open(shape: data.Shape) -> Any:
    """The pretrained network with weights in float32, and a new head where classes are others."""
    try:
        inner, notes = transformers.AutoModelForImageClassification.from_pretrained(
            shape.weights,
            id2label=dict(enumerate(shape.labels)),
            label2id={label: number for number, label in enumerate(shape.labels)},
            num_labels=len(shape.labels),  # a few networks do not count the names
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            dtype="float32",
            local_files_only=True,
        )
    except (OSError, ValueError) as error:
        message = f"{shape.weights} holds no image classifier: {error}"
        raise config.ConfigError(message) from error
    try:
        unused = unreached(inner, shape.size)
    except (RuntimeError, ValueError) as error:
        raise config.ConfigError(
            f"{shape.weights} takes no images of 3 channels and {shape.size} x {shape.size} "
            f"pixels, which {data.PROCESSOR} names: {error}"
        ) from error
    drawn = {*notes["missing_keys"], *(name for name, *_ in notes["mismatched_keys"])} - unused
    inside = {id(parameter) for parameter in backbone(inner).parameters()}
    for name, parameter in inner.named_parameters():
        if name in drawn and id(parameter) in inside:
            raise config.ConfigError(f"{shape.weights} has no weights that fit for {name}")
        parameter.requires_grad_(name not in unused)
    hub.check_layers(shape.weights, inner, notes["unexpected_keys"])
    return inner


def unreached(inner: Any, size: int) -> set[str]:
    """Parameters that no image reaches, such as DINOv2's mask: the wrap would wait for gradients.

    A twin on the device "meta" shows them, where nothing is stored and nothing computed.
    """
    with torch.device("meta"):
        twin: Any = transformers.AutoModelForImageClassification.from_config(inner.config)
        twin.eval()(pixel_values=torch.zeros(1, 3, size, size)).logits.sum().backward()
    return {name for name, parameter in twin.named_parameters() if parameter.grad is None}


def _begin(cfg: config.Model, shape: data.Shape) -> Any:
    """A network to train from scratch: a vision transformer (Dosovitskiy et al., 2021)."""
    if cfg.width % cfg.heads:
        raise config.ConfigError(f"model.width = {cfg.width} must be a multiple of model.heads")
    if shape.size % cfg.patch:
        raise config.ConfigError(
            f"data.image_size = {shape.size} must be a multiple of model.patch"
        )
    size = transformers.ViTConfig(
        image_size=shape.size,
        patch_size=cfg.patch,
        hidden_size=cfg.width,
        intermediate_size=4 * cfg.width,
        num_hidden_layers=cfg.layers,
        num_attention_heads=cfg.heads,
        qkv_bias=False,  # the softmax takes a key's bias out again
        id2label=dict(enumerate(shape.labels)),
        label2id={label: number for number, label in enumerate(shape.labels)},
    )
    with torch.device("meta"):  # transformers draws weights in loops that look at their values
        inner: Any = transformers.AutoModelForImageClassification.from_config(size)
    for module in [*inner.modules()]:
        for name, parameter in [*module.named_parameters(recurse=False)]:
            setattr(module, name, _drawn(name, parameter.shape, cfg.width**-0.5))
    return inner


def _drawn(name: str, shape: torch.Size, deviation: float) -> nn.Parameter:
    """New weights; the usual deviation of 0.02 is for a width of 768 and more."""
    if len(shape) > 1:
        return nn.Parameter(deviation * torch.randn(shape))
    return nn.Parameter(torch.full(shape, float(name == "weight")))  # of a norm; or biases


# {% if activation_checkpointing %}
def recompute(inner: Any) -> None:
    """Let the backward pass compute again what is inside the innermost layers.

    transformers marks most layers; convolutional networks only name theirs.
    """
    parts = [*inner.modules()]
    named = [p for p in parts if type(p).__name__ in (inner._no_split_modules or ())]
    layers = [p for p in parts if isinstance(p, GradientCheckpointingLayer)] or named
    if not layers:
        raise config.ConfigError(f"{type(inner).__name__} has no layers to compute again")
    for layer in layers:
        if not any(part in layers for part in [*layer.modules()][1:]):
            layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False)


# {% endif %}
def loss_sum(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy, summed over the targets that count: ranks may have different numbers."""
    if targets.ndim == 1:
        return F.cross_entropy(outputs, targets, ignore_index=data.IGNORE, reduction="sum")
    losses = -(targets * outputs.log_softmax(-1)).sum(-1)  # of mixtures
    return torch.where(data.counts(targets), losses, 0.0).sum()


def metric_sums(outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """Sums over the targets that count; `steps.py` divides them by the targets of all ranks."""
    hits = (outputs.argmax(-1) == targets) & data.counts(targets)
    return {"loss": loss_sum(outputs, targets), "accuracy": hits.sum()}

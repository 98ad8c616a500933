"""A causal language model of Hugging Face transformers, for rows of packed documents."""

# {% if activation_checkpointing %}
import functools
# {% endif %}
# {% if lora and checkpoint %}
import hashlib
# {% endif %}
import inspect
import pickle
# {% if lora %}
import warnings
# {% endif %}
from typing import Any

# {% if lora %}
import peft
# {% endif %}
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
# {% if lora and checkpoint %}
BASE = "base"  # the name, among what a checkpoint holds, of the mark of the weights that stay
PROBES = 64  # values of a weight that enter into the mark

# {% endif %}

class LanguageModel(nn.Module):
    """Tokens and their positions [B, length] int64 to logits [B, length, vocabulary]."""

    # {% if lora and checkpoint %}
    base: Tensor  # a mark of the weights that stay as they are

    # {% endif %}
    def __init__(self, inner: nn.Module, settings: transformers.PreTrainedConfig) -> None:
        super().__init__()
        self.inner, self.settings = inner, settings

    def forward(self, inputs: Tensor, positions: Tensor) -> Tensor:
        """No token sees another document: masks are made here, as each kind of layer needs them.

        Left to itself, the network would look for documents by asking the device, and wait.
        """
        numbers = (positions == 0).cumsum(-1)  # of the documents in their row
        same = numbers[:, None, :, None] == numbers[:, None, None]
        size = inputs.new_empty((*inputs.shape, 0), dtype=next(self.parameters()).dtype)
        # Neither padding nor a cache, whose name changed in transformers 5.24.
        mask: Any = masking_utils.create_masks_for_generate(self.settings, size, None, None)
        if isinstance(mask, dict):
            mask = {kind: self.apart(one, same) for kind, one in mask.items()}
        else:
            mask = self.apart(mask, same)
        output = self.inner(inputs, attention_mask=mask, position_ids=positions, use_cache=False)
        logits: Tensor = output.logits
        return logits

    def apart(self, mask: Tensor | None, same: Tensor) -> Tensor | None:
        """A layer's mask without the pairs of tokens [B, 1, length, length] of two documents.

        No mask stands for all tokens before, in `sdpa`; others find documents by the positions.
        """
        if mask is None:
            return same.tril() if self.settings._attn_implementation == "sdpa" else None
        if mask.dtype == torch.bool:
            return mask & same
        return mask.masked_fill(~same, torch.finfo(mask.dtype).min)


def build(cfg: config.Model, shape: data.Shape) -> nn.Module:
    """The model on the CPU: pretrained, or with weights from torch's global generator."""
    transformers.logging.set_verbosity_error()  # every rank would say the same
    transformers.logging.disable_progress_bar()
    inner = _open(shape.weights) if shape.weights else _begin(cfg, shape)
    check(inner)
    # {% if activation_checkpointing %}
    recompute(inner)
    # {% endif %}
    # {% if lora %}
    # peft asks by a name that transformers gives up.
    warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
    # {% if checkpoint %}
    base = mark(inner if shape.weights else nn.Module())  # what was drawn follows from the seed
    # {% endif %}
    adapter = peft.LoraConfig(
        r=cfg.lora_rank,
        lora_alpha=cfg.lora_alpha,
        lora_dropout=cfg.lora_dropout,
        target_modules="all-linear",  # but for the output
        task_type="CAUSAL_LM",
    )
    # {% if checkpoint %}
    network = LanguageModel(peft.get_peft_model(inner, adapter), inner.config)
    network.base = base
    return network.train()
    # {% else %}
    return LanguageModel(peft.get_peft_model(inner, adapter), inner.config).train()
    # {% endif %}
    # {% else %}
    return LanguageModel(inner, inner.config).train()  # pretrained networks come as for evaluation
    # {% endif %}


def _open(folder: str) -> Any:
    """The pretrained network, with weights in float32 whatever they were saved in.

    Weights that the folder lacks would be drawn: all of them, where a wrapper has renamed them.
    """
    try:
        opened: Any = transformers.AutoModelForCausalLM.from_pretrained(
            folder,
            dtype="float32",
            ignore_mismatched_sizes=True,  # they are refused below, by name
            local_files_only=True,
            output_loading_info=True,
        )
    except (OSError, ValueError, ImportError, RuntimeError, pickle.UnpicklingError) as error:
        raise config.ConfigError(f"{folder} holds no causal language model: {error}") from error
    inner, notes = opened
    mismatched = (name for name, *_ in notes["mismatched_keys"])
    if missing := sorted({*notes["missing_keys"], *mismatched}):
        others = "".join(f", but for {name}" for name in sorted(notes["unexpected_keys"])[:1])
        raise config.ConfigError(
            f"{folder} has no weights that fit for {missing[0]}{others}: write the folder "
            "anew with save_pretrained of the bare network"
        )
    hub.check_layers(folder, inner, notes["unexpected_keys"])
    encodes = type(inner.config) in transformers.MODEL_FOR_MASKED_LM_MAPPING
    if encodes and not inner.config.is_decoder:
        raise config.ConfigError(
            f"{folder} holds an encoder, which elsewhere would see the tokens that it is to write: "
            'take a causal language model, or set "is_decoder": true in config.json'
        )
    return inner


def _begin(cfg: config.Model, shape: data.Shape) -> Any:
    """A network to train from scratch: GPT-NeoX, with rotary positions."""
    if cfg.width % (2 * cfg.heads):
        raise config.ConfigError(f"model.width = {cfg.width} must be a multiple of 2 * model.heads")
    size = transformers.GPTNeoXConfig(
        vocab_size=shape.vocabulary,
        hidden_size=cfg.width,
        intermediate_size=4 * cfg.width,
        num_hidden_layers=cfg.layers,
        num_attention_heads=cfg.heads,
        max_position_embeddings=shape.length,
        bos_token_id=None,  # the tokenizer knows
        eos_token_id=None,
    )
    return transformers.AutoModelForCausalLM.from_config(size)


def check(inner: nn.Module) -> None:
    """Refuse networks whose documents would see each other, whatever the mask."""
    takes_positions = "position_ids" in inspect.signature(inner.forward).parameters
    if getattr(inner, "_is_stateful", False) or not takes_positions:
        raise config.ConfigError(
            f"{type(inner).__name__} cannot keep the documents of a row apart: it has a state that "
            "goes on from token to token, or no positions that begin anew"
        )


# {% if activation_checkpointing %}
def recompute(inner: nn.Module) -> None:
    """Let the backward pass compute again what is inside the layers that transformers marks."""
    layers = [part for part in inner.modules() if isinstance(part, GradientCheckpointingLayer)]
    if not layers:
        raise config.ConfigError(f"{type(inner).__name__} has no layers to compute again")
    for layer in layers:
        layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False)


# {% endif %}
# {% if lora and checkpoint %}
def mark(inner: nn.Module) -> Tensor:
    """A mark [32] uint8 of all weights, by some values of each: other networks have another."""
    digest = hashlib.sha256()
    for name, weight in inner.state_dict().items():
        values = weight.flatten()[:: max(1, weight.numel() // PROBES)].tolist()
        digest.update(repr((name, weight.shape, values)).encode())
    return torch.tensor([*digest.digest()], dtype=torch.uint8)


def kept(network: nn.Module) -> dict[str, Tensor]:
    """What a checkpoint holds: the weights that are trained, and the mark of those that stay."""
    assert isinstance(network, LanguageModel)
    trained = {name for name, weight in network.named_parameters() if weight.requires_grad}
    weights = {name: weight for name, weight in network.state_dict().items() if name in trained}
    return {BASE: network.base, **weights}


def take_over(network: nn.Module, weights: dict[str, Tensor]) -> None:
    """Load what `kept` gave. Raises ValueError where they are those of another network."""
    own = kept(network)
    given = {BASE: own[BASE], **weights}  # earlier checkpoints have no mark
    if not given[BASE].cpu().equal(own[BASE]):
        raise ValueError(
            "the weights are additions to another pretrained network than that of data.pretrained"
        )
    trained = {name: weight for name, weight in given.items() if name != BASE}
    found = network.load_state_dict(trained, strict=False)
    if found.unexpected_keys or given.keys() != own.keys():
        raise ValueError(f"{len(trained)} weights are not those that are trained here")


# {% endif %}
def loss_sum(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy in nats, summed: ranks may have different numbers of targets."""
    return F.cross_entropy(
        outputs.flatten(0, 1), targets.flatten(), ignore_index=data.IGNORE, reduction="sum"
    )


def metric_sums(outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """Sums over the targets that count; `steps.py` divides them by the targets of all ranks."""
    hits = (outputs.argmax(-1) == targets) & data.counts(targets)
    return {"loss": loss_sum(outputs, targets), "accuracy": hits.sum()}

"""Writes what was trained into a folder as Hugging Face has it: `from_pretrained` opens it."""

from pathlib import Path

import torch
import transformers
from torch import Tensor

import config
import model
from tools import trained

CARD = """\
---
library_name: transformers
pipeline_tag: text-classification
---
Tells {labels} apart. Trained by {{ 'FSDP2' if sharded else 'DistributedDataParallel' }} for {step:,} steps on {source}, with texts
of up to {length} tokens; all settings are in config.toml.
"""


def write(run: Path, folder: Path, newest: bool) -> int:
    """Write the best checkpoint of a run, or the newest; returns its step."""
    opened = trained.open_run(run, newest)
    labels = opened.shape.labels
    settings = model.encoder_config(opened.cfg.model, opened.shape)
    settings.id2label = dict(enumerate(labels))
    settings.label2id = {label: number for number, label in enumerate(labels)}
    network = transformers.DistilBertForSequenceClassification(settings)
    network.load_state_dict(renamed(opened.network.cpu().state_dict(), settings.dim))
    cfg = opened.cfg.data
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        trained.tokenizer_folder(opened.shape), model_max_length=cfg.length
    )
    card = {"labels": ", ".join(labels), "step": opened.step, "source": cfg.source}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        network.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        (folder / "README.md").write_text(CARD.format(**card, length=cfg.length), encoding="utf-8")
        (folder / "config.toml").write_bytes((run / "config.toml").read_bytes())
    except OSError as error:
        raise config.ConfigError(f"{error.filename}: {error.strerror}") from error
    return opened.step


def renamed(weights: dict[str, Tensor], width: int) -> dict[str, Tensor]:
    """The weights under the names of DistilBertForSequenceClassification.

    Its head has two layers with a ReLU between, and this project's has one. They compute the same
    if the first layer gives the logits and their negatives: x = ReLU(x) - ReLU(-x).
    """
    own = dict(weights)
    weight, bias = own.pop("head.weight"), own.pop("head.bias")
    classes = len(bias)
    if 2 * classes > width:
        raise config.ConfigError(
            f"export needs a model.width of at least {2 * classes} for {classes} classes"
        )
    first, shift = torch.zeros(width, width), torch.zeros(width)
    first[: 2 * classes] = torch.cat((weight, -weight))
    shift[: 2 * classes] = torch.cat((bias, -bias))
    second = torch.zeros(classes, width)
    second[:, : 2 * classes] = torch.cat((torch.eye(classes), -torch.eye(classes)), 1)
    found = {"pre_classifier.weight": first, "pre_classifier.bias": shift}
    found |= {"classifier.weight": second, "classifier.bias": torch.zeros(classes)}
    for name, values in own.items():
        place = name.replace("layers.", "transformer.layer.").replace(".inner.", ".")
        found[f"distilbert.{place}"] = values
    return found

"""A trained model, exported to a folder as Hugging Face has it."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch
import transformers

import config
import data
import model
from engine import checkpoint, settings
from support import common
from tools import checkpoints


def save(run: Path, width: int = 16) -> tuple[data.Splits, torch.nn.Module]:
    """A run with a checkpoint of random weights; its data, and the network."""
    cfg = common.settings(run, f"model.width={width}")
    splits = data.open_splits(cfg.data)
    network = model.build(cfg.model, splits.shape).eval()
    content = {"model": network.state_dict(), "step": 2, "best_step": 2, "config": {}}
    checkpoint.write(checkpoint.path_of(run, 2), content, world_size=2)
    (run / "config.toml").write_text(settings.dump(cfg))
    (run / "shape.json").write_text(json.dumps(dataclasses.asdict(splits.shape)))
    return splits, network


@torch.no_grad()
def test_from_pretrained_opens_what_was_trained(tmp_path: Path) -> None:
    """The same logits for the same texts, the names of the classes, and the tokenizer."""
    splits, network = save(tmp_path)
    checkpoints.main(["export", str(tmp_path)])
    folder = str(tmp_path / "export")
    opened = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    batch = splits.val.__getitems__(list(range(8)))
    mask = (batch.inputs != splits.shape.padding).long()
    logits = opened(batch.inputs, attention_mask=mask).logits
    torch.testing.assert_close(logits, network(batch.inputs), atol=1e-5, rtol=1e-5)
    labels = splits.shape.labels
    assert opened.config.id2label == dict(enumerate(labels))

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    own = transformers.AutoTokenizer.from_pretrained(splits.shape.tokenizer)
    words = "Of files, and of numbers"
    assert tokenizer(words)["input_ids"] == own(words)["input_ids"]
    text = str(tokenizer.decode(batch.inputs[0], skip_special_tokens=True))
    tell = transformers.pipeline("text-classification", folder)
    assert tell(text, truncation=True)[0]["label"] in labels
    assert (tmp_path / "export" / "README.md").read_text().startswith("---\nlibrary_name")


def test_too_many_classes_are_refused(tmp_path: Path) -> None:
    """The head of that layout would not hold them."""
    save(tmp_path, width=8)
    with pytest.raises(config.ConfigError, match=r"needs a model\.width of at least"):
        checkpoints.main(["export", str(tmp_path)])

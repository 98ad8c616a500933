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


def save(run: Path, *overrides: str) -> tuple[data.Splits, torch.nn.Module]:
    """A run with a checkpoint of random weights; its data, and the network."""
    cfg = common.settings(run, *overrides)
    data.prepare(cfg.data)
    splits = data.open_splits(cfg.data)
    network = model.build(cfg.model, splits.shape).eval()
    content = {"model": network.state_dict(), "step": 2, "best_step": 2, "config": {}}
    checkpoint.write(checkpoint.path_of(run, 2), content, world_size=2)
    (run / "config.toml").write_text(settings.dump(cfg))
    (run / "shape.json").write_text(json.dumps(dataclasses.asdict(splits.shape)))
    return splits, network


@torch.no_grad()
def compare(folder: Path, splits: data.Splits, network: torch.nn.Module) -> None:
    """The same logits for the same texts, the names of the classes, and the tokenizer."""
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
    tell = transformers.pipeline("text-classification", str(folder))
    assert tell(text, truncation=True)[0]["label"] in labels


def test_from_pretrained_opens_what_was_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by a run that goes on from there, which names its origin on the card."""
    splits, network = save(tmp_path / "first")
    checkpoints.main(["export", str(tmp_path / "first")])
    folder = tmp_path / "first" / "export"
    compare(folder, splits, network)
    assert (folder / "README.md").read_text().startswith("---\nlibrary_name")

    few = {topic: modules.split()[0] for topic, modules in data.TOPICS.items()}
    monkeypatch.setattr(data, "TOPICS", few)  # to read all takes seconds
    splits, network = save(tmp_path / "run", f"data.pretrained={folder}", f"data.folder={tmp_path}")
    assert splits.shape.keeps_head
    checkpoints.main(["export", str(tmp_path / "run"), "--output", str(tmp_path / "second")])
    compare(tmp_path / "second", splits, network)
    assert f"base_model: {folder}\n" in (tmp_path / "second" / "README.md").read_text()
    (tmp_path / "file").touch()
    inside = str(tmp_path / "file" / "x")
    with pytest.raises(config.ConfigError, match="Not a directory"):
        checkpoints.main(["export", str(tmp_path / "run"), "--output", inside])

"""A trained network, exported to a folder as Hugging Face has it."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from PIL import Image
from torch.testing import assert_close

import config
import data
import images
import model
from engine import checkpoint, settings
from support import common
from tools import checkpoints


def save(run: Path, *overrides: str) -> tuple[data.Splits, Any]:
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


def test_from_pretrained_opens_what_was_trained(tmp_path: Path) -> None:
    """Network, names of the classes, and the way from a file to the network's numbers."""
    splits, network = save(tmp_path)
    checkpoints.main(["export", str(tmp_path)])
    folder = tmp_path / "export"
    opened: Any = transformers.AutoModelForImageClassification.from_pretrained(folder).eval()
    assert [opened.config.id2label[number] for number in range(10)] == splits.shape.labels
    place = splits.val.files.place(0)
    open_processor: Any = transformers.AutoImageProcessor.from_pretrained
    given = open_processor(folder)(Image.open(splits.val.root / place.path), return_tensors="pt")
    with torch.no_grad():
        image = images.square(splits.val.root, place, "RGB", splits.shape.size)
        expected = network(image[None])
        assert_close(opened(**given).logits, expected, atol=1e-4, rtol=1e-4)
    assert (folder / "README.md").read_text().startswith("---\nlibrary_name")
    (tmp_path / "file").touch()
    with pytest.raises(config.ConfigError, match="Not a directory"):
        checkpoints.main(["export", str(tmp_path), "--output", str(tmp_path / "file" / "x")])


def test_exported_network_can_be_fine_tuned(tmp_path: Path) -> None:
    """Its size and colours come back, and the card says what was fine-tuned."""
    first, network = save(tmp_path / "first")
    checkpoints.main(["export", str(tmp_path / "first"), "--output", str(tmp_path / "base")])
    chosen = [f"data.pretrained={tmp_path / 'base'}", f"data.folder={tmp_path}"]
    splits, tuned = save(tmp_path / "run", *chosen)
    assert splits.shape.mean == pytest.approx(first.shape.mean)
    assert splits.shape.deviation == pytest.approx(first.shape.deviation)
    batch = splits.val.__getitems__([0, 1])
    with torch.no_grad():
        assert_close(tuned(batch.inputs), network(batch.inputs), atol=1e-5, rtol=1e-5)
    checkpoints.main(["export", str(tmp_path / "run")])
    card = (tmp_path / "run" / "export" / "README.md").read_text()
    assert f"base_model: {tmp_path / 'base'}\n" in card

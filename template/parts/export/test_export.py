# {% import "parts/" ~ model ~ "/family.jinja" as family %}
"""A trained model, exported to a folder that other programs open."""

import json
import pickle
import sys
from pathlib import Path

import pytest
import torch

import config
from engine import checkpoint, settings
from support import common
from tools import checkpoints


def save(run: Path, step: int, best_step: int) -> None:
    """A checkpoint of small weights, and what a run leaves beside it."""
    weights = {"weight": torch.full((2, 2), step + 0.1)}
    content = {"model": weights, "step": step, "best_step": best_step, "config": {}}
    checkpoint.write(checkpoint.path_of(run, step), content, world_size=2)
    (run / "config.toml").write_text(settings.dump(common.settings(run)))
    # {% if family.portable %}
    (run / "shape.json").write_text("{}")
    # {% endif %}


def test_folder_has_weights_and_what_they_mean(tmp_path: Path) -> None:
    """The best weights in the library's format, where it is installed; or the newest."""
    load_file = pytest.importorskip("safetensors.torch").load_file
    for step in (2, 3):
        save(tmp_path, step, best_step=2)
    checkpoints.main(["export", str(tmp_path)])
    folder = tmp_path / "export"
    weight = load_file(folder / "model.safetensors")["weight"]
    assert torch.equal(weight, torch.full((2, 2), 2.1)), "not the numbers of the best checkpoint"
    content = (folder / "model.safetensors").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert header["__metadata__"]["step"] == "2"
    assert config.load(folder / "config.toml") == config.load(tmp_path / "config.toml")
    # {% if family.portable %}
    assert (folder / "shape.json").read_text() == "{}"
    # {% endif %}
    checkpoints.main(["export", str(tmp_path), "--newest", "--output", str(tmp_path / "other")])
    assert load_file(tmp_path / "other" / "model.safetensors")["weight"].eq(3.1).all()


def test_no_code_is_run(tmp_path: Path) -> None:
    """Whoever trained the run: only tensors and plain values are read from it."""
    pytest.importorskip("safetensors")
    content = {"model": {"w": Path()}, "step": 2, "best_step": 2, "config": {}}
    checkpoint.write(checkpoint.path_of(tmp_path, 2), content, world_size=2)
    with pytest.raises(pickle.UnpicklingError):
        checkpoints.main(["export", str(tmp_path)])


def test_mistakes_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No checkpoint, a folder that cannot be made, and a package that is not installed."""
    with pytest.raises(config.ConfigError, match="has no checkpoints"):
        checkpoints.main(["export", str(tmp_path)])
    save(tmp_path, 2, best_step=2)
    (tmp_path / "file").touch()
    if "safetensors" in sys.modules:
        with pytest.raises(config.ConfigError, match="Not a directory"):
            checkpoints.main(["export", str(tmp_path), "--output", str(tmp_path / "file" / "x")])
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(config.ConfigError, match="pip install safetensors"):
        checkpoints.main(["export", str(tmp_path)])

"""A trained model, exported to a folder as Hugging Face has it."""

import dataclasses
import json
from pathlib import Path
from typing import Any

# {% if lora %}
import peft
# {% endif %}
import pytest
import torch
import transformers
from torch.testing import assert_close

import config
import data
import model
from engine import checkpoint, {{ 'loading, ' if lora else '' }}settings
from support import common
from tools import checkpoints


def save(run: Path, *overrides: str) -> tuple[data.Splits, Any]:
    """A run with a checkpoint of random weights; its data, and the network."""
    cfg = common.settings(run, *overrides)
    data.prepare(cfg.data)
    splits = data.open_splits(cfg.data)
    # {% if lora %}
    loading.seed_all("weights", cfg.run.seed)
    network = model.build(cfg.model, splits.shape).eval()
    for name, weight in model.kept(network).items():
        if name != model.BASE:
            torch.nn.init.normal_(weight, std=0.1)
    content = {"model": model.kept(network), "step": 2, "best_step": 2, "config": {}}
    # {% else %}
    network = model.build(cfg.model, splits.shape).eval()
    content = {"model": network.state_dict(), "step": 2, "best_step": 2, "config": {}}
    # {% endif %}
    checkpoint.write(checkpoint.path_of(run, 2), content, world_size=2)
    (run / "config.toml").write_text(settings.dump(cfg))
    (run / "shape.json").write_text(json.dumps(dataclasses.asdict(splits.shape)))
    return splits, network


def compare(folder: Path, opened: Any, splits: data.Splits, network: Any) -> None:
    """The same logits for the same tokens, and the tokenizer with its template."""
    ids = torch.arange(40).view(2, 20) % splits.shape.vocabulary
    positions = torch.arange(20).expand(2, 20)
    with torch.no_grad():
        assert_close(opened.eval()(ids).logits, network(ids, positions), atol=1e-5, rtol=1e-5)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    own = transformers.AutoTokenizer.from_pretrained(splits.shape.tokenizer)
    turns = [{"role": "user", "content": "Where is it?"}]
    assert tokenizer.apply_chat_template(turns) == own.apply_chat_template(turns)
    assert (folder / "README.md").read_text().startswith("---\nlibrary_name")


def test_from_pretrained_opens_what_was_trained(tmp_path: Path) -> None:
    """Also what ends an answer is known there."""
    splits, network = save(tmp_path)
    checkpoints.main(["export", str(tmp_path)])
    folder = tmp_path / "export"
    opened = transformers.AutoModelForCausalLM.from_pretrained(folder)
    compare(folder, opened, splits, network)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert opened.generation_config.eos_token_id == [tokenizer.eos_token_id]
    (tmp_path / "file").touch()
    with pytest.raises(config.ConfigError, match="Not a directory"):
        checkpoints.main(["export", str(tmp_path), "--output", str(tmp_path / "file" / "x")])


def test_pretrained_network_is_named(tmp_path: Path) -> None:
    # {% if lora %}
    """The folder has the additions alone, and the name of the network that they are for."""
    # {% else %}
    """The card says what was fine-tuned."""
    # {% endif %}
    save(tmp_path / "first")
    checkpoints.main(["export", str(tmp_path / "first"), "--output", str(tmp_path / "base")])
    usual = {"eos_token_id": 0, "temperature": 0.5}  # of a network that ended texts, not answers
    (tmp_path / "base" / "generation_config.json").write_text(json.dumps(usual))
    folder = [f"data.pretrained={tmp_path / 'base'}", f"data.folder={tmp_path}"]
    splits, network = save(tmp_path / "run", *folder)
    checkpoints.main(["export", str(tmp_path / "run")])
    exported = tmp_path / "run" / "export"
    assert f"base_model: {tmp_path / 'base'}\n" in (exported / "README.md").read_text()
    # {% if lora %}
    assert not (exported / "model.safetensors").exists()
    opened = peft.AutoPeftModelForCausalLM.from_pretrained(exported)
    # {% else %}
    opened = transformers.AutoModelForCausalLM.from_pretrained(exported)
    end = transformers.AutoTokenizer.from_pretrained(exported).eos_token_id
    assert opened.generation_config.eos_token_id == [0, end], "it would write on behind an answer"
    # {% endif %}
    compare(exported, opened, splits, network)
# {% if lora %}


def test_network_of_the_additions_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder was named as in the config, from where train.py had been started."""
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "first", f"data.folder={tmp_path}")
    checkpoints.main(["export", str(tmp_path / "first"), "--output", "base"])
    changes = [f"data.folder={tmp_path}", "data.pretrained=base"]
    splits, network = save(tmp_path / "run", *changes)
    checkpoints.main(["export", str(tmp_path / "run"), "--output", "exported"])
    monkeypatch.chdir(tmp_path / "run")
    opened = peft.AutoPeftModelForCausalLM.from_pretrained(tmp_path / "exported")
    compare(tmp_path / "exported", opened, splits, network)
# {% endif %}

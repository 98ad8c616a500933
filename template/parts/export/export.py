# {% import "parts/" ~ model ~ "/family.jinja" as family %}
"""Writes what was trained into a folder for other programs: weights, config{{ ', what the data were' if family.portable else '' }}."""

import shutil
from pathlib import Path

# {% if saves == 'shards' %}
import config
from engine import folders
from tools import chosen
# {% else %}
import torch

import config
from tools import chosen
# {% endif %}


def write(run: Path, folder: Path, newest: bool) -> int:
    """Write the best checkpoint of a run, or the newest; returns its step."""
    try:
        from safetensors.torch import save
    except ImportError as error:
        raise config.ConfigError("export needs safetensors: pip install safetensors") from error
    # {% if saves == 'shards' %}
    content = folders.whole(chosen.checkpoint_of(run, newest), without="optimizer")
    # {% else %}
    content = torch.load(chosen.checkpoint_of(run, newest), map_location="cpu", weights_only=True)
    # {% endif %}
    # The format knows no tensor with two names: each name gets a copy.
    weights = {name: weight.clone().contiguous() for name, weight in content["model"].items()}
    about = {"format": "pt", "step": str(content["step"])}
    files = {"config.toml": run / "config.toml"}
    # {% if family.portable %}
    files["shape.json"] = run / "shape.json"
    # {% endif %}
    # {% if model == 'gpt' %}
    if tokenizer := config.load(run / "config.toml").data.tokenizer:
        files["tokenizer.json"] = Path(tokenizer)
    # {% endif %}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.safetensors").write_bytes(save(weights, about))
        for name, path in files.items():
            shutil.copyfile(path, folder / name)
    except OSError as error:
        raise config.ConfigError(f"{error.filename}: {error.strerror}") from error
    return int(content["step"])

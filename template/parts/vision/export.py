"""Writes what was trained into a folder as Hugging Face has it: `from_pretrained` opens it."""

import json
from pathlib import Path
from typing import Any

import config
import data
from tools import trained

CARD = """\
---
library_name: transformers
pipeline_tag: image-classification
{base}---
Tells {labels} apart. Trained by {{ 'FSDP2' if sharded else 'DistributedDataParallel' }} for {step:,} steps on {source}, with images
of {size} x {size} pixels; all settings are in config.toml.
"""


def write(run: Path, folder: Path, newest: bool) -> int:
    """Write the best checkpoint of a run, or the newest; returns its step."""
    opened = trained.open_run(run, newest)
    cfg, shape = opened.cfg.data, opened.shape
    inner: Any = opened.network.cpu().get_submodule("inner")
    base = f"base_model: {cfg.pretrained}\n" if cfg.pretrained else ""
    labels = ", ".join(shape.labels)
    about = {"labels": labels, "step": opened.step, "source": cfg.source, "size": shape.size}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        inner.save_pretrained(folder)
        (folder / data.PROCESSOR).write_text(json.dumps(processor(shape), indent=2))
        (folder / "README.md").write_text(CARD.format(base=base, **about), encoding="utf-8")
        (folder / "config.toml").write_bytes((run / "config.toml").read_bytes())
    except OSError as error:
        raise config.ConfigError(f"{error.filename}: {error.strerror}") from error
    return opened.step


def processor(shape: data.Shape) -> dict[str, Any]:
    """How transformers brings images to what the network saw: by its shorter edge, then cropped."""
    return {
        "image_processor_type": "BitImageProcessor",
        "do_convert_rgb": True,
        "do_resize": True,
        "size": {"shortest_edge": shape.size},
        "resample": 3,  # bicubic
        "do_center_crop": True,
        "crop_size": {"height": shape.size, "width": shape.size},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [value / 255 for value in shape.mean],
        "image_std": [value / 255 for value in shape.deviation],
    }

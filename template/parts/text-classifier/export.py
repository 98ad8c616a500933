"""Writes what was trained into a folder as Hugging Face has it: `from_pretrained` opens it."""

from pathlib import Path
from typing import Any

import transformers

import config
from tools import trained

CARD = """\
---
library_name: transformers
pipeline_tag: text-classification
{base}---
Tells {labels} apart. Trained by {{ 'FSDP2' if sharded else 'DistributedDataParallel' }} for {step:,} steps on {source}, with texts
of up to {length} tokens; all settings are in config.toml.
"""


def write(run: Path, folder: Path, newest: bool) -> int:
    """Write the best checkpoint of a run, or the newest; returns its step."""
    opened = trained.open_run(run, newest)
    inner: Any = opened.network.cpu().inner
    cfg = opened.cfg.data
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        trained.tokenizer_folder(opened.shape), model_max_length=cfg.length
    )
    base = f"base_model: {cfg.pretrained}\n" if cfg.pretrained else ""
    about = {"labels": ", ".join(opened.shape.labels), "step": opened.step, "source": cfg.source}
    card = CARD.format(base=base, length=cfg.length, **about)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        inner.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        (folder / "README.md").write_text(card, encoding="utf-8")
        (folder / "config.toml").write_bytes((run / "config.toml").read_bytes())
    except OSError as error:
        raise config.ConfigError(f"{error.filename}: {error.strerror}") from error
    return opened.step

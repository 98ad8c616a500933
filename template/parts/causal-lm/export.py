"""Writes what was trained into a folder as Hugging Face has it: `from_pretrained` opens it."""

from pathlib import Path
from typing import Any

import transformers

import config
from tools import trained

CARD = """\
---
library_name: {library}
pipeline_tag: text-generation
{base}---
Trained by {{ 'FSDP2' if sharded else 'DistributedDataParallel' }} for {step:,} steps on {source}, in rows of {length} tokens; all
settings are in config.toml.
"""


def write(run: Path, folder: Path, newest: bool) -> int:
    """Write the best checkpoint of a run, or the newest; returns its step."""
    opened = trained.open_run(run, newest)
    cfg = opened.cfg.data
    tokenizer = transformers.AutoTokenizer.from_pretrained(trained.tokenizer_folder(opened.shape))
    # {% if lora %}
    both: Any = opened.network.cpu().inner
    inner = both if cfg.pretrained else both.merge_and_unload()
    if cfg.pretrained:  # the additions alone, and the network that they are for
        local = Path(cfg.pretrained).absolute()  # for programs that start in other folders
        name = str(local) if local.is_dir() else cfg.pretrained
        inner.peft_config["default"].base_model_name_or_path = name
    # {% else %}
    inner: Any = opened.network.cpu().inner
    # {% endif %}
    if not cfg.pretrained:
        complete(inner, tokenizer)
    end_answers(inner.generation_config, tokenizer, opened.shape.chat)
    base = f"base_model: {cfg.pretrained}\n" if cfg.pretrained else ""
    about = {"step": opened.step, "source": cfg.source, "length": cfg.length}
    card = CARD.format(library={{ '"peft" if base else "transformers"' if lora else '"transformers"' }}, base=base, **about)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        inner.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        (folder / "README.md").write_text(card, encoding="utf-8")
        (folder / "config.toml").write_bytes((run / "config.toml").read_bytes())
    except OSError as error:
        raise config.ConfigError(f"{error.filename}: {error.strerror}") from error
    return opened.step


def complete(inner: Any, tokenizer: Any) -> None:
    """Say which token ends an answer."""
    for settings in (inner.config, inner.generation_config):
        settings.eos_token_id = tokenizer.eos_token_id
        settings.pad_token_id = tokenizer.pad_token_id


def end_answers(settings: Any, tokenizer: Any, chat: bool) -> None:
    """Tell other programs where to stop: they would write on behind an answer."""
    settings.eos_token_id = trained.ends(tokenizer, settings.eos_token_id, chat) or None
    try:
        settings.validate(strict=True)
    except ValueError:  # a temperature of a network that does not draw, which is not saved again
        settings.do_sample = True

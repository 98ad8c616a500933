"""Lets a trained run answer, or go on from a text: `python -m tools.sample --help`."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

import config
from engine import distributed, hub, loading
from tools import trained


def main(argv: Sequence[str] | None = None) -> None:
    """Answer a question, or go on from a text, token by token."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("run", type=Path, help="the run's folder, such as runs/001")
    words = "the question, or the text to go on from"
    parser.add_argument("--prompt", type=utf_8, required=True, help=words)
    parser.add_argument("--system", type=utf_8, default="", help="what stands before the question")
    parser.add_argument("--tokens", type=int, default=300, help="most new tokens (default: 300)")
    parser.add_argument("--temperature", type=float, default=0.8, help="0: always the likeliest")
    parser.add_argument("--top-p", type=float, default=1.0, help="keep this much probability")
    parser.add_argument("--seed", type=int, default=0, help="of the draws")
    parser.add_argument("--newest", action="store_true", help="take the newest, not the best")
    arguments = parser.parse_args(argv)
    if not arguments.temperature >= 0:
        raise config.ConfigError(f"--temperature {arguments.temperature} must not be negative")
    if not 0 < arguments.top_p <= 1:
        raise config.ConfigError(f"--top-p {arguments.top_p} must be above 0 and at most 1")
    if arguments.tokens < 1:
        raise config.ConfigError(f"--tokens {arguments.tokens} must be at least 1")
    run = trained.open_run(arguments.run, arguments.newest)
    tokenizer = transformers.AutoTokenizer.from_pretrained(trained.tokenizer_folder(run.shape))
    tokens = encode(tokenizer, arguments.prompt, arguments.system, run.shape.chat)
    if unknown := hub.unknown(tokens, tokenizer, run.shape.vocabulary):
        raise config.ConfigError(f"--prompt: {unknown}")
    loading.seed_all("sample", arguments.seed)
    write(run, tokens, tokenizer, arguments)


def utf_8(text: str) -> str:
    """The text of an argument; argparse refuses what is none."""
    text.encode()
    return text


def encode(tokenizer: Any, prompt: str, system: str, chat: bool) -> Tensor:
    """The tokens [1, length] to go on from: of a text, or of a conversation up to its answer."""
    if not chat:
        text = system + prompt
    else:
        turns = [{"role": "system", "content": system}] if system else []
        turns += [{"role": "user", "content": prompt}]
        text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    tokens: Tensor = tokenizer(text, return_tensors="pt", add_special_tokens=not chat)["input_ids"]
    if not tokens.numel():
        raise config.ConfigError("--prompt has no tokens: give a text to go on from")
    return tokens


def write(run: trained.Trained, tokens: Tensor, tokenizer: Any, wanted: argparse.Namespace) -> None:
    """Print token after token: as many as wanted, until one ends the text, or no place is left."""
    inner: Any = run.network.inner
    text_config = inner.config.get_text_config()
    places = getattr(text_config, "max_position_embeddings", tokens.size(1) + wanted.tokens)
    if tokens.size(1) >= places:
        raise config.ConfigError(
            f"--prompt has {tokens.size(1)} tokens, and the model has {places} positions for them "
            "and the answer: give a shorter one"
        )
    ends = trained.ends(tokenizer, inner.generation_config.eos_token_id, run.shape.chat)
    heat = {"temperature": wanted.temperature, "top_p": wanted.top_p, "top_k": 0}
    inner.generate(
        tokens.to(run.device),
        attention_mask=torch.ones_like(tokens, device=run.device),
        max_new_tokens=min(wanted.tokens, places - tokens.size(1)),
        do_sample=wanted.temperature > 0,
        eos_token_id=ends or None,
        streamer=transformers.TextStreamer(tokenizer, skip_prompt=True, skip_special_tokens=True),
        **(heat if wanted.temperature > 0 else {}),
    )


if __name__ == "__main__":
    distributed.run(main)

"""Writes text with a trained run: `python -m tools.sample --help`."""

import argparse
import codecs
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor

import config
import corpus
import data
import steps
from engine import distributed, loading
from tools import trained


def main(argv: Sequence[str] | None = None) -> None:
    """Go on from a text, token by token."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("run", type=Path, help="the run's folder, such as runs/001")
    parser.add_argument("--prompt", type=utf_8, default="\n", help="the text to go on from")
    parser.add_argument("--tokens", type=int, default=300, help="most new tokens (default: 300)")
    parser.add_argument("--temperature", type=float, default=0.8, help="0: always the likeliest")
    parser.add_argument("--top-p", type=float, default=1.0, help="keep this much probability")
    parser.add_argument("--seed", type=int, default=0, help="of the draws")
    parser.add_argument("--tokenizer", type=Path, help="tokenizer.json, if the run had tokens only")
    parser.add_argument("--newest", action="store_true", help="take the newest, not the best")
    arguments = parser.parse_args(argv)
    if not arguments.temperature >= 0:
        raise config.ConfigError(f"--temperature {arguments.temperature} must not be negative")
    if not 0 < arguments.top_p <= 1:
        raise config.ConfigError(f"--top-p {arguments.top_p} must be above 0 and at most 1")
    if arguments.tokens < 1:
        raise config.ConfigError(f"--tokens {arguments.tokens} must be at least 1")
    run = trained.open_run(arguments.run, arguments.newest)
    text = open_text(run.cfg.data, arguments.tokenizer)
    if not (tokens := text.encode(arguments.prompt)):
        raise config.ConfigError("--prompt has no tokens: give a text to go on from")
    if max(tokens) >= run.shape.vocabulary:
        raise config.ConfigError(
            f"the tokenizer gives the token {max(tokens)}, but the run has {run.shape.vocabulary}"
        )
    loading.seed_all("sample", arguments.seed)
    print(arguments.prompt, end="", flush=True)
    drawn = draw(run, tokens, arguments.temperature, arguments.top_p)
    for _, token in zip(range(arguments.tokens), drawn, strict=False):
        if token == text.end:
            break
        print(text.decode(token), end="", flush=True)
    print()


def utf_8(text: str) -> str:
    """The text of an argument; argparse refuses what is none."""
    text.encode()
    return text


class Bytes:
    """Texts whose tokens are their bytes."""

    end = None

    def __init__(self) -> None:
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        return list(text.encode())

    def decode(self, token: int) -> str:
        """The text that the next token adds: nothing, while a character is not complete."""
        return self.decoder.decode(bytes([token]))


class Subwords:
    """Texts by a tokenizer.json."""

    def __init__(self, path: Path, end: str) -> None:
        import tokenizers
        from tokenizers import decoders

        try:
            self.tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library has no narrower one
            raise config.ConfigError(f"the tokenizer {path}: {error}") from error
        self.stream = decoders.DecodeStream(skip_special_tokens=True)
        self.end = self.tokenizer.token_to_id(end) if end else None

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        found: list[int] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return found

    def decode(self, token: int) -> str:
        """The text that the next token adds: nothing, while a character is not complete."""
        return self.stream.step(self.tokenizer, token) or ""


def open_text(cfg: config.Data, path: Path | None) -> Bytes | Subwords:
    """The way from tokens to text: the run's own, or a tokenizer that is named."""
    if chosen := path or (Path(cfg.tokenizer) if cfg.tokenizer else None):
        return Subwords(chosen, cfg.end_of_text)
    if cfg.vocabulary != 256 or corpus.has_tokens(cfg):
        raise config.ConfigError(
            f"data.source = {cfg.source!r} had tokens: name what made them, --tokenizer FILE"
        )
    return Bytes()


@torch.no_grad()
def draw(
    run: trained.Trained, tokens: Sequence[int], temperature: float, top_p: float
) -> Iterator[int]:
    """Token after token, each from what the model expects after those before it in its window."""
    seen = list(tokens)
    while True:
        window = torch.tensor([seen[-run.cfg.data.window :]])
        logits, _ = steps.forward(run.network, data.Batch(window, window), run.device)
        seen.append(choose(logits[0, -1].cpu(), temperature, top_p))
        yield seen[-1]


def choose(logits: Tensor, temperature: float, top_p: float) -> int:
    """A token by chance: of the likeliest that together have the probability `top_p`."""
    if temperature == 0:
        return int(logits.argmax())
    # From the highest on: divided by very little, several logits would all be infinite.
    likely = ((logits - logits.max()).double() / temperature).softmax(-1).sort(descending=True)
    before = likely.values.cumsum(-1) - likely.values
    kept = torch.where(before < top_p, likely.values, 0.0)  # the first always counts
    return int(likely.indices[torch.multinomial(kept, 1)])


if __name__ == "__main__":
    distributed.run(main)

"""The texts of a trained run: tokens drawn as asked for, and whole characters."""

from pathlib import Path

import pytest
import tokenizers
import torch

import config
import data
import train
from support import common, processes
from tools import sample, trained


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run on bytes."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "text.txt").write_text("the cat sleeps, and nobody knows why. " * 400)
    source = [f"data.source={folder / 'text.txt'}", f"data.folder={folder}", "data.validation=0.1"]
    chosen = [f"run.folder={folder}", "run.name=run", "train.max_steps=3"]
    processes.run(1, train.main, [*common.SMALL, *source, *chosen])
    return folder / "run"


def test_text_is_that_of_the_seed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The prompt, and the bytes asked for behind the prompt; another seed draws other bytes."""
    said = []
    for seed in ("1", "1", "2"):
        sample.main([str(run), "--prompt", "the ", "--tokens", "30", "--seed", seed])
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] != said[2]
    assert said[0].startswith("the ")


def test_likeliest_token_after_the_window(run: Path) -> None:
    """Temperature 0 takes what the network gives most to, after as many tokens as it sees."""
    opened = trained.open_run(run)
    window = opened.cfg.data.window
    tokens = [*range(97, 97 + window + 5)]
    drawn = sample.draw(opened, tokens, 0.0, 1.0)
    for _ in range(3):
        token = next(drawn)
        seen = torch.tensor([tokens[-window:]])
        assert token == int(opened.network(seen.to(opened.device))[0, -1].argmax())
        tokens.append(token)


def test_unlikely_tokens_are_left_out() -> None:
    """Only the likeliest, until they have the probability; and heat makes all alike."""
    logits = torch.tensor([0.1, 0.6, 0.3]).log()
    torch.manual_seed(0)
    assert {sample.choose(logits, 1.0, 0.5) for _ in range(200)} == {1}
    assert {sample.choose(logits, 1.0, 0.7) for _ in range(200)} == {1, 2}
    assert {sample.choose(logits, 1.0, 1.0) for _ in range(200)} == {0, 1, 2}
    hot = torch.tensor([sample.choose(logits, 1e6, 1.0) for _ in range(600)])
    assert hot.bincount(minlength=3).min() > 120


def test_characters_are_whole() -> None:
    """A character of several bytes is shown with its last byte."""
    text = sample.Bytes()
    assert [text.decode(token) for token in text.encode("aé€")] == ["a", "", "é", "", "", "€"]


def save_tokenizer(path: Path) -> list[int]:
    """A small tokenizer with a token for the end; returns the tokens of "cat " and of the end."""
    trainer = tokenizers.ByteLevelBPETokenizer()
    words = ["the cat sleeps, and nobody knows why"]
    special = ["<|end|>"]
    trainer.train_from_iterator(words * 9, 280, special_tokens=special, show_progress=False)
    trainer.save(str(path))
    found: list[int] = trainer.encode("the cat").ids
    return [*found, trainer.token_to_id("<|end|>")]


def test_subwords_become_text(tmp_path: Path) -> None:
    """By the tokenizer of the run, or one that is named; the token behind a text ends it."""
    path = tmp_path / "tokenizer.json"
    *tokens, end = save_tokenizer(path)
    cfg = common.settings(tmp_path, "data.end_of_text=<|end|>").data
    text = sample.open_text(cfg, path)
    assert text.encode("the cat") == tokens
    assert "".join(map(text.decode, tokens)).strip() == "the cat"
    assert text.end == end


MISTAKES = {
    "--temperature -1.0 must not be negative": ["--temperature=-1"],
    "--top-p 0.0 must be above 0 and at most 1": ["--top-p=0"],
    "--prompt has no tokens": ["--prompt="],
    "--tokens 0 must be at least 1": ["--tokens=0"],
    "the tokenizer .*absent.json": ["--tokenizer=absent.json"],
}


@pytest.mark.parametrize("reason", MISTAKES)
def test_mistakes_are_said(reason: str, run: Path) -> None:
    with pytest.raises(config.ConfigError, match=reason):
        sample.main([str(run), *MISTAKES[reason]])


def test_prompt_is_a_text(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        sample.main([str(run), "--prompt=\udcff"])
    assert "argument --prompt: invalid utf_8 value" in capsys.readouterr().err


@pytest.mark.parametrize("temperature", [1e-300, 1e-40, 1e-3])
def test_cold_draws_are_the_likeliest(temperature: float) -> None:
    """Divided by so little, logits are infinite."""
    assert sample.choose(torch.tensor([1.0, 3.0, 2.0]), temperature, 1.0) == 1


def test_tokens_need_their_tokenizer(run: Path, tmp_path: Path) -> None:
    """A run on numbers cannot know what they stood for, nor take a larger vocabulary's."""
    cfg = common.settings(tmp_path, "data.vocabulary=300").data
    with pytest.raises(config.ConfigError, match="name what made them, --tokenizer FILE"):
        sample.open_text(cfg, None)
    path = tmp_path / "tokenizer.json"
    tokens = save_tokenizer(path)
    assert max(tokens) >= 256 == data.Shape(256, "").vocabulary
    with pytest.raises(config.ConfigError, match="the tokenizer gives the token"):
        sample.main([str(run), "--tokenizer", str(path), "--prompt", "the cat"])

"""The answers of a trained run: of the length asked for, and as the model has learnt them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import config
import train
from support import common, processes
from tools import sample, trained


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run."""
    folder = tmp_path_factory.mktemp("runs")
    chosen = [f"run.folder={folder}", "run.name=run", "train.max_steps=3"]
    processes.run(1, train.main, [*common.SMALL, *chosen])
    return folder / "run"


def said(capsys: pytest.CaptureFixture[str], run: Path, *arguments: str) -> str:
    """The answer that is printed for a question."""
    sample.main([str(run), "--prompt", "What is join of os?", "--tokens", "20", *arguments])
    return capsys.readouterr().out


def test_text_is_that_of_the_seed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another seed draws others; the likeliest are those of the network, and no seed matters."""
    one, again, two = (said(capsys, run, "--seed", seed) for seed in ("1", "1", "2"))
    assert one == again != two
    assert "What is join" not in one
    likeliest = {said(capsys, run, "--temperature=0", "--seed", seed) for seed in ("1", "2")}
    narrow = said(capsys, run, "--top-p=1e-6")
    assert likeliest == {narrow}

    opened = trained.open_run(run)
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(opened.shape.tokenizer)
    tokens = sample.encode(tokenizer, "What is join of os?", "", opened.shape.chat)
    assert tokenizer.decode(tokens[0]).endswith("os?<|im_end|>\n<|im_start|>assistant\n")
    begin = tokens.size(1)
    for _ in range(20):
        positions = torch.arange(tokens.size(1))[None].to(opened.device)
        last = opened.network(tokens.to(opened.device), positions)[:, -1:].argmax(-1).cpu()
        tokens = torch.cat((tokens, last), dim=1)
    assert tokenizer.decode(tokens[0, begin:], skip_special_tokens=True).strip() == narrow.strip()


def test_prompt_is_as_in_the_training(run: Path) -> None:
    """A conversation with the system's words, or a text that goes on."""
    opened = trained.open_run(run)
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(opened.shape.tokenizer)
    chat = tokenizer.decode(sample.encode(tokenizer, "Why?", "Be brief.", chat=True)[0])
    assert chat.startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhy?")
    assert tokenizer.decode(sample.encode(tokenizer, "Why?", "", chat=False)[0]) == "Why?"


MISTAKES = {
    "--temperature -1.0 must not be negative": "--temperature=-1",
    "--top-p 0.0 must be above 0 and at most 1": "--top-p=0",
    "--tokens 0 must be at least 1": "--tokens=0",
    r"--prompt has \d+ tokens, and the model has \d+ positions": f"--prompt={'why? ' * 999}",
}


@pytest.mark.parametrize("reason", MISTAKES)
def test_mistakes_are_said(reason: str, run: Path) -> None:
    with pytest.raises(config.ConfigError, match=reason):
        sample.main([str(run), "--prompt=?", MISTAKES[reason]])


def test_answer_ends_where_no_position_is_left(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind the last of those that are learnt, networks such as GPT-2 fail."""
    calls = common.record(monkeypatch, transformers.GenerationMixin, "generate")
    sample.main([str(run), "--prompt=?", "--tokens=9999"])
    begin = calls[0][1]["inputs"].size(1)
    assert calls[0][1]["kwargs"]["max_new_tokens"] == trained.open_run(run).shape.length - begin


def test_prompt_is_a_text(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        sample.main([str(run), "--prompt=\udcff"])
    assert "argument --prompt: invalid utf_8 value" in capsys.readouterr().err


def test_tokens_that_the_network_does_not_know_are_named(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tokenizer of a pretrained network may have more: a GPU would only abort."""
    opened = trained.open_run(run)
    few = opened._replace(shape=replace(opened.shape, vocabulary=5))
    monkeypatch.setattr(trained, "open_run", lambda *_: few)
    with pytest.raises(config.ConfigError, match=r"--prompt: .* token .*, and the model knows 5:"):
        sample.main([str(run), "--prompt=?"])

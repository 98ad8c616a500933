"""Labelled texts from CSV and JSON lines, from folders, and with a pretrained network."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import config
import data
import model
from support import common

ROWS = [(f'He said "good, {word}"\nand left.', "yes") for word in ("one", "two", "three", "four")]
ROWS += [(f"Nothing of {word}", "no") for word in ("five", "six", "seven", "eight")]


def settings(folder: Path, **changes: Any) -> config.Data:
    """The small data config, with what is prepared in `folder`."""
    return replace(common.settings(folder).data, folder=str(folder), **changes)


def write(path: Path, rows: list[tuple[str, str]]) -> str:
    """The rows as a file of the format that the path's ending names."""
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("text", "label"), *rows])
    else:
        lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def texts(split: data.Texts, cfg: config.Data) -> list[tuple[str, int]]:
    """The texts of a split, decoded from its tokens, and the targets."""
    (prepared,) = Path(cfg.folder).glob("*/tokenizer")
    tokenizer = transformers.AutoTokenizer.from_pretrained(prepared)
    batch = split.__getitems__(list(range(len(split))))
    assert batch.inputs.shape == (len(split), cfg.length)
    words = tokenizer.batch_decode(batch.inputs, skip_special_tokens=True)
    return [
        ("".join(part.split()), target)
        for part, target in zip(words, batch.targets.tolist(), strict=True)
    ]


def expected(rows: list[tuple[str, str]]) -> list[tuple[str, int]]:
    return [("".join(text.lower().split()), int(label == "yes")) for text, label in rows]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_file_is_divided(tmp_path: Path, ending: str) -> None:
    """Each row is in one split, with its label; quotes, commas and line breaks survive."""
    source = write(tmp_path / f"texts.{ending}", ROWS)
    cfg = settings(tmp_path, source=source, length=32, vocabulary=300, validation=0.25)
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    assert (len(splits.train), len(splits.val), splits.shape.classes) == (6, 2, 2)
    read = texts(splits.train, cfg) + texts(splits.val, cfg)
    assert sorted(read) == sorted(expected(ROWS))


def test_edited_file_is_read_anew(tmp_path: Path) -> None:
    """What was prepared from the file before does not count any more."""
    for rows in (ROWS[:6], ROWS):
        source = write(tmp_path / "texts.jsonl", rows)
        cfg = settings(tmp_path, source=source, length=32, vocabulary=300)
        data.prepare(cfg)
        splits = data.open_splits(cfg)
        assert len(splits.train) + len(splits.val) == len(rows)


def test_length_is_checked(tmp_path: Path) -> None:
    """DistilBERT has no position behind its last."""
    with pytest.raises(config.ConfigError, match=r"data\.length = 513 must be from 2 to 512"):
        data.prepare(settings(tmp_path, length=513))


def test_folder_of_splits(tmp_path: Path) -> None:
    """train.* and val.* are taken as they are, in whatever format."""
    folder = tmp_path / "texts"
    folder.mkdir()
    write(folder / "train.csv", ROWS)
    write(folder / "val.jsonl", [*ROWS[3:5], ("Nine", "zero or one")])
    cfg = settings(tmp_path, source=str(folder), length=32, vocabulary=300)
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    assert texts(splits.train, cfg) == expected(ROWS)
    # A class that training has no text of is a class, too.
    assert texts(splits.val, cfg) == [*expected(ROWS[3:5]), ("nine", 2)]


def test_column_that_is_missing(tmp_path: Path) -> None:
    """The message names the columns that there are."""
    source = write(tmp_path / "texts.csv", ROWS)
    cfg = settings(tmp_path, source=source, text="sentence")
    with pytest.raises(config.ConfigError, match=r"'label', 'text'.*set data\.text"):
        data.prepare(cfg)


def test_preparation_repeats(tmp_path: Path) -> None:
    """Each node prepares for itself, so tokenizer and tokens must come out alike."""
    before = data.open_splits(common.settings(tmp_path).data)
    cfg = settings(tmp_path)
    data.prepare(cfg)
    after = data.open_splits(cfg)
    assert torch.equal(before.train.inputs, after.train.inputs)
    assert torch.equal(before.val.targets, after.val.targets)


def test_padding_changes_nothing(tmp_path: Path) -> None:
    """The model does not look at what fills a text up."""
    cfg = common.settings(tmp_path)
    shape = data.open_splits(cfg.data).shape
    network = model.build(cfg.model, shape).eval()
    ids = torch.randint(5, shape.vocabulary, (2, 8))
    padded = torch.nn.functional.pad(ids, (0, 4), value=shape.padding)
    torch.testing.assert_close(network(padded), network(ids))


def test_pretrained_network(tmp_path: Path) -> None:
    """By path: its tokenizer and its weights are used, and kept beside the data."""
    source = write(tmp_path / "texts.csv", ROWS)
    first = settings(tmp_path / "first", source=source, length=32, vocabulary=300)
    (tmp_path / "first").mkdir()
    data.prepare(first)
    (tokenizer,) = (tmp_path / "first").glob("*/tokenizer")
    pretrained = transformers.DistilBertModel(
        transformers.DistilBertConfig(vocab_size=300, dim=16, hidden_dim=32, n_layers=3, n_heads=2)
    )
    for part in (pretrained, transformers.AutoTokenizer.from_pretrained(tokenizer)):
        part.save_pretrained(tmp_path / "pretrained")
    cfg = settings(tmp_path, source=source, length=32, pretrained=str(tmp_path / "pretrained"))
    data.prepare(cfg)
    shape = data.open_splits(cfg).shape
    network = model.build(common.settings(tmp_path).model, shape)
    assert all(part.training for part in network.modules()), "dropout would be off"
    weights = network.state_dict()
    assert torch.equal(
        weights["embeddings.word_embeddings.weight"],
        pretrained.state_dict()["embeddings.word_embeddings.weight"],
    )
    assert torch.equal(
        weights["layers.2.inner.ffn.lin1.weight"],
        pretrained.state_dict()["transformer.layer.2.ffn.lin1.weight"],
    )

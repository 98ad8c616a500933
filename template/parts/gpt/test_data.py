"""Tokens from text files, folders and token files, and the stream that shares them out."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import config
import data
from support import common


def settings(folder: Path, **changes: Any) -> config.Data:
    """The small data config, with what is prepared in `folder`."""
    cfg = common.settings(folder, "data.validation=0.05").data
    return replace(cfg, folder=str(folder), **changes)


def test_text_file_is_divided_at_its_end(tmp_path: Path) -> None:
    """A single file: the last part is held out, and nothing is lost or read twice."""
    text = bytes(range(32, 127)) * 20
    (tmp_path / "book.txt").write_bytes(text)
    cfg = settings(tmp_path, source=str(tmp_path / "book.txt"), validation=0.1)
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    read = [bytes(part.open().tolist()) for part in (splits.train.tokens, splits.val.tokens)]
    assert b"".join(read) == text
    assert len(read[1]) == 190


def test_edited_text_is_read_anew(tmp_path: Path) -> None:
    """What was prepared from the text before does not count any more."""
    path = tmp_path / "book.txt"
    cfg = settings(tmp_path, source=str(path), validation=0.5)
    for text in ("one " * 300, "two " * 300):
        path.write_text(text)
        data.prepare(cfg)
        assert bytes(data.open_splits(cfg).train.tokens.open().tolist()).decode() == text[:600]


def test_folder_holds_out_whole_files(tmp_path: Path) -> None:
    """Files go to one split or the other, and only those that match the pattern."""
    for name in range(10):
        (tmp_path / "texts" / str(name)).mkdir(parents=True)
        (tmp_path / "texts" / str(name) / "a.txt").write_text(f"{name}" * 100)
    (tmp_path / "texts" / "notes.md").write_text("x" * 100)
    cfg = settings(tmp_path, source=str(tmp_path / "texts"), validation=0.3)
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    train, val = (set(part.open().tolist()) for part in (splits.train.tokens, splits.val.tokens))
    assert (len(train), len(val)) == (7, 3)
    assert train.isdisjoint(val)
    assert bytes(sorted(train | val)) == b"0123456789"


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32"])
def test_token_file_is_read_where_it_lies(tmp_path: Path, dtype: str) -> None:
    """Tokens of every type come back as they were written, and no copy is made."""
    tokens = torch.arange(1000) % 250 * (1 if dtype == "uint8" else 200)
    path = tmp_path / "tokens.bin"
    path.write_bytes(bytes(tokens.to(getattr(torch, dtype)).view(torch.uint8).tolist()))
    cfg = settings(tmp_path, source=str(path), token_dtype=dtype, vocabulary=50_000)
    data.prepare(cfg)
    splits = data.open_splits(cfg)
    assert list(tmp_path.iterdir()) == [path]
    batch = splits.val.__getitems__([0])
    first = len(splits.train.tokens)
    assert torch.equal(batch.inputs[0], tokens[first : first + cfg.window])
    assert torch.equal(batch.targets[0], tokens[first + 1 : first + 1 + cfg.window])


def test_token_outside_the_vocabulary(tmp_path: Path) -> None:
    """It is named, instead of aborting the GPU."""
    (tmp_path / "tokens.bin").write_bytes(bytes(range(200)) * 5)
    cfg = settings(tmp_path, source=str(tmp_path / "tokens.bin"), vocabulary=100)
    with pytest.raises(config.ConfigError, match=r"data\.vocabulary = 100"):
        data.open_splits(cfg).val.__getitems__([0, 1, 2])


def test_validation_predicts_each_token_once(tmp_path: Path) -> None:
    """All but the first token are a target exactly once; the rest of the last window is IGNORE."""
    val = data.open_splits(common.settings(tmp_path).data).val
    batch = val.__getitems__(list(range(len(val))))
    targets = batch.targets.flatten()
    tokens = val.tokens.open()[1:].long()
    assert torch.equal(targets[: len(tokens)], tokens)
    assert torch.all(targets[len(tokens) :] == data.IGNORE)


def stream(folder: Path, rank: int, world: int, micro_batch: int) -> data.TokenStream:
    split = data.open_splits(common.settings(folder).data).train
    return data.TokenStream(split, 5, rank, world, micro_batch)


def joined(batches: list[data.Batch]) -> torch.Tensor:
    return torch.cat([torch.cat((batch.inputs, batch.targets), dim=1) for batch in batches])


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_workers_keep_the_stream(tmp_path: Path, workers: int) -> None:
    """However many workers read it, from any place of any epoch, it is the same."""
    tokens = stream(tmp_path, 0, 1, 4)
    loader = DataLoader(
        tokens, batch_size=None, num_workers=workers, persistent_workers=workers > 0
    )
    for epoch, first in ((0, 0), (1, 0), (1, 20)):
        tokens.start(epoch, first)
        read = joined(list(loader))
        assert torch.equal(read, joined(list(tokens)))
        assert len(read) == 128 - 4 * first


def test_ranks_share_one_stream(tmp_path: Path) -> None:
    """The global batches of two ranks hold the windows that one rank reads alone."""
    alone = joined(list(stream(tmp_path, 0, 1, 8)))
    ranks = [list(stream(tmp_path, rank, 2, 4)) for rank in (0, 1)]
    dealt = joined([batch for pair in zip(*ranks, strict=True) for batch in pair])
    assert torch.equal(alone, dealt)


def test_epochs_differ_and_what_fills_up_does_not_count(tmp_path: Path) -> None:
    """125 windows in micro-batches of 4: on three places no target counts."""
    tokens = stream(tmp_path, 0, 1, 4)
    first = list(tokens)
    tokens.start(1, 0)
    assert not torch.equal(joined(first), joined(list(tokens)))
    counts = torch.cat([data.counts(batch.targets).all(dim=1) for batch in first])
    assert counts.tolist() == [True] * 125 + [False] * 3

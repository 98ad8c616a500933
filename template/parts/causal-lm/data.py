"""Documents of tokens, packed side by side into rows that each hold whole documents."""

import hashlib
import json
import shutil
import sys
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

import config
import documents
from engine import hub

UNIT = "targets"  # of the throughput
IGNORE = documents.IGNORE  # the target of a token that does not count: of questions, of padding


class Batch(NamedTuple):
    inputs: Tensor  # [B, length] int64, tokens
    positions: Tensor  # [B, length] int64, places in their document: each document begins with 0
    targets: Tensor  # [B, length] int64, the inputs' successors in their document


@dataclass(frozen=True)
class Shape:
    vocabulary: int
    length: int
    # Folder of the pretrained network, on this node; empty: from scratch.
    weights: str = field(compare=False)
    tokenizer: str  # its folder
    chat: bool  # whether answers were learnt, or whole texts
    words: str
    names: list[str] = field(default_factory=list)  # of tokenizer, rows and network

    def __str__(self) -> str:
        return self.words


class Rows(Dataset[Batch]):
    """The rows of one split, mapped into memory and indexed by a whole batch at a time."""

    def __init__(self, inputs: Tensor, positions: Tensor, targets: Tensor) -> None:
        self.inputs, self.positions, self.targets = inputs, positions, targets

    def __len__(self) -> int:
        return len(self.targets)

    def __getitems__(self, indices: list[int]) -> Batch:
        rows = torch.tensor(indices)
        tensors = (self.inputs[rows], self.positions[rows], self.targets[rows])
        return Batch(*(tensor.long() for tensor in tensors))


class Splits(NamedTuple):
    train: Rows
    val: Rows
    shape: Shape


def counts(targets: Tensor) -> Tensor:
    """Whether each target counts: a bool tensor of the same shape."""
    return targets != IGNORE


def prepare(cfg: config.Data) -> None:
    """Fetch the pretrained model, and write its tokenizer and the rows of tokens, once per node."""
    target = prepared_path(cfg)
    if target.exists():
        return
    partial = target.with_suffix(".partial")
    partial.mkdir(exist_ok=True)
    try:
        documents.prepare(cfg, partial)
    except config.ConfigError:
        shutil.rmtree(partial)
        raise
    partial.replace(target)  # the folder appears whole


def open_splits(cfg: config.Data) -> Splits:
    """Map the prepared rows into memory. Raises ConfigError where the pretrained model is gone."""
    folder = prepared_path(cfg)
    about = _about(folder)
    about["weights"] = find_network(cfg, about["weights"])
    tensors = torch.load(folder / documents.ROWS, weights_only=True, mmap=True)
    shape = Shape(length=cfg.length, tokenizer=str(folder / documents.TOKENIZER), **about)
    return Splits(Rows(*tensors["train"]), Rows(*tensors["val"]), shape)


def _about(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / documents.ABOUT).read_text(encoding="utf-8"))
    return found


def find_network(cfg: config.Data, folder: str, fetching: bool = False) -> str:
    """This node's copy of the network that was in `folder` where the data were prepared."""
    return hub.find(cfg.pretrained, folder, documents.fetch, fetching)


def fetch_network(cfg: config.Data) -> None:
    """Fetch the pretrained network where this node has none, but another prepared the data."""
    find_network(cfg, _about(prepared_path(cfg))["weights"], fetching=True)


def prepared_path(cfg: config.Data) -> Path:
    """The place of the rows; edited files, other settings or another program have another place."""
    chosen = (cfg.source, cfg.column, cfg.pretrained, cfg.template, cfg.vocabulary, cfg.length)
    paths = documents.source_files(cfg) + documents.tokenizer_files(cfg)
    stats = [(str(path), path.stat()) for path in paths if path.is_file()]
    versions = [(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats]
    libraries = (version("tokenizers"), version("transformers"), sys.version)
    program = (Path(documents.__file__).read_bytes(), *libraries)
    key = repr((*chosen, cfg.validation, cfg.split_seed, versions, program))
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    return Path(cfg.folder) / f"{Path(cfg.source).stem}-{digest}"

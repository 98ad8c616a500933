"""Tables: a bundled set, or rows of a CSV or Parquet file, as tensors in memory."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

import config

UNIT = "samples"  # what throughput counts
IGNORE = -100  # the target of a row that does not count: padding


class Batch(NamedTuple):
    inputs: Tensor  # [B, features] float32
    targets: Tensor  # [B] int64


@dataclass(frozen=True)
class Shape:
    features: int
    classes: int


class Table(Dataset[Batch]):
    """Rows in memory. Indexed by a whole batch at a time, which spares a Python loop over rows."""

    def __init__(self, inputs: Tensor, targets: Tensor) -> None:
        self.inputs = inputs
        self.targets = targets

    def __len__(self) -> int:
        return len(self.targets)

    def __getitems__(self, indices: list[int]) -> Batch:
        rows = torch.tensor(indices)
        return Batch(self.inputs[rows], self.targets[rows])


class Splits(NamedTuple):
    train: Table
    val: Table
    shape: Shape


def valid(targets: Tensor) -> Tensor:
    """Which targets count: a bool tensor of the same shape."""
    return targets != IGNORE


def prepare(cfg: config.Data) -> None:
    """Write the table as tensors, once per node; nothing is done where that has happened."""
    path = _prepared(cfg)
    if path.exists():
        return
    inputs, targets = _read_file(cfg) if Path(cfg.source).suffix else _read_bundled(cfg.source)
    partial = path.with_suffix(".partial")
    torch.save({"inputs": inputs, "targets": targets}, partial)
    partial.replace(path)  # whoever sees the file sees all of it


def open_splits(cfg: config.Data) -> Splits:
    """Read the prepared tensors and hold out a fraction, the same rows on every rank and run."""
    table = torch.load(_prepared(cfg), weights_only=True)
    generator = torch.Generator().manual_seed(cfg.split_seed)
    order = torch.randperm(len(table["targets"]), generator=generator)
    held_out = max(1, round(cfg.validation * len(order)))
    val, train = order[:held_out], order[held_out:]
    # Scaled by the training rows alone: the validation rows must stay unseen.
    mean = table["inputs"][train].mean(0)
    deviation = table["inputs"][train].std(0)
    # A column that is constant there stays unscaled: dividing by almost nothing would blow up the
    # validation rows in which it is not.
    inputs = (table["inputs"] - mean) / deviation.where(deviation > 1e-6, 1.0)
    return Splits(
        Table(inputs[train], table["targets"][train]),
        Table(inputs[val], table["targets"][val]),
        Shape(features=inputs.shape[1], classes=int(table["targets"].max()) + 1),
    )


def _prepared(cfg: config.Data) -> Path:
    """A file of its own for everything that decides what is in it."""
    digest = hashlib.sha256(repr((cfg.source, cfg.target)).encode()).hexdigest()[:8]
    return Path(cfg.folder) / f"{Path(cfg.source).stem}-{digest}.pt"


def _read_bundled(name: str) -> tuple[Tensor, Tensor]:
    from sklearn import datasets  # only needed here, where the data is prepared

    loaders = {
        "digits": datasets.load_digits,
        "wine": datasets.load_wine,
        "breast_cancer": datasets.load_breast_cancer,
    }
    if name not in loaders:
        known = ", ".join(loaders)
        raise config.ConfigError(f"data.source = {name!r}: choose one of {known}, or a file")
    inputs, labels = loaders[name](return_X_y=True)
    return torch.tensor(inputs, dtype=torch.float32), torch.tensor(labels, dtype=torch.int64)


def _read_file(cfg: config.Data) -> tuple[Tensor, Tensor]:
    from pyarrow import csv, parquet

    path = Path(cfg.source)
    if not path.is_file():
        raise config.ConfigError(f"data.source = {cfg.source!r}: there is no such file")
    table = parquet.read_table(path) if path.suffix == ".parquet" else csv.read_csv(path)
    if cfg.target not in table.column_names:
        names = ", ".join(table.column_names)
        raise config.ConfigError(f"data.target = {cfg.target!r}: the columns are {names}")
    labels = table[cfg.target].to_pylist()
    classes = {label: number for number, label in enumerate(sorted(set(labels)))}
    columns = [column.to_pylist() for column in table.drop_columns(cfg.target).columns]
    inputs = torch.tensor(columns, dtype=torch.float32).T.contiguous()
    return inputs, torch.tensor([classes[label] for label in labels])

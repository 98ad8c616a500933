"""Your data. The example is a small table: replace the code, and keep the public names.

{{ wrapper | upper }} demands the following, and tests/test_contract.py checks them:
- `prepare` does its work once, leaves no half-written file behind, and does nothing the next time.
  The name that `prepared_path` gives to its file should follow from all that enters: this program,
  settings, and sizes and times of your files. Else an edited file would go on as it was.
- `open_splits` gives the same samples in the same order on every rank. Do not divide the data by
  rank: the loader does, and fills up so that all ranks have equally many batches of equal shape.
- `__getitems__` gives the same sample for the same number in every process. Augmentation belongs to
  the training split, and draws from torch's global generator, which the loader seeds by the place
  of the batch.
- Files are opened in `__getitems__`, when a process needs them first. Workers of the loader would
  share a file that `open_splits` opens: where one seeks, another reads.
- `Batch` may have any number of tensors, the sample first in each. All but the last go to the
  model's `forward`, in their order; the last is `targets`.
- A target that is IGNORE does not count: the loader marks the samples that fill up a batch, and you
  may mark missing labels or masked tokens.
"""

import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

import config

UNIT = "samples"  # of the throughput
IGNORE = math.nan  # the target that does not count; for classes use -100


class Batch(NamedTuple):
    inputs: Tensor  # [B, features] float32
    targets: Tensor  # [B] float32, in standard deviations from the mean


@dataclass(frozen=True)
class Shape:
    """The facts about the data that the model needs."""

    features: int


class Table(Dataset[Batch]):
    """Rows in memory. Indexed by a whole batch at a time, which spares a Python loop over rows."""

    def __init__(self, inputs: Tensor, targets: Tensor) -> None:
        self.inputs, self.targets = inputs, targets

    def __len__(self) -> int:
        return len(self.targets)

    def __getitems__(self, indices: list[int]) -> Batch:
        rows = torch.tensor(indices)
        return Batch(self.inputs[rows], self.targets[rows])


class Splits(NamedTuple):
    train: Table
    val: Table
    shape: Shape


def counts(targets: Tensor) -> Tensor:
    """Whether each target counts: a bool tensor of the same shape."""
    return ~targets.isnan()


def prepare(cfg: config.Data) -> None:
    """Download, decode or tokenise here, once per node and before the process group exists."""
    path = prepared_path(cfg)
    if path.exists():
        return
    from sklearn import datasets  # only needed here, where the data is prepared

    inputs, targets = datasets.load_diabetes(return_X_y=True)
    table = {"inputs": torch.tensor(inputs).float(), "targets": torch.tensor(targets).float()}
    partial = path.with_suffix(".partial")
    torch.save(table, partial)
    partial.replace(path)  # the file appears whole


def open_splits(cfg: config.Data) -> Splits:
    """Open what was prepared. It is called by every rank and must be quick."""
    table = torch.load(prepared_path(cfg), weights_only=True)
    generator = torch.Generator().manual_seed(cfg.split_seed)
    order = torch.randperm(len(table["targets"]), generator=generator)
    held_out = max(1, round(cfg.validation * len(order)))
    val, train = order[:held_out], order[held_out:]
    # Scaled by the training rows alone: the validation rows must stay unseen.
    inputs = _scale(table["inputs"], train)
    targets = _scale(table["targets"], train)
    return Splits(
        Table(inputs[train], targets[train]),
        Table(inputs[val], targets[val]),
        Shape(features=inputs.shape[1]),
    )


def prepared_path(cfg: config.Data) -> Path:
    """The place of what is prepared: an edited program has another."""
    program = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]
    return Path(cfg.folder) / f"diabetes-{program}.pt"


def _scale(values: Tensor, train: Tensor) -> Tensor:
    return (values - values[train].mean(0)) / values[train].std(0)
